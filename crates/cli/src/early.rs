//! What only a process with a single thread can do, done before there is a second one.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use port::{NetnsError, Poller, Privilege, Signal, StopSignals};

/// The time until a command that has not looked for signals so far takes one. After that the
/// process ends without it.
const MAX_UNTAKEN: Duration = Duration::from_millis(700);

/// The same for a command that has looked for signals: it may have to take down what it set up.
const MAX_UNTAKEN_AT_WORK: Duration = Duration::from_secs(10);

/// What was prepared for a command.
#[derive(Default)]
pub(crate) struct Early {
    /// Signals that ask to stop, if they are caught; else the process dies of them.
    signals: Option<Arc<StopSignals>>,
    /// True once the command has looked for signals.
    is_at_work: Arc<AtomicBool>,
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
            is_at_work: Arc::default(),
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

    /// Declares that the command is about to set up what it takes down when a signal comes.
    pub(crate) fn begin_work(&self) {
        self.is_at_work.store(true, Ordering::Relaxed);
    }

    /// A signal that asks to stop, if one has arrived.
    pub(crate) fn take_signal(&self) -> Option<Signal> {
        self.begin_work();
        self.signals.as_ref().and_then(|signals| signals.take())
    }

    /// The descriptor that becomes readable when a signal arrives.
    pub(crate) fn signal_fd(&self) -> Option<BorrowedFd<'_>> {
        self.signals.as_ref().map(|signals| signals.poll_fd())
    }

    /// What ends the process when a signal that is caught is not taken: a command may compile,
    /// read a pipe or build tables when it comes.
    pub(crate) fn guard(&self) -> Option<Guard> {
        let signals = self.signals.clone()?;
        let is_at_work = Arc::clone(&self.is_at_work);
        Some(Guard {
            signals,
            is_at_work,
        })
    }
}

/// Waits for a signal that nothing else takes.
pub(crate) struct Guard {
    signals: Arc<StopSignals>,
    is_at_work: Arc<AtomicBool>,
}

impl Guard {
    /// The first signal that is not taken for [`MAX_UNTAKEN`], or [`MAX_UNTAKEN_AT_WORK`]. A command
    /// that takes signals in time never lets this return.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn wait(&self) -> std::io::Result<Signal> {
        let mut poller = Poller::new();
        loop {
            if poller.wait([self.signals.poll_fd()], Duration::from_secs(3600))? == 0 {
                continue;
            }
            std::thread::sleep(MAX_UNTAKEN);
            if self.is_at_work.load(Ordering::Relaxed) {
                std::thread::sleep(MAX_UNTAKEN_AT_WORK - MAX_UNTAKEN);
            }
            if poller.wait([self.signals.poll_fd()], Duration::ZERO)? > 0
                && let Some(signal) = self.signals.take()
            {
                return Ok(signal);
            }
        }
    }
}
