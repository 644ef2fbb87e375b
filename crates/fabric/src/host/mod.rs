//! Simulated hosts: a TCP/IP stack (smoltcp) on one network card, with applications. These are TCP
//! senders, a TCP sink, pings and their replies.

mod nic;
mod session;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::Ipv4Addr;

use packet::{Nanos, PortId};
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr, Icmpv4Message, Icmpv4Packet, IpCidr, IpProtocol, Ipv4Packet, TcpPacket,
};

use crate::events::Events;
use crate::nanopus::RequestSender;
use crate::node::{Node, NodeCounts};
use crate::topology::{HostSpec, LinkSpec};
use crate::traffic::{Stream, StreamReceipt, arrival};
use nic::Nic;
pub(crate) use session::{Echoes, Receipt};
use session::{Session, instant, nanos};

/// TCP port of the sink on every host.
const SINK: u16 = 5001;

/// First source port of flows, and number of source ports.
const FIRST_PORT: u16 = 10_000;
pub(crate) const PORTS: u16 = u16::MAX - FIRST_PORT;

/// Interval at which neighbor entries are refreshed. The stack deletes them after a minute.
const REFRESH: Nanos = Nanos::from_secs(30);

/// Type of a received packet, which determines its session.
enum Kind {
    /// A TCP segment. `is_request` is true for a connection request (SYN).
    Tcp {
        flow: FlowKey,
        number: u32,
        is_request: bool,
    },
    /// A reply to an echo request with this identifier.
    EchoReply(u16),
    /// An ARP packet.
    Neighbour,
    /// Any other packet, handled by the stack alone.
    Other,
}

/// Key of a connection: the remote address and port, and the local port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FlowKey {
    peer: Ipv4Addr,
    peer_port: u16,
    own_port: u16,
}

/// Application start at a scheduled time.
#[derive(Clone, Copy, Debug)]
enum Start {
    Flow {
        to: Ipv4Addr,
        bytes: u64,
        port: u16,
    },
    Ping {
        to: Ipv4Addr,
        count: u16,
        interval: Nanos,
        ident: u16,
    },
}

/// A simulated host.
pub(crate) struct HostNode {
    address: Ipv4Addr,
    mac: [u8; 6],
    interface: Interface,
    nic: Nic,
    gateway: Option<Ipv4Addr>,
    neighbours: Vec<Neighbour>,
    refresh_at: Nanos,
    starts: Events<Start>,
    next_port: u16,
    pings: u16,
    sessions: Vec<Option<Session>>,
    free: Vec<usize>,
    by_flow: BTreeMap<FlowKey, usize>,
    by_ident: BTreeMap<u16, usize>,
    /// Times at which sessions must be polled. Entries that differ from the session's `armed` time
    /// are stale.
    timers: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Sessions that wait for room in the card's queue, in FIFO order.
    blocked: VecDeque<usize>,
    receipts: BTreeMap<FlowKey, Receipt>,
    /// Initial sequence numbers of connections, by which both ends know a flow although a switch
    /// translates addresses and ports. Of flows sent by source port, and of those received.
    sent_numbers: BTreeMap<u16, u32>,
    received_numbers: BTreeMap<u32, FlowKey>,
    /// Number of sent flows without a connection request so far.
    unnumbered: usize,
    received: u64,
    /// Streams that this host sends.
    streams: Vec<Stream>,
    /// Messages that this host sends to a nanoPU.
    requests: Option<RequestSender>,
    /// Streams that this host has received packets of, by number.
    arrivals: BTreeMap<u16, StreamReceipt>,
    /// An empty socket set, for packets that belong to no session.
    nobody: SocketSet<'static>,
}

impl HostNode {
    pub(crate) fn new(spec: &HostSpec, seed: u64) -> HostNode {
        let mut nic = Nic::new();
        let mut config = Config::new(EthernetAddress(spec.mac).into());
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut nic, instant(Nanos::ZERO));
        interface.update_ip_addrs(|addresses| {
            let pushed = addresses.push(IpCidr::new(spec.address.into(), spec.prefix_len));
            debug_assert!(pushed.is_ok(), "a new interface has room for an address");
        });
        if let Some(gateway) = spec.gateway {
            let added = interface.routes_mut().add_default_ipv4_route(gateway);
            debug_assert!(added.is_ok(), "a new interface has room for a route");
        }
        HostNode {
            address: spec.address,
            mac: spec.mac,
            interface,
            nic,
            gateway: spec.gateway,
            neighbours: spec.neighbours.clone(),
            refresh_at: Nanos::ZERO,
            starts: Events::default(),
            next_port: 0,
            pings: 0,
            sessions: Vec::new(),
            free: Vec::new(),
            by_flow: BTreeMap::new(),
            by_ident: BTreeMap::new(),
            timers: BinaryHeap::new(),
            blocked: VecDeque::new(),
            receipts: BTreeMap::new(),
            sent_numbers: BTreeMap::new(),
            received_numbers: BTreeMap::new(),
            unnumbered: 0,
            received: 0,
            streams: Vec::new(),
            requests: None,
            arrivals: BTreeMap::new(),
            nobody: SocketSet::new(Vec::new()),
        }
    }

    /// Schedules a flow. Returns its source port, by which the receiver identifies it, or `None`
    /// if no source port is left.
    pub(crate) fn send_flow(&mut self, to: Ipv4Addr, bytes: u64, at: Nanos) -> Option<u16> {
        if self.next_port == PORTS {
            return None;
        }
        let port = FIRST_PORT + self.next_port;
        self.next_port += 1;
        self.starts.push(at, Start::Flow { to, bytes, port });
        Some(port)
    }

    /// Schedules a series of pings. Returns its ICMP identifier.
    pub(crate) fn ping(&mut self, to: Ipv4Addr, count: u16, interval: Nanos, at: Nanos) -> u16 {
        self.pings += 1;
        let ident = self.pings;
        let start = Start::Ping {
            to,
            count,
            interval,
            ident,
        };
        self.starts.push(at, start);
        ident
    }

    /// Adds a stream that this host sends.
    pub(crate) fn add_stream(&mut self, stream: Stream) {
        self.streams.push(stream);
    }

    /// Sets the messages that this host sends to a nanoPU.
    pub(crate) fn set_requests(&mut self, requests: RequestSender) {
        self.requests = Some(requests);
    }

    /// Returns the sender of messages to a nanoPU.
    pub(crate) fn requests(&self) -> Option<&RequestSender> {
        self.requests.as_ref()
    }

    /// Returns what this host has received of a stream.
    pub(crate) fn stream_receipt(&self, number: u16) -> Option<&StreamReceipt> {
        self.arrivals.get(&number)
    }

    /// Returns the number of packets that this host has sent of a stream.
    pub(crate) fn stream_sent(&self, number: u16) -> u64 {
        let mut streams = self.streams.iter();
        let stream = streams.find(|stream| stream.number() == number);
        stream.map_or(0, Stream::sent)
    }

    /// Sends the packets of streams that are due.
    fn send_streams(&mut self, now: Nanos) {
        for stream in &mut self.streams {
            while stream.next_time().is_some_and(|at| at <= now) {
                self.nic.send(stream.make(now));
            }
        }
    }

    /// Returns the initial sequence number of the flow that this host sends from a port, when its
    /// connection request was sent.
    pub(crate) fn flow_number(&self, port: u16) -> Option<u32> {
        self.sent_numbers.get(&port).copied()
    }

    /// Returns the reception state of the flow with this initial sequence number.
    pub(crate) fn receipt(&self, number: u32) -> Option<Receipt> {
        let flow = self.received_numbers.get(&number)?;
        self.receipts.get(flow).copied()
    }

    /// Returns the results of a series of pings.
    pub(crate) fn echoes(&self, ident: u16) -> Option<&Echoes> {
        let session = self.sessions[*self.by_ident.get(&ident)?].as_ref()?;
        session.echoes()
    }

    /// Stores a session. Packets of its flow, if it has one, are assigned to it.
    fn add(&mut self, mut session: Session, flow: Option<FlowKey>) -> usize {
        session.flow = flow;
        let place = self.place(session);
        if let Some(flow) = flow {
            self.by_flow.insert(flow, place);
        }
        place
    }

    fn place(&mut self, session: Session) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.sessions[place] = Some(session);
                place
            }
            None => {
                self.sessions.push(Some(session));
                self.sessions.len() - 1
            }
        }
    }

    fn start(&mut self, start: Start, now: Nanos) {
        let place = match start {
            Start::Flow { to, bytes, port } => {
                self.unnumbered += 1;
                let mut session = Session::sender(bytes);
                let context = self.interface.context();
                let connected = session
                    .tcp()
                    .map(|socket| socket.connect(context, (to, SINK), port));
                debug_assert!(matches!(connected, Some(Ok(()))), "{connected:?}");
                let flow = FlowKey {
                    peer: to,
                    peer_port: SINK,
                    own_port: port,
                };
                self.add(session, Some(flow))
            }
            Start::Ping {
                to,
                count,
                interval,
                ident,
            } => {
                let session = Session::pinger(to.into(), ident, count, interval, now);
                let place = self.add(session, None);
                self.by_ident.insert(ident, place);
                place
            }
        };
        self.poll(place, now);
    }

    /// Runs the stack and a session's application until both are idle or the card's queue is full.
    fn poll(&mut self, place: usize, now: Nanos) {
        let Some(session) = self.sessions[place].as_mut() else {
            return;
        };
        let at = instant(now);
        let (interface, nic, sockets) = (&mut self.interface, &mut self.nic, &mut session.sockets);
        // At most one frame has been received.
        interface.poll_ingress_single(at, nic, sockets);
        loop {
            let has_worked = session.work(now);
            // One segment at a time, and none while the card's queue is full. Otherwise the stack
            // would consider the segment sent.
            let has_sent = self.nic.room_at().is_none()
                && self
                    .interface
                    .poll_egress(at, &mut self.nic, &mut session.sockets)
                    == PollResult::SocketStateChanged;
            if !has_worked && !has_sent {
                break;
            }
        }
        let due = self.interface.poll_at(at, &session.sockets).map(nanos);
        let due = due.into_iter().chain(session.next_time()).min();
        self.keep_receipt(place);
        self.put_off(place, due, now);
    }

    /// Saves the reception state of a session, which is deleted when the session ends.
    fn keep_receipt(&mut self, place: usize) {
        let session = self.sessions[place].as_ref();
        let kept = session.and_then(|session| Some((session.flow?, session.receipt()?)));
        if let Some((flow, receipt)) = kept {
            self.receipts.insert(flow, receipt);
        }
    }

    /// Schedules the next poll of a session, or deletes a closed session.
    fn put_off(&mut self, place: usize, due: Option<Nanos>, now: Nanos) {
        let Some(session) = &mut self.sessions[place] else {
            return;
        };
        if session.is_over() {
            self.forget(place);
            return;
        }
        session.due = due;
        match due {
            // Work that is due now but was not done waits for the card.
            Some(at) if at <= now && self.nic.room_at().is_some() => {
                session.due = None;
                if !std::mem::replace(&mut session.is_blocked, true) {
                    self.blocked.push_back(place);
                }
            }
            Some(at) => {
                // The stack's clock has a resolution of one microsecond.
                let at = at.max(now + Nanos::from_micros(1));
                session.due = Some(at);
                if session.armed.is_none_or(|armed| armed > at) {
                    session.armed = Some(at);
                    self.timers.push(Reverse((at, place)));
                }
            }
            None => {}
        }
    }

    fn forget(&mut self, place: usize) {
        let session = self.sessions[place].take();
        if let Some(flow) = session.and_then(|session| session.flow) {
            self.by_flow.remove(&flow);
        }
        self.free.push(place);
    }

    /// Processes the timers up to `now`, in order of time.
    fn tick(&mut self, now: Nanos) {
        while self
            .timers
            .peek()
            .is_some_and(|Reverse((at, _))| *at <= now)
            && let Some(Reverse((at, place))) = self.timers.pop()
        {
            let Some(session) = self.sessions[place].as_mut() else {
                continue;
            };
            if session.armed != Some(at) {
                continue;
            }
            session.armed = None;
            match session.due {
                Some(due) if due <= now => self.poll(place, now),
                due => self.put_off(place, due, now),
            }
        }
    }

    /// Polls sessions that wait for the card, while its queue has room.
    fn unblock(&mut self, now: Nanos) {
        while self.nic.room_at().is_none()
            && let Some(place) = self.blocked.pop_front()
        {
            if let Some(session) = self.sessions[place].as_mut() {
                session.is_blocked = false;
                self.poll(place, now);
            }
        }
    }

    /// Passes a received packet that belongs to no session to the stack.
    fn hear(&mut self, now: Nanos) {
        self.interface
            .poll_ingress_single(instant(now), &mut self.nic, &mut self.nobody);
    }

    /// Refreshes the stack's entries of the static neighbors by simulated ARP replies, and sends
    /// an ARP request for the gateway. Otherwise the first replies of the stack would be lost
    /// while it resolves addresses.
    fn refresh(&mut self, now: Nanos) {
        if now < self.refresh_at {
            return;
        }
        self.refresh_at = now + REFRESH;
        for neighbour in self.neighbours.clone() {
            let told = arp(ArpOperation::Reply, neighbour, (self.address, self.mac));
            self.nic.arrive(&told);
            self.hear(now);
        }
        let is_known = |gateway| self.neighbours.iter().any(|(known, _)| *known == gateway);
        if let Some(gateway) = self.gateway.filter(|gateway| !is_known(*gateway)) {
            let everybody = (gateway, EthernetAddress::BROADCAST.0);
            let asked = arp(ArpOperation::Request, (self.address, self.mac), everybody);
            self.nic.send(&asked);
        }
    }

    /// Returns the session of a packet. A connection request to the sink creates a new one.
    fn session_of(&mut self, kind: &Kind) -> Option<usize> {
        match kind {
            Kind::Tcp {
                flow,
                number,
                is_request,
            } => {
                let known = self.by_flow.get(flow).copied();
                if known.is_some() || !is_request || flow.own_port != SINK {
                    return known;
                }
                self.received_numbers.insert(*number, *flow);
                Some(self.add(Session::receiver(SINK), Some(*flow)))
            }
            Kind::EchoReply(ident) => self.by_ident.get(ident).copied(),
            Kind::Neighbour | Kind::Other => None,
        }
    }

    /// Polls all sessions, because one may wait for a neighbor address.
    fn poll_all(&mut self, now: Nanos) {
        for place in 0..self.sessions.len() {
            self.poll(place, now);
        }
    }
}

impl Node for HostNode {
    fn attach(&mut self, _: PortId, link: &LinkSpec) {
        self.nic.attach(link);
    }

    fn receive(&mut self, _: PortId, bytes: &[u8], now: Nanos) {
        self.nic.set_time(now);
        self.refresh(now);
        self.received += 1;
        if let Some(arrival) = arrival(bytes) {
            let receipt = self.arrivals.entry(arrival.stream).or_default();
            receipt.add(arrival, now);
            return;
        }
        if let Some(requests) = &mut self.requests
            && requests.receive(bytes, now)
        {
            return;
        }
        let kind = kind_of(bytes);
        self.nic.arrive(bytes);
        match self.session_of(&kind) {
            Some(place) => self.poll(place, now),
            None => self.hear(now),
        }
        if matches!(kind, Kind::Neighbour) {
            self.poll_all(now);
        }
    }

    fn step(&mut self, now: Nanos) {
        self.nic.set_time(now);
        self.refresh(now);
        while let Some((_, start)) = self.starts.pop_by(now) {
            self.start(start, now);
        }
        self.send_streams(now);
        if let Some(requests) = &mut self.requests {
            requests.step(now);
        }
        self.tick(now);
        self.unblock(now);
    }

    fn resume(&mut self, from: Nanos, now: Nanos) {
        if let Some(requests) = &mut self.requests {
            requests.resume(from, now);
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let card = match self.blocked.is_empty() {
            true => None,
            false => self.nic.known_room_at(),
        };
        let first = (self.refresh_at == Nanos::ZERO).then_some(Nanos::ZERO);
        let stream = self.streams.iter().filter_map(Stream::next_time).min();
        let requests = self.requests.as_ref().and_then(RequestSender::next_time);
        [
            first,
            self.starts.next_time(),
            timer,
            card,
            stream,
            requests,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        let (numbers, left) = (&mut self.sent_numbers, &mut self.unnumbered);
        self.nic.drain(|bytes, start| {
            if *left > 0
                && let Kind::Tcp {
                    flow,
                    number,
                    is_request: true,
                } = kind_of(bytes)
                && numbers.insert(flow.peer_port, number).is_none()
            {
                *left -= 1;
            }
            take(PortId(0), bytes, start);
        });
        if let Some(requests) = &mut self.requests {
            requests.drain_sent(take);
        }
    }

    fn tally(&self) -> NodeCounts {
        let mut counts = NodeCounts {
            received: self.received,
            made: self.nic.sent(),
            delivered: self.received,
            sent: self.nic.sent(),
            ..NodeCounts::default()
        };
        if let Some(requests) = &self.requests {
            requests.add_to(&mut counts);
        }
        counts
    }
}

/// IPv4 and MAC address of a node.
type Neighbour = (Ipv4Addr, [u8; 6]);

/// Builds an ARP request or reply.
fn arp(operation: ArpOperation, (from, from_mac): Neighbour, (to, to_mac): Neighbour) -> Vec<u8> {
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(from_mac),
        dst_addr: EthernetAddress(to_mac),
        ethertype: EthernetProtocol::Arp,
    };
    let arp = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: ethernet.src_addr,
        source_protocol_addr: from,
        target_hardware_addr: ethernet.dst_addr,
        target_protocol_addr: to,
    };
    let mut bytes = vec![0; ethernet.buffer_len() + arp.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
    ethernet.emit(&mut frame);
    arp.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}

/// Parses a packet as far as necessary to find its session. The stack validates it.
fn kind_of(bytes: &[u8]) -> Kind {
    let Ok(frame) = EthernetFrame::new_checked(bytes) else {
        return Kind::Other;
    };
    match frame.ethertype() {
        EthernetProtocol::Arp => Kind::Neighbour,
        EthernetProtocol::Ipv4 => kind_of_ipv4(frame.payload()).unwrap_or(Kind::Other),
        _ => Kind::Other,
    }
}

fn kind_of_ipv4(payload: &[u8]) -> Option<Kind> {
    let packet = Ipv4Packet::new_checked(payload).ok()?;
    match packet.next_header() {
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload()).ok()?;
            let flow = FlowKey {
                peer: packet.src_addr(),
                peer_port: segment.src_port(),
                own_port: segment.dst_port(),
            };
            Some(Kind::Tcp {
                flow,
                number: segment.seq_number().0 as u32,
                is_request: segment.syn() && !segment.ack(),
            })
        }
        IpProtocol::Icmp => {
            let message = Icmpv4Packet::new_checked(packet.payload()).ok()?;
            let is_reply = message.msg_type() == Icmpv4Message::EchoReply;
            is_reply.then(|| Kind::EchoReply(message.echo_ident()))
        }
        _ => None,
    }
}
