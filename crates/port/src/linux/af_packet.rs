//! A port on an existing network interface, by raw sockets.

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

/// Bytes of an Ethernet header, without which Linux sends nothing.
const MIN_FRAME: usize = 14;

/// Bytes of frames that may wait in the kernel, on their way in. The kernel counts its own structures
/// too: these are some 20,000 small frames.
const RECEIVE_BUFFER: i32 = 16 << 20;

/// Bytes of frames that may wait in the kernel, on their way out.
const SEND_BUFFER: i32 = 4 << 20;

/// A switch port on a Linux interface (AF_PACKET; Linux 3.14, better 4.20). While it is open the
/// interface is promiscuous and does not merge what it receives.
pub struct AfPacketPort {
    id: PortId,
    watch: LinkWatch,
    incoming: OwnedFd,
    /// Another socket to send through, which receives nothing and needs no virtio header.
    outgoing: OwnedFd,
    receiver: Receiver,
    /// Frames in `receiver`, and the next of them to deliver.
    received: usize,
    next: usize,
    /// If the next one is merged segments: how to take it apart, and the next segment.
    segments: Option<(Segments, usize)>,
    stats: PortStats,
    refusals: Refusals,
    /// Of all shares of the port.
    _offloads: Arc<OffloadsOff>,
}

/// What became of a received frame, or of the rest of its segments.
enum Delivery {
    /// It is in the batch, or it was dropped.
    Done,
    /// The batch is full.
    BatchFull,
}

impl AfPacketPort {
    /// Opens the interface `name` of the thread's network namespace as switch port `id`.
    ///
    /// # Errors
    /// [`PortError::NoSuchInterface`], [`PortError::NotEthernet`], [`PortError::NoPermission`] without
    /// CAP_NET_RAW. An interface that is down is no error: its frames come when it is up.
    pub fn open(id: PortId, name: &str) -> Result<AfPacketPort, PortError> {
        let opening = Opening::new(id, name)?;
        opening.share(None)
    }

    /// The same in so many shares, one at least. The kernel spreads the frames over them by the hash of
    /// their flow (PACKET_FANOUT_HASH; Linux 4.12).
    ///
    /// # Errors
    /// As [`AfPacketPort::open`]; [`PortError::System`] if the kernel has no such groups.
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
        // Before a socket was in the group it would have had copies of what others got.
        for share in &shares {
            sys::receive_all(&share.incoming).map_err(|e| opening.error(e))?;
        }
        Ok(shares)
    }

    /// Delivers what is in the receiver, as far as the batch has room.
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

    /// Asks the kernel for more frames; whether there may be still more behind them.
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
                // The frame has been taken from the queue, and is lost: the kernel has no virtio
                // header
                // for its kind of merged segments.
                Some(libc::EINVAL) => {
                    self.stats.rx_dropped.add(RxDrop::Unsegmentable, 1);
                    Ok(false)
                }
                // Told once; what was received before it is behind it.
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

    /// What to do about frames of which the kernel has refused the first: how many of `left` are
    /// lost,
    /// and why. Without an error the kernel has not said why.
    #[cold]
    fn refused(&mut self, error: Option<&io::Error>, first: usize, left: usize) -> (TxDrop, usize) {
        match error.and_then(io::Error::raw_os_error) {
            Some(libc::EAGAIN) => (TxDrop::QueueFull, left),
            Some(libc::EMSGSIZE) => (TxDrop::TooLong, 1),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.watch.refresh(self.incoming.as_fd());
                (TxDrop::LinkDown, left)
            }
            // The kernel has taken the frame, and its queue or the driver has dropped it.
            None | Some(libc::ENOBUFS) => {
                let socket = self.incoming.as_fd();
                (self.refusals.why(first, &mut self.watch, socket), 1)
            }
            _ => (TxDrop::Refused, 1),
        }
    }
}

/// Makes `frame` what was on the wire: the bytes, with the checksum completed if it was not.
fn fill(frame: &mut Frame, bytes: &[u8], header: &VnetHeader) -> Result<(), RxDrop> {
    frame.assign(bytes).map_err(|_| RxDrop::TooLong)?;
    match header.checksum {
        Some((start, offset)) if !complete_checksum(frame.bytes_mut(), start, offset) => {
            Err(RxDrop::ChecksumUnfinished)
        }
        _ => Ok(()),
    }
}

/// A port that is being opened.
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

    /// One share: the only one; or a member of a group, the first of it or one more, that receives nothing yet.
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
            // The driver's answer comes back, also when a carrier has just been lost: the kernel's
            // way
            // of dropping is then no error. Where this is not known, some of those count as sent.
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
    // With protocol 0 the socket receives nothing until it is bound to the one interface.
    let fd = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)?;
    sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
    sys::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    // Linux 4.20; before it, own transmissions are told by their address.
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
                        // The next one was tried, and the kernel keeps its error to itself. It is
                        // not
                        // tried again: the kernel may have taken it, and counted it as dropped.
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
