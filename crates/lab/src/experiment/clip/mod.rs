//! `polyplane experiment clip`: figures and tables of CLIP (programs over a switch and servers),
//! beside the paper's values.
//!
//! Each part is a module that returns a [`Part`].

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

use super::parts::{Origin, Part, Results, Row};
use super::{Progress, head};

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
    let mut results = Results::new(&options.out, "clip")?;
    for (_, measure) in parts.iter().filter(|(is_wanted, _)| *is_wanted) {
        results.add(measure(&mut context)?)?;
    }
    drop(context);
    results.print(options.json);
    Ok(Ended::Well)
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
