//! The switch: gives requests to servers, and checks responses before the device of the switch half
//! gets them.

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use passes::split::WireLayout;
use placement::ServerId;
use switch::{Ledger, PacketProcessor};

use crate::server_half::keep;
use crate::wire::Wire;

/// Number of requests that can be outstanding. Of an older one the response is a duplicate.
const MAX_OUTSTANDING: usize = 1 << 16;

/// Port of the switch at which a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPort {
    /// The server.
    pub server: ServerId,
    /// The port.
    pub port: PortId,
}

/// Options of a switch half.
#[derive(Clone, Debug)]
pub struct SwitchOptions {
    /// The servers, at least one.
    pub servers: Vec<ServerPort>,
    /// Egress port of requests in the program.
    pub request_port: u32,
    /// Number of the program's version.
    pub epoch: u16,
}

/// A request that leaves, as the placement of entries sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenRequest {
    /// Number of the cut, from 1.
    pub cut: u16,
    /// The server.
    pub server: ServerId,
}

/// Packet processor of a switch around the device of the switch half.
pub struct SwitchHalf<P> {
    inner: P,
    requests: Requests,
}

/// Requests and responses of a switch.
struct Requests {
    wire: Wire,
    options: SwitchOptions,
    /// For each place, the number of the outstanding request, plus one.
    outstanding: Vec<u64>,
    next: u64,
    /// Numbers of answered requests, and of those whose place another one has taken.
    answered: u64,
    lost: u64,
    ledger: Ledger,
    reasons: Reasons,
}

struct Reasons {
    unknown: DropReason,
    stale: DropReason,
    duplicate: DropReason,
    no_server: DropReason,
}

impl<P: PacketProcessor> SwitchHalf<P> {
    /// Creates a switch around its device.
    pub fn new(inner: P, layout: &WireLayout, options: SwitchOptions) -> SwitchHalf<P> {
        SwitchHalf {
            inner,
            requests: Requests {
                wire: Wire::new(layout),
                options,
                outstanding: vec![0; MAX_OUTSTANDING],
                next: 0,
                answered: 0,
                lost: 0,
                ledger: Ledger::default(),
                reasons: Reasons {
                    unknown: DropReason::named(b"unknown_response"),
                    stale: DropReason::named(b"stale_response"),
                    duplicate: DropReason::named(b"duplicate_response"),
                    no_server: DropReason::named(b"no_server"),
                },
            },
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

    /// Returns the reader of frames.
    pub fn wire(&self) -> &Wire {
        &self.requests.wire
    }

    /// Returns the counts of frames that the device did not get, or that no server got.
    pub fn refused(&self) -> &Ledger {
        &self.requests.ledger
    }

    /// Returns the number of requests sent.
    pub fn requests(&self) -> u64 {
        self.requests.next
    }

    /// Returns the number of requests that have no answer yet, or never will.
    pub fn unanswered(&self) -> u64 {
        self.requests.next - self.requests.answered
    }

    /// Returns the number of requests that had no answer when their place was needed for another.
    pub fn lost(&self) -> u64 {
        self.requests.lost
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
        let SwitchHalf { inner, requests } = self;
        let kept = keep(frames, |frame| requests.accepts(frame));
        let request_port = PortId(requests.options.request_port);
        inner.forward(&mut frames[..kept], now, |port, frame, time| {
            if port != request_port {
                return sent(port, frame, time);
            }
            if let Some((to, request)) = requests.address(frame) {
                seen(&requests.wire, frame, request);
                sent(to, frame, time);
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

impl Requests {
    /// Returns true if the device may get the frame. Otherwise counts it as dropped.
    fn accepts(&mut self, frame: &Frame) -> bool {
        let mut servers = self.options.servers.iter();
        let server = servers.find(|server| server.port == frame.ingress).copied();
        let is_response = self.wire.is_response(frame);
        let reason = match server {
            None if !is_response && !self.wire.is_request(frame) => return true,
            None => self.reasons.unknown,
            Some(_) if !is_response || !self.wire.is_whole(frame) => self.reasons.unknown,
            Some(server) if self.wire.server(frame) != server.server.0 => self.reasons.unknown,
            Some(_) if self.wire.epoch(frame) != self.options.epoch => self.reasons.stale,
            Some(_) if !self.is_answer(frame) => self.reasons.duplicate,
            Some(_) => return true,
        };
        self.ledger.refuse(1, reason);
        false
    }

    /// Returns true if the request of a response is outstanding, and takes it out.
    fn is_answer(&mut self, frame: &Frame) -> bool {
        let number = self.wire.sequence(frame);
        let place = &mut self.outstanding[number as usize % MAX_OUTSTANDING];
        let is_outstanding = *place != 0 && (*place - 1) as u32 == number;
        if is_outstanding {
            *place = 0;
            self.answered += 1;
        }
        is_outstanding
    }

    /// Completes a request. Returns its port, or `None` if there is no server: it is then counted
    /// as dropped.
    fn address(&mut self, frame: &mut Frame) -> Option<(PortId, SeenRequest)> {
        let servers = &self.options.servers;
        if servers.is_empty() {
            self.ledger.refuse(1, self.reasons.no_server);
            return None;
        }
        let flow = self.wire.flow(frame) as usize;
        let ServerPort { server, port } = servers[flow % servers.len()];
        let number = self.next;
        self.next += 1;
        let place = &mut self.outstanding[number as usize % MAX_OUTSTANDING];
        self.lost += u64::from(*place != 0);
        *place = number + 1;
        self.wire
            .address(frame, self.options.epoch, server.0, number as u32);
        let cut = self.wire.point(frame);
        Some((port, SeenRequest { cut, server }))
    }
}
