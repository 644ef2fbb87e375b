//! Crate `reflex`: the reflex plane, from telemetry reports to replicated decisions in switches
//! (nanoPU, section 4).
//!
//! **In:** a loop file ([`Loops::read`]), payloads of reports, answers of elements, the time.
//! **Out:** commands for elements ([`ElementCommand`]), and decisions with what came of them
//! ([`Decision`]).
//!
//! - [`ReflexPlane`] classifies reports ([`ReportRule`]), gives them to monitors, asks
//!   permissions, and proposes changes to the store. It has no thread, no clock and no I/O.
//! - [`ReplicaGroup`] is the store: nodes of `consensus` with messages in memory.
//! - [`ManagedElement`] stands before a device: it applies committed changes in order, once, from
//!   the newest leader.
//! - [`PlaneDriver`] joins them; [`FabricPlane`] is one in a simulated fabric, and
//!   [`MemberNode`] a node with one member of a store and its plane.
//!
//! - A monitor is built in, or a P4 program on a device ([`ProgramMonitor`]).
//!
//! It may not import `runtime`, `p4rt` or `cli`.
//!
//! Invariants:
//! - A change reaches an element only after a majority of the store's nodes has it.
//! - Datagrams and reports are conserved: [`PlaneCounts`], [`MonitorCounts`].
//! - A decision without effect has a named reason ([`DecisionRefusal`]).
//! - The same file, seed, reports and times give the same decisions.
//!
//! docs/internals/reflex.md has the design. Tests: in the modules, and `tests/`.

mod classify;
mod decision;
mod detour_check;
mod element;
mod event_report;
mod fabric_member;
mod fabric_node;
mod loops;
mod monitor;
mod permission;
mod plane;
mod plane_driver;
mod settings;
mod store;
mod udp_frame;
mod write;

pub use classify::{ReportFacts, ReportRule, RuleError};
pub use decision::{
    DecidedChange, Decision, DecisionId, DecisionRefusal, MAX_PATH, Measured, Outcome, PathNodes,
    Subject,
};
pub use detour_check::{DetourCheck, DetourFault};
pub use element::{
    BindError, BindReason, ElementAnswer, ElementCounts, ManagedElement, WriteResult,
};
pub use event_report::write_event_report;
pub use fabric_member::{MEMBER_WRITE_TIME, MakeMember, MemberNode};
pub use fabric_node::{FabricElement, FabricPlane, FrameObserver, SharedDevice, SourceNode};
pub use loops::{
    BurstFlows, ChangeSpec, Compare, DetourNode, ElementDevice, ElementIndex, ElementSpec,
    EntrySpec, KeyPart, LatencyMeasure, Loops, MAX_FILE_BYTES, MemberInterface, MemberTransport,
    MicroburstSpec, MonitorIndex, MonitorKind, MonitorSpec, OutputContent, OutputIndex, OutputSpec,
    P4RuntimeDevice, PathLatencySpec, ProgramSpec, RateLimitSpec, ReflexIndex, ReflexSpec,
    RoutingLoopSpec, SourceIndex, SourcePlace, SourceSpec, SpreaderSpec, StoreSpec, TlsFiles,
    TuningSpec,
};
pub use monitor::microburst::{Burst, QueueName};
pub use monitor::path_latency::{LatencyAlarm, LatencyOutcome, PathLatencyMonitor, PathSample};
pub use monitor::program::ProgramMonitor;
pub use plane::{ElementCommand, ElementUpdate, MonitorCounts, PlaneCounts, ReflexPlane, SetError};
pub use plane_driver::{AcceptingElement, CommandTarget, PlaneDriver};
pub use settings::{MAX_SETTING, PlaneSetting, SettingError};
pub use store::{
    CAPACITY, LogDisk, LogDiskError, ReplaceProgress, ReplicaGroup, ReplicaState, RequestId,
    StoreEvent, StoreRefusal, StoredNode, cluster_name,
};
pub use udp_frame::{DATAGRAM_HEADERS, DatagramEnd, datagram, write_datagram};
pub use write::{
    ElementWrite, EntryKey, KeyBytes, Setting, WritePlace, controller_change, controller_message,
};
