//! On which core a thread runs.

use super::sys;
use std::io;

/// Lets the calling thread run on the `number`th (from 0) of the cores that it may run on, and on no other; says which core that is. Linux 2.6.
///
/// # Errors
/// There are not so many, or the operating system refuses.
pub fn pin_to_core(number: usize) -> io::Result<usize> {
    sys::pin_to_core(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core_left() {
        let pinned = std::thread::spawn(|| {
            let core = pin_to_core(0).unwrap();
            assert_eq!(pin_to_core(0).unwrap(), core);
            assert_eq!(pin_to_core(1).unwrap_err().kind(), io::ErrorKind::NotFound);
        });
        pinned.join().unwrap();
    }
}
