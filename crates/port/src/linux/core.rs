//! On which cores a thread runs.

use super::sys;
use std::io;

/// Cores that threads may run on, by the numbers that the operating system gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores(Vec<usize>);

impl Cores {
    /// Those that the calling thread may run on. Linux 2.6.
    ///
    /// # Errors
    /// The operating system does not say.
    pub fn allowed() -> io::Result<Cores> {
        sys::allowed_cores().map(Cores)
    }

    /// Lets the calling thread, and those that it starts from then on, run on these and on no others; the others may be those that it was kept off
    /// before. Linux 2.6.
    ///
    /// # Errors
    /// There are none, or the operating system refuses.
    pub fn keep_to(&self) -> io::Result<()> {
        sys::keep_to_cores(&self.0)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The `number`th of them, from 0, for itself.
    pub fn nth(&self, number: usize) -> Option<Cores> {
        self.0.get(number).map(|&core| Cores(vec![core]))
    }

    /// Those behind the first so many.
    pub fn behind(&self, first: usize) -> Cores {
        Cores(self.0.iter().skip(first).copied().collect())
    }

    /// The number of the core, if it is one.
    pub fn only(&self) -> Option<usize> {
        match self.0[..] {
            [core] => Some(core),
            _ => None,
        }
    }
}

/// Lets the calling thread run on the `number`th (from 0) of the cores that it may run on, and on no other. Linux 2.6.
///
/// # Errors
/// There are not so many, or the operating system refuses.
pub fn pin_to_core(number: usize) -> io::Result<()> {
    let core = Cores::allowed()?.nth(number);
    core.ok_or(io::ErrorKind::NotFound)?.keep_to()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a thread says of itself, which keeps to other cores than the one that tests.
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
