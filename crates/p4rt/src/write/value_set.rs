//! Members of parser value sets (section "`ValueSetEntry`").

use std::sync::Arc;

use ir::KeyMatch;
use p4info::p4::v1::ValueSetEntry;
use p4info::p4::v1::update::Type;
use switch::{Change, key_match};
use table::FieldMatch;
use tonic::Code;

use super::{check_modify, check_role, field};
use crate::request_error::{Checked, invalid, refuse};
use crate::schema::{Schema, ValueSetView, lookup};
use crate::undo::Op;

/// Converts an update of a value set.
pub(super) fn convert(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &ValueSetEntry,
) -> Checked<Op> {
    let view = lookup(&schema.value_sets, "value set", entry.value_set_id)?;
    check_role("value set", &view.name, view.role.as_deref(), role)?;
    check_modify("value set", &view.name, ty)?;
    let members = members(schema, view, entry)?;
    let set = view.set;
    Ok(Box::new(move |target| {
        let configured = &target.device.configuration().value_sets[set];
        let before = configured.members();
        let before = before.map(|member| member.iter().map(key_match).collect());
        let back = Change::SetValueSet(set, before.collect());
        target.change_back(Change::SetValueSet(set, members), back)
    }))
}

fn members(
    schema: &Schema,
    view: &ValueSetView,
    entry: &ValueSetEntry,
) -> Checked<Vec<Vec<KeyMatch>>> {
    let place = format!("the value set `{}`", view.name);
    if entry.members.len() > view.size as usize {
        return refuse(
            Code::ResourceExhausted,
            format!(
                "{place} takes {}, not {}",
                support::count::count(view.size.into(), "member"),
                entry.members.len()
            ),
        );
    }
    let mut members = Vec::new();
    let mut seen: Vec<Vec<FieldMatch>> = Vec::new();
    for member in &entry.members {
        let keys = field::matches(&schema.names, &place, &view.fields, &member.r#match)?;
        let matched = view.fields.iter().zip(&keys);
        let matched = matched.map(|(field, wanted)| exec::field_match(&field.field, wanted));
        let Some(matched) = matched.collect::<Option<Vec<_>>>() else {
            return invalid(format!("{place}: a member does not fit its fields"));
        };
        if seen.contains(&matched) {
            return refuse(
                Code::AlreadyExists,
                format!("{place}: a member is given twice"),
            );
        }
        seen.push(matched);
        members.push(keys);
    }
    Ok(members)
}
