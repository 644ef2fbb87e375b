//! Forwarding worker of the churn test, with its traffic and the checks of sent packets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use tenancy::Worker;

use super::flow::{DeliveryCounts, Expectation, Flow, Home, NUMBER};

/// Capacity of a port's receive ring, the same as for an AF_XDP port of `polyplane host`. Excess
/// frames are dropped, as by a network card.
const RING: u64 = 4096;

/// Maximum number of frames per burst.
const BURST: usize = 64;

/// The lower bits of a sequence number count a vPDP's packets. The upper bits are the vPDP's
/// index.
const COUNT_BITS: u32 = 48;

/// State of the packets of one vPDP.
#[derive(Clone, Copy, Default)]
struct Track {
    /// Number of the next packet to generate.
    next: u64,
    /// Lowest number that the next sent packet may have.
    expected: u64,
    /// Numbers of packets received and sent in the current burst.
    came: u64,
    left: u64,
    fates: DeliveryCounts,
}

/// A packet that is not the result of an allowed function, as of the start of the burst.
struct Odd {
    flow: usize,
    template: usize,
    port: PortId,
    frame: Frame,
}

/// Checks of sent packets.
struct Checks {
    flows: Arc<[Flow]>,
    tracks: Vec<Track>,
    /// Allowed results of each vPDP's packets, as of the start of the burst.
    expectations: Vec<Expectation>,
    odd: Vec<Odd>,
}

impl Checks {
    fn take(&mut self, port: PortId, frame: &Frame) {
        let number = frame.bytes().last_chunk::<NUMBER>();
        let number = number.map_or(u64::MAX, |number| u64::from_be_bytes(*number));
        let (at, count) = (
            (number >> COUNT_BITS) as usize,
            number & ((1 << COUNT_BITS) - 1),
        );
        let Some((flow, track)) = self.flows.get(at).zip(self.tracks.get_mut(at)) else {
            // The sequence number is damaged, so the vPDP is unknown. The packet counts as missing
            // in its vPDP.
            return;
        };
        match count < track.expected {
            true => track.fates.reordered += 1,
            false => {
                track.expected = count + 1;
                track.left += 1;
            }
        }
        let template = count as usize % flow.templates.len();
        let expected = self.expectations[at].functions;
        let is_made = |function: u8| {
            flow.templates[template].is_made_by(function.into(), port, frame.bytes())
        };
        if !expected.into_iter().any(is_made) {
            let mut copy = Frame::new();
            copy.copy_from(frame);
            self.odd.push(Odd {
                flow: at,
                template,
                port,
                frame: copy,
            });
        }
    }

    /// Evaluates the burst, with the allowed results as of its end.
    fn settle(&mut self) {
        for odd in self.odd.drain(..) {
            let flow = &self.flows[odd.flow];
            let expectation = flow.expectation();
            let template = &flow.templates[odd.template];
            let mut functions = expectation.functions.into_iter().map(usize::from);
            let is_made = functions
                .any(|function| template.is_made_by(function, odd.port, odd.frame.bytes()));
            self.tracks[odd.flow].fates.changed += u64::from(!is_made);
        }
        let all = self.tracks.iter_mut().zip(&*self.flows);
        for ((track, flow), before) in all.zip(&self.expectations) {
            let may_drop = before.may_drop || flow.expectation().may_drop;
            let gone = track.came - track.left.min(track.came);
            track.fates.came += track.came;
            track.fates.left += track.left;
            match may_drop {
                true => track.fates.dropped += gone,
                false => track.fates.lost += gone,
            }
            (track.came, track.left) = (0, 0);
        }
    }
}

/// Results of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChurnRun {
    /// Packets received by the worker.
    pub(super) taken: u64,
    /// Packets dropped because the rings were full.
    pub(super) missed: u64,
    /// Maximum number of waiting packets.
    pub(super) most_waiting: u64,
    /// Duration of the run.
    pub(super) time: Duration,
}

/// A worker of both switches.
pub struct ChurnWorker {
    first: Worker,
    second: Worker,
    checks: Checks,
    /// Number of steady vPDPs, which are the first ones.
    steady: usize,
    /// Capacity for waiting frames, as if all vPDPs shared the ports of one.
    room: u64,
    choices: Rng,
    /// Frames of a burst, for the first and for the second switch.
    frames: [Vec<Frame>; 2],
    start: Instant,
}

impl ChurnWorker {
    /// Creates a forwarding worker for these vPDPs, of which the first `steady` are steady.
    /// `ports` is the number of ports of one vPDP.
    pub(super) fn new(
        [first, second]: [Worker; 2],
        flows: Arc<[Flow]>,
        steady: usize,
        ports: u32,
        seed: u64,
    ) -> ChurnWorker {
        let frames = || (0..BURST).map(|_| Frame::new()).collect();
        ChurnWorker {
            first,
            second,
            checks: Checks {
                tracks: vec![Track::default(); flows.len()],
                expectations: Vec::with_capacity(flows.len()),
                odd: Vec::new(),
                flows,
            },
            steady,
            room: RING * u64::from(ports),
            choices: Rng::new(seed),
            frames: [frames(), frames()],
            start: Instant::now(),
        }
    }

    /// Forwards up to 64 packets of random vPDPs, and checks the sent packets.
    pub fn burst(&mut self, packets: usize, now: Nanos) {
        let ChurnWorker {
            first,
            second,
            checks,
            choices,
            frames: [to_first, to_second],
            ..
        } = self;
        checks.expectations.clear();
        let expectations = checks.flows.iter().map(Flow::expectation);
        checks.expectations.extend(expectations);
        let mut counts = [0; 2];
        for _ in 0..packets.min(BURST) {
            let at = choices.below(checks.flows.len() as u64) as usize;
            let track = &mut checks.tracks[at];
            let templates = &checks.flows[at].templates;
            let template = &templates[track.next as usize % templates.len()].frame;
            let frame = match checks.expectations[at].home {
                Home::First => next(to_first, &mut counts[0]),
                Home::Second => next(to_second, &mut counts[1]),
            };
            frame.copy_from(template);
            frame.ingress = template.ingress;
            put_number(frame, (at as u64) << COUNT_BITS | track.next);
            track.next += 1;
            track.came += 1;
        }
        let [of_first, of_second] = counts;
        first.forward(&mut to_first[..of_first], now, |port, frame, _| {
            checks.take(port, frame);
        });
        second.forward(&mut to_second[..of_second], now, |port, frame, _| {
            checks.take(port, frame);
        });
        checks.settle();
    }

    /// Forwards until `is_over` returns true: `load` packets per second, or at the maximum rate.
    pub(super) fn run(
        &mut self,
        load: Option<f64>,
        ended: &mut dyn FnMut(),
        is_over: &dyn Fn() -> bool,
    ) -> ChurnRun {
        let begin = Instant::now();
        let (mut run, mut came) = (ChurnRun::default(), 0);
        while !is_over() {
            let count = match load {
                None => BURST as u64,
                Some(rate) => {
                    let due = (begin.elapsed().as_secs_f64() * rate) as u64;
                    let waiting = due - came;
                    let missed = waiting.saturating_sub(self.room);
                    run.most_waiting = run.most_waiting.max(waiting - missed);
                    run.missed += missed;
                    came += missed;
                    (waiting - missed).min(BURST as u64)
                }
            };
            if count == 0 {
                std::hint::spin_loop();
                continue;
            }
            came += count;
            run.taken += count;
            self.burst(count as usize, Nanos::from(self.start.elapsed()));
            ended();
        }
        run.time = begin.elapsed();
        run
    }

    /// Sends pending reports to the control sides. Returns the delivery counters of steady and of
    /// changing vPDPs.
    pub fn end(mut self) -> (DeliveryCounts, DeliveryCounts) {
        let now = Nanos::from(self.start.elapsed());
        for worker in [&mut self.first, &mut self.second] {
            worker.forward(&mut [], now, |_, _, _| {});
        }
        let sum = |tracks: &[Track]| {
            let mut sum = DeliveryCounts::default();
            tracks.iter().for_each(|track| sum += track.fates);
            sum
        };
        let (steady, changing) = self.checks.tracks.split_at(self.steady);
        (sum(steady), sum(changing))
    }
}

/// Returns the next unused frame.
fn next<'f>(frames: &'f mut [Frame], count: &mut usize) -> &'f mut Frame {
    *count += 1;
    &mut frames[*count - 1]
}

fn put_number(frame: &mut Frame, number: u64) {
    if let Some(at) = frame.len().checked_sub(NUMBER) {
        frame.bytes_mut()[at..].copy_from_slice(&number.to_be_bytes());
    }
}
