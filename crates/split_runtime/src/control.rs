//! The loop of the coordinator: controllers on one side, planes on the other.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ir::{Program, TableId};
use p4info::polyplane::split::v1 as wire;
use p4rt::client::Endpoint;
use p4rt::{Inbox, RequestReceiver, SplitRequest};
use packet::Nanos;
use passes::split::{SplitPlan, SplitProgram};
use port::{Poller, Port, Signal};
use runtime::ProcessSetup;
use split::{Coordinator, Order, PlaneControl, SplitPlacement, WindowCounts, with_actions_of};
use support::wakeup::WakeupFd;
use switch::{Change, KeptCells, Storage, StorageError};

use crate::all_servers::spread;
use crate::code_change::CodeTask;
use crate::commit_queue::{CommitQueue, WaitingCommits};
use crate::connection::{Connection, PlaneAddress, PlaneEvent};
use crate::group_change::GroupTask;
use crate::group_control::Joining;
use crate::messages::{flight_report, learned_change};
use crate::relay::ControllerPackets;
use crate::remote_plane::RemotePlane;
use crate::update_queue::Answers;

/// Maximum sleep of the loop.
const MAX_SLEEP: Duration = Duration::from_millis(100);

/// Maximum number of events of planes in one turn of the loop.
const MAX_EVENTS: usize = 256;

/// Interval of refreshes of timers, idle entries and counters.
const REFRESH: Duration = Duration::from_millis(500);

/// Interval of comparisons of the switch with what it must hold.
const AUDIT: Duration = Duration::from_secs(10);

/// Divisor of the time that each kind of periodic work takes at most.
const PERIODIC_SHARE: u32 = 20;

/// Number of refusals that are kept for operators.
const MAX_REFUSALS: usize = 16;

/// Time after its connection within which a server has reported its entries.
const REPORT_TIME: Duration = Duration::from_secs(60);

/// Interval of questions about the group.
const GROUP_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Placement of entries.
    pub placement: SplitPlacement,
    /// Order of the packets of a flow.
    pub order: Order,
    /// Storage of the whole tables; `None`: they are lost with the coordinator.
    pub store: Option<StateStore>,
}

/// Storage of the coordinator's state.
pub struct StateStore {
    /// The storage.
    pub storage: Box<dyn Storage>,
    /// Cells that are stored beside the configuration.
    pub cells: KeptCells,
    /// True if it has the present state.
    pub has_it: bool,
}

/// The coordinator's ends of the channels to its P4Runtime server.
pub struct ControllerEnds {
    /// Requests of controllers.
    pub inbox: Inbox,
    /// Packets of controllers.
    pub cpu_port: Box<dyn Port>,
    /// Requests of operators.
    pub operators: RequestReceiver<SplitRequest>,
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
    pub(crate) coordinator: Coordinator,
    pub(crate) inbox: Inbox,
    pub(crate) packets: ControllerPackets,
    operators: RequestReceiver<SplitRequest>,
    commits: CommitQueue,
    waiting: WaitingCommits<Vec<(ConnectionNumber, u64)>>,
    pub(crate) switch: RemotePlane,
    /// The servers, by number.
    pub(crate) servers: BTreeMap<u16, Server>,
    pub(crate) halves: Halves,
    pub(crate) placement: SplitPlacement,
    pub(crate) order: Order,
    /// Mirrored tables with direct counters.
    counted: Vec<TableId>,
    /// Other tables with direct counters.
    counted_in_switch: Vec<TableId>,
    events: Receiver<(PlaneKey, ConnectionNumber, PlaneEvent)>,
    wakeup: Arc<WakeupFd>,
    pub(crate) start: Instant,
    /// The last reason why the switch is not connected.
    pub(crate) switch_reason: String,
    pub(crate) switch_address: String,
    /// The last change of the group.
    pub(crate) task: Option<GroupTask>,
    /// The last change that an operator asked for, if `task` is a later one.
    pub(crate) asked_change: Option<wire::ChangeState>,
    /// The last change of the C code.
    pub(crate) code: Option<CodeTask>,
    pub(crate) joining: Option<Joining>,
    /// The group, as the switch last reported it.
    pub(crate) group: wire::GroupState,
    /// Reports of the last window, by table.
    pub(crate) reports: BTreeMap<TableId, u64>,
    /// The last refusals, for operators.
    pub(crate) refusals: VecDeque<String>,
    pub(crate) next_renew: Instant,
    /// Servers that left by an operator's command.
    pub(crate) left: BTreeSet<u16>,
}

/// Number of a server, or `None` for the switch.
type PlaneKey = Option<u16>;

/// Number of a connection. A server that joins again with another address has another one.
pub(crate) type ConnectionNumber = u64;

/// A server.
pub(crate) struct Server {
    pub(crate) plane: RemotePlane,
    pub(crate) address: String,
    /// The last reason why it is not connected.
    pub(crate) reason: String,
    /// Its pools, and the number of servers that share them.
    pub(crate) pools: (u32, Vec<wire::Pool>),
    /// Flows that it knew at the last change of the group.
    pub(crate) flows: u64,
    /// Time at which it was connected last.
    connected: Instant,
}

/// The programs of the planes, and what connections to them need.
pub(crate) struct Halves {
    pub(crate) plan: Arc<SplitPlan>,
    switch: Arc<Program>,
    server: Arc<Program>,
    election: u128,
    sender: Sender<(PlaneKey, ConnectionNumber, PlaneEvent)>,
    next_connection: Cell<ConnectionNumber>,
    wakeup: Arc<WakeupFd>,
    /// Endpoint of the switch. Servers that join have the same TLS settings.
    pub(crate) endpoint: Endpoint,
    pub(crate) device: u64,
}

impl Halves {
    /// Starts to connect to a plane.
    ///
    /// # Errors
    /// The operating system provides no thread or descriptor.
    fn connect(&self, spec: PlaneSpec) -> std::io::Result<RemotePlane> {
        let sender = self.sender.clone();
        let wakeup = Arc::clone(&self.wakeup);
        let (name, program, mirrored) = match spec.server {
            Some(id) => (format!("server {id}"), &self.server, None),
            None => (
                "switch".to_owned(),
                &self.switch,
                Some(self.plan.mirrored.clone()),
            ),
        };
        let address = PlaneAddress {
            name: name.clone(),
            endpoint: spec.endpoint,
            device: spec.device,
            election: self.election,
            program: Arc::clone(program),
            server: spec.server,
        };
        let key = spec.server;
        let number = self.next_connection.get();
        self.next_connection.set(number + 1);
        let connection = Connection::start(address, move |event| {
            // The loop may have ended.
            let _ = sender.send((key, number, event));
            wakeup.wake();
        })?;
        let connection = (number, connection);
        let program = Arc::clone(program);
        Ok(RemotePlane::new(name, connection, program, mirrored))
    }

    pub(crate) fn connect_server(&self, spec: PlaneSpec) -> std::io::Result<Server> {
        let address = spec.endpoint.address.clone();
        Ok(Server {
            plane: self.connect(spec)?,
            address,
            reason: String::new(),
            pools: (1, Vec::new()),
            flows: 0,
            connected: Instant::now(),
        })
    }
}

impl CoordinatorLoop {
    /// Starts to connect to the planes. The coordinator has its entries.
    ///
    /// # Errors
    /// The operating system provides no threads or descriptors.
    pub fn start(
        program: &SplitProgram,
        mut coordinator: Coordinator,
        ends: ControllerEnds,
        options: CoordinatorOptions,
    ) -> Result<CoordinatorLoop, CoordinatorError> {
        let commits = CommitQueue::default();
        let wakeup = Arc::new(WakeupFd::armed().map_err(CoordinatorError)?);
        let (store, cells, has_it) = match options.store {
            Some(store) => (Some(store.storage), store.cells, store.has_it),
            None => (None, KeptCells::default(), true),
        };
        let storage = commits.storage(store, Arc::clone(&wakeup));
        coordinator.whole_mut().keep_in(storage, cells, has_it);
        let (sender, events) = channel();
        let halves = Halves {
            plan: Arc::new(program.plan.clone()),
            switch: Arc::new(program.switch.clone()),
            server: Arc::new(program.server.clone()),
            election: options.election,
            sender,
            next_connection: Cell::new(1),
            wakeup: Arc::clone(&wakeup),
            endpoint: options.switch.endpoint.clone(),
            device: options.switch.device,
        };
        let switch_address = options.switch.endpoint.address.clone();
        let switch = halves.connect(options.switch).map_err(CoordinatorError)?;
        let mut servers = BTreeMap::new();
        for spec in options.servers {
            if let Some(id) = spec.server {
                let server = halves.connect_server(spec).map_err(CoordinatorError)?;
                servers.insert(id, server);
            }
        }
        let tables = &program.whole.tables;
        let is_mirrored = |id: &TableId| {
            let mut mirrored = program.plan.mirrored.iter();
            mirrored.any(|mirrored| mirrored.table == *id)
        };
        let counted = tables
            .ids()
            .filter(|id| tables[*id].direct_counter.is_some());
        let (counted, counted_in_switch) = counted.partition(is_mirrored);
        // No plane is connected, so no entry is in the switch yet.
        let placed = coordinator.set_placement(&options.placement, &mut split::NoPlane);
        placed.map_err(|error| CoordinatorError(std::io::Error::other(error)))?;
        let start = Instant::now();
        Ok(CoordinatorLoop {
            coordinator,
            inbox: ends.inbox,
            packets: ControllerPackets::new(ends.cpu_port),
            operators: ends.operators,
            commits,
            waiting: WaitingCommits::default(),
            switch,
            servers,
            halves,
            placement: options.placement,
            order: options.order,
            counted,
            counted_in_switch,
            events,
            wakeup,
            start,
            switch_reason: String::new(),
            switch_address,
            task: None,
            asked_change: None,
            code: None,
            joining: None,
            group: wire::GroupState::default(),
            reports: BTreeMap::new(),
            refusals: VecDeque::new(),
            next_renew: start,
            left: BTreeSet::new(),
        })
    }

    /// Returns the time of the whole device.
    pub(crate) fn now(&self) -> Nanos {
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
        let mut next_group = self.start + GROUP_INTERVAL;
        loop {
            if let Some(signal) = stop.take_signal() {
                return Ok(signal);
            }
            let now = self.now();
            self.set_now(now);
            let has_jobs = self.inbox.serve(self.coordinator.whole_mut(), false);
            let has_more = self.send_packets() || has_jobs;
            self.coordinator.whole_mut().step(now);
            self.wakeup.rearm();
            let mut has_more = has_more;
            for taken in 1..=MAX_EVENTS {
                let Ok((plane, number, event)) = self.events.try_recv() else {
                    break;
                };
                has_more |= taken == MAX_EVENTS;
                // A connection of which the server joined again with another address has no say.
                let current = self.plane_mut(plane).map(|plane| plane.number);
                if current == Some(number) {
                    self.take_event(plane, event, note);
                }
            }
            while let Some(request) = self.operators.take() {
                let answer = self.operate(request.task, note);
                request.answer.give(answer);
            }
            self.advance_group();
            self.advance_code();
            self.propagate(note);
            if Instant::now() >= next_refresh {
                let begin = Instant::now();
                self.refresh(now, note);
                next_refresh = next_time(begin, REFRESH);
            }
            if Instant::now() >= next_audit {
                let begin = Instant::now();
                self.audit(note);
                self.forget_gone();
                next_audit = next_time(begin, AUDIT);
            }
            if Instant::now() >= next_group {
                next_group = Instant::now() + GROUP_INTERVAL;
                self.to_switch(wire::ToPlane {
                    report_group: true,
                    ..wire::ToPlane::default()
                });
            }
            if has_more {
                continue;
            }
            let fds = stop.signal_fd().into_iter();
            let own = [
                self.inbox.wake_fd(),
                self.wakeup.fd(),
                self.operators.wake_fd(),
            ];
            let own = own.into_iter().chain(self.packets.wake_fd());
            poller
                .wait(fds.chain(own), MAX_SLEEP)
                .map_err(CoordinatorError)?;
        }
    }

    fn set_now(&mut self, now: Nanos) {
        self.switch.set_now(now.0);
        let servers = self.servers.values_mut();
        servers.for_each(|server| server.plane.set_now(now.0));
    }

    /// Sends a message to the switch, if it is one of ours.
    pub(crate) fn to_switch(&self, message: wire::ToPlane) {
        if self.switch.is_connected() {
            self.switch.connection.send(message);
        }
    }

    /// Sends the changes of the whole tables to the planes, and ends the commits of controllers.
    pub(crate) fn propagate(&mut self, note: &mut dyn FnMut(&str)) {
        let CoordinatorLoop {
            coordinator,
            switch,
            servers,
            ..
        } = self;
        for refused in switch.take_not_installed() {
            coordinator.not_installed(refused, switch);
        }
        spread(coordinator, switch, servers);
        let refused = coordinator.take_refused();
        let mut errors: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let mut results: Vec<(PlaneKey, Answers)> = Vec::new();
        // The switch gives up entries before servers change.
        results.push((None, switch.settle_updates()));
        for (id, server) in servers.iter_mut() {
            let answers = server.plane.take_answers();
            server.plane.send();
            results.push((Some(*id), answers));
        }
        let refused = results.iter();
        let refused = refused.filter_map(|(_, answers)| answers.refused.as_ref());
        errors.extend(refused.map(|(_, error)| error.clone()));
        self.finish_commits(&results, errors.first());
        for (_, answers) in &results {
            errors.extend(answers.refused_move.clone());
        }
        for error in errors {
            note(&format!("a change is refused: {error}"));
            self.refusals.push_back(error);
        }
        while self.refusals.len() > MAX_REFUSALS {
            self.refusals.pop_front();
        }
        for (plane, answers) in results {
            if answers.is_silent {
                let silent = format!("{}: it does not answer", self.name(plane));
                self.reconnect(plane);
                self.take_event(plane, PlaneEvent::Disconnected(silent), note);
            } else if answers.refused.is_some() || answers.refused_move.is_some() {
                self.synchronise(plane, note);
            }
        }
    }

    /// Ends the commits of which all connected servers have the changes. After a refusal all others
    /// fail: they are undone together.
    fn finish_commits(&mut self, results: &[(PlaneKey, Answers)], error: Option<&String>) {
        let servers = self.servers.values();
        let queued = servers.map(|server| (server.plane.number, server.plane.updates().queued()));
        let queued: Vec<(ConnectionNumber, u64)> = queued.collect();
        for commit in self.commits.take() {
            self.waiting.push(queued.clone(), commit);
        }
        let answered = |(number, target): &(ConnectionNumber, u64)| {
            let mut servers = self.servers.iter();
            let server = servers.find(|(_, server)| server.plane.number == *number);
            let Some((id, server)) = server else {
                // It has left.
                return true;
            };
            let own = results.iter().find(|(key, _)| *key == Some(*id));
            let refused = own.and_then(|(_, answers)| answers.refused.as_ref());
            server.plane.updates().answered() >= *target
                && refused.is_none_or(|(refused, _)| refused > target)
        };
        let switch_refused = results
            .iter()
            .any(|(key, answers)| key.is_none() && answers.refused.is_some());
        if !switch_refused {
            self.waiting.finish(|targets| targets.iter().all(&answered));
        }
        if let Some(error) = error {
            self.waiting.fail(&StorageError {
                is_full: false,
                message: error.clone(),
            });
        }
    }

    pub(crate) fn plane_mut(&mut self, plane: PlaneKey) -> Option<&mut RemotePlane> {
        match plane {
            None => Some(&mut self.switch),
            Some(id) => self.servers.get_mut(&id).map(|server| &mut server.plane),
        }
    }

    fn name(&self, plane: PlaneKey) -> String {
        match plane {
            None => "switch".to_owned(),
            Some(id) => format!("server {id}"),
        }
    }

    fn reconnect(&mut self, plane: PlaneKey) {
        if let Some(plane) = self.plane_mut(plane) {
            plane.connection.reconnect();
        }
    }

    /// Makes a plane hold its state. Returns false if that fails; then the connection begins again.
    fn synchronise(&mut self, key: PlaneKey, note: &mut dyn FnMut(&str)) -> bool {
        // The state has these changes already: the plane must not get them once more.
        spread(&mut self.coordinator, &mut self.switch, &mut self.servers);
        let state = match key {
            None => self.coordinator.switch_state(),
            Some(_) => self.coordinator.server_state(&self.halves.server),
        };
        let Some(plane) = self.plane_mut(key) else {
            return false;
        };
        let was_connected = plane.is_connected();
        match plane.synchronise(state, false) {
            Ok(_) => true,
            Err(error) => {
                note(&error);
                plane.disconnected();
                plane.connection.reconnect();
                if let Some(id) = key.filter(|_| was_connected) {
                    self.coordinator.goes_away(id);
                }
                false
            }
        }
    }

    fn take_event(&mut self, key: PlaneKey, event: PlaneEvent, note: &mut dyn FnMut(&str)) {
        if self.plane_mut(key).is_none() {
            // The server has left.
            return;
        }
        match event {
            PlaneEvent::Connected(hello) => self.take_connected(key, hello, note),
            PlaneEvent::Disconnected(reason) => {
                let plane = self.plane_mut(key);
                let was_connected = plane.is_some_and(|plane| {
                    let was_connected = plane.is_connected();
                    plane.disconnected();
                    was_connected
                });
                let known = match key {
                    None => &mut self.switch_reason,
                    Some(id) => match self.servers.get_mut(&id) {
                        Some(server) => &mut server.reason,
                        None => return,
                    },
                };
                if *known != reason {
                    note(&reason);
                    known.clone_from(&reason);
                }
                if !was_connected {
                    return;
                }
                let messages = match (key, &mut self.task) {
                    (Some(id), Some(task)) => task.lost_server(id, Instant::now()),
                    (None, Some(task)) => task.fail(reason),
                    (_, None) => Vec::new(),
                };
                self.send_all(messages);
                if let Some(id) = key {
                    self.coordinator.goes_away(id);
                    self.fail_server(id);
                    self.lost_server_of_code(id);
                }
            }
            PlaneEvent::Answered => {}
            PlaneEvent::Message(message) => self.take_message(key, *message.message, note),
            PlaneEvent::Packet(packet) if key.is_none() => self.take_packet(&packet.message),
            // Servers have no CPU port.
            PlaneEvent::Packet(..) => {}
            PlaneEvent::Digest(list) => self.take_digests(key, &list.message),
        }
    }

    fn take_connected(
        &mut self,
        key: PlaneKey,
        hello: Option<wire::Hello>,
        note: &mut dyn FnMut(&str),
    ) {
        match key {
            None => {
                self.switch_reason.clear();
                self.switch.is_ours = hello.is_some();
            }
            Some(id) => {
                if let Some(server) = self.servers.get_mut(&id) {
                    server.reason.clear();
                    server.connected = Instant::now();
                    let hello = hello.unwrap_or_default();
                    server.pools = (hello.group_size.max(1), hello.pools);
                }
            }
        }
        if !self.synchronise(key, note) {
            return;
        }
        note(&format!("{}: connected", self.name(key)));
        match key {
            None => {
                if !self.switch.is_ours && self.order == Order::Strict {
                    note(
                        "switch: it is no `polyplane split switch`: packets may overtake others of                          their flow when an entry moves, and only the policy `none` has an effect",
                    );
                }
                self.send_pools(note);
                self.send_placement();
            }
            Some(_) => self.send_pools(note),
        }
        self.to_switch(wire::ToPlane {
            report_group: true,
            ..wire::ToPlane::default()
        });
    }

    /// Sends the parts of the servers' pools to the switch.
    pub(crate) fn send_pools(&mut self, note: &mut dyn FnMut(&str)) {
        let mut pools: BTreeMap<String, wire::PoolParts> = BTreeMap::new();
        let mut with_pools = 0;
        let mut sizes: Vec<u32> = Vec::new();
        for server in self.servers.values() {
            let (group_size, own) = &server.pools;
            with_pools += usize::from(!own.is_empty());
            if !own.is_empty() {
                sizes.push(*group_size);
            }
            for pool in own {
                let parts = wire::PoolParts {
                    pool: Some(pool.clone()),
                    parts: *group_size,
                };
                pools.insert(pool.name.clone(), parts);
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        let largest = sizes.last().copied().unwrap_or(1);
        if sizes.len() > 1 || with_pools > largest as usize {
            note(
                "warning: servers lease the same values of their pools: start all of them with one \
                 --group-size, at least the number of servers",
            );
        }
        if !pools.is_empty() {
            self.to_switch(wire::ToPlane {
                pools: pools.into_values().collect(),
                ..wire::ToPlane::default()
            });
        }
    }

    /// Lets the switch count for the placement of entries.
    pub(crate) fn send_placement(&self) {
        let flights = self.placement.flight_options(&self.halves.plan);
        let threshold = self.placement.first_threshold();
        let cuts = 1..=self.halves.plan.cuts.len() as u32;
        self.to_switch(wire::ToPlane {
            placement: Some(crate::operator::placement_message(
                &self.placement,
                self.order,
                flights.map_or(0, |flights| flights.reports),
            )),
            thresholds: cuts
                .map(|cut| wire::Threshold {
                    cut,
                    packets: threshold,
                })
                .collect(),
            ..wire::ToPlane::default()
        });
    }

    fn take_message(
        &mut self,
        key: PlaneKey,
        message: wire::FromPlane,
        note: &mut dyn FnMut(&str),
    ) {
        let now = self.now().0;
        if let Some(id) = key {
            for change in message.handler_changes {
                self.learn(id, learned_change(change, now));
            }
            if let Some(result) = message.code_result {
                self.take_code_result(id, &result, note);
            }
            if let Some(list) = message.flows {
                if let Some(server) = self.servers.get_mut(&id) {
                    server.flows = list.flows.len() as u64;
                }
                let messages = match &mut self.task {
                    Some(task) => task.take_flows(id, &list, Instant::now()),
                    None => Vec::new(),
                };
                self.send_all(messages);
            }
        }
        if let Some(plane) = self.plane_mut(key) {
            plane.take_uses(message.uses);
        }
        if key.is_some() {
            return;
        }
        for request in message.requests {
            let cut = u16::try_from(request.cut).unwrap_or(0);
            if request.key.len() == self.coordinator.key_width(cut).div_ceil(8) {
                self.coordinator.asked(cut, &request.key, &mut self.switch);
            }
        }
        if let Some(result) = message.group_result {
            let servers = self.connected_servers();
            let messages = match &mut self.task {
                Some(task) => task.take_result(&result, &servers, Instant::now()),
                None => Vec::new(),
            };
            self.send_all(messages);
            if let Some(task) = self.task.as_ref().filter(|task| task.is_done()) {
                if let Some(id) = task.leaving().filter(|_| task.error.is_empty()) {
                    self.left.insert(id);
                }
                match task.error.is_empty() {
                    true => note(&format!("group: {}: complete", task.name)),
                    false => note(&format!("group: {}: {}", task.name, task.error)),
                }
            }
        }
        if let Some(group) = message.group {
            self.reconcile(group);
        }
        if let Some(window) = message.window {
            self.end_window(window);
        }
    }

    /// Moves entries at the end of a window.
    fn end_window(&mut self, window: wire::WindowCounts) {
        self.switch.take_hits(window.hits);
        let reports = window.reports.into_iter();
        let widths = |cut: u16| self.coordinator.key_width(cut).div_ceil(8);
        let reports = reports.filter_map(|report| flight_report(report, widths));
        let counts = WindowCounts {
            flown: window.flown,
            reports: reports.collect(),
        };
        let ended = self.coordinator.end_window(&counts, &mut self.switch);
        for table in ended {
            self.reports.insert(table.table, table.reports as u64);
        }
        let thresholds = self.coordinator.thresholds().into_iter();
        self.to_switch(wire::ToPlane {
            thresholds: thresholds
                .map(|(cut, packets)| wire::Threshold {
                    cut: cut.into(),
                    packets,
                })
                .collect(),
            ..wire::ToPlane::default()
        });
    }

    /// Takes over a change by a handler of a server. If another server was first with the key, its
    /// entry replaces the one of this server.
    fn learn(&mut self, server: u16, change: Change) {
        let CoordinatorLoop {
            coordinator,
            switch,
            servers,
            halves,
            ..
        } = self;
        let server_program = &*halves.server;
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
            && coordinator.has_missed_removal(server, *table, entry)
        {
            let removal = Change::Forget(*table, entry.id, entry.key.clone());
            if let Some(server) = servers.get_mut(&server) {
                // As below.
                let _ = server.plane.apply(&removal, None);
            }
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
                    if let Some(server) = servers.get_mut(&server) {
                        // Changes of handlers are only queued, and never refused.
                        let _ = server.plane.apply(&change, None);
                    }
                }
            }
            return;
        }
        let mut others: Vec<&mut dyn PlaneControl> = Vec::new();
        for (id, other) in servers.iter_mut() {
            if *id != server {
                others.push(&mut other.plane);
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
        for server in servers.values_mut() {
            planes.push(&mut server.plane);
        }
        coordinator.refresh(switch, &mut planes);
        for table in &self.counted {
            let planes = servers.values_mut().map(|server| &mut server.plane);
            for plane in planes.chain([&mut *switch]) {
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
            .values()
            .map(|server| &server.plane as &dyn PlaneControl)
            .collect();
        coordinator.collect_counters(switch, &planes);
        // A plane without a connection may use entries, unless no packet goes to it.
        let group = &self.group;
        let is_idle = |id: u16| {
            let number = u32::from(id);
            let mut members = group.members.iter();
            !group.members.is_empty()
                && !members.any(|member| member.server == number)
                && !group.leaving.contains(&number)
        };
        let mut all = servers.iter();
        if !switch.is_connected()
            || !all.all(|(id, server)| server.plane.is_connected() || is_idle(*id))
        {
            return;
        }
        let idle = coordinator.take_idle(now, switch, &planes);
        for (table, id) in idle {
            let entries = &coordinator.whole().configuration().tables[table];
            if let Some(entry) = entries.get(id) {
                self.inbox.idle(coordinator.whole(), table, vec![entry]);
            }
        }
    }

    /// Forgets what planes have reported of entries that are gone.
    fn forget_gone(&mut self) {
        let CoordinatorLoop {
            coordinator,
            switch,
            servers,
            ..
        } = self;
        coordinator.forget_gone();
        for (id, server) in servers.iter() {
            if server.plane.is_connected() && server.connected.elapsed() > REPORT_TIME {
                coordinator.is_back(*id);
            }
        }
        let servers = servers.values_mut().map(|server| &mut server.plane);
        for plane in servers.chain([switch]) {
            plane.forget_gone(coordinator);
        }
    }

    /// Compares the switch with what it must hold, and corrects and reports differences: another
    /// controller may have written to it.
    fn audit(&mut self, note: &mut dyn FnMut(&str)) {
        if !self.switch.is_connected() || self.switch.is_activating() {
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

/// Returns the time of the next turn of periodic work that began at `begin` and has ended now. It
/// takes one part in `PERIODIC_SHARE` of the time at most.
fn next_time(begin: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    now + interval.max(now.duration_since(begin) * PERIODIC_SHARE)
}
