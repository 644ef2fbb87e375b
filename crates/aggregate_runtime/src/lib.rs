//! Crate `aggregate_runtime`: reductions between real hosts.
//!
//! **In:** a plan, the mappers' orders, connections to agents. **Out:** datagrams of the state
//! machines of the crate `aggregate`, and the outcomes of reductions.
//!
//! - [`Agent`] is the process of a host: it gives mappers and reducers a UDP socket and a clock.
//! - [`Attempt`] is the other end: it gives agents their orders, and takes their reports.
//! - [`AgentOrder`] and [`AgentReport`] are lines of JSON between them.
//!
//! Invariants:
//! - An agent without work sleeps until a datagram or an order arrives.
//! - A failure names the mapper, the reducer or the switch.
//! - It reads no file: its caller reads the parts.
//!
//! Tests: beside the code, over the loopback interface; `cli/tests/aggregate.rs` runs all
//! processes.

mod agent;
mod attempt;
mod inbox;
mod order;

pub use agent::{Agent, MapPart};
pub use attempt::{AgentIndex, Attempt, AttemptError, MapperTask, RealOutcome, ReductionTask};
pub use order::{AgentOrder, AgentReport, MapOrder, ReduceOrder};
