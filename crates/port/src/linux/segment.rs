//! Converts frames from the kernel's form to wire format: completes checksums, segments merged TCP
//! and UDP frames (GSO), and reinserts VLAN tags.

use crate::crc32c;
use crate::inet::{
    Transport, Version, find_network, find_transport, network_end, pseudo_sum, sum, word,
};
use crate::layers::{Kind, Layer, Layers, is_tunnel};
use packet::{Frame, FrameError};

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// Contents of a virtio network header. Offsets are relative to the frame's first byte, without
/// the VLAN tag that the kernel has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VnetHeader {
    /// The checksum to complete, if any: the offset at which the sum starts, and the offset of the
    /// field from there.
    pub(super) checksum: Option<(usize, usize)>,
    /// Type and payload size of the segments, if the frame is merged.
    pub(super) segments: Option<(SegmentKind, usize)>,
}

/// Type of the segments of a merged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams over IPv4 or IPv6.
    Udp,
    /// Another type, which is not supported.
    Other,
}

impl VnetHeader {
    /// Parses a virtio network header of ten bytes, in host byte order.
    pub(super) fn parse(header: &[u8; 10]) -> VnetHeader {
        let half = |i: usize| usize::from(u16::from_ne_bytes([header[i], header[i + 1]]));
        const NEEDS_CHECKSUM: u8 = 1;
        const WITH_ECN: u8 = 0x80;
        // Flags for a UDP tunnel over IPv4 or IPv6 (virtio 1.4). The header offsets suffice here.
        const IN_TUNNEL: u8 = 0x60;
        let kind = match header[1] & !(WITH_ECN | IN_TUNNEL) {
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

/// Returns the Internet checksum of `bytes`. It is zero if they contain a correct checksum.
pub(super) fn internet_checksum(bytes: &[u8]) -> u16 {
    !(sum(bytes, 0) as u16)
}

/// Completes the checksum over the bytes from `start`. Its field is `offset` bytes after `start`.
/// Returns false, with the frame unchanged, if that is impossible.
///
/// The field of an Internet checksum holds the sum of the pseudo header. The field of an SCTP
/// checksum has no valid content. The kernel marks SCTP only by its offset.
pub(super) fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) -> bool {
    const SCTP_OFFSET: usize = 8;
    if offset == SCTP_OFFSET && Layers::up_to(frame, start, Kind::Sctp).is_some() {
        return complete_sctp(frame, start);
    }
    let Some(covered) = frame.get_mut(start..) else {
        return false;
    };
    if covered.len() < offset + 2 {
        return false;
    }
    let value = !(sum(covered, 0) as u16);
    // Zero would mean "no checksum" in UDP. All ones is the equivalent value.
    let is_udp = offset == Transport::Udp.checksum_at();
    let value = if value == 0 && is_udp { 0xffff } else { value };
    covered[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
    true
}

fn complete_sctp(frame: &mut [u8], start: usize) -> bool {
    let Some(packet) = frame.get_mut(start..).filter(|p| p.len() >= 12) else {
        return false;
    };
    let value = crc32c::sctp_checksum(packet, 8);
    packet[8..12].copy_from_slice(&value);
    true
}

/// Completes the checksum of a frame without a virtio header, if the sender left it to the
/// interface. This is assumed if the field holds the pseudo header's sum, or zero for SCTP. A
/// correct checksum of that value does not change: completing it gives the same value.
#[inline]
pub(super) fn complete_unfinished(frame: &mut [u8]) {
    let Some((version, network_at)) = find_network(frame) else {
        if is_layered(frame) {
            complete_inside(frame);
        }
        return;
    };
    let Some(end) = network_end(frame, version, network_at) else {
        return;
    };
    let Some((transport, at)) = find_transport(&frame[..end], version, network_at) else {
        if may_be_tunnel(&frame[..end], version, network_at) {
            complete_inside(frame);
        }
        return;
    };
    let port = word(frame, at + 2).unwrap_or(0);
    let has_extensions = version == Version::V6 && at != network_at + 40;
    let is_tunnel = || transport == Transport::Udp && is_tunnel(frame, at + 8, end, port);
    if has_extensions || is_tunnel() {
        complete_inside(frame);
        return;
    }
    let checksum_at = at + transport.checksum_at();
    let Some(&[high, low]) = frame[..end].get(checksum_at..checksum_at + 2) else {
        return;
    };
    let pseudo = pseudo_sum(frame, version, network_at, transport, end - at);
    if pseudo == u32::from(u16::from_be_bytes([high, low])) {
        complete_checksum(&mut frame[..end], at, transport.checksum_at());
    }
}

/// Returns true if headers other than VLAN tags are between the Ethernet and IP headers.
#[cold]
fn is_layered(frame: &[u8]) -> bool {
    !Layers::of(frame).as_slice().is_empty()
}

/// Returns true if an IP packet without a TCP or UDP header directly after the IP header may
/// contain other headers. ICMP does not.
#[cold]
fn may_be_tunnel(frame: &[u8], version: Version, network_at: usize) -> bool {
    const ICMP: u8 = 1;
    const ICMP6: u8 = 58;
    let protocol = match version {
        Version::V4 => network_at + 9,
        Version::V6 => network_at + 6,
    };
    frame
        .get(protocol)
        .is_some_and(|protocol| ![ICMP, ICMP6].contains(protocol))
}

/// Completes the one checksum that the sender left to the interface, at any nesting depth.
///
/// The kernel computes outer checksums as if the inner checksum were complete. This distinguishes
/// it from an incomplete checksum in a payload, such as a captured frame.
#[inline(never)]
fn complete_inside(frame: &mut [u8]) {
    let layers = Layers::of(frame);
    for (n, layer) in layers.as_slice().iter().enumerate().rev() {
        let Some(checksum_at) = layer.checksum_at() else {
            continue;
        };
        let field = checksum_at..checksum_at + if layer.kind == Kind::Sctp { 4 } else { 2 };
        let mut before = [0; 4];
        let before = &mut before[..field.len()];
        before.copy_from_slice(&frame[field.clone()]);
        let packet = layer.at()..layer.end();
        let pseudo = layers.pseudo_sum(frame, n, packet.len());
        let holds_pseudo = || pseudo == word(before, 0).map(u32::from);
        let is_complete = match layer.kind {
            Kind::Sctp if before == [0; 4] => complete_sctp(&mut frame[packet], 0),
            Kind::Tcp | Kind::Udp if holds_pseudo() => {
                complete_checksum(&mut frame[packet], 0, checksum_at - layer.at())
            }
            _ => false,
        };
        if is_complete {
            if are_right_outside(frame, &layers, n) {
                return;
            }
            frame[field].copy_from_slice(before);
        }
    }
}

/// Returns true if all checksums outside of the `n`-th header are correct. Missing ones count as
/// correct.
fn are_right_outside(frame: &[u8], layers: &Layers, n: usize) -> bool {
    let mut outside = layers.as_slice()[..n].iter().enumerate();
    outside.all(|(n, layer)| {
        let packet = &frame[layer.at()..layer.end()];
        let pseudo = layers.pseudo_sum(frame, n, packet.len());
        match (layer.kind, pseudo) {
            (Kind::Udp, _) if packet[6..8] == [0, 0] => true,
            (Kind::Udp | Kind::Gre, Some(pseudo)) => sum(packet, pseudo) == 0xffff,
            _ => true,
        }
    })
}

/// Inserts a VLAN tag after the two Ethernet addresses.
///
/// # Errors
/// The frame becomes too long, or is too short for the addresses.
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

/// Segmentation of a merged frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    /// All headers with lengths or checksums. The last is the TCP or UDP header of the segments.
    layers: Layers,
    transport: Kind,
    /// Offset of the TCP or UDP header.
    transport_at: usize,
    /// Offset of the payload.
    payload_at: usize,
    payload_len: usize,
    /// Payload bytes of each segment except the last.
    size: usize,
}

impl Segments {
    /// Finds the headers of a merged frame. Returns `None` if it cannot be segmented: a fragment,
    /// an unsupported protocol, or truncated headers.
    pub(super) fn find(frame: &[u8], header: &VnetHeader) -> Option<Segments> {
        let (kind, size) = header.segments?;
        let transport = match kind {
            SegmentKind::Tcp4 | SegmentKind::Tcp6 => Kind::Tcp,
            SegmentKind::Udp => Kind::Udp,
            SegmentKind::Other => return None,
        };
        // The checksum to complete is the one of the segments.
        let layers = match header.checksum {
            Some((start, _)) => Layers::up_to(frame, start, transport)?,
            None => innermost(frame, transport)?,
        };
        let (last, outside) = layers.as_slice().split_last()?;
        let is_four = layers.is_in_ipv4(outside.len());
        let is_wanted = match kind {
            SegmentKind::Tcp4 => is_four,
            SegmentKind::Tcp6 => !is_four,
            _ => true,
        };
        let transport_at = last.at();
        let header_len = match transport {
            Kind::Tcp => usize::from(frame.get(transport_at + 12)? >> 4) * 4,
            _ => 8,
        };
        let payload_at = transport_at + header_len;
        let payload_len = last.end().checked_sub(payload_at)?;
        let is_sound = is_wanted && size > 0 && payload_len > 0;
        let is_tcp_header = transport == Kind::Udp || header_len >= 20;
        (is_sound && is_tcp_header).then_some(Segments {
            layers,
            transport,
            transport_at,
            payload_at,
            payload_len,
            size,
        })
    }

    /// Returns the number of segments, at least 1.
    pub(super) fn count(&self) -> usize {
        self.payload_len.div_ceil(self.size)
    }

    /// Writes the `i`-th segment to `out`. `merged` must be the frame that `self` was found in.
    ///
    /// # Errors
    /// The segment exceeds the maximum frame length.
    pub(super) fn write(&self, merged: &[u8], i: usize, out: &mut Frame) -> Result<(), FrameError> {
        let start = i * self.size;
        let end = (start + self.size).min(self.payload_len);
        let payload = &merged[self.payload_at + start..self.payload_at + end];
        out.assign_parts(&[&merged[..self.payload_at], payload])?;
        let bytes = out.bytes_mut();
        self.write_lengths(bytes, i);
        self.write_transport(bytes, i);
        self.write_checksums(bytes);
        Ok(())
    }

    /// Updates all length fields, and increments the IPv4 identification by `i`.
    fn write_lengths(&self, bytes: &mut [u8], i: usize) {
        for layer in self.layers.as_slice() {
            let at = layer.at();
            let len = bytes.len() - at;
            let mut put = |at: usize, value: usize| {
                bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
            };
            match layer.kind {
                Kind::V4 => {
                    put(at + 2, len);
                    let id = u16::from_be_bytes([bytes[at + 4], bytes[at + 5]]);
                    let id = id.wrapping_add(i as u16);
                    bytes[at + 4..at + 6].copy_from_slice(&id.to_be_bytes());
                }
                Kind::V6(_) => put(at + 4, len - 40),
                Kind::Pppoe => put(at + 4, len - 6),
                Kind::Udp => put(at + 4, len),
                Kind::Tcp | Kind::Sctp | Kind::Gre => {}
            }
        }
    }

    /// Updates sequence number and flags of a TCP header.
    fn write_transport(&self, bytes: &mut [u8], i: usize) {
        if self.transport != Kind::Tcp {
            return;
        }
        let is_last = i + 1 == self.count();
        let segment = &mut bytes[self.transport_at..];
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

    /// Computes all checksums, innermost first, because outer checksums cover inner ones.
    fn write_checksums(&self, bytes: &mut [u8]) {
        let layers = self.layers.as_slice();
        // Offset of the last header completed, and the sum of all bytes from there. It follows
        // from the complete checksum.
        let mut known: Option<(usize, u32)> = None;
        for (n, layer) in layers.iter().enumerate().rev() {
            let at = layer.at();
            if layer.kind == Kind::V4 {
                let len = usize::from(bytes[at] & 0xf) * 4;
                let header = &mut bytes[at..at + len];
                header[10..12].fill(0);
                let checksum = !(sum(header, 0) as u16);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            let Some(field) = layer.checksum_at() else {
                continue;
            };
            let is_last = n + 1 == layers.len();
            // The UDP header of a tunnel may have no checksum.
            if layer.kind == Kind::Udp && !is_last && bytes[field..field + 2] == [0, 0] {
                continue;
            }
            let len = bytes.len() - at;
            let Some(pseudo) = self.layers.pseudo_sum(bytes, n, len) else {
                continue;
            };
            bytes[field..field + 2].fill(0);
            let total = match known {
                // Both sums have the same word alignment, so the inner sum can be reused.
                Some((from, inside)) if (from - at) % 2 == 0 => {
                    sum(&bytes[at..from], pseudo + inside)
                }
                _ => sum(&bytes[at..], pseudo),
            };
            let value = !(total as u16);
            let is_zero = value == 0 && layer.kind == Kind::Udp;
            let value = if is_zero { 0xffff } else { value };
            bytes[field..field + 2].copy_from_slice(&value.to_be_bytes());
            known = Some((at, u32::from(!(pseudo as u16))));
        }
    }
}

/// Returns the headers up to the innermost header of this type.
fn innermost(frame: &[u8], transport: Kind) -> Option<Layers> {
    let layers = Layers::of(frame);
    let is_it = |layer: &Layer| layer.kind == transport;
    let place = layers.as_slice().iter().rposition(is_it)?;
    Some(layers.cut(place + 1))
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
