//! A switch with its servers in one process, without links: the test bed of split programs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use exec::Engine;
use ir::TableId;
use packet::{Frame, Nanos, PortId};
use passes::split::{SplitPlan, SplitProgram};
use placement::{GroupError, GroupOptions, OptionsError, ServerId};
use switch::{
    Change, Device, DeviceConfig, EntryId, Ledger, LedgerError, LoadError, Object, ObjectPlace,
    PacketProcessor, Record,
};

use crate::coordinator::{Coordinator, TableWindow};
use crate::gate::MAX_HOLD;
use crate::links::{End, LinkOptions, Links};
use crate::mirror::{EntryPolicy, SplitPlacement, Window};
use crate::order::{OrderedChanges, OrderedPlane};
use crate::plane::{DevicePlane, EntryIds, PlaneControl};
use crate::requests::{Order, Requests, ServerPort, SwitchOptions};
use crate::server_half::{ServerFilter, ServerHalf};
use crate::switch_half::SwitchHalf;

/// First port of the switch for servers. v1model has no larger ports but the drop port and those
/// that programs use for processors.
const FIRST_SERVER_PORT: u32 = 0x1_0000;

/// Time without a packet after which a flow has ended, for changes of the group.
const FLOW_IDLE: Nanos = Nanos(300_000_000_000);

/// Maximum number of messages that wait to be taken.
const MAX_MESSAGES: usize = 4096;

/// Options of a switch with its servers.
#[derive(Clone, Debug, Default)]
pub struct LocalOptions {
    /// Number of servers, at least 1.
    pub servers: u16,
    /// Number of further servers, which can join the group.
    pub spare_servers: u16,
    /// Placement of entries.
    pub placement: SplitPlacement,
    /// Order of the packets of a flow.
    pub order: Order,
    /// Links between switch and servers.
    pub links: LinkOptions,
    /// Sizes of the group's tables.
    pub group: GroupOptions,
    /// Egress port of requests in the switch half.
    pub request_port: u32,
    /// Configuration of the devices.
    pub device: DeviceConfig,
}

/// Error of a start.
#[derive(Debug)]
pub enum StartError {
    /// A plane cannot be loaded: the plane, and the cause.
    Plane(&'static str, LoadError),
    /// A parameter of the placement is outside of its range.
    Placement(OptionsError),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Plane(plane, error) => write!(f, "{plane}: {error}"),
            StartError::Placement(error) => write!(f, "placement: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Result of a change of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GroupChange {
    /// Flows that the servers know.
    pub known: usize,
    /// Flows that were pinned to their servers.
    pub pinned: usize,
    /// Flows that need a pin and found none: the change waits until others end.
    pub waiting: usize,
}

/// A switch with its servers.
pub struct LocalSplit {
    coordinator: Coordinator,
    switch: SwitchHalf<Device>,
    switch_ids: EntryIds,
    ordered: OrderedChanges,
    servers: Vec<LocalServer>,
    links: Links,
    placement: SplitPlacement,
    /// Frames received in this window, and its begin.
    window: (u64, Nanos),
    windows: Vec<TableWindow>,
    /// Requests that ended at a failed server, and responses that the switch refused.
    discarded: u64,
    /// Messages of programs and handlers of all planes, in their order.
    messages: VecDeque<String>,
    now: Nanos,
    plan: Arc<SplitPlan>,
}

struct LocalServer {
    half: ServerHalf<Device>,
    ids: EntryIds,
    /// Changes of tables by handlers.
    learned: Arc<Mutex<Vec<Record>>>,
    is_down: bool,
}

impl LocalSplit {
    /// Starts the planes. `engine_of` returns the engine of the switch (`None`) and of each server,
    /// with its handlers.
    ///
    /// # Errors
    /// A half cannot be loaded.
    pub fn new(
        program: &SplitProgram,
        options: &LocalOptions,
        mut engine_of: impl FnMut(Option<u16>) -> Box<dyn Engine>,
    ) -> Result<LocalSplit, StartError> {
        let plan = Arc::new(program.plan.clone());
        let whole = Arc::new(program.whole.clone());
        let at = |plane: &'static str| move |error: LoadError| StartError::Plane(plane, error);
        let coordinator = Coordinator::new(whole, Arc::clone(&plan), &options.device)
            .map_err(at("coordinator"))?;
        let switch = Device::new(
            Arc::new(program.switch.clone()),
            &*engine_of(None),
            &options.device,
        )
        .map_err(at("switch half"))?;
        let server_program = Arc::new(program.server.clone());
        let mut servers = Vec::new();
        let first = options.servers.max(1);
        for number in 0..first + options.spare_servers {
            let engine = engine_of(Some(number));
            let mut device = Device::new(Arc::clone(&server_program), &*engine, &options.device)
                .map_err(at("server half"))?;
            let learned: Arc<Mutex<Vec<Record>>> = Arc::default();
            let noted = Arc::clone(&learned);
            device.follow(move |record| {
                if record.change.is_learned() {
                    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    noted.push(record.clone());
                }
            });
            servers.push(LocalServer {
                half: ServerHalf::new(device, ServerFilter::new(&plan.frame)),
                ids: EntryIds::default(),
                learned,
                is_down: false,
            });
        }
        let switch_options = SwitchOptions {
            servers: (0..first).map(port_of).collect(),
            request_port: options.request_port,
            group: options.group,
        };
        let requests = Requests::new(&plan, switch_options);
        let mirrored = plan.mirrored.iter().map(|mirrored| mirrored.table);
        let mut local = LocalSplit {
            coordinator,
            switch_ids: EntryIds::new(mirrored),
            switch: SwitchHalf::new(switch, Arc::new(requests)),
            ordered: OrderedChanges::new(Arc::clone(&plan), options.order),
            servers,
            links: Links::new(options.links),
            placement: SplitPlacement::default(),
            window: (0, Nanos(0)),
            windows: Vec::new(),
            discarded: 0,
            messages: VecDeque::new(),
            now: Nanos(0),
            plan,
        };
        local
            .set_placement(&options.placement)
            .map_err(StartError::Placement)?;
        Ok(local)
    }

    /// Sets the placement of entries. All entries leave the switch.
    ///
    /// # Errors
    /// An option is outside of its range; then nothing changes.
    pub fn set_placement(&mut self, placement: &SplitPlacement) -> Result<(), OptionsError> {
        let LocalSplit {
            coordinator,
            switch,
            switch_ids,
            ordered,
            ..
        } = self;
        let requests = Arc::clone(switch.requests());
        let mut plane = DevicePlane {
            device: switch.inner_mut(),
            ids: switch_ids,
        };
        let mut plane = OrderedPlane {
            plane: &mut plane,
            changes: ordered,
            requests: &requests,
        };
        coordinator.set_placement(placement, &mut plane)?;
        let flights = placement.flight_options(&self.plan);
        requests.count_flights(flights.as_ref());
        self.set_thresholds(placement.first_threshold());
        self.placement = *placement;
        self.window = (0, self.now);
        Ok(())
    }

    fn set_thresholds(&self, threshold: u64) {
        for cut in 1..=self.plan.cuts.len() as u16 {
            self.switch.requests().set_threshold(cut, threshold);
        }
    }

    /// Returns what each window since the last call has done.
    pub fn take_windows(&mut self) -> Vec<TableWindow> {
        std::mem::take(&mut self.windows)
    }

    /// Adds a server to the group.
    ///
    /// # Errors
    /// There is no such server, it is in the group, or another change is not complete.
    pub fn join(&mut self, server: ServerId) -> Result<GroupChange, GroupError> {
        let Some(local) = self.servers.get_mut(usize::from(server.0)) else {
            return Err(GroupError::Absent(server));
        };
        let was_down = local.is_down;
        self.end_pins();
        self.switch.requests().join(port_of(server.0))?;
        if was_down {
            let local = &mut self.servers[usize::from(server.0)];
            local.is_down = false;
            local.half.known_flows().clear();
        }
        match self.complete_change() {
            // It was the last one, and its flows come back to it.
            Err(GroupError::NoChange) => Ok(GroupChange::default()),
            change => change,
        }
    }

    /// Takes a server out of the group. Its flows stay with it until they end.
    ///
    /// # Errors
    /// The server is not in the group, or the last one, or another change is not complete.
    pub fn leave(&mut self, server: ServerId) -> Result<GroupChange, GroupError> {
        self.end_pins();
        self.switch.requests().leave(server)?;
        self.complete_change()
    }

    /// Notes that a server failed. Returns the number of its requests that had no answer.
    ///
    /// # Errors
    /// The server is not in use, or it is the last one: then requests are dropped.
    pub fn fail(&mut self, server: ServerId) -> Result<u64, GroupError> {
        let result = self.switch.requests().fail(server);
        if !matches!(result, Err(GroupError::Absent(_)))
            && let Some(local) = self.servers.get_mut(usize::from(server.0))
        {
            local.is_down = true;
        }
        result
    }

    /// Returns the number of requests that a server received.
    pub fn server_requests(&self, server: ServerId) -> u64 {
        let server = self.servers.get(usize::from(server.0));
        server.map_or(0, |server| server.half.inner().ledger().received)
    }

    /// Returns the flows that a server knows.
    pub fn flows_of(&self, server: ServerId) -> Vec<u32> {
        let server = self.servers.get(usize::from(server.0));
        server.map_or_else(Vec::new, |server| server.half.known_flows().since(Nanos(0)))
    }

    /// Returns the flows that servers know or will know, with their servers.
    fn known_flows(&self) -> Vec<(u32, ServerId)> {
        // A request that arrives in between is in both lists.
        let mut known = self.switch.requests().flows_on_their_way();
        let since = Nanos(self.now.0.saturating_sub(FLOW_IDLE.0));
        for (number, server) in (0..).zip(&self.servers) {
            if !server.is_down {
                let flows = server.half.known_flows().since(since);
                known.extend(flows.into_iter().map(|flow| (flow, ServerId(number))));
            }
        }
        known.sort_unstable_by_key(|(flow, server)| (*flow, server.0));
        known.dedup();
        known
    }

    /// Removes the pins of flows that ended.
    fn end_pins(&self) {
        let known: Vec<u32> = self.known_flows().iter().map(|known| known.0).collect();
        self.switch.requests().keep_pins(&known);
    }

    /// Pins the flows that a change would move, and completes it if all have a pin.
    ///
    /// # Errors
    /// No change has begun.
    pub fn complete_change(&mut self) -> Result<GroupChange, GroupError> {
        let known = self.known_flows();
        let requests = self.switch.requests();
        let mut change = GroupChange {
            known: known.len(),
            ..GroupChange::default()
        };
        let before = requests.group().pins;
        match requests.pin_missing(&known) {
            Ok(pinned) => change.pinned = pinned,
            Err(GroupError::PinsFull { .. }) => change.pinned = requests.group().pins - before,
            Err(error) => return Err(error),
        }
        match requests.commit(&known) {
            Ok(()) => {}
            Err(GroupError::Unpinned { flows }) => change.waiting = flows,
            Err(error) => return Err(error),
        }
        Ok(change)
    }

    /// Returns the coordinator.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Returns the coordinator, for changes of the whole tables.
    pub fn coordinator_mut(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    /// Returns the switch.
    pub fn switch(&self) -> &SwitchHalf<Device> {
        &self.switch
    }

    /// Returns the switch, for its digests and messages.
    pub fn switch_mut(&mut self) -> &mut SwitchHalf<Device> {
        &mut self.switch
    }

    /// Returns the counts of packets of all planes.
    pub fn ledger(&self) -> Ledger {
        let mut sum = Ledger::default();
        for (_, ledger) in self.plane_ledgers() {
            sum.add(&ledger);
        }
        sum
    }

    /// Returns the counts of packets of the switch (`None`) and of each server.
    pub fn plane_ledgers(&self) -> Vec<(Option<ServerId>, Ledger)> {
        let mut switch = self.switch.inner().ledger();
        switch.add(self.switch.refused());
        let servers = (0..).zip(&self.servers).map(|(number, server)| {
            let mut ledger = server.half.inner().ledger();
            ledger.add(server.half.refused());
            (Some(ServerId(number)), ledger)
        });
        [(None, switch)].into_iter().chain(servers).collect()
    }

    /// Checks that every packet is accounted for, on all planes and between them.
    ///
    /// # Errors
    /// The counts of a plane do not balance, or requests are neither answered nor dropped.
    pub fn check_conservation(&self) -> Result<(), LedgerError> {
        self.switch.inner().check_conservation()?;
        let mut dropped = 0;
        for server in &self.servers {
            server.half.inner().check_conservation()?;
            let ledger = server.half.inner().ledger();
            dropped += ledger.received - ledger.sent;
            dropped += server.half.refused().received;
        }
        dropped += self.links.lost() + self.links.len() as u64 + self.discarded;
        match self.switch.requests().unanswered() == dropped {
            true => Ok(()),
            false => Err(LedgerError {
                came: self.switch.requests().unanswered(),
                went: dropped,
            }),
        }
    }

    /// Returns the number of frames between switch and servers, and of requests that the switch
    /// holds.
    pub fn in_flight(&self) -> usize {
        self.links.len() + self.switch.held()
    }

    /// Sends the changes of the whole tables to the planes. The coordinator has those that a plane
    /// refuses.
    pub fn propagate(&mut self) {
        let LocalSplit {
            coordinator,
            switch,
            switch_ids,
            ordered,
            servers,
            ..
        } = self;
        let mut planes: Vec<DevicePlane<'_>> = servers.iter_mut().map(LocalServer::plane).collect();
        let mut planes: Vec<&mut dyn PlaneControl> = planes
            .iter_mut()
            .map(|plane| plane as &mut dyn PlaneControl)
            .collect();
        let requests = Arc::clone(switch.requests());
        let mut switch = DevicePlane {
            device: switch.inner_mut(),
            ids: switch_ids,
        };
        let mut switch = OrderedPlane {
            plane: &mut switch,
            changes: ordered,
            requests: &requests,
        };
        coordinator.propagate(&mut switch, &mut planes);
    }

    /// Updates the whole device's counters and registers from the planes.
    pub fn collect(&mut self) {
        let objects = self.switch.inner().objects();
        for (place, object) in objects {
            match (place, object) {
                (ObjectPlace::Counters(counter, block), Object::Counters(readings)) => {
                    for (at, reading) in readings.into_iter().enumerate() {
                        let index = Some(block * switch::CELLS + at as u32);
                        let change = Change::WriteCounter(counter, index, reading);
                        self.coordinator.set_quietly(change);
                    }
                }
                (ObjectPlace::Registers(register, block), Object::Registers(cells)) => {
                    for (at, values) in cells.into_iter().enumerate() {
                        let index = Some(block * switch::CELLS + at as u32);
                        let change = Change::WriteRegister(register, index, values);
                        self.coordinator.set_quietly(change);
                    }
                }
                _ => {}
            }
        }
        let LocalSplit {
            coordinator,
            switch,
            switch_ids,
            ordered,
            servers,
            ..
        } = self;
        let planes: Vec<DevicePlane<'_>> = servers.iter_mut().map(LocalServer::plane).collect();
        let planes: Vec<&dyn PlaneControl> = planes
            .iter()
            .map(|plane| plane as &dyn PlaneControl)
            .collect();
        let requests = Arc::clone(switch.requests());
        let mut plane = DevicePlane {
            device: switch.inner_mut(),
            ids: switch_ids,
        };
        let switch = OrderedPlane {
            plane: &mut plane,
            changes: ordered,
            requests: &requests,
        };
        coordinator.collect_counters(&switch, &planes);
    }

    /// Forwards frames through the switch.
    fn at_switch(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        asked: &mut Vec<(u16, Vec<u8>)>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.now = self.now.max(now);
        let LocalSplit {
            switch,
            coordinator,
            links,
            placement,
            ..
        } = self;
        let is_asked = placement.policy == EntryPolicy::Asked;
        switch.forward_and_see(
            frames,
            now,
            |port, frame, time| match port.0.checked_sub(FIRST_SERVER_PORT) {
                Some(number) => {
                    let mut request = std::mem::take(frame);
                    request.ingress = PortId(0);
                    links.send(End::Server(number as usize), request, now);
                }
                None => sent(port, frame, time),
            },
            |wire, frame, request| {
                if is_asked {
                    let mut key = Vec::new();
                    wire.read_key(frame, coordinator.key_width(request.cut), &mut key);
                    asked.push((request.cut, key));
                }
            },
        );
        note_messages(&mut self.messages, self.switch.inner_mut());
    }

    /// Delivers a request to a server, and sends its response.
    fn at_server(&mut self, number: usize, mut request: Frame, now: Nanos) {
        let server = &mut self.servers[number];
        if server.is_down {
            self.discarded += 1;
            return;
        }
        let links = &mut self.links;
        let request = std::slice::from_mut(&mut request);
        server.half.forward(request, now, |_, frame, _| {
            let mut response = std::mem::take(frame);
            response.ingress = PortId(FIRST_SERVER_PORT + number as u32);
            links.send(End::Switch(number), response, now);
        });
        note_messages(&mut self.messages, server.half.inner_mut());
        self.spread_learned();
    }

    /// Does the work of servers without packets: entries of handlers expire.
    fn step_servers(&mut self, now: Nanos) {
        for server in &mut self.servers {
            // Without a request there is no response.
            server.half.forward(&mut [], now, |_, _, _| {});
        }
        self.spread_learned();
    }

    /// Forwards all that arrives until this time.
    fn deliver(&mut self, until: Nanos, sent: &mut impl FnMut(PortId, &mut Frame, Nanos)) {
        let mut asked: Vec<(u16, Vec<u8>)> = Vec::new();
        loop {
            self.install(until);
            if self.switch.has_ready() {
                self.at_switch(&mut [], until, &mut asked, sent);
                continue;
            }
            let Some((arrival, end, mut frame)) = self.links.take(until) else {
                match asked.is_empty() {
                    true => break,
                    false => self.ask(&mut asked),
                }
                continue;
            };
            let now = arrival.max(self.now);
            match end {
                End::Server(number) => self.at_server(number, frame, now),
                End::Switch(_) => {
                    let unanswered = self.switch.requests().unanswered();
                    let sent_before = self.switch.requests().sent();
                    self.at_switch(std::slice::from_mut(&mut frame), now, &mut asked, sent);
                    let requests = self.switch.requests();
                    let more = requests.sent() - sent_before;
                    let is_taken = requests.unanswered() < unanswered + more;
                    self.discarded += u64::from(!is_taken);
                }
            }
        }
    }

    /// Forwards all that arrives now, and then moves the entries that packets have asked for.
    fn ask_after(
        &mut self,
        asked: &mut Vec<(u16, Vec<u8>)>,
        now: Nanos,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.deliver(now, sent);
        self.ask(asked);
    }

    /// Moves the entries that packets have asked for into the switch.
    fn ask(&mut self, asked: &mut Vec<(u16, Vec<u8>)>) {
        self.with_switch(|coordinator, plane| {
            for (cut, key) in asked.drain(..) {
                coordinator.asked(cut, &key, plane);
            }
        });
    }

    /// Calls `change` with the coordinator and the switch as it sees it.
    fn with_switch<T>(
        &mut self,
        change: impl FnOnce(&mut Coordinator, &mut OrderedPlane<'_>) -> T,
    ) -> T {
        let requests = Arc::clone(self.switch.requests());
        let mut plane = DevicePlane {
            device: self.switch.inner_mut(),
            ids: &mut self.switch_ids,
        };
        let mut plane = OrderedPlane {
            plane: &mut plane,
            changes: &mut self.ordered,
            requests: &requests,
        };
        change(&mut self.coordinator, &mut plane)
    }

    /// Installs the entries that may work now.
    fn install(&mut self, now: Nanos) {
        while self.ordered.waiting() > 0 {
            let requests = Arc::clone(self.switch.requests());
            let mut plane = DevicePlane {
                device: self.switch.inner_mut(),
                ids: &mut self.switch_ids,
            };
            match self.ordered.advance(&requests, &mut plane, now) {
                Some(refused) => self.with_switch(|coordinator, plane| {
                    coordinator.not_installed(refused, plane);
                }),
                // Nothing is on its way, so servers have dropped the packets of open requests.
                None if self.links.len() == 0 && requests.give_up_all() > 0 => {}
                None => break,
            }
        }
    }

    /// Ends the window if it is over.
    fn end_window(&mut self, received: u64, now: Nanos) {
        if self.placement.policy == EntryPolicy::Asked {
            return;
        }
        self.window.0 += received;
        let is_over = match self.placement.window {
            Window::Packets(packets) => self.window.0 >= packets,
            Window::Time(time) => now.0.saturating_sub(self.window.1.0) >= time.0,
        };
        if !is_over {
            return;
        }
        self.window = (0, now);
        let requests = Arc::clone(self.switch.requests());
        let Some(flights) = requests.end_window() else {
            return;
        };
        let counts = flights.counts(|cut| requests.key_bytes(cut));
        let ended = self.with_switch(|coordinator, plane| coordinator.end_window(&counts, plane));
        for (cut, threshold) in self.coordinator.thresholds() {
            requests.set_threshold(cut, threshold);
        }
        self.windows.extend(ended);
    }

    /// Restarts the timers of entries that packets have used in the switch.
    fn refresh(&mut self) {
        let LocalSplit {
            coordinator,
            switch,
            switch_ids,
            servers,
            ..
        } = self;
        let mut planes: Vec<DevicePlane<'_>> = servers.iter_mut().map(LocalServer::plane).collect();
        let mut planes: Vec<&mut dyn PlaneControl> = planes
            .iter_mut()
            .map(|plane| plane as &mut dyn PlaneControl)
            .collect();
        let switch = DevicePlane {
            device: switch.inner_mut(),
            ids: switch_ids,
        };
        coordinator.refresh(&switch, &mut planes);
    }

    /// Sends changes by the handlers of each server to the others.
    fn spread_learned(&mut self) {
        let taken: Vec<Vec<Record>> = self.servers.iter().map(LocalServer::take_learned).collect();
        if taken.iter().all(Vec::is_empty) {
            return;
        }
        for (number, records) in taken.into_iter().enumerate() {
            let program = Arc::clone(self.servers[number].half.inner().program());
            for record in records {
                let requests = Arc::clone(self.switch.requests());
                let mut switch = DevicePlane {
                    device: self.switch.inner_mut(),
                    ids: &mut self.switch_ids,
                };
                let mut switch = OrderedPlane {
                    plane: &mut switch,
                    changes: &mut self.ordered,
                    requests: &requests,
                };
                let others = self.servers.iter_mut().enumerate();
                let mut planes: Vec<DevicePlane<'_>> = others
                    .filter(|(other, _)| *other != number)
                    .map(|(_, server)| server.plane())
                    .collect();
                let mut planes: Vec<&mut dyn PlaneControl> = planes
                    .iter_mut()
                    .map(|plane| plane as &mut dyn PlaneControl)
                    .collect();
                self.coordinator
                    .learned(&record.change, &program, &mut switch, &mut planes);
            }
        }
        // The servers' own records of what came from others are not new.
        for server in &self.servers {
            server.take_learned();
        }
    }

    /// Takes the entries that no packet has used on any plane for their time-outs.
    pub fn take_idle(&mut self) -> Vec<(TableId, EntryId)> {
        let LocalSplit {
            coordinator,
            switch,
            switch_ids,
            servers,
            ..
        } = self;
        let planes: Vec<DevicePlane<'_>> = servers.iter_mut().map(LocalServer::plane).collect();
        let planes: Vec<&dyn PlaneControl> = planes
            .iter()
            .map(|plane| plane as &dyn PlaneControl)
            .collect();
        let now = switch.inner().now();
        let switch = DevicePlane {
            device: switch.inner_mut(),
            ids: switch_ids,
        };
        let idle = coordinator.take_idle(now, &switch, &planes);
        coordinator.forget_gone();
        idle
    }

    /// Takes the next message of a program or a handler, of whichever plane.
    pub fn take_message(&mut self) -> Option<String> {
        self.messages.pop_front()
    }

    /// Returns the description of the split.
    pub fn plan(&self) -> &SplitPlan {
        &self.plan
    }
}

impl LocalServer {
    /// Takes the changes that handlers have made.
    fn take_learned(&self) -> Vec<Record> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *learned)
    }

    fn plane(&mut self) -> DevicePlane<'_> {
        DevicePlane {
            device: self.half.inner_mut(),
            ids: &mut self.ids,
        }
    }
}

/// Takes the messages of a plane. Beyond the maximum they stay there, in its bounded queue.
fn note_messages(messages: &mut VecDeque<String>, plane: &mut Device) {
    while messages.len() < MAX_MESSAGES
        && let Some(message) = plane.take_message()
    {
        messages.push_back(message);
    }
}

/// Returns the port of a server.
fn port_of(number: u16) -> ServerPort {
    ServerPort {
        server: ServerId(number),
        port: PortId(FIRST_SERVER_PORT + u32::from(number)),
    }
}

impl PacketProcessor for LocalSplit {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.propagate();
        self.refresh();
        self.step_servers(now);
        self.deliver(now, &mut sent);
        let mut asked = Vec::new();
        self.at_switch(&mut [], now, &mut asked, &mut sent);
        self.deliver(now, &mut sent);
        for frame in frames {
            self.at_switch(std::slice::from_mut(frame), now, &mut asked, &mut sent);
            self.ask_after(&mut asked, now, &mut sent);
            self.end_window(1, now);
            self.install(now);
        }
        self.end_window(0, now);
    }

    fn next_time(&self) -> Option<Nanos> {
        let servers = self.servers.iter().map(|server| server.half.next_time());
        let held = (self.switch.held() > 0 || self.ordered.waiting() > 0)
            .then(|| Nanos(self.now.0 + MAX_HOLD.0));
        let others = [self.switch.next_time(), self.links.next_time(), held];
        servers.chain(others).flatten().min()
    }
}
