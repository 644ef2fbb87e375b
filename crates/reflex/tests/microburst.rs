//! The shipped loop against bursts: each is found with the shares of its flows, and flows that meet
//! it get another way.

mod common;

use std::collections::{HashMap, VecDeque};

use common::{Bed, Delivered, Generator, bed, check_counts, flow_of, udp_frame, without_traffic};
use packet::Nanos;
use reflex::{Decision, Measured, MonitorIndex, Outcome, Setting};
use telemetry::IntNodeId;

/// First packet of victims, and time between two.
const START: u64 = 20_000_000;
const VICTIM_INTERVAL: u64 = 20_000;
const VICTIM_BYTES: usize = 300;
/// Bursts, time between two, and their packets.
const BURSTS: u64 = 100;
const PERIOD: u64 = 2_000_000;
const BURST_PACKETS: u64 = 83;
const BURST_INTERVAL: u64 = 6_000;
const BURST_BYTES: usize = 1400;
/// Threshold of the loop file.
const ABOVE: u64 = 10_000;
/// Bytes that the first node adds for INT: shim, header, and its own eight words.
const INT_BYTES: u64 = 16 + 32;
/// First source port of flows of bursts.
const CULPRITS: u16 = 100;

/// Frames of a host, with the times at which they are sent.
type Frames = Vec<(Nanos, Vec<u8>)>;

/// Frames of the victims, and of the bursts: two flows with other shares in each.
fn frames(count: u64) -> [Frames; 2] {
    let add = |frames: &mut Frames, at: u64, host: u8, port: u16, bytes: usize| {
        let to = [10, 0, 2, host];
        let mac = [2, 0, 0, 0, 2, host];
        let mut frame = udp_frame(mac, ([10, 0, 1, host], port), (to, 6000), bytes);
        frame[42..50].copy_from_slice(&at.to_be_bytes());
        frames.push((Nanos(at), frame));
    };
    let (mut victims, mut bursts) = (Frames::new(), Frames::new());
    for number in 0..count * PERIOD / VICTIM_INTERVAL {
        let at = START + number * VICTIM_INTERVAL;
        add(&mut victims, at, 1, number as u16 % 8, VICTIM_BYTES);
    }
    for burst in 0..count {
        for number in 0..BURST_PACKETS {
            let at = START + burst * PERIOD + 500_000 + number * BURST_INTERVAL;
            // An even mix: up to half of the packets.
            let before = |number: u64| number * burst / (2 * BURSTS);
            let is_second = before(number + 1) > before(number);
            add(
                &mut bursts,
                at,
                2,
                CULPRITS + u16::from(is_second),
                BURST_BYTES,
            );
        }
    }
    [victims, bursts]
}

fn run(count: u64, edit: impl Fn(String) -> String) -> (Bed, Vec<Delivered>) {
    let mut bed = bed("microburst", |fabric, loops| {
        (without_traffic(&fabric), edit(loops))
    });
    let [victims, bursts] = frames(count);
    Generator::new(victims).replace(&mut bed, "h1");
    Generator::new(bursts).replace(&mut bed, "h2");
    let received = Generator::new(Vec::new()).replace(&mut bed, "h3");
    Generator::new(Vec::new()).replace(&mut bed, "h4");
    let end = Nanos(START + count * PERIOD + 10_000_000);
    bed.simulation.run_until(end).unwrap();
    bed.simulation.check_conservation().unwrap();
    check_counts(bed.plane.get().plane());
    let received = received.borrow().clone();
    (bed, received)
}

/// The loop file with a monitor that reports only.
fn report_only(loops: String) -> String {
    let loops = loops.replace("reflex = \"detour\"\n", "");
    let sections = loops.split_inclusive("\n\n");
    let kept = sections.filter(|it| !it.contains("[[reflex]]") && !it.contains("[[element]]"));
    kept.collect()
}

/// Peak of a burst in the queue to spine1 by a model of the queue: bytes of each flow.
fn peaks() -> Vec<HashMap<u16, u64>> {
    let [victims, bursts] = frames(BURSTS);
    // At 10 Gbit/s a byte takes 0.8 ns, and all links have the same delay.
    let arrivals = victims.into_iter().chain(bursts).map(|(at, frame)| {
        let arrived = at.0 + frame.len() as u64 * 4 / 5;
        (arrived, flow_of(&frame).2, frame.len() as u64)
    });
    let mut arrivals: Vec<(u64, u16, u64)> = arrivals.collect();
    arrivals.sort_unstable();
    let mut queue: VecDeque<(u64, u16, u64)> = VecDeque::new();
    let mut free = 0;
    let mut peaks = vec![HashMap::new(); BURSTS as usize];
    let mut most = vec![0; BURSTS as usize];
    for (now, flow, bytes) in arrivals {
        free = now.max(free) + (bytes + INT_BYTES) * 8;
        queue.push_back((free, flow, bytes));
        while queue.front().is_some_and(|(left, _, _)| *left <= now) {
            queue.pop_front();
        }
        let inside: u64 = queue.iter().map(|(_, _, bytes)| bytes).sum();
        let burst = ((now - START) / PERIOD).min(BURSTS - 1) as usize;
        if inside > most[burst] {
            most[burst] = inside;
            peaks[burst].clear();
            for (_, flow, bytes) in &queue {
                *peaks[burst].entry(*flow).or_default() += bytes;
            }
        }
    }
    peaks
}

/// Latency of victims in nanoseconds: that of 99 of 100 is at most this.
fn p99(received: &[Delivered]) -> u64 {
    let latencies = received.iter().map(|frame| {
        let sent = frame.bytes[42..50].try_into().expect("eight bytes");
        frame.at.0 - u64::from_be_bytes(sent)
    });
    let mut latencies: Vec<u64> = latencies.collect();
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

#[test]
fn all_bursts_are_found_with_their_shares_and_victims_wait_half_as_long_with_detours() {
    let (bed, without) = run(BURSTS, report_only);
    let driver = bed.plane.get();
    let bursts: Vec<_> = driver.plane().bursts(MonitorIndex(0)).collect();
    assert_eq!(bursts.len() as u64, BURSTS);
    for ((number, burst), truth) in (0..).zip(&bursts).zip(peaks()) {
        let begin = START + number * PERIOD + 500_000;
        let span = begin..begin + BURST_PACKETS * BURST_INTERVAL + 100_000;
        assert!(span.contains(&burst.start.0), "{burst:?}");
        assert!(span.contains(&burst.peak.0), "{burst:?}");
        assert_eq!((burst.queue.node, burst.queue.port), (IntNodeId(1), 3));
        assert!(burst.bytes > ABOVE);
        let all: u64 = truth.values().sum();
        let share = |bytes: u64, of: u64| bytes as f64 / of as f64;
        assert!(
            (share(burst.bytes, all) - 1.0).abs() < 0.1,
            "{burst:?}, {truth:?}"
        );
        for culprit in [CULPRITS, CULPRITS + 1] {
            let truth = share(truth.get(&culprit).copied().unwrap_or(0), all);
            let mut flows = burst.flows.iter();
            let found = flows.find(|(flow, _)| flow.ports.unwrap().source == culprit);
            let found = share(found.map_or(0, |(_, bytes)| *bytes), burst.bytes);
            assert!((found - truth).abs() <= 0.05, "{found} {truth}: {burst:?}");
        }
    }
    let decisions = driver.plane().decisions().count();
    assert!(decisions > 0);

    let (bed, with) = run(BURSTS, |loops| loops);
    assert_eq!(with.len(), without.len());
    let (before, after) = (p99(&without), p99(&with));
    assert!(2 * after <= before, "{before} ns, with detours {after} ns");
    let driver = bed.plane.get();
    let decisions: Vec<Decision> = driver.plane().decisions().copied().collect();
    let (mut detours, mut culprits) = (0, 0);
    for decision in &decisions {
        let flow = decision.subject.flow().expect("it is about a flow");
        let Measured::Burst {
            node,
            port,
            bytes,
            flow_bytes,
        } = decision.measured
        else {
            panic!("{decision:?}");
        };
        assert_eq!((node, port), (IntNodeId(1), 3));
        // No flow with more than a quarter of the queue gets another way.
        assert!(4 * flow_bytes <= bytes, "{decision:?}");
        culprits += u64::from(flow.ports.unwrap().source >= CULPRITS);
        if let Outcome::Made(made) = decision.outcome {
            assert_eq!(made.setting, Setting::Action(Some(4)));
            detours += 1;
        }
    }
    assert!(detours >= 8 * BURSTS, "{detours}");
    // A flow of a burst can have a small share only when the burst is found.
    assert!(culprits <= BURSTS, "{culprits}");
    // Each flow is back on its way before the next burst.
    assert_eq!(driver.plane().counts().ended, detours);
}

#[test]
fn culprits_are_limited_at_their_edge_and_the_bursts_become_small() {
    const COUNT: u64 = 10;
    let (bed, before) = run(COUNT, report_only);
    let bytes = |bed: &Bed| {
        let driver = bed.plane.get();
        let bursts = driver.plane().bursts(MonitorIndex(0));
        bursts.map(|burst| burst.bytes).collect::<Vec<u64>>()
    };
    let without = bytes(&bed);
    let (bed, after) = run(COUNT, |loops| {
        let edits = [
            ("flows_of = \"victims\"", "flows_of = \"culprits\""),
            ("IntIngress.detour", "IntIngress.policed"),
            ("IntIngress.via", "IntIngress.police"),
            (
                "ports = [3, 4]",
                "meter_rate = \"100 Mbit/s\"\nburst = \"3 KB\"",
            ),
        ];
        edits.into_iter().fold(loops, |loops, (from, to)| {
            assert!(loops.contains(from), "{from}");
            loops.replace(from, to)
        })
    });
    let with = bytes(&bed);
    assert_eq!(
        (without.len(), with.len()),
        (COUNT as usize, COUNT as usize)
    );
    for (with, without) in with.iter().zip(&without) {
        assert!(2 * with <= *without, "{with} {without}");
    }
    assert_eq!(before.len(), after.len());
    assert!(2 * p99(&after) <= p99(&before));
    let decisions: Vec<Decision> = bed.plane.get().plane().decisions().copied().collect();
    assert!(!decisions.is_empty());
    for decision in decisions {
        let flow = decision.subject.flow().expect("it is about a flow");
        assert!(flow.ports.unwrap().source >= CULPRITS, "{decision:?}");
        let Outcome::Made(made) = decision.outcome else {
            panic!("{decision:?}");
        };
        assert_eq!(made.setting, Setting::Action(None));
    }
}
