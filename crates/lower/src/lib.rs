//! The room of lowering: typed program to pipeline IR.
//!
//! **In:** [`sema::hir::Program`] without errors. **Out:** an [`ir::Program`] that the verifier accepts, or located diagnostics.
//! **May import:** `syntax` (spans and diagnostics), `sema`, `passes`, `ir`, `bits`.
//!
//! Invariants:
//! - everything is inlined: sub-parsers, sub-controls, functions, directly called actions, abstract methods; what is left are the
//!   blocks of the architecture, tables and the actions that tables run;
//! - expressions of the IR are pure: calls are hoisted in P4's order of evaluation, and a value that a later call could change is saved;
//! - copy-in and copy-out are exact; a parameter shares its argument's storage only where nothing can tell;
//! - what cannot be lowered is a diagnostic, never other code.
//!
//! The architectures' bindings (which parameters share storage, the names of [`ir::Pipeline::intrinsics`]) are listed in [`arch`].
//!
//! Tests: `tests/` (P4 text to IR text).

pub mod arch;

mod annotate;
mod call;
mod control;
mod control_plane;
mod cx;
mod expr;
mod externs;
mod instance;
mod lvalue;
mod operator;
mod parser;
mod stmt;
mod storage;
mod table;
mod types;
mod value;

use sema::hir;
use syntax::diag::Diagnostic;
use syntax::source::SourceMap;

/// Lowers a typed program; `name` becomes the IR program's name.
///
/// # Errors
///
/// Diagnostics when the program has no `main`, is written for no known architecture, or uses what cannot run (an extern object that
/// nobody implements).
pub fn lower(
    program: &hir::Program,
    sources: &SourceMap,
    name: &str,
) -> Result<ir::Program, Vec<Diagnostic>> {
    let mut lower = cx::Lower::new(program, sources, name)?;
    lower.run();
    lower.finish()
}

/// As [`lower`], of a program that is described to controllers and not run: calls of externs that
/// have no implementation do nothing.
///
/// # Errors
///
/// As [`lower`], but for externs without implementation.
pub fn describe(
    program: &hir::Program,
    sources: &SourceMap,
    name: &str,
) -> Result<ir::Program, Vec<Diagnostic>> {
    let mut lower = cx::Lower::new(program, sources, name)?;
    lower.is_description = true;
    lower.run();
    lower.finish()
}
