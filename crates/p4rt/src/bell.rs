//! Wake-up descriptor for a loop that waits in `poll`: a byte in a socket pair, and a flag that
//! records that it was sent. A loop that does not wait checks the flag and makes no system call.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Creates a wake-up descriptor. Only one thread may use the write end.
pub(crate) fn bell() -> io::Result<(Rope, Ear)> {
    let (rope, ear) = UnixStream::pair()?;
    rope.set_nonblocking(true)?;
    ear.set_nonblocking(true)?;
    let is_rung = Arc::new(AtomicBool::new(false));
    let rope = Rope {
        stream: rope,
        is_rung: Arc::clone(&is_rung),
    };
    let ear = Ear {
        stream: ear,
        is_rung,
    };
    Ok((rope, ear))
}

/// Write end: wakes the loop.
pub(crate) struct Rope {
    stream: UnixStream,
    is_rung: Arc<AtomicBool>,
}

impl Rope {
    /// Wakes the loop. Must be called after the item has been put where the loop looks for it.
    pub(crate) fn ring(&self) {
        if !self.is_rung.load(Ordering::SeqCst) {
            // The byte is written before the flag is set. Otherwise the reader could clear the flag
            // and miss the byte. If the socket is full, it is readable, so the loop wakes as well.
            let _ = (&self.stream).write(&[0]);
            self.is_rung.store(true, Ordering::SeqCst);
        }
    }
}

/// Read end: belongs to the loop.
pub(crate) struct Ear {
    stream: UnixStream,
    is_rung: Arc<AtomicBool>,
}

impl Ear {
    /// Clears a wake-up. Must be called before the loop looks for items.
    pub(crate) fn hear(&mut self) {
        if self.is_rung.load(Ordering::SeqCst) {
            // At most one byte is pending.
            let _ = self.stream.read(&mut [0; 8]);
            self.is_rung.store(false, Ordering::SeqCst);
        }
    }

    /// Returns the descriptor. It is readable while a wake-up is pending.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn nothing_that_was_put_before_ringing_waits_for_the_next_ring() {
        let (rope, mut ear) = bell().expect("a socket pair");
        let (put, taken) = channel();
        const MANY: u32 = 20_000;
        let putting = std::thread::spawn(move || {
            for number in 0..MANY {
                put.send(number).expect("somebody takes it");
                rope.ring();
                if number % 64 == 0 {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
            rope
        });
        let mut seen = 0;
        let begin = Instant::now();
        while seen < MANY {
            while !ear.is_rung.load(Ordering::SeqCst) {
                assert!(begin.elapsed() < Duration::from_secs(20), "after {seen}");
                std::hint::spin_loop();
            }
            ear.hear();
            seen += taken.try_iter().count() as u32;
        }
        putting.join().expect("it ends");
    }
}
