//! From a P4 file to a verified program, with all diagnostics as one text.

use std::path::Path;
use std::sync::Arc;

use ir::Program;

/// Compiles the program in this file, with the embedded include files only.
///
/// # Errors
/// The diagnostics, as a user would see them.
pub fn compile(path: &Path) -> Result<Arc<Program>, String> {
    let options = syntax::ParseOptions {
        builtin: Some(sema::arch::builtin_include),
        ..Default::default()
    };
    let parsed = syntax::parse_file(path, &options);
    if parsed.diagnostics.has_errors() {
        return Err(parsed.diagnostics.render(&parsed.sources, false));
    }
    let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
    if checked.diagnostics.has_errors() {
        return Err(checked.diagnostics.render(&parsed.sources, false));
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let lowered = lower::lower(&checked.program, &parsed.sources, &name);
    lowered.map(Arc::new).map_err(|errors| {
        let mut diagnostics = syntax::diag::Diagnostics::new();
        for error in errors {
            diagnostics.push(error);
        }
        diagnostics.render(&parsed.sources, false)
    })
}
