//! The room of the pipeline IR: schema, verifier, text reader and printer.
//!
//! **In:** programs from `lower`, IR text from users. **Out:** a [`Program`] that is verified and printable.
//! **May import:** `bits`.
//!
//! Invariants (the verifier checks them; it is a security border, since accepted IR runs natively):
//! - every id points into its table; every expression is well typed; a [`Place`] with dims stays inside consecutive fields of equal types;
//! - code uses only the statements that its place allows (`Extract` in parsers, `Emit` in controls), and leaves only enclosing labels;
//! - the links of a control's stages stay inside it; actions do not call each other in a circle.
//!
//! [`read()`] is the inverse of `Display` of [`Program`]; the module of [`verify()`] lists its rules.
//!
//! Tests: `tests/` (text round trips, one refused program a rule).

mod code;
mod layout;
mod ops;
mod print;
mod program;
mod read;
mod turn;
mod types;
mod typing;
mod verify;
mod words;
pub mod work;

pub use code::*;
pub use layout::{Layout, limbs_of};
pub use ops::{ALGORITHMS, InstanceKind, OPS, Op, OperandKind};
pub use program::*;
pub use read::{ReadError, read};
pub use turn::{OF_TURNS, RESUME};
pub use types::*;
pub use verify::{
    MAX_CALL_COST, MAX_CALL_DEPTH, MAX_FRAME_LIMBS, MAX_NESTING, VerifyError, verify,
};
