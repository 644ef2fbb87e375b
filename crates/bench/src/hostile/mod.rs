//! Hostile neighbours in real time: what a vPDP keeps of its share, and how long its packets take, beside one that takes what it can get.
//!
//! On one worker whose processor is shared fairly, the *victim* asks for its guaranteed share and no more: half of what packets may take of the rate that
//! it reaches alone. Its neighbour is none, a *peer* that does the same as the victim, or the *hostile* one, which sends as many packets as the victim
//! reaches alone. Runs take turns, so that what disturbs the machine disturbs all of them. What the hostile one does by its control side is done on a
//! thread of its own.

mod attack;
mod station;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exec::Engine;
use ir::Program;
use packet::{Frame, FrameError, Nanos, PortId};
use tenancy::{Connection, Fairness, Gauge, Hypervisor, Refusal, Spec, VpdpId, Worker};

use crate::Choices;
use crate::clock::Clock;
use crate::device::change;
use crate::load::Compile;
use crate::measure::quantile;
use crate::setup::SetupError;
use crate::tenants::{Divisible, Part, settle};

pub use attack::Attack;
use attack::Beside;
use station::{Run, Source, Station};

/// The victim and its peer have all of the workload.
const WHOLE: Part = Part { number: 0, of: 1 };

/// Different packets of the victim, and of its peer.
const PACKETS: usize = 1024;

/// Bits a second that a hostile vPDP's link carries: it sends fewer packets where they are large.
const LINK: f64 = 10e9;

/// What is measured.
pub struct Hostile<'h> {
    /// What the victim does, and its peer.
    pub workload: &'h dyn Divisible,
    /// Its program.
    pub program: Arc<Program>,
    /// What makes programs of the hostile one's texts.
    pub compile: &'h Compile<'h>,
    /// What runs them.
    pub engine: Arc<dyn Engine>,
    /// How the processor is shared.
    pub fairness: Fairness,
    /// How long a run is.
    pub time: Duration,
    /// Runs of each kind.
    pub rounds: usize,
    /// Frames that a worker takes at once, at most.
    pub burst: usize,
    /// What packets depend on.
    pub seed: u64,
}

/// What became of the victim beside a neighbour: medians over runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    /// Packets that left, of those that came.
    pub share: f64,
    /// Microseconds from when a packet came until it left: the median.
    pub p50: f64,
    /// What the neighbour carries meanwhile.
    pub neighbour: Carried,
}

/// What is carried for a neighbour beside the victim: medians over runs. Packets count that were let in: some never leave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Carried {
    /// Million packets a second.
    pub mpps: f64,
    /// The part of the worker's time that they took, received and visited.
    pub time: f64,
}

/// A row of figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostileReport {
    /// What the victim sends, in million packets a second.
    pub mpps: f64,
    /// Without a neighbour.
    pub alone: Kept,
    /// Beside a peer.
    pub peer: Kept,
    /// Beside the hostile one.
    pub hostile: Kept,
    /// The median latency beside the hostile one for that beside a peer: the median over rounds.
    pub ratio: f64,
}

/// Why there are no figures.
#[derive(Debug)]
pub enum HostileError {
    /// A text does not compile: diagnostics.
    Compile(String),
    /// A program does not take its entries.
    Setup(SetupError),
    /// The hypervisor refuses something.
    Refusal(Refusal),
    /// A packet is too long.
    Frame(FrameError),
    /// The thread that forwards has failed.
    Station,
}

impl fmt::Display for HostileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostileError::Compile(diagnostics) => f.write_str(diagnostics),
            HostileError::Setup(error) => error.fmt(f),
            HostileError::Refusal(refusal) => refusal.fmt(f),
            HostileError::Frame(error) => error.fmt(f),
            HostileError::Station => f.write_str("a thread that forwards has failed"),
        }
    }
}

impl std::error::Error for HostileError {}

impl From<SetupError> for HostileError {
    fn from(error: SetupError) -> Self {
        HostileError::Setup(error)
    }
}

impl From<Refusal> for HostileError {
    fn from(refusal: Refusal) -> Self {
        HostileError::Refusal(refusal)
    }
}

/// Packets of all that send.
struct Traffic {
    victim: Vec<Frame>,
    peer: Vec<Frame>,
    hostile: Vec<Frame>,
}

/// What the thread that forwards does.
struct Rounds<'r> {
    traffic: &'r Traffic,
    /// Whether packets of the hostile one come.
    is_attacked: &'r AtomicBool,
    time: Duration,
    count: usize,
    /// Of the rate that the victim reaches alone, what it is guaranteed.
    guaranteed: f64,
}

impl Hostile<'_> {
    /// Measures what an attack does to the victim, packets' costs being told by `gauge`.
    ///
    /// # Errors
    /// A program does not compile, or is refused.
    pub fn measure(
        &self,
        attack: Attack,
        gauge: impl Gauge + 'static,
    ) -> Result<HostileReport, HostileError> {
        let mut hypervisor = Hypervisor::new(Arc::clone(&self.engine));
        let ports = self.workload.ports();
        let victim = self.create(&mut hypervisor, "victim", 0..ports)?;
        let peer = self.create(&mut hypervisor, "peer", ports..2 * ports)?;
        for vpdp in [victim, peer] {
            hypervisor.load(vpdp, Arc::clone(&self.program))?;
            self.fill(&mut hypervisor, vpdp)?;
        }
        let own = 2 * ports..2 * ports + 2;
        let hostile = self.create(&mut hypervisor, "hostile", own.clone())?;
        let program = (self.compile)(&attack.source()).map_err(HostileError::Compile)?;
        hypervisor.load(hostile, Arc::new(program))?;
        let mut beside = attack.beside(hostile, self.compile);
        beside.begin(&mut hypervisor)?;
        hypervisor.set_fairness(Some(self.fairness));
        let mut worker = hypervisor.workers(1).pop().ok_or(HostileError::Station)?;
        worker.measure_by(gauge);
        let packets = attack.packets(PortId(own.start));
        let traffic = Traffic {
            victim: self.packets(0),
            peer: self.packets(ports),
            hostile: packets.map_err(HostileError::Frame)?,
        };
        self.run(&mut hypervisor, worker, &traffic, beside)
    }

    fn create(
        &self,
        hypervisor: &mut Hypervisor,
        name: &str,
        ports: std::ops::Range<u32>,
    ) -> Result<VpdpId, HostileError> {
        let ports = ports.map(|port| Connection::Physical(PortId(port)));
        Ok(hypervisor.create(Spec {
            name: name.into(),
            ports: ports.collect(),
            ..Spec::default()
        })?)
    }

    fn fill(&self, hypervisor: &mut Hypervisor, vpdp: VpdpId) -> Result<(), HostileError> {
        let device = hypervisor.device_mut(vpdp);
        let device = device.ok_or(Refusal::NoProgram(vpdp))?;
        self.workload.setup(&self.program, WHOLE, &mut |item| {
            let applied = device.apply(change(item));
            applied.map_err(|error| SetupError::Entry(error.to_string()))?;
            Ok(())
        })?;
        settle(device);
        Ok(())
    }

    /// Packets of the workload, whose ports begin with this one.
    fn packets(&self, first: u32) -> Vec<Frame> {
        let mut choices = Choices::new(self.seed);
        let packet = |_| {
            let mut frame = Frame::new();
            self.workload.packet(&mut choices, WHOLE, &mut frame);
            frame.ingress.0 += first;
            frame
        };
        (0..PACKETS).map(packet).collect()
    }

    /// The part of a worker's time that packets may take at least.
    fn packets_share(&self) -> f64 {
        let ticks_per_second = Clock::new().rate().ticks_per_ns * 1e9;
        self.fairness.least() as f64 / ticks_per_second
    }

    /// Forwards on one thread and controls on another one.
    fn run(
        &self,
        hypervisor: &mut Hypervisor,
        worker: Worker,
        traffic: &Traffic,
        mut beside: Beside<'_>,
    ) -> Result<HostileReport, HostileError> {
        let (is_attacked, is_over) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let start = Instant::now();
        let station = Station::new(worker, self.workload.ports(), self.burst, start);
        let rounds = Rounds {
            traffic,
            is_attacked,
            time: self.time,
            count: self.rounds,
            guaranteed: self.packets_share() / 2.0,
        };
        let mut control = || -> Result<(), HostileError> {
            while !is_over.load(Ordering::Acquire) {
                match is_attacked.load(Ordering::Acquire) {
                    true => beside.go_on(hypervisor, Nanos::from(start.elapsed()))?,
                    false => std::thread::sleep(Duration::from_micros(100)),
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            // Where threads cannot be pinned the figures are less even, and still right. Those that they begin stay on their core.
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
            let controlled = controls.join().map_err(|_| HostileError::Station)?;
            controlled?;
            report.map_err(|_| HostileError::Station)
        })
    }
}

impl Rounds<'_> {
    fn run(&self, mut station: Station) -> HostileReport {
        let Rounds {
            traffic,
            is_attacked,
            time,
            guaranteed,
            ..
        } = *self;
        // The first time is for caches.
        station.reach(&traffic.victim, time);
        let mut rates = Vec::new();
        let mut runs: [Vec<Run>; 3] = Default::default();
        for _ in 0..self.count.max(1) {
            // Anew each round: on a machine that others use, too, a share of what was reached a minute ago may be more than all there is.
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

/// Packets a second that a hostile vPDP's link carries.
fn link_rate(frames: &[Frame]) -> f64 {
    let bits = frames.first().map_or(1, |frame| frame.len() * 8);
    LINK / bits as f64
}

fn kept(runs: &[Run]) -> Kept {
    let median_of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure));
    Kept {
        share: median_of(|run| run.share),
        p50: median_of(|run| run.p50),
        neighbour: Carried {
            mpps: median_of(|run| run.neighbour.mpps),
            time: median_of(|run| run.neighbour.time),
        },
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&mut values.collect::<Vec<_>>(), 0.5)
}
