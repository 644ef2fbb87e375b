//! The room `packet`.
