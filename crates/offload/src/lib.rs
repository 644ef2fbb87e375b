//! Crate `offload`: flows, and the targets that process them outside of the software.
//!
//! **In:** a packet and the state of a device. **Out:** a [`Flow`], or the reason why there is
//! none; commands for a [`Target`].

mod flow;
pub mod model;
mod offloader;
mod target;
#[cfg(target_os = "linux")]
pub mod tc;
mod trace;

pub use flow::{
    CountedBytes, CounterCell, Edit, Flow, LengthRange, MatchedBits, Met, MetCounter, MetLookup,
    NotOffloadable, Step, Summed,
};
pub use offloader::{
    Command, Credit, FlowId, FlowReport, FlowState, Offloader, OffloaderCounts, OffloaderOptions,
    Override, Waits,
};
pub use target::{Capacity, Placed, RuleCounts, RuleId, Target, TargetEvent};
pub use trace::{FlowTracer, PortRole, Traced, View};
