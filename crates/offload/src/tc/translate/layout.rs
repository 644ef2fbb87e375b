//! Layouts of frames: where the headers are that rules know.

use super::keys::Bits;
use super::refused;
use crate::flow::NotOffloadable;
use crate::tc::rule::{ANY_PROTOCOL, IPV4, IPV6, is_mpls, is_vlan};

/// A layout that a rule pins by its EtherTypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// EtherType of the VLAN tag, if there is one.
    pub(super) tag: Option<u16>,
    /// EtherType in front of the network header; `None` if the rule leaves it open.
    pub(super) ether_type: Option<u16>,
    /// Offset of the network header.
    pub(super) network: u32,
}

/// The header after the EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Ipv4,
    Ipv6,
    Mpls,
    /// Another header, or one that the rule leaves open.
    Unknown,
}

/// Lengths and names of the fields of the IPv4 header, and of the IPv6 header.
const IPV4_FIELDS: &[(u32, &str)] = &[
    (1, "ihl"),
    (1, "tos"),
    (2, "total_length"),
    (2, "identification"),
    (2, "fragment_offset"),
    (1, "ttl"),
    (1, "protocol"),
    (2, "checksum"),
    (4, "src"),
    (4, "dst"),
];
const IPV6_FIELDS: &[(u32, &str)] = &[
    (4, "flow_label"),
    (2, "payload_length"),
    (1, "next"),
    (1, "hops"),
    (16, "src"),
    (16, "dst"),
];

/// Offset of the outermost EtherType.
pub(super) const ETHER_TYPE: u32 = 12;

impl Layout {
    /// Returns the layouts that a flow's rule may pin, the widest first. A flow that leaves an
    /// EtherType open may get a rule for IPv4 frames only.
    pub(super) fn candidates(bits: &Bits) -> Result<Vec<Layout>, NotOffloadable> {
        let (outer, mask) = bits.word(ETHER_TYPE);
        if mask == u16::MAX && is_vlan(outer) {
            let inner = Layout::inner(bits, ETHER_TYPE + 4)?;
            let tag = Some(outer);
            let tagged = |ether_type| Layout {
                tag,
                ether_type,
                network: 18,
            };
            return Ok(inner.into_iter().map(tagged).collect());
        }
        let inner = Layout::inner(bits, ETHER_TYPE)?;
        let untagged = |ether_type| Layout {
            tag: None,
            ether_type,
            network: 14,
        };
        Ok(inner.into_iter().map(untagged).collect())
    }

    fn inner(bits: &Bits, offset: u32) -> Result<Vec<Option<u16>>, NotOffloadable> {
        let (value, mask) = bits.word(offset);
        if mask == u16::MAX && is_vlan(value) {
            return Err(refused("the flow reads a second VLAN tag".to_owned()));
        }
        // Smaller numbers are lengths, for which the kernel has protocols of its own.
        if mask == u16::MAX && value < 0x0600 {
            return Err(refused(format!("{value:#06x} is a length, no EtherType")));
        }
        match mask {
            u16::MAX => Ok(vec![Some(value)]),
            0 => Ok(vec![None, Some(IPV4)]),
            _ if IPV4 & mask == value => Ok(vec![Some(IPV4)]),
            _ => Err(refused("the flow reads a part of the EtherType".to_owned())),
        }
    }

    /// Returns the name of the field with a byte of the frame, as reports and `--trace` write it.
    pub(super) fn name_of(&self, at: u32) -> String {
        let is_in = |header: &str, at: u32, fields: &[(u32, &str)]| {
            let mut end = 0;
            let found = fields.iter().find(|(len, _)| {
                end += len;
                at < end
            });
            found.map(|(_, name)| format!("{header}.{name}"))
        };
        let name = match at {
            0..ETHER_TYPE => is_in("eth", at, &[(6, "dst"), (6, "src")]),
            14 | 15 if self.network > 14 => Some("vlan.tci".to_owned()),
            at if at < self.network => Some("eth.type".to_owned()),
            _ => match self.header() {
                Network::Ipv4 => is_in("ipv4", at - self.network, IPV4_FIELDS),
                Network::Ipv6 => is_in("ipv6", at - self.network, IPV6_FIELDS),
                Network::Mpls => is_in("mpls", at - self.network, &[(3, "label"), (1, "ttl")]),
                Network::Unknown => None,
            },
        };
        name.unwrap_or_else(|| format!("byte {at}"))
    }

    /// Returns the rule's protocol.
    pub(super) fn protocol(&self) -> u16 {
        self.tag.or(self.ether_type).unwrap_or(ANY_PROTOCOL)
    }

    /// Returns the kind of the network header.
    pub(super) fn header(&self) -> Network {
        match self.ether_type {
            Some(IPV4) => Network::Ipv4,
            Some(IPV6) => Network::Ipv6,
            Some(ether_type) if is_mpls(ether_type) => Network::Mpls,
            _ => Network::Unknown,
        }
    }
}
