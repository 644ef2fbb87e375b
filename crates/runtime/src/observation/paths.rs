//! Counts of packets by their way through a program: the tables with their entries and actions, and
//! how it ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec::{DropReason, TraceEvent};
use ir::{ActionId, Program, TableId};
use packet::PortId;
use switch::EntryId;

/// Maximum number of different ways. Packets of further ones are counted together.
const MAX_PATHS: usize = 256;

/// Maximum number of lookups of a way. A recirculating packet may have any number.
const MAX_LOOKUPS: usize = 64;

/// Maximum number of ends of a way: a packet may have any number of copies.
const MAX_ENDS: usize = 64;

/// Lookup of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LookedUp {
    pub(super) table: TableId,
    pub(super) is_hit: bool,
    pub(super) entry: Option<EntryId>,
    pub(super) action: Option<ActionId>,
}

/// End of a packet or of one of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PathEnd {
    Sent(PortId),
    Dropped(DropReason),
    /// In a queue of this port.
    Queued(PortId),
}

/// Way of a packet through a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PacketPath {
    pub(super) port: PortId,
    pub(super) lookups: Vec<LookedUp>,
    pub(super) ends: Vec<PathEnd>,
}

impl PacketPath {
    /// Returns the way of a packet that arrived by `port` with these steps.
    pub(super) fn new(port: PortId, steps: &[TraceEvent]) -> PacketPath {
        let mut path = PacketPath {
            port,
            lookups: Vec::new(),
            ends: Vec::new(),
        };
        // True between a lookup and its action.
        let mut is_open = false;
        for step in steps {
            match step {
                TraceEvent::Lookup {
                    table, hit, entry, ..
                } => {
                    is_open = path.lookups.len() < MAX_LOOKUPS;
                    if is_open {
                        path.lookups.push(LookedUp {
                            table: *table,
                            is_hit: *hit,
                            entry: *entry,
                            action: None,
                        });
                    }
                }
                TraceEvent::Action { action, .. } => {
                    if let Some(lookup) = path.lookups.last_mut().filter(|_| is_open) {
                        lookup.action = Some(*action);
                    }
                    is_open = false;
                }
                TraceEvent::Stage { .. } | TraceEvent::Block { .. } => is_open = false,
                TraceEvent::Queued { port, .. } => path.end(PathEnd::Queued(PortId(*port))),
                TraceEvent::Dequeued { port } => {
                    let queued = PathEnd::Queued(PortId(*port));
                    if let Some(at) = path.ends.iter().position(|end| *end == queued) {
                        path.ends.remove(at);
                    }
                }
                TraceEvent::Sent { port, .. } => path.end(PathEnd::Sent(PortId(*port))),
                TraceEvent::Dropped { reason, .. } => path.end(PathEnd::Dropped(*reason)),
                _ => {}
            }
        }
        path
    }

    fn end(&mut self, end: PathEnd) {
        if self.ends.len() < MAX_ENDS {
            self.ends.push(end);
        }
    }
}

/// Number of packets of a way, and of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PathCount {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// Counts of one program.
#[derive(Clone, Default)]
pub(super) struct PathCounts {
    /// The program by which packets went last. Its ways are counted.
    pub(super) program: Option<Arc<Program>>,
    pub(super) paths: HashMap<PacketPath, PathCount>,
    /// Packets of ways beyond those that are counted, and of earlier programs.
    pub(super) others: u64,
}

impl PathCounts {
    /// Returns the number of packets.
    pub(super) fn packets(&self) -> u64 {
        self.others + self.paths.values().map(|count| count.packets).sum::<u64>()
    }

    fn count(&mut self, program: &Arc<Program>, path: PacketPath, bytes: usize) {
        let own = self.program.as_ref();
        if own.is_none_or(|own| !Arc::ptr_eq(own, program)) {
            // Numbers of tables and entries belong to a program.
            self.others = self.packets();
            self.paths.clear();
            self.program = Some(Arc::clone(program));
        }
        let has_room = self.paths.len() < MAX_PATHS;
        let count = match self.paths.get_mut(&path) {
            Some(count) => count,
            None if has_room => self.paths.entry(path).or_default(),
            None => {
                self.others += 1;
                return;
            }
        };
        count.packets += 1;
        count.bytes += bytes as u64;
    }
}

/// Counts of packets by their way, which all workers share.
#[derive(Default)]
pub(super) struct PathTable(Mutex<PathCounts>);

impl PathTable {
    /// Counts a packet that arrived by `port` with these steps.
    pub(super) fn count(
        &self,
        program: &Arc<Program>,
        port: PortId,
        bytes: usize,
        steps: &[TraceEvent],
    ) {
        let path = PacketPath::new(port, steps);
        self.lock().count(program, path, bytes);
    }

    /// Returns the counts.
    pub(super) fn lock(&self) -> MutexGuard<'_, PathCounts> {
        // Each change leaves the counts as they should be.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::DropDetail;
    use ir::{ControlId, StageId};

    fn lookup(table: u32, hit: bool) -> TraceEvent {
        TraceEvent::Lookup {
            table: TableId::new(table),
            key: Vec::new(),
            hit,
            entry: hit.then_some(EntryId(7)),
            member: None,
            group: None,
        }
    }

    fn action(number: u32) -> TraceEvent {
        TraceEvent::Action {
            action: ActionId::new(number),
            params: Vec::new(),
        }
    }

    #[test]
    fn a_way_has_the_actions_of_its_tables_and_its_ends() {
        let stage = TraceEvent::Stage {
            control: ControlId::new(0),
            stage: StageId::new(0),
        };
        let queued = |port| TraceEvent::Queued {
            port,
            priority: 0,
            depth: 0,
        };
        let steps = [
            lookup(0, true),
            action(3),
            action(4),
            stage,
            action(5),
            lookup(1, false),
            queued(1),
            queued(2),
            TraceEvent::Dequeued { port: 1 },
            TraceEvent::Dropped {
                reason: DropReason::Egress,
                detail: DropDetail::None,
            },
        ];
        let path = PacketPath::new(PortId(9), &steps);
        let actions: Vec<_> = path.lookups.iter().map(|lookup| lookup.action).collect();
        assert_eq!(actions, [Some(ActionId::new(3)), None]);
        assert_eq!(path.lookups[0].entry, Some(EntryId(7)));
        let ends = [
            PathEnd::Queued(PortId(2)),
            PathEnd::Dropped(DropReason::Egress),
        ];
        assert_eq!(path.ends, ends);
    }

    #[test]
    fn the_number_of_ways_is_bounded_and_all_packets_are_counted() {
        let table = PathTable::default();
        let program = Arc::new(Program::empty("one", ir::Arch::V1model));
        for port in 0..MAX_PATHS as u32 + 10 {
            for _ in 0..2 {
                table.count(&program, PortId(port), 60, &[]);
            }
        }
        assert_eq!(table.lock().paths.len(), MAX_PATHS);
        assert_eq!(table.lock().others, 20);
        let next = Arc::new(Program::empty("two", ir::Arch::V1model));
        table.count(&next, PortId(0), 60, &[]);
        let counts = table.lock();
        assert_eq!((counts.paths.len(), counts.packets()), (1, 2 * 266 + 1));
    }
}
