//! What ports carry: frames through a port and out by another, against the bare loop over the same rings
//! and against raw sockets, and what copying a frame costs.
//!
//! One thread offers frames and then times the switch's part alone; the ways take turns, and medians are
//! shown. Run it by `cargo xtask bench-io`.

use packet::{Batch, Nanos, PortId};
use port::{
    AfPacketPort, AfXdpPort, Flows, Generator, Order, Port, Sizes, Template, Testbed, TestbedError,
    XdpMode,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Frames that wait when the clock starts.
const BURST: usize = 1024;

/// How often each way has its turn.
const ROUNDS: usize = 400;

fn main() {
    // `cargo test --benches` asks for a short run.
    let rounds = if std::env::args().any(|word| word == "--bench") {
        ROUNDS
    } else {
        3
    };
    copies(rounds);
    generated(rounds);
    if let Err(error) = ports(rounds) {
        println!("skipped: {error}");
    }
}

fn generator(flows: Flows, len: usize) -> Generator {
    Generator::new(vec![Template::udp4()], flows, &Sizes::Fixed(len), 1)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The time that a round takes, in the middle of all.
fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// What two copies cost: one in, one out, as a port with memory of its own makes them.
fn copies(rounds: usize) {
    println!("copying a frame in and out again");
    println!("{:>6} {:>12}", "bytes", "ns a frame");
    for len in [60, 128, 256, 512, 1024, 1514] {
        let memory = vec![1u8; 2048 * BURST];
        let mut out = vec![0u8; 2048 * BURST];
        let mut batch = Batch::default();
        let mut times: Vec<Duration> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                for (chunks, outs) in memory
                    .chunks(2048 * Batch::USUAL)
                    .zip(out.chunks_mut(2048 * Batch::USUAL))
                {
                    batch.clear();
                    for chunk in chunks.chunks(2048) {
                        if let Some(frame) = batch.push() {
                            let _ = frame.assign(&chunk[..len]);
                        }
                    }
                    for (frame, place) in batch.frames().iter().zip(outs.chunks_mut(2048)) {
                        place[..len].copy_from_slice(frame.bytes());
                    }
                }
                black_box(&mut out);
                start.elapsed()
            })
            .collect();
        let each = median(&mut times).as_secs_f64() * 1e9 / BURST as f64;
        println!("{len:>6} {each:>12.1}");
    }
}

/// What making a frame costs, by the number and the order of flows.
fn generated(rounds: usize) {
    println!("\nmaking a frame of 60 bytes");
    println!("{:>10} {:>8} {:>12}", "flows", "order", "ns a frame");
    let orders = [
        ("in turn", Order::InTurn),
        ("equal", Order::Zipf { skew: 0.0 }),
        ("Zipf 1", Order::Zipf { skew: 1.0 }),
    ];
    for count in [1 << 10, 1 << 20] {
        for (name, order) in orders {
            let flows = Flows { count, order };
            let mut generator = generator(flows, 60);
            let mut batch = Batch::default();
            let mut times: Vec<Duration> = (0..rounds)
                .map(|_| {
                    let start = Instant::now();
                    for _ in 0..BURST / Batch::USUAL {
                        batch.clear();
                        generator.fill(&mut batch, PortId(0), Nanos::ZERO);
                    }
                    start.elapsed()
                })
                .collect();
            let each = median(&mut times).as_secs_f64() * 1e9 / BURST as f64;
            println!("{count:>10} {name:>8} {each:>12.1}");
        }
    }
}

/// Carries what waits by the port trait; how many frames.
fn carry<P: Port>(bed: &mut Testbed<P>, batch: &mut Batch) -> u64 {
    let now = bed.now();
    let mut carried = 0;
    loop {
        batch.clear();
        match bed.input.rx(batch, now) {
            Ok(0) => return carried,
            Ok(_) => carried += bed.output.tx(batch.frames()).sent,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Offers frames, has them carried, and gives the time for each; none if hardly any had arrived when the
/// clock started, as when the kernel has left them to a thread of its own.
fn turn<P: Port>(
    bed: &mut Testbed<P>,
    generator: &mut Generator,
    carry: impl FnOnce(&mut Testbed<P>) -> u64,
) -> Option<Duration> {
    bed.offer(generator, BURST);
    std::thread::sleep(Duration::from_micros(100));
    let start = Instant::now();
    let carried = carry(bed);
    let took = start.elapsed();
    let carried = u32::try_from(carried).unwrap_or(u32::MAX);
    (carried as usize > BURST / 2).then(|| took / carried)
}

fn ports(rounds: usize) -> Result<(), TestbedError> {
    let mut xdp = Testbed::new(|id, name| AfXdpPort::open(id, name, XdpMode::Driver))?;
    let mut packet = Testbed::new(AfPacketPort::open)?;
    println!(
        "\nfrom one veth interface to another, AF_XDP: {}",
        xdp.input
    );
    println!(
        "{:>6} {:>14} {:>14} {:>7} {:>16}",
        "bytes", "bare ns", "AF_XDP ns", "ratio", "AF_PACKET ns"
    );
    let mut batch = Batch::default();
    for len in [60, 590, 1514] {
        let flows = Flows {
            count: 1024,
            order: Order::Zipf { skew: 0.0 },
        };
        let mut frames = generator(flows, len);
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            times[0].extend(turn(&mut xdp, &mut frames, |bed| {
                let mut carried = 0;
                loop {
                    match bed.input.pass_to(&mut bed.output) {
                        0 => return carried,
                        passed => carried += passed,
                    }
                }
            }));
            times[1].extend(turn(&mut xdp, &mut frames, |bed| carry(bed, &mut batch)));
            times[2].extend(turn(&mut packet, &mut frames, |bed| carry(bed, &mut batch)));
        }
        let [bare, port, raw] = times.map(|mut times| median(&mut times).as_secs_f64() * 1e9);
        println!(
            "{len:>6} {bare:>14.0} {port:>14.0} {:>7.2} {raw:>16.0}",
            bare / port
        );
    }
    Ok(())
}
