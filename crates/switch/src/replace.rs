//! What stays when another program is loaded: state of the same name and shape.

use exec::{Configuration, ExternState};
use ir::{ActionId, ExternId, ExternKind, TableId};
use packet::Nanos;
use table::{ActionRef, EntryAction, NewEntry};

/// Takes over what has the same name and shape.
pub(crate) fn keep(old: &Configuration, new: &mut Configuration, now: Nanos) {
    new.hash = old.hash.clone();
    new.expire_profiles = old.expire_profiles.clone();
    let program = new.program().clone();
    for (id, instance) in program.externs.iter() {
        let same = old.program().externs.iter().find(|(_, other)| {
            other.name == instance.name && same_shape(&other.kind, &instance.kind)
        });
        if let Some((old_id, _)) = same {
            keep_extern(old, old_id, new, id);
        }
    }
    for (id, table) in program.tables.iter() {
        let same = old
            .program()
            .tables
            .iter()
            .find(|(_, other)| other.name == table.name);
        if let Some((old_id, _)) = same {
            keep_entries(old, old_id, new, id, now);
        }
    }
}

/// Whether two instances hold the same kind of state. Names of types do not matter, and neither do first values.
fn same_shape(a: &ExternKind, b: &ExternKind) -> bool {
    match (a, b) {
        (
            ExternKind::Register {
                cell: a, size: n, ..
            },
            ExternKind::Register {
                cell: b, size: m, ..
            },
        ) => a == b && n == m,
        (
            ExternKind::Counter {
                unit: a, size: n, ..
            },
            ExternKind::Counter {
                unit: b, size: m, ..
            },
        )
        | (
            ExternKind::Meter {
                unit: a, size: n, ..
            },
            ExternKind::Meter {
                unit: b, size: m, ..
            },
        ) => a == b && n == m,
        (ExternKind::ActionProfile { .. }, ExternKind::ActionProfile { .. })
        | (ExternKind::ActionSelector { .. }, ExternKind::ActionSelector { .. }) => true,
        _ => false,
    }
}

fn keep_extern(old: &Configuration, old_id: ExternId, new: &mut Configuration, id: ExternId) {
    if let Some(Some(profile)) = old.profiles.get(old_id) {
        let members: Vec<_> = profile
            .members()
            .filter_map(|(member, action)| Some((member, translated(old, action, new)?)))
            .collect();
        if let Some(Some(kept)) = new.profiles.get_mut(id) {
            // A smaller profile keeps what fits, a group what has all its members.
            for (member, action) in members {
                let _ = kept.insert_member(member, action);
            }
            for (group, members) in profile.groups() {
                let _ = kept.insert_group(group, members.to_vec());
            }
        }
    } else if let Some(cells) = old.cells.get(old_id)
        && !matches!(cells, ExternState::None)
    {
        new.cells[id] = cells.clone();
    }
}

/// The same action in the new program: same name for the control plane, same parameters.
fn translated(old: &Configuration, action: &ActionRef, new: &Configuration) -> Option<ActionRef> {
    let before = old.program().actions.get(ActionId::new(action.action))?;
    let (id, _) = new.program().actions.iter().find(|(_, after)| {
        after.control_plane_name == before.control_plane_name
            && after.params.len() == before.params.len()
            && after
                .params
                .iter()
                .zip(&before.params)
                .all(|(a, b)| a.name == b.name && a.ty.width() == b.ty.width())
    })?;
    Some(ActionRef {
        action: id.get(),
        params: action.params.clone(),
    })
}

/// Entries of the control plane that the new table can hold. Counts of entries begin anew, but for direct counters and meters.
fn keep_entries(
    old: &Configuration,
    old_id: TableId,
    new: &mut Configuration,
    id: TableId,
    now: Nanos,
) {
    let (before, after) = (&old.tables[old_id], &new.tables[id]);
    if before.spec().shape != after.spec().shape {
        return;
    }
    let program = new.program().clone();
    let listed = |action: &ActionRef| {
        let table = program.tables.get(id);
        table.is_some_and(|table| {
            let action = ActionId::new(action.action);
            table.actions.iter().any(|listed| listed.action == action)
        })
    };
    let same_keys = {
        let names = |configuration: &Configuration, id: TableId| -> Vec<String> {
            let table = configuration.program().tables.get(id);
            let keys = table.map_or(&[][..], |table| &table.keys);
            keys.iter().map(|key| key.name.clone()).collect()
        };
        names(old, old_id) == names(new, id)
    };
    if !same_keys {
        return;
    }
    let mut kept = Vec::new();
    for entry in before.iter().filter(|entry| !entry.is_const) {
        let action = match &entry.action {
            EntryAction::Direct(action) => translated(old, action, new)
                .filter(&listed)
                .map(EntryAction::Direct),
            other => Some(other.clone()),
        };
        if let Some(action) = action {
            kept.push((entry.clone(), action));
        }
    }
    if let EntryAction::Direct(default) = before.default_action()
        && let Some(declared) = program.tables.get(id)
        && !declared.default_is_const
        && let Some(default) = translated(old, default, new).filter(&listed)
        && was_set(old, old_id)
    {
        new.tables[id].set_default(EntryAction::Direct(default));
    }
    for (entry, action) in kept {
        let copy = NewEntry {
            priority: entry.priority,
            idle_timeout_ns: entry.idle_timeout_ns,
            owner: entry.owner,
            metadata: entry.metadata.clone(),
            ..NewEntry::new(entry.matches.to_vec(), action)
        };
        // The program's own entries come first; a smaller table keeps what fits.
        let Ok(inserted) = new.tables[id].insert(copy, now.0) else {
            continue;
        };
        if let Some(inserted) = new.tables[id].get(inserted) {
            if let (Some(from), Some(to)) = (&entry.cells.counter, &inserted.cells.counter) {
                to.write(from.read());
            }
            if let (Some(from), Some(to)) = (&entry.cells.meter, &inserted.cells.meter)
                && let Some(config) = from.config()
            {
                let _ = to.configure(config);
            }
        }
    }
    if let (Some(Some(before)), Some(Some(_))) = (old.learned.get(old_id), new.learned.get(id))
        && same_actions(old, old_id, new, id)
    {
        new.learned[id] = Some(before.clone());
    }
}

/// Whether the control plane had set the default action.
fn was_set(configuration: &Configuration, id: TableId) -> bool {
    let program = configuration.program();
    let own = program.tables.get(id).and_then(|table| {
        let listed = table.actions.get(table.default.action)?;
        let action = program.actions.get(listed.action)?;
        Some(EntryAction::Direct(ActionRef {
            action: listed.action.get(),
            params: exec::action_params(action, &table.default.args)?,
        }))
    });
    own.as_ref() != Some(configuration.tables[id].default_action())
}

/// Whether two tables list the same action ids: what learned entries refer to.
fn same_actions(old: &Configuration, old_id: TableId, new: &Configuration, id: TableId) -> bool {
    let actions = |configuration: &Configuration, id: TableId| -> Vec<(ActionId, String)> {
        let program = configuration.program();
        let table = program.tables.get(id);
        let listed = table.map_or(&[][..], |table| &table.actions);
        let name = |action: ActionId| {
            let action = program.actions.get(action);
            action.map_or_else(String::new, |action| action.control_plane_name.clone())
        };
        listed
            .iter()
            .map(|listed| (listed.action, name(listed.action)))
            .collect()
    };
    actions(old, old_id) == actions(new, id)
}
