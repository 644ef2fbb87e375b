//! Latency below saturation. Packets arrive at a rate that both sides sustain. The latency of a
//! packet is the time from its arrival until its burst is processed. Both sides are measured in
//! alternating runs over the same packets, so that disturbances affect both.

use std::time::{Duration, Instant};

use packet::{Frame, Nanos, PortId};
use support::tsc_clock::Clock;

use crate::forward::{Forward, SentFrames};
use crate::measure::{Plan, Traffic, quantile};

/// Number of pairs of runs.
const PAIRS: usize = 30;

/// Maximum and minimum number of packets per run. The minimum applies if there is little time.
const MAX_PACKETS: usize = 4096;
const MIN_PACKETS: usize = 64;
/// Number of packets per run over wires.
const WIRE_PACKETS: usize = 512;

/// Latency of packets, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Latency {
    /// Returns the latency of packets that took these times.
    pub fn of(took: &mut [f64]) -> Latency {
        Latency {
            p50: quantile(took, 0.5),
            p99: quantile(took, 0.99),
        }
    }
}

/// Latencies of two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// The first side: medians over its runs.
    pub first: Latency,
    /// The second side: medians over its runs.
    pub second: Latency,
    /// Median latency of the second side divided by that of the first side. Median over pairs.
    pub ratio: f64,
}

/// Transfers a packet to a side and from it to its destination.
pub trait Wires {
    /// Sends a packet, which was adapted to this side, and waits for it at the other end. Returns
    /// the time, or `None` if it did not arrive.
    fn carry(&mut self, frame: &Frame, side: &mut dyn Forward) -> Option<Duration>;
}

/// Measures two sides at a rate of `mpps` million packets per second, for about the plan's time. A
/// burst has at most the plan's number of packets.
pub fn pairs(
    sides: [&mut dyn Forward; 2],
    traffic: &dyn Traffic,
    mpps: f64,
    plan: &Plan,
) -> Latencies {
    let mpps = mpps.max(1e-3);
    let of_run = plan.time.as_secs_f64() / (2 * PAIRS) as f64;
    let packets = (mpps * 1e6 * of_run) as usize;
    let packets = packets.clamp(MIN_PACKETS, MAX_PACKETS);
    let mut runs = Runs::new(mpps, packets, plan.burst);
    paired(sides, &mut |side, seed| runs.run(side, traffic, seed))
}

/// Latency of a side, and the packets that it forwards a second while there are packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// Median over the runs.
    pub latency: Latency,
    /// Million packets per second, median over the runs.
    pub mpps: f64,
}

/// Measures a side at any rate of `mpps` million packets per second, in `runs` runs of `packets`
/// packets. No packet is lost: above the rate of the side, the queue grows until the run ends.
pub fn at_rate(
    side: &mut dyn Forward,
    traffic: &dyn Traffic,
    mpps: f64,
    (runs, packets, burst): (u64, usize, usize),
) -> Carried {
    let mut taken = Runs::new(mpps, packets, burst);
    let mut latencies = Vec::new();
    let mut rates = Vec::new();
    for seed in 0..runs {
        latencies.push(taken.run(side, traffic, seed));
        rates.push(packets as f64 * 1e3 / taken.took_all as f64);
    }
    Carried {
        latency: median(&latencies),
        mpps: quantile(&mut rates, 0.5),
    }
}

/// Returns the time of each of some packets in microseconds, one packet at a time.
pub fn one_by_one(
    traffic: &dyn Traffic,
    packets: u64,
    mut forward: impl FnMut(&mut Frame, Nanos),
) -> Vec<f64> {
    let clock = Clock::new();
    let rate = clock.rate().ticks_per_ns * 1e3;
    let mut write = traffic.packets(3);
    let mut frame = Frame::new();
    // Later than what came before the measurement.
    let mut now = Nanos::from_secs(2000);
    let mut times = Vec::with_capacity(packets as usize);
    for _ in 0..packets {
        write(&mut frame);
        now += Nanos(1000);
        let begin = clock.ticks();
        forward(&mut frame, now);
        times.push((clock.ticks() - begin) as f64 / rate);
    }
    times
}

/// Measures two sides from wire to wire, one packet at a time.
pub fn over_wires(
    sides: [&mut dyn Forward; 2],
    traffic: &dyn Traffic,
    wires: &mut dyn Wires,
) -> Latencies {
    let (mut frame, mut packets) = (Frame::new(), Vec::with_capacity(WIRE_PACKETS));
    let mut took = Vec::with_capacity(WIRE_PACKETS);
    paired(sides, &mut |side, seed| {
        let mut next = traffic.packets(seed);
        packets.clear();
        packets.extend((0..WIRE_PACKETS).map(|_| {
            next(&mut frame);
            side.make_ready(std::slice::from_mut(&mut frame));
            Packet::of(&frame)
        }));
        let carried = packets.iter().filter_map(|packet| {
            packet.write_to(&mut frame);
            wires.carry(&frame, side)
        });
        took.clear();
        took.extend(carried.map(|took| took.as_secs_f64() * 1e6));
        Latency::of(&mut took)
    })
}

/// A packet in compact form. Frames would take cache and TLB capacity from the measured side.
struct Packet {
    ingress: PortId,
    bytes: Box<[u8]>,
}

impl Packet {
    fn of(frame: &Frame) -> Packet {
        Packet {
            ingress: frame.ingress,
            bytes: frame.bytes().into(),
        }
    }

    fn write_to(&self, frame: &mut Frame) {
        // The bytes come from a frame, so they are not too long.
        let _ = frame.assign(&self.bytes);
        frame.ingress = self.ingress;
    }
}

/// Makes pairs of runs. The side that runs first alternates.
fn paired(
    sides: [&mut dyn Forward; 2],
    run: &mut dyn FnMut(&mut dyn Forward, u64) -> Latency,
) -> Latencies {
    let mut taken: [Vec<Latency>; 2] = [Vec::new(), Vec::new()];
    for pair in 0..PAIRS {
        for turn in 0..2 {
            let at = (pair + turn) % 2;
            taken[at].push(run(&mut *sides[at], pair as u64));
        }
    }
    let [first, second] = &taken;
    let ratios = first.iter().zip(second);
    let mut ratios: Vec<f64> = ratios.map(|(one, other)| other.p50 / one.p50).collect();
    Latencies {
        first: median(first),
        second: median(second),
        ratio: quantile(&mut ratios, 0.5),
    }
}

fn median(runs: &[Latency]) -> Latency {
    let of = |share: fn(&Latency) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(share).collect();
        quantile(&mut values, 0.5)
    };
    Latency {
        p50: of(|run| run.p50),
        p99: of(|run| run.p99),
    }
}

struct Runs {
    /// Time between packets, in nanoseconds.
    interval: f64,
    most: usize,
    frames: Vec<Frame>,
    out: SentFrames,
    /// Latency of each packet of a run, in microseconds.
    took: Vec<f64>,
    /// Duration of a run in nanoseconds.
    took_all: u64,
    begin: Nanos,
}

impl Runs {
    fn new(mpps: f64, packets: usize, burst: usize) -> Runs {
        Runs {
            interval: 1e3 / mpps,
            most: burst.max(1),
            frames: (0..packets).map(|_| Frame::new()).collect(),
            out: SentFrames::new(),
            took: Vec::with_capacity(packets),
            took_all: 1,
            // Later than all times of other measurements, because time must not decrease.
            begin: Nanos::from_secs(1 << 20),
        }
    }

    fn run(&mut self, side: &mut dyn Forward, traffic: &dyn Traffic, seed: u64) -> Latency {
        self.frames.iter_mut().for_each(traffic.packets(seed));
        side.make_ready(&mut self.frames);
        self.took.clear();
        let start = Instant::now();
        let since = || start.elapsed().as_nanos() as u64;
        let (mut done, packets) = (0, self.frames.len());
        while done < packets {
            let now = since();
            let came = (now as f64 / self.interval) as usize + 1;
            let come = came.min(packets).min(done + self.most);
            if come == done {
                std::hint::spin_loop();
                continue;
            }
            let time = self.begin + Nanos(now);
            side.forward(&mut self.frames[done..come], time, &mut self.out);
            let end = since();
            let took = (done..come).map(|packet| end as f64 - packet as f64 * self.interval);
            self.took.extend(took.map(|nanos| nanos / 1e3));
            done = come;
        }
        self.out.flush();
        self.took_all = since().max(1);
        self.begin += Nanos(self.took_all);
        Latency::of(&mut self.took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Packets;
    use crate::{Bare, Reading};
    use std::time::Duration;

    /// A side that takes a fixed time per burst.
    struct Slow;

    impl Forward for Slow {
        fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
            Bare.forward(frames, now, out);
        }

        fn readings(&self) -> Vec<Reading> {
            Vec::new()
        }
    }

    struct Same;

    impl Traffic for Same {
        fn packets(&self, _: u64) -> Packets<'_> {
            Box::new(|frame| {
                let _ = frame.assign(&[1; 64]);
            })
        }
    }

    #[test]
    fn packets_of_the_slower_side_take_longer_at_the_same_rate() {
        let plan = Plan {
            time: Duration::from_millis(30),
            burst: 1024,
            seed: 1,
        };
        let measured = pairs([&mut Bare, &mut Slow], &Same, 1.0, &plan);
        assert!(measured.second.p50 >= 20.0, "{measured:?}");
        assert!(measured.ratio > 1.0, "{measured:?}");
        assert!(measured.first.p50 <= measured.first.p99);
    }

    /// Traffic of distinct packets on several ports.
    struct Numbered;

    impl Traffic for Numbered {
        fn packets(&self, seed: u64) -> Packets<'_> {
            let mut number = seed * 10_000;
            Box::new(move |frame| {
                number += 1;
                let _ = frame.assign(&number.to_be_bytes()[number as usize % 4 + 1..]);
                frame.ingress = PortId(number as u32 % 3);
            })
        }
    }

    /// Wires that record the sent packets and lose every second packet.
    #[derive(Default)]
    struct Noting(Vec<(PortId, Vec<u8>)>);

    impl Wires for Noting {
        fn carry(&mut self, frame: &Frame, _: &mut dyn Forward) -> Option<Duration> {
            self.0.push((frame.ingress, frame.bytes().to_vec()));
            self.0
                .len()
                .is_multiple_of(2)
                .then_some(Duration::from_micros(3))
        }
    }

    #[test]
    fn both_sides_are_sent_the_same_packets_over_wires_as_they_were_made_ready() {
        let (mut first, mut second, mut wires) = (Slow, Bare, Noting::default());
        let taken = over_wires([&mut first, &mut second], &Numbered, &mut wires);
        assert_eq!((taken.first.p50, taken.ratio), (3.0, 1.0));
        let mut frame = Frame::new();
        let runs = wires.0.chunks(WIRE_PACKETS);
        assert_eq!(runs.len(), 2 * PAIRS);
        for (number, run) in runs.enumerate() {
            let mut next = Numbered.packets(number as u64 / 2);
            for (ingress, bytes) in run {
                next(&mut frame);
                assert_eq!((*ingress, bytes.as_slice()), (frame.ingress, frame.bytes()));
            }
        }
    }
}
