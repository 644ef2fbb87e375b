//! Macros: definitions and expansion, by C's rules.
//!
//! Tokens come from a stack of contexts above the files. A macro is disabled while a context of its
//! expansion is on the stack. If its own name occurs then, the name is marked and never expanded.
//! Tokens of a body get the position of the outermost use; tokens of an argument keep their own.

use std::rc::Rc;
use support::count::{are, count};

use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::{LexContext, Lexer, MAX_TOKEN_BYTES};
use crate::source::Span;
use crate::token::{
    AFTER_NEWLINE, AFTER_SPACE, Interner, LINE_START, NO_EXPAND, Symbol, Token, TokenKind,
};

use super::Preprocessor;

/// Maximum number of tokens from all expansions of a program.
pub(super) const BUDGET: usize = 1_000_000;

/// Number of bytes of text from `#` and `##` that count as one token.
const BYTES_PER_TOKEN: usize = 16;

/// Maximum nesting depth of macro calls in arguments of macro calls.
const ARGUMENT_DEPTH: usize = 100;

/// A macro.
#[derive(Debug)]
pub(super) struct Macro {
    /// Source position of its name in its definition.
    span: Span,
    /// `None` for a macro without a parameter list.
    parameters: Option<Parameters>,
    body: Vec<Token>,
}

#[derive(Debug, PartialEq)]
struct Parameters {
    /// The names. The last one of a variadic macro denotes the remaining arguments.
    names: Vec<Symbol>,
    is_variadic: bool,
}

impl Parameters {
    /// Returns true if `## rest` comes next. `rest` is the name of the remaining arguments.
    fn is_rest_pasted(&self, tokens: &[Token]) -> bool {
        let [paste, rest, ..] = tokens else {
            return false;
        };
        self.is_variadic
            && paste.kind == TokenKind::HashHash
            && self.names.last() == Some(&rest.symbol)
    }
}

/// A body under construction.
#[derive(Default)]
struct Joined {
    tokens: Vec<Token>,
    /// True if the last token was `##`.
    paste: bool,
    /// True if the left operand of `##` is an empty argument.
    left_is_empty: bool,
}

impl Macro {
    /// Returns true if another definition is equivalent.
    fn same(&self, other: &Macro) -> bool {
        let key = |t: &Token| (t.kind, t.symbol, t.has(AFTER_SPACE));
        self.parameters == other.parameters
            && self.body.len() == other.body.len()
            && self
                .body
                .iter()
                .zip(&other.body)
                .enumerate()
                .all(|(i, (a, b))| key(a) == key(b) || i == 0 && a.symbol == b.symbol)
    }
}

/// Tokens to be read before the rest of the file.
pub(super) struct Context {
    tokens: Vec<Token>,
    at: usize,
    /// The macro that was expanded.
    of: Option<Symbol>,
    /// True if reading stops at its end: an argument or a directive that is expanded separately.
    is_whole: bool,
}

/// The arguments of a macro call. Arguments of parameters used without `#` and `##` are expanded
/// once.
struct Arguments {
    raw: Vec<Vec<Token>>,
    expanded: Vec<Option<Vec<Token>>>,
}

impl Preprocessor<'_> {
    pub(super) fn is_defined(&self, name: Symbol) -> bool {
        self.macros.contains_key(&name) || name == self.words.file || name == self.words.line
    }

    pub(super) fn define(&mut self, directive: Span) {
        let Some(name) = self.macro_name(directive) else {
            return;
        };
        let tokens = self.rest_of_directive();
        let has_parameters = tokens
            .first()
            .is_some_and(|t| t.kind == TokenKind::LeftParen && !t.has(AFTER_SPACE));
        let (parameters, body) = if has_parameters {
            let Some((parameters, used)) = self.parameters(&tokens) else {
                return;
            };
            (Some(parameters), tokens[used..].to_vec())
        } else {
            (None, tokens)
        };
        if !self.check_body(parameters.as_ref(), &body) {
            return;
        }
        let defined = Rc::new(Macro {
            span: name.span,
            parameters,
            body,
        });
        if let Some(before) = self.macros.insert(name.symbol, defined.clone())
            && !before.same(&defined)
        {
            let message = format!(
                "the macro `{}` gets another definition",
                self.interner.text(name.symbol)
            );
            let diagnostic = Diagnostic::warning("W0020", name.span, message)
                .label(before.span, "first defined here");
            self.error(diagnostic.hint("say `#undef` first"));
        }
    }

    /// Parses the parameter list at the start of `tokens`. Returns it with its number of tokens.
    fn parameters(&mut self, tokens: &[Token]) -> Option<(Parameters, usize)> {
        let mut parameters = Parameters {
            names: Vec::new(),
            is_variadic: false,
        };
        let mut at = 1;
        if tokens
            .get(at)
            .is_some_and(|t| t.kind == TokenKind::RightParen)
        {
            return Some((parameters, at + 1));
        }
        loop {
            let token = tokens.get(at);
            let name = match token {
                Some(t) if t.kind == TokenKind::Dots => {
                    parameters.is_variadic = true;
                    self.words.va_args
                }
                Some(t) if t.is_word() && !parameters.names.contains(&t.symbol) => t.symbol,
                _ => return self.bad_parameters(tokens, at),
            };
            parameters.names.push(name);
            at += 1;
            // `name...`: the remaining arguments, with an explicit name.
            if !parameters.is_variadic && tokens.get(at).is_some_and(|t| t.kind == TokenKind::Dots)
            {
                parameters.is_variadic = true;
                at += 1;
            }
            match tokens.get(at).map(|t| t.kind) {
                Some(TokenKind::RightParen) => return Some((parameters, at + 1)),
                Some(TokenKind::Comma) if !parameters.is_variadic => at += 1,
                _ => return self.bad_parameters(tokens, at),
            }
        }
    }

    fn bad_parameters(&mut self, tokens: &[Token], at: usize) -> Option<(Parameters, usize)> {
        let span = tokens
            .get(at)
            .or(tokens.last())
            .map_or(Span::NONE, |t| t.span);
        let message = "the parameters of a macro are names, each once, with commas between and `)` at the end";
        self.error(Diagnostic::error("E0018", span, message));
        None
    }

    fn check_body(&mut self, parameters: Option<&Parameters>, body: &[Token]) -> bool {
        let ends = [body.first(), body.last()];
        if let Some(paste) = ends
            .into_iter()
            .flatten()
            .find(|t| t.kind == TokenKind::HashHash)
        {
            self.error(Diagnostic::error(
                "E0018",
                paste.span,
                "`##` needs a token on either side",
            ));
            return false;
        }
        let Some(parameters) = parameters else {
            return true;
        };
        let is_parameter = |t: Option<&Token>| {
            t.is_some_and(|t| t.is_word() && parameters.names.contains(&t.symbol))
        };
        let wrong = (0..body.len())
            .find(|&i| body[i].kind == TokenKind::Hash && !is_parameter(body.get(i + 1)));
        if let Some(i) = wrong {
            self.error(Diagnostic::error(
                "E0018",
                body[i].span,
                "`#` must stand before a parameter of the macro",
            ));
            return false;
        }
        true
    }

    /// Returns the next token of the program, with macros expanded.
    pub(super) fn next_expanded(&mut self) -> Token {
        loop {
            support::work::checkpoint();
            let mut token = self.next_token();
            if !token.is_word() || token.has(NO_EXPAND) {
                return token;
            }
            let Some(found) = self.macros.get(&token.symbol).cloned() else {
                return self.built_in(token);
            };
            if self.active.contains(&token.symbol) {
                token.flags |= NO_EXPAND;
                return token;
            }
            let body = match &found.parameters {
                None => self.body(&found.body, None, token),
                Some(_) if !self.paren_follows() => return token,
                Some(parameters) => match self.arguments(&found, parameters, token) {
                    Some(mut arguments) => {
                        self.body(&found.body, Some((parameters, &mut arguments)), token)
                    }
                    None => continue,
                },
            };
            if self.take_budget(body.len(), token) {
                self.push_context(Context {
                    tokens: body,
                    at: 0,
                    of: Some(token.symbol),
                    is_whole: false,
                });
            }
        }
    }

    /// Expands `__FILE__` and `__LINE__`.
    fn built_in(&mut self, token: Token) -> Token {
        let is_file = token.symbol == self.words.file;
        if !is_file && token.symbol != self.words.line {
            return token;
        }
        let Some(at) = self.sources.lookup(token.span.lo) else {
            return token;
        };
        let (kind, text) = match is_file {
            true => (TokenKind::String, at.file.to_string()),
            false => (TokenKind::Integer, at.line.to_string()),
        };
        Token {
            kind,
            symbol: self.interner.intern(&text),
            ..token
        }
    }

    fn push_context(&mut self, context: Context) {
        self.active.extend(context.of);
        self.contexts.push(context);
    }

    fn pop_context(&mut self) {
        if let Some(name) = self.contexts.pop().and_then(|context| context.of) {
            self.active.remove(&name);
        }
    }

    /// Charges tokens to the budget. Returns false if it is exhausted, which is reported once.
    fn take_budget(&mut self, tokens: usize, at: Token) -> bool {
        if self.budget > tokens {
            self.budget -= tokens;
            return true;
        }
        if self.budget > 0 {
            let message = format!("the macros of this program expand to more than {BUDGET} tokens");
            self.error(Diagnostic::error("E0017", at.span, message));
        }
        self.budget = 0;
        false
    }

    /// Returns the next token, without expanding macros.
    fn next_token(&mut self) -> Token {
        while let Some(context) = self.contexts.last_mut() {
            if let Some(&token) = context.tokens.get(context.at) {
                context.at += 1;
                return token;
            }
            if context.is_whole {
                return Token {
                    kind: TokenKind::End,
                    flags: 0,
                    symbol: Interner::EMPTY,
                    span: Span::NONE,
                };
            }
            self.pop_context();
        }
        self.file_token()
    }

    /// Returns true if the next token is `(`.
    fn paren_follows(&mut self) -> bool {
        while let Some(context) = self.contexts.last() {
            if let Some(token) = context.tokens.get(context.at) {
                return token.kind == TokenKind::LeftParen;
            }
            if context.is_whole {
                return false;
            }
            self.pop_context();
        }
        self.files
            .last()
            .is_some_and(|file| file.lexer.next_is(b'('))
    }

    /// Expands tokens separately.
    pub(super) fn expand_list(&mut self, tokens: Vec<Token>) -> Vec<Token> {
        self.push_context(Context {
            tokens,
            at: 0,
            of: None,
            is_whole: true,
        });
        let depth = self.contexts.len();
        let mut out = Vec::new();
        loop {
            let token = self.next_expanded();
            if token.kind == TokenKind::End {
                break;
            }
            out.push(token);
        }
        debug_assert_eq!(self.contexts.len(), depth);
        self.pop_context();
        out
    }

    /// Reads the arguments of a call; its `(` comes next.
    fn arguments(
        &mut self,
        called: &Macro,
        parameters: &Parameters,
        name: Token,
    ) -> Option<Arguments> {
        self.collecting += 1;
        let raw = self.collect_arguments(parameters, name);
        let too_deep = self.collecting > ARGUMENT_DEPTH;
        self.collecting -= 1;
        let mut raw = raw?;
        if too_deep {
            let message = format!("macro calls are nested more than {ARGUMENT_DEPTH} deep");
            self.error(Diagnostic::error("E0017", name.span, message));
            return None;
        }
        let wanted = parameters.names.len();
        if wanted == 0 && raw.len() == 1 && raw[0].is_empty() {
            raw.clear();
        }
        if parameters.is_variadic && raw.len() + 1 == wanted {
            raw.push(Vec::new());
        }
        if raw.len() != wanted {
            let least = if parameters.is_variadic {
                "at least "
            } else {
                ""
            };
            let wanted = wanted - usize::from(parameters.is_variadic);
            let text = self.interner.text(name.symbol);
            let message = format!(
                "the macro `{text}` takes {least}{}, but {} given",
                count(wanted as u64, "argument"),
                are(raw.len() as u64)
            );
            self.error(
                Diagnostic::error("E0016", name.span, message).label(called.span, "defined here"),
            );
            return None;
        }
        let expanded = vec![None; raw.len()];
        Some(Arguments { raw, expanded })
    }

    fn collect_arguments(
        &mut self,
        parameters: &Parameters,
        name: Token,
    ) -> Option<Vec<Vec<Token>>> {
        self.next_token();
        let mut arguments = vec![Vec::new()];
        let mut depth = 0usize;
        loop {
            support::work::checkpoint();
            let mut token = self.next_token();
            let is_rest = parameters.is_variadic && arguments.len() == parameters.names.len();
            match token.kind {
                TokenKind::End => {
                    let message = format!(
                        "the call of the macro `{}` has no `)`",
                        self.interner.text(name.symbol)
                    );
                    self.error(Diagnostic::error("E0016", name.span, message));
                    return None;
                }
                TokenKind::LeftParen => depth += 1,
                TokenKind::RightParen if depth == 0 => return Some(arguments),
                TokenKind::RightParen => depth -= 1,
                TokenKind::Comma if depth == 0 && !is_rest => {
                    arguments.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            token.flags &= !(LINE_START | AFTER_NEWLINE);
            if let Some(last) = arguments.last_mut() {
                last.push(token);
            }
        }
    }

    /// Returns the tokens that replace a macro's use, before they are scanned for further macros.
    fn body(
        &mut self,
        body: &[Token],
        call: Option<(&Parameters, &mut Arguments)>,
        used: Token,
    ) -> Vec<Token> {
        let mut out: Vec<Token> = match call {
            None => self.plain_body(body, used),
            Some((parameters, arguments)) => self.called_body(body, parameters, arguments, used),
        };
        if let Some(first) = out.first_mut() {
            first.flags = first.flags & NO_EXPAND | used.flags & !NO_EXPAND;
        }
        out
    }

    /// Returns the body of a macro without parameters. Only `##` is special in it.
    fn plain_body(&mut self, body: &[Token], used: Token) -> Vec<Token> {
        let mut joined = Joined::default();
        for &token in body {
            match token.kind {
                TokenKind::HashHash => joined.paste = true,
                _ => self.join(&mut joined, vec![at_use(token, used)]),
            }
        }
        joined.tokens
    }

    fn called_body(
        &mut self,
        body: &[Token],
        parameters: &Parameters,
        arguments: &mut Arguments,
        used: Token,
    ) -> Vec<Token> {
        let parameter = |t: Option<&Token>| {
            t.filter(|t| t.is_word())
                .and_then(|t| parameters.names.iter().position(|&name| name == t.symbol))
        };
        let mut joined = Joined::default();
        let mut rest = body;
        while let [token, after @ ..] = rest
            && joined.tokens.len() <= self.budget
        {
            rest = after;
            let next = after.first();
            let piece = match token.kind {
                TokenKind::HashHash => {
                    joined.paste = true;
                    continue;
                }
                TokenKind::Hash => {
                    rest = after.get(1..).unwrap_or_default();
                    parameter(next).map_or_else(Vec::new, |index| {
                        self.stringized(&arguments.raw[index], *token, used)
                    })
                }
                TokenKind::Comma if parameters.is_rest_pasted(after) => {
                    rest = &after[2..];
                    self.comma_and_rest(*token, arguments, used)
                }
                _ => match parameter(Some(token)) {
                    None => vec![at_use(*token, used)],
                    Some(index) => {
                        let is_raw =
                            joined.paste || next.is_some_and(|t| t.kind == TokenKind::HashHash);
                        self.argument(arguments, index, is_raw, *token)
                    }
                },
            };
            self.join(&mut joined, piece);
        }
        joined.tokens
    }

    /// Appends the expansion of the next part of a body, and pastes it to the last token after
    /// `##`.
    fn join(&mut self, joined: &mut Joined, piece: Vec<Token>) {
        let is_empty = piece.is_empty();
        match (joined.paste && !joined.left_is_empty, piece.split_first()) {
            (true, Some((&first, rest))) => {
                let left = joined.tokens.pop();
                joined
                    .tokens
                    .extend(left.map_or_else(|| vec![first], |left| self.paste(left, first)));
                joined.tokens.extend(rest);
            }
            _ => joined.tokens.extend(piece),
        }
        joined.left_is_empty = is_empty && (joined.left_is_empty || !joined.paste);
        joined.paste = false;
    }

    /// Returns the argument that replaces `token`.
    fn argument(
        &mut self,
        arguments: &mut Arguments,
        index: usize,
        is_raw: bool,
        token: Token,
    ) -> Vec<Token> {
        let mut piece = if is_raw {
            arguments.raw[index].clone()
        } else {
            self.expanded(arguments, index)
        };
        if let Some(first) = piece.first_mut() {
            first.flags = first.flags & !AFTER_SPACE | token.flags & AFTER_SPACE;
        }
        piece
    }

    fn stringized(&mut self, argument: &[Token], hash: Token, used: Token) -> Vec<Token> {
        let text = self.stringize(argument);
        if !self.take_budget(text.len() / BYTES_PER_TOKEN, used) {
            return Vec::new();
        }
        if text.len() > MAX_TOKEN_BYTES {
            let message = format!("`#` makes a string of more than {MAX_TOKEN_BYTES} bytes here");
            self.error(Diagnostic::error("E0018", used.span, message));
            return Vec::new();
        }
        vec![Token {
            kind: TokenKind::String,
            symbol: self.interner.intern(&text),
            ..at_use(hash, used)
        }]
    }

    /// Expands GNU C's `, ## __VA_ARGS__`, which is empty if there are no remaining arguments.
    fn comma_and_rest(
        &mut self,
        comma: Token,
        arguments: &mut Arguments,
        used: Token,
    ) -> Vec<Token> {
        let last = arguments.raw.len() - 1;
        if arguments.raw[last].is_empty() {
            return Vec::new();
        }
        let mut piece = vec![at_use(comma, used)];
        piece.extend(self.expanded(arguments, last));
        piece
    }

    fn expanded(&mut self, arguments: &mut Arguments, index: usize) -> Vec<Token> {
        if let Some(known) = &arguments.expanded[index] {
            return known.clone();
        }
        self.collecting += 1;
        let expanded = match self.collecting > ARGUMENT_DEPTH {
            true => Vec::new(),
            false => self.expand_list(arguments.raw[index].clone()),
        };
        self.collecting -= 1;
        arguments.expanded[index] = Some(expanded.clone());
        expanded
    }

    /// Returns the contents of the string literal that `#` makes of an argument.
    fn stringize(&self, tokens: &[Token]) -> String {
        let mut text = String::new();
        for (i, token) in tokens.iter().enumerate() {
            if i > 0 && token.has(AFTER_SPACE) {
                text.push(' ');
            }
            let inner = self.interner.text(token.symbol);
            if token.kind == TokenKind::String {
                text.push_str("\\\"");
                text.push_str(&inner.replace('\\', "\\\\").replace('"', "\\\""));
                text.push_str("\\\"");
            } else {
                text.push_str(inner);
            }
        }
        text
    }

    /// Pastes `left ## right` to one token. Returns both unchanged if they do not form a single
    /// token, as C preprocessors do for other languages.
    fn paste(&mut self, left: Token, right: Token) -> Vec<Token> {
        let quoted = |token: &Token, interner: &Interner| match token.kind {
            TokenKind::String => format!("\"{}\"", interner.text(token.symbol)),
            _ => interner.text(token.symbol).to_string(),
        };
        let text = quoted(&left, &self.interner) + &quoted(&right, &self.interner);
        if !self.take_budget(text.len() / BYTES_PER_TOKEN, left) {
            return vec![left];
        }
        let mut lexer = Lexer::new(text.as_str().into(), 1);
        // As in a directive, a number includes the following letters.
        lexer.enter_directive();
        let mut found = Diagnostics::new();
        let mut context = LexContext {
            interner: &mut self.interner,
            found: &mut found,
        };
        let (made, rest) = (lexer.next(&mut context), lexer.next(&mut context));
        if rest.kind != TokenKind::End
            || made.kind == TokenKind::End
            || made.kind == TokenKind::Unknown
            || !found.is_empty()
        {
            return vec![left, right];
        }
        vec![Token {
            kind: made.kind,
            symbol: made.symbol,
            flags: left.flags & !NO_EXPAND,
            span: left.span,
        }]
    }
}

/// Returns a token of a body with the position of the macro's use.
fn at_use(token: Token, used: Token) -> Token {
    Token {
        span: used.span,
        flags: token.flags & (AFTER_SPACE | NO_EXPAND),
        ..token
    }
}
