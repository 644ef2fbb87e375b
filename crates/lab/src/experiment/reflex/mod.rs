//! `polyplane experiment reflex`: what the nanoPU's reflex plane is compared by, beside the paper's
//! values.
//!
//! Each part is a module that returns a [`Part`]. Values are measured in this process, or are of
//! the timed model of the nanoPU (`model`).

mod classification;
mod detector;
mod disk_writes;
mod hand_written;
mod links;
mod model;
mod reflex_latency;
mod remote_writes;
mod reports;
mod service;
mod whole_loop;
mod wires;
mod writes;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::Ended;
use port::Signal;
use support::quantile::quantile;

use super::Progress;
use super::parts::{Origin, Part, Results, Sheet};

/// Rounds of each measurement, of which medians are taken.
const ROUNDS: usize = 5;

#[derive(Args)]
pub(super) struct Reflex {
    /// The parts. Default: all.
    #[arg(long, value_name = "PART", value_delimiter = ',', value_enum)]
    parts: Vec<Name>,
    /// Measure little of each part, for some seconds: to see that all works.
    #[arg(long)]
    quick: bool,
    /// Directory for tables and pictures; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write the rows as JSON.
    #[arg(long)]
    json: bool,
}

/// The available parts.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Figures 1 and 2: a message to another thread and back.
    Wires,
    /// Table 1: path latency detection.
    Detector,
    /// Section 3.2.3: committed writes.
    Writes,
    /// Figure 3: classification.
    Classification,
    /// Figure 3 of the model: classification under load.
    Classifier,
    /// Section 4.3: the whole loop.
    Loop,
    /// Figure 4: writes under load, of the model alone.
    Load,
    /// The effect of each cost of the model on its rows.
    Sensitivity,
    /// Table 2, which is not measured here.
    Missing,
}

/// Options and progress, which all parts need.
struct Context<'c> {
    options: &'c Reflex,
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

    /// Returns the first of two numbers, or the second one if little is measured.
    fn choose<T>(&self, whole: T, quick: T) -> T {
        match self.options.quick {
            true => quick,
            false => whole,
        }
    }
}

/// Returns the median.
fn median(values: &[f64]) -> f64 {
    quantile(&mut values.to_vec(), 0.5).unwrap_or(0.0)
}

/// Returns the median over the rounds of one value by another.
fn ratio(of: &[f64], by: &[f64]) -> f64 {
    let ratios: Vec<f64> = of.iter().zip(by).map(|(one, other)| one / other).collect();
    median(&ratios)
}

/// Adds a row that says what is missing.
fn missing(sheet: &mut Sheet, subject: &str, source: Origin, why: &str) {
    sheet.say(subject, source, "state", &format!("missing: {why}"));
}

fn not_measured(_: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("table 2");
    let operations = "five operations";
    sheet.say(operations, Origin::Paper, "state", "not built");
    missing(
        &mut sheet,
        operations,
        Origin::Simulated,
        "tests of crate reflex have them, and no row here",
    );
    let note = "Paper: a list of five operations, none of which it built.";
    Ok(sheet.part("Table 2: not measured", note.to_owned(), Vec::new()))
}

/// Measures the parts.
///
/// # Errors
/// A part fails, a signal arrives, or a file cannot be written.
pub(super) fn run(
    options: &Reflex,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Ended, String> {
    type Measure = fn(&mut Context<'_>) -> Result<Part, String>;
    let parts: [(Name, Measure); 9] = [
        (Name::Wires, wires::measure),
        (Name::Detector, detector::measure),
        (Name::Writes, writes::measure),
        (Name::Classification, classification::measure),
        (Name::Classifier, model::measure_classifier),
        (Name::Loop, whole_loop::measure),
        (Name::Load, model::measure_load),
        (Name::Sensitivity, model::measure),
        (Name::Missing, not_measured),
    ];
    let is_wanted = |name: &Name| options.parts.is_empty() || options.parts.contains(name);
    let mut context = Context {
        options,
        take_signal,
        progress: Progress::new(),
    };
    let mut results = Results::new(&options.out, "reflex")?;
    for (_, measure) in parts.iter().filter(|(name, _)| is_wanted(name)) {
        results.add(measure(&mut context)?)?;
    }
    drop(context);
    results.print(options.json);
    Ok(Ended::Well)
}
