//! The room of P4 text: preprocessing, lexing and parsing into a syntax tree, with places and diagnostics.
//!
//! **In:** a file with leave to read files ([`files::FileSystem`]), or a text without. **Out:** a
//! [`Parsed`]: a syntax tree ([`ast`]), the
//! [`source::SourceMap`] that its spans point into, and [`diag::Diagnostics`]. Parsing never fails: what cannot be read is
//! reported and left out. **May import:** `support`.
//!
//! Invariants:
//! - no text makes it panic, run on or overflow a stack of 2 MiB: nesting, chains of operators,
//!   includes, macro expansion, tokens
//!   and diagnostics are bounded, and passing a bound is a located error; whoever walks a tree may
//!   rely on its height;
//! - a text reads, lists and names no file of the machine: [`parse_str`] has no
//!   [`files::FileSystem`];
//! - every span lies in the source map; a token out of a macro has the place of the macro's use, one out of an argument its own;
//! - a program that p4c's grammar refuses is refused on the line where the first wrong token stands.
//!
//! Tests: `tests/errors.rs` (snippets and what is said about them), `tests/preprocessor.rs`, `tests/trees.rs` (what snippets
//! become), `tests/soup.rs` (random text), and unit tests beside the code.

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

/// How to preprocess.
#[derive(Clone, Default)]
pub struct ParseOptions {
    /// Macros and their bodies (`-D`).
    pub defines: Vec<(String, String)>,
    /// Macros to forget (`-U`).
    pub undefs: Vec<String>,
    /// Files that are built in, by name.
    pub builtin: Option<fn(&str) -> Option<&'static str>>,
}

/// What parsing gives.
#[derive(Debug)]
pub struct Parsed {
    /// The tree; whole only when there are no errors.
    pub program: ast::Program,
    /// The files that were read.
    pub sources: SourceMap,
    /// What is wrong.
    pub diagnostics: Diagnostics,
}

/// Reads and parses a program; included files are looked for beside it and in `files`.
pub fn parse_file(path: &Path, files: &FileSystem, options: &ParseOptions) -> Parsed {
    parse(Root::File(path, files), options)
}

/// Parses a program given as text. `name` stands for its file in diagnostics and is never opened;
/// the text can include the built-in files alone.
pub fn parse_str(name: &str, text: &str, options: &ParseOptions) -> Parsed {
    parse(Root::Text(name, text), options)
}

fn parse(root: Root<'_>, options: &ParseOptions) -> Parsed {
    let read = preprocess(root, options);
    let mut diagnostics = read.diagnostics;
    let mut parser = parse::Parser::new(&read.tokens, &read.interner, &read.sources);
    let decls = parser.program();
    let found = parser.into_diagnostics();
    // A string or comment without end swallows what follows, and so does an endless include; what the parser says then misleads.
    if diagnostics
        .sorted()
        .iter()
        .any(|d| matches!(d.code, "E0011" | "E0019" | "E0100" | "E0101"))
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
