//! Crate `syntax`: preprocesses, lexes and parses P4 text into a syntax tree, with source positions
//! and diagnostics.
//!
//! - **In:** a file with permission to read files ([`files::FileSystem`]), or a text without it.
//! - **Out:** a [`Parsed`]: a syntax tree ([`ast`]), the [`source::SourceMap`] of its spans, and
//!   [`diag::Diagnostics`]. Parsing always returns a result: text with errors is reported and left
//!   out.
//!
//! Invariants:
//! - No text causes a panic, an endless run, or an overflow of a 2 MiB stack. Nesting, operator
//!   chains, includes, macro expansion, tokens and diagnostics are bounded. Exceeding a bound is an
//!   error with a source position. Recursive walks of a tree may rely on its bounded height.
//! - A text cannot read, list or name files of the machine: [`parse_str`] has no
//!   [`files::FileSystem`].
//! - Every span is in the source map. A token from a macro has the position of the macro's use. A
//!   token from an argument keeps its own position.
//! - A program that p4c's grammar rejects is rejected on the line of the first wrong token.
//!
//! Tests: `tests/errors.rs` (snippets and their diagnostics), `tests/preprocessor.rs`,
//! `tests/trees.rs` (trees of snippets), `tests/soup.rs` (random text), and unit tests beside the
//! code.

pub mod ast;
pub mod diag;
pub mod files;
mod lex;
mod parse;
mod preprocess;
pub mod source;
mod token;

use std::path::Path;

use diag::Diagnostics;
use files::FileSystem;
use preprocess::{Root, preprocess};
use source::SourceMap;

/// Options of the preprocessor.
#[derive(Clone, Default)]
pub struct ParseOptions {
    /// Predefined macros and their bodies (`-D`).
    pub defines: Vec<(String, String)>,
    /// Macros to undefine (`-U`).
    pub undefs: Vec<String>,
    /// Built-in files, by name.
    pub builtin: Option<fn(&str) -> Option<&'static str>>,
}

/// Result of parsing.
#[derive(Debug)]
pub struct Parsed {
    /// The tree. It is complete only if there are no errors.
    pub program: ast::Program,
    /// The source files.
    pub sources: SourceMap,
    /// Errors and warnings.
    pub diagnostics: Diagnostics,
}

/// Reads and parses a program. Included files are searched beside it and in `files`.
pub fn parse_file(path: &Path, files: &FileSystem, options: &ParseOptions) -> Parsed {
    parse(Root::File(path, files), options)
}

/// Parses a program given as text. `name` is its file name in diagnostics and is never opened. The
/// text can only include the built-in files.
pub fn parse_str(name: &str, text: &str, options: &ParseOptions) -> Parsed {
    parse(Root::Text(name, text), options)
}

fn parse(root: Root<'_>, options: &ParseOptions) -> Parsed {
    let read = preprocess(root, options);
    let mut diagnostics = read.diagnostics;
    let mut parser = parse::Parser::new(&read.tokens, &read.interner, &read.sources);
    let decls = parser.program();
    let found = parser.into_diagnostics();
    // After an unterminated string or comment, or an endless include, the parser's messages would
    // be misleading.
    if diagnostics
        .sorted()
        .iter()
        .any(|d| matches!(d.code, "E0011" | "E0019" | "E0100" | "E0101" | "E0103"))
    {
        return Parsed {
            program: ast::Program { decls },
            sources: read.sources,
            diagnostics,
        };
    }
    match parse::recognise(&read.tokens, &read.interner).filter(|_| found.has_errors()) {
        Some(older) => diagnostics.push(older),
        None => diagnostics.extend(found),
    }
    Parsed {
        program: ast::Program { decls },
        sources: read.sources,
        diagnostics,
    }
}
