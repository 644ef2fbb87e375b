//! AF_PACKET port: raw sockets on an existing network interface.

use super::link::{self, Interface, LinkWatch};
use super::offload::OffloadsOff;
use super::refusal::Refusals;
use super::segment::{Segments, VnetHeader, complete_checksum, insert_vlan};
use super::sys::{self, Receiver, VNET_HEADER};
use crate::{LinkState, Port, PortError, PortStats, RxDrop, TxDrop, TxOutcome};
use packet::{Batch, Frame, Nanos, PortId};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Length of an Ethernet header, in bytes. Linux does not send shorter frames.
const MIN_FRAME: usize = 14;

/// Size of the kernel's receive queue, in bytes. The kernel also counts its own structures, so
/// about 20,000 small frames fit.
const RECEIVE_BUFFER: i32 = 16 << 20;

/// Size of the kernel's transmit queue, in bytes.
const SEND_BUFFER: i32 = 4 << 20;

/// A switch port on a Linux interface by AF_PACKET. Needs Linux 3.14; 4.20 or later is better.
/// While it is open, the interface is promiscuous and receive offloads that merge frames are off.
pub struct AfPacketPort {
    id: PortId,
    watch: LinkWatch,
    incoming: OwnedFd,
    /// A second socket for transmission. It receives nothing and needs no virtio header.
    outgoing: OwnedFd,
    receiver: Receiver,
    /// Number of frames in `receiver`, and index of the next one to deliver.
    received: usize,
    next: usize,
    /// Segmentation of the next frame, if it is merged, and the index of its next segment.
    segments: Option<(Segments, usize)>,
    stats: PortStats,
    refusals: Refusals,
    /// Shared by all shares of the port.
    _offloads: Arc<OffloadsOff>,
}

/// Result of delivering a received frame or its remaining segments.
enum Delivery {
    /// The frame was delivered or dropped.
    Done,
    /// The batch is full.
    BatchFull,
}

impl AfPacketPort {
    /// Opens the interface `name` in the calling thread's network namespace as switch port `id`.
    ///
    /// # Errors
    /// [`PortError::NoSuchInterface`], [`PortError::NotEthernet`], or [`PortError::NoPermission`]
    /// without CAP_NET_RAW. An interface that is down is not an error: it delivers frames once it
    /// is up.
    pub fn open(id: PortId, name: &str) -> Result<AfPacketPort, PortError> {
        let opening = Opening::new(id, name)?;
        opening.share(None)
    }

    /// Opens the interface in `n` shares, at least one. The kernel distributes frames over them by
    /// flow hash (`PACKET_FANOUT_HASH`, Linux 4.12).
    ///
    /// # Errors
    /// As [`AfPacketPort::open`]. [`PortError::System`] if the kernel does not support fanout
    /// groups.
    pub fn open_shares(id: PortId, name: &str, n: usize) -> Result<Vec<AfPacketPort>, PortError> {
        if n < 2 {
            return Ok(vec![AfPacketPort::open(id, name)?]);
        }
        let opening = Opening::new(id, name)?;
        let mut shares: Vec<AfPacketPort> = Vec::with_capacity(n);
        for _ in 0..n {
            let joined = opening.share(Some(shares.first()))?;
            shares.push(joined);
        }
        // Before it joined the group, a socket would have received copies of frames for other
        // members.
        for share in &shares {
            sys::receive_all(&share.incoming).map_err(|e| opening.error(e))?;
        }
        Ok(shares)
    }

    /// Delivers the frames in the receiver until the batch is full.
    fn deliver(&mut self, batch: &mut Batch, now: Nanos) {
        while self.next < self.received {
            match self.deliver_next(batch, now) {
                Delivery::Done => self.next += 1,
                Delivery::BatchFull => return,
            }
        }
    }

    fn deliver_next(&mut self, batch: &mut Batch, now: Nanos) -> Delivery {
        let received = self.receiver.get(self.next);
        if received.is_outgoing {
            return Delivery::Done;
        }
        let Some((header, bytes)) = received.bytes.split_first_chunk::<VNET_HEADER>() else {
            return Delivery::Done;
        };
        if received.is_cut {
            self.stats.rx_dropped.add(RxDrop::TooLong, 1);
            return Delivery::Done;
        }
        let header = VnetHeader::parse(header);
        if header.segments.is_some() && self.segments.is_none() {
            match Segments::find(bytes, &header) {
                Some(found) => self.segments = Some((found, 0)),
                None => {
                    self.stats.rx_dropped.add(RxDrop::Unsegmentable, 1);
                    return Delivery::Done;
                }
            }
        }
        let first = self.segments.map_or(0, |(_, next)| next);
        let count = self.segments.map_or(1, |(found, _)| found.count());
        for i in first..count {
            let Some(frame) = batch.push() else {
                self.segments = self.segments.map(|(found, _)| (found, i));
                return Delivery::BatchFull;
            };
            let filled = match &self.segments {
                Some((found, _)) => found.write(bytes, i, frame).map_err(|_| RxDrop::TooLong),
                None => fill(frame, bytes, &header),
            };
            let tagged = filled.and_then(|()| match received.vlan {
                Some((protocol, control)) => {
                    insert_vlan(frame, protocol, control).map_err(|_| RxDrop::TooLong)
                }
                None => Ok(()),
            });
            match tagged {
                Ok(()) => {
                    frame.ingress = self.id;
                    frame.arrival = now;
                    self.stats.count_rx(frame.len());
                }
                Err(reason) => {
                    self.stats.rx_dropped.add(reason, 1);
                    batch.pop();
                }
            }
        }
        self.segments = None;
        Delivery::Done
    }

    /// Receives more frames from the kernel. Returns true if more may be waiting.
    fn receive(&mut self) -> Result<bool, PortError> {
        self.next = 0;
        self.received = 0;
        match self.receiver.receive(&self.incoming) {
            Ok(n) => {
                self.received = n;
                Ok(n == sys::MESSAGES)
            }
            Err(e) => match e.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(false),
                // The frame was removed from the queue and is lost: the kernel has no virtio
                // header for its type of merged segments.
                Some(libc::EINVAL) => {
                    self.stats.rx_dropped.add(RxDrop::Unsegmentable, 1);
                    Ok(false)
                }
                // The kernel reports this once. Frames received before it are still in the queue.
                Some(libc::ENETDOWN) => {
                    self.watch.refresh(self.incoming.as_fd());
                    Ok(true)
                }
                _ => {
                    let doing = format!("receiving from {}", self.watch.name());
                    Err(PortError::System { doing, source: e })
                }
            },
        }
    }

    /// Handles frames that were not sent. `first` is the length of the first of `left` frames.
    /// Returns the drop reason and the number of frames dropped. Without an error, the kernel gave
    /// no reason.
    #[cold]
    fn refused(&mut self, error: Option<&io::Error>, first: usize, left: usize) -> (TxDrop, usize) {
        match error.and_then(io::Error::raw_os_error) {
            Some(libc::EAGAIN) => (TxDrop::QueueFull, left),
            Some(libc::EMSGSIZE) => (TxDrop::TooLong, 1),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.watch.refresh(self.incoming.as_fd());
                (TxDrop::LinkDown, left)
            }
            // The kernel accepted the frame, and its queue or the driver dropped it.
            None | Some(libc::ENOBUFS) => {
                let socket = self.incoming.as_fd();
                (self.refusals.why(first, &mut self.watch, socket), 1)
            }
            _ => (TxDrop::Refused, 1),
        }
    }
}

/// Fills `frame` with the bytes and completes the checksum if necessary.
fn fill(frame: &mut Frame, bytes: &[u8], header: &VnetHeader) -> Result<(), RxDrop> {
    frame.assign(bytes).map_err(|_| RxDrop::TooLong)?;
    match header.checksum {
        Some((start, offset)) if !complete_checksum(frame.bytes_mut(), start, offset) => {
            Err(RxDrop::ChecksumUnfinished)
        }
        _ => Ok(()),
    }
}

/// State of a port while it is being opened.
struct Opening {
    id: PortId,
    name: String,
    interface: Interface,
    offloads: Arc<OffloadsOff>,
}

impl Opening {
    fn new(id: PortId, name: &str) -> Result<Opening, PortError> {
        let interface = link::find(name)?;
        let control = link::control_socket().map_err(|e| error(name, e))?;
        Ok(Opening {
            id,
            name: name.to_owned(),
            interface,
            offloads: Arc::new(OffloadsOff::new(control, name)),
        })
    }

    fn error(&self, source: io::Error) -> PortError {
        error(&self.name, source)
    }

    /// Opens one share. `None`: the only share. `Some(None)`: the first member of a fanout group.
    /// `Some(Some(first))`: a further member. Group members receive nothing yet.
    fn share(&self, group: Option<Option<&AfPacketPort>>) -> Result<AfPacketPort, PortError> {
        let open = || {
            let incoming = open_incoming(self.interface.index, group.is_some())?;
            if let Some(first) = group {
                sys::join_fanout(&incoming, first.map(|first| &first.incoming))?;
            }
            Ok((incoming, open_outgoing(self.interface.index)?))
        };
        let mut refusals = Refusals::new();
        let (incoming, outgoing) = open().map_err(|e| self.error(e))?;
        if refusals.is_direct(self.interface.index) {
            // With qdisc bypass, the driver's result is returned. A qdisc would drop frames
            // without an error, for instance after a carrier loss. If this option is not
            // available, some of these frames count as sent.
            let _ = sys::set_option(&outgoing, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1);
        }
        let control = link::control_socket().map_err(|e| self.error(e))?;
        Ok(AfPacketPort {
            id: self.id,
            watch: LinkWatch::new(&self.interface, control.as_fd()),
            incoming,
            outgoing,
            receiver: Receiver::new(),
            received: 0,
            next: 0,
            segments: None,
            stats: PortStats::default(),
            refusals,
            _offloads: Arc::clone(&self.offloads),
        })
    }
}

fn error(name: &str, source: io::Error) -> PortError {
    let doing = format!("opening a raw socket on {name}");
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PortError::NoPermission {
            doing,
            capability: "CAP_NET_RAW",
        },
        _ => PortError::System { doing, source },
    }
}

fn open_incoming(index: u32, silent: bool) -> io::Result<OwnedFd> {
    // With protocol 0 the socket receives nothing before it is bound to the interface.
    let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)?;
    sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    // Linux 4.20. Earlier kernels mark own transmissions in the packet address.
    let _ = sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
    let forced = sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER);
    if forced.is_err() {
        sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
    }
    sys::set_promiscuous(&fd, index)?;
    if silent {
        sys::receive_none(&fd)?;
    }
    sys::bind_packet(&fd, index, libc::ETH_P_ALL as u16)?;
    Ok(fd)
}

fn open_outgoing(index: u32) -> io::Result<OwnedFd> {
    let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)?;
    let forced = sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
    if forced.is_err() {
        sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
    }
    sys::bind_packet(&fd, index, 0)?;
    Ok(fd)
}

impl Port for AfPacketPort {
    fn id(&self) -> PortId {
        self.id
    }

    fn name(&self) -> &str {
        self.watch.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let before = batch.len();
        self.deliver(batch, now);
        let mut may_have_more = true;
        while may_have_more && batch.room() > 0 {
            may_have_more = match self.receive() {
                Ok(more) => more,
                Err(error) if batch.len() == before => return Err(error),
                Err(_) => break,
            };
            self.deliver(batch, now);
        }
        self.watch.check(self.incoming.as_fd(), now);
        if batch.len() == before {
            self.watch.tell()?;
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let mut outcome = TxOutcome::default();
        let mut rest = frames;
        while let Some(first) = rest.first() {
            let whole = rest
                .iter()
                .take_while(|frame| frame.len() >= MIN_FRAME)
                .count();
            let (dropped, n) = if self.watch.state() != LinkState::Up {
                (TxDrop::LinkDown, rest.len())
            } else if first.len() < MIN_FRAME {
                (TxDrop::TooShort, 1)
            } else {
                match sys::send_frames(&self.outgoing, &rest[..whole]) {
                    Ok(n) => {
                        for frame in &rest[..n] {
                            self.stats.count_tx(frame.len(), &mut outcome);
                        }
                        rest = &rest[n..];
                        // The next frame was attempted, and the kernel hides its error. Do not
                        // retry: the kernel may have accepted the frame and counted it as dropped.
                        if n == whole.min(sys::MESSAGES) {
                            continue;
                        }
                        self.refused(None, rest[0].len(), rest.len())
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => self.refused(Some(&e), first.len(), rest.len()),
                }
            };
            self.stats.count_tx_drop(dropped, n as u64, &mut outcome);
            rest = &rest[n..];
        }
        outcome
    }

    fn stats(&mut self) -> PortStats {
        if let Ok(drops) = sys::take_packet_drops(&self.incoming) {
            self.stats.rx_dropped.add(RxDrop::QueueFull, drops);
        }
        self.stats
    }

    fn link(&self) -> LinkState {
        self.watch.state()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.incoming.as_fd())
    }
}
