//! Telemetry reports: the payload of one UDP datagram of an exporter.
//!
//! Report 2.0 (sections 3.2 and 3.3) has a group header and any number of individual reports.
//! Report 1.0 and 0.5 have one report per datagram (`legacy.rs`).

use packet::Nanos;

use crate::bytes::{split_words, u16_at, u32_at, whole_words};
use crate::flow::{IntDomain, IntMarker, PacketInt, PacketKind, ReportedPacket};
use crate::hop::{DropRecord, Hop, HopTime, IntNodeId};
use crate::int::DomainInstructions;
use crate::legacy;
use crate::metadata::{self, Instructions, MetadataLayout, ResidencePlaces};
use crate::tlv::{self, Tlvs};

/// Length of the group header in bytes.
const GROUP: usize = 8;
/// Words of the fixed part of the main contents of INT.
const INT_FIXED_WORDS: usize = 2;
/// Report Length of an individual report that extends to the end of the datagram.
pub(crate) const TO_THE_END: usize = 0xff;

/// Version of a telemetry report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportVersion {
    /// Version 0.5, number 0 in the header.
    V05,
    /// Version 1.0.
    V1,
    /// Version 2.0.
    V2,
}

impl ReportVersion {
    /// Returns the number of bits of a sequence number.
    pub const fn sequence_bits(self) -> u32 {
        match self {
            ReportVersion::V05 | ReportVersion::V1 => 32,
            ReportVersion::V2 => 22,
        }
    }
}

/// Origin of a sequence of reports: a node's subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exporter {
    /// The node. `None` in Report 0.5, where reports of one sequence name the node or not: the
    /// source address identifies it.
    pub node: Option<IntNodeId>,
    /// Hardware subsystem of the node, 6 bits.
    pub hardware: u8,
}

/// Fields that the individual reports of a datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportHeader {
    /// Version of the format.
    pub version: ReportVersion,
    /// Origin of the report.
    pub exporter: Exporter,
    /// Number of the datagram, of [`ReportVersion::sequence_bits`].
    pub sequence: u32,
}

/// Reasons of a report: its association bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Associations {
    /// D: a watched packet was dropped.
    pub dropped: bool,
    /// Q: a watched queue is congested.
    pub congested: bool,
    /// F: the packet is of a watched flow. Without it the report has no embedded INT metadata.
    pub tracked: bool,
    /// I: a transit node reported the stack and removed it. Report 2.0 alone has it.
    pub intermediate: bool,
}

/// Error of a report: position and cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportError {
    /// Offset in the datagram, in bytes.
    pub at: usize,
    /// Cause.
    pub fault: ReportFault,
}

/// Cause of an error of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportFault {
    /// The datagram ends before a header does.
    Short,
    /// The version is not known.
    Version,
    /// The group header has no individual report after it.
    Empty,
    /// Report Length exceeds the datagram.
    Length,
    /// Report Length is too small for the main contents and their metadata.
    MainLength,
    /// MD Length, or the header length of Report 1.0, is not that of the metadata bits.
    MetadataLength,
    /// The inner type is None, and there are inner contents; or TLV, and there are none.
    InnerLength,
    /// A TLV exceeds its report.
    TlvLength,
    /// The next protocol of Report 1.0 or 0.5 is not known.
    NextProtocol,
}

impl ReportFault {
    /// All causes.
    pub const ALL: [ReportFault; 9] = [
        ReportFault::Short,
        ReportFault::Version,
        ReportFault::Empty,
        ReportFault::Length,
        ReportFault::MainLength,
        ReportFault::MetadataLength,
        ReportFault::InnerLength,
        ReportFault::TlvLength,
        ReportFault::NextProtocol,
    ];

    /// Returns the stable name, for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ReportFault::Short => "short",
            ReportFault::Version => "version",
            ReportFault::Empty => "empty",
            ReportFault::Length => "length",
            ReportFault::MainLength => "main_length",
            ReportFault::MetadataLength => "metadata_length",
            ReportFault::InnerLength => "inner_length",
            ReportFault::TlvLength => "tlv_length",
            ReportFault::NextProtocol => "next_protocol",
        }
    }

    pub(crate) const fn at(self, at: usize) -> ReportError {
        ReportError { at, fault: self }
    }
}

impl std::fmt::Display for ReportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cause = match self.fault {
            ReportFault::Short => "the datagram ends in a header",
            ReportFault::Version => "the version is none of 0 (0.5), 1 (1.0) and 2 (2.0)",
            ReportFault::Empty => "there is no individual report",
            ReportFault::Length => "the report length exceeds the datagram",
            ReportFault::MainLength => "the report length is too small for the metadata",
            ReportFault::MetadataLength => "the metadata length is not that of the metadata bits",
            ReportFault::InnerLength => "the inner contents do not fit the inner type",
            ReportFault::TlvLength => "a TLV exceeds its report",
            ReportFault::NextProtocol => "the next protocol is not known",
        };
        write!(f, "byte {}: {cause}", self.at)
    }
}

impl std::error::Error for ReportError {}

/// Telemetry report: the checked payload of a datagram. Reading it further cannot fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryReport<'a> {
    /// Common fields.
    pub header: ReportHeader,
    /// Checked individual reports of Report 2.0, or the whole payload of an older version.
    pub(crate) body: &'a [u8],
}

/// Report on one packet or one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndividualReport<'a> {
    /// Reasons of the report.
    pub associations: Associations,
    /// Main contents.
    pub main: MainContents<'a>,
    /// Inner contents.
    pub inner: Inner<'a>,
}

/// Main contents: the exporter's own metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainContents<'a> {
    /// None (RepType 0).
    InnerOnly,
    /// Metadata of the exporter's own hop (RepType 1, and Report 1.0 and 0.5).
    Metadata(LocalMetadata<'a>),
    /// A report type without a format in Report 2.0: IOAM and the reserved types. The inner
    /// contents are not separated.
    Unsupported {
        /// RepType.
        report_type: u8,
        /// InType.
        inner_type: u8,
        /// MD Length.
        metadata_words: u8,
        /// All contents.
        bytes: &'a [u8],
    },
}

/// Metadata of the exporter's own hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalMetadata<'a> {
    pub(crate) node: Option<IntNodeId>,
    pub(crate) layout: MetadataLayout,
    /// Bits of the metadata, in the layout's numbering.
    pub bits: Instructions,
    /// Domain Specific ID, DSMdBits and DSMdstatus. Report 1.0 and 0.5 have none.
    pub domain: DomainInstructions,
    /// Ingress time of the fixed header of Report 1.0 and 0.5.
    pub(crate) ingress_time: Option<u32>,
    /// Baseline metadata, then that of the domain, of whole words.
    pub(crate) bytes: &'a [u8],
}

impl<'a> LocalMetadata<'a> {
    /// Returns whether there are values of the exporter's hop: metadata bits are set. The ingress
    /// time that Report 1.0 and 0.5 always have does not count.
    pub fn has_values(&self) -> bool {
        self.bits.0 != 0
    }

    /// Returns the values of the exporter's hop, and the drop record.
    #[inline]
    pub fn read(&self) -> (Hop, Option<DropRecord>) {
        let (mut hop, drop) = metadata::read(self.layout, self.bits, self.bytes);
        hop.node = self.node;
        if let Some(time) = self.ingress_time {
            hop.ingress_time = Some(HopTime::Low(time));
        }
        (hop, drop)
    }

    /// Returns the time in the exporter, as [`Hop::residence`].
    #[inline]
    pub fn residence(&self) -> Option<Nanos> {
        match self.layout {
            MetadataLayout::Report2 => {
                ResidencePlaces::new(self.layout, self.bits).read(self.bytes)
            }
            _ => self.read().0.residence(),
        }
    }

    /// Returns the domain specific metadata, of whole words.
    pub fn domain_metadata(&self) -> &'a [u8] {
        let baseline = 4 * self.bits.words(self.layout);
        self.bytes.get(baseline..).unwrap_or(&[])
    }

    /// Returns the layout of the metadata bits.
    pub fn layout(&self) -> MetadataLayout {
        self.layout
    }
}

/// Inner contents of an individual report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner<'a> {
    /// None (InType 0).
    None,
    /// Typed values (InType 1).
    Tlvs(Tlvs<'a>),
    /// Extension data of the domain (InType 2).
    DomainData(&'a [u8]),
    /// The reported packet, truncated (InType 3 to 5). Up to three bytes of padding can follow it.
    Packet(PacketKind, &'a [u8]),
    /// A reserved inner type.
    Unsupported {
        /// InType, 6 to 15.
        inner_type: u8,
        /// Contents.
        bytes: &'a [u8],
    },
}

impl<'a> IndividualReport<'a> {
    /// Returns the values of the exporter's own hop, if the report has any.
    #[inline]
    pub fn local_hop(&self) -> Option<Hop> {
        match &self.main {
            MainContents::Metadata(local) if local.has_values() => Some(local.read().0),
            _ => None,
        }
    }

    /// Returns the drop record, if the report has one.
    pub fn drop_record(&self) -> Option<DropRecord> {
        match &self.main {
            MainContents::Metadata(local) => local.read().1,
            _ => None,
        }
    }

    /// Returns the bytes of the reported packet: the inner contents, or the first TLV that is a
    /// packet.
    pub fn packet_bytes(&self) -> Option<(PacketKind, &'a [u8])> {
        match self.inner {
            Inner::Packet(kind, bytes) => Some((kind, bytes)),
            Inner::Tlvs(tlvs) => tlvs.iter().find_map(|tlv| match tlv.value {
                tlv::TlvValue::Packet(kind, bytes) => Some((kind, bytes)),
                _ => None,
            }),
            _ => None,
        }
    }

    /// Reads the reported packet. INT headers are searched only in reports of watched flows: the
    /// others have none (Report 2.0, section 3.4).
    #[inline]
    pub fn packet(&self, domain: &IntDomain) -> Option<ReportedPacket<'a>> {
        let (kind, bytes) = self.packet_bytes()?;
        let packet = if self.associations.tracked {
            ReportedPacket::parse(kind, bytes, domain)
        } else {
            ReportedPacket::parse(kind, bytes, &IntDomain::new(IntMarker::None))
        };
        debug_assert!(self.associations.tracked || packet.int == PacketInt::Absent);
        Some(packet)
    }
}

impl<'a> TelemetryReport<'a> {
    /// Checks the payload of a datagram.
    ///
    /// # Errors
    ///
    /// Payloads that are no report of a known version, or have contradictory lengths.
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<TelemetryReport<'a>, ReportError> {
        let (header, body) = match payload.first().ok_or(ReportFault::Short.at(0))? >> 4 {
            0 => (legacy::read_05(payload)?.0, payload),
            1 => (legacy::read_1(payload)?.0, payload),
            2 => parse_2(payload)?,
            _ => return Err(ReportFault::Version.at(0)),
        };
        Ok(TelemetryReport { header, body })
    }

    /// Returns the individual reports: at least one.
    #[inline]
    pub fn individuals(&self) -> Individuals<'a> {
        Individuals {
            version: self.header.version,
            node: self.header.exporter.node,
            rest: self.body,
        }
    }
}

/// Iterator over the individual reports of a datagram.
#[derive(Clone, Debug)]
pub struct Individuals<'a> {
    version: ReportVersion,
    node: Option<IntNodeId>,
    rest: &'a [u8],
}

impl<'a> Iterator for Individuals<'a> {
    type Item = IndividualReport<'a>;

    #[inline]
    fn next(&mut self) -> Option<IndividualReport<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        // The bytes are checked: there is no error.
        let (report, rest) = match self.version {
            ReportVersion::V2 => split_individual(self.node, self.rest, 0).ok()?,
            ReportVersion::V1 => (legacy::read_1(self.rest).ok()?.1, &[][..]),
            ReportVersion::V05 => (legacy::read_05(self.rest).ok()?.1, &[][..]),
        };
        self.rest = rest;
        Some(report)
    }
}

#[inline]
fn parse_2(payload: &[u8]) -> Result<(ReportHeader, &[u8]), ReportError> {
    let short = ReportFault::Short.at(payload.len());
    let first = u32_at(payload, 0).ok_or(short)?;
    let node = Some(IntNodeId(u32_at(payload, 4).ok_or(short)?));
    let group = &payload[GROUP..];
    if group.is_empty() {
        return Err(ReportFault::Empty.at(GROUP));
    }
    let mut rest = group;
    while !rest.is_empty() {
        let at = payload.len() - rest.len();
        (_, rest) = split_individual(node, rest, at)?;
    }
    let header = ReportHeader {
        version: ReportVersion::V2,
        exporter: Exporter {
            node,
            hardware: (first >> 22) as u8 & 0x3f,
        },
        sequence: first & 0x3f_ffff,
    };
    Ok((header, group))
}

/// Splits the first individual report off. `at` is its offset in the datagram.
#[inline]
fn split_individual(
    node: Option<IntNodeId>,
    bytes: &[u8],
    at: usize,
) -> Result<(IndividualReport<'_>, &[u8]), ReportError> {
    let ([types, length, metadata_words, flags], rest) =
        bytes.split_first_chunk().ok_or(ReportFault::Short.at(at))?;
    let (contents, after) = match usize::from(*length) {
        TO_THE_END if whole_words(rest) >= TO_THE_END => (rest, &[][..]),
        words => split_words(rest, words).ok_or(ReportFault::Length.at(at + 1))?,
    };
    let associations = Associations {
        dropped: flags & 0x80 != 0,
        congested: flags & 0x40 != 0,
        tracked: flags & 0x20 != 0,
        intermediate: flags & 0x10 != 0,
    };
    let inner_type = types & 0x0f;
    let (main, inner) = match types >> 4 {
        0 => (MainContents::InnerOnly, contents),
        1 => {
            let (local, inner) = int_contents(node, contents, usize::from(*metadata_words))
                .map_err(|fault| fault.at(at + 1))?;
            (MainContents::Metadata(local), inner)
        }
        report_type => {
            let main = MainContents::Unsupported {
                report_type,
                inner_type,
                metadata_words: *metadata_words,
                bytes: contents,
            };
            let report = IndividualReport {
                associations,
                main,
                inner: Inner::None,
            };
            return Ok((report, after));
        }
    };
    let inner_at = at + 4 + contents.len() - inner.len();
    let report = IndividualReport {
        associations,
        main,
        inner: inner_contents(inner_type, inner).map_err(|fault| fault.at(inner_at))?,
    };
    Ok((report, after))
}

/// Splits the main contents of RepType 1 off (Report 2.0, section 3.3.1).
#[inline]
fn int_contents(
    node: Option<IntNodeId>,
    contents: &[u8],
    metadata_words: usize,
) -> Result<(LocalMetadata<'_>, &[u8]), ReportFault> {
    let layout = MetadataLayout::Report2;
    let (fixed, rest) = split_words(contents, INT_FIXED_WORDS).ok_or(ReportFault::MainLength)?;
    let (bytes, inner) = split_words(rest, metadata_words).ok_or(ReportFault::MainLength)?;
    let field = |at| u16_at(fixed, at).unwrap_or(0);
    let bits = Instructions(field(0));
    let domain = DomainInstructions {
        id: field(2),
        instructions: field(4),
        flags: field(6),
    };
    let of_domain = metadata_words
        .checked_sub(bits.words(layout))
        .ok_or(ReportFault::MetadataLength)?;
    // Each bit of a domain stands for at least one word. Those of domain 0 are reserved.
    let is_of_domain = match (domain.instructions, domain.id) {
        (0, _) => of_domain == 0,
        (_, 0) => true,
        (bits, _) => of_domain >= bits.count_ones() as usize,
    };
    if !is_of_domain {
        return Err(ReportFault::MetadataLength);
    }
    let local = LocalMetadata {
        node,
        layout,
        bits,
        domain,
        ingress_time: None,
        bytes,
    };
    Ok((local, inner))
}

#[inline]
fn inner_contents(inner_type: u8, bytes: &[u8]) -> Result<Inner<'_>, ReportFault> {
    Ok(match inner_type {
        0 if bytes.is_empty() => Inner::None,
        0 => return Err(ReportFault::InnerLength),
        1 => Inner::Tlvs(Tlvs::parse(bytes)?),
        2 => Inner::DomainData(bytes),
        3 => Inner::Packet(PacketKind::Ethernet, bytes),
        4 => Inner::Packet(PacketKind::Ipv4, bytes),
        5 => Inner::Packet(PacketKind::Ipv6, bytes),
        _ => Inner::Unsupported { inner_type, bytes },
    })
}
