//! [`Slots`]: the entry in each place of a table, as packets see it.

use crate::engine::{Replay, Versions};
use crate::entry::{Entry, EntryIdx};
use bits::Id;
use std::sync::Arc;

/// Entries by place. Never changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots(Vec<Option<Arc<Entry>>>);

impl Slots {
    /// The entry in a place, if there is one.
    #[inline]
    pub(crate) fn get(&self, idx: EntryIdx) -> Option<&Arc<Entry>> {
        self.0.get(idx.index())?.as_ref()
    }

    /// All entries with their places, in order of place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryIdx, &Entry)> {
        let slots = self.0.iter().enumerate();
        slots.filter_map(|(place, entry)| Some((EntryIdx::from_index(place), entry.as_deref()?)))
    }
}

/// The control side of [`Slots`].
#[derive(Debug)]
pub(crate) struct SlotStore(Versions<Slots>);

impl SlotStore {
    /// Without entries.
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

/// What is in a place from now on.
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
        // A clone counts a reference more to each entry, mostly in the order in which they lie in memory.
        self.0.len() / 16
    }
}
