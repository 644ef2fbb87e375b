//! The preprocessor: includes, macros and conditions, as P4 programs use them (P4_16, section 7; C's rules where P4's are silent).
//!
//! It works on tokens. A token that comes out of a macro has the place of the macro's use, so diagnostics point at what the user wrote. Macros are
//! expanded by a stack of token streams; a macro is not expanded inside its own expansion.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ParseOptions;
use crate::condition;
use crate::diag::{Diagnostic, Diagnostics, suggest};
use crate::lex::{Interner, Token, TokenKind, lex};
use crate::source::{SourceMap, Span};

/// How deep includes may nest.
const MAX_INCLUDES: usize = 128;

/// How many tokens a program may have after expansion.
const MAX_TOKENS: usize = 8_000_000;

/// A macro.
#[derive(Clone)]
struct Macro {
    /// Parameters of a function-like macro.
    params: Option<Vec<Arc<str>>>,
    /// Whether the last parameter is `...` (`__VA_ARGS__`).
    is_variadic: bool,
    body: Vec<Token>,
}

/// A function-like macro's parameters, whether the last takes all further arguments, and the body.
type MacroHead<'t> = (Vec<Arc<str>>, bool, &'t [Token]);

/// One `#if` that is open.
struct Condition {
    span: Span,
    /// Whether the branch that we are in is taken.
    active: bool,
    /// Whether a branch was taken already.
    taken: bool,
    /// Whether what surrounds it is active.
    outer: bool,
    has_else: bool,
}

/// Preprocesses a file that is in the source map. The result ends with an end token.
pub(crate) fn preprocess(
    file: usize,
    sources: &mut SourceMap,
    options: &ParseOptions,
    diagnostics: &mut Diagnostics,
) -> Vec<Token> {
    let mut preprocessor = Preprocessor {
        sources,
        options,
        diagnostics,
        names: Interner::default(),
        macros: HashMap::new(),
        out: Vec::new(),
        depth: 0,
        once: Vec::new(),
        known: HashMap::new(),
        overflowed: false,
    };
    preprocessor.predefine();
    preprocessor.file(file);
    let end = preprocessor.end_token(file);
    let mut out = preprocessor.out;
    out.push(end);
    out
}

struct Preprocessor<'a> {
    sources: &'a mut SourceMap,
    options: &'a ParseOptions,
    diagnostics: &'a mut Diagnostics,
    names: Interner,
    macros: HashMap<Arc<str>, Macro>,
    out: Vec<Token>,
    depth: usize,
    /// Files that said `#pragma once`.
    once: Vec<usize>,
    /// Files that were read, by path.
    known: HashMap<String, usize>,
    overflowed: bool,
}

impl Preprocessor<'_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::error("E0110", span, message));
    }

    fn end_token(&mut self, file: usize) -> Token {
        let file = &self.sources.files()[file];
        let at = file.base() + file.text().len() as u32;
        let text = self.names.get("");
        let span = Span::new(at, at);
        Token {
            kind: TokenKind::End,
            text,
            span,
            starts_line: true,
            after_blank: true,
            is_painted: false,
        }
    }

    fn predefine(&mut self) {
        for (name, value) in &self.options.defines {
            let index = self.sources.add("<command line>", value.as_str());
            let Some(index) = index else { continue };
            let mut body = self.tokens(index);
            body.pop();
            let name = self.names.get(name);
            self.macros.insert(
                name,
                Macro {
                    params: None,
                    is_variadic: false,
                    body,
                },
            );
        }
        for name in &self.options.undefs {
            self.macros.remove(name.as_str());
        }
    }

    /// Lexes a file of the map.
    fn tokens(&mut self, index: usize) -> Vec<Token> {
        let file = &self.sources.files()[index];
        let (text, base) = (file.text().to_string(), file.base());
        lex(&text, base, &mut self.names, self.diagnostics)
    }

    fn file(&mut self, index: usize) {
        let tokens = self.tokens(index);
        let mut conditions: Vec<Condition> = Vec::new();
        let mut at = 0;
        while tokens[at].kind != TokenKind::End {
            let is_directive = tokens[at].starts_line && is_punctuation(&tokens[at], "#");
            let end = if is_directive {
                line_end(&tokens, at)
            } else {
                next_directive(&tokens, at)
            };
            let active = conditions.last().is_none_or(|condition| condition.active);
            if is_directive {
                self.directive(
                    index,
                    &tokens[at],
                    &tokens[at + 1..end],
                    active,
                    &mut conditions,
                );
            } else if active {
                self.code(&tokens[at..end]);
            }
            at = end;
        }
        for condition in conditions {
            let error =
                Diagnostic::error("E0111", condition.span, "this condition has no `#endif`");
            self.diagnostics.push(error);
        }
    }

    fn code(&mut self, tokens: &[Token]) {
        let expanded = self.expand(tokens);
        if self.out.len() + expanded.len() > MAX_TOKENS {
            if !self.overflowed {
                self.overflowed = true;
                let span = tokens.first().map_or(Span::NONE, |token| token.span);
                self.error(
                    span,
                    format!(
                        "the program has more than {MAX_TOKENS} tokens after macros are expanded"
                    ),
                );
            }
            return;
        }
        self.out.extend(expanded);
    }

    fn directive(
        &mut self,
        file: usize,
        hash: &Token,
        line: &[Token],
        active: bool,
        conditions: &mut Vec<Condition>,
    ) {
        let Some((name, rest)) = line.split_first() else {
            return;
        };
        let span = hash
            .span
            .to(line.last().map_or(name.span, |token| token.span));
        match &*name.text {
            "if" | "ifdef" | "ifndef" => {
                let holds = active && self.condition(&name.text, name.span, rest);
                conditions.push(Condition {
                    span,
                    active: holds,
                    taken: holds,
                    outer: active,
                    has_else: false,
                });
            }
            "elif" | "else" | "endif" => self.branch(name, rest, span, conditions),
            _ if !active => {}
            "include" => self.include(file, rest, span),
            "define" => self.define(rest, span),
            "undef" => match rest {
                [name] if name.kind == TokenKind::Word => drop(self.macros.remove(&name.text)),
                _ => self.error(span, "`#undef` takes one name"),
            },
            "error" => {
                let text = spelling(rest);
                self.diagnostics
                    .push(Diagnostic::error("E0112", span, format!("#error {text}")));
            }
            "warning" => {
                let text = spelling(rest);
                self.diagnostics.push(Diagnostic::warning(
                    "W0112",
                    span,
                    format!("#warning {text}"),
                ));
            }
            "line" => self.line_directive(rest, span),
            "pragma" => {
                if rest.first().is_some_and(|word| &*word.text == "once") {
                    self.once.push(file);
                }
            }
            _ if name.kind == TokenKind::Integer => self.line_directive(line, span),
            other => {
                let message = format!("there is no directive `#{other}`");
                let all = [
                    "if", "ifdef", "ifndef", "elif", "else", "endif", "include", "define", "undef",
                    "error", "line", "pragma",
                ];
                self.diagnostics
                    .push(Diagnostic::error("E0113", name.span, message).suggest(other, all));
            }
        }
    }

    fn condition(&mut self, kind: &str, span: Span, rest: &[Token]) -> bool {
        if kind == "if" {
            return self.evaluate(span, rest);
        }
        match rest {
            [name, ..] if name.kind == TokenKind::Word => {
                self.macros.contains_key(&name.text) == (kind == "ifdef")
            }
            _ => {
                self.error(span, format!("`#{kind}` takes a name"));
                false
            }
        }
    }

    fn branch(
        &mut self,
        name: &Token,
        rest: &[Token],
        span: Span,
        conditions: &mut Vec<Condition>,
    ) {
        let Some(mut condition) = conditions.pop() else {
            return self.error(span, format!("`#{}` without `#if`", name.text));
        };
        if &*name.text == "endif" {
            return;
        }
        if condition.has_else {
            self.error(span, format!("`#{}` behind `#else`", name.text));
        }
        let may = condition.outer && !condition.taken;
        condition.has_else |= &*name.text == "else";
        condition.active = may && (&*name.text == "else" || self.evaluate(span, rest));
        condition.taken |= condition.active;
        conditions.push(condition);
    }

    /// The value of an `#if` expression: `defined` first, then macros, then arithmetic; names left over are 0.
    fn evaluate(&mut self, span: Span, tokens: &[Token]) -> bool {
        let mut replaced = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            if &*tokens[at].text != "defined" {
                replaced.push(tokens[at].clone());
                at += 1;
                continue;
            }
            let (name, used) = match &tokens[at + 1..] {
                [open, name, close, ..]
                    if is_punctuation(open, "(") && is_punctuation(close, ")") =>
                {
                    (Some(name), 4)
                }
                [name, ..] if name.kind == TokenKind::Word => (Some(name), 2),
                _ => (None, 1),
            };
            let Some(name) = name else {
                self.error(tokens[at].span, "`defined` takes a name");
                return false;
            };
            let value = if self.macros.contains_key(&name.text) {
                "1"
            } else {
                "0"
            };
            let text = self.names.get(value);
            replaced.push(Token {
                kind: TokenKind::Integer,
                text,
                ..name.clone()
            });
            at += used;
        }
        let expanded = self.expand(&replaced);
        match condition::evaluate(&expanded, span) {
            Ok(value) => value != 0,
            Err((span, message)) => {
                self.error(span, message);
                false
            }
        }
    }

    fn define(&mut self, rest: &[Token], span: Span) {
        let Some((name, rest)) = rest
            .split_first()
            .filter(|(name, _)| name.kind == TokenKind::Word)
        else {
            return self.error(span, "`#define` takes a name");
        };
        let is_function = rest
            .first()
            .is_some_and(|open| is_punctuation(open, "(") && !open.after_blank);
        let (params, is_variadic, body) = match is_function {
            false => (None, false, rest),
            true => match self.macro_params(rest, span) {
                Some((params, is_variadic, body)) => (Some(params), is_variadic, body),
                None => return,
            },
        };
        self.macros.insert(
            Arc::clone(&name.text),
            Macro {
                params,
                is_variadic,
                body: body.to_vec(),
            },
        );
    }

    /// `(a, b, ...)`: names, whether the last stands for all further arguments, and what follows.
    fn macro_params<'t>(&mut self, tokens: &'t [Token], span: Span) -> Option<MacroHead<'t>> {
        let mut params = Vec::new();
        let mut is_variadic = false;
        let mut at = 1;
        loop {
            let Some(token) = tokens.get(at) else {
                self.error(span, "the macro's parameters do not end");
                return None;
            };
            at += 1;
            match &*token.text {
                ")" => return Some((params, is_variadic, &tokens[at..])),
                "," => {}
                "..." => {
                    is_variadic = true;
                    params.push(self.names.get("__VA_ARGS__"));
                }
                _ if token.kind == TokenKind::Word => params.push(Arc::clone(&token.text)),
                _ => {
                    self.error(token.span, "a macro's parameter is a name");
                    return None;
                }
            }
        }
    }

    fn line_directive(&mut self, rest: &[Token], span: Span) {
        let expanded = self.expand(rest);
        let number = expanded
            .first()
            .and_then(|token| token.text.parse::<u32>().ok());
        let Some(number) = number else {
            return self.error(span, "`#line` takes a line number");
        };
        let path = expanded
            .get(1)
            .filter(|token| token.kind == TokenKind::String)
            .map(|token| Arc::clone(&token.text));
        self.sources.mark_line(span.lo, number, path);
    }

    fn include(&mut self, file: usize, rest: &[Token], span: Span) {
        let expanded;
        let rest = match rest.first() {
            Some(first) if first.kind == TokenKind::Word => {
                expanded = self.expand(rest);
                &expanded[..]
            }
            _ => rest,
        };
        let (name, quoted) = match rest {
            [name, ..] if name.kind == TokenKind::String => (name.text.to_string(), true),
            [open, inner @ .., close]
                if is_punctuation(open, "<") && is_punctuation(close, ">") =>
            {
                (inner.iter().map(|token| &*token.text).collect(), false)
            }
            _ => return self.error(span, "`#include` takes \"FILE\" or <FILE>"),
        };
        if self.depth >= MAX_INCLUDES {
            return self.error(
                span,
                format!("includes nest more than {MAX_INCLUDES} deep; does a file include itself?"),
            );
        }
        match self.find(file, &name, quoted) {
            Ok(Some(index)) if self.once.contains(&index) => {}
            Ok(Some(index)) => {
                self.depth += 1;
                self.file(index);
                self.depth -= 1;
            }
            Ok(None) => self.missing_include(file, &name, quoted, span),
            Err(message) => self.error(span, message),
        }
    }

    /// The included file: `"` looks beside the including file first; then the user's directories, then the built-in files.
    fn find(&mut self, file: usize, name: &str, quoted: bool) -> Result<Option<usize>, String> {
        for folder in self.folders(file, quoted) {
            let path = folder.join(name);
            if path.is_file() {
                return self.read(&path).map(Some);
            }
        }
        let Some(text) = self.options.builtin.and_then(|builtin| builtin(name)) else {
            return Ok(None);
        };
        let path = format!("<built-in>/{name}");
        if let Some(&index) = self.known.get(&path) {
            return Ok(Some(index));
        }
        let index = self
            .sources
            .add(path.as_str(), text)
            .ok_or("the program is too large")?;
        self.known.insert(path, index);
        Ok(Some(index))
    }

    fn folders(&self, file: usize, quoted: bool) -> Vec<PathBuf> {
        let beside = Path::new(self.sources.files()[file].path())
            .parent()
            .map(Path::to_path_buf);
        beside
            .into_iter()
            .filter(|_| quoted)
            .chain(self.options.include_dirs.iter().cloned())
            .collect()
    }

    fn read(&mut self, path: &Path) -> Result<usize, String> {
        let key = path.display().to_string();
        if let Some(&index) = self.known.get(&key) {
            return Ok(index);
        }
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {key}: {error}"))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{key} is not UTF-8 text"))?;
        let index = self
            .sources
            .add(key.as_str(), text)
            .ok_or("the program is too large")?;
        self.known.insert(key, index);
        Ok(index)
    }

    fn missing_include(&mut self, file: usize, name: &str, quoted: bool, span: Span) {
        let folders = self.folders(file, quoted);
        let searched: Vec<String> = folders
            .iter()
            .map(|folder| match folder.display().to_string() {
                path if path.is_empty() => ".".to_string(),
                path => path,
            })
            .collect();
        let beside: Vec<String> = folders
            .iter()
            .flat_map(|folder| {
                std::fs::read_dir(if folder.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    folder
                })
            })
            .flat_map(|list| list.filter_map(|entry| entry.ok()?.file_name().into_string().ok()))
            .filter(|found| found.ends_with(".p4"))
            .collect();
        let standard = [
            "core.p4",
            "v1model.p4",
            "psa.p4",
            "pna.p4",
            "ebpf_model.p4",
            "ubpf_model.p4",
            "xdp_model.p4",
        ];
        let candidates = beside.iter().map(String::as_str).chain(standard);
        let mut error = Diagnostic::error(
            "E0114",
            span,
            format!("there is no file `{name}` to include"),
        );
        error = match searched.is_empty() {
            true => error.note("only the built-in files were searched; -I DIR adds a directory"),
            false => error.note(format!(
                "searched: {}, and the built-in files",
                searched.join(", ")
            )),
        };
        if let Some(near) = suggest(name, candidates) {
            error = error.hint(format!("did you mean `{near}`?"));
        }
        self.diagnostics.push(error);
    }

    /// Expands the macros in a run of tokens.
    fn expand(&mut self, tokens: &[Token]) -> Vec<Token> {
        if self.macros.is_empty() && !tokens.iter().any(|token| token.text.starts_with("__")) {
            return tokens.to_vec();
        }
        let mut streams = Streams {
            stack: vec![Stream {
                tokens: tokens.to_vec(),
                at: 0,
                of: None,
            }],
        };
        let mut out = Vec::with_capacity(tokens.len());
        while let Some(token) = streams.next() {
            if out.len() > MAX_TOKENS {
                break;
            }
            if token.kind != TokenKind::Word || token.is_painted {
                out.push(token);
                continue;
            }
            if let Some(known) = self.predefined(&token) {
                out.push(known);
                continue;
            }
            let Some(found) = self.macros.get(&token.text) else {
                out.push(token);
                continue;
            };
            if streams.is_inside(&token.text) {
                out.push(Token {
                    is_painted: true,
                    ..token
                });
                continue;
            }
            let found = found.clone();
            let span = token.span;
            match self.invoke(&found, &token, &mut streams) {
                Some(body) => streams.push(body, Arc::clone(&token.text)),
                None => out.push(token),
            }
            if streams.stack.len() > 4096 {
                self.error(span, "macros nest too deep");
                break;
            }
        }
        out
    }

    /// `__LINE__` and `__FILE__`.
    fn predefined(&mut self, token: &Token) -> Option<Token> {
        let place = self.sources.lookup(token.span.lo);
        let (kind, text) = match &*token.text {
            "__LINE__" => (
                TokenKind::Integer,
                place.map_or(0, |place| place.line).to_string(),
            ),
            "__FILE__" => (
                TokenKind::String,
                place.map_or("", |place| place.file).to_string(),
            ),
            _ => return None,
        };
        let text = self.names.get(&text);
        Some(Token {
            kind,
            text,
            ..token.clone()
        })
    }

    /// What a use of a macro becomes; `None` when a function-like macro's name stands without parentheses.
    fn invoke(&mut self, found: &Macro, name: &Token, streams: &mut Streams) -> Option<Vec<Token>> {
        let at_use = |token: &Token| Token {
            span: name.span,
            starts_line: false,
            ..token.clone()
        };
        let Some(params) = &found.params else {
            return Some(self.paste(found.body.iter().map(at_use).collect()));
        };
        if !streams
            .peek()
            .is_some_and(|token| is_punctuation(token, "("))
        {
            return None;
        }
        let Some(mut args) = streams.args(found.is_variadic.then_some(params.len())) else {
            self.error(
                name.span,
                format!("the arguments of the macro `{}` do not end", name.text),
            );
            return Some(Vec::new());
        };
        if params.is_empty() && args.len() == 1 && args[0].is_empty() {
            args.clear();
        }
        if found.is_variadic && args.len() + 1 == params.len() {
            args.push(Vec::new());
        }
        if args.len() != params.len() {
            let message = format!(
                "the macro `{}` takes {} arguments, but {} are given",
                name.text,
                params.len(),
                args.len()
            );
            self.error(name.span, message);
            return Some(Vec::new());
        }
        let body = self.substitute(found, params, &args, name);
        Some(self.paste(body))
    }

    /// The body with arguments in place of parameters: expanded, but for those beside `#` and `##`.
    fn substitute(
        &mut self,
        found: &Macro,
        params: &[Arc<str>],
        args: &[Vec<Token>],
        name: &Token,
    ) -> Vec<Token> {
        let position = |token: &Token| match token.kind {
            TokenKind::Word => params.iter().position(|param| *param == token.text),
            _ => None,
        };
        let expanded: Vec<Vec<Token>> = args.iter().map(|arg| self.expand(arg)).collect();
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(token) = found.body.get(at) {
            let next = found.body.get(at + 1);
            if is_punctuation(token, "#")
                && let Some(which) = next.and_then(position)
            {
                let text = self.names.get(&spelling(&args[which]));
                out.push(Token {
                    kind: TokenKind::String,
                    text,
                    span: name.span,
                    ..token.clone()
                });
                at += 2;
                continue;
            }
            let pasted = next.is_some_and(|next| is_punctuation(next, "##"))
                || at > 0 && is_punctuation(&found.body[at - 1], "##");
            match position(token) {
                Some(which) if pasted => out.extend(args[which].iter().cloned()),
                Some(which) => out.extend(expanded[which].iter().cloned()),
                None => out.push(token.clone()),
            }
            at += 1;
        }
        for token in &mut out {
            token.span = name.span;
            token.starts_line = false;
        }
        out
    }

    /// Joins the tokens on both sides of each `##`.
    fn paste(&mut self, body: Vec<Token>) -> Vec<Token> {
        if !body.iter().any(|token| is_punctuation(token, "##")) {
            return body;
        }
        let mut out: Vec<Token> = Vec::new();
        let mut tokens = body.into_iter();
        while let Some(token) = tokens.next() {
            if !is_punctuation(&token, "##") {
                out.push(token);
                continue;
            }
            let (Some(left), Some(right)) = (out.pop(), tokens.next()) else {
                continue;
            };
            let joined = format!("{}{}", left.text, right.text);
            let mut parts = lex(&joined, 0, &mut self.names, &mut Diagnostics::new());
            parts.pop();
            out.extend(parts.into_iter().map(|part| Token {
                span: left.span,
                starts_line: false,
                ..part
            }));
        }
        out
    }
}

/// A run of tokens that is being read; perhaps what a macro became.
struct Stream {
    tokens: Vec<Token>,
    at: usize,
    of: Option<Arc<str>>,
}

struct Streams {
    stack: Vec<Stream>,
}

impl Streams {
    fn push(&mut self, tokens: Vec<Token>, of: Arc<str>) {
        self.stack.push(Stream {
            tokens,
            at: 0,
            of: Some(of),
        });
    }

    /// The next token; streams that ended are left on the way.
    fn next(&mut self) -> Option<Token> {
        loop {
            let stream = self.stack.last_mut()?;
            if let Some(token) = stream.tokens.get(stream.at) {
                stream.at += 1;
                return Some(token.clone());
            }
            self.stack.pop();
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.stack
            .iter()
            .rev()
            .find_map(|stream| stream.tokens.get(stream.at))
    }

    /// Whether this macro is being expanded: its stream has not ended.
    fn is_inside(&self, name: &Arc<str>) -> bool {
        self.stack
            .iter()
            .any(|stream| stream.of.as_ref() == Some(name))
    }

    /// Arguments between parentheses; with `most`, the last one takes further commas.
    fn args(&mut self, most: Option<usize>) -> Option<Vec<Vec<Token>>> {
        self.next()?;
        let mut args = vec![Vec::new()];
        let mut depth = 0usize;
        loop {
            let token = self.next()?;
            match &*token.text {
                _ if token.kind != TokenKind::Punctuation => {}
                "(" => depth += 1,
                ")" if depth == 0 => return Some(args),
                ")" => depth -= 1,
                "," if depth == 0 && most.is_none_or(|most| args.len() < most) => {
                    args.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            if let Some(last) = args.last_mut() {
                last.push(token);
            }
        }
    }
}

fn is_punctuation(token: &Token, text: &str) -> bool {
    token.kind == TokenKind::Punctuation && &*token.text == text
}

/// Behind the last token of the line that begins at `at`.
fn line_end(tokens: &[Token], at: usize) -> usize {
    let rest = tokens[at + 1..].iter().position(|token| token.starts_line);
    rest.map_or(tokens.len() - 1, |length| at + 1 + length)
}

/// The next directive, or the end.
fn next_directive(tokens: &[Token], at: usize) -> usize {
    let is_directive = |token: &Token| {
        token.starts_line && is_punctuation(token, "#") || token.kind == TokenKind::End
    };
    tokens[at..]
        .iter()
        .position(is_directive)
        .map_or(tokens.len() - 1, |length| at + length)
}

/// Tokens as text again, with single blanks.
fn spelling(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        if token.after_blank && !text.is_empty() {
            text.push(' ');
        }
        match token.kind {
            TokenKind::String => text.push_str(&format!("\"{}\"", token.text)),
            _ => text.push_str(&token.text),
        }
    }
    text
}
