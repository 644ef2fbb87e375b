//! [`HashIndex`]: layout of a hash table for compiled code that hashes and compares keys inline.

use std::marker::PhantomData;
use std::ops::Range;

use super::hash::Seed;

/// Hash table of keys of one or two limbs, packed ([`PackedKey`](crate::PackedKey)), in lines of
/// [`LINE`](Self::LINE) bytes.
///
/// Hash. `fold(a, b)` is the lower half of the 128-bit product of `a` and `b`, XOR the upper half.
/// The hash of a key `k` with the seed `a`, `b` is `fold(h, b.rotate_left(32) | 1)`. Here `h` is
/// `fold(k ^ a, b)` for one limb, and `fold(k0 ^ a, k1 ^ b)` for two.
///
/// Position. The key is in line `(hash >> 32) * count >> 32`. If the four bits of that line's
/// overflow word from bit `4 * (hash >> 40 & 7)` on are not 0, it may instead be in line `(hash &
/// 0xffff_ffff) * count >> 32`.
///
/// Line. A line holds [`slots`](Self::slots) keys. First are the keys, then 32 bits for each of
/// them: the entry index plus 1, or 0 if the position is free. The overflow word is at the end.
///
/// Outdated results. In two cases the lookup must be repeated with
/// [`Lookup::find`](crate::Lookup::find):
/// - The value found has the flag [`OUTDATED`](Self::OUTDATED).
/// - The key is missing, and its overflow bits have the flag
///   [`MISSING_OUTDATED`](Self::MISSING_OUTDATED).
#[derive(Debug, Clone, Copy)]
pub struct HashIndex<'m> {
    /// Number of limbs of a packed key.
    pub limbs: usize,
    /// Address of the first line.
    pub lines: usize,
    /// Number of lines, at least one.
    pub count: u64,
    /// The seed: `a` and `b`.
    pub seed: [u64; 2],
    of: PhantomData<&'m ()>,
}

impl HashIndex<'_> {
    /// Size of a line in bytes.
    pub const LINE: usize = 64;
    /// Maximum number of limbs of a key.
    pub const MAX_LIMBS: usize = 2;
    /// Offset of the overflow word in a line in bytes.
    pub const OVERFLOW_AT: usize = 60;
    /// Flag in a value: the value may be outdated.
    pub const OUTDATED: u32 = super::OUTDATED;
    /// Flag in the overflow bits: the absence of a key may be outdated.
    pub const MISSING_OUTDATED: u32 = super::lines::Overflow::IS_OUTDATED;

    /// Returns the number of keys of `limbs` limbs in a line.
    pub const fn slots(limbs: usize) -> usize {
        if limbs == 1 { 5 } else { 3 }
    }

    /// Returns the offset of the entry indices in a line in bytes.
    pub const fn places_at(limbs: usize) -> usize {
        Self::slots(limbs) * limbs * size_of::<u64>()
    }

    /// Creates the index of these lines. It exposes their address, so that compiled code may read
    /// them through it.
    pub(super) fn new<L>(limbs: usize, lines: Range<*const L>, seed: Seed) -> Self {
        let first = lines.start.expose_provenance();
        let bytes = lines.end.addr() - first;
        Self {
            limbs,
            lines: first,
            count: (bytes / Self::LINE) as u64,
            seed: seed.numbers(),
            of: PhantomData,
        }
    }
}
