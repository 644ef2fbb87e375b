//! One device without a network: times from wire to wire, and bursts at the line rate.

use nanopu::csr;
use nanopu::instruction::{CsrSource, Instruction};
use nanopu::wire::{ACK, DATA, Packet};
use nanopu::{
    CoreState, Cost, CostTable, Device, LinkFaults, Network, Picos, RpcMessage, TraceRecord,
};

use super::super::median;
use super::{MEMORY, Program};

/// IPv4 addresses of the device and of the other end.
const DEVICE: u32 = 0x0a00_0001;
const PEER: u32 = 0x0a00_0002;
/// Time at which programs poll.
const START: Picos = Picos::from_nanos(10_000);
/// Time between two messages that do not meet. It is no multiple of a cycle, so messages come in
/// all phases of a polling loop.
const APART: Picos = Picos(1_000_101);
/// Reports of a burst (paper, 3.2.2).
const REPORTS: usize = 100;
/// Hops of a report.
const HOPS: u64 = 5;
/// Latency of a hop in nanoseconds.
const HOP_NS: u64 = 500;

/// Results of a burst of reports.
pub(in super::super) struct Burst {
    /// Million reports a second.
    pub(in super::super) rate: f64,
}

fn request(number: usize, payload: Vec<u8>) -> Packet {
    Packet {
        source: PEER,
        destination: DEVICE,
        flags: DATA,
        source_context: 9,
        destination_context: 0,
        message_bytes: payload.len() as u16,
        packet_offset: 0,
        pull_offset: 0,
        message_id: number as u16,
        buffer: 0,
        buffer_class: 0,
        payload,
    }
}

fn device(program: Program, costs: &CostTable) -> Result<Device, String> {
    let image = program.image()?;
    let mut device = Device::new(&image, MEMORY, 1, DEVICE, costs);
    device.step(START);
    Ok(device)
}

/// Sends a message and returns the time from its last bit to the first bit of the answer, if there
/// is one.
fn answered(device: &mut Device, at: Picos, message: Packet) -> Option<Picos> {
    device.receive_packet(message, at);
    device.step(at + Picos(APART.0 * 8 / 10));
    let sent = device.take_sent();
    let (time, answer) = sent.iter().find(|(_, packet)| packet.flags == DATA)?;
    let mut ack = answer.clone();
    std::mem::swap(&mut ack.source, &mut ack.destination);
    std::mem::swap(&mut ack.source_context, &mut ack.destination_context);
    (ack.flags, ack.payload) = (ACK, Vec::new());
    device.receive_packet(ack, at + Picos(APART.0 * 9 / 10));
    Some(time.since(at))
}

fn check(device: &Device) -> Result<(), String> {
    for state in device.states() {
        if let CoreState::Faulted(fault) = state {
            return Err(format!("a shipped program has a fault: {fault}"));
        }
    }
    Ok(())
}

/// Returns times from the last bit of a message to the first bit of its answer in ns, with warm
/// caches.
///
/// # Errors
/// The program has a fault, or does not answer.
pub(in super::super) fn wire_to_wire(
    costs: &CostTable,
    messages: usize,
) -> Result<Vec<f64>, String> {
    let mut device = device(Program::Figure2, costs)?;
    let mut times = Vec::with_capacity(messages);
    for number in 0..=messages {
        let at = START + Picos(APART.0 * (1 + number as u64));
        let answer = answered(&mut device, at, request(number, vec![1; 16]));
        check(&device)?;
        let time = answer.ok_or("the loopback does not answer")?;
        // The first one is slower: nothing is in the caches.
        if number > 0 {
            times.push(time.as_nanos());
        }
    }
    Ok(times)
}

/// A report of a flow with the latencies of five hops.
fn report(number: usize, hop: u64) -> Packet {
    let words = std::iter::once(77).chain((0..HOPS).map(|_| hop));
    request(number, words.flat_map(u64::to_be_bytes).collect())
}

/// Sends two bursts of reports at the line rate, the first to warm, and returns how fast the second
/// one is processed: between the ends of its first and its last report.
///
/// # Errors
/// The program has a fault, or does not process all reports.
pub(in super::super) fn burst(costs: &CostTable) -> Result<Burst, String> {
    let image = Program::PathLatency.image()?;
    let mut network = Network::new(costs, LinkFaults::default());
    let device = Device::new(&image, MEMORY, 1, DEVICE, costs);
    let device = network.add_device(DEVICE, device);
    let peer = network.add_client(PEER);
    for at in [START + START, START + START + START + START] {
        network.run(at - Picos(1));
        if let Some(device) = network.device_mut(device) {
            device.take_trace(0);
            device.start_trace(0);
        }
        for _ in 0..REPORTS {
            let message = RpcMessage {
                context: 9,
                peer: DEVICE,
                peer_context: 0,
                bytes: report(0, HOP_NS).payload,
            };
            network.plan(peer, at, message);
        }
    }
    network.run(Picos(START.0 * 8));
    let device = network.device_mut(device).ok_or("the device is missing")?;
    check(device)?;
    let is_end = |record: &&TraceRecord| {
        matches!(
            record.instruction,
            Instruction::Csr {
                csr: csr::LNICUCMD,
                source: CsrSource::Immediate(1),
                ..
            }
        )
    };
    let trace = device.take_trace(0);
    let ends: Vec<u64> = trace.iter().filter(is_end).map(|r| r.cycle).collect();
    let (Some(first), Some(last)) = (ends.first(), ends.last()) else {
        return Err("no report is processed".to_owned());
    };
    if ends.len() != REPORTS {
        return Err(format!("{} reports of {REPORTS} are processed", ends.len()));
    }
    let cycles = (last - first) as f64 / (REPORTS - 1) as f64;
    Ok(Burst {
        rate: costs.get(Cost::ClockRate) as f64 / cycles,
    })
}

/// Returns times from the last bit of a report that is an anomaly to the first bit of the command
/// in ns, with warm caches.
///
/// # Errors
/// The program has a fault, or sends no command.
pub(in super::super) fn reflex_latencies(
    costs: &CostTable,
    commands: usize,
) -> Result<Vec<f64>, String> {
    let mut device = device(Program::PathLatency, costs)?;
    let mut times = Vec::with_capacity(commands);
    let mut number = 0;
    for command in 0..=commands {
        let mut next = |hop| {
            number += 1;
            let at = START + Picos(APART.0 * number as u64);
            answered(&mut device, at, report(number, hop))
        };
        // Normal reports until the average is of them alone.
        for _ in 0..20 {
            next(HOP_NS);
        }
        let time = next(10 * HOP_NS).ok_or("an anomaly has no command")?;
        if command > 0 {
            times.push(time.as_nanos());
        }
    }
    check(&device)?;
    Ok(times)
}

/// The median time of the loopback.
pub(super) fn loopback_ns(costs: &CostTable) -> Result<f64, String> {
    Ok(median(&wire_to_wire(costs, 60)?))
}

/// The time of a report in a burst.
pub(super) fn report_ns(costs: &CostTable) -> Result<f64, String> {
    Ok(1e3 / burst(costs)?.rate)
}

/// The median time from a report to its command.
pub(super) fn reflex_ns(costs: &CostTable) -> Result<f64, String> {
    Ok(median(&reflex_latencies(costs, 20)?))
}
