//! The parser's position in the tokens: lookahead, consumption, and error recovery.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::Name;
use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::not_utf8;
use crate::source::{SourceMap, Span};
use crate::token::{Class, Interner, LINE_START, Token};

/// Maximum recursion depth of the parser: nested expressions, statements and types.
pub(super) const MAX_DEPTH: u32 = 128;

/// Maximum height of an expression. A chain of operators makes a high tree without nesting, and
/// walks of the tree recurse.
pub(super) const MAX_HEIGHT: u32 = 4000;

/// Maximum number of errors before parsing stops.
const MAX_ERRORS: usize = 200;

/// Maximum number of earlier errors for which a missing `}` is traced to its opening brace.
const MAX_BRACES_SOUGHT: usize = 20;

/// Words that are never names.
const RESERVED: &[&str] = &[
    "abstract",
    "action",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "else",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "string",
    "struct",
    "switch",
    "table",
    "this",
    "transition",
    "true",
    "tuple",
    "typedef",
    "value_set",
    "varbit",
    "void",
];

/// Words that only begin top-level declarations.
const DECLARATIONS: &[&str] = &[
    "control",
    "extern",
    "header",
    "header_union",
    "package",
    "parser",
    "struct",
    "typedef",
];

/// Kind of a name's latest declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Type,
    Value,
}

/// The parser: tokens, position, diagnostics, and the kinds of the names in scope.
pub(crate) struct Parser<'t> {
    tokens: &'t [Token],
    texts: &'t Interner,
    sources: &'t SourceMap,
    at: usize,
    /// True if the first `>` of a `>>` was consumed.
    split: bool,
    depth: u32,
    /// The height of the expression parsed last.
    pub(super) height: u32,
    /// True if a `>` ends the current expression: a width between angle brackets.
    pub(super) angle_ends: bool,
    /// True directly inside a parser state, where some statements are not allowed.
    pub(super) in_state: bool,
    pub(super) diagnostics: Diagnostics,
    meanings: HashMap<Arc<str>, Meaning>,
    /// Previous kinds of names in the open scopes, restored when a scope ends.
    shadowed: Vec<(Arc<str>, Option<Meaning>)>,
    last: Span,
    /// The opening brace that was last reported as unclosed.
    unclosed: Option<Span>,
}

/// Failure of a production. The error was already reported.
#[derive(Debug)]
pub(super) struct Failed;

/// Result of a production.
pub(super) type Parse<T> = Result<T, Failed>;

impl<'t> Parser<'t> {
    /// Creates a parser at the first token. The last token is the end.
    pub(crate) fn new(
        tokens: &'t [Token],
        texts: &'t Interner,
        sources: &'t SourceMap,
    ) -> Parser<'t> {
        Parser {
            tokens,
            texts,
            sources,
            at: 0,
            split: false,
            depth: 0,
            height: 0,
            angle_ends: false,
            in_state: false,
            diagnostics: Diagnostics::new(),
            meanings: HashMap::new(),
            shadowed: Vec::new(),
            last: tokens.first().map_or(Span::NONE, |token| token.span),
            unclosed: None,
        }
    }

    /// Returns the diagnostics.
    pub(crate) fn into_diagnostics(self) -> Diagnostics {
        self.diagnostics
    }

    pub(super) fn token(&self) -> Option<&'t Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn token_at(&self, index: usize) -> Option<&'t Token> {
        self.tokens.get(index)
    }

    pub(super) fn kind(&self) -> Class {
        self.kind_at(self.at)
    }

    /// Returns the text of the next token. It is empty for a string and at the end, and `>` for the
    /// second half of a `>>`.
    pub(super) fn text(&self) -> &'t str {
        if self.split {
            ">"
        } else {
            self.text_at(self.at)
        }
    }

    /// Returns the text of a token, for lookahead; empty for a string and at the end.
    pub(super) fn text_at(&self, index: usize) -> &'t str {
        match self.tokens.get(index) {
            Some(token) if !matches!(token.class(), Class::End | Class::String) => {
                self.texts.text(token.symbol)
            }
            _ => "",
        }
    }

    /// Returns the text of a token for the tree; for a string, its contents.
    pub(super) fn meaning_of(&self, token: &Token) -> Arc<str> {
        let text = self.texts.text(token.symbol);
        match token.class() {
            Class::String if text.contains('\\') => unescaped(text).into(),
            _ => Arc::clone(text),
        }
    }

    pub(super) fn kind_at(&self, index: usize) -> Class {
        self.tokens.get(index).map_or(Class::End, Token::class)
    }

    /// Returns the position, for lookahead by index.
    pub(super) fn index(&self) -> usize {
        self.at
    }

    pub(super) fn span(&self) -> Span {
        self.token().map_or(self.last, |token| token.span)
    }

    /// Returns the span of the last consumed token.
    pub(super) fn last_span(&self) -> Span {
        self.last
    }

    /// Returns the span from `start` to the last consumed token.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.last)
    }

    pub(super) fn at_end(&self) -> bool {
        self.kind() == Class::End
    }

    /// Returns true if the next token is this word or punctuation.
    pub(super) fn is(&self, text: &str) -> bool {
        self.text() == text || text == ">" && self.text() == ">>"
    }

    pub(super) fn bump(&mut self) {
        support::work::checkpoint();
        self.last = self.span();
        self.split = false;
        if !self.at_end() {
            self.at += 1;
        }
    }

    /// Consumes this token if it is next. A `>` can also be the first half of `>>`.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        if !self.is(text) {
            return false;
        }
        if text == ">" && self.text() == ">>" {
            self.last = self.span();
            self.split = true;
        } else {
            self.bump();
        }
        true
    }

    pub(super) fn expect(&mut self, text: &str) -> Parse<Span> {
        let span = self.span();
        if self.eat(text) {
            return Ok(span);
        }
        Err(self.unexpected(&format!("`{text}`")))
    }

    /// Reports that something else was expected here.
    pub(super) fn unexpected(&mut self, expected: &str) -> Failed {
        let text = self
            .token()
            .map_or("", |token| self.texts.text(token.symbol));
        if self.kind() == Class::Punctuation && text.contains('\u{fffd}') {
            self.report(not_utf8(self.span()));
            return Failed;
        }
        let found = match self.kind() {
            Class::End => "the end of the program".to_string(),
            Class::String => format!("the string \"{text}\""),
            _ => format!("`{}`", self.text().escape_debug()),
        };
        let message = format!("syntax error: expected {expected}, found {found}");
        let mut diagnostic = Diagnostic::error("E0120", self.span(), message);
        let misses_brace = expected.contains("`}`") || self.at_end() || self.begins_declaration();
        // Finding the brace walks all tokens so far, which would be too slow for a program full of
        // errors.
        let is_early = self.diagnostics.error_count() < MAX_BRACES_SOUGHT;
        if misses_brace
            && is_early
            && let Some(brace) = self.unclosed_brace()
        {
            // A missing brace is reported once.
            if self.unclosed.replace(brace) == Some(brace) {
                return Failed;
            }
            diagnostic = diagnostic.label(brace, "this `{` has no `}`");
        }
        self.report(diagnostic);
        Failed
    }

    /// Returns true if the next token begins a top-level declaration.
    fn begins_declaration(&self) -> bool {
        self.token().is_some_and(|token| token.has(LINE_START))
            && DECLARATIONS.contains(&self.text())
    }

    /// Returns the `{` that is open here. Normally this is the innermost one. If the indentation of
    /// an earlier `}` matches an outer `{`, it is the inner one that this `}` skipped.
    fn unclosed_brace(&self) -> Option<Span> {
        let mut open: Vec<(Span, usize)> = Vec::new();
        let mut suspect = None;
        let mut line = Span::NONE;
        for (index, token) in self.tokens[..self.at].iter().enumerate() {
            if token.has(LINE_START) {
                line = token.span;
            }
            match self.text_at(index) {
                "{" => open.push((token.span, self.indentation(line))),
                "}" => {
                    let Some((brace, own)) = open.pop() else {
                        continue;
                    };
                    // Only a `}` at the start of its line has a meaningful indentation.
                    if token.has(LINE_START) {
                        let column = self.indentation(line);
                        let closes = |&(_, around): &(Span, usize)| around == column;
                        if column != own && open.iter().any(closes) {
                            suspect = suspect.or(Some(brace));
                        }
                    }
                    if open.is_empty() {
                        suspect = None;
                    }
                }
                _ => {}
            }
        }
        let innermost = open.last().map(|(brace, _)| *brace)?;
        Some(suspect.unwrap_or(innermost))
    }

    /// Returns the number of blanks before the first token of a line.
    fn indentation(&self, first: Span) -> usize {
        self.sources.lookup(first.lo).map_or(0, |at| at.byte)
    }

    /// Returns the source text of a span.
    pub(super) fn source_text(&self, span: Span) -> &'t str {
        self.sources.text(span)
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) -> Failed {
        self.report(Diagnostic::error("E0121", span, message));
        Failed
    }

    /// Adds a diagnostic. After too many errors the rest of the program is skipped.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
        if self.diagnostics.error_count() >= MAX_ERRORS {
            self.give_up();
        }
    }

    /// Moves to the end of the program.
    fn give_up(&mut self) {
        self.at = self.tokens.len().saturating_sub(1);
        self.split = false;
    }

    pub(super) fn is_name_at(&self, index: usize) -> bool {
        self.kind_at(index) == Class::Word
            && !RESERVED.contains(&self.text_at(index))
            && self.text_at(index) != "_"
    }

    pub(super) fn is_name(&self) -> bool {
        self.is_name_at(self.at)
    }

    pub(super) fn name(&mut self) -> Parse<Name> {
        if !self.is_name() {
            let reserved = self.kind() == Class::Word && RESERVED.contains(&self.text());
            return Err(self.unexpected(if reserved {
                "a name (this word is reserved)"
            } else {
                "a name"
            }));
        }
        Ok(self.any_word())
    }

    /// Returns the next word as a name, even if it is a keyword.
    pub(super) fn any_word(&mut self) -> Name {
        let text = self
            .token()
            .map_or_else(|| Arc::from(""), |token| self.meaning_of(token));
        let span = self.span();
        self.bump();
        Name { text, span }
    }

    /// Records that a name is a type, so that `(T) -1` is a cast and `(a) - 1` is not.
    pub(super) fn declare_type(&mut self, name: &Name) {
        self.declare(name, Meaning::Type);
    }

    /// Records that a name is not a type (or no longer, in this scope).
    pub(super) fn declare_value(&mut self, name: &Name) {
        self.declare(name, Meaning::Value);
    }

    fn declare(&mut self, name: &Name, meaning: Meaning) {
        let before = self.meanings.insert(Arc::clone(&name.text), meaning);
        self.shadowed.push((Arc::clone(&name.text), before));
    }

    pub(super) fn is_type_name(&self, name: &str) -> bool {
        self.meanings.get(name) == Some(&Meaning::Type)
    }

    /// Returns true if a name was declared, but not as a type.
    pub(super) fn is_value_name(&self, name: &str) -> bool {
        self.meanings.get(name) == Some(&Meaning::Value)
    }

    /// Runs a production in a new scope. Its declarations are forgotten afterwards.
    pub(super) fn scoped<T>(&mut self, production: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        let outer = self.shadowed.len();
        let result = production(self);
        for (name, before) in self.shadowed.drain(outer..).rev() {
            match before {
                Some(meaning) => self.meanings.insert(name, meaning),
                None => self.meanings.remove(&name),
            };
        }
        result
    }

    /// Runs a production one level deeper. Too deep nesting is an error, and the rest is skipped.
    pub(super) fn deeper<T>(&mut self, production: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= MAX_DEPTH {
            let message = format!("this is nested more than {MAX_DEPTH} levels deep");
            let failed = self.error(self.span(), message);
            self.give_up();
            return Err(failed);
        }
        self.depth += 1;
        let result = production(self);
        self.depth -= 1;
        result
    }

    /// Records that the expression just parsed is one higher than its highest part.
    pub(super) fn grow(&mut self, parts: u32) -> Parse<()> {
        self.height = parts + 1;
        if self.height <= MAX_HEIGHT {
            return Ok(());
        }
        let message = format!("this expression has more than {MAX_HEIGHT} operators in a chain");
        let failed = self.error(self.span(), message);
        self.give_up();
        Err(failed)
    }

    /// Recovers from an error: skips past the next `;` at this level, or to the `}` that ends it.
    /// Always advances, except at such a `}` or the end.
    pub(super) fn skip_statement(&mut self) {
        let mut depth = 0usize;
        while !self.at_end() {
            match self.text() {
                "{" | "(" | "[" => depth += 1,
                "}" if depth == 0 => return,
                ")" | "]" => depth = depth.saturating_sub(1),
                "}" => {
                    depth -= 1;
                    if depth == 0 && !self.closes_expression() {
                        self.bump();
                        return;
                    }
                }
                ";" if depth == 0 => {
                    self.bump();
                    return;
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// Returns true if the token after a `}` shows that the brace closed an expression.
    fn closes_expression(&self) -> bool {
        matches!(
            self.text_at(self.at + 1),
            ";" | "," | ")" | "." | ":" | "else"
        )
    }

    /// Parses items up to a closing token (which is consumed), with error recovery for each item.
    pub(super) fn items_until<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parse<Option<T>>,
    ) -> Parse<Vec<T>> {
        let mut items = Vec::new();
        while !self.is(close) {
            if self.at_end() {
                return Err(self.unexpected(&format!("`{close}`")));
            }
            let before = self.at;
            match item(self) {
                Ok(Some(found)) => items.push(found),
                Ok(None) => {}
                Err(Failed) => self.skip_statement(),
            }
            if self.at == before && !self.is(close) {
                self.bump();
            }
        }
        self.bump();
        Ok(items)
    }

    /// Parses items separated by commas up to a closing token (which is consumed). `trailing`
    /// allows a comma after the last item.
    pub(super) fn separated<T>(
        &mut self,
        close: &str,
        trailing: bool,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        let mut items = Vec::new();
        let mut height = 0;
        if self.eat(close) {
            self.height = 1;
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            height = self.height.max(height);
            if self.eat(close) {
                break;
            }
            if !self.eat(",") {
                return Err(self.unexpected(&format!("`,` or `{close}`")));
            }
            if trailing && self.eat(close) {
                break;
            }
        }
        self.height = height + 1;
        Ok(items)
    }
}

/// Returns the contents of a string literal: `\n`, `\t` and `\r` are control characters. Any other
/// character after a backslash stands for itself.
fn unescaped(text: &str) -> String {
    let mut meaning = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => meaning.push('\n'),
                Some('t') => meaning.push('\t'),
                Some('r') => meaning.push('\r'),
                other => meaning.extend(other),
            },
            c => meaning.push(c),
        }
    }
    meaning
}
