//! Text to tokens: of P4 and of the preprocessor, which share their spelling.

use std::collections::HashMap;
use std::sync::Arc;

use crate::diag::{Diagnostic, Diagnostics};
use crate::source::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or keyword.
    Word,
    /// An integer, with its width and base.
    Integer,
    /// A string; the token's text is what it means.
    String,
    /// Punctuation and operators.
    Punctuation,
    /// The end of the file.
    End,
}

/// A token.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: TokenKind,
    /// Its text.
    pub(crate) text: Arc<str>,
    /// Where it stands; for a token out of a macro, where the macro was used.
    pub(crate) span: Span,
    /// Whether it is the first of its line (continued lines are one).
    pub(crate) starts_line: bool,
    /// Whether blanks or comments stand in front of it.
    pub(crate) after_blank: bool,
    /// A macro's name that must not be expanded any more.
    pub(crate) is_painted: bool,
}

/// Tokens of all lengths, longest first.
const PUNCTUATION: &[&str] = &[
    "|+|=", "|-|=", "<<=", ">>=", "|+|", "|-|", "&&&", "...", "..", "<<", ">>", "&&", "||", "==",
    "!=", ">=", "<=", "++", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##", "+", "-", "*",
    "/", "%", "|", "&", "^", "~", "[", "]", "{", "}", "(", ")", "<", ">", "!", ":", ",", "?", ".",
    "=", ";", "@", "#",
];

/// Each text once.
#[derive(Default)]
pub(crate) struct Interner {
    texts: HashMap<Box<str>, Arc<str>>,
}

impl Interner {
    /// The shared copy of a text.
    pub(crate) fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = Arc::from(text);
        self.texts.insert(Box::from(text), Arc::clone(&shared));
        shared
    }
}

/// Splits a file's text, whose first byte has the position `base`, into tokens. The last one is [`TokenKind::End`].
pub(crate) fn lex(
    text: &str,
    base: u32,
    names: &mut Interner,
    diagnostics: &mut Diagnostics,
) -> Vec<Token> {
    let mut lexer = Lexer {
        text,
        base,
        at: 0,
        tokens: Vec::with_capacity(text.len() / 4),
        names,
        diagnostics,
        starts_line: true,
    };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    base: u32,
    at: usize,
    tokens: Vec<Token>,
    names: &'a mut Interner,
    diagnostics: &'a mut Diagnostics,
    starts_line: bool,
}

impl Lexer<'_> {
    fn run(&mut self) {
        loop {
            let before = self.at;
            self.skip_blanks();
            let after_blank = self.at > before;
            let Some(&first) = self.text.as_bytes().get(self.at) else {
                break;
            };
            let start = self.at;
            match first {
                b'"' => self.string(after_blank),
                b'0'..=b'9' => {
                    self.at += self.word_len();
                    self.push(TokenKind::Integer, start, after_blank);
                }
                b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'$' => {
                    self.at += self.word_len();
                    self.push(TokenKind::Word, start, after_blank);
                }
                _ => self.punctuation(after_blank),
            }
        }
        self.starts_line = true;
        let end = self.at;
        self.push(TokenKind::End, end, true);
    }

    fn span(&self, start: usize) -> Span {
        Span::new(self.base + start as u32, self.base + self.at as u32)
    }

    fn push(&mut self, kind: TokenKind, start: usize, after_blank: bool) {
        let text = self.names.get(&self.text[start..self.at]);
        self.push_text(kind, text, start, after_blank);
    }

    fn push_text(&mut self, kind: TokenKind, text: Arc<str>, start: usize, after_blank: bool) {
        let span = self.span(start);
        self.tokens.push(Token {
            kind,
            text,
            span,
            starts_line: self.starts_line,
            after_blank,
            is_painted: false,
        });
        self.starts_line = false;
    }

    fn word_len(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        rest.iter()
            .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')))
            .unwrap_or(rest.len())
    }

    /// Skips blanks, comments and continued line ends; notes line ends.
    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let bytes = rest.as_bytes();
            match bytes {
                [b'\n', ..] => {
                    self.starts_line = true;
                    self.at += 1;
                }
                [b' ' | b'\t' | b'\r' | 0x0b | 0x0c, ..] => self.at += 1,
                [b'\\', b'\n', ..] => self.at += 2,
                [b'\\', b'\r', b'\n', ..] => self.at += 3,
                [b'/', b'/', ..] => self.line_comment(),
                [b'/', b'*', ..] => self.block_comment(),
                [0xef, 0xbb, 0xbf, ..] => self.at += 3,
                _ => return,
            }
        }
    }

    fn line_comment(&mut self) {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            let continued =
                byte == b'\\' && matches!(self.text.as_bytes().get(self.at + 1), Some(b'\n'));
            match byte {
                b'\n' => return,
                _ if continued => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    fn block_comment(&mut self) {
        let start = self.at;
        match self.text[start + 2..].find("*/") {
            Some(length) => self.at = start + 2 + length + 2,
            None => {
                self.at = start + 2;
                let span = self.span(start);
                self.at = self.text.len();
                let error = Diagnostic::error("E0102", span, "this comment does not end");
                self.diagnostics.push(error.hint("add `*/`"));
            }
        }
        if self.text[start..self.at].contains('\n') {
            // A directive cannot begin behind a comment's end on a later line of the same logical line; P4 code may.
            self.starts_line = true;
        }
    }

    fn string(&mut self, after_blank: bool) {
        let start = self.at;
        let mut meaning = String::new();
        let mut chars = self.text[start + 1..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + 1 + at + 1;
                    let text = self.names.get(&meaning);
                    self.push_text(TokenKind::String, text, start, after_blank);
                    return;
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => meaning.push('\n'),
                    Some((_, 't')) => meaning.push('\t'),
                    Some((_, 'r')) => meaning.push('\r'),
                    Some((_, '\n')) | None => {}
                    Some((_, other)) => meaning.push(other),
                },
                other => meaning.push(other),
            }
        }
        let line = self.text[start..]
            .find('\n')
            .unwrap_or(self.text.len() - start);
        self.at = start + line;
        let error = Diagnostic::error("E0103", self.span(start), "this string does not end");
        self.diagnostics.push(error.hint("add `\"`"));
        let text = self.names.get(&meaning);
        self.push_text(TokenKind::String, text, start, after_blank);
    }

    fn punctuation(&mut self, after_blank: bool) {
        let start = self.at;
        let rest = &self.text[start..];
        if let Some(found) = PUNCTUATION.iter().find(|text| rest.starts_with(**text)) {
            self.at += found.len();
            return self.push(TokenKind::Punctuation, start, after_blank);
        }
        // Anything else is a token of its own: the parser refuses it where it is no part of a directive or a skipped branch.
        self.at += rest.chars().next().map_or(1, char::len_utf8);
        self.push(TokenKind::Punctuation, start, after_blank);
    }
}
