//! Hashes of whole keys under a secret, and where in a table of cache lines a key may lie.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The secret of one hash table. Which one it is changes the places of keys, never what is found,
/// so it may be drawn at random: whoever chooses the keys cannot make them collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed {
    a: u64,
    b: u64,
}

/// Both halves of a product, mixed.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Seed {
    /// A seed that nobody knows.
    pub(crate) fn random() -> Self {
        Self::from_number(RandomState::new().build_hasher().finish())
    }

    /// The seed made from a number.
    pub(crate) fn from_number(number: u64) -> Self {
        let a = fold(number ^ 0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15);
        let b = fold(a ^ 0x1319_8a2e_0370_7344, 0xd1b5_4a32_d192_ed03);
        // A factor with many ones and zeros; an odd one loses no bit of the other.
        Self {
            a,
            b: b ^ 0xa409_3822_299f_31d1 | 1,
        }
    }

    /// Its numbers.
    pub(crate) fn numbers(self) -> [u64; 2] {
        [self.a, self.b]
    }

    /// Another seed, which whoever does not know this one does not know.
    pub(crate) fn next(self) -> Self {
        Self::from_number(self.a ^ self.b.rotate_left(17))
    }

    /// A hash of so much, and of one number more.
    #[inline]
    pub(crate) fn mixed(self, hash: u64, number: u64) -> u64 {
        fold(hash ^ self.a, number ^ self.b)
    }

    /// The hash of a key of one limb.
    #[inline(always)]
    pub(crate) fn hash_one(self, limb: u64) -> Hash {
        self.finished(fold(limb ^ self.a, self.b))
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(self, key: &[u64]) -> Hash {
        let mut hash = self.a;
        let mut pairs = key.chunks_exact(2);
        for pair in &mut pairs {
            hash = fold(hash ^ pair[0], self.b ^ pair[1]);
        }
        if let [last] = pairs.remainder() {
            hash = fold(hash ^ last, self.b);
        }
        self.finished(hash)
    }

    /// One product is not enough: keys that count up would give places that count up.
    #[inline(always)]
    fn finished(self, hash: u64) -> Hash {
        Hash(fold(hash, self.b.rotate_left(32) | 1))
    }
}

/// The hash of a key, whose bits choose independent things.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hash(u64);

impl Hash {
    /// The hash with these bits.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its bits.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The first of the two lines, of `lines`, in which the key may lie.
    #[inline(always)]
    pub(crate) fn first(self, lines: usize) -> usize {
        (((self.0 >> 32) * lines as u64) >> 32) as usize
    }

    /// The second of the two lines.
    #[inline(always)]
    pub(crate) fn second(self, lines: usize) -> usize {
        (((self.0 & 0xffff_ffff) * lines as u64) >> 32) as usize
    }

    /// A short name of the key: from the low ends of both halves, of which the lines take the high ones.
    #[inline(always)]
    pub(crate) fn tag(self) -> u16 {
        (self.0 & 0xff | self.0 >> 24 & 0xff00) as u16
    }

    /// Which of a line's eight overflow counters counts the key.
    #[inline(always)]
    pub(crate) fn group(self) -> u32 {
        (self.0 >> 40 & 7) as u32
    }
}
