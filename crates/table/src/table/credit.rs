//! Counts from outside: packets that another plane has processed by the entries of a table.

use super::{Table, counted, total, word};
use crate::counter::{CounterKind, CounterReading};
use crate::entry::EntryId;

impl Table {
    /// Adds packets to the usage of an entry, or of the default action for `None`, and to the hits
    /// or misses. The last use becomes no earlier. As for packets, usage is only kept where it is
    /// noted. Returns false if there is no such entry; hits and misses are counted nevertheless.
    pub fn credit_lookups(
        &mut self,
        entry: Option<EntryId>,
        amounts: CounterReading,
        last_use_ns: u64,
    ) -> bool {
        let of_total = if entry.is_some() {
            total::HITS
        } else {
            total::MISSES
        };
        self.totals.add(0, of_total, amounts.packets);
        let Some(row) = self.row(entry) else {
            return false;
        };
        if self.notes_usage {
            self.usage.add(row, word::HITS, amounts.packets);
            self.usage.add(row, word::BYTES, amounts.bytes);
            self.usage.add(row, word::LAST_USE, last_use_ns);
        }
        true
    }

    /// Adds packets to the direct counter of an entry, or of the default action for `None`. Returns
    /// false if there is none.
    pub fn credit_counter(&mut self, entry: Option<EntryId>, amounts: CounterReading) -> bool {
        let (Some(kind), Some(row)) = (self.spec.direct_counter, self.row(entry)) else {
            return false;
        };
        if kind != CounterKind::Bytes {
            self.counts.add(row, counted::PACKETS, amounts.packets);
        }
        if kind != CounterKind::Packets {
            self.counts.add(row, counted::BYTES, amounts.bytes);
        }
        true
    }
}
