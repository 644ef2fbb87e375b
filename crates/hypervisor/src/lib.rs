//! Crate `hypervisor`: the hypervisor for fixed targets (HyperVDP). It is a P4 program that runs
//! other programs (functions), which are stored as its table entries.
//!
//! **In:** the number of slots; a verified [`ir::Program`] and the contents of its tables. **Out:**
//! P4 text ([`emit`]), and entries for it ([`translate`]), or the construct that the hypervisor
//! does not support.
//!
//! Invariants:
//! - The emitted text depends only on the number of slots. Functions differ in their entries only.
//! - Every entry of a function has its virtual data plane, program and stage in the key. So it
//!   cannot match packets of another function.
//! - Translated entries have the same effect on every packet as the function. What entries cannot
//!   express is refused, with its source location.
//!
//! Tests: `testkit/tests/hypervisor.rs` compares all programs of the corpus with their hosted
//! versions.

mod emit;
mod entry;
mod primitive;
mod shape;
mod translate;

pub use emit::emit;
pub use entry::{Entry, Key};
pub use shape::{FILE_BITS, HEADER_BITS, STEPS, Shape, USER_BITS, WORD_BITS, tables_in_paper};
pub use translate::{FieldPlace, Hosted, TranslateError, translate};
