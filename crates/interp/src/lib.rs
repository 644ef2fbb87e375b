//! The room `interp`.
