//! [`HashIndex`]: a hash table as code sees it that hashes and compares keys by itself.

use std::marker::PhantomData;
use std::ops::Range;

use super::hash::Seed;

/// A hash table of keys of one or two limbs, packed ([`PackedKey`](crate::PackedKey)), in lines of [`LINE`](Self::LINE) bytes.
///
/// Of numbers `a` and `b`, `fold` is the lower half of their product of 128 bits, exclusive or the upper one. The hash of a key `k` with the seed `a`, `b` is
/// `fold(h, b.rotate_left(32) | 1)`, where `h` is `fold(k ^ a, b)` for one limb and `fold(k0 ^ a, k1 ^ b)` for two. The key lies in line `(hash >> 32) * count >> 32`;
/// or, if four bits of that line's overflow word from bit `4 * (hash >> 40 & 7)` on are not 0, perhaps in line `(hash & 0xffff_ffff) * count >> 32`.
///
/// A line has so many slots as [`slots`](Self::slots) says: their keys first, then of each slot 32 bits, the entry's place plus 1, or 0 if it is free; at last the overflow word. A place that
/// has [`OUTDATED`](Self::OUTDATED) beside, or a key that is not there and whose overflow bits have [`MISSING_OUTDATED`](Self::MISSING_OUTDATED), has to be looked up by
/// [`Lookup::find`](crate::Lookup::find).
#[derive(Debug, Clone, Copy)]
pub struct HashIndex<'m> {
    /// Limbs of a packed key.
    pub limbs: usize,
    /// The address of the first line.
    pub lines: usize,
    /// How many there are, at least one.
    pub count: u64,
    /// `a` and `b`.
    pub seed: [u64; 2],
    of: PhantomData<&'m ()>,
}

impl HashIndex<'_> {
    /// Bytes of a line.
    pub const LINE: usize = 64;
    /// Limbs of a key, at most.
    pub const MOST_LIMBS: usize = 2;
    /// Where in a line the overflow word is.
    pub const OVERFLOW_AT: usize = 60;
    /// What is found may be outdated.
    pub const OUTDATED: u32 = super::OUTDATED;
    /// That a key is not found may be outdated.
    pub const MISSING_OUTDATED: u32 = super::lines::Overflow::IS_OUTDATED;

    /// Slots of a line of keys of so many limbs.
    pub const fn slots(limbs: usize) -> usize {
        if limbs == 1 { 5 } else { 3 }
    }

    /// Where in a line the places begin.
    pub const fn places_at(limbs: usize) -> usize {
        Self::slots(limbs) * limbs * size_of::<u64>()
    }

    /// The index of these lines; its memory may be read by whoever has the address.
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
