//! The log in memory: a ring of entries after a base, which a snapshot includes.

use crate::entry::{Entry, Payload};
use crate::ids::{LogIndex, Term};
use crate::members::Membership;

/// Entries `base + 1 ..= last`, in a ring of fixed size.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    ring: Box<[Entry]>,
    base: LogIndex,
    base_term: Term,
    base_members: Membership,
    last: LogIndex,
    last_term: Term,
}

impl Log {
    /// Creates an empty log with room for `capacity` entries, rounded up to a power of two.
    pub(crate) fn new(capacity: usize, members: Membership) -> Log {
        let capacity = capacity.max(16).next_power_of_two();
        Log {
            ring: vec![Entry::EMPTY; capacity].into(),
            base: LogIndex(0),
            base_term: Term(0),
            base_members: members,
            last: LogIndex(0),
            last_term: Term(0),
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.len()
    }

    pub(crate) const fn len(&self) -> usize {
        (self.last.0 - self.base.0) as usize
    }

    pub(crate) fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    pub(crate) const fn base(&self) -> LogIndex {
        self.base
    }

    pub(crate) const fn last(&self) -> LogIndex {
        self.last
    }

    pub(crate) const fn last_term(&self) -> Term {
        self.last_term
    }

    fn place(&self, index: LogIndex) -> usize {
        index.0 as usize & (self.ring.len() - 1)
    }

    /// Returns the entry, or `None` if the log does not have it.
    pub(crate) fn get(&self, index: LogIndex) -> Option<&Entry> {
        let is_here = index > self.base && index <= self.last;
        is_here.then(|| &self.ring[self.place(index)])
    }

    /// Returns the term of the entry or of the base, or `None` if the log does not know it.
    pub(crate) fn term(&self, index: LogIndex) -> Option<Term> {
        if index == self.base {
            return Some(self.base_term);
        }
        self.get(index).map(|entry| entry.term)
    }

    /// Appends an entry. Returns its index, or `None` if there is no room.
    pub(crate) fn push(&mut self, entry: Entry) -> Option<LogIndex> {
        if self.room() == 0 {
            return None;
        }
        self.last = self.last.next();
        self.last_term = entry.term;
        let place = self.place(self.last);
        self.ring[place] = entry;
        Some(self.last)
    }

    /// Drops the entries after `last`.
    pub(crate) fn truncate(&mut self, last: LogIndex) {
        if last < self.last && last >= self.base {
            self.last = last;
            self.last_term = self.term(last).unwrap_or_default();
        }
    }

    /// Drops the entries up to `base`, which a snapshot includes.
    pub(crate) fn compact(&mut self, base: LogIndex) {
        if base <= self.base {
            return;
        }
        let Some(term) = self.term(base) else {
            return;
        };
        self.base_members = self.members_at(base).0;
        (self.base, self.base_term) = (base, term);
    }

    /// Drops all entries: the log begins after a snapshot.
    pub(crate) fn reset(&mut self, base: LogIndex, term: Term, members: Membership) {
        (self.base, self.base_term, self.base_members) = (base, term, members);
        (self.last, self.last_term) = (base, term);
    }

    /// Returns the members as of an index, and the index of the entry that made them so (the base,
    /// if no entry of the log did).
    pub(crate) fn members_at(&self, index: LogIndex) -> (Membership, LogIndex) {
        let mut at = index.min(self.last);
        while let Some(entry) = self.get(at) {
            if let Payload::Membership(members) = entry.payload {
                return (members, at);
            }
            at = at.previous();
        }
        (self.base_members, self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(term: u64) -> Entry {
        Entry {
            term: Term(term),
            ..Entry::EMPTY
        }
    }

    #[test]
    fn entries_are_where_they_were_put_until_cut_at_either_end() {
        let mut log = Log::new(16, Membership::default());
        for term in 1..=16 {
            assert_eq!(log.push(entry(term)), Some(LogIndex(term)));
        }
        assert_eq!(log.push(entry(17)), None);
        log.compact(LogIndex(10));
        assert_eq!((log.len(), log.term(LogIndex(10))), (6, Some(Term(10))));
        assert_eq!(log.term(LogIndex(9)), None);
        log.truncate(LogIndex(12));
        assert_eq!((log.last(), log.last_term()), (LogIndex(12), Term(12)));
        assert_eq!(log.push(entry(20)), Some(LogIndex(13)));
        log.truncate(LogIndex(9));
        assert_eq!(log.last(), LogIndex(13));
        log.reset(LogIndex(50), Term(30), Membership::default());
        assert_eq!((log.len(), log.last_term()), (0, Term(30)));
    }

    #[test]
    fn members_are_those_of_the_last_entry_that_has_some() {
        let one = Membership::of_voters(&[crate::ids::NodeId(1)]).unwrap();
        let two = Membership::of_voters(&[crate::ids::NodeId(2)]).unwrap();
        let mut log = Log::new(16, one);
        log.push(entry(1));
        log.push(Entry {
            payload: Payload::Membership(two),
            ..entry(1)
        });
        log.push(entry(1));
        assert_eq!(log.members_at(LogIndex(1)), (one, LogIndex(0)));
        assert_eq!(log.members_at(LogIndex(9)), (two, LogIndex(2)));
        log.compact(LogIndex(3));
        assert_eq!(log.members_at(LogIndex(3)), (two, LogIndex(3)));
    }
}
