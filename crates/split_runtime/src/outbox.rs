//! What planes report: messages that wait, and entries that packets have used.

use std::collections::VecDeque;

use ir::TableId;
use p4info::polyplane::split::v1 as wire;
use p4rt::Any;
use packet::Nanos;
use switch::Device;

use crate::change_queue::ChangeQueue;
use crate::messages::{MAX_ITEMS, from_plane};

/// Interval between two reports of used entries.
pub(crate) const USE_INTERVAL: Nanos = Nanos::from_millis(500);

/// Messages that wait for room in the queue of events.
#[derive(Default)]
pub(crate) struct Outbox(VecDeque<Any>);

impl Outbox {
    pub(crate) fn push(&mut self, message: &wire::FromPlane) {
        self.0.push_back(from_plane(message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends the changes of a queue after the messages that wait, as far as there is room.
    pub(crate) fn send_changes(
        &mut self,
        changes: &mut ChangeQueue,
        now: Nanos,
        send: &mut dyn FnMut(Any) -> bool,
    ) {
        loop {
            self.send(send);
            if !self.is_empty() {
                return;
            }
            let handler_changes = changes.take(MAX_ITEMS, now.0);
            if handler_changes.is_empty() {
                return;
            }
            self.push(&wire::FromPlane {
                handler_changes,
                ..wire::FromPlane::default()
            });
        }
    }

    pub(crate) fn uses(&mut self, uses: &[wire::EntryUse]) {
        for part in uses.chunks(MAX_ITEMS) {
            self.push(&wire::FromPlane {
                uses: part.to_vec(),
                ..wire::FromPlane::default()
            });
        }
    }

    pub(crate) fn send(&mut self, send: &mut dyn FnMut(Any) -> bool) {
        while let Some(message) = self.0.front() {
            if !send(message.clone()) {
                return;
            }
            self.0.pop_front();
        }
    }
}

/// Returns the entries of the coordinator that packets have used since a time.
pub(crate) fn entry_uses(device: &Device, tables: &[TableId], since: Nanos) -> Vec<wire::EntryUse> {
    let now = device.now().0;
    let mut uses = Vec::new();
    for &table in tables {
        let entries = &device.configuration().tables[table];
        for entry in entries.iter() {
            let last = entries
                .usage_of(Some(entry.id))
                .map(|usage| usage.last_use_ns);
            let Some(last) = last.filter(|last| *last > since.0) else {
                continue;
            };
            if let Some(number) = p4rt::entry_number(&p4rt::controller_metadata(&entry)) {
                uses.push(wire::EntryUse {
                    table: table.get(),
                    entry: number.0,
                    key: Vec::new(),
                    age_ns: now.saturating_sub(last),
                });
            }
        }
    }
    uses
}
