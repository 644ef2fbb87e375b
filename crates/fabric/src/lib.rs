//! The room of many switches on one machine: topologies, simulated links and hosts.
//!
//! **In:** a topology file, and from outside a function that makes a switch's node (compilers and engines are other rooms'). **Out:** a [`Report`]:
//! what became of each flow, each link and each switch.
//! **May import:** `tenancy`, `switch`, `port`, `packet`.
//!
//! Invariants:
//! - time and chance are inputs: the same topology and seed give the same report, in however many steps [`Simulation::run_until`] is called;
//! - events happen in the order of their times, and of one time in the order in which they were made;
//! - made = delivered + dropped by named reason + in flight, over the whole fabric and at each node and line ([`Simulation::check_conservation`]);
//! - a wrong topology is told in full, each error with its line and its mend, and nothing runs;
//! - a node is told its links' rates before its first packet and does its own queueing; what it sends too fast all the same, the line queues.
//!
//! Tests: `tests/`; beside the code what is private to it.

mod events;
mod host;
mod line;
mod node;
mod pacer;
mod plane;
mod report;
mod simulation;
mod switch_node;
pub mod topology;
mod workload;

pub use node::{Node, Tally};
pub use plane::{Plane, Tenants};
pub use report::{
    Distribution, Drop, FlowReport, LinkReport, PingReport, Report, SwitchReport, distribution,
};
pub use simulation::{FabricError, MakeSwitch, Progress, Simulation, Unbalanced};
pub use switch_node::{OVERLOADED, SwitchNode};
pub use topology::{Topology, TopologyError};
