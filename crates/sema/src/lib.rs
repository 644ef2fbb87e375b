//! The room `sema`.

pub mod arch;
pub mod hir;
