//! The lexer: converts a file's text to tokens, with the line structure that the preprocessor
//! needs.
//!
//! It never fails. A character that begins no token becomes `Unknown`. The parser rejects it, but
//! an unstructured annotation may contain it. `>>` is one token; the parser splits it in nested
//! generics.

use std::sync::Arc;

use crate::diag::{Diagnostic, Diagnostics};
use crate::source::Span;
use crate::token::{AFTER_NEWLINE, AFTER_SPACE, Interner, LINE_START, Symbol, Token, TokenKind};

/// Maximum length in bytes of a name, a number, a string or a run of unknown characters. Messages
/// repeat them.
pub(crate) const MAX_TOKEN_BYTES: usize = 64 << 10;

/// Number of characters kept of a longer token.
const TOKEN_KEPT: usize = 64;

/// Lexer of one file.
#[derive(Debug)]
pub(crate) struct Lexer {
    text: Arc<str>,
    base: u32,
    pos: usize,
    /// True if the tokens end at the end of the line (inside a directive).
    in_directive: bool,
    /// The flags of the next token.
    pending: u8,
    /// No quote before this byte of the line starts a string that ends on the line.
    lone_quotes: usize,
    /// Progress in the head of a foreign block.
    head: ForeignHead,
}

/// Tokens of `extern "C" {` that the lexer has just returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForeignHead {
    /// None.
    None,
    /// `extern`.
    Extern,
    /// `extern "C"`: a `{` starts text in another language.
    Language,
}

/// Outputs of the lexer.
#[derive(Debug)]
pub(crate) struct LexContext<'a> {
    pub(crate) interner: &'a mut Interner,
    pub(crate) found: &'a mut Diagnostics,
}

impl Lexer {
    pub(crate) fn new(text: Arc<str>, base: u32) -> Lexer {
        let pos = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Lexer {
            text,
            base,
            pos,
            in_directive: false,
            pending: LINE_START | AFTER_NEWLINE,
            lone_quotes: 0,
            head: ForeignHead::None,
        }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text
            .as_bytes()
            .get(self.pos + ahead)
            .copied()
            .unwrap_or(0)
    }

    fn at_end(&self) -> bool {
        self.pos >= self.text.len()
    }

    fn position(&self) -> u32 {
        self.base + self.pos as u32
    }

    fn span_from(&self, start: usize) -> Span {
        Span::new(self.base + start as u32, self.position())
    }

    /// Starts a directive: until its end, `next` returns `End` at the end of the line.
    pub(crate) fn enter_directive(&mut self) {
        self.in_directive = true;
    }

    /// Skips the rest of the directive's line.
    pub(crate) fn leave_directive(&mut self, cx: &mut LexContext<'_>) {
        while self.next(cx).kind != TokenKind::End {}
        self.in_directive = false;
    }

    /// Leaves the directive without skipping its line.
    pub(crate) fn abandon_directive(&mut self) {
        self.in_directive = false;
    }

    /// Returns true if the next character, after blanks and comments, is this byte. Consumes and
    /// reports nothing.
    pub(crate) fn next_is(&self, byte: u8) -> bool {
        let mut ahead = Lexer {
            text: self.text.clone(),
            pending: 0,
            ..*self
        };
        ahead.skip_blank(&mut Diagnostics::new());
        ahead.byte(0) == byte
    }

    /// Returns the next token; `End` at the end of the file (or of the line, inside a directive).
    pub(crate) fn next(&mut self, cx: &mut LexContext<'_>) -> Token {
        self.skip_blank(cx.found);
        let flags = std::mem::take(&mut self.pending);
        let start = self.pos;
        if self.at_end() || (self.in_directive && self.byte(0) == b'\n') {
            return Token {
                kind: TokenKind::End,
                flags,
                symbol: Interner::EMPTY,
                span: self.span_from(start),
            };
        }
        let (kind, symbol) = match self.byte(0) {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(cx),
            b'0'..=b'9' => self.number(cx),
            b'"' => self.string(cx),
            b'{' if self.head == ForeignHead::Language => self.foreign_block(cx),
            _ => self.punctuation(cx),
        };
        self.head = match (kind, self.head) {
            (TokenKind::Extern, _) => ForeignHead::Extern,
            (TokenKind::String, ForeignHead::Extern) => ForeignHead::Language,
            _ => ForeignHead::None,
        };
        let symbol = match kind {
            TokenKind::Foreign => symbol,
            _ => self.checked_length(start, symbol, cx),
        };
        Token {
            kind,
            flags,
            symbol,
            span: self.span_from(start),
        }
    }

    /// Skips white space, comments and line continuations, and records their kinds.
    fn skip_blank(&mut self, found: &mut Diagnostics) {
        loop {
            match self.byte(0) {
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.blank(1, AFTER_SPACE),
                b'\n' if self.in_directive => return,
                b'\n' => self.blank(1, LINE_START | AFTER_NEWLINE | AFTER_SPACE),
                b'\\' if self.continuation(0) > 0 => self.blank(self.continuation(0), AFTER_SPACE),
                b'/' if self.byte(1) == b'/' => self.line_comment(),
                b'/' if self.byte(1) == b'*' => self.block_comment(found),
                _ => return,
            }
        }
    }

    fn blank(&mut self, length: usize, flags: u8) {
        self.pos += length;
        self.pending |= flags;
    }

    /// Returns the length of a line continuation `ahead` of the current position, or 0.
    fn continuation(&self, ahead: usize) -> usize {
        match (self.byte(ahead), self.byte(ahead + 1), self.byte(ahead + 2)) {
            (b'\\', b'\n', _) => 2,
            (b'\\', b'\r', b'\n') => 3,
            _ => 0,
        }
    }

    fn line_comment(&mut self) {
        self.pending |= AFTER_SPACE;
        while !self.at_end() && self.byte(0) != b'\n' {
            self.pos += self.continuation(0).max(1);
        }
    }

    fn block_comment(&mut self, found: &mut Diagnostics) {
        self.pending |= AFTER_SPACE;
        let start = self.pos;
        let comment = &self.text[start + 2..];
        let end = comment.find("*/");
        if comment[..end.unwrap_or(comment.len())].contains('\n') {
            self.pending |= AFTER_NEWLINE;
        }
        self.pos = end.map_or(self.text.len(), |end| start + 2 + end + 2);
        if end.is_none() {
            let span = Span::new(self.base + start as u32, self.base + start as u32 + 2);
            found.push(
                Diagnostic::error("E0101", span, "this comment has no end")
                    .hint("close it with `*/`"),
            );
        }
    }

    fn word(&mut self, cx: &mut LexContext<'_>) -> (TokenKind, Symbol) {
        let text = self.run(|b| b.is_ascii_alphanumeric() || b == b'_');
        let symbol = cx.interner.intern(&text);
        (Interner::word_kind(symbol), symbol)
    }

    /// Returns the following bytes that belong to the token, without line continuations.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> std::borrow::Cow<'_, str> {
        let start = self.pos;
        let mut cuts = Vec::new();
        loop {
            if belongs(self.byte(0)) {
                self.pos += 1;
                continue;
            }
            let cut = self.continuation(0);
            if cut == 0 || !belongs(self.byte(cut)) {
                break;
            }
            cuts.push((self.pos, cut));
            self.pos += cut;
        }
        if cuts.is_empty() {
            return self.text[start..self.pos].into();
        }
        let mut text = String::new();
        let mut from = start;
        for (at, length) in cuts {
            text.push_str(&self.text[from..at]);
            from = at + length;
        }
        text.push_str(&self.text[from..self.pos]);
        text.into()
    }

    /// Reads an integer with all adjacent letters, which the parser checks. So `0x##a` and `1UL`
    /// are one token for the preprocessor, as in C.
    fn number(&mut self, cx: &mut LexContext<'_>) -> (TokenKind, Symbol) {
        let text = self.run(|b| b.is_ascii_alphanumeric() || b == b'_');
        (TokenKind::Integer, cx.interner.intern(&text))
    }

    /// Reads a string up to the first quote that is not escaped. It may span lines.
    fn string(&mut self, cx: &mut LexContext<'_>) -> (TokenKind, Symbol) {
        let start = self.pos;
        let mut text = String::new();
        self.pos += 1;
        let mut from = self.pos;
        loop {
            match self.byte(0) {
                b'"' => break,
                b'\n' if self.in_directive => return self.no_string_end(start, from, text, cx),
                0 if self.at_end() => return self.no_string_end(start, from, text, cx),
                b'\\' if self.continuation(0) > 0 => {
                    text.push_str(&self.text[from..self.pos]);
                    self.pos += self.continuation(0);
                    from = self.pos;
                }
                b'\\' if self.pos + 1 < self.text.len() && self.byte(1) != b'\n' => self.pos += 2,
                _ => self.pos += 1,
            }
        }
        text.push_str(&self.text[from..self.pos]);
        self.pos += 1;
        if text.contains('\u{fffd}') {
            cx.found.push(not_utf8(self.span_from(start)));
        }
        (TokenKind::String, cx.interner.intern(&text))
    }

    fn no_string_end(
        &mut self,
        start: usize,
        from: usize,
        mut text: String,
        cx: &mut LexContext<'_>,
    ) -> (TokenKind, Symbol) {
        let line = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |end| start + end);
        let span = Span::new(self.base + start as u32, self.base + line as u32);
        cx.found.push(
            Diagnostic::error("E0100", span, "this string has no end").hint("close it with `\"`"),
        );
        text.push_str(&self.text[from..self.pos]);
        (TokenKind::String, cx.interner.intern(&text))
    }

    /// Reads text in C up to the brace that closes it. Only strings, characters, comments and
    /// braces are interpreted.
    fn foreign_block(&mut self, cx: &mut LexContext<'_>) -> (TokenKind, Symbol) {
        let start = self.pos;
        let end = foreign_end(&self.text.as_bytes()[start..]);
        self.pos = end.map_or(self.text.len(), |end| start + end);
        let brace = Span::new(self.base + start as u32, self.base + start as u32 + 1);
        if end.is_none() {
            let message = "this block of C has no end";
            let diagnostic = Diagnostic::error("E0103", brace, message);
            cx.found.push(diagnostic.hint("close it with `}`"));
        } else if self.text[start..self.pos].contains('\u{fffd}') {
            cx.found.push(not_utf8(brace));
        }
        (TokenKind::Foreign, cx.interner.intern("{ }"))
    }

    fn punctuation(&mut self, cx: &mut LexContext<'_>) -> (TokenKind, Symbol) {
        let rest = &self.text[self.pos..];
        if let Some((kind, symbol, length)) = Interner::punctuation(rest) {
            self.pos += length;
            return (kind, symbol);
        }
        let strange = |c: char| c.is_control() && !c.is_ascii_whitespace() || !c.is_ascii();
        let run = rest.find(|c| !strange(c)).unwrap_or(rest.len());
        let length = if run > 0 { run } else { 1 };
        let symbol = cx.interner.intern(&rest[..length]);
        self.pos += length;
        (TokenKind::Unknown, symbol)
    }

    /// Returns the rest of a directive's line, without blanks around it. The line's end is not
    /// consumed.
    pub(crate) fn rest_of_line(&mut self) -> (String, Span) {
        let start = self.pos;
        while !self.at_end() && self.byte(0) != b'\n' {
            self.pos += self.continuation(0).max(1);
        }
        let raw = &self.text[start..self.pos.min(self.text.len())];
        let text = raw.trim();
        let lead = raw.len() - raw.trim_start().len();
        let lo = self.base + (start + lead) as u32;
        (text.to_string(), Span::new(lo, lo + text.len() as u32))
    }

    /// Returns the name of an `#include`, if it is literal: `(name, in angle brackets, position)`.
    pub(crate) fn header_name(&mut self, found: &mut Diagnostics) -> Option<(String, bool, Span)> {
        self.skip_blank(found);
        let (angle, close) = match self.byte(0) {
            b'<' => (true, '>'),
            b'"' => (false, '"'),
            _ => return None,
        };
        let start = self.pos;
        let rest = &self.text[start + 1..];
        let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let name = line[..line.find(close)?].to_string();
        self.pos = start + name.len() + 2;
        Some((name, angle, self.span_from(start)))
    }

    /// Skips an excluded group up to the next directive. Stops after its `#` and returns its
    /// position.
    pub(crate) fn skip_to_directive(&mut self) -> Option<Span> {
        while !self.at_end() {
            self.pending = 0;
            self.skip_blank(&mut Diagnostics::new());
            let start = self.pos;
            match self.byte(0) {
                b'#' if self.pending & LINE_START != 0 => {
                    self.pos += 1;
                    self.pending = 0;
                    return Some(self.span_from(start));
                }
                b'"' => self.skip_string(),
                _ => self.pos += 1,
            }
            while self.pos < self.text.len() && !self.text.is_char_boundary(self.pos) {
                self.pos += 1;
            }
        }
        self.pos = self.text.len();
        None
    }

    /// Skips a string that ends on its line. A lone quote is an ordinary character.
    fn skip_string(&mut self) {
        self.pos += 1;
        if self.pos <= self.lone_quotes {
            return;
        }
        let rest = &self.text.as_bytes()[self.pos..];
        let mut i = 0;
        while let Some(&b) = rest.get(i) {
            match b {
                b'\n' => break,
                b'"' => {
                    self.pos += i + 1;
                    return;
                }
                b'\\' if rest.get(i + 1).is_some_and(|&b| b != b'\n') => i += 2,
                _ => i += 1,
            }
        }
        // Every quote up to here is escaped, so none of them has an end either.
        self.lone_quotes = self.pos + i;
    }

    /// Returns the symbol of a token; for one longer than [`MAX_TOKEN_BYTES`], that of its first
    /// characters.
    fn checked_length(&self, start: usize, symbol: Symbol, cx: &mut LexContext<'_>) -> Symbol {
        if self.pos - start <= MAX_TOKEN_BYTES {
            return symbol;
        }
        let lo = self.base + start as u32;
        let message = format!("this is longer than {MAX_TOKEN_BYTES} bytes");
        let diagnostic = Diagnostic::error("E0102", Span::new(lo, lo + 1), message);
        cx.found
            .push(diagnostic.hint("names, numbers and strings are shorter"));
        let text = cx.interner.text(symbol);
        let kept = text
            .char_indices()
            .nth(TOKEN_KEPT)
            .map_or("", |(end, _)| &text[..end]);
        let kept = kept.to_owned();
        cx.interner.intern(&kept)
    }
}

/// Returns the offset after the brace that closes a block of C, which starts at its opening brace.
fn foreign_end(text: &[u8]) -> Option<usize> {
    let at = |i: usize| text.get(i).copied().unwrap_or(0);
    let mut depth = 0usize;
    let mut i = 0;
    while i < text.len() {
        match (at(i), at(i + 1)) {
            (b'/', b'*') => {
                let comment = &text[i + 2..];
                i += 4 + comment.windows(2).position(|pair| pair == b"*/")?;
                continue;
            }
            (b'/', b'/') => {
                // A line that ends in a backslash continues the comment.
                while i < text.len() && (at(i) != b'\n' || at(i - 1) == b'\\') {
                    i += 1;
                }
                continue;
            }
            (quote @ (b'"' | b'\''), _) => {
                i += 1;
                while i < text.len() && at(i) != quote && at(i) != b'\n' {
                    i += if at(i) == b'\\' { 2 } else { 1 };
                }
            }
            (b'{', _) => depth += 1,
            (b'}', _) => {
                depth -= 1;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
        i += 1;
    }
    None
}

/// Returns the error for bytes that are not UTF-8 where the program needs text.
pub(crate) fn not_utf8(span: Span) -> Diagnostic {
    Diagnostic::error("E0002", span, "this file is not UTF-8 text").hint("save the file in UTF-8")
}
