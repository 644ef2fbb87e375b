//! Crate `json_text`: JSON text with the place of each value, for messages that name a line.
//!
//! **In:** a text. **Out:** a [`JsonNode`] with the byte range of each value and key, or the first
//! [`JsonError`]. It imports no other crate, and does no I/O.
//!
//! Invariants:
//! - The grammar is that of RFC 8259. A key that an object has twice is an error.
//! - Depth is at most [`MAX_DEPTH`], so no text exhausts the stack.
//! - A number keeps its digits as written, so no value loses precision.
//!
//! Tests: in `reader.rs`.

mod reader;

use std::fmt;
use std::ops::Range;

pub use reader::parse;

/// Maximum depth of nested lists and objects.
pub const MAX_DEPTH: usize = 128;

/// A value, with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonNode {
    /// Byte range of the value in the text.
    pub at: Range<usize>,
    /// The value.
    pub value: JsonValue,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as written.
    Number(String),
    /// A string without quotes and escapes.
    Text(String),
    /// A list.
    List(Vec<JsonNode>),
    /// An object, in the order of the text.
    Object(Vec<JsonMember>),
}

/// A key of an object, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonMember {
    /// The key.
    pub key: String,
    /// Byte range of the key in the text, with its quotes.
    pub key_at: Range<usize>,
    /// The value.
    pub node: JsonNode,
}

/// Error: a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Byte range of the text that is wrong.
    pub at: Range<usize>,
    /// Description of the mistake.
    pub message: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JsonError {}

impl JsonNode {
    /// Returns the value of a key, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&JsonNode> {
        let mut members = self.members()?.iter();
        let found = members.find(|member| member.key == key)?;
        Some(&found.node)
    }

    /// Returns the members, if this is an object.
    pub fn members(&self) -> Option<&[JsonMember]> {
        match &self.value {
            JsonValue::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns the items, if this is a list.
    pub fn items(&self) -> Option<&[JsonNode]> {
        match &self.value {
            JsonValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the text, if this is a string.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            JsonValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a string or the digits of a number.
    pub fn word(&self) -> Option<&str> {
        match &self.value {
            JsonValue::Text(text) | JsonValue::Number(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, if this is one without a fraction that fits 64 bits.
    pub fn integer(&self) -> Option<i64> {
        match &self.value {
            JsonValue::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Returns the number, if this is one.
    pub fn float(&self) -> Option<f64> {
        match &self.value {
            JsonValue::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Returns the truth value, if this is one.
    pub fn truth(&self) -> Option<bool> {
        match self.value {
            JsonValue::Bool(truth) => Some(truth),
            _ => None,
        }
    }
}

/// Returns true if a text begins as a JSON object does. Neither an entries file nor a file of
/// commands begins so.
pub fn looks_like_object(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with(['"', '}']))
}
