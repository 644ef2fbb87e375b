//! `polyplane trace`: shows the processing of one packet, step by step, as text or as JSON.

mod input;
mod source_files;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{ArgGroup, Args};
use exec::TraceEvent;
use packet::{Frame, Nanos, PortId};
use passes::split::{CutKind, SplitOptions, split};
use switch::{Change, Device};
use trace_format::{PacketTrace, Planes, learned_action_line, learned_line};

use crate::args::{Setup, Source};
use crate::engine::Choice;
use crate::pof::program as pof_program;
use crate::{Ended, configure, out};
use source_files::read_from_disk;

pub(crate) use source_files::OwnFiles;

#[derive(Args)]
#[command(
    group(ArgGroup::new("input").required(true).args(["packet", "pcap"])),
    after_help = "Shows parser states, headers, conditions, tables with their keys and entries, actions, every field that changes, the packet that \
                  comes out and where it goes; for all copies of the packet, too.\n\nA file of tables and flows (`FILE.pof`, as `polyplane pof ctl ... dump` writes them) is \
                  traced as a POF switch runs it: its tables are tN by their numbers (mm/0 is t0, lpm/0 is t10), and port 65536 is the controllers, for which 14 bytes are put in front of \
                  the packet (reason, table, port, cookie, length).\n\nExamples:\n  polyplane trace my.p4 --entries my.entries --packet ffffffffffff0200000000010800 --port 1\n  \
                  polyplane trace tables.pof --pcap in.pcap --number 3 --port 1\n\nExit status: 0, also for a packet that is dropped; 1 for \
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
    /// Also show where the packet leaves the switch for a server and where it resumes, if the
    /// program runs over both and the switch holds no entry of a mirrored table.
    #[arg(long)]
    split: bool,
}

pub(crate) fn run(options: &Options) -> Result<Ended, String> {
    let frame = packet(options)?;
    if pof_program::is_text(&options.source.program) {
        refuse_for_pof(options)?;
        let path = &options.source.program;
        let mut forwarder = pof_program::forwarder_at(path, options.port)?;
        return trace(options, &frame, forwarder.device());
    }
    let Some(mut device) =
        configure::load(&options.source, &options.setup, Choice::INTERP, Nanos::ZERO)?
    else {
        return Ok(Ended::WithErrors);
    };
    configure::check_port(device.program(), PortId(options.port))?;
    trace(options, &frame, &mut device)
}

/// Refuses options that have no meaning for tables and flows of a POF switch.
fn refuse_for_pof(options: &Options) -> Result<(), String> {
    let given = [
        ("--entries", options.setup.entries.is_some()),
        ("--host-port", !options.setup.host_ports.is_empty()),
        ("--split", options.split),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(format!(
            "{name} is for P4 programs, and {} has tables and flows: leave it out",
            options.source.program.display()
        )),
        None => Ok(()),
    }
}

fn trace(options: &Options, frame: &Frame, device: &mut Device) -> Result<Ended, String> {
    let port = PortId(options.port);
    let planes = match options.split {
        true => match planes(device.program()) {
            Some(planes) => Some(planes),
            None => return Ok(Ended::WithErrors),
        },
        false => None,
    };
    let learned: Arc<Mutex<Vec<Change>>> = Arc::default();
    let noted = Arc::clone(&learned);
    device.follow(move |record| {
        if record.change.is_learned() {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push(record.change.clone());
        }
    });
    let mut events: Vec<TraceEvent> = Vec::new();
    device
        .trace(port, frame.bytes(), frame.arrival, &mut events)
        .map_err(|error| error.to_string())?;
    let packet = (options.port, frame.bytes());
    let mut trace = PacketTrace::new(device.configuration(), packet, &events, &read_from_disk);
    let learned = learned.lock().unwrap_or_else(PoisonError::into_inner);
    let changes = learned.iter();
    let changes = changes.filter_map(|change| learned_entry(device.program(), change));
    trace = trace.with_learned(changes.collect());
    if let Some(planes) = &planes {
        trace = trace.over_planes(planes);
    }
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

/// Returns the cuts of a program over a switch and servers. Shows an error, and returns `None` if
/// it cannot be split.
fn planes(program: &ir::Program) -> Option<Planes> {
    let split = match split(program, &SplitOptions::default()) {
        Ok(split) => split.plan,
        Err(error) => {
            out::note(&error.to_string());
            return None;
        }
    };
    let mut planes = Planes {
        server_stages: split.server_stages.iter().cloned().collect(),
        ..Planes::default()
    };
    for (cut, number) in split.cuts.iter().zip(1..) {
        let (kind, is_captured) = match cut.kind {
            CutKind::Table(table) => {
                let mirrored = split.mirrored_table(table);
                (
                    "table",
                    mirrored.is_some_and(|mirrored| mirrored.is_captured),
                )
            }
            CutKind::Handler(_) => ("handler", false),
        };
        let name = format!("the {kind} {}", cut.name);
        planes.cuts.insert(cut.stage.clone(), (number, name));
        if is_captured {
            planes.captured.insert(cut.stage.clone());
        }
    }
    Some(planes)
}

/// Returns what a handler did to an entry, and the entry.
fn learned_entry(program: &ir::Program, change: &Change) -> Option<(&'static str, String)> {
    let (word, table, entry) = match change {
        Change::Learn(table, entry) => ("inserts", *table, entry),
        Change::Relearn(table, entry) => ("changes", *table, entry),
        Change::Forget(table, _, key) => {
            return Some(("deletes", learned_line(program, *table, key)));
        }
        _ => return None,
    };
    let line = learned_action_line(program, table, &entry.key, &entry.action);
    Some((word, line))
}

/// Returns the packet that the options select.
fn packet(options: &Options) -> Result<Frame, String> {
    if let Some(file) = &options.pcap {
        let captured = input::from_capture(file, options.number.unwrap_or(1))?;
        captured.note.iter().for_each(|note| out::note(note));
        return Ok(captured.frame);
    }
    let hex = options.packet.as_deref().unwrap_or_default();
    let bytes = packet::bytes_from_hex(hex).map_err(|fault| format!("--packet: {fault}"))?;
    let mut frame = Frame::from_bytes(&bytes).map_err(|error| error.to_string())?;
    frame.arrival = Nanos::ZERO;
    Ok(frame)
}

/// Returns true if standard output takes colours.
fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
