//! `polyplane experiment`: measures figures of papers and compares them with the papers' values.
//!
//! Each figure is a module that returns a [`Figure`]: rows for programs, a table for people,
//! pictures.

mod clip;
mod emitted;
mod figure11;
mod figure15;
mod figure17;
mod figure7;
mod figure9;
mod p4com;
mod parts;
mod plot;
mod pof;
mod policy;
mod reflex;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::measure::Plan;
use bench::tenants::TenantsReport;
use clap::{Args, Subcommand, ValueEnum};
use command::Ended;
use command::engine::Choice;
use port::Signal;
use runtime::tenancy_host::ROUND;
use serde::Serialize;
use support::text_table;
use terminal::live::{LiveLine, bar};
use terminal::out;

#[derive(Args)]
#[expect(missing_docs, reason = "a comment would be the help of the subcommand")]
#[command(subcommand_required = true)]
pub struct ExperimentOptions {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// HyperVDP (virtual data planes): reproduce its figures in shape.
    #[command(
        after_help = "  7   tables that the emitted hypervisor declares\n  9   tables that a packet meets in it\n  11  throughput over packet sizes\n  \
                      15  throughput and delay of policies 1 to 7\n  17  completion times of mice and throughputs of elephants over the fat-tree, \
                      simulated (docs/reference/topology.md)\n\nEach is written below DIR as a picture, all of them as hypervdp.txt and hypervdp.json. \
                      docs/results/hypervdp.md has what is measured and the paper's values.\n\nExamples:\n  \
                      polyplane experiment hypervdp --out out/\n  \
                      polyplane experiment hypervdp --figures 15 --vpdps 1,8,64 --seconds 5 --out out/\n  \
                      polyplane experiment hypervdp --figures 17 --scale 1 --out out/"
    )]
    Hypervdp(Hypervdp),
    /// CLIP (programs over a switch and servers): reproduce its figures and tables in shape.
    #[command(
        after_help = "  5         capacity and latency of the way over servers\n  6         changes of the group of servers\n  \
                      7, 8, 9   reports, packets in the switch and rates by policy, over the exponent of Zipf's distribution\n  \
                      10, 11    distribution of latencies; throughput of functions over mixes of sizes\n  \
                      tables    1 latencies by policy, 2 table operations, 3 latencies of functions, 4 resources of the switch half\n\n\
                      Each row says if it is measured, simulated or of a model, and has the paper's value beside it. They are written below DIR \
                      as clip.txt, clip.json and clip.csv, with pictures. docs/results/clip.md has what is measured.\n\nExamples:\n  \
                      polyplane experiment clip --out out/\n  polyplane experiment clip --figures 8 --scale 1 --out out/\n  \
                      polyplane experiment clip --figures 11 --trace office=office.pcap --out out/"
    )]
    Clip(clip::Clip),
    /// P4COM (reductions in the network): reproduce its figures and tables in shape.
    #[command(
        after_help = "  6, 7      bytes on the reducer's link and time of the job: words, links and flows, 3, 6 and 12 mappers to one reducer\n  \
                      8         goodput of mappers at 10 Gbit/s, with and without service time and loss\n  \
                      tables    1 wrong keys of each scheme under loss, 2 transmission time of gradients\n\n\
                      All values are simulated, but for --real: figure 7 between network namespaces. They are written below DIR as p4com.txt, p4com.json and p4com.csv, with pictures, beside the paper's values. \
                      docs/results/p4com.md has what is measured.\n\nExamples:\n  \
                      polyplane experiment p4com --out out/\n  polyplane experiment p4com --figures 6 --scale 0.01 --out out/"
    )]
    P4com(p4com::P4com),
    /// OVS-POF-TC (POF flows in a NIC): reproduce its figures and tables in shape.
    #[command(
        after_help = "  4 (and 5) two flows in the NIC: rule, state, frames before and after\n  6         latency of three flows by plane\n  \
                      7         rate over time while an entry changes\n  8         time to move flows, by part\n  \
                      9         rates over the number of actions, beside P4, and Open vSwitch on DPDK where it is installed\n  \
                      10        latency over the offered rate, offload off and on\n  traffic   Zipf traffic by policy\n  \
                      tables    2 placement and 3 replacement of flows by policy\n\n\
                      Each row says if it is measured, simulated, of a model or the paper's. The NIC is a model with the paper's latencies; --target tc:IF measures the NIC of an interface beside it, in figures 4 and 8. They are written below DIR \
                      as pof.txt, pof.json and pof.csv, with pictures. docs/results/ovs-pof-tc.md has what is measured.\n\nExamples:\n  \
                      polyplane experiment pof --out out/\n  polyplane experiment pof --figures 9 --seconds 2 --out out/\n  \
                      polyplane experiment pof --tables 2,3 --scale 0.1 --out out/"
    )]
    Pof(pof::Pof),
    /// nanoPU (reflex plane): measure what its figures and tables measure.
    #[command(
        after_help = "  wires           figures 1 and 2: a message to another thread and back\n  detector        table 1: path latency detection, beside a loop by hand\n  \
                      writes          section 3.2.3: writes committed by three replicas\n  classification  figure 3: rule sets of 100 to 500,000 rules\n  \
                      loop            section 4.3: the whole loop by parts\n  missing         figure 4 and table 2: what is not measured\n\n\
                      Each row says if it is measured, of a model or the paper's. The experiment does not use the model of the nanoPU (`polyplane nanopu`) yet. They are written below DIR \
                      as reflex.txt, reflex.json and reflex.csv, with pictures. docs/results/nanopu-reflex.md has what is measured.\n\nExamples:\n  \
                      polyplane experiment reflex --out out/\n  polyplane experiment reflex --parts detector,loop --out out/\n  \
                      polyplane experiment reflex --quick --out out/"
    )]
    Reflex(reflex::Reflex),
}

#[derive(Args)]
struct Hypervdp {
    /// The figures to measure.
    #[arg(long, value_name = "N", value_delimiter = ',', value_enum, default_values = ["7", "9", "11", "15", "17"])]
    figures: Vec<Number>,
    /// Directory for tables and plots; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Figure 9: directory of the paper's functions.
    #[arg(long, value_name = "DIR", default_value = "examples")]
    examples: PathBuf,
    /// Figure 17: the topology with programs on its switches.
    #[arg(
        long,
        value_name = "TOPO.toml",
        default_value = "examples/fabric/fat_tree/fat_tree.toml"
    )]
    fabric: PathBuf,
    /// Figure 17: the topology with virtual data planes on its switches.
    #[arg(
        long,
        value_name = "TOPO.toml",
        default_value = "examples/fabric/fat_tree_vpdps/fat_tree_vpdps.toml"
    )]
    vpdp_fabric: PathBuf,
    /// Figure 17: the share of their bytes that the elephants have.
    #[arg(long, value_name = "F", default_value_t = 0.01, value_parser = command::topology::share)]
    scale: f64,
    /// Figures 11 and 15, and what a packet costs for 17: how long to measure rates, and as long
    /// again to measure times.
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
    /// Returns the measurement plan of the forwarding rates.
    ///
    /// # Errors
    /// The time is not positive.
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

/// The available figures.
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

/// One row of a figure in JSON. Values that a figure does not have are null.
#[derive(Serialize)]
struct Row {
    figure: &'static str,
    /// The measured object: a policy, a function, or the compositions of a fabric.
    policy: String,
    /// Number of virtual data planes that share a switch.
    vpdps: Option<u32>,
    native_mpps: Option<f64>,
    vpdp_mpps: Option<f64>,
    /// Rate of virtual data planes relative to the program alone.
    ratio: Option<f64>,
    /// Packet latency in virtual data planes.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    #[serde(flatten)]
    more: More,
}

/// Values specific to one figure.
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
    /// Returns a row with rates and latencies.
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

    /// Returns a row without rates.
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

/// Result of a figure.
struct Figure {
    title: &'static str,
    rows: Vec<Row>,
    /// Lines of the table. The first one is the head.
    table: Vec<Vec<String>>,
    /// Text below the table.
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
        let table = text_table::align(&self.table);
        format!("{}\n\n{table}\n{}\n", self.title, self.note)
    }
}

/// Shows the progress of a measurement on standard error.
struct Progress(LiveLine);

impl Progress {
    fn new() -> Progress {
        Progress(LiveLine::new())
    }

    /// Reports the completed share of the named measurement.
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

/// Runs `polyplane experiment`. `take_signal` returns a stop signal, if one has arrived.
///
/// # Errors
/// A figure cannot be measured or written.
pub fn run(
    options: &ExperimentOptions,
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<Ended, String> {
    let options = match &options.command {
        Command::Hypervdp(options) => options,
        Command::Clip(options) => return clip::run(options, take_signal),
        Command::P4com(options) => return p4com::run(options, take_signal),
        Command::Pof(options) => return pof::run(options, take_signal),
        Command::Reflex(options) => return reflex::run(options, take_signal),
    };
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
            Number::FatTree => figure17::measure(options, take_signal)?,
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

/// Returns the head of a table.
fn head(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Formats a cell that may be empty.
fn cell(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}
