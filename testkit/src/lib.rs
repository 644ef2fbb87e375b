//! The room `testkit`.
