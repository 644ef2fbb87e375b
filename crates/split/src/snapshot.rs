//! The state of a device as changes of a device without entries.

use exec::HashParameters;
use ir::TableId;
use switch::{CELLS, Change, Device, EntryId, Object, ObjectPlace};

/// Returns the state of a device, without cells and without entries of handlers: for tables, those
/// that `has` holds for. Entries come with their ids. Members precede groups, and groups entries.
pub(crate) fn changes(
    device: &Device,
    has: impl Fn(TableId) -> bool,
) -> Vec<(Change, Option<EntryId>)> {
    let mut objects = Vec::new();
    let mut entries = Vec::new();
    for (place, object) in device.objects_with(&has) {
        match (place, object) {
            (ObjectPlace::Entry(table, id), Object::Entry(entry, _)) if has(table) => {
                let is_const = device.configuration().tables[table]
                    .get(id)
                    .is_some_and(|entry| entry.is_const);
                if !is_const {
                    entries.push((Change::Insert(table, entry), Some(id)));
                }
            }
            (ObjectPlace::Default(table), Object::Default(call, meter)) if has(table) => {
                entries.extend(call.map(|call| (Change::SetDefault(table, call), None)));
                let meter = meter.map(|meter| Change::SetDirectMeter(table, None, Some(meter)));
                entries.extend(meter.map(|change| (change, None)));
            }
            (place, object) => objects.extend(object_changes(place, object)),
        }
    }
    // Members of profiles come first.
    objects.sort_by_key(|change| !matches!(change, Change::SetMember { .. }));
    let objects = objects.into_iter().map(|change| (change, None));
    objects.chain(entries).collect()
}

/// Returns the changes that set another object than an entry.
fn object_changes(place: ObjectPlace, object: Object) -> Vec<Change> {
    let one = match (place, object) {
        // Every plane has the default parameters. Host ports and expire profiles are of PNA.
        (ObjectPlace::Hash, Object::Hash(parameters))
            if parameters != HashParameters::default() =>
        {
            Change::SetHashParameters(parameters)
        }
        (ObjectPlace::Queue(port), Object::Queue(config)) => Change::SetQueue(port, config),
        (ObjectPlace::ValueSet(id), Object::ValueSet(members)) => Change::SetValueSet(id, members),
        (ObjectPlace::Member(profile, id), Object::Member(action, args)) => Change::SetMember {
            profile,
            id,
            action,
            args,
        },
        (ObjectPlace::Group(profile, id), Object::Group(members)) => Change::SetGroup {
            profile,
            id,
            members,
        },
        (ObjectPlace::Multicast(id), Object::Replicas(replicas)) => {
            Change::SetMulticast(id, replicas)
        }
        (ObjectPlace::CloneSession(id), Object::CloneSession(session)) => {
            Change::SetCloneSession(id, session)
        }
        (ObjectPlace::Meters(id, chunk), Object::Meters(configs)) => {
            let cells = (chunk.saturating_mul(CELLS)..).zip(configs);
            return cells
                .filter_map(|(index, config)| Some(Change::SetMeter(id, Some(index), config?)))
                .collect();
        }
        _ => return Vec::new(),
    };
    vec![one]
}
