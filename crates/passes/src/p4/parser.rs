//! Parsers: states, transitions and value sets.

use std::collections::BTreeMap;

use bits::IdVec;
use ir::{DataTy, Expr, KeySet, Keyset, Parser, SelectCase, StateId, Target, Transition, ValueSet};

use super::PrintError;
use super::body::{Block, Body, Scope, print};
use super::flow;
use super::names::Names;
use super::table::name_annotation;
use super::text::{Text, annotations};
use super::types::Types;
use crate::uses::Uses;

/// Returns the value sets that a parser uses.
pub(super) fn value_sets(parser: &Parser) -> Vec<ir::ValueSetId> {
    let mut found = Vec::new();
    for state in parser.states.values() {
        let Transition::Select { cases, .. } = &state.transition else {
            continue;
        };
        for case in cases {
            match &case.keyset {
                Keyset::ValueSet(id) => found.push(*id),
                Keyset::Sets(sets) => {
                    found.extend(sets.iter().filter_map(|set| match set {
                        KeySet::ValueSet(id) => Some(*id),
                        _ => None,
                    }));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Prints the declaration of a value set.
pub(super) fn print_value_set(
    set: &ValueSet,
    types: &Types<'_>,
    (path, ident): (&str, &str),
    text: &mut Text,
) {
    let head = annotations(&set.annotations);
    let name = name_annotation(&set.name, path, ident);
    let ty = match (set.fields.as_slice(), &set.data_ty) {
        ([only], data_ty) if only.name.is_empty() => types.declared(only.ty, data_ty),
        (_, data_ty) => types.data(data_ty),
    };
    text.line(format!(
        "{head}{name}value_set<{ty}>({}) {ident};",
        set.size
    ));
}

/// Prints the states of a parser.
pub(super) fn print_states(
    parser: &Parser,
    block: Block<'_>,
    names: &Names,
    text: &mut Text,
) -> Result<(), PrintError> {
    let mut state_names = names.clone();
    let states: IdVec<StateId, String> = parser
        .states
        .iter()
        .map(
            |(id, state)| match id == parser.start && state.name == "start" {
                true => "start".to_owned(),
                false => state_names.fresh(&state.name),
            },
        )
        .collect();
    if states[parser.start] != "start" {
        text.block("state start", |text| {
            text.line(format!("transition {};", states[parser.start]));
        });
        text.blank();
    }
    for (id, state) in parser.states.iter() {
        let place = format!("state `{}` of parser `{}`", state.name, parser.name);
        let mut body = Body::new(block, names.clone(), place);
        body.loc.set(state.loc);
        body.behind = Some(transition_uses(block.program, &state.transition));
        let out = body.body(flow::of_body(&state.body))?;
        text.open(&format!("state {}", states[id]));
        print(&out, text);
        body.loc.set(state.loc);
        transition(&body, &state.transition, &states, block.scope, text)?;
        text.close("}");
        text.blank();
    }
    Ok(())
}

fn transition_uses(program: &ir::Program, transition: &Transition) -> Uses {
    let mut uses = Uses::default();
    if let Transition::Select { keys, .. } = transition {
        for key in keys {
            uses = uses.and(Uses::of_expr(program, key));
        }
    }
    uses
}

fn transition(
    body: &Body<'_>,
    transition: &Transition,
    states: &IdVec<StateId, String>,
    scope: &Scope,
    text: &mut Text,
) -> Result<(), PrintError> {
    let target = |target: Target| match target {
        Target::Accept => "accept".to_owned(),
        Target::Reject => "reject".to_owned(),
        Target::State(id) => states[id].clone(),
    };
    match transition {
        Transition::Direct(to) => text.line(format!("transition {};", target(*to))),
        Transition::Select { keys, cases } if keys.is_empty() => match cases.first() {
            Some(case) => text.line(format!("transition {};", target(case.target))),
            None => return Err(body.error("a select without keys and cases")),
        },
        Transition::Select { keys, cases } => {
            let named = named_keys(body.program, cases);
            let mut texts = Vec::new();
            for (at, key) in keys.iter().enumerate() {
                texts.push(value(body, named.get(&at).copied(), key)?);
            }
            text.open(&format!("transition select({})", texts.join(", ")));
            for case in cases {
                let set = keyset(body, &case.keyset, &named, scope)?;
                text.line(format!("{set}: {};", target(case.target)));
            }
            text.close("}");
        }
    }
    Ok(())
}

/// Returns the types of keys that value sets give them.
fn named_keys<'p>(program: &'p ir::Program, cases: &[SelectCase]) -> BTreeMap<usize, &'p DataTy> {
    let mut named = BTreeMap::new();
    for case in cases {
        match &case.keyset {
            Keyset::Sets(sets) => {
                for (at, set) in sets.iter().enumerate() {
                    if let KeySet::ValueSet(id) = set {
                        named.insert(at, &program.value_sets[*id].data_ty);
                    }
                }
            }
            Keyset::ValueSet(id) => {
                let set = &program.value_sets[*id];
                if let ([only], ty) = (set.fields.as_slice(), &set.data_ty)
                    && only.name.is_empty()
                {
                    named.insert(0, ty);
                }
            }
        }
    }
    named
}

fn value(body: &Body<'_>, ty: Option<&DataTy>, expr: &Expr) -> Result<String, PrintError> {
    let term = body.term(expr)?;
    Ok(match ty {
        Some(ty) => body.value_of_named(ty, term).text,
        None => term.text,
    })
}

fn keyset(
    body: &Body<'_>,
    keyset: &Keyset,
    named: &BTreeMap<usize, &DataTy>,
    scope: &Scope,
) -> Result<String, PrintError> {
    let set_name = |id: &ir::ValueSetId| {
        let name = scope.value_sets.get(id);
        name.cloned()
            .ok_or_else(|| body.error("a value set outside of a parser"))
    };
    let sets = match keyset {
        Keyset::ValueSet(id) => return set_name(id),
        Keyset::Sets(sets) => sets,
    };
    if sets.iter().all(|set| matches!(set, KeySet::Any)) {
        return Ok("default".to_owned());
    }
    let mut texts = Vec::new();
    for (at, set) in sets.iter().enumerate() {
        let ty = named.get(&at).copied();
        let one = |expr: &Expr| value(body, ty, expr);
        texts.push(match set {
            KeySet::Any => "_".to_owned(),
            KeySet::Value(expr) => one(expr)?,
            KeySet::Mask(expr, mask) => format!("{} &&& {}", one(expr)?, one(mask)?),
            KeySet::Range(low, high) => format!("{} .. {}", one(low)?, one(high)?),
            KeySet::ValueSet(id) => set_name(id)?,
        });
    }
    Ok(match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("({})", texts.join(", ")),
    })
}
