//! A worker of both switches, and the packets that come to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use packet::{Frame, Nanos, PortId};
use tenancy::Worker;

use super::flow::{Expectation, Fates, Flow, Home, NUMBER};
use crate::Choices;

/// Frames of a port that wait for the worker at most, as many as an AF_XDP port of `polyplane host` has room for; more are missed, as a network card
/// misses them.
const RING: u64 = 4096;

/// Frames that the worker takes at once, at most.
const BURST: usize = 64;

/// A number's lower bits count a vPDP's packets; those above say which vPDP it is.
const COUNT_BITS: u32 = 48;

/// What a station knows of the packets of a vPDP that it got.
#[derive(Clone, Copy, Default)]
struct Track {
    /// The number of the next packet that comes.
    next: u64,
    /// No packet behind this one may leave any more.
    expected: u64,
    /// Of the burst: packets that came, and that left.
    came: u64,
    left: u64,
    fates: Fates,
}

/// A packet that left otherwise than the function before a change makes it.
struct Odd {
    flow: usize,
    template: usize,
    port: PortId,
    frame: Frame,
}

/// Checks packets that leave.
struct Checks {
    flows: Arc<[Flow]>,
    tracks: Vec<Track>,
    /// What packets of each vPDP may meet, as it was before the burst.
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
            // Whose it was cannot be told: its own vPDP misses it.
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

    /// Looks at what the burst came to.
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

/// What a run came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    /// Packets that the worker took.
    pub(super) taken: u64,
    /// Packets that found the rings full.
    pub(super) missed: u64,
    /// Packets that waited, at most.
    pub(super) most_waiting: u64,
    /// How long it was.
    pub(super) time: Duration,
}

/// A worker of both switches.
pub struct Station {
    first: Worker,
    second: Worker,
    checks: Checks,
    /// How many of the vPDPs, from the first on, are steady.
    steady: usize,
    /// Frames that wait at most: as if all vPDPs shared the ports of one.
    room: u64,
    choices: Choices,
    /// Frames of a burst: those for the first switch, then those for the second one.
    frames: [Vec<Frame>; 2],
    start: Instant,
}

impl Station {
    /// A station for these vPDPs, the first of them steady, behind so many ports.
    pub(super) fn new(
        [first, second]: [Worker; 2],
        flows: Arc<[Flow]>,
        steady: usize,
        ports: u32,
        seed: u64,
    ) -> Station {
        let frames = || (0..BURST).map(|_| Frame::new()).collect();
        Station {
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
            choices: Choices::new(seed),
            frames: [frames(), frames()],
            start: Instant::now(),
        }
    }

    /// Takes so many packets in, no more than 64 at once, of vPDPs at random, and checks those that leave.
    pub fn burst(&mut self, packets: usize, now: Nanos) {
        let Station {
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

    /// Forwards until it is over: so many packets a second, or as many as it can.
    pub(super) fn run(
        &mut self,
        load: Option<f64>,
        ended: &mut dyn FnMut(),
        is_over: &dyn Fn() -> bool,
    ) -> Run {
        let begin = Instant::now();
        let (mut run, mut came) = (Run::default(), 0);
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

    /// Tells the control sides all that is left to tell; the fates of packets of steady and of changing vPDPs.
    pub fn end(mut self) -> (Fates, Fates) {
        let now = Nanos::from(self.start.elapsed());
        for worker in [&mut self.first, &mut self.second] {
            worker.forward(&mut [], now, |_, _, _| {});
        }
        let sum = |tracks: &[Track]| {
            let mut sum = Fates::default();
            tracks.iter().for_each(|track| sum += track.fates);
            sum
        };
        let (steady, changing) = self.checks.tracks.split_at(self.steady);
        (sum(steady), sum(changing))
    }
}

/// The next of these frames.
fn next<'f>(frames: &'f mut [Frame], count: &mut usize) -> &'f mut Frame {
    *count += 1;
    &mut frames[*count - 1]
}

fn put_number(frame: &mut Frame, number: u64) {
    if let Some(at) = frame.len().checked_sub(NUMBER) {
        frame.bytes_mut()[at..].copy_from_slice(&number.to_be_bytes());
    }
}
