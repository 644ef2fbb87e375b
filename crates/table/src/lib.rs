//! The room `table`.
