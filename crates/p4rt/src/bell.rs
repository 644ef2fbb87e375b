//! What wakes a loop that waits for descriptors: a byte in a socket pair, and a flag that says that it is there, so that a loop that does not wait
//! makes no system call.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bell: who rings it, all on one thread, and who hears it.
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

/// Rings.
pub(crate) struct Rope {
    stream: UnixStream,
    is_rung: Arc<AtomicBool>,
}

impl Rope {
    /// To be called behind putting something where the other side looks.
    pub(crate) fn ring(&self) {
        if !self.is_rung.load(Ordering::SeqCst) {
            // The byte comes before the flag, or the other side might take the flag and leave the byte. A full socket pair wakes as well.
            let _ = (&self.stream).write(&[0]);
            self.is_rung.store(true, Ordering::SeqCst);
        }
    }
}

/// Hears.
pub(crate) struct Ear {
    stream: UnixStream,
    is_rung: Arc<AtomicBool>,
}

impl Ear {
    /// To be called before looking for what was put.
    pub(crate) fn hear(&mut self) {
        if self.is_rung.load(Ordering::SeqCst) {
            // What is there is one byte.
            let _ = self.stream.read(&mut [0; 8]);
            self.is_rung.store(false, Ordering::SeqCst);
        }
    }

    /// Readable when it was rung and not heard.
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
