//! The compilations of a switch: a few run at once, others wait in the order in which they came.
//!
//! A vPDP has at most one in the queue, so the order is a round over the vPDPs that have something
//! to compile.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::compiler::error::{Cancelled, CompileError};

/// A clock that gives the processor time of the thread that reads it.
pub type ThreadClock = fn() -> Duration;

/// The bounds on all compilations of a switch.
#[derive(Clone, Copy, Debug)]
pub struct CompilePool {
    /// Compilations that run at once.
    pub at_once: usize,
    /// Those that may wait for their turn; the next one is refused.
    pub waiting: usize,
    /// The time for which one waits at most.
    pub patience: Duration,
    /// The clock by which their time is counted.
    pub clock: ThreadClock,
    /// Cycles that quotas pay for a second of that time.
    pub cycles_per_second: u64,
}

impl Default for CompilePool {
    fn default() -> CompilePool {
        CompilePool {
            at_once: 2,
            waiting: 62,
            patience: Duration::from_secs(10),
            clock: wall_time,
            cycles_per_second: 1_000_000_000,
        }
    }
}

/// The machine's clock, where no clock of threads is given.
fn wall_time() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

/// The compilations of a switch. Clones are the same.
#[derive(Clone, Debug)]
pub struct Compilations(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: CompilePool,
    queue: Mutex<Queue>,
    /// Rung when a turn is over, or one that waits is cancelled.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// Numbers of those that wait, in their order.
    waiting: VecDeque<u64>,
    next: u64,
}

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Ticket {
    pool: Compilations,
    number: u64,
}

/// The time in which a compilation may run; it ends when dropped.
#[derive(Debug)]
pub(super) struct Turn<'t>(&'t Compilations);

impl Compilations {
    /// The compilations of a switch with these bounds.
    pub fn new(pool: CompilePool) -> Compilations {
        Compilations(Arc::new(Shared {
            pool: CompilePool {
                at_once: pool.at_once.max(1),
                ..pool
            },
            queue: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        let queue = self.0.queue.lock();
        queue.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self) -> ThreadClock {
        self.0.pool.clock
    }

    /// Cycles that quotas pay for this time.
    pub(super) fn cycles(&self, time: Duration) -> u64 {
        let cycles = time.as_nanos() * u128::from(self.0.pool.cycles_per_second) / 1_000_000_000;
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    /// Has those that wait look whether they are cancelled.
    pub(super) fn wake(&self) {
        // With the lock nobody is between looking and sleeping.
        let _queue = self.queue();
        self.0.changed.notify_all();
    }

    fn too_many(&self) -> CompileError {
        CompileError::TooMany {
            at_once: self.0.pool.at_once,
        }
    }

    /// A place in the queue.
    ///
    /// # Errors
    /// As many wait as may.
    pub(super) fn enter(&self) -> Result<Ticket, CompileError> {
        let mut queue = self.queue();
        let room = self.0.pool.at_once + self.0.pool.waiting;
        if queue.running + queue.waiting.len() >= room {
            return Err(self.too_many());
        }
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back(number);
        Ok(Ticket {
            pool: self.clone(),
            number,
        })
    }

    /// Compilations that run, and that wait.
    pub fn running_and_waiting(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.running, queue.waiting.len())
    }
}

impl Ticket {
    /// Waits for the turn.
    ///
    /// # Errors
    /// It did not come in time, or `cancelled` says that nobody wants it any more.
    pub(super) fn wait(
        &self,
        cancelled: impl Fn() -> Option<Cancelled>,
    ) -> Result<Turn<'_>, CompileError> {
        let shared = &*self.pool.0;
        let begin = Instant::now();
        let mut queue = self.pool.queue();
        loop {
            if let Some(reason) = cancelled() {
                return Err(CompileError::Cancelled(reason));
            }
            let place = queue.waiting.iter().position(|one| *one == self.number);
            let Some(place) = place else {
                // Its turn was before.
                return Err(CompileError::Failed);
            };
            if queue.running + place < shared.pool.at_once {
                queue.waiting.remove(place);
                queue.running += 1;
                return Ok(Turn(&self.pool));
            }
            let left = shared.pool.patience.checked_sub(begin.elapsed());
            let Some(left) = left.filter(|left| !left.is_zero()) else {
                return Err(self.pool.too_many());
            };
            let waited = shared.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut queue = self.pool.queue();
        queue.waiting.retain(|one| *one != self.number);
        self.pool.0.changed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue().running -= 1;
        self.0.0.changed.notify_all();
    }
}
