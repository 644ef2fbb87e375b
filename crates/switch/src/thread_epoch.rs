//! Epoch of a worker thread. A device that publishes something for a worker, or needs the worker to
//! be outside a burst, increments the epoch. The thread reads one counter before each burst,
//! however many devices it serves. It checks its devices only when the counter has changed.
//!
//! For a barrier, a device sets its barrier flag, increments the epoch, and waits until the thread
//! has quiesced ([`ThreadEpoch::has_let_go`]). The thread first stores the mask of the devices that
//! it processes, then reads the epoch. Both sides use `SeqCst`. So either the thread sees the new
//! epoch and checks the device before it touches its packets, or the device sees that the thread is
//! active.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Bit mask of devices. Several devices may share a bit. A barrier of one of them then waits for
/// bursts of the others too, which is a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMask(u64);

impl DeviceMask {
    /// Returns the mask of the device with this number on its threads.
    pub fn of(number: u32) -> DeviceMask {
        DeviceMask(1 << (number % u64::BITS))
    }

    /// Returns the union of both masks.
    pub fn and(self, others: DeviceMask) -> DeviceMask {
        DeviceMask(self.0 | others.0)
    }
}

/// Epoch of a thread.
#[derive(Debug, Default)]
pub struct ThreadEpoch {
    /// Current epoch, written by devices.
    rings: Line,
    /// Words that only the thread writes.
    thread: Thread,
    /// Time at which the last barrier ended, written by devices.
    free: Mutex<Option<Instant>>,
}

/// Counter in separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The thread's words, in separate cache lines: bursts of other threads do not wait for writes
/// here.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Thread {
    /// Last epoch that the thread has seen.
    heard: AtomicU64,
    /// Mask of the devices that the thread is processing.
    at_work: AtomicU64,
}

impl ThreadEpoch {
    /// Increments the epoch and returns the new value.
    pub(crate) fn ring(&self) -> u64 {
        self.rings.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Records the end of a barrier.
    pub(crate) fn set_free(&self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = Some(Instant::now());
    }

    /// Returns the time at which the last barrier ended, if there was one.
    pub(crate) fn free_since(&self) -> Option<Instant> {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the thread as active for these devices, and for no others.
    #[inline]
    pub(crate) fn begin(&self, whose: DeviceMask) {
        self.thread.at_work.store(whose.0, Ordering::SeqCst);
    }

    /// Marks the thread as inactive.
    pub fn end(&self) {
        self.thread.at_work.store(0, Ordering::Release);
    }

    /// Marks the thread as active for these devices, and for no others. Returns true if the epoch
    /// has changed since `last`: the thread must then check all devices again before it touches any
    /// packet.
    #[inline]
    pub fn listen(&self, whose: DeviceMask, last: &mut u64) -> bool {
        self.begin(whose);
        let rings = self.rings.0.load(Ordering::SeqCst);
        let has_rung = rings != *last;
        if has_rung {
            *last = rings;
            self.thread.heard.store(rings, Ordering::SeqCst);
        }
        has_rung
    }

    /// Returns true if the thread is not processing packets of a device with this mask, or has seen
    /// this epoch.
    pub(crate) fn has_let_go(&self, mark: DeviceMask, ring: u64) -> bool {
        self.thread.at_work.load(Ordering::SeqCst) & mark.0 == 0
            || self.thread.heard.load(Ordering::SeqCst) >= ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_waits_for_a_burst_with_its_own_packets_until_the_thread_has_heard_it() {
        let (bell, mut last) = (ThreadEpoch::default(), 0);
        let (own, other) = (DeviceMask::of(3), DeviceMask::of(4));
        assert!(!bell.listen(own.and(DeviceMask::of(5)), &mut last));
        let ring = bell.ring();
        assert!(bell.has_let_go(other, ring));
        assert!(!bell.has_let_go(own, ring));
        // The next burst sees the new epoch, whichever device it is for, and checks all devices
        // again.
        assert!(bell.listen(own, &mut last));
        assert!(bell.has_let_go(own, ring));
        assert!(!bell.listen(own, &mut last));
        let ring = bell.ring();
        assert!(!bell.has_let_go(own, ring));
        bell.end();
        assert!(bell.has_let_go(own, ring));
    }
}
