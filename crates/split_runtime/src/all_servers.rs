//! All servers as one plane: changes of the whole tables are encoded once for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ir::TableId;
use split::{Coordinator, PlaneControl};
use switch::{Change, ControlError, CounterReading, EntryId};
use table::Entry;

use crate::control::Server;
use crate::remote_plane::RemotePlane;

/// Queues the changes of the whole tables for the connected planes.
pub(crate) fn spread(
    coordinator: &mut Coordinator,
    switch: &mut RemotePlane,
    servers: &mut BTreeMap<u16, Server>,
) {
    coordinator.propagate(switch, &mut [&mut AllServers(servers)]);
}

/// All servers as one plane for changes: an update is encoded once.
struct AllServers<'s>(&'s mut BTreeMap<u16, Server>);

impl AllServers<'_> {
    fn connected(&mut self) -> impl Iterator<Item = &mut RemotePlane> {
        let planes = self.0.values_mut().map(|server| &mut server.plane);
        planes.filter(|plane| plane.is_connected())
    }
}

impl PlaneControl for AllServers<'_> {
    fn apply(&mut self, change: &Change, made: Option<EntryId>) -> Result<(), ControlError> {
        self.apply_to(change, made, &[])
    }

    fn apply_to(
        &mut self,
        change: &Change,
        made: Option<EntryId>,
        touched: &[Arc<Entry>],
    ) -> Result<(), ControlError> {
        let zero = match change {
            // The first one has what all have counted.
            Change::WriteDirectCounter(table, entry, _) => {
                let zero = CounterReading::default();
                Some(Change::WriteDirectCounter(*table, *entry, zero))
            }
            _ => None,
        };
        let mut encoded = None;
        for (at, plane) in self.connected().enumerate() {
            match &zero {
                Some(zero) if at > 0 => plane.apply_to(zero, made, touched)?,
                _ if plane.note(change, made) => {}
                _ => {
                    let (updates, kinds) = match &encoded {
                        Some(encoded) => encoded,
                        None => {
                            let new = plane.encode_for_servers(change, made, touched)?;
                            encoded.insert(new)
                        }
                    };
                    plane.queue_encoded(updates, kinds);
                }
            }
        }
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
