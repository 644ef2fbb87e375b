//! `polyplane experiment`: figures of papers, measured here and set beside what the papers say.
//!
//! Each figure is a module that gives a [`Figure`]: rows for programs, a table for people, pictures.

mod emitted;
mod figure11;
mod figure15;
mod figure17;
mod figure7;
mod figure9;
mod plot;
mod policy;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::measure::Plan;
use bench::tenants::TenantsReport;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use crate::early::Early;
use crate::engine::Choice;
use crate::host::ROUND;
use crate::live::{LiveLine, bar};
use crate::{Ended, out, report};

#[derive(Args)]
#[command(subcommand_required = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// HyperVDP (virtual data planes): its figures in form.
    #[command(
        after_help = "  7   tables that the emitted hypervisor declares\n  9   tables that a packet meets in it\n  11  throughput over packet sizes\n  \
                      15  throughput and delay of policies 1 to 7\n  17  completion times of mice and throughputs of elephants over the fat-tree, \
                      simulated (docs/reference/topology.md)\n\nEach is written below DIR as a picture, all of them as hypervdp.txt and hypervdp.json. \
                      docs/EXPERIMENTS.md tells what is measured and what the paper's values are.\n\nExamples:\n  \
                      polyplane experiment hypervdp --out out/\n  \
                      polyplane experiment hypervdp --figures 15 --vpdps 1,8,64 --seconds 5 --out out/\n  \
                      polyplane experiment hypervdp --figures 17 --scale 1 --out out/"
    )]
    Hypervdp(Hypervdp),
}

#[derive(Args)]
struct Hypervdp {
    /// Which figures.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum, default_values = ["7", "9", "11", "15", "17"])]
    figures: Vec<Number>,
    /// Where tables and plots are written; it is made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Figure 9: where the paper's functions are.
    #[arg(long, value_name = "DIR", default_value = "examples")]
    examples: PathBuf,
    /// Figure 17: the topology whose switches run programs.
    #[arg(
        long,
        value_name = "TOPO.toml",
        default_value = "examples/fabric/fat_tree/fat_tree.toml"
    )]
    fabric: PathBuf,
    /// Figure 17: the topology whose switches have virtual data planes.
    #[arg(
        long,
        value_name = "TOPO.toml",
        default_value = "examples/fabric/fat_tree_vpdps/fat_tree_vpdps.toml"
    )]
    vpdp_fabric: PathBuf,
    /// Figure 17: which share of their bytes the elephants have.
    #[arg(long, value_name = "F", default_value_t = 0.01, value_parser = crate::fabric::share)]
    scale: f64,
    /// Figures 11 and 15, and what a packet costs for 17: how long to measure rates, and as long again to measure times.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = crate::bench::seconds)]
    seconds: f64,
    /// Figure 15: numbers of virtual data planes.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "8"], value_parser = clap::value_parser!(u32).range(1..=i64::from(tenancy::VpdpId::MAX)))]
    vpdps: Vec<u32>,
    #[command(flatten)]
    choice: Choice,
    /// Write the rows as JSON.
    #[arg(long)]
    json: bool,
}

impl Hypervdp {
    /// How forwarding is measured.
    ///
    /// # Errors
    /// The time is none.
    fn plan(&self) -> Result<Plan, String> {
        let time = Duration::try_from_secs_f64(self.seconds).ok();
        let time = time.filter(|time| !time.is_zero());
        let time = time.ok_or_else(|| format!("--seconds {}: how long is that?", self.seconds))?;
        Ok(Plan {
            time,
            burst: ROUND,
            seed: 1,
        })
    }
}

/// The figures that there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Number {
    /// Tables declared.
    #[value(name = "7")]
    Declared,
    /// Tables at run time.
    #[value(name = "9")]
    Met,
    /// Throughput over packet sizes.
    #[value(name = "11")]
    Sizes,
    /// Throughput and delay of policies.
    #[value(name = "15")]
    Policies,
    /// Completion times and throughputs over a fat-tree.
    #[value(name = "17")]
    FatTree,
}

/// One line of a figure, as JSON has it: what a figure has not is null.
#[derive(Serialize)]
struct Row {
    figure: &'static str,
    /// What runs: a policy, a function, or a fabric's compositions.
    policy: String,
    /// How many virtual data planes share a switch.
    vpdps: Option<u32>,
    native_mpps: Option<f64>,
    vpdp_mpps: Option<f64>,
    /// What virtual data planes reach of what the program alone does.
    ratio: Option<f64>,
    /// Of virtual data planes; of what, the rest says.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    #[serde(flatten)]
    more: More,
}

/// What one figure has and others have not.
#[derive(Serialize)]
#[serde(untagged)]
enum More {
    Declared(figure7::Declared),
    Met(figure9::Met),
    Size(figure11::Size),
    Policy(figure15::Policy),
    Flows(figure17::Flows),
}

impl Row {
    /// A row of rates, and of the times that packets take below them.
    fn measured(
        figure: &'static str,
        policy: &str,
        vpdps: u32,
        report: &TenantsReport,
        more: More,
    ) -> Row {
        let (native, hosted) = report.middle;
        let latencies = report.latencies.second;
        Row {
            figure,
            policy: policy.to_owned(),
            vpdps: Some(vpdps),
            native_mpps: Some(native.mpps),
            vpdp_mpps: Some(hosted.mpps),
            ratio: Some(report.ratio()),
            p50_us: Some(latencies.p50),
            p99_us: Some(latencies.p99),
            more,
        }
    }

    /// A row without rates.
    fn new(figure: &'static str, policy: impl Into<String>, more: More) -> Row {
        Row {
            figure,
            policy: policy.into(),
            vpdps: None,
            native_mpps: None,
            vpdp_mpps: None,
            ratio: None,
            p50_us: None,
            p99_us: None,
            more,
        }
    }
}

/// What came of a figure.
struct Figure {
    title: &'static str,
    rows: Vec<Row>,
    /// The table's lines, the first of which says what is in its columns.
    table: Vec<Vec<String>>,
    /// What stands below the table.
    note: String,
    pictures: Vec<Picture>,
}

/// A plot.
struct Picture {
    file: &'static str,
    svg: String,
}

impl Figure {
    fn text(&self) -> String {
        let table = report::align(&self.table);
        format!("{}\n\n{table}\n{}\n", self.title, self.note)
    }
}

/// Tells on standard error how far a measurement is.
struct Progress(LiveLine);

impl Progress {
    fn new() -> Progress {
        Progress(LiveLine::new())
    }

    /// Of what is named, this share is over.
    fn tell(&mut self, name: &str, share: f64) {
        if self.0.is_due() {
            let done = bar((share * 100.0) as u64, 100, 20);
            self.0.show(&format!("{name}: {done}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.clear();
    }
}

pub(crate) fn run(options: &Options, early: &Early) -> Result<Ended, String> {
    let Command::Hypervdp(options) = &options.command;
    std::fs::create_dir_all(&options.out)
        .map_err(|error| format!("cannot make {}: {error}", options.out.display()))?;
    let mut numbers = options.figures.clone();
    numbers.sort_unstable();
    numbers.dedup();
    let mut rows = Vec::new();
    let mut text = String::new();
    for number in numbers {
        let figure = match number {
            Number::Declared => figure7::measure()?,
            Number::Met => figure9::measure(options)?,
            Number::Sizes => figure11::measure(options)?,
            Number::Policies => figure15::measure(options)?,
            Number::FatTree => figure17::measure(options, early)?,
        };
        for picture in &figure.pictures {
            write(&options.out.join(picture.file), &picture.svg)?;
        }
        text += &figure.text();
        text.push('\n');
        rows.extend(figure.rows);
    }
    let json = serde_json::to_string_pretty(&rows);
    let json = json.map_err(|error| format!("cannot write rows as JSON: {error}"))?;
    write(&options.out.join("hypervdp.json"), &json)?;
    write(&options.out.join("hypervdp.txt"), &text)?;
    match options.json {
        true => out::json(&rows),
        false => out::text(&text),
    }
    Ok(Ended::Well)
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The words of a table's head.
fn head(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A cell that may be empty.
fn cell(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}
