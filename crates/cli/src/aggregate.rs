//! `polyplane aggregate`: reductions of key-value pairs on their way through switches.
//!
//! The crate `aggregate` has jobs, plans and the protocol, and `command` reads and simulates them.
//! This module prints outcomes, `report` and `svg` show plans; `real` runs jobs between namespaces
//! of this machine (`tcp` without switches that reduce), `agent`, `serve` and `client` between
//! machines, and `paper` the paper's algorithm.

mod agent;
mod client;
mod paper;
mod real;
mod report;
mod results;
mod serve;
mod svg;
mod tcp;

use std::path::{Path, PathBuf};
use std::time::Duration;

use aggregate::{
    Input, Job, MapperCounts, Pair, Placement, Plan, ReducerCounts, ReducerLine, RunOptions,
    Vector, WrongKeys,
};
use aggregate_runtime::{Address, Admission, RealOutcome, VectorDigest};
use clap::{Args, Subcommand, ValueEnum};
use command::reductions;
use command::topology::read as read_topology;
use fabric::Topology;
use fabric::topology::{PlaneSpec, SwitchId};
use packet::Nanos;
use runtime::ProcessSetup;
use serde::Serialize;

use crate::args::Io;
use crate::engine::Choice;
use crate::{Ended, amount, out};

/// Address of a master by default.
const MASTER: &str = "127.0.0.1:9580";

/// Reduced pairs that are shown.
const SHOWN: usize = 10;

#[derive(Args)]
#[command(
    subcommand_required = true,
    after_help = "Examples:\n  \
        polyplane aggregate check words.job\n  \
        polyplane aggregate plan words.job --fabric rack.toml\n  \
        polyplane aggregate run words.job --fabric rack.toml --verify\n  \
        polyplane aggregate run words.job --fabric rack.toml --real --verify\n  \
        polyplane aggregate run words.job --master 127.0.0.1:9580\n\n\
        The files are in examples/aggregate. docs/AGGREGATE.md explains jobs, messages and limits. Exit status: 0 when all is done, 1 for errors in what was given, failed reductions or results that differ, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Report the errors of a job file.
    Check(CheckOptions),
    /// Print the switches that reduce, and what they hold.
    Plan(PlanOptions),
    /// Write the P4 text and entries of each switch.
    Compile(CompileOptions),
    /// Run a job: in simulated time, where the same seed gives the same run; with --real between
    /// network namespaces; with --master between the hosts of a master.
    Run(JobOptions),
    /// Run the mappers and reducers of this host.
    Agent(agent::AgentOptions),
    /// Serve jobs: the master of agents and switches.
    Serve(serve::ServeOptions),
    /// List the jobs of a master.
    Jobs(client::MasterOptions),
    /// Show a job of a master.
    Show(client::OneJobOptions),
    /// Change the virtual data planes of a running job: its program, or the stage slots. State
    /// stays, and nothing is sent again.
    Update(client::UpdateOptions),
    /// Print the program of a virtual data plane of a running job.
    Program(client::ProgramOptions),
    /// Cancel a job of a master.
    Cancel(client::OneJobOptions),
}

#[derive(Args)]
struct CheckOptions {
    /// The job file.
    #[arg(value_name = "JOB")]
    job: PathBuf,
}

#[derive(Args)]
struct PlanOptions {
    #[command(flatten)]
    input: JobFiles,
    /// Write the plan as JSON.
    #[arg(long)]
    json: bool,
    /// Write a picture: switches that reduce, and bytes over each link.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Args)]
struct JobFiles {
    /// The job file. Paths of its parts are relative to its directory.
    #[arg(value_name = "JOB")]
    job: PathBuf,
    /// The topology (docs/reference/topology.md). Switches with `slots` reduce.
    #[arg(long, value_name = "TOPO.toml")]
    fabric: PathBuf,
    /// Choice of switches.
    #[arg(long, value_enum, default_value_t)]
    placement: Choosing,
}

/// Choice of switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Choosing {
    /// One after the other, each where it makes bytes times hops least.
    Greedy,
    /// Then single moves, until none lowers the sum.
    #[default]
    Moves,
}

impl From<Choosing> for Placement {
    fn from(choosing: Choosing) -> Placement {
        match choosing {
            Choosing::Greedy => Placement::Greedy,
            Choosing::Moves => Placement::Moves,
        }
    }
}

impl JobFiles {
    fn files(&self) -> (&Path, &Path) {
        (&self.job, &self.fabric)
    }
}

#[derive(Args)]
struct CompileOptions {
    #[command(flatten)]
    input: JobFiles,
    /// Directory to write to.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Args)]
struct JobOptions {
    /// The job file. Paths of its parts are relative to its directory.
    #[arg(value_name = "JOB")]
    job: PathBuf,
    /// The topology (docs/reference/topology.md). Switches with `slots` reduce.
    #[arg(long, value_name = "TOPO.toml", required_unless_present = "master")]
    fabric: Option<PathBuf>,
    /// Choice of switches.
    #[arg(long, value_enum, default_value_t, conflicts_with = "master")]
    placement: Choosing,
    /// Run it at this master (`polyplane aggregate serve`), which has the topology.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["fabric", "real", "seed"])]
    master: Option<Address>,
    /// The way of the pairs.
    #[arg(long, value_enum, default_value_t)]
    scheme: Scheme,
    /// Reading of the paper's sentence on a message's number in the switch, for `--scheme paper`.
    #[arg(long, value_enum, default_value_t)]
    reading: Reading,
    /// Compute the result from the inputs in one map too, and compare all pairs.
    #[arg(long)]
    verify: bool,
    /// Run it for real: switches that forward, and a network namespace with an agent for each host.
    /// Needs root.
    #[arg(long)]
    real: bool,
    /// With --real: packet I/O of the switches' ports.
    #[arg(long, value_enum, default_value_t, requires = "real")]
    io: Io,
    /// Maximum time in seconds, simulated or real.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seconds: u64,
    /// Seed of faults, in place of the topology's own seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    choice: Choice,
    /// Write the results to files of this directory: NAME.tsv with lines `KEY<TAB>VALUE`; of
    /// vectors NAME.bin, little-endian, with 4 bytes of each f32, or 8 of each sum of i32.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write results and counters as JSON.
    #[arg(long)]
    json: bool,
}

/// The way of the pairs to the reducer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Scheme {
    /// Switches reduce.
    #[default]
    P4com,
    /// Switches forward; the same transport.
    Direct,
    /// Switches forward; a TCP connection from each mapper. With --real, and for pairs.
    Tcp,
    /// Algorithm 1 of the paper as printed. Its results are wrong under loss.
    Paper,
}

/// Reading of the paper's sentence on the number of each mapper in the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Reading {
    /// The switch adds one.
    #[default]
    AddsOne,
    /// The switch takes the message's number.
    TakesNumber,
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    match &options.command {
        Command::Check(options) => check(options),
        Command::Plan(options) => report::plan(options),
        Command::Compile(options) => report::compile(options),
        Command::Run(options) => run_job(options, early),
        Command::Agent(options) => agent::run(options, early),
        Command::Serve(options) => serve::run(options, early),
        Command::Jobs(options) => client::jobs(options, early),
        Command::Show(options) => client::show(options, early),
        Command::Update(options) => client::update(options, early),
        Command::Program(options) => client::program(options, early),
        Command::Cancel(options) => client::cancel(options, early),
    }
}

fn check(options: &CheckOptions) -> Result<Ended, String> {
    let job = reductions::read_job(&options.job)?;
    let (mappers, reducers) = (job.mappers.len() as u64, job.reducers.len() as u64);
    let (mappers, reducers) = (
        amount::count(mappers, "mapper"),
        amount::count(reducers, "reducer"),
    );
    out::line(&format!(
        "{}: {mappers}, {reducers}, no errors",
        options.job.display()
    ));
    Ok(Ended::Well)
}

/// A job with its topology and plan.
struct Planned {
    job: Job,
    directory: PathBuf,
    topology: Topology,
    plan: Plan,
}

impl Planned {
    fn new(
        (job, fabric): (&Path, &Path),
        (scheme, placement): (Scheme, Choosing),
    ) -> Result<Planned, String> {
        let directory = job.parent().unwrap_or(Path::new("")).to_owned();
        let job = reductions::read_job(job)?;
        let topology = read_topology(fabric)?;
        let mut requests = reductions::requests(&job, &topology, &directory)?;
        if matches!(scheme, Scheme::Direct | Scheme::Tcp) {
            for request in &mut requests {
                request.tiers = 0;
            }
        }
        let plan = Plan::with_placement(&topology, &requests, placement.into());
        let plan = plan.map_err(|error| error.to_string())?;
        Ok(Planned {
            job,
            directory,
            topology,
            plan,
        })
    }

    /// Returns the switches with a program of the plan, with their names and slots.
    fn switches(&self) -> impl Iterator<Item = (SwitchId, &str, u32)> {
        let switches = self.topology.switches.iter().enumerate();
        switches.filter_map(|(number, switch)| match switch.plane {
            PlaneSpec::Aggregate { slots } => Some((SwitchId(number), switch.name.as_str(), slots)),
            _ => None,
        })
    }
}

/// Outcome of a reduction, simulated or real.
struct Ran {
    result: Vec<Pair>,
    vector: Option<Vector>,
    /// The vector that each mapper has got.
    received: Vec<VectorDigest>,
    failure: Option<String>,
    is_complete: bool,
    took: Nanos,
    reducer: ReducerCounts,
    mappers: Vec<MapperCounts>,
    /// Bytes of frames to the reducer's host.
    link_bytes: u64,
    /// Number of attempts, and of mappers that were started again, of a real run.
    retries: Option<(u32, u32)>,
}

impl From<RealOutcome> for Ran {
    fn from(outcome: RealOutcome) -> Ran {
        Ran {
            result: outcome.result,
            vector: outcome.vector,
            received: outcome.received,
            failure: outcome.failure,
            is_complete: outcome.is_complete,
            took: outcome.took,
            reducer: outcome.reducer,
            mappers: outcome.mappers,
            link_bytes: outcome.bytes,
            retries: Some((outcome.attempts, outcome.retried)),
        }
    }
}

#[derive(Serialize)]
struct OutcomeJson<'a> {
    name: &'a str,
    is_complete: bool,
    failure: Option<&'a str>,
    keys: usize,
    seconds: f64,
    epochs: u64,
    pairs: u64,
    absorbed: u64,
    repeats: u64,
    reducer_link_bytes: u64,
    /// Attempts of a real run, and mappers that were started again.
    attempts: Option<u32>,
    retried_mappers: Option<u32>,
    /// Loads of switches after which epochs were sent again.
    restarts: u64,
    is_verified: Option<bool>,
    result: Vec<(String, String)>,
    vector: Option<VectorJson>,
    /// Number of mappers that have got the result.
    receivers: Option<usize>,
}

/// Summary of a reduced vector.
#[derive(Serialize)]
struct VectorJson {
    values: usize,
    /// Square root of the sum of squares.
    norm: f64,
    first: Vec<f64>,
}

impl VectorJson {
    fn new(vector: &Vector) -> VectorJson {
        let values: Vec<f64> = match vector {
            Vector::Integers(values) => values.iter().map(|value| *value as f64).collect(),
            Vector::Floats(values) => values.iter().map(|value| f64::from(*value)).collect(),
        };
        VectorJson {
            values: values.len(),
            norm: values.iter().map(|value| value * value).sum::<f64>().sqrt(),
            first: values.into_iter().take(SHOWN).collect(),
        }
    }
}

fn run_job(options: &JobOptions, early: &ProcessSetup) -> Result<Ended, String> {
    if options.scheme == Scheme::Paper && options.out.is_some() {
        return Err(
            "the scheme `paper` gives wrong results: leave out --out, or take another scheme"
                .into(),
        );
    }
    results::prepare(options.out.as_deref())?;
    let Some(fabric) = &options.fabric else {
        return run_at_master(options, early);
    };
    let mut planned = Planned::new((&options.job, fabric), (options.scheme, options.placement))?;
    planned.topology.seed = options.seed.unwrap_or(planned.topology.seed);
    if options.scheme == Scheme::Paper {
        return paper::run(&planned, options, early);
    }
    if options.scheme == Scheme::Tcp && !options.real {
        return Err("the scheme `tcp` is for real hosts: give --real".to_owned());
    }
    let is_needed = options.verify || !options.real || options.scheme == Scheme::Tcp;
    let inputs = is_needed.then(|| reductions::map(&planned.job, &planned.directory));
    let inputs = inputs.transpose()?;
    let ran = match options.real {
        true => real::run(&mut planned, inputs.as_deref(), options, early)?,
        false => simulate(&planned, inputs.clone().unwrap_or_default(), options, early)?,
    };
    let inputs = inputs.as_ref().filter(|_| options.verify);
    let clock = match options.real {
        true => "",
        false => " of simulated time",
    };
    tell(&planned.job, ran, inputs, (options, clock))
}

/// Runs a job at a master.
fn run_at_master(options: &JobOptions, early: &ProcessSetup) -> Result<Ended, String> {
    let job = reductions::read_job(&options.job)?;
    match options.scheme {
        Scheme::Paper => {
            return Err("the scheme `paper` is for simulated fabrics: give --fabric".to_owned());
        }
        Scheme::Tcp => {
            return Err("the scheme `tcp` is for hosts of this machine: give --fabric".to_owned());
        }
        Scheme::P4com | Scheme::Direct => {}
    }
    let directory = options.job.parent().unwrap_or(Path::new(""));
    let inputs = options.verify.then(|| reductions::map(&job, directory));
    let inputs = inputs.transpose()?;
    let Some(address) = &options.master else {
        return Err("give --fabric TOPO.toml or --master ADDRESS".to_owned());
    };
    let limit = Duration::from_secs(options.seconds);
    let file = (&*options.job, options.scheme == Scheme::Direct);
    let outcomes = client::run(file, address, limit, early)?;
    let outcomes = outcomes.unwrap_or_else(|| vec![RealOutcome::default(); job.reducers.len()]);
    let ran = outcomes.into_iter().map(Ran::from).collect();
    tell(&job, ran, inputs.as_ref(), (options, ""))
}

/// Reads a job file for a master.
fn read_job(text: &str, directory: &Path, topology: &Topology) -> Result<Admission, String> {
    let job = Job::read(text).map_err(|errors| {
        let first = errors.first().map(ToString::to_string);
        format!("the job file: {}", first.unwrap_or_default())
    })?;
    let requests = reductions::requests(&job, topology, directory)?;
    Ok(Admission { job, requests })
}

/// Refuses an address that other machines reach, if that was not allowed.
fn check_reach(address: &Address, is_allowed: bool) -> Result<(), String> {
    let is_beyond = address.is_beyond_loopback();
    let is_beyond = is_beyond.map_err(|error| format!("{address}: {error}"))?;
    match is_beyond && !is_allowed {
        true => Err(format!(
            "{address}: other machines reach it, and may then run programs here; give \
             --listen-beyond-loopback on a network where all may, or a tunnel and an address of \
             this machine"
        )),
        false => Ok(()),
    }
}

/// Prints outcomes, then writes results to files: a file that cannot be written loses no outcome.
/// `inputs` are the mappers' own, to verify.
fn tell(
    job: &Job,
    ran: Vec<Ran>,
    inputs: Option<&Vec<Vec<Input>>>,
    (options, clock): (&JobOptions, &str),
) -> Result<Ended, String> {
    let outcomes = outcomes(job, &ran, inputs);
    let is_well = outcomes
        .iter()
        .all(|outcome| outcome.is_complete && outcome.is_verified != Some(false));
    match options.json {
        true => out::json(&outcomes),
        false => outcomes.iter().for_each(|outcome| show(outcome, clock)),
    }
    if let Some(directory) = &options.out {
        results::write(directory, job, &ran)?;
    }
    Ok(match is_well {
        true => Ended::Well,
        false => Ended::WithErrors,
    })
}

fn simulate(
    planned: &Planned,
    inputs: Vec<Vec<Input>>,
    options: &JobOptions,
    early: &ProcessSetup,
) -> Result<Vec<Ran>, String> {
    let run_options = RunOptions {
        end: Nanos::from_secs(options.seconds),
        ..RunOptions::default()
    };
    let job = reductions::simulate(
        &planned.topology,
        &planned.plan,
        inputs,
        (run_options, options.choice),
        &|| early.take_signal(),
    )?;
    if let Some(signal) = job.signal {
        return Err(format!("interrupted by {signal}"));
    }
    let reductions = planned.plan.reductions.iter().zip(job.outcomes);
    let ran = reductions.map(|(reduction, outcome)| {
        let reducer = &planned.topology.hosts[reduction.request.reducer.0].name;
        let links = job.report.links.iter().filter(|link| link.to == *reducer);
        Ran {
            result: outcome.result,
            vector: outcome.vector,
            received: outcome
                .received
                .iter()
                .flatten()
                .map(VectorDigest::of)
                .collect(),
            failure: outcome.failure.map(|failure| failure.to_string()),
            is_complete: outcome.is_complete,
            took: outcome.ended_at,
            reducer: outcome.reducer,
            mappers: outcome.mappers,
            link_bytes: links.map(|link| link.bytes).sum(),
            retries: None,
        }
    });
    Ok(ran.collect())
}

/// Returns true if the result is that of one map over the inputs: at the reducer, and at each
/// mapper that is to get it.
fn is_right(request: &ReducerLine, ran: &Ran, inputs: &[Input]) -> bool {
    let operator = request.shape.operator;
    if !request.shape.is_vector() {
        return WrongKeys::of(operator, inputs, &ran.result) == WrongKeys::default();
    }
    let expected = Vector::of(inputs, operator);
    let is_equal = ran.vector == expected;
    let digest = expected.map(Vector::in_32_bits);
    let digest = digest.as_ref().map(VectorDigest::of);
    let receivers = match request.to_all {
        true => inputs.len(),
        false => 0,
    };
    let mut received = ran.received.iter();
    is_equal && ran.received.len() >= receivers && received.all(|vector| Some(*vector) == digest)
}

/// Returns what is reported of each reduction. `inputs` are the mappers' own, to verify.
fn outcomes<'a>(
    job: &'a Job,
    ran: &'a [Ran],
    inputs: Option<&Vec<Vec<Input>>>,
) -> Vec<OutcomeJson<'a>> {
    let reductions = job.reducers.iter().zip(ran);
    let of_reduction = reductions.enumerate().map(|(number, (request, ran))| {
        let inputs = inputs.filter(|_| ran.is_complete);
        let is_verified = inputs.map(|inputs| is_right(request, ran, &inputs[number]));
        OutcomeJson {
            name: &request.name,
            is_complete: ran.is_complete,
            failure: ran.failure.as_deref(),
            keys: ran.result.len(),
            seconds: ran.took.as_secs_f64(),
            epochs: ran.reducer.epochs,
            pairs: ran.reducer.pairs,
            absorbed: ran.reducer.absorbed,
            repeats: ran.mappers.iter().map(|mapper| mapper.repeats).sum(),
            reducer_link_bytes: ran.link_bytes,
            attempts: ran.retries.map(|(attempts, _)| attempts),
            retried_mappers: ran.retries.map(|(_, retried)| retried),
            restarts: ran.reducer.restarts,
            is_verified,
            vector: ran.vector.as_ref().map(VectorJson::new),
            receivers: request.to_all.then_some(ran.received.len()),
            result: ran
                .result
                .iter()
                .map(|pair| (pair.key.escape_ascii().to_string(), pair.value.to_string()))
                .collect(),
        }
    });
    of_reduction.collect()
}

fn show(outcome: &OutcomeJson<'_>, clock: &str) {
    let OutcomeJson {
        name,
        keys,
        seconds,
        pairs,
        absorbed,
        repeats,
        reducer_link_bytes,
        ..
    } = outcome;
    match &outcome.failure {
        Some(failure) => out::line(&format!("{name}: failed: {failure}")),
        None if !outcome.is_complete => {
            out::line(&format!(
                "{name}: not complete; --seconds gives it more time"
            ));
        }
        None => {
            let what = match &outcome.vector {
                Some(vector) => format!("a vector of {} values", vector.values),
                None => format!("{keys} keys"),
            };
            out::line(&format!("{name}: {what} in {seconds:.6} s{clock}"));
        }
    }
    let share = *absorbed as f64 * 100.0 / (*pairs).max(1) as f64;
    out::line(&format!(
        "  {pairs} pairs sent, {absorbed} ({share:.1} %) taken out by switches, {}",
        amount::count(*repeats, "repeated message")
    ));
    let bytes = amount::bytes(*reducer_link_bytes);
    out::line(&format!("  {bytes} on the reducer's link"));
    if let Some(receivers) = outcome.receivers {
        let mappers = amount::count(receivers as u64, "mapper");
        out::line(&format!("  {mappers} got the result"));
    }
    if let Some(is_verified) = outcome.is_verified {
        let text = if is_verified {
            "equal to"
        } else {
            "DIFFERENT from"
        };
        out::line(&format!("  result {text} that of one map over all inputs"));
    }
    if let Some(VectorJson { norm, first, .. }) = &outcome.vector {
        let first: Vec<String> = first.iter().map(f64::to_string).collect();
        out::line(&format!("  norm {norm}; first values {}", first.join(" ")));
    }
    let mut pairs: Vec<&(String, String)> = outcome.result.iter().collect();
    pairs.sort_by_key(|(_, value)| std::cmp::Reverse(value.parse::<i128>().unwrap_or(0)));
    for (key, value) in pairs.into_iter().take(SHOWN) {
        out::line(&format!("  {key}\t{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_for_all_is_right_only_if_each_mapper_has_it() {
        let text = "data p = 10.0.1.11:p\nmap m = gradients(p)\nmap n = gradients(p)\n\
                    reduce sum = add(m, n) at 10.0.9.2 keys none values i32 memory 3 to all\n";
        let job = Job::read(text).unwrap();
        let inputs = [[1, 2], [3, 4]].map(|values| Input::Integers(values.into()));
        let vector = Vector::of(&inputs, job.reducers[0].shape.operator);
        let digest = VectorDigest::of(&vector.clone().unwrap().in_32_bits());
        let with = |received| Ran {
            vector: vector.clone(),
            received,
            ..Ran::from(RealOutcome::default())
        };
        let is_right = |received| is_right(&job.reducers[0], &with(received), &inputs);
        assert!(is_right(vec![digest; 2]));
        assert!(!is_right(vec![digest]));
        assert!(!is_right(Vec::new()));
    }
}
