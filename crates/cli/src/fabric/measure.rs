//! Throughput of TCP between two hosts.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time that a connection may take.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// Time after which a reader or writer without progress looks at the clock.
const TURN: Duration = Duration::from_millis(100);

/// Bytes of one write.
const CHUNK: usize = 64 << 10;

/// Measured throughput.
pub(super) struct Measured {
    /// Bits a second that arrived.
    pub(super) bits_per_second: f64,
    /// Time of the measurement.
    pub(super) time: Duration,
}

/// Sends for a time by a stream to the listener, or until `stop` returns true.
///
/// # Errors
/// The connection is broken.
pub(super) fn throughput(
    listener: &TcpListener,
    stream: TcpStream,
    time: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Measured, String> {
    let failed = |error: std::io::Error| format!("the connection is broken: {error}");
    let (receiver, _) = listener.accept().map_err(failed)?;
    let start = Instant::now();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(stream, || has_ended.load(Relaxed)));
        let received = receive(receiver, &mut || start.elapsed() >= time || stop());
        has_ended.store(true, Relaxed);
        let time = start.elapsed();
        let sent = sending.join();
        let received = received.map_err(failed)?;
        match sent {
            Ok(sent) => sent.map_err(failed)?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(Measured {
            bits_per_second: received as f64 * 8.0 / time.as_secs_f64(),
            time,
        })
    })
}

fn send(mut stream: TcpStream, has_ended: impl Fn() -> bool) -> std::io::Result<()> {
    stream.set_write_timeout(Some(TURN))?;
    let chunk = vec![0; CHUNK];
    while !has_ended() {
        match stream.write(&chunk) {
            Ok(_) => {}
            Err(error) if is_timeout(error.kind()) => {}
            // The receiver has closed first, at the same time.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(mut stream: TcpStream, has_ended: &mut dyn FnMut() -> bool) -> std::io::Result<u64> {
    stream.set_read_timeout(Some(TURN))?;
    let mut chunk = vec![0; CHUNK];
    let mut received = 0;
    while !has_ended() {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(received),
            Ok(count) => received += count as u64,
            Err(error) if is_timeout(error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
