//! Checks of updates against `@entry_restriction` of tables and `@action_restriction` of actions.

use bits::Value;
use constraints::{Constraint, Int, Match, Name, Number, Type, Value as Meaning};
use ir::{Annotation, KeyMatch, MatchKind};

use crate::coding::{Coding, Names};
use crate::request_error::{Checked, invalid};
use crate::schema::{FieldView, ParamView};

/// Returns the constraint of the annotation with this name.
///
/// # Errors
/// The annotation is not a valid constraint.
pub(crate) fn read(
    place: &str,
    annotations: &[Annotation],
    name: &str,
) -> Checked<Option<Constraint>> {
    let Some(annotation) = annotations.iter().find(|one| one.name == name) else {
        return Ok(None);
    };
    let Some(text) = annotation.body.strings() else {
        return invalid(format!(
            "{place}: @{name} is no constraint: it needs one or more strings"
        ));
    };
    match Constraint::read(&text) {
        Ok(constraint) => Ok(Some(constraint)),
        Err(why) => invalid(format!("{place}: @{name} is no constraint: {why}")),
    }
}

/// Checks the names and types of a table's constraint.
pub(crate) fn check_keys(place: &str, constraint: &Constraint, fields: &[FieldView]) -> Checked {
    let types = |name: Name<'_>| match name {
        Name::Own(name) => key_type(fields.iter().find(|field| field.name == name)?),
        Name::Attribute(name) => (name == "priority").then_some(Type::Int),
    };
    constraint
        .check(&types)
        .or_else(|why| invalid(format!("{place}: @entry_restriction: {why}")))
}

/// Checks the names and types of an action's constraint.
pub(crate) fn check_params(place: &str, constraint: &Constraint, params: &[ParamView]) -> Checked {
    let types = |name: Name<'_>| match name {
        Name::Own(name) => {
            let param = params.iter().find(|param| param.name == name)?;
            Some(match is_text(&param.coding) {
                true => Type::Text,
                false => Type::Bits(param.width),
            })
        }
        Name::Attribute(_) => None,
    };
    constraint
        .check(&types)
        .or_else(|why| invalid(format!("{place}: @action_restriction: {why}")))
}

/// Checks an entry against a constraint. The error is `INVALID_ARGUMENT` with the part of the
/// constraint that is false.
pub(crate) fn check_entry(
    place: &str,
    constraint: &Constraint,
    names: &Names,
    fields: &[FieldView],
    keys: &[KeyMatch],
    priority: Option<i32>,
) -> Checked {
    let meaning = |name: Name<'_>| match name {
        Name::Own(name) => {
            let at = fields.iter().position(|field| field.name == name)?;
            key_meaning(names, &fields[at], keys.get(at)?)
        }
        Name::Attribute("priority") => {
            let priority = u64::try_from(priority.unwrap_or(0)).unwrap_or(0);
            Some(Meaning::Int(Int::new(Number::from_u64(priority))))
        }
        Name::Attribute(_) => None,
    };
    constraint
        .holds(&meaning)
        .or_else(|why| invalid(format!("{place}: @entry_restriction: {why}")))
}

/// Checks the arguments of an action call against a constraint.
pub(crate) fn check_call(
    place: &str,
    constraint: &Constraint,
    names: &Names,
    params: &[ParamView],
    values: &[Value],
) -> Checked {
    let meaning = |name: Name<'_>| {
        let Name::Own(name) = name else {
            return None;
        };
        let at = params.iter().position(|param| param.name == name)?;
        let (param, value) = (&params[at], values.get(at)?);
        Some(match is_text(&param.coding) {
            true => Meaning::Text(text(&param.coding, names, value)),
            false => Meaning::Bits(param.width, number(value)),
        })
    };
    constraint
        .holds(&meaning)
        .or_else(|why| invalid(format!("{place}: @action_restriction: {why}")))
}

fn number(value: &Value) -> Number {
    Number::from_bytes(&value.to_be_bytes())
}

/// Returns true if values are encoded as strings.
fn is_text(coding: &Coding) -> bool {
    matches!(coding, Coding::Text(..) | Coding::Name(_))
}

fn text(coding: &Coding, names: &Names, value: &Value) -> String {
    String::from_utf8_lossy(&coding.write(names, value)).into_owned()
}

/// Returns the type of a key; `None` if entries have no value for it.
fn key_type(field: &FieldView) -> Option<Type> {
    let width = field.field.width;
    Some(match (field.kind, is_text(&field.coding)) {
        (MatchKind::Exact, true) => Type::Text,
        (MatchKind::Optional, true) => Type::OptionalText,
        (MatchKind::Exact, false) => Type::Exact(width),
        (MatchKind::Optional, false) => Type::Optional(width),
        (MatchKind::Ternary, _) => Type::Ternary(width),
        (MatchKind::Lpm, _) => Type::Lpm(width),
        (MatchKind::Range, _) => Type::Range(width),
        (MatchKind::Selector, _) => return None,
    })
}

/// Returns the value of a key, of its [`key_type`].
fn key_meaning(names: &Names, field: &FieldView, key: &KeyMatch) -> Option<Meaning> {
    let ty = key_type(field)?;
    let written = |value: &Value| text(&field.coding, names, value);
    match (ty, key) {
        (Type::Text, KeyMatch::Exact(value)) => Some(Meaning::Text(written(value))),
        (Type::OptionalText, KeyMatch::Exact(value)) => {
            Some(Meaning::OptionalText(Some(written(value))))
        }
        (Type::OptionalText, KeyMatch::Any) => Some(Meaning::OptionalText(None)),
        _ => ty.matched(match key {
            KeyMatch::Any => Match::Any,
            KeyMatch::Exact(value) => Match::Exact(number(value)),
            KeyMatch::Lpm(value, length) => Match::Lpm(number(value), *length),
            KeyMatch::Ternary(value, mask) => Match::Ternary(number(value), number(mask)),
            KeyMatch::Range(low, high) => Match::Range(number(low), number(high)),
        }),
    }
}
