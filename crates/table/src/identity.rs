//! [`IdentityHash`]: keyed hash of the identity (match and priority) of entries.

use crate::flat_map::Seed;
use std::hash::{BuildHasher, Hasher};

/// Builds hashers with one secret seed, so that a controller cannot choose entries that collide.
#[derive(Debug, Clone)]
pub(crate) struct IdentityHash(Seed);

impl Default for IdentityHash {
    fn default() -> Self {
        Self(Seed::random())
    }
}

impl BuildHasher for IdentityHash {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        let seed = self.0;
        IdentityHasher { seed, hash: 0 }
    }
}

/// Hash state. Each number costs one multiplication.
#[derive(Debug)]
pub(crate) struct IdentityHasher {
    seed: Seed,
    hash: u64,
}

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.hash = self.seed.mixed(self.hash, number);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.seed.mixed(self.hash, 0)
    }
}
