//! Measures a plane in one thread: a report that is normal, and the whole loop from a report to the
//! answer of an element, with three replicas and without a wire. Prints nanoseconds: median and
//! 99th percentile. Run: `cargo run --release -p reflex --example loop_times`.

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Instant;

use packet::Nanos;
use reflex::{AcceptingElement, CommandTarget, Loops, PlaneDriver, ReflexPlane, SourceIndex};
use telemetry::{
    Associations, EmbeddedInt, Exporter, Hop, HopTime, Instructions, IntContents, IntNodeId,
    IntStack, NextProtocol, PacketKind, ReportEvent, ReportHeader, ReportVersion, ReportWriter,
};

const LOOPS: &str = r#"
[[element]]
name = "leaf1"
delay = "0 ns"
[[source]]
listen = "host:collector"
from = [{ node = 9, address = "10.9.0.9" }]
int_dscp = 23
[[monitor]]
name = "slow"
kind = "path_latency"
match = ["ip.dst 10.0.2.0/24"]
window = 10
above = "1 us"
reflex = "detour"
[[reflex]]
name = "detour"
element = "leaf1"
table = "t"
key = ["ip.src", "ip.dst", "ip.protocol", "l4.src", "l4.dst"]
action = "via"
ports = [1, 2]
rate = "1000000000/s"
entries = 16384
"#;

/// Samples of an average.
const WINDOW: u32 = 10;
/// Normal reports that are measured.
const REPORTS: u32 = 500_000;
/// Loops that are measured.
const ALARMS: u32 = 10_000;
const FROM: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 9);

/// Report 2.0 with the sink's hop, and a packet with five hops of this latency. The flow is a
/// source port.
fn payload(flow: u16, latency: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    let instructions = Instructions(0xe000);
    let mut entries = Vec::new();
    for hop in 1..=5u32 {
        entries.extend(hop.to_be_bytes());
        entries.extend([0, 1, 0, 2]);
        entries.extend(latency.to_be_bytes());
    }
    let stack = IntStack::new(instructions, 3, &entries)?;
    let mut packet = vec![0x45, 0x17 << 2, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend([10, 0, 1, 1, 10, 0, 2, 1]);
    packet.extend(flow.to_be_bytes());
    packet.extend([19, 136, 0, 0, 0, 0]);
    let int = EmbeddedInt {
        next: NextProtocol::Payload { dscp: 0 },
        contents: IntContents::Md(stack),
    };
    int.write(&mut packet)?;
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node: Some(IntNodeId(9)),
            hardware: 0,
        },
        sequence: 0,
    };
    let event = ReportEvent {
        associations: Associations {
            tracked: true,
            ..Associations::default()
        },
        hop: Hop {
            ingress_time: Some(HopTime::Full(1)),
            ..Hop::default()
        },
        drop: None,
        packet: Some((PacketKind::Ipv4, &packet)),
        max_packet: 256,
    };
    let mut out = Vec::new();
    ReportWriter::new(&header, &mut out).event(&event)?;
    Ok(out)
}

/// A plane, and the number of its next report.
struct Bench {
    driver: PlaneDriver,
    now: Nanos,
    sequence: u32,
}

impl Bench {
    fn new() -> Result<Bench, Box<dyn Error>> {
        let loops = Loops::read("loops", LOOPS)?;
        let element: Box<dyn CommandTarget> = Box::<AcceptingElement>::default();
        let plane = ReflexPlane::new(loops, Nanos::ZERO);
        let mut driver = PlaneDriver::new(plane, vec![element]);
        // The store elects its leader.
        driver.run_until(Nanos::from_secs(1));
        let (now, sequence) = (Nanos::from_secs(1), 0);
        Ok(Bench {
            driver,
            now,
            sequence,
        })
    }

    /// Gives a report with the next number. Returns the nanoseconds until all is done.
    fn report(&mut self, payload: &mut [u8]) -> u64 {
        self.sequence += 1;
        self.now += Nanos(10);
        let word = 2 << 28 | self.sequence & 0x3f_ffff;
        payload[..4].copy_from_slice(&word.to_be_bytes());
        let start = Instant::now();
        self.driver.receive(self.now, SourceIndex(0), FROM, payload);
        self.driver.step(self.now);
        start.elapsed().as_nanos() as u64
    }
}

fn show(what: &str, mut times: Vec<u64>) {
    times.sort_unstable();
    let (median, tail) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{what:45} {median:7} {tail:7}");
}

fn main() -> Result<(), Box<dyn Error>> {
    for flows in [256, 40_000] {
        let mut bench = Bench::new()?;
        let payloads = (0..flows).map(|flow| payload(flow, 500));
        let mut payloads: Vec<Vec<u8>> = payloads.collect::<Result<_, _>>()?;
        let count = payloads.len();
        let mut times = Vec::with_capacity(REPORTS as usize);
        for number in 0..REPORTS as usize {
            // In an order that no cache foresees.
            let flow = number.wrapping_mul(2_654_435_761) % count;
            times.push(bench.report(&mut payloads[flow]));
        }
        show(&format!("a normal report, {flows} flows"), times);
        assert_eq!(bench.driver.plane().decisions().count(), 0);
    }
    let mut bench = Bench::new()?;
    let mut times = Vec::with_capacity(ALARMS as usize);
    for flow in 0..ALARMS as u16 {
        let mut normal = payload(flow, 500)?;
        for _ in 0..WINDOW {
            bench.report(&mut normal);
        }
        times.push(bench.report(&mut payload(flow, 5000)?));
    }
    show("a loop: report, commit, command, answer", times);
    let decisions = bench.driver.plane().decisions();
    let done = decisions.filter(|decision| match decision.outcome {
        reflex::Outcome::Made(change) => change.answered.is_some(),
        _ => false,
    });
    assert_eq!(done.count(), ALARMS as usize);
    Ok(())
}
