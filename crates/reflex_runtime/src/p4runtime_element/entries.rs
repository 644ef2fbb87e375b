//! Entries of managed tables as P4Runtime has them.

use consensus::Key;
use p4info::P4Info;
use p4info::p4::config::v1::match_field::{Match, MatchType};
use p4info::p4::config::v1::{Preamble, Table};
use p4info::p4::v1 as rt;
use p4info::p4::v1::field_match::{Exact, FieldMatchType, Lpm};
use p4info::p4::v1::table_action::Type as ActionType;
use prost::Message;
use reflex::{
    BindError, BindReason, ChangeSpec, ElementWrite, EntryKey, KeyBytes, KeyPart, ReflexIndex,
    ReflexSpec, Setting, WritePlace,
};
use support::rng::mix;

/// Table of a permission, by the numbers of a server's P4Info.
#[derive(Clone, Debug)]
pub(super) struct BoundTable {
    pub(super) table_id: u32,
    /// Metadata of its entries: the permission's name.
    owner: Vec<u8>,
    fields: Vec<BoundField>,
    action_id: u32,
    /// Number of the action's parameter, if it has one.
    param: Option<u32>,
    /// Keys with the fields that they get, in words, after the permission's name.
    pub(super) pairs: String,
}

/// Match field of a table.
#[derive(Clone, Copy, Debug)]
struct BoundField {
    id: u32,
    /// Width in bits.
    width: u32,
    is_prefix: bool,
}

/// Entry of a managed table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// Its message, in the form of [`plain`].
    pub(super) message: rt::TableEntry,
    /// Place in the file of the permission that it is of; `None` for one of a controller.
    pub(super) reflex: Option<usize>,
}

/// Returns the message that names an entry.
pub(super) fn key_of(entry: &rt::TableEntry) -> rt::TableEntry {
    rt::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        is_default_action: entry.is_default_action,
        ..rt::TableEntry::default()
    }
}

/// Returns the part of an entry that is written and does not change by itself: numbers in canonical
/// form, fields and parameters in the order of their numbers.
pub(super) fn plain(entry: &rt::TableEntry) -> rt::TableEntry {
    let mut fields = entry.r#match.clone();
    fields.sort_by_key(|field| field.field_id);
    for field in &mut fields {
        let values = match &mut field.field_match_type {
            Some(FieldMatchType::Exact(exact)) => [Some(&mut exact.value), None],
            Some(FieldMatchType::Lpm(lpm)) => [Some(&mut lpm.value), None],
            Some(FieldMatchType::Ternary(it)) => [Some(&mut it.value), Some(&mut it.mask)],
            Some(FieldMatchType::Range(it)) => [Some(&mut it.low), Some(&mut it.high)],
            Some(FieldMatchType::Optional(it)) => [Some(&mut it.value), None],
            Some(FieldMatchType::Other(_)) | None => [None, None],
        };
        for value in values.into_iter().flatten() {
            *value = canonical(value);
        }
    }
    let mut action = entry.action.clone();
    let kind = action.as_mut().and_then(|action| action.r#type.as_mut());
    if let Some(ActionType::Action(action)) = kind {
        action.params.sort_by_key(|param| param.param_id);
        for param in &mut action.params {
            param.value = canonical(&param.value);
        }
    }
    rt::TableEntry {
        r#match: fields,
        action,
        metadata: entry.metadata.clone(),
        idle_timeout_ns: entry.idle_timeout_ns,
        meter_config: entry.meter_config,
        ..key_of(entry)
    }
}

/// Returns the name in the store of a controller's entry: a hash of 128 bits of its key.
pub(super) fn controller_name(entry: &rt::TableEntry) -> Key {
    let bytes = key_of(entry).encode_to_vec();
    let mut halves = [mix(1 << 32), mix(1 << 33)];
    for half in &mut halves {
        let bytes = bytes.iter().map(|byte| u64::from(*byte));
        *half = bytes.fold(*half, |half, byte| mix(half ^ byte));
    }
    let mut name = [0; 16];
    name[..8].copy_from_slice(&halves[0].to_le_bytes());
    name[8..].copy_from_slice(&halves[1].to_le_bytes());
    name
}

fn name(preamble: Option<&Preamble>) -> &str {
    preamble.map_or("", |preamble| &preamble.name)
}

/// Finds the table and the action of a permission.
///
/// # Errors
/// The program lacks one, or has another form of it.
pub(super) fn bind(reflex: &ReflexSpec, info: &P4Info) -> Result<BoundTable, BindError> {
    let refuse = |reason| BindError {
        reflex: reflex.name.clone(),
        reason,
    };
    let spec = match &reflex.change {
        ChangeSpec::Entry(spec) if !spec.replace && spec.meter.is_none() => spec,
        ChangeSpec::Entry(_) | ChangeSpec::Meter { .. } | ChangeSpec::Register { .. } => {
            return Err(refuse(BindReason::NotByP4Runtime));
        }
        ChangeSpec::Queue(_) => return Err(refuse(BindReason::NotByP4Runtime)),
    };
    let mut tables = info.tables.iter();
    let found = tables.find(|table| name(table.preamble.as_ref()) == spec.table);
    let table: &Table =
        found.ok_or_else(|| refuse(BindReason::NoTable(spec.table.clone(), Vec::new())))?;
    if table.is_const_table {
        return Err(refuse(BindReason::Const(spec.table.clone())));
    }
    if table.match_fields.len() != spec.key.len() {
        let keys = BindReason::Keys(spec.table.clone(), table.match_fields.len());
        return Err(refuse(keys));
    }
    let mut fields = Vec::new();
    for (field, part) in table.match_fields.iter().zip(&spec.key) {
        let kind = match field.r#match {
            Some(Match::MatchType(kind)) => MatchType::try_from(kind).ok(),
            _ => None,
        };
        let has_prefixes = *part == KeyPart::Destination && !spec.prefixes.is_empty();
        let is_prefix = match kind {
            Some(MatchType::Exact) if has_prefixes => {
                return Err(refuse(BindReason::NoPrefix(field.name.clone())));
            }
            Some(MatchType::Exact) => false,
            Some(MatchType::Lpm) if *part == KeyPart::Destination => true,
            _ => return Err(refuse(BindReason::NotExact(field.name.clone()))),
        };
        let width = u32::try_from(field.bitwidth).unwrap_or_default();
        if !part.widths().contains(&width) {
            return Err(refuse(BindReason::Width(field.name.clone(), width)));
        }
        let id = field.id;
        fields.push(BoundField {
            id,
            width,
            is_prefix,
        });
    }
    let names = table.match_fields.iter().map(|field| &field.name[..]);
    if let Some((key, part)) = KeyPart::exchanged(names.zip(spec.key.iter().copied())) {
        return Err(refuse(BindReason::Order(key.to_owned(), part)));
    }
    let is_listed = |id: u32| table.action_refs.iter().any(|action| action.id == id);
    let mut actions = info.actions.iter();
    let action = actions.find(|action| {
        let preamble = action.preamble.as_ref();
        name(preamble) == spec.action && preamble.is_some_and(|it| is_listed(it.id))
    });
    let action =
        action.ok_or_else(|| refuse(BindReason::NoAction(spec.action.clone(), Vec::new())))?;
    let param = match (&action.params[..], &spec.ports[..]) {
        ([], []) => None,
        ([_, ..], []) => return Err(refuse(BindReason::NoPorts(spec.action.clone()))),
        ([param], ports) => {
            let width = u32::try_from(param.bitwidth).unwrap_or_default();
            let is_too_large = |port: &&u32| width < 32 && **port >> width != 0;
            if let Some(port) = ports.iter().find(is_too_large) {
                return Err(refuse(BindReason::Port(*port)));
            }
            Some(param.id)
        }
        _ => return Err(refuse(BindReason::Parameters(spec.action.clone()))),
    };
    let names = table.match_fields.iter().map(|field| &field.name[..]);
    let pairs = KeyPart::pairs(names.zip(spec.key.iter().copied()));
    Ok(BoundTable {
        pairs: format!("{}: {pairs}", reflex.name),
        table_id: table.preamble.as_ref().map_or(0, |it| it.id),
        owner: format!("reflex {}", reflex.name).into_bytes(),
        fields,
        action_id: action.preamble.as_ref().map_or(0, |it| it.id),
        param,
    })
}

/// Returns the names of what exists, in words, if a table or an action does not.
pub(super) fn existing(reflex: &ReflexSpec, error: &BindError, info: &P4Info) -> String {
    let names: Vec<&str> = match &error.reason {
        BindReason::NoTable(..) => {
            let tables = info.tables.iter();
            tables.map(|it| name(it.preamble.as_ref())).collect()
        }
        BindReason::NoAction(..) => {
            let is_table = |table: &&Table| match &reflex.change {
                ChangeSpec::Entry(spec) => name(table.preamble.as_ref()) == spec.table,
                _ => false,
            };
            let table = info.tables.iter().find(is_table);
            let listed = table.map_or(&[][..], |table| &table.action_refs);
            let preambles = info.actions.iter().filter_map(|it| it.preamble.as_ref());
            let own = preambles.filter(|own| listed.iter().any(|action| action.id == own.id));
            own.map(|it| it.name.as_str()).collect()
        }
        _ => return String::new(),
    };
    format!("; there are {}", names.join(", "))
}

/// Returns a number in the canonical form of P4Runtime: without leading zeros, at least one byte.
fn canonical(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros.min(bytes.len().saturating_sub(1))..].to_vec()
}

impl BoundTable {
    /// Returns the entry of a write. `None` if it is no entry of the table.
    pub(super) fn entry(&self, write: &ElementWrite) -> Option<Entry> {
        let (WritePlace::Entry(key), Some(Setting::Action(argument))) =
            (&write.place, write.setting)
        else {
            return None;
        };
        let parts = key.parts();
        let mut pairs = parts.iter().zip(&self.fields);
        let fits = parts.len() == self.fields.len()
            && argument.is_some() == self.param.is_some()
            && pairs.all(|(part, field)| {
                let is_whole = part.prefix() == field.width;
                part.get().len() * 8 == field.width as usize && (field.is_prefix || is_whole)
            });
        // A prefix of no bits is left out (P4Runtime, section 9.1.1).
        let fields = parts.iter().zip(&self.fields);
        let fields = fields.filter(|(part, field)| !field.is_prefix || part.prefix() > 0);
        let fields = fields.map(|(part, field)| rt::FieldMatch {
            field_id: field.id,
            field_match_type: Some(field.matching(part)),
        });
        let params = self.param.zip(argument);
        let params = params.map(|(param_id, argument)| rt::action::Param {
            param_id,
            value: canonical(&argument.to_be_bytes()),
        });
        let action = rt::Action {
            action_id: self.action_id,
            params: params.into_iter().collect(),
        };
        let message = rt::TableEntry {
            table_id: self.table_id,
            r#match: fields.collect(),
            action: Some(rt::TableAction {
                r#type: Some(ActionType::Action(action)),
            }),
            metadata: self.owner.clone(),
            ..rt::TableEntry::default()
        };
        fits.then(|| Entry {
            message: plain(&message),
            reflex: Some(write.reflex.0),
        })
    }

    /// Returns the name in the store, and the entry, of a message that was read. `None` if it is
    /// not of the permission at this place of the file.
    pub(super) fn read(&self, place: usize, message: &rt::TableEntry) -> Option<(Key, Entry)> {
        if message.metadata != self.owner {
            return None;
        }
        let entry = Entry {
            message: plain(message),
            reflex: Some(place),
        };
        Some((self.name(place, message)?, entry))
    }

    /// Returns the name in the store that an entry with the key of a message would have if it were
    /// of the permission at this place of the file. `None` if the permission has no such key.
    pub(super) fn name(&self, place: usize, message: &rt::TableEntry) -> Option<Key> {
        if message.table_id != self.table_id || message.is_default_action {
            return None;
        }
        let mut parts = Vec::new();
        for field in &self.fields {
            let mut given = message.r#match.iter();
            let given = given.find(|given| given.field_id == field.id);
            parts.push(field.read(given)?);
        }
        let write = ElementWrite {
            reflex: ReflexIndex(place),
            place: WritePlace::Entry(EntryKey::of_parts(parts.into_iter())?),
            setting: None,
        };
        Some(write.name())
    }

    /// Returns the metadata of the permission's entries.
    pub(super) fn owner(&self) -> &[u8] {
        &self.owner
    }
}

impl BoundField {
    fn matching(&self, part: &KeyBytes) -> FieldMatchType {
        let value = canonical(part.get());
        match self.is_prefix {
            true => FieldMatchType::Lpm(Lpm {
                value,
                prefix_len: part.prefix() as i32,
            }),
            false => FieldMatchType::Exact(Exact { value }),
        }
    }

    /// Reads the value of a message. A prefix that is not there has no bits.
    fn read(&self, given: Option<&rt::FieldMatch>) -> Option<KeyBytes> {
        let length = self.width as usize / 8;
        let given = given.map(|given| given.field_match_type.as_ref());
        let (value, prefix) = match given {
            Some(Some(FieldMatchType::Exact(exact))) if !self.is_prefix => {
                (canonical(&exact.value), self.width)
            }
            Some(Some(FieldMatchType::Lpm(lpm))) if self.is_prefix => {
                let prefix = u32::try_from(lpm.prefix_len).ok()?;
                (canonical(&lpm.value), prefix)
            }
            None if self.is_prefix => (Vec::new(), 0),
            _ => return None,
        };
        let mut part = vec![0; length.checked_sub(value.len())?];
        part.extend(value);
        KeyBytes::prefix_of(&part, u8::try_from(prefix).ok()?)
    }
}

#[cfg(test)]
impl BoundTable {
    /// Creates table 7 with two keys, of 4 and 2 bytes, and an action 9 with this parameter, for a
    /// permission `detour`.
    pub(super) fn for_test(is_prefix: bool, param: Option<u32>) -> BoundTable {
        let field = |id, width, is_prefix| BoundField {
            id,
            width,
            is_prefix,
        };
        BoundTable {
            pairs: String::new(),
            table_id: 7,
            owner: b"reflex detour".to_vec(),
            fields: vec![field(1, 32, is_prefix), field(2, 16, false)],
            action_id: 9,
            param,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_leading_zeros() {
        assert_eq!(canonical(&[0, 0, 1, 0]), [1, 0]);
        assert_eq!(canonical(&[0, 0]), [0]);
        assert_eq!(canonical(&[]), [0u8; 0]);
    }

    #[test]
    fn entries_that_differ_in_form_alone_are_equal_and_have_one_name() {
        let field = |field_id, value: &[u8], mask: &[u8]| rt::FieldMatch {
            field_id,
            field_match_type: Some(FieldMatchType::Ternary(rt::field_match::Ternary {
                value: value.to_vec(),
                mask: mask.to_vec(),
            })),
        };
        let param = |param_id, value: &[u8]| rt::action::Param {
            param_id,
            value: value.to_vec(),
        };
        let entry = |fields: &[rt::FieldMatch], params: Vec<rt::action::Param>| {
            let action = rt::Action {
                action_id: 9,
                params,
            };
            rt::TableEntry {
                table_id: 7,
                r#match: fields.to_vec(),
                priority: 5,
                action: Some(rt::TableAction {
                    r#type: Some(ActionType::Action(action)),
                }),
                metadata: b"mine".to_vec(),
                idle_timeout_ns: 3,
                ..rt::TableEntry::default()
            }
        };
        let one = entry(
            &[field(1, &[2], &[0xff]), field(2, &[0], &[1])],
            vec![param(1, &[4]), param(2, &[0])],
        );
        let read = rt::TableEntry {
            counter_data: Some(rt::CounterData::default()),
            ..entry(
                &[field(2, &[0, 0], &[0, 1]), field(1, &[0, 2], &[0, 0xff])],
                vec![param(2, &[0, 0]), param(1, &[0, 4])],
            )
        };
        assert_eq!(plain(&one), one);
        assert_eq!(plain(&read), one);
        assert_eq!(controller_name(&one), controller_name(&plain(&read)));
        let other = rt::TableEntry {
            priority: 6,
            ..one.clone()
        };
        assert_ne!(controller_name(&one), controller_name(&other));
        let default = rt::TableEntry {
            is_default_action: true,
            ..rt::TableEntry::default()
        };
        let without_key = rt::TableEntry::default();
        assert_ne!(controller_name(&default), controller_name(&without_key));
    }

    #[test]
    fn an_entry_that_is_read_has_the_name_of_its_write() {
        for (is_prefix, param, argument) in [
            (false, Some(1), Some(4)),
            (true, Some(1), Some(4)),
            (false, None, None),
        ] {
            let table = BoundTable::for_test(is_prefix, param);
            let prefixes: &[u8] = if is_prefix { &[0, 8, 32] } else { &[32] };
            for prefix in prefixes {
                let parts = [
                    KeyBytes::prefix_of(&[10, 0, 0, 1], *prefix).unwrap(),
                    KeyBytes::prefix_of(&[0, 80], 16).unwrap(),
                ];
                let write = ElementWrite {
                    reflex: ReflexIndex(3),
                    place: WritePlace::Entry(EntryKey::of_parts(parts.into_iter()).unwrap()),
                    setting: Some(Setting::Action(argument)),
                };
                let entry = table.entry(&write).unwrap();
                let message = entry.message.clone();
                assert_eq!(table.read(3, &message), Some((write.name(), entry)));
                let other = rt::TableEntry {
                    metadata: b"operator".to_vec(),
                    ..message
                };
                assert_eq!(table.read(3, &other), None);
                assert_eq!(table.name(3, &other), Some(write.name()));
                assert_ne!(controller_name(&other), write.name());
                let short = EntryKey::of_parts(parts[..1].iter().copied()).unwrap();
                let wrong = ElementWrite {
                    place: WritePlace::Entry(short),
                    ..write
                };
                assert_eq!(table.entry(&wrong), None);
            }
        }
    }
}
