//! `polyplane bench`: measures programs on the engines, against a hand-written loop and a wire.

mod forwarding;
mod hostile;
mod io;
mod life;
mod load;
mod lookups;
mod report;
mod sides;
pub(crate) mod split;
mod svg;
#[cfg(target_os = "linux")]
mod swap;
mod tenants;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::arrival::Arrival;
use bench::workloads;
use clap::{Args, ValueEnum};
use command::Ended;
use command::args::{MAX_WORKERS, Preprocess, Setup};
use command::captures::Input;
use runtime::trace_filter::PacketFilter;
use terminal::out;

#[derive(Args)]
#[expect(missing_docs, reason = "a comment would be the help of the subcommand")]
#[command(
    after_help = "Every round gives each side the same packets, which no other round has, and a figure is the median over rounds. Before a built-in \
                  program is measured, each engine is compared with the loop written by hand, packet by packet.\n\nExit status: 0 when measured, 1 for \
                  errors in what was given or sides that disagree, 2 for wrong usage."
)]
pub struct BenchOptions {
    /// Programs to measure: names that --list shows, all of them when none is given, or a P4_16
    /// program of your own.
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// List the built-in programs.
    #[arg(long)]
    list: bool,
    /// Print a built-in program.
    #[arg(long, value_name = "NAME")]
    show: Option<String>,
    /// Measure tables instead of programs: memory, lookups per second after loading, and then
    /// lookups without and with concurrent updates. Of these kinds, or of all.
    #[arg(long, value_name = "KIND", value_delimiter = ',', num_args = 0.., require_equals = true)]
    lookups: Option<Vec<Lookups>>,
    /// Measure ports instead of programs: frames from one virtual interface to another, against a
    /// bare loop. Needs root.
    #[arg(long, conflicts_with = "lookups")]
    io: bool,
    /// Measure the cost of program changes for packets that pass meanwhile: `sai` with 100,000
    /// entries, compiled again for each change, while a worker forwards at 90 % of its rate.
    /// Wants two cores.
    #[arg(long, conflicts_with_all = ["lookups", "io", "programs"])]
    swap: bool,
    /// With --swap: number of changes.
    #[arg(long, value_name = "N", requires = "swap", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=MAX_CHANGES))]
    swaps: u32,
    /// Measure the overhead of virtual data planes: a program alone, against 1 to 256 vPDPs with
    /// a part of its entries each. Packets are assigned to vPDPs by port, by a description
    /// header, or by a table.
    #[arg(long, conflicts_with_all = ["lookups", "io", "swap", "programs", "trace", "svg"])]
    tenants: bool,
    /// With --tenants: number of vPDPs.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "tenants", conflicts_with_all = ["life", "load", "hostile"], default_values = ["1", "8", "64", "256"], value_parser = vpdps)]
    vpdps: Vec<usize>,
    /// With --tenants: arrival order of packets. Default: mixed, and for ports of one vPDP also
    /// from queues.
    #[arg(long, value_name = "ORDER", value_delimiter = ',', requires = "tenants", conflicts_with_all = ["life", "load", "hostile"])]
    arrival: Vec<Order>,
    /// With --tenants: measure instead loss and reordering of packets while vPDPs are created,
    /// changed, moved to another switch and deleted at random, at 80 % of the rate that --workers
    /// reach. Every packet is checked. Wants a core more than workers.
    #[arg(long, requires = "tenants", conflicts_with_all = ["load", "hostile"])]
    life: bool,
    /// With --life: number of operations.
    #[arg(long, value_name = "N", requires = "life", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=MAX_CHANGES))]
    operations: u32,
    /// With --tenants: measure instead the time from P4 text until a vPDP forwards its first
    /// packet, for HyperVDP's functions and `sai`.
    #[arg(long, requires = "tenants")]
    load: bool,
    /// With --tenants: measure instead the share and the latency that a vPDP keeps with hostile
    /// neighbours: endless recirculation, the largest packets, slow compiling, a full table that
    /// is churned, registers, packets that are long or endless to parse, floods from controllers.
    /// Wants two cores.
    #[arg(long, requires = "tenants", conflicts_with = "load")]
    hostile: bool,
    /// With --tenants: the program: `l2`, or `pol1` to `pol7`, the policies of HyperVDP.
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "tenants", conflicts_with_all = ["life", "load", "hostile"], default_values = ["l2"])]
    policy: Vec<String>,
    /// Measure instead the halves of programs over a switch and servers (`snat`, `fib`, `trd`):
    /// each half beside the whole program or a loop by hand, and both together with and without
    /// entries in the switch. Needs a C compiler.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["lookups", "io", "swap", "tenants", "programs", "trace", "svg"])]
    split: Vec<String>,
    /// With --lookups: number of entries, in place of a small, a middle and a large number.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "lookups", value_parser = entries)]
    sizes: Vec<usize>,
    /// With --lookups: number of updates after which the table is published to packets.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "lookups", default_values = ["1", "10", "100"], value_parser = entries)]
    updates: Vec<usize>,
    /// With --lookups: updates per second, measured in addition to as many as possible. Default:
    /// the rate that tables must sustain, 100,000 exact or LPM, 10,000 ternary.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "lookups", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pace: Vec<u32>,
    /// Measure only these sides: an engine, `specialised` (`jit`, with code made for what tables
    /// hold, where that is of use), `hand` (a loop written by hand for this one function, over the
    /// same tables) or `bare` (a wire: frames that are not processed).
    #[arg(long = "engine", value_name = "NAME", value_delimiter = ',')]
    engines: Vec<String>,
    /// Threads, each pinned to one core.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MAX_WORKERS))]
    workers: u16,
    /// Measure each engine also with tracing, as `run --trace` does for packets that match the
    /// filter: the cost for the other packets.
    #[arg(long, value_name = "FILTER", conflicts_with_all = ["lookups", "io"])]
    trace: Option<PacketFilter>,
    /// Time to measure a program under one kind of traffic; with --lookups a table as loaded, and
    /// again with updates.
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Kinds of traffic: a few flows, all that there are entries for, or 100,000 flows of which few
    /// have most of the packets.
    #[arg(long, value_name = "KIND", value_delimiter = ',', default_values = ["few", "many"])]
    flows: Vec<Flows>,
    /// Burst size of a side. Default: 64; with --tenants 4096, as many as a worker of
    /// `polyplane host` takes in one round.
    #[arg(long, value_name = "N", conflicts_with_all = ["life", "load", "hostile"], value_parser = clap::value_parser!(u16).range(1..=4096))]
    burst: Option<u16>,
    /// For a program of your own: ingress packets of a port, from a capture. Default: UDP packets
    /// to 10.0.0.0/8 on port 0.
    #[arg(long = "in", value_name = "PORT=FILE")]
    inputs: Vec<Input>,
    #[command(flatten)]
    preprocess: Preprocess,
    #[command(flatten)]
    setup: Setup,
    /// Write the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Draw the programs' rates into a file, too, as SVG.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lookups", "io"])]
    svg: Option<PathBuf>,
}

/// Maximum number of changes of a program or of vPDPs in one measurement.
const MAX_CHANGES: i64 = 1_000_000;

/// Maximum number of entries of a table, and of updates between two publications.
const MAX_ENTRIES: usize = 10_000_000;

/// Maximum duration of one measurement in seconds.
const MAX_SECONDS: f64 = 24.0 * 3600.0;

/// Parses the duration of a measurement.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    match seconds > 0.0 && seconds <= MAX_SECONDS {
        true => Ok(seconds),
        false => Err(format!("it is not above 0 and at most {MAX_SECONDS}")),
    }
}

fn entries(text: &str) -> Result<usize, String> {
    number(text, MAX_ENTRIES)
}

fn vpdps(text: &str) -> Result<usize, String> {
    number(text, tenancy::VpdpId::MAX as usize)
}

fn number(text: &str, most: usize) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("it is no number from 1 to {most}"))
}

/// Order in which packets of several vPDPs arrive.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Each packet is of any vPDP. The harder order: packets are forwarded as they arrive,
    /// without queues.
    Mixed,
    /// Ports have full queues and give 64 packets each in turn, as with an overloaded worker of
    /// `polyplane host`.
    Queues,
}

impl Order {
    fn arrival(self) -> Arrival {
        match self {
            Order::Mixed => Arrival::Mixed,
            Order::Queues => Arrival::Queues,
        }
    }
}

/// Match kind of a table.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lookups {
    /// Keys of 64 bits.
    Exact,
    /// Routing tables: IPv4 up to all prefixes of the Internet, and IPv6.
    Lpm,
    /// Rules over the five-tuple: access lists, firewalls, IP chains.
    Ternary,
}

impl Lookups {
    fn name(self) -> &'static str {
        match self {
            Lookups::Exact => "exact",
            Lookups::Lpm => "lpm",
            Lookups::Ternary => "ternary",
        }
    }
}

/// Number of flows in the traffic.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flows {
    /// 16 flows, which fit into every cache.
    Few,
    /// All flows, in random order.
    Many,
    /// 100,000 flows. The share of a flow follows Zipf's law with exponent 1.1.
    Skewed,
}

impl Flows {
    fn name(self) -> &'static str {
        match self {
            Flows::Few => "few",
            Flows::Many => "many",
            Flows::Skewed => "skewed",
        }
    }
}

/// Runs `polyplane bench`.
///
/// # Errors
/// An option is wrong, or sides of a comparison differ.
pub fn run(options: &BenchOptions) -> Result<Ended, String> {
    if options.list {
        list();
        return Ok(Ended::Well);
    }
    if let Some(name) = &options.show {
        let workload = workloads::find(name).ok_or_else(|| unknown(name))?;
        out::text(workload.source());
        return Ok(Ended::Well);
    }
    sides::check_names(&options.engines)?;
    let time = Duration::from_secs_f64(options.seconds);
    if let Some(kinds) = &options.lookups {
        return lookups::run(kinds, options, time);
    }
    if options.io {
        return io::run(options.json, time);
    }
    if options.swap {
        return swap::run(options.swaps as usize, options.json, time);
    }
    if options.life {
        return life::run(options, time);
    }
    if options.load {
        return load::run(options);
    }
    if options.hostile {
        return hostile::run(options, time);
    }
    if options.tenants {
        return tenants::run(options, time);
    }
    if !options.split.is_empty() {
        split::run(&options.split, options, time)?;
        return Ok(Ended::Well);
    }
    let mut report = report::Report::new(options.json);
    let all: Vec<String> = workloads::ALL
        .iter()
        .map(|(name, _)| name.to_string())
        .collect();
    let programs = match options.programs.is_empty() {
        true => &all,
        false => &options.programs,
    };
    for name in programs {
        let measured = match workloads::find(name) {
            Some(workload) => forwarding::built_in(&*workload, options, time)?,
            None if is_file(name) => {
                let Some(measured) = forwarding::own(Path::new(name), options, time)? else {
                    return Ok(Ended::WithErrors);
                };
                measured
            }
            None => return Err(unknown(name)),
        };
        report.add(measured);
    }
    report.finish();
    if let Some(path) = &options.svg {
        let drawn = svg::draw(report.rows())?;
        std::fs::write(path, drawn)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(Ended::Well)
}

/// Returns true if an argument names a program file of the user.
fn is_file(name: &str) -> bool {
    let path = PathBuf::from(name);
    path.extension().is_some() || path.components().count() > 1 || path.exists()
}

fn unknown(name: &str) -> String {
    let known: Vec<&str> = workloads::ALL.iter().map(|(name, _)| *name).collect();
    format!(
        "there is no built-in program \"{name}\": there are {}; a program of your own is a file, as in ./{name}.p4",
        known.join(", ")
    )
}

fn list() {
    for (_, make) in workloads::ALL {
        let workload = make(workloads::Size::Small);
        out::line(&format!("{:<8}  {}", workload.name(), workload.about()));
    }
}
