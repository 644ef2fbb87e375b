//! CPU affinity of threads.

use super::sys;
use std::io;

/// A set of cores, by the operating system's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// Returns the cores on which the calling thread may run. Linux 2.6.
    ///
    /// # Errors
    /// The operating system does not report them.
    pub fn allowed() -> io::Result<Cores> {
        sys::allowed_cores().map(Cores)
    }

    /// Restricts the calling thread, and threads that it starts later, to these cores. The set may
    /// include cores that the thread was excluded from before. Linux 2.6.
    ///
    /// # Errors
    /// The set is empty, or the operating system refuses.
    pub fn keep_to(&self) -> io::Result<()> {
        sys::keep_to_cores(&self.0)
    }

    /// Returns the number of cores.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a set of the `number`-th core, from 0.
    pub fn nth(&self, number: usize) -> Option<Cores> {
        self.0.get(number).map(|&core| Cores(vec![core]))
    }

    /// Returns the set without its first `first` cores.
    pub fn behind(&self, first: usize) -> Cores {
        Cores(self.0.iter().skip(first).copied().collect())
    }

    /// Returns the core's number if the set has exactly one.
    pub fn only(&self) -> Option<usize> {
        match self.0[..] {
            [core] => Some(core),
            _ => None,
        }
    }
}

/// Restricts the calling thread to the `number`-th (from 0) of the cores on which it may run.
/// Linux 2.6.
///
/// # Errors
/// There are fewer cores, or the operating system refuses.
pub fn pin_to_core(number: usize) -> io::Result<()> {
    let core = Cores::allowed()?.nth(number);
    core.ok_or(io::ErrorKind::NotFound)?.keep_to()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` on a separate thread, so that the test's own affinity does not change. Returns
    /// its result.
    fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn a_pinned_thread_has_one_core_left() {
        on_a_thread(|| {
            pin_to_core(0).unwrap();
            let core = Cores::allowed().unwrap();
            assert!(core.only().is_some());
            pin_to_core(0).unwrap();
            assert_eq!(Cores::allowed().unwrap(), core);
            assert_eq!(pin_to_core(1).unwrap_err().kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn threads_inherit_where_they_may_run_and_may_go_back_to_where_others_may() {
        on_a_thread(|| {
            let all = Cores::allowed().unwrap();
            let last = all.nth(all.count() - 1).unwrap();
            assert_eq!(all.behind(all.count() - 1), last);
            last.keep_to().unwrap();
            let (inherited, back) = on_a_thread(|| {
                let inherited = Cores::allowed().unwrap();
                all.keep_to().unwrap();
                (inherited, Cores::allowed().unwrap())
            });
            assert_eq!(inherited, last);
            assert_eq!(back, all);
        });
    }

    #[test]
    fn a_thread_cannot_be_kept_to_no_core() {
        assert!(Cores::default().keep_to().is_err());
    }
}
