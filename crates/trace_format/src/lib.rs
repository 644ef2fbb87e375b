//! Crate `trace_format`: formats the events of a traced packet as text and as JSON, and table
//! entries and digests as lines.
//!
//! **In:** an [`exec::Configuration`] (a program with its table entries), the
//! [`exec::TraceEvent`]s of a packet, and a reader of source files ([`ReadSource`]). **Out:** a
//! [`PacketTrace`] of steps with the program's names; its text and its JSON. **May import:**
//! `switch`, `exec`, `table`, `syntax`, `ir`, `bits`, `support`.
//!
//! Module `conversion` converts events of the engine and the device to steps with the program's
//! names. Text and JSON are written from the steps.
//!
//! Invariants:
//! - Text and JSON have the same steps.
//! - No file is read except by the caller's [`ReadSource`], and nothing is printed.
//! - The trace of a program that has been replaced cannot be formatted: ids of its events belong to
//!   the program that was traced. The caller compares the programs.
//!
//! Tests: `src/tests/` (constructed events, and the resulting text and JSON).

mod called;
mod conversion;
mod dump;
mod entry;
mod fold;
mod page;
mod planes;
mod source;
mod step;
mod text;
mod value;

#[cfg(test)]
mod tests;

use exec::{Configuration, TraceEvent};
use serde::Serialize;

use conversion::Converter;
use step::{Bytes, Step};

pub use conversion::digest_line;
pub use entry::{
    default_action_text, entry_line, entry_statement, learned_action_line, learned_line,
};
pub use planes::Planes;
pub use source::ReadSource;

/// The steps of one packet, in order.
pub struct PacketTrace {
    packet: Bytes,
    steps: Vec<Step>,
}

impl PacketTrace {
    /// Converts the events of a packet that arrived by `port` with these bytes. It matched the
    /// tables of `configuration`. `read` reads the program's source.
    pub fn new(
        configuration: &Configuration,
        (port, bytes): (u32, &[u8]),
        events: &[TraceEvent],
        read: ReadSource<'_>,
    ) -> PacketTrace {
        PacketTrace {
            packet: Bytes::new(Some(port), bytes),
            steps: Converter::new(configuration, read).steps(events),
        }
    }

    /// Leaves out rounds of long loops: of more than eight rounds the first three and the last two
    /// stay.
    pub fn without_middle_rounds(self) -> PacketTrace {
        PacketTrace {
            packet: self.packet,
            steps: fold::fold(self.steps),
        }
    }

    /// Formats the steps as indented text, with colours of a terminal or without.
    pub fn text(&self, colours: bool) -> String {
        text::text(&self.steps, colours)
    }

    /// Formats the steps as JSON on several lines: an object with the packet, the events and the
    /// outputs.
    ///
    /// # Errors
    /// A serialization error, as text.
    pub fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(&self.parts()).map_err(|error| error.to_string())
    }

    /// Formats the steps as one line of JSON: an object with the keys of [`PacketTrace::json`], and
    /// those of [`WorkerPacket`].
    ///
    /// # Errors
    /// A serialization error, as text.
    pub fn json_line(&self, live: WorkerPacket) -> Result<String, String> {
        let line = LiveTrace {
            live,
            trace: self.parts(),
        };
        serde_json::to_string(&line).map_err(|error| error.to_string())
    }

    fn parts(&self) -> Trace<'_> {
        let sent = self.steps.iter().filter_map(|step| match step {
            Step::Sent(bytes) => Some(bytes),
            _ => None,
        });
        Trace {
            packet: &self.packet,
            events: &self.steps,
            outputs: sent.collect(),
        }
    }
}

/// Details of a packet of a running device.
#[derive(Serialize)]
pub struct WorkerPacket {
    /// The plane that processed it: `software` or `nic`.
    pub plane: &'static str,
    /// The worker that processed it, or that has the NIC before it.
    pub worker: usize,
    /// Arrival time on the device's clock, in nanoseconds.
    pub time_ns: u64,
}

#[derive(Serialize)]
struct LiveTrace<'a> {
    #[serde(flatten)]
    live: WorkerPacket,
    #[serde(flatten)]
    trace: Trace<'a>,
}

/// JSON object of a trace.
#[derive(Serialize)]
struct Trace<'a> {
    packet: &'a Bytes,
    events: &'a [Step],
    /// Sent packets, in order.
    outputs: Vec<&'a Bytes>,
}
