//! Planes: where the coordinator sends changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ir::{KeyMatch, TableId};
use switch::{Change, ControlError, CounterReading, Device, EntryId};
use table::{Entry, LearningTable};

/// A plane that holds entries and other state: a switch or a server. Entries have the coordinator's
/// ids.
pub trait PlaneControl {
    /// Applies a change of the whole program's state. An entry that the plane does not hold is no
    /// error.
    ///
    /// # Errors
    /// The plane refuses the change.
    fn apply(&mut self, change: &Change, made: Option<EntryId>) -> Result<(), ControlError>;

    /// Applies a change of these entries of the whole tables, which are changed or removed there.
    /// A plane that does not know the keys of its entries takes them from here.
    ///
    /// # Errors
    /// As [`PlaneControl::apply`].
    fn apply_to(
        &mut self,
        change: &Change,
        made: Option<EntryId>,
        _touched: &[Arc<Entry>],
    ) -> Result<(), ControlError> {
        self.apply(change, made)
    }

    /// Returns the direct counter of an entry, if the plane holds the entry.
    fn direct_counter(&self, table: TableId, entry: EntryId) -> Option<CounterReading>;

    /// Returns the number of packets that found an entry, if the plane holds the entry and counts
    /// them.
    fn hits(&self, _: TableId, _: EntryId) -> Option<u64> {
        None
    }

    /// Returns the keys of an entry, if the plane holds the entry and can say them.
    fn keys(&self, _: TableId, _: EntryId) -> Option<Vec<KeyMatch>> {
        None
    }

    /// Returns the time in nanoseconds at which a packet last used an entry, if the plane holds the
    /// entry.
    fn last_use(&self, table: TableId, entry: EntryId) -> Option<u64>;

    /// Returns the time in nanoseconds at which a packet last restarted the timer of an entry that
    /// a handler added.
    fn last_restart(&self, table: TableId, key: &[u64]) -> Option<u64>;

    /// Restarts the timer of an entry that a handler added, as a hit at this time does.
    fn touch(&mut self, table: TableId, key: &[u64], time_ns: u64);
}

/// A plane that is elsewhere: changes for it are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPlane;

impl PlaneControl for NoPlane {
    fn apply(&mut self, _: &Change, _: Option<EntryId>) -> Result<(), ControlError> {
        Ok(())
    }

    fn direct_counter(&self, _: TableId, _: EntryId) -> Option<CounterReading> {
        None
    }

    fn last_use(&self, _: TableId, _: EntryId) -> Option<u64> {
        None
    }

    fn last_restart(&self, _: TableId, _: &[u64]) -> Option<u64> {
        None
    }

    fn touch(&mut self, _: TableId, _: &[u64], _: u64) {}
}

/// A plane that is a device of this process.
pub struct DevicePlane<'d> {
    /// The device.
    pub device: &'d mut Device,
    /// The ids of its entries.
    pub ids: &'d mut EntryIds,
}

/// Ids of entries in a device, by the coordinator's ids.
#[derive(Clone, Debug, Default)]
pub struct EntryIds {
    ids: HashMap<(TableId, EntryId), EntryId>,
    /// Tables of which the device holds only the entries that the coordinator gave it. Entries of
    /// other tables have the same ids at first.
    given: HashSet<TableId>,
}

impl EntryIds {
    /// Creates the ids of a device that holds only given entries of these tables.
    pub fn new(given: impl IntoIterator<Item = TableId>) -> EntryIds {
        EntryIds {
            ids: HashMap::new(),
            given: given.into_iter().collect(),
        }
    }

    /// Notes that the device's entry `own` is the coordinator's `entry`.
    pub fn set(&mut self, table: TableId, entry: EntryId, own: EntryId) {
        self.ids.insert((table, entry), own);
    }

    /// Returns the number of known ids.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if no id is known.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Forgets ids of the device's own entries for which `exists` is false.
    pub fn keep(&mut self, exists: impl Fn(TableId, EntryId) -> bool) {
        self.ids.retain(|(table, _), own| exists(*table, *own));
    }

    fn of(&self, table: TableId, entry: EntryId) -> Option<EntryId> {
        let known = self.ids.get(&(table, entry)).copied();
        known.or((!self.given.contains(&table)).then_some(entry))
    }
}

impl DevicePlane<'_> {
    fn learning_table(&self, table: TableId) -> Option<&LearningTable> {
        let learned = &self.device.configuration().learned;
        learned.get(table)?.as_deref()
    }
}

impl PlaneControl for DevicePlane<'_> {
    fn apply(&mut self, change: &Change, made: Option<EntryId>) -> Result<(), ControlError> {
        let is_deletion = matches!(change, Change::Delete(..));
        let mut change = change.clone();
        match &mut change {
            Change::Insert(table, _) => {
                let table = *table;
                let inserted = self.device.apply(change)?;
                if let (Some(made), Some(inserted)) = (made, inserted) {
                    self.ids.set(table, made, inserted);
                }
                return Ok(());
            }
            Change::Delete(table, entry)
            | Change::Modify(table, entry, ..)
            | Change::SetMetadata(table, entry, _)
            | Change::SetDirectMeter(table, Some(entry), _)
            | Change::WriteDirectColorCounts(table, Some(entry), _)
            | Change::WriteDirectCounter(table, Some(entry), _) => {
                let Some(own) = self.ids.of(*table, *entry) else {
                    return Ok(());
                };
                if is_deletion {
                    self.ids.ids.remove(&(*table, *entry));
                }
                *entry = own;
            }
            _ => {}
        }
        self.device.apply(change).map(|_| ())
    }

    fn direct_counter(&self, table: TableId, entry: EntryId) -> Option<CounterReading> {
        let own = self.ids.of(table, entry)?;
        self.device.read_direct_counter(table, own)
    }

    fn hits(&self, table: TableId, entry: EntryId) -> Option<u64> {
        let own = self.ids.of(table, entry)?;
        let entries = self.device.configuration().tables.get(table)?;
        Some(entries.usage_of(Some(own))?.hits)
    }

    fn keys(&self, table: TableId, entry: EntryId) -> Option<Vec<KeyMatch>> {
        let own = self.ids.of(table, entry)?;
        let entry = self.device.configuration().tables.get(table)?.get(own)?;
        Some(entry.matches.iter().map(switch::key_match).collect())
    }

    fn last_use(&self, table: TableId, entry: EntryId) -> Option<u64> {
        let own = self.ids.of(table, entry)?;
        let entries = self.device.configuration().tables.get(table)?;
        let usage = entries.usage_of(Some(own))?;
        Some(usage.last_use_ns)
    }

    fn last_restart(&self, table: TableId, key: &[u64]) -> Option<u64> {
        let entry = self.learning_table(table)?.get(key)?;
        Some(entry.timer_start_ns)
    }

    fn touch(&mut self, table: TableId, key: &[u64], time_ns: u64) {
        let Some(learned) = self.learning_table(table) else {
            return;
        };
        let mut params = vec![0; learned.param_limbs()];
        if let Some(hit) = learned.find(key, &mut params) {
            learned.restart_timer(&hit, time_ns);
        }
    }
}
