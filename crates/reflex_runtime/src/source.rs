//! Places that reports are received at: sockets, interfaces, rings, captures.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use packet::{Batch, Frame, Nanos, PortId};
use port::{
    PcapReader, PcapWriter, Port, PortDriver, PortError, RingPort, bind_datagrams, open_interface,
};
use reflex::{SourcePlace, SourceSpec, datagram};
use support::checksum::internet_checksum;

use crate::error::ProcessError;

/// Datagrams that one call receives at most.
const BATCH: usize = 256;
/// Bytes of a datagram at most.
const MAX_DATAGRAM: usize = 65_536;
/// Bytes of headers.
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
/// Time between two attempts to open an interface again.
const REOPEN: Nanos = Nanos::from_secs(1);

/// A source that is open.
pub(crate) struct OpenSource {
    kind: Kind,
    udp_port: u16,
    /// Frames that are no datagrams of the source.
    pub(crate) others: u64,
    recording: Option<Recording>,
}

/// Capture of what a source receives, with the first error.
struct Recording {
    writer: PcapWriter,
    frame: Vec<u8>,
    to: Ipv4Addr,
    error: Option<String>,
}

impl Recording {
    /// Writes a datagram as an Ethernet frame without a UDP checksum.
    fn write(&mut self, now: Nanos, (from, port): (Ipv4Addr, u16), payload: &[u8]) {
        let length = IP + UDP + payload.len();
        let (Ok(total), None) = (u16::try_from(length), &self.error) else {
            return;
        };
        let frame = &mut self.frame;
        frame.clear();
        frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend(from.octets());
        frame.extend(self.to.octets());
        let checksum = internet_checksum(&frame[ETHERNET..]);
        frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
        frame.extend(port.to_be_bytes());
        frame.extend(port.to_be_bytes());
        frame.extend((total - IP as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend_from_slice(payload);
        let written = self.writer.write(frame, now);
        self.error = written.err().map(|error| error.to_string());
    }
}

enum Kind {
    Socket(UdpSocket, Box<[u8]>),
    Interface {
        port: Box<dyn Port>,
        batch: Batch,
        /// Time at which an interface that went away is tried again.
        reopen: Option<Nanos>,
    },
    Capture(Capture),
    /// Another process of the store listens.
    Elsewhere,
}

/// A capture. Its packets come at the capture's times, the first one at once.
struct Capture {
    reader: PcapReader,
    /// The next packet, with its time in the capture.
    next: Frame,
    has_next: bool,
    /// The first packet's time in the capture, and here.
    begin: Option<(Nanos, Nanos)>,
    error: Option<String>,
}

impl Capture {
    fn advance(&mut self) {
        self.has_next = match self.reader.read(&mut self.next) {
            Ok(packet) => packet.is_some(),
            Err(error) => {
                self.error = Some(error.to_string());
                false
            }
        };
    }

    /// Returns the time at which the next packet is due.
    fn due(&self, now: Nanos) -> Option<Nanos> {
        let (there, here) = self.begin.unwrap_or((self.next.arrival, now));
        self.has_next.then(|| here + self.next.arrival.since(there))
    }
}

impl OpenSource {
    /// Opens a source. Relative files are in `folder`. `node` is the store's node of this process.
    pub(crate) fn open(
        spec: &SourceSpec,
        folder: &Path,
        node: Option<&str>,
    ) -> Result<OpenSource, ProcessError> {
        let is_elsewhere = node.is_some() && spec.node.is_some() && spec.node.as_deref() != node;
        let failed = |error: &dyn std::fmt::Display| {
            ProcessError(format!(
                "source {}: {error}, of line {} of the loop file",
                spec.listen, spec.line
            ))
        };
        let interface = |name: &str, driver| -> Result<Kind, ProcessError> {
            let opened = open_interface(PortId(0), name, driver, 1);
            let mut opened = opened.map_err(|error| failed(&error))?;
            let port = opened.shares.pop();
            let port = port.ok_or_else(|| failed(&"it has no share"))?;
            Ok(Kind::Interface {
                port,
                batch: Batch::with_capacity(BATCH),
                reopen: None,
            })
        };
        let kind = match &spec.listen {
            _ if is_elsewhere => Kind::Elsewhere,
            SourcePlace::Host(host) => {
                return Err(ProcessError(format!(
                    "source {host} is a host of a topology, by line {} of the loop file: add --fabric TOPOLOGY, or write listen = \"udp:ADDRESS:PORT\" or \"packet:INTERFACE\"",
                    spec.line
                )));
            }
            SourcePlace::Udp(address) => {
                let socket = bind_datagrams(*address).map_err(|error| {
                    let is_used = error.kind() == std::io::ErrorKind::AddrInUse;
                    match (is_used, &spec.node) {
                        (true, None) => failed(&format!(
                            "{error}; another process receives there: stop it, give another address, or write node = \"NAME\" of the one node of the store that receives"
                        )),
                        (true, Some(_)) => failed(&format!(
                            "{error}; another process receives there: stop it, or give another address"
                        )),
                        (false, _) => failed(&error),
                    }
                })?;
                Kind::Socket(socket, vec![0; MAX_DATAGRAM].into())
            }
            SourcePlace::Packet(name) => interface(name, PortDriver::Packet)?,
            SourcePlace::Xdp(name) => interface(name, PortDriver::Xdp)?,
            SourcePlace::Ring(name) => {
                let port = RingPort::open(PortId(0), name).map_err(|error| failed(&error))?;
                Kind::Interface {
                    port: Box::new(port),
                    batch: Batch::with_capacity(BATCH),
                    reopen: None,
                }
            }
            SourcePlace::Pcap(path) => {
                let reader = PcapReader::open(&folder.join(path));
                let reader = reader.map_err(|error| failed(&error))?;
                let mut capture = Capture {
                    reader,
                    next: Frame::new(),
                    has_next: false,
                    begin: None,
                    error: None,
                };
                capture.advance();
                Kind::Capture(capture)
            }
        };
        Ok(OpenSource {
            kind,
            udp_port: spec.udp_port,
            others: 0,
            recording: None,
        })
    }

    /// Writes what it receives to a capture, too.
    pub(crate) fn record(&mut self, file: &Path, spec: &SourceSpec) -> Result<(), ProcessError> {
        let writer = PcapWriter::create(file).map_err(ProcessError::new)?;
        let to = match &spec.listen {
            SourcePlace::Udp(address) => *address.ip(),
            _ => Ipv4Addr::UNSPECIFIED,
        };
        self.recording = Some(Recording {
            writer,
            frame: Vec::new(),
            to,
            error: None,
        });
        Ok(())
    }

    /// Completes its capture.
    pub(crate) fn finish(&mut self) -> Result<(), ProcessError> {
        let Some(recording) = self.recording.take() else {
            return Ok(());
        };
        let finished = recording.writer.finish().map_err(ProcessError::new);
        recording
            .error
            .map_or(finished, |error| Err(ProcessError(error)))
    }

    /// Passes sender and payload of each datagram that waits to `take`. Returns the number of
    /// frames and datagrams.
    pub(crate) fn receive(&mut self, now: Nanos, mut take: impl FnMut(Ipv4Addr, &[u8])) -> usize {
        let (udp_port, others) = (self.udp_port, &mut self.others);
        let recording = &mut self.recording;
        let mut take = |from, payload: &[u8]| {
            if let Some(recording) = recording {
                recording.write(now, (from, udp_port), payload);
            }
            take(from, payload);
        };
        let mut frame =
            |bytes: &[u8]| match datagram(bytes).filter(|(_, port, _)| *port == udp_port) {
                Some((from, _, payload)) => take(from, payload),
                None => *others += 1,
            };
        match &mut self.kind {
            Kind::Elsewhere => 0,
            Kind::Socket(socket, buffer) => {
                for count in 0..BATCH {
                    match socket.recv_from(buffer) {
                        Ok((length, SocketAddr::V4(from))) => take(*from.ip(), &buffer[..length]),
                        Ok((_, SocketAddr::V6(_))) => {}
                        Err(_) => return count,
                    }
                }
                BATCH
            }
            Kind::Interface {
                port,
                batch,
                reopen,
            } => {
                if let Some(at) = *reopen {
                    if now < at {
                        return 0;
                    }
                    *reopen = match port.comes_back(now) {
                        Some(_) => None,
                        None => Some(now + REOPEN),
                    };
                }
                batch.clear();
                if let Err(PortError::Gone { .. }) = port.rx(batch, now) {
                    *reopen = Some(now + REOPEN);
                }
                batch.frames().iter().for_each(|it| frame(it.bytes()));
                batch.len()
            }
            Kind::Capture(capture) => {
                let mut count = 0;
                while count < BATCH && capture.due(now).is_some_and(|due| due <= now) {
                    capture.begin.get_or_insert((capture.next.arrival, now));
                    frame(capture.next.bytes());
                    capture.advance();
                    count += 1;
                }
                count
            }
        }
    }

    /// Returns the time of the next datagram, if it is known.
    pub(crate) fn next_time(&self, now: Nanos) -> Option<Nanos> {
        match &self.kind {
            Kind::Capture(capture) => capture.due(now),
            Kind::Interface { reopen, .. } => *reopen,
            Kind::Socket(..) | Kind::Elsewhere => None,
        }
    }

    /// Returns true if nothing will come.
    pub(crate) fn is_over(&self) -> bool {
        match &self.kind {
            Kind::Capture(capture) => !capture.has_next,
            Kind::Elsewhere => true,
            Kind::Socket(..) | Kind::Interface { .. } => false,
        }
    }

    /// Returns true if it is a capture.
    pub(crate) fn is_capture(&self) -> bool {
        matches!(self.kind, Kind::Capture(_))
    }

    /// Returns the error of a capture that ended early.
    pub(crate) fn error(&self) -> Option<&str> {
        match &self.kind {
            Kind::Capture(capture) => capture.error.as_deref(),
            _ => None,
        }
    }

    /// Returns the descriptor that is readable when datagrams wait.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Socket(socket, _) => Some(socket.as_fd()),
            Kind::Interface { port, reopen, .. } if reopen.is_none() => port.poll_fd(),
            Kind::Interface { .. } | Kind::Capture(_) | Kind::Elsewhere => None,
        }
    }
}
