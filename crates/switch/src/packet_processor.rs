//! Packet processors: devices, workers, and all that forwards frames as they do.

use packet::{Frame, Nanos, PortId};

use crate::{Device, Worker};

/// Forwards frames on the calling thread, in bursts, at times that the caller gives.
pub trait PacketProcessor {
    /// Processes received frames, each with its ingress port, at time `now`, which never goes back.
    /// Passes each frame that leaves to `sent`, with its egress port and its transmission time. The
    /// contents of `frames` are unspecified afterwards. Without frames, it does the work that is
    /// due.
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    );

    /// Returns the time of the next work that needs no frame.
    fn next_time(&self) -> Option<Nanos>;
}

impl PacketProcessor for Device {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        Device::forward(self, frames, now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        Device::next_time(self)
    }
}

impl PacketProcessor for Worker {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        Worker::forward(self, frames, now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        Worker::next_time(self)
    }
}
