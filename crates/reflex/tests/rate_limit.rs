//! The shipped loop of a tenant's rate: max-min fair shares at four edges.

mod common;

use std::net::Ipv4Addr;

use common::{Bed, Delivered, Generator, bed, check_counts, flow_of, udp_frame, without_traffic};
use packet::Nanos;
use reflex::{Decision, Measured, MonitorIndex, Outcome, Subject};

/// The limit, in bytes a second.
const LIMIT: f64 = 50e6;
/// Length of frames.
const BYTES: usize = 1000;
/// First packet.
const START: u64 = 20;
/// Times at which edges want other rates, in milliseconds, and the rates in Mbit/s.
const PHASES: [(u64, [u64; 4]); 4] = [
    (START, [200, 200, 200, 40]),
    (60, [200, 200, 200, 240]),
    (100, [0, 60, 300, 300]),
    (140, [30, 60, 90, 120]),
];
const END: u64 = 180;

fn run(edit: impl Fn(String) -> String) -> (Bed, Vec<Delivered>) {
    let mut bed = bed("rate_limit", |fabric, loops| {
        (without_traffic(&fabric), edit(loops))
    });
    for edge in 0..4 {
        let mut frames = Vec::new();
        for (at, (start, rates)) in PHASES.iter().enumerate() {
            let end = PHASES.get(at + 1).map_or(END, |(start, _)| *start);
            let span = (end - start) * 1_000_000;
            let count = rates[edge] * 1_000_000 / 8 * span / 1_000_000_000 / BYTES as u64;
            for number in 0..count {
                let at = Nanos(start * 1_000_000 + (2 * number + 1) * span / (2 * count));
                let from = ([10, 0, 1 + edge as u8, 1], number as u16 % 8);
                let mac = [2, 0, 0, 0, 9, 1];
                frames.push((at, udp_frame(mac, from, ([10, 0, 9, 1], 6000), BYTES)));
            }
        }
        Generator::new(frames).replace(&mut bed, &format!("h{}", edge + 1));
    }
    let delivered = Generator::new(Vec::new()).replace(&mut bed, "server");
    bed.simulation
        .run_until(Nanos::from_millis(END + 5))
        .unwrap();
    bed.simulation.check_conservation().unwrap();
    check_counts(bed.plane.get().plane());
    let delivered = delivered.borrow().clone();
    (bed, delivered)
}

/// Rate of an edge in bytes a second, from one millisecond to another one.
fn rate(delivered: &[Delivered], edge: usize, from: u64, to: u64) -> f64 {
    let address = Ipv4Addr::new(10, 0, 1 + edge as u8, 1);
    let of_edge = delivered.iter().filter(|frame| {
        let within = Nanos::from_millis(from)..Nanos::from_millis(to);
        within.contains(&frame.at) && flow_of(&frame.bytes).0 == address
    });
    (of_edge.count() * BYTES) as f64 * 1000.0 / (to - from) as f64
}

/// Max-min fair rates, by filling: everyone who still wants more gets a little more.
fn fair(wants: [f64; 4]) -> [f64; 4] {
    let mut rates = [0.0; 4];
    let step = LIMIT / 100_000.0;
    let mut rest = LIMIT;
    loop {
        let hungry: Vec<usize> = (0..4)
            .filter(|at| rates[*at] + step <= wants[*at])
            .collect();
        if hungry.is_empty() || rest < step * 4.0 {
            return rates;
        }
        for at in hungry {
            rates[at] += step;
            rest -= step;
        }
    }
}

#[test]
fn soon_after_each_change_the_sum_is_the_limit_and_shares_are_max_min_fair() {
    let (bed, delivered) = run(|loops| loops);
    for (at, (start, rates)) in PHASES.iter().enumerate() {
        let end = PHASES.get(at + 1).map_or(END, |(start, _)| *start);
        let wants = rates.map(|rate| rate as f64 * 1e6 / 8.0);
        let expected = fair(wants);
        let expected_sum: f64 = expected.iter().sum();
        // From 20 ms after the change on.
        for from in (start + 20..=end - 10).step_by(5) {
            let rates = [0, 1, 2, 3].map(|edge| rate(&delivered, edge, from, from + 10));
            let sum: f64 = rates.iter().sum();
            let context = format!("{from} ms: {rates:?}, fair are {expected:?}");
            assert!((sum / expected_sum - 1.0).abs() <= 0.05, "{context}");
            for (rate, fair) in rates.iter().zip(expected) {
                assert!((rate - fair).abs() <= 0.1 * fair, "{context}");
            }
        }
    }
    let decisions: Vec<Decision> = bed.plane.get().plane().decisions().copied().collect();
    assert!(!decisions.is_empty());
    for decision in &decisions {
        assert_eq!(decision.subject, Subject::Tenant);
        assert!(matches!(decision.measured, Measured::Rate { .. }));
        assert!(matches!(decision.outcome, Outcome::Made(_)), "{decision:?}");
    }
}

#[test]
fn below_the_limit_no_meter_is_set_and_no_packet_is_lost() {
    let (bed, delivered) = run(|loops| loops.replace("400 Mbit/s", "1 Gbit/s"));
    let counts = bed.plane.get().plane().monitor_counts(MonitorIndex(0));
    assert_eq!((counts.alarms, counts.made), (0, 0));
    assert_eq!(counts.normal as usize, delivered.len());
    let sent: u64 = PHASES
        .iter()
        .map(|(_, rates)| rates.iter().sum::<u64>() * 5)
        .sum();
    assert_eq!(delivered.len() as u64, sent);
}
