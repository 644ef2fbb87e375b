//! Churn test: random control operations on vPDPs under traffic. vPDPs are created, changed,
//! migrated to another switch and deleted, while packets flow through all of them. Every sent
//! packet is checked.
//!
//! Some vPDPs are *steady*: no operation affects them. Each of their packets must be sent exactly
//! once, in order, at the right port, with exactly the bytes that the function alone produces. The
//! others are *changing*. Update, recomposition, rollback, quotas and migration must not lose
//! their packets either. Each packet must be the result of the function before or after the
//! change. While a vPDP is without a program, suspended or deleted, packets may be dropped, but
//! sent packets are checked all the same.
//!
//! A migration first creates the vPDP on the other switch, then redirects its packets, and deletes
//! the old vPDP when no packet can be on its way to it. So no packet is lost.
//!
//! [`ChurnDriver`] is the control side. [`ChurnWorker`] is a forwarding worker of both switches,
//! with its traffic. Each vPDP has an [`Expectation`], the allowed results of its packets. The
//! control side writes it, and the workers read it before and after each burst. An operation is
//! settled when every worker has since done a complete burst.

mod driver;
mod flow;
mod stages;
mod worker;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use exec::Engine;
use ir::Program;
use support::count::count;
use switch::LedgerError;
use tenancy::{Chain, Function, HypervisorError};

use crate::setup::SetupError;
use crate::tenants::ShardableWorkload;
use crate::workloads;

pub use driver::{ChurnDriver, Operation};
pub use flow::{DeliveryCounts, Expectation};
use worker::ChurnRun;
pub use worker::ChurnWorker;

/// Policies of the functions. All contain the step with the workload's entries, and its state is
/// preserved when other steps change.
const POLICIES: [&str; 3] = ["l2", "stamp -> l2", "l2 -> stamp -> again=stamp"];

/// Number of versions of the `stamp` step.
const VERSIONS: usize = 2;

/// Returns the functions of vPDPs. Function number `policy * VERSIONS + version` has this policy
/// and version of `stamp`.
///
/// # Errors
/// A program or a policy does not compile.
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

/// Error of the churn test.
#[derive(Debug)]
pub enum ChurnError {
    /// The workload's entries do not fit a function.
    Setup(SetupError),
    /// The hypervisor refuses an operation that is valid.
    Refusal(Operation, HypervisorError),
    /// A function does not send exactly one packet for each packet of the workload.
    Function,
    /// An operation changed state that it must preserve.
    State(Operation),
    /// Packet conservation is violated.
    Unbalanced(LedgerError),
    /// The switches counted another number of packets (first) than arrived (second).
    Miscounted(u64, u64),
    /// A forwarding thread has ended early.
    Worker,
}

impl fmt::Display for ChurnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChurnError::Setup(error) => error.fmt(f),
            ChurnError::Refusal(operation, refusal) => {
                write!(f, "{}: {refusal}", operation.name())
            }
            ChurnError::Function => {
                f.write_str("a function does not send one packet for each that comes")
            }
            ChurnError::State(operation) => {
                write!(
                    f,
                    "{}: the entries are not what they were",
                    operation.name()
                )
            }
            ChurnError::Unbalanced(unbalanced) => unbalanced.fmt(f),
            ChurnError::Miscounted(counted, came) => {
                let counted = count(*counted, "packet");
                write!(f, "the switches have counted {counted}, and {came} came")
            }
            ChurnError::Worker => f.write_str("a thread that forwards has failed"),
        }
    }
}

impl std::error::Error for ChurnError {}

impl From<SetupError> for ChurnError {
    fn from(error: SetupError) -> Self {
        ChurnError::Setup(error)
    }
}

/// Configuration of the churn test.
pub struct ChurnTest<'f> {
    /// Workload with the entries and packets of vPDPs.
    pub workload: &'f dyn ShardableWorkload,
    /// Functions of vPDPs, see [`functions`].
    pub functions: &'f [Function],
    /// Execution engine.
    pub engine: Arc<dyn Engine>,
    /// Number of operations.
    pub operations: usize,
    /// Seed of operations and packets.
    pub seed: u64,
    /// Load, as a fraction of the maximum rate of the workers.
    pub load: f64,
    /// Duration of each of the other phases: the two measurements of the maximum rate, and
    /// forwarding without operations.
    pub time: Duration,
    /// Number of forwarding threads.
    pub workers: usize,
}

/// Rates of all workers together, in million packets per second. Each worker's rate is over its
/// own time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Packets received by workers.
    pub carried: f64,
    /// Packets dropped because a worker's rings were full.
    pub missed: f64,
    /// Maximum number of packets waiting for one worker.
    pub most_waiting: u64,
}

impl AddAssign<ChurnRun> for Rates {
    fn add_assign(&mut self, run: ChurnRun) {
        let micros = run.time.as_secs_f64() * 1e6;
        if micros > 0.0 {
            self.carried += run.taken as f64 / micros;
            self.missed += run.missed as f64 / micros;
        }
        self.most_waiting = self.most_waiting.max(run.most_waiting);
    }
}

/// Results of the churn test. The cost of generating and checking packets is in all rates.
#[derive(Debug, Clone)]
pub struct LifeReport {
    /// Number of operations under load, by kind.
    pub operations: BTreeMap<Operation, usize>,
    /// Maximum rate of the workers during operations.
    pub reached: Rates,
    /// Rates under load without operations.
    pub quiet: Rates,
    /// Rates under load during operations.
    pub operated: Rates,
    /// Maximum rate of the workers during operations, measured again after the load.
    pub reached_behind: Rates,
    /// Total time of the operations under load.
    pub time: Duration,
    /// Packets of steady vPDPs.
    pub steady: DeliveryCounts,
    /// Packets of changing vPDPs.
    pub changing: DeliveryCounts,
}

/// Phases of the test with operations, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Forward at the maximum rate until the vPDPs are in a typical state.
    Settling,
    /// Forward at the maximum rate, measured.
    Reaching,
    /// Forward at the load.
    Loaded,
    /// Forward at the maximum rate again.
    ReachingAgain,
}

/// Synchronization between the forwarding threads and the control thread.
struct Progress {
    /// Number of bursts done by each forwarding thread.
    bursts: Vec<AtomicU64>,
    /// Number of times that a forwarding thread has begun a phase.
    ready: AtomicU64,
    /// Number of completed phases.
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

    /// Announces that a forwarding thread has begun a phase. The returned function returns true
    /// when the phase is over.
    fn begin(&self, phase: Phase) -> impl Fn() -> bool {
        self.ready.fetch_add(1, Ordering::Release);
        move || read(&self.over) > phase as u64
    }

    /// Waits until all forwarding threads have begun a phase.
    ///
    /// # Errors
    /// A forwarding thread has ended.
    fn wait_for(&self, phase: Phase, has_ended: &dyn Fn() -> bool) -> Result<(), ChurnError> {
        let all = (phase as u64 + 1) * self.bursts.len() as u64;
        while read(&self.ready) < all {
            if has_ended() {
                return Err(ChurnError::Worker);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Announces that a phase is over.
    fn end(&self, phase: Phase) {
        self.over.store(phase as u64 + 1, Ordering::Release);
    }

    /// Waits until each forwarding thread has done a complete burst that began after this call.
    ///
    /// # Errors
    /// A forwarding thread has ended.
    fn settle(&self, has_ended: &dyn Fn() -> bool) -> Result<(), ChurnError> {
        let before: Vec<u64> = self.bursts.iter().map(read).collect();
        let is_behind = |(bursts, before): (&AtomicU64, &u64)| read(bursts) < before + 2;
        while self.bursts.iter().zip(&before).any(is_behind) {
            if has_ended() {
                return Err(ChurnError::Worker);
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Acquire)
}

impl ChurnTest<'_> {
    /// Measures the maximum rate, then forwards traffic at the configured fraction of it while
    /// operations are made. `tell` is called with the progress from 0 to 1.
    ///
    /// # Errors
    /// The hypervisor refuses a valid operation, or packet conservation is violated. Either is a
    /// bug.
    pub fn measure(&self, tell: &mut dyn FnMut(f64)) -> Result<LifeReport, ChurnError> {
        let workers = self.workers.max(1);
        let (mut scene, stations) = ChurnDriver::new(self, workers)?;
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
            steady: DeliveryCounts::default(),
            changing: DeliveryCounts::default(),
        };
        for ended in ended {
            let ended = ended.map_err(|_| ChurnError::Worker)?;
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

    /// Runs one forwarding thread.
    fn station(&self, number: usize, mut station: ChurnWorker, progress: &Progress) -> Ended {
        // If threads cannot be pinned, the results vary more, but are still valid.
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

    /// Makes operations in all phases. Returns the number of operations under load, by kind, and
    /// their total time.
    fn operate(
        &self,
        scene: &mut ChurnDriver,
        progress: &Progress,
        has_ended: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<(BTreeMap<Operation, usize>, Duration), ChurnError> {
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
        scene: &mut ChurnDriver,
        settle: &mut dyn FnMut() -> Result<(), ChurnError>,
    ) -> Result<(), ChurnError> {
        let begin = Instant::now();
        while begin.elapsed() < self.time {
            scene.operate(settle)?;
        }
        Ok(())
    }
}

/// Results of a forwarding thread.
struct Ended {
    station: ChurnWorker,
    reached: ChurnRun,
    quiet: ChurnRun,
    operated: ChurnRun,
    reached_behind: ChurnRun,
}
