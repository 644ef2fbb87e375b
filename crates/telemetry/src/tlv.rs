//! Typed inner contents of an individual report (Report 2.0, section 3.3.2).

use crate::bytes::split_words;
use crate::flow::PacketKind;
use crate::report::ReportFault;

/// One typed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Value.
    pub value: TlvValue<'a>,
}

/// Value of a TLV, of whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlvValue<'a> {
    /// Extension data of the domain (type 0).
    DomainData {
        /// Template: format of the data.
        template: u16,
        /// Data.
        bytes: &'a [u8],
    },
    /// Truncated packet (types 1 to 3).
    Packet(PacketKind, &'a [u8]),
    /// A reserved type.
    Unsupported {
        /// Type, 4 to 15.
        tlv_type: u8,
        /// Template.
        template: u16,
        /// Contents.
        bytes: &'a [u8],
    },
}

/// Checked TLVs of a report: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Tlvs<'a>, ReportFault> {
        let mut rest = bytes;
        if rest.is_empty() {
            return Err(ReportFault::InnerLength);
        }
        while !rest.is_empty() {
            (_, rest) = split(rest).ok_or(ReportFault::TlvLength)?;
        }
        Ok(Tlvs(bytes))
    }

    /// Returns the TLVs.
    pub fn iter(&self) -> impl Iterator<Item = Tlv<'a>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (tlv, after) = split(rest)?;
            rest = after;
            Some(tlv)
        })
    }
}

/// Splits the first TLV off. `None` if it exceeds the bytes.
fn split(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let ([kind, length, high, low], rest) = bytes.split_first_chunk()?;
    let (bytes, rest) = split_words(rest, usize::from(*length))?;
    let template = u16::from_be_bytes([*high, *low]);
    let value = match kind >> 4 {
        0 => TlvValue::DomainData { template, bytes },
        1 => TlvValue::Packet(PacketKind::Ethernet, bytes),
        2 => TlvValue::Packet(PacketKind::Ipv4, bytes),
        3 => TlvValue::Packet(PacketKind::Ipv6, bytes),
        tlv_type => TlvValue::Unsupported {
            tlv_type,
            template,
            bytes,
        },
    };
    Some((Tlv { value }, rest))
}

impl Tlv<'_> {
    /// Appends the TLV. A value has at most 255 words; what exceeds them is cut, as are bytes
    /// after the last whole word.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (kind, template, bytes) = match self.value {
            TlvValue::DomainData { template, bytes } => (0, template, bytes),
            TlvValue::Packet(PacketKind::Ethernet, bytes) => (1, 0, bytes),
            TlvValue::Packet(PacketKind::Ipv4, bytes) => (2, 0, bytes),
            TlvValue::Packet(PacketKind::Ipv6, bytes) => (3, 0, bytes),
            TlvValue::Unsupported {
                tlv_type,
                template,
                bytes,
            } => (tlv_type & 0x0f, template, bytes),
        };
        let words = crate::bytes::whole_words(bytes).min(0xff);
        out.extend_from_slice(&[kind << 4, words as u8]);
        out.extend_from_slice(&template.to_be_bytes());
        out.extend_from_slice(&bytes[..4 * words]);
    }
}
