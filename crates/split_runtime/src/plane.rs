//! The planes' side of the coordinator's protocol: extensions of the control loops of a switch and
//! of a server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ir::TableId;
use p4info::polyplane::split::v1 as wire;
use p4rt::Any;
use packet::Nanos;
use placement::{GroupError, ServerId};
use runtime::ControlExtension;
use split::{DevicePlane, EntryIds, PlaneControl, Requests, ServerPort};
use switch::{Change, ControlCode, Device, Record};

use crate::messages::{
    MAX_ITEMS, from_plane, handler_change, learned_change, program_hash, read_to_plane,
};
use crate::request_log::RequestLog;

/// Interval between two reports of used entries.
const USE_INTERVAL: Nanos = Nanos::from_millis(500);

/// Messages that wait for room in the queue of events.
#[derive(Default)]
struct Outbox(VecDeque<Any>);

impl Outbox {
    fn push(&mut self, message: &wire::FromPlane) {
        self.0.push_back(from_plane(message));
    }

    fn handler_changes(&mut self, changes: &[wire::HandlerChange]) {
        for part in changes.chunks(MAX_ITEMS) {
            self.push(&wire::FromPlane {
                handler_changes: part.to_vec(),
                ..wire::FromPlane::default()
            });
        }
    }

    fn uses(&mut self, uses: &[wire::EntryUse]) {
        for part in uses.chunks(MAX_ITEMS) {
            self.push(&wire::FromPlane {
                uses: part.to_vec(),
                ..wire::FromPlane::default()
            });
        }
    }

    fn send(&mut self, send: &mut dyn FnMut(Any) -> bool) {
        while let Some(message) = self.0.front() {
            if !send(message.clone()) {
                return;
            }
            self.0.pop_front();
        }
    }
}

/// Returns the entries of the coordinator that packets have used since a time.
fn entry_uses(device: &Device, tables: &[TableId], since: Nanos) -> Vec<wire::EntryUse> {
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
            if let Some(number) = p4rt::entry_number(&p4rt::controller_metadata(entry)) {
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

/// Extension of the control loop of a server. It exchanges the entries of handlers.
pub struct ServerExtension {
    id: u16,
    program: u64,
    /// Changes by this server's handlers that are not reported yet.
    learned: Arc<Mutex<Vec<Record>>>,
    /// Mirrored tables.
    tables: Vec<TableId>,
    /// Those of which entries of controllers may have time-outs.
    timed: Vec<TableId>,
    outbox: Outbox,
    last_uses: Nanos,
}

impl ServerExtension {
    /// Creates the extension of a server with this number.
    pub fn new(
        device: &mut Device,
        id: u16,
        tables: impl IntoIterator<Item = TableId>,
    ) -> ServerExtension {
        let learned: Arc<Mutex<Vec<Record>>> = Arc::default();
        let noted = Arc::clone(&learned);
        device.follow(move |record| {
            if record.change.is_learned() {
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.push(record.clone());
            }
        });
        let tables: Vec<TableId> = tables.into_iter().collect();
        let is_timed = |table: &TableId| device.program().tables[*table].idle_timeout;
        ServerExtension {
            id,
            program: program_hash(device.program()),
            learned,
            timed: tables.iter().copied().filter(is_timed).collect(),
            tables,
            outbox: Outbox::default(),
            last_uses: Nanos::ZERO,
        }
    }

    fn take_learned(&self) -> Vec<Record> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *learned)
    }

    /// Reports this server and all entries of handlers that it has.
    fn report_all(&mut self, device: &Device) {
        self.outbox.push(&wire::FromPlane {
            hello: Some(wire::Hello {
                program: self.program,
                server: self.id.into(),
            }),
            ..wire::FromPlane::default()
        });
        let now = device.now().0;
        // They are among the entries.
        self.take_learned();
        let mut changes = Vec::new();
        for &table in &self.tables {
            let learned = device.configuration().learned[table].as_deref();
            let entries = learned
                .map(table::LearningTable::entries)
                .unwrap_or_default();
            changes.extend(
                entries
                    .into_iter()
                    .filter_map(|entry| handler_change(&Change::Learn(table, entry), now)),
            );
        }
        self.outbox.handler_changes(&changes);
    }

    /// Applies changes by handlers of other servers.
    fn apply(
        &mut self,
        device: &mut Device,
        changes: Vec<wire::HandlerChange>,
    ) -> Result<(), String> {
        let own = self.take_learned();
        let now = device.now().0;
        let mut first_error = Ok(());
        for change in changes {
            match device.apply(learned_change(change, now)) {
                // The entry has expired or was removed here, too, or it is here already.
                Err(error)
                    if matches!(
                        error.code,
                        ControlCode::NotFound | ControlCode::AlreadyExists
                    ) => {}
                Err(error) if first_error.is_ok() => first_error = Err(error.to_string()),
                _ => {}
            }
        }
        device.publish();
        // The records of what came from others are not reported.
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        *learned = own;
        first_error
    }

    /// Returns the entries of handlers that packets have used since the last report.
    fn handler_uses(&self, device: &Device) -> Vec<wire::EntryUse> {
        let now = device.now().0;
        let mut uses = Vec::new();
        for &table in &self.tables {
            let Some(learned) = device.configuration().learned[table].as_deref() else {
                continue;
            };
            for entry in learned.entries() {
                if entry.idle_timeout_ns.is_some() && entry.timer_start_ns > self.last_uses.0 {
                    uses.push(wire::EntryUse {
                        table: table.get(),
                        entry: 0,
                        key: entry.key.to_vec(),
                        age_ns: now.saturating_sub(entry.timer_start_ns),
                    });
                }
            }
        }
        uses
    }
}

impl ControlExtension for ServerExtension {
    fn receive(&mut self, device: &mut Device, message: &Any) -> Result<(), String> {
        let message = read_to_plane(message)?;
        if message.hello {
            self.report_all(device);
        }
        let applied = self.apply(device, message.handler_changes);
        let now = device.now().0;
        let mut ids = EntryIds::default();
        let mut plane = DevicePlane {
            device,
            ids: &mut ids,
        };
        for used in message.uses {
            let table = TableId::new(used.table);
            let learned = match self.tables.contains(&table) {
                true => plane.device.configuration().learned[table].as_deref(),
                false => None,
            };
            if learned.is_some_and(|learned| learned.shape().limbs() == used.key.len()) {
                plane.touch(table, &used.key, now.saturating_sub(used.age_ns));
            }
        }
        applied
    }

    fn turn(&mut self, device: &mut Device, send: &mut dyn FnMut(Any) -> bool) {
        let now = device.now();
        let changes = self.take_learned();
        let changes: Vec<wire::HandlerChange> = changes
            .iter()
            .filter_map(|record| handler_change(&record.change, now.0))
            .collect();
        self.outbox.handler_changes(&changes);
        if now >= self.last_uses + USE_INTERVAL {
            let mut uses = self.handler_uses(device);
            uses.extend(entry_uses(device, &self.timed, self.last_uses));
            self.last_uses = now;
            self.outbox.uses(&uses);
        }
        self.outbox.send(send);
    }
}

/// Extension of the control loop of a switch. It reports requests and the use of entries.
pub struct SwitchExtension {
    program: u64,
    log: Arc<RequestLog>,
    /// Mirrored tables, and those of which entries may have time-outs.
    tables: Vec<TableId>,
    requests: Arc<Requests>,
    servers: Vec<ServerPort>,
    outbox: Outbox,
    last_uses: Nanos,
}

impl SwitchExtension {
    /// Creates the extension of a switch with this log of requests, and with these servers.
    pub fn new(
        device: &Device,
        log: Arc<RequestLog>,
        (requests, servers): (Arc<Requests>, Vec<ServerPort>),
        tables: impl IntoIterator<Item = TableId>,
    ) -> SwitchExtension {
        let mut tables: Vec<TableId> = tables.into_iter().collect();
        let declared = &device.program().tables;
        let timed = declared.ids().filter(|table| declared[*table].idle_timeout);
        tables.extend(timed);
        tables.sort_unstable();
        tables.dedup();
        SwitchExtension {
            program: program_hash(device.program()),
            log,
            requests,
            servers,
            tables,
            outbox: Outbox::default(),
            last_uses: Nanos::ZERO,
        }
    }

    /// Gives the flows of a server to the others. If it is the last one, requests are dropped.
    fn fail(&self, server: u16) {
        // A server that is not in the group has no flows.
        let _ = self.requests.fail(ServerId(server));
    }

    /// Adds a server to the group again.
    ///
    /// # Errors
    /// The server has no port, or another change of the group is not complete.
    fn join(&self, server: u16) -> Result<(), String> {
        let mut servers = self.servers.iter();
        let Some(port) = servers.find(|port| port.server.0 == server) else {
            return Err(format!(
                "server {server} has no port: add --server {server}=PORT"
            ));
        };
        let failed = |error: GroupError| error.to_string();
        self.requests.join(*port).map_err(failed)?;
        if !self.requests.group().is_changing {
            return Ok(());
        }
        // Entries of handlers are at all servers, so only requests on their way need a pin.
        let known = self.requests.flows_on_their_way();
        let pinned = self.requests.pin_missing(&known);
        let committed = pinned.and_then(|_| self.requests.commit(&known));
        committed.map_err(|error| {
            self.requests.cancel();
            error.to_string()
        })
    }
}

impl ControlExtension for SwitchExtension {
    fn receive(&mut self, _: &mut Device, message: &Any) -> Result<(), String> {
        let message = read_to_plane(message)?;
        let number = |server: u32| u16::try_from(server).unwrap_or(0);
        for server in message.failed_servers {
            self.fail(number(server));
        }
        let returned = message.returned_servers.into_iter();
        let joined = returned.map(|server| self.join(number(server)));
        let joined = joined.fold(Ok(()), Result::and);
        if message.hello {
            self.outbox.push(&wire::FromPlane {
                hello: Some(wire::Hello {
                    program: self.program,
                    server: 0,
                }),
                ..wire::FromPlane::default()
            });
        }
        joined
    }

    fn turn(&mut self, device: &mut Device, send: &mut dyn FnMut(Any) -> bool) {
        let requests = self.log.take();
        if !requests.is_empty() {
            let requests = requests.into_iter().map(|(cut, key)| wire::Request {
                cut: cut.into(),
                key,
            });
            self.outbox.push(&wire::FromPlane {
                requests: requests.collect(),
                ..wire::FromPlane::default()
            });
        }
        let now = device.now();
        if now >= self.last_uses + USE_INTERVAL {
            let uses = entry_uses(device, &self.tables, self.last_uses);
            self.last_uses = now;
            self.outbox.uses(&uses);
        }
        self.outbox.send(send);
    }
}
