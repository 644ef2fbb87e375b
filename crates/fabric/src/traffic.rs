//! Streams of UDP packets of many flows. A packet's payload has its stream, its flow, its number in
//! the flow and its time, so the receiver knows them whatever a network function did to addresses
//! and ports.

use std::net::Ipv4Addr;

use packet::Nanos;
use support::checksum::internet_checksum;
use support::rng::{Rng, Weighted};

use crate::topology::{HostSpec, TrafficSpec};

/// Length of the headers before the payload: Ethernet, IPv4, UDP.
const HEADERS: usize = 14 + 20 + 8;

/// Minimum length of a frame: headers and the payload's fields.
pub(crate) const MIN_BYTES: usize = HEADERS + FIELDS;

/// Maximum length of a frame.
pub(crate) const MAX_BYTES: usize = 1514;

/// Length of the payload's fields: mark, stream, flow, number, time.
const FIELDS: usize = 4 + 2 + 4 + 4 + 8;

/// First bytes of the payload.
const MARK: [u8; 4] = *b"PPst";

/// First source port, and number of source ports. Flows beyond have other destination ports.
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 64_000;

/// Destination port of the first flows.
const SINK: u32 = 6000;

/// Sender of a stream.
pub(crate) struct Stream {
    number: u16,
    spec: TrafficSpec,
    source: Ipv4Addr,
    /// Destinations by flow; one for all flows if there is only one.
    destinations: Vec<Ipv4Addr>,
    choice: Weighted,
    chance: Rng,
    /// Packets sent of each flow.
    sent: Vec<u32>,
    all: u64,
    frame: Vec<u8>,
}

impl Stream {
    /// Creates the sender of a stream. `to` is the receiver.
    pub(crate) fn new(
        number: u16,
        spec: TrafficSpec,
        from: &HostSpec,
        to: &HostSpec,
        seed: u64,
    ) -> Stream {
        let mut chance = Rng::new(seed);
        let flows = spec.flows as usize;
        let weights: Vec<f64> = (1..=flows)
            .map(|rank| (rank as f64).powf(-spec.alpha))
            .collect();
        let destinations = match spec.destinations {
            None => vec![to.address],
            Some((network, len)) => {
                let inside = u32::MAX.checked_shr(len.into()).unwrap_or(0);
                let network = network.to_bits() & !inside;
                (0..flows)
                    .map(|_| Ipv4Addr::from(network | chance.bits() as u32 & inside))
                    .collect()
            }
        };
        let hop = from.next_hop(destinations[0]);
        let mac = hop.and_then(|hop| from.neighbour(hop)).unwrap_or_default();
        let mut frame = vec![0; spec.bytes.clamp(MIN_BYTES, MAX_BYTES)];
        frame[..6].copy_from_slice(&mac);
        frame[6..12].copy_from_slice(&from.mac);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        Stream {
            number,
            spec,
            source: from.address,
            destinations,
            choice: Weighted::new(&weights),
            chance,
            sent: vec![0; flows],
            all: 0,
            frame,
        }
    }

    /// Returns the time of the next packet.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        let is_left = self.all < self.spec.packets;
        let since = self.spec.interval.0.saturating_mul(self.all);
        is_left.then(|| Nanos(self.spec.at.0.saturating_add(since)))
    }

    /// Returns the number of the stream.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the number of packets sent.
    pub(crate) fn sent(&self) -> u64 {
        self.all
    }

    /// Builds the next packet.
    pub(crate) fn make(&mut self, now: Nanos) -> &[u8] {
        let flow = self.choice.choose(&mut self.chance);
        let number = self.sent[flow];
        self.sent[flow] += 1;
        self.all += 1;
        let to = self.destinations[flow % self.destinations.len()];
        let ports = (flow as u32 % PORTS, flow as u32 / PORTS);
        let ip = &mut self.frame[14..];
        let length = ip.len() as u16;
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        ip[8] = 64;
        ip[9] = 17;
        ip[10..12].fill(0);
        ip[12..16].copy_from_slice(&self.source.octets());
        ip[16..20].copy_from_slice(&to.octets());
        let checksum = internet_checksum(&ip[..20]);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        let udp = &mut ip[20..];
        udp[..2].copy_from_slice(&((FIRST_PORT + ports.0) as u16).to_be_bytes());
        udp[2..4].copy_from_slice(&((SINK + ports.1) as u16).to_be_bytes());
        udp[4..6].copy_from_slice(&(length - 20).to_be_bytes());
        // No checksum.
        udp[6..8].fill(0);
        let fields = &mut udp[8..8 + FIELDS];
        fields[..4].copy_from_slice(&MARK);
        fields[4..6].copy_from_slice(&self.number.to_be_bytes());
        fields[6..10].copy_from_slice(&(flow as u32).to_be_bytes());
        fields[10..14].copy_from_slice(&number.to_be_bytes());
        fields[14..].copy_from_slice(&now.0.to_be_bytes());
        &self.frame
    }
}

/// Received packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) stream: u16,
    flow: u32,
    number: u32,
    sent: Nanos,
}

/// Returns the fields of a packet of a stream, or `None` for other packets.
pub(crate) fn arrival(bytes: &[u8]) -> Option<Arrival> {
    let is_udp = bytes.get(12..14) == Some(&[0x08, 0x00]) && bytes.get(23) == Some(&17);
    let fields = bytes.get(HEADERS..MIN_BYTES)?;
    if !is_udp || fields[..4] != MARK {
        return None;
    }
    let number = |from: usize, len: usize| {
        let bytes = &fields[from..from + len];
        bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
    };
    Some(Arrival {
        stream: number(4, 2) as u16,
        flow: number(6, 4) as u32,
        number: number(10, 4) as u32,
        sent: Nanos(number(14, 8)),
    })
}

/// Packets of a stream at its receiver.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamReceipt {
    pub(crate) received: u64,
    /// Packets with a smaller number than one before them in the flow (RFC 4737).
    pub(crate) reordered: u64,
    /// Reordered packets of each flow.
    pub(crate) reordered_by_flow: Vec<u32>,
    /// Next expected number of each flow.
    next: Vec<u32>,
    /// Time of each packet on its way, in nanoseconds, in order of arrival.
    pub(crate) times: Vec<u32>,
}

impl StreamReceipt {
    /// Counts a packet.
    pub(crate) fn add(&mut self, arrival: Arrival, now: Nanos) {
        let flow = arrival.flow as usize;
        if self.next.len() <= flow {
            self.next.resize(flow + 1, 0);
            self.reordered_by_flow.resize(flow + 1, 0);
        }
        self.received += 1;
        let next = &mut self.next[flow];
        if arrival.number < *next {
            self.reordered += 1;
            self.reordered_by_flow[flow] += 1;
        } else {
            *next = arrival.number + 1;
        }
        let time = now.since(arrival.sent).0;
        self.times.push(u32::try_from(time).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(flow: u32, number: u32) -> Arrival {
        Arrival {
            stream: 0,
            flow,
            number,
            sent: Nanos(10),
        }
    }

    #[test]
    fn packets_below_the_greatest_number_of_their_flow_are_reordered() {
        let mut receipt = StreamReceipt::default();
        for (flow, number) in [(0, 0), (1, 0), (0, 2), (0, 1), (1, 1), (0, 3)] {
            receipt.add(packet(flow, number), Nanos(35));
        }
        assert_eq!((receipt.received, receipt.reordered), (6, 1));
        assert_eq!(receipt.reordered_by_flow, [1, 0]);
        assert_eq!(receipt.times, [25; 6]);
    }
}
