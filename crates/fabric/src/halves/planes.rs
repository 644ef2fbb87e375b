//! The planes of a split program in simulated time: the devices of both halves, and the
//! coordinator.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use packet::{Frame, Nanos, PortId};
use passes::split::{SplitPlan, SplitProgram};
use placement::ServerId;
use serde::Serialize;
use split::{
    Coordinator, DevicePlane, EntryIds, PlaneControl, Requests, ServerFilter, ServerHalf,
    ServerPort, SwitchHalf, SwitchOptions, Wire,
};
use switch::{
    Change, ControlError, Device, DeviceConfig, Ledger, LoadError, PacketProcessor, Record,
};

use super::MakeEngine;
use super::pending::{DelayedPlane, PendingEntries};
use crate::plane::Outbox;
use crate::topology::SplitSpec;

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
    /// A plane refuses an entry.
    Refused(ControlError),
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::Load { plane, error } => write!(f, "{plane}: {error}"),
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
    /// Entries put into the switch.
    pub installed: u64,
    /// Entries taken out of the switch.
    pub evicted: u64,
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
    pending: PendingEntries,
    install: Nanos,
    packets: u64,
    in_switch: u64,
    refused: u64,
    /// Key of the last request.
    key: Vec<u8>,
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
                if is_learned(&record.change) {
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
            epoch: 0,
        };
        let requests = Arc::new(Requests::new(&plan.frame, options));
        let mirrored = plan.mirrored.iter().map(|mirrored| mirrored.table);
        Ok(Planes {
            coordinator,
            switch_ids: EntryIds::new(mirrored),
            switch: SwitchHalf::new(switch, requests),
            servers,
            ports,
            pending: PendingEntries::default(),
            install: spec.install,
            packets: 0,
            in_switch: 0,
            refused: 0,
            key: Vec::new(),
        })
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
        self.switch.inner().held()
    }

    pub(super) fn counts(&self) -> SplitCounts {
        let requests = self.switch.requests();
        SplitCounts {
            packets: self.packets,
            in_switch: self.in_switch,
            requests: requests.sent(),
            answered: requests.sent() - requests.unanswered(),
            installed: self.pending.installed,
            evicted: self.pending.evicted,
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
        let times = [self.switch.next_time(), self.pending.next_time()];
        times.into_iter().flatten().min()
    }

    /// Does the work of the switch that is due.
    pub(super) fn control(&mut self, now: Nanos, out: &mut Outbox) {
        while let Some(entry) = self.pending.take_due(now) {
            let mut plane = DevicePlane {
                device: self.switch.inner_mut(),
                ids: &mut self.switch_ids,
            };
            if plane.apply(&entry.change, entry.made).is_err() {
                self.refused += 1;
            }
        }
        self.switch.forward(&mut [], now, |port, frame, time| {
            out.take(port, frame, time)
        });
    }

    /// Processes a packet in the switch.
    pub(super) fn switch(&mut self, frame: &mut Frame, now: Nanos, out: &mut Outbox) {
        let is_new = !self.ports.contains(&frame.ingress);
        let mut asked = None;
        let (coordinator, key) = (&self.coordinator, &mut self.key);
        self.switch.forward_and_see(
            std::slice::from_mut(frame),
            now,
            |port, frame, time| out.take(port, frame, time),
            |wire, frame, request| {
                wire.read_key(frame, coordinator.key_width(request.cut), key);
                asked = Some(request.cut);
            },
        );
        self.packets += u64::from(is_new);
        self.in_switch += u64::from(is_new && asked.is_none());
        if let Some(cut) = asked {
            let mut plane = DelayedPlane {
                plane: DevicePlane {
                    device: self.switch.inner_mut(),
                    ids: &mut self.switch_ids,
                },
                pending: &mut self.pending,
                at: now + self.install,
            };
            self.coordinator.asked(cut, &self.key, &mut plane);
            self.refused += self.coordinator.take_refused().len() as u64;
        }
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
        self.spread_learned(number, now) || is_due
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
    fn spread_learned(&mut self, number: usize, now: Nanos) -> bool {
        let records = self.servers[number].take_learned();
        if records.is_empty() {
            return false;
        }
        let program = Arc::clone(self.servers[number].half.inner().program());
        for record in records {
            let mut switch = DelayedPlane {
                plane: DevicePlane {
                    device: self.switch.inner_mut(),
                    ids: &mut self.switch_ids,
                },
                pending: &mut self.pending,
                at: now + self.install,
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

/// Returns true for changes that packets make.
fn is_learned(change: &Change) -> bool {
    matches!(
        change,
        Change::Learn(..) | Change::Relearn(..) | Change::Forget(..) | Change::Expire(..)
    )
}
