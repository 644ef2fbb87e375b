//! Crate `placement`: the entries of a mirrored table that each plane holds. A switch holds few
//! entries, servers hold all, and a packet that no entry of the switch matches flies to a server.
//!
//! **In:** counts of packets by entry in a window, sizes of entries, the capacity of a plane and
//! the costs of moves, route updates, members of a group of servers. **Out:** lists of [`Move`]s
//! that a coordinator applies in their order, thresholds of reports, warnings.
//!
//! - [`flow`] places entries with exact keys, [`route`] entries with longest-prefix keys;
//!   [`options`] has their policies and parameters.
//! - [`sketch`] is the count-min sketch of the switch and [`hash`] its function, which P4 programs
//!   compute alike; [`threshold`] adjusts the threshold of reports.
//! - [`select`] chooses items by weight per capacity under [`select::Requirements`] between items:
//!   the interface for other kinds of planes.
//! - [`prefix`] is the tree of prefixes.
//! - [`group`] assigns flows to the servers of a group that changes, with the filters of
//!   [`bloom`].
//!
//! It may not import other crates than `support`. It has no I/O, threads or clocks.
//!
//! Invariants:
//! - Results depend on the input and the seed alone.
//! - After each single move of a list, a packet finds the right entry in the switch or flies, and
//!   the capacity holds.
//! - [`sketch::Sketch::count`] and [`group::Group::route`] are called for each packet and do not
//!   allocate.
//!
//! Tests: in each module; `tests/flows.rs` and `tests/routes.rs` measure shares of packets with
//! Zipf's distribution, `tests/route_updates.rs` and `tests/group_changes.rs` compare with naive
//! models. The example `placement_table` prints the figures of all policies.

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
