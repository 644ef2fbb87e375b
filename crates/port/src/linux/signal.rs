//! Signals that ask the process to stop, as a descriptor to wait for.

use super::sys;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: `kill`, or a service that is stopped.
    Terminate,
    /// SIGHUP: the terminal is closed.
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

/// Catches the signals that ask to stop, from when it is made to the end of the process: they arrive
/// here and nowhere else.
#[derive(Debug)]
pub struct StopSignals {
    fd: OwnedFd,
}

impl StopSignals {
    /// Catches them from now on. Make this before any other thread: a thread that was there before
    /// still dies of them.
    ///
    /// # Errors
    /// The operating system's.
    pub fn catch() -> io::Result<StopSignals> {
        let fd = sys::signal_fd(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
        Ok(StopSignals { fd })
    }

    /// A signal that has arrived, if one has; never waits.
    pub fn take(&self) -> Option<Signal> {
        // Reading a signal descriptor cannot fail in another way than by being empty.
        let number = sys::read_signal(&self.fd).ok().flatten()?;
        match i32::try_from(number) {
            Ok(libc::SIGTERM) => Some(Signal::Terminate),
            Ok(libc::SIGHUP) => Some(Signal::Hangup),
            _ => Some(Signal::Interrupt),
        }
    }

    /// The descriptor that becomes readable when a signal arrives.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
