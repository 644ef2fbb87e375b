//! [`Places`]: which places of a table are free.
//!
//! What an entry's packets count stands in its place. A place whose entry was deleted waits until no packet sees that entry any more, so that what they
//! count is not counted for the next one.

use crate::entry::EntryIdx;
use crate::table::Lookup;
use bits::Id;
use std::sync::Weak;

/// Snapshots that are kept in mind before those that nobody holds are forgotten.
const MOST_HELD: usize = 64;

/// Free places, and those that wait.
#[derive(Debug)]
pub(crate) struct Places {
    free: Vec<EntryIdx>,
    /// For each place, how many snapshots there had been when it was taken last.
    since: Vec<u64>,
    /// Places that were given back and that some snapshot may show.
    waiting: Vec<Waiting>,
    /// Up to how many snapshots, and how many of them held, those that wait have been looked through.
    looked: (u64, usize),
    /// How many snapshots there were.
    snapshots: u64,
    /// Those that may still be held, with their numbers from 1, in order.
    held: Vec<(u64, Weak<Lookup>)>,
}

/// A place that the snapshots `first..=last` show.
#[derive(Debug)]
struct Waiting {
    idx: EntryIdx,
    first: u64,
    last: u64,
}

impl Places {
    /// `len` free places.
    pub(crate) fn new(len: usize) -> Self {
        let mut places = Self {
            free: Vec::new(),
            since: Vec::new(),
            waiting: Vec::new(),
            looked: (0, 0),
            snapshots: 0,
            held: Vec::new(),
        };
        places.grow(len);
        places
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.since.len()
    }

    /// There are `len` places from now on; the new ones are free.
    pub(crate) fn grow(&mut self, len: usize) {
        let new = self.since.len()..len;
        self.free.extend(new.rev().map(EntryIdx::from_index));
        self.since.resize(len, 0);
    }

    /// A snapshot was taken.
    pub(crate) fn issued(&mut self, snapshot: Weak<Lookup>) {
        self.snapshots += 1;
        self.held.push((self.snapshots, snapshot));
        if self.held.len() > MOST_HELD {
            self.forget_snapshots();
        }
    }

    /// A place whose entry is gone.
    pub(crate) fn give_back(&mut self, idx: EntryIdx) {
        let first = self.since[idx.index()] + 1;
        match first > self.snapshots {
            true => self.free.push(idx),
            false => self.waiting.push(Waiting {
                idx,
                first,
                last: self.snapshots,
            }),
        }
    }

    /// A place that is free.
    pub(crate) fn take(&mut self) -> Option<EntryIdx> {
        if self.free.is_empty() {
            self.look_through();
        }
        let idx = self.free.pop()?;
        self.since[idx.index()] = self.snapshots;
        Some(idx)
    }

    /// A place that still waits: packets that see its former entry count for the next one.
    pub(crate) fn take_waiting(&mut self) -> Option<EntryIdx> {
        let idx = self.waiting.pop()?.idx;
        self.since[idx.index()] = self.snapshots;
        Some(idx)
    }

    fn forget_snapshots(&mut self) {
        self.held
            .retain(|(_, snapshot)| snapshot.strong_count() > 0);
    }

    /// Places that no snapshot shows any more are free. Nothing is done again before a snapshot has come or gone.
    fn look_through(&mut self) {
        self.forget_snapshots();
        let looked = (self.snapshots, self.held.len());
        if self.looked == looked {
            return;
        }
        self.looked = looked;
        let held = &self.held;
        let free = &mut self.free;
        self.waiting.retain(|place| {
            let next = held.partition_point(|&(number, _)| number < place.first);
            let is_shown = held
                .get(next)
                .is_some_and(|&(number, _)| number <= place.last);
            if !is_shown {
                free.push(place.idx);
            }
            is_shown
        });
    }
}
