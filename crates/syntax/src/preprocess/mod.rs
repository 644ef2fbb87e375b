//! The preprocessor: converts files to one sequence of tokens. It has the features of C's
//! preprocessor that P4 programs use.
//!
//! `mod.rs` has the files and directives, [`expand`] the macros, [`condition`] the expressions of
//! `#if`.

mod condition;
mod expand;
mod include;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::ParseOptions;
use crate::diag::{Diagnostic, Diagnostics};
use crate::files::FileSystem;
use crate::lex::{LexContext, Lexer};
use crate::source::{SourceMap, Span};
use crate::token::{AFTER_SPACE, Interner, LINE_START, Symbol, Token, TokenKind};
use expand::{Context, Macro};

/// Maximum nesting depth of includes.
const INCLUDE_DEPTH: usize = 64;

/// Maximum number of includes. A file counts each time that it is included.
const MAX_INCLUDES: usize = 10_000;

/// Maximum number of bytes of all files. A file counts each time that it is included.
const MAX_BYTES: usize = 32 << 20;

/// Maximum number of tokens after preprocessing.
const MAX_TOKENS: usize = 4_000_000;

/// Maximum number of open conditionals in one file.
const MAX_CONDITIONALS: usize = 1000;

/// Number of errors after which the rest of a program is skipped.
const MAX_ERRORS: usize = 200;

/// Output of the preprocessor.
pub(crate) struct Preprocessed {
    /// Ends with `End`, which is positioned right after the last token.
    pub(crate) tokens: Vec<Token>,
    pub(crate) interner: Interner,
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Diagnostics,
}

/// The source of a program.
pub(crate) enum Root<'a> {
    /// A file, with permission to read files.
    File(&'a std::path::Path, &'a FileSystem),
    /// A file name for diagnostics, and the text. It can only include the built-in files.
    Text(&'a str, &'a str),
}

/// An open `#if`.
struct Conditional {
    span: Span,
    /// True if one of its groups was included.
    taken: bool,
    after_else: bool,
}

/// Action after a directive.
enum After {
    /// Continue with the next line.
    Go,
    /// Skip a group.
    Skip,
    /// End the program.
    Stop,
    /// Open a file: its index, the first search directory of its includes, and the position of its
    /// include.
    Open(usize, Option<PathBuf>, Span),
}

const DIRECTIVES: [&str; 13] = [
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error",
    "warning", "line", "pragma",
];

/// A file being read.
struct OpenFile {
    lexer: Lexer,
    /// Its index in the source map.
    index: usize,
    /// First search directory of `#include "..."`, if the text is from a file.
    directory: Option<PathBuf>,
    conditionals: Vec<Conditional>,
}

/// The words that the preprocessor recognises.
struct Words {
    defined: Symbol,
    va_args: Symbol,
    file: Symbol,
    line: Symbol,
}

pub(crate) struct Preprocessor<'a> {
    options: &'a ParseOptions,
    /// Files of the machine, if the program may read them.
    system: Option<&'a FileSystem>,
    sources: SourceMap,
    interner: Interner,
    words: Words,
    /// Diagnostics of the lexer and the directives, in order.
    found: Diagnostics,
    files: Vec<OpenFile>,
    /// Indices of files by path, so that a file's text is stored once.
    read: HashMap<PathBuf, usize>,
    /// Files with `#pragma once`.
    once: HashSet<usize>,
    macros: HashMap<Symbol, Rc<Macro>>,
    contexts: Vec<Context>,
    /// Macros being expanded.
    active: HashSet<Symbol>,
    /// Number of nested macro calls with arguments being collected.
    collecting: usize,
    /// Remaining number of tokens that expansions may create.
    budget: usize,
    /// Remaining number of files that may be opened, and of bytes in them.
    includes_left: usize,
    bytes_left: usize,
}

/// Preprocesses a program.
pub(crate) fn preprocess(root: Root<'_>, options: &ParseOptions) -> Preprocessed {
    let system = match root {
        Root::File(_, system) => Some(system),
        Root::Text(..) => None,
    };
    let mut preprocessor = Preprocessor::new(options, system);
    preprocessor.open_root(root);
    preprocessor.open_command_line();
    let mut tokens = Vec::new();
    loop {
        let token = preprocessor.next_expanded();
        if token.kind == TokenKind::End {
            break;
        }
        if tokens.len() == MAX_TOKENS {
            let message = format!("the program has more than {MAX_TOKENS} tokens");
            preprocessor.stop(token.span, message, "split the program");
            break;
        }
        tokens.push(token);
    }
    let start = preprocessor
        .sources
        .files()
        .first()
        .map_or(Span::NONE, |f| Span::new(f.base(), f.base()));
    let end = tokens.last().map_or(start, |t: &Token| t.span.end());
    tokens.push(Token {
        kind: TokenKind::End,
        flags: LINE_START | AFTER_SPACE,
        symbol: Interner::EMPTY,
        span: end,
    });
    Preprocessed {
        tokens,
        interner: preprocessor.interner,
        sources: preprocessor.sources,
        diagnostics: preprocessor.found,
    }
}

impl<'a> Preprocessor<'a> {
    fn new(options: &'a ParseOptions, system: Option<&'a FileSystem>) -> Preprocessor<'a> {
        let mut interner = Interner::new();
        let words = Words {
            defined: interner.intern("defined"),
            va_args: interner.intern("__VA_ARGS__"),
            file: interner.intern("__FILE__"),
            line: interner.intern("__LINE__"),
        };
        Preprocessor {
            options,
            system,
            sources: SourceMap::new(),
            interner,
            words,
            found: Diagnostics::new(),
            files: Vec::new(),
            read: HashMap::new(),
            once: HashSet::new(),
            macros: HashMap::new(),
            contexts: Vec::new(),
            active: HashSet::new(),
            collecting: 0,
            budget: expand::BUDGET,
            includes_left: MAX_INCLUDES,
            bytes_left: MAX_BYTES,
        }
    }

    /// Inserts `-D` and `-U` before the program, as a file of directives.
    fn open_command_line(&mut self) {
        let mut text = String::new();
        for (name, body) in &self.options.defines {
            let line = format!("#define {} {}", name, body).replace('\n', " ");
            text.push_str(&line);
            text.push('\n');
        }
        for name in &self.options.undefs {
            text.push_str(&format!("#undef {}\n", name.replace('\n', " ")));
        }
        if !text.is_empty()
            && !self.files.is_empty()
            && let Some(index) = self.sources.add("<command line>", text)
        {
            self.open(index, None, Span::NONE);
        }
    }

    fn open(&mut self, index: usize, directory: Option<PathBuf>, at: Span) {
        let file = &self.sources.files()[index];
        let Some(left) = self.bytes_left.checked_sub(file.text().len()) else {
            let message = format!("the program's files have more than {MAX_BYTES} bytes");
            let hint = "a file counts each time that it is included";
            return self.stop(at, message, hint);
        };
        self.bytes_left = left;
        let lexer = Lexer::new(file.shared_text(), file.base());
        self.files.push(OpenFile {
            lexer,
            index,
            directory,
            conditionals: Vec::new(),
        });
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// Reports that a limit on the whole program is exceeded. The rest is skipped.
    fn stop(&mut self, span: Span, message: impl Into<String>, hint: &str) {
        self.error(Diagnostic::error("E0019", span, message).hint(hint));
        self.files.clear();
    }

    /// Returns the next token of the innermost file; `End` if no file is open.
    fn lex(&mut self) -> Token {
        let Some(file) = self.files.last_mut() else {
            return Token {
                kind: TokenKind::End,
                flags: 0,
                symbol: Interner::EMPTY,
                span: Span::NONE,
            };
        };
        file.lexer.next(&mut LexContext {
            interner: &mut self.interner,
            found: &mut self.found,
        })
    }

    /// Returns the next token before macro expansion. Directives are executed.
    fn file_token(&mut self) -> Token {
        loop {
            support::work::checkpoint();
            // An error may occur on each line of a large file.
            if self.found.error_count() >= MAX_ERRORS {
                self.files.clear();
            }
            let token = self.lex();
            match token.kind {
                TokenKind::Hash if token.has(LINE_START) => self.directive(token),
                TokenKind::End if self.files.is_empty() || self.collecting > 0 => return token,
                TokenKind::End => self.close(),
                _ => return token,
            }
        }
    }

    fn close(&mut self) {
        let Some(file) = self.files.pop() else { return };
        for conditional in file.conditionals {
            let message = "this conditional has no `#endif`";
            self.error(Diagnostic::error("E0013", conditional.span, message).hint("add `#endif`"));
        }
    }

    fn directive(&mut self, hash: Token) {
        self.enter_directive();
        let name = self.lex();
        let after = match name.kind {
            TokenKind::End => After::Go,
            // `# 12 "file"`: output of other preprocessors.
            TokenKind::Integer => self.line_directive(hash.span.to(name.span), name),
            _ => self.named_directive(hash.span.to(name.span), name.symbol),
        };
        self.leave_directive();
        match after {
            After::Go => {}
            After::Skip => self.skip_groups(),
            After::Stop => self.files.clear(),
            After::Open(index, directory, at) => self.open(index, directory, at),
        }
    }

    fn named_directive(&mut self, span: Span, name: Symbol) -> After {
        let word = self.interner.text(name).clone();
        match &*word {
            "include" => return self.include(span),
            "define" => self.define(span),
            "undef" => self.undef(span),
            "if" | "ifdef" | "ifndef" => {
                let taken = self.condition(span, &word);
                self.open_conditional(span, taken);
                return if taken { After::Go } else { After::Skip };
            }
            "elif" | "else" | "endif" => return self.end_of_kept_group(span, &word),
            "error" | "warning" => self.message(span, &word),
            "line" => {
                let number = self.lex();
                return self.line_directive(span, number);
            }
            "pragma" => self.pragma(),
            _ => {
                let message = format!("`#{word}` is no directive: the line is passed over");
                let diagnostic = Diagnostic::warning("W0012", span, message);
                if let Some(file) = self.files.last_mut() {
                    // Its text may contain invalid tokens.
                    file.lexer.rest_of_line();
                }
                // Later errors are only counted.
                let is_shown = self.found.len() < MAX_ERRORS;
                self.error(if is_shown {
                    diagnostic.suggest(&word, DIRECTIVES)
                } else {
                    diagnostic
                });
            }
        }
        After::Go
    }

    fn enter_directive(&mut self) {
        if let Some(file) = self.files.last_mut() {
            file.lexer.enter_directive();
        }
    }

    fn leave_directive(&mut self) {
        if let Some(file) = self.files.last_mut() {
            file.lexer.leave_directive(&mut LexContext {
                interner: &mut self.interner,
                found: &mut self.found,
            });
        }
    }

    /// Returns the tokens up to the end of the directive.
    fn rest_of_directive(&mut self) -> Vec<Token> {
        std::iter::from_fn(|| Some(self.lex()).filter(|token| token.kind != TokenKind::End))
            .collect()
    }

    /// Reads the macro name of `#define`, `#undef`, `#ifdef` or `#ifndef`.
    fn macro_name(&mut self, directive: Span) -> Option<Token> {
        let name = self.lex();
        if name.is_word() && name.symbol != self.words.defined {
            return Some(name);
        }
        let (span, message) = match name.kind {
            TokenKind::End => (directive, "a macro's name is missing here".to_string()),
            _ => (
                name.span,
                format!(
                    "`{}` cannot be a macro's name",
                    self.interner.text(name.symbol)
                ),
            ),
        };
        self.error(Diagnostic::error("E0012", span, message));
        None
    }

    // Conditionals.

    /// Returns true if the group after `#if`, `#ifdef`, `#ifndef` or `#elif` is included.
    fn condition(&mut self, directive: Span, word: &str) -> bool {
        if matches!(word, "if" | "elif") {
            let tokens = self.rest_of_directive();
            return self.evaluate(directive, tokens);
        }
        let name = self.macro_name(directive);
        let defined = name.is_some_and(|name| self.is_defined(name.symbol));
        name.is_some() && defined == (word == "ifdef")
    }

    fn open_conditional(&mut self, span: Span, taken: bool) {
        let Some(file) = self.files.last_mut() else {
            return;
        };
        if file.conditionals.len() == MAX_CONDITIONALS {
            let message = format!("conditionals are nested more than {MAX_CONDITIONALS} deep");
            return self.stop(span, message, "end conditionals with `#endif`");
        }
        file.conditionals.push(Conditional {
            span,
            taken,
            after_else: false,
        });
    }

    fn end_of_kept_group(&mut self, span: Span, word: &str) -> After {
        if self
            .files
            .last()
            .is_some_and(|file| file.conditionals.is_empty())
        {
            self.error(Diagnostic::error(
                "E0013",
                span,
                format!("`#{word}` without `#if`"),
            ));
            return After::Go;
        }
        if word == "endif" {
            self.close_conditional();
            return After::Go;
        }
        self.check_order(span, word);
        After::Skip
    }

    fn close_conditional(&mut self) {
        if let Some(file) = self.files.last_mut() {
            file.conditionals.pop();
        }
    }

    /// Checks that only `#endif` follows `#else`.
    fn check_order(&mut self, span: Span, word: &str) {
        let Some(open) = self
            .files
            .last_mut()
            .and_then(|file| file.conditionals.last_mut())
        else {
            return;
        };
        if open.after_else {
            let diagnostic = Diagnostic::error("E0013", span, format!("`#{word}` after `#else`"));
            let diagnostic = diagnostic.label(open.span, "the conditional begins here");
            self.error(diagnostic);
        } else {
            open.after_else = word == "else";
        }
    }

    /// Skips groups of the innermost conditional up to one that is included, or to its end.
    fn skip_groups(&mut self) {
        let mut inner = 0usize;
        loop {
            support::work::checkpoint();
            let Some(file) = self.files.last_mut() else {
                return;
            };
            let Some(hash) = file.lexer.skip_to_directive() else {
                return;
            };
            self.enter_directive();
            let name = self.lex();
            let span = hash.to(name.span);
            let word = self.interner.text(name.symbol).clone();
            let done = match &*word {
                "if" | "ifdef" | "ifndef" => {
                    inner += 1;
                    false
                }
                "endif" if inner > 0 => {
                    inner -= 1;
                    false
                }
                "endif" => {
                    self.close_conditional();
                    true
                }
                "elif" | "else" if inner == 0 => self.next_group_is_kept(span, &word),
                _ => false,
            };
            match done {
                true => self.leave_directive(),
                false => self.abandon_directive(),
            }
            if done {
                return;
            }
        }
    }

    /// Treats the rest of a directive's line as text, so that skipped text never causes an error.
    fn abandon_directive(&mut self) {
        if let Some(file) = self.files.last_mut() {
            file.lexer.abandon_directive();
        }
    }

    fn next_group_is_kept(&mut self, span: Span, word: &str) -> bool {
        self.check_order(span, word);
        let taken = |p: &mut Self| {
            p.files
                .last_mut()
                .and_then(|f| f.conditionals.last_mut())
                .map(|open| open.taken)
        };
        if taken(self) != Some(false) {
            return false;
        }
        let kept = word == "else" || self.condition(span, word);
        if let Some(open) = self
            .files
            .last_mut()
            .and_then(|f| f.conditionals.last_mut())
        {
            open.taken = kept;
        }
        kept
    }

    // The other directives.

    fn message(&mut self, span: Span, word: &str) {
        let Some(file) = self.files.last_mut() else {
            return;
        };
        let (text, place) = file.lexer.rest_of_line();
        let span = span.to(place);
        let diagnostic = match word {
            "error" => Diagnostic::error("E0014", span, format!("#error {text}")),
            _ => Diagnostic::warning("W0014", span, format!("#warning {text}")),
        };
        self.error(diagnostic);
    }

    fn pragma(&mut self) {
        let word = self.lex();
        if &**self.interner.text(word.symbol) == "once" {
            if let Some(file) = self.files.last() {
                self.once.insert(file.index);
            }
        } else if let Some(file) = self.files.last_mut() {
            // Other pragmas are for other compilers. Their text may contain invalid tokens.
            file.lexer.rest_of_line();
        }
    }

    /// Executes `#line 12 "file"` or `# 12 "file" flags`.
    fn line_directive(&mut self, span: Span, number: Token) -> After {
        let line = self
            .interner
            .text(number.symbol)
            .parse::<u32>()
            .ok()
            .filter(|_| number.kind == TokenKind::Integer);
        let path = self.lex();
        let has_path = path.kind == TokenKind::String;
        let Some(line) = line.filter(|_| has_path || path.kind == TokenKind::End) else {
            let hint = "write `#line NUMBER` or `#line NUMBER \"FILE\"`";
            self.error(Diagnostic::error("E0012", span, "this is not a line directive").hint(hint));
            return After::Go;
        };
        let path = has_path.then(|| self.interner.text(path.symbol).clone());
        self.sources.mark_line(span.lo, line, path);
        After::Go
    }

    fn undef(&mut self, directive: Span) {
        if let Some(name) = self.macro_name(directive) {
            self.macros.remove(&name.symbol);
        }
    }
}
