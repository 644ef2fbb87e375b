//! What only a process with a single thread can do, done before there is a second one.

use std::os::fd::BorrowedFd;

use port::{NetnsError, Privilege, Signal, StopSignals};

/// What was prepared for a command.
#[derive(Default)]
pub(crate) struct Early {
    /// Signals that ask to stop, if they are caught; else the process dies of them.
    signals: Option<StopSignals>,
    /// For the demo: by what right the process is in a network namespace of its own, or why it is not.
    pub(crate) private: Option<Result<Privilege, NetnsError>>,
}

impl Early {
    /// Catches the signals that ask to stop; a thread that exists before would still die of them.
    ///
    /// # Errors
    /// The operating system's, as text.
    pub(crate) fn catch_signals() -> Result<Early, String> {
        let signals = StopSignals::catch().map_err(|e| format!("cannot catch signals: {e}"))?;
        Ok(Early {
            signals: Some(signals),
            private: None,
        })
    }

    /// Also puts the process into a network namespace of its own, if the machine allows it.
    ///
    /// # Errors
    /// The operating system's, as text.
    pub(crate) fn go_private() -> Result<Early, String> {
        let mut early = Early::catch_signals()?;
        early.private = Some(port::enter_private());
        Ok(early)
    }

    /// A signal that asks to stop, if one has arrived.
    pub(crate) fn take_signal(&self) -> Option<Signal> {
        self.signals.as_ref().and_then(StopSignals::take)
    }

    /// The descriptor that becomes readable when a signal arrives.
    pub(crate) fn signal_fd(&self) -> Option<BorrowedFd<'_>> {
        self.signals.as_ref().map(StopSignals::poll_fd)
    }
}
