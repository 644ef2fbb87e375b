//! Formats table entries as in entries files (docs/reference/entries.md).

use bits::{Value, limbs_for};
use exec::Configuration;
use ir::{ActionId, ExternId, Key, MatchKind, Program, ScalarTy, Table, TableId};
use switch::is_one_shot;
use table::{ActionProfile, ActionRef, EntryAction, EntryId, FieldMatch};

use super::step::MatchedEntry;
use super::value;

/// Returns an entry in the syntax of entries files. An entry that a packet added has only its id.
pub(crate) fn matched_entry(
    configuration: &Configuration,
    table: TableId,
    id: EntryId,
) -> MatchedEntry {
    let Some(entry) = configuration.tables[table].get(id) else {
        return MatchedEntry {
            id: id.0,
            text: None,
            priority: None,
            is_const: false,
        };
    };
    let program = configuration.program();
    let table = &program.tables[table];
    let key = key_text(program, table, &entry.matches);
    let mut text = format!("{} {key} -> ", table.name);
    text += &action(configuration, table.implementation, &entry.action);
    if let Some(priority) = entry.priority {
        text += &format!(" priority {priority}");
    }
    MatchedEntry {
        id: id.0,
        text: Some(text),
        priority: entry.priority,
        is_const: entry.is_const,
    }
}

/// Formats an entry as in entries files: `forward { key: 7; } -> to_port(1)`. `None` if it does not
/// exist any more, or if a packet added it.
pub fn entry_statement(
    configuration: &Configuration,
    table: TableId,
    id: EntryId,
) -> Option<String> {
    matched_entry(configuration, table, id).text
}

/// Formats the default action of a table with its arguments, as in entries files:
/// `drop(reason: 1)`. `None` if it is not the action `ran`, because it has changed since.
pub fn default_action_text(
    configuration: &Configuration,
    table: TableId,
    ran: ActionId,
) -> Option<String> {
    match configuration.tables[table].default_action() {
        EntryAction::Direct(call) if ActionId::new(call.action) == ran => {
            Some(call_text(configuration.program(), call))
        }
        _ => None,
    }
}

/// Formats an entry on one line: `table forward entry { hdr.ethernet.dst: 02:00:00:00:00:01; }`.
/// `None` if it does not exist any more.
pub fn entry_line(configuration: &Configuration, table: TableId, id: EntryId) -> Option<String> {
    let entry = configuration.tables[table].get(id)?;
    let program = configuration.program();
    let table = &program.tables[table];
    let key = key_text(program, table, &entry.matches);
    Some(format!("table {} entry {key}", table.name))
}

/// As [`entry_line`], for an entry that a packet added: its key is exact.
pub fn learned_line(program: &Program, table: TableId, key: &[u64]) -> String {
    let table = &program.tables[table];
    let tys = matched_keys(table).map(|key| key_ty(program, key));
    let matches: Vec<FieldMatch> = values(tys, key)
        .into_iter()
        .map(FieldMatch::Exact)
        .collect();
    let key = key_text(program, table, &matches);
    format!("table {} entry {key}", table.name)
}

/// Formats an entry that a packet added, as in entries files: `forward { key: 7; } -> to_port(1)`.
pub fn learned_action_line(
    program: &Program,
    table: TableId,
    key: &[u64],
    action: &ActionRef,
) -> String {
    let line = learned_line(program, table, key);
    let entry = line.replacen("table ", "", 1).replacen(" entry {", " {", 1);
    format!("{entry} -> {}", call_text(program, action))
}

/// Formats the key of an entry: `{ name: match; name: match; }`.
fn key_text(program: &Program, table: &Table, matches: &[FieldMatch]) -> String {
    let mut text = "{ ".to_owned();
    for (key, matched) in matched_keys(table).zip(matches) {
        let matched = field_match(key_ty(program, key), matched);
        text += &format!("{}: {matched}; ", key.name);
    }
    text + "}"
}

/// Returns the key fields that entries match. Selector fields are left out.
fn matched_keys(table: &Table) -> impl Iterator<Item = &Key> {
    let keys = table.keys.iter();
    keys.filter(|key| key.match_kind != MatchKind::Selector)
}

fn key_ty(program: &Program, key: &Key) -> ScalarTy {
    key.expr.ty(program, None).unwrap_or(ScalarTy::Bit(0))
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
            // Addresses are usually written with prefixes.
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

/// Formats a member of an entry's one-shot group: its action, and its weight if that is not 1.
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
    let args = values(action.params.iter().map(|param| param.ty), &call.params);
    let args = action.params.iter().zip(args);
    let args: Vec<String> = args
        .map(|(param, arg)| format!("{}: {}", param.name, written(param.ty, &arg)))
        .collect();
    format!("{}({})", action.control_plane_name, args.join(", "))
}

/// Reads values of these types. Each value starts at a limb boundary.
pub(super) fn values(tys: impl Iterator<Item = ScalarTy>, mut limbs: &[u64]) -> Vec<Value> {
    let mut values = Vec::new();
    for ty in tys {
        let width = ty.width();
        let (own, rest) = limbs.split_at(limbs.len().min(ir::limbs_of(ty) as usize));
        let own = &own[..own.len().min(limbs_for(width))];
        values.push(Value::from_limbs(own, width));
        limbs = rest;
    }
    values
}

/// Formats a value as in entries files.
fn written(ty: ScalarTy, value: &Value) -> String {
    match ty {
        ScalarTy::Bool => (!value.is_zero()).to_string(),
        _ => value::address(value)
            .or_else(|| value.to_u64().map(|number| number.to_string()))
            .unwrap_or_else(|| value.to_string()),
    }
}
