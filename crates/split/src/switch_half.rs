//! The switch: gives requests to servers, and checks responses before the device of the switch half
//! gets them.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use switch::{FrameFilter, Ledger, PacketProcessor, forward_after, keep_frames};

use crate::requests::{Requests, SeenRequest};
use crate::wire::Wire;
use crate::worker::SwitchWorker;

/// Filter of the frames of a worker of the switch half.
pub struct SwitchFilter(SwitchWorker);

impl SwitchFilter {
    /// Creates the filter of one more worker.
    pub fn new(requests: Arc<Requests>) -> SwitchFilter {
        SwitchFilter(SwitchWorker::new(requests))
    }
}

impl FrameFilter for SwitchFilter {
    fn begin(&mut self, now: Nanos, before: &mut Vec<Frame>) {
        self.0.begin(now, before);
    }

    fn end(&mut self, before: &mut Vec<Frame>) {
        self.0.end(before.drain(..));
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn receive(&mut self, frame: &Frame) -> Result<(), DropReason> {
        self.0.check(frame)
    }

    fn send(&mut self, port: PortId, frame: &mut Frame) -> Result<Option<PortId>, DropReason> {
        match self.0.requests().is_request_port(port) {
            true => Ok(self.0.address(frame)?.map(|(port, _)| port)),
            false => Ok(Some(port)),
        }
    }
}

/// Packet processor of a switch around the device of the switch half.
pub struct SwitchHalf<P> {
    inner: P,
    worker: SwitchWorker,
    /// Held requests that go on in this burst.
    before: Vec<Frame>,
    ledger: Ledger,
}

impl<P: PacketProcessor> SwitchHalf<P> {
    /// Creates a switch around its device.
    pub fn new(inner: P, requests: Arc<Requests>) -> SwitchHalf<P> {
        SwitchHalf {
            inner,
            worker: SwitchWorker::new(requests),
            before: Vec::new(),
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
    pub fn requests(&self) -> &Arc<Requests> {
        self.worker.requests()
    }

    /// Returns the number of requests that the switch holds.
    pub fn held(&self) -> usize {
        self.worker.held()
    }

    /// Returns true if a held request goes on in the next call.
    pub fn has_ready(&self) -> bool {
        self.worker.has_ready()
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
            worker,
            before,
            ledger,
        } = self;
        worker.begin(now, before);
        let kept = keep_frames(frames, |frame| match worker.check(frame) {
            Ok(()) => true,
            Err(reason) => {
                ledger.refuse(1, reason);
                false
            }
        });
        forward_after(before, &mut frames[..kept], |frames| {
            inner.forward(frames, now, |port, frame, time| {
                if !worker.requests().is_request_port(port) {
                    return sent(port, frame, time);
                }
                match worker.address(frame) {
                    Ok(Some((to, request))) => {
                        seen(worker.requests().wire(), frame, request);
                        sent(to, frame, time);
                    }
                    Ok(None) => {}
                    Err(reason) => ledger.refuse(1, reason),
                }
            });
        });
        worker.end(before.drain(..));
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
