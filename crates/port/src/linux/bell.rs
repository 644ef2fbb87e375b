//! A bell: what wakes a thread that waits for descriptors, and costs nothing while it is awake.

use super::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst, fence};

/// The thread is not waiting.
const AWAKE: u8 = 0;
/// It waits, or is about to.
const ASLEEP: u8 = 1;
/// It waits, and somebody has rung.
const RUNG: u8 = 2;

/// Wakes one thread. Whoever leaves something for it rings; the thread says when it is about to sleep, then looks once more, and sleeps.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    state: AtomicU8,
}

impl Bell {
    /// A bell of a thread that is awake.
    ///
    /// # Errors
    /// The operating system's, such as too many descriptors.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell {
            fd: sys::event_fd()?,
            state: AtomicU8::new(AWAKE),
        })
    }

    /// Wakes the thread if it sleeps. What was left for it before, it sees.
    #[inline]
    pub fn ring(&self) {
        // What was left comes before this look, what the thread says before its own last one: one of the two sees the other.
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

    /// Says that the thread is about to wait for this descriptor, which becomes readable when somebody rings from now on. What was left before has
    /// to be looked for behind this.
    pub fn before_sleep(&self) -> BorrowedFd<'_> {
        self.state.store(ASLEEP, SeqCst);
        fence(SeqCst);
        self.fd.as_fd()
    }

    /// Says that the thread is awake.
    #[inline]
    pub fn after_sleep(&self) {
        // Somebody may ring between both steps: then the thread wakes once for nothing.
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
