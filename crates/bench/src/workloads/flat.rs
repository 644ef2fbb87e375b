//! What loops written by hand share: a table with what its entries say laid out flat, counters of one writer, a burst's scratch.

use bits::Id;
use exec::Configuration;
use std::sync::Arc;
use table::{CounterReading, EntryAction, EntryIdx, Lookup};

use crate::forward::Reading;
use crate::names::{NameError, TableName, last_name};

/// Frames that a loop takes at once.
pub(super) const BURST: usize = 64;

/// A table: the same lookup as the program's, and what each entry says by its place.
pub(super) struct Flat<T> {
    lookup: Arc<Lookup>,
    says: Vec<T>,
}

impl<T: Copy + Default> Flat<T> {
    /// A table of a program. `says` reads an entry: the action's name without those around it, and the parameters.
    pub(super) fn new(
        configuration: &mut Configuration,
        name: &str,
        says: impl Fn(&str, &[u64]) -> T,
    ) -> Result<Self, NameError> {
        let program = Arc::clone(configuration.program());
        let id = TableName::find(&program, name)?.id;
        let lookup = configuration.tables[id].snapshot();
        let mut flat = Vec::new();
        for (idx, entry) in lookup.iter() {
            let EntryAction::Direct(call) = &entry.action else {
                continue;
            };
            flat.resize(flat.len().max(idx.index() + 1), T::default());
            let action = program.actions.get(ir::ActionId::new(call.action));
            let action = action.map_or("", |action| last_name(&action.control_plane_name));
            flat[idx.index()] = says(action, &call.params);
        }
        Ok(Self { lookup, says: flat })
    }

    /// What the entry says that a key hits.
    #[inline]
    pub(super) fn find(&self, key: &[u64]) -> Option<T> {
        self.lookup.find(key).map(|idx| self.at(idx))
    }

    /// The entries that keys hit, which lie in `keys` one after the other.
    #[inline]
    pub(super) fn find_batch(&self, keys: &[u64], found: &mut [Option<EntryIdx>]) {
        self.lookup.find_batch(keys, found);
    }

    /// What an entry says.
    #[inline]
    pub(super) fn at(&self, idx: EntryIdx) -> T {
        self.says[idx.index()]
    }
}

/// A counter that one thread writes.
pub(super) struct Counter {
    name: &'static str,
    cells: Vec<CounterReading>,
}

impl Counter {
    /// A counter of packets and bytes at 0.
    pub(super) fn new(name: &'static str, size: usize) -> Self {
        Self {
            name,
            cells: vec![CounterReading::default(); size],
        }
    }

    #[inline(always)]
    pub(super) fn count(&mut self, index: usize, bytes: usize) {
        if let Some(cell) = self.cells.get_mut(index) {
            cell.packets += 1;
            cell.bytes += bytes as u64;
        }
    }

    /// Counts a packet and no bytes.
    #[inline(always)]
    pub(super) fn count_packet(&mut self, index: usize) {
        self.count(index, 0);
    }

    pub(super) fn reading(&self) -> Reading {
        Reading {
            name: self.name.to_string(),
            cells: self.cells.clone(),
        }
    }
}
