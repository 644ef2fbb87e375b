//! The parser's place in the tokens: looking, eating, and going on after an error.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::Name;
use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::not_utf8;
use crate::source::{SourceMap, Span};
use crate::token::{Class, Interner, LINE_START, Token};

/// How deep the parser recurses before it refuses: nested expressions, statements and types.
pub(super) const MAX_DEPTH: u32 = 128;

/// How high an expression may grow: a chain of operators makes a high tree without nesting, and whoever walks the tree recurses.
pub(super) const MAX_HEIGHT: u32 = 4000;

/// How many errors one parse reports before it gives up.
const MAX_ERRORS: usize = 200;

/// How many errors there may be before one of a missing `}`, so that the brace that it belongs to is looked for.
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

/// Words that begin declarations at the top level and nothing else.
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

/// What a name was last declared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Type,
    Value,
}

/// A parser: tokens, the place in them, what was said so far, and what the names in scope mean.
pub(crate) struct Parser<'t> {
    tokens: &'t [Token],
    texts: &'t Interner,
    sources: &'t SourceMap,
    at: usize,
    /// Whether the first `>` of a `>>` has been eaten.
    split: bool,
    depth: u32,
    /// The height of the expression read last.
    pub(super) height: u32,
    /// Whether a `>` ends the expression that is being read: a width between angle brackets.
    pub(super) angle_ends: bool,
    /// Whether what is read stands directly in a parser state, where some statements may not.
    pub(super) in_state: bool,
    pub(super) diagnostics: Diagnostics,
    meanings: HashMap<Arc<str>, Meaning>,
    /// What names of the open scopes meant before: undone when a scope ends.
    shadowed: Vec<(Arc<str>, Option<Meaning>)>,
    last: Span,
    /// The brace of which it was said last that it is not closed.
    unclosed: Option<Span>,
}

/// What a production gives up with; the error was reported.
#[derive(Debug)]
pub(super) struct Failed;

/// What a production gives.
pub(super) type Parse<T> = Result<T, Failed>;

impl<'t> Parser<'t> {
    /// A parser at the first token. The last token is the end.
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

    /// What was said.
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

    /// The text of the next token: empty for a string and at the end, and `>` for the second half of a `>>`.
    pub(super) fn text(&self) -> &'t str {
        if self.split {
            ">"
        } else {
            self.text_at(self.at)
        }
    }

    /// The text of a token, for looking only: empty for a string and at the end.
    pub(super) fn text_at(&self, index: usize) -> &'t str {
        match self.tokens.get(index) {
            Some(token) if !matches!(token.class(), Class::End | Class::String) => {
                self.texts.text(token.symbol)
            }
            _ => "",
        }
    }

    /// The text of a token as the tree keeps it: of a string, what it means.
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

    /// The place, for looking ahead by index.
    pub(super) fn index(&self) -> usize {
        self.at
    }

    pub(super) fn span(&self) -> Span {
        self.token().map_or(self.last, |token| token.span)
    }

    /// The span of the token eaten last.
    pub(super) fn last_span(&self) -> Span {
        self.last
    }

    /// From `start` to the token eaten last.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.last)
    }

    pub(super) fn at_end(&self) -> bool {
        self.kind() == Class::End
    }

    /// Whether the next token is this word or punctuation.
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

    /// Eats this token if it is next. A `>` is also taken from the front of `>>`.
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
        // Finding the brace goes through all that was read, which a program full of mistakes is not worth.
        let is_early = self.diagnostics.error_count() < MAX_BRACES_SOUGHT;
        if misses_brace
            && is_early
            && let Some(brace) = self.unclosed_brace()
        {
            // One brace that is missing is told once.
            if self.unclosed.replace(brace) == Some(brace) {
                return Failed;
            }
            diagnostic = diagnostic.label(brace, "this `{` has no `}`");
        }
        self.report(diagnostic);
        Failed
    }

    /// Whether the next token begins what stands outside of all braces.
    fn begins_declaration(&self) -> bool {
        self.token().is_some_and(|token| token.has(LINE_START))
            && DECLARATIONS.contains(&self.text())
    }

    /// The `{` that is open here: the innermost, or, if a `}` further up closes by its indentation one around it, the one that it passed over.
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
                    // Only a `}` that begins its line says by its place what it closes.
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

    /// How many blanks stand before the first token of a line.
    fn indentation(&self, first: Span) -> usize {
        self.sources.lookup(first.lo).map_or(0, |at| at.byte)
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) -> Failed {
        self.report(Diagnostic::error("E0121", span, message));
        Failed
    }

    /// Adds a diagnostic; after too many the rest of the program is not read.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
        if self.diagnostics.error_count() >= MAX_ERRORS {
            self.give_up();
        }
    }

    /// Goes to the end of the program.
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

    /// The next word as a name, whatever it is.
    pub(super) fn any_word(&mut self) -> Name {
        let text = self
            .token()
            .map_or_else(|| Arc::from(""), |token| self.meaning_of(token));
        let span = self.span();
        self.bump();
        Name { text, span }
    }

    /// Remembers that a name is a type, so that `(T) -1` is a cast and `(a) - 1` is not.
    pub(super) fn declare_type(&mut self, name: &Name) {
        self.declare(name, Meaning::Type);
    }

    /// Remembers that a name is no type (any more, in this scope).
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

    /// Whether a name was declared, and not as a type.
    pub(super) fn is_value_name(&self, name: &str) -> bool {
        self.meanings.get(name) == Some(&Meaning::Value)
    }

    /// Runs a production in a scope of its own: what it declares is forgotten behind it.
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

    /// Runs a production one level deeper; too deep a nesting is an error, and what follows is not read.
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

    /// Notes that the expression just read is one higher than its highest part.
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

    /// After an error: behind the next `;` at this level, or in front of the `}` that ends it. Always moves unless at such a `}` or the end.
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

    /// Whether what follows a `}` shows that it closed an expression.
    fn closes_expression(&self) -> bool {
        matches!(
            self.text_at(self.at + 1),
            ";" | "," | ")" | "." | ":" | "else"
        )
    }

    /// A list of items up to a closing token (which is eaten), with error recovery item by item.
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

    /// Items separated by commas up to a closing token (which is eaten); a comma may stand behind the last where `trailing` allows.
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

/// What a string literal means: `\n`, `\t` and `\r` are the control characters, any other character behind a backslash is itself.
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
