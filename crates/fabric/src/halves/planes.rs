//! The planes of a split program in simulated time: the devices of both halves, and the
//! coordinator.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use packet::{Frame, Nanos, PortId};
use passes::split::{SplitPlan, SplitProgram};
use placement::{OptionsError, ServerId};
use serde::Serialize;
use split::{
    Coordinator, DevicePlane, EntryIds, EntryPolicy, Order, OrderedChanges, OrderedPlane,
    PlaneControl, PoolOwners, Requests, ServerFilter, ServerHalf, ServerPort, SplitPlacement,
    SwitchHalf, SwitchOptions, Window, Wire,
};
use switch::{ControlError, Device, DeviceConfig, Ledger, LoadError, PacketProcessor, Record};

use super::MakeEngine;
use crate::plane::Outbox;
use crate::topology::{FlowOrder, SplitSpec};

/// Error of the start of a split program.
#[derive(Debug)]
pub enum SplitError {
    /// A half cannot be loaded.
    Load {
        /// The plane.
        plane: &'static str,
        /// The cause.
        error: LoadError,
    },
    /// A parameter of the placement is outside of its range.
    Placement(OptionsError),
    /// A plane refuses an entry.
    Refused(ControlError),
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::Load { plane, error } => write!(f, "{plane}: {error}"),
            SplitError::Placement(error) => write!(f, "placement: {error}"),
            SplitError::Refused(error) => write!(f, "an entry is refused: {error}"),
        }
    }
}

impl std::error::Error for SplitError {}

/// Counters of a split program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SplitCounts {
    /// Packets that the switch received, without those of servers.
    pub packets: u64,
    /// Packets of these that did not leave to a server.
    pub in_switch: u64,
    /// Requests to servers.
    pub requests: u64,
    /// Requests with a response.
    pub answered: u64,
    /// Moves of entries into the switch and out of it.
    pub moves: u64,
    /// Keys that the switch reported to the placement of entries.
    pub reports: u64,
    /// Entries that did not work in time, because earlier packets were at servers for too long.
    pub postponed: u64,
    /// Entries that began to work while earlier packets were at servers, with `order = "loose"`.
    pub overtaken: u64,
    /// Changes that a plane refused.
    pub refused: u64,
}

/// A server.
struct Server {
    half: ServerHalf<Device>,
    ids: EntryIds,
    /// Changes of tables by handlers.
    learned: Arc<Mutex<Vec<Record>>>,
}

impl Server {
    fn plane(&mut self) -> DevicePlane<'_> {
        DevicePlane {
            device: self.half.inner_mut(),
            ids: &mut self.ids,
        }
    }

    fn take_learned(&self) -> Vec<Record> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *learned)
    }
}

/// The planes of a split program.
pub(super) struct Planes {
    coordinator: Coordinator,
    switch: SwitchHalf<Device>,
    switch_ids: EntryIds,
    servers: Vec<Server>,
    /// Ports of the switch with servers.
    ports: Vec<PortId>,
    ordered: OrderedChanges,
    placement: SplitPlacement,
    /// End of the window.
    window_end: Nanos,
    reports: u64,
    postponed: u64,
    packets: u64,
    in_switch: u64,
    refused: u64,
    /// Packets before this window.
    packets_before: u64,
}

impl Planes {
    pub(super) fn new(
        program: &SplitProgram,
        spec: &SplitSpec,
        request_port: u32,
        seed: u64,
        engine_of: &mut MakeEngine<'_>,
    ) -> Result<Planes, SplitError> {
        let at = |plane: &'static str| move |error: LoadError| SplitError::Load { plane, error };
        let config = DeviceConfig {
            seed,
            ..DeviceConfig::default()
        };
        let plan: Arc<SplitPlan> = Arc::new(program.plan.clone());
        let whole = Arc::new(program.whole.clone());
        let coordinator = Coordinator::new(whole, Arc::clone(&plan), &config);
        let coordinator = coordinator.map_err(at("coordinator"))?;
        let switch = Arc::new(program.switch.clone());
        let switch = Device::new(switch, &*engine_of(None), &config);
        let switch = switch.map_err(at("switch half"))?;
        let server_program = Arc::new(program.server.clone());
        let mut servers = Vec::new();
        for number in 0..spec.servers.len() as u16 {
            let engine = engine_of(Some(number));
            let mut device = Device::new(Arc::clone(&server_program), &*engine, &config)
                .map_err(at("server half"))?;
            let learned: Arc<Mutex<Vec<Record>>> = Arc::default();
            let noted = Arc::clone(&learned);
            device.follow(move |record| {
                if record.change.is_learned() {
                    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    noted.push(record.clone());
                }
            });
            servers.push(Server {
                half: ServerHalf::new(device, ServerFilter::new(&plan.frame)),
                ids: EntryIds::default(),
                learned,
            });
        }
        let ports: Vec<PortId> = spec.servers.iter().map(|server| server.port).collect();
        let server_ports = (0..).zip(&ports).map(|(number, port)| ServerPort {
            server: ServerId(number),
            port: *port,
        });
        let options = SwitchOptions {
            servers: server_ports.collect(),
            request_port,
            ..SwitchOptions::default()
        };
        let requests = Arc::new(Requests::new(&plan, options));
        let mirrored = plan.mirrored.iter().map(|mirrored| mirrored.table);
        let order = match spec.order {
            FlowOrder::Strict => Order::Strict,
            FlowOrder::Loose => Order::Loose,
        };
        let ordered = OrderedChanges::new(Arc::clone(&plan), order);
        let mut planes = Planes {
            coordinator,
            switch_ids: EntryIds::new(mirrored),
            switch: SwitchHalf::new(switch, requests),
            servers,
            ports,
            ordered: ordered.with_install_time(spec.install),
            placement: spec.placement,
            window_end: Nanos::ZERO,
            reports: 0,
            postponed: 0,
            packets: 0,
            in_switch: 0,
            refused: 0,
            packets_before: 0,
        };
        planes.place(&plan)?;
        Ok(planes)
    }

    /// Begins the placement of entries.
    fn place(&mut self, plan: &SplitPlan) -> Result<(), SplitError> {
        let placement = self.placement;
        let placed =
            self.with_switch(|coordinator, plane| coordinator.set_placement(&placement, plane));
        placed.map_err(SplitError::Placement)?;
        let Some(flights) = placement.flight_options(plan) else {
            return Ok(());
        };
        let requests = self.switch.requests();
        requests.count_flights(Some(&flights));
        for cut in 1..=plan.cuts.len() as u16 {
            requests.set_threshold(cut, placement.first_threshold());
        }
        self.window_end = window_of(&placement);
        Ok(())
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

    pub(super) fn coordinator_mut(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    pub(super) fn wire(&self) -> &Wire {
        self.switch.requests().wire()
    }

    pub(super) fn switch_mut(&mut self) -> &mut SwitchHalf<Device> {
        &mut self.switch
    }

    pub(super) fn set_owners(&self, owners_of: impl Fn(&str) -> Option<Arc<dyn PoolOwners>>) {
        self.switch.requests().set_owners(owners_of);
    }

    pub(super) fn server_half(&self, number: usize) -> &ServerHalf<Device> {
        &self.servers[number].half
    }

    pub(super) fn server_mut(&mut self, number: usize) -> &mut ServerHalf<Device> {
        &mut self.servers[number].half
    }

    pub(super) fn switch_ledger(&self) -> Ledger {
        let mut ledger = self.switch.inner().ledger();
        ledger.add(self.switch.refused());
        ledger
    }

    pub(super) fn held(&self) -> usize {
        self.switch.inner().held() + self.switch.held()
    }

    pub(super) fn counts(&self) -> SplitCounts {
        let requests = self.switch.requests();
        SplitCounts {
            packets: self.packets,
            in_switch: self.in_switch,
            requests: requests.sent(),
            answered: requests.sent() - requests.unanswered(),
            moves: self.coordinator.moves(),
            reports: self.reports,
            postponed: self.postponed,
            overtaken: requests.overtaken(),
            refused: self.refused,
        }
    }

    /// Sends the entries of the whole program to the planes.
    pub(super) fn propagate(&mut self) -> Result<(), SplitError> {
        let mut planes: Vec<DevicePlane<'_>> = self.servers.iter_mut().map(Server::plane).collect();
        let mut planes: Vec<&mut dyn PlaneControl> = planes
            .iter_mut()
            .map(|plane| plane as &mut dyn PlaneControl)
            .collect();
        let mut switch = DevicePlane {
            device: self.switch.inner_mut(),
            ids: &mut self.switch_ids,
        };
        self.coordinator.propagate(&mut switch, &mut planes);
        match self.coordinator.take_refused().into_iter().next() {
            Some(error) => Err(SplitError::Refused(error)),
            None => Ok(()),
        }
    }

    /// Returns the time of the switch's next action without a packet.
    pub(super) fn next_time(&self) -> Option<Nanos> {
        let window = self.ends_windows().then_some(self.window_end);
        let times = [self.switch.next_time(), self.ordered.next_time(), window];
        times.into_iter().flatten().min()
    }

    /// Returns true if windows end while no packet arrives. Without packets nothing changes.
    fn ends_windows(&self) -> bool {
        self.placement.policy != EntryPolicy::Asked && self.packets > self.packets_before
    }

    /// Does the work of the switch that is due. `is_answered` is true after a response, for which
    /// an entry may have waited.
    pub(super) fn control(&mut self, now: Nanos, is_answered: bool, out: &mut Outbox) {
        self.ordered.set_time(now);
        self.end_window(now);
        if is_answered || self.ordered.next_time().is_some_and(|at| at <= now) {
            self.install(now);
        }
        while self.switch.has_ready() {
            self.run_held(now, out);
            self.install(now);
        }
        self.run_held(now, out);
    }

    /// Forwards held requests that go on now, and what is due in the device.
    fn run_held(&mut self, now: Nanos, out: &mut Outbox) {
        let mut none = [];
        self.run(&mut none, now, out);
    }

    /// Installs the entries that may work now.
    fn install(&mut self, now: Nanos) {
        while self.ordered.waiting() > 0 {
            let requests = Arc::clone(self.switch.requests());
            let mut plane = DevicePlane {
                device: self.switch.inner_mut(),
                ids: &mut self.switch_ids,
            };
            let Some(refused) = self.ordered.advance(&requests, &mut plane, now) else {
                break;
            };
            self.postponed += u64::from(refused.error.is_none());
            self.with_switch(|coordinator, plane| coordinator.not_installed(refused, plane));
            self.refused += self.coordinator.take_refused().len() as u64;
        }
    }

    /// Ends the window if it is over.
    fn end_window(&mut self, now: Nanos) {
        if self.placement.policy == EntryPolicy::Asked || now < self.window_end {
            return;
        }
        self.packets_before = self.packets;
        let length = window_of(&self.placement);
        let over = now.since(self.window_end).0 / length.0.max(1);
        self.window_end += Nanos(length.0 * (over + 1));
        let requests = Arc::clone(self.switch.requests());
        let Some(flights) = requests.end_window() else {
            return;
        };
        let counts = flights.counts(|cut| requests.key_bytes(cut));
        let ended = self.with_switch(|coordinator, plane| coordinator.end_window(&counts, plane));
        for (cut, threshold) in self.coordinator.thresholds() {
            requests.set_threshold(cut, threshold);
        }
        self.reports += ended.iter().map(|table| table.reports as u64).sum::<u64>();
        self.refused += self.coordinator.take_refused().len() as u64;
    }

    /// Processes a packet in the switch. Returns true if it came from a server.
    pub(super) fn switch(&mut self, frame: &mut Frame, now: Nanos, out: &mut Outbox) -> bool {
        let is_new = !self.ports.contains(&frame.ingress);
        let has_left = self.run(std::slice::from_mut(frame), now, out);
        self.packets += u64::from(is_new);
        self.in_switch += u64::from(is_new && !has_left);
        !is_new
    }

    /// Runs frames in the switch. Returns true if requests left, or were held.
    fn run(&mut self, frames: &mut [Frame], now: Nanos, out: &mut Outbox) -> bool {
        let is_asked = self.placement.policy == EntryPolicy::Asked;
        let held = self.switch.held();
        let mut has_left = false;
        let mut asked = Vec::new();
        let coordinator = &self.coordinator;
        self.switch.forward_and_see(
            frames,
            now,
            |port, frame, time| out.take(port, frame, time),
            |wire, frame, request| {
                has_left = true;
                if is_asked {
                    let mut key = Vec::new();
                    wire.read_key(frame, coordinator.key_width(request.cut), &mut key);
                    asked.push((request.cut, key));
                }
            },
        );
        self.ordered.set_time(now);
        for (cut, key) in asked {
            self.with_switch(|coordinator, plane| coordinator.asked(cut, &key, plane));
        }
        self.refused += self.coordinator.take_refused().len() as u64;
        has_left || self.switch.held() > held
    }

    /// Processes requests in a server. Returns true if other planes have changed.
    pub(super) fn server(
        &mut self,
        number: usize,
        frames: &mut [Frame],
        now: Nanos,
        out: &mut Outbox,
    ) -> bool {
        let next = self.servers[number].half.next_time();
        let is_due = next.is_some_and(|at| at <= now);
        if is_due {
            self.refresh();
        }
        let half = &mut self.servers[number].half;
        half.forward(frames, now, |port, frame, time| out.take(port, frame, time));
        self.ordered.set_time(now);
        self.spread_learned(number) || is_due
    }

    /// Restarts the timers of entries that packets have used on other planes.
    fn refresh(&mut self) {
        let mut planes: Vec<DevicePlane<'_>> = self.servers.iter_mut().map(Server::plane).collect();
        let mut planes: Vec<&mut dyn PlaneControl> = planes
            .iter_mut()
            .map(|plane| plane as &mut dyn PlaneControl)
            .collect();
        let switch = DevicePlane {
            device: self.switch.inner_mut(),
            ids: &mut self.switch_ids,
        };
        self.coordinator.refresh(&switch, &mut planes);
    }

    /// Sends changes by the handlers of a server to the other planes. Returns true if there are
    /// any.
    fn spread_learned(&mut self, number: usize) -> bool {
        let records = self.servers[number].take_learned();
        if records.is_empty() {
            return false;
        }
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
        // The servers' own records of what came from others are not new.
        for server in &self.servers {
            server.take_learned();
        }
        self.refused += self.coordinator.take_refused().len() as u64;
        true
    }
}

/// Returns the length of a window. The simulation has windows by time.
fn window_of(placement: &SplitPlacement) -> Nanos {
    match placement.window {
        Window::Time(time) => time,
        Window::Packets(_) => Nanos::from_secs(1),
    }
}
