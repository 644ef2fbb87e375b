//! Messages between planes and coordinator, and their conversion from and to changes.

use std::hash::{DefaultHasher, Hash, Hasher};

use ir::{Program, TableId};
use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::handler_change::Kind;
use p4rt::Any;
use prost::Message;
use split::FlightReport;
use switch::{Change, EntryId, LearnedEntry};
use table::ActionRef;

/// Type of messages to planes.
pub const TO_PLANE: &str = "type.googleapis.com/polyplane.split.v1.ToPlane";

/// Type of messages from planes.
pub const FROM_PLANE: &str = "type.googleapis.com/polyplane.split.v1.FromPlane";

/// Maximum number of items in one message. More items become several messages.
pub(crate) const MAX_ITEMS: usize = 1024;

/// Packs a message to a plane.
pub(crate) fn to_plane(message: &wire::ToPlane) -> Any {
    Any {
        type_url: TO_PLANE.to_owned(),
        value: message.encode_to_vec(),
    }
}

/// Packs a message from a plane.
pub(crate) fn from_plane(message: &wire::FromPlane) -> Any {
    Any {
        type_url: FROM_PLANE.to_owned(),
        value: message.encode_to_vec(),
    }
}

/// Reads a message to a plane.
///
/// # Errors
/// It has another type, or is malformed.
pub(crate) fn read_to_plane(message: &Any) -> Result<wire::ToPlane, String> {
    match message.type_url == TO_PLANE {
        true => wire::ToPlane::decode(&message.value[..]).map_err(|error| error.to_string()),
        false => Err(format!("a message of the type `{}`", message.type_url)),
    }
}

/// Reads a message from a plane; `None` if it is of another type or malformed.
pub(crate) fn read_from_plane(message: &Any) -> Option<wire::FromPlane> {
    match message.type_url == FROM_PLANE {
        true => wire::FromPlane::decode(&message.value[..]).ok(),
        false => None,
    }
}

/// Returns a hash of a half. Processes of the same build with the same program and options have
/// the same, also if their C code differs.
pub(crate) fn program_hash(half: &Program) -> u64 {
    let mut hasher = DefaultHasher::new();
    half.text_without_positions().hash(&mut hasher);
    hasher.finish()
}

/// Returns the message of a handler's change at time `now`; `None` for other changes.
pub(crate) fn handler_change(change: &Change, now: u64) -> Option<wire::HandlerChange> {
    let entry = |kind: Kind, table: &TableId, entry: &LearnedEntry| wire::HandlerChange {
        kind: kind.into(),
        table: table.get(),
        entry: entry.id.0,
        key: entry.key.to_vec(),
        action: entry.action.action,
        params: entry.action.params.to_vec(),
        idle_timeout_ns: entry.idle_timeout_ns,
        age_ns: now.saturating_sub(entry.timer_start_ns),
    };
    match change {
        Change::Learn(table, learned) => Some(entry(Kind::Added, table, learned)),
        Change::Relearn(table, learned) => Some(entry(Kind::Replaced, table, learned)),
        Change::Expire(table, learned) => Some(entry(Kind::Expired, table, learned)),
        Change::Forget(table, id, key) => Some(wire::HandlerChange {
            kind: Kind::Removed.into(),
            table: table.get(),
            entry: id.0,
            key: key.to_vec(),
            ..wire::HandlerChange::default()
        }),
        _ => None,
    }
}

/// Returns a key that the switch reports; `None` if it is none of the cut. `key_bytes` has the
/// length of a cut's keys.
pub(crate) fn flight_report(
    report: wire::FlightReport,
    key_bytes: impl Fn(u16) -> usize,
) -> Option<FlightReport> {
    let cut = u16::try_from(report.cut).ok()?;
    (report.key.len() == key_bytes(cut)).then_some(FlightReport {
        cut,
        key: report.key,
        packets: report.packets,
    })
}

/// Returns the change of a message at time `now`. The device checks that it fits.
pub(crate) fn learned_change(message: wire::HandlerChange, now: u64) -> Change {
    let kind = message.kind();
    let table = TableId::new(message.table);
    if kind == Kind::Removed {
        return Change::Forget(table, EntryId(message.entry), message.key.into());
    }
    let entry = LearnedEntry {
        id: EntryId(message.entry),
        key: message.key.into(),
        action: ActionRef {
            action: message.action,
            params: message.params.into(),
        },
        idle_timeout_ns: message.idle_timeout_ns,
        timer_start_ns: now.saturating_sub(message.age_ns),
        usage: Default::default(),
    };
    match kind {
        Kind::Added => Change::Learn(table, entry),
        Kind::Replaced => Change::Relearn(table, entry),
        Kind::Expired | Kind::Removed => Change::Expire(table, entry),
    }
}
