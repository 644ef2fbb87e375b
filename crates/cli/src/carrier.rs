//! What a station takes frames through: the worker of one device, or that of all virtual data planes of a switch.

use std::os::fd::BorrowedFd;

use exec::DropReason;
use packet::{Batch, Frame, Nanos, PortId};
use switch::Worker;

use crate::watch::Watch;

/// A thread's share of what happens to frames.
pub(crate) trait Carrier: Send {
    /// Frames that it is given at once at most, of one port or of several.
    fn round(&self) -> usize {
        Batch::USUAL
    }

    /// Frames that this port may give in a round at most.
    fn allow(&mut self, _port: PortId) -> usize {
        usize::MAX
    }

    /// A port gave all that it may in a round. Whether it may have more than is its own: then the worker does not keep up.
    fn fills_up(&mut self, _port: PortId) -> bool {
        true
    }

    /// A port may have more frames than it gave in its turn.
    fn falls_behind(&mut self) {}

    /// Takes frames through; those that leave go to `sent`.
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    );

    /// From now on frames are received for it.
    fn receives(&mut self) {}

    /// Puts frames into the batch that come by none of the station's ports.
    fn arrive(&mut self, _batch: &mut Batch, _now: Nanos) {}

    /// When something is to be done that needs no frame.
    fn next_time(&self) -> Option<Nanos>;

    /// Has `wake` called when there is something to do.
    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static);

    /// Descriptors that become readable when frames come by none of the station's ports.
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Counts a frame that left by a port that is not there.
    fn count_drop(&mut self, reason: DropReason);
}

/// The worker of a device, with what watches its packets.
pub(crate) struct Single {
    pub(crate) worker: Worker,
    pub(crate) watch: Option<Watch>,
}

impl Carrier for Single {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        match &mut self.watch {
            Some(watch) => watch.forward(&mut self.worker, frames, now, &mut sent),
            None => self.worker.forward(frames, now, sent),
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        self.worker.next_time()
    }

    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.worker.wake_by(wake);
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.worker.count_drop(reason);
    }
}

impl Carrier for tenancy::Worker {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.forward(frames, now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        self.next_time()
    }

    fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.wake_by(wake);
    }

    /// Which ports the switch has was asked when its vPDPs were made.
    fn count_drop(&mut self, _reason: DropReason) {}
}
