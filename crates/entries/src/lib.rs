//! The room `entries`.
