//! The room of P4 text: preprocessing, lexing and parsing into a syntax tree, with places and diagnostics.
//!
//! **In:** a file or a text, and where to look for included ones. **Out:** a [`Parsed`]: a syntax tree, the [`source::SourceMap`] that its spans point
//! into, and [`diag::Diagnostics`]. Parsing never fails: what cannot be read is reported and left out.
//! **May import:** nothing of the house.
//!
//! Invariants: no text makes it panic, loop or overflow the stack; every node's span lies in the source map; a token out of a macro has the place
//! of the macro's use. Tests: `tests/`.

pub mod ast;
mod condition;
pub mod diag;
mod lex;
mod parse;
mod preprocess;
pub mod source;

use std::path::{Path, PathBuf};

use diag::{Diagnostic, Diagnostics};
use source::{SourceMap, Span};

/// How to preprocess.
#[derive(Clone, Default)]
pub struct ParseOptions {
    /// Directories searched for included files, in order, before the built-in files (`-I`).
    pub include_dirs: Vec<PathBuf>,
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

/// Reads and parses a program.
pub fn parse_file(path: &Path, options: &ParseOptions) -> Parsed {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => parse_str(&name, &text, options),
            Err(error) => {
                let good =
                    String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()])
                        .into_owned();
                let at = good.len() as u32;
                refused(&name, &good, at, "this file is not UTF-8 text")
            }
        },
        Err(error) => refused(&name, "", 0, &format!("cannot read {name}: {error}")),
    }
}

/// An empty program and one error.
fn refused(name: &str, text: &str, at: u32, message: &str) -> Parsed {
    let mut sources = SourceMap::new();
    sources.add(name, text);
    let mut diagnostics = Diagnostics::new();
    diagnostics.push(Diagnostic::error(
        "E0100",
        Span::new(1 + at, 1 + at),
        message,
    ));
    Parsed {
        program: ast::Program::default(),
        sources,
        diagnostics,
    }
}

/// Parses a program given as text; `name` stands for its file in diagnostics, and included files are looked for beside it.
pub fn parse_str(name: &str, text: &str, options: &ParseOptions) -> Parsed {
    let mut sources = SourceMap::new();
    let mut diagnostics = Diagnostics::new();
    let Some(file) = sources.add(name, text) else {
        return refused(name, "", 0, "this file is too large");
    };
    let tokens = preprocess::preprocess(file, &mut sources, options, &mut diagnostics);
    let mut parser = parse::Parser::new(&tokens);
    let decls = parser.program();
    diagnostics.extend(parser.into_diagnostics());
    Parsed {
        program: ast::Program { decls },
        sources,
        diagnostics,
    }
}
