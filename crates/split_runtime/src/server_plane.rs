//! A server's side of the coordinator's protocol: the extension of its control loop.

use std::sync::{Arc, Mutex, PoisonError};

use exec::DropReason;
use ir::TableId;
use p4info::polyplane::split::v1 as wire;
use p4rt::Any;
use packet::Nanos;
use runtime::ControlExtension;
use split::{DevicePlane, EntryIds, KnownFlows, PlaneControl};
use switch::{Change, ControlCode, Device, Record};

use crate::agreement::Agreement;
use crate::change_queue::ChangeQueue;
use crate::messages::{MAX_ITEMS, learned_change, program_hash, read_to_plane};
use crate::outbox::{Outbox, USE_INTERVAL, entry_uses};
use crate::server_code::{HandlerSource, ServerCode};

/// Time without a packet after which a flow has ended, for changes of the group.
const FLOW_IDLE: Nanos = Nanos::from_millis(300_000);

/// Properties that a server reports of itself.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    /// Its number.
    pub id: u16,
    /// Number of servers that share the pools.
    pub group_size: u16,
    /// The pools of its handlers.
    pub pools: Vec<wire::Pool>,
    /// Epoch of its program.
    pub epoch: u16,
}

/// Extension of the control loop of a server. It exchanges the entries of handlers.
pub struct ServerExtension {
    server: ServerIdentity,
    program: u64,
    flows: Arc<KnownFlows>,
    /// Changes by this server's handlers that are not reported yet.
    learned: Arc<Mutex<Vec<Record>>>,
    /// Mirrored tables.
    tables: Vec<TableId>,
    /// Those of which entries of controllers may have time-outs.
    timed: Vec<TableId>,
    outbox: Outbox,
    /// Changes by this server's handlers that wait for room in the outbox.
    changes: ChangeQueue,
    last_uses: Nanos,
    code: ServerCode,
    agreement: Agreement,
}

impl ServerExtension {
    /// Creates the extension of a server, which knows these flows.
    pub fn new(
        device: &mut Device,
        server: ServerIdentity,
        flows: Arc<KnownFlows>,
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
        let stale = DropReason::named(b"stale_request");
        ServerExtension {
            agreement: Agreement::new(stale, server.epoch),
            server,
            flows,
            program: program_hash(device.program()),
            learned,
            timed: tables.iter().copied().filter(is_timed).collect(),
            tables,
            outbox: Outbox::default(),
            changes: ChangeQueue::default(),
            last_uses: Nanos::ZERO,
            code: ServerCode::default(),
        }
    }

    /// Lets the coordinator exchange the C code under traffic, by that of this source.
    pub fn with_code_of(mut self, source: Arc<dyn HandlerSource>) -> ServerExtension {
        self.code.source = Some(source);
        self
    }

    fn report_code(&mut self, result: wire::CodeResult) {
        self.outbox.push(&wire::FromPlane {
            code_result: Some(result),
            ..wire::FromPlane::default()
        });
    }

    /// Reports the flows that this server knows.
    fn report_flows(&mut self, now: Nanos, number: u64) {
        let flows = self.flows.since(Nanos(now.0.saturating_sub(FLOW_IDLE.0)));
        let mut parts = flows.chunks(MAX_ITEMS).peekable();
        loop {
            let part = parts.next().unwrap_or_default();
            let is_complete = parts.peek().is_none();
            self.outbox.push(&wire::FromPlane {
                flows: Some(wire::FlowList {
                    number,
                    flows: part.to_vec(),
                    is_complete,
                }),
                ..wire::FromPlane::default()
            });
            if is_complete {
                return;
            }
        }
    }

    /// Moves the records of changes by handlers into the queue.
    fn queue_learned(&mut self) {
        for record in self.take_learned() {
            self.changes.push(&record.change);
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
                server: self.server.id.into(),
                group_size: self.server.group_size.into(),
                pools: self.server.pools.clone(),
            }),
            ..wire::FromPlane::default()
        });
        // Added entries are among those of the tables; removed ones are not.
        self.queue_learned();
        self.changes.keep_removals();
        for &table in &self.tables {
            let learned = device.configuration().learned[table].as_deref();
            let entries = learned.map(table::LearningTable::entries);
            for entry in entries.unwrap_or_default() {
                self.changes.push(&Change::Learn(table, entry));
            }
        }
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
        if let Some(query) = message.list_flows {
            self.report_flows(device.now(), query.number);
        }
        if let Some(change) = &message.code
            && let Some(result) = self.code.step(change, device, &mut self.server.pools)
        {
            self.report_code(result);
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
        self.queue_learned();
        // The next report has what a slow coordinator misses now.
        if now >= self.last_uses + USE_INTERVAL && self.outbox.is_empty() {
            let mut uses = self.handler_uses(device);
            uses.extend(entry_uses(device, &self.timed, self.last_uses));
            self.last_uses = now;
            self.outbox.uses(&uses);
        }
        if let Some(result) = self.code.poll() {
            self.report_code(result);
        }
        self.outbox.send_changes(&mut self.changes, now, send);
    }

    fn take_notice(&mut self, device: &Device) -> Option<String> {
        self.agreement.notice(device)
    }
}
