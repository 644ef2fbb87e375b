//! The room `exec`: what an engine is, and all that engines have in common.
//!
//! **In:** a verified [`ir::Program`], a packet. **Out:** the traits [`Engine`] and [`Loaded`], the packet's [`PacketContext`], the device's
//! [`State`] for a program, extern functions, [`DropReason`]s and [`TraceEvent`]s.
//! **May import:** `ir`, `table`, `packet`, `bits`.
//!
//! Invariants:
//! - what an extern function, a table and a header do is defined here once ([`externs`], [`slots`]); engines only bring operands;
//! - engines hold code, never state: [`State`] is an immutable root of shared cells, [`Configuration`] its control side;
//! - the packet path does not allocate once its buffers are warm, takes no lock and makes no system call; user-controlled data never panics;
//! - time and chance are inputs: [`PacketContext::now`] and [`RandomStream`].
//!
//! Tests: beside each module; `interp` and `switch` test what packets see.

mod atomic;
mod bit_buffer;
mod configuration;
mod context;
mod convert;
mod drop;
mod engine;
pub mod externs;
mod log;
mod native;
mod pass;
mod random;
mod registers;
mod requests;
pub mod slots;
mod state;
mod trace;
pub mod wide;
mod work;

pub use atomic::{AtomicDepth, AtomicGate};
pub use bit_buffer::BitBuffer;
pub use configuration::{Configuration, ConfigurationError, state_bytes};
pub use context::{CurrentEntry, Derived, DigestMessage, Digests, PacketContext};
pub use convert::{action_params, field_match, key_shape, table_spec};
pub use drop::DropReason;
pub use engine::{ControlVerdict, Engine, Loaded, ParserErrors, ParserVerdict, Unsupported};
pub use externs::hash::{CrcParameters, HashParameters};
pub use log::LogBuffer;
pub use native::{NativeFunction, Natives};
pub use pass::{
    AS_THEY_LIE, Ahead, BURST, Burst, Fused, Lot, Owner, PackedOutcome, Pass, PassInput,
    PassOutcome, PassPort, PassStep, PassTest,
};
pub use random::RandomStream;
pub use registers::Registers;
pub use requests::{CloneRequest, Destination, MIRROR_SLOTS, Mark, Requests};
pub use state::{ExpireProfiles, ExternState, Found, State, TableState};
pub use trace::{DropDetail, TraceEvent, Tracer};
pub use work::WorkBudget;
