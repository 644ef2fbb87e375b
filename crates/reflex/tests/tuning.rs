//! The shipped loop that tunes a queue: its objective is kept for large and small packets, and the
//! link stays busy.

mod common;

use common::{Bed, Delivered, Generator, bed, check_counts, udp_frame, without_traffic};
use packet::{Nanos, PortId};
use reflex::{Decision, Measured, MonitorIndex, Outcome, Setting};
use switch::{Change, QueueConfig};

/// The port of leaf1 to spine1, of 1 Gbit/s.
const PORT: PortId = PortId(3);
/// Objective of the loop file, in nanoseconds.
const OBJECTIVE: u64 = 200_000;
/// Large packets: more than the port sends.
const ELEPHANT: usize = 1400;
const ELEPHANTS: (u64, u64) = (20_000_000, 50_000_000);
const ELEPHANT_INTERVAL: u64 = 8_600;
/// Bursts of small packets: fewer than it sends.
const MOUSE: usize = 150;
const MICE: (u64, u64) = (50_000_000, 80_000_000);
const BURST: u64 = 60;
const BURST_INTERVAL: u64 = 150_000;

fn frame(at: u64, port: u16, bytes: usize) -> (Nanos, Vec<u8>) {
    let mac = [2, 0, 0, 0, 2, 1];
    let mut frame = udp_frame(mac, ([10, 0, 1, 1], port), ([10, 0, 2, 1], 6000), bytes);
    frame[42..50].copy_from_slice(&at.to_be_bytes());
    (Nanos(at), frame)
}

fn run(edit: impl Fn(String) -> String) -> (Bed, Vec<Delivered>) {
    let mut bed = bed("tuning", |fabric, loops| {
        let fabric = without_traffic(&fabric).replace("rate = \"1 Gbit/s\"\n", "");
        (fabric, edit(loops))
    });
    // The switch limits the port: INT makes packets longer after the queue, and a link of the same
    // rate would queue what they grow.
    let mut devices = bed.devices.iter();
    let (_, device) = devices.find(|(name, _)| name == "leaf1").expect("a switch");
    device.with(|device| {
        let queue = QueueConfig {
            bits_per_second: Some(1_000_000_000),
            ..device.queue(PORT)
        };
        device.apply(Change::SetQueue(PORT, queue)).unwrap();
        device.publish();
    });
    let large = (ELEPHANTS.0..ELEPHANTS.1).step_by(ELEPHANT_INTERVAL as usize);
    let large = large.map(|at| frame(at, 1, ELEPHANT));
    let small = (MICE.0..MICE.1).step_by(BURST_INTERVAL as usize);
    let small = small.flat_map(|at| (0..BURST).map(move |_| frame(at, 2, MOUSE)));
    Generator::new(large.chain(small).collect()).replace(&mut bed, "h1");
    let received = Generator::new(Vec::new()).replace(&mut bed, "h3");
    bed.simulation
        .run_until(Nanos(MICE.1 + 10_000_000))
        .unwrap();
    bed.simulation.check_conservation().unwrap();
    check_counts(bed.plane.get().plane());
    let received = received.borrow().clone();
    (bed, received)
}

/// Packets of one length that were sent in a span: their number, and the time beyond the shortest
/// one that 99 of 100 take.
fn of_span(received: &[Delivered], bytes: usize, span: (u64, u64)) -> (usize, u64) {
    let sent = |frame: &Delivered| {
        let bytes = frame.bytes[42..50].try_into().expect("eight bytes");
        u64::from_be_bytes(bytes)
    };
    let of_length = || received.iter().filter(|frame| frame.bytes.len() == bytes);
    let least = of_length().map(|frame| frame.at.0 - sent(frame)).min();
    let inside = of_length().filter(|frame| (span.0..span.1).contains(&sent(frame)));
    let mut delays: Vec<u64> = inside.map(|frame| frame.at.0 - sent(frame)).collect();
    delays.sort_unstable();
    let at = delays.len() * 99 / 100;
    (delays.len(), delays[at] - least.expect("some arrive"))
}

#[test]
fn the_objective_is_kept_and_the_link_stays_busy() {
    let (bed, received) = run(|loops| loops);
    // After some intervals.
    let span = (ELEPHANTS.0 + 12_000_000, ELEPHANTS.1);
    let (count, delay) = of_span(&received, ELEPHANT, span);
    assert!(delay <= OBJECTIVE, "{delay}");
    let capacity = (span.1 - span.0) / (8 * ELEPHANT as u64);
    assert!(count as u64 * 100 >= capacity * 95, "{count} of {capacity}");
    let span = (MICE.0 + 12_000_000, MICE.1);
    let (count, delay) = of_span(&received, MOUSE, span);
    assert!(delay <= OBJECTIVE, "{delay}");
    let sent = (span.1 - span.0) / BURST_INTERVAL * BURST;
    assert!(count as u64 * 100 >= sent * 95, "{count} of {sent}");
    let decisions: Vec<Decision> = bed.plane.get().plane().decisions().copied().collect();
    assert!(
        !decisions.is_empty() && decisions.len() < 20,
        "{}",
        decisions.len()
    );
    for decision in &decisions {
        assert!(matches!(decision.measured, Measured::Queueing { .. }));
        let Outcome::Made(made) = decision.outcome else {
            panic!("{decision:?}");
        };
        assert!(matches!(made.setting, Setting::Value(4..=400)), "{made:?}");
    }
}

#[test]
fn without_the_loop_large_packets_miss_the_objective_and_a_short_queue_loses_small_ones() {
    // The monitor alone, with the queue of the topology.
    let (bed, received) = run(|loops| loops.replace("every = \"2 ms\"", "every = \"60 s\""));
    let span = (ELEPHANTS.0 + 12_000_000, ELEPHANTS.1);
    let (_, delay) = of_span(&received, ELEPHANT, span);
    assert!(delay > 5 * OBJECTIVE, "{delay}");
    assert_eq!(
        bed.plane.get().plane().monitor_counts(MonitorIndex(0)).made,
        0
    );
    // A queue for large packets.
    let most = |loops: String| loops.replace("most = 400", "most = 16");
    let (_, received) = run(most);
    let span = (MICE.0 + 12_000_000, MICE.1);
    let (count, _) = of_span(&received, MOUSE, span);
    let sent = (span.1 - span.0) / BURST_INTERVAL * BURST;
    assert!(count as u64 * 10 < sent * 6, "{count} of {sent}");
}
