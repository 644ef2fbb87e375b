//! Reductions of job files: data read, map functions run, and the job simulated with progress.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use aggregate::{
    Input, Job, MapFunction, Outcome, PaperOutcome, PaperRun, Plan, ReducerLine, ReductionRequest,
    Run, RunOptions, SequenceReading, Shape,
};
use fabric::topology::HostId;
use fabric::{Report, Topology};
use packet::Nanos;
use port::{ProcessGroup, Signal};
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
            // Errors of the shell would not be of the part alone.
            File::open(path).map_err(|error| of_file(&error))?;
            let output = output_of(command, path)?;
            let pairs = aggregate::map::pairs(&output, operator);
            pairs.map_err(|error| format!("\"{command}\" wrote a wrong line: {error}"))?
        }
    };
    Ok(Input::Pairs(pairs))
}

/// Script of a shell that runs the command `$0` on the part `$1`. At the end of its own standard
/// input it kills its process group: all that the command has started.
const UNTIL_END: &str = r#"
exec 3<&0
sh -c "$0" <"$1" 3<&- &
command=$!
{ read -r line <&3; kill -KILL 0; } >/dev/null &
exec 3<&-
wait $command
"#;

/// Runs a program of `exec` on a part. Returns what it has written. Nothing that it starts
/// outlives it, or this process: the kernel ends the shell's standard input with this process,
/// also if that is killed.
fn output_of(command: &str, path: &Path) -> Result<Vec<u8>, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", UNTIL_END, command]).arg(path);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped());
    let group = ProcessGroup::start(&mut shell);
    let mut group = group.map_err(|error| format!("sh does not start: {error}"))?;
    // Open until the program has ended, though it may close its output before.
    let _input = group.child.stdin.take();
    let stdout = group.child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut output));
        read.map(|_| output)
    });
    let status = group.child.wait();
    // What it has left running is killed, and may have its output open.
    drop(group);
    let status = status.map_err(|error| format!("\"{command}\": {error}"))?;
    let output = reader
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let output =
        output.map_err(|error| format!("\"{command}\": its output cannot be read: {error}"))?;
    match status.success() {
        true => Ok(output),
        false => Err(format!("\"{command}\" ended with {status}")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use aggregate::{KeyClass, Operator, Pair, ValueClass};

    /// A part that is removed with it.
    struct Part(std::path::PathBuf);

    impl Part {
        fn new(name: &str, text: &str) -> Part {
            let name = format!("polyplane-part-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).unwrap();
            Part(path)
        }

        fn map(&self, command: &str) -> Result<Input, String> {
            let shape = Shape {
                operator: Operator::Add,
                keys: KeyClass::B16,
                values: ValueClass::I64,
            };
            map_part(&MapFunction::Exec(command.to_owned()), &self.0, shape)
        }
    }

    impl Drop for Part {
        fn drop(&mut self) {
            // It is in the directory of temporary files.
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_program_reads_its_part_and_its_lines_are_the_pairs() {
        let part = Part::new("exec", "a\t1\nb\t2\na\t3\n");
        let pairs = vec![Pair::new(*b"a", 4), Pair::new(*b"b", 2)];
        for command in [
            "cat",
            "cat | cat",
            "sort",
            // Its output ends before it does.
            "cat; exec >&-; sleep 0.2",
            // A program that it has started is still there.
            "sleep 1000 >/dev/null & cat",
            // And has its output open.
            "sleep 1000 & cat",
            "while read -r key value; do printf '%s\\t%s\\n' \"$key\" \"$value\"; done",
        ] {
            assert_eq!(part.map(command), Ok(pairs.clone().into()), "{command}");
        }
        for (command, words) in [
            ("cat; exit 3", "exit status: 3"),
            ("kill -TERM $$", "ended with"),
            ("echo word", "wrote a wrong line"),
            ("no-such-program", "exit status: 127"),
        ] {
            let error = part.map(command).unwrap_err();
            assert!(error.contains(words) && error.contains(command), "{error}");
        }
    }

    #[test]
    fn a_program_may_be_interrupted_by_timeout() {
        let part = Part::new("timeout", "");
        let began = std::time::Instant::now();
        let error = part.map("timeout 0.2 sleep 1000").unwrap_err();
        assert!(error.contains("exit status: 124"), "{error}");
        assert!(began.elapsed().as_secs() < 100);
    }
}
