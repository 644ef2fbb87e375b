//! Captures of the links of a real fabric, one file a link.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fabric::Topology;
use fabric::topology::{End, Link, NodeId};
use packet::{Batch, Frame, Nanos, PortId};
use port::{LinkState, OpenedPort, PcapWriter, Port, PortError, PortStats, TxOutcome};

use crate::out;

/// The file of a link, until it is complete or cannot be written.
type CaptureFile = Arc<Mutex<Option<PcapWriter>>>;

/// The files of all links; none without `--pcap`.
#[derive(Default)]
pub(super) struct LinkCaptures(Vec<CaptureFile>);

impl LinkCaptures {
    /// Creates a file for each link in a directory, which is created if it does not exist.
    ///
    /// # Errors
    /// A file cannot be created.
    pub(super) fn create(directory: &Path, topology: &Topology) -> Result<LinkCaptures, String> {
        let made = std::fs::create_dir_all(directory);
        made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        let files = topology.links.iter().map(|link| {
            let path = directory.join(file_name(topology, link));
            let writer = PcapWriter::create(&path).map_err(|error| error.to_string())?;
            Ok(Arc::new(Mutex::new(Some(writer))))
        });
        let files: Result<Vec<CaptureFile>, String> = files.collect();
        Ok(LinkCaptures(files?))
    }

    /// Returns the port with a capture of its frames, if it is the end of the link that captures.
    pub(super) fn watch(
        &self,
        mut port: OpenedPort,
        (number, link): (usize, &Link),
        own: End,
    ) -> OpenedPort {
        let Some(file) = self.0.get(number).filter(|_| capturing_end(link) == own) else {
            return port;
        };
        let shares = port.shares.into_iter().map(|share| {
            let file = Arc::clone(file);
            Box::new(CapturingPort { port: share, file }) as Box<dyn Port>
        });
        port.shares = shares.collect();
        port
    }

    /// Completes the files. One that cannot be written is reported.
    pub(super) fn finish(&self) {
        for file in &self.0 {
            let writer = file.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(Err(error)) = writer.map(PcapWriter::finish) {
                out::note(&error.to_string());
            }
        }
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
    file: CaptureFile,
}

impl CapturingPort {
    /// Writes frames. After an error, which is reported, no more are written.
    fn write<'f>(&self, frames: impl Iterator<Item = &'f [u8]>) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = Nanos::from(now.unwrap_or_default());
        for bytes in frames {
            let written = file.as_mut().map(|writer| writer.write(bytes, now));
            if let Some(Err(error)) = written {
                out::note(&format!("{error}; the link is captured no more"));
                *file = None;
            }
        }
    }
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
        if !frames.is_empty() {
            self.write(frames.iter().map(Frame::bytes));
        }
        received
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let is_over = self
            .file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none();
        if is_over {
            return self.port.tx(frames);
        }
        // One at a time, because an outcome does not say which frames were dropped.
        let mut all = TxOutcome::default();
        for frame in frames {
            let outcome = self.port.tx(std::slice::from_ref(frame));
            if outcome.sent > 0 {
                self.write([frame.bytes()].into_iter());
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
        let file: CaptureFile = Arc::new(Mutex::new(Some(writer)));
        let mut port = CapturingPort {
            port: Box::new(Choosy),
            file: Arc::clone(&file),
        };
        let frames = [1_u8, 0, 2, 0, 3].map(|first| Frame::from_bytes(&[first; 60]).unwrap());
        let outcome = port.tx(&frames);
        assert_eq!((outcome.sent, outcome.dropped.total()), (3, 2));
        LinkCaptures(vec![file]).finish();
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
