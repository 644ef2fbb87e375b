//! Ethernet frames with IPv4 UDP datagrams: reports, and messages of members by frames.

use std::net::{Ipv4Addr, SocketAddrV4};

use support::checksum::internet_checksum;

/// Bytes of the headers of a datagram: Ethernet, IPv4 and UDP.
pub const DATAGRAM_HEADERS: usize = 14 + 20 + 8;

/// End of a datagram: its MAC address, its IPv4 address and its UDP port.
pub type DatagramEnd = ([u8; 6], SocketAddrV4);

/// Writes a datagram as a frame, without a UDP checksum. `out` has this frame alone afterwards. The
/// payload has at most 65,507 bytes; more are cut.
pub fn write_datagram(out: &mut Vec<u8>, from: DatagramEnd, to: DatagramEnd, payload: &[u8]) {
    let payload = &payload[..payload.len().min(65_507)];
    // At most 65,535.
    let length = (DATAGRAM_HEADERS - 14 + payload.len()) as u16;
    out.clear();
    out.extend(to.0);
    out.extend(from.0);
    out.extend([0x08, 0x00, 0x45, 0]);
    out.extend(length.to_be_bytes());
    out.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    out.extend(from.1.ip().octets());
    out.extend(to.1.ip().octets());
    let checksum = internet_checksum(&out[14..]);
    out[24..26].copy_from_slice(&checksum.to_be_bytes());
    out.extend(from.1.port().to_be_bytes());
    out.extend(to.1.port().to_be_bytes());
    out.extend((length - 20).to_be_bytes());
    out.extend([0, 0]);
    out.extend_from_slice(payload);
}

/// Reads an Ethernet frame with an IPv4 UDP datagram: source address, destination port and payload.
/// `None` for other frames, fragments, and lengths that contradict each other.
pub fn datagram(frame: &[u8]) -> Option<(Ipv4Addr, u16, &[u8])> {
    let (ethernet, ip) = frame.split_first_chunk::<14>()?;
    if ethernet[12..] != [0x08, 0x00] {
        return None;
    }
    let header: &[u8; 20] = ip.first_chunk()?;
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if header[0] >> 4 != 4 || header_length < 20 || header[9] != 17 || is_fragment {
        return None;
    }
    let (udp, payload) = ip.get(header_length..total)?.split_first_chunk::<8>()?;
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    let payload = payload.get(..length.checked_sub(8)?)?;
    let from = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    Some((from, u16::from_be_bytes([udp[2], udp[3]]), payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_datagram_is_read_again() {
        let from = ([2; 6], SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 7000));
        let to = ([4; 6], SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7001));
        let mut frame = vec![9; 3];
        for payload in [&b""[..], b"abc", &[7; 2048]] {
            write_datagram(&mut frame, from, to, payload);
            assert_eq!(frame.len(), DATAGRAM_HEADERS + payload.len());
            let read = datagram(&frame);
            assert_eq!(read, Some((*from.1.ip(), 7001, payload)));
            assert_eq!(internet_checksum(&frame[14..34]), 0);
        }
    }
}
