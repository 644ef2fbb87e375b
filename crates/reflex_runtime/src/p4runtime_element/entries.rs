//! Entries of managed tables as P4Runtime has them.

use consensus::Key;
use p4info::P4Info;
use p4info::p4::config::v1::match_field::{Match, MatchType};
use p4info::p4::config::v1::{Preamble, Table};
use p4info::p4::v1 as rt;
use p4info::p4::v1::field_match::{Exact, FieldMatchType};
use p4info::p4::v1::table_action::Type as ActionType;
use reflex::{BindError, BindReason, EntryKey, ReflexIndex, ReflexSpec, TableWrite};

/// Table of a permission, by the numbers of a server's P4Info.
#[derive(Clone, Debug)]
pub(super) struct BoundTable {
    pub(super) table_id: u32,
    /// Metadata of its entries: the permission's name.
    owner: Vec<u8>,
    /// Numbers and widths in bits of the match fields.
    fields: Vec<(u32, u32)>,
    action_id: u32,
    /// Number and width in bits of the action's parameter.
    param: (u32, u32),
}

/// Entry that the switch has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) table_id: u32,
    pub(super) fields: Vec<rt::FieldMatch>,
    pub(super) port: u32,
}

impl Entry {
    /// Returns the message that names the entry.
    pub(super) fn key(&self) -> rt::TableEntry {
        rt::TableEntry {
            table_id: self.table_id,
            r#match: self.fields.clone(),
            ..rt::TableEntry::default()
        }
    }
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
    let mut tables = info.tables.iter();
    let found = tables.find(|table| name(table.preamble.as_ref()) == reflex.table);
    let table: &Table = found.ok_or_else(|| refuse(BindReason::NoTable(reflex.table.clone())))?;
    if table.is_const_table {
        return Err(refuse(BindReason::Const(reflex.table.clone())));
    }
    let is_exact = |kind: &Option<Match>| matches!(kind, Some(Match::MatchType(kind)) if *kind == MatchType::Exact as i32);
    if let Some(field) = table
        .match_fields
        .iter()
        .find(|field| !is_exact(&field.r#match))
    {
        return Err(refuse(BindReason::NotExact(field.name.clone())));
    }
    if table.match_fields.len() != reflex.key.len() {
        let keys = BindReason::Keys(reflex.table.clone(), table.match_fields.len());
        return Err(refuse(keys));
    }
    let mut fields = Vec::new();
    for (field, part) in table.match_fields.iter().zip(&reflex.key) {
        let width = u32::try_from(field.bitwidth).unwrap_or_default();
        if !part.widths().contains(&width) {
            return Err(refuse(BindReason::Width(field.name.clone(), width)));
        }
        fields.push((field.id, width));
    }
    let is_listed = |id: u32| table.action_refs.iter().any(|action| action.id == id);
    let mut actions = info.actions.iter();
    let action = actions.find(|action| {
        let preamble = action.preamble.as_ref();
        name(preamble) == reflex.action && preamble.is_some_and(|it| is_listed(it.id))
    });
    let action = action.ok_or_else(|| refuse(BindReason::NoAction(reflex.action.clone())))?;
    let [param] = &action.params[..] else {
        return Err(refuse(BindReason::Parameters(reflex.action.clone())));
    };
    let width = u32::try_from(param.bitwidth).unwrap_or_default();
    let is_too_large = |port: &&u32| width < 32 && **port >> width != 0;
    if let Some(port) = reflex.ports.iter().find(is_too_large) {
        return Err(refuse(BindReason::Port(*port)));
    }
    Ok(BoundTable {
        table_id: table.preamble.as_ref().map_or(0, |it| it.id),
        owner: format!("reflex {}", reflex.name).into_bytes(),
        fields,
        action_id: action.preamble.as_ref().map_or(0, |it| it.id),
        param: (param.id, width),
    })
}

/// Returns a number in the canonical form of P4Runtime: without leading zeros, at least one byte.
fn canonical(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros.min(bytes.len().saturating_sub(1))..].to_vec()
}

impl BoundTable {
    /// Returns the entry of a write. `None` if its key has not the table's widths.
    pub(super) fn entry(&self, write: &TableWrite) -> Option<Entry> {
        let parts = write.key.parts();
        let mut widths = parts.iter().zip(&self.fields);
        let fits = parts.len() == self.fields.len()
            && widths.all(|(part, (_, width))| part.get().len() * 8 == *width as usize);
        let fields = parts.iter().zip(&self.fields);
        let fields = fields.map(|(part, (id, _))| rt::FieldMatch {
            field_id: *id,
            field_match_type: Some(FieldMatchType::Exact(Exact {
                value: canonical(part.get()),
            })),
        });
        fits.then(|| Entry {
            table_id: self.table_id,
            fields: fields.collect(),
            port: write.port,
        })
    }

    /// Returns the message of an entry, with the permission's name.
    pub(super) fn message(&self, entry: &Entry) -> rt::TableEntry {
        let action = rt::Action {
            action_id: self.action_id,
            params: vec![rt::action::Param {
                param_id: self.param.0,
                value: canonical(&entry.port.to_be_bytes()),
            }],
        };
        rt::TableEntry {
            table_id: entry.table_id,
            r#match: entry.fields.clone(),
            action: Some(rt::TableAction {
                r#type: Some(ActionType::Action(action)),
            }),
            metadata: self.owner.clone(),
            ..rt::TableEntry::default()
        }
    }

    /// Returns the name in the store, and the entry, of a message that was read. `None` if it is
    /// not of the permission at this place of the file.
    pub(super) fn read(&self, place: usize, message: &rt::TableEntry) -> Option<(Key, Entry)> {
        if message.table_id != self.table_id || message.metadata != self.owner {
            return None;
        }
        let mut parts = Vec::new();
        for (id, width) in &self.fields {
            let field = message.r#match.iter().find(|field| field.field_id == *id)?;
            let Some(FieldMatchType::Exact(exact)) = &field.field_match_type else {
                return None;
            };
            let length = *width as usize / 8;
            let value = canonical(&exact.value);
            let mut part = vec![0; length.checked_sub(value.len())?];
            part.extend(value);
            parts.push(part);
        }
        let Some(ActionType::Action(action)) = message.action.as_ref()?.r#type.as_ref() else {
            return None;
        };
        // Another action than the permission's is another port than all of them.
        let param = action.params.iter().find(|it| it.param_id == self.param.0);
        let param = param.filter(|_| action.action_id == self.action_id);
        let port = param.map_or(u32::MAX, |param| {
            let number = param.value.iter();
            number.fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte))
        });
        let write = TableWrite {
            reflex: ReflexIndex(place),
            key: EntryKey::of_parts(parts.iter().map(|part| &part[..]))?,
            port,
        };
        Some((write.name(), self.entry(&write)?))
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
    fn an_entry_that_is_read_has_the_name_of_its_write() {
        let table = BoundTable {
            table_id: 7,
            owner: b"reflex detour".to_vec(),
            fields: vec![(1, 32), (2, 16)],
            action_id: 9,
            param: (1, 9),
        };
        let parts: [&[u8]; 2] = [&[10, 0, 0, 1], &[0, 80]];
        let write = TableWrite {
            reflex: ReflexIndex(3),
            key: EntryKey::of_parts(parts.into_iter()).unwrap(),
            port: 4,
        };
        let entry = table.entry(&write).unwrap();
        let message = table.message(&entry);
        assert_eq!(table.read(3, &message), Some((write.name(), entry)));
        let other = rt::TableEntry {
            metadata: b"operator".to_vec(),
            ..message
        };
        assert_eq!(table.read(3, &other), None);
        let short = EntryKey::of_parts(parts[..1].iter().copied()).unwrap();
        let wrong = TableWrite {
            key: short,
            ..write
        };
        assert_eq!(table.entry(&wrong), None);
    }
}
