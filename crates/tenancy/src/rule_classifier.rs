//! Classification rules as one match table. The key consists of the fields that the rules match
//! on; rules on one exact field need one hash lookup. The common case, rules that each match one
//! port and one VLAN, is an array by port.

use std::sync::Arc;

use bits::{Id, Value};
use packet::PortId;
use table::{
    ActionRef, EntryAction, FieldMatch, KeyField, KeyShape, Lookup, MatchKind, NewEntry, Table,
    TableError, TableSpec,
};

use crate::port_classifier::of_vlan;
use crate::port_map::MAX_PORT;
use crate::rule::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, Field, HAS_PORTS, HAS_PROTOCOL, HAS_REDUCTION, HAS_VLAN, Rule,
    RuleConditions, UNCLEAR_VLAN, Values,
};
use crate::vpdp::VpdpId;

/// Maximum key length in limbs: one for each of 13 fields, and one more for each IPv6 address.
const MAX_LIMBS: usize = 15;

/// Result of the classification by rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) vpdp: VpdpId,
    /// True if the tag of the rule's VLAN is removed.
    pub(crate) untags: bool,
}

impl Owner {
    fn of(rule: &Rule) -> Owner {
        Owner {
            vpdp: rule.vpdp,
            untags: rule.access().is_some(),
        }
    }
}

/// Classifier by rules.
#[derive(Debug)]
pub(crate) enum Classifier {
    /// Rules on port and VLAN only.
    Vlans(Vlans),
    /// Rules on any fields.
    Rules(RuleTable),
}

impl Classifier {
    /// Builds the classifier of these rules, which were checked.
    ///
    /// # Errors
    /// The table rejects an entry.
    pub(crate) fn new(mut asked: Vec<(&Rule, RuleConditions)>) -> Result<Classifier, TableError> {
        // Of rules with the same conditions, the first one is used.
        asked.sort_by_key(|(rule, _)| std::cmp::Reverse(rule.priority));
        match Vlans::new(&asked) {
            Some(vlans) => Ok(Classifier::Vlans(vlans)),
            None => Ok(Classifier::Rules(RuleTable::new(&asked)?)),
        }
    }

    /// Returns the owner of a packet that was received at this port.
    #[inline]
    pub(crate) fn find(&self, port: PortId, bytes: &[u8]) -> Option<Owner> {
        match self {
            Classifier::Vlans(vlans) => vlans.find(port, bytes),
            Classifier::Rules(rules) => rules.find(port, bytes),
        }
    }

    /// Returns the vPDP of the packets that answer this one: they are received at this port, with
    /// source and destination exchanged.
    #[inline]
    pub(crate) fn find_mirrored(&self, port: PortId, bytes: &[u8]) -> Option<VpdpId> {
        let owner = match self {
            Classifier::Vlans(vlans) => vlans.find(port, bytes),
            Classifier::Rules(rules) => rules.find_by(&rules.mirrored, port, bytes),
        };
        owner.map(|owner| owner.vpdp)
    }
}

/// Rules that each match one port and one VLAN.
#[derive(Debug)]
pub(crate) struct Vlans {
    /// Indexed by port.
    ports: Box<[Owners]>,
}

/// VLANs of a port, sorted, and their owners.
type Owners = Box<[(u16, Owner)]>;

impl Vlans {
    /// Builds the array from rules in descending priority. Returns `None` if a rule matches on
    /// anything else.
    fn new(asked: &[(&Rule, RuleConditions)]) -> Option<Vlans> {
        let mut ports: Vec<Vec<(u16, Owner)>> = Vec::new();
        for (rule, asked) in asked {
            let [(Field::Port, port), (Field::Vlan, vlan)] = by_field(asked)[..] else {
                return None;
            };
            if !port.is_one() || !vlan.is_one() || port.least > u128::from(MAX_PORT) {
                return None;
            }
            let (at, vlan) = (port.least as usize, vlan.least as u16);
            ports.resize_with(ports.len().max(at + 1), Vec::new);
            let vlans = &mut ports[at];
            if let Err(at) = vlans.binary_search_by_key(&vlan, |(vlan, _)| *vlan) {
                vlans.insert(at, (vlan, Owner::of(rule)));
            }
        }
        Some(Vlans {
            ports: ports.into_iter().map(Vec::into_boxed_slice).collect(),
        })
    }

    /// Returns the VLANs of a port, sorted, and their owners.
    pub(crate) fn of_port(&self, port: PortId) -> &[(u16, Owner)] {
        let owners = self.ports.get(port.0 as usize);
        owners.map_or(&[], |owners| owners)
    }

    #[inline]
    fn find(&self, port: PortId, bytes: &[u8]) -> Option<Owner> {
        of_vlan(self.of_port(port), outer_vlan(bytes))
    }
}

/// Returns the conditions of a rule, sorted by field.
fn by_field(asked: &RuleConditions) -> Vec<(Field, Values)> {
    let mut asked: Vec<(Field, Values)> = asked.to_vec();
    asked.sort_unstable_by_key(|(field, _)| *field);
    asked
}

/// Rules as a match table.
#[derive(Debug)]
pub(crate) struct RuleTable {
    fields: Box<[Field]>,
    /// For each key field, the field of a packet in the reverse direction.
    mirrored: Box<[Field]>,
    lookup: Arc<Lookup>,
    /// Owner of each entry, by entry index.
    owners: Box<[Owner]>,
}

/// Returns the key field for these conditions: exact if all rules have one value, else range or
/// ternary.
fn key_field(field: Field, asked: &[(&Rule, RuleConditions)]) -> KeyField {
    let of_field =
        |asked: &RuleConditions| asked.iter().find(|(other, _)| *other == field).copied();
    let all: Vec<Option<Values>> = asked
        .iter()
        .map(|(_, asked)| of_field(asked).map(|(_, values)| values))
        .collect();
    let is_one = |values: &Option<Values>| values.is_some_and(Values::is_one);
    let kind = match field {
        _ if all.iter().all(is_one) => MatchKind::Exact,
        Field::L4Source | Field::L4Destination => MatchKind::Range,
        _ => MatchKind::Ternary,
    };
    KeyField {
        width: field.width(),
        kind,
    }
}

fn field_match(key: &KeyField, values: Option<Values>) -> FieldMatch {
    let width = key.width;
    let value = |number| Value::truncated(number, width);
    match (key.kind, values) {
        (MatchKind::Exact, Some(values)) => FieldMatch::Exact(value(values.least)),
        (MatchKind::Range, Some(values)) => FieldMatch::Range {
            lo: value(values.least),
            hi: value(values.greatest),
        },
        (MatchKind::Range, None) => FieldMatch::Range {
            lo: Value::zero(width),
            hi: Value::all_ones(width),
        },
        (_, Some(values)) => FieldMatch::Ternary {
            value: value(values.least),
            mask: value(!(values.least ^ values.greatest)),
        },
        (_, None) => FieldMatch::Ternary {
            value: Value::zero(width),
            mask: Value::zero(width),
        },
    }
}

/// Returns a placeholder: only the matched entry is used.
fn no_action() -> EntryAction {
    EntryAction::Direct(ActionRef {
        action: 0,
        params: Box::default(),
    })
}

impl RuleTable {
    /// Builds the table from rules in descending priority.
    fn new(asked: &[(&Rule, RuleConditions)]) -> Result<RuleTable, TableError> {
        let mut fields: Vec<Field> = asked
            .iter()
            .flat_map(|(_, asked)| asked.iter().map(|(field, _)| *field))
            .collect();
        fields.sort_unstable();
        fields.dedup();
        if fields.is_empty() {
            // All rules match every packet, but a table needs a key.
            fields.push(Field::Port);
        }
        let keys = fields.iter().map(|field| key_field(*field, asked));
        let shape = KeyShape::new(keys);
        let needs_priority = shape.needs_priority();
        let mut spec = TableSpec::new(shape.clone(), asked.len().max(1));
        spec.notes_usage = false;
        let mut table = Table::new(spec, no_action());
        let mut owners = Vec::new();
        for (rule, asked) in asked {
            let of_field = |field: &Field| {
                let found = asked.iter().find(|(other, _)| other == field);
                found.map(|(_, values)| *values)
            };
            let matches = shape.fields().iter().zip(&fields);
            let matches = matches.map(|(key, field)| field_match(key, of_field(field)));
            let mut entry = NewEntry::new(matches.collect(), no_action());
            entry.priority = needs_priority.then_some(rule.priority);
            match table.insert(entry, 0) {
                Ok(id) => owners.push((id, Owner::of(rule))),
                Err(TableError::Duplicate(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let lookup = table.snapshot();
        let mut by_place = Vec::new();
        for (place, entry) in lookup.iter() {
            let owner = owners.iter().find(|(id, _)| *id == entry.id);
            let Some((_, owner)) = owner else { continue };
            by_place.resize(by_place.len().max(place.index() + 1), *owner);
            by_place[place.index()] = *owner;
        }
        Ok(RuleTable {
            mirrored: fields.iter().map(|field| field.mirrored()).collect(),
            fields: fields.into(),
            lookup,
            owners: by_place.into(),
        })
    }

    fn find(&self, port: PortId, bytes: &[u8]) -> Option<Owner> {
        self.find_by(&self.fields, port, bytes)
    }

    /// Finds the entry for a key of these packet fields.
    #[inline]
    fn find_by(&self, fields: &[Field], port: PortId, bytes: &[u8]) -> Option<Owner> {
        let headers = Headers::of(port, bytes);
        let mut key = [0; MAX_LIMBS];
        let mut limbs = 0;
        for field in fields {
            let value = headers.field(*field);
            key[limbs] = value as u64;
            limbs += 1;
            if field.width() > u64::BITS {
                key[limbs] = (value >> u64::BITS) as u64;
                limbs += 1;
            }
        }
        let found = self.lookup.find(&key[..limbs])?;
        self.owners.get(found.index()).copied()
    }
}

pub(crate) const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Offset of a frame's first EtherType.
pub(crate) const TYPE_AT: usize = 12;
const IPV4_LEAST: usize = 20;
const IPV6: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// UDP ports of messages of reductions, and the offset of the reduction's number from the start
/// of the UDP header (docs/AGGREGATE.md).
const REDUCTION_PORTS: std::ops::RangeInclusive<u16> = 9570..=9579;
const REDUCTION_AT: usize = 8 + 4;

/// Headers of a packet that rules can match on.
struct Headers<'b> {
    port: PortId,
    bytes: &'b [u8],
    vlan: u64,
    ethertype: u16,
    /// Bytes after the EtherType.
    network: &'b [u8],
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(two) => u16::from_be_bytes(*two),
        None => 0,
    }
}

/// Returns the VLAN of the outermost tag, as [`Field::Vlan`]; 0 if there is no tag, or a priority
/// tag (VLAN 0). Receivers disagree about a priority tag in front of another tag, and about a
/// truncated tag: these have [`UNCLEAR_VLAN`].
#[inline]
pub(crate) fn outer_vlan(bytes: &[u8]) -> u64 {
    let Some(head) = bytes.first_chunk::<{ TYPE_AT + 6 }>() else {
        return vlan_of_short(bytes);
    };
    let is_tagged = TAGS.contains(&word(head, TYPE_AT));
    match word(head, TYPE_AT + 2) & 0xfff {
        id @ 1.. if is_tagged => HAS_VLAN | u64::from(id),
        0 if is_tagged => vlan_of_priority(head),
        _ => 0,
    }
}

/// Slow path of [`outer_vlan`]: the frame may end within a tag.
#[cold]
fn vlan_of_short(bytes: &[u8]) -> u64 {
    match TAGS.contains(&word(bytes, TYPE_AT)) {
        true => UNCLEAR_VLAN,
        false => 0,
    }
}

/// Slow path of [`outer_vlan`]: the first tag has VLAN 0.
#[cold]
fn vlan_of_priority(head: &[u8; TYPE_AT + 6]) -> u64 {
    match TAGS.contains(&word(head, TYPE_AT + 4)) {
        true => UNCLEAR_VLAN,
        false => 0,
    }
}

/// Returns `N` bytes as a big-endian number; 0 if the packet is too short.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u128 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    let bytes = found.map_or(&[][..], |bytes| bytes.as_slice());
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

impl<'b> Headers<'b> {
    fn of(port: PortId, bytes: &'b [u8]) -> Headers<'b> {
        let mut at = TYPE_AT;
        let mut ethertype = word(bytes, at);
        while TAGS.contains(&ethertype) && bytes.len() >= at + 6 {
            at += 4;
            ethertype = word(bytes, at);
        }
        let network = bytes.get(at + 2..).unwrap_or_default();
        let least = match ethertype {
            ETHERTYPE_IPV4 => IPV4_LEAST,
            ETHERTYPE_IPV6 => IPV6,
            _ => 0,
        };
        Headers {
            port,
            bytes,
            vlan: outer_vlan(bytes),
            // A packet that ends within its IP header matches no rule on IP.
            ethertype: if network.len() < least { 0 } else { ethertype },
            network,
        }
    }

    fn field(&self, field: Field) -> u128 {
        match field {
            Field::Port => self.port.0.into(),
            Field::Vlan => self.vlan.into(),
            Field::Destination => number::<6>(self.bytes, 0),
            Field::Source => number::<6>(self.bytes, 6),
            Field::EtherType => self.ethertype.into(),
            Field::Ipv4Source => number::<4>(self.network, 12),
            Field::Ipv4Destination => number::<4>(self.network, 16),
            Field::Ipv6Source => number::<16>(self.network, 8),
            Field::Ipv6Destination => number::<16>(self.network, 24),
            Field::Protocol => match self.transport() {
                Some((protocol, _)) => (HAS_PROTOCOL | u64::from(protocol)).into(),
                None => 0,
            },
            Field::L4Source => self.l4_port(0),
            Field::L4Destination => self.l4_port(2),
            Field::Reduction => match self.reduction() {
                Some(number) => (HAS_REDUCTION | u64::from(number)).into(),
                None => 0,
            },
        }
    }

    /// Returns the IP protocol and the bytes after the IP header (empty for later fragments).
    fn transport(&self) -> Option<(u8, &'b [u8])> {
        let network = self.network;
        match self.ethertype {
            ETHERTYPE_IPV4 => {
                let length = usize::from(network[0] & 0xf) * 4;
                let is_first = word(network, 6) & 0x1fff == 0;
                let behind = network.get(length.max(IPV4_LEAST)..);
                Some((network[9], behind.filter(|_| is_first).unwrap_or_default()))
            }
            ETHERTYPE_IPV6 => Some((network[6], &network[IPV6..])),
            _ => None,
        }
    }

    /// Returns the number of a message's reduction.
    fn reduction(&self) -> Option<u16> {
        let (protocol, behind) = self.transport()?;
        let is_message = protocol == UDP
            && behind.len() >= REDUCTION_AT + 2
            && REDUCTION_PORTS.contains(&word(behind, 2));
        is_message.then(|| word(behind, REDUCTION_AT))
    }

    fn l4_port(&self, at: usize) -> u128 {
        match self.transport() {
            Some((TCP | UDP | SCTP, behind)) if behind.len() >= 4 => {
                (HAS_PORTS | u64::from(word(behind, at))).into()
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Condition, Vlan};
    use proptest::prelude::*;

    fn vlan(id: u16) -> Vlan {
        match id {
            0 => Vlan::Untagged,
            id => Vlan::Id(id),
        }
    }

    fn tagged(id: u16) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        if id != 0 {
            bytes[12..14].copy_from_slice(&TAGS[0].to_be_bytes());
            bytes[14..16].copy_from_slice(&(0xe000 | id).to_be_bytes());
        }
        bytes
    }

    proptest! {
        #[test]
        fn rules_over_ports_and_vlans_find_by_index_what_they_find_as_a_table(
            given in prop::collection::vec((0u32..4, 0u16..4), 0..12),
        ) {
            let rule = |(number, (port, id)): (u16, &(u32, u16))| Rule {
                name: number.to_string(),
                vpdp: VpdpId::new(number).unwrap(),
                priority: 0,
                conditions: vec![Condition::Vlan(vlan(*id)), Condition::Port(PortId(*port))],
            };
            let rules: Vec<Rule> = (1..).zip(&given).map(rule).collect();
            let asked: Vec<_> = rules.iter().map(|rule| (rule, rule.asked().unwrap())).collect();
            let vlans = Vlans::new(&asked).unwrap();
            let table = RuleTable::new(&asked).unwrap();
            for port in (0..5).map(PortId) {
                for id in 0..5 {
                    let bytes = tagged(id);
                    prop_assert_eq!(vlans.find(port, &bytes), table.find(port, &bytes));
                }
            }
        }
    }

    #[test]
    fn a_rule_without_conditions_is_met_by_all_packets() {
        let rule = Rule {
            name: String::new(),
            vpdp: VpdpId::new(1).unwrap(),
            priority: 0,
            conditions: Vec::new(),
        };
        let made = Classifier::new(vec![(&rule, rule.asked().unwrap())]).unwrap();
        for port in [0, 7, u32::MAX].map(PortId) {
            assert_eq!(made.find(port, &tagged(3)), Some(Owner::of(&rule)));
        }
    }

    #[test]
    fn rules_that_ask_for_more_than_port_and_vlan_are_a_table() {
        let rule = |conditions| Rule {
            name: String::new(),
            vpdp: VpdpId::new(1).unwrap(),
            priority: 0,
            conditions,
        };
        let port = Condition::Port(PortId(1));
        let untagged = Condition::Vlan(Vlan::Untagged);
        let others = [
            vec![port.clone()],
            vec![untagged.clone()],
            vec![port, untagged, Condition::EtherType(0x0800)],
        ];
        for conditions in others {
            let rule = rule(conditions);
            let asked = rule.asked().unwrap();
            let made = Classifier::new(vec![(&rule, asked)]).unwrap();
            assert!(matches!(made, Classifier::Rules(_)), "{rule:?}");
        }
    }
}
