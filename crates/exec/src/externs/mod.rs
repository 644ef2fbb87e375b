//! Semantics of extern functions, shared by all engines. Engines evaluate operands and store
//! results.

pub mod checksum;
pub mod hash;
pub mod stateful;
