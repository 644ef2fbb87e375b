//! Crate `passes`: transformations from IR to IR, and IR as P4 text.
//!
//! - **In:** structured code with table applications ([`sequence::Node`]), whole programs, and
//!   policies that chain them ([`compose::Policy`]).
//! - **Out:** lines of stages, simplified programs, several programs composed into one, and stages
//!   mapped to slots. A program that needs more slots than there are is split into rounds. A
//!   v1model program as P4_16 text ([`p4::print`]).
//!
//! Invariants:
//! - A pass keeps the semantics for every packet: reads, writes, lookups and calls, in the same
//!   order.
//! - A program that the verifier accepts before a pass is accepted after it.
//! - User programs never make a pass panic.
//!
//! Tests: `tests/` (hand-written inputs, printed as text).

pub mod compose;
pub mod edit;
pub mod fold;
pub mod length;
mod link;
pub mod p4;
pub mod sequence;
pub mod simplify;
pub mod slots;
pub mod split;
mod uses;
pub mod wrap;
