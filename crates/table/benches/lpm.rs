//! Benchmark of longest-prefix lookups per second, on one core, with random destinations that hit:
//! `cargo bench -p table --bench lpm`.

#[path = "../tests/generated/mod.rs"]
mod generated;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use generated::{route_entries, route_shape};
use generators::{Family, RoutingTable};
use std::time::{Duration, Instant};
use table::{ActionRef, EntryAction, Table, TableSpec};

/// Number of lookups in a batch.
const BATCH: usize = 64;
/// Number of different lookups in an iteration.
const TRACE: usize = 1 << 20;

fn direct(action: u32) -> EntryAction {
    EntryAction::Direct(ActionRef {
        action,
        params: [u64::from(action)].into(),
    })
}

fn table(routes: &RoutingTable) -> Table {
    let capacity = routes.routes().len() + 1;
    let mut table = Table::new(TableSpec::new(route_shape(routes), capacity), direct(0));
    for new in route_entries(routes, direct(1)) {
        table.insert(new, 0).expect("there is room");
    }
    table
}

fn lookups(criterion: &mut Criterion) {
    let sizes = [
        (Family::V4, [1_000, 100_000, 964_000]),
        (Family::V6, [1_000, 50_000, 200_000]),
    ];
    for (family, sizes) in sizes {
        let mut group = criterion.benchmark_group(format!("lpm/{family:?}"));
        group.throughput(Throughput::Elements(TRACE as u64));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(3));
        for size in sizes {
            let routes = RoutingTable::generate(family, size, 1);
            let start = Instant::now();
            let mut table = table(&routes);
            let lookup = table.snapshot();
            eprintln!(
                "{size} prefixes of {family:?}: loaded in {:?}, {:.1} bytes a prefix in the index",
                start.elapsed(),
                table.index_memory() as f64 / size as f64
            );
            let limbs = bits::limbs_for(family.width());
            let keys = routes.keys(&routes.destinations(TRACE, 2));
            let mut out = [None; BATCH];
            group.bench_function(BenchmarkId::new("batch", size), |bencher| {
                bencher.iter(|| {
                    keys.chunks_exact(BATCH * limbs).fold(0, |sum, keys| {
                        lookup.find_batch(keys, &mut out);
                        sum + out.iter().flatten().count()
                    })
                });
            });
            group.bench_function(BenchmarkId::new("single", size), |bencher| {
                bencher.iter(|| {
                    let found = keys.chunks_exact(limbs).map(|key| lookup.find(key));
                    found.flatten().count()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, lookups);
criterion_main!(benches);
