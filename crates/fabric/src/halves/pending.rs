//! Entries on their way into the switch.

use ir::TableId;
use packet::Nanos;
use split::{DevicePlane, PlaneControl};
use switch::{Change, ControlError, CounterReading, EntryId};

use crate::events::Events;

/// Entry that will work in the switch.
#[derive(Clone, Debug)]
pub(super) struct PendingEntry {
    pub(super) change: Change,
    pub(super) made: Option<EntryId>,
    number: u64,
}

/// Entries that will work in the switch, by time.
#[derive(Debug, Default)]
pub(super) struct PendingEntries {
    events: Events<PendingEntry>,
    /// Number of the newest one of each entry. Others are void.
    newest: std::collections::BTreeMap<(TableId, EntryId), u64>,
    made: u64,
    /// Entries put into the switch, and taken out of it.
    pub(super) installed: u64,
    pub(super) evicted: u64,
}

impl PendingEntries {
    pub(super) fn next_time(&self) -> Option<Nanos> {
        self.events.next_time()
    }

    /// Removes and returns the next entry that works from now on.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<PendingEntry> {
        loop {
            let (_, entry) = self.events.pop_by(now)?;
            let Some(key) = key_of(&entry.change, entry.made) else {
                return Some(entry);
            };
            if self.newest.get(&key) == Some(&entry.number) {
                self.newest.remove(&key);
                return Some(entry);
            }
        }
    }

    fn push(&mut self, at: Nanos, change: Change, made: Option<EntryId>) {
        self.made += 1;
        let number = self.made;
        if let Some(key) = key_of(&change, made) {
            self.newest.insert(key, number);
        }
        let entry = PendingEntry {
            change,
            made,
            number,
        };
        self.events.push(at, entry);
    }
}

fn key_of(change: &Change, made: Option<EntryId>) -> Option<(TableId, EntryId)> {
    match change {
        Change::Insert(table, _) => Some((*table, made?)),
        _ => None,
    }
}

/// The switch, as the coordinator sees it: new entries work later, all other changes at once.
pub(super) struct DelayedPlane<'p> {
    pub(super) plane: DevicePlane<'p>,
    pub(super) pending: &'p mut PendingEntries,
    /// Time at which new entries work.
    pub(super) at: Nanos,
}

impl PlaneControl for DelayedPlane<'_> {
    fn apply(&mut self, change: &Change, made: Option<EntryId>) -> Result<(), ControlError> {
        match change {
            Change::Insert(..) => {
                self.pending.installed += 1;
                self.pending.push(self.at, change.clone(), made);
                Ok(())
            }
            Change::Delete(table, entry) => {
                self.pending.evicted += 1;
                match self.pending.newest.remove(&(*table, *entry)) {
                    Some(_) => Ok(()),
                    None => self.plane.apply(change, made),
                }
            }
            _ => self.plane.apply(change, made),
        }
    }

    fn direct_counter(&self, table: TableId, entry: EntryId) -> Option<CounterReading> {
        self.plane.direct_counter(table, entry)
    }

    fn last_use(&self, table: TableId, entry: EntryId) -> Option<u64> {
        self.plane.last_use(table, entry)
    }

    fn last_restart(&self, table: TableId, key: &[u64]) -> Option<u64> {
        self.plane.last_restart(table, key)
    }

    fn touch(&mut self, table: TableId, key: &[u64], time_ns: u64) {
        self.plane.touch(table, key, time_ns);
    }
}
