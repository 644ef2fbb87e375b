//! The room `sema`.
