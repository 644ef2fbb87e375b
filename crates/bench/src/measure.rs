//! Measures how fast several sides forward the same packets: in turns, on cores of their own, so that what disturbs one disturbs all.
//!
//! A *round* gives every side one *pass*, each over the same packets, which no other round has. A pass fills a ring of frames, lets the side forward
//! them in bursts, and so on; only forwarding is timed, so what is measured is a side whose packets lie in the second-level cache, as a network card
//! leaves them in the third. The side's first rings of a pass are not counted: they warm its code and tables up. A figure is the median over rounds.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use packet::{Frame, Nanos};

use crate::clock::{Clock, Rate};
use crate::forward::{Forward, Outbox};

/// Frames in the ring, unless a burst has more: 2.2 MB of buffers, of which 64-byte packets touch about 200 KB.
const RING: usize = 1024;

/// How long a pass is timed, about: shorter than the time that a busy machine gives one thread at a stretch.
const PASS: Duration = Duration::from_micros(1000);

/// The share of a pass's rings that only warm up.
const WARM_UP: usize = 4;

/// Rounds at least.
const LEAST_ROUNDS: usize = 5;

/// Packets a second that a clock of devices goes by.
const NS_PER_PACKET: u64 = 70;

/// One of the sides that are measured.
pub struct Side {
    /// Its name.
    pub name: String,
    /// What it does.
    pub forward: Box<dyn Forward + Send>,
}

/// The packets that come.
pub trait Traffic: Sync {
    /// Those of a pass, by its seed.
    fn packets(&self, seed: u64) -> Packets<'_>;
}

/// Writes the next packet: its port and its bytes.
pub type Packets<'t> = Box<dyn FnMut(&mut Frame) + 't>;

/// How to measure.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How long.
    pub time: Duration,
    /// Frames that a side gets at once.
    pub burst: usize,
    /// What the packets depend on.
    pub seed: u64,
}

/// What was measured of a side, on all workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The side's name.
    pub name: String,
    /// Million packets a second, all workers together.
    pub mpps: f64,
    /// Ticks a packet on one worker.
    pub ticks_per_packet: f64,
    /// The middle half of the rounds: the least and the greatest of its `mpps`.
    pub middle_half: (f64, f64),
    /// Packets that left for each that came.
    pub sent: f64,
    /// What was measured in each round; all sides have the same rounds.
    pub rounds: Vec<Round>,
}

/// What a side did in a round, on all workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// See [`Measured::mpps`].
    pub mpps: f64,
    /// See [`Measured::ticks_per_packet`].
    pub ticks_per_packet: f64,
}

/// Measures sides on as many threads as there are sets of them, each set on a core of its own. All sets have sides of the same names in the same
/// order, and at least one.
///
/// `tell` is told how much of the time is over, from 0 to 1.
pub fn measure(
    workers: &mut [Vec<Side>],
    traffic: &dyn Traffic,
    plan: &Plan,
    clock: &Clock,
    tell: &mut (dyn FnMut(f64) + Send),
) -> Vec<Measured> {
    let shared = Shared {
        traffic,
        plan,
        clock,
        barrier: Barrier::new(workers.len()),
        goes_on: AtomicBool::new(true),
    };
    let names: Vec<String> = workers
        .first()
        .map(|sides| sides.iter().map(|side| side.name.clone()).collect())
        .unwrap_or_default();
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (shared, all) = (&shared, &all);
        let mut workers = workers.iter_mut().enumerate();
        let first = workers.next();
        for (number, sides) in workers {
            scope.spawn(move || collect(all, shared.work(number, sides, &mut |_| {})));
        }
        if let Some((number, sides)) = first {
            // Not on the caller's thread, which must not stay pinned.
            scope.spawn(move || collect(all, shared.work(number, sides, tell)));
        }
    });
    let all = all.into_inner().unwrap_or_default();
    let rate = clock.rate();
    let summed = names.into_iter().enumerate();
    summed
        .map(|(side, name)| summary(name, side, &all, rate))
        .collect()
}

/// The passes of one worker, by round and side.
type Passes = Vec<Vec<Pass>>;

fn collect(all: &Mutex<Vec<Passes>>, passes: Passes) {
    if let Ok(mut all) = all.lock() {
        all.push(passes);
    }
}

/// What a pass gave.
#[derive(Debug, Clone, Copy, Default)]
struct Pass {
    ticks: u64,
    packets: u64,
    sent: u64,
}

impl Pass {
    fn ticks_per_packet(&self) -> f64 {
        self.ticks as f64 / self.packets.max(1) as f64
    }
}

struct Shared<'s> {
    traffic: &'s dyn Traffic,
    plan: &'s Plan,
    clock: &'s Clock,
    barrier: Barrier,
    goes_on: AtomicBool,
}

impl Shared<'_> {
    /// One worker: rounds until the time is over.
    fn work(&self, worker: usize, sides: &mut [Side], tell: &mut dyn FnMut(f64)) -> Passes {
        // Where threads cannot be pinned the figures are less even, and still right.
        #[cfg(target_os = "linux")]
        let _ = port::pin_to_core(worker);
        let mut station = Station::new(self);
        let mut rings: Vec<usize> = vec![1; sides.len()];
        let mut rounds = Passes::new();
        let start = Instant::now();
        loop {
            let round = rounds.len();
            let seed = self.plan.seed + ((round as u64) << 16) + worker as u64;
            let mut passes = vec![Pass::default(); sides.len()];
            for turn in 0..sides.len() {
                // Another one begins each time: none always follows the same.
                let at = (turn + round) % sides.len();
                self.barrier.wait();
                passes[at] = station.pass(&mut *sides[at].forward, seed, rings[at]);
                rings[at] = self.rings(&passes[at]);
            }
            rounds.push(passes);
            if worker == 0 {
                let share = start.elapsed().as_secs_f64() / self.plan.time.as_secs_f64();
                tell(share.min(1.0));
                let is_over = share >= 1.0 && rounds.len() > LEAST_ROUNDS;
                self.goes_on.store(!is_over, Relaxed);
            }
            self.barrier.wait();
            if !self.goes_on.load(Relaxed) {
                // The first round found out how many rings a pass has.
                rounds.remove(0);
                return rounds;
            }
        }
    }

    /// Frames in the ring.
    fn ring(&self) -> usize {
        RING.max(self.plan.burst)
    }

    /// Rings that take a pass's time.
    fn rings(&self, pass: &Pass) -> usize {
        let ticks = PASS.as_nanos() as f64 * self.clock.rate().ticks_per_ns;
        let rings = ticks / (pass.ticks_per_packet() * self.ring() as f64);
        (rings as usize).clamp(1, 256)
    }
}

/// One worker's frames.
struct Station<'s> {
    shared: &'s Shared<'s>,
    frames: Vec<Frame>,
    out: Outbox,
    now: Nanos,
}

impl<'s> Station<'s> {
    fn new(shared: &'s Shared<'s>) -> Self {
        Self {
            shared,
            frames: (0..shared.ring()).map(|_| Frame::new()).collect(),
            out: Outbox::new(),
            now: Nanos::ZERO,
        }
    }

    fn pass(&mut self, side: &mut dyn Forward, seed: u64, rings: usize) -> Pass {
        let mut packets = self.shared.traffic.packets(seed);
        for _ in 0..rings.div_ceil(WARM_UP) {
            self.ring(side, &mut packets);
        }
        let mut pass = Pass::default();
        for _ in 0..rings {
            let (ticks, sent) = self.ring(side, &mut packets);
            pass.ticks += ticks;
            pass.sent += sent as u64;
            pass.packets += self.frames.len() as u64;
        }
        pass
    }

    /// The ticks that forwarding one ring takes, and how many frames left.
    fn ring(&mut self, side: &mut dyn Forward, packets: &mut Packets<'_>) -> (u64, usize) {
        self.frames.iter_mut().for_each(packets);
        side.make_ready(&mut self.frames);
        let burst = self.shared.plan.burst.max(1);
        let start = self.shared.clock.ticks();
        for frames in self.frames.chunks_mut(burst) {
            self.now += Nanos(burst as u64 * NS_PER_PACKET);
            side.forward(frames, self.now, &mut self.out);
        }
        (self.shared.clock.ticks() - start, self.out.flush())
    }
}

fn summary(name: String, side: usize, all: &[Passes], rate: Rate) -> Measured {
    let count = all.iter().map(Vec::len).min().unwrap_or(0);
    let passes = |round: usize| all.iter().map(move |rounds| rounds[round][side]);
    let every = (0..count).flat_map(passes);
    let (sent, packets) = every.fold((0, 0), |(sent, packets), pass| {
        (sent + pass.sent, packets + pass.packets)
    });
    let rounds = (0..count).map(|round| {
        let ticks = passes(round).map(|pass| pass.ticks_per_packet());
        let rates = ticks.clone().map(|ticks| rate.ticks_per_ns * 1e3 / ticks);
        Round {
            mpps: rates.sum(),
            ticks_per_packet: ticks.sum::<f64>() / all.len() as f64,
        }
    });
    let rounds: Vec<Round> = rounds.collect();
    let mut mpps: Vec<f64> = rounds.iter().map(|round| round.mpps).collect();
    let mut ticks: Vec<f64> = rounds.iter().map(|round| round.ticks_per_packet).collect();
    Measured {
        name,
        mpps: quantile(&mut mpps, 0.5),
        ticks_per_packet: quantile(&mut ticks, 0.5),
        middle_half: (quantile(&mut mpps, 0.25), quantile(&mut mpps, 0.75)),
        sent: sent as f64 / packets.max(1) as f64,
        rounds,
    }
}

/// The value below which that share of the values lies; 0 without values.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len().saturating_sub(1)) as f64 * share;
    values.get(at.round() as usize).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bare, Choices, Reading};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// Works a while on each packet, and keeps every second one.
    struct Slow(u64);

    impl Forward for Slow {
        fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut Outbox) {
            for frame in frames {
                for _ in 0..100 {
                    self.0 = std::hint::black_box(self.0).wrapping_mul(3);
                }
                self.0 += 1;
                if self.0.is_multiple_of(2) {
                    out.take(frame.ingress, frame);
                }
            }
        }

        fn readings(&self) -> Vec<Reading> {
            Vec::new()
        }
    }

    struct Random;

    impl Traffic for Random {
        fn packets(&self, seed: u64) -> Packets<'_> {
            let mut choices = Choices::new(seed);
            Box::new(move |frame| {
                let _ = frame.assign(&choices.bits().to_be_bytes());
            })
        }
    }

    fn sides() -> Vec<Side> {
        let side = |name: &str, forward: Box<dyn Forward + Send>| Side {
            name: name.into(),
            forward,
        };
        vec![
            side("bare", Box::new(Bare)),
            side("slow", Box::new(Slow(1))),
        ]
    }

    #[test]
    fn the_slower_side_is_measured_as_slower_on_any_number_of_workers() {
        let plan = Plan {
            time: Duration::from_millis(60),
            burst: 64,
            seed: 1,
        };
        for workers in [1, 2] {
            let mut sets: Vec<_> = (0..workers).map(|_| sides()).collect();
            let mut told = 0.0;
            let measured = measure(&mut sets, &Random, &plan, &Clock::new(), &mut |at| {
                told = at
            });
            let [bare, slow] = &measured[..] else {
                panic!("two sides: {measured:?}");
            };
            assert_eq!((bare.name.as_str(), slow.name.as_str()), ("bare", "slow"));
            assert!(bare.mpps > 2.0 * slow.mpps, "{measured:?}");
            assert!(bare.rounds.len() >= LEAST_ROUNDS && told == 1.0);
            assert_eq!(bare.sent, 1.0);
            assert!((slow.sent - 0.5).abs() < 0.01, "{measured:?}");
        }
    }

    /// Notes how many frames come at once, at most.
    #[derive(Default)]
    struct Most(Arc<AtomicUsize>);

    impl Forward for Most {
        fn forward(&mut self, frames: &mut [Frame], _: Nanos, _: &mut Outbox) {
            self.0.fetch_max(frames.len(), Relaxed);
        }

        fn readings(&self) -> Vec<Reading> {
            Vec::new()
        }
    }

    #[test]
    fn sides_get_as_many_packets_at_once_as_were_asked_for() {
        for burst in [1, 64, RING, 4 * RING] {
            let most = Arc::<AtomicUsize>::default();
            let side = Side {
                name: "most".into(),
                forward: Box::new(Most(Arc::clone(&most))),
            };
            let plan = Plan {
                time: Duration::ZERO,
                burst,
                seed: 1,
            };
            measure(
                &mut [vec![side]],
                &Random,
                &plan,
                &Clock::new(),
                &mut |_| {},
            );
            assert_eq!(most.load(Relaxed), burst);
        }
    }

    #[test]
    fn a_quantile_is_a_value_of_the_list() {
        let mut values = [3.0, 1.0, 2.0, 5.0, 4.0];
        assert_eq!(quantile(&mut values, 0.5), 3.0);
        assert_eq!(quantile(&mut values, 0.25), 2.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
