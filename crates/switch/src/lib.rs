//! The room `switch`.
