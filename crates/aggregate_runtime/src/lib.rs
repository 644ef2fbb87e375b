//! Crate `aggregate_runtime`: reductions between real hosts.
//!
//! **In:** jobs over a topology, connections to agents and switches. **Out:** datagrams of the
//! state machines of the crate `aggregate`, and the outcomes of reductions.
//!
//! - [`Agent`] is the process of a host: it gives mappers and reducers a UDP socket and a clock.
//! - [`Master`] admits jobs, numbers attempts and loads, and answers failures. It has no I/O.
//! - [`Site`] is a master with its connections: [`AgentLink`]s, [`SwitchLink`]s and clients.
//! - An agent has a Unix socket for engines, which store parts, collect reductions of these, and
//!   reduce vectors in groups.
//! - [`AgentOrder`], [`AgentReport`], [`Request`] and [`Answer`] are lines of JSON between them.
//!
//! Invariants:
//! - An agent without work sleeps, but for a line each second to its master.
//! - A failure names the mapper, the reducer or the switch.
//! - It reads no file: its caller reads job files and parts.
//!
//! Tests: beside the code, over the loopback interface; `cli/tests/aggregate.rs` and
//! `aggregate_site.rs` run all processes.

mod agent;
mod agent_link;
mod engine;
mod inbox;
mod master;
mod order;
mod request;
mod site;
mod stream;
mod switch_link;
mod switch_load;
mod vector_lines;
mod vpdp_link;

pub use agent::{Agent, MapPart, Served};
pub use agent_link::{AgentLink, Connected, greet, next_line};
pub use engine::{
    CollectRequest, EngineNumber, FuzzAgent, FuzzConnection, JoinRequest, PartLimits, StoredPart,
};
pub use inbox::Inbox;
pub use master::{
    Action, JobReport, Master, RealOutcome, ReductionReport, UpdateNumber, VpdpChoice,
};
pub use order::{
    AgentOrder, AgentReport, AttemptId, BeginOrder, EngineOrder, EngineRequest, Hello, MapOrder,
    MapSource, PROTOCOL, PeerKind, ReduceOrder, ResultTo,
};
pub use request::{Answer, OutcomeLine, Request, add_answer, end_lines, join_outcomes};
pub use site::{Admission, ChangeSwitch, ClientNumber, Event, ReadJob, Site, read_requests};
pub use stream::{Address, Listener, Stream, write_line};
pub use switch_link::{SwitchHandle, SwitchKind, SwitchLink, SwitchTask};
pub use switch_load::{LoadedPlanes, ProgramText, SwitchLoad, VpdpChange, VpdpLoad, VpdpUpdate};
pub use vector_lines::{VectorDigest, VectorPart, bytes_of};
