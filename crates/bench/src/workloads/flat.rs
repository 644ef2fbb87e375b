//! Common parts of hand-written loops: tables with flattened entry data, single-writer counters,
//! and lookups batched over a burst.

use bits::Id;
use exec::Configuration;
use std::sync::Arc;
use table::{CounterReading, EntryAction, EntryIdx, Lookup};

use crate::forward::Reading;
use crate::names::{NameError, TableName, last_name};

/// Maximum number of frames per burst of a loop.
pub(crate) const BURST: usize = 64;

/// A table: the program's own lookup, and the data of each entry in an array.
pub(crate) struct Flat<T> {
    lookup: Arc<Lookup>,
    says: Vec<T>,
}

impl<T: Copy + Default> Flat<T> {
    /// Creates it from a program's table. `says` converts an entry's action name, without
    /// enclosing names, and its parameters.
    pub(crate) fn new(
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

    /// Returns the data of the entry that a key hits.
    #[inline]
    pub(crate) fn find(&self, key: &[u64]) -> Option<T> {
        self.lookup.find(key).map(|idx| self.at(idx))
    }

    /// Looks up the concatenated keys in `keys`.
    #[inline]
    pub(crate) fn find_batch(&self, keys: &[u64], found: &mut [Option<EntryIdx>]) {
        self.lookup.find_batch(keys, found);
    }

    /// Returns the data of an entry.
    #[inline]
    pub(crate) fn at(&self, idx: EntryIdx) -> T {
        self.says[idx.index()]
    }

    /// Returns a reference to the data of an entry, for large types.
    #[inline]
    pub(crate) fn get(&self, idx: EntryIdx) -> &T {
        &self.says[idx.index()]
    }

    /// Returns the table's direct counters, with this name, all 0.
    pub(crate) fn direct_counter(&self, name: &'static str) -> DirectCounter {
        DirectCounter {
            name,
            cells: vec![CounterReading::default(); self.says.len() + 1],
            order: self.lookup.iter().map(|(idx, _)| idx.index()).collect(),
        }
    }
}

/// A counter array with one writer.
pub(crate) struct Counter {
    name: &'static str,
    cells: Vec<CounterReading>,
}

impl Counter {
    /// Creates a counter array of packets and bytes, all 0.
    pub(crate) fn new(name: &'static str, size: usize) -> Self {
        Self {
            name,
            cells: vec![CounterReading::default(); size],
        }
    }

    #[inline(always)]
    pub(crate) fn count(&mut self, index: usize, bytes: usize) {
        if let Some(cell) = self.cells.get_mut(index) {
            cell.packets += 1;
            cell.bytes += bytes as u64;
        }
    }

    /// Counts a packet without its bytes.
    #[inline(always)]
    pub(crate) fn count_packet(&mut self, index: usize) {
        self.count_packets(index, 1);
    }

    /// Counts packets without their bytes.
    #[inline(always)]
    pub(crate) fn count_packets(&mut self, index: usize, count: u64) {
        if let Some(cell) = self.cells.get_mut(index) {
            cell.packets += count;
        }
    }

    pub(crate) fn reading(&self) -> Reading {
        Reading {
            name: self.name.to_string(),
            cells: self.cells.clone(),
        }
    }
}

/// Lookup keys of packets in a burst, for one table.
pub(crate) struct Asked<const LIMBS: usize> {
    keys: [[u64; LIMBS]; BURST],
    who: [u8; BURST],
    count: usize,
}

impl<const LIMBS: usize> Asked<LIMBS> {
    /// Creates an empty batch.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self {
            keys: [[0; LIMBS]; BURST],
            who: [0; BURST],
            count: 0,
        }
    }

    /// Adds the key of packet `who`. At most [`BURST`] keys can be added.
    #[inline(always)]
    pub(crate) fn ask(&mut self, who: usize, key: [u64; LIMBS]) {
        self.keys[self.count] = key;
        self.who[self.count] = who as u8;
        self.count += 1;
    }

    /// Looks up all keys in one batch. `tell` is called for each packet with its number and entry
    /// index, in the order in which the keys were added.
    #[inline(always)]
    pub(crate) fn answer_places<T: Copy + Default>(
        &self,
        table: &Flat<T>,
        mut tell: impl FnMut(usize, Option<EntryIdx>),
    ) {
        if self.count == 0 {
            return;
        }
        let mut found = [None; BURST];
        let found = &mut found[..self.count];
        table.find_batch(self.keys[..self.count].as_flattened(), found);
        for (&who, found) in self.who.iter().zip(&*found) {
            tell(who.into(), *found);
        }
    }

    /// Looks up all keys in one batch, like `answer_places`, and passes the data of the entries.
    #[inline(always)]
    pub(crate) fn answer<T: Copy + Default>(
        &self,
        table: &Flat<T>,
        mut tell: impl FnMut(usize, Option<T>),
    ) {
        self.answer_places(table, |who, place| {
            tell(who, place.map(|place| table.at(place)))
        });
    }
}

/// The direct counters of a table, with one writer.
pub(crate) struct DirectCounter {
    name: &'static str,
    /// Indexed by entry. The last one is for the default action.
    cells: Vec<CounterReading>,
    /// Entry indices in the order in which the entries were added.
    order: Vec<usize>,
}

impl DirectCounter {
    /// Counts a packet for its entry, or for the default action after a miss, as in PSA.
    #[inline(always)]
    pub(crate) fn count(&mut self, place: Option<EntryIdx>, bytes: usize) {
        let at = place.map_or(self.cells.len() - 1, |place| place.index());
        self.count_at(at, bytes);
    }

    /// Counts a packet for its entry. A miss is not counted, as in v1model.
    #[inline(always)]
    pub(crate) fn count_hit(&mut self, place: Option<EntryIdx>, bytes: usize) {
        if let Some(place) = place {
            self.count_at(place.index(), bytes);
        }
    }

    #[inline(always)]
    fn count_at(&mut self, at: usize, bytes: usize) {
        let cell = &mut self.cells[at];
        cell.packets += 1;
        cell.bytes += bytes as u64;
    }

    pub(crate) fn reading(&self) -> Reading {
        let entries = self.order.iter().map(|&place| self.cells[place]);
        Reading {
            name: self.name.to_string(),
            cells: entries.chain(self.cells.last().copied()).collect(),
        }
    }
}
