//! All rules as one table: its key is made of the fields that they ask for, so that rules of one exact field cost one hash.

use std::sync::Arc;

use bits::{Id, Value};
use packet::PortId;
use table::{
    ActionRef, EntryAction, FieldMatch, KeyField, KeyShape, Lookup, MatchKind, NewEntry, Table,
    TableError, TableSpec,
};

use crate::rule::{
    Asked, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Field, HAS_PORTS, HAS_PROTOCOL, HAS_VLAN, Rule, Values,
};
use crate::vpdp::VpdpId;

/// Limbs of the longest key: one for each of twelve fields, and one more for each IPv6 address.
const MOST_LIMBS: usize = 14;

/// Finds out whose a packet is.
#[derive(Debug)]
pub(crate) struct Classifier {
    fields: Box<[Field]>,
    lookup: Arc<Lookup>,
    /// Whose packets an entry's are, by its place.
    vpdps: Box<[VpdpId]>,
}

/// Shapes the key field of a rule table by what all rules ask of it.
fn key_field(field: Field, asked: &[(&Rule, Asked)]) -> KeyField {
    let of_field = |asked: &Asked| asked.iter().find(|(other, _)| *other == field).copied();
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

/// Of no meaning: a classifier only asks which entry was found.
fn no_action() -> EntryAction {
    EntryAction::Direct(ActionRef {
        action: 0,
        params: Box::default(),
    })
}

impl Classifier {
    /// The table of these rules, which are checked.
    ///
    /// # Errors
    /// The table does not take an entry.
    pub(crate) fn new(mut asked: Vec<(&Rule, Asked)>) -> Result<Classifier, TableError> {
        // Of rules with the same conditions the first counts.
        asked.sort_by_key(|(rule, _)| std::cmp::Reverse(rule.priority));
        let mut fields: Vec<Field> = asked
            .iter()
            .flat_map(|(_, asked)| asked.iter().map(|(field, _)| *field))
            .collect();
        fields.sort_unstable();
        fields.dedup();
        let keys = fields.iter().map(|field| key_field(*field, &asked));
        let shape = KeyShape::new(keys);
        let needs_priority = shape.needs_priority();
        let mut spec = TableSpec::new(shape.clone(), asked.len().max(1));
        spec.notes_usage = false;
        let mut table = Table::new(spec, no_action());
        let mut owners = Vec::new();
        for (rule, asked) in &asked {
            let of_field = |field: &Field| {
                let found = asked.iter().find(|(other, _)| other == field);
                found.map(|(_, values)| *values)
            };
            let matches = shape.fields().iter().zip(&fields);
            let matches = matches.map(|(key, field)| field_match(key, of_field(field)));
            let mut entry = NewEntry::new(matches.collect(), no_action());
            entry.priority = needs_priority.then_some(rule.priority);
            match table.insert(entry, 0) {
                Ok(id) => owners.push((id, rule.vpdp)),
                Err(TableError::Duplicate(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let lookup = table.snapshot();
        let mut vpdps = Vec::new();
        for (place, entry) in lookup.iter() {
            let owner = owners.iter().find(|(id, _)| *id == entry.id);
            let Some((_, vpdp)) = owner else { continue };
            vpdps.resize(vpdps.len().max(place.index() + 1), *vpdp);
            vpdps[place.index()] = *vpdp;
        }
        Ok(Classifier {
            fields: fields.into(),
            lookup,
            vpdps: vpdps.into(),
        })
    }

    /// Whose a packet is that came in by this port of the switch.
    #[inline]
    pub(crate) fn find(&self, port: PortId, bytes: &[u8]) -> Option<VpdpId> {
        let headers = Headers::of(port, bytes);
        let mut key = [0; MOST_LIMBS];
        let mut limbs = 0;
        for field in &self.fields {
            let value = headers.field(*field);
            key[limbs] = value as u64;
            limbs += 1;
            if field.width() > u64::BITS {
                key[limbs] = (value >> u64::BITS) as u64;
                limbs += 1;
            }
        }
        let found = self.lookup.find(&key[..limbs])?;
        self.vpdps.get(found.index()).copied()
    }
}

const TAGS: [u16; 2] = [0x8100, 0x88a8];
const IPV4_LEAST: usize = 20;
const IPV6: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// A packet's headers, as far as rules ask for them.
struct Headers<'b> {
    port: PortId,
    bytes: &'b [u8],
    vlan: u64,
    ethertype: u16,
    /// Behind the EtherType.
    network: &'b [u8],
}

fn word(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(two) => u16::from_be_bytes(*two),
        None => 0,
    }
}

/// `N` bytes as a number; 0 where they are not.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u128 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    let bytes = found.map_or(&[][..], |bytes| bytes.as_slice());
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

impl<'b> Headers<'b> {
    fn of(port: PortId, bytes: &'b [u8]) -> Headers<'b> {
        let (mut at, mut vlan) = (12, 0);
        let mut ethertype = word(bytes, at);
        while TAGS.contains(&ethertype) && bytes.len() >= at + 6 {
            let id = u64::from(word(bytes, at + 2) & 0xfff);
            if at == 12 && id != 0 {
                vlan = HAS_VLAN | id;
            }
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
            vlan,
            // A packet that ends within its IP header meets no rule that names IP.
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
        }
    }

    /// The protocol behind IP, and what stands there; nothing of later fragments.
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

    fn l4_port(&self, at: usize) -> u128 {
        match self.transport() {
            Some((TCP | UDP | SCTP, behind)) if behind.len() >= 4 => {
                (HAS_PORTS | u64::from(word(behind, at))).into()
            }
            _ => 0,
        }
    }
}
