//! A server: checks requests before the device of the server half gets them.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use passes::split::WireLayout;
use switch::{Ledger, PacketProcessor};

use crate::wire::Wire;

/// Packet processor of a server around the device of the server half.
pub struct ServerHalf<P> {
    inner: P,
    wire: Arc<Wire>,
    ledger: Ledger,
    not_a_request: DropReason,
    cut_short: DropReason,
}

impl<P: PacketProcessor> ServerHalf<P> {
    /// Creates a server around its device.
    pub fn new(inner: P, layout: &WireLayout) -> ServerHalf<P> {
        ServerHalf {
            inner,
            wire: Arc::new(Wire::new(layout)),
            ledger: Ledger::default(),
            not_a_request: DropReason::named(b"not_a_request"),
            cut_short: DropReason::named(b"short_request"),
        }
    }

    /// Returns the device.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Returns the device for changes.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Returns the counts of frames that the device did not get.
    pub fn refused(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns true if the device may get the frame. Otherwise counts it as dropped.
    fn accepts(&mut self, frame: &Frame) -> bool {
        let reason = match (self.wire.is_request(frame), self.wire.is_whole(frame)) {
            (true, true) => return true,
            (true, false) => self.cut_short,
            (false, _) => self.not_a_request,
        };
        self.ledger.refuse(1, reason);
        false
    }
}

impl<P: PacketProcessor> PacketProcessor for ServerHalf<P> {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let kept = keep(frames, |frame| self.accepts(frame));
        self.inner.forward(&mut frames[..kept], now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        self.inner.next_time()
    }
}

/// Moves the frames that `accepts` returns true for to the front, in their order. Returns their
/// number.
pub(crate) fn keep(frames: &mut [Frame], mut accepts: impl FnMut(&Frame) -> bool) -> usize {
    let mut kept = 0;
    for at in 0..frames.len() {
        if accepts(&frames[at]) {
            frames.swap(kept, at);
            kept += 1;
        }
    }
    kept
}
