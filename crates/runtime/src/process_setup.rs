//! Process setup that requires a single thread. It is done before any other thread starts.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use port::{NetnsError, Poller, Privilege, Signal, StopSignals};

use crate::RuntimeError;

/// Time limit for a command that has not checked for signals so far to take one. After that the
/// process ends.
const MAX_UNTAKEN: Duration = Duration::from_millis(700);

/// The same limit for a command that has checked for signals: it may have to clean up.
const MAX_UNTAKEN_AT_WORK: Duration = Duration::from_secs(10);

/// Prepared process state.
#[derive(Default)]
pub struct ProcessSetup {
    /// Caught stop signals. `None`: a signal kills the process.
    signals: Option<Arc<StopSignals>>,
    /// True once the command has checked for signals.
    is_at_work: Arc<AtomicBool>,
    /// For the demo: the privilege by which the process is in a network namespace created for it,
    /// or the error.
    pub private: Option<Result<Privilege, NetnsError>>,
}

impl ProcessSetup {
    /// Catches the stop signals. Must be called before other threads start, which would die of
    /// them.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn catch_signals() -> Result<ProcessSetup, RuntimeError> {
        let signals = StopSignals::catch().map_err(RuntimeError::system("catch signals"))?;
        Ok(ProcessSetup {
            signals: Some(Arc::new(signals)),
            is_at_work: Arc::default(),
            private: None,
        })
    }

    /// Also moves the process into a new network namespace, if the machine allows it.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn go_private() -> Result<ProcessSetup, RuntimeError> {
        let mut early = ProcessSetup::catch_signals()?;
        early.private = Some(port::enter_private());
        Ok(early)
    }

    /// Declares that the command starts to set up state that it must clean up after a signal.
    pub fn begin_work(&self) {
        self.is_at_work.store(true, Ordering::Relaxed);
    }

    /// Returns a stop signal, if one has arrived.
    pub fn take_signal(&self) -> Option<Signal> {
        self.begin_work();
        self.signals.as_ref().and_then(|signals| signals.take())
    }

    /// Returns the descriptor that becomes readable when a signal arrives.
    pub fn signal_fd(&self) -> Option<BorrowedFd<'_>> {
        self.signals.as_ref().map(|signals| signals.poll_fd())
    }

    /// Returns the guard that ends the process if a caught signal is not taken. A command may be
    /// compiling, reading a pipe or building tables when the signal arrives.
    pub fn guard(&self) -> Option<Guard> {
        let signals = self.signals.clone()?;
        let is_at_work = Arc::clone(&self.is_at_work);
        Some(Guard {
            signals,
            is_at_work,
        })
    }
}

/// Waits for a signal that the command does not take.
pub struct Guard {
    signals: Arc<StopSignals>,
    is_at_work: Arc<AtomicBool>,
}

impl Guard {
    /// Returns the first signal that is not taken within [`MAX_UNTAKEN`], or
    /// [`MAX_UNTAKEN_AT_WORK`]. Does not return while the command takes its signals in time.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn wait(&self) -> std::io::Result<Signal> {
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
