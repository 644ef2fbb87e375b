//! `polyplane experiment p4com`: figures and tables of P4COM (reductions in the network), beside
//! the paper's values.
//!
//! Each part is a module that returns a [`Part`]. Values are simulated, and the same for the same
//! seed, but for those of `real`.

mod case;
mod data;
mod fabric_text;
mod goodput;
mod real;
mod schemes;
mod shuffle;
mod training;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::Ended;
use command::engine::Choice;
use port::Signal;

use super::parts::{Part, Results};
use super::{Progress, head};

#[derive(Args)]
pub(super) struct P4com {
    /// The figures. Default: all figures and tables, or none if --tables is given.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum)]
    figures: Vec<Number>,
    /// The tables. Default: all figures and tables, or none if --figures is given.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum)]
    tables: Vec<TableNumber>,
    /// Share of the paper's data sets: 1 is 5,105,919 words, 5,105,039 links and 400 million
    /// packets. Models have at least a million values.
    #[arg(long, value_name = "F", default_value_t = 0.002, value_parser = command::topology::share)]
    scale: f64,
    /// Measure figure 7 alone, in network namespaces of this machine, beside TCP. Needs root, and
    /// a machine that is not busy; --scale 0.01 is 3 minutes.
    #[arg(long, conflicts_with_all = ["figures", "tables"])]
    real: bool,
    /// With --real: number of runs, of which medians are taken.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "real", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seed of the data and of the links' losses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Figure 8: the switch's service time of a packet in ns, beside a switch without one. The
    /// default is what `bench kv64` measures.
    #[arg(long, value_name = "NS", default_value_t = 1900)]
    service_ns: u64,
    /// Directory for tables and pictures; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    choice: Choice,
    /// Write the rows as JSON.
    #[arg(long)]
    json: bool,
}

/// The available figures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Number {
    /// Bytes on the reducer's link.
    #[value(name = "6")]
    Traffic,
    /// Times of jobs.
    #[value(name = "7")]
    Times,
    /// Goodput of mappers.
    #[value(name = "8")]
    Goodput,
}

/// The available tables.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableNumber {
    /// Properties of schemes.
    #[value(name = "1")]
    Schemes,
    /// Transmission time of gradients.
    #[value(name = "2")]
    Training,
}

/// Options and progress, which all parts need.
struct Context<'c> {
    options: &'c P4com,
    take_signal: &'c dyn Fn() -> Option<Signal>,
    progress: Progress,
}

impl Context<'_> {
    /// Shows the completed share of a part.
    fn tell(&mut self, name: &str, done: usize, all: usize) {
        self.progress.tell(name, done as f64 / all.max(1) as f64);
    }
}

/// Measures the figures and tables.
///
/// # Errors
/// A simulation fails, a signal arrives, or a file cannot be written.
pub(super) fn run(
    options: &P4com,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Ended, String> {
    let names_none = options.figures.is_empty() && options.tables.is_empty();
    let is_whole = names_none && !options.real;
    let has = |number| is_whole || options.figures.contains(&number);
    let has_table = |number| is_whole || options.tables.contains(&number);
    type Measure = fn(&mut Context<'_>) -> Result<Part, String>;
    let parts: [(bool, Measure); 5] = [
        (options.real, real::measure),
        (has(Number::Traffic) || has(Number::Times), shuffle::measure),
        (has(Number::Goodput), goodput::measure),
        (has_table(TableNumber::Schemes), schemes::measure),
        (has_table(TableNumber::Training), training::measure),
    ];
    let mut context = Context {
        options,
        take_signal,
        progress: Progress::new(),
    };
    let mut results = Results::new(&options.out, "p4com")?;
    for (_, measure) in parts.iter().filter(|(is_wanted, _)| *is_wanted) {
        results.add(measure(&mut context)?)?;
    }
    drop(context);
    results.print(options.json);
    Ok(Ended::Well)
}
