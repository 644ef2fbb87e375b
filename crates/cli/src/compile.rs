//! Compiles P4 text to verified IR and shows its diagnostics.

use std::path::Path;

use syntax::diag::{Diagnostic, Diagnostics};
use syntax::files::FileSystem;
use syntax::source::SourceMap;

use crate::args::{Format, Preprocess, Source};
use crate::chain::Chained;
use crate::{chain, out};

/// A parsed and checked program.
pub(crate) struct Checked {
    pub(crate) program: sema::hir::Program,
    pub(crate) sources: SourceMap,
    pub(crate) diagnostics: Diagnostics,
}

/// Parses and checks a program. All errors are in the diagnostics.
pub(crate) fn check(source: &Source) -> Checked {
    let files = FileSystem {
        include_dirs: source.preprocess.include.clone(),
    };
    let options = parse_options(&source.preprocess);
    let parsed = syntax::parse_file(&source.program, &files, &options);
    let mut diagnostics = parsed.diagnostics;
    let mut program = sema::hir::Program::default();
    if !diagnostics.has_errors() {
        let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
        program = checked.program;
        diagnostics.extend(checked.diagnostics);
    }
    Checked {
        program,
        sources: parsed.sources,
        diagnostics,
    }
}

fn parse_options(preprocess: &Preprocess) -> syntax::ParseOptions {
    let define = |text: &String| match text.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (text.clone(), "1".to_string()),
    };
    syntax::ParseOptions {
        defines: preprocess.define.iter().map(define).collect(),
        undefs: preprocess.undefine.clone(),
        builtin: Some(sema::arch::builtin_include),
    }
}

/// Shows diagnostics on standard error (text) or standard output (JSON).
pub(crate) fn show(diagnostics: &Diagnostics, sources: &SourceMap, format: Format) {
    match format {
        Format::Text if diagnostics.is_empty() => {}
        Format::Text => out::note(diagnostics.render(sources, out::colours()).trim_end()),
        Format::Json => out::line(&diagnostics.to_json(sources)),
    }
}

/// Shows the diagnostics of several texts; as JSON in one array.
pub(crate) fn show_all(told: &[(Diagnostics, SourceMap)], format: Format) {
    match (told, format) {
        ([one], _) => show(&one.0, &one.1, format),
        (several, Format::Text) => {
            for (diagnostics, sources) in several {
                show(diagnostics, sources, format);
            }
        }
        (several, Format::Json) => {
            let arrays = several.iter().map(|(told, sources)| told.to_json(sources));
            let arrays = arrays.filter_map(|text| serde_json::from_str(&text).ok());
            let all: Vec<serde_json::Value> = arrays
                .flat_map(|array: Vec<serde_json::Value>| array)
                .collect();
            out::json(&all);
        }
    }
}

/// A program's IR, if it has no errors, and the diagnostics of its text.
pub(crate) struct Lowered {
    pub(crate) program: Option<ir::Program>,
    pub(crate) told: (Diagnostics, SourceMap),
}

/// Compiles the program of one file to verified IR.
pub(crate) fn lowered(source: &Source) -> Lowered {
    lowered_by(lower::lower, source)
}

/// Function that lowers a typed program to IR.
type Lowering = fn(&sema::hir::Program, &SourceMap, &str) -> Result<ir::Program, Vec<Diagnostic>>;

fn lowered_by(lowering: Lowering, source: &Source) -> Lowered {
    let mut checked = check(source);
    let mut program = None;
    if !checked.diagnostics.has_errors() {
        match lowering(&checked.program, &checked.sources, &source.name()) {
            Ok(lowered) => program = Some(lowered),
            Err(errors) => push_all(&mut checked.diagnostics, errors),
        }
    }
    Lowered {
        program,
        told: (checked.diagnostics, checked.sources),
    }
}

/// Compiles a program, or a chain of them, to verified IR. Shows all errors, and returns `None`
/// if there are any.
pub(crate) fn compile(source: &Source) -> Option<ir::Program> {
    if !source.is_chain() {
        let Lowered { program, told } = lowered(source);
        show(&told.0, &told.1, Format::Text);
        return program;
    }
    match chain::chain(source) {
        Ok(chained) => composed(chained),
        Err(error) => {
            out::error(&error);
            None
        }
    }
}

/// Compiles a program that is described to controllers and does not run here. Otherwise as
/// [`compile`].
pub(crate) fn describe(source: &Source) -> Option<ir::Program> {
    if source.is_chain() {
        return compile(source);
    }
    let Lowered { program, told } = lowered_by(lower::describe, source);
    show(&told.0, &told.1, Format::Text);
    program
}

/// Compiles a typed policy, as [`compile`] does. Its programs are searched in this directory.
pub(crate) fn compile_policy(policy: &str, directory: &Path) -> Option<ir::Program> {
    composed(chain::typed_chain(policy, directory))
}

fn composed(chained: Chained) -> Option<ir::Program> {
    show_all(&chained.told, Format::Text);
    chained.composed.map(|composed| composed.program)
}

/// Compiles a program that is given as text, for example by a controller. Returns its first
/// errors as text, if there are any. The text cannot include files of this machine, only the
/// built-in ones.
pub(crate) fn compile_text(name: &str, text: &str) -> Result<ir::Program, String> {
    let options = syntax::ParseOptions {
        builtin: Some(sema::arch::builtin_include),
        ..Default::default()
    };
    let parsed = syntax::parse_str(name, text, &options);
    let mut diagnostics = parsed.diagnostics;
    if diagnostics.has_errors() {
        return Err(diagnostics.render(&parsed.sources, false));
    }
    let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
    diagnostics.extend(checked.diagnostics);
    if diagnostics.has_errors() {
        return Err(diagnostics.render(&parsed.sources, false));
    }
    let stem = name.strip_suffix(".p4").unwrap_or(name);
    lower::lower(&checked.program, &parsed.sources, stem).map_err(|errors| {
        push_all(&mut diagnostics, errors);
        diagnostics.render(&parsed.sources, false)
    })
}

fn push_all(diagnostics: &mut Diagnostics, more: Vec<Diagnostic>) {
    for diagnostic in more {
        diagnostics.push(diagnostic);
    }
}
