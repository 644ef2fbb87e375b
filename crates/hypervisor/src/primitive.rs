//! Primitives of an action pipeline that are generated from a pattern, beyond moves of bits.

/// Primitives with two operands `x` and `y`, and their code.
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

/// Hash primitives: v1model's algorithm, and the width of the input in bits.
pub(crate) const HASHES: &[(&str, &str, u32)] = &[
    ("hash_crc32", "crc32", 1056),
    ("hash_crc16", "crc16", 1056),
    ("hash_csum16", "csum16", 1056),
    ("hash_xor16", "xor16", 1056),
    ("hash_identity", "identity", 64),
];
