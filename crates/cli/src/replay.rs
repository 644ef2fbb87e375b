//! `polyplane replay`: reads captures, and writes a capture for each egress port.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use packet::{Nanos, PortId};
use port::{PcapError, PcapWriteError, PcapWriter};
use runtime::report::{self, DeviceReport, PortReport, Traffic};
use runtime::{Notifications, ProcessSetup};
use serde::Serialize;
use switch::Device;

use crate::args::{Setup, Source};
use crate::captures::{Captures, Input};
use crate::cells::{self, Cell};
use crate::engine::Choice;
use crate::live::{self, LiveLine};
use crate::{Ended, amount, configure, out, run};

/// Number of packets between two checks of the clock and of signals.
const LOOK_EVERY: u64 = 256;

/// Width of the progress bar in characters.
const BAR: usize = 30;

#[derive(Args)]
#[command(
    after_help = "The packets' times of capture are the device's clock; several captures are merged by time. What leaves by port N is written \
                  to N.pcap in the output directory.\n\nExit status: 0 when every packet was read and written, 1 otherwise, 2 for wrong usage."
)]
pub(crate) struct Options {
    #[command(flatten)]
    source: Source,
    /// A capture (pcap or pcapng) and the port that its packets come in by. May be given several
    /// times.
    #[arg(long = "in", value_name = "PORT=FILE", required = true)]
    inputs: Vec<Input>,
    /// Directory for the captures of what leaves the ports. Created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    #[command(flatten)]
    setup: Setup,
    #[command(flatten)]
    choice: Choice,
    /// Write the contents of registers, counters and meters at the end here, as an entries file.
    #[arg(long, value_name = "FILE")]
    state_out: Option<PathBuf>,
    /// Write the summary as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, early: &ProcessSetup) -> Result<Ended, String> {
    let mut captures = Captures::open(&options.inputs).map_err(|e| e.to_string())?;
    let Some(device) = configure::load(
        &options.source,
        &options.setup,
        options.choice,
        captures.start(),
    )?
    else {
        return Ok(Ended::WithErrors);
    };
    for input in &options.inputs {
        configure::check_port(device.program(), input.port)?;
    }
    let outputs = Outputs::new(options.out_dir.as_deref(), &options.inputs)?;
    let mut replay = Replay::new(device, outputs);
    let interrupted = replay.carry(&mut captures, early);
    replay.drain();
    let mut report = replay.finish(&captures);
    if let Some(path) = &options.state_out
        && let Err(error) = std::fs::write(path, cells::statements(&report.cells))
    {
        let message = format!("cannot write {}: {error}", path.display());
        report.errors.push(message);
    }
    report.write(options.json);
    let errors = report
        .errors
        .iter()
        .map(String::as_str)
        .chain(interrupted.as_deref());
    let errors: Vec<&str> = errors.collect();
    for error in &errors {
        out::error(error);
    }
    Ok(if errors.is_empty() {
        Ended::Well
    } else {
        Ended::WithErrors
    })
}

/// A device between captures.
struct Replay {
    device: Device,
    outputs: Outputs,
    received: BTreeMap<PortId, Traffic>,
    sent: BTreeMap<PortId, Traffic>,
    /// The device's clock: the latest time stamp so far.
    now: Nanos,
    first: Option<Nanos>,
    started: Instant,
    /// Packets with a time stamp before that of their predecessor.
    late: u64,
    heard: Notifications,
    errors: Vec<String>,
}

impl Replay {
    fn new(device: Device, outputs: Outputs) -> Replay {
        Replay {
            device,
            outputs,
            received: BTreeMap::new(),
            sent: BTreeMap::new(),
            now: Nanos::ZERO,
            first: None,
            started: Instant::now(),
            late: 0,
            heard: Notifications::new(run::notifications()),
            errors: Vec::new(),
        }
    }

    /// Processes all packets of the captures. Returns a message if a signal ended it early.
    fn carry(&mut self, captures: &mut Captures, early: &ProcessSetup) -> Option<String> {
        let mut line = LiveLine::new();
        let mut packets: u64 = 0;
        while let Some((port, frame)) = captures.next_packet() {
            self.carry_one(port, frame.bytes(), frame.arrival, &mut line);
            packets += 1;
            if packets.is_multiple_of(LOOK_EVERY) {
                if let Some(signal) = early.take_signal() {
                    return Some(format!(
                        "interrupted by {signal} after {}; what was written is whole",
                        amount::count(packets, "packet")
                    ));
                }
                if line.is_due() {
                    line.show(&self.progress(packets, captures));
                }
            }
        }
        None
    }

    fn carry_one(&mut self, port: PortId, bytes: &[u8], arrival: Nanos, line: &mut LiveLine) {
        if arrival < self.now {
            self.late += 1;
        }
        self.now = self.now.max(arrival);
        self.first.get_or_insert(arrival);
        // Packets in queues leave at their own times.
        self.device.step(self.now);
        // Entries that are idle by now are reported before the packet hits them.
        self.collect(line);
        self.received.entry(port).or_default().count(bytes.len());
        // Packets of a capture fit into a frame.
        let taken = self.device.receive(port, bytes);
        debug_assert!(taken.is_ok());
        self.device.step(self.now);
        self.collect(line);
    }

    /// Empties the device's queues after the last packet.
    fn drain(&mut self) {
        let mut line = LiveLine::new();
        while let Some(at) = self.device.next_time() {
            self.device.step(at);
            self.collect(&mut line);
        }
        self.heard
            .finish(&mut self.device, false, &mut |text| line.note(&text));
    }

    /// Writes sent packets and shows the program's notifications.
    fn collect(&mut self, line: &mut LiveLine) {
        let Replay {
            device,
            outputs,
            sent,
            heard,
            ..
        } = self;
        device.drain_sent(|port, bytes, time| {
            sent.entry(port).or_default().count(bytes.len());
            outputs.write(port, bytes, time);
        });
        heard.hear(device, None, &mut |text| line.note(&text));
    }

    fn progress(&self, packets: u64, captures: &Captures) -> String {
        let rate = packets as f64 / self.started.elapsed().as_secs_f64();
        let bar = live::bar(captures.bytes_read(), captures.bytes_in_files(), BAR);
        format!(
            "{bar} {}, {}",
            amount::count(packets, "packet"),
            amount::packet_rate(rate)
        )
    }

    /// Completes the output captures and returns the report.
    fn finish(mut self, captures: &Captures) -> Report {
        let seconds = self.started.elapsed().as_secs_f64();
        let (files, write_errors) = self.outputs.finish();
        self.errors
            .extend(captures.errors().iter().map(PcapError::to_string));
        self.errors
            .extend(write_errors.iter().map(PcapWriteError::to_string));
        let conserved = self.device.check_conservation();
        self.errors.extend(conserved.err().map(|e| e.to_string()));
        let numbers = self.received.keys().chain(self.sent.keys());
        let numbers: std::collections::BTreeSet<PortId> = numbers.copied().collect();
        let ports = numbers.into_iter().map(|port| PortReport {
            port: port.0,
            name: names(port, captures, &files),
            received: self.received.get(&port).copied().unwrap_or_default(),
            sent: self.sent.get(&port).copied().unwrap_or_default(),
            dropped: Vec::new(),
            up: None,
        });
        let total = |traffic: &BTreeMap<PortId, Traffic>| {
            let sum = |pick: fn(&Traffic) -> u64| traffic.values().map(pick).sum();
            Traffic {
                packets: sum(|t| t.packets),
                bytes: sum(|t| t.bytes),
            }
        };
        Report {
            seconds,
            capture_seconds: self.now.since(self.first.unwrap_or(self.now)).as_secs_f64(),
            received: total(&self.received),
            sent: total(&self.sent),
            cut: captures.cut(),
            late: self.late,
            ports: ports.collect(),
            device: self.heard.report(&self.device),
            cells: cells::cells(&self.device),
            files,
            errors: self.errors,
        }
    }
}

/// Returns the files of a port: those read, and the one written.
fn names(port: PortId, captures: &Captures, files: &[OutputFile]) -> String {
    let read = captures.names(port);
    let written = files.iter().filter(|file| file.port == port.0);
    let written = written.map(|file| format!("-> {}", file.file.display()));
    let all: Vec<String> = read.map(str::to_owned).chain(written).collect();
    if all.is_empty() {
        "no file".to_owned()
    } else {
        all.join(" ")
    }
}

/// A written capture.
#[derive(Clone, Debug, Serialize)]
struct OutputFile {
    port: u32,
    file: PathBuf,
    packets: u64,
}

/// Output captures. Each is created with its first packet.
struct Outputs {
    directory: Option<PathBuf>,
    writers: BTreeMap<PortId, PcapWriter>,
    /// Ports with a write error.
    failed: BTreeMap<PortId, PcapWriteError>,
}

impl Outputs {
    fn new(directory: Option<&Path>, inputs: &[Input]) -> Result<Outputs, String> {
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory)
                .map_err(|e| format!("cannot make the directory {}: {e}", directory.display()))?;
            refuse_to_overwrite(directory, inputs)?;
        }
        Ok(Outputs {
            directory: directory.map(Path::to_owned),
            writers: BTreeMap::new(),
            failed: BTreeMap::new(),
        })
    }

    fn write(&mut self, port: PortId, bytes: &[u8], time: Nanos) {
        let Some(directory) = &self.directory else {
            return;
        };
        if self.failed.contains_key(&port) {
            return;
        }
        let written = match self.writers.entry(port) {
            std::collections::btree_map::Entry::Occupied(writer) => {
                writer.into_mut().write(bytes, time)
            }
            std::collections::btree_map::Entry::Vacant(place) => {
                PcapWriter::create(&file_of(directory, port))
                    .and_then(|writer| place.insert(writer).write(bytes, time))
            }
        };
        if let Err(error) = written {
            self.writers.remove(&port);
            self.failed.insert(port, error);
        }
    }

    /// Renames all captures to their final names. Returns the written ones and the errors of the
    /// others.
    fn finish(&mut self) -> (Vec<OutputFile>, Vec<PcapWriteError>) {
        let mut files = Vec::new();
        let failed = std::mem::take(&mut self.failed);
        let mut errors: Vec<PcapWriteError> = failed.into_values().collect();
        let Some(directory) = &self.directory else {
            return (files, errors);
        };
        for (port, writer) in std::mem::take(&mut self.writers) {
            let packets = writer.packets();
            match writer.finish() {
                Ok(()) => files.push(OutputFile {
                    port: port.0,
                    file: file_of(directory, port),
                    packets,
                }),
                Err(error) => errors.push(error),
            }
        }
        (files, errors)
    }
}

fn file_of(directory: &Path, port: PortId) -> PathBuf {
    directory.join(format!("{port}.pcap"))
}

/// Checks that no input capture would be overwritten.
fn refuse_to_overwrite(directory: &Path, inputs: &[Input]) -> Result<(), String> {
    let Ok(directory) = directory.canonicalize() else {
        return Ok(());
    };
    for input in inputs {
        let Ok(file) = input.file.canonicalize() else {
            continue;
        };
        let is_port_file = file.extension().is_some_and(|e| e == "pcap")
            && file
                .file_stem()
                .is_some_and(|stem| stem.to_string_lossy().parse::<u32>().is_ok());
        if is_port_file && file.parent() == Some(&directory) {
            return Err(format!(
                "{} could be overwritten by the output of that port: give another --out-dir",
                input.file.display()
            ));
        }
    }
    Ok(())
}

/// The summary.
#[derive(Serialize)]
struct Report {
    /// Wall-clock time.
    seconds: f64,
    /// Time span of the captures.
    capture_seconds: f64,
    received: Traffic,
    sent: Traffic,
    /// Number of packets that the captures hold only in part.
    cut: u64,
    /// Number of packets with a time stamp before that of their predecessor.
    late: u64,
    ports: Vec<PortReport>,
    #[serde(flatten)]
    device: DeviceReport,
    /// Contents of registers, counters and meters.
    cells: Vec<Cell>,
    files: Vec<OutputFile>,
    errors: Vec<String>,
}

impl Report {
    fn write(&self, json: bool) {
        if json {
            return out::json(self);
        }
        let seconds = self.seconds.max(1e-9);
        out::line(&format!(
            "{} ({}) in {}: {}, {}",
            amount::count(self.received.packets, "packet"),
            amount::bytes(self.received.bytes),
            amount::time(Duration::from_secs_f64(self.seconds)),
            amount::packet_rate(self.received.packets as f64 / seconds),
            amount::bit_rate(self.received.bytes as f64 * 8.0 / seconds),
        ));
        out::text(&report::text(&self.ports, &self.device));
        cells::show(&self.cells);
        if self.cut > 0 {
            out::line(&format!(
                "{} cut short by the capture (snap length): the program saw only what was captured",
                amount::count(self.cut, "packet")
            ));
        }
        if self.late > 0 {
            out::line(&format!(
                "{} had an earlier time than the one before: the device's clock stood still",
                amount::count(self.late, "packet")
            ));
        }
    }
}
