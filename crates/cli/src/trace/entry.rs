//! Table entries as entries files write them (docs/ENTRIES.md).

use bits::{Value, limbs_for};
use ir::{Action, ActionId, MatchKind, Program, ScalarTy, Table};
use table::{ActionRef, Entry, EntryAction, FieldMatch};

use super::step::EntryTold;
use super::value;

/// An entry, written so that an entries file could have it.
pub(crate) fn tell(program: &Program, table: &Table, entry: &Entry) -> EntryTold {
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
    text += &action(program, &entry.action);
    if let Some(priority) = entry.priority {
        text += &format!(" priority {priority}");
    }
    EntryTold {
        id: entry.id.0,
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
        FieldMatch::Ternary { value: of, mask } => format!("{} &&& {}", value(of), value(mask)),
        FieldMatch::Range { lo, hi } if lo == hi => value(lo),
        FieldMatch::Range { lo, hi } => format!("{}..{}", value(lo), value(hi)),
    }
}

fn action(program: &Program, action: &EntryAction) -> String {
    match action {
        EntryAction::Direct(call) => call_text(program, call),
        EntryAction::Member(id) => format!("member {}", id.get()),
        EntryAction::Group(id) => format!("group {}", id.get()),
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
