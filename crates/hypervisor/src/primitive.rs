//! What an action pipeline can do: the primitives, each an action of the emitted program.

/// Primitives of two operands `x` and `y`, with their code.
pub(crate) const BINARY: &[(&str, &str)] = &[
    ("add", "x + y"),
    ("subtract", "x - y"),
    ("multiply", "x * y"),
    ("bit_and", "x & y"),
    ("bit_or", "x | y"),
    ("bit_xor", "x ^ y"),
    ("shift_left", "x << y"),
    ("shift_right", "x >> y"),
    ("equal", "x == y ? (Word)1 : 0"),
    ("less", "x < y ? (Word)1 : 0"),
];

/// Primitives that hash, with v1model's algorithms.
pub(crate) const HASHES: &[(&str, &str)] = &[
    ("hash_crc32", "crc32"),
    ("hash_crc16", "crc16"),
    ("hash_csum16", "csum16"),
    ("hash_xor16", "xor16"),
];
