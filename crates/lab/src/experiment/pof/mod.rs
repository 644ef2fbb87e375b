//! `polyplane experiment pof`: figures and tables of OVS-POF-TC (POF flows in a NIC), beside the
//! paper's values.
//!
//! Each part is a module that returns a [`Part`]. There is no NIC: what it would do is that of
//! [`offload::model::ModelNic`] with the paper's latencies, and its rows have the source `model`.

mod actions;
mod batches;
mod bed;
mod examples;
mod knee;
mod latency;
mod open_vswitch;
mod placements;
mod tc_target;
mod traffic;
mod update;

use std::path::PathBuf;
use std::time::Duration;

use bench::measure::Plan;
use clap::{Args, ValueEnum};
use command::Ended;
use port::Signal;

use super::Progress;
use super::parts::{Origin, Part, Results, Sheet};
use tc_target::TargetChoice;

/// Packets of a burst.
const BURST: usize = 64;

#[derive(Args)]
pub(super) struct Pof {
    /// The figures. Default: all figures and tables, or none if --tables is given.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum)]
    figures: Vec<Number>,
    /// The tables. Default: all figures and tables, or none if --figures is given.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum)]
    tables: Vec<TableNumber>,
    /// Share of the work: 1 is 3,000,000 flows in tables 2 and 3, 4,000,000 packets in a window of
    /// traffic, and 20 rounds in figure 8. Larger rows of the tables are left out.
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = command::topology::share)]
    scale: f64,
    /// Time to measure each rate.
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = crate::bench::seconds)]
    seconds: f64,
    /// Figures 4 and 8: a NIC beside the model, by the kernel's rules of tc. Flows come in at IF
    /// and leave by OUT; the default is IF. Needs root.
    #[arg(long, value_name = "model|tc:IF[,OUT]", default_value = "model")]
    target: TargetChoice,
    /// Directory for tables and pictures; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write the rows as JSON.
    #[arg(long)]
    json: bool,
}

/// The available figures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Number {
    /// Two flows in the NIC: their rules and states. Figure 5 comes with it.
    #[value(name = "4")]
    Examples,
    /// Frames of these flows before and after. Figure 4 comes with it.
    #[value(name = "5")]
    Frames,
    /// Latencies of three flows.
    #[value(name = "6")]
    Latencies,
    /// Rate of a flow while its entry changes.
    #[value(name = "7")]
    Update,
    /// Time to move flows to and from the NIC.
    #[value(name = "8")]
    Batches,
    /// Rates over numbers of actions.
    #[value(name = "9")]
    Actions,
    /// Latency over the offered rate.
    #[value(name = "10")]
    Knee,
    /// Share of Zipf traffic in the NIC, which the paper does not have.
    #[value(name = "traffic")]
    Traffic,
}

/// The available tables.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableNumber {
    /// Placement of flows.
    #[value(name = "2")]
    Placement,
    /// Replacement of flows.
    #[value(name = "3")]
    Replacement,
}

/// Options and progress, which all parts need.
struct Context<'c> {
    options: &'c Pof,
    take_signal: &'c dyn Fn() -> Option<Signal>,
    progress: Progress,
}

impl Context<'_> {
    /// Shows the completed share of a part.
    ///
    /// # Errors
    /// A signal arrived.
    fn tell(&mut self, name: &str, done: usize, all: usize) -> Result<(), String> {
        self.progress.tell(name, done as f64 / all.max(1) as f64);
        match (self.take_signal)() {
            Some(signal) => Err(format!("interrupted by {signal}")),
            None => Ok(()),
        }
    }

    /// Returns the share `scale` of a number, at least `least`.
    fn scaled(&self, all: u64, least: u64) -> u64 {
        ((all as f64 * self.options.scale) as u64).max(least)
    }

    /// Returns the plan of a rate.
    fn plan(&self) -> Plan {
        Plan {
            time: Duration::from_secs_f64(self.options.seconds),
            burst: BURST,
            seed: 1,
        }
    }

    fn has_table(&self, number: TableNumber) -> bool {
        let Pof {
            figures, tables, ..
        } = self.options;
        tables.contains(&number) || figures.is_empty() && tables.is_empty()
    }
}

/// Measures the figures and tables.
///
/// # Errors
/// A figure cannot be measured, a signal arrives, or a file cannot be written.
pub(super) fn run(
    options: &Pof,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Ended, String> {
    let names_none = options.figures.is_empty() && options.tables.is_empty();
    let has = |number| names_none || options.figures.contains(&number);
    type Measure = fn(&mut Context<'_>) -> Result<Part, String>;
    let parts: [(bool, Measure); 8] = [
        (
            has(Number::Examples) || has(Number::Frames),
            examples::measure,
        ),
        (has(Number::Latencies), latency::measure),
        (has(Number::Update), update::measure),
        (has(Number::Batches), batches::measure),
        (has(Number::Actions), actions::measure),
        (has(Number::Knee), knee::measure),
        (
            names_none || !options.tables.is_empty(),
            placements::measure,
        ),
        (has(Number::Traffic), traffic::measure),
    ];
    let mut context = Context {
        options,
        take_signal,
        progress: Progress::new(),
    };
    let mut results = Results::new(&options.out, "pof")?;
    for (_, measure) in parts.iter().filter(|(is_wanted, _)| *is_wanted) {
        results.add(measure(&mut context)?)?;
    }
    drop(context);
    results.print(options.json);
    Ok(Ended::Well)
}
