//! Benchmark: packets per second through the example router in memory, on one core, for each
//! engine. Run it with `cargo bench -p testkit`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use packet::{Nanos, PortId};
use testkit::{engines, routed_frame, router};

/// Number of packets received before a step.
const BATCH: usize = 64;

/// Frame length in bytes.
const LEN: usize = 64;

fn forward(criterion: &mut Criterion) {
    let frames: Vec<Vec<u8>> = (0..BATCH).map(|i| routed_frame(LEN, i as u16)).collect();
    let mut group = criterion.benchmark_group("router");
    group.throughput(Throughput::Elements(BATCH as u64));
    for engine in engines() {
        let mut device = router(engine.as_ref()).expect("the example router loads");
        let mut now = Nanos::ZERO;
        group.bench_function(engine.name(), |bencher| {
            bencher.iter(|| {
                for frame in &frames {
                    device.receive(PortId(0), frame).expect("a short frame");
                }
                now += Nanos::from_micros(64);
                device.step(now);
                let mut sent = 0;
                device.drain_sent(|port, _, _| sent += usize::from(port == PortId(1)));
                assert_eq!(sent, BATCH);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
