//! The room `bits`.
