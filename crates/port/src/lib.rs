//! The room `port`.
