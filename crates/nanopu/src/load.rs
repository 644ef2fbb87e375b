//! A device under load: clients send messages at a steady rate, and the answers are timed.

use std::sync::Arc;

use crate::client::SteadyLoad;
use crate::core::{CoreState, CycleParts};
use crate::cost::CostTable;
use crate::device::{Device, DeviceCounts};
use crate::fault::CoreFault;
use crate::image::Image;
use crate::network::{LinkFaults, Network, NetworkCounts};
use crate::queues::MAX_MESSAGE;
use crate::time::Picos;

/// IPv4 address of the device: 10.0.0.1.
pub const DEVICE_ADDRESS: u32 = 0x0a00_0001;
/// IPv4 address of the first client: 10.0.1.1.
const CLIENT_ADDRESS: u32 = 0x0a00_0101;
/// Clients of a load, at most.
pub const MAX_CLIENTS: usize = 1000;
/// Messages of a load, at most.
pub const MAX_MESSAGES: usize = 10_000_000;
/// Cores of a device, at most.
pub const MAX_CORES: usize = 1024;

/// Load of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Cores of the device, 1 to [`MAX_CORES`].
    pub cores: usize,
    /// Clients, 1 to [`MAX_CLIENTS`]. They send in turn.
    pub clients: usize,
    /// Messages of all clients, at most [`MAX_MESSAGES`].
    pub messages: usize,
    /// Time between two messages.
    pub interval: Picos,
    /// Contents of the messages, 1 to [`MAX_MESSAGE`] bytes each, by turns.
    pub payloads: Vec<Vec<u8>>,
    /// Context of the device.
    pub context: u16,
    /// Time after the last message at which the run ends.
    pub rest: Picos,
    /// Faults of the links.
    pub faults: LinkFaults,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            cores: 1,
            clients: 1,
            messages: 1000,
            interval: Picos::from_nanos(1000),
            payloads: vec![vec![0; 16]],
            context: 0,
            rest: Picos::from_nanos(1_000_000),
            faults: LinkFaults::default(),
        }
    }
}

/// Time before the first message, in which programs bind their contexts.
const START: Picos = Picos::from_nanos(10_000);

/// Result of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadReport {
    /// Messages that were sent.
    pub sent: usize,
    /// Times from a message to the last bit of its answer, sorted. An answer goes to the client's
    /// context of its message; other messages, and second answers, are not counted.
    pub latencies: Vec<Picos>,
    /// Time from the first message to the last answer.
    pub duration: Picos,
    /// Faults of the cores, by core.
    pub faults: Vec<(usize, CoreFault)>,
    /// Cycles of each core by parts, and its instructions.
    pub cores: Vec<(CycleParts, u64)>,
    /// Hits and misses of the caches: instructions, data, shared.
    pub caches: [(u64, u64); 3],
    /// Counters of the device.
    pub device: DeviceCounts,
    /// Counters of links and switch.
    pub network: NetworkCounts,
}

impl LoadReport {
    /// Returns the latency that a part of the answers does not exceed, `per_mille` of a thousand.
    pub fn latency(&self, per_mille: usize) -> Option<Picos> {
        let rank = (self.latencies.len() * per_mille).div_ceil(1000).max(1);
        self.latencies.get(rank - 1).copied()
    }
}

/// Runs an image under a load. Values outside of the load's ranges are moved to their ends.
pub fn run_load(image: &Image, memory_bytes: usize, load: &Load, costs: &CostTable) -> LoadReport {
    let cores = load.cores.clamp(1, MAX_CORES);
    let device = Device::new(image, memory_bytes, cores, DEVICE_ADDRESS, costs);
    let mut network = Network::new(costs, load.faults);
    let device = network.add_device(DEVICE_ADDRESS, device);
    let clients: Vec<_> = (0..load.clients.clamp(1, MAX_CLIENTS))
        .map(|number| network.add_client(CLIENT_ADDRESS + number as u32))
        .collect();
    let mut contents = load.payloads.clone();
    for payload in &mut contents {
        payload.truncate(usize::from(MAX_MESSAGE));
    }
    contents.retain(|payload| !payload.is_empty());
    if contents.is_empty() {
        contents.push(vec![0]);
    }
    let contents: Arc<[Vec<u8>]> = contents.into();
    let messages = load.messages.min(MAX_MESSAGES);
    let time_of = |number: usize| START + Picos(load.interval.0.saturating_mul(number as u64));
    for (index, &client) in clients.iter().enumerate() {
        let steady = SteadyLoad {
            first: time_of(index),
            interval: Picos(load.interval.0.saturating_mul(clients.len() as u64)),
            messages: messages.saturating_sub(index).div_ceil(clients.len()),
            peer: DEVICE_ADDRESS,
            peer_context: load.context,
            contents: Arc::clone(&contents),
            offset: index,
            stride: clients.len(),
        };
        network.plan_steady(client, steady);
    }
    network.run(time_of(messages) + load.rest);
    let mut latencies = Vec::new();
    let mut last = START;
    for (index, &client) in clients.iter().enumerate() {
        let time_of = |turn: usize| time_of(turn * clients.len() + index);
        for (turn, time) in network.steady_answers(client) {
            latencies.push(time.since(time_of(turn)));
            last = last.max(time);
        }
    }
    latencies.sort_unstable();
    let mut report = LoadReport {
        sent: messages,
        latencies,
        duration: last.since(START),
        faults: Vec::new(),
        cores: Vec::new(),
        caches: [(0, 0); 3],
        device: DeviceCounts::default(),
        network: network.counts(),
    };
    if let Some(device) = network.device(device) {
        for (core, state) in device.states().enumerate() {
            if let CoreState::Faulted(fault) = state {
                report.faults.push((core, fault));
            }
        }
        report.cores = device.parts().zip(device.instructions()).collect();
        report.caches = device.cache_counts();
        report.device = device.counts();
    }
    report
}
