//! State of a device, read from its server.

use std::collections::BTreeSet;

use controller::{Catalog, DecodeError, Read};
use entries::Object;
use ir::{ExternId, TableId};
use p4info::p4::config::v1::Preamble;
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4rt::client::ClientError;

use super::link::Link;
use crate::out;

/// A part of a device's state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The entries of a table, with their direct meters, and their direct counters if `counts`.
    Entries { table: TableId, counts: bool },
    /// The default action of a table.
    Default(TableId),
    /// Members of a profile or selector.
    Members(ExternId),
    /// Groups of a selector.
    Groups(ExternId),
    /// Multicast groups.
    Multicast,
    /// Clone sessions.
    Clones,
    /// Cells of an array: a register, a meter or a counter; one or all.
    Cells(ExternId, Option<u32>),
    /// Members of a value set.
    ValueSet(ir::ValueSetId),
}

impl Part {
    pub(crate) fn request(self, catalog: &Catalog) -> Entity {
        match self {
            Part::Entries { table, counts } => entries(catalog, table, counts),
            Part::Default(table) => Entity::TableEntry(rt::TableEntry {
                table_id: catalog.table_id(table),
                is_default_action: true,
                ..rt::TableEntry::default()
            }),
            Part::Members(profile) => Entity::ActionProfileMember(rt::ActionProfileMember {
                action_profile_id: catalog.extern_id(profile),
                ..rt::ActionProfileMember::default()
            }),
            Part::Groups(profile) => Entity::ActionProfileGroup(rt::ActionProfileGroup {
                action_profile_id: catalog.extern_id(profile),
                ..rt::ActionProfileGroup::default()
            }),
            Part::Multicast => replication(Replication::MulticastGroupEntry(Default::default())),
            Part::Clones => replication(Replication::CloneSessionEntry(Default::default())),
            Part::Cells(array, index) => cells(catalog, array, index),
            Part::ValueSet(set) => Entity::ValueSetEntry(rt::ValueSetEntry {
                value_set_id: catalog.value_set_id(set),
                members: Vec::new(),
            }),
        }
    }

    /// Returns the name of the part for messages.
    fn told(self, catalog: &Catalog) -> String {
        let schema = &catalog.schema;
        match self {
            Part::Entries { table, .. } => {
                format!("the entries of `{}`", schema.tables[table].name)
            }
            Part::Default(table) => {
                format!("the default action of `{}`", schema.tables[table].name)
            }
            Part::Members(one) => format!("the members of `{}`", schema.externs[one].name),
            Part::Groups(one) => format!("the groups of `{}`", schema.externs[one].name),
            Part::Multicast => "multicast groups".to_owned(),
            Part::Clones => "clone sessions".to_owned(),
            Part::Cells(one, _) => format!("`{}`", schema.externs[one].name),
            Part::ValueSet(set) => format!("`{}`", schema.value_sets[set].name),
        }
    }
}

fn entries(catalog: &Catalog, table: TableId, counts: bool) -> Entity {
    let id = catalog.table_id(table);
    let info = &catalog.info;
    let has_counter = info
        .direct_counters
        .iter()
        .any(|one| one.direct_table_id == id);
    let has_meter = info
        .direct_meters
        .iter()
        .any(|one| one.direct_table_id == id);
    Entity::TableEntry(rt::TableEntry {
        table_id: id,
        counter_data: (has_counter && counts).then(Default::default),
        meter_config: has_meter.then(Default::default),
        ..rt::TableEntry::default()
    })
}

fn replication(kind: Replication) -> Entity {
    Entity::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: Some(kind) })
}

fn cells(catalog: &Catalog, array: ExternId, index: Option<u32>) -> Entity {
    let id = catalog.extern_id(array);
    let index = index.map(|index| rt::Index {
        index: index.into(),
    });
    match catalog.schema.externs[array].kind {
        Object::Meter { .. } => Entity::MeterEntry(rt::MeterEntry {
            meter_id: id,
            index,
            ..rt::MeterEntry::default()
        }),
        Object::Counter { .. } => Entity::CounterEntry(rt::CounterEntry {
            counter_id: id,
            index,
            data: None,
        }),
        _ => Entity::RegisterEntry(rt::RegisterEntry {
            register_id: id,
            index,
            data: None,
        }),
    }
}

/// Returns the table that has a direct resource of this name. `resources` lists the names with
/// the P4Runtime ids of their tables.
pub(crate) fn table_with<'a>(
    catalog: &Catalog,
    mut resources: impl Iterator<Item = (Option<&'a Preamble>, u32)>,
    name: &str,
) -> Option<TableId> {
    let suffix = format!(".{name}");
    let has_name = |own: &str| own == name || own.ends_with(&suffix);
    let (_, table) = resources.find(|(own, _)| own.is_some_and(|own| has_name(&own.name)))?;
    let mut tables = catalog.schema.tables.ids();
    tables.find(|own| catalog.table_id(*own) == table)
}

/// Returns the extern instances of a kind: the one of this name, or all.
pub(crate) fn externs(
    catalog: &Catalog,
    what: &str,
    name: Option<&str>,
    fits: impl Fn(&Object) -> bool,
) -> Result<Vec<ExternId>, String> {
    match name {
        Some(name) => Ok(vec![catalog.schema.find_extern(what, name, fits)?]),
        None => {
            let all = catalog.schema.externs.iter();
            Ok(all
                .filter(|(_, one)| fits(&one.kind))
                .map(|(id, _)| id)
                .collect())
        }
    }
}

/// Names of state that entries files cannot express. Collected for one warning at the end.
#[derive(Default)]
pub(crate) struct Unsaid(BTreeSet<&'static str>);

impl Unsaid {
    pub(crate) fn note(&self) {
        if !self.0.is_empty() {
            let all: Vec<&str> = self.0.iter().copied().collect();
            out::note(&format!(
                "warning: not shown, for entries files have no words for it: {}",
                all.join(", ")
            ));
        }
    }
}

impl Link {
    /// Reads a part and calls `each` for each of its elements. If the server does not support the
    /// part, prints a warning and calls nothing.
    ///
    /// # Errors
    /// An error of the server, or an inconsistent answer.
    pub(crate) fn read(
        &mut self,
        catalog: &Catalog,
        part: Part,
        unsaid: &mut Unsaid,
        mut each: impl FnMut(Read),
    ) -> Result<(), String> {
        let mut wrong = None;
        let read = self.client.read(vec![part.request(catalog)], |entity| {
            match catalog.read(&entity) {
                Ok(read) => {
                    unsaid.0.extend(&read.unsaid);
                    each(read);
                }
                Err(DecodeError::Nothing) => {}
                Err(DecodeError::NoWords(what)) => {
                    unsaid.0.insert(what);
                }
                Err(error) => {
                    wrong.get_or_insert(error);
                }
            }
        });
        match read {
            Err(ClientError::Refused(refused)) if refused.is_missing() => {
                let what = part.told(catalog);
                out::note(&format!(
                    "warning: the server does not tell {what}: {}",
                    refused.message
                ));
            }
            Err(error) => return Err(self.explain(&error)),
            Ok(()) => {}
        }
        wrong.map_or(Ok(()), |error| Err(error.to_string()))
    }

    /// Reads several parts into a list.
    ///
    /// # Errors
    /// As [`Link::read`].
    pub(crate) fn collect(
        &mut self,
        catalog: &Catalog,
        parts: impl IntoIterator<Item = Part>,
        unsaid: &mut Unsaid,
    ) -> Result<Vec<Read>, String> {
        let mut all = Vec::new();
        for part in parts {
            self.read(catalog, part, unsaid, |read| all.push(read))?;
        }
        Ok(all)
    }
}
