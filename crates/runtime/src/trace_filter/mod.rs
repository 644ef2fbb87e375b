//! Tracing on a running switch. Packets that match a filter are taken out of their burst and
//! processed step by step. All others are processed at full speed.

mod filter;
mod parse;

use std::str::FromStr;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exec::TraceEvent;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::Worker;

use filter::Condition;
pub use filter::FilterError;

/// Filter for packets, written as in docs/reference/trace.md: `ipv4.dst == 10.0.0.0/8 and udp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFilter(Condition);

impl PacketFilter {
    /// Returns true if the packet matches. A comparison with a field that the packet does not
    /// have never holds.
    #[inline]
    pub(crate) fn matches(&self, frame: &Frame) -> bool {
        self.0.matches(frame.ingress, frame.bytes())
    }

    /// Returns true if a frame at this port matches.
    #[inline]
    pub(crate) fn matches_at(&self, port: PortId, bytes: &[u8]) -> bool {
        self.0.matches(port, bytes)
    }

    /// Returns the filter that every packet matches.
    pub fn all() -> PacketFilter {
        PacketFilter(Condition::All)
    }
}

impl FromStr for PacketFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<PacketFilter, FilterError> {
        text.parse().map(PacketFilter)
    }
}

/// Maximum number of traces that wait to be shown. Packets that arrive meanwhile are not traced.
const MAX_WAITING: u64 = 64;

/// Sampling rate, written as `1/1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingRate(u64);

impl SamplingRate {
    /// The rate at which every packet is traced.
    pub const EVERY: SamplingRate = SamplingRate(1);
}

impl FromStr for SamplingRate {
    type Err = String;

    fn from_str(text: &str) -> Result<SamplingRate, String> {
        let number = text.strip_prefix("1/").unwrap_or(text);
        match number.parse() {
            Ok(number) if number > 0 => Ok(SamplingRate(number)),
            _ => Err("write 1/N, as in 1/1000".to_owned()),
        }
    }
}

/// Plane that processed a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedPlane {
    /// The program on a worker.
    Software,
    /// The model NIC before it: the events are the packet and what was sent.
    Nic,
}

impl TracedPlane {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            TracedPlane::Software => "software",
            TracedPlane::Nic => "nic",
        }
    }
}

/// A traced packet.
#[derive(Debug)]
pub struct TracedPacket {
    /// The plane that processed it.
    pub plane: TracedPlane,
    /// The program that processed it.
    pub program: Arc<Program>,
    /// The worker that processed it.
    pub worker: usize,
    /// Arrival time.
    pub time: Nanos,
    /// Ingress port.
    pub port: PortId,
    /// The packet as it arrived.
    pub bytes: Vec<u8>,
    /// Events of the engine and the device.
    pub events: Vec<TraceEvent>,
}

/// Counters shared by the tracers of all workers.
#[derive(Debug)]
pub struct TraceCounts {
    /// Number of packets that may still be traced.
    left: AtomicU64,
    /// Number of traces that wait to be shown.
    waiting: AtomicU64,
    traced: AtomicU64,
    missed: AtomicU64,
}

impl TraceCounts {
    /// Returns counters that permit `count` traces.
    pub fn new(count: Option<u64>) -> TraceCounts {
        TraceCounts {
            left: AtomicU64::new(count.unwrap_or(u64::MAX)),
            waiting: AtomicU64::new(0),
            traced: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }
    }

    /// Returns true if one more packet may be traced now, and counts it.
    fn take(&self) -> bool {
        let lower = |left: u64| left.checked_sub(1);
        if self.waiting.load(Relaxed) >= MAX_WAITING {
            self.missed.fetch_add(1, Relaxed);
            return false;
        }
        let taken = self.left.fetch_update(Relaxed, Relaxed, lower).is_ok();
        if taken {
            self.waiting.fetch_add(1, Relaxed);
            self.traced.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Notes that a trace has been shown.
    pub fn shown(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Returns the number of traced packets, and of matching packets that were not traced because
    /// too many traces waited.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.traced.load(Relaxed), self.missed.load(Relaxed))
    }
}

/// Filter of the tracers of a running switch, which may be set at any time.
#[derive(Debug, Default)]
pub struct TraceControl {
    /// Number of changes so far. Tracers compare it once a burst.
    changes: AtomicU64,
    filter: Mutex<Option<Arc<PacketFilter>>>,
}

impl TraceControl {
    /// Sets the filter: packets that match are traced from the next burst on. Without a filter none
    /// is traced.
    pub fn set(&self, filter: Option<PacketFilter>) {
        *self.lock() = filter.map(Arc::new);
        self.changes.fetch_add(1, Release);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<PacketFilter>>> {
        // A filter is replaced as a whole.
        self.filter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Packet tracer of one worker.
pub struct PacketTracer {
    worker: usize,
    /// The filter; without one no packet is traced.
    filter: Option<Arc<PacketFilter>>,
    /// Source of changes of the filter, and the number of changes that this tracer has seen.
    control: Option<(Arc<TraceControl>, u64)>,
    sample: SamplingRate,
    /// Number of matching packets to skip before the next trace.
    until_next: u64,
    /// True if no more packets may be traced.
    is_over: bool,
    tally: Arc<TraceCounts>,
    deliver: Box<dyn FnMut(TracedPacket) + Send>,
}

impl PacketTracer {
    /// Returns a tracer for this worker. Traces are passed to `deliver`.
    pub fn new(
        worker: usize,
        filter: &Arc<PacketFilter>,
        sample: SamplingRate,
        tally: &Arc<TraceCounts>,
        deliver: impl FnMut(TracedPacket) + Send + 'static,
    ) -> PacketTracer {
        PacketTracer {
            worker,
            filter: Some(Arc::clone(filter)),
            control: None,
            sample,
            until_next: 0,
            is_over: false,
            tally: Arc::clone(tally),
            deliver: Box::new(deliver),
        }
    }

    /// Returns a tracer for this worker that traces what `control` is set to.
    pub fn controlled(
        worker: usize,
        control: &Arc<TraceControl>,
        tally: &Arc<TraceCounts>,
        deliver: impl FnMut(TracedPacket) + Send + 'static,
    ) -> PacketTracer {
        PacketTracer {
            worker,
            filter: None,
            control: Some((Arc::clone(control), 0)),
            sample: SamplingRate::EVERY,
            until_next: 0,
            is_over: false,
            tally: Arc::clone(tally),
            deliver: Box::new(deliver),
        }
    }

    /// Takes the filter that was set since the last burst, if any.
    #[inline]
    fn update(&mut self) {
        if let Some((control, seen)) = &mut self.control {
            let changes = control.changes.load(Acquire);
            if changes != *seen {
                *seen = changes;
                self.filter = control.lock().clone();
            }
        }
    }

    /// Forwards frames, as [`Worker::forward`] does, and traces those that match.
    pub fn forward(
        &mut self,
        worker: &mut Worker,
        frames: &mut [Frame],
        now: Nanos,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.update();
        if self.filter.is_none() {
            return worker.forward(frames, now, sent);
        }
        let mut rest = frames;
        while let Some(at) = rest.iter().position(|frame| self.wants(frame)) {
            let (before, from) = rest.split_at_mut(at);
            if !before.is_empty() {
                worker.forward(before, now, &mut *sent);
            }
            let Some((frame, behind)) = from.split_first_mut() else {
                return;
            };
            self.trace(worker, frame, now, sent);
            rest = behind;
        }
        worker.forward(rest, now, sent);
    }

    /// Forwards a frame of which the steps are wanted anyway, and traces it too if it matches.
    pub(crate) fn forward_traced(
        &mut self,
        worker: &mut Worker,
        frame: &mut Frame,
        now: Nanos,
        steps: &mut Vec<TraceEvent>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.update();
        if !self.wants(frame) {
            return worker.trace(frame, now, steps, sent);
        }
        let (port, bytes) = (frame.ingress, frame.bytes().to_vec());
        let before = steps.len();
        worker.trace(frame, now, steps, sent);
        self.give(worker, now, (port, bytes), steps[before..].to_vec());
    }

    /// Returns true if a packet may be traced.
    pub(crate) fn may_want(&self, frame: &Frame) -> bool {
        !self.is_over && self.matches(frame)
    }

    fn matches(&self, frame: &Frame) -> bool {
        self.filter
            .as_ref()
            .is_some_and(|filter| filter.matches(frame))
    }

    /// Traces a packet that the model NIC has taken, if it must be traced.
    pub(crate) fn trace_in_nic(
        &mut self,
        program: &Arc<Program>,
        frame: &Frame,
        now: Nanos,
        sent: Vec<(PortId, Vec<u8>)>,
    ) {
        if !self.wants(frame) {
            return;
        }
        let (port, bytes) = (frame.ingress, frame.bytes().to_vec());
        let received = TraceEvent::Received {
            port: port.0,
            bytes: bytes.clone(),
        };
        let sent = sent.into_iter().map(|(port, bytes)| TraceEvent::Sent {
            port: port.0,
            bytes,
        });
        (self.deliver)(TracedPacket {
            plane: TracedPlane::Nic,
            program: Arc::clone(program),
            worker: self.worker,
            time: now,
            port,
            bytes,
            events: std::iter::once(received).chain(sent).collect(),
        });
    }

    /// Returns true if a packet must be traced.
    #[inline]
    fn wants(&mut self, frame: &Frame) -> bool {
        !self.is_over && self.matches(frame) && self.takes()
    }

    #[cold]
    fn takes(&mut self) -> bool {
        if let Some(left) = self.until_next.checked_sub(1) {
            self.until_next = left;
            return false;
        }
        let taken = self.tally.take();
        if taken {
            self.until_next = self.sample.0 - 1;
        }
        self.is_over = self.tally.left.load(Relaxed) == 0;
        taken
    }

    fn trace(
        &mut self,
        worker: &mut Worker,
        frame: &mut Frame,
        now: Nanos,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let (port, bytes) = (frame.ingress, frame.bytes().to_vec());
        let mut events = Vec::new();
        worker.trace(frame, now, &mut events, sent);
        self.give(worker, now, (port, bytes), events);
    }

    /// Delivers the trace of a packet.
    fn give(
        &mut self,
        worker: &Worker,
        now: Nanos,
        (port, bytes): (PortId, Vec<u8>),
        events: Vec<TraceEvent>,
    ) {
        (self.deliver)(TracedPacket {
            plane: TracedPlane::Software,
            program: Arc::clone(worker.program()),
            worker: self.worker,
            time: now,
            port,
            bytes,
            events,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_is_traced_and_no_more_than_may_be() {
        let tally = Arc::new(TraceCounts::new(Some(3)));
        let mut watch = PacketTracer::new(
            0,
            &Arc::new(PacketFilter(Condition::All)),
            SamplingRate(10),
            &tally,
            |_| {},
        );
        let frame = Frame::from_bytes(&[0; 60]).unwrap();
        let traced: Vec<usize> = (0..100).filter(|_| watch.wants(&frame)).collect();
        assert_eq!(traced, [0, 10, 20]);
        assert_eq!(tally.counts(), (3, 0));
    }

    #[test]
    fn a_controlled_tracer_follows_the_filter_that_is_set() {
        let control = Arc::new(TraceControl::default());
        let tally = Arc::new(TraceCounts::new(None));
        let mut watch = PacketTracer::controlled(0, &control, &tally, |_| {});
        let frame = Frame::from_bytes(&[0; 60]).unwrap();
        let mut is_traced = |filter: Option<PacketFilter>| {
            control.set(filter);
            watch.update();
            watch.wants(&frame)
        };
        assert!(!is_traced(None));
        assert!(is_traced(Some(PacketFilter(Condition::All))));
        assert!(!is_traced("tcp".parse().ok()));
        assert!(is_traced(Some(PacketFilter(Condition::All))));
        assert!(!is_traced(None));
    }

    #[test]
    fn packets_are_not_traced_while_too_many_traces_wait() {
        let tally = Arc::new(TraceCounts::new(None));
        let mut watch = PacketTracer::new(
            0,
            &Arc::new(PacketFilter(Condition::All)),
            SamplingRate(1),
            &tally,
            |_| {},
        );
        let frame = Frame::from_bytes(&[0; 60]).unwrap();
        let traced = (0..100).filter(|_| watch.wants(&frame)).count() as u64;
        assert_eq!(traced, MAX_WAITING);
        assert_eq!(tally.counts(), (MAX_WAITING, 100 - MAX_WAITING));
        tally.shown();
        assert!(watch.wants(&frame));
    }

    #[test]
    fn a_sample_is_one_of_a_number() {
        assert_eq!("1/1000".parse(), Ok(SamplingRate(1000)));
        assert_eq!("5".parse(), Ok(SamplingRate(5)));
        assert!("1/0".parse::<SamplingRate>().is_err());
        assert!("2/3".parse::<SamplingRate>().is_err());
    }
}
