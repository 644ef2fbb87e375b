//! Ternary lookups a second, on one core, in batches, of the uniform trace: `cargo bench -p table --bench ternary`.
//!
//! Words behind `--` choose rows: kinds (`acl`, `fw`, `ipc`), spreads (`scaled`, `copies`), numbers of rules (`1000`, `100000`, `500000`). The last
//! number is measured only where it is asked for, as it takes long.

use bench::rules::KEY_LIMBS;
use bench::{Choices, FiveTuple, Kind, RuleSet, Spread};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use table::{ActionRef, EntryAction, EntryId, EntryIdx, Lookup, NewEntry, Table, TableSpec};

/// Lookups in a batch.
const BATCH: usize = 64;
/// Different headers in a pass.
const TRACE: usize = 700_000;
/// Passes.
const PASSES: usize = 5;
/// Lookups that are timed together: shorter than the time that a busy machine gives one thread at a stretch.
const STRETCH: usize = 80 * BATCH;
/// Turns with and without updates.
const TURNS: usize = 8;
/// How long a turn takes.
const TURN: Duration = Duration::from_millis(250);
/// Updates a second while lookups go on.
const UPDATES: u32 = 10_000;
/// Updates between two snapshots: what a controller sends together.
const TOGETHER: u32 = 10;

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
        "{:<5}{:<8}{:>8} {:>8} {:>8} {:>10} {:>7} {:>7} {:>7} {:>9} {:>9}",
        "kind",
        "spread",
        "rules",
        "load s",
        "M/s then",
        "improve s",
        "M/s",
        "single",
        "B/rule",
        "updates/s",
        "M/s share"
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

/// A loaded table and its trace.
struct Row {
    entries: Vec<NewEntry>,
    ids: Vec<EntryId>,
    table: Table,
    trace: Vec<u64>,
    load: Duration,
}

impl Row {
    fn new(set: &RuleSet) -> Self {
        let entries: Vec<NewEntry> = set.entries(direct).collect();
        let trace = set.trace(TRACE, 2);
        let copies = entries.clone();
        let start = Instant::now();
        let mut table = Table::new(
            TableSpec::new(FiveTuple::shape(), entries.len() + 1),
            direct(0),
        );
        let insert = |entry| table.insert(entry, 0).expect("there is room");
        let ids = copies.into_iter().map(insert).collect();
        table.snapshot();
        Self {
            load: start.elapsed(),
            entries,
            ids,
            table,
            trace,
        }
    }

    fn print(mut self) {
        let then = self.in_batches();
        let start = Instant::now();
        while self.table.improve(Duration::MAX) {}
        let improve = start.elapsed().as_secs_f64();
        let (batch, single) = (self.in_batches(), self.one_by_one());
        let bytes = self.table.index_memory() as f64 / self.entries.len() as f64;
        let load = self.load.as_secs_f64();
        let (updates, share) = self.under_updates();
        println!(
            "{load:>8.2} {then:>8.2} {improve:>10.2} {batch:>7.2} {single:>7.2} {bytes:>7.1} {updates:>9.0} {share:>9.2}",
        );
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

    /// Updates a second, and lookups beside them as a share of lookups alone.
    fn under_updates(&mut self) -> (f64, f64) {
        let shared = Mutex::new(self.table.snapshot());
        let goes_on = AtomicBool::new(true);
        let found = AtomicU64::new(0);
        let trace = std::mem::take(&mut self.trace);
        let mut choices = Choices::new(5);
        let (mut shares, mut rates) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| read(&trace, &shared, &goes_on, &found));
            for _ in 0..TURNS {
                let (before, start) = (found.load(Relaxed), Instant::now());
                std::thread::sleep(TURN);
                let alone = (found.load(Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
                let (before, start) = (found.load(Relaxed), Instant::now());
                let done = self.update(&shared, &mut choices);
                let time = start.elapsed().as_secs_f64();
                let beside = (found.load(Relaxed) - before) as f64 / time;
                shares.push(beside / alone);
                rates.push(f64::from(done) / time);
            }
            goes_on.store(false, Relaxed);
        });
        (median(rates.into_iter()), median(shares.into_iter()))
    }

    /// Takes rules out and puts them in again, at [`UPDATES`] a second if that can be.
    fn update(&mut self, shared: &Mutex<Arc<Lookup>>, choices: &mut Choices) -> u32 {
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed() < TURN {
            for _ in 0..TOGETHER / 2 {
                let which = choices.below(self.ids.len() as u64) as usize;
                self.table.delete(self.ids[which]).expect("it is there");
                let entry = self.entries[which].clone();
                self.ids[which] = self.table.insert(entry, 0).expect("there is room");
                done += 2;
            }
            let old = std::mem::replace(
                &mut *shared.lock().expect("no panic"),
                self.table.snapshot(),
            );
            drop(old);
            let due = start + Duration::from_secs(1) / UPDATES * done;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        done
    }
}

/// Looks up until it is told to stop, each batch in the newest snapshot.
fn read(trace: &[u64], shared: &Mutex<Arc<Lookup>>, goes_on: &AtomicBool, found: &AtomicU64) {
    let mut out = [None; BATCH];
    for keys in trace.chunks_exact(BATCH * KEY_LIMBS).cycle() {
        if !goes_on.load(Relaxed) {
            return;
        }
        let lookup = shared.lock().expect("no panic").clone();
        lookup.find_batch(keys, &mut out);
        black_box(&out);
        found.fetch_add(BATCH as u64, Relaxed);
    }
}

/// Million lookups a second, in the median stretch.
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
    median(passes.map(&mut stretch))
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
