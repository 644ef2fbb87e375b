//! A server: checks requests before the device of the server half gets them.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use passes::split::WireLayout;
use switch::{FrameFilter, Ledger, PacketProcessor, keep_frames};

use crate::known_flows::KnownFlows;
use crate::requests::NO_FLOW;
use crate::wire::Wire;

/// Filter of the frames of a worker of the server half.
#[derive(Clone, Debug)]
pub struct ServerFilter {
    wire: Arc<Wire>,
    flows: Arc<KnownFlows>,
    now: Nanos,
    not_a_request: DropReason,
    stale: DropReason,
    cut_short: DropReason,
}

impl ServerFilter {
    /// Creates the filter for frames of this layout.
    pub fn new(layout: &WireLayout) -> ServerFilter {
        ServerFilter {
            wire: Arc::new(Wire::new(layout)),
            flows: Arc::default(),
            now: Nanos(0),
            not_a_request: DropReason::named(b"not_a_request"),
            stale: DropReason::named(b"stale_request"),
            cut_short: DropReason::named(b"short_request"),
        }
    }

    /// Returns the flows that the server knows. Clones of a filter share them.
    pub fn known_flows(&self) -> &Arc<KnownFlows> {
        &self.flows
    }

    /// Checks a frame received at this time, and notes its flow.
    ///
    /// # Errors
    /// The reason to drop it: it is no request, one of another program, or too short for one.
    pub fn check(&self, frame: &Frame, now: Nanos) -> Result<(), DropReason> {
        if !self.wire.is_request(frame) {
            return Err(self.not_a_request);
        }
        if !self.wire.has_epoch(frame) {
            return Err(self.stale);
        }
        if !self.wire.is_whole(frame) {
            return Err(self.cut_short);
        }
        let flow = self.wire.flow(frame);
        if flow != NO_FLOW {
            self.flows.note(flow, now);
        }
        Ok(())
    }
}

impl FrameFilter for ServerFilter {
    fn begin(&mut self, now: Nanos, _: &mut Vec<Frame>) {
        self.now = now;
    }

    fn receive(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.check(frame, self.now)
    }

    fn send(&mut self, port: PortId, _: &mut Frame) -> Result<Option<PortId>, DropReason> {
        Ok(Some(port))
    }
}

/// Packet processor of a server around the device of the server half.
pub struct ServerHalf<P> {
    inner: P,
    filter: ServerFilter,
    ledger: Ledger,
}

impl<P: PacketProcessor> ServerHalf<P> {
    /// Creates a server around its device.
    pub fn new(inner: P, filter: ServerFilter) -> ServerHalf<P> {
        ServerHalf {
            inner,
            filter,
            ledger: Ledger::default(),
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

    /// Returns the flows that the server knows.
    pub fn known_flows(&self) -> &Arc<KnownFlows> {
        self.filter.known_flows()
    }

    /// Returns the counts of frames that the device did not get.
    pub fn refused(&self) -> &Ledger {
        &self.ledger
    }
}

impl<P: PacketProcessor> PacketProcessor for ServerHalf<P> {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let ServerHalf {
            inner,
            filter,
            ledger,
        } = self;
        let kept = keep_frames(frames, |frame| match filter.check(frame, now) {
            Ok(()) => true,
            Err(reason) => {
                ledger.refuse(1, reason);
                false
            }
        });
        inner.forward(&mut frames[..kept], now, sent);
    }

    fn next_time(&self) -> Option<Nanos> {
        self.inner.next_time()
    }
}
