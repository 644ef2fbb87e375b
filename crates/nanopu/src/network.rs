//! A network of devices and clients around one switch that trims.
//!
//! Each node has a link to the switch. The switch stores a packet, adds its latency, and sends it
//! at the line rate. An output queue that is full keeps the header only (NDP, section 3.1);
//! headers and control packets go first.

use std::collections::{BTreeMap, VecDeque};

use support::rng::Rng;

use crate::client::{Client, Received, SteadyLoad};
use crate::cost::{Cost, CostTable};
use crate::device::Device;
use crate::queues::RpcMessage;
use crate::time::Picos;
use crate::transport::TransportCounts;
use crate::wire::{DATA, Packet};

/// Headers and control packets of an output queue, at most.
const MAX_HEADERS: usize = 4096;

/// A node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// Faults of the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFaults {
    /// Packets of a thousand that are lost on a link.
    pub lost_per_mille: u32,
    /// Seed of the losses.
    pub seed: u64,
}

/// Counters of the links and the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Packets that were sent to the switch.
    pub sent: u64,
    /// Packets that arrived at a node.
    pub delivered: u64,
    /// Packets without their bytes after the switch.
    pub trimmed: u64,
    /// Packets that were lost on a link.
    pub lost: u64,
    /// Packets for an address that no node has.
    pub unknown: u64,
    /// Headers and control packets for which the queue had no place.
    pub overflow: u64,
}

enum Node {
    Device(Box<Device>),
    Client(Box<Client>),
}

enum Event {
    /// The last bit of a packet is at the switch.
    AtSwitch(Packet),
    /// The last bit of a packet is at a node.
    AtNode(usize, Packet),
    /// An output of the switch is free.
    Free(usize),
}

#[derive(Default)]
struct Output {
    data: VecDeque<Packet>,
    headers: VecDeque<Packet>,
    busy: bool,
}

/// Devices, clients, links and a switch.
pub struct Network {
    costs: CostTable,
    nodes: Vec<Node>,
    addresses: BTreeMap<u32, usize>,
    outputs: Vec<Output>,
    events: BTreeMap<(Picos, u64), Event>,
    sequence: u64,
    now: Picos,
    rng: Rng,
    faults: LinkFaults,
    counts: NetworkCounts,
}

impl Network {
    /// Creates a network without nodes.
    pub fn new(costs: &CostTable, faults: LinkFaults) -> Self {
        Self {
            costs: costs.clone(),
            nodes: Vec::new(),
            addresses: BTreeMap::new(),
            outputs: Vec::new(),
            events: BTreeMap::new(),
            sequence: 0,
            now: Picos(0),
            rng: Rng::new(faults.seed),
            faults,
            counts: NetworkCounts::default(),
        }
    }

    fn add(&mut self, address: u32, node: Node) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        self.outputs.push(Output::default());
        self.addresses.insert(address, id);
        NodeId(id)
    }

    /// Adds a device with its address.
    pub fn add_device(&mut self, address: u32, device: Device) -> NodeId {
        self.add(address, Node::Device(Box::new(device)))
    }

    /// Adds a client: a transport without a program. It accepts messages of every context.
    pub fn add_client(&mut self, address: u32) -> NodeId {
        let client = Client::new(address, &self.costs);
        self.add(address, Node::Client(Box::new(client)))
    }

    /// Plans a message of a client, not before those planned earlier. Does nothing for a device.
    pub fn plan(&mut self, client: NodeId, time: Picos, message: RpcMessage) {
        if let Some(Node::Client(client)) = self.nodes.get_mut(client.0) {
            client.plan(time, message);
        }
    }

    /// Plans messages of a client at a steady rate, instead of single ones. Does nothing for a
    /// device.
    pub(crate) fn plan_steady(&mut self, client: NodeId, load: SteadyLoad) {
        if let Some(Node::Client(client)) = self.nodes.get_mut(client.0) {
            client.plan_steady(load);
        }
    }

    /// Takes the messages that a client received.
    pub fn take_received(&mut self, client: NodeId) -> Vec<Received> {
        match self.nodes.get_mut(client.0) {
            Some(Node::Client(client)) => client.take_received(),
            _ => Vec::new(),
        }
    }

    /// Returns the messages of a client's steady load that are answered, each once, with the times
    /// of their answers.
    pub(crate) fn steady_answers(&self, client: NodeId) -> Vec<(usize, Picos)> {
        match self.nodes.get(client.0) {
            Some(Node::Client(client)) => client.steady_answers(),
            _ => Vec::new(),
        }
    }

    /// Returns a device.
    pub fn device(&self, node: NodeId) -> Option<&Device> {
        match self.nodes.get(node.0) {
            Some(Node::Device(device)) => Some(device),
            _ => None,
        }
    }

    /// Returns a device.
    pub fn device_mut(&mut self, node: NodeId) -> Option<&mut Device> {
        match self.nodes.get_mut(node.0) {
            Some(Node::Device(device)) => Some(device),
            _ => None,
        }
    }

    /// Returns the transport counters of a node.
    pub fn transport_counts(&self, node: NodeId) -> TransportCounts {
        match self.nodes.get(node.0) {
            Some(Node::Device(device)) => device.counts().transport,
            Some(Node::Client(client)) => client.counts(),
            None => TransportCounts::default(),
        }
    }

    /// Returns the transport's buffers in use of a node, of sent and of received messages.
    pub fn buffers(&self, node: NodeId) -> (usize, usize) {
        match self.nodes.get(node.0) {
            Some(Node::Device(device)) => device.buffers(),
            Some(Node::Client(client)) => client.buffers(),
            None => (0, 0),
        }
    }

    /// Returns the counters of links and switch.
    pub fn counts(&self) -> NetworkCounts {
        self.counts
    }

    /// Returns the packets that are on links or in queues.
    pub fn in_flight(&self) -> u64 {
        let queued: usize = self
            .outputs
            .iter()
            .map(|o| o.data.len() + o.headers.len())
            .sum();
        let travelling = self
            .events
            .values()
            .filter(|event| !matches!(event, Event::Free(_)));
        (queued + travelling.count()) as u64
    }

    /// Returns the time of the next event, or none if nothing will happen.
    pub fn next_time(&self) -> Option<Picos> {
        let event = self.events.first_key_value().map(|((time, _), _)| *time);
        let nodes = self.nodes.iter().filter_map(Node::next_time);
        nodes.chain(event).min()
    }

    /// Runs until nothing will happen, or up to a time.
    pub fn run(&mut self, until: Picos) {
        while let Some(time) = self.next_time().filter(|time| *time <= until) {
            // A packet that a node sends from now on is not at the switch before the link's
            // latency is over: until then, the nodes do not depend on each other.
            let lookahead = Picos(self.costs.get(Cost::Link)) - Picos(1);
            let event = self.events.first_key_value().map(|((time, _), _)| *time);
            self.now = time;
            if event == Some(time) {
                if let Some(((time, _), event)) = self.events.pop_first() {
                    self.process(time, event);
                }
                continue;
            }
            let end = event.map_or(until, |event| until.min(event - Picos(1)));
            let end = end.min(time + lookahead);
            for index in 0..self.nodes.len() {
                if self.nodes[index]
                    .next_time()
                    .is_some_and(|time| time <= end)
                {
                    self.nodes[index].step(end);
                    self.collect(index);
                }
            }
        }
        self.now = self
            .now
            .max(until.min(self.next_time().unwrap_or(self.now)));
    }

    fn collect(&mut self, index: usize) {
        let link = Picos(self.costs.get(Cost::Link));
        for (start, packet) in self.nodes[index].take_sent() {
            self.counts.sent += 1;
            if self.loses() {
                continue;
            }
            let time = start + self.costs.wire_time(packet.frame_bytes()) + link;
            self.at(time, Event::AtSwitch(packet));
        }
    }

    fn loses(&mut self) -> bool {
        let lost = self.rng.per_mille(self.faults.lost_per_mille);
        self.counts.lost += u64::from(lost);
        lost
    }

    fn at(&mut self, time: Picos, event: Event) {
        self.events.insert((time, self.sequence), event);
        self.sequence += 1;
    }

    fn process(&mut self, now: Picos, event: Event) {
        match event {
            Event::AtSwitch(mut packet) => {
                let Some(&port) = self.addresses.get(&packet.destination) else {
                    self.counts.unknown += 1;
                    return;
                };
                let limit = self.costs.get(Cost::SwitchQueue) as usize;
                let output = &mut self.outputs[port];
                let has_bytes = packet.flags & DATA != 0 && !packet.payload.is_empty();
                if has_bytes && output.data.len() < limit {
                    output.data.push_back(packet);
                } else {
                    if has_bytes {
                        packet.trim();
                        self.counts.trimmed += 1;
                    }
                    if output.headers.len() == MAX_HEADERS {
                        self.counts.overflow += 1;
                        return;
                    }
                    output.headers.push_back(packet);
                }
                if !output.busy {
                    self.transmit(now, port);
                }
            }
            Event::Free(port) => {
                self.outputs[port].busy = false;
                self.transmit(now, port);
            }
            Event::AtNode(index, packet) => {
                self.counts.delivered += 1;
                self.nodes[index].receive(packet, now);
                self.collect(index);
            }
        }
    }

    /// Sends the next packet of an output, if it has one.
    fn transmit(&mut self, now: Picos, port: usize) {
        let output = &mut self.outputs[port];
        let Some(packet) = output
            .headers
            .pop_front()
            .or_else(|| output.data.pop_front())
        else {
            return;
        };
        output.busy = true;
        let sent = now + self.costs.wire_time(packet.frame_bytes());
        self.at(sent, Event::Free(port));
        if self.loses() {
            return;
        }
        // The latency of the switch is that of its pipeline: it does not occupy the output.
        let latency = Picos(self.costs.get(Cost::Switch)) + Picos(self.costs.get(Cost::Link));
        self.at(sent + latency, Event::AtNode(port, packet));
    }
}

impl Node {
    fn next_time(&self) -> Option<Picos> {
        match self {
            Self::Device(device) => device.next_time(),
            Self::Client(client) => client.next_time(),
        }
    }

    fn step(&mut self, until: Picos) {
        match self {
            Self::Device(device) => device.step(until),
            Self::Client(client) => client.step(until),
        }
    }

    fn receive(&mut self, packet: Packet, now: Picos) {
        match self {
            Self::Device(device) => device.receive_packet(packet, now),
            Self::Client(client) => client.receive_packet(&packet, now),
        }
    }

    fn take_sent(&mut self) -> Vec<(Picos, Packet)> {
        match self {
            Self::Device(device) => device.take_sent(),
            Self::Client(client) => client.take_sent(),
        }
    }
}
