//! Times at which entries must be looked at.

use std::collections::{BTreeSet, HashMap};

use packet::Nanos;

use crate::tables::TableNumber;

/// One time for each of some entries.
#[derive(Default)]
pub(crate) struct Schedule {
    order: BTreeSet<(Nanos, TableNumber, u32)>,
    times: HashMap<(TableNumber, u32), Nanos>,
}

impl Schedule {
    /// Sets the time of an entry, or removes it.
    pub(crate) fn set(&mut self, table: TableNumber, index: u32, time: Option<Nanos>) {
        let old = match time {
            Some(time) => self.times.insert((table, index), time),
            None => self.times.remove(&(table, index)),
        };
        if let Some(old) = old {
            self.order.remove(&(old, table, index));
        }
        if let Some(time) = time {
            self.order.insert((time, table, index));
        }
    }

    /// Returns an entry with a time up to this one, and removes its time.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<(TableNumber, u32)> {
        let (time, table, index) = *self.order.first()?;
        if time > now {
            return None;
        }
        self.set(table, index, None);
        Some((table, index))
    }
}
