//! The room `syntax`.
