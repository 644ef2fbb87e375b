//! Life under traffic: virtual data planes are made, changed, moved to another switch and deleted at random, while packets go through all of them, and
//! every packet that leaves is looked at.
//!
//! Some vPDPs are *steady*: no operation is about them, and each of their packets must leave once, in order, by its port, byte by byte what the
//! function alone makes of it. The others *change*. What an operation's semantics keep (update, recompose, roll back, quotas, migration) must lose none
//! of their packets either, and each is what the function before or behind the change makes of it; where they drop packets (no program, suspended,
//! deleted), those that leave are checked all the same.
//!
//! A migration makes the vPDP on the other switch first, then leads its packets there, and deletes it here when no packet can be on its way any more:
//! so none is lost.
//!
//! [`Scene`] is the control side, [`Station`] a worker of both switches with the packets that come to it. What packets may meet is an [`Expectation`]
//! for each vPDP, which the scene writes and stations read before and after each burst: an operation settles when every station has done a whole
//! burst behind it.

mod flow;
mod scene;
mod stages;
mod station;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exec::Engine;
use ir::Program;
use switch::Unbalanced;
use tenancy::{Chain, Function, Refusal};

use crate::setup::SetupError;
use crate::tenants::Divisible;
use crate::workloads;

pub use flow::{Expectation, Fates};
pub use scene::{Operation, Scene};
use station::Run;
pub use station::Station;

/// Policies of the functions: each has the step that takes the workload's entries, whose state stays when the chain around it changes.
const POLICIES: [&str; 3] = ["l2", "stamp -> l2", "l2 -> stamp -> again=stamp"];

/// Versions of the step that stamps.
const VERSIONS: usize = 2;

/// What vPDPs do: number `policy * VERSIONS + version`.
///
/// # Errors
/// What does not compile.
pub fn functions(
    compile: &dyn Fn(&str) -> Result<Arc<Program>, String>,
) -> Result<Vec<Function>, String> {
    let workload = workloads::find("l2").ok_or("there is no workload of this name")?;
    let l2 = compile(workload.source())?;
    let source = include_str!("../../programs/stamp.p4");
    let stamp =
        |version: usize| compile(&source.replace("VERSION = 0", &format!("VERSION = {version}")));
    let stamps: Vec<Arc<Program>> = (0..VERSIONS).map(stamp).collect::<Result<_, _>>()?;
    let mut functions = Vec::new();
    for policy in POLICIES {
        for stamp in &stamps {
            let steps = [("l2", &l2), ("stamp", stamp), ("again", stamp)];
            let steps = steps.map(|(name, program)| (name.to_owned(), Arc::clone(program)));
            let chain = Chain::read(policy, steps).map_err(|error| error.to_string())?;
            functions.push(Function::from(chain));
        }
    }
    Ok(functions)
}

/// Why there are no figures.
#[derive(Debug)]
pub enum LifeError {
    /// A function does not take the workload's entries.
    Setup(SetupError),
    /// The hypervisor refuses an operation that it should make.
    Refusal(Operation, Refusal),
    /// A function does not send one packet for each of the workload's.
    Function,
    /// An operation has changed state that it should keep.
    State(Operation),
    /// Packets are not accounted for.
    Unbalanced(Unbalanced),
    /// The switches have counted other packets than came: so many, and so many.
    Miscounted(u64, u64),
    /// A thread that forwards has ended before it should.
    Station,
}

impl fmt::Display for LifeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LifeError::Setup(error) => error.fmt(f),
            LifeError::Refusal(operation, refusal) => {
                write!(f, "{}: {refusal}", operation.name())
            }
            LifeError::Function => {
                f.write_str("a function does not send one packet for each that comes")
            }
            LifeError::State(operation) => {
                write!(
                    f,
                    "{}: the entries are not what they were",
                    operation.name()
                )
            }
            LifeError::Unbalanced(unbalanced) => unbalanced.fmt(f),
            LifeError::Miscounted(counted, came) => {
                write!(
                    f,
                    "the switches have counted {counted} packets, and {came} came"
                )
            }
            LifeError::Station => f.write_str("a thread that forwards has failed"),
        }
    }
}

impl std::error::Error for LifeError {}

impl From<SetupError> for LifeError {
    fn from(error: SetupError) -> Self {
        LifeError::Setup(error)
    }
}

/// What is measured.
pub struct Life<'f> {
    /// Whose entries and packets vPDPs have.
    pub workload: &'f dyn Divisible,
    /// What they do ([`functions`]).
    pub functions: &'f [Function],
    /// What runs it.
    pub engine: Arc<dyn Engine>,
    /// How many operations.
    pub operations: usize,
    /// What they and the packets depend on.
    pub seed: u64,
    /// The load, as a share of the rate that workers reach.
    pub load: f64,
    /// How long to find out the rate, before and behind, and to forward without operations.
    pub time: Duration,
    /// Threads that forward.
    pub workers: usize,
}

/// Million packets a second of all workers together, each counted over its own time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Packets that workers took.
    pub carried: f64,
    /// Packets that found a worker's rings full.
    pub missed: f64,
    /// Packets that waited for one worker, at most.
    pub most_waiting: u64,
}

impl AddAssign<Run> for Rates {
    fn add_assign(&mut self, run: Run) {
        let micros = run.time.as_secs_f64() * 1e6;
        if micros > 0.0 {
            self.carried += run.taken as f64 / micros;
            self.missed += run.missed as f64 / micros;
        }
        self.most_waiting = self.most_waiting.max(run.most_waiting);
    }
}

/// What came of it. Checks and the packets' making are in all rates.
#[derive(Debug, Clone)]
pub struct LifeReport {
    /// How often each operation was made under the load.
    pub operations: BTreeMap<Operation, usize>,
    /// What workers reach while there are operations.
    pub reached: Rates,
    /// The load without operations.
    pub quiet: Rates,
    /// The load while there are operations.
    pub operated: Rates,
    /// What workers reach while there are further operations.
    pub reached_behind: Rates,
    /// How long the operations under the load took, all together.
    pub time: Duration,
    /// Packets of vPDPs that no operation was about.
    pub steady: Fates,
    /// Packets of the others.
    pub changing: Fates,
}

/// What stations do while there are operations, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Forward as much as they can, until vPDPs are as operations leave them.
    Settling,
    /// Forward as much as they can, measured.
    Reaching,
    /// Forward the load.
    Loaded,
    /// Forward as much as they can again.
    ReachingAgain,
}

/// Between stations and the scene.
struct Progress {
    /// Bursts that each station has ended.
    bursts: Vec<AtomicU64>,
    /// How often a station was ready for the operations of a phase.
    ready: AtomicU64,
    /// How many phases are over.
    over: AtomicU64,
}

impl Progress {
    fn new(stations: usize) -> Progress {
        Progress {
            bursts: (0..stations).map(|_| AtomicU64::new(0)).collect(),
            ready: AtomicU64::new(0),
            over: AtomicU64::new(0),
        }
    }

    /// A station has begun a phase; whether that is over.
    fn begin(&self, phase: Phase) -> impl Fn() -> bool {
        self.ready.fetch_add(1, Ordering::Release);
        move || read(&self.over) > phase as u64
    }

    /// Waits until all stations have begun a phase.
    ///
    /// # Errors
    /// A station has ended.
    fn wait_for(&self, phase: Phase, has_ended: &dyn Fn() -> bool) -> Result<(), LifeError> {
        let all = (phase as u64 + 1) * self.bursts.len() as u64;
        while read(&self.ready) < all {
            if has_ended() {
                return Err(LifeError::Station);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// A phase is over.
    fn end(&self, phase: Phase) {
        self.over.store(phase as u64 + 1, Ordering::Release);
    }

    /// Waits until each station has done a whole burst that began after now.
    ///
    /// # Errors
    /// A station has ended.
    fn settle(&self, has_ended: &dyn Fn() -> bool) -> Result<(), LifeError> {
        let before: Vec<u64> = self.bursts.iter().map(read).collect();
        let is_behind = |(bursts, before): (&AtomicU64, &u64)| read(bursts) < before + 2;
        while self.bursts.iter().zip(&before).any(is_behind) {
            if has_ended() {
                return Err(LifeError::Station);
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Acquire)
}

impl Life<'_> {
    /// Has packets come at a share of the rate that workers reach, and operates meanwhile. `tell` is told how much is over, from 0 to 1.
    ///
    /// # Errors
    /// The hypervisor refuses an operation that it should make, or packets are not accounted for: a defect.
    pub fn measure(&self, tell: &mut dyn FnMut(f64)) -> Result<LifeReport, LifeError> {
        let workers = self.workers.max(1);
        let (mut scene, stations) = Scene::new(self, workers)?;
        let progress = Progress::new(workers);
        let (ended, operated) = std::thread::scope(|scope| {
            let progress = &progress;
            let stations = stations.into_iter().enumerate();
            let threads: Vec<_> = stations
                .map(|(number, station)| {
                    scope.spawn(move || self.station(number, station, progress))
                })
                .collect();
            #[cfg(target_os = "linux")]
            let _ = port::pin_to_core(workers);
            let has_ended = || threads.iter().any(|thread| thread.is_finished());
            let operated = self.operate(&mut scene, progress, &has_ended, tell);
            progress.end(Phase::ReachingAgain);
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            (ended, operated)
        });
        let (operations, time) = operated?;
        let mut report = LifeReport {
            operations,
            reached: Rates::default(),
            quiet: Rates::default(),
            operated: Rates::default(),
            reached_behind: Rates::default(),
            time,
            steady: Fates::default(),
            changing: Fates::default(),
        };
        for ended in ended {
            let ended = ended.map_err(|_| LifeError::Station)?;
            report.reached += ended.reached;
            report.quiet += ended.quiet;
            report.operated += ended.operated;
            report.reached_behind += ended.reached_behind;
            let (steady, changing) = ended.station.end();
            report.steady += steady;
            report.changing += changing;
        }
        scene.check(report.steady.came + report.changing.came)?;
        Ok(report)
    }

    /// One thread that forwards.
    fn station(&self, number: usize, mut station: Station, progress: &Progress) -> Ended {
        // Where threads cannot be pinned the figures are less even, and still right.
        #[cfg(target_os = "linux")]
        let _ = port::pin_to_core(number);
        let bursts = &progress.bursts[number];
        let mut ended = || {
            bursts.fetch_add(1, Ordering::Release);
        };
        let a_while = |begin: Instant| move || begin.elapsed() > self.time;
        station.run(None, &mut ended, &progress.begin(Phase::Settling));
        let reached = station.run(None, &mut ended, &progress.begin(Phase::Reaching));
        let rate = reached.taken as f64 / reached.time.as_secs_f64();
        let load = Some(rate * self.load);
        let quiet = station.run(load, &mut ended, &a_while(Instant::now()));
        let operated = station.run(load, &mut ended, &progress.begin(Phase::Loaded));
        let again = progress.begin(Phase::ReachingAgain);
        let reached_behind = station.run(None, &mut ended, &again);
        Ended {
            station,
            reached,
            quiet,
            operated,
            reached_behind,
        }
    }

    /// Operates in all phases: how often each operation was made under the load, and how long they took.
    fn operate(
        &self,
        scene: &mut Scene,
        progress: &Progress,
        has_ended: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<(BTreeMap<Operation, usize>, Duration), LifeError> {
        let settle = &mut || progress.settle(has_ended);
        for phase in [Phase::Settling, Phase::Reaching] {
            progress.wait_for(phase, has_ended)?;
            self.operate_a_while(scene, settle)?;
            progress.end(phase);
        }
        progress.wait_for(Phase::Loaded, has_ended)?;
        let before = scene.operations().clone();
        let begin = Instant::now();
        for number in 0..self.operations {
            tell(number as f64 / self.operations as f64);
            scene.operate(settle)?;
        }
        let time = begin.elapsed();
        progress.end(Phase::Loaded);
        let mut operations = scene.operations().clone();
        for (operation, count) in before {
            operations.entry(operation).and_modify(|all| *all -= count);
        }
        progress.wait_for(Phase::ReachingAgain, has_ended)?;
        self.operate_a_while(scene, settle)?;
        Ok((operations, time))
    }

    fn operate_a_while(
        &self,
        scene: &mut Scene,
        settle: &mut dyn FnMut() -> Result<(), LifeError>,
    ) -> Result<(), LifeError> {
        let begin = Instant::now();
        while begin.elapsed() < self.time {
            scene.operate(settle)?;
        }
        Ok(())
    }
}

/// What a thread that forwards has to tell.
struct Ended {
    station: Station,
    reached: Run,
    quiet: Run,
    operated: Run,
    reached_behind: Run,
}
