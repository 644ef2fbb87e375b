//! Locates the IP and transport header of a frame, and computes Internet checksums (RFC 1071).

/// Length of an Ethernet header without tags, in bytes.
const ETHERNET: usize = 14;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// IPv6 extension headers that may precede the transport header and have the common length field:
/// hop-by-hop options, routing, destination options.
const IPV6_EXTENSIONS: [u8; 3] = [0, 43, 60];

/// The IP version of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

/// A transport protocol with an Internet checksum.
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

    /// Returns the offset of the checksum in the transport header.
    pub(crate) fn checksum_at(self) -> usize {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }
}

/// Returns the big-endian 16-bit word at `at`, or `None` if it is outside of `bytes`.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([word[0], word[1]]))
}

/// Returns the one's complement sum of the 16-bit words of `bytes`, added to `start` and not yet
/// inverted. An odd number of bytes is padded with a zero byte.
#[inline]
pub(crate) fn sum(bytes: &[u8], start: u32) -> u32 {
    // The sum is independent of byte order (RFC 1071, section 2B): little-endian words are added,
    // and the result is swapped.
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

/// Folds the carries of a sum back into 16 bits.
#[inline]
fn fold(mut total: u64) -> u32 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u32
}

/// Returns the version and offset of the IP header, after any VLAN tags.
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

/// Returns the protocol and offset of the transport header. Returns `None` if it is neither TCP
/// nor UDP, the packet is a fragment, or a header is truncated.
pub(crate) fn find_transport(
    frame: &[u8],
    version: Version,
    network_at: usize,
) -> Option<(Transport, usize)> {
    let (protocol, at) = match version {
        Version::V4 => {
            let len = usize::from(frame.get(network_at)? & 0xf) * 4;
            // More fragments, or a fragment offset.
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

/// Returns the sum of the pseudo header of a segment of `len` bytes: addresses, protocol and
/// length. The IP header must be inside the frame.
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

/// Returns the end offset of the IP packet by its length field, because a short frame has padding
/// after the packet. If the length is 0, as in a packet above 64 KiB, the packet fills the frame.
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
