//! Test frames with nested tunnels, built from a list of headers. The code is slow, simple, and
//! independent of the tested code.

use proptest::prelude::*;

/// One header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Ethernet with this number of VLAN tags.
    Ethernet(usize),
    /// A stack of this number of labels.
    Mpls(usize),
    Pppoe,
    /// IPv4, with options if true.
    V4(bool),
    /// IPv6 with extension headers, by number:
    /// - 1: destination options
    /// - 2: a segment routing header of two segments, of which one is left
    /// - 3: hop-by-hop options and the fragment header of an atomic fragment
    /// - otherwise: none
    V6(u8),
    Gre {
        checksum: bool,
        key: bool,
    },
    Vxlan,
    VxlanGpe,
    /// Geneve with this number of 4-byte words of options.
    Geneve(usize),
    Gue,
    /// UDP with this destination port, with a checksum if true.
    Udp(u16, bool),
    Tcp,
    Sctp,
}

/// Returns the Internet checksum, computed literally as in RFC 1071.
pub(crate) fn naive_checksum(bytes: &[u8]) -> u16 {
    let mut total: u32 = 0;
    for (i, byte) in bytes.iter().enumerate() {
        total += if i % 2 == 0 {
            u32::from(*byte) << 8
        } else {
            u32::from(*byte)
        };
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// Returns the CRC-32C, computed bit by bit.
pub(crate) fn naive_crc32c(bytes: &[u8]) -> u32 {
    let mut remainder = !0u32;
    for byte in bytes {
        remainder ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = remainder & 1;
            remainder = remainder >> 1 ^ if carry == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !remainder
}

fn ethertype(part: &Part) -> u16 {
    match part {
        Part::Ethernet(_) => 0x6558,
        Part::Mpls(_) => 0x8847,
        Part::Pppoe => 0x8864,
        Part::V4(_) => 0x0800,
        _ => 0x86dd,
    }
}

fn protocol(part: &Part) -> u8 {
    match part {
        Part::V4(_) => 4,
        Part::V6(_) => 41,
        Part::Gre { .. } => 47,
        Part::Mpls(_) => 137,
        Part::Tcp => 6,
        Part::Sctp => 132,
        _ => 17,
    }
}

/// Position of a checksum in the frame, the start of the header that it belongs to, and the sum of
/// its pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) start: usize,
    pub(crate) at: usize,
    pub(crate) pseudo: u16,
    pub(crate) is_crc: bool,
}

/// A frame and its checksums, outermost first. IPv4 header checksums are not listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    pub(crate) bytes: Vec<u8>,
    pub(crate) checksums: Vec<Checksum>,
}

/// Builds a frame of these headers and this payload. `position` gives the segment's place in a
/// sequence of segments. Headers without a checksum have 0 there.
pub(crate) fn make(parts: &[Part], payload: &[u8], position: Position) -> Made {
    make_from(parts, &[], 0, payload, position)
}

/// Position of a segment in a segmented packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    pub(crate) segment: u16,
    pub(crate) skipped: u32,
    pub(crate) is_not_last: bool,
}

fn make_from(
    parts: &[Part],
    addresses: &[u8],
    start: usize,
    payload: &[u8],
    position: Position,
) -> Made {
    let Some((part, inside)) = parts.split_first() else {
        return Made {
            bytes: payload.to_vec(),
            checksums: Vec::new(),
        };
    };
    let next = inside.first();
    let kind = next.map_or(0, ethertype).to_be_bytes();
    let number = next.map_or(59, protocol);
    let mut addresses = addresses.to_vec();
    let mut header: Vec<u8> = Vec::new();
    match part {
        Part::Ethernet(tags) => {
            header.extend([2; 12]);
            (0..*tags).for_each(|_| header.extend([0x81, 0, 0, 5]));
            header.extend(kind);
        }
        Part::Mpls(labels) => {
            (1..*labels).for_each(|_| header.extend([1, 2, 0x30, 64]));
            header.extend([1, 2, 0x31, 64]);
        }
        Part::Pppoe => {
            header.extend([0x11, 0, 0, 7, 0, 0]);
            header.extend(if kind == [8, 0] { [0, 0x21] } else { [0, 0x57] });
        }
        Part::V4(options) => {
            header.extend([if *options { 0x47 } else { 0x45 }, 0, 0, 0]);
            let id = 0xfffeu16.wrapping_add(position.segment);
            header.extend(id.to_be_bytes());
            header.extend([0x40, 0, 64, number, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            if *options {
                header.extend([1, 1, 1, 1, 1, 1, 1, 0]);
            }
            addresses = header[12..20].to_vec();
        }
        Part::V6(extensions) => {
            header.extend([0x60, 0, 0, 0, 0, 0]);
            let first = match extensions {
                1 => 60,
                2 => 43,
                3 => 0,
                _ => number,
            };
            header.extend([first, 64]);
            header.extend([0x20; 16]);
            header.extend([0x30; 16]);
            addresses = header[8..40].to_vec();
            match extensions {
                1 => header.extend([number, 0, 1, 4, 0, 0, 0, 0]),
                2 => {
                    header.extend([number, 4, 4, 1, 1, 0, 0, 0]);
                    header.extend([0x40; 16]);
                    header.extend([0x30; 16]);
                    addresses.truncate(16);
                    addresses.extend([0x40; 16]);
                }
                3 => {
                    header.extend([44, 0, 1, 4, 0, 0, 0, 0]);
                    header.extend([number, 0, 0, 0, 1, 2, 3, 4]);
                }
                _ => {}
            }
        }
        Part::Gre { checksum, key } => {
            let flags = u8::from(*checksum) << 7 | u8::from(*key) << 5;
            header.extend([flags, 0]);
            header.extend(kind);
            if *checksum {
                header.extend([0; 4]);
            }
            if *key {
                header.extend([1, 2, 3, 4]);
            }
        }
        Part::Vxlan => header.extend([8, 0, 0, 0, 0, 0, 7, 0]),
        Part::VxlanGpe => {
            let protocol = match next {
                Some(Part::V4(_)) => 1,
                Some(Part::V6(_)) => 2,
                Some(Part::Mpls(_)) => 5,
                _ => 3,
            };
            header.extend([0x0c, 0, 0, protocol, 0, 0, 7, 0]);
        }
        Part::Geneve(words) => {
            header.extend([*words as u8, 0]);
            header.extend(kind);
            header.extend([0, 0, 7, 0]);
            header.extend(vec![9; words * 4]);
        }
        Part::Gue => header.extend([0, number, 0, 0]),
        Part::Udp(port, _) => {
            header.extend([0xc0, 1]);
            header.extend(port.to_be_bytes());
            header.extend([0; 4]);
        }
        Part::Tcp => {
            header.extend([0x12, 0x34, 0x00, 0x50]);
            header.extend(0xffff_ff00u32.wrapping_add(position.skipped).to_be_bytes());
            let cwr = if position.segment == 0 { 0x80 } else { 0 };
            let end = if position.is_not_last { 0 } else { 0x09 };
            header.extend([0, 0, 0, 1, 0x80, 0x10 | cwr | end, 1, 0, 0, 0, 0, 0]);
            header.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        }
        Part::Sctp => header.extend([0x12, 0x34, 0, 80, 9, 9, 9, 9, 0, 0, 0, 0]),
    }
    let behind = start + header.len();
    let made = make_from(inside, &addresses, behind, payload, position);
    let mut checksums = made.checksums;
    let mut bytes = header.clone();
    bytes.extend(made.bytes);
    let len = bytes.len();
    let mut put = |at: usize, value: usize| {
        bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
    };
    match part {
        Part::V4(_) => put(2, len),
        Part::V6(_) => put(4, len - 40),
        Part::Pppoe => put(4, len - 6),
        Part::Udp(..) => put(4, len),
        _ => {}
    }
    if let Part::V4(options) = part {
        let value = naive_checksum(&bytes[..if *options { 28 } else { 20 }]);
        bytes[10..12].copy_from_slice(&value.to_be_bytes());
    }
    let field = match part {
        Part::Gre { checksum: true, .. } => 4,
        Part::Udp(_, true) => 6,
        Part::Tcp => 16,
        Part::Sctp => 8,
        _ => return Made { bytes, checksums },
    };
    let is_crc = *part == Part::Sctp;
    let mut pseudo = addresses;
    pseudo.extend([0, protocol(part)]);
    pseudo.extend((len as u32).to_be_bytes());
    if matches!(part, Part::Gre { .. }) || is_crc {
        pseudo.clear();
    }
    checksums.insert(
        0,
        Checksum {
            start,
            at: start + field,
            pseudo: !naive_checksum(&pseudo),
            is_crc,
        },
    );
    if is_crc {
        let value = naive_crc32c(&bytes);
        bytes[8..12].copy_from_slice(&value.to_le_bytes());
    } else {
        let covered = [&pseudo[..], &bytes].concat();
        let value = match (naive_checksum(&covered), part) {
            (0, Part::Udp(..)) => 0xffff,
            (value, _) => value,
        };
        bytes[field..field + 2].copy_from_slice(&value.to_be_bytes());
    }
    Made { bytes, checksums }
}

/// Generates headers from Ethernet to a transport protocol, with up to three tunnels.
pub(crate) fn parts() -> impl Strategy<Value = Vec<Part>> {
    let transport = prop::sample::select(vec![Part::Tcp, Part::Udp(80, true), Part::Sctp]);
    (bridged(), prop::collection::vec(tunnel(), 0..4), transport).prop_map(
        |(mut parts, tunnels, transport)| {
            tunnels.into_iter().for_each(|tunnel| parts.extend(tunnel));
            parts.push(transport);
            parts
        },
    )
}

fn ip() -> impl Strategy<Value = Vec<Part>> {
    prop_oneof![
        any::<bool>().prop_map(|options| vec![Part::V4(options)]),
        (0u8..4).prop_map(|extensions| vec![Part::V6(extensions)]),
    ]
}

/// Generates headers from Ethernet to IP.
fn bridged() -> impl Strategy<Value = Vec<Part>> {
    let between = prop_oneof![
        4 => Just(None),
        1 => (1usize..4).prop_map(|labels| Some(Part::Mpls(labels))),
        1 => Just(Some(Part::Pppoe)),
    ];
    (0usize..3, between, ip()).prop_map(|(tags, between, ip)| {
        let mut parts = vec![Part::Ethernet(tags)];
        parts.extend(between);
        parts.extend(ip);
        parts
    })
}

fn plain_bridged() -> impl Strategy<Value = Vec<Part>> {
    (0usize..3, ip()).prop_map(|(tags, ip)| [vec![Part::Ethernet(tags)], ip].concat())
}

/// Generates the headers after an IP header, up to the next IP header.
fn tunnel() -> impl Strategy<Value = Vec<Part>> {
    let gre = || {
        let made = |(checksum, key)| vec![Part::Gre { checksum, key }];
        any::<(bool, bool)>().prop_map(made)
    };
    let join = |(a, b): (Vec<Part>, Vec<Part>)| [a, b].concat();
    let udp = |port: u16| any::<bool>().prop_map(move |checksum| vec![Part::Udp(port, checksum)]);
    let with = move |port: u16, part: Part| {
        udp(port).prop_map(move |udp| [udp, vec![part.clone()]].concat())
    };
    prop_oneof![
        ip(),
        (gre(), ip()).prop_map(join),
        (gre(), bridged()).prop_map(join),
        (with(4789, Part::Vxlan), bridged()).prop_map(join),
        (with(8472, Part::Vxlan), bridged()).prop_map(join),
        (with(5000, Part::Vxlan), plain_bridged()).prop_map(join),
        (with(4790, Part::VxlanGpe), bridged()).prop_map(join),
        (with(4790, Part::VxlanGpe), ip()).prop_map(join),
        (with(6081, Part::Geneve(0)), ip()).prop_map(join),
        (with(6081, Part::Geneve(3)), bridged()).prop_map(join),
        (with(5001, Part::Geneve(1)), plain_bridged()).prop_map(join),
        (with(6080, Part::Gue), ip()).prop_map(join),
        (udp(5555), ip()).prop_map(join),
        (udp(4754), gre(), bridged()).prop_map(|(a, b, c)| [a, b, c].concat()),
        (udp(5556), gre(), plain_bridged()).prop_map(|(a, b, c)| [a, b, c].concat()),
        (with(6635, Part::Mpls(2)), ip()).prop_map(join),
    ]
}
