//! Words of a line.

use super::ObjectTextError;

/// A word with its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) text: &'t str,
    pub(super) column: usize,
}

impl<'t> Token<'t> {
    /// Splits the word at the first `mark`. The second part is `None` without one.
    pub(super) fn split(self, mark: char) -> (Token<'t>, Option<Token<'t>>) {
        match self.text.split_once(mark) {
            None => (self, None),
            Some((before, after)) => {
                let column = self.column + before.chars().count() + 1;
                let text = before;
                let after = Token {
                    text: after,
                    column,
                };
                (Token { text, ..self }, Some(after))
            }
        }
    }
}

/// The words of a line, read one after the other.
pub(super) struct Tokens<'t> {
    line: usize,
    tokens: Vec<Token<'t>>,
    next: usize,
    /// Column after the last word.
    end: usize,
}

impl<'t> Tokens<'t> {
    /// Splits a line into words. `,` and `;` are words, a word in double quotes may have spaces,
    /// and a word that begins with `#` begins a comment.
    pub(super) fn of(text: &'t str, line: usize) -> Tokens<'t> {
        let mut tokens: Vec<Token<'t>> = Vec::new();
        let mut rest = text;
        let mut column = 1;
        let mut end = 1;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '#' => break,
                ',' | ';' => 1,
                '"' => rest[1..].find('"').map_or(rest.len(), |close| close + 2),
                first if first.is_whitespace() => {
                    rest = &rest[first.len_utf8()..];
                    column += 1;
                    continue;
                }
                _ => {
                    let is_end = |c: char| c.is_whitespace() || c == ',' || c == ';';
                    rest.find(is_end).unwrap_or(rest.len())
                }
            };
            let (word, after) = rest.split_at(length);
            tokens.push(Token { text: word, column });
            column += word.chars().count();
            end = column;
            rest = after;
        }
        Tokens {
            line,
            tokens,
            next: 0,
            end,
        }
    }

    pub(super) fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.next).copied()
    }

    /// Returns the next word. `what` says what is needed, for the error.
    pub(super) fn next(&mut self, what: &str) -> Result<Token<'t>, ObjectTextError> {
        let token = self.peek().ok_or_else(|| ObjectTextError {
            line: self.line,
            column: self.end,
            message: format!("the line ends, but {what} is needed here"),
        })?;
        self.next += 1;
        Ok(token)
    }

    /// Gives the last word back.
    pub(super) fn back(&mut self) {
        self.next = self.next.saturating_sub(1);
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let is_it = self.peek().is_some_and(|token| token.text == word);
        self.next += usize::from(is_it);
        is_it
    }

    /// Returns an error at a word.
    pub(super) fn error(&self, at: Token<'_>, message: impl Into<String>) -> ObjectTextError {
        ObjectTextError {
            line: self.line,
            column: at.column,
            message: message.into(),
        }
    }
}
