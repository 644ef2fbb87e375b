//! Prints the times of decisions for 3,000,000 flows and 900,000 prefixes:
//! `cargo run --release --example placement_scale -p placement`.

use std::time::Instant;

use placement::{
    Count, FlowPlacement, FlowWindow, ItemId, Nesting, PlacementOptions, Policy, Prefix,
    RoutePlacement, RouteWindow, Sketch, SketchSize,
};
use support::rng::Rng;

fn main() {
    let mut rng = Rng::new(1);
    let top = 10_000;
    let options = PlacementOptions {
        policy: Policy::Heap,
        top,
        ..PlacementOptions::default()
    };
    let sketch = Sketch::new(SketchSize {
        columns: 1 << 20,
        rows: 2,
    });
    time("sketch: 10,000,000 packets", || {
        let mut key = [0; 13];
        for packet in 0..10_000_000u32 {
            key[..4].copy_from_slice(&(packet % 3_000_000).to_be_bytes());
            sketch.count(&key);
        }
    });

    let counts = |rng: &mut Rng| -> Vec<Count> {
        let all = (0..3_000_000).map(ItemId);
        all.map(|item| Count {
            item,
            packets: rng.below(1000),
        })
        .collect()
    };
    let Ok(mut flows) = FlowPlacement::new(options) else {
        return;
    };
    for window in 1..=2 {
        let reports = counts(&mut rng);
        time(&format!("flows: window {window}, 3,000,000 counts"), || {
            flows.end_window(&FlowWindow {
                packets: 1_000_000_000,
                flows: 3_000_000,
                reports: &reports,
                hits: &[],
            })
        });
    }

    for nesting in Nesting::ALL {
        let Ok(mut routes) = RoutePlacement::<u32>::new(options, nesting) else {
            return;
        };
        let name = nesting.name();
        routes.insert(Prefix::new(0, 0));
        let prefixes: Vec<Prefix<u32>> = (0..900_000)
            .map(|_| Prefix::new(rng.bits() as u32, rng.between(12, 24) as u8))
            .collect();
        time(&format!("{name}: 900,000 insertions"), || {
            for prefix in &prefixes {
                routes.insert(*prefix);
            }
        });
        for window in 1..=2 {
            let addresses = (0..20_000).map(|_| (rng.bits() as u32, rng.below(1000)));
            let reports: Vec<(u32, u64)> = addresses.collect();
            let hits = routes.items().map(|item| Count {
                item,
                packets: rng.below(1000),
            });
            let hits: Vec<Count> = hits.collect();
            time(&format!("{name}: window {window}, 20,000 reports"), || {
                routes.end_window(&RouteWindow {
                    packets: 1_000_000_000,
                    flows: 900_000,
                    reports: &reports,
                    hits: &hits,
                })
            });
        }
        time(
            &format!("{name}: 100,000 changes beside the switch"),
            || {
                for prefix in &prefixes[..100_000] {
                    if let Some(item) = routes.tree().find(*prefix) {
                        routes.begin_change(item);
                        routes.delete(item);
                    }
                }
            },
        );
        println!("{name}: {} entries and covers", routes.used());
    }
}

/// Runs a function and prints its time.
fn time<T>(name: &str, run: impl FnOnce() -> T) {
    let start = Instant::now();
    std::hint::black_box(run());
    println!("{name}: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
}
