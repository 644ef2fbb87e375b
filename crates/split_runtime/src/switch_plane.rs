//! A switch's side of the coordinator's protocol: the extension of its control loop.

use std::sync::{Arc, Mutex, PoisonError};

use bits::Value;
use exec::DropReason;
use ir::{ActionCall, TableId};
use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::group_change::Change as GroupChange;
use p4rt::{Any, controller_metadata, entry_number};
use packet::{Nanos, PortId};
use passes::split::SplitPlan;
use placement::{GroupError, ServerId, SketchSize};
use runtime::ControlExtension;
use split::{
    DevicePlane, EntryIds, EntryPolicy, FlightOptions, Order, OrderedChanges, OrderedPlane,
    PlaneControl, PoolOwners, PoolParts, Requests, ServerPort,
};
use switch::{Action, Change, Device, EntryId};

use crate::agreement::{Agreement, Silence};
use crate::messages::{from_plane, program_hash, read_to_plane};
use crate::outbox::{Outbox, USE_INTERVAL, entry_uses};
use crate::request_log::RequestLog;

/// Number of ids of entries that are gone, from which on they are forgotten.
const MANY_IDS: usize = 1024;

/// Parts of a switch that its extension uses.
pub struct SwitchParts {
    /// Requests that workers have logged.
    pub log: Arc<RequestLog>,
    /// The requests of all workers.
    pub requests: Arc<Requests>,
    /// Ports of servers.
    pub servers: Vec<ServerPort>,
    /// All ports.
    pub ports: Vec<PortId>,
    /// The split.
    pub plan: Arc<SplitPlan>,
}

/// Extension of the control loop of a switch. It reports requests and the use of entries, installs
/// entries in order, and changes the group.
pub struct SwitchExtension {
    program: u64,
    parts: SwitchParts,
    /// Mirrored tables, and those of which entries may have time-outs.
    tables: Vec<TableId>,
    ordered: OrderedChanges,
    ids: EntryIds,
    /// Entries of which the number may have changed.
    written: Arc<Mutex<Vec<(TableId, EntryId)>>>,
    /// Activations that wait: their numbers and entries.
    waiting: Vec<(u64, TableId, EntryId)>,
    window: Option<WindowClock>,
    /// Flows that servers know, for the change that has begun.
    known: Vec<(u32, ServerId)>,
    outbox: Outbox,
    last_uses: Nanos,
    agreement: Agreement,
    silence: Silence,
}

/// Length and begin of a window.
struct WindowClock {
    packets: u64,
    time: Nanos,
    begin: (u64, Nanos),
}

impl SwitchExtension {
    /// Creates the extension of a switch.
    pub fn new(device: &mut Device, parts: SwitchParts) -> SwitchExtension {
        let mirrored = parts.plan.mirrored.iter().map(|mirrored| mirrored.table);
        let mirrored: Vec<TableId> = mirrored.collect();
        let declared = &device.program().tables;
        let timed = declared.ids().filter(|table| declared[*table].idle_timeout);
        let mut tables: Vec<TableId> = mirrored.iter().copied().chain(timed).collect();
        tables.sort_unstable();
        tables.dedup();
        let program = program_hash(device.program());
        let written: Arc<Mutex<Vec<(TableId, EntryId)>>> = Arc::default();
        let noted = Arc::clone(&written);
        let followed = mirrored.clone();
        device.follow(move |record| {
            if let Change::SetMetadata(table, entry, _) = &record.change
                && followed.contains(table)
            {
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.push((*table, *entry));
            }
        });
        let stale = DropReason::named(b"stale_response");
        SwitchExtension {
            program,
            tables,
            ordered: OrderedChanges::new(Arc::clone(&parts.plan), Order::Loose),
            ids: EntryIds::new(mirrored),
            written,
            waiting: Vec::new(),
            window: None,
            known: Vec::new(),
            outbox: Outbox::default(),
            last_uses: Nanos::ZERO,
            agreement: Agreement::new(stale, parts.plan.frame.epoch),
            silence: Silence::default(),
            parts,
        }
    }

    /// Takes over the coordinator's numbers of entries that it has written.
    fn note_numbers(&mut self, device: &Device) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for (table, own) in written.drain(..) {
            let entry = device.configuration().tables[table].get(own);
            let number = entry.and_then(|entry| entry_number(&controller_metadata(&entry)));
            if let Some(number) = number {
                self.ids.set(table, number, own);
            }
        }
        drop(written);
        let tables = &device.configuration().tables;
        let held: usize = self.tables.iter().map(|table| tables[*table].len()).sum();
        if self.ids.len() > 2 * held + MANY_IDS {
            self.ids.keep(|table, own| tables[table].contains(own));
        }
    }

    /// Begins to activate an entry: its packets fly until earlier ones are answered.
    fn activate(&mut self, device: &mut Device, activation: wire::Activation) {
        let number = activation.number;
        let (table, entry) = (TableId::new(activation.table), EntryId(activation.entry));
        match self.begin_activation(device, activation) {
            Ok(()) if self.ordered.is_waiting(table, entry) => {
                self.waiting.push((number, table, entry));
            }
            Ok(()) => self.activated(number, String::new(), false),
            Err(error) => self.activated(number, error, false),
        }
    }

    fn begin_activation(
        &mut self,
        device: &mut Device,
        activation: wire::Activation,
    ) -> Result<(), String> {
        let table = TableId::new(activation.table);
        let entry = EntryId(activation.entry);
        if self.parts.plan.mirrored_table(table).is_none() {
            return Err(format!("there is no mirrored table {}", activation.table));
        }
        let action = activation.action as usize;
        let declared = device.program().tables[table].actions.get(action);
        let code = declared.and_then(|declared| device.program().actions.get(declared.action));
        let Some(code) = code else {
            return Err(format!("the table has no action {action}"));
        };
        let widths = code.params.iter().map(|param| param.ty.width());
        let args = widths.zip(&activation.args);
        let args = args.map(|(width, bytes)| Value::from_be_bytes(bytes, width));
        let args: Result<Vec<Value>, _> = args.collect();
        let args = args.map_err(|error| error.to_string())?;
        if args.len() != code.params.len() {
            return Err("the action has another number of parameters".to_owned());
        }
        let call = ActionCall { action, args };
        let timeout = activation.idle_timeout_ns.map(Nanos);
        let change = Change::Modify(table, entry, Action::Call(call), timeout);
        self.note_numbers(device);
        let mut plane = DevicePlane {
            device,
            ids: &mut self.ids,
        };
        if plane.keys(table, entry).is_none() {
            return Err("the switch has no such entry".to_owned());
        }
        self.ordered.set_time(plane.device.now());
        let mut plane = OrderedPlane {
            plane: &mut plane,
            changes: &mut self.ordered,
            requests: &self.parts.requests,
        };
        let applied = plane.apply(&change, Some(entry));
        device.publish();
        applied.map_err(|error| error.to_string())
    }

    fn activated(&mut self, number: u64, error: String, is_late: bool) {
        self.outbox.push(&wire::FromPlane {
            activated: vec![wire::Activated {
                number,
                error,
                is_late,
            }],
            ..wire::FromPlane::default()
        });
    }

    /// Activates the entries that may work now.
    fn advance(&mut self, device: &mut Device) {
        while self.ordered.waiting() > 0 {
            let now = device.now();
            let mut plane = DevicePlane {
                device: &mut *device,
                ids: &mut self.ids,
            };
            let refused = self.ordered.advance(&self.parts.requests, &mut plane, now);
            device.publish();
            let Some(refused) = refused else { break };
            let mut waiting = self.waiting.iter();
            let at = waiting
                .position(|(_, table, entry)| (*table, *entry) == (refused.table, refused.entry));
            if let Some(at) = at {
                let (number, ..) = self.waiting.remove(at);
                let error = match &refused.error {
                    Some(error) => error.to_string(),
                    None => "earlier packets were not answered in time".to_owned(),
                };
                self.activated(number, error, refused.error.is_none());
            }
        }
        if self.waiting.len() > self.ordered.waiting() {
            let waiting = std::mem::take(&mut self.waiting);
            let is_open = |(_, table, entry): &(u64, TableId, EntryId)| {
                self.ordered.is_waiting(*table, *entry)
            };
            let (open, done): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_open);
            self.waiting = open;
            for (number, ..) in done {
                self.activated(number, String::new(), false);
            }
        }
    }

    /// Gives the flows of a server to the others. If it is the last one, requests are dropped.
    fn fail(&self, server: u16) {
        // A server that is not in the group has no flows.
        let _ = self.parts.requests.fail(ServerId(server));
    }

    /// Begins a change of the group.
    ///
    /// # Errors
    /// The change is not possible: the cause.
    fn begin_change(&mut self, change: Option<GroupChange>) -> Result<(), String> {
        self.known.clear();
        let requests = &self.parts.requests;
        let begun = match change {
            Some(GroupChange::Join(join)) => {
                let server = ServerId(u16::try_from(join.server).unwrap_or(0));
                let known = self
                    .parts
                    .servers
                    .iter()
                    .find(|known| known.server == server);
                let port = match (join.port, known) {
                    (Some(port), _) => PortId(port),
                    (None, Some(known)) => known.port,
                    (None, None) => {
                        return Err(format!(
                            "the switch has no port for server {}: give --port",
                            server.0
                        ));
                    }
                };
                if !self.parts.ports.contains(&port) {
                    return Err(format!(
                        "port {port} of the switch has no interface: start it with --port \
                         {port}=INTERFACE"
                    ));
                }
                let port = ServerPort { server, port };
                let joined = requests.join(port);
                if joined.is_ok() {
                    self.parts.servers.retain(|known| known.server != server);
                    self.parts.servers.push(port);
                }
                joined
            }
            Some(GroupChange::Leave(server)) => {
                requests.leave(ServerId(u16::try_from(server).unwrap_or(0)))
            }
            Some(GroupChange::Renew(_)) => requests.renew(),
            None => Err(GroupError::NoChange),
        };
        begun.map_err(|error| error.to_string())
    }

    /// Completes a change of the group with the flows that servers know.
    fn complete_change(&mut self, number: u64) {
        let requests = &self.parts.requests;
        let mut result = wire::GroupResult {
            number,
            is_completed: true,
            ..wire::GroupResult::default()
        };
        let mut known = std::mem::take(&mut self.known);
        // A request that arrives in between is in both lists.
        known.extend(requests.flows_on_their_way());
        known.sort_unstable_by_key(|(flow, server)| (*flow, server.0));
        known.dedup();
        let mut flows: Vec<u32> = known.iter().map(|(flow, _)| *flow).collect();
        flows.dedup();
        // Flows that ended need no pin any more.
        requests.keep_pins(&flows);
        let before = requests.group().pins;
        let pinned = match requests.group().is_changing {
            true => requests.pin_missing(&known),
            // A server that was the last one is back.
            false => Ok(0),
        };
        match pinned {
            Ok(pinned) => result.pinned = pinned as u32,
            Err(GroupError::PinsFull { .. }) => {
                result.pinned = (requests.group().pins - before) as u32;
            }
            Err(error) => result.error = error.to_string(),
        }
        if result.error.is_empty() && requests.group().is_changing {
            match requests.commit(&known) {
                Ok(()) => {}
                Err(GroupError::Unpinned { flows }) => result.waiting = flows as u32,
                Err(error) => result.error = error.to_string(),
            }
        }
        if !result.error.is_empty() {
            requests.cancel();
        }
        self.outbox.push(&wire::FromPlane {
            group_result: Some(result),
            ..wire::FromPlane::default()
        });
    }

    fn report_group(&mut self, device: &Device) {
        let requests = &self.parts.requests;
        let status = requests.group();
        let numbers = |servers: &[ServerId]| servers.iter().map(|one| one.0.into()).collect();
        let port_of = |server: &ServerId| wire::ServerPort {
            server: server.0.into(),
            port: {
                let known = self
                    .parts
                    .servers
                    .iter()
                    .find(|known| known.server == *server);
                known.map(|known| known.port.0)
            },
        };
        let state = wire::GroupState {
            members: status.members.iter().map(port_of).collect(),
            leaving: numbers(&status.leaving),
            down: numbers(&status.down),
            pins: status.pins as u64,
            is_changing: status.is_changing,
            error_rate: status.error_rate,
            sent: requests.sent(),
            unanswered: requests.unanswered(),
            lost: requests.lost(),
            lost_to_failed: requests.down(),
            held: requests.held(),
            overtaken: requests.overtaken(),
            packets: received(device, requests),
        };
        self.outbox.push(&wire::FromPlane {
            group: Some(state),
            ..wire::FromPlane::default()
        });
    }

    fn set_pools(&self, pools: &[wire::PoolParts]) {
        self.parts.requests.set_owners(|name| {
            let mut pools = pools.iter();
            let found = pools.find_map(|parts| {
                let pool = parts.pool.as_ref().filter(|pool| pool.name == name)?;
                Some((pool, parts.parts))
            });
            let (pool, parts) = found?;
            let owners: Arc<dyn PoolOwners> = Arc::new(PoolParts {
                size: pool.size,
                chunk: pool.chunk,
                parts,
                first: ServerId(1),
            });
            Some(owners)
        });
    }

    fn set_placement(
        &mut self,
        device: &Device,
        placement: &wire::Placement,
    ) -> Result<(), String> {
        let Some(policy) = EntryPolicy::named(&placement.policy) else {
            return Err(format!("there is no policy `{}`", placement.policy));
        };
        self.ordered.set_order(match placement.is_strict {
            true => Order::Strict,
            false => Order::Loose,
        });
        let requests = &self.parts.requests;
        let EntryPolicy::Windows(policy) = policy else {
            requests.count_flights(None);
            self.window = None;
            return Ok(());
        };
        requests.count_flights(Some(&FlightOptions {
            policy,
            sketch: SketchSize {
                columns: placement.sketch_columns.clamp(1, 1 << 24),
                rows: placement.sketch_rows.clamp(1, 16),
            },
            reports: (placement.reports as usize).min(1 << 22),
        }));
        self.window = Some(WindowClock {
            packets: placement.window_packets,
            time: Nanos(placement.window_ns),
            begin: (received(device, requests), device.now()),
        });
        Ok(())
    }

    /// Ends a window if it is over.
    fn end_window(&mut self, device: &Device) {
        let requests = &self.parts.requests;
        let Some(window) = &mut self.window else {
            return;
        };
        let (packets, now) = (received(device, requests), device.now());
        let is_over = match window.packets {
            0 => now.since(window.begin.1) >= window.time,
            length => packets.saturating_sub(window.begin.0) >= length,
        };
        // Without a packet nothing changes.
        if !is_over || packets == window.begin.0 {
            return;
        }
        window.begin = (packets, now);
        let Some(flights) = requests.end_window() else {
            return;
        };
        let counts = flights.counts(|cut| requests.key_bytes(cut));
        let reports = counts.reports.into_iter().map(|report| wire::FlightReport {
            cut: report.cut.into(),
            key: report.key,
            packets: report.packets,
        });
        let window = wire::WindowCounts {
            flown: counts.flown,
            reports: reports.collect(),
            hits: entry_hits(device, &self.parts.plan),
            lost: flights.lost(),
        };
        self.outbox.push(&wire::FromPlane {
            window: Some(window),
            ..wire::FromPlane::default()
        });
    }
}

/// Returns the number of packets that a switch received without those of servers.
fn received(device: &Device, requests: &Requests) -> u64 {
    // Workers count meanwhile.
    let answered = requests.sent().saturating_sub(requests.unanswered());
    device.ledger().received.saturating_sub(answered)
}

/// Returns the hits of the coordinator's entries in mirrored tables.
fn entry_hits(device: &Device, plan: &SplitPlan) -> Vec<wire::EntryHits> {
    let mut hits = Vec::new();
    for mirrored in &plan.mirrored {
        let entries = &device.configuration().tables[mirrored.table];
        for entry in entries.iter() {
            let number = entry_number(&controller_metadata(&entry));
            let usage = entries.usage_of(Some(entry.id));
            if let (Some(number), Some(usage)) = (number, usage) {
                hits.push(wire::EntryHits {
                    table: mirrored.table.get(),
                    entry: number.0,
                    hits: usage.hits,
                });
            }
        }
    }
    hits
}

impl ControlExtension for SwitchExtension {
    fn receive(&mut self, device: &mut Device, message: &Any) -> Result<(), String> {
        let message = read_to_plane(message)?;
        let number = |server: u32| u16::try_from(server).unwrap_or(0);
        for server in message.failed_servers {
            self.fail(number(server));
        }
        if message.hello {
            // What the coordinator before has asked for is not asked for any more.
            self.ordered.abandon(&self.parts.requests);
            self.parts.requests.cancel();
            self.waiting.clear();
            self.known.clear();
            self.outbox = Outbox::default();
            self.outbox.push(&wire::FromPlane {
                hello: Some(wire::Hello {
                    program: self.program,
                    ..wire::Hello::default()
                }),
                ..wire::FromPlane::default()
            });
        }
        if !message.pools.is_empty() {
            self.set_pools(&message.pools);
        }
        if message.cancel {
            self.parts.requests.cancel();
        }
        if let Some(change) = message.change {
            let begun = self.begin_change(change.change);
            self.outbox.push(&wire::FromPlane {
                group_result: Some(wire::GroupResult {
                    number: change.number,
                    error: begun.err().unwrap_or_default(),
                    ..wire::GroupResult::default()
                }),
                ..wire::FromPlane::default()
            });
        }
        let known = message.known_flows.iter();
        let known = known.map(|known| (known.flow, ServerId(number(known.server))));
        self.known.extend(known);
        if let Some(query) = message.complete {
            self.complete_change(query.number);
        }
        if message.report_group {
            self.report_group(device);
        }
        for threshold in message.thresholds {
            let cut = u16::try_from(threshold.cut).unwrap_or(0);
            self.parts.requests.set_threshold(cut, threshold.packets);
        }
        let placed = match &message.placement {
            Some(placement) => self.set_placement(device, placement),
            None => Ok(()),
        };
        for activation in message.activations {
            self.activate(device, activation);
        }
        placed
    }

    fn turn(&mut self, device: &mut Device, send: &mut dyn FnMut(Any) -> bool) {
        self.note_numbers(device);
        self.ordered.set_time(device.now());
        self.advance(device);
        self.end_window(device);
        let requests = self.parts.log.take();
        if self.window.is_none() && !requests.is_empty() {
            let requests = requests.into_iter().map(|(cut, key)| wire::Request {
                cut: cut.into(),
                key,
            });
            let message = wire::FromPlane {
                requests: requests.collect(),
                ..wire::FromPlane::default()
            };
            // They are a sample: without room, later ones follow.
            send(from_plane(&message));
        }
        let now = device.now();
        if now >= self.last_uses + USE_INTERVAL {
            let uses = entry_uses(device, &self.tables, self.last_uses);
            self.last_uses = now;
            self.outbox.uses(&uses);
        }
        self.outbox.send(send);
    }

    fn take_notice(&mut self, device: &Device) -> Option<String> {
        let notice = self.agreement.notice(device);
        notice.or_else(|| self.silence.notice(&self.parts.requests, device.now()))
    }
}
