//! Crate `split`: the halves of a cross-plane program at run time (CLIP, section IV).
//!
//! **In:** a split program ([`passes::split`]), frames, changes of the control plane, the time.
//! **Out:** frames, the state of the planes, counts of dropped frames by reason.
//!
//! - [`SwitchHalf`] and [`ServerHalf`] are packet processors around the devices of the halves. They
//!   check and complete the frames between switch and servers.
//! - [`Coordinator`] has the whole tables: a device without packets. Each of its changes goes to
//!   the planes that hold the changed item. It sees planes by the trait [`PlaneControl`].
//! - [`Requests`] has what the workers of a switch share: outstanding requests, the group of
//!   servers, entries that are being installed, counts for the placement of entries. A
//!   [`SwitchWorker`] is one worker.
//! - [`OrderedPlane`] delays entries until they keep the order of packets.
//! - [`LocalSplit`] is a switch with its servers in one process, without links. It is the test bed.
//!
//! It may not import the crates of ports, threads and gRPC.
//!
//! Invariants:
//! - A response counts only from a server's port, of the current epoch, with an outstanding number.
//! - Each frame that is dropped has a named reason; requests = answered + outstanding + lost.
//! - A packet goes to the server that got the first packet of its flow, also while the group
//!   changes, unless that server failed.
//! - The switch drops or changes a cached entry before the servers' entries change.
//!
//! Tests: in the modules; `testkit/tests/split.rs` runs all v1model programs as split programs.

mod coordinator;
mod flights;
mod gate;
mod known_flows;
mod links;
mod local;
mod mirror;
mod missed;
mod no_engine;
mod order;
mod owners;
mod plane;
mod requests;
mod server_half;
mod snapshot;
mod switch_half;
mod view;
mod wire;
mod worker;

pub use coordinator::{Coordinator, MirrorState, TableWindow, with_actions_of};
pub use flights::{FlightOptions, FlightReport, Flights, WindowCounts};
pub use gate::{Drained, GateId, KeyPattern, MAX_HOLD};
pub use known_flows::KnownFlows;
pub use links::LinkOptions;
pub use local::{GroupChange, LocalOptions, LocalSplit, StartError};
pub use mirror::{EntryPolicy, SplitPlacement, Window};
pub use no_engine::NoEngine;
pub use order::{NotInstalled, OrderedChanges, OrderedPlane, pattern_of};
pub use owners::{PoolOwners, PoolParts};
pub use plane::{DevicePlane, EntryIds, NoPlane, PlaneControl};
pub use requests::{GroupStatus, Order, Requests, SeenRequest, ServerPort, SwitchOptions};
pub use server_half::{ServerFilter, ServerHalf};
pub use switch_half::{SwitchFilter, SwitchHalf};
pub use wire::Wire;
pub use worker::SwitchWorker;
