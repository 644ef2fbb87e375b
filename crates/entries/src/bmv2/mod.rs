//! Entries in the formats of BMv2's tools: command files of `simple_switch_CLI`, and the runtime
//! JSON of the P4 tutorials.
//!
//! Both become the same updates as entries files. BMv2 ignores bits of a key that its prefix or
//! mask excludes, and so does this module.

mod commands;
mod config;
mod handles;
mod replication;
mod runtime_json;

use ir::{KeyMatch, MatchKind};

use crate::error::EntriesError;
use crate::resolve::Word;
use crate::schema::{Key, Schema};
use crate::update::Update;
use crate::value;

/// An update, with the byte range of its statement.
pub(crate) type PlacedUpdate = (Update, (usize, usize));

/// Format of a text with entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntriesFormat {
    /// The format of docs/reference/entries.md.
    Statements,
    /// Commands of `simple_switch_CLI`.
    Commands,
    /// Runtime JSON.
    Json,
}

impl EntriesFormat {
    /// Returns the format of a text.
    pub(crate) fn of(text: &str) -> EntriesFormat {
        if json_text::looks_like_object(text) {
            return EntriesFormat::Json;
        }
        match commands::is_commands(text) {
            true => EntriesFormat::Commands,
            false => EntriesFormat::Statements,
        }
    }

    /// Returns true if text that follows this one cannot change its format.
    pub(crate) fn is_settled(text: &str) -> bool {
        json_text::looks_like_object(text) || commands::has_lines_of_format(text)
    }
}

/// Reads a text in one of BMv2's formats. Returns the updates in an order in which a device takes
/// them.
///
/// # Errors
/// All errors that were found.
pub(crate) fn read(
    schema: &Schema,
    text: &str,
    is_json: bool,
) -> Result<Vec<PlacedUpdate>, Vec<EntriesError>> {
    match is_json {
        true => runtime_json::read(schema, text),
        false => commands::read(schema, text),
    }
}

/// Values of a match as written.
#[derive(Clone, Copy)]
enum WrittenMatch<'a> {
    /// One value.
    Value(Word<'a>),
    /// A value and the length of its prefix, as in `10.0.0.0/8`.
    Prefix(Word<'a>, Word<'a>),
    /// A value and its mask.
    Masked(Word<'a>, Word<'a>),
    /// The first and the last value.
    Range(Word<'a>, Word<'a>),
}

/// Returns the match of a key. Bits outside a prefix or mask are cleared.
fn key_match(
    schema: &Schema,
    key: &Key,
    written: WrittenMatch<'_>,
) -> Result<KeyMatch, EntriesError> {
    let scalar = |word| value::scalar(schema, key.ty, word);
    let kind = key.match_kind;
    Ok(match written {
        WrittenMatch::Value(word) => value::exact_match(kind, scalar(word)?),
        WrittenMatch::Prefix(word, length) => {
            let value = scalar(word)?;
            let bits = length.text.parse::<u32>().ok();
            let Some(bits) = bits.filter(|bits| *bits <= value.width()) else {
                let message = format!("a prefix length from 0 to {} is expected", value.width());
                return Err(EntriesError::new(length.at(), message));
            };
            let mask = bits::Value::prefix_mask(bits, value.width());
            match kind {
                MatchKind::Ternary => KeyMatch::Ternary(value.and(&mask), mask),
                _ => KeyMatch::Lpm(value.and(&mask), bits),
            }
        }
        WrittenMatch::Masked(word, mask) => {
            let (value, mask) = (scalar(word)?, scalar(mask)?);
            KeyMatch::Ternary(value.and(&mask), mask)
        }
        WrittenMatch::Range(low, high) => {
            let at = Word::new(low.text, low.start);
            value::range(scalar(low)?, scalar(high)?, key.ty, at)?
        }
    })
}
