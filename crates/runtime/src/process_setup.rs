//! Process setup that requires a single thread. It is done before any other thread starts.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
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
    /// Number of times that the command has looked for signals.
    turns: Arc<AtomicU64>,
    /// Called for SIGHUP, which then stops nothing.
    on_hangup: OnceLock<Box<dyn Fn() + Send + Sync>>,
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
            turns: Arc::default(),
            on_hangup: OnceLock::new(),
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

    /// Returns a stop signal, if one has arrived. For SIGHUP it calls the function of
    /// [`ProcessSetup::set_hangup`] instead, if there is one.
    pub fn take_signal(&self) -> Option<Signal> {
        self.begin_work();
        self.turns.fetch_add(1, Ordering::Relaxed);
        let signals = self.signals.as_ref()?;
        loop {
            match (signals.take()?, self.on_hangup.get()) {
                (Signal::Hangup, Some(reload)) => reload(),
                (signal, _) => return Some(signal),
            }
        }
    }

    /// Returns the number of times that the command has looked for signals. It grows while the
    /// command's loop goes on.
    pub fn turns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.turns)
    }

    /// Calls this function for each SIGHUP from now on, where the command takes its signals. It
    /// must return at once. Only the first call has an effect.
    pub fn set_hangup(&self, reload: impl Fn() + Send + Sync + 'static) {
        // A second function is not needed: a process runs one command.
        let _ = self.on_hangup.set(Box::new(reload));
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
