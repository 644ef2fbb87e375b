//! [`IdentityIndex`]: the entries of a table by their identity: match and priority, as in
//! P4Runtime.

use crate::entry::{Entry, EntryIdx};
use crate::flat_map::Seed;
use crate::key::FieldMatch;
use crate::slots::SlotStore;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, Hasher};

/// Map from match and priority to the entry. It holds entry indices only, 5 bytes for a place: the
/// matches are those of the entries.
#[derive(Debug, Default)]
pub(crate) struct IdentityIndex {
    places: HashTable<EntryIdx>,
    hash: IdentityHash,
}

impl IdentityIndex {
    /// Returns the entry with this match and priority. `slots` must have all entries of the index.
    pub(crate) fn find(
        &self,
        slots: &SlotStore,
        matches: &[FieldMatch],
        priority: Option<i32>,
    ) -> Option<EntryIdx> {
        let hash = self.hash.of(matches, priority);
        let is_it = |idx: &EntryIdx| {
            let entry = slots.get(*idx);
            entry.is_some_and(|entry| *entry.matches == *matches && entry.priority == priority)
        };
        self.places.find(hash, is_it).copied()
    }

    /// Adds an entry. No entry of the index may have its match and priority.
    pub(crate) fn insert(&mut self, slots: &SlotStore, idx: EntryIdx, entry: &Entry) {
        let hash = &self.hash;
        let rehash = |idx: &EntryIdx| slots.get(*idx).map_or(0, |entry| hash.of_entry(entry));
        self.places.insert_unique(hash.of_entry(entry), idx, rehash);
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, idx: EntryIdx, entry: &Entry) {
        let hash = self.hash.of_entry(entry);
        if let Ok(place) = self.places.find_entry(hash, |&other| other == idx) {
            place.remove();
        }
    }
}

/// Builds hashers with one secret seed, so that a controller cannot choose entries that collide.
#[derive(Debug, Clone)]
struct IdentityHash(Seed);

impl Default for IdentityHash {
    fn default() -> Self {
        Self(Seed::random())
    }
}

impl IdentityHash {
    fn of(&self, matches: &[FieldMatch], priority: Option<i32>) -> u64 {
        let mut hasher = self.build_hasher();
        matches.hash(&mut hasher);
        priority.hash(&mut hasher);
        hasher.finish()
    }

    fn of_entry(&self, entry: &Entry) -> u64 {
        self.of(&entry.matches, entry.priority)
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
struct IdentityHasher {
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
