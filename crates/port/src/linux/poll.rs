//! Waits for any of several descriptors (`poll`).

use super::sys;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// A reusable set of descriptors to wait for.
#[derive(Default)]
pub struct Poller {
    fds: Vec<libc::pollfd>,
}

impl Poller {
    /// Returns an empty set.
    pub fn new() -> Poller {
        Poller::default()
    }

    /// Waits until one of `fds` is readable or has an error, at most for `timeout`. Returns the
    /// number of such descriptors. A signal ends the wait with 0.
    ///
    /// # Errors
    /// Those of the operating system, such as too many descriptors.
    pub fn wait<'a>(
        &mut self,
        fds: impl IntoIterator<Item = BorrowedFd<'a>>,
        timeout: Duration,
    ) -> io::Result<usize> {
        self.wait_with_room(fds, None, timeout)
    }

    /// Waits as [`Poller::wait`] does, or until `full` takes bytes again. `full` is the last of the
    /// descriptors.
    ///
    /// # Errors
    /// As for [`Poller::wait`].
    pub fn wait_with_room<'a>(
        &mut self,
        fds: impl IntoIterator<Item = BorrowedFd<'a>>,
        full: Option<BorrowedFd<'a>>,
        timeout: Duration,
    ) -> io::Result<usize> {
        let of = |events| {
            move |fd: BorrowedFd<'a>| libc::pollfd {
                fd: fd.as_raw_fd(),
                events,
                revents: 0,
            }
        };
        self.fds.clear();
        self.fds.extend(fds.into_iter().map(of(libc::POLLIN)));
        self.fds.extend(full.map(of(libc::POLLOUT)));
        sys::poll(&mut self.fds, timeout)
    }

    /// Returns true if the `i`-th descriptor of the last [`Poller::wait`] was readable or had an
    /// error.
    pub fn is_ready(&self, i: usize) -> bool {
        self.fds.get(i).is_some_and(|fd| fd.revents != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn waiting_ends_when_a_full_descriptor_takes_bytes_again() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        a.set_nonblocking(true).unwrap();
        while a.write(&[0; 4096]).is_ok() {}
        let mut poller = Poller::new();
        let mut wait = |time| poller.wait_with_room([a.as_fd()], Some(a.as_fd()), time);
        assert_eq!(wait(Duration::from_millis(1)).unwrap(), 0);
        let mut all = vec![0; 1 << 20];
        assert!(std::io::Read::read(&mut b, &mut all).unwrap() > 0);
        assert_eq!(wait(Duration::from_secs(9)).unwrap(), 1);
        assert!(!poller.is_ready(0) && poller.is_ready(1));
    }

    #[test]
    fn waiting_ends_when_a_descriptor_has_something_or_the_time_is_over() {
        let (a, mut b) = UnixStream::pair().unwrap();
        let (c, _d) = UnixStream::pair().unwrap();
        let mut poller = Poller::new();
        let short = Duration::from_millis(1);
        assert_eq!(poller.wait([c.as_fd(), a.as_fd()], short).unwrap(), 0);
        b.write_all(&[1]).unwrap();
        assert_eq!(
            poller
                .wait([c.as_fd(), a.as_fd()], Duration::from_secs(9))
                .unwrap(),
            1
        );
        assert!(!poller.is_ready(0) && poller.is_ready(1) && !poller.is_ready(2));
    }
}
