//! The room `sema`.

pub mod arch;
