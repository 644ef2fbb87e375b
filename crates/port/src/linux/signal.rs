//! Signals that request the process to stop, as a descriptor to poll (signalfd).

use super::sys;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A signal that requests the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: `kill`, or a service manager stops the service.
    Terminate,
    /// SIGHUP: the terminal was closed.
    Hangup,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::Hangup => "SIGHUP",
        })
    }
}

/// Catches the stop signals from its creation to the end of the process. They are no longer
/// delivered in any other way.
#[derive(Debug)]
pub struct StopSignals {
    fd: OwnedFd,
}

impl StopSignals {
    /// Catches the stop signals from now on. Call this before other threads are started. An
    /// existing thread does not block the signals, so they still end the process there.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn catch() -> io::Result<StopSignals> {
        let fd = sys::signal_fd(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
        Ok(StopSignals { fd })
    }

    /// Returns a received signal, if any. Does not wait.
    pub fn take(&self) -> Option<Signal> {
        // Reading a signal descriptor fails only if it is empty.
        let number = sys::read_signal(&self.fd).ok().flatten()?;
        match i32::try_from(number) {
            Ok(libc::SIGTERM) => Some(Signal::Terminate),
            Ok(libc::SIGHUP) => Some(Signal::Hangup),
            _ => Some(Signal::Interrupt),
        }
    }

    /// Returns the descriptor that becomes readable when a signal arrives.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
