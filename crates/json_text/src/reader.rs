//! Recursive-descent parser of JSON (RFC 8259) that keeps places.

use std::collections::BTreeSet;

use crate::{JsonError, JsonMember, JsonNode, JsonValue, MAX_DEPTH};

/// Parses a text that is one JSON value. A byte order mark at its start is skipped.
///
/// # Errors
/// The first mistake.
pub fn parse(text: &str) -> Result<JsonNode, JsonError> {
    let mut reader = Reader {
        text,
        at: text.len() - text.trim_start_matches('\u{feff}').len(),
    };
    let node = reader.value(0)?;
    reader.skip_blanks();
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.wrong("the end of the text is expected here")),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn eat(&mut self, token: char) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.at += token.len_utf8();
        }
        found
    }

    /// Returns the error that something else is expected at this place.
    fn wrong(&self, message: &str) -> JsonError {
        let found = match self.peek() {
            None => "the end of the text".to_owned(),
            Some(found) => format!("`{}`", found.escape_debug()),
        };
        JsonError {
            at: self.at..self.at + self.peek().map_or(0, char::len_utf8),
            message: format!("{message}, not {found}"),
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, JsonError> {
        self.skip_blanks();
        if depth > MAX_DEPTH {
            return Err(JsonError {
                at: self.at..self.at + 1,
                message: format!("lists and objects are nested more than {MAX_DEPTH} deep"),
            });
        }
        let start = self.at;
        let value = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => JsonValue::Text(self.string()?),
            Some('-' | '0'..='9') => self.number()?,
            _ => self.word()?,
        };
        let at = start..self.at;
        Ok(JsonNode { at, value })
    }

    fn word(&mut self) -> Result<JsonValue, JsonError> {
        let words = [
            ("null", JsonValue::Null),
            ("true", JsonValue::Bool(true)),
            ("false", JsonValue::Bool(false)),
        ];
        for (word, value) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("a value is expected here"))
    }

    fn object(&mut self, depth: usize) -> Result<JsonValue, JsonError> {
        self.at += 1;
        let mut members: Vec<JsonMember> = Vec::new();
        let mut known = BTreeSet::new();
        self.skip_blanks();
        if self.eat('}') {
            return Ok(JsonValue::Object(members));
        }
        loop {
            self.skip_blanks();
            let start = self.at;
            if self.peek() != Some('"') {
                return Err(self.wrong("a key in double quotes is expected here"));
            }
            let key = self.string()?;
            let key_at = start..self.at;
            if !known.insert(key.clone()) {
                let message = format!("the object has the key \"{key}\" twice");
                return Err(JsonError {
                    at: key_at,
                    message,
                });
            }
            self.skip_blanks();
            if !self.eat(':') {
                return Err(self.wrong("`:` is expected here"));
            }
            let node = self.value(depth + 1)?;
            members.push(JsonMember { key, key_at, node });
            if self.ends_after_item('}')? {
                return Ok(JsonValue::Object(members));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<JsonValue, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_blanks();
        if self.eat(']') {
            return Ok(JsonValue::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.ends_after_item(']')? {
                return Ok(JsonValue::List(items));
            }
        }
    }

    /// Reads the separator after an item. Returns true if it closes the list or object.
    fn ends_after_item(&mut self, close: char) -> Result<bool, JsonError> {
        self.skip_blanks();
        if self.eat(',') {
            return Ok(false);
        }
        match self.eat(close) {
            true => Ok(true),
            false => Err(self.wrong(&format!("`,` or `{close}` is expected here"))),
        }
    }

    fn number(&mut self) -> Result<JsonValue, JsonError> {
        let start = self.at;
        self.eat('-');
        let first = self.at;
        self.digits()?;
        if self.at - first > 1 && self.text[first..].starts_with('0') {
            self.at = first;
            return Err(self.wrong("a number without leading zeros is expected here"));
        }
        if self.eat('.') {
            self.digits()?;
        }
        if self.eat('e') || self.eat('E') {
            let _ = self.eat('+') || self.eat('-');
            self.digits()?;
        }
        Ok(JsonValue::Number(self.text[start..self.at].to_owned()))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let rest = &self.text[self.at..];
        let count = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if count == 0 {
            return Err(self.wrong("a digit is expected here"));
        }
        self.at += count;
        Ok(())
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\u{0}'..='\u{1f}') => {
                    return Err(JsonError {
                        at: start..self.at,
                        message: "the string has no closing quote in its line".to_owned(),
                    });
                }
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some('\\') => text.push(self.escape()?),
                Some(other) => {
                    self.at += other.len_utf8();
                    text.push(other);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        let plain = match self.next() {
            Some(same @ ('"' | '\\' | '/')) => Some(same),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('u') => self.code_point(),
            _ => None,
        };
        plain.ok_or_else(|| JsonError {
            at: start..self.at,
            message: "this is no escape of JSON".to_owned(),
        })
    }

    /// Reads the digits of `\uXXXX`, and the second half of a surrogate pair.
    fn code_point(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        let is_pair = self.eat('\\') && self.eat('u');
        let second = self.hex4().filter(|_| is_pair)?;
        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low)
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
        self.at += 4;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_places_and_their_digits() {
        let text = "{\"a\": [1, -2.5e3], \"b\\n\": \"\\u00e9\\ud83d\\ude00\", \"c\": null}";
        let node = parse(text).unwrap();
        let items = node.get("a").and_then(JsonNode::items).unwrap();
        assert_eq!(items[0].integer(), Some(1));
        assert_eq!(items[1].float(), Some(-2500.0));
        assert_eq!(&text[items[1].at.clone()], "-2.5e3");
        assert_eq!(node.get("b\n").and_then(JsonNode::text), Some("é😀"));
        assert_eq!(node.get("c").unwrap().value, JsonValue::Null);
        assert_eq!(&text[node.members().unwrap()[1].key_at.clone()], "\"b\\n\"");
    }

    #[test]
    fn what_is_no_json_is_refused_at_its_place() {
        for (text, at, words) in [
            ("", 0, "a value is expected"),
            ("{\"a\": 1,}", 8, "a key in double quotes"),
            ("[1 2]", 3, "`,` or `]`"),
            ("{\"a\" 1}", 5, "`:` is expected"),
            ("{\"a\": 1, \"a\": 2}", 9, "twice"),
            ("[01]", 1, "leading zeros"),
            ("[1.]", 3, "a digit"),
            ("\"abc", 0, "no closing quote"),
            ("\"\\x\"", 1, "no escape"),
            ("\"\\ud800x\"", 1, "no escape"),
            ("\"\\u+123\"", 1, "no escape"),
            ("1 1", 2, "the end of the text"),
            ("nul", 0, "a value is expected"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.at.start, at, "{text}: {error}");
            assert!(error.message.contains(words), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).unwrap_err().message.contains("nested"));
    }

    #[test]
    fn cut_texts_are_refused_without_a_panic() {
        let text = "{\"k\\u00e9y\": [true, {\"b\": -1.5e+7}, \"\\ud83d\\ude00é\"]}";
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert!(parse(&text[..end]).is_err(), "{}", &text[..end]);
        }
    }
}
