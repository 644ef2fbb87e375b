//! What loops written by hand share: a table with what its entries say laid out flat, counters of one writer, the keys that a burst asks with.

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

    /// The same where it lies, for what is too big to copy.
    #[inline]
    pub(super) fn get(&self, idx: EntryIdx) -> &T {
        &self.says[idx.index()]
    }

    /// The table's direct counters, of this name, at 0.
    pub(super) fn direct_counter(&self, name: &'static str) -> DirectCounter {
        DirectCounter {
            name,
            cells: vec![CounterReading::default(); self.says.len() + 1],
            order: self.lookup.iter().map(|(idx, _)| idx.index()).collect(),
        }
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
        self.count_packets(index, 1);
    }

    /// Counts packets and no bytes.
    #[inline(always)]
    pub(super) fn count_packets(&mut self, index: usize, count: u64) {
        if let Some(cell) = self.cells.get_mut(index) {
            cell.packets += count;
        }
    }

    pub(super) fn reading(&self) -> Reading {
        Reading {
            name: self.name.to_string(),
            cells: self.cells.clone(),
        }
    }
}

/// Keys of those packets of a burst that ask a table.
pub(super) struct Asked<const LIMBS: usize> {
    keys: [[u64; LIMBS]; BURST],
    who: [u8; BURST],
    count: usize,
}

impl<const LIMBS: usize> Asked<LIMBS> {
    /// Nobody has asked.
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            keys: [[0; LIMBS]; BURST],
            who: [0; BURST],
            count: 0,
        }
    }

    /// The packet of this number asks with this key. At most as many ask as a burst has packets.
    #[inline(always)]
    pub(super) fn ask(&mut self, who: usize, key: [u64; LIMBS]) {
        self.keys[self.count] = key;
        self.who[self.count] = who as u8;
        self.count += 1;
    }

    /// Looks all keys up together, and tells each packet's number and the place of its entry, in the order of asking.
    #[inline(always)]
    pub(super) fn answer_places<T: Copy + Default>(
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

    /// The same, with what the entries say.
    #[inline(always)]
    pub(super) fn answer<T: Copy + Default>(
        &self,
        table: &Flat<T>,
        mut tell: impl FnMut(usize, Option<T>),
    ) {
        self.answer_places(table, |who, place| {
            tell(who, place.map(|place| table.at(place)))
        });
    }
}

/// The direct counters of a table, written by one thread.
pub(super) struct DirectCounter {
    name: &'static str,
    /// By place; the last one is the default action's.
    cells: Vec<CounterReading>,
    /// Places in the order in which entries were added.
    order: Vec<usize>,
}

impl DirectCounter {
    /// Counts a packet for its entry, or for the default action, as PSA does where both count.
    #[inline(always)]
    pub(super) fn count(&mut self, place: Option<EntryIdx>, bytes: usize) {
        let at = place.map_or(self.cells.len() - 1, |place| place.index());
        self.count_at(at, bytes);
    }

    /// Counts a packet for its entry, if it hit one: in v1model the default action counts nothing.
    #[inline(always)]
    pub(super) fn count_hit(&mut self, place: Option<EntryIdx>, bytes: usize) {
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

    pub(super) fn reading(&self) -> Reading {
        let entries = self.order.iter().map(|&place| self.cells[place]);
        Reading {
            name: self.name.to_string(),
            cells: entries.chain(self.cells.last().copied()).collect(),
        }
    }
}
