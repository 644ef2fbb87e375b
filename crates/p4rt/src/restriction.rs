//! `@entry_restriction` of tables and `@action_restriction` of actions, against what updates say.

use bits::Value;
use ir::{Annotation, AnnotationBody, AnnotationValue, KeyMatch, MatchKind};

use crate::coding::{Coding, Names};
use crate::constraint::{Constraint, Meaning, Number};
use crate::fault::{Checked, invalid};
use crate::schema::{FieldView, ParamView};

/// The constraint that an annotation of this name holds.
///
/// # Errors
/// It is not one.
pub(crate) fn read(
    place: &str,
    annotations: &[Annotation],
    name: &str,
) -> Checked<Option<Constraint>> {
    let Some(annotation) = annotations.iter().find(|one| one.name == name) else {
        return Ok(None);
    };
    let text = match &annotation.body {
        AnnotationBody::Text(body) => strings(body),
        AnnotationBody::Expressions(values) => {
            let text = |value: &AnnotationValue| match value {
                AnnotationValue::String(text) => text.clone(),
                AnnotationValue::Int(text) => text.clone(),
                AnnotationValue::Bool(value) => value.to_string(),
            };
            values.iter().map(text).collect()
        }
        AnnotationBody::None | AnnotationBody::KeyValues(_) => String::new(),
    };
    match Constraint::read(&text) {
        Ok(constraint) => Ok(Some(constraint)),
        Err(why) => invalid(format!("{place}: @{name} is no constraint: {why}")),
    }
}

/// The string literals of a free annotation's text, one behind the other.
fn strings(body: &str) -> String {
    let mut text = String::new();
    let mut chars = body.chars();
    while chars.any(|c| c == '"') {
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match chars.next() {
                    Some('n') => text.push('\n'),
                    Some(escaped) => text.push(escaped),
                    None => {}
                },
                c => text.push(c),
            }
        }
    }
    text
}

/// Checks that a table's constraint speaks of its keys, in their kinds.
pub(crate) fn check_keys(
    place: &str,
    constraint: &Constraint,
    names: &Names,
    fields: &[FieldView],
) -> Checked {
    let any = |field: &FieldView| match field.kind {
        MatchKind::Exact => KeyMatch::Exact(Value::zero(field.field.width)),
        _ => KeyMatch::Any,
    };
    let keys: Vec<KeyMatch> = fields.iter().map(any).collect();
    let meaning =
        |name: &str, part: Option<&str>| key_meaning(names, fields, &keys, None, name, part);
    constraint
        .check_names(&meaning)
        .or_else(|why| invalid(format!("{place}: @entry_restriction: {why}")))
}

/// Checks that an action's constraint speaks of its parameters.
pub(crate) fn check_params(
    place: &str,
    constraint: &Constraint,
    names: &Names,
    params: &[ParamView],
) -> Checked {
    let values: Vec<Value> = params
        .iter()
        .map(|param| Value::zero(param.width))
        .collect();
    let meaning =
        |name: &str, part: Option<&str>| param_meaning(names, params, &values, name, part);
    constraint
        .check_names(&meaning)
        .or_else(|why| invalid(format!("{place}: @action_restriction: {why}")))
}

/// Whether an entry may be: `INVALID_ARGUMENT` with the statement that does not hold.
pub(crate) fn check_entry(
    place: &str,
    constraint: &Constraint,
    names: &Names,
    fields: &[FieldView],
    keys: &[KeyMatch],
    priority: Option<i32>,
) -> Checked {
    let meaning =
        |name: &str, part: Option<&str>| key_meaning(names, fields, keys, priority, name, part);
    constraint
        .holds(&meaning)
        .or_else(|why| invalid(format!("{place}: @entry_restriction: {why}")))
}

/// Whether an action may be called so.
pub(crate) fn check_call(
    place: &str,
    constraint: &Constraint,
    names: &Names,
    params: &[ParamView],
    values: &[Value],
) -> Checked {
    let meaning = |name: &str, part: Option<&str>| param_meaning(names, params, values, name, part);
    constraint
        .holds(&meaning)
        .or_else(|why| invalid(format!("{place}: @action_restriction: {why}")))
}

fn number(value: &Value) -> Number {
    Number::from_bytes(&value.to_be_bytes())
}

/// A value of its type: a string where it travels as one.
fn plain(coding: &Coding, names: &Names, value: &Value) -> Meaning {
    match coding {
        Coding::Text(..) | Coding::Name(_) => {
            let text = coding.write(names, value);
            Meaning::Text(String::from_utf8_lossy(&text).into_owned())
        }
        Coding::Unsigned(_) | Coding::Signed(_) => Meaning::Number(number(value)),
    }
}

fn param_meaning(
    names: &Names,
    params: &[ParamView],
    values: &[Value],
    name: &str,
    part: Option<&str>,
) -> Option<Meaning> {
    let at = params.iter().position(|param| param.name == name)?;
    match part {
        None | Some("value") => Some(plain(&params[at].coding, names, values.get(at)?)),
        Some(_) => None,
    }
}

fn key_meaning(
    names: &Names,
    fields: &[FieldView],
    keys: &[KeyMatch],
    priority: Option<i32>,
    name: &str,
    part: Option<&str>,
) -> Option<Meaning> {
    if name.is_empty() {
        let priority = u64::try_from(priority.unwrap_or(0)).unwrap_or(0);
        return (part == Some("priority")).then(|| Meaning::Number(Number::from_u64(priority)));
    }
    let at = fields.iter().position(|field| field.name == name)?;
    let (field, key) = (&fields[at], keys.get(at)?);
    match field.kind {
        MatchKind::Exact => match (key, part) {
            (KeyMatch::Exact(value), None | Some("value")) => {
                Some(plain(&field.coding, names, value))
            }
            _ => None,
        },
        MatchKind::Range => range(field, key, part),
        MatchKind::Ternary | MatchKind::Lpm | MatchKind::Optional => {
            masked(names, field, key, part)
        }
        MatchKind::Selector => None,
    }
}

fn range(field: &FieldView, key: &KeyMatch, part: Option<&str>) -> Option<Meaning> {
    let width = field.field.width;
    let (low, high) = match key {
        KeyMatch::Range(low, high) => (number(low), number(high)),
        KeyMatch::Exact(value) => (number(value), number(value)),
        _ => (number(&Value::zero(width)), number(&Value::all_ones(width))),
    };
    match part {
        None => Some(Meaning::Bounds { low, high }),
        Some("low") => Some(Meaning::Number(low)),
        Some("high") => Some(Meaning::Number(high)),
        Some(_) => None,
    }
}

fn masked(names: &Names, field: &FieldView, key: &KeyMatch, part: Option<&str>) -> Option<Meaning> {
    let width = field.field.width;
    let (value, mask) = match key {
        KeyMatch::Exact(value) => (value.clone(), Value::all_ones(width)),
        KeyMatch::Lpm(value, len) => (value.clone(), Value::prefix_mask(*len, width)),
        KeyMatch::Ternary(value, mask) => (value.clone(), mask.clone()),
        KeyMatch::Any | KeyMatch::Range(..) => (Value::zero(width), Value::zero(width)),
    };
    match (part, &field.coding) {
        (None | Some("value"), Coding::Text(..)) if !mask.is_zero() => {
            Some(plain(&field.coding, names, &value))
        }
        (None | Some("value"), Coding::Text(..)) => Some(Meaning::Text(String::new())),
        (None, _) => Some(Meaning::Masked {
            value: number(&value),
            mask: number(&mask),
            ones: number(&Value::all_ones(width)),
        }),
        (Some("value"), _) => Some(Meaning::Number(number(&value))),
        (Some("mask"), _) => Some(Meaning::Number(number(&mask))),
        (Some("prefix_length"), _) if field.kind == MatchKind::Lpm => {
            Some(Meaning::Number(Number::from_u64(mask.prefix_len()?.into())))
        }
        _ => None,
    }
}
