//! Wake-up descriptor (eventfd): wakes a thread that polls descriptors. Neither side makes a
//! system call while the thread is awake.
//!
//! A producer queues work and calls [`WakeupFd::wake`]. The thread waits in one of two ways:
//!
//! - It announces each wait: [`WakeupFd::before_sleep`], one more look at its queues, the wait,
//!   [`WakeupFd::after_sleep`]. Producers make no system call while it is awake.
//! - The descriptor is always armed ([`WakeupFd::armed`]): the thread polls [`WakeupFd::fd`] when
//!   it likes, and calls [`WakeupFd::rearm`] before each look at its queues. Producers make one
//!   system call per look.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst, fence};

use rustix::event::{EventfdFlags, eventfd};

/// The thread does not wait, and needs no wake-up.
const AWAKE: u8 = 0;
/// The thread waits, or may start to: the next wake-up is signalled.
const ARMED: u8 = 1;
/// A wake-up is signalled, or about to be.
const SIGNALLED: u8 = 2;

/// Descriptor that wakes one thread.
#[derive(Debug)]
pub struct WakeupFd {
    fd: OwnedFd,
    state: AtomicU8,
}

impl WakeupFd {
    /// Creates the descriptor of a thread that is awake and announces its waits.
    ///
    /// # Errors
    /// Those of the operating system, such as too many descriptors.
    pub fn new() -> io::Result<WakeupFd> {
        WakeupFd::with(AWAKE)
    }

    /// Creates a descriptor that is always armed.
    ///
    /// # Errors
    /// Those of the operating system, such as too many descriptors.
    pub fn armed() -> io::Result<WakeupFd> {
        WakeupFd::with(ARMED)
    }

    fn with(state: u8) -> io::Result<WakeupFd> {
        Ok(WakeupFd {
            fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            state: AtomicU8::new(state),
        })
    }

    /// Wakes the thread if it waits. Afterwards the thread sees everything queued before.
    #[inline]
    pub fn wake(&self) {
        // The fences of both sides order two store-load pairs. The producer queues work, then
        // loads the state. The thread stores the state, then checks its queues. At least one sees
        // the other's store.
        fence(SeqCst);
        if self.state.load(SeqCst) == ARMED
            && self
                .state
                .compare_exchange(ARMED, SIGNALLED, SeqCst, SeqCst)
                .is_ok()
        {
            // Fails only at the counter's maximum, where the descriptor is readable as well.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Announces that the thread is about to wait. Returns the descriptor that becomes readable
    /// when `wake` is called from now on. The caller must check its queues once more afterwards.
    pub fn before_sleep(&self) -> BorrowedFd<'_> {
        self.state.store(ARMED, SeqCst);
        fence(SeqCst);
        self.fd.as_fd()
    }

    /// Announces that the thread is awake.
    #[inline]
    pub fn after_sleep(&self) {
        // A `wake` may come between both steps. Then the thread wakes once for nothing.
        if self.state.load(SeqCst) != AWAKE && self.state.swap(AWAKE, SeqCst) != AWAKE {
            self.take_count();
        }
    }

    /// Returns the descriptor. If it is always armed, it is readable from a `wake` to the next
    /// `rearm`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Consumes a wake-up, so that the next one is signalled again. The caller must check its
    /// queues afterwards.
    #[inline]
    pub fn rearm(&self) {
        // A producer changes the state before it writes to the descriptor. Between both steps
        // nothing can be consumed, and the state stays: that write is still to come and wakes the
        // thread again.
        if self.state.load(SeqCst) == SIGNALLED && self.take_count() {
            self.state.store(ARMED, SeqCst);
            fence(SeqCst);
        }
    }

    /// Resets the descriptor's counter to zero. Returns false if it was zero.
    fn take_count(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0u8; 8]).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// Waits until the descriptor is readable. Returns false after the timeout.
    fn is_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).unwrap();
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).unwrap() == 1
    }

    const SOON: Duration = Duration::from_millis(1);
    const LATE: Duration = Duration::from_secs(20);
    const WAKE_UPS: u32 = 20_000;

    #[test]
    fn only_a_thread_that_announced_its_wait_is_signalled() {
        let wakeup = WakeupFd::new().unwrap();
        wakeup.wake();
        assert!(
            !is_readable(wakeup.before_sleep(), SOON),
            "woken while awake"
        );
        wakeup.wake();
        wakeup.wake();
        assert!(is_readable(wakeup.before_sleep(), LATE));
        wakeup.after_sleep();
        assert!(!is_readable(wakeup.before_sleep(), SOON));
        wakeup.after_sleep();
    }

    #[test]
    fn an_armed_descriptor_is_readable_from_a_wake_up_to_the_next_rearm() {
        let wakeup = WakeupFd::armed().unwrap();
        wakeup.rearm();
        assert!(!is_readable(wakeup.fd(), SOON));
        for _ in 0..3 {
            wakeup.wake();
            wakeup.wake();
            assert!(is_readable(wakeup.fd(), LATE));
            wakeup.rearm();
            assert!(!is_readable(wakeup.fd(), SOON));
        }
    }

    #[test]
    fn a_rearm_before_the_signal_is_written_keeps_the_signal() {
        let wakeup = WakeupFd::armed().unwrap();
        // A producer between the two steps of `wake`.
        wakeup.state.store(SIGNALLED, SeqCst);
        wakeup.rearm();
        rustix::io::write(&wakeup.fd, &1u64.to_ne_bytes()).unwrap();
        assert!(is_readable(wakeup.fd(), LATE));
        wakeup.rearm();
        assert!(!is_readable(wakeup.fd(), SOON), "the signal is consumed");
        wakeup.wake();
        assert!(is_readable(wakeup.fd(), LATE), "the next one is signalled");
    }

    /// Two producers count up, and the thread waits whenever it has seen every count.
    fn check_nothing_is_missed(wakeup: &WakeupFd, wait: impl Fn(&dyn Fn() -> bool)) {
        let queued = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..WAKE_UPS {
                        queued.fetch_add(1, SeqCst);
                        wakeup.wake();
                    }
                });
            }
            let mut seen = 0;
            while seen < 2 * WAKE_UPS {
                wait(&|| queued.load(SeqCst) == seen);
                seen = queued.load(SeqCst);
            }
        });
    }

    #[test]
    fn no_work_is_missed_by_a_thread_that_announces_its_waits() {
        let wakeup = WakeupFd::new().unwrap();
        check_nothing_is_missed(&wakeup, |is_idle| {
            let fd = wakeup.before_sleep();
            if is_idle() {
                assert!(is_readable(fd, LATE));
            }
            wakeup.after_sleep();
        });
    }

    #[test]
    fn no_work_is_missed_by_a_thread_that_polls_an_armed_descriptor() {
        let wakeup = WakeupFd::armed().unwrap();
        check_nothing_is_missed(&wakeup, |is_idle| {
            wakeup.rearm();
            if is_idle() {
                assert!(is_readable(wakeup.fd(), LATE));
            }
        });
    }
}
