//! Benchmark of ternary lookups per second, on one core, in batches, with the uniform trace: `cargo
//! bench -p table --bench ternary`.
//!
//! Words after `--` select rows: kinds (`acl`, `fw`, `ipc`), spreads (`scaled`, `copies`), numbers
//! of rules (`1000`, `100000`, `500000`). The last number takes long and is measured only if it is
//! given. `polyplane bench --lookups ternary` measures updates concurrent with lookups.

#[path = "../tests/generated/mod.rs"]
mod generated;

use generated::{rule_entries, rule_shape};
use generators::rules::KEY_LIMBS;
use generators::{Kind, RuleSet, Spread};
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::quantile::median;
use table::{ActionRef, EntryAction, EntryIdx, Improved, NewEntry, Table, TableSpec};

/// Number of lookups in a batch.
const BATCH: usize = 64;
/// Number of different headers in a round.
const TRACE: usize = 700_000;
/// Number of rounds.
const PASSES: usize = 5;
/// Number of lookups that are timed together. Shorter than the time slice of a thread on a busy
/// machine.
const STRETCH: usize = 80 * BATCH;

const KINDS: [Kind; 3] = Kind::ALL;
const SPREADS: [(Spread, &str); 2] = [(Spread::Scaled, "scaled"), (Spread::Copies, "copies")];
const SIZES: [(usize, bool); 4] = [
    (1_000, true),
    (10_000, true),
    (100_000, true),
    (500_000, false),
];

fn direct(action: usize) -> EntryAction {
    EntryAction::Direct(ActionRef {
        action: action as u32,
        params: [].into(),
    })
}

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_asked = |name: &str, others: &[&str]| {
        words.iter().any(|word| word == name)
            || !others
                .iter()
                .any(|other| words.iter().any(|word| word == other))
    };
    println!(
        "{:<5}{:<8}{:>8} {:>8} {:>8} {:>10} {:>7} {:>7} {:>7}",
        "kind", "spread", "rules", "load s", "M/s then", "improve s", "M/s", "single", "B/rule",
    );
    for (size, usual) in SIZES {
        let name = size.to_string();
        let sizes = SIZES.map(|(size, _)| size.to_string());
        let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
        if !(is_asked(&name, &sizes) && (usual || words.contains(&name))) {
            continue;
        }
        for kind in KINDS {
            for (spread, spread_name) in SPREADS {
                if is_asked(kind.name(), &KINDS.map(Kind::name))
                    && is_asked(spread_name, &SPREADS.map(|(_, name)| name))
                {
                    print!("{:<5}{:<8}{:>8} ", kind.name(), spread_name, size);
                    Row::new(&RuleSet::generate(kind, spread, size, 1)).print();
                }
            }
        }
    }
}

/// Loaded table with its trace.
struct Row {
    rules: usize,
    table: Table,
    trace: Vec<u64>,
    load: Duration,
}

impl Row {
    fn new(set: &RuleSet) -> Self {
        let entries: Vec<NewEntry> = rule_entries(set, direct).collect();
        let trace = set.trace(TRACE, 2);
        let rules = entries.len();
        let start = Instant::now();
        let mut table = Table::new(TableSpec::new(rule_shape(), rules + 1), direct(0));
        for entry in entries {
            table.insert(entry, 0).expect("there is room");
        }
        table.snapshot();
        Self {
            load: start.elapsed(),
            rules,
            table,
            trace,
        }
    }

    fn print(mut self) {
        let then = self.in_batches();
        let start = Instant::now();
        while self.table.improve(Duration::MAX) != Improved::NoMore {}
        let improve = start.elapsed().as_secs_f64();
        let (batch, single) = (self.in_batches(), self.one_by_one());
        let bytes = self.table.index_memory() as f64 / self.rules as f64;
        let load = self.load.as_secs_f64();
        println!("{load:>8.2} {then:>8.2} {improve:>10.2} {batch:>7.2} {single:>7.2} {bytes:>7.1}",);
    }

    fn in_batches(&mut self) -> f64 {
        let lookup = self.table.snapshot();
        rate(&self.trace, |keys, out| lookup.find_batch(keys, out))
    }

    fn one_by_one(&mut self) -> f64 {
        let lookup = self.table.snapshot();
        rate(&self.trace, |keys, out| {
            for (key, out) in keys.chunks_exact(KEY_LIMBS).zip(out) {
                *out = lookup.find(key);
            }
        })
    }
}

/// Returns the median rate in million lookups per second.
fn rate(trace: &[u64], mut find: impl FnMut(&[u64], &mut [Option<EntryIdx>])) -> f64 {
    let mut out = [None; BATCH];
    let mut stretch = |keys: &[u64]| {
        let start = Instant::now();
        for keys in keys.chunks_exact(BATCH * KEY_LIMBS) {
            find(keys, &mut out);
            black_box(&out);
        }
        STRETCH as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    let passes = (0..PASSES).flat_map(|_| trace.chunks_exact(STRETCH * KEY_LIMBS));
    let mut rates: Vec<f64> = passes.map(&mut stretch).collect();
    median(&mut rates).unwrap_or_default()
}
