//! The room `bits`: values of any width, packing, typed indices.
//!
//! **In:** numbers, limbs, byte strings, text. **Out:** the same in another of these forms, and arithmetic
//! as P4_16 defines it on `bit<W>` and `int<W>`. **May import:** nothing.
//!
//! Words used everywhere in the house:
//! - a *limb* is a `u64`; a number of `W` bits is `limbs_for(W)` limbs, least significant first;
//! - such a number is *canonical* when all bits above `W` are zero. Every function here takes
//!   canonical operands and gives canonical results; that is the one invariant of this room.
//!   Signed numbers are two's complement in the same canonical form;
//! - *wire* order is that of the network: big-endian, most significant bit first.
//!
//! Nothing here allocates but [`Value`] (above 128 bits), [`IdVec`] and [`IdSet`].
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
