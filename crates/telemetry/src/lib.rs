//! Crate `telemetry`: the formats of in-band network telemetry, INT, and of telemetry reports.
//!
//! **In:** payloads of datagrams of exporters. **Out:** checked reports, their hops, flows and
//! paths; places of datagrams in their sequences; reports as bytes and as lines of JSON.
//!
//! - [`TelemetryReport::parse`] checks a payload of Report 2.0, 1.0 or 0.5 once. All reading after
//!   it is infallible, borrows from the payload and does not allocate.
//! - [`ReportView`] reads the reported packet: its [`FlowKey`], and its INT-MD stack or INT-MX
//!   header, which [`EmbeddedInt`] reads and writes.
//! - [`ReportedPath`] is a packet's path. It counts the sink's own hop once, and gives a latency
//!   only if no hop is missing and all values are known.
//! - [`SequenceTracker`] distinguishes gaps, late and repeated datagrams, and new starts.
//! - [`ReportWriter`] writes Report 2.0; [`TelemetryReport::write`] passes a report on;
//!   [`write_json_line`] writes JSON.
//!
//! It may not import other crates than `packet` and `support`. It has no I/O and no clock.
//!
//! Invariants:
//! - No bytes cause a panic. What is accepted is written again as it came, but for reserved fields.
//! - A value of all ones is no value.
//! - Memory is bounded by the number of exporters.
//!
//! docs/internals/telemetry.md has the formats, the decisions and the limits. Tests: `tests/`, with
//! a second decoder by the figures of the specifications and a naive model of sequences; the
//! example `parse` measures. `testkit/tests/int.rs` reads what `examples/int` sends.

mod bytes;
mod flow;
mod hop;
mod int;
mod json;
mod legacy;
mod metadata;
mod path;
mod report;
mod sequence;
mod tlv;
mod write;

pub use flow::{
    FlowKey, IntDomain, IntMarker, L4Ports, PacketInt, PacketKind, ReportedPacket, TcpPosition,
};
pub use hop::{DropRecord, Hop, HopTime, IntNodeId, Interfaces, Occupancy};
pub use int::{
    DomainInstructions, EmbeddedInt, IntContents, IntError, IntStack, MxHeader, NextProtocol,
    SourceOnly, StackEntry,
};
pub use json::write_json_line;
pub use metadata::{Instructions, MetadataLayout};
pub use path::{EqualClocks, Gaps, NoSample, ReportView, ReportedHops, ReportedPath, SinkHop};
pub use report::{
    Associations, Exporter, IndividualReport, Individuals, Inner, LocalMetadata, MainContents,
    ReportError, ReportFault, ReportHeader, ReportVersion, TelemetryReport,
};
pub use sequence::{
    Arrival, RESTART_RUN, SequenceCounts, SequenceTracker, SequenceWindow, WINDOW, datagram_digest,
};
pub use tlv::{Tlv, TlvValue, Tlvs};
pub use write::{MAX_REPORT, ReportEvent, ReportWriter, WriteError};
