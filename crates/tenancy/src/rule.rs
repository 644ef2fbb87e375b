//! Transparent classification: rules over a packet's port and headers, each for one virtual data plane, and when two of them overlap.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use packet::PortId;

use crate::carriage::MacAddress;
use crate::vpdp::VpdpId;

/// Packets that meet all conditions are for this vPDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name among the rules of the switch.
    pub name: String,
    /// Whose packets these are.
    pub vpdp: VpdpId,
    /// Of two rules that a packet meets the one with the larger priority counts.
    pub priority: i32,
    /// Each of another field.
    pub conditions: Vec<Condition>,
}

/// What a VLAN condition asks for: of the outermost tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vlan {
    /// No tag, or one of a priority alone (VLAN 0).
    Untagged,
    /// This VLAN.
    Id(u16),
    /// This VLAN, as an access port has it: the tag is removed on the way in and added on the way
    /// out.
    Access(u16),
}

/// A condition on a field. One on a field of IPv4, IPv6 or of a transport protocol holds only for packets that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The port of the switch that it came in by.
    Port(PortId),
    /// The VLAN.
    Vlan(Vlan),
    /// The destination MAC address.
    Destination(MacAddress),
    /// The source MAC address.
    Source(MacAddress),
    /// The EtherType behind VLAN tags.
    EtherType(u16),
    /// A prefix of the IPv4 source address.
    Ipv4Source(Ipv4Addr, u8),
    /// A prefix of the IPv4 destination address.
    Ipv4Destination(Ipv4Addr, u8),
    /// A prefix of the IPv6 source address.
    Ipv6Source(Ipv6Addr, u8),
    /// A prefix of the IPv6 destination address.
    Ipv6Destination(Ipv6Addr, u8),
    /// IPv4's protocol or IPv6's first next header.
    Protocol(u8),
    /// Source ports of TCP, UDP or SCTP.
    L4Source(RangeInclusive<u16>),
    /// Destination ports of TCP, UDP or SCTP.
    L4Destination(RangeInclusive<u16>),
}

/// A field that conditions are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// The switch's port.
    Port,
    /// The VLAN; bit 12 says whether there is one.
    Vlan,
    /// The destination MAC address.
    Destination,
    /// The source MAC address.
    Source,
    /// The EtherType.
    EtherType,
    /// The IPv4 source address.
    Ipv4Source,
    /// The IPv4 destination address.
    Ipv4Destination,
    /// The IPv6 source address.
    Ipv6Source,
    /// The IPv6 destination address.
    Ipv6Destination,
    /// The protocol; bit 8 says whether there is an IP header.
    Protocol,
    /// The source port; bit 16 says whether there is one.
    L4Source,
    /// The destination port; bit 16 says whether there is one.
    L4Destination,
}

/// The value of [`Field::Vlan`] in a packet of which receivers do not agree about the VLAN: no rule
/// can ask for it, since VLAN 4095 is reserved.
pub(crate) const UNCLEAR_VLAN: u64 = HAS_VLAN | 0xfff;

/// In [`Field::Vlan`], [`Field::Protocol`] and the ports: that the packet has it.
pub(crate) const HAS_VLAN: u64 = 1 << 12;
pub(crate) const HAS_PROTOCOL: u64 = 1 << 8;
pub(crate) const HAS_PORTS: u64 = 1 << 16;

/// VLANs that there can be: 0 is a tag of a priority alone, 4095 is reserved (IEEE 802.1Q).
const LEAST_VLAN: u16 = 1;
const GREATEST_VLAN: u16 = 4094;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;

impl Field {
    /// Its bits.
    pub(crate) fn width(self) -> u32 {
        match self {
            Field::Port | Field::Ipv4Source | Field::Ipv4Destination => 32,
            Field::Vlan => 13,
            Field::Destination | Field::Source => 48,
            Field::EtherType => 16,
            Field::Ipv6Source | Field::Ipv6Destination => 128,
            Field::Protocol => 9,
            Field::L4Source | Field::L4Destination => 17,
        }
    }

    /// The field in its place in a packet of the other direction: sources are destinations there.
    pub(crate) fn mirrored(self) -> Field {
        match self {
            Field::Destination => Field::Source,
            Field::Source => Field::Destination,
            Field::Ipv4Source => Field::Ipv4Destination,
            Field::Ipv4Destination => Field::Ipv4Source,
            Field::Ipv6Source => Field::Ipv6Destination,
            Field::Ipv6Destination => Field::Ipv6Source,
            Field::L4Source => Field::L4Destination,
            Field::L4Destination => Field::L4Source,
            Field::Port | Field::Vlan | Field::EtherType | Field::Protocol => self,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Field::Port => "port",
            Field::Vlan => "VLAN",
            Field::Destination => "destination MAC",
            Field::Source => "source MAC",
            Field::EtherType => "EtherType",
            Field::Ipv4Source => "IPv4 source",
            Field::Ipv4Destination => "IPv4 destination",
            Field::Ipv6Source => "IPv6 source",
            Field::Ipv6Destination => "IPv6 destination",
            Field::Protocol => "IP protocol",
            Field::L4Source => "L4 source port",
            Field::L4Destination => "L4 destination port",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Values of a field: those between two, both inclusive. A prefix is such a range too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) least: u128,
    pub(crate) greatest: u128,
}

impl Values {
    fn one(value: impl Into<u128>) -> Values {
        let value = value.into();
        Values {
            least: value,
            greatest: value,
        }
    }

    fn prefix(value: u128, length: u8, width: u32) -> Values {
        let free = width - u32::from(length);
        let ignored = 1u128.checked_shl(free).map_or(u128::MAX, |bit| bit - 1);
        Values {
            least: value & !ignored,
            greatest: value | ignored,
        }
    }

    pub(crate) fn is_one(self) -> bool {
        self.least == self.greatest
    }

    fn overlap(self, other: Values) -> bool {
        self.least <= other.greatest && other.least <= self.greatest
    }
}

/// Why a rule makes no sense by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// Two conditions are about the same field.
    Twice(Field),
    /// There is no such VLAN.
    Vlan(u16),
    /// A prefix is longer than the field.
    Prefix(Field, u8),
    /// A range has its greater number first.
    EmptyRange(Field, u16, u16),
    /// Conditions that no packet meets together.
    Contradiction(Field),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Twice(field) => {
                write!(
                    f,
                    "two conditions are about the {field}; make two rules of it"
                )
            }
            RuleError::Vlan(id) => write!(
                f,
                "VLAN {id}: {LEAST_VLAN} to {GREATEST_VLAN}, or `none` for packets without one"
            ),
            RuleError::Prefix(field, length) => write!(
                f,
                "the {field} has a prefix of {length} bits: 0 to {}",
                field.width()
            ),
            RuleError::EmptyRange(field, first, last) => write!(
                f,
                "the {field} is in no range {first}..{last}: give the smaller number first"
            ),
            RuleError::Contradiction(field) => {
                write!(
                    f,
                    "no packet meets all conditions: they ask for two values of the {field}"
                )
            }
        }
    }
}

/// What a rule asks of each field, in the order of fields.
pub(crate) type Asked = Vec<(Field, Values)>;

impl Rule {
    /// The port of the switch that it names.
    pub(crate) fn port(&self) -> Option<PortId> {
        self.conditions
            .iter()
            .find_map(|condition| match condition {
                Condition::Port(port) => Some(*port),
                _ => None,
            })
    }

    /// The VLAN condition.
    pub(crate) fn vlan(&self) -> Option<Vlan> {
        self.conditions
            .iter()
            .find_map(|condition| match condition {
                Condition::Vlan(vlan) => Some(*vlan),
                _ => None,
            })
    }

    /// The VLAN of which packets lose the tag.
    pub(crate) fn access(&self) -> Option<u16> {
        match self.vlan() {
            Some(Vlan::Access(id)) => Some(id),
            _ => None,
        }
    }

    /// What it asks of fields, and what that takes of others: an IPv4 address takes IPv4's EtherType.
    pub(crate) fn asked(&self) -> Result<Asked, RuleError> {
        let mut asked = Asked::new();
        for condition in &self.conditions {
            let one = condition.asked()?;
            if asked.iter().any(|(field, _)| *field == one.0) {
                return Err(RuleError::Twice(one.0));
            }
            asked.push(one);
        }
        for condition in &self.conditions {
            let Some(ethertype) = condition.ethertype() else {
                continue;
            };
            let needed = (Field::EtherType, Values::one(ethertype));
            match asked.iter().find(|(field, _)| *field == Field::EtherType) {
                None => asked.push(needed),
                Some(there) if *there == needed => {}
                Some(_) => return Err(RuleError::Contradiction(Field::EtherType)),
            }
        }
        asked.sort_by_key(|(field, _)| *field);
        Ok(asked)
    }
}

/// Whether a packet can meet both.
pub(crate) fn overlap(one: &Asked, other: &Asked) -> bool {
    one.iter().all(|(field, values)| {
        let there = other.iter().find(|(other, _)| other == field);
        there.is_none_or(|(_, others)| values.overlap(*others))
    })
}

fn mac(address: &MacAddress) -> u128 {
    let bytes = address.0.iter();
    bytes.fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

/// Ports, with the bit that says that there are some.
fn ports(field: Field, range: &RangeInclusive<u16>) -> Result<Values, RuleError> {
    let (first, last) = (*range.start(), *range.end());
    if first > last {
        return Err(RuleError::EmptyRange(field, first, last));
    }
    let with_bit = |port: u16| u128::from(HAS_PORTS | u64::from(port));
    Ok(Values {
        least: with_bit(first),
        greatest: with_bit(last),
    })
}

impl Condition {
    fn asked(&self) -> Result<(Field, Values), RuleError> {
        let prefix = |field: Field, value: u128, length: u8| match u32::from(length) {
            length_bits if length_bits <= field.width() => {
                Ok((field, Values::prefix(value, length, field.width())))
            }
            _ => Err(RuleError::Prefix(field, length)),
        };
        Ok(match self {
            Condition::Port(port) => (Field::Port, Values::one(port.0)),
            Condition::Vlan(Vlan::Untagged) => (Field::Vlan, Values::one(0u8)),
            Condition::Vlan(Vlan::Id(id) | Vlan::Access(id)) => match *id {
                LEAST_VLAN..=GREATEST_VLAN => (Field::Vlan, Values::one(HAS_VLAN | u64::from(*id))),
                id => return Err(RuleError::Vlan(id)),
            },
            Condition::Destination(address) => (Field::Destination, Values::one(mac(address))),
            Condition::Source(address) => (Field::Source, Values::one(mac(address))),
            Condition::EtherType(ethertype) => (Field::EtherType, Values::one(*ethertype)),
            Condition::Ipv4Source(address, length) => {
                prefix(Field::Ipv4Source, address.to_bits().into(), *length)?
            }
            Condition::Ipv4Destination(address, length) => {
                prefix(Field::Ipv4Destination, address.to_bits().into(), *length)?
            }
            Condition::Ipv6Source(address, length) => {
                prefix(Field::Ipv6Source, address.to_bits(), *length)?
            }
            Condition::Ipv6Destination(address, length) => {
                prefix(Field::Ipv6Destination, address.to_bits(), *length)?
            }
            Condition::Protocol(protocol) => {
                let value = HAS_PROTOCOL | u64::from(*protocol);
                (Field::Protocol, Values::one(value))
            }
            Condition::L4Source(range) => (Field::L4Source, ports(Field::L4Source, range)?),
            Condition::L4Destination(range) => {
                (Field::L4Destination, ports(Field::L4Destination, range)?)
            }
        })
    }

    /// The EtherType that it takes.
    fn ethertype(&self) -> Option<u16> {
        match self {
            Condition::Ipv4Source(..) | Condition::Ipv4Destination(..) => Some(ETHERTYPE_IPV4),
            Condition::Ipv6Source(..) | Condition::Ipv6Destination(..) => Some(ETHERTYPE_IPV6),
            _ => None,
        }
    }
}
