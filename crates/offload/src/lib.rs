//! Crate `offload`: flows, and rules for them in a target outside of the software.
//!
//! **In:** a packet and the state of a device; packets of the software, records of the device's
//! log, events of a target, the time. **Out:** a [`Flow`], or the reason why there is none;
//! [`OffloadCommand`]s for a [`Target`] and for the device's counters.
//!
//! - [`Flow`] is what one packet's way through a program depended on, and what it does.
//! - [`FlowTracer`] finds the flow of a packet, for programs of v1model and so for POF tables.
//! - [`Target`] is the interface of targets, [`model`] a NIC in memory.
//! - [`Offloader`] decides which flows a target has, and keeps their rules right.
//!
//! It has no I/O, no threads and no clock, but for [`tc::Session`], which speaks to the kernel. It
//! may import `placement`, `switch`, `exec`, `table`, `packet`, `ir`, `bits` and `support`.
//!
//! Invariants:
//! - A flow does to each packet that it matches what `interp` does, byte for byte, and counts it in
//!   the same cells; else there is no flow, and [`NotOffloadable`] says why.
//! - Two flows of one state are equal, or no packet matches both.
//! - The walk is separate code: `interp` does not know of it.
//!
//! docs/internals/offload.md has the reasons. Tests: `tests/`; properties of flows on random
//! programs, steps of known packets, and the offloader with faults.

mod flow;
mod index;
pub mod model;
mod offloader;
mod target;
#[cfg(target_os = "linux")]
pub mod tc;
mod trace;

pub use flow::{
    ChecksumTest, CountedBytes, CounterCell, Edit, Flow, LengthRange, MatchedBits, Met, MetCounter,
    MetLookup, NotOffloadable, Step, Summed,
};
pub use index::FlowIndex;
pub use offloader::{
    Credit, FlowId, FlowReport, FlowState, OffloadCommand, Offloader, OffloaderCounts,
    OffloaderOptions, Override, SameObjects, Waits,
};
pub use target::{Placed, RuleCapacity, RuleCounts, RuleId, Target, TargetEvent, TargetInterface};
pub use trace::{FlowTracer, ParsedField, PortRole, Traced, View};
