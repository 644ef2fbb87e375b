//! What the control side and a worker leave for each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use switch::{Ahead, Bell, Ledger};
use table::prefetch::prefetch_value;

use crate::root::{Root, Slot};
use crate::share::Fairness;
use crate::worker::most_passes;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A vPDP's worker on one thread. What each burst reads stands first, in three cache lines with what each reads of the worker.
#[repr(C, align(64))]
pub(crate) struct Seat {
    /// The last burst in which it was visited by itself.
    pub(crate) visited: u64,
    /// Passes that its packets could have started over for in that visit, and did not.
    pub(crate) passes_left: u32,
    pub(crate) slot: Slot,
    pub(crate) worker: switch::Worker,
    /// Different for each vPDP that ever had seats.
    pub(crate) serial: u64,
    /// Whether it is looked at when time goes on: packets wait in it.
    pub(crate) is_watched: bool,
    /// What its worker had taken of the device's publications when it was found out what its packets go through together with others'.
    pub(crate) known: u64,
    /// Without this, seats would lie a power of two apart, and what each burst reads of all of them would share a sixteenth of a cache.
    _apart: [u8; LINE],
}

const _: () = assert!(!size_of::<Seat>().is_power_of_two());

/// Seats on their way; they are large, and move from place to place.
pub(crate) type Seats = Vec<Box<Seat>>;

impl Seat {
    /// Asks the processor for memory that a visit will need.
    #[inline]
    pub(crate) fn ask_for(&self, what: Ahead) {
        if what == Ahead::Own {
            prefetch_value(&self.is_watched);
        }
        self.worker.ask_for(what);
    }

    pub(crate) fn new(slot: Slot, serial: u64, worker: switch::Worker) -> Seat {
        Seat {
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

    /// Passes for which so many of its packets may start over in a burst: those that came first allow for some whatever comes, and what a visit before has left is there still.
    pub(crate) fn most_passes(&self, burst: u64, packets: usize) -> u32 {
        let all = most_passes(packets);
        match self.visited == burst {
            true => (all - most_passes(0)).saturating_add(self.passes_left),
            false => all,
        }
    }

    /// Passes of its packets so far after their first.
    pub(crate) fn passes(&self) -> u64 {
        let ledger = self.worker.ledger();
        ledger.resubmitted + ledger.recirculated
    }
}

/// For a worker.
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) root: Arc<Root>,
    pub(crate) fairness: Option<Fairness>,
    /// Seats that it has not taken yet.
    pub(crate) arrivals: Seats,
}

/// For the control side.
#[derive(Default)]
pub(crate) struct Told {
    /// Packets that were no vPDP's.
    pub(crate) ledger: Ledger,
    /// Packets that went over links between virtual ports.
    pub(crate) linked: u64,
    /// Seats that are not needed any more, and hold no packets.
    pub(crate) gone: Seats,
}

/// Wakes a worker's thread.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// Between the control side and one worker.
#[derive(Default)]
pub(crate) struct Desk {
    published: Mutex<Published>,
    /// The bell of the worker's thread, which workers of all vPDPs have in common.
    pub(crate) bell: Arc<Bell>,
    /// How often something was published.
    version: AtomicU64,
    told: Mutex<Told>,
    /// Whether the worker is no more.
    is_closed: AtomicBool,
    /// Whether a packet was handed over to one of the worker's seats.
    is_called: AtomicBool,
    wake: OnceLock<Wake>,
}

impl Desk {
    /// What is published, for the control side: it may wait.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Published)) {
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut published);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Whether another version than this one is published.
    #[inline]
    pub(crate) fn has_published(&self, version: u64) -> bool {
        self.version.load(Ordering::Acquire) != version
    }

    /// What is published, and its version, for the worker: it does not wait.
    pub(crate) fn take(&self, version: &mut u64) -> Option<MutexGuard<'_, Published>> {
        let newest = self.version.load(Ordering::Acquire);
        let published = unless_held(&self.published)?;
        *version = newest;
        Some(published)
    }

    /// What the worker told, for the control side.
    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for the worker, unless the control side reads right now.
    pub(crate) fn tell(&self) -> Option<MutexGuard<'_, Told>> {
        unless_held(&self.told)
    }

    pub(crate) fn wake_by(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    /// A packet was handed over to one of the worker's seats.
    pub(crate) fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    pub(crate) fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Acquire)
    }

    /// Whether it was called since the last time.
    pub(crate) fn answer(&self) -> bool {
        self.is_called() && self.is_called.swap(false, Ordering::AcqRel)
    }

    /// The worker goes. The seats that it had not taken stay here.
    pub(crate) fn close(&self, seats: impl Iterator<Item = Box<Seat>>) {
        self.told().gone.extend(seats);
        self.is_closed.store(true, Ordering::Release);
    }

    /// The seats that have come back. What nobody will take comes back too.
    pub(crate) fn come_back(&self) -> Seats {
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
