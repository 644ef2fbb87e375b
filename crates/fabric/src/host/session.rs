//! One end of a TCP connection, or a series of pings, with what its application does.

use packet::Nanos;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, IpAddress};

use super::FlowKey;

/// What a receiver has room for, and a sender keeps until it is acknowledged.
const WINDOW: usize = 65_535;

/// The bytes of a full segment.
const SEGMENT: usize = 1460;

/// Room for what nobody sends: each connection carries bytes one way.
const NO_WINDOW: usize = 64;

/// The payload of an echo request.
const ECHO_BYTES: usize = 56;

/// Echo requests and answers that wait for each other's end.
const ECHOES: usize = 4;

/// The bytes of flows repeat after so many, a prime, so that no segment looks like the one before it.
const PATTERN: usize = 251;

/// The pattern, long enough for any window to be compared from any place.
static STREAM: [u8; PATTERN + WINDOW] = stream();

const fn stream() -> [u8; PATTERN + WINDOW] {
    let mut bytes = [0; PATTERN + WINDOW];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % PATTERN) as u8;
        at += 1;
    }
    bytes
}

/// What is at this place of a flow, up to a window.
fn stream_at(offset: u64, len: usize) -> &'static [u8] {
    let from = (offset % PATTERN as u64) as usize;
    &STREAM[from..from + len.min(WINDOW)]
}

/// What a receiver has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Bytes.
    pub(crate) bytes: u64,
    /// When the last of them came.
    pub(crate) last: Nanos,
    /// Whether they are those that were sent.
    pub(crate) is_intact: bool,
}

/// What a series of pings has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Echoes {
    pub(crate) sent: u16,
    /// How long each answer took, in the order of their coming.
    pub(crate) times: Vec<Nanos>,
}

/// What an end does.
enum Task {
    /// Sends so many bytes, of which some are with the stack.
    Send { bytes: u64, given: u64 },
    /// Takes what comes.
    Receive(Receipt),
    /// Asks for echoes.
    Ping(Pinging),
}

struct Pinging {
    to: IpAddress,
    ident: u16,
    left: u16,
    interval: Nanos,
    next: Nanos,
    echoes: Echoes,
}

/// An end with a socket set of its own, so that a host's work for a packet does not grow with its connections.
pub(super) struct Session {
    pub(super) sockets: SocketSet<'static>,
    handle: SocketHandle,
    task: Task,
    /// The connection that it is an end of.
    pub(super) flow: Option<FlowKey>,
    /// When the stack wants to be asked again.
    pub(super) due: Option<Nanos>,
    /// When the host's clock will look at it.
    pub(super) armed: Option<Nanos>,
    /// Whether it waits for room in the card's queue.
    pub(super) is_blocked: bool,
}

fn tcp_socket(receive: usize, send: usize) -> tcp::Socket<'static> {
    let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut socket = tcp::Socket::new(buffer(receive), buffer(send));
    socket.set_congestion_control(tcp::CongestionControl::Reno);
    // Whole segments are given to the stack, so only a flow's last one is small: it has nothing to wait for.
    socket.set_nagle_enabled(false);
    socket
}

impl Session {
    fn new<S: smoltcp::socket::AnySocket<'static>>(socket: S, task: Task) -> Session {
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Session {
            sockets,
            handle,
            task,
            flow: None,
            due: None,
            armed: None,
            is_blocked: false,
        }
    }

    /// An end that will send so many bytes once it is connected.
    pub(super) fn sender(bytes: u64) -> Session {
        let window = usize::try_from(bytes).unwrap_or(WINDOW).min(WINDOW);
        let task = Task::Send { bytes, given: 0 };
        Session::new(tcp_socket(NO_WINDOW, window), task)
    }

    /// An end that takes the connection that the next packet asks for.
    pub(super) fn receiver(port: u16) -> Session {
        let mut socket = tcp_socket(WINDOW, NO_WINDOW);
        let listens = socket.listen(port);
        debug_assert!(listens.is_ok(), "a new socket listens: {listens:?}");
        let receipt = Receipt {
            bytes: 0,
            last: Nanos::ZERO,
            is_intact: true,
        };
        Session::new(socket, Task::Receive(receipt))
    }

    /// A series of pings.
    pub(super) fn pinger(
        to: IpAddress,
        ident: u16,
        count: u16,
        interval: Nanos,
        now: Nanos,
    ) -> Session {
        let buffer = || {
            let metadata = vec![icmp::PacketMetadata::EMPTY; ECHOES];
            icmp::PacketBuffer::new(metadata, vec![0; ECHOES * 2 * ECHO_BYTES])
        };
        let mut socket = icmp::Socket::new(buffer(), buffer());
        let bound = socket.bind(icmp::Endpoint::Ident(ident));
        debug_assert!(bound.is_ok(), "a new socket can be bound: {bound:?}");
        let pinging = Pinging {
            to,
            ident,
            left: count,
            interval,
            next: now,
            echoes: Echoes::default(),
        };
        Session::new(socket, Task::Ping(pinging))
    }

    /// The TCP socket, of a session that has one.
    pub(super) fn tcp(&mut self) -> Option<&mut tcp::Socket<'static>> {
        match self.task {
            Task::Ping(_) => None,
            _ => Some(self.sockets.get_mut(self.handle)),
        }
    }

    /// What was received, by a receiver.
    pub(super) fn receipt(&self) -> Option<Receipt> {
        match &self.task {
            Task::Receive(receipt) => Some(*receipt),
            _ => None,
        }
    }

    /// What was seen, by a pinger.
    pub(super) fn echoes(&self) -> Option<&Echoes> {
        match &self.task {
            Task::Ping(pinging) => Some(&pinging.echoes),
            _ => None,
        }
    }

    /// When the application wants to do something by itself.
    pub(super) fn next_time(&self) -> Option<Nanos> {
        match &self.task {
            Task::Ping(pinging) if pinging.left > 0 => Some(pinging.next),
            _ => None,
        }
    }

    /// Lets the application do what it can; whether the stack has to look again.
    pub(super) fn work(&mut self, now: Nanos) -> bool {
        match &mut self.task {
            Task::Send { bytes, given } => send(self.sockets.get_mut(self.handle), *bytes, given),
            Task::Receive(receipt) => receive(self.sockets.get_mut(self.handle), receipt, now),
            Task::Ping(pinging) => pinging.work(self.sockets.get_mut(self.handle), now),
        }
    }

    /// Whether nothing more happens here.
    pub(super) fn is_over(&mut self) -> bool {
        self.tcp()
            .is_some_and(|socket| socket.state() == tcp::State::Closed)
    }
}

/// Gives the stack whole segments while there is room, then the end.
fn send(socket: &mut tcp::Socket<'_>, bytes: u64, given: &mut u64) -> bool {
    let left = usize::try_from(bytes - *given).unwrap_or(usize::MAX);
    let room = socket.send_capacity() - socket.send_queue();
    if left == 0 || room < left.min(SEGMENT) || !socket.may_send() {
        return false;
    }
    let chunk = match left <= room {
        true => left,
        false => room - room % SEGMENT,
    };
    let taken = socket.send_slice(stream_at(*given, chunk));
    *given += taken.unwrap_or(0) as u64;
    if *given == bytes {
        socket.close();
    }
    true
}

/// Takes all that has come, and closes when the sender has.
fn receive(socket: &mut tcp::Socket<'_>, receipt: &mut Receipt, now: Nanos) -> bool {
    let mut has_taken = false;
    while socket.can_recv() {
        let taken = socket.recv(|bytes| {
            let is_intact = *bytes == *stream_at(receipt.bytes, bytes.len());
            (bytes.len(), (bytes.len(), is_intact))
        });
        let Ok((bytes, is_intact)) = taken else {
            break;
        };
        receipt.bytes += bytes as u64;
        receipt.is_intact &= is_intact;
        receipt.last = now;
        has_taken = true;
    }
    if socket.state() == tcp::State::CloseWait {
        socket.close();
        return true;
    }
    has_taken
}

impl Pinging {
    fn work(&mut self, socket: &mut icmp::Socket<'_>, now: Nanos) -> bool {
        while let Ok((payload, _)) = socket.recv() {
            if let Some(sent) = echo_sent(payload) {
                self.echoes.times.push(now.since(sent));
            }
        }
        if self.left == 0 || self.next > now || !socket.can_send() {
            return false;
        }
        // The payload says when the request left.
        let mut data = [0; ECHO_BYTES];
        data[..8].copy_from_slice(&now.0.to_be_bytes());
        let request = Icmpv4Repr::EchoRequest {
            ident: self.ident,
            seq_no: self.echoes.sent,
            data: &data,
        };
        let Ok(payload) = socket.send(request.buffer_len(), self.to) else {
            return false;
        };
        request.emit(
            &mut Icmpv4Packet::new_unchecked(payload),
            &smoltcp::phy::ChecksumCapabilities::default(),
        );
        self.echoes.sent += 1;
        self.left -= 1;
        self.next = now + self.interval;
        true
    }
}

/// When the request left that this is the answer to.
fn echo_sent(payload: &[u8]) -> Option<Nanos> {
    let packet = Icmpv4Packet::new_checked(payload).ok()?;
    let checked = smoltcp::phy::ChecksumCapabilities::default();
    let Icmpv4Repr::EchoReply { data, .. } = Icmpv4Repr::parse(&packet, &checked).ok()? else {
        return None;
    };
    let sent = data.first_chunk()?;
    Some(Nanos(u64::from_be_bytes(*sent)))
}

/// The stack's clock counts microseconds.
pub(super) fn instant(now: Nanos) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// The first moment at which the stack's clock shows this.
pub(super) fn nanos(at: Instant) -> Nanos {
    Nanos::from_micros(u64::try_from(at.total_micros()).unwrap_or(0))
}
