//! Isolation benchmark: throughput and latency of a vPDP beside a hostile neighbor, in real time.
//!
//! One worker has a fairly shared processor. The *victim* sends at exactly its guaranteed rate:
//! half of the packets' minimum share of the rate that it reaches alone. It runs without a
//! neighbor, beside a *peer* with the same traffic, or beside the *hostile* vPDP. That sends at
//! the rate that the victim reaches alone. The kinds of runs alternate, so that disturbances of
//! the machine affect all of them. Control operations of the hostile vPDP run on a separate
//! thread.

mod attack;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exec::Engine;
use ir::Program;
use packet::{Frame, FrameError, Nanos, PortId};
use support::rng::Rng;
use support::tsc_clock::Clock;
use tenancy::{
    Connection, CycleAccounting, Fairness, HypervisorError, Spec, TenantSwitch, VpdpId, Worker,
};

use crate::device::change;
use crate::load::Compile;
use crate::measure::quantile;
use crate::setup::SetupError;
use crate::tenants::{Part, ShardableWorkload, settle};

pub use attack::Attack;
use attack::Beside;
use worker::{IsolationRun, IsolationWorker, Source};

/// The victim and its peer each have the whole workload.
const WHOLE: Part = Part { number: 0, of: 1 };

/// Number of different packets of the victim and of its peer.
const PACKETS: usize = 1024;

/// Link rate of a hostile vPDP, in bits per second. It limits the packet rate of large packets.
const LINK: f64 = 10e9;

/// Configuration of the benchmark.
pub struct IsolationTest<'h> {
    /// Workload of the victim and its peer.
    pub workload: &'h dyn ShardableWorkload,
    /// Program of the workload.
    pub program: Arc<Program>,
    /// Compiles the programs of attacks.
    pub compile: &'h Compile<'h>,
    /// Execution engine.
    pub engine: Arc<dyn Engine>,
    /// Sharing of the processor.
    pub fairness: Fairness,
    /// Duration of a run.
    pub time: Duration,
    /// Number of runs of each kind.
    pub rounds: usize,
    /// Maximum number of frames per burst of a worker.
    pub burst: usize,
    /// Seed of the packets.
    pub seed: u64,
}

/// Results of the victim beside one kind of neighbor: medians over runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IsolationCounts {
    /// Fraction of the arriving packets that were sent.
    pub share: f64,
    /// Median latency in microseconds, from arrival to transmission.
    pub p50: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99: f64,
    /// Service that the neighbor received.
    pub neighbour: ForwardedCounts,
}

/// Service received by a neighbor of the victim: medians over runs. All admitted packets count,
/// even if they are never sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForwardedCounts {
    /// Million packets per second.
    pub mpps: f64,
    /// Fraction of the worker's time spent on receiving and serving these packets.
    pub time: f64,
}

/// Results of one attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostileReport {
    /// Rate of the victim's traffic, in million packets per second.
    pub mpps: f64,
    /// Results without a neighbor.
    pub alone: IsolationCounts,
    /// Results beside a peer.
    pub peer: IsolationCounts,
    /// Results beside the hostile vPDP.
    pub hostile: IsolationCounts,
    /// Median latency beside the hostile vPDP divided by that beside a peer. Median over rounds.
    pub ratio: f64,
}

/// Error of the benchmark.
#[derive(Debug)]
pub enum IsolationError {
    /// A program does not compile. Contains the diagnostics.
    Compile(String),
    /// The entries do not fit the program.
    Setup(SetupError),
    /// The hypervisor refuses an operation.
    Refusal(HypervisorError),
    /// A packet is too long.
    Frame(FrameError),
    /// A thread has failed.
    Worker,
}

impl fmt::Display for IsolationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IsolationError::Compile(diagnostics) => f.write_str(diagnostics),
            IsolationError::Setup(error) => error.fmt(f),
            IsolationError::Refusal(refusal) => refusal.fmt(f),
            IsolationError::Frame(error) => error.fmt(f),
            IsolationError::Worker => f.write_str("a thread that forwards has failed"),
        }
    }
}

impl std::error::Error for IsolationError {}

impl From<SetupError> for IsolationError {
    fn from(error: SetupError) -> Self {
        IsolationError::Setup(error)
    }
}

impl From<HypervisorError> for IsolationError {
    fn from(refusal: HypervisorError) -> Self {
        IsolationError::Refusal(refusal)
    }
}

/// Packets of all vPDPs.
struct Traffic {
    victim: Vec<Frame>,
    peer: Vec<Frame>,
    hostile: Vec<Frame>,
}

/// Configuration of the forwarding thread.
struct Rounds<'r> {
    traffic: &'r Traffic,
    /// True while packets of the hostile vPDP arrive.
    is_attacked: &'r AtomicBool,
    time: Duration,
    count: usize,
    /// Guaranteed fraction of the rate that the victim reaches alone.
    guaranteed: f64,
}

impl IsolationTest<'_> {
    /// Measures the effect of an attack on the victim. `gauge` accounts for the cost of packets.
    ///
    /// # Errors
    /// A program does not compile, or an operation is refused.
    pub fn measure(
        &self,
        attack: Attack,
        gauge: impl CycleAccounting + 'static,
    ) -> Result<HostileReport, IsolationError> {
        let mut hypervisor = TenantSwitch::new(Arc::clone(&self.engine));
        let ports = self.workload.ports();
        let victim = self.create(&mut hypervisor, "victim", 0..ports)?;
        let peer = self.create(&mut hypervisor, "peer", ports..2 * ports)?;
        for vpdp in [victim, peer] {
            hypervisor.load(vpdp, Arc::clone(&self.program))?;
            self.fill(&mut hypervisor, vpdp)?;
        }
        let own = 2 * ports..2 * ports + 2;
        let hostile = self.create(&mut hypervisor, "hostile", own.clone())?;
        let program = (self.compile)(&attack.source()).map_err(IsolationError::Compile)?;
        hypervisor.load(hostile, Arc::new(program))?;
        let mut beside = attack.beside(hostile, self.compile);
        beside.begin(&mut hypervisor)?;
        hypervisor.set_fairness(Some(self.fairness));
        let mut worker = hypervisor.workers(1).pop().ok_or(IsolationError::Worker)?;
        worker.measure_by(gauge);
        let packets = attack.packets(PortId(own.start));
        let traffic = Traffic {
            victim: self.packets(0),
            peer: self.packets(ports),
            hostile: packets.map_err(IsolationError::Frame)?,
        };
        self.run(&mut hypervisor, worker, &traffic, beside)
    }

    fn create(
        &self,
        hypervisor: &mut TenantSwitch,
        name: &str,
        ports: std::ops::Range<u32>,
    ) -> Result<VpdpId, IsolationError> {
        let ports = ports.map(|port| Connection::Physical(PortId(port)));
        Ok(hypervisor.create(Spec {
            name: name.into(),
            ports: ports.collect(),
            ..Spec::default()
        })?)
    }

    fn fill(&self, hypervisor: &mut TenantSwitch, vpdp: VpdpId) -> Result<(), IsolationError> {
        let device = hypervisor.device_mut(vpdp);
        let device = device.ok_or(HypervisorError::NoProgram(vpdp))?;
        self.workload.setup(&self.program, WHOLE, &mut |item| {
            let applied = device.apply(change(item));
            applied.map_err(|error| SetupError::Entry(error.to_string()))?;
            Ok(())
        })?;
        settle(device);
        Ok(())
    }

    /// Returns packets of the workload. Its ports start at `first`.
    fn packets(&self, first: u32) -> Vec<Frame> {
        let mut choices = Rng::new(self.seed);
        let packet = |_| {
            let mut frame = Frame::new();
            self.workload.packet(&mut choices, WHOLE, &mut frame);
            frame.ingress.0 += first;
            frame
        };
        (0..PACKETS).map(packet).collect()
    }

    /// Returns the minimum fraction of a worker's time for packets.
    fn packets_share(&self) -> f64 {
        let ticks_per_second = Clock::new().rate().ticks_per_ns * 1e9;
        self.fairness.least() as f64 / ticks_per_second
    }

    /// Runs the forwarding thread and the control thread.
    fn run(
        &self,
        hypervisor: &mut TenantSwitch,
        worker: Worker,
        traffic: &Traffic,
        mut beside: Beside<'_>,
    ) -> Result<HostileReport, IsolationError> {
        let (is_attacked, is_over) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let start = Instant::now();
        let station = IsolationWorker::new(worker, self.workload.ports(), self.burst, start);
        let rounds = Rounds {
            traffic,
            is_attacked,
            time: self.time,
            count: self.rounds,
            guaranteed: self.packets_share() / 2.0,
        };
        let mut control = || -> Result<(), IsolationError> {
            while !is_over.load(Ordering::Acquire) {
                match is_attacked.load(Ordering::Acquire) {
                    true => beside.go_on(hypervisor, Nanos::from(start.elapsed()))?,
                    false => std::thread::sleep(Duration::from_micros(100)),
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            // If threads cannot be pinned, the results vary more, but are still valid. Threads
            // started by a pinned thread stay on its core.
            let controls = scope.spawn(move || {
                #[cfg(target_os = "linux")]
                let _ = port::pin_to_core(1);
                control()
            });
            let forwards = scope.spawn(move || {
                #[cfg(target_os = "linux")]
                let _ = port::pin_to_core(0);
                rounds.run(station)
            });
            let report = forwards.join();
            is_over.store(true, Ordering::Release);
            let controlled = controls.join().map_err(|_| IsolationError::Worker)?;
            controlled?;
            report.map_err(|_| IsolationError::Worker)
        })
    }
}

impl Rounds<'_> {
    fn run(&self, mut station: IsolationWorker) -> HostileReport {
        let Rounds {
            traffic,
            is_attacked,
            time,
            guaranteed,
            ..
        } = *self;
        // The first run warms the caches.
        station.reach(&traffic.victim, time);
        let mut rates = Vec::new();
        let mut runs: [Vec<IsolationRun>; 3] = Default::default();
        for _ in 0..self.count.max(1) {
            // Measured in each round: on a shared machine, the rate reached a minute ago may not
            // be reachable now.
            let reached = station.reach(&traffic.victim, time);
            let rate = reached * guaranteed;
            let victim = || Source::new(&traffic.victim, rate);
            rates.push(rate);
            runs[0].push(station.run(&mut [victim()], time));
            let peer = Source::new(&traffic.peer, rate);
            runs[1].push(station.run(&mut [victim(), peer], time));
            let hostile = Source::new(&traffic.hostile, reached.min(link_rate(&traffic.hostile)));
            is_attacked.store(true, Ordering::Release);
            runs[2].push(station.run(&mut [victim(), hostile], time));
            is_attacked.store(false, Ordering::Release);
        }
        let [alone, peer, hostile] = &runs;
        let ratios = hostile.iter().zip(peer);
        HostileReport {
            mpps: median(rates.into_iter()) / 1e6,
            alone: kept(alone),
            peer: kept(peer),
            hostile: kept(hostile),
            ratio: median(ratios.map(|(hostile, peer)| hostile.p50 / peer.p50)),
        }
    }
}

/// Returns the packet rate of a hostile vPDP's link.
fn link_rate(frames: &[Frame]) -> f64 {
    let bits = frames.first().map_or(1, |frame| frame.len() * 8);
    LINK / bits as f64
}

fn kept(runs: &[IsolationRun]) -> IsolationCounts {
    let median_of = |figure: fn(&IsolationRun) -> f64| median(runs.iter().map(figure));
    IsolationCounts {
        share: median_of(|run| run.share),
        p50: median_of(|run| run.p50),
        p99: median_of(|run| run.p99),
        neighbour: ForwardedCounts {
            mpps: median_of(|run| run.neighbour.mpps),
            time: median_of(|run| run.neighbour.time),
        },
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&mut values.collect::<Vec<_>>(), 0.5)
}
