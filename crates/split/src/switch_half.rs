//! The switch: gives requests to servers, and checks responses before the device of the switch half
//! gets them.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use switch::{FrameFilter, Ledger, PacketProcessor, keep_frames};

use crate::requests::{Requests, SeenRequest};
use crate::wire::Wire;

/// Filter of the frames of a worker of the switch half.
pub struct SwitchFilter(pub Arc<Requests>);

impl FrameFilter for SwitchFilter {
    fn receive(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.0.check(frame)
    }

    fn send(&mut self, port: PortId, frame: &mut Frame) -> Result<PortId, DropReason> {
        match self.0.is_request_port(port) {
            true => self.0.address(frame).map(|(port, _)| port),
            false => Ok(port),
        }
    }
}

/// Packet processor of a switch around the device of the switch half.
pub struct SwitchHalf<P> {
    inner: P,
    requests: Arc<Requests>,
    ledger: Ledger,
}

impl<P: PacketProcessor> SwitchHalf<P> {
    /// Creates a switch around its device.
    pub fn new(inner: P, requests: Arc<Requests>) -> SwitchHalf<P> {
        SwitchHalf {
            inner,
            requests,
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

    /// Returns the requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Returns the counts of frames that the device did not get, or that no server got.
    pub fn refused(&self) -> &Ledger {
        &self.ledger
    }

    /// Does the same as [`PacketProcessor::forward`], and passes each request to `seen` before it
    /// leaves.
    pub fn forward_and_see(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        mut sent: impl FnMut(PortId, &mut Frame, Nanos),
        mut seen: impl FnMut(&Wire, &Frame, SeenRequest),
    ) {
        let SwitchHalf {
            inner,
            requests,
            ledger,
        } = self;
        let kept = keep_frames(frames, |frame| match requests.check(frame) {
            Ok(()) => true,
            Err(reason) => {
                ledger.refuse(1, reason);
                false
            }
        });
        inner.forward(&mut frames[..kept], now, |port, frame, time| {
            if !requests.is_request_port(port) {
                return sent(port, frame, time);
            }
            match requests.address(frame) {
                Ok((to, request)) => {
                    seen(requests.wire(), frame, request);
                    sent(to, frame, time);
                }
                Err(reason) => ledger.refuse(1, reason),
            }
        });
    }
}

impl<P: PacketProcessor> PacketProcessor for SwitchHalf<P> {
    fn forward(
        &mut self,
        frames: &mut [Frame],
        now: Nanos,
        sent: impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.forward_and_see(frames, now, sent, |_, _, _| {});
    }

    fn next_time(&self) -> Option<Nanos> {
        self.inner.next_time()
    }
}
