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

/// Counter of the turns of a control loop, by which a watchdog sees that the loop goes on.
#[derive(Clone, Debug, Default)]
pub struct LoopTurns(Arc<AtomicU64>);

/// Value of the counter of a loop that has ended.
const ENDED: u64 = u64::MAX;

impl LoopTurns {
    /// Counts a turn.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the loop has ended.
    pub(crate) fn end(&self) {
        self.0.store(ENDED, Ordering::Relaxed);
    }

    /// Returns the number of turns, or `None` if the loop has ended.
    pub fn read(&self) -> Option<u64> {
        let turns = self.0.load(Ordering::Relaxed);
        (turns != ENDED).then_some(turns)
    }
}

/// State of signals that the command and its guard share.
#[derive(Debug, Default)]
struct SignalState {
    /// Number of signals that the command has taken.
    taken: AtomicU64,
    /// True if SIGHUP makes the command read files again.
    reloads: AtomicBool,
    /// True if SIGHUP has arrived and the command has not acted on it.
    has_hangup: AtomicBool,
}

/// Prepared process state.
#[derive(Default)]
pub struct ProcessSetup {
    /// Caught stop signals. `None`: a signal kills the process.
    signals: Option<Arc<StopSignals>>,
    /// True once the command has checked for signals.
    is_at_work: Arc<AtomicBool>,
    /// Turns of the loop that looks for signals.
    turns: LoopTurns,
    /// State of signals, shared with the guard.
    shared: Arc<SignalState>,
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
            turns: LoopTurns::default(),
            shared: Arc::default(),
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
    /// [`ProcessSetup::set_hangup`] instead, if there is one. A command that
    /// [reads files again](ProcessSetup::expect_hangup) and has no function yet gets it later.
    pub fn take_signal(&self) -> Option<Signal> {
        self.begin_work();
        self.turns.count();
        let signals = self.signals.as_ref()?;
        loop {
            if let Some(reload) = self.on_hangup.get()
                && self.shared.has_hangup.swap(false, Ordering::AcqRel)
            {
                reload();
            }
            let signal = signals.take()?;
            self.shared.taken.fetch_add(1, Ordering::AcqRel);
            match signal {
                Signal::Hangup if self.shared.reloads.load(Ordering::Acquire) => {
                    self.shared.has_hangup.store(true, Ordering::Release);
                }
                signal => return Some(signal),
            }
        }
    }

    /// Returns the counter of the times that the command has looked for signals.
    pub fn turns(&self) -> LoopTurns {
        self.turns.clone()
    }

    /// Declares that the command reads files again at SIGHUP, so that the signal does not end it.
    /// One that arrives before [`ProcessSetup::set_hangup`] is acted on afterwards.
    pub fn expect_hangup(&self) {
        self.shared.reloads.store(true, Ordering::Release);
    }

    /// Calls this function for each SIGHUP from now on, where the command takes its signals. It
    /// must return at once. Only the first call has an effect.
    pub fn set_hangup(&self, reload: impl Fn() + Send + Sync + 'static) {
        self.expect_hangup();
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
        Some(Guard {
            signals,
            shared: Arc::clone(&self.shared),
            is_at_work: Arc::clone(&self.is_at_work),
        })
    }
}

/// Waits for a signal that the command does not take.
pub struct Guard {
    signals: Arc<StopSignals>,
    shared: Arc<SignalState>,
    is_at_work: Arc<AtomicBool>,
}

impl Guard {
    /// Returns the first signal that stays while the command takes no signal within
    /// [`MAX_UNTAKEN`], or [`MAX_UNTAKEN_AT_WORK`]. Does not return while the command takes its
    /// signals in time, nor for SIGHUP of a command that reads files again: it keeps that for it.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn wait(&self) -> std::io::Result<Signal> {
        let mut poller = Poller::new();
        loop {
            // Read before the wait: a command that takes signals later is seen to do so.
            let taken = self.shared.taken.load(Ordering::Acquire);
            if poller.wait([self.signals.poll_fd()], Duration::from_secs(3600))? == 0 {
                continue;
            }
            std::thread::sleep(MAX_UNTAKEN);
            if self.is_at_work.load(Ordering::Relaxed) {
                std::thread::sleep(MAX_UNTAKEN_AT_WORK - MAX_UNTAKEN);
            }
            if self.shared.taken.load(Ordering::Acquire) != taken {
                continue;
            }
            match self.signals.take() {
                // Another signal may be waiting, which gets its own time.
                Some(Signal::Hangup) if self.shared.reloads.load(Ordering::Acquire) => {
                    self.shared.has_hangup.store(true, Ordering::Release);
                }
                Some(signal) => return Ok(signal),
                None => {}
            }
        }
    }
}
