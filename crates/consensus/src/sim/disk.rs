//! A disk that loses or tears the write that is not complete when its node crashes.

use std::collections::BTreeMap;

use consensus::{Entry, LogIndex, NodeId, Persist, Saved, Snapshot, Term};
use support::rng::Rng;

/// Disk of a node.
#[derive(Debug, Default)]
pub(super) struct Disk {
    term: Term,
    vote: Option<NodeId>,
    snapshot: Option<Snapshot>,
    entries: BTreeMap<LogIndex, Entry>,
    under_way: Option<Write>,
}

#[derive(Debug)]
struct Write {
    number: u64,
    term: Term,
    vote: Option<NodeId>,
    snapshot: Option<Snapshot>,
    from: LogIndex,
    entries: Vec<Entry>,
}

impl Disk {
    /// Begins a write.
    pub(super) fn begin(&mut self, persist: &Persist<'_>) {
        self.under_way = Some(Write {
            number: persist.number,
            term: persist.term,
            vote: persist.vote,
            snapshot: persist.snapshot.cloned(),
            from: persist.from,
            entries: persist.entries().copied().collect(),
        });
    }

    /// Completes the write with this number. Returns false if a crash ended it.
    pub(super) fn complete(&mut self, number: u64) -> bool {
        if self
            .under_way
            .as_ref()
            .is_none_or(|write| write.number != number)
        {
            return false;
        }
        self.write(usize::MAX);
        true
    }

    /// Loses the write that is under way, or all but its first parts.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        let parts = self
            .under_way
            .as_ref()
            .map_or(0, |write| 3 + write.entries.len());
        self.write(rng.index(parts + 1));
    }

    /// Writes the first parts: the snapshot, the vote, the cut, then the entries.
    fn write(&mut self, parts: usize) {
        let Some(write) = self.under_way.take() else {
            return;
        };
        if parts >= 1
            && let Some(snapshot) = write.snapshot
        {
            self.entries.retain(|index, _| *index > snapshot.index());
            self.snapshot = Some(snapshot);
        }
        if parts >= 2 {
            (self.term, self.vote) = (write.term, write.vote);
        }
        if parts >= 3 {
            self.entries.retain(|index, _| *index < write.from);
        }
        let base = self.snapshot.as_ref().map_or(LogIndex(0), Snapshot::index);
        for (entry, at) in write.entries.iter().zip(0..parts.saturating_sub(3)) {
            let index = write.from.plus(at as u64);
            if index > base {
                self.entries.insert(index, *entry);
            }
        }
    }

    /// Returns what is kept.
    pub(super) fn read(&self) -> Saved {
        let first = self
            .entries
            .first_key_value()
            .map_or(LogIndex(0), |entry| *entry.0);
        let follows = |&(at, (index, _)): &(u64, (&LogIndex, &Entry))| first.plus(at) == *index;
        let entries = (0..).zip(&self.entries).take_while(follows);
        Saved {
            term: self.term,
            vote: self.vote,
            snapshot: self.snapshot.clone(),
            first,
            entries: entries.map(|(_, (_, entry))| *entry).collect(),
        }
    }
}
