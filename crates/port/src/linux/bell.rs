//! Wake-up descriptor (eventfd): wakes a thread that polls descriptors. It needs no system call
//! while the thread is awake.

use super::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst, fence};

/// The thread is not waiting.
const AWAKE: u8 = 0;
/// The thread waits, or is about to wait.
const ASLEEP: u8 = 1;
/// The thread waits and has been notified.
const RUNG: u8 = 2;

/// Wakes one thread. A producer queues work and calls [`Bell::ring`]. The thread calls
/// [`Bell::before_sleep`], checks its queues once more, and then waits.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    state: AtomicU8,
}

impl Bell {
    /// Creates the wake-up descriptor of a thread that is awake.
    ///
    /// # Errors
    /// Those of the operating system, such as too many descriptors.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell {
            fd: sys::event_fd()?,
            state: AtomicU8::new(AWAKE),
        })
    }

    /// Wakes the thread if it waits. Afterwards the thread sees everything queued before.
    #[inline]
    pub fn ring(&self) {
        // The fences of both sides order two store-load pairs. The producer queues work, then
        // loads the state. The thread stores the state, then checks its queues. At least one sees
        // the other's store.
        fence(SeqCst);
        if self.state.load(SeqCst) == ASLEEP
            && self
                .state
                .compare_exchange(ASLEEP, RUNG, SeqCst, SeqCst)
                .is_ok()
        {
            sys::count_up(&self.fd);
        }
    }

    /// Announces that the thread is about to wait. Returns the descriptor that becomes readable
    /// when `ring` is called from now on. The caller must check its queues once more afterwards.
    pub fn before_sleep(&self) -> BorrowedFd<'_> {
        self.state.store(ASLEEP, SeqCst);
        fence(SeqCst);
        self.fd.as_fd()
    }

    /// Announces that the thread is awake.
    #[inline]
    pub fn after_sleep(&self) {
        // A `ring` may come between both steps. Then the thread wakes once for nothing.
        if self.state.load(SeqCst) != AWAKE && self.state.swap(AWAKE, SeqCst) != AWAKE {
            sys::take_count(&self.fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Poller;
    use std::time::Duration;

    #[test]
    fn a_bell_wakes_who_sleeps_and_leaves_alone_who_does_not() {
        let bell = Bell::new().unwrap();
        let mut poller = Poller::new();
        let mut sleep = |ms| {
            let fd = bell.before_sleep();
            poller.wait([fd], Duration::from_millis(ms)).unwrap()
        };
        bell.ring();
        assert_eq!(sleep(1), 0, "rung while awake");
        bell.ring();
        bell.ring();
        assert_eq!(sleep(10_000), 1);
        bell.after_sleep();
        assert_eq!(sleep(1), 0);
        bell.after_sleep();
    }

    #[test]
    fn nothing_that_is_left_is_slept_over() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        const LEFT: u32 = 20_000;
        let (bell, left) = (Bell::new().unwrap(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..LEFT {
                    left.fetch_add(1, SeqCst);
                    bell.ring();
                }
            });
            let mut poller = Poller::new();
            while left.load(SeqCst) < LEFT {
                let seen = left.load(SeqCst);
                let fd = bell.before_sleep();
                if left.load(SeqCst) == seen && seen < LEFT {
                    let woken = poller.wait([fd], Duration::from_secs(20)).unwrap();
                    assert_eq!(woken, 1);
                }
                bell.after_sleep();
            }
        });
    }
}
