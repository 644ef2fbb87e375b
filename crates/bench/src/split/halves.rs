//! A switch with its servers in one process, as a side of a measurement.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use exec::Engine;
use packet::{Frame, Nanos, PortId};
use passes::split::{SplitOptions, SplitProgram};
use placement::ServerId;
use split::{
    Coordinator, DevicePlane, EntryIds, PlaneControl, Requests, ServerFilter, ServerHalf,
    ServerPort, SplitPlacement, SwitchHalf, SwitchOptions,
};
use support::tsc_clock::Clock;
use switch::{Device, DeviceConfig, PacketProcessor, Record};

use crate::device::change;
use crate::forward::{Forward, Reading, SentFrames};
use crate::setup::{Item, SetupError};

/// Port of the switch for the first server. No function uses it.
const FIRST_SERVER_PORT: u32 = 0x1_0000;

/// Engines of the planes: of the switch (`None`) and of each server, with its handlers.
pub struct Planes<'e> {
    /// Function that returns them.
    pub engine_of: &'e mut dyn FnMut(Option<u16>) -> Box<dyn Engine>,
    /// Number of servers.
    pub servers: u16,
}

/// Samples that a measurement keeps.
const MAX_SAMPLES: usize = 1 << 16;

/// Time that the halves took for bursts, in ticks, and counts of packets.
#[derive(Debug, Default)]
pub struct HalvesCost {
    /// For each burst, the ticks in the switch and in all servers for each packet received.
    bursts: Mutex<Vec<(f32, f32)>>,
    packets: AtomicU64,
    requests: AtomicU64,
}

impl HalvesCost {
    fn add(&self, packets: u64, requests: u64, switch: u64, servers: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.requests.fetch_add(requests, Relaxed);
        let mut bursts = self.bursts.lock().unwrap_or_else(PoisonError::into_inner);
        if packets > 0 && bursts.len() < MAX_SAMPLES {
            let per_packet = |ticks: u64| ticks as f32 / packets as f32;
            bursts.push((per_packet(switch), per_packet(servers)));
        }
    }

    fn median(&self, of: impl Fn(&(f32, f32)) -> f32) -> f64 {
        let bursts = self.bursts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values: Vec<f64> = bursts.iter().map(|burst| of(burst).into()).collect();
        support::quantile::quantile(&mut values, 0.5).unwrap_or(0.0)
    }

    /// Returns the median over bursts of the ticks in the switch for each packet.
    pub fn switch_ticks(&self) -> f64 {
        self.median(|burst| burst.0)
    }

    /// Returns the median over bursts of the ticks in servers for each packet that the switch
    /// received.
    pub fn server_ticks(&self) -> f64 {
        self.median(|burst| burst.1)
    }

    /// Returns the share of packets that no server saw.
    pub fn share_in_switch(&self) -> f64 {
        let packets = self.packets.load(Relaxed).max(1);
        1.0 - self.requests.load(Relaxed) as f64 / packets as f64
    }

    /// Forgets what was counted.
    pub fn clear(&self) {
        let mut bursts = self.bursts.lock().unwrap_or_else(PoisonError::into_inner);
        bursts.clear();
        bursts.reserve(MAX_SAMPLES);
        self.packets.store(0, Relaxed);
        self.requests.store(0, Relaxed);
    }
}

struct Server {
    half: ServerHalf<Device>,
    ids: EntryIds,
    learned: Arc<Mutex<Vec<Record>>>,
    /// Requests on their way.
    inbox: Vec<Frame>,
}

impl Server {
    fn plane(&mut self) -> DevicePlane<'_> {
        DevicePlane {
            device: self.half.inner_mut(),
            ids: &mut self.ids,
        }
    }
}

/// A switch with its servers and their coordinator.
pub struct Halves {
    coordinator: Coordinator,
    switch: SwitchHalf<Device>,
    switch_ids: EntryIds,
    servers: Vec<Server>,
    responses: Vec<Frame>,
    spares: Vec<Frame>,
    placement: SplitPlacement,
    clock: Clock,
    cost: Arc<HalvesCost>,
    now: Nanos,
}

impl Halves {
    /// Loads the halves of a program without entries.
    ///
    /// # Errors
    /// A half cannot be loaded, or a parameter of the placement is outside of its range.
    pub fn new(
        program: &SplitProgram,
        placement: SplitPlacement,
        planes: Planes<'_>,
    ) -> Result<Halves, String> {
        let config = DeviceConfig::default();
        let plan = Arc::new(program.plan.clone());
        let whole = Arc::new(program.whole.clone());
        let coordinator = Coordinator::new(whole, Arc::clone(&plan), &config);
        let coordinator = coordinator.map_err(|error| format!("coordinator: {error}"))?;
        let engine = (planes.engine_of)(None);
        let switch = Device::new(Arc::new(program.switch.clone()), &*engine, &config);
        let switch = switch.map_err(|error| format!("switch half: {error}"))?;
        let server_program = Arc::new(program.server.clone());
        let mut servers = Vec::new();
        for number in 0..planes.servers.max(1) {
            let engine = (planes.engine_of)(Some(number));
            let device = Device::new(Arc::clone(&server_program), &*engine, &config);
            let mut device = device.map_err(|error| format!("server half: {error}"))?;
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
                inbox: Vec::new(),
            });
        }
        let ports = (0..planes.servers.max(1)).map(|number| ServerPort {
            server: ServerId(number),
            port: PortId(FIRST_SERVER_PORT + u32::from(number)),
        });
        let options = SwitchOptions {
            servers: ports.collect(),
            request_port: SplitOptions::default().request_port,
            ..SwitchOptions::default()
        };
        let requests = Arc::new(Requests::new(&plan, options));
        let mirrored = plan.mirrored.iter().map(|mirrored| mirrored.table);
        let mut halves = Halves {
            coordinator,
            switch_ids: EntryIds::new(mirrored),
            switch: SwitchHalf::new(switch, requests),
            servers,
            responses: Vec::new(),
            spares: Vec::new(),
            placement,
            clock: Clock::new(),
            cost: Arc::default(),
            now: Nanos::ZERO,
        };
        halves.place(program)?;
        Ok(halves)
    }

    fn place(&mut self, program: &SplitProgram) -> Result<(), String> {
        let placement = self.placement;
        let mut plane = DevicePlane {
            device: self.switch.inner_mut(),
            ids: &mut self.switch_ids,
        };
        let placed = self.coordinator.set_placement(&placement, &mut plane);
        placed.map_err(|error| error.to_string())?;
        let Some(flights) = placement.flight_options(&program.plan) else {
            return Ok(());
        };
        let requests = self.switch.requests();
        requests.count_flights(Some(&flights));
        for cut in 1..=program.plan.cuts.len() as u16 {
            requests.set_threshold(cut, placement.first_threshold());
        }
        Ok(())
    }

    /// Adds an item to the whole tables, and with them to the planes.
    ///
    /// # Errors
    /// The item does not fit.
    pub fn add(&mut self, item: Item) -> Result<(), SetupError> {
        let applied = self.coordinator.whole_mut().apply(change(item));
        applied.map_err(|error| SetupError::Entry(error.to_string()))?;
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
        match self.coordinator.take_refused().first() {
            Some(error) => Err(SetupError::Entry(error.to_string())),
            None => Ok(()),
        }
    }

    /// Returns the costs, which measured packets go on adding to.
    pub fn cost(&self) -> &Arc<HalvesCost> {
        &self.cost
    }

    /// Returns the port of the first server.
    pub(super) fn server_port(&self) -> PortId {
        PortId(FIRST_SERVER_PORT)
    }

    /// Returns the switch and the first server.
    pub(super) fn parts(&mut self) -> (&mut SwitchHalf<Device>, &mut ServerHalf<Device>) {
        (&mut self.switch, &mut self.servers[0].half)
    }

    /// Returns the coordinator.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Ends a window: moves entries by the policy. Returns the number of keys that were reported.
    pub fn end_window(&mut self) -> usize {
        self.spread_learned();
        let requests = Arc::clone(self.switch.requests());
        let Some(flights) = requests.end_window() else {
            return 0;
        };
        let mut plane = DevicePlane {
            device: self.switch.inner_mut(),
            ids: &mut self.switch_ids,
        };
        let counts = flights.counts(|cut| requests.key_bytes(cut));
        let ended = self.coordinator.end_window(&counts, &mut plane);
        for (cut, threshold) in self.coordinator.thresholds() {
            requests.set_threshold(cut, threshold);
        }
        self.switch.inner_mut().publish();
        ended.iter().map(|table| table.reports).sum()
    }

    /// Sends what handlers added to the other planes.
    pub fn spread_learned(&mut self) {
        for number in 0..self.servers.len() {
            let learned = &self.servers[number].learned;
            let records =
                std::mem::take(&mut *learned.lock().unwrap_or_else(PoisonError::into_inner));
            let program = Arc::clone(self.servers[number].half.inner().program());
            for record in records {
                let mut switch = DevicePlane {
                    device: self.switch.inner_mut(),
                    ids: &mut self.switch_ids,
                };
                let others = self.servers.iter_mut().enumerate();
                let others = others.filter(|(other, _)| *other != number);
                let mut planes: Vec<DevicePlane<'_>> =
                    others.map(|(_, server)| server.plane()).collect();
                let mut planes: Vec<&mut dyn PlaneControl> = planes
                    .iter_mut()
                    .map(|plane| plane as &mut dyn PlaneControl)
                    .collect();
                self.coordinator
                    .learned(&record.change, &program, &mut switch, &mut planes);
            }
        }
        for server in &self.servers {
            let mut learned = server
                .learned
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            learned.clear();
        }
    }

    /// Forwards frames from the switch's ports until all have left.
    pub fn run(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame),
    ) {
        self.now = self.now.max(now);
        let now = self.now;
        let Halves {
            switch,
            servers,
            responses,
            spares,
            clock,
            cost,
            ..
        } = self;
        let mut server_ticks = 0;
        let mut requests = 0;
        let begin = clock.ticks();
        let mut at_switch =
            |frames: &mut [Frame], servers: &mut Vec<Server>, spares: &mut Vec<Frame>| {
                let mut count = 0;
                switch.forward_and_see(
                    frames,
                    now,
                    |port, frame, _| match port.0.checked_sub(FIRST_SERVER_PORT) {
                        Some(number) => {
                            let mut request = spares.pop().unwrap_or_default();
                            std::mem::swap(&mut request, frame);
                            request.ingress = PortId(0);
                            servers[number as usize].inbox.push(request);
                            count += 1;
                        }
                        None => sent(port, frame),
                    },
                    |_, _, _| {},
                );
                count
            };
        let received = frames.len();
        let mut open = at_switch(frames, servers, spares);
        while open > 0 {
            requests += open;
            let to_servers = clock.ticks();
            for (number, server) in servers.iter_mut().enumerate() {
                let mut inbox = std::mem::take(&mut server.inbox);
                if !inbox.is_empty() {
                    server.half.forward(&mut inbox, now, |_, frame, _| {
                        let mut response = spares.pop().unwrap_or_default();
                        std::mem::swap(&mut response, frame);
                        response.ingress = PortId(FIRST_SERVER_PORT + number as u32);
                        responses.push(response);
                    });
                }
                spares.append(&mut inbox);
                server.inbox = inbox;
            }
            server_ticks += clock.ticks() - to_servers;
            let mut answered = std::mem::take(responses);
            open = at_switch(&mut answered, servers, spares);
            spares.append(&mut answered);
            *responses = answered;
        }
        let all = clock.ticks() - begin;
        let switch_ticks = all.saturating_sub(server_ticks);
        cost.add(received as u64, requests, switch_ticks, server_ticks);
    }
}

impl Forward for Halves {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        self.run(frames, now, |port, frame| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
