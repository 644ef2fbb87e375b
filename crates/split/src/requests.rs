//! Requests and responses of a switch: their numbers, and the checks of responses. All workers of
//! a switch share them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exec::DropReason;
use packet::{Frame, PortId};
use passes::split::WireLayout;
use placement::ServerId;

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

/// Requests and responses of a switch.
#[derive(Debug)]
pub struct Requests {
    wire: Wire,
    options: SwitchOptions,
    /// For each place, the number of the outstanding request, plus one.
    outstanding: Box<[AtomicU64]>,
    next: AtomicU64,
    /// Number of answered requests.
    answered: AtomicU64,
    /// Number of requests that had no answer when another one took their place.
    lost: AtomicU64,
    reasons: Reasons,
}

#[derive(Debug)]
struct Reasons {
    unknown: DropReason,
    stale: DropReason,
    duplicate: DropReason,
    no_server: DropReason,
}

impl Requests {
    /// Creates the requests of a switch. None is outstanding.
    pub fn new(layout: &WireLayout, options: SwitchOptions) -> Requests {
        Requests {
            wire: Wire::new(layout),
            options,
            outstanding: (0..MAX_OUTSTANDING).map(|_| AtomicU64::new(0)).collect(),
            next: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            reasons: Reasons {
                unknown: DropReason::named(b"unknown_response"),
                stale: DropReason::named(b"stale_response"),
                duplicate: DropReason::named(b"duplicate_response"),
                no_server: DropReason::named(b"no_server"),
            },
        }
    }

    /// Returns the reader of frames.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Returns the number of requests sent.
    pub fn sent(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Returns the number of requests that have no answer yet, or never will.
    pub fn unanswered(&self) -> u64 {
        self.sent() - self.answered.load(Relaxed)
    }

    /// Returns the number of requests that had no answer when their place was needed for another.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Returns true if frames that leave by this port are requests.
    pub fn is_request_port(&self, port: PortId) -> bool {
        port.0 == self.options.request_port
    }

    /// Checks a received frame: a response of a server, or a frame of a port without a server.
    ///
    /// # Errors
    /// The reason to drop it.
    pub fn check(&self, frame: &Frame) -> Result<(), DropReason> {
        let mut servers = self.options.servers.iter();
        let server = servers.find(|server| server.port == frame.ingress);
        let is_response = self.wire.is_response(frame);
        match server {
            None if !is_response && !self.wire.is_request(frame) => Ok(()),
            None => Err(self.reasons.unknown),
            Some(_) if !is_response || !self.wire.is_whole(frame) => Err(self.reasons.unknown),
            Some(server) if self.wire.server(frame) != server.server.0 => Err(self.reasons.unknown),
            Some(_) if self.wire.epoch(frame) != self.options.epoch => Err(self.reasons.stale),
            Some(_) if !self.take(frame) => Err(self.reasons.duplicate),
            Some(_) => Ok(()),
        }
    }

    /// Takes out the request of a response. Returns false if it is not outstanding.
    fn take(&self, frame: &Frame) -> bool {
        let number = self.wire.sequence(frame);
        let place = &self.outstanding[number as usize % MAX_OUTSTANDING];
        let held = place.load(Relaxed);
        let is_outstanding = held != 0 && (held - 1) as u32 == number;
        let is_taken = is_outstanding && place.compare_exchange(held, 0, Relaxed, Relaxed).is_ok();
        self.answered.fetch_add(u64::from(is_taken), Relaxed);
        is_taken
    }

    /// Completes a request. Returns the port of its server.
    ///
    /// # Errors
    /// There is no server.
    pub fn address(&self, frame: &mut Frame) -> Result<(PortId, SeenRequest), DropReason> {
        let servers = &self.options.servers;
        if servers.is_empty() {
            return Err(self.reasons.no_server);
        }
        let flow = self.wire.flow(frame) as usize;
        let ServerPort { server, port } = servers[flow % servers.len()];
        let number = self.next.fetch_add(1, Relaxed);
        let place = &self.outstanding[number as usize % MAX_OUTSTANDING];
        let before = place.swap(number + 1, Relaxed);
        self.lost.fetch_add(u64::from(before != 0), Relaxed);
        self.wire
            .address(frame, self.options.epoch, server.0, number as u32);
        let cut = self.wire.point(frame);
        Ok((port, SeenRequest { cut, server }))
    }
}
