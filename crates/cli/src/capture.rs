//! Captures of a running switch: its frames at ports in a pcapng file, or in one for each port,
//! which a thread writes.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use packet::PortId;
use port::{FrameRecord, PcapWriteError, PcapngWriter};
use runtime::observation::{
    CapturedFrame, CapturedPorts, ObservedPorts, Observer, ObserverGuard, ObserverLimits,
    PacketObservers, Taken,
};
use runtime::trace_filter::PacketFilter;

use crate::{amount, out};

/// Number of frames that may wait to be written, and of their bytes. More are skipped and counted.
const MAX_WAITING: usize = 16_384;
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Interval at which the file is flushed.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of captures of one device in a directory.
const MAX_FILES: u32 = 10_000;

/// Maximum number of captured bytes of a frame.
const MAX_SNAP: u32 = 65_535;

/// Options of captures.
#[derive(Args, Clone)]
pub(crate) struct CaptureOptions {
    /// Capture the frames at the ports in a pcapng file in this directory, with their direction
    /// and drop reason (docs/reference/ports.md).
    #[arg(long = "pcap", value_name = "DIR")]
    directory: Option<std::path::PathBuf>,
    /// Capture only frames that this describes, as for --trace.
    #[arg(long, value_name = "FILTER", requires = "directory")]
    pcap_filter: Option<PacketFilter>,
    /// Capture at most this number of bytes of a frame.
    #[arg(long, value_name = "BYTES", requires = "directory", default_value_t = MAX_SNAP, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SNAP)))]
    pcap_snaplen: u32,
    /// Capture at most this number of frames a second.
    #[arg(long, value_name = "FRAMES", requires = "directory", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pcap_rate: u64,
    /// End the capture when the file has this number of mebibytes.
    #[arg(long, value_name = "MEBIBYTES", requires = "directory", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pcap_size: u64,
}

/// Message to the thread that writes.
enum ToWriter {
    /// A frame, and the name of its port's interface.
    Frame(CapturedFrame, Arc<str>),
    /// The switch has stopped.
    End,
}

/// State shared by the workers and the thread that writes.
#[derive(Default)]
struct Shared {
    /// Bytes of the frames that wait.
    waiting: AtomicUsize,
    /// Ends the observer when the capture ends.
    guard: Mutex<Option<ObserverGuard>>,
    /// Ports with a file, if each file has the frames at one.
    ports: Option<Arc<CapturedPorts>>,
}

impl Shared {
    /// Ends the observer. Returns the number of frames that the capture lacks.
    fn stop(&self) -> u64 {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        guard.take().map_or(0, |guard| guard.observer().skipped())
    }
}

/// A capture of a running switch.
pub(crate) struct RunningCapture {
    shared: Arc<Shared>,
    sender: SyncSender<ToWriter>,
    thread: JoinHandle<()>,
    /// The file, or what the files have in common.
    name: String,
}

/// Choice of the frames that are captured.
struct Selection {
    filter: PacketFilter,
    limits: ObserverLimits,
    snap_len: u32,
}

impl RunningCapture {
    /// Begins to capture the frames at the ports, if a directory is given. `name` is that of the
    /// switch in the file's name.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn start(
        options: &CaptureOptions,
        name: &str,
        observers: &Arc<PacketObservers>,
    ) -> Result<Option<RunningCapture>, String> {
        let Some(directory) = &options.directory else {
            return Ok(None);
        };
        make_directory(directory)?;
        let mut writer = create(directory, name)?;
        let interfaces = observers.ports().all();
        for (_, name) in &interfaces {
            writer.add_interface(name, options.pcap_snaplen);
        }
        // Shows at the start whether the file can be written.
        writer.flush().map_err(|error| error.to_string())?;
        let path = writer.path().display().to_string();
        out::note(&format!("frames are captured in {path}"));
        let filter = options.pcap_filter.clone();
        let selection = Selection {
            filter: filter.unwrap_or_else(PacketFilter::all),
            limits: ObserverLimits {
                packets: None,
                rate: options.pcap_rate,
            },
            snap_len: options.pcap_snaplen,
        };
        let file = CaptureFile {
            writer,
            port: None,
            interfaces,
            snap_len: options.pcap_snaplen,
            max_bytes: Some(options.pcap_size << 20),
        };
        RunningCapture::begin(path, vec![file], selection, observers).map(Some)
    }

    /// Begins to capture all frames at some ports, each in its own file. `name` is that of all
    /// files in messages.
    ///
    /// # Errors
    /// The operating system provides no thread.
    pub(crate) fn start_ports(
        name: String,
        files: Vec<PortFile>,
        observers: &Arc<PacketObservers>,
    ) -> Result<RunningCapture, String> {
        let selection = Selection {
            filter: PacketFilter::all(),
            limits: ObserverLimits {
                packets: None,
                rate: u64::MAX,
            },
            snap_len: MAX_SNAP,
        };
        let files = files.into_iter().map(|PortFile { port, mut writer }| {
            let name = observers.ports().name(port);
            writer.add_interface(&name, MAX_SNAP);
            CaptureFile {
                writer,
                port: Some(port),
                interfaces: vec![(port, name)],
                snap_len: MAX_SNAP,
                max_bytes: None,
            }
        });
        RunningCapture::begin(name, files.collect(), selection, observers)
    }

    fn begin(
        name: String,
        files: Vec<CaptureFile>,
        selection: Selection,
        observers: &Arc<PacketObservers>,
    ) -> Result<RunningCapture, String> {
        let (sender, frames) = mpsc::sync_channel(MAX_WAITING);
        let own: Option<Vec<PortId>> = files.iter().map(|file| file.port).collect();
        let own = own.map(|own| Arc::new(CapturedPorts::new(&own)));
        let shared = Arc::new(Shared {
            ports: own.clone(),
            ..Shared::default()
        });
        let give = give(&shared, &sender, observers.ports());
        let Selection {
            filter,
            limits,
            snap_len,
        } = selection;
        let mut observer = Observer::of_frames(filter, None, limits, snap_len as usize, give);
        if let Some(own) = own {
            observer = observer.at_ports(own);
        }
        let guard = observers.add(observer).map_err(|error| error.to_string())?;
        *shared.guard.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
        let thread = std::thread::Builder::new().name("capture".to_owned());
        let thread = thread.spawn({
            let shared = Arc::clone(&shared);
            move || write_all(files, &frames, &shared)
        });
        Ok(RunningCapture {
            shared,
            sender,
            thread: thread.map_err(|error| format!("cannot start a thread: {error}"))?,
            name,
        })
    }

    /// Completes the files. Must be called when the switch has stopped. Says what they lack.
    pub(crate) fn finish(self) {
        let skipped = self.shared.stop();
        // The thread may have ended.
        let _ = self.sender.send(ToWriter::End);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
        if let Some(lack) = lack(skipped) {
            out::note(&format!("warning: {} {lack}", self.name));
        }
    }
}

/// Creates a directory of captures if it does not exist.
///
/// # Errors
/// It cannot be created.
pub(crate) fn make_directory(directory: &Path) -> Result<(), String> {
    let made = std::fs::create_dir_all(directory);
    made.map_err(|error| format!("cannot make {}: {error}", directory.display()))
}

/// A file of the frames at one port.
pub(crate) struct PortFile {
    port: PortId,
    writer: PcapngWriter,
}

impl PortFile {
    /// Creates a file, or replaces one.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(path: &Path, port: PortId) -> Result<PortFile, String> {
        let mut writer = PcapngWriter::create(path).map_err(|error| error.to_string())?;
        // Shows at the start whether the file can be written.
        writer.flush().map_err(|error| error.to_string())?;
        Ok(PortFile { port, writer })
    }
}

/// Returns the words about the frames that a capture lacks, if there are any.
fn lack(skipped: u64) -> Option<String> {
    let frames = amount::count(skipped, "frame");
    (skipped > 0).then(|| format!("lacks {frames}, which came faster than captures may grow"))
}

/// Returns the function that gives frames to the thread that writes. It never waits.
fn give(
    shared: &Arc<Shared>,
    sender: &SyncSender<ToWriter>,
    ports: &Arc<ObservedPorts>,
) -> impl Fn(CapturedFrame) -> Taken + Send + Sync + 'static {
    let (shared, sender, ports) = (Arc::clone(shared), sender.clone(), Arc::clone(ports));
    move |frame| {
        let bytes = frame.bytes.len();
        let has_room = shared.waiting.fetch_add(bytes, AcqRel) + bytes <= MAX_WAITING_BYTES;
        let name = ports.name(frame.port);
        if has_room && sender.try_send(ToWriter::Frame(frame, name)).is_ok() {
            return Taken::Yes;
        }
        shared.waiting.fetch_sub(bytes, AcqRel);
        Taken::Full
    }
}

/// Creates the first file of a name that does not exist: `NAME.pcapng`, `NAME-2.pcapng` and so on.
/// So a switch that starts again keeps what it captured before.
fn create(directory: &Path, name: &str) -> Result<PcapngWriter, String> {
    let mut number = 1;
    loop {
        let file = match number {
            1 => format!("{name}.pcapng"),
            number => format!("{name}-{number}.pcapng"),
        };
        match PcapngWriter::create_new(&directory.join(file)) {
            Err(error)
                if error.source.kind() == std::io::ErrorKind::AlreadyExists
                    && number < MAX_FILES =>
            {
                number += 1;
            }
            made => return made.map_err(|error| error.to_string()),
        }
    }
}

/// A file of a capture.
struct CaptureFile {
    writer: PcapngWriter,
    /// The port of which it has the frames; all ports without one.
    port: Option<PortId>,
    /// Ports with their names, by index of the interface. A port that was removed and added again
    /// may have several.
    interfaces: Vec<(PortId, Arc<str>)>,
    snap_len: u32,
    max_bytes: Option<u64>,
}

/// Writes frames until the switch stops, or no file takes more: it is full, or cannot be written.
/// The switch goes on in any case.
fn write_all(mut files: Vec<CaptureFile>, frames: &Receiver<ToWriter>, shared: &Shared) {
    let mut next_flush = Instant::now() + FLUSH_EVERY;
    while !files.is_empty() {
        let pause = next_flush.saturating_duration_since(Instant::now());
        match frames.recv_timeout(pause) {
            Ok(ToWriter::Frame(frame, name)) => {
                shared.waiting.fetch_sub(frame.bytes.len(), AcqRel);
                let takes = |file: &CaptureFile| file.port.is_none_or(|port| port == frame.port);
                if let Some(at) = files.iter().position(takes) {
                    let written = files[at].write(&frame, &name);
                    end_if_over(&mut files, at, written, shared);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(ToWriter::End) | Err(RecvTimeoutError::Disconnected) => {
                for file in &mut files {
                    if let Err(error) = file.writer.flush() {
                        file.note_end(&error, 0);
                    }
                }
                return;
            }
        }
        if Instant::now() >= next_flush {
            next_flush = Instant::now() + FLUSH_EVERY;
            for at in (0..files.len()).rev() {
                let flushed = files[at].writer.flush();
                end_if_over(&mut files, at, flushed, shared);
            }
        }
    }
}

/// Ends a file, with a line, if it could not be written or is full.
fn end_if_over(
    files: &mut Vec<CaptureFile>,
    at: usize,
    written: Result<(), PcapWriteError>,
    shared: &Shared,
) {
    let file = &mut files[at];
    let is_full = file.max_bytes.is_some_and(|max| file.writer.bytes() >= max);
    if written.is_ok() && !is_full {
        return;
    }
    let mut file = files.swap_remove(at);
    if let (Some(ports), Some(port)) = (&shared.ports, file.port) {
        ports.remove(port);
    }
    // What is skipped belongs to all files: without any, no more is captured.
    let skipped = match files.is_empty() {
        true => shared.stop(),
        false => 0,
    };
    match written.and_then(|()| file.writer.flush()) {
        Ok(()) => {
            let lack = lack(skipped).map_or(String::new(), |lack| format!(" and {lack}"));
            out::note(&format!(
                "{} has {}{lack}; no more is captured, the switch goes on",
                file.writer.path().display(),
                amount::bytes(file.writer.bytes())
            ));
        }
        Err(error) => file.note_end(&error, skipped),
    }
}

impl CaptureFile {
    fn write(&mut self, frame: &CapturedFrame, name: &Arc<str>) -> Result<(), PcapWriteError> {
        let mut known = self.interfaces.iter();
        let interface = known.position(|(port, own)| (*port, own) == (frame.port, name));
        let interface = match interface {
            Some(interface) => interface as u32,
            None => {
                self.interfaces.push((frame.port, Arc::clone(name)));
                self.writer.add_interface(name, self.snap_len)
            }
        };
        self.writer.write(FrameRecord {
            interface,
            time: frame.time,
            bytes: &frame.bytes,
            length: frame.length,
            direction: frame.direction,
            comment: frame.comment.as_deref(),
        })
    }

    fn note_end(&self, error: &PcapWriteError, skipped: u64) {
        let lack = lack(skipped).map_or(String::new(), |lack| format!("; it {lack}"));
        out::note(&format!(
            "warning: cannot write {}: {}{lack}; no more is captured, the switch goes on",
            error.file.display(),
            error.source
        ));
    }
}
