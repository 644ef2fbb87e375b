//! Idle timeout: finds the entries to report to controllers because no packet hit them (sections
//! "Idle-timeout" and "Table Idle Timeout Notification").

use std::collections::HashMap;
use std::sync::Arc;

use ir::TableId;
use packet::Nanos;
use switch::{Device, EntryId};
use table::Entry;

/// Interval between two scans of the entries, on the device's clock.
const LOOK_EVERY: Nanos = Nanos::from_millis(50);

/// Times when idle entries were reported. A notification restarts the timeout.
#[derive(Debug, Default)]
pub(crate) struct IdleWatch {
    next_look: Nanos,
    /// Address of the program to which the entries belong.
    program: usize,
    told: HashMap<(TableId, EntryId), u64>,
}

impl IdleWatch {
    /// Returns the entries that are idle and not yet reported, grouped by table.
    pub(crate) fn look(&mut self, device: &Device) -> Vec<(TableId, Vec<Arc<Entry>>)> {
        let now = device.now();
        if now < self.next_look {
            return Vec::new();
        }
        self.next_look = now + LOOK_EVERY;
        let program = Arc::as_ptr(device.program()) as usize;
        if program != self.program {
            self.program = program;
            self.told.clear();
        }
        let tables = device.program().tables.iter();
        let mut found = Vec::new();
        let mut still = HashMap::new();
        for (table, _) in tables.filter(|(_, table)| table.idle_timeout) {
            let mut idle = Vec::new();
            for (entry, last_use) in device.configuration().tables[table].idle(now.0) {
                let key = (table, entry.id);
                let told = self.told.get(&key).copied().unwrap_or(0);
                let since = last_use.max(told);
                let timeout = entry.idle_timeout_ns.unwrap_or(u64::MAX);
                let is_due = now.0.saturating_sub(since) >= timeout;
                still.insert(key, if is_due { now.0 } else { since });
                if is_due {
                    idle.push(entry);
                }
            }
            if !idle.is_empty() {
                found.push((table, idle));
            }
        }
        self.told = still;
        found
    }
}
