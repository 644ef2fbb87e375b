//! A worker's side of observation: it takes frames that observers want out of their burst, and
//! sees the frames that leave.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use exec::{DropReason, TraceEvent, drop_lost};
use packet::{Frame, Nanos, PortId};
use port::{FrameDirection, Port, Reason};

use super::drop_sites::{DropSampler, DropSites};
use super::{Observer, Observers, PacketObservers, SeenFrame, Wish, wall_clock};
use crate::packet_processor::ThreadProcessor;
use crate::trace_filter::{TracedPacket, TracedPlane};

/// The observers of received frames.
pub(crate) struct ReceivedObservers {
    worker: usize,
    control: Arc<PacketObservers>,
    seen: u64,
    all: Observers,
    /// Bit set of the observers that take the present frame.
    takers: u64,
    sites: Arc<DropSites>,
    sampler: DropSampler,
}

impl ReceivedObservers {
    pub(crate) fn new(
        worker: usize,
        control: &Arc<PacketObservers>,
        sites: &Arc<DropSites>,
    ) -> ReceivedObservers {
        ReceivedObservers {
            worker,
            control: Arc::clone(control),
            seen: 0,
            all: Arc::default(),
            takers: 0,
            sites: Arc::clone(sites),
            sampler: DropSampler::default(),
        }
    }

    /// Looks at the drops of a processor that has a program of its own, which decide about the next
    /// samples.
    pub(crate) fn look<C: ThreadProcessor>(&mut self, processor: &C, now: Nanos) {
        if processor.program().is_some() {
            self.sampler.look(now, || processor.dropped());
        }
    }

    /// Forwards frames as the processor does, one of them step by step if drops are sampled now.
    /// `stranded` counts the frames that leave by a port that does not exist.
    #[inline]
    pub(crate) fn forward_sampled<C: ThreadProcessor>(
        &mut self,
        processor: &mut C,
        frames: &mut [Frame],
        now: Nanos,
        stranded: &Cell<u64>,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        match self.sampler.choose(frames.len()) {
            None => processor.forward(frames, now, sent),
            Some(at) => self.sample(processor, (frames, at), now, stranded, sent),
        }
    }

    #[cold]
    fn sample<C: ThreadProcessor>(
        &mut self,
        processor: &mut C,
        (frames, at): (&mut [Frame], usize),
        now: Nanos,
        stranded: &Cell<u64>,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let (before, from) = frames.split_at_mut(at);
        if !before.is_empty() {
            processor.forward(before, now, &mut sent);
        }
        let Some((frame, after)) = from.split_first_mut() else {
            return;
        };
        let begin = Instant::now();
        let mut steps = Vec::new();
        let dropped = forward_alone(processor, frame, now, stranded, Some(&mut steps), &mut sent);
        self.sampler.took(begin.elapsed());
        if let (Some(_), Some(program)) = (dropped, processor.program()) {
            self.sampler.count(&self.sites, program, &steps);
        }
        if !after.is_empty() {
            processor.forward(after, now, sent);
        }
    }

    /// Takes the changes since the last round. Returns true if there are observers.
    #[inline]
    pub(crate) fn update(&mut self) -> bool {
        if let Some(all) = self.control.changed_since(&mut self.seen) {
            self.all = all;
        }
        !self.all.is_empty()
    }

    /// Returns true if an observer takes the frame.
    #[inline]
    fn wants(&mut self, frame: &Frame) -> bool {
        self.takers = 0;
        let (port, bytes) = (frame.ingress, frame.bytes());
        for (number, observer) in self.all.iter().enumerate() {
            if observer.matches(port, bytes) && observer.takes(wall_clock()) {
                self.takers |= 1 << number;
            }
        }
        self.takers != 0
    }

    /// Forwards frames as the processor does, and those that observers take one by one. `stranded`
    /// counts the frames that leave by a port that does not exist.
    pub(crate) fn forward<C: ThreadProcessor>(
        &mut self,
        processor: &mut C,
        frames: &mut [Frame],
        now: Nanos,
        stranded: &Cell<u64>,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let mut rest = frames;
        while let Some(at) = rest.iter().position(|frame| self.wants(frame)) {
            let (before, from) = rest.split_at_mut(at);
            if !before.is_empty() {
                processor.forward(before, now, &mut sent);
            }
            let Some((frame, after)) = from.split_first_mut() else {
                return;
            };
            self.observe(processor, frame, now, stranded, &mut sent);
            rest = after;
            if rest.is_empty() {
                return;
            }
        }
        processor.forward(rest, now, sent);
    }

    fn observe<C: ThreadProcessor>(
        &self,
        processor: &mut C,
        frame: &mut Frame,
        now: Nanos,
        stranded: &Cell<u64>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let (port, bytes, time) = (frame.ingress, frame.bytes().to_vec(), wall_clock());
        let numbered = self.all.iter().enumerate();
        let takers = numbered.filter(|(number, _)| self.takers & 1 << number != 0);
        let takers: Vec<&Observer> = takers.map(|(_, observer)| &**observer).collect();
        let needs_steps = takers.iter().any(|taker| !taker.wants_frames());
        let mut steps = needs_steps.then(Vec::new);
        let dropped = forward_alone(processor, frame, now, stranded, steps.as_mut(), sent);
        let program = processor.program();
        for taker in takers {
            match &taker.wish {
                Wish::Frames { .. } => taker.capture(SeenFrame {
                    port,
                    direction: FrameDirection::Received,
                    time,
                    bytes: &bytes,
                    dropped: dropped.map(DropReason::name),
                }),
                Wish::Paths(table) => {
                    let (Some(program), Some(steps)) = (program, &steps) else {
                        taker.budget.give_back();
                        continue;
                    };
                    table.count(program, port, bytes.len(), steps);
                    taker.budget.delivered();
                }
                Wish::Traces(deliver) => {
                    let (Some(program), Some(steps)) = (program, &steps) else {
                        taker.budget.give_back();
                        continue;
                    };
                    let traced = TracedPacket {
                        plane: TracedPlane::Software,
                        program: Arc::clone(program),
                        worker: self.worker,
                        time: now,
                        port,
                        bytes: bytes.clone(),
                        events: steps.clone(),
                    };
                    deliver(traced, &taker.budget);
                }
            }
        }
    }
}

/// Forwards a frame alone. What leaves by a port that does not exist, as `stranded` counts, has a
/// drop in the steps. Returns the drop reason of the frame or of a copy, if there is one.
fn forward_alone<C: ThreadProcessor>(
    processor: &mut C,
    frame: &mut Frame,
    now: Nanos,
    stranded: &Cell<u64>,
    mut steps: Option<&mut Vec<TraceEvent>>,
    sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
) -> Option<DropReason> {
    let mut lost = Vec::new();
    let mut out = |port: PortId, frame: &mut Frame, time: Nanos| {
        let before = stranded.get();
        sent(port, frame, time);
        if stranded.get() > before {
            lost.push((port.0, DropReason::NoSuchPort));
        }
    };
    let dropped = processor.forward_alone(frame, now, steps.as_deref_mut(), &mut out);
    if let Some(steps) = steps {
        drop_lost(steps, &lost);
    }
    match lost.first() {
        Some((_, reason)) => Some(*reason),
        None => dropped,
    }
}

/// The observers of frames that leave by ports.
pub(crate) struct SentObservers {
    control: Arc<PacketObservers>,
    seen: u64,
    all: Vec<Arc<Observer>>,
    /// Bit set of the observers that take the present frame.
    takers: u64,
}

impl SentObservers {
    pub(crate) fn new(control: &Arc<PacketObservers>) -> SentObservers {
        SentObservers {
            control: Arc::clone(control),
            seen: 0,
            all: Vec::new(),
            takers: 0,
        }
    }

    /// Takes the changes since the last round.
    #[inline]
    pub(crate) fn update(&mut self) {
        if let Some(all) = self.control.changed_since(&mut self.seen) {
            let of_frames = all.iter().filter(|observer| observer.wants_frames());
            self.all = of_frames.cloned().collect();
        }
    }

    /// Returns true if an observer takes the frame, which leaves by this port.
    fn wants(&mut self, port: PortId, frame: &Frame) -> bool {
        self.takers = 0;
        for (number, observer) in self.all.iter().enumerate() {
            if observer.matches(port, frame.bytes()) && observer.takes(wall_clock()) {
                self.takers |= 1 << number;
            }
        }
        self.takers != 0
    }

    /// Sends frames by a port. Those that an observer captures are sent one by one, so that what
    /// the port does with them is known.
    pub(crate) fn send(&mut self, port: &mut dyn Port, frames: &[Frame]) {
        if self.all.is_empty() {
            port.tx(frames);
            return;
        }
        let id = port.id();
        let mut rest = frames;
        while let Some(at) = rest.iter().position(|frame| self.wants(id, frame)) {
            let (before, from) = rest.split_at(at);
            if !before.is_empty() {
                port.tx(before);
            }
            let Some((frame, after)) = from.split_first() else {
                return;
            };
            self.send_one(port, frame);
            rest = after;
        }
        if !rest.is_empty() {
            port.tx(rest);
        }
    }

    fn send_one(&self, port: &mut dyn Port, frame: &Frame) {
        let time = wall_clock();
        let outcome = port.tx(std::slice::from_ref(frame));
        let dropped = outcome.dropped.iter().find(|(_, frames)| *frames > 0);
        let dropped = dropped.map(|(reason, _)| reason.name());
        for (number, observer) in self.all.iter().enumerate() {
            if self.takers & 1 << number != 0 {
                observer.capture(SeenFrame {
                    port: port.id(),
                    direction: FrameDirection::Sent,
                    time,
                    bytes: frame.bytes(),
                    dropped,
                });
            }
        }
    }
}
