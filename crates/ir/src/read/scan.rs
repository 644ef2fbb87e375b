//! Scanner: words, names, numbers and strings of IR text.

use bits::Value;
use support::work::checkpoint;

use super::{Failure, Read, ReadError};
use crate::types::MAX_WIDTH;
use crate::verify::MAX_NESTING;
use crate::words::{bare_len, is_bare};

/// The text and the current position.
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
    nesting: u32,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Scanner {
            text,
            at: 0,
            nesting: 0,
        }
    }

    /// Adds line and column to a failure.
    pub(super) fn locate(&self, failure: Failure) -> ReadError {
        let before = &self.text[..failure.at];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |n: usize| u32::try_from(n + 1).unwrap_or(u32::MAX);
        ReadError {
            line: count(before.matches('\n').count()),
            column: count(before[line_start..].chars().count()),
            message: failure.message,
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) {
        loop {
            checkpoint();
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// Returns the offset of the next token.
    pub(super) fn here(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) fn failure(&self, message: impl Into<String>) -> Failure {
        Failure {
            at: self.at,
            message: message.into(),
        }
    }

    pub(super) fn at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    pub(super) fn looking_at(&mut self, what: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(what)
    }

    /// Returns true if no space precedes the next character.
    pub(super) fn is_glued(&self) -> bool {
        !self.text[..self.at].ends_with(char::is_whitespace)
    }

    pub(super) fn at_annotation(&mut self) -> bool {
        self.looking_at("@") && !self.second_is_digit()
    }

    pub(super) fn at_loc(&mut self) -> bool {
        self.looking_at("@") && self.second_is_digit()
    }

    pub(super) fn at_colon_digit(&self) -> bool {
        self.rest().starts_with(':') && self.second_is_digit()
    }

    fn second_is_digit(&self) -> bool {
        self.rest()
            .as_bytes()
            .get(1)
            .is_some_and(u8::is_ascii_digit)
    }

    /// Consumes the punctuation if it comes next.
    pub(super) fn eat(&mut self, what: &str) -> bool {
        let there = self.looking_at(what);
        if there {
            self.at += what.len();
        }
        there
    }

    pub(super) fn expect(&mut self, what: &str) -> Read<()> {
        if self.eat(what) {
            Ok(())
        } else {
            Err(self.failure(format!("'{what}' is expected")))
        }
    }

    /// Returns the next identifier without consuming it; empty if there is none.
    pub(super) fn peek_ident(&mut self) -> &'t str {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$');
        &rest[..end.unwrap_or(rest.len())]
    }

    pub(super) fn ident(&mut self) -> Read<&'t str> {
        let ident = self.peek_ident();
        if ident.is_empty() {
            return Err(self.failure("a word is expected"));
        }
        self.at += ident.len();
        Ok(ident)
    }

    /// Consumes the word if it comes next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let there = self.peek_ident() == word;
        if there {
            self.at += word.len();
        }
        there
    }

    pub(super) fn keyword(&mut self, word: &str) -> Read<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            Err(self.failure(format!("'{word}' is expected")))
        }
    }

    /// Reads a name, bare or between single quotes.
    pub(super) fn name(&mut self) -> Read<String> {
        if self.looking_at("'") {
            return self.quoted('\'');
        }
        let name = &self.rest()[..bare_len(self.rest())];
        if !is_bare(name) {
            return Err(self.failure("a name is expected"));
        }
        self.at += name.len();
        Ok(name.to_owned())
    }

    /// Reads the name of an annotation. A bracket after it is not part of it.
    pub(super) fn annotation_name(&mut self) -> Read<String> {
        if self.looking_at("'") {
            return self.quoted('\'');
        }
        let rest = self.rest();
        let bare = &rest[..bare_len(rest)];
        let name = bare.split('[').next().unwrap_or(bare);
        if !is_bare(name) {
            return Err(self.failure("an annotation's name is expected"));
        }
        self.at += name.len();
        Ok(name.to_owned())
    }

    /// Reads a string between double quotes.
    pub(super) fn text(&mut self) -> Read<String> {
        self.skip_space();
        self.quoted('"')
    }

    fn quoted(&mut self, quote: char) -> Read<String> {
        let start = self.at;
        let mut chars = self.rest().char_indices();
        if chars.next().map(|(_, c)| c) != Some(quote) {
            return Err(self.failure(format!("{quote} is expected")));
        }
        let mut out = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.at = start + at + 1;
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('u') => {
                        let digits: String = chars
                            .by_ref()
                            .map(|(_, c)| c)
                            .skip_while(|&c| c == '{')
                            .take_while(|&c| c != '}')
                            .collect();
                        let c = u32::from_str_radix(&digits, 16)
                            .ok()
                            .and_then(char::from_u32);
                        out.push(c.ok_or_else(|| self.failure("a bad \\u{...} in this text"))?);
                    }
                    Some(c) => out.push(c),
                    None => break,
                },
                '\n' => break,
                c => out.push(c),
            }
        }
        Err(self.failure("this text does not end on its line"))
    }

    fn digits(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let digits = &rest[..end.unwrap_or(rest.len())];
        self.at += digits.len();
        digits
    }

    /// Reads a decimal number.
    pub(super) fn number<N: std::str::FromStr>(&mut self) -> Read<N> {
        let at = self.here();
        let digits = self.digits();
        digits.parse().map_err(|_| {
            let message = if digits.is_empty() {
                "a number is expected".to_owned()
            } else {
                format!("{digits} is too large here")
            };
            Failure { at, message }
        })
    }

    /// Reads a value with its width: `8w0x45`, or signed `8s0xff` (then the flag is true).
    pub(super) fn literal(&mut self) -> Read<(Value, bool)> {
        let at = self.here();
        let width: u32 = self.number()?;
        let signed = match self.rest().as_bytes().first() {
            Some(b'w') => false,
            Some(b's') => true,
            _ => return Err(self.failure("'w' or 's' is expected after the width of a value")),
        };
        if width > MAX_WIDTH {
            let message = format!("a value has at most {MAX_WIDTH} bits");
            return Err(Failure { at, message });
        }
        self.at += 1;
        let digits = self.ident()?;
        let value = Value::parse(digits, width).map_err(|e| Failure {
            at,
            message: e.to_string(),
        })?;
        Ok((value, signed))
    }

    pub(super) fn enter(&mut self) -> Read<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.failure(format!("more than {MAX_NESTING} levels of nesting")));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.nesting -= 1;
    }

    /// Skips to the end of an item: past the `}` that closes the first `{`, or past a `;` outside
    /// braces. A `{` right after a name selects an element and does not count.
    pub(super) fn skip_item(&mut self) -> Read<()> {
        let mut open = 0u32;
        let mut is_choice = false;
        loop {
            self.skip_space();
            let is_behind = !self.text[..self.at].ends_with(char::is_whitespace);
            let Some(c) = self.rest().chars().next() else {
                return Err(self.failure("'}' or ';' is expected before the end"));
            };
            if c == '"' || c == '\'' {
                self.quoted(c)?;
                continue;
            }
            self.at += c.len_utf8();
            match c {
                '{' => {
                    is_choice |= open == 0 && is_behind;
                    open += 1;
                }
                '}' if open == 1 && is_choice => {
                    open = 0;
                    is_choice = false;
                }
                '}' if open <= 1 => return Ok(()),
                '}' => open -= 1,
                ';' if open == 0 => return Ok(()),
                _ => {}
            }
        }
    }
}
