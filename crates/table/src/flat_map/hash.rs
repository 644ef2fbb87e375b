//! Keyed hash of whole keys, and the positions in a table of cache lines that it selects.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Secret of one hash table. It affects the positions of keys, never lookup results. It may
/// therefore be random, so that keys that collide cannot be chosen in advance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed {
    a: u64,
    b: u64,
}

/// Returns the XOR of both halves of the 128-bit product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Seed {
    /// Returns an unpredictable seed.
    pub(crate) fn random() -> Self {
        Self::from_number(RandomState::new().build_hasher().finish())
    }

    /// Derives a seed from a number.
    pub(crate) fn from_number(number: u64) -> Self {
        let a = fold(number ^ 0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15);
        let b = fold(a ^ 0x1319_8a2e_0370_7344, 0xd1b5_4a32_d192_ed03);
        // A factor with a good mix of ones and zeros. It is odd, so that multiplication loses no
        // bit of the other factor.
        Self {
            a,
            b: b ^ 0xa409_3822_299f_31d1 | 1,
        }
    }

    /// Returns the two numbers of the seed.
    pub(crate) fn numbers(self) -> [u64; 2] {
        [self.a, self.b]
    }

    /// Derives another seed, which cannot be predicted without knowing this one.
    pub(crate) fn next(self) -> Self {
        Self::from_number(self.a ^ self.b.rotate_left(17))
    }

    /// Returns the hash of a key of one limb.
    #[inline(always)]
    pub(crate) fn hash_one(self, limb: u64) -> Hash {
        self.finished(fold(limb ^ self.a, self.b))
    }

    /// Returns the hash of a key.
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

    /// Final mixing step. With one multiplication alone, consecutive keys would get consecutive
    /// positions.
    #[inline(always)]
    fn finished(self, hash: u64) -> Hash {
        Hash(fold(hash, self.b.rotate_left(32) | 1))
    }
}

/// Hash of a key. Separate bits of it select the lines, the tag and the overflow group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hash(u64);

impl Hash {
    /// Creates the hash with these bits.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the first of the two lines, of `lines`, in which the key may be.
    #[inline(always)]
    pub(crate) fn first(self, lines: usize) -> usize {
        (((self.0 >> 32) * lines as u64) >> 32) as usize
    }

    /// Returns the second of the two lines.
    #[inline(always)]
    pub(crate) fn second(self, lines: usize) -> usize {
        (((self.0 & 0xffff_ffff) * lines as u64) >> 32) as usize
    }

    /// Returns a short tag of the key. It has the low bits of both halves, of which the line
    /// numbers use the high bits.
    #[inline(always)]
    pub(crate) fn tag(self) -> u16 {
        (self.0 & 0xff | self.0 >> 24 & 0xff00) as u16
    }

    /// Returns the index of the line's overflow counter (of eight) for the key.
    #[inline(always)]
    pub(crate) fn group(self) -> u32 {
        (self.0 >> 40 & 7) as u32
    }
}
