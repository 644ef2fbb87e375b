//! Devices of crate `nanopu` as nodes, and hosts' requests to them.
//!
//! Devices have a clock of picoseconds, links one of nanoseconds. A frame's last bit arrives at a
//! device at the start of the link's nanosecond. What a device does between two nanoseconds has
//! its own picosecond, and the first bit of a frame that it sends is on the link at the next whole
//! nanosecond. So each frame is late by less than one nanosecond.

mod report;
mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use nanopu::wire::Packet;
use nanopu::{Device, Picos};
use packet::{Nanos, PortId};

use crate::node::{Node, NodeCounts};
use crate::topology::{HostSpec, LinkSpec, NanopuSpec};
pub use report::{MessageLatency, NanopuCore, NanopuReport, RequestsReport};
pub(crate) use requests::RequestSender;

/// Name of the drop reason for frames that are no packets of the transport, or for another address.
const NOT_FOR_NANOPU: &str = "not_for_nanopu";

/// Name of the drop reason for packets to an address for which no MAC address is known.
const NO_NEIGHBOUR: &str = "no_neighbour";

/// MAC addresses of hosts and nanoPUs.
pub(crate) type MacAddresses = Arc<BTreeMap<Ipv4Addr, [u8; 6]>>;

/// Returns the start of a nanosecond.
const fn picos(time: Nanos) -> Picos {
    Picos::from_nanos(time.0)
}

/// Returns the first nanosecond that does not start before a time.
const fn nanos(time: Picos) -> Nanos {
    Nanos(time.0.div_ceil(1000))
}

impl HostSpec {
    /// Returns the MAC address to which packets for `to` are sent: a static neighbor entry, or the
    /// one that the topology has. There is no ARP.
    pub(crate) fn hop_mac(
        &self,
        to: Ipv4Addr,
        known: &BTreeMap<Ipv4Addr, [u8; 6]>,
    ) -> Option<[u8; 6]> {
        let hop = self.next_hop(to)?;
        self.neighbour(hop).or_else(|| known.get(&hop).copied())
    }
}

/// The packets of a transport as frames of a link.
struct TransportPort {
    addresses: HostSpec,
    known: MacAddresses,
    /// Frames with the times of their first bits.
    leaving: VecDeque<(Nanos, Vec<u8>)>,
    sent: u64,
    no_neighbour: u64,
}

impl TransportPort {
    fn new(addresses: HostSpec, known: MacAddresses) -> TransportPort {
        TransportPort {
            addresses,
            known,
            leaving: VecDeque::new(),
            sent: 0,
            no_neighbour: 0,
        }
    }

    /// Reads a frame, if it is a packet for this address.
    fn read(&self, bytes: &[u8]) -> Option<Packet> {
        let packet = Packet::parse(bytes)?;
        (packet.destination == self.addresses.address.to_bits()).then_some(packet)
    }

    /// Takes the packets that the transport sent, with the times of their first bits.
    fn write(&mut self, packets: Vec<(Picos, Packet)>) {
        for (start, packet) in packets {
            let to = Ipv4Addr::from(packet.destination);
            let Some(mac) = self.addresses.hop_mac(to, &self.known) else {
                self.no_neighbour += 1;
                continue;
            };
            let mut frame = packet.to_frame();
            frame[..6].copy_from_slice(&mac);
            frame[6..12].copy_from_slice(&self.addresses.mac);
            self.leaving.push_back((nanos(start), frame));
            self.sent += 1;
        }
    }

    fn drain(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        for (start, frame) in self.leaving.drain(..) {
            take(PortId(0), &frame, start);
        }
    }

    fn dropped(&self) -> Option<(&'static str, u64)> {
        (self.no_neighbour > 0).then_some((NO_NEIGHBOUR, self.no_neighbour))
    }
}

/// A nanoPU in a fabric.
pub(crate) struct NanopuNode {
    device: Device,
    port: TransportPort,
    received: u64,
    foreign: u64,
}

impl NanopuNode {
    /// Creates the node. Returns `None` without an image.
    pub(crate) fn new(spec: &NanopuSpec, known: MacAddresses) -> Option<NanopuNode> {
        let image = spec.image.as_ref()?;
        let address = spec.host.address.to_bits();
        Some(NanopuNode {
            device: Device::new(image, spec.memory_bytes, spec.cores, address, &spec.costs),
            port: TransportPort::new(spec.host.clone(), known),
            received: 0,
            foreign: 0,
        })
    }
}

impl Node for NanopuNode {
    fn attach(&mut self, _: PortId, _: &LinkSpec) {
        // The transport sends at its own line rate; the link queues the excess.
    }

    fn receive(&mut self, _: PortId, bytes: &[u8], now: Nanos) {
        self.received += 1;
        match self.port.read(bytes) {
            Some(packet) => self.device.receive_packet(packet, picos(now)),
            None => self.foreign += 1,
        }
    }

    fn step(&mut self, now: Nanos) {
        self.device.step(picos(now));
        self.port.write(self.device.take_sent());
    }

    fn resume(&mut self, from: Nanos, now: Nanos) {
        self.device.pause(picos(from), picos(now));
    }

    fn next_time(&self) -> Option<Nanos> {
        self.device.next_step_time().map(nanos)
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        self.port.drain(take);
    }

    fn tally(&self) -> NodeCounts {
        let foreign = (self.foreign > 0).then_some((NOT_FOR_NANOPU, self.foreign));
        NodeCounts {
            received: self.received,
            made: self.port.sent + self.port.no_neighbour,
            delivered: self.received - self.foreign,
            sent: self.port.sent,
            dropped: foreign.into_iter().chain(self.port.dropped()).collect(),
            ..NodeCounts::default()
        }
    }
}
