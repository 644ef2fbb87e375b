//! Software flow hash, for links that do not distribute frames over queues themselves.

use support::rng;

/// Ethernet types.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// Bytes of the two addresses of an Ethernet header.
const ADDRESSES: usize = 12;

/// Protocols with two port numbers in their first four bytes: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Maximum number of VLAN tags. Further tags count as payload.
const MAX_TAGS: usize = 4;

/// Returns the hash of a frame's flow. Both directions of a flow have the same hash, as with the
/// kernel's `PACKET_FANOUT_HASH`.
///
/// Input of the hash:
///
/// - IPv4 and IPv6, also after VLAN tags: addresses and protocol, and the ports of protocols that
///   have them. A fragment is hashed without ports.
/// - Other frames: the Ethernet addresses and type.
pub fn flow_hash(frame: &[u8]) -> u32 {
    let mut at = ADDRESSES;
    let mut kind = word16(frame, at);
    for _ in 0..MAX_TAGS {
        if !VLAN.contains(&kind) {
            break;
        }
        at += 4;
        kind = word16(frame, at);
    }
    let packet = frame.get(at + 2..).unwrap_or_default();
    let ends = match kind {
        IPV4 => ipv4(packet),
        IPV6 => ipv6(packet),
        _ => None,
    };
    let (source, destination, protocol) = ends.unwrap_or_else(|| {
        let address = |at: usize| mix(frame.get(at..at + 6).unwrap_or_default(), 0);
        (address(6), address(0), u64::from(kind))
    });
    // The sum is symmetric: both directions have the same hash.
    let both = source.wrapping_add(destination);
    (rng::mix(both ^ protocol) >> 32) as u32
}

/// Hashes of source and destination, and the IP protocol.
type Ends = (u64, u64, u64);

fn ipv4(packet: &[u8]) -> Option<Ends> {
    let header = packet.get(..20)?;
    let protocol = header[9];
    // More fragments, or a fragment offset. Only the first fragment has ports, so no fragment is
    // hashed with them.
    let is_fragment = word16(header, 6) & 0x3fff != 0;
    let length = usize::from(header[0] & 0xf) * 4;
    let [from, to] = if is_fragment {
        [0, 0]
    } else {
        ports(packet, length, protocol)
    };
    let (source, destination) = (mix(&header[12..16], from), mix(&header[16..20], to));
    Some((source, destination, protocol.into()))
}

/// Hashes an IPv6 packet. Extension headers are not parsed: packets with extension headers are
/// hashed without ports.
fn ipv6(packet: &[u8]) -> Option<Ends> {
    let header = packet.get(..40)?;
    let [from, to] = ports(packet, 40, header[6]);
    let (source, destination) = (mix(&header[8..24], from), mix(&header[24..40], to));
    Some((source, destination, header[6].into()))
}

/// Returns source and destination port, or zeros for a protocol without ports.
fn ports(packet: &[u8], at: usize, protocol: u8) -> [u16; 2] {
    if !WITH_PORTS.contains(&protocol) || packet.len() < at + 4 {
        return [0, 0];
    }
    [word16(packet, at), word16(packet, at + 2)]
}

#[inline]
fn word16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(word) => u16::from_be_bytes([word[0], word[1]]),
        None => 0,
    }
}

/// Returns the hash of an address and a port.
#[inline]
fn mix(address: &[u8], port: u16) -> u64 {
    let mut hash = u64::from(port);
    for part in address.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = rng::mix(hash ^ u64::from_le_bytes(word));
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an Ethernet, IPv4 and UDP frame between these ends.
    fn udp(from: (u8, u16), to: (u8, u16), tag: Option<u16>, fragment: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, to.0, 2, 0, 0, 0, 0, from.0];
        if let Some(tag) = tag {
            frame.extend([0x81, 0]);
            frame.extend(tag.to_be_bytes());
        }
        frame.extend([8, 0, 0x45, 0, 0, 46, 0, 1]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, 17, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0]);
        frame.extend(from.1.to_be_bytes());
        frame.extend(to.1.to_be_bytes());
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn both_directions_of_a_flow_have_one_hash_and_other_flows_others() {
        let there = flow_hash(&udp((1, 1000), (2, 53), None, 0));
        assert_eq!(there, flow_hash(&udp((2, 53), (1, 1000), None, 0)));
        assert_eq!(there, flow_hash(&udp((1, 1000), (2, 53), Some(5), 0)));
        assert_ne!(there, flow_hash(&udp((1, 1001), (2, 53), None, 0)));
        assert_ne!(there, flow_hash(&udp((3, 1000), (2, 53), None, 0)));
    }

    #[test]
    fn fragments_go_with_each_other_whatever_stands_where_ports_would() {
        let first = flow_hash(&udp((1, 1000), (2, 53), None, 0x2000));
        assert_eq!(first, flow_hash(&udp((1, 7), (2, 9), None, 0x0010)));
    }

    #[test]
    fn flows_spread_evenly() {
        let mut counts = [0; 4];
        for port in 0..4000 {
            let hash = flow_hash(&udp((1, port), (2, 53), None, 0));
            counts[hash as usize % 4] += 1;
        }
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn any_bytes_have_a_hash() {
        let whole = udp((1, 1), (2, 2), Some(1), 0);
        for length in 0..whole.len() {
            flow_hash(&whole[..length]);
        }
        let mut six = vec![0; 12];
        six.extend([0x86, 0xdd]);
        six.resize(54 + 4, 17);
        assert_eq!(flow_hash(&six), flow_hash(&six.clone()));
    }
}
