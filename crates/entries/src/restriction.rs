//! Restrictions of a program on its entries: `@entry_restriction` of tables and
//! `@action_restriction` of actions, in the p4-constraints language.

use std::sync::Arc;

use bits::Value;
use constraints::{Constraint, Int, Match, Name, Number, Type, Value as Meaning};
use ir::{
    ActionId, Annotation, ControllerTy, DataTy, KeyMatch, Loc, MatchKind, NamedTypeKind, Program,
    ScalarTy,
};

use crate::error::EntriesError;
use crate::schema::{Key, Param, Schema, Table, ValueTy};
use crate::update::{EntryAction, TableEntry, Update};

/// Name of the annotation of tables.
pub(crate) const OF_ENTRIES: &str = "entry_restriction";

/// Name of the annotation of actions.
pub(crate) const OF_ARGUMENTS: &str = "action_restriction";

/// The restriction on a table's entries, or on an action's arguments.
#[derive(Clone, Debug)]
pub struct Restriction {
    /// The constraint, or the reason why the annotation is none.
    constraint: Result<Arc<Constraint>, String>,
    /// The type of each key or parameter; `None` if a constraint cannot name it.
    types: Vec<Option<Type>>,
    /// File and line of the table or action, if known.
    place: Option<String>,
}

/// An object with a restriction: a table or an action.
#[derive(Clone, Copy)]
struct Restricted<'a> {
    what: &'static str,
    name: &'a str,
    annotation: &'static str,
    restriction: &'a Restriction,
}

impl Restriction {
    /// Reads the restriction on a table's entries from a P4Info. A text that is no constraint gives
    /// `None`: it is the server that knows its language.
    pub fn of_entries(text: &str, keys: &[Key]) -> Option<Restriction> {
        let types = keys.iter().map(|key| key_type(key, is_text(key.ty)));
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let restriction = Restriction::new(text, &names, types.collect(), true, None);
        restriction.constraint.is_ok().then_some(restriction)
    }

    /// Reads the restriction on an action's arguments from a P4Info. A text that is no constraint
    /// gives `None`.
    pub fn of_arguments(text: &str, params: &[Param]) -> Option<Restriction> {
        let types = params
            .iter()
            .map(|param| param_type(param, is_text(param.ty)));
        let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
        let restriction = Restriction::new(text, &names, types.collect(), false, None);
        restriction.constraint.is_ok().then_some(restriction)
    }

    /// Returns the restriction of a program's table.
    pub(crate) fn of_table(
        program: &Program,
        table: &ir::Table,
        keys: &[Key],
    ) -> Option<Restriction> {
        let annotation = named(&table.annotations, OF_ENTRIES)?;
        let written = table.keys.iter();
        let written = written.filter(|key| key.match_kind != MatchKind::Selector);
        let types = written
            .zip(keys)
            .map(|(own, key)| key_type(key, is_text_in(program, &own.data_ty)));
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        let types = types.collect();
        let place = place(program, table.loc);
        Some(Restriction::read(annotation, &names, types, true, place))
    }

    /// Returns the restriction of a program's action.
    pub(crate) fn of_action(
        program: &Program,
        action: &ir::Action,
        params: &[Param],
    ) -> Option<Restriction> {
        let annotation = named(&action.annotations, OF_ARGUMENTS)?;
        let types = action
            .params
            .iter()
            .zip(params)
            .map(|(own, param)| param_type(param, is_text_in(program, &own.data_ty)));
        let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
        let types = types.collect();
        let place = place(program, action.loc);
        Some(Restriction::read(annotation, &names, types, false, place))
    }

    fn read(
        annotation: &Annotation,
        names: &[&str],
        types: Vec<Option<Type>>,
        has_priority: bool,
        place: Option<String>,
    ) -> Restriction {
        match annotation.body.strings() {
            Some(text) => Restriction::new(&text, names, types, has_priority, place),
            None => Restriction {
                constraint: Err("it needs one or more strings".to_owned()),
                types,
                place,
            },
        }
    }

    fn new(
        text: &str,
        names: &[&str],
        types: Vec<Option<Type>>,
        has_priority: bool,
        place: Option<String>,
    ) -> Restriction {
        let type_of = |name: Name<'_>| match name {
            Name::Own(name) => types[names.iter().position(|own| *own == name)?],
            Name::Attribute(name) => (has_priority && name == "priority").then_some(Type::Int),
        };
        let constraint = Constraint::read(text).and_then(|constraint| {
            constraint.check(&type_of)?;
            Ok(Arc::new(constraint))
        });
        Restriction {
            constraint,
            types,
            place,
        }
    }
}

/// Checks an update against the restrictions of its table and of its actions. The error has no
/// position of its own: `at` is that of the update's statement.
pub(crate) fn check(
    schema: &Schema,
    update: &Update,
    at: (usize, usize),
) -> Result<(), EntriesError> {
    let broken = match update {
        Update::Insert(table, entry) => insertion(schema, &schema.tables[*table], entry),
        Update::SetDefault(table, call) => {
            let action = schema.tables[*table].actions.get(call.action);
            action.map_or(Ok(()), |action| arguments(schema, *action, &call.args))
        }
        Update::Member { action, args, .. } => arguments(schema, *action, args),
        _ => Ok(()),
    };
    broken.map_err(|(restricted, why)| restricted.error(&why, at))
}

/// Result of a check: the restriction that is broken, and the reason.
type Kept<'a> = Result<(), (Restricted<'a>, String)>;

impl Restricted<'_> {
    fn error(&self, why: &str, at: (usize, usize)) -> EntriesError {
        let (what, name, annotation) = (self.what, self.name, self.annotation);
        let error = EntriesError::new(at, format!("the {what} `{name}`: @{annotation}: {why}"));
        match &self.restriction.place {
            Some(place) => error.hint(format!("the {what} has this restriction at {place}")),
            None => error,
        }
    }

    fn holds(self, value: &dyn Fn(Name<'_>) -> Option<Meaning>) -> Result<(), (Self, String)> {
        match &self.restriction.constraint {
            Ok(constraint) => constraint.holds(value).map_err(|why| (self, why)),
            Err(why) => Err((self, format!("it is no constraint: {why}"))),
        }
    }
}

fn insertion<'a>(schema: &'a Schema, table: &'a Table, entry: &TableEntry) -> Kept<'a> {
    if let Some(restriction) = &table.restriction {
        let value = |name: Name<'_>| match name {
            Name::Own(name) => {
                let at = table.keys.iter().position(|key| key.name == name)?;
                key_value(
                    schema,
                    &table.keys[at],
                    restriction.types[at]?,
                    entry.keys.get(at)?,
                )
            }
            Name::Attribute("priority") => {
                let priority = u64::try_from(entry.priority.unwrap_or(0)).unwrap_or(0);
                Some(Meaning::Int(Int::new(Number::from_u64(priority))))
            }
            Name::Attribute(_) => None,
        };
        let restricted = Restricted {
            what: "table",
            name: &table.name,
            annotation: OF_ENTRIES,
            restriction,
        };
        restricted.holds(&value)?;
    }
    let call = |call: &ir::ActionCall| match table.actions.get(call.action) {
        Some(action) => arguments(schema, *action, &call.args),
        None => Ok(()),
    };
    match &entry.action {
        EntryAction::Call(one) => call(one),
        EntryAction::OneShot(actions) => actions.iter().try_for_each(|(one, _)| call(one)),
        EntryAction::Member(_) | EntryAction::Group(_) => Ok(()),
    }
}

fn arguments<'a>(schema: &'a Schema, action: ActionId, args: &[Value]) -> Kept<'a> {
    let action = &schema.actions[action];
    let Some(restriction) = &action.restriction else {
        return Ok(());
    };
    let value = |name: Name<'_>| {
        let Name::Own(name) = name else {
            return None;
        };
        let at = action.params.iter().position(|param| param.name == name)?;
        let (param, given) = (&action.params[at], args.get(at)?);
        Some(match restriction.types[at]? {
            Type::Bits(width) => Meaning::Bits(width, number(given)),
            _ => Meaning::Text(string(schema, param.ty, given)),
        })
    };
    let restricted = Restricted {
        what: "action",
        name: &action.name,
        annotation: OF_ARGUMENTS,
        restriction,
    };
    restricted.holds(&value)
}

fn key_value(schema: &Schema, key: &Key, ty: Type, given: &KeyMatch) -> Option<Meaning> {
    match (ty, given) {
        (Type::Text, KeyMatch::Exact(value)) => Some(Meaning::Text(string(schema, key.ty, value))),
        (Type::OptionalText, KeyMatch::Exact(value)) => {
            let text = string(schema, key.ty, value);
            Some(Meaning::OptionalText(Some(text)))
        }
        (Type::OptionalText, KeyMatch::Any) => Some(Meaning::OptionalText(None)),
        _ => ty.matched(match given {
            KeyMatch::Any => Match::Any,
            KeyMatch::Exact(value) => Match::Exact(number(value)),
            KeyMatch::Lpm(value, length) => Match::Lpm(number(value), *length),
            KeyMatch::Ternary(value, mask) => Match::Ternary(number(value), number(mask)),
            KeyMatch::Range(low, high) => Match::Range(number(low), number(high)),
        }),
    }
}

fn number(value: &Value) -> Number {
    Number::from_bytes(&value.to_be_bytes())
}

/// Returns the string that a controller writes for a value. A number of a type that a server
/// translates from strings is written in decimal, as a server does for one without a string.
fn string(schema: &Schema, ty: ValueTy, value: &Value) -> String {
    let member = |names: &[String]| names.get(value.to_u64()? as usize).cloned();
    let name = match ty {
        ValueTy::Text => Some(String::from_utf8_lossy(&value.to_be_bytes()).into_owned()),
        ValueTy::Scalar(ScalarTy::Error) => member(&schema.errors),
        ValueTy::Scalar(ScalarTy::Enum(id)) => member(&schema.enums[id].members),
        ValueTy::Scalar(_) => None,
    };
    name.unwrap_or_else(|| number(value).to_string())
}

/// Returns the type of a key; `None` if entries have no value for it.
fn key_type(key: &Key, is_text: bool) -> Option<Type> {
    let width = key.ty.width();
    Some(match (key.match_kind, is_text) {
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

fn param_type(param: &Param, is_text: bool) -> Option<Type> {
    Some(match is_text {
        true => Type::Text,
        false => Type::Bits(param.ty.width()),
    })
}

/// Returns true if a controller writes values of this type as strings.
fn is_text(ty: ValueTy) -> bool {
    matches!(
        ty,
        ValueTy::Text | ValueTy::Scalar(ScalarTy::Error | ScalarTy::Enum(_))
    )
}

/// Returns true if a controller writes values of this type of the program as strings.
fn is_text_in(program: &Program, ty: &DataTy) -> bool {
    let name = match ty {
        DataTy::Error => return true,
        DataTy::Named(name) => name,
        _ => return false,
    };
    let mut types = program.named_types.iter();
    match types
        .find(|named| named.name == *name)
        .map(|named| &named.kind)
    {
        Some(NamedTypeKind::Enum(_)) => true,
        Some(NamedTypeKind::NewType {
            underlying,
            translation,
        }) => {
            let is_translated = |to: &ir::Translation| to.controller == ControllerTy::String;
            translation.as_ref().is_some_and(is_translated) || is_text_in(program, underlying)
        }
        _ => false,
    }
}

fn named<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|one| one.name == name)
}

fn place(program: &Program, loc: Option<Loc>) -> Option<String> {
    let loc = loc?;
    let file = program.files.get(loc.file as usize)?;
    Some(format!("{file}:{}:{}", loc.line, loc.column))
}
