//! The reported packet: its flow, and the INT headers in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::u16_at;
use crate::int::{EmbeddedInt, IntContents, IntError, NextProtocol, SourceOnly};
use crate::metadata::MetadataLayout;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// VLAN tags: IEEE 802.1Q and 802.1ad.
const ETHERTYPE_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Tags of a frame that are skipped.
const MAX_TAGS: usize = 2;

const PROTOCOL_HOP_BY_HOP: u8 = 0;
const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_IPV6: u8 = 41;
const PROTOCOL_ROUTING: u8 = 43;
const PROTOCOL_FRAGMENT: u8 = 44;
const PROTOCOL_DESTINATION: u8 = 60;
/// Extension headers of a packet that are skipped.
const MAX_EXTENSIONS: usize = 4;

/// Ports of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct L4Ports {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

/// Identity of a flow: the fields of the original packet, before the source changed its port or
/// protocol for INT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// IP protocol, after IPv6 extension headers.
    pub protocol: u8,
    /// Ports. `None` for other protocols than TCP and UDP, for fragments but the first, and for
    /// packets that are cut before their ports.
    pub ports: Option<L4Ports>,
}

/// First header of a reported packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketKind {
    /// An Ethernet frame.
    Ethernet,
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
}

/// Mark of packets with INT: one of the three options of INT 2.1, section 5.7.2. All nodes of an
/// INT domain agree on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntMarker {
    /// No packet has INT headers.
    None,
    /// The DSCP, masked, has this value.
    Dscp {
        /// Value of the masked bits.
        value: u8,
        /// Bits that are compared.
        mask: u8,
    },
    /// The UDP destination port has this value.
    UdpPort(u16),
    /// These 64 bits follow the TCP or UDP header.
    Probe(u64),
}

/// Position of INT in TCP segments with options (INT 2.1, section 5.7.2). A domain agrees on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpPosition {
    /// INT follows the options.
    #[default]
    AfterOptions,
    /// INT follows the first 20 bytes of the header.
    BeforeOptions,
}

/// Agreements of an INT domain that packets do not state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntDomain {
    /// Mark of packets with INT.
    pub marker: IntMarker,
    /// Position of INT in TCP segments.
    pub tcp_position: TcpPosition,
    /// Metadata that only sources add.
    pub source_only: Option<SourceOnly>,
}

impl IntDomain {
    /// Returns a domain with this mark, INT after TCP's options, and no source-only metadata.
    pub const fn new(marker: IntMarker) -> IntDomain {
        IntDomain {
            marker,
            tcp_position: TcpPosition::AfterOptions,
            source_only: None,
        }
    }
}

/// INT of a reported packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInt<'a> {
    /// The packet has no mark of INT.
    Absent,
    /// The packet has INT headers.
    Present(EmbeddedInt<'a>),
    /// The packet has the mark, and what follows it is no INT, or is cut.
    Malformed(IntError),
}

/// Reported packet: its flow and its INT headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedPacket<'a> {
    /// Flow of the packet. `None` if it is no IP packet, or is cut in its IP header.
    pub flow: Option<FlowKey>,
    /// INT headers.
    pub int: PacketInt<'a>,
}

impl<'a> ReportedPacket<'a> {
    /// Reads a packet. Bytes that are no packet are a packet without flow.
    #[inline]
    pub fn parse(kind: PacketKind, bytes: &'a [u8], domain: &IntDomain) -> ReportedPacket<'a> {
        let ip = match kind {
            PacketKind::Ethernet => ethernet(bytes),
            PacketKind::Ipv4 => ipv4(bytes),
            PacketKind::Ipv6 => ipv6(bytes),
        };
        match ip {
            Some((ip, rest)) => transport(&ip, rest, domain),
            None => ReportedPacket {
                flow: None,
                int: PacketInt::Absent,
            },
        }
    }
}

#[inline]
fn ethernet(bytes: &[u8]) -> Option<(Ip, &[u8])> {
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        let ethertype = u16_at(bytes, at)?;
        let payload = bytes.get(at + 2..)?;
        match ethertype {
            ETHERTYPE_IPV4 => return ipv4(payload),
            ETHERTYPE_IPV6 => return ipv6(payload),
            tag if ETHERTYPE_TAGS.contains(&tag) => at += 4,
            _ => return None,
        }
    }
    None
}

/// Fields of an IP header that the transport layer needs.
struct Ip {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    dscp: u8,
    /// Not a first fragment: there is no transport header.
    is_later_fragment: bool,
}

#[inline]
fn ipv4(bytes: &[u8]) -> Option<(Ip, &[u8])> {
    let header: &[u8; 20] = bytes.first_chunk()?;
    let length = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || length < 20 {
        return None;
    }
    let address = |at: usize| -> IpAddr {
        Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into()
    };
    let ip = Ip {
        source: address(12),
        destination: address(16),
        protocol: header[9],
        dscp: header[1] >> 2,
        is_later_fragment: u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0,
    };
    Some((ip, bytes.get(length..).unwrap_or(&[])))
}

#[inline]
fn ipv6(bytes: &[u8]) -> Option<(Ip, &[u8])> {
    let (header, mut rest): (&[u8; 40], _) = bytes.split_first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |at: usize| -> IpAddr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        Ipv6Addr::from(octets).into()
    };
    let mut ip = Ip {
        source: address(8),
        destination: address(24),
        protocol: header[6],
        dscp: (header[0] & 0x0f) << 2 | header[1] >> 6,
        is_later_fragment: false,
    };
    for _ in 0..MAX_EXTENSIONS {
        let is_fragment = match ip.protocol {
            PROTOCOL_HOP_BY_HOP | PROTOCOL_ROUTING | PROTOCOL_DESTINATION => false,
            PROTOCOL_FRAGMENT => true,
            _ => break,
        };
        let Some([next, length]) = rest.first_chunk() else {
            rest = &[];
            break;
        };
        let mut bytes = 8;
        if is_fragment {
            ip.is_later_fragment |= u16_at(rest, 2).is_none_or(|field| field & 0xfff8 != 0);
        } else {
            bytes += 8 * usize::from(*length);
        }
        ip.protocol = *next;
        rest = rest.get(bytes..).unwrap_or(&[]);
    }
    Some((ip, rest))
}

/// The ports at the front of a TCP or UDP header.
#[inline]
fn ports(protocol: u8, bytes: &[u8]) -> Option<L4Ports> {
    if protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP {
        return None;
    }
    Some(L4Ports {
        source: u16_at(bytes, 0)?,
        destination: u16_at(bytes, 2)?,
    })
}

/// The flow of a packet, from its IP header and the bytes after it.
#[inline]
fn flow_of(ip: &Ip, rest: &[u8]) -> FlowKey {
    FlowKey {
        source: ip.source,
        destination: ip.destination,
        protocol: ip.protocol,
        ports: if ip.is_later_fragment {
            None
        } else {
            ports(ip.protocol, rest)
        },
    }
}

#[inline]
fn transport<'a>(ip: &Ip, bytes: &'a [u8], domain: &IntDomain) -> ReportedPacket<'a> {
    let flow = flow_of(ip, bytes);
    // Without ports there is no transport header, or it is cut.
    let place = flow
        .ports
        .and_then(|ports| int_place(ip, ports, bytes, domain));
    let Some(place) = place else {
        return ReportedPacket {
            flow: Some(flow),
            int: PacketInt::Absent,
        };
    };
    let shim = bytes.get(place..).unwrap_or(&[]);
    let (int, rest) = match EmbeddedInt::parse(shim, domain.source_only.as_ref()) {
        Ok(parsed) => parsed,
        Err(error) => {
            return ReportedPacket {
                flow: Some(flow),
                int: PacketInt::Malformed(error),
            };
        }
    };
    if let Err(error) = check_npt(&int, matches!(domain.marker, IntMarker::UdpPort(_))) {
        return ReportedPacket {
            flow: Some(flow),
            int: PacketInt::Malformed(error),
        };
    }
    ReportedPacket {
        flow: original_flow(flow, int.next, rest),
        int: PacketInt::Present(int),
    }
}

/// The flow before the source changed it. `rest` follows the INT headers.
#[inline]
fn original_flow(mut flow: FlowKey, next: NextProtocol, rest: &[u8]) -> Option<FlowKey> {
    match next {
        NextProtocol::Payload { .. } => {}
        NextProtocol::UdpPayload { port } => {
            if let Some(ports) = &mut flow.ports {
                ports.destination = port;
            }
        }
        // A tunnel header of the source: the original packet is inside.
        NextProtocol::Header {
            protocol: PROTOCOL_IPV4,
        } => return ipv4(rest).map(|(ip, rest)| flow_of(&ip, rest)),
        NextProtocol::Header {
            protocol: PROTOCOL_IPV6,
        } => return ipv6(rest).map(|(ip, rest)| flow_of(&ip, rest)),
        NextProtocol::Header { protocol } => {
            flow.protocol = protocol;
            flow.ports = ports(protocol, rest);
        }
    }
    Some(flow)
}

/// Checks NPT of INT 2.x: it is 1 or 2 where a port marks INT, else 0 (INT 2.1, section 5.7.2).
/// The shim headers of INT 0.5 and 1.0 have no NPT.
#[inline]
fn check_npt(int: &EmbeddedInt<'_>, by_port: bool) -> Result<(), IntError> {
    if let IntContents::Md(stack) = &int.contents
        && stack.layout != MetadataLayout::Int2
    {
        return Ok(());
    }
    let npt = match int.next {
        NextProtocol::Payload { .. } => 0,
        NextProtocol::UdpPayload { .. } => 1,
        NextProtocol::Header { .. } => 2,
    };
    if (npt != 0) == by_port {
        Ok(())
    } else {
        Err(IntError::NextProtocol(npt))
    }
}

/// Offset of the shim header in the bytes after the IP header. `None` without the mark.
#[inline]
fn int_place(ip: &Ip, ports: L4Ports, bytes: &[u8], domain: &IntDomain) -> Option<usize> {
    let is_udp = ip.protocol == PROTOCOL_UDP;
    let after_header = if is_udp {
        8
    } else {
        match domain.tcp_position {
            TcpPosition::BeforeOptions => 20,
            TcpPosition::AfterOptions => (usize::from(*bytes.get(12)? >> 4) * 4).max(20),
        }
    };
    match domain.marker {
        IntMarker::None => None,
        IntMarker::Dscp { value, mask } => (ip.dscp & mask == value & mask).then_some(after_header),
        IntMarker::UdpPort(port) => (is_udp && ports.destination == port).then_some(after_header),
        IntMarker::Probe(marker) => {
            let field = bytes.get(after_header..)?.first_chunk()?;
            (u64::from_be_bytes(*field) == marker).then_some(after_header + 8)
        }
    }
}
