//! Requests of the playground as values: a program checked, and packets sent through it.
//!
//! Each request compiles the program and runs it on a device of its own, on engine `interp`,
//! which defines the meaning of programs. So equal requests have equal answers.

use std::cell::Cell;
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apply_entries::ApplyTextError;
use driver::{Compiled, Options, Source};
use entries::EntryError;
use exec::TraceEvent;
use interp::Interp;
use packet::{Frame, Nanos, PortId, bytes_from_hex};
use port::PcapReader;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use support::work::{Work, WorkLimits, checkpoint};
use switch::{Device, DeviceConfig, Limits};
use trace_format::PacketTrace;

pub use crate::program_view::ProgramView;

/// Name of the program in diagnostics.
pub const PROGRAM_NAME: &str = "program.p4";

/// Name of the entries in errors.
pub const ENTRIES_NAME: &str = "program.entries";

/// Maximum number of packets of a request.
pub const MAX_PACKETS: usize = 64;

/// Maximum number of steps in the traces of a request.
const MAX_EVENTS: usize = 50_000;

/// Maximum number of bytes of packets in the traces of a request.
const MAX_TRACED_BYTES: usize = 16 << 20;

/// Time between two packets, so that meters and time-outs see a clock that advances.
const BETWEEN_PACKETS: Nanos = Nanos::from_millis(1);

/// Limits of a request.
const LIMITS: WorkLimits = WorkLimits {
    time: Some(Duration::from_secs(10)),
    bytes: Some(1 << 30),
};

/// Limits of the device of a request.
const DEVICE_LIMITS: Limits = Limits {
    entries: Some(200_000),
    state_bytes: Some(256 << 20),
    stages: None,
    work: None,
};

/// A program to check.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// P4_16 text.
    pub program: String,
}

/// Packets to send through a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// P4_16 text.
    pub program: String,
    /// Text of an entries file.
    #[serde(default)]
    pub entries: String,
    /// The packets, in the order of their arrival.
    pub packets: Vec<Packet>,
}

/// A packet and the port that it arrives at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Packet {
    /// Number of the port.
    pub port: u32,
    /// Bytes as hexadecimal digits, from the Ethernet header on.
    pub bytes: String,
}

/// Answer to a [`CheckRequest`].
#[derive(Debug, Serialize)]
pub struct Checked {
    /// Errors and warnings, as `polyplane check --json` writes them.
    pub diagnostics: Box<RawValue>,
    /// Parts of the program, if it has no errors.
    pub program: Option<ProgramView>,
    /// Time of the compilation in microseconds.
    pub microseconds: u64,
}

/// Answer to a [`RunRequest`].
#[derive(Debug, Serialize)]
pub struct Ran {
    /// Errors and warnings of the program.
    pub diagnostics: Box<RawValue>,
    /// Errors of the entries.
    pub entry_errors: Vec<EntryFault>,
    /// Reason why nothing ran, other than errors in the texts.
    pub refusal: Option<String>,
    /// Result of each packet, in order. Empty if nothing ran.
    pub packets: Vec<PacketResult>,
}

/// Result of a packet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketResult {
    /// Its trace, as `polyplane trace --json` writes it.
    Trace(Box<RawValue>),
    /// Reason why it was not sent.
    Fault(String),
}

/// Error in the entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryFault {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Number of characters.
    pub length: u32,
    /// The error message.
    pub message: String,
    /// Suggests how to fix the error.
    pub hint: Option<String>,
}

/// Packets of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureView {
    /// The first packets, at most [`MAX_PACKETS`].
    pub packets: Vec<Packet>,
    /// True if the capture has more packets, or its end is cut off.
    pub has_more: bool,
}

/// Returns the work of a request, with its limits. Its time starts now.
pub fn request_work() -> Work {
    Work::new(LIMITS)
}

/// Checks a program.
///
/// # Errors
/// The program takes too much time or memory, or the work is cancelled.
pub fn check(request: &CheckRequest, work: &Work) -> Result<Checked, String> {
    within_limits(work, || {
        let start = Instant::now();
        let compiled = compile(&request.program);
        let microseconds = start.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
        Ok(Checked {
            diagnostics: diagnostics(&compiled)?,
            program: compiled.program.as_ref().map(ProgramView::of),
            microseconds,
        })
    })
}

/// Sends packets through a program.
///
/// # Errors
/// The request takes too much time or memory, or has too many packets or steps, or the work is
/// cancelled.
pub fn run(request: &RunRequest, work: &Work) -> Result<Ran, String> {
    if request.packets.len() > MAX_PACKETS {
        let packets = request.packets.len();
        return Err(format!(
            "{packets} packets are too many for one run: send at most {MAX_PACKETS}"
        ));
    }
    let size = Cell::new(TraceSize::default());
    let ran = within_limits(work, || {
        let compiled = compile(&request.program);
        let mut ran = Ran {
            diagnostics: diagnostics(&compiled)?,
            entry_errors: Vec::new(),
            refusal: None,
            packets: Vec::new(),
        };
        let Some(program) = compiled.program else {
            return Ok(ran);
        };
        let config = DeviceConfig {
            limits: DEVICE_LIMITS,
            ..DeviceConfig::default()
        };
        let mut device = match Device::new(Arc::new(program), &Interp, &config) {
            Ok(device) => device,
            Err(error) => {
                ran.refusal = Some(error.to_string());
                return Ok(ran);
            }
        };
        match apply_entries::apply_text(&mut device, ENTRIES_NAME, &request.entries) {
            Ok(()) => {}
            Err(error) => {
                ran.entry_errors = entry_faults(error);
                return Ok(ran);
            }
        }
        ran.packets = trace_packets(&mut device, request, (work, &size))?;
        Ok(ran)
    });
    match size.get().is_too_large() {
        true => Err(format!(
            "the traces have more than {MAX_EVENTS} steps or {MAX_TRACED_BYTES} bytes of packets: \
             send fewer packets, or make fewer copies"
        )),
        false => ran,
    }
}

/// Size of the traces of a request so far.
#[derive(Clone, Copy, Debug, Default)]
struct TraceSize {
    events: usize,
    bytes: usize,
}

impl TraceSize {
    fn is_too_large(self) -> bool {
        self.events > MAX_EVENTS || self.bytes > MAX_TRACED_BYTES
    }

    /// Counts an event. Ends the work if the traces are too large, or it has no time left.
    fn count(total: &Cell<TraceSize>, work: &Work, event: &TraceEvent) {
        let TraceSize { events, bytes } = total.get();
        let more = match event {
            TraceEvent::Received { bytes, .. }
            | TraceEvent::Sent { bytes, .. }
            | TraceEvent::Deparsed { bytes } => bytes.len(),
            _ => 0,
        };
        total.set(TraceSize {
            events: events + 1,
            bytes: bytes + more,
        });
        if total.get().is_too_large() {
            work.cancel();
        }
        checkpoint();
    }
}

/// Returns the first packets of a capture, pcap or pcapng. The end of the capture may be cut off.
///
/// # Errors
/// The bytes are no capture of Ethernet frames.
pub fn read_capture(bytes: Vec<u8>) -> Result<CaptureView, String> {
    let input = Box::new(Cursor::new(bytes));
    let reader = PcapReader::new("the capture".to_owned(), input);
    let mut reader = reader.map_err(|error| error.to_string())?;
    let mut frame = Frame::new();
    let mut view = CaptureView {
        packets: Vec::new(),
        has_more: false,
    };
    loop {
        match reader.read(&mut frame) {
            Ok(Some(_)) if view.packets.len() == MAX_PACKETS => {
                view.has_more = true;
                return Ok(view);
            }
            Ok(Some(_)) => view.packets.push(Packet {
                port: 0,
                bytes: hex(frame.bytes()),
            }),
            Ok(None) => return Ok(view),
            Err(error) if error.is_recoverable() => view.has_more = true,
            Err(error) if view.packets.is_empty() => return Err(error.to_string()),
            Err(_) => {
                view.has_more = true;
                return Ok(view);
            }
        }
    }
}

fn trace_packets(
    device: &mut Device,
    request: &RunRequest,
    (work, size): (&Work, &Cell<TraceSize>),
) -> Result<Vec<PacketResult>, String> {
    let read = |file: &str| (file == PROGRAM_NAME).then(|| request.program.clone());
    let mut now = Nanos::ZERO;
    let mut results = Vec::new();
    for packet in &request.packets {
        let bytes = match bytes_from_hex(&packet.bytes) {
            Ok(bytes) => bytes,
            Err(fault) => {
                results.push(PacketResult::Fault(fault));
                continue;
            }
        };
        let mut events: Vec<TraceEvent> = Vec::new();
        let mut tracer = |event: TraceEvent| {
            TraceSize::count(size, work, &event);
            events.push(event);
        };
        if let Err(error) = device.trace(PortId(packet.port), &bytes, now, &mut tracer) {
            results.push(PacketResult::Fault(error.to_string()));
            continue;
        }
        let arrived = (packet.port, bytes.as_slice());
        let trace = PacketTrace::new(device.configuration(), arrived, &events, &read);
        let json = trace.without_middle_rounds().json()?;
        let json = RawValue::from_string(json).map_err(|error| error.to_string())?;
        results.push(PacketResult::Trace(json));
        now += BETWEEN_PACKETS;
    }
    Ok(results)
}

fn compile(text: &str) -> Compiled {
    let source = Source::Text {
        name: PROGRAM_NAME,
        text,
    };
    driver::compile(&source, &Options::default())
}

fn diagnostics(compiled: &Compiled) -> Result<Box<RawValue>, String> {
    let json = compiled.diagnostics.to_json();
    RawValue::from_string(json).map_err(|error| error.to_string())
}

fn entry_faults(error: ApplyTextError) -> Vec<EntryFault> {
    let errors = match error {
        ApplyTextError::Text(errors) => errors,
        ApplyTextError::Refused(error) => error.errors,
    };
    errors.into_iter().map(EntryFault::of).collect()
}

impl EntryFault {
    fn of(error: EntryError) -> EntryFault {
        EntryFault {
            line: error.line,
            column: error.column,
            length: error.length,
            message: error.message,
            hint: error.hint,
        }
    }
}

/// Runs a request within the limits of its work.
fn within_limits<T>(work: &Work, request: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    match work.run(request) {
        Ok(answer) => answer,
        Err(interrupt) => Err(interrupt.to_string()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
