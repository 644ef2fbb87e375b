//! The room `ir`.
