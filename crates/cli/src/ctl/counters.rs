//! `polyplane ctl counters`: shows counter values, once or live with rates.

use std::collections::{BTreeMap, HashMap};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use controller::Catalog;
use entries::{CounterValue, Object, Update};
use serde_json::json;

use super::link::Link;
use super::state::{self, Part, Unsaid};
use crate::out;
use runtime::ProcessSetup;
use support::text_table;

#[derive(Args)]
pub(crate) struct CountersOptions {
    /// One counter, or the table of direct ones; default: all.
    name: Option<String>,
    /// Read again and again, with rates, until stopped.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Seconds between two readings.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds, requires = "watch")]
    every: f64,
    /// Show counters that are zero, too.
    #[arg(long)]
    all: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0.01 to 86400".to_owned()),
    }
}

/// Counter values by position. Each has its name, the beginning of its statement:
/// `ingress.rx[3]`, or an entry's table and match.
type Counts = BTreeMap<(usize, u64), (String, CounterValue)>;

pub(crate) fn counters(
    link: &mut Link,
    options: &CountersOptions,
    as_json: bool,
    early: &ProcessSetup,
) -> Result<(), String> {
    let catalog = link.catalog()?;
    let parts = parts(&catalog, options.name.as_deref())?;
    let mut before: Option<(Instant, Counts)> = None;
    loop {
        let counts = read(link, &catalog, &parts)?;
        let now = Instant::now();
        let since = before.as_ref().map(|(then, counts)| (now - *then, counts));
        if !show(&counts, since, options, as_json) || !options.watch {
            return Ok(());
        }
        before = Some((now, counts));
        let time = Duration::from_secs_f64(options.every);
        if !link.client.pause(time, early.signal_fd()) {
            return Ok(());
        }
    }
}

fn parts(catalog: &Catalog, name: Option<&str>) -> Result<Vec<Part>, String> {
    let direct: Vec<u32> = catalog
        .info
        .direct_counters
        .iter()
        .map(|one| one.direct_table_id)
        .collect();
    let is_direct = |table: &ir::TableId| direct.contains(&catalog.table_id(*table));
    let entries = |table| Part::Entries {
        table,
        counts: true,
    };
    let is_counter = |kind: &Object| matches!(kind, Object::Counter { .. });
    let counters = state::externs(catalog, "counter", name, is_counter);
    let Some(name) = name else {
        let cells = counters?.into_iter().map(|one| Part::Cells(one, None));
        let tables = catalog.schema.tables.ids().filter(is_direct).map(entries);
        return Ok(cells.chain(tables).collect());
    };
    let counters_of = catalog.info.direct_counters.iter();
    let counters_of = counters_of.map(|one| (one.preamble.as_ref(), one.direct_table_id));
    let own = state::table_with(catalog, counters_of, name);
    let table = || catalog.schema.find_table(name).ok().filter(is_direct);
    if let Some(table) = own.or_else(table) {
        return Ok(vec![entries(table)]);
    }
    Ok(counters?
        .into_iter()
        .map(|one| Part::Cells(one, None))
        .collect())
}

fn read(link: &mut Link, catalog: &Catalog, parts: &[Part]) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for (number, part) in parts.iter().enumerate() {
        let mut place = 0;
        link.read(catalog, *part, &mut Unsaid::default(), |read| {
            let (name, value) = match &read.update {
                Update::Counter {
                    counter,
                    index,
                    value,
                } => {
                    let name = &catalog.schema.externs[*counter].name;
                    (format!("{name}[{index}]"), *value)
                }
                update @ Update::Insert(_, entry) => {
                    let target = update.target().map(|target| catalog.schema.target(&target));
                    (
                        target.unwrap_or_default(),
                        entry.counter.unwrap_or_default(),
                    )
                }
                _ => return,
            };
            counts.insert((number, place), (name, value));
            place += 1;
        })?;
    }
    Ok(counts)
}

/// Returns packets and bytes per second.
fn rates(value: CounterValue, before: CounterValue, time: Duration) -> (f64, f64) {
    // A counter that was reset has a rate of 0.
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / time.as_secs_f64().max(1e-9);
    (
        rate(value.packets, before.packets),
        rate(value.bytes, before.bytes),
    )
}

/// Shows the counters, with rates since the reading before. Returns false if standard output is
/// closed.
fn show(
    counts: &Counts,
    since: Option<(Duration, &Counts)>,
    options: &CountersOptions,
    as_json: bool,
) -> bool {
    let wanted = counts
        .values()
        .filter(|(_, value)| options.all || *value != CounterValue::default());
    // Entries may be added and removed between readings, so they are matched by name.
    let before = since.map(|(time, counts)| {
        let names = counts.values().map(|(name, value)| (name.as_str(), *value));
        (time, names.collect::<HashMap<&str, CounterValue>>())
    });
    let earlier = |name: &str| {
        let (time, before) = before.as_ref()?;
        Some((*time, *before.get(name)?))
    };
    if as_json {
        let mut is_read = true;
        for (name, value) in wanted {
            let mut told =
                json!({ "counter": name, "packets": value.packets, "bytes": value.bytes });
            if let Some((time, before)) = earlier(name) {
                let (packets, bytes) = rates(*value, before, time);
                super::json::add(
                    &mut told,
                    json!({ "packets_per_second": packets, "bytes_per_second": bytes }),
                );
            }
            is_read &= out::try_line(&told.to_string());
        }
        return is_read;
    }
    let mut rows = Vec::new();
    for (name, value) in wanted {
        let mut row = vec![value.packets.to_string(), value.bytes.to_string()];
        if options.watch {
            let rate = earlier(name).map(|(time, before)| rates(*value, before, time));
            let told = |rate: Option<f64>| {
                rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"))
            };
            row.push(told(rate.map(|rate| rate.0)));
            row.push(told(rate.map(|rate| rate.1)));
        }
        row.push(name.clone());
        rows.push(row);
    }
    if rows.is_empty() && !options.watch {
        out::note("no counter has counted anything; --all shows them all");
        return true;
    }
    let headings: &[&str] = match options.watch {
        true => &["PACKETS", "BYTES", "PACKETS/S", "BYTES/S", "COUNTER"],
        false => &["PACKETS", "BYTES", "COUNTER"],
    };
    let mut text = text_table::table(headings, rows);
    if options.watch && std::io::stdout().is_terminal() {
        // Overwrites the reading before: cursor home, clear to the end of the screen.
        text = format!("\x1b[H\x1b[J{text}");
    } else if since.is_some() {
        text = format!("\n{text}");
    }
    out::try_text(&text)
}
