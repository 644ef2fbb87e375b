//! Handlers of generated programs, as Rust code.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use exec::{DropReason, HandlerCall, Natives, RemoteHandler};
use table::Learn;

use super::program::Program;

/// A handler: a function of the request, perhaps with a count by flow, which perhaps adds an entry.
struct Handler {
    number: u64,
    /// Counts by flow, if it has state.
    counts: Option<Mutex<HashMap<u64, u64>>>,
    /// The table to which it adds entries, and the action of these.
    learns: Option<(ir::TableId, u32)>,
}

impl RemoteHandler for Handler {
    fn call(&self, call: HandlerCall<'_>) -> Result<(), DropReason> {
        let [flow, space, address, a, b, c, ..] = *call.request else {
            return Ok(());
        };
        let mut value = (flow ^ space << 16 ^ address << 5)
            .wrapping_mul(self.number + 3)
            .wrapping_add(a * 77)
            .wrapping_add(b * 5)
            ^ c << 9;
        if let Some(counts) = &self.counts {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(flow).or_default();
            *count += 1;
            value = value.wrapping_add(*count << 3);
        }
        if let Some((table, action)) = self.learns
            && !flow.is_multiple_of(5)
            && let Some(table) = call.state.table(table)
            && let Some(learned) = &table.learned
            && table.lookup.find(&[flow]).is_none()
        {
            // If the entry exists, nothing changes.
            let _ = learned.insert(Learn {
                key: &[flow],
                action,
                params: &[flow * 1000 + (b & 0xff)],
                idle_timeout_ns: None,
                now_ns: call.packet.now.0,
            });
        }
        if let [first, second, third, ..] = call.response {
            *first = value & 0xffff_ffff;
            *second = value >> 7 & 0x1fff;
            *third = value >> 3 & 1;
        }
        Ok(())
    }
}

/// Returns the handlers of one plane, with their own state.
pub(super) fn natives(program: &Program, code: &ir::Program, has_state: bool) -> Natives {
    let mut natives = Natives::default();
    for (number, (name, learns)) in (0..).zip(&program.handlers) {
        let table_of = |wanted: &String| {
            let suffix = format!(".{wanted}");
            let mut tables = code.tables.iter();
            let (id, table) = tables.find(|(_, table)| table.name.ends_with(&suffix))?;
            Some((id, table.actions.first()?.action.get()))
        };
        let handler = Handler {
            number,
            counts: has_state.then(Mutex::default),
            learns: learns.as_ref().and_then(table_of),
        };
        natives.insert_handler(name, Arc::new(handler));
    }
    natives
}
