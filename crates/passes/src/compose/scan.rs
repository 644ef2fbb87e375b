//! Scanner for policy texts.

use support::work::checkpoint;

use super::policy::{PolicyError, Position};

/// A text and the current position.
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// Line and column of `at`.
    place: Position,
    /// True if only blanks precede `at` on its line.
    is_first: bool,
}

/// Maximum number of characters of a word that a message repeats.
const SHOWN: usize = 60;

/// Returns a word for a message; a long word is cut.
pub(super) fn shown(word: &str) -> String {
    match word.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &word[..end]),
        None => word.to_owned(),
    }
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Scanner {
            text,
            at: 0,
            place: Position { line: 1, column: 1 },
            is_first: true,
        }
    }

    /// Advances by a number of bytes.
    fn advance(&mut self, bytes: usize) {
        let end = self.at + bytes;
        for c in self.text[self.at..end].chars() {
            match c {
                '\n' => {
                    self.place = Position {
                        line: self.place.line + 1,
                        column: 1,
                    };
                    self.is_first = true;
                }
                c => {
                    self.place.column += 1;
                    self.is_first &= c.is_whitespace();
                }
            }
        }
        self.at = end;
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            checkpoint();
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.advance(blank);
            let rest = self.rest();
            let is_comment = rest.starts_with("//") || self.is_first && rest.starts_with('#');
            if !is_comment {
                return;
            }
            self.advance(rest.find('\n').unwrap_or(rest.len()));
        }
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    /// Returns the position of the next token.
    pub(super) fn position(&mut self) -> Position {
        self.skip();
        self.place
    }

    pub(super) fn error(&mut self, message: impl Into<String>) -> PolicyError {
        PolicyError {
            at: self.position(),
            message: message.into(),
        }
    }

    pub(super) fn unexpected(&mut self, expected: &str) -> PolicyError {
        self.skip();
        let found = shown(self.rest().split_whitespace().next().unwrap_or(""));
        match found.is_empty() {
            true => self.error(format!("the policy ends where {expected} is expected")),
            false => self.error(format!("`{found}` stands where {expected} is expected")),
        }
    }

    pub(super) fn looks_at(&mut self, what: &str) -> bool {
        self.skip();
        self.rest().starts_with(what)
    }

    pub(super) fn eat(&mut self, what: &str) -> bool {
        let is_there = self.looks_at(what);
        self.advance(if is_there { what.len() } else { 0 });
        is_there
    }

    /// Consumes a word that no other name character follows.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        self.skip();
        let behind = self.rest().strip_prefix(word);
        let is_whole = behind.is_some_and(|behind| !behind.starts_with(is_name));
        self.advance(if is_whole { word.len() } else { 0 });
        is_whole
    }

    /// Reads a name or a source: up to a space, equals sign, arrow, bar or bracket, or the text
    /// between double quotes.
    pub(super) fn source(&mut self) -> Option<&'t str> {
        self.skip();
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"')?;
            self.advance(end + 2);
            return Some(&quoted[..end]);
        }
        let ends = |&(at, c): &(usize, char)| {
            c.is_whitespace() || "=[]|\"".contains(c) || rest[at..].starts_with("->")
        };
        let end = rest
            .char_indices()
            .find(ends)
            .map_or(rest.len(), |(at, _)| at);
        self.advance(end);
        Some(&rest[..end]).filter(|source| !source.is_empty())
    }

    /// Reads a number in P4 syntax, without a width.
    pub(super) fn number(&mut self) -> Option<&'t str> {
        self.skip();
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        self.advance(end);
        Some(&rest[..end])
    }

    /// Reads names joined by dots, with stack indices in between (`hdr.vlan[0].id`).
    pub(super) fn path(&mut self) -> Option<&'t str> {
        self.skip();
        let rest = self.rest();
        let mut end = 0;
        loop {
            let name = &rest[end..];
            let len = name.find(|c| !is_name(c)).unwrap_or(name.len());
            if len == 0 {
                return None;
            }
            end += len;
            end += element(&rest[end..]);
            if !rest[end..].starts_with('.') {
                break;
            }
            end += 1;
        }
        self.advance(end);
        Some(&rest[..end])
    }
}

/// Returns the length of `[0]` before a dot. Other brackets select bits.
fn element(text: &str) -> usize {
    let inside = text
        .strip_prefix('[')
        .and_then(|text| text.split_once("]."));
    match inside {
        Some((index, _)) if index.chars().all(|c| c.is_ascii_digit()) => index.len() + 2,
        _ => 0,
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}
