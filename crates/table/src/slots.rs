//! [`Slots`]: array of a table's entries, as packets see it.

use crate::engine::{Replay, Versions};
use crate::entry::{Entry, EntryIdx};
use bits::Id;
use std::sync::Arc;

/// Immutable array of entries by entry index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots(Vec<Option<Arc<Entry>>>);

impl Slots {
    /// Returns the entry at an index, if there is one.
    #[inline]
    pub(crate) fn get(&self, idx: EntryIdx) -> Option<&Arc<Entry>> {
        self.0.get(idx.index())?.as_ref()
    }

    /// Iterates over all entries with their indices, in order of index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryIdx, &Entry)> {
        let slots = self.0.iter().enumerate();
        slots.filter_map(|(place, entry)| Some((EntryIdx::from_index(place), entry.as_deref()?)))
    }
}

/// The control side of [`Slots`].
#[derive(Debug)]
pub(crate) struct SlotStore(Versions<Slots>);

impl SlotStore {
    /// Creates an empty array.
    pub(crate) fn new() -> Self {
        Self(Versions::new(Slots::default()))
    }

    pub(crate) fn get(&self, idx: EntryIdx) -> Option<&Arc<Entry>> {
        self.0.newest().get(idx)
    }

    pub(crate) fn set(&mut self, idx: EntryIdx, entry: Option<Arc<Entry>>) {
        self.0.change(Change { idx, entry });
    }

    pub(crate) fn snapshot(&self) -> Arc<Slots> {
        self.0.snapshot()
    }
}

/// Log record: the new content of one index.
#[derive(Debug)]
pub(crate) struct Change {
    idx: EntryIdx,
    entry: Option<Arc<Entry>>,
}

impl Replay for Slots {
    type Op = Change;

    fn apply(&mut self, change: &Change) {
        let place = change.idx.index();
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        self.0[place].clone_from(&change.entry);
    }

    fn clone_cost(&self) -> usize {
        // A clone increments one reference count for each entry, mostly in memory order.
        self.0.len() / 16
    }
}
