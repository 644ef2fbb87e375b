//! The bell of a thread that runs workers, one or those of many devices: who leaves something for one of them, or wants it to have no packets in hand, rings it. So the thread looks at one
//! place before a burst, however many devices' packets go in it, and at each device only when it rang.
//!
//! A device that changes what all packets must see at once says that it is held, rings, and then waits until the thread has let go of it ([`Bell::has_let_go`]). The thread says whose packets it
//! takes in hand, and then looks whether it rang. Both are in one order (`SeqCst`): either the thread hears the ring, and asks the device before it touches its packets, or the device sees that the
//! thread is at work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Devices as bits. Several may have the same one: who wants one of them to have no packets in hand waits for those of the others too, for as long as a visit takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u64);

impl Marks {
    /// The mark of a device that has this number among those of its threads.
    pub fn of(number: u32) -> Marks {
        Marks(1 << (number % u64::BITS))
    }

    /// These and those.
    pub fn and(self, others: Marks) -> Marks {
        Marks(self.0 | others.0)
    }
}

/// The bell of a thread.
#[derive(Debug, Default)]
pub struct Bell {
    /// How often it rang: others write it.
    rings: Line,
    /// What the thread alone writes.
    thread: Thread,
    /// Since when no device holds its workers; devices write it.
    free: Mutex<Option<Instant>>,
}

/// A counter in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The same of a thread: no other one's burst waits for what is written here.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Thread {
    /// The last ring that it has heard.
    heard: AtomicU64,
    /// The marks of those whose packets it has in hand.
    at_work: AtomicU64,
}

impl Bell {
    /// Something was left for a worker of the thread. The number of this ring.
    pub(crate) fn ring(&self) -> u64 {
        self.rings.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A device does not hold its worker any more.
    pub(crate) fn set_free(&self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = Some(Instant::now());
    }

    /// Since when no device holds its workers, if any has held one.
    pub(crate) fn free_since(&self) -> Option<Instant> {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread takes packets in hand, and has no others.
    #[inline]
    pub(crate) fn begin(&self, whose: Marks) {
        self.thread.at_work.store(whose.0, Ordering::SeqCst);
    }

    /// It has none any more.
    pub fn end(&self) {
        self.thread.at_work.store(0, Ordering::Release);
    }

    /// The thread takes packets in hand, and has no others. Whether it rang since it last asked: then it asks all devices anew before it touches any.
    #[inline]
    pub fn listen(&self, whose: Marks, last: &mut u64) -> bool {
        self.begin(whose);
        let rings = self.rings.0.load(Ordering::SeqCst);
        let has_rung = rings != *last;
        if has_rung {
            *last = rings;
            self.thread.heard.store(rings, Ordering::SeqCst);
        }
        has_rung
    }

    /// Whether the thread has no packet in hand of a device with this mark that it took before it heard this ring.
    pub(crate) fn has_let_go(&self, mark: Marks, ring: u64) -> bool {
        self.thread.at_work.load(Ordering::SeqCst) & mark.0 == 0
            || self.thread.heard.load(Ordering::SeqCst) >= ring
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_waits_for_a_burst_with_its_own_packets_until_the_thread_has_heard_it() {
        let (bell, mut last) = (Bell::default(), 0);
        let (own, other) = (Marks::of(3), Marks::of(4));
        assert!(!bell.listen(own.and(Marks::of(5)), &mut last));
        let ring = bell.ring();
        assert!(bell.has_let_go(other, ring));
        assert!(!bell.has_let_go(own, ring));
        // The next burst hears it, whoever's that is, and asks all anew.
        assert!(bell.listen(own, &mut last));
        assert!(bell.has_let_go(own, ring));
        assert!(!bell.listen(own, &mut last));
        let ring = bell.ring();
        assert!(!bell.has_let_go(own, ring));
        bell.end();
        assert!(bell.has_let_go(own, ring));
    }
}
