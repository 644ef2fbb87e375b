//! Ways of messages between two threads: a ring in shared memory, or UDP over the loopback. Both
//! ends poll.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use packet::Nanos;
use port::RingLink;

/// Messages that one call takes at most.
const BATCH: usize = 256;
/// Bytes of a datagram at most.
const MAX_DATAGRAM: usize = 65_536;
/// Time within which an answer must come: a failure, and no measurement.
const SOON: Duration = Duration::from_secs(30);

/// Way of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ring,
    Udp,
}

impl Way {
    pub(super) const BOTH: [Way; 2] = [Way::Ring, Way::Udp];

    /// Returns its name in a row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Ring => "a ring",
            Way::Udp => "UDP",
        }
    }
}

/// One end of a way.
pub(super) enum Link {
    Ring(Box<RingLink>),
    Udp(UdpSocket, Box<[u8]>),
}

impl Link {
    /// Returns both ends of a way.
    ///
    /// # Errors
    /// There are too many descriptors, or no loopback.
    pub(super) fn pair(way: Way) -> Result<(Link, Link), String> {
        match way {
            Way::Ring => {
                let (one, other) =
                    RingLink::pair().map_err(|error| format!("rings in memory: {error}"))?;
                Ok((Link::Ring(Box::new(one)), Link::Ring(Box::new(other))))
            }
            Way::Udp => {
                let (one, other) = sockets()?;
                let buffer = || vec![0; MAX_DATAGRAM].into_boxed_slice();
                Ok((Link::Udp(one, buffer()), Link::Udp(other, buffer())))
            }
        }
    }

    /// Sends a message. The other end of a ring sees it after [`Link::flush`]. One that is not
    /// taken is lost, as on a wire.
    pub(super) fn send(&mut self, message: &[u8]) {
        match self {
            Link::Ring(ring) => drop(ring.send(message)),
            Link::Udp(socket, _) => drop(socket.send(message)),
        }
    }

    /// Shows the other end all messages.
    pub(super) fn flush(&mut self) {
        if let Link::Ring(ring) = self {
            ring.flush();
        }
    }

    /// Passes the messages that wait to `take`. Returns their number.
    pub(super) fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        match self {
            Link::Ring(ring) => ring.receive(Nanos::ZERO, BATCH, take),
            Link::Udp(socket, buffer) => {
                for count in 0..BATCH {
                    match socket.recv(buffer) {
                        Ok(length) => take(&buffer[..length]),
                        Err(_) => return count,
                    }
                }
                BATCH
            }
        }
    }
}

/// Returns two sockets of the loopback that are connected with each other and do not block.
pub(super) fn sockets() -> Result<(UdpSocket, UdpSocket), String> {
    let words = |error: std::io::Error| format!("UDP over the loopback: {error}");
    let socket = || {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(words)?;
        socket.set_nonblocking(true).map_err(words)?;
        Ok::<UdpSocket, String>(socket)
    };
    let (one, other) = (socket()?, socket()?);
    one.connect(other.local_addr().map_err(words)?)
        .map_err(words)?;
    other
        .connect(one.local_addr().map_err(words)?)
        .map_err(words)?;
    Ok((one, other))
}

/// Gives the core away once in a while: two threads on one core must take turns.
#[derive(Debug, Default)]
pub(super) struct Turns(u32);

impl Turns {
    /// Takes the notice that there was no work.
    pub(super) fn idle(&mut self) {
        self.0 = self.0.wrapping_add(1);
        match self.0 % 1024 {
            0 => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Polls until there is a value.
///
/// # Errors
/// There is none for long.
pub(super) fn poll<T>(mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
    let mut turns = Turns::default();
    let mut begin = None;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        turns.idle();
        if turns.0.is_multiple_of(1 << 16)
            && begin.get_or_insert_with(Instant::now).elapsed() > SOON
        {
            return Err(
                "a message has no answer: a defect, or a machine that stood still".to_owned(),
            );
        }
    }
}
