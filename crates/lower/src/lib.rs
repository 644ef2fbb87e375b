//! Crate `lower`: translates the typed program to the pipeline IR.
//!
//! - **In:** a [`sema::hir::Program`] without errors.
//! - **Out:** an [`ir::Program`] that the verifier accepts, or diagnostics with source positions.
//!
//! Invariants:
//! - Everything is inlined: sub-parsers, sub-controls, functions, directly called actions, abstract
//!   methods. Only the architecture's blocks, tables, and the actions that tables run remain.
//! - Expressions of the IR are pure. Calls are hoisted in P4's order of evaluation. A value that a
//!   later call could change is saved.
//! - Copy-in and copy-out are exact. A parameter shares its argument's storage only if this cannot
//!   be observed.
//! - A construct that cannot be lowered is a diagnostic, never other code.
//!
//! The architectures' bindings are listed in [`arch`]: parameters with shared storage, and the
//! names of [`ir::Pipeline::intrinsics`].
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

/// Lowers a typed program. `name` becomes the IR program's name.
///
/// # Errors
///
/// Returns diagnostics if the program has no `main`, is for an unknown architecture, or uses a
/// construct that cannot run (an extern object without implementation).
pub fn lower(
    program: &hir::Program,
    sources: &SourceMap,
    name: &str,
) -> Result<ir::Program, Vec<Diagnostic>> {
    let mut lower = cx::Lower::new(program, sources, name)?;
    lower.run();
    lower.finish()
}

/// Lowers a program that is only described to controllers and does not run, like [`lower`]. Calls
/// of externs without implementation do nothing.
///
/// # Errors
///
/// Those of [`lower`], except for externs without implementation.
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
