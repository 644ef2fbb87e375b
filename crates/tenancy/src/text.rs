//! Text format of rules, shared ports, connections and quotas: parsing and printing.

mod quota;
mod rule;
mod sharing;

use std::fmt;

/// Syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The wrong words; empty at the end of the text.
    pub at: String,
    /// The expected text.
    pub wanted: &'static str,
}

impl TextError {
    fn at(word: impl Into<String>, wanted: &'static str) -> TextError {
        TextError {
            at: word.into(),
            wanted,
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.is_empty() {
            true => write!(f, "the text ends where there should be {}", self.wanted),
            false => write!(f, "`{}` is not {}", self.at, self.wanted),
        }
    }
}

impl std::error::Error for TextError {}

/// Iterator over the words of a text.
struct Words<'t>(std::str::SplitWhitespace<'t>);

impl<'t> Words<'t> {
    fn of(text: &'t str) -> Words<'t> {
        Words(text.split_whitespace())
    }

    fn next(&mut self, wanted: &'static str) -> Result<&'t str, TextError> {
        self.0.next().ok_or_else(|| TextError::at("", wanted))
    }

    fn value<T: std::str::FromStr>(&mut self, wanted: &'static str) -> Result<T, TextError> {
        let word = self.next(wanted)?;
        word.parse().map_err(|_| TextError::at(word, wanted))
    }

    /// Consumes the next word if it is this one; returns true then.
    fn takes(&mut self, word: &str) -> bool {
        let mut rest = self.0.clone();
        let is_next = rest.next() == Some(word);
        if is_next {
            self.0 = rest;
        }
        is_next
    }

    fn end(mut self) -> Result<(), TextError> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(TextError::at(word, "the end of the text")),
        }
    }
}
