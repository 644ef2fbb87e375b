//! Benchmark of exact lookups per second, on one core, with random keys that hit: `cargo bench -p
//! table --bench exact`.

use bench::Choices;
use bits::Value;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::time::{Duration, Instant};
use table::{
    ActionRef, EntryAction, FieldMatch, KeyField, KeyShape, MatchKind, NewEntry, Table, TableSpec,
};

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

/// Returns the key with this number: pseudo-random bits that are the same in each run.
fn key(number: u64, limbs: usize) -> Vec<u64> {
    let mut choices = Choices::new(number);
    (0..limbs).map(|_| choices.bits()).collect()
}

fn table(width: u32, entries: u64) -> Table {
    let exact = KeyField {
        width,
        kind: MatchKind::Exact,
    };
    let mut table = Table::new(
        TableSpec::new(KeyShape::new([exact]), entries as usize + 1),
        direct(0),
    );
    for number in 0..entries {
        let value = Value::from_limbs(&key(number, width as usize / 64), width);
        let new = NewEntry::new(vec![FieldMatch::Exact(value)], direct(1));
        table.insert(new, 0).expect("there is room");
    }
    table
}

fn lookups(criterion: &mut Criterion) {
    for width in [64, 128, 512] {
        let mut group = criterion.benchmark_group(format!("exact/{width}"));
        group.throughput(Throughput::Elements(TRACE as u64));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(3));
        for entries in [1_000, 100_000, 1_000_000, 4_000_000] {
            let start = Instant::now();
            let mut table = table(width, entries);
            let lookup = table.snapshot();
            eprintln!(
                "{entries} entries of {width} bits: loaded in {:?}, {:.1} bytes an entry in the index",
                start.elapsed(),
                table.index_memory() as f64 / entries as f64
            );
            let limbs = width as usize / 64;
            let mut choices = Choices::new(1);
            let keys: Vec<u64> = (0..TRACE)
                .flat_map(|_| key(choices.below(entries), limbs))
                .collect();
            let mut out = [None; BATCH];
            group.bench_function(BenchmarkId::new("batch", entries), |bencher| {
                bencher.iter(|| {
                    keys.chunks_exact(BATCH * limbs).fold(0, |sum, keys| {
                        lookup.find_batch(keys, &mut out);
                        sum + out.iter().flatten().count()
                    })
                });
            });
            group.bench_function(BenchmarkId::new("single", entries), |bencher| {
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
