//! Bounds on compilations: of a program's text, of the time and the memory to make its device, of
//! one at a time for each vPDP, and of how many run at
//! once on a switch.
//!
//! A compilation is all from a text to a device: reading P4 or IR, composing, fitting to slots,
//! making native code. It is
//! admitted ([`BoundedCompiler::admit`]), waits for its turn among those of other vPDPs
//! ([`Compilations`]) and runs as a
//! [`support::work::Work`] ([`Leave::run`]), which its limits or [`Canceller::cancel`] end at the
//! next checkpoint. Nothing of it
//! goes on after that. The processor time that it took is counted, and paid for by the vPDP's quota
//! of cycles.

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

/// The bounds of a compilation; what is not given has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileQuota {
    /// Bytes of the text: P4, or IR.
    pub text_bytes: Option<usize>,
    /// The time from the begin of the compilation to its device.
    pub time: Option<Duration>,
    /// Bytes that the compilation holds at once.
    pub bytes: Option<u64>,
}

impl CompileQuota {
    /// The bytes of a text without a quota.
    pub const DEFAULT_TEXT_BYTES: usize = 16 << 20;
    /// The time without a quota: a hundred times as long as programs with tens of tables take.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(10);
    /// The bytes without a quota.
    pub const DEFAULT_BYTES: u64 = 512 << 20;

    fn check(&self, asked: usize) -> Result<(), CompileError> {
        let allowed = self.text_bytes.unwrap_or(Self::DEFAULT_TEXT_BYTES);
        match asked > allowed {
            true => Err(CompileError::TooLong { asked, allowed }),
            false => Ok(()),
        }
    }

    /// The limits of the computation.
    pub fn limits(&self) -> WorkLimits {
        WorkLimits {
            time: Some(self.time.unwrap_or(Self::DEFAULT_TIME)),
            bytes: Some(self.bytes.unwrap_or(Self::DEFAULT_BYTES)),
        }
    }

    /// Runs something within these limits on this thread, without a turn.
    ///
    /// # Errors
    /// It took more than they allow.
    pub fn run<T>(&self, part: impl FnOnce() -> T) -> Result<T, CompileError> {
        Work::new(self.limits()).run(part).map_err(of_interrupt)
    }

    /// Whether a compilation that was admitted under another quota may be over these limits.
    fn is_less_than(&self, other: &CompileQuota) -> bool {
        let (own, other) = (self.limits(), other.limits());
        own.time < other.time || own.bytes < other.bytes
    }
}

/// The error of an interrupt that no [`Canceller`] has asked for.
fn of_interrupt(interrupt: Interrupt) -> CompileError {
    match interrupt {
        Interrupt::Time(time) => CompileError::TooSlow(time),
        Interrupt::Memory(bytes) => CompileError::TooLarge(bytes),
        Interrupt::Cancelled => CompileError::Cancelled(Cancelled::Stopped),
    }
}

/// Stack of a thread that compiles: deep expressions take it to walk.
const STACK_BYTES: usize = 512 << 20;

/// Compiles a vPDP's programs, one at a time. Clones are the same: they see quotas that come later.
#[derive(Clone, Debug)]
pub struct BoundedCompiler(Arc<State>);

#[derive(Debug)]
struct State {
    pool: Compilations,
    quota: Mutex<CompileQuota>,
    /// A program is being made, from its text to its device.
    is_building: AtomicBool,
    /// What cancels it.
    current: Mutex<Weak<Stop>>,
    /// The vPDP is no more: no compilation begins.
    is_closed: AtomicBool,
    account: Account,
}

/// The right to make one program, from its text to its device. No other one is made for the vPDP
/// until it is dropped.
#[derive(Debug)]
pub struct Leave {
    // The ticket goes first: whoever finds the vPDP free may find the queue free, too.
    ticket: Ticket,
    stop: Arc<Stop>,
    busy: Busy,
}

/// A handle that cancels one compilation, waiting or running.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Stop>);

/// The state of a compilation that may be cancelled.
#[derive(Debug)]
struct Stop {
    state: Mutex<Stopping>,
    pool: Compilations,
}

#[derive(Debug, Default)]
struct Stopping {
    reason: Option<Cancelled>,
    /// What runs.
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
        // It may wait for its turn.
        self.pool.wake();
    }
}

impl Canceller {
    /// Ends the compilation at its next checkpoint, or takes it from the queue.
    pub fn cancel(&self, reason: Cancelled) {
        self.0.cancel(reason);
    }
}

/// The mark of a vPDP for which a program is being made; taken away when dropped.
#[derive(Debug)]
struct Busy(BoundedCompiler);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.is_building.store(false, Ordering::Release);
    }
}

impl BoundedCompiler {
    /// A compiler with this quota that takes turns with others in the pool.
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

    /// Sets the bounds of compilations from now on. One that was admitted under larger ones is
    /// cancelled.
    pub(crate) fn set_quota(&self, quota: CompileQuota) {
        let before = std::mem::replace(&mut *self.lock_quota(), quota);
        if quota.is_less_than(&before) {
            self.cancel(Cancelled::QuotaShrunk);
        }
    }

    fn lock_quota(&self) -> MutexGuard<'_, CompileQuota> {
        self.0.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels what is being compiled, if something is.
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

    /// Cancels what is being compiled, and lets nothing more begin: the vPDP is deleted.
    pub(crate) fn close(&self, reason: Cancelled) {
        self.0.is_closed.store(true, Ordering::Release);
        self.cancel(reason);
    }

    /// What compilations of the vPDP took so far.
    pub fn figures(&self) -> CompileFigures {
        let is_running = self.0.is_building.load(Ordering::Acquire);
        self.0.account.figures(is_running)
    }

    /// Cycles that compilations took since this was asked last.
    pub(crate) fn take_cycles(&self) -> u64 {
        let time = self.0.account.take_unpaid();
        match time.is_zero() {
            true => 0,
            false => self.0.pool.cycles(time),
        }
    }

    /// Whether compilations have taken more of the quota of cycles than has come: none begins
    /// meanwhile.
    pub(crate) fn set_in_debt(&self, is_in_debt: bool) {
        self.0.account.set_in_debt(is_in_debt);
    }

    /// Admits the making of one program of a text of so many bytes, be it one to compile or not.
    /// The leave is kept until its device is made.
    ///
    /// # Errors
    /// The text is longer than the quota allows, another program of the vPDP is being made, the
    /// vPDP has not paid for those before, or too many
    /// compilations of others wait.
    pub fn admit(&self, bytes: usize) -> Result<Leave, CompileError> {
        let admitted = self.try_admit(bytes);
        if admitted.is_err() {
            self.0.account.refuse();
        }
        admitted
    }

    fn try_admit(&self, bytes: usize) -> Result<Leave, CompileError> {
        self.lock_quota().check(bytes)?;
        if self.0.account.is_in_debt() {
            return Err(CompileError::InDebt);
        }
        if self.0.is_building.swap(true, Ordering::AcqRel) {
            return Err(CompileError::Busy);
        }
        let busy = Busy(self.clone());
        let ticket = self.0.pool.enter()?;
        let stop = Arc::new(Stop {
            state: Mutex::default(),
            pool: self.0.pool.clone(),
        });
        *self.current() = Arc::downgrade(&stop);
        if self.0.is_closed.load(Ordering::Acquire) {
            stop.cancel(Cancelled::Deleted);
        }
        Ok(Leave { ticket, stop, busy })
    }

    /// Compiles a text on a thread with enough stack, and waits for it.
    ///
    /// # Errors
    /// As of [`BoundedCompiler::admit`] and [`Leave::run`], or the text is wrong.
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

impl Leave {
    /// A handle by which others cancel the compilation.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.stop))
    }

    /// Waits for its turn and makes the program on this thread, within the bounds of the vPDP.
    ///
    /// # Errors
    /// It took more than the quota allows, was cancelled, or its turn did not come in time.
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
        let work = Work::new(self.busy.0.lock_quota().limits());
        {
            let mut stopping = self.stop.state();
            if let Some(reason) = stopping.reason {
                return Err(CompileError::Cancelled(reason));
            }
            stopping.work = Some(work.clone());
        }
        // Counted also if the compiler panics.
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
