//! A host of a simulated fabric with mappers and reducers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::rc::Rc;

use fabric::topology::{BitRate, LinkSpec};
use fabric::{Node, NodeCounts};
use packet::{Nanos, PortId};

use crate::datagram::{self, Endpoint};
use crate::message::{Message, PORTS};
use crate::role::Role;

/// Name of the drop reason for frames that are no message for this host.
const NOT_FOR_US: &str = "not_for_this_host";

/// A mapper or a reducer of a simulated host.
pub(crate) type HostRole = Role<Endpoint>;

/// Mappers and reducers of a host, shared with the one who reads their results.
pub(crate) type Roles = Rc<RefCell<Vec<HostRole>>>;

/// A simulated host.
pub(crate) struct HostNode {
    own: Endpoint,
    roles: Roles,
    rate: Option<BitRate>,
    free_at: Nanos,
    /// Frames with the start of their transmission.
    sent: VecDeque<(Vec<u8>, Nanos)>,
    /// The role that sends next: they take turns.
    turn: usize,
    /// True if a role may send more when the link is free.
    is_limited: bool,
    counts: NodeCounts,
    other: u64,
}

impl HostNode {
    /// Creates a host.
    pub(crate) fn new(mac: [u8; 6], address: Ipv4Addr, roles: Roles) -> HostNode {
        HostNode {
            own: endpoint(mac, address),
            roles,
            rate: None,
            free_at: Nanos::ZERO,
            sent: VecDeque::new(),
            turn: 0,
            is_limited: false,
            counts: NodeCounts::default(),
            other: 0,
        }
    }

    /// Returns the next frame of a role, each in its turn. Messages to this host do not leave it.
    fn next_frame(&mut self, now: Nanos) -> Option<Vec<u8>> {
        loop {
            let (to, message) = self.next_message(now)?;
            if to.address != self.own.address {
                return Some(datagram::write(self.own, to, &message.write()));
            }
            self.give(&message, now);
        }
    }

    /// Returns the next message of a role, each in its turn.
    fn next_message(&mut self, now: Nanos) -> Option<(Endpoint, Message)> {
        let mut roles = self.roles.borrow_mut();
        let len = roles.len();
        let order = (0..len).map(|offset| (self.turn + offset) % len);
        let (index, sent) = order
            .filter_map(|index| Some((index, roles[index].poll(now)?)))
            .next()?;
        self.turn = (index + 1) % len;
        Some(sent)
    }

    /// Gives a message to all roles. Returns true if one takes it.
    fn give(&self, message: &Message, now: Nanos) -> bool {
        let mut roles = self.roles.borrow_mut();
        let taken = roles.iter_mut().map(|role| role.receive(message, now));
        taken.filter(|is_taken| *is_taken).count() > 0
    }

    /// Sends what the link has time for.
    fn send(&mut self, now: Nanos) {
        self.is_limited = false;
        while self.free_at <= now {
            let Some(frame) = self.next_frame(now) else {
                return;
            };
            let time = self
                .rate
                .map_or(Nanos::ZERO, |rate| rate.time_of(frame.len()));
            self.free_at = self.free_at.max(now) + time;
            self.counts.made += 1;
            self.sent.push_back((frame, now));
        }
        self.is_limited = true;
    }
}

/// Returns the end of messages at a host.
pub(crate) fn endpoint(mac: [u8; 6], address: Ipv4Addr) -> Endpoint {
    Endpoint {
        mac,
        address,
        port: *PORTS.start(),
    }
}

impl Node for HostNode {
    fn attach(&mut self, _: PortId, link: &LinkSpec) {
        self.rate = link.rate;
    }

    fn receive(&mut self, _: PortId, bytes: &[u8], now: Nanos) {
        self.counts.received += 1;
        let is_own_mac = bytes.get(..6) == Some(&self.own.mac[..]);
        let datagram = datagram::read(bytes).filter(|datagram| {
            is_own_mac && datagram.to == self.own.address && PORTS.contains(&datagram.port)
        });
        let message = datagram.and_then(|datagram| Message::read(datagram.payload));
        match message.is_some_and(|message| self.give(&message, now)) {
            true => self.counts.delivered += 1,
            false => self.other += 1,
        }
    }

    fn step(&mut self, now: Nanos) {
        self.send(now);
    }

    fn next_time(&self) -> Option<Nanos> {
        let roles = self.roles.borrow();
        let times = roles.iter().filter_map(Role::next_time);
        let limited = self.is_limited.then_some(self.free_at);
        let next = times.chain(limited).min();
        next.map(|at| at.max(self.free_at))
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        while let Some((frame, at)) = self.sent.pop_front() {
            self.counts.sent += 1;
            take(PortId(0), &frame, at);
        }
    }

    fn tally(&self) -> NodeCounts {
        let mut counts = self.counts.clone();
        counts.held = self.sent.len() as u64;
        if self.other > 0 {
            counts.dropped.push((NOT_FOR_US, self.other));
        }
        counts
    }
}
