//! Outputs: events and reports that a process sends while it runs.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use port::bind_datagrams;
use reflex::{Decision, Loops, OutputContent, OutputIndex, OutputSpec, write_event_report};
use serde_json::Value;

use crate::error::ProcessError;

/// An output, with the number of its next report.
struct OpenOutput {
    spec: OutputSpec,
    sequence: u32,
}

/// The outputs of a process. A datagram that the kernel does not take is counted and lost.
pub(crate) struct Outputs {
    /// `None` without outputs.
    socket: Option<UdpSocket>,
    outputs: Vec<OpenOutput>,
    bytes: Vec<u8>,
    pub(crate) sent: u64,
    pub(crate) unsent: u64,
}

impl Outputs {
    /// Opens the outputs of a loop file.
    pub(crate) fn open(loops: &Loops) -> Result<Outputs, ProcessError> {
        let outputs = loops.outputs.iter().map(|output| OpenOutput {
            spec: output.clone(),
            sequence: 0,
        });
        let outputs: Vec<OpenOutput> = outputs.collect();
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let socket = (!outputs.is_empty()).then(|| bind_datagrams(any));
        let socket = socket.transpose().map_err(|error| {
            ProcessError(format!("cannot open a socket for the outputs: {error}"))
        })?;
        Ok(Outputs {
            socket,
            outputs,
            bytes: Vec::new(),
            sent: 0,
            unsent: 0,
        })
    }

    /// Sends an event, as JSON or, if it is a decision, as a report.
    pub(crate) fn event(&mut self, shown: &Value, decision: Option<&Decision>) {
        let Some(socket) = &self.socket else { return };
        for output in &mut self.outputs {
            match (&output.spec.content, decision) {
                (OutputContent::EventsAsJson, _) => {
                    self.bytes.clear();
                    self.bytes.extend_from_slice(shown.to_string().as_bytes());
                    self.bytes.push(b'\n');
                }
                (OutputContent::EventsAsReports(node), Some(decision)) => {
                    write_event_report(&mut self.bytes, *node, output.sequence, decision);
                    output.sequence = output.sequence.wrapping_add(1);
                }
                _ => continue,
            }
            match socket.send_to(&self.bytes, output.spec.to) {
                Ok(_) => self.sent += 1,
                Err(_) => self.unsent += 1,
            }
        }
    }

    /// Sends a datagram of an exporter as it came.
    pub(crate) fn pass(&mut self, output: OutputIndex, datagram: &[u8]) {
        let Some(socket) = &self.socket else { return };
        match socket.send_to(datagram, self.outputs[output.0].spec.to) {
            Ok(_) => self.sent += 1,
            Err(_) => self.unsent += 1,
        }
    }
}
