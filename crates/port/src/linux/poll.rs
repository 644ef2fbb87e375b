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
        self.fds.clear();
        self.fds.extend(fds.into_iter().map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }));
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
