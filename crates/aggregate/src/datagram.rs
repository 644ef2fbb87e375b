//! UDP datagrams over IPv4 in Ethernet frames.

use std::net::Ipv4Addr;

use support::checksum::{internet_checksum, ones_complement_sum, sum_from};

/// Length of the headers: Ethernet, IPv4, UDP.
const HEADERS: usize = 14 + 20 + 8;

const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;
const TTL: u8 = 64;

/// End of a datagram: MAC address, IPv4 address, UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The MAC address.
    pub mac: [u8; 6],
    /// The IPv4 address.
    pub address: Ipv4Addr,
    /// The UDP port.
    pub port: u16,
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The destination.
    pub to: Ipv4Addr,
    /// The destination port.
    pub port: u16,
    /// The bytes after the UDP header.
    pub payload: &'a [u8],
}

/// Returns the frame of a datagram.
pub fn write(from: Endpoint, to: Endpoint, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADERS + payload.len());
    frame.extend(to.mac);
    frame.extend(from.mac);
    frame.extend(IPV4);
    let length = (20 + 8 + payload.len()) as u16;
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, TTL, UDP, 0, 0]);
    frame.extend(from.address.octets());
    frame.extend(to.address.octets());
    let checksum = internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(from.port.to_be_bytes());
    frame.extend(to.port.to_be_bytes());
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    // As hosts do: 0 would mean that there is no checksum (RFC 768).
    let checksum = match !udp_sum(&frame) {
        0 => 0xffff,
        checksum => checksum,
    };
    frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// Returns the sum over a datagram and its pseudo header.
fn udp_sum(frame: &[u8]) -> u16 {
    let length = (frame.len() - 34) as u32;
    let pseudo = sum_from(u32::from(UDP) + length, &frame[26..34]);
    sum_from(pseudo.into(), &frame[34..])
}

/// Reads a frame. `None` if it is no whole datagram with correct checksums.
pub fn read(frame: &[u8]) -> Option<Datagram<'_>> {
    let (headers, _) = frame.split_at_checked(HEADERS)?;
    let is_udp = headers[12..14] == IPV4 && headers[14] == 0x45 && headers[23] == UDP;
    let is_whole = u16::from_be_bytes([headers[20], headers[21]]) & 0x3fff == 0;
    if !is_udp || !is_whole || ones_complement_sum(&headers[14..34]) != 0xffff {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([headers[38], headers[39]]));
    let total = usize::from(u16::from_be_bytes([headers[16], headers[17]]));
    let frame = frame.get(..14 + total).filter(|_| total == 20 + length)?;
    if udp_sum(frame) != 0xffff {
        return None;
    }
    Some(Datagram {
        to: Ipv4Addr::new(headers[30], headers[31], headers[32], headers[33]),
        port: u16::from_be_bytes([headers[36], headers[37]]),
        payload: frame.get(HEADERS..)?,
    })
}
