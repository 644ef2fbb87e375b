//! The room `passes`.
