//! Telemetry reports to bytes. New reports are written as Report 2.0; a read report of any version
//! is written as it came, for another collector.

use crate::bytes::whole_words;
use crate::flow::PacketKind;
use crate::hop::{DropRecord, Hop};
use crate::metadata::{self, Instructions, MetadataLayout};
use crate::report::{
    Associations, IndividualReport, Inner, LocalMetadata, MainContents, ReportHeader,
    ReportVersion, TO_THE_END, TelemetryReport,
};

/// Maximum length of a report: payload of a UDP datagram over IPv4.
pub const MAX_REPORT: usize = 65_507;

/// Error of a report to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The report would exceed [`MAX_REPORT`] bytes.
    TooLong,
    /// The individual report before extends to the end of the datagram (Report Length 0xFF), so
    /// none can follow.
    AfterLast,
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WriteError::TooLong => {
                write!(
                    f,
                    "the report exceeds {MAX_REPORT} bytes: begin another datagram"
                )
            }
            WriteError::AfterLast => f.write_str(
                "the individual report before has 255 words or more: begin another datagram",
            ),
        }
    }
}

impl std::error::Error for WriteError {}

/// Event of a plane: one hop's values on one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportEvent<'a> {
    /// Reasons of the report.
    pub associations: Associations,
    /// Values of the exporter's hop. Its node is that of the header.
    pub hop: Hop,
    /// Drop.
    pub drop: Option<DropRecord>,
    /// Packet.
    pub packet: Option<(PacketKind, &'a [u8])>,
    /// Maximum number of the packet's bytes to report.
    pub max_packet: usize,
}

/// Writer of one datagram of Report 2.0, at the end of a buffer. The buffer can be used again: a
/// warm one does not allocate.
#[derive(Debug)]
pub struct ReportWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    /// The individual report before extends to the end.
    is_last: bool,
}

impl<'b> ReportWriter<'b> {
    /// Begins a datagram. The header's version is not used; a number is cut to 22 bits.
    pub fn new(header: &ReportHeader, out: &'b mut Vec<u8>) -> ReportWriter<'b> {
        let start = out.len();
        let exporter = header.exporter;
        let first =
            2 << 28 | u32::from(exporter.hardware & 0x3f) << 22 | header.sequence & 0x3f_ffff;
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&exporter.node.unwrap_or_default().0.to_be_bytes());
        ReportWriter {
            out,
            start,
            is_last: false,
        }
    }

    /// Returns the length of the datagram so far.
    pub fn length(&self) -> usize {
        self.out.len() - self.start
    }

    /// Appends an individual report. Inner contents that are no whole words are cut, unless the
    /// report has 255 words or more.
    ///
    /// # Errors
    ///
    /// Individual reports that have no room. The datagram is then as before.
    pub fn individual(&mut self, report: &IndividualReport<'_>) -> Result<(), WriteError> {
        let (types, metadata_words) = match report.main {
            MainContents::InnerOnly => (0, 0),
            MainContents::Metadata(local) => (1, report_2_words(&local)),
            MainContents::Unsupported {
                report_type,
                metadata_words,
                ..
            } => (report_type & 0x0f, usize::from(metadata_words)),
        };
        let inner_type = match (&report.main, &report.inner) {
            (MainContents::Unsupported { inner_type, .. }, _) => *inner_type & 0x0f,
            (_, inner) => inner_type(inner),
        };
        self.framed(
            types << 4 | inner_type,
            metadata_words as u8,
            report.associations,
            |out| {
                match report.main {
                    MainContents::InnerOnly => {}
                    MainContents::Metadata(local) => write_local(&local, out),
                    MainContents::Unsupported { bytes, .. } => out.extend_from_slice(bytes),
                }
                match report.inner {
                    Inner::None => {}
                    Inner::Tlvs(tlvs) => tlvs.iter().for_each(|tlv| tlv.write(out)),
                    Inner::DomainData(bytes)
                    | Inner::Packet(_, bytes)
                    | Inner::Unsupported { bytes, .. } => out.extend_from_slice(bytes),
                }
            },
        )
    }

    /// Appends an event as an individual report of RepType 1. The packet is truncated to whole
    /// words.
    ///
    /// # Errors
    ///
    /// Events that have no room. The datagram is then as before.
    pub fn event(&mut self, event: &ReportEvent<'_>) -> Result<(), WriteError> {
        let layout = MetadataLayout::Report2;
        let bits = Instructions::of_report(&event.hop, event.drop);
        let packet = event.packet.map(|(kind, bytes)| {
            let length = bytes.len().min(event.max_packet) / 4 * 4;
            (kind, &bytes[..length])
        });
        let inner = packet.map_or(0, |(kind, _)| packet_type(kind));
        self.framed(
            1 << 4 | inner,
            bits.words(layout) as u8,
            event.associations,
            |out| {
                out.extend_from_slice(&bits.0.to_be_bytes());
                out.extend_from_slice(&[0; 6]);
                metadata::write(layout, bits, &event.hop, event.drop, out);
                if let Some((_, bytes)) = packet {
                    out.extend_from_slice(bytes);
                }
            },
        )
    }

    /// Appends the first word of an individual report and its contents, with their length.
    fn framed(
        &mut self,
        types: u8,
        metadata_words: u8,
        associations: Associations,
        contents: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), WriteError> {
        if self.is_last {
            return Err(WriteError::AfterLast);
        }
        let at = self.out.len();
        let flags = u8::from(associations.dropped) << 7
            | u8::from(associations.congested) << 6
            | u8::from(associations.tracked) << 5
            | u8::from(associations.intermediate) << 4;
        self.out
            .extend_from_slice(&[types, 0, metadata_words, flags]);
        contents(self.out);
        let words = whole_words(&self.out[at + 4..]);
        if words >= TO_THE_END {
            self.out[at + 1] = TO_THE_END as u8;
        } else {
            self.out[at + 1] = words as u8;
            self.out.truncate(at + 4 + 4 * words);
        }
        if self.length() > MAX_REPORT {
            self.out.truncate(at);
            return Err(WriteError::TooLong);
        }
        self.is_last = words >= TO_THE_END;
        Ok(())
    }
}

fn packet_type(kind: PacketKind) -> u8 {
    match kind {
        PacketKind::Ethernet => 3,
        PacketKind::Ipv4 => 4,
        PacketKind::Ipv6 => 5,
    }
}

fn inner_type(inner: &Inner<'_>) -> u8 {
    match inner {
        Inner::None => 0,
        Inner::Tlvs(_) => 1,
        Inner::DomainData(_) => 2,
        Inner::Packet(kind, _) => packet_type(*kind),
        Inner::Unsupported { inner_type, .. } => *inner_type & 0x0f,
    }
}

/// The bits that metadata of an older version have in Report 2.0.
fn report_2_bits(local: &LocalMetadata<'_>) -> Instructions {
    let (hop, drop) = local.read();
    Instructions::of_report(&hop, drop)
}

/// Words of metadata in Report 2.0.
fn report_2_words(local: &LocalMetadata<'_>) -> usize {
    match local.layout {
        MetadataLayout::Report2 => whole_words(local.bytes),
        _ => report_2_bits(local).words(MetadataLayout::Report2),
    }
}

/// Appends the main contents of RepType 1. Metadata of older versions are translated; their 32-bit
/// times are extended by zeros.
fn write_local(local: &LocalMetadata<'_>, out: &mut Vec<u8>) {
    let is_report_2 = local.layout == MetadataLayout::Report2;
    let bits = if is_report_2 {
        local.bits
    } else {
        report_2_bits(local)
    };
    let domain = local.domain;
    for field in [bits.0, domain.id, domain.instructions, domain.flags] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    if is_report_2 {
        out.extend_from_slice(local.bytes);
    } else {
        let (hop, drop) = local.read();
        metadata::write(MetadataLayout::Report2, bits, &hop, drop, out);
    }
}

impl TelemetryReport<'_> {
    /// Appends the report in its own version. Reserved fields are zero; else the bytes are those
    /// that were read.
    ///
    /// # Errors
    ///
    /// [`WriteError::TooLong`], if the read payload was.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let start = out.len();
        let mut individuals = self.individuals();
        if self.header.version == ReportVersion::V2 {
            let mut writer = ReportWriter::new(&self.header, out);
            let result = individuals.try_for_each(|report| writer.individual(&report));
            if let Err(error) = result {
                out.truncate(start);
                return Err(error);
            }
        } else if let Some(report) = individuals.next() {
            match self.header.version {
                ReportVersion::V05 => write_05(&self.header, &report, out),
                _ => write_1(&self.header, &report, out),
            }
        }
        if out.len() - start > MAX_REPORT {
            out.truncate(start);
            return Err(WriteError::TooLong);
        }
        Ok(())
    }
}

/// The metadata and the packet of a report of an older version.
fn parts<'a>(
    report: &IndividualReport<'a>,
) -> (Option<LocalMetadata<'a>>, Option<(PacketKind, &'a [u8])>) {
    let local = match report.main {
        MainContents::Metadata(local) => Some(local),
        _ => None,
    };
    (local, report.packet_bytes())
}

fn write_1(header: &ReportHeader, report: &IndividualReport<'_>, out: &mut Vec<u8>) {
    let (Some(local), Some((kind, packet))) = parts(report) else {
        return;
    };
    let protocol = match kind {
        PacketKind::Ethernet => 0,
        PacketKind::Ipv4 => 1,
        PacketKind::Ipv6 => 2,
    };
    let words = 4 + local.bits.words(local.layout) as u32;
    let associations = report.associations;
    let first = 1 << 28
        | words << 24
        | protocol << 21
        | u32::from(local.bits.0 >> 10) << 15
        | u32::from(associations.dropped) << 8
        | u32::from(associations.congested) << 7
        | u32::from(associations.tracked) << 6
        | u32::from(header.exporter.hardware);
    for field in [
        first,
        local.node.unwrap_or_default().0,
        header.sequence,
        local.ingress_time.unwrap_or(0),
    ] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    out.extend_from_slice(local.bytes);
    out.extend_from_slice(packet);
}

fn write_05(header: &ReportHeader, report: &IndividualReport<'_>, out: &mut Vec<u8>) {
    let (Some(local), Some((_, packet))) = parts(report) else {
        return;
    };
    let protocol = match (local.bits.0, local.layout) {
        (0, _) => 0,
        (_, MetadataLayout::Report05Drop) => 1,
        _ => 2,
    };
    let associations = report.associations;
    let first = protocol << 24
        | u32::from(associations.dropped) << 23
        | u32::from(associations.congested) << 22
        | u32::from(associations.tracked) << 21
        | u32::from(header.exporter.hardware);
    for field in [first, header.sequence, local.ingress_time.unwrap_or(0)] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    if let Some(node) = local.node {
        out.extend_from_slice(&node.0.to_be_bytes());
    }
    out.extend_from_slice(local.bytes);
    out.extend_from_slice(packet);
}
