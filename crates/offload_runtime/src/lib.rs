//! Crate `offload_runtime`: offload of flows on a running switch.
//!
//! **In:** frames of the packet path, a [`switch::Device`] and its log, a [`offload::Target`], a
//! clock. **Out:** frames that the model NIC sends, counts of the device that include the target's,
//! reports of its flows, numbers and decision.
//!
//! - [`NicFront`] is before the software of one thread: frames that a rule of the model NIC takes
//!   do not reach it, and a sample of the others is kept for the offloader.
//! - [`Driver`] runs an [`offload::Offloader`] and a target, without thread or I/O.
//! - [`Offload`] is the device's side of a thread with a `Driver`: it gives changes of the device,
//!   and applies the target's counts. [`OffloadHandle`] asks for reports.
//! - [`TargetSpec`] and [`TableChoice`] are the owner's words for targets and tables.
//!
//! Invariants:
//! - The packet path waits for nothing and allocates nothing: a sample that is not taken
//!   goes on as a larger one. The model NIC is an exception: it is a model, with one lock a burst.
//! - A record of the device's log reaches the offloader with a state that has its change. If too
//!   many wait, all flows are traced again instead.
//! - Counts are given to the device on its own thread. What cannot be given any more is counted.
//!
//! Nothing is printed, and no file is read. Tests: in the modules, with a device in
//! `thread/tests.rs`; `cli/tests/pof_offload.rs` and `run_offload.rs` run the command on real
//! interfaces.

mod driver;
mod front;
mod match_text;
mod model_nic;
mod report;
mod sampling;
mod spec;
mod thread;

pub use driver::{DeviceView, Driver, OffloadOptions, table_of};
pub use front::{FrontBurst, NicFront, OffloadSetup};
pub use match_text::{ProgramField, match_text, with_field_names};
pub use model_nic::SharedNic;
pub use report::{
    FlowRow, InterfaceRow, OffloadStats, PlacementReport, PlaneRow, ReasonRow, StateRow, TableRow,
};
pub use sampling::{SampleReader, Sampler, samples};
pub use spec::{SpecError, TableChoice, TargetSpec};
pub use thread::{LateCounts, Offload, OffloadError, OffloadHandle, RemovedEntry};
