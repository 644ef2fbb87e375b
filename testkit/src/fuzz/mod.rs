//! Fuzz targets: they run random inputs for a given time and report faults.
//!
//! All choices depend on the seed and the case number only, so a case can be repeated. A failing
//! input is minimized, printed and written to `target/findings/`. Once fixed, it becomes a test in
//! `findings/`.

mod commands;
mod corpus;
mod datagrams;
mod engines;
mod entries;
mod frames;
mod front;
mod generate;
mod guard;
mod images;
mod ir;
mod jobs;
mod loops;
mod messages;
mod minimise;
mod packets;
mod play;
mod pof;
mod raft;
mod reports;
mod scenario;
mod split;
mod text;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A fuzz target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Program texts, from preprocessing to a loaded program.
    Front,
    /// Scenarios of packets, entries, queues and copies.
    Packets,
    /// Random programs; all engines must give the same results.
    Engines,
    /// Mutated IR text, which is refused or gives the same results on all engines.
    Ir,
    /// Mutated entries files, which are refused or applied.
    Entries,
    /// P4Runtime requests with changed bytes, which are executed or refused.
    Messages,
    /// Random programs printed as P4 text, which compiles and gives the same results.
    Text,
    /// Random cross-plane programs, which give over a switch and servers what one device gives.
    Split,
    /// Mutated job files of reductions, which are refused or read.
    Jobs,
    /// Messages of reductions, right, damaged, of others and forged.
    Datagrams,
    /// Frames of engines to an agent, right and damaged.
    Frames,
    /// Messages of POF controllers, right and damaged.
    Pof,
    /// Telemetry reports, right and damaged, which are refused or written again.
    Reports,
    /// Mutated loop files, which are refused or read.
    Loops,
    /// Messages of the members of a store, right, damaged and forged.
    Raft,
    /// Changes of elements, right, damaged and repeated.
    Commands,
    /// Images of RISC-V programs, right and damaged, which are refused or run under messages.
    Images,
}

impl Target {
    /// Returns the target with this name.
    pub fn named(name: &str) -> Option<Target> {
        match name {
            "front" => Some(Target::Front),
            "packets" => Some(Target::Packets),
            "engines" => Some(Target::Engines),
            "ir" => Some(Target::Ir),
            "entries" => Some(Target::Entries),
            "messages" => Some(Target::Messages),
            "text" => Some(Target::Text),
            "split" => Some(Target::Split),
            "jobs" => Some(Target::Jobs),
            "datagrams" => Some(Target::Datagrams),
            "frames" => Some(Target::Frames),
            "pof" => Some(Target::Pof),
            "reports" => Some(Target::Reports),
            "loops" => Some(Target::Loops),
            "raft" => Some(Target::Raft),
            "commands" => Some(Target::Commands),
            "images" => Some(Target::Images),
            _ => None,
        }
    }
}

/// Options of a fuzz run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Duration of the run.
    pub time: Duration,
    /// The random seed.
    pub seed: u64,
    /// The only case to run, if set.
    pub only: Option<u64>,
    /// Maximum number of cases.
    pub cases: u64,
    /// Additional directories with seed programs.
    pub corpus: Vec<PathBuf>,
    /// Time limit for one input.
    pub limit: Duration,
}

/// Result of a fuzz run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Number of cases.
    pub cases: u64,
    /// Number of cases with an accepted input, such as a program.
    pub accepted: u64,
    /// The findings, one of each kind.
    pub findings: Vec<Finding>,
}

/// A finding of a fuzz run.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Number of the case.
    pub case: u64,
    /// The fault.
    pub fault: Fault,
    /// The smallest failing input found.
    pub input: String,
    /// File to which the input was written.
    pub path: PathBuf,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind. Faults with equal signatures are considered the same.
    pub signature: String,
    /// Details.
    pub detail: String,
}

impl Fault {
    fn new(signature: impl Into<String>, detail: impl Into<String>) -> Fault {
        Fault {
            signature: signature.into(),
            detail: detail.into(),
        }
    }
}

/// A running case.
struct Case<'r> {
    seed: u64,
    number: u64,
    limit: Duration,
    known: &'r BTreeSet<String>,
    running: PathBuf,
    accepted: Cell<u64>,
}

impl Case<'_> {
    /// Returns the start of this case's random stream.
    fn stream(&self) -> u64 {
        self.seed.rotate_left(32) ^ self.number
    }

    fn is_new(&self, fault: &Fault) -> bool {
        !self.known.contains(&fault.signature)
    }

    /// Counts the input as accepted.
    fn accept(&self) {
        self.accepted.set(self.accepted.get() + 1);
    }

    /// Writes the input to disk, in case a fault ends the process.
    fn keep_running(&self, input: &str) {
        let header = format!("// seed {}, case {}\n", self.seed, self.number);
        // Failing to write it only matters if the process crashes.
        let _ = std::fs::write(&self.running, header + input);
    }
}

/// Runs a target.
///
/// # Errors
/// The directory for findings cannot be created.
pub fn run(target: Target, options: &Options) -> std::io::Result<Summary> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/findings");
    std::fs::create_dir_all(&directory)?;
    let name = format!("{target:?}").to_lowercase();
    let seeds = corpus::seeds(&options.corpus);
    let (mut known, mut findings) = (BTreeSet::new(), Vec::new());
    let end = Instant::now() + options.time;
    let mut accepted = 0;
    let mut number = options.only.unwrap_or(0);
    loop {
        let case = Case {
            seed: options.seed,
            number,
            limit: options.limit,
            known: &known,
            running: directory.join(format!("{name}_running.p4")),
            accepted: Cell::new(0),
        };
        let found = match target {
            Target::Front => front::case(&seeds, &case),
            Target::Packets => packets::case(&seeds, &case),
            Target::Engines => engines::case(&seeds, &case),
            Target::Ir => ir::case(&seeds, &case),
            Target::Entries => entries::case(&case),
            Target::Messages => messages::case(&case),
            Target::Text => text::case(&seeds, &case),
            Target::Split => split::case(&case),
            Target::Jobs => jobs::case(&case),
            Target::Datagrams => datagrams::case(&case),
            Target::Frames => frames::case(&case),
            Target::Pof => pof::case(&case),
            Target::Reports => reports::case(&case),
            Target::Loops => loops::case(&case),
            Target::Raft => raft::case(&case),
            Target::Commands => commands::case(&case),
            Target::Images => images::case(&case),
        };
        accepted += case.accepted.get();
        if let Some((fault, input)) = found.filter(|(fault, _)| case.is_new(fault)) {
            known.insert(fault.signature.clone());
            let path = directory.join(format!("{name}_{}_{number}.p4", options.seed));
            std::fs::write(&path, &input)?;
            let finding = Finding {
                case: number,
                fault,
                input,
                path,
            };
            eprintln!("{}", finding.told(options.seed));
            findings.push(finding);
        }
        number += 1;
        let cases = number - options.only.unwrap_or(0);
        if options.only.is_some() || cases >= options.cases || Instant::now() >= end {
            break;
        }
    }
    let cases = number - options.only.unwrap_or(0);
    Ok(Summary {
        cases,
        accepted,
        findings,
    })
}

impl Finding {
    /// Formats the finding.
    pub fn told(&self, seed: u64) -> String {
        let Finding {
            case,
            fault,
            input,
            path,
        } = self;
        let (signature, detail) = (&fault.signature, &fault.detail);
        let path = path.display();
        format!(
            "== {signature} (seed {seed}, case {case}, {path})\n{detail}\n-- input\n{input}\n--"
        )
    }
}

/// Examines a text: compiles it, and runs `scenarios` random scenarios.
///
/// # Errors
/// The front end panics or does not end, accepted IR is invalid, or a scenario fails.
pub fn examine(text: &str, scenarios: u64, limit: Duration) -> Result<(), Fault> {
    packets::examine(text, scenarios, limit)
}
