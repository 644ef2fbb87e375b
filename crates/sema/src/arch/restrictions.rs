//! Checks `@entry_restriction` of tables and `@action_restriction` of actions. These constraints of
//! the p4-constraints language must be well formed and use only existing keys or parameters.
//!
//! Violations are warnings: packets do not depend on them. P4Runtime rejects such a program.

use constraints::{Constraint, Name, Type};
use support::work::checkpoint;
use syntax::ast::{AnnotationTokenKind, Direction};
use syntax::diag::{Diagnostic, Diagnostics};

use super::tables::width;
use crate::annotations::str_of;
use crate::code;
use crate::hir::{
    Action, Annotation, AnnotationBody, AnnotationValue, Key, Program, Table, Ty, TyId, VarKind,
};

pub(super) fn check(program: &Program, diagnostics: &mut Diagnostics) {
    for table in program.tables.values() {
        for annotation in named(&table.annotations, "entry_restriction") {
            let types = |name: Name<'_>| key_type(program, table, name);
            constraint(annotation, &types, diagnostics);
        }
    }
    for action in program.actions.values() {
        for annotation in named(&action.annotations, "action_restriction") {
            let types = |name: Name<'_>| param_type(program, action, name);
            constraint(annotation, &types, diagnostics);
        }
    }
}

fn named<'a>(list: &'a [Annotation], name: &'a str) -> impl Iterator<Item = &'a Annotation> {
    list.iter().filter(move |one| one.name.as_str() == name)
}

fn constraint(
    annotation: &Annotation,
    types: &dyn Fn(Name<'_>) -> Option<Type>,
    diagnostics: &mut Diagnostics,
) {
    checkpoint();
    let refusal = match text(annotation) {
        None => Some("it needs one or more strings".to_owned()),
        Some(text) => Constraint::read(&text)
            .and_then(|constraint| constraint.check(types))
            .err(),
    };
    if let Some(refusal) = refusal {
        let name = annotation.name.as_str();
        let message =
            format!("`@{name}` is no constraint, and P4Runtime refuses the program: {refusal}");
        diagnostics.push(Diagnostic::warning(
            code::W_ANNOTATION,
            annotation.span,
            message,
        ));
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
    let found = action.params.iter().find_map(|param| {
        let var = &program.vars[param.var];
        let own = str_of(&var.annotations, "name").unwrap_or(var.name.as_str());
        let is_data = var.kind == VarKind::Param(Direction::None);
        (own == name && is_data).then_some(var.ty)
    })?;
    match size(program, found)? {
        Size::Text => Some(Type::Text),
        Size::Bits(width) => Some(Type::Bits(width)),
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
