//! [`IdentityIndex`]: the entries of a table by their identity: match and priority, as in
//! P4Runtime.

use crate::entry::EntryIdx;
use crate::flat_map::Seed;
use crate::packed_entries::PackedEntryStore;
use hashbrown::HashTable;

/// Map from match and priority, as [`MatchBits`](crate::match_bits::MatchBits), to the entry. It
/// holds entry indices only, 5 bytes for a place: the identities are those of the entries.
#[derive(Debug)]
pub(crate) struct IdentityIndex {
    places: HashTable<EntryIdx>,
    /// Secret, so that a controller cannot choose entries that collide.
    seed: Seed,
}

impl Default for IdentityIndex {
    fn default() -> Self {
        Self {
            places: HashTable::new(),
            seed: Seed::random(),
        }
    }
}

impl IdentityIndex {
    /// Returns the entry with this match and priority. `entries` must have all entries of the
    /// index.
    pub(crate) fn find(&self, entries: &PackedEntryStore, identity: &[u64]) -> Option<EntryIdx> {
        let is_it = |idx: &EntryIdx| {
            let entry = entries.get(*idx);
            entry.is_some_and(|entry| entry.identity() == identity)
        };
        self.places.find(self.hash(identity), is_it).copied()
    }

    /// Adds an entry. No entry of the index may have its match and priority.
    pub(crate) fn insert(&mut self, entries: &PackedEntryStore, idx: EntryIdx, identity: &[u64]) {
        let (hash, seed) = (self.hash(identity), self.seed);
        let rehash = |idx: &EntryIdx| {
            let entry = entries.get(*idx);
            entry.map_or(0, |entry| seed.hash(entry.identity()).bits())
        };
        self.places.insert_unique(hash, idx, rehash);
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, idx: EntryIdx, identity: &[u64]) {
        let hash = self.hash(identity);
        if let Ok(place) = self.places.find_entry(hash, |&other| other == idx) {
            place.remove();
        }
    }

    fn hash(&self, identity: &[u64]) -> u64 {
        self.seed.hash(identity).bits()
    }
}
