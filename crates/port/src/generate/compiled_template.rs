//! Compiled templates: prebuilt headers for each length, and for each variable field the checksums
//! that cover it.

use super::error::GeneratorError;
use super::template::{Field, Template, Values};
use crate::inet::{Transport, Version, find_network, find_transport, network_end, pseudo_sum};
use packet::Frame;
use std::ops::Range;
use support::checksum::{internet_checksum, sum_from};

/// A compiled template.
#[derive(Clone, Debug)]
pub(super) struct CompiledTemplate {
    /// One for each length.
    heads: Vec<Head>,
    /// Payload after the head, for frames with given lengths.
    payload: Vec<u8>,
    patches: Vec<Patch>,
    checksums: Checksums,
}

/// Headers of the frames of one length, with lengths and checksums.
#[derive(Clone, Debug)]
struct Head {
    bytes: Vec<u8>,
    /// Number of payload bytes after the head.
    payload_len: usize,
}

/// Offsets of a frame's Internet checksums.
#[derive(Clone, Copy, Debug, Default)]
struct Checksums {
    network: Option<usize>,
    transport: Option<(Transport, usize)>,
}

/// A variable field, with the checksums that cover it.
#[derive(Clone, Debug)]
struct Patch {
    at: usize,
    len: usize,
    values: Values,
    in_network: bool,
    in_transport: bool,
}

/// Positions of a template's headers.
#[derive(Clone, Copy, Debug)]
struct Layout {
    version: Version,
    network_at: usize,
    transport: Option<(Transport, usize)>,
    /// End of the IP packet. Padding may follow.
    end: usize,
}

impl Layout {
    fn find(bytes: &[u8]) -> Option<Layout> {
        let (version, network_at) = find_network(bytes)?;
        let fixed = match version {
            Version::V4 => 20,
            Version::V6 => 40,
        };
        let end = network_end(bytes, version, network_at)?;
        let transport = find_transport(&bytes[..end], version, network_at)
            .filter(|&(transport, at)| at + transport.checksum_at() + 2 <= end);
        (network_at + fixed <= end).then_some(Layout {
            version,
            network_at,
            transport,
            end,
        })
    }

    /// Returns the length of all headers, in bytes.
    fn head_len(&self, bytes: &[u8]) -> usize {
        match (self.transport, self.version) {
            (Some((Transport::Tcp, at)), _) => at + usize::from(bytes[at + 12] >> 4).max(5) * 4,
            (Some((Transport::Udp, at)), _) => at + 8,
            (None, Version::V4) => self.network_at + 20,
            (None, Version::V6) => self.network_at + 40,
        }
    }

    /// Returns the IPv4 header, which is the range of the IPv4 checksum.
    fn network_covered(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let len = usize::from(bytes[self.network_at] & 0xf).max(5) * 4;
        let end = (self.network_at + len).min(self.end);
        (self.version == Version::V4).then_some(self.network_at..end)
    }

    fn addresses(&self) -> Range<usize> {
        match self.version {
            Version::V4 => self.network_at + 12..self.network_at + 20,
            Version::V6 => self.network_at + 8..self.network_at + 40,
        }
    }

    /// Adjusts length fields and checksums to the frame's length.
    fn fit(&self, bytes: &mut [u8]) {
        let len = bytes.len() - self.network_at;
        match self.version {
            Version::V4 => put(bytes, self.network_at + 2, len as u16),
            Version::V6 => put(bytes, self.network_at + 4, (len - 40) as u16),
        }
        if let Some(covered) = self.network_covered(bytes) {
            put(bytes, self.network_at + 10, 0);
            let checksum = internet_checksum(&bytes[covered]);
            put(bytes, self.network_at + 10, checksum);
        }
        let Some((transport, at)) = self.transport else {
            return;
        };
        let len = bytes.len() - at;
        let checksum_at = at + transport.checksum_at();
        if transport == Transport::Udp {
            put(bytes, at + 4, len as u16);
            if get(bytes, checksum_at) == 0 {
                return;
            }
        }
        put(bytes, checksum_at, 0);
        let pseudo = pseudo_sum(bytes, self.version, self.network_at, transport, len);
        let value = !sum_from(pseudo, &bytes[at..]);
        put(bytes, checksum_at, never_zero(transport, value));
    }
}

impl CompiledTemplate {
    /// Compiles a template. If `lengths` is empty, frames keep the template's length and content.
    pub(super) fn new(
        number: usize,
        template: Template,
        lengths: &[usize],
        flows: u64,
    ) -> Result<CompiledTemplate, GeneratorError> {
        let Template { bytes, fields } = template;
        if bytes.len() > packet::MAX_FRAME {
            return Err(GeneratorError::TooLong { len: bytes.len() });
        }
        let layout = Layout::find(&bytes);
        check_values(number, &fields, flows)?;
        let shortest = lengths.iter().copied().min().unwrap_or(bytes.len());
        let fields_end = fields
            .iter()
            .map(|field| field.at.saturating_add(field.len))
            .max();
        let head_len = layout.map_or(0, |found| found.head_len(&bytes));
        let needed = match lengths {
            [] => fields_end.unwrap_or(0),
            _ => fields_end.unwrap_or(0).max(head_len),
        };
        if shortest < needed {
            return Err(GeneratorError::TooShort {
                template: number,
                len: shortest,
                needed,
            });
        }
        // Frames of given lengths have no padding.
        let end = match lengths {
            [] => layout.map_or(0, |found| found.end),
            _ => usize::MAX,
        };
        let patches: Result<Vec<Patch>, GeneratorError> = fields
            .into_iter()
            .map(|field| Patch::new(number, field, &bytes, layout.as_ref(), end))
            .collect();
        let (heads, payload) = heads(bytes, lengths, head_len, layout.as_ref());
        Ok(CompiledTemplate {
            heads,
            payload,
            patches: patches?,
            checksums: Checksums::of(layout.as_ref()),
        })
    }

    /// Writes a frame of flow `variant` with the `size`-th length to `frame`.
    #[inline]
    pub(super) fn cast(&self, size: usize, variant: u64, frame: &mut Frame) {
        let head = &self.heads[size];
        let payload = &self.payload[..head.payload_len];
        // All lengths are at most `MAX_FRAME`.
        let assigned = frame.assign_parts(&[&head.bytes, payload]);
        debug_assert!(assigned.is_ok());
        let mut rest = variant;
        for patch in &self.patches {
            let count = patch.values.count();
            patch.apply(frame.bytes_mut(), rest % count, &self.checksums);
            rest /= count;
        }
    }
}

/// Checks that the fields have enough values, as a product, for `flows` flows.
fn check_values(template: usize, fields: &[Field], flows: u64) -> Result<(), GeneratorError> {
    let mut possible = 1u64;
    for field in fields {
        let fits = match field.len {
            0 => 0,
            1..=7 => 1 << (8 * field.len),
            _ => u64::MAX,
        };
        let count = field.values.count();
        if count == 0 || count > fits || field.len > 8 {
            return Err(GeneratorError::BadField {
                template,
                at: field.at,
            });
        }
        possible = possible.saturating_mul(count);
    }
    if possible < flows {
        return Err(GeneratorError::TooFewValues {
            template,
            flows: possible,
        });
    }
    Ok(())
}

/// Returns the headers for each length, and the payload of the longest frame.
fn heads(
    bytes: Vec<u8>,
    lengths: &[usize],
    head_len: usize,
    layout: Option<&Layout>,
) -> (Vec<Head>, Vec<u8>) {
    if lengths.is_empty() {
        let head = Head {
            bytes,
            payload_len: 0,
        };
        return (vec![head], Vec::new());
    }
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut whole = bytes;
    let from_template = whole.len();
    whole.extend((from_template..longest).map(|i| i as u8));
    let head = |&len: &usize| {
        let mut frame = whole[..len].to_vec();
        if let Some(layout) = layout {
            layout.fit(&mut frame);
        }
        frame.truncate(head_len);
        Head {
            bytes: frame,
            payload_len: len - head_len,
        }
    };
    let heads = lengths.iter().map(head).collect();
    let payload = whole[head_len..longest].to_vec();
    (heads, payload)
}

impl Checksums {
    fn of(layout: Option<&Layout>) -> Checksums {
        let Some(layout) = layout else {
            return Checksums::default();
        };
        let transport = layout.transport;
        Checksums {
            network: (layout.version == Version::V4).then_some(layout.network_at + 10),
            transport: transport.map(|(kind, at)| (kind, at + kind.checksum_at())),
        }
    }
}

impl Patch {
    /// Creates the patch of a field. `end` is the end of the IP packet.
    fn new(
        template: usize,
        field: Field,
        bytes: &[u8],
        layout: Option<&Layout>,
        end: usize,
    ) -> Result<Patch, GeneratorError> {
        let Field { at, len, values } = field;
        let touches = |range: &Range<usize>| at < range.end && range.start < at + len;
        let is_inside = |range: &Range<usize>| range.start <= at && at + len <= range.end;
        let mut patch = Patch {
            at,
            len,
            values,
            in_network: false,
            in_transport: false,
        };
        let Some(layout) = layout else {
            return Ok(patch);
        };
        let network_at = layout.network_at;
        // The length field of the IP header is in this range.
        let mut fixed = vec![match layout.version {
            Version::V4 => network_at..network_at + 4,
            Version::V6 => network_at + 4..network_at + 6,
        }];
        let mut covered = Vec::new();
        if let Some(header) = layout.network_covered(bytes) {
            fixed.push(network_at + 10..network_at + 12);
            patch.in_network = is_inside(&header);
            covered.push(header);
        }
        if let Some((transport, start)) = layout.transport {
            let checksum_at = start + transport.checksum_at();
            fixed.push(checksum_at..checksum_at + 2);
            if transport == Transport::Udp {
                fixed.push(start + 4..start + 6);
            }
            let (addresses, segment) = (layout.addresses(), start..end);
            patch.in_transport = is_inside(&addresses) || is_inside(&segment);
            covered.extend([addresses, segment]);
        }
        let crosses_border = |range: &Range<usize>| touches(range) && !is_inside(range);
        if fixed.iter().any(touches) || covered.iter().any(crosses_border) {
            return Err(GeneratorError::BadField { template, at });
        }
        Ok(patch)
    }

    #[inline]
    fn apply(&self, bytes: &mut [u8], value: u64, checksums: &Checksums) {
        let value = self.values.get(value).to_be_bytes();
        let place = &mut bytes[self.at..self.at + self.len];
        let before = weighed(self.at, place);
        place.copy_from_slice(&value[8 - self.len..]);
        let after = weighed(self.at, place);
        if self.in_network
            && let Some(at) = checksums.network
        {
            let checksum = replaced(get(bytes, at), before, after);
            put(bytes, at, checksum);
        }
        if self.in_transport
            && let Some((transport, at)) = checksums.transport
        {
            let old = get(bytes, at);
            if transport == Transport::Udp && old == 0 {
                return;
            }
            let checksum = replaced(old, before, after);
            put(bytes, at, never_zero(transport, checksum));
        }
    }
}

/// Returns the sum that bytes at offset `at` add to a checksum. Headers start at even offsets.
#[inline]
fn weighed(at: usize, bytes: &[u8]) -> u32 {
    let mut total = 0;
    for (i, byte) in bytes.iter().enumerate() {
        let is_high = (at + i).is_multiple_of(2);
        total += u32::from(*byte) << if is_high { 8 } else { 0 };
    }
    total
}

/// Updates a checksum after bytes with the sum `before` were replaced by bytes with the sum
/// `after` (RFC 1624, equation 3).
#[inline]
fn replaced(checksum: u16, before: u32, after: u32) -> u16 {
    // `before` is at most 8 * 0xff00. Adding 8 * 0xffff avoids an underflow. A multiple of 0xffff
    // counts as zero.
    let mut total = u32::from(!checksum) + 8 * 0xffff - before + after;
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    !(total as u16)
}

/// Replaces a UDP checksum of zero, which would mean "no checksum", by the equivalent all ones.
#[inline]
fn never_zero(transport: Transport, checksum: u16) -> u16 {
    if checksum == 0 && transport == Transport::Udp {
        0xffff
    } else {
        checksum
    }
}

#[inline]
fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
