//! What only a process with a single thread can do, done before there is a second one.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use port::{NetnsError, Poller, Privilege, Signal, StopSignals};

/// How long a signal may lie until the command takes it. After that the process ends without it.
const MAX_UNTAKEN: Duration = Duration::from_millis(700);

/// What was prepared for a command.
#[derive(Default)]
pub(crate) struct Early {
    /// Signals that ask to stop, if they are caught; else the process dies of them.
    signals: Option<Arc<StopSignals>>,
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
            signals: Some(Arc::new(signals)),
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
        self.signals.as_ref().and_then(|signals| signals.take())
    }

    /// The descriptor that becomes readable when a signal arrives.
    pub(crate) fn signal_fd(&self) -> Option<BorrowedFd<'_>> {
        self.signals.as_ref().map(|signals| signals.poll_fd())
    }

    /// What ends the process when a signal that is caught is not taken: a command may compile,
    /// read a pipe or build tables when it comes.
    pub(crate) fn guard(&self) -> Option<Guard> {
        self.signals.clone().map(Guard)
    }
}

/// Waits for a signal that nothing else takes.
pub(crate) struct Guard(Arc<StopSignals>);

impl Guard {
    /// The first signal that lies for [`MAX_UNTAKEN`]. A command that takes signals in time never
    /// lets this return.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn wait(&self) -> std::io::Result<Signal> {
        let mut poller = Poller::new();
        loop {
            if poller.wait([self.0.poll_fd()], Duration::from_secs(3600))? == 0 {
                continue;
            }
            std::thread::sleep(MAX_UNTAKEN);
            if poller.wait([self.0.poll_fd()], Duration::ZERO)? > 0
                && let Some(signal) = self.0.take()
            {
                return Ok(signal);
            }
        }
    }
}
