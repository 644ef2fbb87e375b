//! Reductions of job files: data read, map functions run, and the job simulated with progress.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use aggregate::{
    Input, Job, MapFunction, Outcome, PaperOutcome, PaperRun, Plan, ReducerLine, ReductionRequest,
    Run, RunOptions, SequenceReading, Shape,
};
use fabric::topology::HostId;
use fabric::{Report, Topology};
use packet::Nanos;
use port::Signal;
use support::amount;
use support::read::read_file;
use terminal::live::LiveLine;

use crate::args::read_text;
use crate::engine::Choice;
use crate::switches::Maker;

/// Maximum size of a job file.
pub const MAX_JOB_BYTES: u64 = 1 << 20;

/// Maximum size of a part.
const MAX_PART_BYTES: u64 = 4 << 30;

/// Reads a job file.
///
/// # Errors
/// The file cannot be read, or has errors: all of them, each with its place.
pub fn read_job(path: &Path) -> Result<Job, String> {
    let text = read_text(path, MAX_JOB_BYTES)?;
    Job::read(&text).map_err(|errors| {
        let file = path.display();
        let lines = errors.iter().map(|error| format!("{file}:{error}"));
        lines.collect::<Vec<String>>().join("\n")
    })
}

/// Returns the reductions of a job over a topology. The bytes of the mappers are the sizes of
/// their parts, where `directory` has these.
///
/// # Errors
/// An address is no host of the topology.
pub fn requests(
    job: &Job,
    topology: &Topology,
    directory: &Path,
) -> Result<Vec<ReductionRequest>, String> {
    let host_of = |address, name: &str| {
        let mut hosts = topology.hosts.iter();
        let found = hosts.position(|host| host.address == address);
        found.map(HostId).ok_or_else(|| {
            format!(
                "{name}: {address} is no host of the topology {}; use the address of one of its \
                 [[host]] sections",
                topology.name
            )
        })
    };
    let reducers = job.reducers.iter();
    reducers
        .map(|reducer| {
            let mappers = reducer.mappers.iter().map(|mapper| {
                let part = &job.parts[job.mappers[*mapper].part];
                let bytes = std::fs::metadata(directory.join(&part.path));
                let bytes = bytes.map_or(0, |found| found.len());
                Ok((host_of(part.host, &part.name)?, bytes))
            });
            Ok(ReductionRequest {
                name: reducer.name.clone(),
                shape: reducer.shape,
                mappers: mappers.collect::<Result<_, String>>()?,
                reducer: host_of(reducer.host, &reducer.name)?,
                slots: reducer.slots,
                tiers: reducer.tiers,
                to_all: reducer.to_all,
            })
        })
        .collect()
}

/// Reads the parts and runs the map functions. Returns, for each reducer and each of its mappers,
/// the input. Paths are relative to `directory`.
///
/// # Errors
/// A part cannot be read, a program fails, or a part is not of the function's form.
pub fn map(job: &Job, directory: &Path) -> Result<Vec<Vec<Input>>, String> {
    let input = |mapper: &usize, reducer: &ReducerLine| {
        let mapper = &job.mappers[*mapper];
        let path = directory.join(&job.parts[mapper.part].path);
        let input = map_part(&mapper.function, &path, reducer.shape);
        input.map_err(|error| format!("mapper {}: {error}", mapper.name))
    };
    let reducers = job.reducers.iter();
    reducers
        .map(|reducer| reducer.mappers.iter().map(|m| input(m, reducer)).collect())
        .collect()
}

/// Runs a map function on a part, for a reduction of this shape.
///
/// # Errors
/// As for [`map`].
pub fn map_part(function: &MapFunction, path: &Path, shape: Shape) -> Result<Input, String> {
    let of_file = |error: &dyn Display| format!("{}: {error}", path.display());
    let read = || read_file(path, MAX_PART_BYTES).map_err(|error| of_file(&error));
    let operator = shape.operator;
    let pairs = match function {
        MapFunction::Words => aggregate::map::words(&read()?, operator),
        MapFunction::Links => aggregate::map::links(&read()?, operator),
        MapFunction::Pairs => {
            let pairs = aggregate::map::pairs(&read()?, operator);
            pairs.map_err(|error| of_file(&error))?
        }
        MapFunction::Gradients => {
            let vector = aggregate::map::gradients(&read()?, shape.values);
            return vector.map_err(|error| of_file(&error));
        }
        MapFunction::Exec(command) => {
            let part = File::open(path).map_err(|error| of_file(&error))?;
            let mut program = Command::new("sh");
            program.args(["-c", command]).stdin(Stdio::from(part));
            let output = program.stderr(Stdio::inherit()).output();
            let output = output.map_err(|error| format!("sh does not start: {error}"))?;
            if !output.status.success() {
                return Err(format!("\"{command}\" ended with {}", output.status));
            }
            let pairs = aggregate::map::pairs(&output.stdout, operator);
            pairs.map_err(|error| format!("\"{command}\" wrote a wrong line: {error}"))?
        }
    };
    Ok(Input::Pairs(pairs))
}

/// Result of a simulated job.
pub struct SimulatedJob {
    /// Outcome of each reduction.
    pub outcomes: Vec<Outcome>,
    /// The fabric's counters.
    pub report: Report,
    /// The signal that stopped the run, if one did.
    pub signal: Option<Signal>,
}

/// Simulates the reductions of a plan.
///
/// # Errors
/// A switch cannot be loaded, a key is too long, or packets are not conserved.
pub fn simulate(
    topology: &Topology,
    plan: &Plan,
    inputs: Vec<Vec<Input>>,
    (options, choice): (RunOptions, Choice),
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<SimulatedJob, String> {
    let specs = topology.switches.clone();
    let mut maker = Maker::new(choice, topology.seed);
    let mut make = |id: fabric::topology::SwitchId, program: &str, entries: &str| {
        maker.make_with(&specs[id.0], program, entries)
    };
    let run = Run::new(topology.clone(), plan.clone(), inputs, options, &mut make);
    let mut run = run.map_err(|error| error.to_string())?;
    let mut line = LiveLine::new();
    let mut signal = None;
    let ran = run.run(&mut make, &mut |simulation| {
        if line.is_due() {
            let time = amount::time(simulation.now().into());
            line.show(&format!("{time} of simulated time"));
        }
        signal = take_signal();
        signal.is_none()
    });
    line.clear();
    ran.map_err(|error| error.to_string())?;
    let balance = run.simulation().check_conservation();
    balance.map_err(|unbalanced| unbalanced.to_string())?;
    Ok(SimulatedJob {
        outcomes: run.outcomes(),
        report: run.simulation().report(),
        signal,
    })
}

/// Result of a job by the paper's algorithm.
pub struct PaperJob {
    /// Outcome of each reduction.
    pub outcomes: Vec<PaperOutcome>,
    /// The fabric's counters.
    pub report: Report,
    /// The signal that stopped the run, if one did.
    pub signal: Option<Signal>,
}

/// Simulates the reductions of a plan by the paper's algorithm 1, up to a time.
///
/// # Errors
/// The fabric cannot be built, or packets are not conserved.
pub fn simulate_paper(
    topology: &Topology,
    plan: &Plan,
    inputs: &[Vec<Input>],
    (reading, end): (SequenceReading, Nanos),
    take_signal: &dyn Fn() -> Option<Signal>,
) -> Result<PaperJob, String> {
    let run = PaperRun::new(topology.clone(), plan.clone(), inputs, reading);
    let mut run = run.map_err(|error| error.to_string())?;
    let mut signal = None;
    run.run(end, &mut |_| {
        signal = take_signal();
        signal.is_none()
    })
    .map_err(|error| error.to_string())?;
    let balance = run.simulation().check_conservation();
    balance.map_err(|unbalanced| unbalanced.to_string())?;
    Ok(PaperJob {
        outcomes: run.outcomes(),
        report: run.simulation().report(),
        signal,
    })
}
