//! Removals of entries that servers miss while they are away. A server reports all its entries when
//! it returns: those must not come to life again.

use std::collections::{BTreeMap, HashSet};

use ir::TableId;
use switch::EntryId;

/// Entry of a handler that is removed, as servers name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RemovedEntry {
    pub(crate) table: TableId,
    pub(crate) key: Box<[u64]>,
    /// Its id at servers.
    pub(crate) id: EntryId,
}

/// Removals that servers miss, by server. Their number is bounded by that of the entries at the
/// time when a server goes away.
#[derive(Clone, Debug, Default)]
pub(crate) struct MissedRemovals(BTreeMap<u16, Away>);

#[derive(Clone, Debug)]
struct Away {
    /// By mirrored table: the coordinator's number of the first entry that the server does not
    /// have.
    since: Vec<EntryId>,
    removed: HashSet<RemovedEntry>,
}

impl MissedRemovals {
    /// Notes that a server is away. `since` has the coordinator's numbers of the next entries, by
    /// mirrored table.
    pub(crate) fn goes_away(&mut self, server: u16, since: Vec<EntryId>) {
        let removed = HashSet::new();
        self.0.insert(server, Away { since, removed });
    }

    /// Forgets what a server has missed.
    pub(crate) fn is_back(&mut self, server: u16) {
        self.0.remove(&server);
    }

    /// Notes the removal of the entry with this number of the coordinator.
    pub(crate) fn note(&mut self, mirror: usize, number: EntryId, removed: &RemovedEntry) {
        for away in self.0.values_mut() {
            if away.since.get(mirror).is_some_and(|since| number < *since) {
                away.removed.insert(removed.clone());
            }
        }
    }

    /// Returns true if the server has missed this removal.
    pub(crate) fn has(&self, server: u16, removed: &RemovedEntry) -> bool {
        let away = self.0.get(&server);
        away.is_some_and(|away| away.removed.contains(removed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: u64, id: u64) -> RemovedEntry {
        RemovedEntry {
            table: TableId::new(0),
            key: [key].into(),
            id: EntryId(id),
        }
    }

    #[test]
    fn a_server_misses_the_removals_of_entries_that_it_has_while_it_is_away() {
        let mut missed = MissedRemovals::default();
        missed.note(0, EntryId(1), &entry(1, 1));
        missed.goes_away(2, vec![EntryId(10)]);
        missed.note(0, EntryId(5), &entry(5, 50));
        // The server has never had an entry that came later.
        missed.note(0, EntryId(10), &entry(6, 60));
        let has = |missed: &MissedRemovals, key, id| missed.has(2, &entry(key, id));
        assert!(has(&missed, 5, 50));
        assert!(!has(&missed, 1, 1) && !has(&missed, 6, 60));
        // It may have added another one with the same key.
        assert!(!has(&missed, 5, 51));
        assert!(!missed.has(1, &entry(5, 50)));
        missed.is_back(2);
        assert!(!has(&missed, 5, 50));
    }
}
