//! Traffic between the demo's hosts: echo requests, then a bulk TCP transfer. Both ends compute a
//! checksum of the data.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use port::{EchoSocket, NetnsError};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::hosts::Host;

/// Number of echo requests, sent one after the other.
pub(super) const ECHO_REQUESTS: u16 = 50;

/// Payload of an echo request in bytes, as `ping` sends it.
const ECHO_PAYLOAD: usize = 56;

/// Time between an echo reply and the next request.
const ECHO_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum wait for an echo reply.
const ECHO_TIMEOUT: Duration = Duration::from_secs(1);

/// The TCP port that the second host listens on.
const TCP_PORT: u16 = 5001;

/// Number of bytes per write.
const CHUNK: usize = 64 << 10;

/// Maximum time without progress of a transfer.
const STALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Interval at which a waiting end checks for an interruption of the demo.
const LOOK_UP: Duration = Duration::from_millis(200);

/// Amount of data of the transfer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Volume {
    /// A number of bytes.
    Bytes(u64),
    /// As many bytes as the time allows.
    Time(Duration),
}

/// Progress of the traffic. The main thread shows it while the traffic runs.
#[derive(Default)]
pub(super) struct Progress {
    /// Echo requests that were answered or given up.
    pub(super) echoes: AtomicU64,
    /// Received bytes.
    pub(super) bytes: AtomicU64,
    /// Set to end the traffic early.
    pub(super) cancelled: AtomicBool,
}

impl Progress {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Results of the echo requests.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// Requests sent.
    pub(super) sent: u32,
    /// Round-trip times of the received replies.
    pub(super) times: Vec<Duration>,
}

impl Echoes {
    /// Returns the number of requests without a reply.
    pub(super) fn lost(&self) -> u32 {
        self.sent - self.times.len() as u32
    }

    /// Returns the minimum, mean and maximum round-trip time. `None` without a reply.
    pub(super) fn round_trip(&self) -> Option<[Duration; 3]> {
        let (min, max) = (self.times.iter().min()?, self.times.iter().max()?);
        let mean = self.times.iter().sum::<Duration>() / self.times.len() as u32;
        Some([*min, mean, *max])
    }
}

/// Byte count and SHA-256 of the data at one end of the transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Seen {
    /// Bytes.
    pub(super) bytes: u64,
    /// The digest, in hexadecimal.
    pub(super) sha256: String,
}

impl Seen {
    pub(super) fn new(bytes: u64, hash: Sha256) -> Seen {
        let digest = hash.finalize();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Seen { bytes, sha256 }
    }
}

/// A finished transfer.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) sent: Seen,
    pub(super) received: Seen,
    /// Time from the connection to the last byte.
    pub(super) took: Duration,
}

impl Transfer {
    /// Returns true if the received data equals the sent data.
    pub(super) fn is_intact(&self) -> bool {
        self.sent == self.received && self.sent.bytes > 0
    }

    /// Returns the goodput in bits per second.
    pub(super) fn goodput(&self) -> f64 {
        self.received.bytes as f64 * 8.0 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Results of all traffic.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) echoes: Echoes,
    pub(super) transfer: Transfer,
}

/// Sends echo requests and then the data from the first host to the second.
///
/// # Errors
/// A message about what failed, for example that nothing arrived for a long time.
pub(super) fn carry(
    [from, to]: &[Host; 2],
    volume: Volume,
    progress: &Progress,
) -> Result<Carried, String> {
    let echoes = echo(from, to.address, progress)?;
    let transfer = transfer(from, to, volume, progress)?;
    Ok(Carried { echoes, transfer })
}

fn echo(from: &Host, to: Ipv4Addr, progress: &Progress) -> Result<Echoes, String> {
    let opened = inside(
        from.netns
            .run(|| EchoSocket::open(to, std::process::id() as u16)),
    )?;
    let socket = opened.map_err(|e| format!("cannot open a socket for ping: {e}"))?;
    let payload: Vec<u8> = (0..ECHO_PAYLOAD).map(|i| i as u8).collect();
    let mut echoes = Echoes::default();
    for sequence in 1..=ECHO_REQUESTS {
        if progress.is_cancelled() {
            break;
        }
        let start = Instant::now();
        echoes.sent += 1;
        let replied = socket
            .request(sequence, &payload)
            .and_then(|()| socket.wait_reply(sequence, &payload, ECHO_TIMEOUT));
        // An error means that the network cannot deliver: it counts as a loss.
        if replied.unwrap_or(false) {
            echoes.times.push(start.elapsed());
        }
        progress.echoes.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(ECHO_INTERVAL);
    }
    Ok(echoes)
}

fn transfer(
    from: &Host,
    to: &Host,
    volume: Volume,
    progress: &Progress,
) -> Result<Transfer, String> {
    let address = SocketAddr::from((to.address, TCP_PORT));
    let listener = inside(to.netns.run(|| TcpListener::bind(address)))?
        .map_err(|e| format!("cannot listen at {address}: {e}"))?;
    let connected = inside(
        from.netns
            .run(|| TcpStream::connect_timeout(&address, Duration::from_secs(5))),
    )?;
    let outgoing = connected.map_err(|e| format!("cannot connect to {address}: {e}"))?;
    // The first host has its SYN-ACK; the last message of the handshake is on its way to the
    // second.
    let (incoming, _) = listener
        .accept()
        .map_err(|e| format!("cannot accept a connection at {address}: {e}"))?;
    let start = Instant::now();
    let ends = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(outgoing, volume, progress));
        let received = receive(incoming, progress);
        let took = start.elapsed();
        let sent = sender
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sent, received, took)
    });
    let (sent, received, took) = ends;
    let received = received.map_err(|e| broken("receiving", progress, &e))?;
    let sent = sent.map_err(|e| broken("sending", progress, &e))?;
    Ok(Transfer {
        sent,
        received,
        took,
    })
}

fn inside<T>(ran: Result<T, NetnsError>) -> Result<T, String> {
    ran.map_err(|e| e.to_string())
}

fn broken(doing: &str, progress: &Progress, error: &io::Error) -> String {
    let arrived = progress.bytes.load(Ordering::Relaxed);
    format!("the transfer broke off while {doing}, after {arrived} bytes had arrived: {error}")
}

fn send(mut stream: TcpStream, volume: Volume, progress: &Progress) -> io::Result<Seen> {
    stream.set_write_timeout(Some(LOOK_UP))?;
    let start = Instant::now();
    let mut noise = Noise::new();
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        let left = match volume {
            Volume::Bytes(all) => all - bytes,
            Volume::Time(all) if start.elapsed() < all => CHUNK as u64,
            Volume::Time(_) => 0,
        };
        let len = left.min(CHUNK as u64) as usize;
        if len == 0 {
            break;
        }
        noise.fill(&mut chunk[..len]);
        hash.update(&chunk[..len]);
        write_all(&mut stream, &chunk[..len], progress)?;
        bytes += len as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(Seen::new(bytes, hash))
}

fn receive(mut stream: TcpStream, progress: &Progress) -> io::Result<Seen> {
    stream.set_read_timeout(Some(LOOK_UP))?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    let mut patience = Patience::new();
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(Seen::new(bytes, hash)),
            Ok(len) => {
                hash.update(&chunk[..len]);
                bytes += len as u64;
                progress.bytes.store(bytes, Ordering::Relaxed);
                patience = Patience::new();
            }
            Err(e) => patience.bear(e, progress)?,
        }
    }
}

fn write_all(stream: &mut TcpStream, mut rest: &[u8], progress: &Progress) -> io::Result<()> {
    let mut patience = Patience::new();
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(len) => {
                rest = &rest[len..];
                patience = Patience::new();
            }
            Err(e) => patience.bear(e, progress)?,
        }
    }
    Ok(())
}

/// Time that an end of the transfer has been waiting for the other.
struct Patience {
    since: Instant,
}

impl Patience {
    fn new() -> Patience {
        Patience {
            since: Instant::now(),
        }
    }

    /// Accepts the error of a call that timed out. Returns any other error, and an error after
    /// [`STALL_TIMEOUT`].
    fn bear(&self, error: io::Error, progress: &Progress) -> io::Result<()> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        if progress.is_cancelled() {
            return Err(io::Error::new(Interrupted, "interrupted"));
        }
        if !matches!(error.kind(), WouldBlock | TimedOut | Interrupted) {
            return Err(error);
        }
        if self.since.elapsed() > STALL_TIMEOUT {
            let text = format!("nothing moved for {} seconds", STALL_TIMEOUT.as_secs());
            return Err(io::Error::new(TimedOut, text));
        }
        Ok(())
    }
}

/// Pseudo-random data (SplitMix64), equal in every run. It has no pattern that an error could
/// repeat.
struct Noise {
    state: u64,
}

impl Noise {
    fn new() -> Noise {
        Noise { state: 0 }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}
