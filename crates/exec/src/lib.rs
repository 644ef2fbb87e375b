//! The room `exec`.
