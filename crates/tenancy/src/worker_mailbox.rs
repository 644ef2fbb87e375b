//! Mailbox between the control side and one worker.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use switch::{Ahead, Ledger, ThreadEpoch};
use table::prefetch::prefetch_value;

use crate::share::Fairness;
use crate::snapshot::{SwitchSnapshot, VpdpIndex};
use crate::worker::most_passes;

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// State of one vPDP on one worker thread. The fields that each burst reads come first: with the
/// hot fields of `worker` they take three cache lines.
#[repr(C, align(64))]
pub(crate) struct VpdpWorker {
    /// The last burst in which the vPDP had a service turn of its own.
    pub(crate) visited: u64,
    /// Recirculations that were left at the end of that turn.
    pub(crate) passes_left: u32,
    pub(crate) slot: VpdpIndex,
    pub(crate) worker: switch::Worker,
    /// Generation number: unique for each device that had per-thread state.
    pub(crate) serial: u64,
    /// True if packets wait here: the worker then checks it when time advances.
    pub(crate) is_watched: bool,
    /// Publications of the device that the worker had seen when the function for shared bursts was
    /// looked up.
    pub(crate) known: u64,
    /// Padding. Without it the size is a power of two, and the hot lines of all vPDPs map to a
    /// sixteenth of the cache sets.
    _apart: [u8; LINE],
}

const _: () = assert!(!size_of::<VpdpWorker>().is_power_of_two());

/// Per-thread states in transit. They are boxed because they are large and change owners.
pub(crate) type VpdpWorkers = Vec<Box<VpdpWorker>>;

impl VpdpWorker {
    /// Prefetches memory that a service turn will read.
    #[inline]
    pub(crate) fn ask_for(&self, what: Ahead) {
        if what == Ahead::Own {
            prefetch_value(&self.is_watched);
        }
        self.worker.ask_for(what);
    }

    pub(crate) fn new(slot: VpdpIndex, serial: u64, worker: switch::Worker) -> VpdpWorker {
        VpdpWorker {
            slot,
            serial,
            worker,
            is_watched: false,
            visited: 0,
            passes_left: 0,
            known: 0,
            _apart: [0; LINE],
        }
    }

    /// Returns the maximum number of recirculations for `packets` packets in a burst. The fixed
    /// part is granted once per burst; what an earlier turn of the burst left is still available.
    pub(crate) fn most_passes(&self, burst: u64, packets: usize) -> u32 {
        let all = most_passes(packets);
        match self.visited == burst {
            true => (all - most_passes(0)).saturating_add(self.passes_left),
            false => all,
        }
    }

    /// Returns the number of resubmissions and recirculations so far.
    pub(crate) fn passes(&self) -> u64 {
        let ledger = self.worker.ledger();
        ledger.resubmitted + ledger.recirculated
    }
}

/// Data that the control side publishes to a worker.
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) root: Arc<SwitchSnapshot>,
    pub(crate) fairness: Option<Fairness>,
    /// Per-thread states that the worker has not taken yet.
    pub(crate) arrivals: VpdpWorkers,
}

/// Report of a worker to the control side.
#[derive(Default)]
pub(crate) struct WorkerReport {
    /// Accounting of packets that belong to no vPDP.
    pub(crate) ledger: Ledger,
    /// Number of packets that went over links between virtual ports.
    pub(crate) linked: u64,
    /// Per-thread states that are no longer needed and hold no packets.
    pub(crate) gone: VpdpWorkers,
}

/// Callback that wakes a worker's thread.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// Mailbox between the control side and one worker.
#[derive(Default)]
pub(crate) struct WorkerMailbox {
    published: Mutex<Published>,
    /// Epoch of the worker's thread, shared by the workers of all its vPDPs.
    pub(crate) bell: Arc<ThreadEpoch>,
    /// Number of publications so far.
    version: AtomicU64,
    told: Mutex<WorkerReport>,
    /// True if the worker has been dropped.
    is_closed: AtomicBool,
    /// True if a packet was handed to one of the worker's vPDPs since the last check.
    is_called: AtomicBool,
    wake: OnceLock<Wake>,
}

impl WorkerMailbox {
    /// Changes the published data. Called by the control side, which may block.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Published)) {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut published);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns true if a version other than `version` is published.
    #[inline]
    pub(crate) fn has_published(&self, version: u64) -> bool {
        self.version.load(Ordering::Acquire) != version
    }

    /// Locks the published data and stores its version. Called by the worker: it never blocks, and
    /// returns `None` if the lock is held.
    pub(crate) fn take(&self, version: &mut u64) -> Option<MutexGuard<'_, Published>> {
        let newest = self.version.load(Ordering::Acquire);
        let published = unless_held(&self.published)?;
        *version = newest;
        Some(published)
    }

    /// Locks the worker's report. Called by the control side.
    pub(crate) fn told(&self) -> MutexGuard<'_, WorkerReport> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the worker's report. Called by the worker: returns `None` if the lock is held.
    pub(crate) fn tell(&self) -> Option<MutexGuard<'_, WorkerReport>> {
        unless_held(&self.told)
    }

    pub(crate) fn wake_by(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    /// Signals that a packet was handed to one of the worker's vPDPs.
    pub(crate) fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    pub(crate) fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Acquire)
    }

    /// Returns true, once, if the worker was signalled since the last call.
    pub(crate) fn answer(&self) -> bool {
        self.is_called() && self.is_called.swap(false, Ordering::AcqRel)
    }

    /// Closes the mailbox when the worker is dropped. Published states that it had not taken stay
    /// here.
    pub(crate) fn close(&self, seats: impl Iterator<Item = Box<VpdpWorker>>) {
        self.told().gone.extend(seats);
        self.is_closed.store(true, Ordering::Release);
    }

    /// Takes the per-thread states that were returned. After the worker is dropped, states that it
    /// never took are returned as well.
    pub(crate) fn come_back(&self) -> VpdpWorkers {
        let mut back = std::mem::take(&mut self.told().gone);
        if self.is_closed.load(Ordering::Acquire) {
            self.publish(|published| back.append(&mut published.arrivals));
        }
        back
    }
}

fn unless_held<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
