//! Fuzz targets: random inputs for a given time, and what they show to be wrong.
//!
//! Everything depends on the seed and the number of the case alone, so that a case can be run again. What is found is made smaller, printed
//! and written to `target/findings/`; when it is fixed it becomes a test in `findings/`.

mod corpus;
mod engines;
mod entries;
mod front;
mod generate;
mod guard;
mod ir;
mod messages;
mod minimise;
mod packets;
mod play;
mod scenario;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Program texts, from preprocessing to a loaded program.
    Front,
    /// Packets, entries, queues and copies, through programs.
    Packets,
    /// Random programs, which all engines must run alike.
    Engines,
    /// Mutated IR text, which is refused or runs alike on all engines.
    Ir,
    /// Mutated entries files, which are refused or applied.
    Entries,
    /// P4Runtime requests with changed bytes, which are made or refused.
    Messages,
}

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<Target> {
        match name {
            "front" => Some(Target::Front),
            "packets" => Some(Target::Packets),
            "engines" => Some(Target::Engines),
            "ir" => Some(Target::Ir),
            "entries" => Some(Target::Entries),
            "messages" => Some(Target::Messages),
            _ => None,
        }
    }
}

/// How a target is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// For how long.
    pub time: Duration,
    /// What everything random depends on.
    pub seed: u64,
    /// Only this case.
    pub only: Option<u64>,
    /// More directories with programs to begin with.
    pub corpus: Vec<PathBuf>,
    /// How long one input may take.
    pub limit: Duration,
}

/// What a fuzz run did.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How many cases it ran.
    pub cases: u64,
    /// How many of their texts were accepted programs.
    pub accepted: u64,
    /// What it found, each kind once.
    pub findings: Vec<Finding>,
}

/// Something that should not be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case that shows it.
    pub case: u64,
    /// What is wrong.
    pub fault: Fault,
    /// The smallest input found.
    pub input: String,
    /// Where the input was written.
    pub path: PathBuf,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind; two faults with the same one are taken for the same fault.
    pub signature: String,
    /// More about it.
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

/// A case that runs.
struct Case<'r> {
    seed: u64,
    number: u64,
    limit: Duration,
    known: &'r BTreeSet<String>,
    running: PathBuf,
    accepted: Cell<u64>,
}

impl Case<'_> {
    /// Where this case's random stream starts.
    fn stream(&self) -> u64 {
        self.seed.rotate_left(32) ^ self.number
    }

    fn is_new(&self, fault: &Fault) -> bool {
        !self.known.contains(&fault.signature)
    }

    /// Notes that the text is an accepted program.
    fn accept(&self) {
        self.accepted.set(self.accepted.get() + 1);
    }

    /// Leaves the input on disk, for the faults that end the process.
    fn keep_running(&self, input: &str) {
        let header = format!("// seed {}, case {}\n", self.seed, self.number);
        // Without the file the run is as good, only a crash is told worse.
        let _ = std::fs::write(&self.running, header + input);
    }
}

/// Runs a target.
///
/// # Errors
/// The directory for findings cannot be made.
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
        if options.only.is_some() || Instant::now() >= end {
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
    /// The finding in words.
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

/// What is wrong with a text: a panic or loop of the front end, accepted IR that is not good, or trouble with so many random scenarios.
///
/// # Errors
/// That.
pub fn examine(text: &str, scenarios: u64, limit: Duration) -> Result<(), Fault> {
    packets::examine(text, scenarios, limit)
}
