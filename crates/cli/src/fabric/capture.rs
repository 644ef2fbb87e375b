//! Captures of the links of a real fabric, one file a link.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use fabric::Topology;
use fabric::topology::{End, Link, NodeId};
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, OpenedPort, PcapWriter, Port, PortError, PortStats, TxOutcome};

use crate::{amount, out};

/// Number of frames that may wait to be written. More are skipped and counted.
const WAITING: usize = 16_384;

/// Bytes of frames in a file, after which it is complete.
const MAX_BYTES: u64 = 4 << 30;

/// A frame of a link.
struct Captured {
    /// Number of the link.
    link: usize,
    time: Nanos,
    bytes: Box<[u8]>,
}

/// The way of frames to the thread that writes the files.
#[derive(Clone)]
struct Tap {
    frames: SyncSender<Captured>,
    skipped: Arc<AtomicU64>,
}

impl Tap {
    fn give(&self, link: usize, bytes: &[u8]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let frame = Captured {
            link,
            time: Nanos::from(now.unwrap_or_default()),
            bytes: bytes.into(),
        };
        // The packet path does not wait for the disk.
        if self.frames.try_send(frame).is_err() {
            self.skipped.fetch_add(1, Relaxed);
        }
    }
}

/// The captures of all links; none without `--pcap`.
#[derive(Default)]
pub(super) struct LinkCaptures(Mutex<Option<(Tap, JoinHandle<()>)>>);

impl LinkCaptures {
    /// Creates a file for each link in a directory, which is created if it does not exist.
    ///
    /// # Errors
    /// A file cannot be created, or the thread that writes it.
    pub(super) fn create(directory: &Path, topology: &Topology) -> Result<LinkCaptures, String> {
        let made = std::fs::create_dir_all(directory);
        made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let files = topology.links.iter().map(|link| {
            let path = directory.join(file_name(topology, link));
            let writer = PcapWriter::create(&path).map_err(|error| error.to_string())?;
            Ok(Some(writer))
        });
        let files: Result<Vec<Option<PcapWriter>>, String> = files.collect();
        LinkCaptures::start(files?)
    }

    /// Starts the thread that writes the files, which are indexed by link.
    fn start(files: Vec<Option<PcapWriter>>) -> Result<LinkCaptures, String> {
        let (sender, frames) = mpsc::sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("captures".to_owned());
        let thread = thread.spawn(move || write_all(files, &frames));
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        let tap = Tap {
            frames: sender,
            skipped: Arc::default(),
        };
        Ok(LinkCaptures(Mutex::new(Some((tap, thread)))))
    }

    /// Returns the port with a capture of its frames, if it is the end of the link that captures.
    pub(super) fn watch(
        &self,
        mut port: OpenedPort,
        (number, link): (usize, &Link),
        own: End,
    ) -> OpenedPort {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((tap, _)) = writer.as_ref().filter(|_| capturing_end(link) == own) else {
            return port;
        };
        let shares = port.shares.into_iter().map(|share| {
            Box::new(CapturingPort {
                port: share,
                link: number,
                tap: tap.clone(),
            }) as Box<dyn Port>
        });
        port.shares = shares.collect();
        port
    }

    /// Completes the files, once all ports are closed. Says what they lack.
    pub(super) fn finish(&self) {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((tap, thread)) = writer else {
            return;
        };
        let skipped = tap.skipped;
        drop(tap.frames);
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
        let skipped = skipped.load(Relaxed);
        if skipped > 0 {
            let frames = amount::count(skipped, "frame");
            out::note(&format!(
                "warning: the captures lack {frames}, which came faster than they were written"
            ));
        }
    }
}

/// Writes frames until no port gives more, and completes the files. A file that cannot be written
/// is reported, and gets no more.
fn write_all(mut files: Vec<Option<PcapWriter>>, frames: &Receiver<Captured>) {
    for frame in frames {
        let Some(file) = files.get_mut(frame.link) else {
            continue;
        };
        let Some(writer) = file else {
            continue;
        };
        if let Err(error) = writer.write(&frame.bytes, frame.time) {
            out::note(&format!("{error}; the link is captured no more"));
            *file = None;
        } else if writer.bytes() > MAX_BYTES {
            out::note("a capture is complete at 4 GiB; its link is captured no more");
            complete(file.take());
        }
    }
    files.into_iter().for_each(complete);
}

fn complete(file: Option<PcapWriter>) {
    if let Some(Err(error)) = file.map(PcapWriter::finish) {
        out::note(&error.to_string());
    }
}

/// Returns the end at which a link is captured: the first one of a switch, which sees all frames.
fn capturing_end(link: &Link) -> End {
    let [first, second] = link.ends;
    match first.node {
        NodeId::Switch(_) => first,
        NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => second,
    }
}

/// Returns the name of a link's file: `h1_s1-p1.pcap`.
fn file_name(topology: &Topology, link: &Link) -> String {
    let ends = link.ends.map(|end| {
        let name = topology.name_of(end.node);
        match end.node {
            NodeId::Switch(_) => format!("{name}-p{}", end.port),
            NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => name.to_owned(),
        }
    });
    format!("{}.pcap", ends.join("_"))
}

/// A port of which all frames are captured.
struct CapturingPort {
    port: Box<dyn Port>,
    link: usize,
    tap: Tap,
}

impl Port for CapturingPort {
    fn id(&self) -> PortId {
        self.port.id()
    }

    fn second_id(&self) -> Option<PortId> {
        self.port.second_id()
    }

    fn name(&self) -> &str {
        self.port.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let before = batch.len();
        let received = self.port.rx(batch, now);
        let frames = batch.frames().get(before..).unwrap_or_default();
        for frame in frames {
            self.tap.give(self.link, frame.bytes());
        }
        received
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        // One at a time, because an outcome does not say which frames were dropped.
        let mut all = TxOutcome::default();
        for frame in frames {
            let outcome = self.port.tx(std::slice::from_ref(frame));
            if outcome.sent > 0 {
                self.tap.give(self.link, frame.bytes());
            }
            all.sent += outcome.sent;
            all.dropped.add_all(&outcome.dropped);
        }
        all
    }

    fn stats(&mut self) -> PortStats {
        self.port.stats()
    }

    fn link(&self) -> LinkState {
        self.port.link()
    }

    fn finish(&mut self) {
        self.port.finish();
    }

    fn comes_back(&mut self, now: Nanos) -> Option<String> {
        self.port.comes_back(now)
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.poll_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{DropCounts, PcapReader, TxDrop};

    /// A port that drops frames which begin with 0.
    struct Choosy;

    impl Port for Choosy {
        fn id(&self) -> PortId {
            PortId(1)
        }

        fn name(&self) -> &str {
            "choosy"
        }

        fn rx(&mut self, _: &mut Batch, _: Nanos) -> Result<usize, PortError> {
            Ok(0)
        }

        fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
            let dropped = frames.iter().filter(|frame| frame.bytes()[0] == 0).count() as u64;
            let mut drops = DropCounts::default();
            drops.add(TxDrop::TooLong, dropped);
            TxOutcome {
                sent: frames.len() as u64 - dropped,
                dropped: drops,
            }
        }

        fn stats(&mut self) -> PortStats {
            PortStats::default()
        }

        fn link(&self) -> LinkState {
            LinkState::Up
        }

        fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }

    #[test]
    fn a_capture_has_the_sent_frames_and_not_the_dropped_ones() {
        let path = std::env::temp_dir().join(format!("polyplane-sent-{}.pcap", std::process::id()));
        let writer = PcapWriter::create(&path).unwrap();
        let captures = LinkCaptures::start(vec![None, Some(writer)]).unwrap();
        let tap = captures.0.lock().unwrap().as_ref().unwrap().0.clone();
        let mut port = CapturingPort {
            port: Box::new(Choosy),
            link: 1,
            tap,
        };
        let frames = [1_u8, 0, 2, 0, 3].map(|first| Frame::from_bytes(&[first; 60]).unwrap());
        let outcome = port.tx(&frames);
        assert_eq!((outcome.sent, outcome.dropped.total()), (3, 2));
        drop(port);
        captures.finish();
        let mut reader = PcapReader::open(&path).unwrap();
        let mut frame = Frame::new();
        let mut captured = Vec::new();
        while reader.read(&mut frame).unwrap().is_some() {
            captured.push(frame.bytes()[0]);
        }
        assert_eq!(captured, [1, 2, 3]);
        std::fs::remove_file(path).unwrap();
    }
}
