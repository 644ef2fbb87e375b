//! Crate `placement`: the items that each plane has. Items are flows or entries of a table; planes
//! are a switch and servers, a NIC and the kernel, or others with capacities.
//!
//! **In:** items with weights, gains and requirements, planes with capacities and costs of moves;
//! for one switch also counts of packets by entry in a window, route updates, members of a group
//! of servers. **Out:** lists of [`Move`]s that a caller applies in their order, thresholds of
//! reports, bounds, warnings.
//!
//! - [`planes`] places items on any planes by one of nine policies; [`planes::workload`] has
//!   OVS-POF-TC's parameters and instances.
//! - [`flow`] places entries with exact keys in one switch, window by window, [`route`] entries
//!   with longest-prefix keys; [`options`] has their policies and parameters. A packet that no
//!   entry of the switch matches flies to a server.
//! - [`sketch`] is the count-min sketch of the switch and [`hash`] its function, which P4 programs
//!   compute alike; [`threshold`] adjusts the threshold of reports.
//! - [`select`] chooses items by weight per capacity under [`select::Requirements`] between items.
//! - [`prefix`] is the tree of prefixes.
//! - [`group`] assigns flows to the servers of a group that changes, with the filters of
//!   [`bloom`].
//!
//! It may not import other crates than `support`. It has no I/O or threads. Only the solver of
//! linear programs (`good_lp` with `microlp`) reads a clock, for its time limit.
//!
//! Invariants:
//! - Results depend on the input and the seed alone, except for a search that its time limit ends.
//! - After each single move of a list, a plane has what its items need or a packet flies, and the
//!   capacity holds.
//! - [`sketch::Sketch::count`] and [`group::Group::route`] are called for each packet and do not
//!   allocate.
//!
//! Tests: in each module; `tests/planes.rs` compares policies with all assignments of small
//! problems, `tests/ovs_pof_tc.rs` with the paper's tables, `tests/dense.rs` with linear programs
//! and a choice that knows the traffic; `tests/flows.rs` and `tests/routes.rs` measure shares of
//! packets with Zipf's distribution, `tests/route_updates.rs` and `tests/group_changes.rs` compare
//! with naive models. The example `placement_table` prints the figures of all
//! policies.

pub mod bloom;
pub mod flow;
pub mod group;
pub mod hash;
mod held;
pub mod item;
pub mod options;
pub mod planes;
pub mod prefix;
pub mod route;
pub mod select;
pub mod sketch;
pub mod threshold;

pub use bloom::BloomFilter;
pub use flow::{FlowPlacement, FlowWindow};
pub use group::{Group, GroupError, GroupOptions, Route, ServerId};
pub use item::{Count, Decision, ItemId, Move, Plane, Warning};
pub use options::{OptionsError, PlacementOptions, Policy, SketchSize};
pub use prefix::{Address, Prefix, PrefixTree};
pub use route::{Nesting, RouteInsertion, RoutePlacement, RouteWindow};
pub use sketch::Sketch;
