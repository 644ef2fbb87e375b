//! Table entries as entries files write them (docs/ENTRIES.md).

use bits::{Value, limbs_for};
use exec::Configuration;
use ir::{Action, ActionId, ExternId, MatchKind, Program, ScalarTy, TableId};
use switch::is_one_shot;
use table::{ActionProfile, ActionRef, EntryAction, EntryId, FieldMatch};

use super::step::EntryTold;
use super::value;

/// An entry, written so that an entries file could have it. One that a packet added has its id only.
pub(crate) fn tell(configuration: &Configuration, table: TableId, id: EntryId) -> EntryTold {
    let Some(entry) = configuration.tables[table].get(id) else {
        return EntryTold {
            id: id.0,
            text: None,
            priority: None,
            is_const: false,
        };
    };
    let program = configuration.program();
    let table = &program.tables[table];
    let mut text = format!("{} {{ ", table.name);
    let keys = table
        .keys
        .iter()
        .filter(|key| key.match_kind != MatchKind::Selector);
    for (key, matched) in keys.zip(entry.matches.iter()) {
        let ty = key.expr.ty(program, None).unwrap_or(ScalarTy::Bit(0));
        text += &format!("{}: {}; ", key.name, field_match(ty, matched));
    }
    text += "} -> ";
    text += &action(configuration, table.implementation, &entry.action);
    if let Some(priority) = entry.priority {
        text += &format!(" priority {priority}");
    }
    EntryTold {
        id: id.0,
        text: Some(text),
        priority: entry.priority,
        is_const: entry.is_const,
    }
}

fn field_match(ty: ScalarTy, matched: &FieldMatch) -> String {
    let value = |value: &Value| written(ty, value);
    match matched {
        FieldMatch::Exact(of) | FieldMatch::Optional(Some(of)) => value(of),
        FieldMatch::Optional(None) => "_".to_owned(),
        FieldMatch::Lpm { prefix_len: 0, .. } => "_".to_owned(),
        FieldMatch::Lpm {
            value: of,
            prefix_len,
        } => format!("{}/{prefix_len}", value(of)),
        FieldMatch::Ternary { mask, .. } if mask.is_zero() => "_".to_owned(),
        FieldMatch::Ternary { value: of, mask } if *mask == Value::all_ones(mask.width()) => {
            value(of)
        }
        FieldMatch::Ternary { value: of, mask } => match mask.prefix_len() {
            // Prefixes are how people write addresses.
            Some(len) if matches!(mask.width(), 32 | 128) => format!("{}/{len}", value(of)),
            _ => format!("{} &&& {}", value(of), value(mask)),
        },
        FieldMatch::Range { lo, hi } if lo == hi => value(lo),
        FieldMatch::Range { lo, hi } => format!("{}..{}", value(lo), value(hi)),
    }
}

fn action(
    configuration: &Configuration,
    profile: Option<ExternId>,
    action: &EntryAction,
) -> String {
    let program = configuration.program();
    let profile = profile.and_then(|id| configuration.profiles.get(id)?.as_ref());
    match (action, profile) {
        (EntryAction::Direct(call), _) => call_text(program, call),
        (EntryAction::Member(id), Some(profile)) if is_one_shot(id.get()) => {
            let call = profile.member(*id).map(|call| call_text(program, call));
            format!("{{ {} }}", call.unwrap_or_default())
        }
        (EntryAction::Group(id), Some(profile)) if is_one_shot(id.get()) => {
            let members = profile.group(*id).unwrap_or_default();
            let members: Vec<String> = members
                .iter()
                .map(|member| weighted(program, profile, member))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        (EntryAction::Member(id), _) => format!("member {}", id.get()),
        (EntryAction::Group(id), _) => format!("group {}", id.get()),
    }
}

/// A member of an entry's own group: its action, and its weight where that is not 1.
fn weighted(program: &Program, profile: &ActionProfile, member: &table::GroupMember) -> String {
    let call = profile
        .member(member.member)
        .map(|call| call_text(program, call));
    let call = call.unwrap_or_default();
    match member.weight {
        1 => call,
        weight => format!("{call} weight {weight}"),
    }
}

fn call_text(program: &Program, call: &ActionRef) -> String {
    let Some(action) = program.actions.get(ActionId::new(call.action)) else {
        return "no action".to_owned();
    };
    let args = args(action, &call.params);
    let args = action.params.iter().zip(args);
    let args: Vec<String> = args
        .map(|(param, arg)| format!("{}: {}", param.name, written(param.ty, &arg)))
        .collect();
    format!("{}({})", action.control_plane_name, args.join(", "))
}

/// The values of an action's parameters, each of which starts on its own limb.
fn args(action: &Action, mut limbs: &[u64]) -> Vec<Value> {
    let mut values = Vec::new();
    for param in &action.params {
        let width = param.ty.width();
        let (own, rest) = limbs.split_at(limbs.len().min(ir::limbs_of(param.ty) as usize));
        let own = &own[..own.len().min(limbs_for(width))];
        values.push(Value::from_limbs(own, width));
        limbs = rest;
    }
    values
}

/// A value as entries files write it.
fn written(ty: ScalarTy, value: &Value) -> String {
    match ty {
        ScalarTy::Bool => (!value.is_zero()).to_string(),
        _ => value::address(value)
            .or_else(|| value.to_u64().map(|number| number.to_string()))
            .unwrap_or_else(|| value.to_string()),
    }
}
