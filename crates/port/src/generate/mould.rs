//! A template made ready: headers for each length, and which checksums each field is in.

use super::error::GeneratorError;
use super::template::{Field, Template, Values};
use crate::inet::{Transport, Version, find_network, find_transport, network_end, pseudo_sum, sum};
use packet::Frame;
use std::ops::Range;

/// A template made ready.
#[derive(Clone, Debug)]
pub(super) struct Mould {
    /// One for each length.
    heads: Vec<Head>,
    /// What stands behind the head of frames that are longer.
    payload: Vec<u8>,
    patches: Vec<Patch>,
    checksums: Checksums,
}

/// The headers of frames of one length, checksums included.
#[derive(Clone, Debug)]
struct Head {
    bytes: Vec<u8>,
    /// Bytes of payload behind it.
    payload_len: usize,
}

/// Where a frame has Internet checksums.
#[derive(Clone, Copy, Debug, Default)]
struct Checksums {
    network: Option<usize>,
    transport: Option<(Transport, usize)>,
}

/// A field, and which checksums cover it.
#[derive(Clone, Debug)]
struct Patch {
    at: usize,
    len: usize,
    values: Values,
    in_network: bool,
    in_transport: bool,
}

/// Where a template's headers are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    version: Version,
    network_at: usize,
    transport: Option<(Transport, usize)>,
    /// Where the IP packet ends; there is padding behind.
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

    /// The bytes of all headers.
    fn head_len(&self, bytes: &[u8]) -> usize {
        match (self.transport, self.version) {
            (Some((Transport::Tcp, at)), _) => at + usize::from(bytes[at + 12] >> 4).max(5) * 4,
            (Some((Transport::Udp, at)), _) => at + 8,
            (None, Version::V4) => self.network_at + 20,
            (None, Version::V6) => self.network_at + 40,
        }
    }

    /// The IPv4 header, over which its checksum goes.
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

    /// Makes lengths and checksums fit the frame's length.
    fn fit(&self, bytes: &mut [u8]) {
        let len = bytes.len() - self.network_at;
        match self.version {
            Version::V4 => put(bytes, self.network_at + 2, len as u16),
            Version::V6 => put(bytes, self.network_at + 4, (len - 40) as u16),
        }
        if let Some(covered) = self.network_covered(bytes) {
            put(bytes, self.network_at + 10, 0);
            let checksum = !(sum(&bytes[covered], 0) as u16);
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
        let value = !(sum(&bytes[at..], pseudo) as u16);
        put(bytes, checksum_at, never_zero(transport, value));
    }
}

impl Mould {
    /// `lengths` may be empty: then frames are as long as the template and as they are in it.
    pub(super) fn new(
        number: usize,
        template: Template,
        lengths: &[usize],
        flows: u64,
    ) -> Result<Mould, GeneratorError> {
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
        Ok(Mould {
            heads,
            payload,
            patches: patches?,
            checksums: Checksums::of(layout.as_ref()),
        })
    }

    /// Makes `frame` one of flow `variant` in the `size`-th length.
    #[inline]
    pub(super) fn cast(&self, size: usize, variant: u64, frame: &mut Frame) {
        let head = &self.heads[size];
        let payload = &self.payload[..head.payload_len];
        // No length is above the limit.
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

/// Checks that fields have values, and together enough of them for so many flows.
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

/// The headers for each length, and the payload of the longest.
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
    /// `end` is where the IP packet ends.
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
        // The length in IP's header is here.
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

/// What bytes at `at` add to the sum of a checksum; headers start at even places.
#[inline]
fn weighed(at: usize, bytes: &[u8]) -> u32 {
    let mut total = 0;
    for (i, byte) in bytes.iter().enumerate() {
        let is_high = (at + i).is_multiple_of(2);
        total += u32::from(*byte) << if is_high { 8 } else { 0 };
    }
    total
}

/// The checksum when bytes that add `before` to its sum are replaced by ones that add `after`: RFC 1624,
/// equation 3.
#[inline]
fn replaced(checksum: u16, before: u32, after: u32) -> u16 {
    // `before` is below 8 * 0xff00: so many times 0xffff, which counts as zero, is above it.
    let mut total = u32::from(!checksum) + 8 * 0xffff - before + after;
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    !(total as u16)
}

/// Zero would mean "no checksum" in UDP; all ones is the same number.
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
