//! [`Places`]: allocator of a table's entry indices.
//!
//! The counts of an entry are stored at its index. The index of a deleted entry is therefore not
//! reused until no packet can see the entry any more. Otherwise such packets would count for the
//! next entry.

use crate::entry::EntryIdx;
use crate::table::Lookup;
use bits::Id;
use std::sync::Weak;

/// Number of snapshots above which released ones are removed from the list.
const MAX_HELD: usize = 64;

/// Free indices, and indices of deleted entries that are not free yet.
#[derive(Debug)]
pub(crate) struct Places {
    free: Vec<EntryIdx>,
    /// For each index, the number of snapshots that had been taken when it was last allocated, or
    /// less. A number that has no room here is its greatest.
    since: Vec<u32>,
    /// Released indices that some snapshot may still contain.
    waiting: Vec<Waiting>,
    /// State at the last scan of `waiting`: the number of snapshots taken, and the number of those
    /// still held.
    looked: (u64, usize),
    /// Number of snapshots taken so far.
    snapshots: u64,
    /// Snapshots that may still be held, with their numbers (from 1), in order.
    held: Vec<(u64, Weak<Lookup>)>,
}

/// Released index that the snapshots `first..=last` contain.
#[derive(Debug)]
struct Waiting {
    idx: EntryIdx,
    first: u64,
    last: u64,
}

impl Places {
    /// Creates `len` free indices.
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

    /// Returns the number of indices.
    pub(crate) fn len(&self) -> usize {
        self.since.len()
    }

    /// Extends the range of indices to `len`. The new ones are free.
    pub(crate) fn grow(&mut self, len: usize) {
        let new = self.since.len()..len;
        self.free.extend(new.rev().map(EntryIdx::from_index));
        self.since.resize(len, 0);
    }

    /// Records that a snapshot was taken.
    pub(crate) fn issued(&mut self, snapshot: Weak<Lookup>) {
        self.snapshots += 1;
        self.held.push((self.snapshots, snapshot));
        if self.held.len() > MAX_HELD {
            self.forget_snapshots();
        }
    }

    /// Releases the index of a deleted entry.
    pub(crate) fn give_back(&mut self, idx: EntryIdx) {
        let first = u64::from(self.since[idx.index()]) + 1;
        match first > self.snapshots {
            true => self.free.push(idx),
            false => self.waiting.push(Waiting {
                idx,
                first,
                last: self.snapshots,
            }),
        }
    }

    /// Allocates a free index.
    pub(crate) fn take(&mut self) -> Option<EntryIdx> {
        if self.free.is_empty() {
            self.look_through();
        }
        let idx = self.free.pop()?;
        self.since[idx.index()] = self.now();
        Some(idx)
    }

    /// Allocates an index that some snapshot still contains. Packets that see its former entry then
    /// count for the next one.
    pub(crate) fn take_waiting(&mut self) -> Option<EntryIdx> {
        let idx = self.waiting.pop()?.idx;
        self.since[idx.index()] = self.now();
        Some(idx)
    }

    /// Returns the number of snapshots so far, for `since`.
    fn now(&self) -> u32 {
        u32::try_from(self.snapshots).unwrap_or(u32::MAX)
    }

    fn forget_snapshots(&mut self) {
        self.held
            .retain(|(_, snapshot)| snapshot.strong_count() > 0);
    }

    /// Frees the released indices that no held snapshot contains. Does nothing if no snapshot was
    /// taken or dropped since the last call.
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
