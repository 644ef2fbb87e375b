//! Crate `nanopu`: a timed model of the nanoPU, a RISC-V processor with a network interface in its
//! registers, that runs real programs.
//!
//! **In:** an [`Image`] (RV64 ELF), a [`CostTable`], messages or frames with their times in
//! picoseconds. **Out:** frames with their times, counters, the cycles of each core in named
//! parts, faults with program counter and cycle.
//!
//! It may import `support` only. It has no I/O, no thread and no clock of its own.
//!
//! Invariants:
//! - No image and no frame causes a panic. A mistake of a program is a [`CoreFault`] of its core;
//!   the other cores and the network go on.
//! - The same inputs give the same outputs at the same picosecond, independent of the steps in
//!   which time advances.
//! - Each cycle of a core is in one part of [`CycleParts`].
//! - A polling loop without a message costs no host time, and the same simulated time.
//!
//! docs/reference/nanopu.md has the CSRs, the costs with their sources, and what is not modelled.
//! Tests: `tests/`; those of private items are beside the code.

mod alu;
mod assembly;
mod cache;
mod client;
mod compressed;
mod core;
mod cost;
pub mod csr;
mod decode;
mod device;
mod execute;
mod fault;
mod float;
mod image;
pub mod instruction;
mod load;
mod memory;
mod muldiv;
mod network;
mod predictor;
mod queues;
mod single;
mod time;
mod timer;
mod trace;
mod transport;
pub mod wire;

pub use crate::core::{CoreState, CycleParts};
pub use client::{Client, Received, SteadyLoad};
pub use cost::{Cost, CostError, CostTable, Unit};
pub use decode::{Decoded, decode};
pub use device::{Device, DeviceCounts};
pub use fault::{CoreFault, FaultKind};
pub use image::{Image, ImageError};
pub use load::{DEVICE_ADDRESS, Load, LoadReport, MAX_CLIENTS, MAX_CORES, MAX_MESSAGES, run_load};
pub use memory::{MEMORY_BASE, Memory};
pub use network::{LinkFaults, Network, NetworkCounts, NodeId};
pub use queues::{CONTEXTS, MAX_MESSAGE, Output, RpcMessage};
pub use single::SingleCore;
pub use time::{Clock, Picos};
pub use trace::TraceRecord;
pub use transport::TransportCounts;
