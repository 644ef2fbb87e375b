//! Writes to disk: what changed since the last one, and what is on disk.

use super::{Keep, RaftNode};
use crate::entry::Entry;
use crate::ids::{LogIndex, NodeId, Term};
use crate::mistake::Mistake;
use crate::state::Snapshot;

/// Account of the writes. One write is under way at a time; all changes meanwhile are in the next.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Writes {
    keep: Keep,
    /// Number of the last write that the caller took.
    taken: u64,
    /// Number of the last complete write.
    pub(super) done: u64,
    /// Number of the write with the current term and vote.
    pub(super) vote: u64,
    is_dirty: bool,
    has_snapshot: bool,
    /// First entry that changed; beyond the log if none did.
    from: LogIndex,
    /// Last entry that is on disk when the write under way is complete.
    under_way: LogIndex,
    /// Last entry that is on disk.
    durable: LogIndex,
}

impl Writes {
    pub(super) const fn new(keep: Keep, durable: LogIndex) -> Writes {
        Writes {
            keep,
            taken: 0,
            done: 0,
            vote: 0,
            is_dirty: false,
            has_snapshot: false,
            from: LogIndex(u64::MAX),
            under_way: durable,
            durable,
        }
    }

    /// Returns the number of the write that has all changes so far.
    pub(super) const fn needs(&self) -> u64 {
        self.taken + self.is_dirty as u64
    }

    fn change(&mut self) {
        self.is_dirty = matches!(self.keep, Keep::Disk);
    }

    pub(super) fn vote_changed(&mut self) {
        self.change();
        self.vote = self.needs();
    }

    pub(super) fn entry_added(&mut self, index: LogIndex) {
        self.from = self.from.min(index);
        self.change();
    }

    pub(super) fn truncated(&mut self, last: LogIndex) {
        self.from = self.from.min(last.next());
        self.under_way = self.under_way.min(last);
        self.durable = self.durable.min(last);
        self.change();
    }

    pub(super) fn snapshot_made(&mut self) {
        self.has_snapshot = true;
        self.change();
    }

    pub(super) fn log_replaced(&mut self, base: LogIndex) {
        self.snapshot_made();
        self.from = base.next();
        self.under_way = LogIndex(0);
        self.durable = LogIndex(0);
    }

    /// Returns the last entry that a node counts as its own.
    pub(super) fn own(&self, last: LogIndex) -> LogIndex {
        match self.keep {
            Keep::Memory => last,
            Keep::Disk => self.durable,
        }
    }
}

#[cfg(test)]
impl Writes {
    /// Numbers count from the last complete write, so states of equal behaviour are equal.
    pub(super) fn hash_into(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        let vote = self.vote.saturating_sub(self.done);
        (self.taken - self.done, vote, self.is_dirty).hash(hasher);
        (self.has_snapshot, self.from, self.under_way, self.durable).hash(hasher);
    }
}

/// Write to keep on disk, in this order: the snapshot if there is one, the term and the vote, then
/// the entries, which replace all that are kept from [`Persist::from`] on.
///
/// A crash on the way may leave any part of it. Then the caller gives back what it finds: the older
/// or newer snapshot, the older or newer vote, and entries without a gap after the snapshot.
#[derive(Debug)]
pub struct Persist<'a> {
    /// Number for [`RaftNode::persisted`].
    pub number: u64,
    /// Current term.
    pub term: Term,
    /// Node that has this node's vote in the term.
    pub vote: Option<NodeId>,
    /// New snapshot. Entries up to its index need not be kept once it is written.
    pub snapshot: Option<&'a Snapshot>,
    /// Index of the first entry.
    pub from: LogIndex,
    node: &'a RaftNode,
}

impl<'a> Persist<'a> {
    /// Returns the entries from [`Persist::from`] on.
    pub fn entries(&self) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let log = &self.node.log;
        (self.from.0..=log.last().0).map_while(|index| log.get(LogIndex(index)))
    }
}

/// State of a node that its disk kept.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// Term.
    pub term: Term,
    /// Vote in the term.
    pub vote: Option<NodeId>,
    /// Newest snapshot.
    pub snapshot: Option<Snapshot>,
    /// Index of the first entry.
    pub first: LogIndex,
    /// Entries without a gap.
    pub entries: Vec<Entry>,
}

impl RaftNode {
    /// Returns the next write, or `None` if there is none or one is under way. Ends with
    /// [`RaftNode::persisted`].
    pub fn persist(&mut self) -> Option<Persist<'_>> {
        let writes = &mut self.writes;
        if !writes.is_dirty || writes.done < writes.taken {
            return None;
        }
        writes.taken += 1;
        writes.is_dirty = false;
        let from = writes
            .from
            .min(self.log.last().next())
            .max(self.log.base().next());
        writes.from = LogIndex(u64::MAX);
        writes.under_way = self.log.last();
        let has_snapshot = std::mem::take(&mut writes.has_snapshot);
        let node = &*self;
        Some(Persist {
            number: node.writes.taken,
            term: node.term,
            vote: node.vote,
            snapshot: node.state.snapshot().filter(|_| has_snapshot),
            from,
            node,
        })
    }

    /// Takes the notice that the write with this number is complete and survives a crash.
    pub fn persisted(&mut self, number: u64) {
        if number != self.writes.taken || number == self.writes.done {
            return;
        }
        self.writes.done = number;
        self.writes.durable = self.writes.under_way;
        self.count_votes();
        self.advance_commit();
    }

    /// Returns the number of the last write that messages need not wait for.
    pub(super) fn sendable(&self) -> u64 {
        match self.planted.is(Mistake::SendsBeforePersisted) {
            true => u64::MAX,
            false => self.writes.done,
        }
    }
}
