//! The room of passes: IR to IR.
//!
//! **In:** structured code with table applications ([`sequence::Node`]), whole programs, policies that chain them ([`compose::Policy`]). **Out:** lines of
//! stages, simpler programs, several programs as one, stages in slots, programs longer than the slots in turns.
//! **May import:** `ir`, `bits`.
//!
//! Invariants:
//! - a pass keeps the meaning of every packet: what is read, written, looked up and called, in the same order;
//! - a program that the verifier accepts before a pass is accepted after it;
//! - user programs never make a pass panic.
//!
//! Tests: `tests/` (hand-made inputs, printed as text).

pub mod compose;
pub mod edit;
pub mod fold;
pub mod length;
mod link;
pub mod sequence;
pub mod simplify;
pub mod slots;
mod uses;
pub mod wrap;
