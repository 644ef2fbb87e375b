//! The loop of the coordinator: controllers on one side, planes on the other.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ir::{Program, TableId};
use p4info::polyplane::split::v1 as wire;
use p4rt::Inbox;
use p4rt::client::Endpoint;
use packet::Nanos;
use passes::split::SplitProgram;
use port::{Poller, Signal};
use runtime::ProcessSetup;
use split::{Coordinator, PlaneControl, with_actions_of};
use support::wakeup::WakeupFd;
use switch::{Change, KeptCells};

use crate::commit_queue::CommitQueue;
use crate::connection::{Connection, PlaneAddress, PlaneEvent};
use crate::messages::learned_change;
use crate::remote_plane::RemotePlane;

/// Maximum sleep of the loop.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Interval of refreshes of timers, idle entries and counters.
const REFRESH: Duration = Duration::from_millis(500);

/// Interval of comparisons of the switch with what it must hold.
const AUDIT: Duration = Duration::from_secs(10);

/// Address of a plane.
#[derive(Clone, Debug)]
pub struct PlaneSpec {
    /// Number of the server; `None` for the switch.
    pub server: Option<u16>,
    /// Its P4Runtime server.
    pub endpoint: Endpoint,
    /// Its device id there.
    pub device: u64,
}

/// Options of a coordinator.
pub struct CoordinatorOptions {
    /// The switch.
    pub switch: PlaneSpec,
    /// The servers.
    pub servers: Vec<PlaneSpec>,
    /// Election id at the planes.
    pub election: u128,
}

/// Error of a coordinator's start or wait.
#[derive(Debug)]
pub struct CoordinatorError(std::io::Error);

impl fmt::Display for CoordinatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the coordinator cannot run: {}", self.0)
    }
}

impl std::error::Error for CoordinatorError {}

/// The coordinator of a switch and servers in other processes.
pub struct CoordinatorLoop {
    coordinator: Coordinator,
    inbox: Inbox,
    commits: CommitQueue,
    switch: RemotePlane,
    servers: Vec<RemotePlane>,
    server_program: Arc<Program>,
    /// Mirrored tables with direct counters.
    counted: Vec<TableId>,
    /// Other tables with direct counters.
    counted_in_switch: Vec<TableId>,
    /// Events with the number of the plane: 0 is the switch.
    events: Receiver<(usize, PlaneEvent)>,
    wakeup: Arc<WakeupFd>,
    start: Instant,
    /// The last reasons why planes are not connected.
    reasons: Vec<String>,
    /// Numbers of the servers.
    server_ids: Vec<u16>,
    /// For each server, true if the connection to it was lost.
    has_failed: Vec<bool>,
}

impl CoordinatorLoop {
    /// Starts to connect to the planes. The coordinator has its entries.
    ///
    /// # Errors
    /// The operating system provides no threads or descriptors.
    pub fn start(
        program: &SplitProgram,
        mut coordinator: Coordinator,
        inbox: Inbox,
        options: CoordinatorOptions,
    ) -> Result<CoordinatorLoop, CoordinatorError> {
        let commits = CommitQueue::default();
        let storage = Box::new(commits.clone());
        coordinator
            .whole_mut()
            .keep_in(storage, KeptCells::default(), true);
        let wakeup = Arc::new(WakeupFd::armed().map_err(CoordinatorError)?);
        let (sender, events) = channel();
        let server_program = Arc::new(program.server.clone());
        let switch_program = Arc::new(program.switch.clone());
        let connect = |number, spec: PlaneSpec, program: &Arc<Program>| {
            let events: Sender<(usize, PlaneEvent)> = sender.clone();
            let wakeup = Arc::clone(&wakeup);
            let name = match spec.server {
                Some(id) => format!("server {id}"),
                None => "switch".to_owned(),
            };
            let address = PlaneAddress {
                name: name.clone(),
                endpoint: spec.endpoint,
                device: spec.device,
                election: options.election,
                program: Arc::clone(program),
                server: spec.server,
            };
            let connection = Connection::start(address, move |event| {
                // The loop may have ended.
                let _ = events.send((number, event));
                wakeup.wake();
            });
            let connection = connection.map_err(CoordinatorError)?;
            let program = Arc::clone(program);
            Ok(RemotePlane::new(
                name,
                connection,
                program,
                spec.server.is_some(),
            ))
        };
        let switch = connect(0, options.switch, &switch_program)?;
        let ids = options.servers.iter().filter_map(|spec| spec.server);
        let server_ids: Vec<u16> = ids.collect();
        let servers = (1..).zip(options.servers);
        let servers = servers.map(|(number, spec)| connect(number, spec, &server_program));
        let servers: Vec<RemotePlane> = servers.collect::<Result<_, CoordinatorError>>()?;
        let tables = &program.whole.tables;
        let is_mirrored = |id: &TableId| {
            let mut mirrored = program.plan.mirrored.iter();
            mirrored.any(|mirrored| mirrored.table == *id)
        };
        let counted = tables
            .ids()
            .filter(|id| tables[*id].direct_counter.is_some());
        let (counted, counted_in_switch) = counted.partition(is_mirrored);
        let reasons = vec![String::new(); servers.len() + 1];
        let has_failed = vec![false; servers.len()];
        Ok(CoordinatorLoop {
            coordinator,
            inbox,
            commits,
            switch,
            servers,
            server_program,
            counted,
            counted_in_switch,
            events,
            wakeup,
            start: Instant::now(),
            reasons,
            server_ids,
            has_failed,
        })
    }

    /// Returns the time of the whole device.
    fn now(&self) -> Nanos {
        Nanos::from(self.start.elapsed())
    }

    /// Runs until a signal requests a stop. `note` gets lines about planes.
    ///
    /// # Errors
    /// The process cannot wait.
    pub fn run(
        &mut self,
        stop: &ProcessSetup,
        note: &mut dyn FnMut(&str),
    ) -> Result<Signal, CoordinatorError> {
        let mut poller = Poller::new();
        let mut next_refresh = self.start + REFRESH;
        let mut next_audit = self.start + AUDIT;
        loop {
            if let Some(signal) = stop.take_signal() {
                return Ok(signal);
            }
            let now = self.now();
            self.set_now(now);
            let has_more = self.inbox.serve(self.coordinator.whole_mut(), false);
            self.coordinator.whole_mut().step(now);
            self.wakeup.rearm();
            while let Ok((number, event)) = self.events.try_recv() {
                self.take_event(number, event, note);
            }
            self.propagate(note);
            if Instant::now() >= next_refresh {
                next_refresh = Instant::now() + REFRESH;
                self.refresh(now, note);
            }
            if Instant::now() >= next_audit {
                next_audit = Instant::now() + AUDIT;
                self.audit(note);
            }
            if has_more {
                continue;
            }
            let fds = stop.signal_fd().into_iter();
            let fds = fds.chain([self.inbox.wake_fd(), self.wakeup.fd()]);
            poller.wait(fds, MAX_SLEEP).map_err(CoordinatorError)?;
        }
    }

    fn set_now(&mut self, now: Nanos) {
        let planes = self.servers.iter_mut().chain([&mut self.switch]);
        planes.for_each(|plane| plane.set_now(now.0));
    }

    /// Sends the changes of the whole tables to the planes, and ends the commits of controllers.
    fn propagate(&mut self, note: &mut dyn FnMut(&str)) {
        let CoordinatorLoop {
            coordinator,
            switch,
            servers,
            ..
        } = self;
        let mut planes: Vec<&mut dyn PlaneControl> = Vec::new();
        for server in servers.iter_mut() {
            planes.push(server);
        }
        coordinator.propagate(switch, &mut planes);
        let mut errors: Vec<String> = Vec::new();
        let refused = coordinator.take_refused();
        errors.extend(refused.iter().map(ToString::to_string));
        // The switch gives up entries before servers change.
        let mut is_refused = vec![false; servers.len() + 1];
        let written = switch.begin_flush();
        if let Err(error) = switch.finish(written) {
            is_refused[0] = true;
            errors.push(error.message);
        }
        let written: Vec<_> = servers.iter_mut().map(RemotePlane::begin_flush).collect();
        for (at, written) in written.into_iter().enumerate() {
            if let Err(error) = servers[at].finish(written) {
                is_refused[at + 1] = true;
                errors.push(error.message);
            }
        }
        let result = match errors.first() {
            None => Ok(()),
            Some(first) => Err(first.clone()),
        };
        self.commits.finish(&result);
        for error in &errors {
            note(&format!("a change is refused: {error}"));
        }
        for (number, is_refused) in is_refused.into_iter().enumerate() {
            if is_refused {
                self.synchronise(number, note);
            }
        }
    }

    fn plane_mut(&mut self, number: usize) -> &mut RemotePlane {
        match number {
            0 => &mut self.switch,
            server => &mut self.servers[server - 1],
        }
    }

    /// Makes a plane hold its state. Returns false if that fails; then the connection begins again.
    fn synchronise(&mut self, number: usize, note: &mut dyn FnMut(&str)) -> bool {
        let state = match number {
            0 => self.coordinator.switch_state(),
            _ => self.coordinator.server_state(&self.server_program),
        };
        let plane = self.plane_mut(number);
        match plane.synchronise(state, false) {
            Ok(_) => true,
            Err(error) => {
                note(&error);
                plane.disconnected();
                plane.connection.reconnect();
                false
            }
        }
    }

    fn take_event(&mut self, number: usize, event: PlaneEvent, note: &mut dyn FnMut(&str)) {
        match event {
            PlaneEvent::Connected => {
                self.reasons[number].clear();
                let name = self.plane_mut(number).name.clone();
                if self.synchronise(number, note) {
                    note(&format!("{name}: connected"));
                    self.report_servers(number);
                }
            }
            PlaneEvent::Disconnected(reason) => {
                let was_connected = self.plane_mut(number).is_connected();
                self.plane_mut(number).disconnected();
                if was_connected && let Some(server) = number.checked_sub(1) {
                    self.has_failed[server] = true;
                    self.switch.connection.send(wire::ToPlane {
                        failed_servers: vec![self.server_ids[server].into()],
                        ..wire::ToPlane::default()
                    });
                }
                if self.reasons[number] != reason {
                    note(&reason);
                    self.reasons[number] = reason;
                }
            }
            PlaneEvent::Message(message) => self.take_message(number, *message),
        }
    }

    /// Reports failed and returned servers to the switch, after a plane was connected.
    fn report_servers(&mut self, connected: usize) {
        let mut message = wire::ToPlane::default();
        match connected.checked_sub(1) {
            None => {
                let failed = self.server_ids.iter().zip(&self.has_failed);
                let failed = failed.filter(|(_, has_failed)| **has_failed);
                message.failed_servers = failed.map(|(id, _)| (*id).into()).collect();
            }
            Some(server) if std::mem::take(&mut self.has_failed[server]) => {
                message.returned_servers = vec![self.server_ids[server].into()];
            }
            Some(_) => {}
        }
        if message != wire::ToPlane::default() {
            self.switch.connection.send(message);
        }
    }

    fn take_message(&mut self, number: usize, message: wire::FromPlane) {
        let now = self.now().0;
        for change in message.handler_changes {
            if number > 0 {
                self.learn(number - 1, learned_change(change, now));
            }
        }
        self.plane_mut(number).take_uses(message.uses);
        for request in message.requests {
            let cut = u16::try_from(request.cut).unwrap_or(0);
            if number == 0 && request.key.len() == self.coordinator.key_width(cut).div_ceil(8) {
                self.coordinator.asked(cut, &request.key, &mut self.switch);
            }
        }
    }

    /// Takes over a change by a handler of a server. If another server was first with the key, its
    /// entry replaces the one of this server.
    fn learn(&mut self, server: usize, change: Change) {
        let CoordinatorLoop {
            coordinator,
            switch,
            servers,
            server_program,
            ..
        } = self;
        let (Change::Learn(table, _)
        | Change::Relearn(table, _)
        | Change::Expire(table, _)
        | Change::Forget(table, ..)) = &change
        else {
            return;
        };
        if !coordinator.has_handlers(*table) {
            return;
        }
        if let Change::Learn(table, entry) = &change
            && let Some(first) = coordinator.learned_entry(*table, &entry.key)
        {
            let first = Change::Learn(*table, first);
            let first = with_actions_of(&first, coordinator.whole().program(), server_program);
            let is_same = matches!(
                &first,
                Change::Learn(_, first) if first.action == entry.action && first.id == entry.id
            );
            if !is_same {
                let removal = Change::Forget(*table, entry.id, entry.key.clone());
                for change in [removal, first] {
                    // Changes of handlers are only queued, and never refused.
                    let _ = servers[server].apply(&change, None);
                }
            }
            return;
        }
        let mut others: Vec<&mut dyn PlaneControl> = Vec::new();
        for (at, other) in servers.iter_mut().enumerate() {
            if at != server {
                others.push(other);
            }
        }
        coordinator.learned(&change, server_program, switch, &mut others);
    }

    /// Restarts timers, reports idle entries, and reads what the planes have counted.
    fn refresh(&mut self, now: Nanos, note: &mut dyn FnMut(&str)) {
        let CoordinatorLoop {
            coordinator,
            switch,
            servers,
            ..
        } = self;
        let mut planes: Vec<&mut dyn PlaneControl> = Vec::new();
        for server in servers.iter_mut() {
            planes.push(server);
        }
        coordinator.refresh(switch, &mut planes);
        for table in &self.counted {
            for plane in servers.iter_mut().chain([&mut *switch]) {
                if let Err(error) = plane.read_counters(*table) {
                    note(&format!("{}: {error}", plane.name));
                }
            }
        }
        for table in &self.counted_in_switch {
            if let Err(error) = switch.read_counters(*table) {
                note(&format!("{}: {error}", switch.name));
            }
        }
        match switch.read_cells() {
            Ok(changes) => {
                for change in changes {
                    coordinator.set_quietly(change);
                }
            }
            Err(error) => note(&format!("{}: {error}", switch.name)),
        }
        let planes: Vec<&dyn PlaneControl> = servers
            .iter()
            .map(|server| server as &dyn PlaneControl)
            .collect();
        coordinator.collect_counters(switch, &planes);
        // A plane without a connection may use entries.
        if !switch.is_connected() || !servers.iter().all(RemotePlane::is_connected) {
            return;
        }
        let idle = coordinator.take_idle(now, switch, &planes);
        for (table, id) in idle {
            let entries = &coordinator.whole().configuration().tables[table];
            if let Some(entry) = entries.get(id) {
                let entries = vec![Arc::clone(entry)];
                self.inbox.idle(coordinator.whole(), table, entries);
            }
        }
    }

    /// Compares the switch with what it must hold, and corrects and reports differences: another
    /// controller may have written to it.
    fn audit(&mut self, note: &mut dyn FnMut(&str)) {
        if !self.switch.is_connected() {
            return;
        }
        let state = self.coordinator.switch_state();
        match self.switch.synchronise(state, true) {
            Ok(found) if found.any() => note(&format!(
                "switch: corrected entries that another controller has changed: {} missing, {} changed, \
                 {} unknown",
                found.missing, found.changed, found.unknown
            )),
            Ok(_) => {}
            Err(error) => note(&error),
        }
    }
}
