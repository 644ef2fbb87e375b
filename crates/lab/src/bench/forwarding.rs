//! Measures the forwarding rate of programs on packets in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bench::Workload;
use bench::measure::{Measured, Packets, Plan, Traffic, measure};
use command::args::Source;
use command::captures::Captures;
use command::{compile, configure};
use packet::{Batch, Frame, Nanos, PortId};
use port::{Generator, Order, Sizes, Template};
use support::rng::Rng;
use support::tsc_clock::Clock;
use terminal::live::{LiveLine, bar};

use super::report::Row;
use super::sides::{HAND, Sides, Wanted};
use super::{BenchOptions, Flows};

/// Number of flows of [`Flows::Few`].
const FEW: u64 = 16;
/// Number of flows of [`Flows::Skewed`], and the exponent of Zipf's law for them.
const SKEWED: u64 = 100_000;
const SKEW: f64 = 1.1;
/// Maximum number of packets taken from the user's captures.
const MAX_PACKETS: usize = 1 << 16;

/// Measures a built-in program.
///
/// # Errors
/// Two sides of the comparison give different results.
pub(super) fn built_in(
    workload: &dyn Workload,
    options: &BenchOptions,
    time: Duration,
) -> Result<Vec<Row>, String> {
    let mut line = LiveLine::new();
    let name = workload.name();
    let program = driver::compile_text(&format!("{name}.p4"), workload.source())?;
    let mut sides = wanted(options).built_in(&Arc::new(program), workload, &mut |what| {
        line.show(&format!("{name}: {what}"));
    })?;
    let few = AnyOf::few(workload);
    let skewed = match options.flows.contains(&Flows::Skewed) {
        true => Some(Skewed::new(flows(workload, SKEWED))),
        false => None,
    };
    let mut rows = Vec::new();
    for &flows in &options.flows {
        let traffic: &dyn Traffic = match (flows, &skewed) {
            (Flows::Few, _) => &few,
            (Flows::Skewed, Some(skewed)) => skewed,
            (Flows::Many | Flows::Skewed, _) => &OfWorkload(workload),
        };
        let run = Run {
            program: name,
            flows,
            options,
            time,
        };
        rows.extend(run.measure(&mut sides, traffic, &mut line));
    }
    Ok(rows)
}

/// Measures a program file of the user. If the program or its entries have errors, prints them
/// and returns `None`.
///
/// # Errors
/// Another option is wrong.
pub(super) fn own(
    path: &Path,
    options: &BenchOptions,
    time: Duration,
) -> Result<Option<Vec<Row>>, String> {
    let source = Source {
        program: path.to_path_buf(),
        c_file: None,
        preprocess: options.preprocess.clone(),
    };
    let Some(program) = compile::compile(&source) else {
        return Ok(None);
    };
    let program = Arc::new(program);
    let mut line = LiveLine::new();
    let loaded = wanted(options).own(|engine| {
        let loaded = configure::load_on(engine, &program, &options.setup, Nanos::ZERO);
        loaded.and_then(|device| device.ok_or_else(String::new))
    });
    let mut sides = match loaded {
        Ok(sides) => sides,
        Err(shown) if shown.is_empty() => return Ok(None),
        Err(error) => return Err(error),
    };
    let packets = own_packets(options)?;
    let name = path.display().to_string();
    let mut rows = Vec::new();
    for &flows in &options.flows {
        let traffic: Box<dyn Traffic> = match flows {
            Flows::Few => Box::new(InTurn(packets[..packets.len().min(FEW as usize)].to_vec())),
            Flows::Many => Box::new(InTurn(packets.clone())),
            Flows::Skewed => Box::new(Skewed::new(packets.clone())),
        };
        let run = Run {
            program: &name,
            flows,
            options,
            time,
        };
        rows.extend(run.measure(&mut sides, &*traffic, &mut line));
    }
    Ok(Some(rows))
}

/// Default traffic of a workload.
struct OfWorkload<'w>(&'w dyn Workload);

impl Traffic for OfWorkload<'_> {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Rng::new(seed);
        Box::new(move |frame| self.0.packet(&mut choices, frame))
    }
}

/// Packets in their order, in a loop. The seed selects the first one.
struct InTurn(Vec<Packet>);

impl Traffic for InTurn {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let begin = Rng::new(seed).below(self.0.len() as u64) as usize;
        let mut next = self.0.iter().cycle().skip(begin);
        Box::new(move |frame| {
            if let Some(packet) = next.next() {
                rewrite(frame, packet);
            }
        })
    }
}

/// Packets in random order.
struct AnyOf(Vec<Packet>);

impl AnyOf {
    /// Returns a few flows of a workload.
    fn few(workload: &dyn Workload) -> AnyOf {
        AnyOf(flows(workload, FEW))
    }
}

/// Returns packets of this many flows of a workload.
fn flows(workload: &dyn Workload, count: u64) -> Vec<Packet> {
    let mut choices = Rng::new(1);
    let packet = |_| written(|frame| workload.packet(&mut choices, frame));
    (0..count).map(packet).collect()
}

/// Packets in random order, the first ones more often, by Zipf's law.
struct Skewed {
    packets: Vec<Packet>,
    /// Sum of the weights up to each packet.
    sums: Vec<f64>,
}

impl Skewed {
    fn new(packets: Vec<Packet>) -> Skewed {
        let mut sum = 0.0;
        let weights = (1..=packets.len()).map(|rank| (rank as f64).powf(-SKEW));
        let sums = weights.map(|weight| {
            sum += weight;
            sum
        });
        Skewed {
            sums: sums.collect(),
            packets,
        }
    }

    fn pick(&self, choices: &mut Rng) -> &Packet {
        let whole = self.sums.last().copied().unwrap_or_default();
        // 53 bits fill a number's mantissa.
        let share = (choices.bits() >> 11) as f64 / (1u64 << 53) as f64;
        let at = self.sums.partition_point(|&sum| sum <= share * whole);
        &self.packets[at.min(self.packets.len() - 1)]
    }
}

impl Traffic for Skewed {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Rng::new(seed);
        Box::new(move |frame| rewrite(frame, self.pick(&mut choices)))
    }
}

impl Traffic for AnyOf {
    fn packets(&self, seed: u64) -> Packets<'_> {
        let mut choices = Rng::new(seed);
        Box::new(move |frame| {
            let which = choices.below(self.0.len() as u64) as usize;
            rewrite(frame, &self.0[which]);
        })
    }
}

fn wanted(options: &BenchOptions) -> Wanted<'_> {
    Wanted {
        names: &options.engines,
        workers: usize::from(options.workers),
        traced: options.trace.clone().map(Arc::new),
    }
}

/// Ingress port and bytes of a packet.
type Packet = (PortId, Vec<u8>);

fn written(write: impl FnOnce(&mut Frame)) -> Packet {
    let mut frame = Frame::new();
    write(&mut frame);
    (frame.ingress, frame.bytes().to_vec())
}

fn rewrite(frame: &mut Frame, (port, bytes): &Packet) {
    frame.ingress = *port;
    // Cannot fail: the bytes come from a frame.
    let _ = frame.assign(bytes);
}

/// Returns the packets of the captures, or generated ones.
fn own_packets(options: &BenchOptions) -> Result<Vec<Packet>, String> {
    if options.inputs.is_empty() {
        return generated();
    }
    let mut captures = Captures::open(&options.inputs).map_err(|error| error.to_string())?;
    let mut packets = Vec::new();
    while packets.len() < MAX_PACKETS
        && let Some((port, frame)) = captures.next_packet()
    {
        packets.push((port, frame.bytes().to_vec()));
    }
    match (captures.errors().first(), packets.is_empty()) {
        (Some(error), _) => Err(error.to_string()),
        (None, true) => Err("the captures hold no packet".to_string()),
        (None, false) => Ok(packets),
    }
}

/// Generates UDP packets of 60 bytes to random addresses in 10.0.0.0/8.
fn generated() -> Result<Vec<Packet>, String> {
    let flows = port::Flows {
        count: 1 << 24,
        order: Order::Zipf { skew: 0.0 },
    };
    let templates = vec![Template::udp4()];
    let mut generator = Generator::new(templates, flows, &Sizes::OfTemplates, 1)
        .map_err(|error| error.to_string())?;
    let packet = |_| {
        written(|frame| {
            generator.make(frame);
        })
    };
    Ok((0..MAX_PACKETS).map(packet).collect())
}

/// Measurement of one program under one kind of traffic.
struct Run<'r> {
    program: &'r str,
    flows: Flows,
    options: &'r BenchOptions,
    time: Duration,
}

impl Run<'_> {
    fn measure(&self, sides: &mut Sides, traffic: &dyn Traffic, line: &mut LiveLine) -> Vec<Row> {
        let plan = Plan {
            time: self.time,
            burst: self.options.burst.map_or(Batch::DEFAULT, usize::from),
            seed: 1,
        };
        let clock = Clock::new();
        let (program, flows) = (self.program, self.flows.name());
        let mut tell = |share: f64| {
            if line.is_due() {
                let bar = bar((share * 100.0) as u64, 100, 20);
                line.show(&format!("{program}, {flows} flows: {bar}"));
            }
        };
        let measured = measure(&mut sides.workers, traffic, &plan, &clock, &mut tell);
        line.clear();
        let hand = measured.iter().find(|side| side.name == HAND);
        let hand = hand.map(|hand| hand.mpps);
        let packet_bytes = mean_length(traffic);
        let row = |side: &Measured| Row {
            program: program.to_string(),
            engine: side.name.clone(),
            flows,
            workers: sides.workers.len(),
            packet_bytes,
            mpps: side.mpps,
            cycles_per_packet: clock.rate().is_counter.then_some(side.ticks_per_packet),
            of_hand: hand.map(|hand| side.mpps / hand),
            mpps_middle_half: side.middle_half,
            sent: side.sent,
            rounds: side.rounds.len(),
        };
        measured.iter().map(row).collect()
    }
}

/// Returns the mean packet length of this traffic in bytes.
fn mean_length(traffic: &dyn Traffic) -> f64 {
    const SAMPLE: usize = 1000;
    let mut packets = traffic.packets(0);
    let mut frame = Frame::new();
    let bytes: usize = (0..SAMPLE)
        .map(|_| {
            packets(&mut frame);
            frame.len()
        })
        .sum();
    (bytes as f64 / SAMPLE as f64).round()
}
