//! Where the headers of a frame are, and the sums that their checksums are made of.

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// IPv6 extension headers that may stand before the transport header and have the usual length
/// field: hop-by-hop options, routing, destination options.
const IPV6_EXTENSIONS: [u8; 3] = [0, 43, 60];

/// The version of a frame's Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

/// A transport protocol with the Internet checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    fn protocol(self) -> u8 {
        match self {
            Transport::Tcp => PROTOCOL_TCP,
            Transport::Udp => PROTOCOL_UDP,
        }
    }

    /// Where the checksum is in the transport header.
    pub(crate) fn checksum_at(self) -> usize {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }
}

/// The 16-bit number at `at`, most significant byte first.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([word[0], word[1]]))
}

/// The sum of 16-bit words that Internet checksums are made of, before it is inverted. `bytes` of odd
/// length count as if a zero byte came behind.
#[inline]
pub(crate) fn sum(bytes: &[u8], start: u32) -> u32 {
    // The sum does not depend on the order of bytes in a word, but for the order of its own (RFC
    // 1071).
    let mut total = 0u64;
    let mut steps = bytes.chunks_exact(8);
    for step in steps.by_ref() {
        let [a, b, c, d, e, f, g, h] = *step else {
            continue;
        };
        total += u64::from(u32::from_le_bytes([a, b, c, d]));
        total += u64::from(u32::from_le_bytes([e, f, g, h]));
    }
    let mut last = [0; 8];
    let rest = steps.remainder();
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from_le_bytes(last);
    total += (last & 0xffff_ffff) + (last >> 32);
    let swapped = (fold(total) as u16).swap_bytes();
    fold(u64::from(swapped) + u64::from(start))
}

/// A sum with its carries added in.
#[inline]
fn fold(mut total: u64) -> u32 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u32
}

/// The IP header of a frame, behind any tags.
pub(crate) fn find_network(frame: &[u8]) -> Option<(Version, usize)> {
    let mut at = ETHERNET;
    loop {
        let ethertype = u16::from_be_bytes([*frame.get(at - 2)?, *frame.get(at - 1)?]);
        match ethertype {
            ETHERTYPE_IPV4 => return Some((Version::V4, at)),
            ETHERTYPE_IPV6 => return Some((Version::V6, at)),
            tag if ETHERTYPE_VLAN.contains(&tag) => at += 4,
            _ => return None,
        }
    }
}

/// The transport header of a frame, if it is TCP or UDP, no fragment, and all headers are inside.
pub(crate) fn find_transport(
    frame: &[u8],
    version: Version,
    network_at: usize,
) -> Option<(Transport, usize)> {
    let (protocol, at) = match version {
        Version::V4 => {
            let len = usize::from(frame.get(network_at)? & 0xf) * 4;
            // More fragments to come, or an offset.
            let is_fragment =
                frame.get(network_at + 6)? & 0x3f != 0 || *frame.get(network_at + 7)? != 0;
            if is_fragment {
                return None;
            }
            (*frame.get(network_at + 9)?, network_at + len.max(20))
        }
        Version::V6 => {
            let mut next = *frame.get(network_at + 6)?;
            let mut at = network_at + 40;
            while IPV6_EXTENSIONS.contains(&next) {
                next = *frame.get(at)?;
                at += (usize::from(*frame.get(at + 1)?) + 1) * 8;
            }
            (next, at)
        }
    };
    let transport = match protocol {
        PROTOCOL_TCP => Transport::Tcp,
        PROTOCOL_UDP => Transport::Udp,
        _ => return None,
    };
    (at + 8 <= frame.len()).then_some((transport, at))
}

/// The sum of the pseudo header of a segment of `len` bytes: addresses, protocol, length. The IP header
/// must be inside the frame.
pub(crate) fn pseudo_sum(
    frame: &[u8],
    version: Version,
    network_at: usize,
    transport: Transport,
    len: usize,
) -> u32 {
    let addresses = match version {
        Version::V4 => network_at + 12..network_at + 20,
        Version::V6 => network_at + 8..network_at + 40,
    };
    sum(
        &frame[addresses],
        u32::from(transport.protocol()) + len as u32,
    )
}

/// Where the IP packet ends: what its length says, as a short frame has padding behind it, but all of
/// the frame where the length is 0, which a packet above 64 KiB has.
pub(crate) fn network_end(frame: &[u8], version: Version, network_at: usize) -> Option<usize> {
    let half = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *frame.get(at)?,
            *frame.get(at + 1)?,
        ])))
    };
    let end = match version {
        Version::V4 => match half(network_at + 2)? {
            0 => frame.len(),
            len => network_at + len,
        },
        Version::V6 => match half(network_at + 4)? {
            0 => frame.len(),
            len => network_at + 40 + len,
        },
    };
    (end <= frame.len()).then_some(end)
}
