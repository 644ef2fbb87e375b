//! Reads (section "`Read` RPC"). Each request is checked against the schema and becomes a
//! [`Query`]. A job collects the data, at little cost to the device's loop. The data is converted
//! to messages outside the loop.

mod entry;
pub(crate) mod message;
mod objects;

use std::collections::HashMap;

use p4info::p4::v1::Entity;
use p4info::p4::v1::entity::Entity as Kind;
use switch::Device;

use crate::controller_state::ControllerState;
use crate::request_error::{Checked, invalid};
use crate::schema::{Schema, lookup};

pub(crate) use entry::{EntryQuery, idle_entry};
pub(crate) use objects::ObjectQuery;

/// Query of one request.
#[derive(Debug)]
pub(crate) enum Query {
    /// Table entries, or their direct resources.
    Entries(EntryQuery),
    /// All other objects.
    Objects(ObjectQuery),
}

/// Collected data that is not yet converted to messages.
pub(crate) enum Found {
    Entries(entry::FoundEntries),
    Objects(Vec<objects::FoundObject>),
}

/// Returns the query of one request.
///
/// # Errors
/// The request does not fit the program.
pub(crate) fn plan(schema: &Schema, role: &str, entity: &Entity) -> Checked<Query> {
    let Some(kind) = &entity.entity else {
        return invalid("the request has no entity; there is no wildcard over all kinds");
    };
    Ok(match kind {
        Kind::TableEntry(entry) => Query::Entries(EntryQuery::entries(schema, role, entry)?),
        Kind::DirectCounterEntry(entry) => {
            Query::Entries(EntryQuery::counters(schema, role, entry)?)
        }
        Kind::DirectMeterEntry(entry) => Query::Entries(EntryQuery::meters(schema, role, entry)?),
        other => Query::Objects(ObjectQuery::plan(schema, role, other)?),
    })
}

impl Query {
    /// Collects the next part of the data; `None` at the end.
    ///
    /// # Errors
    /// The request names a single object that does not exist, and the specification requires an
    /// error.
    pub(crate) fn collect(
        &mut self,
        schema: &Schema,
        device: &Device,
        extras: &ControllerState,
    ) -> Checked<Option<Found>> {
        match self {
            Query::Entries(query) => Ok(query.collect(schema, device, extras)?.map(Found::Entries)),
            Query::Objects(query) => Ok(query.collect(schema, device, extras)?.map(Found::Objects)),
        }
    }
}

impl Found {
    /// Converts the data to messages.
    pub(crate) fn entities(self, schema: &Schema) -> Vec<Entity> {
        let kinds: Vec<Kind> = match self {
            Found::Entries(found) => found.messages(schema),
            Found::Objects(found) => {
                let messages = found.into_iter().map(|one| one.message(schema));
                messages.flatten().collect()
            }
        };
        let entity = |kind| Entity { entity: Some(kind) };
        kinds.into_iter().map(entity).collect()
    }
}

/// Returns true if reads of a role include an object with this owner (`@p4runtime_role`).
fn is_told(owner: Option<&str>, role: &str) -> bool {
    owner.is_none() || role.is_empty() || owner == Some(role)
}

/// Returns the ids of the objects that a request means, in ascending order: one id, or with 0 all
/// objects that the role may read.
fn chosen<T>(
    all: &HashMap<u32, T>,
    what: &str,
    id: u32,
    is_told: impl Fn(&T) -> bool,
) -> Checked<Vec<u32>> {
    if id != 0 {
        let found = lookup(all, what, id)?;
        return Ok(if is_told(found) { vec![id] } else { Vec::new() });
    }
    let told = all.iter().filter(|(_, one)| is_told(one));
    let mut ids: Vec<u32> = told.map(|(id, _)| *id).collect();
    ids.sort_unstable();
    Ok(ids)
}
