//! What the demo's hosts say to each other: echo requests, then a bulk TCP transfer of data that both ends take the checksum of.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use port::{EchoSocket, NetnsError};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::hosts::Host;

/// How many echo requests are sent, one after the other.
pub(super) const ECHO_REQUESTS: u16 = 50;

/// Bytes of payload of an echo request: what `ping` sends.
const ECHO_PAYLOAD: usize = 56;

/// The pause between an echo reply and the next request.
const ECHO_INTERVAL: Duration = Duration::from_millis(10);

/// How long an echo reply is waited for.
const ECHO_TIMEOUT: Duration = Duration::from_secs(1);

/// The TCP port that the second host listens on.
const TCP_PORT: u16 = 5001;

/// Bytes written at once.
const CHUNK: usize = 64 << 10;

/// How long a transfer may stand still before it is given up.
const STALL_TIMEOUT: Duration = Duration::from_secs(15);

/// How often a waiting end looks whether the demo was interrupted.
const LOOK_UP: Duration = Duration::from_millis(200);

/// How much data the transfer carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Volume {
    /// So many bytes.
    Bytes(u64),
    /// As many as there is time for.
    Time(Duration),
}

/// How far the traffic is, read by who shows it while it runs.
#[derive(Default)]
pub(super) struct Progress {
    /// Echo requests whose reply came or is given up.
    pub(super) echoes: AtomicU64,
    /// Bytes that arrived.
    pub(super) bytes: AtomicU64,
    /// Set to end the traffic early.
    pub(super) cancelled: AtomicBool,
}

impl Progress {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// What became of the echo requests.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// Requests sent.
    pub(super) sent: u32,
    /// The round-trip times of the replies that came.
    pub(super) times: Vec<Duration>,
}

impl Echoes {
    /// Requests without a reply.
    pub(super) fn lost(&self) -> u32 {
        self.sent - self.times.len() as u32
    }

    /// The shortest, the mean and the longest round-trip time; none without a reply.
    pub(super) fn round_trip(&self) -> Option<[Duration; 3]> {
        let (min, max) = (self.times.iter().min()?, self.times.iter().max()?);
        let mean = self.times.iter().sum::<Duration>() / self.times.len() as u32;
        Some([*min, mean, *max])
    }
}

/// What one end of the transfer saw: how many bytes, and their SHA-256.
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
    /// From the connection to the last byte.
    pub(super) took: Duration,
}

impl Transfer {
    /// Whether what arrived is what was sent.
    pub(super) fn is_intact(&self) -> bool {
        self.sent == self.received && self.sent.bytes > 0
    }

    /// Bits of data a second.
    pub(super) fn goodput(&self) -> f64 {
        self.received.bytes as f64 * 8.0 / self.took.as_secs_f64().max(1e-9)
    }
}

/// All that was carried.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) echoes: Echoes,
    pub(super) transfer: Transfer,
}

/// Carries echo requests and then the data from the first host to the second.
///
/// # Errors
/// A text that says what did not work, for instance that nothing arrived for a long time.
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
        // An error is the network saying that it cannot: a loss like another.
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
    // The first host has its answer; the second gets the last message of the handshake at any moment.
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

/// How long an end of the transfer has been waiting for the other.
struct Patience {
    since: Instant,
}

impl Patience {
    fn new() -> Patience {
        Patience {
            since: Instant::now(),
        }
    }

    /// Takes the error of a call that timed out; hands back any other, and the end of patience.
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

/// Data without a pattern that a mistake could repeat, the same in every run: SplitMix64.
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
