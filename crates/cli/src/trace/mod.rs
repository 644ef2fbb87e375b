//! `polyplane trace`: shows the processing of one packet, step by step, as text or as JSON.
//!
//! Events of the engine and the device become steps with the program's names ([`tell`]). Text and
//! JSON are written from the steps.

mod called;
mod dump;
mod entry;
mod fold;
mod input;
mod page;
mod source;
mod step;
mod tell;
mod text;
mod value;

#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use exec::TraceEvent;
use packet::{Frame, Nanos, PortId};
use serde::Serialize;
use switch::Device;

use crate::args::{Setup, Source};
use crate::engine::Choice;
use crate::{Ended, configure, out};
use source::ReadSource;
use step::{Bytes, Step};
use tell::Teller;

pub(crate) use entry::{entry_line, learned_line};
pub(crate) use source::OwnFiles;
pub(crate) use tell::digest_line;

#[derive(Args)]
#[command(
    group(ArgGroup::new("input").required(true).args(["packet", "pcap"])),
    after_help = "Shows parser states, headers, conditions, tables with their keys and entries, actions, every field that changes, the packet that \
                  comes out and where it goes; for all copies of the packet, too.\n\nExit status: 0, also for a packet that is dropped; 1 for \
                  errors in the program, the entries or the packet; 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// The packet, from the Ethernet header on, as hexadecimal digits; blanks and colons between
    /// them are ignored.
    #[arg(long, value_name = "HEX")]
    packet: Option<String>,
    /// A capture (pcap or pcapng) that the packet is in; its time of capture is the device's
    /// clock.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Number of the packet in the capture, from 1 [default: 1].
    #[arg(long, value_name = "N", requires = "pcap", conflicts_with = "packet", value_parser = clap::value_parser!(u64).range(1..))]
    number: Option<u64>,
    /// The port that the packet comes in by.
    #[arg(long, value_name = "P", default_value_t = 0)]
    port: u32,
    #[command(flatten)]
    setup: Setup,
    /// Write JSON: an object with the packet, the events and the outputs.
    #[arg(long)]
    json: bool,
    /// Show all rounds of loops; otherwise of loops with more than eight rounds the first three
    /// and the last two.
    #[arg(long)]
    all_rounds: bool,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let frame = packet(options)?;
    let Some(mut device) =
        configure::load(&options.source, &options.setup, Choice::INTERP, Nanos::ZERO)?
    else {
        return Ok(Ended::WithErrors);
    };
    let port = PortId(options.port);
    configure::check_port(device.program(), port)?;
    let mut events: Vec<TraceEvent> = Vec::new();
    device
        .trace(port, frame.bytes(), frame.arrival, &mut events)
        .map_err(|error| error.to_string())?;
    let mut steps = steps(&device, &events, &source::read_from_disk);
    if !options.all_rounds {
        steps = fold::fold(steps);
    }
    if options.json {
        out::line(&json(options.port, &frame, &steps)?);
    } else {
        out::text(&text::text(&steps, colours()));
    }
    Ok(Ended::Well)
}

/// Formats a trace of a running device as text for standard error.
pub(crate) fn live_text(device: &Device, events: &[TraceEvent], files: &OwnFiles) -> String {
    let steps = steps(device, events, &|file| files.read(file));
    text::text(&fold::fold(steps), out::colours())
}

/// Formats a trace of a running device as one line of JSON: an object with the keys of
/// `trace --json`, and those of [`Live`].
///
/// # Errors
/// A serialization error, as text.
pub(crate) fn live_json(
    device: &Device,
    port: PortId,
    bytes: &[u8],
    events: &[TraceEvent],
    live: Live,
    files: &OwnFiles,
) -> Result<String, String> {
    let steps = fold::fold(steps(device, events, &|file| files.read(file)));
    let line = LiveTrace {
        live,
        trace: Trace::new(Bytes::new(Some(port.0), bytes), &steps),
    };
    serde_json::to_string(&line).map_err(|error| error.to_string())
}

/// Details of a packet of a running device.
#[derive(Serialize)]
pub(crate) struct Live {
    /// The worker that processed it.
    pub(crate) worker: usize,
    /// Arrival time on the device's clock.
    pub(crate) time_ns: u64,
}

#[derive(Serialize)]
struct LiveTrace<'a> {
    #[serde(flatten)]
    live: Live,
    #[serde(flatten)]
    trace: Trace<'a>,
}

/// Returns the packet that the options select.
fn packet(options: &Options) -> Result<Frame, String> {
    if let Some(file) = &options.pcap {
        let captured = input::from_capture(file, options.number.unwrap_or(1))?;
        captured.note.iter().for_each(|note| out::note(note));
        return Ok(captured.frame);
    }
    let hex = options.packet.as_deref().unwrap_or_default();
    let bytes = input::from_hex(hex).map_err(|fault| format!("--packet: {fault}"))?;
    let mut frame = Frame::from_bytes(&bytes).map_err(|error| error.to_string())?;
    frame.arrival = Nanos::ZERO;
    Ok(frame)
}

/// Returns the steps of the events, with the program's names.
fn steps(device: &Device, events: &[TraceEvent], read: ReadSource<'_>) -> Vec<Step> {
    Teller::new(device.configuration(), read).tell(events)
}

/// Returns true if standard output takes colours.
fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Output of `--json`.
#[derive(Serialize)]
struct Trace<'a> {
    packet: Bytes,
    events: &'a [Step],
    /// Sent packets, in order.
    outputs: Vec<&'a Bytes>,
}

impl<'a> Trace<'a> {
    fn new(packet: Bytes, steps: &'a [Step]) -> Trace<'a> {
        let sent = steps.iter().filter_map(|step| match step {
            Step::Sent(bytes) => Some(bytes),
            _ => None,
        });
        Trace {
            packet,
            events: steps,
            outputs: sent.collect(),
        }
    }
}

fn json(port: u32, frame: &Frame, steps: &[Step]) -> Result<String, String> {
    let trace = Trace::new(Bytes::new(Some(port), frame.bytes()), steps);
    serde_json::to_string_pretty(&trace).map_err(|error| error.to_string())
}
