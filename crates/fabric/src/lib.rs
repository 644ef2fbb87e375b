//! Crate `fabric`: simulates networks of many switches on one machine, with topologies, links,
//! hosts and nanoPUs.
//!
//! **In:** a topology file, and a function that creates the node of a switch. Compilers and
//! execution engines are in other crates. **Out:** a [`Report`] with the results of each flow,
//! link and switch.
//!
//! Invariants:
//! - Time and random seed are inputs. The same topology and seed give the same report, independent
//!   of the steps in which [`Simulation::run_until`] is called.
//! - Events are processed in order of time. Events of the same time are processed in the order in
//!   which they were added.
//! - Packet conservation: packets made = delivered + dropped for a named reason + in flight, over
//!   the whole fabric and at each node and link direction ([`Simulation::check_conservation`]).
//! - A topology with errors does not run. All errors are reported, each with its line and a hint.
//! - The planes of a split program have one coordinator. An entry works in the switch only after
//!   the time that the topology gives, and a refused change is counted.
//! - A node gets its links' rates before its first packet and queues its own packets. If it sends
//!   too fast, the link queues the excess.
//!
//! Tests: `tests/`. Tests of private items are beside the code.

mod clocked_node;
mod events;
mod halves;
mod host;
mod link_direction;
mod nanopus;
mod node;
mod pacer;
mod plane;
mod report;
mod simulation;
mod switch_node;
pub mod topology;
mod traffic;
mod workload;

pub use halves::{MakeEngine, SplitCounts, SplitError, SplitFabric};
pub use nanopus::{MessageLatency, NanopuCore, NanopuReport, RequestsReport};
pub use node::{Node, NodeCounts};
pub use plane::{Plane, Tenants};
pub use report::{
    Distribution, Drop, FlowReport, LatencyReport, LinkReport, PingReport, Report, ServerReport,
    SplitReport, StreamReport, SwitchReport, distribution,
};
pub use simulation::{FabricError, MakeSwitch, Progress, Simulation, UnbalancedError};
pub use switch_node::{LoadDevice, OVERLOADED, SwitchNode, WorkerOf};
pub use topology::{Topology, TopologyError};
