//! Queue of a switch's compilations: a few run at once, others wait in FIFO order.
//!
//! A vPDP has at most one compilation in the queue, so vPDPs are served round-robin.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::compiler::error::{Cancelled, CompileError};

/// Clock that returns the processor time of the calling thread.
pub type ThreadClock = fn() -> Duration;

/// Limits on all compilations of a switch.
#[derive(Clone, Copy, Debug)]
pub struct CompilePool {
    /// Maximum number of concurrent compilations.
    pub at_once: usize,
    /// Maximum number of waiting compilations; more are refused.
    pub waiting: usize,
    /// Maximum waiting time.
    pub patience: Duration,
    /// Maximum memory in bytes of all running compilations together. Each reserves its quota, and
    /// waits while there is no room; a larger quota counts as this maximum.
    pub bytes: u64,
    /// Clock for measuring compilations.
    pub clock: ThreadClock,
    /// Cycles charged per second of that clock.
    pub cycles_per_second: u64,
}

impl Default for CompilePool {
    fn default() -> CompilePool {
        CompilePool {
            at_once: 2,
            waiting: 62,
            patience: Duration::from_secs(10),
            bytes: 4 << 30,
            clock: wall_time,
            cycles_per_second: 1_000_000_000,
        }
    }
}

/// Wall-clock time, the default clock.
fn wall_time() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

/// Compilation queue of a switch. Clones share it.
#[derive(Clone, Debug)]
pub struct Compilations(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: CompilePool,
    queue: Mutex<Queue>,
    /// Notified when a compilation ends, or a waiting one is cancelled.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// Memory that the running compilations have reserved, in bytes.
    reserved: u64,
    /// Waiting compilations, in order: ticket number, and memory to reserve.
    waiting: VecDeque<(u64, u64)>,
    next: u64,
}

/// Entry in the queue.
#[derive(Debug)]
pub(super) struct Ticket {
    pool: Compilations,
    number: u64,
    /// Memory to reserve, in bytes.
    bytes: u64,
}

/// Right to run a compilation, with its memory; released when dropped.
#[derive(Debug)]
pub(super) struct Turn<'t>(&'t Ticket);

impl Compilations {
    /// Creates a queue with these limits.
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

    /// Returns the cycles charged for this time.
    pub(super) fn cycles(&self, time: Duration) -> u64 {
        let cycles = time.as_nanos() * u128::from(self.0.pool.cycles_per_second) / 1_000_000_000;
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    /// Wakes waiting compilations to check for cancellation.
    pub(super) fn wake(&self) {
        // Under the lock, no waiter is between its check and its sleep.
        let _queue = self.queue();
        self.0.changed.notify_all();
    }

    fn too_many(&self) -> CompileError {
        CompileError::TooMany {
            at_once: self.0.pool.at_once,
        }
    }

    /// Creates an entry in the queue for a compilation with this maximum memory.
    ///
    /// # Errors
    /// The queue is full.
    pub(super) fn enter(&self, bytes: u64) -> Result<Ticket, CompileError> {
        let mut queue = self.queue();
        let room = self.0.pool.at_once + self.0.pool.waiting;
        if queue.running + queue.waiting.len() >= room {
            return Err(self.too_many());
        }
        let number = queue.next;
        queue.next += 1;
        let bytes = bytes.min(self.0.pool.bytes);
        queue.waiting.push_back((number, bytes));
        Ok(Ticket {
            pool: self.clone(),
            number,
            bytes,
        })
    }

    /// Returns the numbers of running and of waiting compilations.
    pub fn running_and_waiting(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.running, queue.waiting.len())
    }
}

impl Queue {
    /// Returns true if the compilation at a place of the queue may run beside the running ones and
    /// those before it.
    fn has_room(&self, place: usize, pool: &CompilePool) -> bool {
        let up_to_it = self.waiting.iter().take(place + 1);
        let bytes = up_to_it.fold(self.reserved, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.running + place < pool.at_once && bytes <= pool.bytes
    }
}

impl Ticket {
    /// Returns the memory that the compilation may hold, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until the compilation may run.
    ///
    /// # Errors
    /// The maximum waiting time has passed, or `cancelled` returned a reason.
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
            let place = queue.waiting.iter().position(|one| one.0 == self.number);
            let Some(place) = place else {
                // The ticket was used before.
                return Err(CompileError::Failed);
            };
            if queue.has_room(place, &shared.pool) {
                queue.waiting.remove(place);
                queue.running += 1;
                queue.reserved += self.bytes;
                return Ok(Turn(self));
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
        queue.waiting.retain(|one| one.0 != self.number);
        self.pool.0.changed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let pool = &self.0.pool;
        {
            let mut queue = pool.queue();
            queue.running -= 1;
            queue.reserved -= self.0.bytes;
        }
        pool.0.changed.notify_all();
    }
}
