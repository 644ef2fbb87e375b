//! Benchmark of frame costs in memory: copying a frame in and out, as a port with its own memory
//! does, and generating a frame. `polyplane bench --io` measures ports. Run this with
//! `cargo bench -p port --bench frames`.

use packet::{Batch, Nanos, PortId};
use port::{Flows, Generator, Order, Sizes, Template};
use std::hint::black_box;
use std::time::Instant;
use support::quantile::median;

/// Number of frames processed per timed round.
const BURST: usize = 1024;

/// Number of timed rounds of each variant.
const ROUNDS: usize = 400;

fn main() {
    // `cargo test --benches` requests a short run.
    let rounds = if std::env::args().any(|word| word == "--bench") {
        ROUNDS
    } else {
        3
    };
    copies(rounds);
    generated(rounds);
}

fn generator(flows: Flows, len: usize) -> Generator {
    Generator::new(vec![Template::udp4()], flows, &Sizes::Fixed(len), 1)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Measures two copies per frame, in and out, as a port with its own memory makes them.
fn copies(rounds: usize) {
    println!("copying a frame in and out again");
    println!("{:>6} {:>12}", "bytes", "ns a frame");
    for len in [60, 128, 256, 512, 1024, 1514] {
        let memory = vec![1u8; 2048 * BURST];
        let mut out = vec![0u8; 2048 * BURST];
        let mut batch = Batch::default();
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                let start = Instant::now();
                for (chunks, outs) in memory
                    .chunks(2048 * Batch::DEFAULT)
                    .zip(out.chunks_mut(2048 * Batch::DEFAULT))
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
                start.elapsed().as_secs_f64()
            })
            .collect();
        let each = median(&mut times).unwrap_or_default() * 1e9 / BURST as f64;
        println!("{len:>6} {each:>12.1}");
    }
}

/// Measures the generation of a frame, by the number and order of flows.
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
            let mut times: Vec<f64> = (0..rounds)
                .map(|_| {
                    let start = Instant::now();
                    for _ in 0..BURST / Batch::DEFAULT {
                        batch.clear();
                        generator.fill(&mut batch, PortId(0), Nanos::ZERO);
                    }
                    start.elapsed().as_secs_f64()
                })
                .collect();
            let each = median(&mut times).unwrap_or_default() * 1e9 / BURST as f64;
            println!("{count:>10} {name:>8} {each:>12.1}");
        }
    }
}
