//! Compiles P4 files and policies to verified programs, with all diagnostics as one text. Also
//! finds the files that have tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::{FileSystem, Options, PolicySource, Source};
use ir::Program;
use passes::compose::{Composed, Form};

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
    if driver::is_policy(path) {
        let composed = compile_policy(path, Form::Merged)?;
        return Ok(Arc::new(composed.program));
    }
    let files = FileSystem::default();
    let source = Source::File {
        path,
        files: &files,
    };
    let compiled = driver::compile(&source, &Options::default());
    Ok(Arc::new(compiled.into_result()?))
}

/// Compiles the programs of the policy in this file and merges them into one.
///
/// # Errors
/// The diagnostics, as a user would see them.
pub fn compile_policy(path: &Path, form: Form) -> Result<Composed, String> {
    let files = FileSystem::default();
    let policy = PolicySource::of_argument(path, &files)?;
    let compiled = driver::compile_policy(&policy, &Options::default(), form);
    Ok(compiled.into_result()?)
}

/// Compiles this text.
///
/// # Errors
/// The diagnostics, as a user would see them.
pub fn compile_text(text: &str) -> Result<Arc<Program>, String> {
    Ok(Arc::new(driver::compile_text("text.p4", text)?))
}
