//! Telemetry Report 1.0 (section 3.2) and 0.5 (section 3.2), as older exporters send them: one
//! report per datagram, with 32-bit sequence numbers and times.

use crate::bytes::{split_words, u32_at};
use crate::flow::PacketKind;
use crate::hop::IntNodeId;
use crate::int::DomainInstructions;
use crate::metadata::{Instructions, MetadataLayout};
use crate::report::{
    Associations, Exporter, IndividualReport, Inner, LocalMetadata, MainContents, ReportError,
    ReportFault, ReportHeader, ReportVersion,
};

/// Words of the fixed header of Report 1.0.
const FIXED_1_WORDS: usize = 4;
/// Words of the fixed header of Report 0.5.
const FIXED_05_WORDS: usize = 3;
/// Metadata bits that stand for the drop header of Report 0.5.
pub(crate) const DROP_BITS: Instructions = Instructions(0xc000);
/// Metadata bits that stand for the switch local header of Report 0.5.
pub(crate) const LOCAL_BITS: Instructions = Instructions(0xe000);

/// Reads a report of version 1.0.
pub(crate) fn read_1(payload: &[u8]) -> Result<(ReportHeader, IndividualReport<'_>), ReportError> {
    let layout = MetadataLayout::Report1;
    let short = ReportFault::Short.at(payload.len());
    let (fixed, rest) = split_words(payload, FIXED_1_WORDS).ok_or(short)?;
    let field = |at| u32_at(fixed, at).ok_or(short);
    let first = field(0)?;
    let node = Some(IntNodeId(field(4)?));
    let bits = Instructions((first >> 15 & 0x3f) as u16 * 0x400);
    let words = bits.words(layout);
    if (first >> 24 & 0x0f) as usize != FIXED_1_WORDS + words {
        return Err(ReportFault::MetadataLength.at(0));
    }
    let kind = match first >> 21 & 7 {
        0 => PacketKind::Ethernet,
        1 => PacketKind::Ipv4,
        2 => PacketKind::Ipv6,
        _ => return Err(ReportFault::NextProtocol.at(1)),
    };
    let (bytes, packet) = split_words(rest, words).ok_or(short)?;
    Ok((
        ReportHeader {
            version: ReportVersion::V1,
            exporter: Exporter {
                node,
                hardware: first as u8 & 0x3f,
            },
            sequence: field(8)?,
        },
        IndividualReport {
            associations: Associations {
                dropped: first >> 8 & 1 != 0,
                congested: first >> 7 & 1 != 0,
                tracked: first >> 6 & 1 != 0,
                intermediate: false,
            },
            main: MainContents::Metadata(LocalMetadata {
                node,
                layout,
                bits,
                domain: DomainInstructions::default(),
                ingress_time: Some(field(12)?),
                bytes,
            }),
            inner: Inner::Packet(kind, packet),
        },
    ))
}

/// Reads a report of version 0.5.
pub(crate) fn read_05(payload: &[u8]) -> Result<(ReportHeader, IndividualReport<'_>), ReportError> {
    let short = ReportFault::Short.at(payload.len());
    let (fixed, rest) = split_words(payload, FIXED_05_WORDS).ok_or(short)?;
    let field = |at| u32_at(fixed, at).ok_or(short);
    let first = field(0)?;
    let (layout, bits) = match first >> 24 & 0x0f {
        0 => (MetadataLayout::Report05Local, Instructions(0)),
        1 => (MetadataLayout::Report05Drop, DROP_BITS),
        2 => (MetadataLayout::Report05Local, LOCAL_BITS),
        _ => return Err(ReportFault::NextProtocol.at(0)),
    };
    let (node, rest) = if bits.0 == 0 {
        (None, rest)
    } else {
        let (node, rest) = split_words(rest, 1).ok_or(short)?;
        (Some(IntNodeId(u32_at(node, 0).ok_or(short)?)), rest)
    };
    let (bytes, packet) = split_words(rest, bits.words(layout)).ok_or(short)?;
    Ok((
        ReportHeader {
            version: ReportVersion::V05,
            exporter: Exporter {
                node: None,
                hardware: first as u8 & 0x3f,
            },
            sequence: field(4)?,
        },
        IndividualReport {
            associations: Associations {
                dropped: first >> 23 & 1 != 0,
                congested: first >> 22 & 1 != 0,
                tracked: first >> 21 & 1 != 0,
                intermediate: false,
            },
            main: MainContents::Metadata(LocalMetadata {
                node,
                layout,
                bits,
                domain: DomainInstructions::default(),
                ingress_time: Some(field(8)?),
                bytes,
            }),
            inner: Inner::Packet(PacketKind::Ethernet, packet),
        },
    ))
}
