//! Frames as the kernel has them, made frames as they are on a wire: checksums completed, merged
//! segments taken apart, VLAN tags put back.

use crate::inet::{Transport, Version, find_network, find_transport, network_end, pseudo_sum, sum};
use packet::{Frame, FrameError};

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// What virtio's header says about a frame; offsets count from the frame's first byte, without the
/// VLAN tag that the kernel has taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VnetHeader {
    /// The checksum is still to be computed: where the sum starts, and where it goes from there.
    pub(super) checksum: Option<(usize, usize)>,
    /// The frame holds several segments of this many payload bytes, of the kind below.
    pub(super) segments: Option<(SegmentKind, usize)>,
}

/// What merged segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams over either.
    Udp,
    /// Another kind, which is not known here.
    Other,
}

impl VnetHeader {
    /// Reads virtio's header of ten bytes, in the machine's byte order.
    pub(super) fn parse(header: &[u8; 10]) -> VnetHeader {
        let half = |i: usize| usize::from(u16::from_ne_bytes([header[i], header[i + 1]]));
        const NEEDS_CHECKSUM: u8 = 1;
        const WITH_ECN: u8 = 0x80;
        let kind = match header[1] & !WITH_ECN {
            0 => None,
            1 => Some(SegmentKind::Tcp4),
            4 => Some(SegmentKind::Tcp6),
            5 => Some(SegmentKind::Udp),
            _ => Some(SegmentKind::Other),
        };
        VnetHeader {
            checksum: (header[0] & NEEDS_CHECKSUM != 0).then(|| (half(6), half(8))),
            segments: kind.map(|kind| (kind, half(4))),
        }
    }
}

/// The Internet checksum of `bytes`; zero if they hold a right one.
pub(super) fn internet_checksum(bytes: &[u8]) -> u16 {
    !(sum(bytes, 0) as u16)
}

/// Completes a checksum of which the kernel has put the pseudo header's part into its field. Whether
/// the offsets are inside the frame; where not, it is unchanged.
pub(super) fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = frame.get_mut(start..) else {
        return false;
    };
    if covered.len() < offset + 2 {
        return false;
    }
    let value = !(sum(covered, 0) as u16);
    // Zero would mean "no checksum" in UDP; all ones is the same number.
    let value = if value == 0 { 0xffff } else { value };
    covered[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
    true
}

/// Completes the checksum of a frame that does not say whether its sender has left it to the interface:
/// it has if the field holds the pseudo header's sum. A right checksum that happens to be this number
/// stays as it is: completing it gives it again.
#[inline]
pub(super) fn complete_unfinished(frame: &mut [u8]) {
    let Some((version, network_at)) = find_network(frame) else {
        return;
    };
    let Some(end) = network_end(frame, version, network_at) else {
        return;
    };
    let Some((transport, at)) = find_transport(&frame[..end], version, network_at) else {
        return;
    };
    let checksum_at = at + transport.checksum_at();
    let Some(&[high, low]) = frame[..end].get(checksum_at..checksum_at + 2) else {
        return;
    };
    let pseudo = pseudo_sum(frame, version, network_at, transport, end - at);
    if pseudo == u32::from(u16::from_be_bytes([high, low])) {
        complete_checksum(&mut frame[..end], at, transport.checksum_at());
    }
}

/// Puts a VLAN tag behind the two addresses.
///
/// # Errors
/// The frame gets too long, or has no addresses.
pub(super) fn insert_vlan(
    frame: &mut Frame,
    protocol: u16,
    control: u16,
) -> Result<(), FrameError> {
    const ADDRESSES: usize = 12;
    if frame.len() < ADDRESSES {
        return Err(FrameError::TooShort {
            wanted: ADDRESSES,
            len: frame.len(),
        });
    }
    frame.push_front(&[0; 4])?;
    let bytes = frame.bytes_mut();
    bytes.copy_within(4..4 + ADDRESSES, 0);
    bytes[12..14].copy_from_slice(&protocol.to_be_bytes());
    bytes[14..16].copy_from_slice(&control.to_be_bytes());
    Ok(())
}

/// How a frame of merged segments is taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    version: Version,
    transport: Transport,
    /// Where the IP header starts.
    network_at: usize,
    /// Where the TCP or UDP header starts.
    transport_at: usize,
    /// Where the payload starts.
    payload_at: usize,
    payload_len: usize,
    /// Payload bytes of each segment but the last.
    size: usize,
}

impl Segments {
    /// Finds the headers of a frame of merged segments; `None` if it is not of a kind that can be
    /// taken apart: inside a tunnel, fragments, another protocol.
    pub(super) fn find(frame: &[u8], header: &VnetHeader) -> Option<Segments> {
        let (kind, size) = header.segments?;
        let (version, network_at) = find_network(frame)?;
        let wanted = match (kind, version) {
            (SegmentKind::Tcp4, Version::V4) | (SegmentKind::Tcp6, Version::V6) => Transport::Tcp,
            (SegmentKind::Udp, _) => Transport::Udp,
            _ => return None,
        };
        let (transport, transport_at) = find_transport(frame, version, network_at)?;
        let is_outermost = header
            .checksum
            .is_none_or(|(start, _)| start == transport_at);
        let header_len = match transport {
            Transport::Tcp => usize::from(frame.get(transport_at + 12)? >> 4) * 4,
            Transport::Udp => 8,
        };
        let payload_at = transport_at + header_len;
        let payload_len = network_end(frame, version, network_at)?.checked_sub(payload_at)?;
        let is_sound = transport == wanted && is_outermost && size > 0 && payload_len > 0;
        let is_tcp_header = transport == Transport::Udp || header_len >= 20;
        (is_sound && is_tcp_header).then_some(Segments {
            version,
            transport,
            network_at,
            transport_at,
            payload_at,
            payload_len,
            size,
        })
    }

    /// Number of segments, at least 1.
    pub(super) fn count(&self) -> usize {
        self.payload_len.div_ceil(self.size)
    }

    /// Writes the `i`-th segment of `merged`, the frame that this was found in, to `out`.
    ///
    /// # Errors
    /// The segment is longer than a frame can be.
    pub(super) fn write(&self, merged: &[u8], i: usize, out: &mut Frame) -> Result<(), FrameError> {
        let start = i * self.size;
        let end = (start + self.size).min(self.payload_len);
        let payload = &merged[self.payload_at + start..self.payload_at + end];
        out.assign_parts(&[&merged[..self.payload_at], payload])?;
        let bytes = out.bytes_mut();
        self.write_network(bytes, i);
        self.write_transport(bytes, i);
        Ok(())
    }

    /// Corrects the IP header: lengths, the identification, which counts up, the checksum.
    fn write_network(&self, bytes: &mut [u8], i: usize) {
        let len = bytes.len() - self.network_at;
        let header = &mut bytes[self.network_at..self.transport_at];
        match self.version {
            Version::V4 => {
                let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(i as u16);
                header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                header[4..6].copy_from_slice(&id.to_be_bytes());
                header[10..12].fill(0);
                let checksum = !(sum(header, 0) as u16);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            Version::V6 => header[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes()),
        }
    }

    /// Corrects the TCP or UDP header: sequence number and flags or length, and the checksum.
    fn write_transport(&self, bytes: &mut [u8], i: usize) {
        let is_last = i + 1 == self.count();
        let len = bytes.len() - self.transport_at;
        let pseudo = pseudo_sum(bytes, self.version, self.network_at, self.transport, len);
        let segment = &mut bytes[self.transport_at..];
        match self.transport {
            Transport::Tcp => {
                let first = u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]);
                let sequence = first.wrapping_add((i * self.size) as u32);
                segment[4..8].copy_from_slice(&sequence.to_be_bytes());
                if i > 0 {
                    segment[13] &= !TCP_CWR;
                }
                if !is_last {
                    segment[13] &= !(TCP_FIN | TCP_PSH);
                }
            }
            Transport::Udp => {
                let len = segment.len() as u16;
                segment[4..6].copy_from_slice(&len.to_be_bytes());
            }
        }
        let checksum_at = self.transport.checksum_at();
        segment[checksum_at..checksum_at + 2].fill(0);
        let value = !(sum(segment, pseudo) as u16);
        let is_udp = self.transport == Transport::Udp;
        let value = if value == 0 && is_udp { 0xffff } else { value };
        segment[checksum_at..checksum_at + 2].copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
