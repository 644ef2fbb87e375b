//! Classification rules over a packet's port and headers, each for one virtual data plane, and the
//! overlap check of two rules.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use packet::PortId;
use support::mac::MacAddress;

use crate::vpdp::VpdpId;

/// Assigns packets that match all conditions to a vPDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Unique name of the rule in the switch.
    pub name: String,
    /// The vPDP that gets the packets.
    pub vpdp: VpdpId,
    /// If a packet matches several rules, the one with the largest priority is used.
    pub priority: i32,
    /// Conditions, each on another field.
    pub conditions: Vec<Condition>,
}

/// VLAN condition on the outermost tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vlan {
    /// No tag, or a priority tag (VLAN 0).
    Untagged,
    /// This VLAN.
    Id(u16),
    /// This VLAN, as at an access port: the tag is removed at ingress and added at egress.
    Access(u16),
}

/// A condition on a field. One on a field of IPv4, IPv6 or of a transport protocol matches only
/// packets that have the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Ingress port of the switch.
    Port(PortId),
    /// The VLAN.
    Vlan(Vlan),
    /// The destination MAC address.
    Destination(MacAddress),
    /// The source MAC address.
    Source(MacAddress),
    /// The EtherType after VLAN tags.
    EtherType(u16),
    /// A prefix of the IPv4 source address.
    Ipv4Source(Ipv4Addr, u8),
    /// A prefix of the IPv4 destination address.
    Ipv4Destination(Ipv4Addr, u8),
    /// A prefix of the IPv6 source address.
    Ipv6Source(Ipv6Addr, u8),
    /// A prefix of the IPv6 destination address.
    Ipv6Destination(Ipv6Addr, u8),
    /// IPv4 protocol, or first Next Header of IPv6.
    Protocol(u8),
    /// Range of TCP, UDP or SCTP source ports.
    L4Source(RangeInclusive<u16>),
    /// Range of TCP, UDP or SCTP destination ports.
    L4Destination(RangeInclusive<u16>),
    /// Number of a reduction, of a message to one of its ports (docs/AGGREGATE.md).
    Reduction(u16),
}

/// A field that conditions match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Physical port.
    Port,
    /// VLAN ID; bit 12 is set if there is one.
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
    /// IP protocol; bit 8 is set if there is an IP header.
    Protocol,
    /// L4 source port; bit 16 is set if there is one.
    L4Source,
    /// L4 destination port; bit 16 is set if there is one.
    L4Destination,
    /// Number of a reduction; bit 16 is set if there is one.
    Reduction,
}

/// Value of [`Field::Vlan`] if receivers disagree about a packet's VLAN. No rule can match it,
/// since VLAN 4095 is reserved.
pub(crate) const UNCLEAR_VLAN: u64 = HAS_VLAN | 0xfff;

/// Presence flags in [`Field::Vlan`], [`Field::Protocol`], the L4 ports and
/// [`Field::Reduction`].
pub(crate) const HAS_VLAN: u64 = 1 << 12;
pub(crate) const HAS_PROTOCOL: u64 = 1 << 8;
pub(crate) const HAS_PORTS: u64 = 1 << 16;
pub(crate) const HAS_REDUCTION: u64 = 1 << 16;

/// Valid VLAN IDs: 0 is a priority tag, 4095 is reserved (IEEE 802.1Q).
const MIN_VLAN: u16 = 1;
const GREATEST_VLAN: u16 = 4094;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;

impl Field {
    /// Returns the width in bits.
    pub(crate) fn width(self) -> u32 {
        match self {
            Field::Port | Field::Ipv4Source | Field::Ipv4Destination => 32,
            Field::Vlan => 13,
            Field::Destination | Field::Source => 48,
            Field::EtherType => 16,
            Field::Ipv6Source | Field::Ipv6Destination => 128,
            Field::Protocol => 9,
            Field::L4Source | Field::L4Destination | Field::Reduction => 17,
        }
    }

    /// Returns the field with the same meaning in a packet of the reverse direction.
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
            // An answer has the number of its question.
            Field::Reduction => self,
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
            Field::Reduction => "reduction",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Range of field values, both bounds inclusive. A prefix is such a range.
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

/// Error in a single rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// Two conditions on the same field.
    Twice(Field),
    /// The VLAN ID is invalid.
    Vlan(u16),
    /// A prefix is longer than the field.
    Prefix(Field, u8),
    /// The first number of a range is larger than the last.
    EmptyRange(Field, u16, u16),
    /// The conditions contradict each other: no packet matches.
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
                "VLAN {id}: {MIN_VLAN} to {GREATEST_VLAN}, or `none` for packets without one"
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

/// Conditions of a rule by field, in the order of fields.
pub(crate) type RuleConditions = Vec<(Field, Values)>;

impl Rule {
    /// Returns the physical port that the rule names.
    pub(crate) fn port(&self) -> Option<PortId> {
        self.conditions
            .iter()
            .find_map(|condition| match condition {
                Condition::Port(port) => Some(*port),
                _ => None,
            })
    }

    /// Returns the VLAN condition.
    pub(crate) fn vlan(&self) -> Option<Vlan> {
        self.conditions
            .iter()
            .find_map(|condition| match condition {
                Condition::Vlan(vlan) => Some(*vlan),
                _ => None,
            })
    }

    /// Returns the VLAN of an `untag` rule.
    pub(crate) fn access(&self) -> Option<u16> {
        match self.vlan() {
            Some(Vlan::Access(id)) => Some(id),
            _ => None,
        }
    }

    /// Returns the conditions by field, with implied ones: an IPv4 address implies the EtherType
    /// of IPv4.
    pub(crate) fn asked(&self) -> Result<RuleConditions, RuleError> {
        let mut asked = RuleConditions::new();
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

/// Returns true if a packet can match both rules.
pub(crate) fn overlap(one: &RuleConditions, other: &RuleConditions) -> bool {
    one.iter().all(|(field, values)| {
        let there = other.iter().find(|(other, _)| other == field);
        there.is_none_or(|(_, others)| values.overlap(*others))
    })
}

/// Returns a port range, with the presence bit set.
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
                MIN_VLAN..=GREATEST_VLAN => (Field::Vlan, Values::one(HAS_VLAN | u64::from(*id))),
                id => return Err(RuleError::Vlan(id)),
            },
            Condition::Destination(address) => {
                (Field::Destination, Values::one(u64::from(*address)))
            }
            Condition::Source(address) => (Field::Source, Values::one(u64::from(*address))),
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
            Condition::Reduction(number) => {
                let value = HAS_REDUCTION | u64::from(*number);
                (Field::Reduction, Values::one(value))
            }
        })
    }

    /// Returns the EtherType that the condition implies.
    fn ethertype(&self) -> Option<u16> {
        match self {
            Condition::Ipv4Source(..) | Condition::Ipv4Destination(..) => Some(ETHERTYPE_IPV4),
            Condition::Ipv6Source(..) | Condition::Ipv6Destination(..) => Some(ETHERTYPE_IPV6),
            _ => None,
        }
    }
}
