//! Figure 3: classification by rule sets of 100 to 500,000 rules, in memory.

use std::time::{Duration, Instant};

use bench::lookups::{Sample, Subject};
use generators::Kind;
use support::quantile::quantile;
use support::tsc_clock::Clock;
use table::{EntryIdx, Improved, Lookup};

use super::{Context, Origin, Part, ROUNDS, Sheet, median, service};
use crate::experiment::Picture;
use crate::experiment::plot::{self, Axes, Curve, Marks};

/// Keys that are looked up.
const KEYS: usize = 1 << 17;
/// Keys that are looked up at once.
const BATCH: usize = 64;
/// Time for an index to become the fastest one.
const IMPROVE: Duration = Duration::from_secs(30);
/// Lookups that are compared with a search through all rules.
const CHECKED: usize = 4;

/// Times of a rule set: one at a time, median and 99th percentile in ns; at once, million a second.
struct Times {
    middle: f64,
    tail: f64,
    rate: f64,
}

/// Measures a table.
fn times(sample: &Sample, lookup: &Lookup, clock: &Clock) -> Times {
    let per_ns = clock.rate().ticks_per_ns;
    let (mut middles, mut tails, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    let keys = sample.keys();
    let limbs = sample.limbs();
    let mut found: Vec<Option<EntryIdx>> = vec![None; BATCH];
    for _ in 0..=ROUNDS {
        let mut single = Vec::with_capacity(keys.len() / limbs);
        let mut hits = 0;
        for key in keys.chunks_exact(limbs) {
            let start = clock.ticks();
            hits += usize::from(lookup.find(key).is_some());
            single.push((clock.ticks() - start) as f64 / per_ns);
        }
        let start = Instant::now();
        for batch in keys.chunks_exact(limbs * BATCH) {
            lookup.find_batch(batch, &mut found);
            hits += found.iter().flatten().count();
        }
        let batches = keys.len() / limbs / BATCH * BATCH;
        rates.push(batches as f64 / start.elapsed().as_secs_f64() / 1e6);
        debug_assert!(hits > 0);
        middles.push(median(&single));
        tails.push(quantile(&mut single, 0.99).unwrap_or(0.0));
    }
    // The first round warms.
    Times {
        middle: median(&middles[1..]),
        tail: median(&tails[1..]),
        rate: median(&rates[1..]),
    }
}

/// Measures rule sets of all kinds and sizes.
///
/// # Errors
/// A lookup is wrong, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("figure 3");
    let clock = Clock::new();
    let sizes = context.choose(&[100, 1_000, 10_000, 100_000, 500_000][..], &[100, 1_000]);
    let kinds = [
        (Kind::Acl, "acl", plot::HERE),
        (Kind::Fw, "fw", plot::NATIVE),
        (Kind::Ipc, "ipc", plot::OTHER),
    ];
    let mut curves = Vec::new();
    for (number, (kind, name, colour)) in kinds.into_iter().enumerate() {
        let mut points = Vec::new();
        for (at, size) in sizes.iter().copied().enumerate() {
            context.tell("figure 3", number * sizes.len() + at, 3 * sizes.len())?;
            let sample = Subject::Ternary(kind).sample(size, KEYS);
            let mut table = sample.table();
            let start = Instant::now();
            while start.elapsed() < IMPROVE
                && table.improve(Duration::from_millis(10)) != Improved::NoMore
            {}
            let checked = sample.check(&mut table, CHECKED);
            checked.map_err(|error| error.to_string())?;
            let found = times(&sample, &table.snapshot(), &clock);
            let values = [
                ("rules", sample.entries() as f64),
                ("median ns", found.middle),
                ("p99 ns", found.tail),
                ("at once M/s", found.rate),
            ];
            sheet.add(&format!("{name}, {size}"), Origin::Measured, &values);
            points.push(((sample.entries() as f64).log10(), found.tail / 1e3));
        }
        curves.push(Curve {
            marks: Marks::Line,
            name: match name {
                "acl" => "acl (measured, memory)",
                "fw" => "fw (measured, memory)",
                _ => "ipc (measured, memory)",
            },
            colour,
            points,
        });
    }
    sheet.add("nanoPU, 100", Origin::Paper, &[("p99 ns", 1_000.0)]);
    sheet.add("eRPC, 100", Origin::Paper, &[("p99 ns", 1_900.0)]);
    service::rows(context, &mut sheet)?;
    curves.push(Curve {
        marks: Marks::Crosses,
        name: "nanoPU, wire to wire (paper)",
        colour: plot::PAPER,
        points: vec![(2.0, 1.0)],
    });
    let axes = Axes {
        caption: "Figure 3: classification",
        x: "rules, power of ten",
        y: "99th percentile, us",
    };
    let svg = plot::curves_below_legend(&axes, &curves)?;
    let note = format!(
        "Measured: one core, learned index of crate `table`, keys that match, one at a time by the counter of the clock and {BATCH} at once; medians of {ROUNDS} rounds. \
         Service: another thread that polls, requests of one key, and of {BATCH} with several under way; with changes, a third thread exchanges rules. \
         Paper: 99th percentile from wire to wire at low load; it has no values beyond 100 rules."
    );
    let pictures = vec![Picture {
        file: "reflex-figure-3.svg",
        svg,
    }];
    Ok(sheet.part("Figure 3: classification", note, pictures))
}
