//! TCP connections through the NAT: each carries random data, and its hash back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use support::rng::Rng;

use super::network::Network;

/// The TCP port of the outside host.
const TCP_PORT: u16 = 9000;

/// Number of threads with connections.
const THREADS: u32 = 4;

/// Number of bytes per write.
const CHUNK: usize = 64 << 10;

/// Maximum time without progress of a connection.
const STALL: Duration = Duration::from_secs(20);

/// Number of connections and bytes of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    pub(super) connections: u32,
    pub(super) bytes: u64,
}

/// Progress of the traffic.
#[derive(Default)]
pub(super) struct Progress {
    /// Connections that have begun.
    begun: AtomicU32,
    /// Connections that have ended.
    pub(super) connections: AtomicU32,
    /// Bytes that arrived.
    pub(super) bytes: AtomicU64,
    /// Set to end the traffic early.
    pub(super) is_cancelled: AtomicBool,
}

/// Result of the traffic.
pub(super) struct Carried {
    pub(super) intact: u32,
    pub(super) failed: Vec<String>,
    pub(super) bytes: u64,
    pub(super) took: Duration,
}

/// Running traffic.
pub(super) struct Connections {
    threads: Vec<JoinHandle<u32>>,
    failed: Arc<Mutex<Vec<String>>>,
    progress: Arc<Progress>,
    start: Instant,
}

impl Connections {
    /// Starts the traffic from the inside host to the outside one.
    ///
    /// # Errors
    /// The hosts have no sockets.
    pub(super) fn start(
        network: &Network,
        volume: Volume,
        progress: &Arc<Progress>,
    ) -> Result<Connections, String> {
        let address = SocketAddr::from((network.outside.address, TCP_PORT));
        let listener = network.outside.netns.run(|| TcpListener::bind(address));
        let listener = listener.map_err(|error| error.to_string())?;
        let listener = listener.map_err(|error| format!("cannot listen at {address}: {error}"))?;
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || answer(stream));
            }
        });
        let failed: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let (progress, failed) = (Arc::clone(progress), Arc::clone(&failed));
            let thread = network.inside.netns.run(|| {
                // Threads are in the namespace of the thread that starts them.
                std::thread::spawn(move || connect_all(address, volume, &progress, &failed))
            });
            threads.push(thread.map_err(|error| error.to_string())?);
        }
        Ok(Connections {
            threads,
            failed,
            progress: Arc::clone(progress),
            start: Instant::now(),
        })
    }

    /// Waits for the end of the traffic.
    ///
    /// # Errors
    /// A thread has panicked.
    pub(super) fn finish(self) -> Result<Carried, String> {
        let mut intact = 0;
        for thread in self.threads {
            let ended = thread.join();
            intact += ended.map_err(|_| "the traffic ended in a panic".to_owned())?;
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Carried {
            intact,
            failed: std::mem::take(&mut *failed),
            bytes: self.progress.bytes.load(Relaxed),
            took: self.start.elapsed(),
        })
    }
}

/// Makes connections until all have begun. Returns the number of intact ones.
fn connect_all(
    address: SocketAddr,
    volume: Volume,
    progress: &Progress,
    failed: &Mutex<Vec<String>>,
) -> u32 {
    let mut intact = 0;
    loop {
        let number = progress.begun.fetch_add(1, Relaxed);
        if number >= volume.connections || progress.is_cancelled.load(Relaxed) {
            return intact;
        }
        match connect(address, number, volume.bytes, progress) {
            Ok(()) => intact += 1,
            Err(error) => {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(format!("connection {}: {error}", number + 1));
            }
        }
        progress.connections.fetch_add(1, Relaxed);
    }
}

/// Sends data and compares its hash with the one that comes back.
fn connect(
    address: SocketAddr,
    number: u32,
    bytes: u64,
    progress: &Progress,
) -> Result<(), std::io::Error> {
    let mut stream = TcpStream::connect_timeout(&address, STALL)?;
    stream.set_write_timeout(Some(STALL))?;
    stream.set_read_timeout(Some(STALL))?;
    // Without a pattern that an error could repeat.
    let mut noise = Rng::new(u64::from(number));
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(CHUNK as u64) as usize;
        noise.fill(&mut chunk[..len]);
        hash.update(&chunk[..len]);
        stream.write_all(&chunk[..len])?;
        progress.bytes.fetch_add(len as u64, Relaxed);
        left -= len as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    match answer[..] == hash.finalize()[..] {
        true => Ok(()),
        false => Err(std::io::Error::other("the data is not what was sent")),
    }
}

/// Receives data until its end, and sends its hash back.
fn answer(mut stream: TcpStream) {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    // The other end reports errors.
    let _ = stream.set_read_timeout(Some(STALL));
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => hash.update(&chunk[..len]),
            Err(_) => return,
        }
    }
    let _ = stream.write_all(&hash.finalize());
}
