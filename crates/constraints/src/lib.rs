//! Crate `constraints`: the p4-constraints language of `@entry_restriction` and
//! `@action_restriction`. A constraint is parsed and type-checked once per program and evaluated
//! for each update.
//!
//! **In:** the text of a constraint, the types of match keys or action parameters, and their values
//! (of matches: [`Type::matched`]). **Out:** a [`Constraint`], and the result of its evaluation.
//!
//! Invariants:
//! - Grammar, precedence and types are those of the p4-constraints language specification.
//! - Extensions: names may have indices and `$`, numbers may have `_`, and values that a
//!   controller writes as strings are compared with string literals.
//! - A constraint that passed [`Constraint::check`] evaluates to a value for all values of its
//!   names.
//! - Parsing takes linear time, and the nesting depth of an expression is limited.

mod matched;
mod number;
mod parse;

use std::fmt;

pub use matched::Match;
pub use number::{Int, Number};

/// Maximum length of a constraint's text, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// A parsed constraint: a list of statements that must all hold.
#[derive(Debug)]
pub struct Constraint {
    /// The expression and the source text of each statement.
    statements: Vec<(Expr, String)>,
}

/// The type of a match key, an action parameter or an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A Boolean.
    Bool,
    /// An integer of arbitrary precision.
    Int,
    /// `bit<W>`: an action parameter, or a component of a match key.
    Bits(u32),
    /// An exact match key.
    Exact(u32),
    /// A ternary match key.
    Ternary(u32),
    /// An LPM match key.
    Lpm(u32),
    /// A range match key.
    Range(u32),
    /// An optional match key.
    Optional(u32),
    /// An exact match key or an action parameter that the controller writes as a string.
    Text,
    /// An optional match key that the controller writes as a string.
    OptionalText,
}

/// A value of a [`Type`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A Boolean.
    Bool(bool),
    /// An integer of arbitrary precision.
    Int(Int),
    /// `bit<W>`.
    Bits(u32, Number),
    /// An exact match key.
    Exact(u32, Number),
    /// A ternary match key: value and mask.
    Ternary(u32, Number, Number),
    /// An LPM match key: value and prefix length.
    Lpm(u32, Number, u32),
    /// A range match key: lower and upper bound, both inclusive.
    Range(u32, Number, Number),
    /// An optional match key: value and mask. The mask is 0 for a wildcard.
    Optional(u32, Number, Number),
    /// A string.
    Text(String),
    /// An optional string; `None` is the wildcard.
    OptionalText(Option<String>),
}

/// A name that a constraint refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'n> {
    /// A match key of the table, or a parameter of the action.
    Own(&'n str),
    /// An attribute of the table entry: `::priority`.
    Attribute(&'n str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    Bool(bool),
    Number(Int),
    Text(String),
    Name(String),
    Attribute(String),
    Part(Box<Expr>, String),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Implies(Box<[Expr; 2]>),
    Compare(Comparison, Box<[Expr; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

type Types<'n> = &'n dyn Fn(Name<'_>) -> Option<Type>;
type Values<'n> = &'n dyn Fn(Name<'_>) -> Option<Value>;

impl Constraint {
    /// Parses a constraint.
    ///
    /// # Errors
    /// A syntax error, or a text of more than `MAX_BYTES` bytes.
    pub fn read(text: &str) -> Result<Constraint, String> {
        if text.len() > MAX_BYTES {
            return Err(format!(
                "it has {} bytes, and a constraint has at most {MAX_BYTES}",
                text.len()
            ));
        }
        Ok(Constraint {
            statements: parse::statements(text)?,
        })
    }

    /// Checks that all names are known and all types match.
    ///
    /// # Errors
    /// The first statement that does not type-check, and the reason.
    pub fn check(&self, types: Types<'_>) -> Result<(), String> {
        for (expr, text) in &self.statements {
            expects(expr, Type::Bool, types).map_err(|why| format!("`{text}`: {why}"))?;
        }
        Ok(())
    }

    /// Evaluates all statements.
    ///
    /// # Errors
    /// The first statement that is false: its source text and the values of its names.
    pub fn holds(&self, values: Values<'_>) -> Result<(), String> {
        for (expr, text) in &self.statements {
            if !truth(expr, values).map_err(|why| format!("`{text}`: {why}"))? {
                let mut named = Vec::new();
                names(expr, values, &mut named);
                let named = match named.is_empty() {
                    true => String::new(),
                    false => format!(", with {}", named.join(", ")),
                };
                return Err(format!("`{text}` does not hold{named}"));
            }
        }
        Ok(())
    }
}

impl Type {
    fn width(self) -> Option<u32> {
        match self {
            Type::Bits(width)
            | Type::Exact(width)
            | Type::Ternary(width)
            | Type::Lpm(width)
            | Type::Range(width)
            | Type::Optional(width) => Some(width),
            Type::Bool | Type::Int | Type::Text | Type::OptionalText => None,
        }
    }

    /// Returns true if an operand of type `other` is converted to this type in a comparison.
    fn takes(self, other: Type) -> bool {
        match (self, other) {
            (Type::OptionalText, Type::Text) => true,
            (Type::Bits(_), Type::Bits(_)) => false,
            (to, Type::Bits(width)) => to.width() == Some(width),
            (to, Type::Int) => to.width().is_some(),
            _ => false,
        }
    }

    fn has_order(self) -> bool {
        matches!(self, Type::Int | Type::Bits(_) | Type::Exact(_))
    }

    /// Returns the type of a component of a match key, for example `::mask`.
    fn part(self, name: &str) -> Option<Type> {
        Some(match (self, name) {
            (
                Type::Exact(width)
                | Type::Ternary(width)
                | Type::Lpm(width)
                | Type::Optional(width),
                "value",
            )
            | (Type::Ternary(width) | Type::Optional(width), "mask")
            | (Type::Range(width), "low" | "high") => Type::Bits(width),
            (Type::Lpm(_), "prefix_length") => Type::Int,
            (Type::Text | Type::OptionalText, "value") => Type::Text,
            _ => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Bits(width) => write!(f, "bit<{width}>"),
            Type::Exact(width) => write!(f, "exact<{width}>"),
            Type::Ternary(width) => write!(f, "ternary<{width}>"),
            Type::Lpm(width) => write!(f, "lpm<{width}>"),
            Type::Range(width) => write!(f, "range<{width}>"),
            Type::Optional(width) => write!(f, "optional<{width}>"),
            Type::Text => f.write_str("string"),
            Type::OptionalText => f.write_str("optional<string>"),
        }
    }
}

fn name_of(expr: &Expr) -> Option<Name<'_>> {
    match expr {
        Expr::Name(name) => Some(Name::Own(name)),
        Expr::Attribute(name) => Some(Name::Attribute(name)),
        _ => None,
    }
}

fn shown(name: Name<'_>) -> String {
    match name {
        Name::Own(name) => name.to_owned(),
        Name::Attribute(name) => format!("::{name}"),
    }
}

/// Checks that an expression has the type `wanted`.
fn expects(expr: &Expr, wanted: Type, types: Types<'_>) -> Result<(), String> {
    let found = type_of(expr, types)?;
    match found == wanted {
        true => Ok(()),
        false => Err(format!(
            "an expression of type {wanted} is needed, not of {found}"
        )),
    }
}

fn type_of(expr: &Expr, types: Types<'_>) -> Result<Type, String> {
    let named = name_of(expr);
    Ok(match expr {
        Expr::Bool(_) => Type::Bool,
        Expr::Number(_) => Type::Int,
        Expr::Text(_) => Type::Text,
        Expr::Name(_) | Expr::Attribute(_) => {
            let known = named.and_then(types);
            known.ok_or_else(|| format!("there is no `{}`", named.map_or(String::new(), shown)))?
        }
        Expr::Part(inner, part) => {
            let whole = type_of(inner, types)?;
            let part_type = whole.part(part);
            part_type.ok_or_else(|| format!("there is no `::{part}` of type {whole}"))?
        }
        Expr::Not(inner) => {
            expects(inner, Type::Bool, types)?;
            Type::Bool
        }
        Expr::Negative(inner) => {
            expects(inner, Type::Int, types)?;
            Type::Int
        }
        Expr::All(operands) | Expr::Any(operands) => {
            for operand in operands {
                expects(operand, Type::Bool, types)?;
            }
            Type::Bool
        }
        Expr::Implies(operands) => {
            for operand in operands.iter() {
                expects(operand, Type::Bool, types)?;
            }
            Type::Bool
        }
        Expr::Compare(comparison, operands) => {
            let [left, right] = &**operands;
            let (left, right) = (type_of(left, types)?, type_of(right, types)?);
            let common = if left == right || left.takes(right) {
                left
            } else if right.takes(left) {
                right
            } else {
                let hint = match (left, right) {
                    (Type::Exact(1), Type::Bool) | (Type::Bool, Type::Exact(1)) => {
                        "; keys of type bool are 0 or 1"
                    }
                    _ => "",
                };
                return Err(format!(
                    "values of types {left} and {right}, of different kinds, are compared{hint}"
                ));
            };
            let is_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
            if !is_equality && !common.has_order() {
                return Err(format!("values of type {common} have no order"));
            }
            Type::Bool
        }
    })
}

fn truth(expr: &Expr, values: Values<'_>) -> Result<bool, String> {
    match value(expr, values)? {
        Value::Bool(truth) => Ok(truth),
        _ => Err("it is neither true nor false".to_owned()),
    }
}

fn value(expr: &Expr, values: Values<'_>) -> Result<Value, String> {
    Ok(match expr {
        Expr::Bool(truth) => Value::Bool(*truth),
        Expr::Number(number) => Value::Int(number.clone()),
        Expr::Text(text) => Value::Text(text.clone()),
        Expr::Name(_) | Expr::Attribute(_) => {
            let named = name_of(expr);
            let known = named.and_then(values);
            known.ok_or_else(|| format!("there is no `{}`", named.map_or(String::new(), shown)))?
        }
        Expr::Part(inner, name) => {
            let whole = value(inner, values)?;
            part(whole, name).ok_or_else(|| format!("there is no `::{name}`"))?
        }
        Expr::Not(inner) => Value::Bool(!truth(inner, values)?),
        Expr::Negative(inner) => match value(inner, values)? {
            Value::Int(number) => Value::Int(number.negated()),
            _ => return Err("`-` is for numbers".to_owned()),
        },
        Expr::All(operands) => {
            let mut all = true;
            for operand in operands {
                all = all && truth(operand, values)?;
            }
            Value::Bool(all)
        }
        Expr::Any(operands) => {
            let mut any = false;
            for operand in operands {
                any = any || truth(operand, values)?;
            }
            Value::Bool(any)
        }
        Expr::Implies(operands) => {
            let [left, right] = &**operands;
            Value::Bool(!truth(left, values)? || truth(right, values)?)
        }
        Expr::Compare(comparison, operands) => {
            let [left, right] = &**operands;
            let (left, right) = (value(left, values)?, value(right, values)?);
            Value::Bool(compare(left, *comparison, right)?)
        }
    })
}

fn part(whole: Value, name: &str) -> Option<Value> {
    Some(match (whole, name) {
        (
            Value::Exact(width, value)
            | Value::Ternary(width, value, _)
            | Value::Lpm(width, value, _)
            | Value::Optional(width, value, _),
            "value",
        )
        | (Value::Ternary(width, _, value) | Value::Optional(width, _, value), "mask")
        | (Value::Range(width, value, _), "low")
        | (Value::Range(width, _, value), "high") => Value::Bits(width, value),
        (Value::Lpm(_, _, length), "prefix_length") => {
            Value::Int(Int::new(Number::from_u64(length.into())))
        }
        (Value::Text(text), "value") => Value::Text(text),
        (Value::OptionalText(text), "value") => Value::Text(text.unwrap_or_default()),
        _ => return None,
    })
}

/// Converts a number or a string to the type of the value it is compared with.
fn converted(from: Value, like: &Value) -> Value {
    let width = match like {
        Value::Bits(width, ..)
        | Value::Exact(width, ..)
        | Value::Ternary(width, ..)
        | Value::Lpm(width, ..)
        | Value::Range(width, ..)
        | Value::Optional(width, ..) => *width,
        Value::OptionalText(_) => {
            return match from {
                Value::Text(text) => Value::OptionalText(Some(text)),
                other => other,
            };
        }
        Value::Bool(_) | Value::Int(_) | Value::Text(_) => return from,
    };
    let number = match from {
        Value::Int(number) => number.modulo(width),
        Value::Bits(_, number) => number,
        other => return other,
    };
    match like {
        Value::Exact(..) => Value::Exact(width, number),
        Value::Ternary(..) => Value::Ternary(width, number, Number::ones(width)),
        Value::Lpm(..) => Value::Lpm(width, number, width),
        Value::Range(..) => Value::Range(width, number.clone(), number),
        Value::Optional(..) => Value::Optional(width, number, Number::ones(width)),
        _ => Value::Bits(width, number),
    }
}

fn compare(left: Value, comparison: Comparison, right: Value) -> Result<bool, String> {
    let left = converted(left, &right);
    let right = converted(right, &left);
    let order = match (&left, &right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Bits(_, a), Value::Bits(_, b)) | (Value::Exact(_, a), Value::Exact(_, b)) => {
            Some(a.cmp(b))
        }
        _ => None,
    };
    let ordered = || order.ok_or_else(|| "it compares values that have no order".to_owned());
    Ok(match comparison {
        Comparison::Equal => left == right,
        Comparison::Unequal => left != right,
        Comparison::Less => ordered()?.is_lt(),
        Comparison::LessEqual => ordered()?.is_le(),
        Comparison::Greater => ordered()?.is_gt(),
        Comparison::GreaterEqual => ordered()?.is_ge(),
    })
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(truth) => truth.fmt(f),
            Value::Int(number) => number.fmt(f),
            Value::Bits(_, number) | Value::Exact(_, number) => number.fmt(f),
            Value::Ternary(_, value, mask) | Value::Optional(_, value, mask) => {
                write!(f, "{value} &&& {mask}")
            }
            Value::Lpm(_, value, length) => write!(f, "{value}/{length}"),
            Value::Range(_, low, high) => write!(f, "{low} .. {high}"),
            Value::Text(text) | Value::OptionalText(Some(text)) => write!(f, "'{text}'"),
            Value::OptionalText(None) => f.write_str("_"),
        }
    }
}

/// Collects the names of an expression, each with its value.
fn names(expr: &Expr, values: Values<'_>, all: &mut Vec<String>) {
    match expr {
        Expr::Name(_) | Expr::Attribute(_) | Expr::Part(..) => {
            let mut inner = expr;
            let mut parts = String::new();
            while let Expr::Part(whole, part) = inner {
                parts = format!("::{part}{parts}");
                inner = whole;
            }
            let (Some(name), Ok(value)) = (name_of(inner), value(expr, values)) else {
                return;
            };
            let text = format!("{}{parts} = {value}", shown(name));
            if !all.contains(&text) {
                all.push(text);
            }
        }
        Expr::Not(inner) | Expr::Negative(inner) => names(inner, values, all),
        Expr::All(operands) | Expr::Any(operands) => {
            operands.iter().for_each(|one| names(one, values, all));
        }
        Expr::Implies(operands) | Expr::Compare(_, operands) => {
            operands.iter().for_each(|one| names(one, values, all));
        }
        Expr::Bool(_) | Expr::Number(_) | Expr::Text(_) => {}
    }
}
