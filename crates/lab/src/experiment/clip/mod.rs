//! `polyplane experiment clip`: figures and tables of CLIP (programs over a switch and servers),
//! beside the paper's values.
//!
//! Each part is a module that returns a [`Part`]: rows for programs, a table for people, pictures.
//! A row says if its values are measured by wall clock, simulated or computed.

mod capacity;
mod functions;
mod group;
mod latency;
mod modules;
mod placements;
mod simulated;
mod table_operations;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::Ended;
use command::engine::Choice;
use port::Signal;
use serde::Serialize;
use serde_json::{Map, Value};
use support::text_table;
use terminal::out;

use super::{Picture, Progress, head, write};

#[derive(Args)]
pub(super) struct Clip {
    /// The figures. Default: all figures and tables, or none if --tables is given.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum)]
    figures: Vec<Number>,
    /// The tables. Default: all figures and tables, or none if --figures is given.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum)]
    tables: Vec<TableNumber>,
    /// Share of the packets: 1 is a million for each simulated row.
    #[arg(long, value_name = "F", default_value_t = 0.2, value_parser = command::topology::share)]
    scale: f64,
    /// Figure 11: the sizes of packets of a capture, in place of the six mixes.
    #[arg(long = "trace", value_name = "NAME=FILE.pcap")]
    traces: Vec<String>,
    /// Directory for tables and pictures; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// Write the rows as JSON.
    #[arg(long)]
    json: bool,
}

impl Clip {
    /// Returns true if the figure is wanted.
    fn has_figure(&self, number: Number) -> bool {
        self.figures.contains(&number) || self.figures.is_empty() && self.tables.is_empty()
    }

    /// Returns true if the table is wanted.
    fn has_table(&self, number: TableNumber) -> bool {
        self.tables.contains(&number) || self.figures.is_empty() && self.tables.is_empty()
    }
}

/// The available figures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Number {
    /// Capacity and latency of the way over servers.
    #[value(name = "5")]
    Capacity,
    /// Changes of the group.
    #[value(name = "6")]
    Group,
    /// Reports by policy.
    #[value(name = "7")]
    Reports,
    /// Rates of switch and servers, exact keys.
    #[value(name = "8")]
    Shares,
    /// Rates of switch and servers, prefixes.
    #[value(name = "9")]
    Prefixes,
    /// Distribution of latencies.
    #[value(name = "10")]
    Latencies,
    /// Throughput of functions over mixes of sizes.
    #[value(name = "11")]
    Sizes,
}

/// The available tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum TableNumber {
    /// Latencies by policy.
    #[value(name = "1")]
    Latencies,
    /// Times of table operations.
    #[value(name = "2")]
    Operations,
    /// Latencies of functions.
    #[value(name = "3")]
    Functions,
    /// Resources of the switch half's modules.
    #[value(name = "4")]
    Modules,
}

/// Origin of a row's values.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Origin {
    /// Measured by wall clock, or by the counter of the processor's clock.
    Wall,
    /// Simulated with both halves of a program.
    Simulated,
    /// Computed from sizes.
    Computed,
}

/// One row.
#[derive(Serialize)]
struct Row {
    /// The figure or table.
    place: &'static str,
    /// The measured object.
    subject: String,
    measured: Origin,
    #[serde(flatten)]
    values: Map<String, Value>,
    paper: String,
}

impl Row {
    fn new(
        place: &'static str,
        subject: impl Into<String>,
        measured: Origin,
        values: &[(&str, f64)],
        paper: impl Into<String>,
    ) -> Row {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        Row {
            place,
            subject: subject.into(),
            measured,
            values: values.collect(),
            paper: paper.into(),
        }
    }
}

/// Result of a part.
struct Part {
    title: &'static str,
    rows: Vec<Row>,
    /// Lines of the table. The first one is the head.
    table: Vec<Vec<String>>,
    /// Text below the table.
    note: String,
    pictures: Vec<Picture>,
}

impl Part {
    fn text(&self) -> String {
        let table = text_table::align(&self.table);
        format!("{}\n\n{table}\n{}\n", self.title, self.note)
    }
}

/// Options and progress, which all parts need.
struct Context<'c> {
    options: &'c Clip,
    take_signal: &'c dyn Fn() -> Option<Signal>,
    progress: Progress,
    /// Packets of a simulated row.
    packets: u64,
}

impl Context<'_> {
    /// Shows the completed share of a part.
    ///
    /// # Errors
    /// A signal arrived.
    fn tell(&mut self, name: &str, share: f64) -> Result<(), String> {
        self.progress.tell(name, share);
        match (self.take_signal)() {
            Some(signal) => Err(format!("interrupted by {signal}")),
            None => Ok(()),
        }
    }
}

type Measure = fn(&mut Context<'_>) -> Result<Part, String>;

/// Measures the figures and tables.
///
/// # Errors
/// A simulation fails, a signal arrives, or a file cannot be written.
pub(super) fn run(
    options: &Clip,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Ended, String> {
    std::fs::create_dir_all(&options.out)
        .map_err(|error| format!("cannot make {}: {error}", options.out.display()))?;
    let has = |number| options.has_figure(number);
    let has_table = |number| options.has_table(number);
    let parts: [(bool, Measure); 7] = [
        (has(Number::Capacity), capacity::measure),
        (has(Number::Group), group::measure),
        (
            has(Number::Reports) || has(Number::Shares) || has(Number::Prefixes),
            placements::measure,
        ),
        (
            has(Number::Latencies) || has_table(TableNumber::Latencies),
            latency::measure,
        ),
        (
            has_table(TableNumber::Operations),
            table_operations::measure,
        ),
        (
            has(Number::Sizes) || has_table(TableNumber::Functions),
            functions::measure,
        ),
        (has_table(TableNumber::Modules), modules::measure),
    ];
    let mut context = Context {
        options,
        take_signal,
        progress: Progress::new(),
        packets: ((1e6 * options.scale) as u64).max(1000),
    };
    let mut rows = Vec::new();
    let mut text = String::new();
    for (_, measure) in parts.iter().filter(|(is_wanted, _)| *is_wanted) {
        let part = measure(&mut context)?;
        for picture in &part.pictures {
            write(&options.out.join(picture.file), &picture.svg)?;
        }
        text += &part.text();
        text.push('\n');
        rows.extend(part.rows);
        // What is measured stays if a later part is interrupted.
        let json = serde_json::to_string_pretty(&rows);
        let json = json.map_err(|error| format!("cannot write rows as JSON: {error}"))?;
        write(&options.out.join("clip.json"), &json)?;
        write(&options.out.join("clip.csv"), &csv(&rows))?;
        write(&options.out.join("clip.txt"), &text)?;
    }
    drop(context);
    match options.json {
        true => out::json(&rows),
        false => out::text(&text),
    }
    Ok(Ended::Well)
}

/// Returns the rows as comma-separated values: one line for each number.
fn csv(rows: &[Row]) -> String {
    let mut text = "place,subject,measured,value,number,paper\n".to_owned();
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    for row in rows {
        let measured = match row.measured {
            Origin::Wall => "wall",
            Origin::Simulated => "simulated",
            Origin::Computed => "computed",
        };
        for (name, value) in &row.values {
            let cells = [
                quoted(row.place),
                quoted(&row.subject),
                measured.to_owned(),
                name.clone(),
                value.to_string(),
                quoted(&row.paper),
            ];
            text += &cells.join(",");
            text.push('\n');
        }
    }
    text
}

/// Returns the cumulative distribution function of times, as 200 points.
fn distribution(times: &[f64]) -> Vec<(f64, f64)> {
    const POINTS: usize = 200;
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let point = |at: usize| {
        let share = at as f64 / POINTS as f64;
        let rank = (share * sorted.len() as f64) as usize;
        Some((*sorted.get(rank.min(sorted.len().checked_sub(1)?))?, share))
    };
    (0..=POINTS).filter_map(point).collect()
}

/// Mean, standard deviation and quantiles of times.
#[derive(Clone, Copy)]
struct Times {
    mean: f64,
    deviation: f64,
    p50: f64,
    p90: f64,
    p99: f64,
}

impl Times {
    fn new(times: &[f64]) -> Times {
        let count = times.len().max(1) as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        let quantile =
            |share| support::quantile::quantile(&mut times.to_vec(), share).unwrap_or(0.0);
        Times {
            mean,
            deviation: (squares / count).sqrt(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
        }
    }
}
