//! A TOML text as a value, with all of its mistakes.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use crate::mistake::{FileMistake, Mistakes};

/// Maximum number of syntax errors reported. After each one, the whole file is parsed again.
const MAX_FORM_MISTAKES: usize = 20;

/// A parsed file: its content, as far as it could be parsed, and the mistakes.
pub struct Parsed<T> {
    /// The content without unknown keys. `None` if a removed part may define names that others
    /// use.
    pub content: Option<T>,
    /// The mistakes, which the check of the content continues.
    pub mistakes: Mistakes,
}

/// Parses the text of a file. A part with an error is removed and the rest is parsed again, so
/// that one error hides no others. Each of these mistakes has the given hint: the page with the
/// keys. An unknown key also has the known one that is most like it.
pub fn parse<T: DeserializeOwned>(text: &str, hint: &str) -> Parsed<T> {
    let mut mistakes = Mistakes::of(text);
    let add = |mistakes: &mut Mistakes, error: &toml::de::Error| {
        let line = mistakes.line_of(error.span().map_or(0, |span| span.start));
        mistakes.add(FileMistake {
            line,
            message: error.message().trim_end().to_owned(),
            mend: match similar_key(error.message()) {
                Some(key) => format!("did you mean `{key}`? {hint}"),
                None => hint.to_owned(),
            },
        });
    };
    let (mut whole, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(MAX_FORM_MISTAKES) {
        add(&mut mistakes, error);
    }
    // If the text is not valid TOML, the parser's recovery is a guess.
    let mut is_whole = mistakes.is_empty();
    loop {
        let error = match T::deserialize(Deserializer::from(whole.clone())) {
            Ok(content) => {
                let content = is_whole.then_some(content);
                return Parsed { content, mistakes };
            }
            Err(error) => error,
        };
        let is_unknown = error.message().starts_with("unknown field");
        let is_removed = mistakes.len() < MAX_FORM_MISTAKES
            && error.span().is_some_and(|span| {
                let is_key = is_unknown && remove_entry(whole.get_mut(), span.start);
                is_whole &= is_key;
                is_key || remove_item(whole.get_mut(), span.start)
            });
        add(&mut mistakes, &error);
        if !is_removed {
            return Parsed {
                content: None,
                mistakes,
            };
        }
    }
}

/// Returns the known key that is like an unknown one, by the message of serde: "unknown field `a`,
/// expected `b` or `c`". `None` if there is none, and for other messages.
fn similar_key(message: &str) -> Option<&str> {
    let names = message.strip_prefix("unknown field ")?;
    let mut names = names.split('`').skip(1).step_by(2);
    nearest_name(names.next()?, names)
}

/// Returns the name that is most like a misspelt one, if at most a third of its letters differ.
pub fn nearest_name<'n>(unknown: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.map(|name| (strsim::osa_distance(unknown, name), name));
    let (distance, name) = near.min()?;
    (distance <= unknown.chars().count().div_ceil(3)).then_some(name)
}

/// Removes the innermost key, with its value, at a byte offset. Returns false if there is none.
fn remove_entry(table: &mut DeTable<'_>, at: usize) -> bool {
    let is_inside = table.iter_mut().any(|(_, value)| match value.get_mut() {
        DeValue::Table(table) => remove_entry(table, at),
        DeValue::Array(items) => items.iter_mut().any(|item| match item.get_mut() {
            DeValue::Table(table) => remove_entry(table, at),
            _ => false,
        }),
        _ => false,
    });
    let stands =
        |key: &Range<usize>, value: &Range<usize>| key.contains(&at) || value.contains(&at);
    if is_inside {
        return true;
    }
    let mut entries = table.iter();
    let found = entries.find(|(key, value)| stands(&key.span(), &value.span()));
    let key = found.map(|(key, _)| key.clone());
    key.is_some_and(|key| table.remove(&key).is_some())
}

/// Returns true if a byte offset is inside a value or its children. The span of a table covers
/// only its header.
fn reaches(value: &Spanned<DeValue<'_>>, at: usize) -> bool {
    value.span().contains(&at)
        || match value.get_ref() {
            DeValue::Table(table) => table
                .iter()
                .any(|(key, value)| key.span().contains(&at) || reaches(value, at)),
            DeValue::Array(items) => items.iter().any(|item| reaches(item, at)),
            _ => false,
        }
}

/// Removes the part of the file at a byte offset: an item of an array of tables, or a top-level
/// key with all of its contents. Returns false if there is none.
fn remove_item(file: &mut DeTable<'_>, at: usize) -> bool {
    for (_, value) in file.iter_mut() {
        if let DeValue::Array(items) = value.get_mut() {
            let mut kept = DeArray::new();
            let others = items.iter().filter(|item| !reaches(item, at));
            others.for_each(|item| kept.push(item.clone()));
            if kept.len() < items.len() {
                *items = kept;
                return true;
            }
        }
    }
    let mut entries = file.iter();
    let found = entries.find(|(key, value)| key.span().contains(&at) || reaches(value, at));
    let key = found.map(|(key, _)| key.clone());
    key.is_some_and(|key| file.remove(&key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_has_the_known_one_that_is_like_it() {
        for (message, expected) in [
            (
                "unknown field `windw`, expected one of `above`, `window`, `within`",
                Some("window"),
            ),
            (
                "unknown field `reflexs`, expected `reflex` or `rate`",
                Some("reflex"),
            ),
            ("unknown field `nmae`, expected `name`", Some("name")),
            ("unknown field `colour`, expected `name` or `rate`", None),
            ("missing field `name`", None),
            ("unknown field", None),
        ] {
            assert_eq!(similar_key(message), expected, "{message}");
        }
    }
}
