//! Measures how fast several sides forward the same packets. The sides run alternately on
//! dedicated cores, so that disturbances affect all of them.
//!
//! A *round* runs every side once, over the same packets, which differ between rounds. A run
//! repeatedly fills a ring of frames and has the side forward them in bursts. Only forwarding is
//! timed. So the packets are in the second-level cache, while a network card would leave them in
//! the third. The first rings of a run only warm up code and tables. Results are medians over
//! rounds.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use packet::{Frame, Nanos};
use support::tsc_clock::{Clock, Rate};

use crate::forward::{Forward, SentFrames};

/// Number of frames in the ring, unless a burst is larger. That is 2.2 MB of buffers, of which
/// 64-byte packets touch about 200 KB.
const RING: usize = 1024;

/// Approximate timed duration of a run. Shorter than a scheduler time slice on a busy machine.
const PASS: Duration = Duration::from_micros(1000);

/// A run of `n` measured rings is preceded by `n / WARM_UP` rings, rounded up, that are not
/// measured.
const WARM_UP: usize = 4;

/// Minimum number of rounds.
const MIN_ROUNDS: usize = 5;

/// Simulated time per packet, in nanoseconds, for the devices' clock.
const NS_PER_PACKET: u64 = 70;

/// A measured side.
pub struct Side {
    /// Its name.
    pub name: String,
    /// The implementation.
    pub forward: Box<dyn Forward + Send>,
}

/// A source of packets.
pub trait Traffic: Sync {
    /// Returns the packets of a run with this seed.
    fn packets(&self, seed: u64) -> Packets<'_>;
}

/// Writes the next packet: its ingress port and its bytes.
pub type Packets<'t> = Box<dyn FnMut(&mut Frame) + 't>;

/// Configuration of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Duration.
    pub time: Duration,
    /// Number of frames per burst.
    pub burst: usize,
    /// Seed of the packets.
    pub seed: u64,
}

/// Results of a side, over all workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The side's name.
    pub name: String,
    /// Million packets per second, summed over all workers.
    pub mpps: f64,
    /// Ticks per packet on one worker.
    pub ticks_per_packet: f64,
    /// Interquartile range of `mpps` over the rounds.
    pub middle_half: (f64, f64),
    /// Number of sent packets per received packet.
    pub sent: f64,
    /// Results of each round. All sides have the same rounds.
    pub rounds: Vec<Round>,
}

/// Results of a side in one round, over all workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// See [`Measured::mpps`].
    pub mpps: f64,
    /// See [`Measured::ticks_per_packet`].
    pub ticks_per_packet: f64,
}

/// Measures sides on `workers.len()` threads, each pinned to a core. All threads must have sides
/// with the same names in the same order, and at least one.
///
/// `tell` is called with the progress from 0 to 1.
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

/// Results of one worker, by round and side.
type Passes = Vec<Vec<Pass>>;

fn collect(all: &Mutex<Vec<Passes>>, passes: Passes) {
    if let Ok(mut all) = all.lock() {
        all.push(passes);
    }
}

/// Results of one run.
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
    /// Runs one worker until the time is over.
    fn work(&self, worker: usize, sides: &mut [Side], tell: &mut dyn FnMut(f64)) -> Passes {
        // If threads cannot be pinned, the results vary more, but are still valid.
        #[cfg(target_os = "linux")]
        let _ = port::pin_to_core(worker);
        let mut station = MeasureWorker::new(self);
        let mut rings: Vec<usize> = vec![1; sides.len()];
        let mut rounds = Passes::new();
        let start = Instant::now();
        loop {
            let round = rounds.len();
            let seed = self.plan.seed + ((round as u64) << 16) + worker as u64;
            let mut passes = vec![Pass::default(); sides.len()];
            for turn in 0..sides.len() {
                // The order rotates, so that no side always follows the same one.
                let at = (turn + round) % sides.len();
                self.barrier.wait();
                passes[at] = station.pass(&mut *sides[at].forward, seed, rings[at]);
                rings[at] = self.rings(&passes[at]);
            }
            rounds.push(passes);
            if worker == 0 {
                let share = start.elapsed().as_secs_f64() / self.plan.time.as_secs_f64();
                tell(share.min(1.0));
                let is_over = share >= 1.0 && rounds.len() > MIN_ROUNDS;
                self.goes_on.store(!is_over, Relaxed);
            }
            self.barrier.wait();
            if !self.goes_on.load(Relaxed) {
                // The first round only determined the number of rings per run.
                rounds.remove(0);
                return rounds;
            }
        }
    }

    /// Returns the number of frames in the ring.
    fn ring(&self) -> usize {
        RING.max(self.plan.burst)
    }

    /// Returns the number of rings for the duration of a run.
    fn rings(&self, pass: &Pass) -> usize {
        let ticks = PASS.as_nanos() as f64 * self.clock.rate().ticks_per_ns;
        let rings = ticks / (pass.ticks_per_packet() * self.ring() as f64);
        (rings as usize).clamp(1, 256)
    }
}

/// Frame buffers and clock of one worker.
struct MeasureWorker<'s> {
    shared: &'s Shared<'s>,
    frames: Vec<Frame>,
    out: SentFrames,
    now: Nanos,
}

impl<'s> MeasureWorker<'s> {
    fn new(shared: &'s Shared<'s>) -> Self {
        Self {
            shared,
            frames: (0..shared.ring()).map(|_| Frame::new()).collect(),
            out: SentFrames::new(),
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

    /// Forwards one ring. Returns the ticks and the number of frames sent.
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

/// Returns the quantile `share` of the values, or 0 if there are none.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    support::quantile::quantile(values, share).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bare, Reading};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use support::rng::Rng;

    /// A side that spends some time on each packet and drops every second one.
    struct Slow(u64);

    impl Forward for Slow {
        fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
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
            let mut choices = Rng::new(seed);
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
            assert!(bare.rounds.len() >= MIN_ROUNDS && told == 1.0);
            assert_eq!(bare.sent, 1.0);
            assert!((slow.sent - 0.5).abs() < 0.01, "{measured:?}");
        }
    }

    /// A side that records the maximum burst size.
    #[derive(Default)]
    struct Most(Arc<AtomicUsize>);

    impl Forward for Most {
        fn forward(&mut self, frames: &mut [Frame], _: Nanos, _: &mut SentFrames) {
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
    fn a_quantile_of_nothing_is_0() {
        assert_eq!(quantile(&mut [3.0, 1.0], 0.0), 1.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
