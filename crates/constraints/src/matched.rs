//! Matches of entries as values.

use crate::{Number, Type, Value};

/// Match of an entry for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// A wildcard.
    Any,
    /// One value.
    Exact(Number),
    /// Value and prefix length.
    Lpm(Number, u32),
    /// Value and mask.
    Ternary(Number, Number),
    /// Lower and upper bound, both inclusive.
    Range(Number, Number),
}

impl Type {
    /// Returns the value of a key of this type in an entry with this match. `None` if keys of this
    /// type have no such match, or are strings.
    #[must_use]
    pub fn matched(self, key: Match) -> Option<Value> {
        Some(match (self, key) {
            (Type::Exact(width), Match::Exact(value)) => Value::Exact(width, value),
            (Type::Exact(width), Match::Any) => Value::Exact(width, Number::default()),
            (Type::Ternary(width), Match::Any) => {
                Value::Ternary(width, Number::default(), Number::default())
            }
            (Type::Ternary(width), Match::Exact(value)) => {
                Value::Ternary(width, value, Number::ones(width))
            }
            (Type::Ternary(width), Match::Ternary(value, mask)) => {
                Value::Ternary(width, value, mask)
            }
            (Type::Optional(width), Match::Any) => {
                Value::Optional(width, Number::default(), Number::default())
            }
            (Type::Optional(width), Match::Exact(value)) => {
                Value::Optional(width, value, Number::ones(width))
            }
            (Type::Lpm(width), Match::Any) => Value::Lpm(width, Number::default(), 0),
            (Type::Lpm(width), Match::Exact(value)) => Value::Lpm(width, value, width),
            (Type::Lpm(width), Match::Lpm(value, length)) => Value::Lpm(width, value, length),
            (Type::Range(width), Match::Any) => {
                Value::Range(width, Number::default(), Number::ones(width))
            }
            (Type::Range(width), Match::Exact(value)) => Value::Range(width, value.clone(), value),
            (Type::Range(width), Match::Range(low, high)) => Value::Range(width, low, high),
            _ => return None,
        })
    }
}
