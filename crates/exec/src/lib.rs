//! Crate `exec`: the execution engine interface, and the semantics that all engines share.
//!
//! **In:** a verified [`ir::Program`] and a packet.
//! **Out:** the traits [`Engine`] and [`Loaded`], the packet's [`PacketContext`], a device's
//! [`State`] for a program, extern functions, [`DropReason`]s and [`TraceEvent`]s.
//!
//! Invariants:
//! - The semantics of extern functions, tables and headers are defined once, here ([`externs`],
//!   [`slots`]). Engines only supply operands.
//! - Engines hold code, never state. [`State`] is an immutable snapshot of shared cells.
//!   [`Configuration`] is its control-plane side.
//! - The packet path does not allocate once its buffers are warm, takes no lock and makes no system
//!   call. User-controlled data never causes a panic.
//! - Time and random numbers are inputs: [`PacketContext::now`] and [`RandomStream`].
//!
//! Tests: in each module; the crates `interp` and `switch` test packet processing.

mod atomic;
mod bit_buffer;
mod configuration;
mod context;
mod convert;
mod drop;
mod engine;
pub mod externs;
mod facts;
mod fast_path;
mod log;
mod native;
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
pub use configuration::{Configuration, ConfigurationError, Lookups, state_bytes};
pub use context::{CurrentEntry, Derived, DigestMessage, Digests, PacketContext};
pub use convert::{action_params, field_match, key_shape, table_spec};
pub use drop::{DropReason, MAX_NAMED_REASONS, MAX_REASON_BYTES, NamedReason};
pub use engine::{ControlVerdict, Engine, Loaded, ParserErrors, ParserVerdict, Unsupported};
pub use externs::hash::{CrcParameters, HashParameters};
pub use facts::{CommonAction, Facts, KnownAction, KnownRule, TableFacts};
pub use fast_path::{
    BURST, Burst, BurstSegment, CompiledFastPath, DeviceView, FastPath, FastPathPort, FastPathStep,
    FastPathTest, IDENTITY_ORDER, PackedOutcome, PassInput, PassOutcome, PrefetchStage,
};
pub use log::LogBuffer;
pub use native::{HandlerCall, NativeFunction, Natives, RemoteHandler, StateHandlers};
pub use random::RandomStream;
pub use registers::{LOCK_BYTES, LOCKS, Registers, SequenceLock};
pub use requests::{CloneRequest, Destination, FrameRequest, MIRROR_SLOTS, Mark, Requests};
pub use state::{ExpireProfiles, ExternState, Found, State, TableState};
pub use trace::{DropDetail, TraceEvent, Tracer, drop_lost};
pub use work::WorkBudget;
