//! The thread that forwards, and the packets of the victim and of its neighbours that come to it in real time.

use std::time::{Duration, Instant};

use packet::{Frame, Nanos, PortId};
use tenancy::{Carried, Reception, Worker};

use super::Carried as Rates;
use crate::clock::Clock;
use crate::measure::quantile;

/// Frames of a port that wait for the worker at most; more are missed, as a network card misses them.
const RING: u64 = 4096;

/// Frames that a port gives before the others have their turn.
const TURN: usize = 64;

/// Bytes of a packet's number, at its end.
const NUMBER: usize = 8;

/// Part of a run that does not count: shares settle.
const SETTLING: f64 = 0.2;

/// Packets that come by a ring of their own.
pub(super) struct Source<'f> {
    templates: &'f [Frame],
    /// Packets a second.
    rate: f64,
    came: u64,
    /// The next template: to divide `came` for each packet would be a fifth of what one costs.
    at: usize,
    /// How many may still be taken in this round.
    allowance: usize,
}

impl Source<'_> {
    pub(super) fn new(templates: &[Frame], rate: f64) -> Source<'_> {
        Source {
            templates,
            rate,
            came: 0,
            at: 0,
            allowance: 0,
        }
    }

    /// A port that they come by: all of them are one vPDP's.
    fn port(&self) -> PortId {
        let first = self.templates.first();
        first.map_or(PortId(0), |frame| frame.ingress)
    }

    /// Packets that wait after so many seconds. More than a ring holds have been missed.
    fn waiting(&mut self, seconds: f64) -> u64 {
        let due = (seconds * self.rate) as u64;
        self.came = self.came.max(due.saturating_sub(RING));
        due.saturating_sub(self.came)
    }

    /// Writes the next packet.
    fn next(&mut self, frame: &mut Frame) {
        let template = &self.templates[self.at];
        self.at = match self.at + 1 {
            behind if behind == self.templates.len() => 0,
            next => next,
        };
        frame.copy_from(template);
        frame.ingress = template.ingress;
        if let Some(at) = frame.len().checked_sub(NUMBER) {
            frame.bytes_mut()[at..].copy_from_slice(&self.came.to_be_bytes());
        }
        self.came += 1;
    }
}

fn number_of(frame: &Frame) -> u64 {
    let number = frame.bytes().last_chunk::<NUMBER>();
    number.map_or(u64::MAX, |number| u64::from_be_bytes(*number))
}

/// What became of the victim's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Run {
    /// Packets that left, of those that came.
    pub(super) share: f64,
    /// The median of the time from when a packet came until it left, in microseconds.
    pub(super) p50: f64,
    /// Packets that left a second.
    pub(super) rate: f64,
    /// What was carried for the neighbour.
    pub(super) neighbour: Rates,
}

/// What was carried for a neighbour at moments of a run, in ticks.
#[derive(Default)]
struct Milestones {
    at: Vec<(u64, Carried)>,
}

impl Milestones {
    fn pass(&mut self, number: usize, now: u64, carried: impl FnOnce() -> Carried) {
        if self.at.len() == number {
            self.at.push((now, carried()));
        }
    }

    /// What was carried between them.
    fn rates(&self, ticks_per_second: f64) -> Rates {
        let [(begin, before), (end, after)] = self.at[..] else {
            return Rates::default();
        };
        let ticks = end.saturating_sub(begin).max(1) as f64;
        let packets = after.work.packets - before.work.packets;
        Rates {
            mpps: packets as f64 / ticks * ticks_per_second / 1e6,
            time: after.cycles.saturating_sub(before.cycles) as f64 / ticks,
        }
    }
}

/// A worker, and the frames that it takes.
pub(super) struct Station {
    worker: Worker,
    frames: Vec<Frame>,
    /// The victim's ports are below it.
    ports: u32,
    /// Of each of the victim's packets that left, its number and when that was, in ticks.
    left: Vec<(u64, u64)>,
    clock: Clock,
    start: Instant,
}

impl Station {
    pub(super) fn new(worker: Worker, ports: u32, burst: usize, start: Instant) -> Station {
        Station {
            worker,
            frames: (0..burst).map(|_| Frame::new()).collect(),
            ports,
            left: Vec::new(),
            clock: Clock::new(),
            start,
        }
    }

    /// Forwards for so long what the victim, the first of the sources, and its neighbour send.
    pub(super) fn run(&mut self, sources: &mut [Source<'_>], time: Duration) -> Run {
        let Station {
            worker,
            frames,
            ports,
            left,
            clock,
            start,
        } = self;
        left.clear();
        let Some(rate) = sources.first().map(|victim| victim.rate) else {
            return Run::default();
        };
        let per_tick = 1e-9 / clock.rate().ticks_per_ns;
        let begin = clock.ticks();
        // To look at the operating system's clock would take the victim a good part of what its packets do.
        let seconds = || clock.ticks().saturating_sub(begin) as f64 * per_tick;
        let (from, until) = (time.as_secs_f64() * SETTLING, time.as_secs_f64());
        // What is in flight at the end has time to leave.
        let (first, last) = ((from * rate) as u64, (until * rate) as u64);
        let neighbour = sources.get(1).map(Source::port);
        let mut milestones = Milestones::default();
        loop {
            let (before, now) = (clock.ticks(), seconds());
            if let Some(port) = neighbour {
                for (number, _) in [from, until]
                    .iter()
                    .enumerate()
                    .filter(|(_, at)| now >= **at)
                {
                    milestones.pass(number, before, || worker.carried(port));
                }
            }
            if now >= until * (1.0 + SETTLING) {
                break;
            }
            let (count, is_behind) = fill(sources, worker, frames, seconds());
            worker.received(Reception {
                cycles: clock.ticks() - before,
                missed: Nanos::ZERO,
                is_behind,
            });
            let now = Nanos::from(start.elapsed());
            worker.forward(&mut frames[..count], now, |port, frame, _| {
                let number = number_of(frame);
                if port.0 < *ports && (first..last).contains(&number) {
                    left.push((number, clock.ticks()));
                }
            });
        }
        let seconds = |ticks: u64| ticks.saturating_sub(begin) as f64 * per_tick;
        let took = |&(number, at): &(u64, u64)| seconds(at) - number as f64 / rate;
        let mut took: Vec<f64> = left.iter().map(took).collect();
        let counted = (last - first).max(1) as f64;
        Run {
            share: left.len() as f64 / counted,
            p50: quantile(&mut took, 0.5) * 1e6,
            rate: left.len() as f64 / (until - from),
            neighbour: milestones.rates(1.0 / per_tick),
        }
    }

    /// What the victim reaches alone, in packets a second.
    pub(super) fn reach(&mut self, templates: &[Frame], time: Duration) -> f64 {
        // More than any worker takes.
        let mut source = [Source::new(templates, 1e9)];
        let run = self.run(&mut source, time);
        run.rate
    }
}

/// Takes what waits, in turns as ports give frames to a worker of `polyplane host --fair`, until the round is full or nobody has or may give more; how many
/// frames, and whether somebody may have more.
fn fill(
    sources: &mut [Source<'_>],
    worker: &mut Worker,
    frames: &mut [Frame],
    seconds: f64,
) -> (usize, bool) {
    let (mut count, mut is_behind) = (0, false);
    for source in &mut *sources {
        source.allowance = worker.allow(source.port());
    }
    loop {
        let mut has_more = false;
        for source in &mut *sources {
            let turn = TURN.min(source.allowance).min(frames.len() - count);
            let taken = (turn as u64).min(source.waiting(seconds)) as usize;
            for frame in &mut frames[count..count + taken] {
                source.next(frame);
            }
            count += taken;
            source.allowance -= taken;
            let is_full = turn > 0 && taken == turn;
            is_behind |= is_full && (worker.fills_up(source.port()) || turn == TURN);
            has_more |= taken == TURN;
        }
        if !has_more {
            return (count, is_behind);
        }
    }
}
