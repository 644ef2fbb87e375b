//! `polyplane trace`: shows the processing of one packet, step by step, as text or as JSON.

mod input;
mod source_files;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use exec::TraceEvent;
use packet::{Frame, Nanos, PortId};
use trace_format::PacketTrace;

use crate::args::{Setup, Source};
use crate::engine::Choice;
use crate::{Ended, configure, out};
use source_files::read_from_disk;

pub(crate) use source_files::OwnFiles;

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
    let packet = (options.port, frame.bytes());
    let mut trace = PacketTrace::new(device.configuration(), packet, &events, &read_from_disk);
    if !options.all_rounds {
        trace = trace.without_middle_rounds();
    }
    if options.json {
        out::line(&trace.json()?);
    } else {
        out::text(&trace.text(colours()));
    }
    Ok(Ended::Well)
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

/// Returns true if standard output takes colours.
fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
