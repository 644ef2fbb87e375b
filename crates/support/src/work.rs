//! Limits on the time and memory of a computation, with cancellation.
//!
//! A long computation, such as a compilation, runs inside [`Work::run`] and calls [`checkpoint`]
//! in each of its loops. A checkpoint that finds the work cancelled, late or too large unwinds to
//! [`Work::run`], which returns an [`Interrupt`]. The unwinding calls no panic hook and prints
//! nothing, as in salsa's cancellation. Outside [`Work::run`] a checkpoint does nothing.
//!
//! A computation that starts further threads hands them [`current`], and each runs its part
//! inside [`Work::run`] of the same [`Work`].

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Number of calls of [`checkpoint`] between two readings of the clock and of the thread's memory.
const CHECKS_PER_READING: u32 = 64;

/// Limits of a computation. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkLimits {
    /// Maximum time since [`Work::new`].
    pub time: Option<Duration>,
    /// Maximum number of bytes that the computation's threads hold at once. It applies only with a
    /// memory probe ([`set_memory_probe`]).
    pub bytes: Option<u64>,
}

/// Reason why a computation ended before its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// [`Work::cancel`] was called.
    Cancelled,
    /// It exceeded its time limit.
    Time(Duration),
    /// It exceeded its memory limit.
    Memory(u64),
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interrupt::Cancelled => f.write_str("the work was cancelled"),
            Interrupt::Time(time) => {
                write!(
                    f,
                    "the work took longer than its limit of {} ms",
                    time.as_millis()
                )
            }
            Interrupt::Memory(bytes) => {
                write!(
                    f,
                    "the work took more memory than its limit of {bytes} bytes"
                )
            }
        }
    }
}

impl std::error::Error for Interrupt {}

/// Handle of a bounded computation. Clones refer to the same computation.
#[derive(Clone, Debug)]
pub struct Work(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: WorkLimits,
    deadline: Option<Instant>,
    is_cancelled: AtomicBool,
    /// Number of bytes that the threads hold, as of the last reading of each.
    bytes: AtomicI64,
    /// Number of checkpoints of the parts that have ended.
    checkpoints: AtomicU64,
}

/// Part of a computation on one thread.
struct Scope {
    work: Work,
    /// Bytes of the thread at the start of the part, and at the last reading.
    begin: i64,
    seen: Cell<i64>,
    until_reading: Cell<u32>,
    readings: Cell<u64>,
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

static MEMORY_PROBE: OnceLock<fn() -> i64> = OnceLock::new();

/// Sets the function that returns the number of bytes that the calling thread has allocated and not
/// freed. Only the first call has an effect.
pub fn set_memory_probe(probe: fn() -> i64) {
    let _ = MEMORY_PROBE.set(probe);
}

fn thread_bytes() -> i64 {
    MEMORY_PROBE.get().map_or(0, |probe| probe())
}

impl Work {
    /// Creates a computation. Its time starts now.
    pub fn new(limits: WorkLimits) -> Work {
        Work(Arc::new(Shared {
            limits,
            deadline: limits
                .time
                .and_then(|time| Instant::now().checked_add(time)),
            is_cancelled: AtomicBool::new(false),
            bytes: AtomicI64::new(0),
            checkpoints: AtomicU64::new(0),
        }))
    }

    /// Ends the computation at the next checkpoint of each of its threads.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns its limits.
    pub fn limits(&self) -> WorkLimits {
        self.0.limits
    }

    /// Returns the number of checkpoints that the parts which have ended have passed.
    pub fn checkpoints(&self) -> u64 {
        self.0.checkpoints.load(Ordering::Relaxed)
    }

    /// Runs a part of the computation on this thread. Parts may nest.
    ///
    /// # Errors
    /// The part was interrupted at a checkpoint.
    pub fn run<T>(&self, part: impl FnOnce() -> T) -> Result<T, Interrupt> {
        let begin = thread_bytes();
        let scope = Scope {
            work: self.clone(),
            begin,
            seen: Cell::new(begin),
            until_reading: Cell::new(0),
            readings: Cell::new(0),
        };
        let outer = SCOPE.replace(Some(scope));
        let ended = catch_unwind(AssertUnwindSafe(part));
        let scope = SCOPE.replace(outer);
        if let Some(scope) = scope {
            // The bytes of this part no longer count for the parts of other threads.
            let held = scope.seen.get() - scope.begin;
            self.0.bytes.fetch_sub(held, Ordering::Relaxed);
            let passed = scope.passed();
            self.0.checkpoints.fetch_add(passed, Ordering::Relaxed);
        }
        ended.or_else(|payload| match payload.downcast::<Interrupt>() {
            Ok(interrupt) => Err(*interrupt),
            Err(panic) => resume_unwind(panic),
        })
    }

    /// Returns the reason why the computation must end now, if there is one.
    fn interrupt(&self) -> Option<Interrupt> {
        let shared = &*self.0;
        if shared.is_cancelled.load(Ordering::Relaxed) {
            return Some(Interrupt::Cancelled);
        }
        if let (Some(deadline), Some(time)) = (shared.deadline, shared.limits.time)
            && Instant::now() >= deadline
        {
            return Some(Interrupt::Time(time));
        }
        let limit = shared.limits.bytes?;
        let held = u64::try_from(shared.bytes.load(Ordering::Relaxed)).unwrap_or(0);
        (held > limit).then_some(Interrupt::Memory(limit))
    }
}

/// Returns the computation of which this thread runs a part.
pub fn current() -> Option<Work> {
    SCOPE.with_borrow(|scope| scope.as_ref().map(|scope| scope.work.clone()))
}

/// Checkpoint at which a computation may be interrupted. Each loop over input of a bounded
/// computation calls it once per iteration. It reads the clock at every 64th call.
///
/// Values on the stack are dropped while it unwinds. So a caller must not break an invariant across
/// the call on which a `Drop` or another thread relies.
pub fn checkpoint() {
    let interrupt = SCOPE.with_borrow(|scope| scope.as_ref().and_then(Scope::check));
    if let Some(interrupt) = interrupt {
        resume_unwind(Box::new(interrupt));
    }
}

impl Scope {
    fn check(&self) -> Option<Interrupt> {
        match self.until_reading.get().checked_sub(1) {
            Some(left) => {
                self.until_reading.set(left);
                let is_cancelled = self.work.0.is_cancelled.load(Ordering::Relaxed);
                return is_cancelled.then_some(Interrupt::Cancelled);
            }
            None => self.until_reading.set(CHECKS_PER_READING - 1),
        }
        self.readings.set(self.readings.get() + 1);
        let bytes = thread_bytes();
        let change = bytes - self.seen.replace(bytes);
        self.work.0.bytes.fetch_add(change, Ordering::Relaxed);
        self.work.interrupt()
    }

    /// Returns the number of checkpoints that the part has passed.
    fn passed(&self) -> u64 {
        let read = self.readings.get() * u64::from(CHECKS_PER_READING);
        read - u64::from(self.until_reading.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs until a checkpoint ends it.
    fn endless() {
        loop {
            checkpoint();
        }
    }

    #[test]
    fn work_without_a_limit_gives_its_result() {
        checkpoint();
        let work = Work::new(WorkLimits::default());
        let result = work.run(|| {
            (0..1000).for_each(|_| checkpoint());
            7
        });
        assert_eq!(result, Ok(7));
        assert!(current().is_none());
        assert_eq!(work.checkpoints(), 1000);
        assert_eq!(work.run(|| ()), Ok(()));
        assert_eq!(work.checkpoints(), 1000);
    }

    #[test]
    fn late_work_ends_at_a_checkpoint() {
        let time = Duration::from_millis(1);
        let work = Work::new(WorkLimits {
            time: Some(time),
            bytes: None,
        });
        assert_eq!(work.run(endless), Err(Interrupt::Time(time)));
    }

    #[test]
    fn cancelled_work_ends_on_each_of_its_threads() {
        let work = Work::new(WorkLimits::default());
        let other = work.clone();
        let thread = std::thread::spawn(move || {
            other.run(|| {
                let handed_on = current().unwrap();
                let inner = std::thread::spawn(move || handed_on.run(endless));
                let inner = inner.join().unwrap();
                (inner, endless())
            })
        });
        work.cancel();
        assert_eq!(thread.join().unwrap().unwrap_err(), Interrupt::Cancelled);
        assert_eq!(work.run(endless), Err(Interrupt::Cancelled));
    }

    #[test]
    fn a_part_within_a_part_leaves_the_outer_one_in_force() {
        let outer = Work::new(WorkLimits::default());
        let inner = Work::new(WorkLimits::default());
        inner.cancel();
        let ended = outer.run(|| {
            assert_eq!(inner.run(endless), Err(Interrupt::Cancelled));
            checkpoint();
            outer.cancel();
            endless();
        });
        assert_eq!(ended, Err(Interrupt::Cancelled));
    }

    #[test]
    fn a_panic_is_no_interrupt() {
        let work = Work::new(WorkLimits::default());
        let caught = catch_unwind(AssertUnwindSafe(|| {
            work.run(|| resume_unwind(Box::new("a fault of the code")))
        }));
        let payload: Box<dyn std::any::Any + Send> = match caught {
            Err(payload) => payload,
            Ok(result) => {
                let _: Result<(), Interrupt> = result;
                panic!("the panic was swallowed");
            }
        };
        assert!(payload.is::<&str>());
    }

    #[test]
    fn memory_that_a_part_holds_is_counted_and_given_back() {
        thread_local! { static BYTES: Cell<i64> = const { Cell::new(500) }; }
        set_memory_probe(|| BYTES.get());
        let work = Work::new(WorkLimits {
            time: None,
            bytes: Some(1000),
        });
        let grow = |by: i64| {
            BYTES.set(BYTES.get() + by);
            (0..=CHECKS_PER_READING).for_each(|_| checkpoint());
        };
        assert_eq!(work.run(|| grow(900)), Ok(()));
        // The result of the part, 900 bytes, now belongs to the caller.
        assert_eq!(work.run(|| grow(900)), Ok(()));
        assert_eq!(
            work.run(|| (grow(900), grow(200))).unwrap_err(),
            Interrupt::Memory(1000)
        );
    }
}
