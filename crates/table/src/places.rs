//! [`Places`]: which places of a table are free.
//!
//! What an entry's packets count stands in its place. A place whose entry was deleted waits until no packet sees that entry any more, so that what they
//! count is not counted for the next one.

use crate::entry::EntryIdx;
use crate::table::Lookup;
use bits::Id;
use std::collections::VecDeque;
use std::sync::Weak;

/// Snapshots that are kept in mind before those that nobody holds are looked for.
const MOST_HELD: usize = 64;

/// Free places, and those that wait.
#[derive(Debug)]
pub(crate) struct Places {
    len: usize,
    free: Vec<EntryIdx>,
    /// Places that were given back, each with the number of snapshots that there had been, in order.
    waiting: VecDeque<(u64, EntryIdx)>,
    /// How many snapshots there were.
    snapshots: u64,
    /// Those that may still be held, with their numbers from 1, in order.
    held: VecDeque<(u64, Weak<Lookup>)>,
}

impl Places {
    /// `len` free places.
    pub(crate) fn new(len: usize) -> Self {
        let mut places = Self {
            len: 0,
            free: Vec::new(),
            waiting: VecDeque::new(),
            snapshots: 0,
            held: VecDeque::new(),
        };
        places.grow(len);
        places
    }

    /// There are `len` places from now on; the new ones are free.
    pub(crate) fn grow(&mut self, len: usize) {
        self.free
            .extend((self.len..len).rev().map(EntryIdx::from_index));
        self.len = len;
    }

    /// A snapshot was taken.
    pub(crate) fn issued(&mut self, snapshot: Weak<Lookup>) {
        self.forget();
        self.snapshots += 1;
        self.held.push_back((self.snapshots, snapshot));
        if self.held.len() > MOST_HELD {
            self.held
                .retain(|(_, snapshot)| snapshot.strong_count() > 0);
        }
    }

    /// A place whose entry is gone.
    pub(crate) fn give_back(&mut self, idx: EntryIdx) {
        self.waiting.push_back((self.snapshots, idx));
    }

    /// A place that is free.
    pub(crate) fn take(&mut self) -> Option<EntryIdx> {
        if self.free.is_empty() {
            self.forget();
        }
        self.free.pop()
    }

    /// The place that has waited longest: packets that still see its former entry count for the next one.
    pub(crate) fn take_waiting(&mut self) -> Option<EntryIdx> {
        self.waiting.pop_front().map(|(_, idx)| idx)
    }

    /// Places wait no more whose snapshots are all gone.
    fn forget(&mut self) {
        while self
            .held
            .front()
            .is_some_and(|(_, snapshot)| snapshot.strong_count() == 0)
        {
            self.held.pop_front();
        }
        let gone = self
            .held
            .front()
            .map_or(self.snapshots, |&(number, _)| number - 1);
        while let Some(&(snapshots, idx)) = self.waiting.front()
            && snapshots <= gone
        {
            self.waiting.pop_front();
            self.free.push(idx);
        }
    }
}
