//! A device under load: clients send messages at a steady rate, and the answers are timed.

use crate::core::{CoreState, CycleParts};
use crate::cost::CostTable;
use crate::device::{Device, DeviceCounts};
use crate::fault::CoreFault;
use crate::image::Image;
use crate::network::{LinkFaults, Network, NetworkCounts, Received, SteadyLoad};
use crate::queues::{MAX_MESSAGE, RpcMessage};
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
    /// Contents of each message, 1 to [`MAX_MESSAGE`] bytes.
    pub payload: Vec<u8>,
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
            payload: vec![0; 16],
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
    let mut payload = load.payload.clone();
    payload.truncate(usize::from(MAX_MESSAGE));
    if payload.is_empty() {
        payload.push(0);
    }
    let messages = load.messages.min(MAX_MESSAGES);
    let time_of = |number: usize| START + Picos(load.interval.0.saturating_mul(number as u64));
    for (index, &client) in clients.iter().enumerate() {
        let steady = SteadyLoad {
            first: time_of(index),
            interval: Picos(load.interval.0.saturating_mul(clients.len() as u64)),
            messages: messages.saturating_sub(index).div_ceil(clients.len()),
            message: RpcMessage {
                context: 0,
                peer: DEVICE_ADDRESS,
                peer_context: load.context,
                bytes: payload.clone(),
            },
        };
        network.plan_steady(client, steady);
    }
    network.run(time_of(messages) + load.rest);
    let mut latencies = Vec::new();
    let mut last = START;
    for (index, &client) in clients.iter().enumerate() {
        let turns = messages.saturating_sub(index).div_ceil(clients.len());
        let time_of = |turn: usize| time_of(turn * clients.len() + index);
        for (turn, time) in answers(&network.take_received(client), turns, time_of) {
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

/// Returns the turns of a client that are answered, each once, with the times of their answers. An
/// answer has the low 16 bits of its turn as context; of the turns that have them, it belongs to
/// the one next to the turn that was answered before. `time_of` has the time of a turn's message.
fn answers(
    received: &[Received],
    turns: usize,
    time_of: impl Fn(usize) -> Picos,
) -> Vec<(usize, Picos)> {
    let mut is_answered = vec![false; turns];
    let mut answers = Vec::new();
    let mut before = 0;
    for answer in received {
        let Some(turn) = turn_near(before, answer.message.context) else {
            continue;
        };
        match is_answered.get_mut(turn) {
            Some(is_answered) if !*is_answered && time_of(turn) <= answer.time => {
                *is_answered = true;
                before = turn;
                answers.push((turn, answer.time));
            }
            // Of no message, of a later one, or a second answer.
            _ => {}
        }
    }
    answers
}

/// Returns the turn nearest to another one that has these low bits, or none if it is below zero.
fn turn_near(before: usize, bits: u16) -> Option<usize> {
    let forward = bits.wrapping_sub(before as u16) as i16;
    before.checked_add_signed(isize::from(forward))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(answers: &[(u64, u16)]) -> Vec<Received> {
        let message = |context| RpcMessage {
            context,
            peer: DEVICE_ADDRESS,
            peer_context: 0,
            bytes: Vec::new(),
        };
        let one = |&(time, context)| Received {
            time: Picos(time),
            message: message(context),
        };
        answers.iter().map(one).collect()
    }

    #[test]
    fn an_answer_belongs_to_the_message_of_its_context() {
        let time_of = |turn: usize| Picos(100 * turn as u64);
        // Turn 0 is lost, turns 1 and 2 are answered in the other order, 2 twice, and 9 too early.
        let received = received(&[(210, 2), (260, 1), (270, 2), (280, 9), (500, 30)]);
        assert_eq!(
            answers(&received, 20, time_of),
            [(2, Picos(210)), (1, Picos(260))]
        );
    }

    #[test]
    fn contexts_that_come_again_belong_to_later_messages() {
        let time_of = |turn: usize| Picos(turn as u64);
        let turns = 150_000;
        // Every seventh is lost, and neighbours change places.
        let mut sent: Vec<usize> = (0..turns).filter(|turn| turn % 7 != 3).collect();
        sent.as_chunks_mut::<2>()
            .0
            .iter_mut()
            .for_each(|pair| pair.swap(0, 1));
        let received: Vec<_> = sent.iter().map(|&turn| (1_000_000, turn as u16)).collect();
        let found = answers(&self::received(&received), turns, time_of);
        let found: Vec<usize> = found.into_iter().map(|(turn, _)| turn).collect();
        assert_eq!(found, sent);
    }
}
