//! `polyplane fabric`: many switches on one machine, in simulated time or as network namespaces.
//!
//! The crate `fabric` has topologies and the simulation, and `command` loads programs into the
//! switches. This module prints reports.

mod capture;
mod editor;
mod hosting;
mod import;
mod link_states;
mod measure;
mod namespaces;
mod ping;
mod prompt;
pub(crate) mod real;
pub(crate) mod report;
pub(crate) mod served;
mod show;
mod svg;
mod up;

use std::path::{Path, PathBuf};

use aggregate::set_neighbours;
use clap::{Args, Subcommand};
use command::switches::Maker;
use command::topology::{load_images, run_simulation, share};
use fabric::Simulation;
use fabric::topology::{PlaneSpec, SwitchSpec, Topology};
use packet::Nanos;

use crate::args::Io;
use crate::engine::Choice;
use crate::{Ended, amount, out};
pub(crate) use command::topology::read;
use runtime::ProcessSetup;

#[derive(Args)]
#[command(
    subcommand_required = true,
    after_help = "Examples:\n  polyplane fabric show examples/fabric/leaf_spine/leaf_spine.toml\n  \
        polyplane fabric show examples/fabric/fat_tree/fat_tree.toml --svg fat_tree.svg\n  \
        polyplane fabric run examples/fabric/leaf_spine/leaf_spine.toml\n  \
        polyplane fabric run examples/fabric/fat_tree/fat_tree.toml --scale 0.01\n  \
        polyplane fabric run examples/fabric/leaf_spine/leaf_spine.toml --real\n  \
        polyplane fabric up examples/fabric/leaf_spine/leaf_spine.toml\n  \
        polyplane fabric up topology.json -c pingall\n\n\
        docs/reference/topology.md tells what a topology file may say. Exit status: 0 when all is done, 1 for errors in what was given or flows that are not \
        complete, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print a topology, or draw it.
    Show(show::Options),
    /// Run its flows, pings, requests and workload in simulated time, where the same seed gives the
    /// same report; or run programs in its hosts for real.
    Run(RunOptions),
    /// Set it up for real, with a prompt: switches that forward, and a network namespace for each
    /// host. Needs root.
    Up(up::UpOptions),
    /// Write a topology of the P4 tutorials or of p4-utils as one in TOML.
    Import(import::Options),
    /// Send echo requests: the command `ping` of hosts, where the machine has none.
    #[command(hide = true)]
    Ping(ping::PingOptions),
}

#[derive(Args)]
struct RunOptions {
    /// The topology (docs/reference/topology.md).
    #[arg(value_name = "TOPO.toml")]
    topology: PathBuf,
    /// The share of their bytes that the workload's elephants have.
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = share)]
    scale: f64,
    /// Maximum simulated time in seconds.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Seed of losses and peers, in place of the topology's own seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run the programs that the topology names (`[[command]]`) in hosts that are network
    /// namespaces, instead of simulating. Needs root.
    #[arg(long, conflicts_with_all = ["scale", "seconds", "seed"])]
    real: bool,
    /// With --real: packet I/O of the switches' ports.
    #[arg(long, value_enum, default_value_t, requires = "real")]
    io: Io,
    #[command(flatten)]
    choice: Choice,
    /// Write the report as JSON: each flow, link and switch.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    match &options.command {
        Command::Show(options) => show::run(options),
        Command::Run(options) if options.real => real::run(
            without_models(read(&options.topology)?)?,
            options.io,
            options.choice,
            early,
            options.json,
        ),
        Command::Run(options) => simulate(options, early),
        Command::Up(options) => up::up(options, early),
        Command::Import(options) => import::run(options),
        Command::Ping(options) => ping::run(options, early),
    }
}

/// Returns a topology that can be set up for real.
fn without_models(topology: Topology) -> Result<Topology, String> {
    match topology.nanopus.first() {
        Some(nanopu) => Err(format!(
            "{} is a model of a nanoPU, which `polyplane fabric run` simulates: remove it",
            nanopu.host.name
        )),
        None => Ok(topology),
    }
}

/// Simulates a topology for a number of seconds, with its own seed, and shows the report: as JSON
/// if the last of `options` is true.
pub(crate) fn simulate_file(
    topology: &Path,
    (seconds, choice, json): (u64, Choice, bool),
    early: &ProcessSetup,
) -> Result<Ended, String> {
    let options = RunOptions {
        topology: topology.to_owned(),
        scale: 1.0,
        seconds,
        seed: None,
        real: false,
        io: Io::default(),
        choice,
        json,
    };
    simulate(&options, early)
}

/// Returns a maker of the switches of a topology without reductions. Where these are without a
/// program of their own, hosts get neighbor entries.
pub(crate) fn routing(choice: Choice, topology: &mut Topology) -> Result<Maker, String> {
    let is_planned = |switch: &SwitchSpec| matches!(switch.plane, PlaneSpec::Aggregate { .. });
    if topology.switches.iter().any(is_planned) {
        set_neighbours(topology).map_err(|error| error.to_string())?;
    }
    let mut maker = Maker::new(choice, topology.seed);
    maker.set_routes(topology)?;
    Ok(maker)
}

fn simulate(options: &RunOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let mut topology = read(&options.topology)?;
    topology.workload = topology
        .workload
        .map(|workload| workload.scaled(options.scale));
    topology.seed = options.seed.unwrap_or(topology.seed);
    load_images(&mut topology)?;
    if sends_nothing(&topology) {
        out::note(&format!(
            "warning: {} has no [[flow]], [[ping]], [[traffic]] and [workload], so nothing is sent; \
             `polyplane fabric up` runs it with a prompt",
            topology.name
        ));
    }
    let mut maker = routing(options.choice, &mut topology)?;
    let simulation = Simulation::new(topology, &mut |spec| maker.make(spec));
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    let end = Nanos::from_secs(options.seconds);
    let (signal, took) = run_simulation(&mut simulation, end, &|| early.take_signal())?;
    simulation
        .check_conservation()
        .map_err(|unbalanced| unbalanced.to_string())?;
    let progress = simulation.progress();
    let report = simulation.report();
    report::write(&report, &progress, took, options.json);
    match signal {
        Some(signal) => Err(format!("interrupted by {signal}")),
        None if !progress.is_done => {
            let seconds = amount::count(options.seconds, "simulated second");
            out::note(&unfinished(&report, &seconds));
            Ok(Ended::WithErrors)
        }
        None => Ok(Ended::Well),
    }
}

/// Returns true if no host of a simulation has anything to send.
fn sends_nothing(topology: &Topology) -> bool {
    topology.flows.is_empty()
        && topology.pings.is_empty()
        && topology.traffic.is_empty()
        && topology.requests.is_empty()
        && topology.nanopus.is_empty()
        && topology.workload.is_none()
}

/// Returns the message for a simulation that did not complete in its time. It suggests more time
/// only if a flow progresses, or if packets may be on their way for the first time.
fn unfinished(report: &fabric::Report, time: &str) -> String {
    let dropped: u64 = report.dropped.iter().map(|drop| drop.packets).sum();
    let mut flows = report.flows.iter();
    let moves = flows.any(|flow| flow.completion_seconds.is_none() && flow.received > 0);
    let is_new = dropped == 0 && report.in_flight > 0;
    let packets = amount::count(dropped, "packet");
    match (moves || is_new, dropped) {
        (true, 0) => format!("not all is complete after {time}; --seconds gives it more"),
        (true, _) => format!(
            "not all is complete after {time}, and {packets} dropped, by the reasons above; --seconds gives it more"
        ),
        (false, _) => format!(
            "not all is complete after {time}: nothing of it has arrived, and {packets} dropped, by the reasons above"
        ),
    }
}
