//! Crate `split`: the halves of a cross-plane program at run time (CLIP, section IV).
//!
//! **In:** a split program ([`passes::split`]), frames, changes of the control plane, the time.
//! **Out:** frames, the state of the planes, counts of dropped frames by reason.
//!
//! - [`SwitchHalf`] and [`ServerHalf`] are packet processors around the devices of the halves. They
//!   check and complete the frames between switch and servers.
//! - [`Coordinator`] has the whole tables: a device without packets. Each of its changes goes to
//!   the planes that hold the changed item. It sees planes by the trait [`PlaneControl`].
//! - [`LocalSplit`] is a switch with its servers in one process, without links. It is the test bed.
//!
//! It may not import the crates of ports, threads and gRPC.
//!
//! Invariants:
//! - A response counts only from a server's port, of the current epoch, with an outstanding number.
//! - Each frame that is dropped has a named reason; requests = answered + outstanding + lost.
//! - The switch drops or changes a cached entry before the servers' entries change.
//!
//! Tests: in the modules; `testkit/tests/split.rs` runs all v1model programs as split programs.

mod cache;
mod coordinator;
mod local;
mod no_engine;
mod plane;
mod requests;
mod server_half;
mod snapshot;
mod switch_half;
mod wire;

pub use coordinator::{Coordinator, with_actions_of};
pub use local::{LocalOptions, LocalSplit, StartError};
pub use no_engine::NoEngine;
pub use plane::{DevicePlane, EntryIds, NoPlane, PlaneControl};
pub use requests::{Requests, SeenRequest, ServerPort, SwitchOptions};
pub use server_half::{ServerFilter, ServerHalf};
pub use switch_half::{SwitchFilter, SwitchHalf};
pub use wire::Wire;
