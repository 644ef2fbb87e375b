//! A switch with its servers in one process, without links: the test bed of split programs.

use std::sync::{Arc, Mutex, PoisonError};

use exec::Engine;
use ir::TableId;
use packet::{Frame, Nanos, PortId};
use passes::split::{SplitPlan, SplitProgram};
use placement::ServerId;
use switch::{
    Change, Device, DeviceConfig, EntryId, Ledger, LedgerError, LoadError, Object, ObjectPlace,
    PacketProcessor, Record,
};

use crate::coordinator::Coordinator;
use crate::plane::{DevicePlane, EntryIds, PlaneControl};
use crate::requests::{Requests, ServerPort, SwitchOptions};
use crate::server_half::{ServerFilter, ServerHalf};
use crate::switch_half::SwitchHalf;

/// First port of the switch for servers. v1model has no larger ports but the drop port and those
/// that programs use for processors.
const FIRST_SERVER_PORT: u32 = 0x1_0000;

/// Options of a switch with its servers.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Number of servers, at least 1.
    pub servers: u16,
    /// Egress port of requests in the switch half.
    pub request_port: u32,
    /// Configuration of the devices.
    pub device: DeviceConfig,
}

/// Error of a start: the plane, and the cause.
#[derive(Debug)]
pub struct StartError {
    /// The plane.
    pub plane: &'static str,
    /// The cause.
    pub error: LoadError,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.plane, self.error)
    }
}

impl std::error::Error for StartError {}

/// A switch with its servers.
pub struct LocalSplit {
    coordinator: Coordinator,
    switch: SwitchHalf<Device>,
    switch_ids: EntryIds,
    servers: Vec<LocalServer>,
    plan: Arc<SplitPlan>,
}

struct LocalServer {
    half: ServerHalf<Device>,
    ids: EntryIds,
    /// Changes of tables by handlers.
    learned: Arc<Mutex<Vec<Record>>>,
    waiting: Vec<Frame>,
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
        let at = |plane: &'static str| move |error: LoadError| StartError { plane, error };
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
        for number in 0..options.servers.max(1) {
            let engine = engine_of(Some(number));
            let mut device = Device::new(Arc::clone(&server_program), &*engine, &options.device)
                .map_err(at("server half"))?;
            let learned: Arc<Mutex<Vec<Record>>> = Arc::default();
            let noted = Arc::clone(&learned);
            device.follow(move |record| {
                if is_learned(&record.change) {
                    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    noted.push(record.clone());
                }
            });
            servers.push(LocalServer {
                half: ServerHalf::new(device, ServerFilter::new(&plan.frame)),
                ids: EntryIds::default(),
                learned,
                waiting: Vec::new(),
            });
        }
        let ports = (0..servers.len() as u16).map(|number| ServerPort {
            server: ServerId(number),
            port: PortId(FIRST_SERVER_PORT + u32::from(number)),
        });
        let switch_options = SwitchOptions {
            servers: ports.collect(),
            request_port: options.request_port,
            epoch: 0,
        };
        let requests = Requests::new(&plan.frame, switch_options);
        let mirrored = plan.mirrored.iter().map(|mirrored| mirrored.table);
        Ok(LocalSplit {
            coordinator,
            switch_ids: EntryIds::new(mirrored),
            switch: SwitchHalf::new(switch, Arc::new(requests)),
            servers,
            plan,
        })
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
        let mut sum = self.switch.inner().ledger();
        sum.add(self.switch.refused());
        for server in &self.servers {
            sum.add(&server.half.inner().ledger());
            sum.add(server.half.refused());
        }
        sum
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
        match self.switch.requests().unanswered() == dropped {
            true => Ok(()),
            false => Err(LedgerError {
                came: self.switch.requests().unanswered(),
                went: dropped,
            }),
        }
    }

    /// Sends the changes of the whole tables to the planes. The coordinator has those that a plane
    /// refuses.
    pub fn propagate(&mut self) {
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
        let mut switch = DevicePlane {
            device: switch.inner_mut(),
            ids: switch_ids,
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
            servers,
            ..
        } = self;
        let planes: Vec<DevicePlane<'_>> = servers.iter_mut().map(LocalServer::plane).collect();
        let planes: Vec<&dyn PlaneControl> = planes
            .iter()
            .map(|plane| plane as &dyn PlaneControl)
            .collect();
        let switch = DevicePlane {
            device: switch.inner_mut(),
            ids: switch_ids,
        };
        coordinator.collect_counters(&switch, &planes);
    }

    /// Forwards frames through all planes, until nothing is on its way.
    fn forward_all(
        &mut self,
        mut arriving: Vec<Frame>,
        now: Nanos,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let mut asked: Vec<(u16, Vec<u8>)> = Vec::new();
        loop {
            let LocalSplit {
                switch,
                servers,
                coordinator,
                ..
            } = self;
            switch.forward_and_see(
                &mut arriving,
                now,
                |port, frame, time| {
                    let server = port.0.checked_sub(FIRST_SERVER_PORT);
                    let server = server.and_then(|number| servers.get_mut(number as usize));
                    match server {
                        Some(server) => {
                            let mut request = std::mem::take(frame);
                            request.ingress = PortId(0);
                            server.waiting.push(request);
                        }
                        None => sent(port, frame, time),
                    }
                },
                |wire, frame, request| {
                    let mut key = Vec::new();
                    wire.read_key(frame, coordinator.key_width(request.cut), &mut key);
                    asked.push((request.cut, key));
                },
            );
            arriving.clear();
            for (number, server) in servers.iter_mut().enumerate() {
                let mut requests = std::mem::take(&mut server.waiting);
                server.half.forward(&mut requests, now, |_, frame, _| {
                    let mut response = std::mem::take(frame);
                    response.ingress = PortId(FIRST_SERVER_PORT + number as u32);
                    arriving.push(response);
                });
            }
            self.spread_learned();
            if arriving.is_empty() {
                break;
            }
        }
        let mut plane = DevicePlane {
            device: self.switch.inner_mut(),
            ids: &mut self.switch_ids,
        };
        for (cut, key) in asked {
            self.coordinator.asked(cut, &key, &mut plane);
        }
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
                let mut switch = DevicePlane {
                    device: self.switch.inner_mut(),
                    ids: &mut self.switch_ids,
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
        coordinator.take_idle(now, &switch, &planes)
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

/// Returns true for changes that packets make.
fn is_learned(change: &Change) -> bool {
    matches!(
        change,
        Change::Learn(..) | Change::Relearn(..) | Change::Forget(..) | Change::Expire(..)
    )
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
        self.forward_all(Vec::new(), now, &mut sent);
        for frame in frames {
            self.forward_all(vec![std::mem::take(frame)], now, &mut sent);
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        let servers = self.servers.iter().map(|server| server.half.next_time());
        servers.chain([self.switch.next_time()]).flatten().min()
    }
}
