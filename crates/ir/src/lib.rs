//! Crate `ir`: schema, verifier, text reader and printer of the pipeline IR.
//!
//! - **In:** programs from `lower`, IR text from users.
//! - **Out:** a [`Program`] that is verified and printable.
//!
//! Invariants (checked by the verifier, which is a security boundary: accepted IR runs natively):
//! - Every id points into its table. Every expression is well typed. A [`Place`] with dims stays
//!   inside consecutive fields of equal types.
//! - Code uses only the statements that its context allows (`Extract` in parsers, `Emit` in
//!   controls), and leaves only enclosing labels.
//! - The links of a control's stages stay inside it. Actions are not recursive.
//!
//! [`read()`] is the inverse of `Display` of [`Program`]. The module of [`verify()`] lists its
//! rules.
//!
//! Tests: `tests/` (text round trips, one rejected program for each rule).

mod code;
mod drop_report;
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
pub use drop_report::{DROP_REASON, DROP_REPORTS, DROP_SESSION};
pub use layout::{Layout, limbs_of};
pub use ops::{ALGORITHMS, InstanceKind, OPS, Op, OperandKind};
pub use program::*;
pub use read::{ReadError, read};
pub use turn::{OF_TURNS, RESUME};
pub use types::*;
pub use verify::{
    MAX_CALL_COST, MAX_CALL_DEPTH, MAX_FRAME_LIMBS, MAX_NESTING, VerifyError, verify,
};
