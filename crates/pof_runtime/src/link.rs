//! Bytes over TCP, plain or by TLS, without blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::Connection;

/// Bytes that one call reads.
const CHUNK: usize = 16 << 10;

/// A connected socket.
pub(crate) struct Link {
    socket: TcpStream,
    tls: Option<Connection>,
    is_at_end: bool,
}

/// Result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes were appended; more may wait.
    Bytes,
    /// Nothing waits.
    Nothing,
    /// The other side has closed its direction.
    End,
}

impl Link {
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn new(socket: TcpStream, tls: Option<Connection>) -> io::Result<Link> {
        socket.set_nonblocking(true)?;
        // Answers are small, and a controller waits for them.
        socket.set_nodelay(true)?;
        Ok(Link {
            socket,
            tls,
            is_at_end: false,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns true if the other side has closed its direction, and all its bytes were received.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Appends received bytes.
    ///
    /// # Errors
    /// The connection is broken, or what came is not TLS.
    pub(crate) fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<Received> {
        let received = self.receive_some(into)?;
        self.is_at_end |= received == Received::End;
        Ok(received)
    }

    fn receive_some(&mut self, into: &mut Vec<u8>) -> io::Result<Received> {
        let mut chunk = [0; CHUNK];
        let read = match &mut self.tls {
            None => self.socket.read(&mut chunk),
            Some(tls) => match tls.reader().read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Link::receive_tls(tls, &mut self.socket);
                }
                // The other side is gone without a word.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
        };
        match read {
            Ok(0) => Ok(Received::End),
            Ok(count) => {
                into.extend_from_slice(&chunk[..count]);
                Ok(Received::Bytes)
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Received::Nothing),
                _ => Err(error),
            },
        }
    }

    /// Receives records of TLS. What they hold is read next.
    fn receive_tls(tls: &mut Connection, socket: &mut TcpStream) -> io::Result<Received> {
        match tls.read_tls(socket) {
            Ok(0) => Ok(Received::End),
            Ok(_) => match tls.process_new_packets() {
                Ok(_) => Ok(Received::Bytes),
                Err(error) => {
                    // The other side learns the reason.
                    let _ = tls.write_tls(socket);
                    Err(io::Error::new(ErrorKind::InvalidData, error))
                }
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Sends bytes, as many as the socket takes, and returns their number.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_full = |error: &io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        };
        let Some(tls) = &mut self.tls else {
            return match bytes.is_empty() {
                true => Ok(0),
                false => match self.socket.write(bytes) {
                    Err(error) if is_full(&error) => Ok(0),
                    other => other,
                },
            };
        };
        // TLS takes bytes up to a limit of its own.
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Returns true if bytes that were taken wait for room in the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Says that no more bytes follow.
    pub(crate) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.socket);
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}
