//! The room `lower`.
