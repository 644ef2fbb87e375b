//! Measures table lookups, alone and with concurrent updates.

use std::time::{Duration, Instant};

use bench::lookups::{Beside, Changes, Loaded, Plan, Rates, Subject, measure, measure_loaded};
use command::Ended;
use serde::Serialize;
use support::text_table;
use support::tsc_clock::Clock;
use terminal::live::{LiveLine, bar};
use terminal::out;

use super::{BenchOptions, Lookups};

/// Number of different lookups. More than the branch predictor can learn.
const TRACE: usize = 1 << 20;
/// Number of lookups that are checked against a linear search before a table is measured.
const CHECKED: usize = 8;

/// Measurement of a table with updates of one kind.
#[derive(Debug, Clone, Serialize)]
struct Row {
    table: &'static str,
    entries: usize,
    /// Time to fill the table, including the first snapshot.
    load_seconds: f64,
    /// Lookup rate two seconds after that, or as soon as the index has reached its full speed.
    mlps_at_2s: f64,
    /// Time until packets used the fastest index, if the first index was slower.
    seconds_to_full: f64,
    /// Size of the index. The entries themselves are not counted.
    bytes_per_entry: f64,
    /// Lookup rate after loading, with the fastest index, before any entry changes.
    mlps: f64,
    mlps_middle_half: (f64, f64),
    hits: f64,
    /// Number of updates per publication of the table.
    updates_at_once: usize,
    /// Requested update rate. `None` means as fast as possible.
    updates_asked_per_s: Option<u32>,
    updates_per_s: f64,
    /// Lookup rate without updates, measured alternately with updates. Reference for the next
    /// field.
    mlps_between_updates: f64,
    mlps_beside_updates: f64,
}

/// Measures the tables of these kinds, or of all kinds if none is given.
///
/// # Errors
/// A lookup returns a wrong result.
pub(super) fn run(
    kinds: &[Lookups],
    options: &BenchOptions,
    time: Duration,
) -> Result<Ended, String> {
    check(options)?;
    let wanted = |subject: &&Subject| {
        kinds.is_empty() || kinds.iter().any(|kind| kind.name() == subject.kind())
    };
    let mut rows = Vec::new();
    for &subject in Subject::ALL.iter().filter(wanted) {
        let usual = subject.sizes();
        let sizes = match options.sizes.is_empty() {
            true => &usual[..],
            false => &options.sizes,
        };
        for &size in sizes {
            let changes = changes(subject, options);
            rows.extend(one(subject, size, &Plan { time, changes })?);
        }
    }
    show(&rows, options.json);
    Ok(Ended::Well)
}

/// Returns the update patterns: as fast as possible, and at each given rate.
fn changes(subject: Subject, options: &BenchOptions) -> Vec<Changes> {
    let usual = [subject.pace()];
    let paces = match options.pace.is_empty() {
        true => &usual[..],
        false => &options.pace,
    };
    let paces = paces.iter().copied().map(Some);
    std::iter::once(None)
        .chain(paces)
        .flat_map(|per_s| {
            let updates = options.updates.iter();
            updates.map(move |&at_once| Changes { at_once, per_s })
        })
        .collect()
}

fn check(options: &BenchOptions) -> Result<(), String> {
    const MAX: usize = 1 << 24;
    let is_size = |size: &&usize| !(1..=MAX).contains(*size);
    if let Some(size) = options.sizes.iter().find(is_size) {
        return Err(format!(
            "--sizes {size}: tables are measured with 1 to {MAX} entries"
        ));
    }
    if options.updates.contains(&0) {
        return Err(
            "--updates 0: at least one update comes before a table is published".to_string(),
        );
    }
    Ok(())
}

fn one(subject: Subject, size: usize, plan: &Plan) -> Result<Vec<Row>, String> {
    let mut line = LiveLine::new();
    let name = subject.name();
    line.show(&format!("{name}, {size} entries: makes them"));
    let sample = subject.sample(size, TRACE);
    line.show(&format!("{name}, {size} entries: fills the table"));
    let start = Instant::now();
    let mut table = sample.table();
    table.snapshot();
    let load = start.elapsed();
    line.show(&format!("{name}, {size} entries: improves the index"));
    let clock = Clock::new();
    let loaded = measure_loaded(&sample, &mut table, plan.time, &clock);
    line.show(&format!("{name}, {size} entries: checks lookups"));
    let checked = sample.check(&mut table, CHECKED);
    checked.map_err(|mismatch| format!("{name}, {size} entries: {mismatch}"))?;
    let bytes_per_entry = table.index_memory() as f64 / table.len().max(1) as f64;
    let mut tell = |share: f64| {
        if line.is_due() {
            let bar = bar((share * 100.0) as u64, 100, 20);
            line.show(&format!("{name}, {size} entries: {bar}"));
        }
    };
    let rates = measure(&sample, table, plan, &clock, &mut tell);
    line.clear();
    Ok(rows(
        name,
        sample.entries(),
        (load, loaded),
        bytes_per_entry,
        &rates,
    ))
}

fn rows(
    table: &'static str,
    entries: usize,
    (load, loaded): (Duration, Loaded),
    bytes_per_entry: f64,
    rates: &Rates,
) -> Vec<Row> {
    let row = |beside: &Beside| Row {
        table,
        entries,
        load_seconds: load.as_secs_f64(),
        mlps_at_2s: loaded.mlps_at_2s,
        seconds_to_full: loaded.seconds_to_full,
        bytes_per_entry,
        mlps: loaded.mlps,
        mlps_middle_half: loaded.middle_half,
        hits: rates.hits,
        updates_at_once: beside.changes.at_once,
        updates_asked_per_s: beside.changes.per_s,
        updates_per_s: beside.updates_per_s,
        mlps_between_updates: rates.mlps_between,
        mlps_beside_updates: beside.mlps,
    };
    rates.beside.iter().map(row).collect()
}

fn show(rows: &[Row], is_json: bool) {
    if is_json {
        return out::json(&rows);
    }
    let head = [
        "table",
        "entries",
        "loaded in s",
        "M/s at 2 s",
        "full after s",
        "bytes an entry",
        "M/s",
        "middle half",
        "updates at once",
        "asked a second",
        "updates a second",
        "M/s between",
        "M/s beside",
        "share",
        "",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    lines.extend(rows.iter().map(line));
    out::text(&text_table::align(&lines));
}

fn line(row: &Row) -> Vec<String> {
    let (low, high) = row.mlps_middle_half;
    let note = match row.hits {
        hits if hits > 0.99 => String::new(),
        hits => format!("{hits:.2} of the lookups hit"),
    };
    vec![
        row.table.to_string(),
        row.entries.to_string(),
        format!("{:.3}", row.load_seconds),
        format!("{:.1}", row.mlps_at_2s),
        format!("{:.3}", row.seconds_to_full),
        format!("{:.1}", row.bytes_per_entry),
        format!("{:.1}", row.mlps),
        format!("{low:.1} to {high:.1}"),
        row.updates_at_once.to_string(),
        row.updates_asked_per_s
            .map_or("flat out".to_string(), |asked| asked.to_string()),
        format!("{:.0}", row.updates_per_s),
        format!("{:.1}", row.mlps_between_updates),
        format!("{:.1}", row.mlps_beside_updates),
        format!("{:.2}", row.mlps_beside_updates / row.mlps_between_updates),
        note,
    ]
}
