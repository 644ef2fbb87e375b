//! The room of the hypervisor for fixed targets (HyperVDP): a P4 program that runs other programs, which are its entries.
//!
//! **In:** how many slots there shall be; a verified [`ir::Program`] and what is in its tables. **Out:** P4 text ([`emit`]), and entries for it
//! ([`translate`]), or the construct that the hypervisor does not have.
//! **May import:** `entries`, `passes`, `ir`, `bits`.
//!
//! Invariants:
//! - the emitted text depends on nothing but the number of slots: functions differ in entries alone;
//! - every key of a function's entries names its virtual data plane, its program and its stage, so no entry of one is another's;
//! - what is translated does to every packet what the function does; what cannot be said in entries is refused, with its place.
//!
//! Tests: `testkit/tests/hypervisor.rs` (all programs of the corpus, beside themselves).

mod emit;
mod entry;
mod primitive;
mod shape;
mod translate;

pub use emit::emit;
pub use entry::{Entry, Key};
pub use shape::{FILE_BITS, HEADER_BITS, STEPS, Shape, USER_BITS, WORD_BITS};
pub use translate::{Hosted, Place, Refusal, translate};
