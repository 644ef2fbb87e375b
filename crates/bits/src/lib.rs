//! Crate `bits`: values of any width, packing, typed indices.
//!
//! **In:** numbers, limbs, byte strings, text. **Out:** the same in another of these forms, and
//! arithmetic as P4_16 defines it on `bit<W>` and `int<W>`.
//!
//! Terms used in all crates:
//! - A *limb* is a `u64`. A number of `W` bits is stored in `limbs_for(W)` limbs, least significant
//!   first.
//! - Such a number is *canonical* if all bits above `W` are zero. Every function here takes
//!   canonical operands and returns canonical results: this is the invariant of the crate. Signed
//!   numbers are two's complement in the same canonical form.
//! - *Wire* order is network order: big-endian, most significant bit first.
//!
//! Only [`Value`] (above 128 bits), [`IdVec`] and [`IdSet`] allocate.
//!
//! Tests: `tests/`, property tests against `u128` and against lists of bits.

pub mod id;
pub mod limbs;
pub mod one;
pub mod value;
pub mod wire;

pub use id::{Id, IdSet, IdVec};
pub use limbs::limbs_for;
pub use value::{Value, ValueError};
pub use wire::OutOfBounds;
