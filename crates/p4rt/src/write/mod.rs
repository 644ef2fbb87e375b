//! Updates (section "`Write` RPC"). Each is checked against the schema, outside the device's loop,
//! and becomes an [`Op`]. A job applies it.

mod cells;
mod digest;
mod direct;
mod entry;
mod field;
mod profile;
mod replication;
mod value_set;

use std::sync::Arc;

use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::{Index, Update};
use tonic::Code;

use crate::request_error::{Checked, invalid, refuse};
use crate::schema::Schema;
use crate::undo::Op;

pub(crate) use entry::{check_has, entry_key};
pub(crate) use profile::{live_members, settle};
pub(crate) use replication::live_replicas;

/// Converts an update of a controller with this role.
///
/// # Errors
/// The update does not fit the program, or the role may not make it.
pub(crate) fn convert(schema: &Arc<Schema>, role: &str, update: &Update) -> Checked<Op> {
    let Some(kind) = update
        .entity
        .as_ref()
        .and_then(|entity| entity.entity.as_ref())
    else {
        return invalid("the update has no entity");
    };
    let ty = match update.r#type() {
        Type::Unspecified => {
            return invalid("the update's type is not set: INSERT, MODIFY or DELETE");
        }
        ty => ty,
    };
    match kind {
        Kind::TableEntry(entry) => entry::convert(schema, role, ty, entry),
        Kind::DirectCounterEntry(entry) => entry::direct_counter(schema, role, ty, entry),
        Kind::DirectMeterEntry(entry) => entry::direct_meter(schema, role, ty, entry),
        Kind::ActionProfileMember(member) => profile::member(schema, role, ty, member),
        Kind::ActionProfileGroup(group) => profile::group(schema, role, ty, group),
        Kind::CounterEntry(entry) => cells::counter(schema, role, ty, entry),
        Kind::MeterEntry(entry) => cells::meter(schema, role, ty, entry),
        Kind::RegisterEntry(entry) => cells::register(schema, role, ty, entry),
        Kind::PacketReplicationEngineEntry(entry) => replication::convert(schema, ty, entry),
        Kind::ValueSetEntry(entry) => value_set::convert(schema, role, ty, entry),
        Kind::DigestEntry(entry) => digest::convert(schema, role, ty, entry),
        Kind::ExternEntry(entry) => refuse(
            Code::Unimplemented,
            format!(
                "there is no extern type {:#x}: all externs of the program have entities of their own",
                entry.extern_type_id
            ),
        ),
    }
}

/// Visibility of an update to packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Visible when the device publishes.
    WhenPublished,
    /// Visible immediately. It writes cells of an array, on which no other update depends.
    AtOnce,
    /// Visible immediately. It writes cells of an entry, which may exist already.
    AtOnceOfEntry,
}

/// Returns the visibility of an update.
pub(crate) fn seen(update: &Update) -> Seen {
    let entity = update
        .entity
        .as_ref()
        .and_then(|entity| entity.entity.as_ref());
    match entity {
        Some(Kind::TableEntry(entry)) => {
            let has_cells = entry.meter_config.is_some()
                || entry.meter_counter_data.is_some()
                || entry.counter_data.is_some();
            match update.r#type() == Type::Modify && has_cells {
                true => Seen::AtOnceOfEntry,
                false => Seen::WhenPublished,
            }
        }
        Some(Kind::CounterEntry(_) | Kind::MeterEntry(_) | Kind::RegisterEntry(_)) => Seen::AtOnce,
        Some(Kind::DirectCounterEntry(_) | Kind::DirectMeterEntry(_)) => Seen::AtOnceOfEntry,
        _ => Seen::WhenPublished,
    }
}

/// Maximum number of cells that one batch may change at a barrier, while the packets of all workers
/// wait.
const MAX_AT_ONCE: usize = 4096;

/// Checks that the immediately visible updates are few enough to be made at a barrier.
pub(crate) fn check_at_once(schema: &Schema, updates: &[Update]) -> Checked {
    let cells: usize = updates
        .iter()
        .map(|update| cells_at_once(schema, update))
        .sum();
    match cells <= MAX_AT_ONCE {
        true => Ok(()),
        false => refuse(
            Code::ResourceExhausted,
            format!(
                "a DATAPLANE_ATOMIC batch may write {MAX_AT_ONCE} cells of counters, meters and registers, and this one writes {cells}: packets would wait for it"
            ),
        ),
    }
}

/// Returns the number of cells that an update writes immediately. Without an index these are all
/// cells of the array.
fn cells_at_once(schema: &Schema, update: &Update) -> usize {
    if seen(update) == Seen::WhenPublished {
        return 0;
    }
    let entity = update
        .entity
        .as_ref()
        .and_then(|entity| entity.entity.as_ref());
    let (id, has_index) = match entity {
        Some(Kind::CounterEntry(entry)) => (entry.counter_id, entry.index.is_some()),
        Some(Kind::MeterEntry(entry)) => (entry.meter_id, entry.index.is_some()),
        Some(Kind::RegisterEntry(entry)) => (entry.register_id, entry.index.is_some()),
        _ => return 1,
    };
    match has_index {
        true => 1,
        false => schema.cell_count(id),
    }
}

/// Checks that a role may write an object with this owner (`@p4runtime_role`).
pub(crate) fn check_role(what: &str, name: &str, owner: Option<&str>, role: &str) -> Checked {
    match owner {
        Some(owner) if !role.is_empty() && owner != role => refuse(
            Code::PermissionDenied,
            format!(
                "the {what} `{name}` belongs to the role `{owner}`, not to {}",
                crate::managed::role_name(role)
            ),
        ),
        _ => Ok(()),
    }
}

/// Checks that the update is a modification.
fn check_modify(what: &str, name: &str, ty: Type) -> Checked {
    match ty {
        Type::Modify => Ok(()),
        _ => invalid(format!(
            "the {what} `{name}` can only be modified, not {}",
            verb(ty)
        )),
    }
}

fn verb(ty: Type) -> &'static str {
    match ty {
        Type::Insert => "inserted",
        Type::Modify => "modified",
        Type::Delete => "deleted",
        Type::Unspecified => "changed",
    }
}

/// Converts an index. `None` means all cells of the array.
pub(crate) fn index(place: &str, index: Option<&Index>, size: u32) -> Checked<Option<u32>> {
    let Some(Index { index }) = index else {
        return Ok(None);
    };
    match u32::try_from(*index) {
        _ if *index < 0 => invalid(format!("{place}: the index {index} is negative")),
        Ok(index) if index < size => Ok(Some(index)),
        _ => refuse(
            Code::OutOfRange,
            format!(
                "{place}: the index {index} is outside: {}",
                support::count::there_are(u64::from(size), "cell")
            ),
        ),
    }
}
