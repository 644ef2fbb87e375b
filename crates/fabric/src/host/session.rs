//! Sessions of a host: one end of a TCP connection, or a series of pings, with its application.

use packet::Nanos;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, IpAddress};

use super::FlowKey;

/// Size of the receive buffer of a receiver and of the send buffer of a sender, in bytes.
const WINDOW: usize = 65_535;

/// Payload of a full segment, in bytes.
const SEGMENT: usize = 1460;

/// Size of the buffer of the unused direction: connections transfer data in one direction only.
const NO_WINDOW: usize = 64;

/// Payload length of an echo request, in bytes.
const ECHO_BYTES: usize = 56;

/// Maximum number of queued echo requests and of queued replies.
const ECHOES: usize = 4;

/// Period of the flow's data pattern, in bytes. It is prime, so that consecutive segments differ.
const PATTERN: usize = 251;

/// The pattern, long enough to compare a full window at any offset.
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

/// Returns the flow's data at this offset, at most one window.
fn stream_at(offset: u64, len: usize) -> &'static [u8] {
    let from = (offset % PATTERN as u64) as usize;
    &STREAM[from..from + len.min(WINDOW)]
}

/// State of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// Number of bytes received.
    pub(crate) bytes: u64,
    /// Time of the last received byte.
    pub(crate) last: Nanos,
    /// True if all data is as sent.
    pub(crate) is_intact: bool,
}

/// Results of a series of pings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Echoes {
    pub(crate) sent: u16,
    /// Round-trip time of each reply, in order of arrival.
    pub(crate) times: Vec<Nanos>,
}

/// Application of a session.
enum Task {
    /// Sends `bytes` bytes, of which `given` were passed to the stack.
    Send { bytes: u64, given: u64 },
    /// Receives and checks data.
    Receive(Receipt),
    /// Sends echo requests.
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

/// A session with a separate socket set, so that the cost per packet does not grow with the host's
/// number of connections.
pub(super) struct Session {
    pub(super) sockets: SocketSet<'static>,
    handle: SocketHandle,
    task: Task,
    /// Connection of the session.
    pub(super) flow: Option<FlowKey>,
    /// Time at which the stack or the application must be polled next.
    pub(super) due: Option<Nanos>,
    /// Time of the session's active timer.
    pub(super) armed: Option<Nanos>,
    /// True if the session waits for room in the card's queue.
    pub(super) is_blocked: bool,
}

fn tcp_socket(receive: usize, send: usize) -> tcp::Socket<'static> {
    let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut socket = tcp::Socket::new(buffer(receive), buffer(send));
    socket.set_congestion_control(tcp::CongestionControl::Reno);
    // The stack gets whole segments, so only the last one is small, and must not be delayed.
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

    /// Creates a session that sends `bytes` bytes once it is connected.
    pub(super) fn sender(bytes: u64) -> Session {
        let window = usize::try_from(bytes).unwrap_or(WINDOW).min(WINDOW);
        let task = Task::Send { bytes, given: 0 };
        Session::new(tcp_socket(NO_WINDOW, window), task)
    }

    /// Creates a session that accepts one connection.
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

    /// Creates a session that sends a series of pings.
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

    /// Returns the TCP socket, if the session has one.
    pub(super) fn tcp(&mut self) -> Option<&mut tcp::Socket<'static>> {
        match self.task {
            Task::Ping(_) => None,
            _ => Some(self.sockets.get_mut(self.handle)),
        }
    }

    /// Returns the reception state of a receiver.
    pub(super) fn receipt(&self) -> Option<Receipt> {
        match &self.task {
            Task::Receive(receipt) => Some(*receipt),
            _ => None,
        }
    }

    /// Returns the results of a series of pings.
    pub(super) fn echoes(&self) -> Option<&Echoes> {
        match &self.task {
            Task::Ping(pinging) => Some(&pinging.echoes),
            _ => None,
        }
    }

    /// Returns the time of the application's next action.
    pub(super) fn next_time(&self) -> Option<Nanos> {
        match &self.task {
            Task::Ping(pinging) if pinging.left > 0 => Some(pinging.next),
            _ => None,
        }
    }

    /// Runs the application. Returns true if the stack must be polled again.
    pub(super) fn work(&mut self, now: Nanos) -> bool {
        match &mut self.task {
            Task::Send { bytes, given } => send(self.sockets.get_mut(self.handle), *bytes, given),
            Task::Receive(receipt) => receive(self.sockets.get_mut(self.handle), receipt, now),
            Task::Ping(pinging) => pinging.work(self.sockets.get_mut(self.handle), now),
        }
    }

    /// Returns true if the session is closed.
    pub(super) fn is_over(&mut self) -> bool {
        self.tcp()
            .is_some_and(|socket| socket.state() == tcp::State::Closed)
    }
}

/// Passes whole segments to the stack while its buffer has room, then closes the connection.
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

/// Receives all available data, and closes the connection when the sender has closed it.
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
        // The payload holds the time of transmission.
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

/// Returns the transmission time of the request from its reply.
fn echo_sent(payload: &[u8]) -> Option<Nanos> {
    let packet = Icmpv4Packet::new_checked(payload).ok()?;
    let checked = smoltcp::phy::ChecksumCapabilities::default();
    let Icmpv4Repr::EchoReply { data, .. } = Icmpv4Repr::parse(&packet, &checked).ok()? else {
        return None;
    };
    let sent = data.first_chunk()?;
    Some(Nanos(u64::from_be_bytes(*sent)))
}

/// Converts a time to the stack's clock, which counts microseconds.
pub(super) fn instant(now: Nanos) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

/// Returns the first time at which the stack's clock has this value.
pub(super) fn nanos(at: Instant) -> Nanos {
    Nanos::from_micros(u64::try_from(at.total_micros()).unwrap_or(0))
}
