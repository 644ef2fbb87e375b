//! The parser's place in the tokens: looking, eating, and going on after an error.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ast::Name;
use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::{Token, TokenKind};
use crate::source::Span;

/// How deep expressions, statements and types may nest in the source before the parser refuses: it recurses.
pub(super) const MAX_DEPTH: u32 = 2000;

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

/// A parser: tokens, the place in them, what was said so far, and the names known to be types.
pub(crate) struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    /// How many `>` of a `>>` have been eaten: 1 inside such a token.
    split: bool,
    pub(super) depth: u32,
    /// Whether a `>` ends the expression that is being read: a width between angle brackets.
    pub(super) angle_ends: bool,
    pub(super) diagnostics: Diagnostics,
    types: HashSet<Arc<str>>,
    end: Span,
    last: Span,
}

/// What a production gives up with; the error was reported.
#[derive(Debug)]
pub(super) struct Failed;

/// What a production gives.
pub(super) type Parse<T> = Result<T, Failed>;

impl<'t> Parser<'t> {
    /// A parser at the first token. The last token ends the file.
    pub(crate) fn new(tokens: &'t [Token]) -> Parser<'t> {
        let end = tokens.last().map_or(Span::NONE, |token| token.span);
        Parser {
            tokens,
            at: 0,
            split: false,
            depth: 0,
            angle_ends: false,
            diagnostics: Diagnostics::new(),
            types: HashSet::new(),
            end,
            last: end,
        }
    }

    /// What was said.
    pub(crate) fn into_diagnostics(self) -> Diagnostics {
        self.diagnostics
    }

    pub(super) fn token(&self) -> Option<&'t Token> {
        self.tokens.get(self.at)
    }

    pub(super) fn kind(&self) -> TokenKind {
        self.token().map_or(TokenKind::End, |token| token.kind)
    }

    /// The text of the next token: empty at the end, and `>` for the second half of a `>>`.
    pub(super) fn text(&self) -> &'t str {
        match self.token() {
            Some(_) if self.split => ">",
            Some(token) if token.kind != TokenKind::End => &token.text,
            _ => "",
        }
    }

    /// The text of the token `ahead` places on, for looking only.
    pub(super) fn text_at(&self, index: usize) -> &'t str {
        match self.tokens.get(index) {
            Some(token) if token.kind != TokenKind::End => &token.text,
            _ => "",
        }
    }

    pub(super) fn kind_at(&self, index: usize) -> TokenKind {
        self.tokens
            .get(index)
            .map_or(TokenKind::End, |token| token.kind)
    }

    /// The place, for looking ahead by index.
    pub(super) fn index(&self) -> usize {
        self.at
    }

    pub(super) fn span(&self) -> Span {
        self.token().map_or(self.end, |token| token.span)
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
        self.kind() == TokenKind::End
    }

    /// Whether the next token is this word or punctuation.
    pub(super) fn is(&self, text: &str) -> bool {
        let quoted = matches!(self.kind(), TokenKind::String | TokenKind::End);
        !quoted && (self.text() == text || text == ">" && self.text() == ">>")
    }

    pub(super) fn bump(&mut self) {
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
        let found = match self.kind() {
            TokenKind::End => "the end of the file".to_string(),
            TokenKind::String => format!("the string \"{}\"", self.text()),
            _ => format!("`{}`", self.text()),
        };
        let error = Diagnostic::error(
            "E0200",
            self.span(),
            format!("syntax error: expected {expected}, found {found}"),
        );
        self.diagnostics.push(error);
        Failed
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) -> Failed {
        self.diagnostics
            .push(Diagnostic::error("E0201", span, message));
        Failed
    }

    pub(super) fn is_name_at(&self, index: usize) -> bool {
        self.kind_at(index) == TokenKind::Word
            && !RESERVED.contains(&self.text_at(index))
            && self.text_at(index) != "_"
    }

    pub(super) fn is_name(&self) -> bool {
        self.is_name_at(self.at)
    }

    pub(super) fn name(&mut self) -> Parse<Name> {
        if !self.is_name() {
            let reserved = self.kind() == TokenKind::Word && RESERVED.contains(&self.text());
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
            .map_or_else(|| Arc::from(""), |token| Arc::clone(&token.text));
        let span = self.span();
        self.bump();
        Name { text, span }
    }

    /// Remembers a declared type, so that `(T) -1` is a cast and `(a) - 1` is not.
    pub(super) fn declare_type(&mut self, name: &Name) {
        self.types.insert(Arc::clone(&name.text));
    }

    pub(super) fn is_type_name(&self, name: &str) -> bool {
        self.types.contains(name)
    }

    /// Runs a production one level deeper; too deep a nesting is an error.
    pub(super) fn deeper<T>(&mut self, production: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= MAX_DEPTH {
            let message = format!("this is nested more than {MAX_DEPTH} levels deep");
            return Err(self.error(self.span(), message));
        }
        self.depth += 1;
        let result = production(self);
        self.depth -= 1;
        result
    }

    /// After an error: behind the next `;` at this level, or in front of the `}` that ends it. Always moves unless at such a `}` or the end.
    pub(super) fn skip_statement(&mut self) {
        let mut depth = 0usize;
        while !self.at_end() {
            match self.text() {
                _ if self.kind() == TokenKind::String => {}
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
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(",") {
                return Err(self.unexpected(&format!("`,` or `{close}`")));
            }
            if trailing && self.eat(close) {
                return Ok(items);
            }
        }
    }
}
