//! Checks `@entry_restriction` of tables and `@action_restriction` of actions. These constraints of
//! the p4-constraints language must be well formed and use only existing keys or parameters, and
//! the entries and default actions that the program declares must satisfy them.
//!
//! Violations are warnings: packets do not depend on them. P4Runtime rejects a program with a
//! malformed constraint.

use std::collections::HashMap;

use constraints::{Constraint, Int, Match, Name, Number, Type, Value};
use num_bigint::{BigInt, BigUint};
use support::work::checkpoint;
use syntax::ast::{AnnotationTokenKind, Direction};
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::Span;

use super::tables::width;
use crate::annotations::str_of;
use crate::code;
use crate::consteval::unsigned;
use crate::hir::{
    Action, ActionCall, ActionId, Annotation, AnnotationBody, AnnotationValue, Entry, Expr,
    ExprKind, Key, KeySet, Program, Table, Ty, TyId, Var, VarKind,
};

/// A well-formed constraint, and its annotation.
struct Restriction<'p> {
    constraint: Constraint,
    annotation: &'p Annotation,
}

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut of_actions: HashMap<ActionId, Vec<Restriction<'_>>> = HashMap::new();
    for (id, action) in program.actions.iter() {
        for annotation in named(&action.annotations, "action_restriction") {
            let types = |name: Name<'_>| param_type(program, action, name);
            let read = restriction(annotation, &types, diagnostics);
            of_actions.entry(id).or_default().extend(read);
        }
    }
    for table in program.tables.values() {
        let mut of_entries = Vec::new();
        for annotation in named(&table.annotations, "entry_restriction") {
            let types = |name: Name<'_>| key_type(program, table, name);
            of_entries.extend(restriction(annotation, &types, diagnostics));
        }
        if of_entries.is_empty() && of_actions.is_empty() {
            continue;
        }
        let mut call = |call: &ActionCall, what: &str, span: Span| {
            let action = table.actions[call.action].action;
            let value = |name: Name<'_>| argument(program, &program.actions[action], call, name);
            let what = format!(
                "{what} breaks the restriction of the action `{}`",
                program.actions[action].name.as_str()
            );
            for restriction in of_actions.get(&action).into_iter().flatten() {
                restriction.require(&what, span, &value, diagnostics);
            }
        };
        let what = format!("the default action of `{}`", table.name.as_str());
        if let Some(default) = &table.default_action {
            call(default, &what, default.span);
        }
        for entry in &table.entries {
            call(&entry.action, "this entry", entry.span);
        }
        let what = format!(
            "this entry breaks the restriction of the table `{}`",
            table.name.as_str()
        );
        for entry in &table.entries {
            let value = |name: Name<'_>| matched(program, table, entry, name);
            for restriction in &of_entries {
                restriction.require(&what, entry.span, &value, diagnostics);
            }
        }
    }
}

impl Restriction<'_> {
    /// Reports a violation, at the place where the values are written. A value that depends on a
    /// constructor parameter is unknown: a constraint that uses it is not checked.
    fn require(
        &self,
        what: &str,
        span: Span,
        value: &dyn Fn(Name<'_>) -> Option<Value>,
        diagnostics: &mut Diagnostics,
    ) {
        checkpoint();
        let has_unknown = std::cell::Cell::new(false);
        let known = |name: Name<'_>| {
            let value = value(name);
            has_unknown.set(has_unknown.get() || value.is_none());
            value
        };
        if let Err(why) = self.constraint.holds(&known)
            && !has_unknown.get()
        {
            let diagnostic =
                Diagnostic::warning(code::W_ANNOTATION, span, format!("{what}: {why}"));
            diagnostics.push(diagnostic.label(self.annotation.span, "the restriction"));
        }
    }
}

fn named<'a>(list: &'a [Annotation], name: &'a str) -> impl Iterator<Item = &'a Annotation> {
    list.iter().filter(move |one| one.name.as_str() == name)
}

/// Reads the constraint of an annotation, and reports a malformed one.
fn restriction<'p>(
    annotation: &'p Annotation,
    types: &dyn Fn(Name<'_>) -> Option<Type>,
    diagnostics: &mut Diagnostics,
) -> Option<Restriction<'p>> {
    checkpoint();
    let read = text(annotation)
        .ok_or_else(|| "it needs one or more strings".to_owned())
        .and_then(|text| Constraint::read(&text))
        .and_then(|constraint| constraint.check(types).map(|()| constraint));
    match read {
        Ok(constraint) => Some(Restriction {
            constraint,
            annotation,
        }),
        Err(refusal) => {
            let name = annotation.name.as_str();
            let message =
                format!("`@{name}` is no constraint, and P4Runtime refuses the program: {refusal}");
            diagnostics.push(Diagnostic::warning(
                code::W_ANNOTATION,
                annotation.span,
                message,
            ));
            None
        }
    }
}

/// Returns the strings of an annotation, each on a separate line.
fn text(annotation: &Annotation) -> Option<String> {
    let strings: Option<Vec<&str>> = match &annotation.body {
        AnnotationBody::Tokens(tokens) => tokens
            .iter()
            .map(|token| (token.kind == AnnotationTokenKind::String).then_some(&*token.text))
            .collect(),
        AnnotationBody::Expressions(values) => values
            .iter()
            .map(|value| match value {
                AnnotationValue::String(text) => Some(&**text),
                _ => None,
            })
            .collect(),
        AnnotationBody::None | AnnotationBody::KeyValues(_) => None,
    };
    strings
        .filter(|strings| !strings.is_empty())
        .map(|strings| strings.join("\n"))
}

fn key_type(program: &Program, table: &Table, name: Name<'_>) -> Option<Type> {
    match name {
        Name::Attribute(name) => (name == "priority").then_some(Type::Int),
        Name::Own(name) => {
            let is_it = |key: &&Key| &*key.control_plane_name == name;
            let key = table.keys.iter().find(is_it)?;
            let kind = program.match_kinds[key.match_kind].as_str();
            match (size(program, key.expr.ty)?, kind) {
                (Size::Text, "exact") => Some(Type::Text),
                (Size::Text, "optional") => Some(Type::OptionalText),
                (Size::Bits(width), "exact") => Some(Type::Exact(width)),
                (Size::Bits(width), "ternary") => Some(Type::Ternary(width)),
                (Size::Bits(width), "lpm") => Some(Type::Lpm(width)),
                (Size::Bits(width), "range") => Some(Type::Range(width)),
                (Size::Bits(width), "optional") => Some(Type::Optional(width)),
                _ => None,
            }
        }
    }
}

fn param_type(program: &Program, action: &Action, name: Name<'_>) -> Option<Type> {
    let Name::Own(name) = name else {
        return None;
    };
    let (_, found) = data_params(program, action).find(|(own, _)| *own == name)?;
    match size(program, found.ty)? {
        Size::Text => Some(Type::Text),
        Size::Bits(width) => Some(Type::Bits(width)),
    }
}

/// Returns the parameters that the control plane binds, with their names there.
fn data_params<'p>(
    program: &'p Program,
    action: &'p Action,
) -> impl Iterator<Item = (&'p str, &'p Var)> {
    let vars = action.params.iter().map(|param| &program.vars[param.var]);
    let data = vars.filter(|var| var.kind == VarKind::Param(Direction::None));
    data.map(|var| {
        let name = str_of(&var.annotations, "name").unwrap_or(var.name.as_str());
        (name, var)
    })
}

/// Returns the value of a key or attribute of an entry, of its [`key_type`]. `None` if it is
/// unknown.
fn matched(program: &Program, table: &Table, entry: &Entry, name: Name<'_>) -> Option<Value> {
    let wanted = match name {
        Name::Attribute(_) => {
            let priority = entry.priority.clone().unwrap_or_default();
            let priority = Number::from_bytes(&priority.to_bytes_be().1);
            return Some(Value::Int(Int::new(priority)));
        }
        Name::Own(wanted) => wanted,
    };
    let is_it = |key: &Key| &*key.control_plane_name == wanted;
    let at = table.keys.iter().position(is_it)?;
    let (ty, set) = (key_type(program, table, name)?, entry.keys.get(at)?);
    match (ty, set) {
        (Type::Exact(_), KeySet::Any) => None,
        (Type::Text, KeySet::Value(value)) => Some(Value::Text(string(program, value)?)),
        (Type::OptionalText, KeySet::Value(value)) => {
            Some(Value::OptionalText(Some(string(program, value)?)))
        }
        (Type::OptionalText, KeySet::Any) => Some(Value::OptionalText(None)),
        (_, KeySet::Any) => ty.matched(Match::Any),
        (_, KeySet::Value(value)) => ty.matched(Match::Exact(number(&bits(program, value)?))),
        (_, KeySet::Range(low, high)) => ty.matched(Match::Range(
            number(&bits(program, low)?),
            number(&bits(program, high)?),
        )),
        (_, KeySet::Mask(value, mask)) => {
            let mask = bits(program, mask)?;
            let value = number(&(bits(program, value)? & &mask));
            ty.matched(match ty {
                Type::Lpm(_) => Match::Lpm(value, u32::try_from(mask.count_ones()).ok()?),
                _ => Match::Ternary(value, number(&mask)),
            })
        }
        (_, KeySet::ValueSet(_)) => None,
    }
}

/// Returns the value of an argument, of its [`param_type`]. `None` if it is unknown.
fn argument(
    program: &Program,
    action: &Action,
    call: &ActionCall,
    name: Name<'_>,
) -> Option<Value> {
    let Name::Own(name) = name else {
        return None;
    };
    let at = data_params(program, action).position(|(own, _)| own == name)?;
    let (given, (_, param)) = (call.args.get(at)?, data_params(program, action).nth(at)?);
    Some(match size(program, param.ty)? {
        Size::Text => Value::Text(string(program, given)?),
        Size::Bits(width) => Value::Bits(width, number(&bits(program, given)?)),
    })
}

/// Returns the bits of a constant as a number. `None` if it is unknown.
fn bits(program: &Program, expr: &Expr) -> Option<BigUint> {
    let width = match size(program, expr.ty)? {
        Size::Bits(width) => width,
        Size::Text => width(program, expr.ty)?,
    };
    let value = match &expr.kind {
        ExprKind::Int(value) => value.clone(),
        ExprKind::Bool(value) => BigInt::from(u8::from(*value)),
        ExprKind::EnumMember(id, member) => program.enums[*id].members.get(*member)?.1.clone()?,
        _ => return None,
    };
    unsigned(&value, width).to_biguint()
}

fn number(value: &BigUint) -> Number {
    Number::from_bytes(&value.to_bytes_be())
}

/// Returns the string that a controller writes for a constant. A number of a type that a server
/// translates from strings is written in decimal.
fn string(program: &Program, expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::ErrorCode(id) => Some(program.errors[*id].as_str().to_owned()),
        ExprKind::EnumMember(id, member) if program.enums[*id].underlying.is_none() => {
            let (name, _) = program.enums[*id].members.get(*member)?;
            Some(name.as_str().to_owned())
        }
        _ => bits(program, expr).map(|value| value.to_string()),
    }
}

/// The format in which a controller writes a value.
enum Size {
    /// A number.
    Bits(u32),
    /// A string.
    Text,
}

fn size(program: &Program, ty: TyId) -> Option<Size> {
    match program.types.get(ty) {
        Ty::Bool => Some(Size::Bits(1)),
        Ty::ErrorCode => Some(Size::Text),
        Ty::Enum(id) if program.enums[*id].underlying.is_none() => Some(Size::Text),
        Ty::NewType(id) => {
            let decl = &program.new_types[*id];
            match is_string(&decl.annotations) {
                true => Some(Size::Text),
                false => size(program, decl.underlying),
            }
        }
        _ => width(program, ty).map(Size::Bits),
    }
}

/// Returns true if `@p4runtime_translation` maps a type's values to strings.
fn is_string(annotations: &[Annotation]) -> bool {
    named(annotations, "p4runtime_translation").any(|annotation| match &annotation.body {
        AnnotationBody::Tokens(tokens) => tokens
            .last()
            .is_some_and(|last| last.kind == AnnotationTokenKind::Word && &*last.text == "string"),
        _ => false,
    })
}
