//! Packet processor of a worker thread: the worker of one device, or that of all virtual data
//! planes of a switch.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use exec::{DropReason, TraceEvent};
use ir::Program;
use offload_runtime::NicFront;
use packet::{Batch, Frame, Nanos, PortId};
use switch::{FrameFilter, PacketProcessor, Worker, forward_after, keep_frames};

use crate::trace_filter::PacketTracer;

/// Packet processor of one worker thread. The methods beyond those of [`PacketProcessor`] are for
/// the thread's ports and its sleep.
pub trait ThreadProcessor: PacketProcessor + Send {
    /// Maximum number of frames in one batch, of one port or of several.
    fn round(&self) -> usize {
        Batch::DEFAULT
    }

    /// Maximum number of frames that this port may give in a round.
    fn allow(&mut self, _port: PortId) -> usize {
        usize::MAX
    }

    /// Notes that a port gave all frames that it was allowed to. Returns true if that may exceed
    /// its own share: the worker then counts as overloaded.
    fn fills_up(&mut self, _port: PortId) -> bool {
        true
    }

    /// Notes that a port may have more frames than it gave in its turn.
    fn falls_behind(&mut self) {}

    /// Notes that frames are received for this processor from now on.
    fn receives(&mut self) {}

    /// Adds frames to the batch that do not arrive by a port of the thread.
    fn arrive(&mut self, _batch: &mut Batch, _now: Nanos) {}

    /// Registers `wake`, which is called when there is work.
    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static);

    /// Returns descriptors that become readable when frames arrive, but not by a port of the
    /// thread.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Counts a frame that left by a port that does not exist.
    fn count_drop(&mut self, reason: DropReason);

    /// Forwards one frame as [`PacketProcessor::forward`] does. Returns the reason for which it, or
    /// a copy of it, was dropped, as far as the processor knows. Appends the steps of the packet to
    /// `steps`, if the processor can trace.
    fn forward_alone(
        &mut self,
        frame: &mut Frame,
        now: Nanos,
        _steps: Option<&mut Vec<TraceEvent>>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> Option<DropReason> {
        self.forward(std::slice::from_mut(frame), now, sent);
        None
    }

    /// Returns the program that all packets run, if there is one.
    fn program(&self) -> Option<&Arc<Program>> {
        None
    }

    /// Returns the number of packets that the program or the device has dropped.
    fn dropped(&self) -> u64 {
        0
    }
}

/// The place before a worker where the model NIC takes frames.
pub(crate) struct FrontOfWorker {
    front: NicFront,
    /// A frame that the NIC sends.
    frame: Frame,
}

impl FrontOfWorker {
    pub(crate) fn new(front: NicFront) -> FrontOfWorker {
        FrontOfWorker {
            front,
            frame: Frame::default(),
        }
    }

    /// Lets the NIC take its frames. Returns the number of the others, which are at the front then.
    fn take(
        &mut self,
        (worker, watch): (&Worker, &mut Option<PacketTracer>),
        frames: &mut [Frame],
        now: Nanos,
        mut steps: Option<&mut Vec<TraceEvent>>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> usize {
        let mut burst = self.front.begin(now);
        let out = &mut self.frame;
        keep_frames(frames, |frame| {
            let watch = watch.as_mut().filter(|watch| watch.may_want(frame));
            let mut traced = Vec::new();
            let is_taken = burst.takes(frame.ingress, frame.bytes(), |port, bytes| {
                if let Some(steps) = &mut steps {
                    steps.push(TraceEvent::Sent {
                        port: port.0,
                        bytes: bytes.to_vec(),
                    });
                }
                if watch.is_some() {
                    traced.push((port, bytes.to_vec()));
                }
                // A flow has no edit that makes a frame longer than the longest one.
                if out.assign(bytes).is_ok() {
                    sent(port, out, now);
                }
            });
            if let Some(watch) = watch.filter(|_| is_taken) {
                watch.trace_in_nic(worker.program(), frame, now, traced);
            }
            !is_taken
        })
    }
}

/// The worker of a device, with its packet tracer and the filter of its frames.
pub(crate) struct Single {
    pub(crate) worker: Worker,
    pub(crate) watch: Option<PacketTracer>,
    pub(crate) filter: Option<Box<dyn FrameFilter>>,
    pub(crate) front: Option<FrontOfWorker>,
    /// Frames that the filter held and that go on in this burst.
    pub(crate) before: Vec<Frame>,
}

impl Single {
    fn forward_unfiltered(
        worker: &mut Worker,
        watch: &mut Option<PacketTracer>,
        frames: &mut [Frame],
        now: Nanos,
        steps: Option<&mut Vec<TraceEvent>>,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        if let Some(steps) = steps {
            for frame in frames {
                match watch {
                    Some(watch) => watch.forward_traced(worker, frame, now, steps, &mut sent),
                    None => worker.trace(frame, now, steps, &mut sent),
                }
            }
            return;
        }
        match watch {
            Some(watch) => watch.forward(worker, frames, now, &mut sent),
            None => worker.forward(frames, now, sent),
        }
    }
}

impl Single {
    /// Forwards frames, and appends their steps to `steps` if it is given.
    fn forward_with(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut steps: Option<&mut Vec<TraceEvent>>,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let Single {
            worker,
            watch,
            filter,
            front,
            before,
        } = self;
        let frames = match front {
            Some(front) => {
                let steps = steps.as_deref_mut();
                let kept = front.take((&*worker, watch), frames, now, steps, &mut sent);
                &mut frames[..kept]
            }
            None => frames,
        };
        let Some(filter) = filter else {
            return Single::forward_unfiltered(worker, watch, frames, now, steps, sent);
        };
        filter.begin(now, before);
        let kept = keep_frames(frames, |frame| match filter.receive(frame) {
            Ok(()) => true,
            Err(reason) => {
                worker.refuse(1, reason);
                false
            }
        });
        // At most a few frames of a burst have no server.
        let mut dropped = Vec::new();
        forward_after(before, &mut frames[..kept], |frames| {
            Single::forward_unfiltered(worker, watch, frames, now, steps, |port, frame, time| {
                match filter.send(port, frame) {
                    Ok(Some(port)) => sent(port, frame, time),
                    Ok(None) => {}
                    Err(reason) => dropped.push(reason),
                }
            });
        });
        filter.end(before);
        dropped
            .into_iter()
            .for_each(|reason| worker.count_drop(reason));
    }
}

impl PacketProcessor for Single {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.forward_with(frames, now, None, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        match &self.filter {
            // A frame that the filter holds may go on at any time.
            Some(filter) if filter.held() > 0 => Some(Nanos(0)),
            _ => self.worker.next_time(),
        }
    }
}

impl ThreadProcessor for Single {
    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.worker.wake_by(wake);
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.worker.count_drop(reason);
    }

    fn forward_alone(
        &mut self,
        frame: &mut Frame,
        now: Nanos,
        steps: Option<&mut Vec<TraceEvent>>,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> Option<DropReason> {
        // What is due is done first, so that the drops below are of this packet.
        self.forward(&mut [], now, &mut *sent);
        let before = self.worker.ledger().clone();
        self.forward_with(std::slice::from_mut(frame), now, steps, sent);
        self.worker.ledger().first_drop_since(&before)
    }

    fn program(&self) -> Option<&Arc<Program>> {
        Some(self.worker.program())
    }

    fn dropped(&self) -> u64 {
        self.worker.ledger().all_dropped()
    }
}

impl ThreadProcessor for tenancy::Worker {
    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.wake_by(wake);
    }

    /// Does nothing: ports are checked when the vPDPs are created.
    fn count_drop(&mut self, _reason: DropReason) {}
}
