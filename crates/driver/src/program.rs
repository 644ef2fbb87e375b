//! Compilation of one program, in phases.

use std::path::Path;

use sema::hir;
use syntax::ast;
use syntax::diag::Diagnostic;
use syntax::files::FileSystem;

use crate::policy::stem;
use crate::{CompileError, SourceDiagnostics};

/// A P4 program as it is given to the compiler.
#[derive(Clone, Copy, Debug)]
pub enum Source<'s> {
    /// A file. It can include files of its own directory, of `files` and the built-in ones.
    File {
        /// The program file.
        path: &'s Path,
        /// The capability to read files.
        files: &'s FileSystem,
    },
    /// A text, for example from a controller. It can include the built-in files alone.
    Text {
        /// The file name in diagnostics. No file of this name is opened.
        name: &'s str,
        /// P4_16 text.
        text: &'s str,
    },
}

impl Source<'_> {
    /// Returns the name of the IR program: the file name without directory and extension.
    fn program_name(&self) -> String {
        match self {
            Source::File { path, .. } => stem(path),
            Source::Text { name, .. } => name.strip_suffix(".p4").unwrap_or(name).to_owned(),
        }
    }
}

/// Options of the preprocessor.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Macros with their bodies (`-D`).
    pub defines: Vec<(String, String)>,
    /// Macros that are removed (`-U`).
    pub undefs: Vec<String>,
}

/// A program after preprocessing and parsing.
#[derive(Debug)]
pub struct ParsedProgram {
    /// The syntax tree. It is complete only if there are no errors.
    pub tree: ast::Program,
    /// Diagnostics of preprocessor, lexer and parser.
    pub diagnostics: SourceDiagnostics,
    name: String,
}

/// A program after name resolution, type check and the checks of its architecture.
#[derive(Debug)]
pub struct CheckedProgram {
    /// Diagnostics up to this phase.
    pub diagnostics: SourceDiagnostics,
    /// The typed program. It is complete only if there are no errors.
    typed: hir::Program,
    name: String,
}

/// Block of C in a program: the text between the braces of `extern "C" { .. }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignBlock {
    /// The C text.
    pub text: String,
    /// File of its first line.
    pub file: String,
    /// Line of its first character, from 1.
    pub line: u32,
}

/// Result of a compilation.
#[derive(Debug)]
pub struct Compiled {
    /// The program, if there are no errors. The IR verifier accepts it.
    pub program: Option<ir::Program>,
    /// The blocks of C, in source order.
    pub foreign: Vec<ForeignBlock>,
    /// Errors and warnings of all phases.
    pub diagnostics: SourceDiagnostics,
}

/// Preprocesses and parses a program.
pub fn parse(source: &Source<'_>, options: &Options) -> ParsedProgram {
    let parse_options = syntax::ParseOptions {
        defines: options.defines.clone(),
        undefs: options.undefs.clone(),
        builtin: Some(sema::arch::builtin_include),
    };
    let parsed = match *source {
        Source::File { path, files } => syntax::parse_file(path, files, &parse_options),
        Source::Text { name, text } => syntax::parse_str(name, text, &parse_options),
    };
    ParsedProgram {
        tree: parsed.program,
        diagnostics: SourceDiagnostics {
            list: parsed.diagnostics,
            sources: parsed.sources,
        },
        name: source.program_name(),
    }
}

/// Parses and checks a program.
pub fn check(source: &Source<'_>, options: &Options) -> CheckedProgram {
    parse(source, options).check()
}

/// Compiles a program.
pub fn compile(source: &Source<'_>, options: &Options) -> Compiled {
    check(source, options).lower()
}

/// Compiles a program that is described to controllers and does not run here
/// ([`CheckedProgram::describe`]).
pub fn describe(source: &Source<'_>, options: &Options) -> Compiled {
    check(source, options).describe()
}

/// Compiles a program that is given as text. It can include the built-in files alone.
///
/// # Errors
/// The diagnostics of the text.
pub fn compile_text(name: &str, text: &str) -> Result<ir::Program, CompileError> {
    compile(&Source::Text { name, text }, &Options::default()).into_result()
}

impl ParsedProgram {
    /// Checks the program, if it has no errors yet.
    pub fn check(self) -> CheckedProgram {
        let mut checked = CheckedProgram {
            typed: hir::Program::default(),
            diagnostics: self.diagnostics,
            name: self.name,
        };
        if !checked.diagnostics.has_errors() {
            let found = sema::check(&self.tree, &sema::CheckOptions::default());
            checked.typed = found.program;
            checked.diagnostics.list.extend(found.diagnostics);
        }
        checked
    }
}

impl CheckedProgram {
    /// Lowers the program to IR, if it has no errors yet.
    pub fn lower(self) -> Compiled {
        let (sources, name) = (&self.diagnostics.sources, self.name.as_str());
        let lowered = self
            .is_valid()
            .then(|| lower::lower(&self.typed, sources, name));
        self.compiled(lowered)
    }

    /// Lowers the program to IR that describes it to controllers and does not run. Calls of
    /// externs that have no implementation do nothing.
    pub fn describe(self) -> Compiled {
        let (sources, name) = (&self.diagnostics.sources, self.name.as_str());
        let lowered = self
            .is_valid()
            .then(|| lower::describe(&self.typed, sources, name));
        self.compiled(lowered)
    }

    /// Returns true if the program has blocks of C.
    pub fn has_foreign_code(&self) -> bool {
        !self.typed.foreign.is_empty()
    }

    fn foreign(&self) -> Vec<ForeignBlock> {
        let blocks = self.typed.foreign.iter();
        let placed = blocks.filter_map(|block| {
            let at = self.diagnostics.sources.lookup(block.span.lo)?;
            Some(ForeignBlock {
                text: block.text.to_string(),
                file: at.file.to_owned(),
                line: at.line,
            })
        });
        placed.collect()
    }

    fn is_valid(&self) -> bool {
        !self.diagnostics.has_errors()
    }

    fn compiled(self, lowered: Option<Result<ir::Program, Vec<Diagnostic>>>) -> Compiled {
        let mut compiled = Compiled {
            program: None,
            foreign: self.foreign(),
            diagnostics: self.diagnostics,
        };
        match lowered {
            Some(Ok(program)) => compiled.program = Some(program),
            Some(Err(errors)) => compiled.diagnostics.push_all(errors),
            None => {}
        }
        compiled
    }
}

impl Compiled {
    /// Returns the program, without warnings.
    ///
    /// # Errors
    /// The diagnostics, if the program has errors.
    pub fn into_result(self) -> Result<ir::Program, CompileError> {
        self.program
            .ok_or_else(|| CompileError::Diagnostics(vec![self.diagnostics]))
    }
}
