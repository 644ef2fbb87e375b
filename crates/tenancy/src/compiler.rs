//! Bounded compilation of vPDPs' programs. Limits apply to the text's length, the time and the
//! memory up to the device, the number of concurrent compilations (one per vPDP, a few per switch),
//! and their memory together.
//!
//! A compilation covers all steps from a text to a device: parsing P4 or IR, composition, fitting
//! to stage slots, native code generation. It is admitted ([`BoundedCompiler::admit`]) and queued
//! with those of other vPDPs ([`Compilations`]). It then runs as a [`support::work::Work`]
//! ([`CompilePermit::run`]). Its limits or [`Canceller::cancel`] end it at the next checkpoint; no
//! part of it continues after that. Its processor time is charged to the vPDP's cycle quota.

mod account;
mod error;
mod queue;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use support::work::{Interrupt, Work, WorkLimits};

use account::Account;
use queue::Ticket;

pub use account::CompileFigures;
pub use error::{Cancelled, CompileError};
pub use queue::{Compilations, CompilePool, ThreadClock};

/// Limits of a compilation; a missing one has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileQuota {
    /// Maximum length of the text in bytes: P4, or IR.
    pub text_bytes: Option<usize>,
    /// Maximum time from the start of the compilation to its device.
    pub time: Option<Duration>,
    /// Maximum memory in bytes that the compilation holds at once.
    pub bytes: Option<u64>,
}

impl CompileQuota {
    /// Default maximum length of a text in bytes.
    pub const DEFAULT_TEXT_BYTES: usize = 16 << 20;
    /// Default maximum time: a hundred times as long as programs with tens of tables take.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(10);
    /// Default maximum memory in bytes.
    pub const DEFAULT_BYTES: u64 = 512 << 20;

    fn check(&self, asked: usize) -> Result<(), CompileError> {
        let allowed = self.text_bytes.unwrap_or(Self::DEFAULT_TEXT_BYTES);
        match asked > allowed {
            true => Err(CompileError::TooLong { asked, allowed }),
            false => Ok(()),
        }
    }

    /// Returns the limits of the computation.
    pub fn limits(&self) -> WorkLimits {
        WorkLimits {
            time: Some(self.time.unwrap_or(Self::DEFAULT_TIME)),
            bytes: Some(self.memory()),
        }
    }

    /// Returns the maximum memory in bytes.
    fn memory(&self) -> u64 {
        self.bytes.unwrap_or(Self::DEFAULT_BYTES)
    }

    /// Runs a closure within these limits on this thread, without queueing.
    ///
    /// # Errors
    /// It exceeded a limit.
    pub fn run<T>(&self, part: impl FnOnce() -> T) -> Result<T, CompileError> {
        Work::new(self.limits()).run(part).map_err(of_interrupt)
    }

    /// Returns true if a compilation that was admitted under `other` may exceed these limits.
    fn is_less_than(&self, other: &CompileQuota) -> bool {
        let (own, other) = (self.limits(), other.limits());
        own.time < other.time || own.bytes < other.bytes
    }
}

/// Converts an interrupt that no [`Canceller`] has requested to an error.
fn of_interrupt(interrupt: Interrupt) -> CompileError {
    match interrupt {
        Interrupt::Time(time) => CompileError::TooSlow(time),
        Interrupt::Memory(bytes) => CompileError::TooLarge(bytes),
        Interrupt::Cancelled => CompileError::Cancelled(Cancelled::Stopped),
    }
}

/// Stack size of a compiler thread: deep expressions are walked recursively.
const STACK_BYTES: usize = 512 << 20;

/// Compiler of a vPDP's programs, one at a time. Clones share its state, quota changes included.
#[derive(Clone, Debug)]
pub struct BoundedCompiler(Arc<State>);

#[derive(Debug)]
struct State {
    pool: Compilations,
    quota: Mutex<CompileQuota>,
    /// True while a program is compiled, from its text to its device.
    is_building: AtomicBool,
    /// Cancellation state of the current compilation.
    current: Mutex<Weak<Stop>>,
    /// True after the vPDP was deleted: no compilation can start.
    is_closed: AtomicBool,
    account: Account,
}

/// Permit for one compilation, from the text to the device. The vPDP gets no other one until it is
/// dropped.
#[derive(Debug)]
pub struct CompilePermit {
    // Dropped first: once the vPDP is free, its queue entry must be free as well.
    ticket: Ticket,
    stop: Arc<Stop>,
    busy: Busy,
}

/// Handle that cancels one compilation, queued or running.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Stop>);

/// Cancellation state of a compilation.
#[derive(Debug)]
struct Stop {
    state: Mutex<Stopping>,
    pool: Compilations,
}

#[derive(Debug, Default)]
struct Stopping {
    reason: Option<Cancelled>,
    /// The running computation.
    work: Option<Work>,
}

impl Stop {
    fn state(&self) -> MutexGuard<'_, Stopping> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reason(&self) -> Option<Cancelled> {
        self.state().reason
    }

    fn cancel(&self, reason: Cancelled) {
        {
            let mut state = self.state();
            state.reason.get_or_insert(reason);
            if let Some(work) = &state.work {
                work.cancel();
            }
        }
        // It may be waiting in the queue.
        self.pool.wake();
    }
}

impl Canceller {
    /// Ends the compilation at its next checkpoint, or removes it from the queue.
    pub fn cancel(&self, reason: Cancelled) {
        self.0.cancel(reason);
    }
}

/// Guard that marks a vPDP as compiling until it is dropped.
#[derive(Debug)]
struct Busy(BoundedCompiler);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.is_building.store(false, Ordering::Release);
    }
}

impl BoundedCompiler {
    /// Creates a compiler with this quota that uses this pool.
    pub fn new(quota: CompileQuota, pool: &Compilations) -> BoundedCompiler {
        BoundedCompiler(Arc::new(State {
            pool: pool.clone(),
            quota: Mutex::new(quota),
            is_building: AtomicBool::new(false),
            current: Mutex::default(),
            is_closed: AtomicBool::new(false),
            account: Account::default(),
        }))
    }

    /// Sets the limits of later compilations. A current one that was admitted under larger limits
    /// is cancelled.
    pub(crate) fn set_quota(&self, quota: CompileQuota) {
        let before = std::mem::replace(&mut *self.lock_quota(), quota);
        if quota.is_less_than(&before) {
            self.cancel(Cancelled::QuotaShrunk);
        }
    }

    fn lock_quota(&self) -> MutexGuard<'_, CompileQuota> {
        self.0.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the current compilation, if there is one.
    pub fn cancel(&self, reason: Cancelled) {
        let current = self.current().upgrade();
        if let Some(stop) = current {
            stop.cancel(reason);
        }
    }

    fn current(&self) -> MutexGuard<'_, Weak<Stop>> {
        let current = self.0.current.lock();
        current.unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the current compilation and prevents new ones: the vPDP is deleted.
    pub(crate) fn close(&self, reason: Cancelled) {
        self.0.is_closed.store(true, Ordering::Release);
        self.cancel(reason);
    }

    /// Returns statistics of the vPDP's compilations.
    pub fn figures(&self) -> CompileFigures {
        let is_running = self.0.is_building.load(Ordering::Acquire);
        self.0.account.figures(is_running)
    }

    /// Charges the cycles that compilations took since the last call. `charge` returns the cycles
    /// that are left of the quota, if there is one. New compilations are refused while it is
    /// overdrawn.
    pub(crate) fn settle(&self, charge: impl FnOnce(u64) -> Option<i64>) {
        let pool = &self.0.pool;
        self.0.account.settle(|time| charge(pool.cycles(time)));
    }

    /// Admits one program with a text of `bytes` bytes, whether it must be compiled or not. The
    /// permit is held until its device is created.
    ///
    /// # Errors
    /// The text is too long, another program of the vPDP is being compiled, the vPDP is in debt
    /// for earlier compilations, or the queue is full.
    pub fn admit(&self, bytes: usize) -> Result<CompilePermit, CompileError> {
        let admitted = self.try_admit(bytes);
        if admitted.is_err() {
            self.0.account.refuse();
        }
        admitted
    }

    fn try_admit(&self, bytes: usize) -> Result<CompilePermit, CompileError> {
        let quota = *self.lock_quota();
        quota.check(bytes)?;
        let pool = &self.0.pool;
        if self.0.account.is_in_debt(|time| pool.cycles(time)) {
            return Err(CompileError::InDebt);
        }
        if self.0.is_building.swap(true, Ordering::AcqRel) {
            return Err(CompileError::Busy);
        }
        let busy = Busy(self.clone());
        let ticket = self.0.pool.enter(quota.memory())?;
        let stop = Arc::new(Stop {
            state: Mutex::default(),
            pool: self.0.pool.clone(),
        });
        *self.current() = Arc::downgrade(&stop);
        if self.0.is_closed.load(Ordering::Acquire) {
            stop.cancel(Cancelled::Deleted);
        }
        Ok(CompilePermit { ticket, stop, busy })
    }

    /// Compiles a text on a thread with a sufficient stack, and waits for it.
    ///
    /// # Errors
    /// As for [`BoundedCompiler::admit`] and [`CompilePermit::run`], or the text is wrong.
    pub fn compile<T: Send>(
        &self,
        text: &str,
        compiler: impl FnOnce(&str) -> Result<T, String> + Send,
    ) -> Result<T, CompileError> {
        let leave = self.admit(text.len())?;
        let compiled = thread::scope(|scope| {
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            let begun = builder.spawn_scoped(scope, || leave.run(|| compiler(text)));
            let thread = begun.map_err(|_| CompileError::Failed)?;
            thread.join().map_err(|_| CompileError::Failed)?
        });
        compiled?.map_err(CompileError::Wrong)
    }
}

impl CompilePermit {
    /// Returns a handle to cancel the compilation.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.stop))
    }

    /// Waits in the queue, then runs the compilation on this thread within the vPDP's limits.
    ///
    /// # Errors
    /// It exceeded a limit, was cancelled, or waited too long.
    pub fn run<T>(&self, part: impl FnOnce() -> T) -> Result<T, CompileError> {
        let ran = self.try_run(part);
        if ran.is_err() {
            self.busy.0.0.account.refuse();
        }
        ran
    }

    fn try_run<T>(&self, part: impl FnOnce() -> T) -> Result<T, CompileError> {
        let state = &*self.busy.0.0;
        let _turn = self.ticket.wait(|| self.stop.reason())?;
        // The quota may have changed since the memory was reserved.
        let mut limits = self.busy.0.lock_quota().limits();
        limits.bytes = limits.bytes.map(|bytes| bytes.min(self.ticket.bytes()));
        let work = Work::new(limits);
        {
            let mut stopping = self.stop.state();
            if let Some(reason) = stopping.reason {
                return Err(CompileError::Cancelled(reason));
            }
            stopping.work = Some(work.clone());
        }
        // The time is counted even if the compiler panics.
        let _bill = state.account.begin(state.pool.clock());
        let ended = work.run(part);
        self.stop.state().work = None;
        ended.map_err(|interrupt| match (interrupt, self.stop.reason()) {
            (Interrupt::Cancelled, Some(reason)) => CompileError::Cancelled(reason),
            (interrupt, _) => of_interrupt(interrupt),
        })
    }
}

#[cfg(test)]
mod tests;
