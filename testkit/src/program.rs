//! Compiles P4 files and policies to verified programs, with all diagnostics as one text. Also
//! finds the files that have tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ir::Program;
use passes::compose::{Composed, Form, Policy, StepProgram, compose};

/// Returns the programs and policies below a directory that have an STF test beside them.
///
/// # Panics
/// The directory cannot be read.
pub fn tested(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("the directory can be read") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "stf") {
                let program = ["p4", "policy"].map(|ending| path.with_extension(ending));
                found.extend(program.into_iter().find(|program| program.exists()));
            }
        }
    }
    found.sort();
    found
}

/// Compiles the program in this file, with the embedded include files only. The programs of a
/// policy are merged into one.
///
/// # Errors
/// The diagnostics, as a user would see them.
pub fn compile(path: &Path) -> Result<Arc<Program>, String> {
    if path.extension().is_some_and(|ending| ending == "policy") {
        let composed = compile_policy(path, Form::Merged)?;
        return Ok(Arc::new(composed.program));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let files = syntax::files::FileSystem::default();
    compiled(syntax::parse_file(path, &files, &options()), &name)
}

/// Compiles the programs of the policy in this file and merges them into one.
///
/// # Errors
/// The diagnostics, as a user would see them.
pub fn compile_policy(path: &Path, form: Form) -> Result<Composed, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let policy = Policy::read(&text).map_err(|error| error.to_string())?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let steps = policy.steps().into_iter();
    let steps: Vec<_> = steps
        .map(|step| Ok((step.name.as_str(), compile(&directory.join(&step.source))?)))
        .collect::<Result<_, String>>()?;
    let programs = steps.iter();
    let programs: Vec<_> = programs
        .map(|(step, program)| StepProgram { step, program })
        .collect();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    compose(&name, &policy, &programs, form).map_err(|error| error.to_string())
}

/// Compiles programs, given by name and text, and merges them into a chain in this order.
///
/// # Errors
/// The diagnostics, as a user would see them.
pub fn compile_steps(steps: &[(&str, &str)]) -> Result<Arc<Program>, String> {
    let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
    let policy = Policy::read(&names.join(" -> ")).map_err(|error| error.to_string())?;
    let programs = steps.iter();
    let programs: Vec<_> = programs
        .map(|(name, text)| Ok((*name, compile_text(text)?)))
        .collect::<Result<_, String>>()?;
    let given = programs.iter();
    let given: Vec<_> = given
        .map(|(step, program)| StepProgram { step, program })
        .collect();
    let composed = compose("line", &policy, &given, Form::Merged);
    Ok(Arc::new(
        composed.map_err(|error| error.to_string())?.program,
    ))
}

/// Compiles this text.
///
/// # Errors
/// The diagnostics, as a user would see them.
pub fn compile_text(text: &str) -> Result<Arc<Program>, String> {
    compiled(syntax::parse_str("text.p4", text, &options()), "text")
}

fn options() -> syntax::ParseOptions {
    syntax::ParseOptions {
        builtin: Some(sema::arch::builtin_include),
        ..Default::default()
    }
}

fn compiled(parsed: syntax::Parsed, name: &str) -> Result<Arc<Program>, String> {
    if parsed.diagnostics.has_errors() {
        return Err(parsed.diagnostics.render(&parsed.sources, false));
    }
    let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
    if checked.diagnostics.has_errors() {
        return Err(checked.diagnostics.render(&parsed.sources, false));
    }
    let lowered = lower::lower(&checked.program, &parsed.sources, name);
    lowered.map(Arc::new).map_err(|errors| {
        let mut diagnostics = syntax::diag::Diagnostics::new();
        for error in errors {
            diagnostics.push(error);
        }
        diagnostics.render(&parsed.sources, false)
    })
}
