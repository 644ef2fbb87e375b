//! The forwarding thread of the isolation benchmark, with packets of the victim and its neighbors
//! that arrive in real time.

use std::time::{Duration, Instant};

use packet::{Frame, Nanos, PortId};
use support::tsc_clock::Clock;
use tenancy::{ForwardedFrames, Reception, Worker};

use super::ForwardedCounts as Rates;
use crate::measure::quantile;

/// Capacity of a port's receive ring, in frames. Excess frames are dropped, as by a network card.
const RING: u64 = 4096;

/// Maximum number of frames received from a port before the other ports are polled.
const TURN: usize = 64;

/// Length of a packet's sequence number, which is at its end, in bytes.
const NUMBER: usize = 8;

/// Fraction of a run that is not counted at its start, while the shares settle. A run is also
/// extended by this fraction.
const SETTLING: f64 = 0.2;

/// A traffic source with a separate receive ring.
pub(super) struct Source<'f> {
    templates: &'f [Frame],
    /// Packets per second.
    rate: f64,
    came: u64,
    /// Index of the next template. Computing it from `came` by a division per packet would take a
    /// fifth of the cost per packet.
    at: usize,
    /// Number of packets that may still be received in this round.
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

    /// Returns one of its ports. All of its ports belong to one vPDP.
    fn port(&self) -> PortId {
        let first = self.templates.first();
        first.map_or(PortId(0), |frame| frame.ingress)
    }

    /// Returns the number of packets in the ring after this number of seconds. Packets beyond the
    /// ring's capacity count as dropped.
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

/// Results of a run, for the victim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct IsolationRun {
    /// Fraction of the arriving packets that were sent.
    pub(super) share: f64,
    /// Median latency in microseconds, from arrival to transmission.
    pub(super) p50: f64,
    /// 99th percentile of the latency in microseconds.
    pub(super) p99: f64,
    /// Sent packets per second.
    pub(super) rate: f64,
    /// Service received by the neighbor.
    pub(super) neighbour: Rates,
}

/// Snapshots of a neighbor's service at two times of a run, in ticks.
#[derive(Default)]
struct Milestones {
    at: Vec<(u64, ForwardedFrames)>,
}

impl Milestones {
    fn pass(&mut self, number: usize, now: u64, carried: impl FnOnce() -> ForwardedFrames) {
        if self.at.len() == number {
            self.at.push((now, carried()));
        }
    }

    /// Returns the rates between the two snapshots.
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

/// A worker with its frame buffers.
pub(super) struct IsolationWorker {
    worker: Worker,
    frames: Vec<Frame>,
    /// The victim's ports are those below this number.
    ports: u32,
    /// Sequence number and transmission time, in ticks, of each sent packet of the victim.
    left: Vec<(u64, u64)>,
    clock: Clock,
    start: Instant,
}

impl IsolationWorker {
    pub(super) fn new(worker: Worker, ports: u32, burst: usize, start: Instant) -> IsolationWorker {
        IsolationWorker {
            worker,
            frames: (0..burst).map(|_| Frame::new()).collect(),
            ports,
            left: Vec::new(),
            clock: Clock::new(),
            start,
        }
    }

    /// Forwards the traffic of the victim, which is the first source, and of its neighbor, for
    /// this duration.
    pub(super) fn run(&mut self, sources: &mut [Source<'_>], time: Duration) -> IsolationRun {
        let IsolationWorker {
            worker,
            frames,
            ports,
            left,
            clock,
            start,
        } = self;
        left.clear();
        let Some(rate) = sources.first().map(|victim| victim.rate) else {
            return IsolationRun::default();
        };
        let per_tick = 1e-9 / clock.rate().ticks_per_ns;
        let begin = clock.ticks();
        // Reading the operating system's clock would take a large part of the time per packet of
        // the victim.
        let seconds = || clock.ticks().saturating_sub(begin) as f64 * per_tick;
        let (from, until) = (time.as_secs_f64() * SETTLING, time.as_secs_f64());
        // The run continues after `until`, so that packets in flight are sent.
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
        IsolationRun {
            share: left.len() as f64 / counted,
            p50: quantile(&mut took, 0.5) * 1e6,
            p99: quantile(&mut took, 0.99) * 1e6,
            rate: left.len() as f64 / (until - from),
            neighbour: milestones.rates(1.0 / per_tick),
        }
    }

    /// Returns the rate that the victim reaches alone, in packets per second.
    pub(super) fn reach(&mut self, templates: &[Frame], time: Duration) -> f64 {
        // Higher than the rate of any worker.
        let mut source = [Source::new(templates, 1e9)];
        let run = self.run(&mut source, time);
        run.rate
    }
}

/// Receives waiting packets, port by port as a worker of `polyplane host --fair` does. Ends if the
/// burst is full, or if no source has packets or allowance left. Returns the number of frames, and
/// true if more packets may be waiting.
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
