//! Runs code that may panic or never end. It runs on a thread with a deep stack and a limit on the
//! thread's own processor time. So a busy machine causes no false findings.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::Fault;
use rustix::time::{ClockId, clock_gettime};

/// Stack size; the `polyplane` command uses the same.
const STACK_BYTES: usize = 512 << 20;

/// Code that uses no processor time for this many limits is blocked forever.
const PATIENCE: u32 = 50;

/// Maximum number of bytes that a guarded thread may hold at a time.
pub(crate) const MAX_BYTES: u64 = 500 << 20;

/// Failure of guarded code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It panicked.
    Panic {
        /// File and line.
        place: String,
        /// The panic message.
        message: String,
    },
    /// It used more time than the limit. If it does not end, its thread continues to run.
    TimeLimit,
    /// Its thread held more than [`MAX_BYTES`] bytes at a time.
    MemoryLimit(u64),
}

impl Trouble {
    /// Converts the failure to a fault of an activity `what`, such as "reading IR".
    pub(crate) fn fault(self, what: &str) -> Fault {
        match self {
            Trouble::TimeLimit => Fault::new("time limit", format!("{what} takes too long")),
            Trouble::MemoryLimit(bytes) => {
                Fault::new("memory limit", format!("{what} takes {bytes} bytes"))
            }
            Trouble::Panic { place, message } => {
                Fault::new(format!("panic at {place}"), format!("{what}: {message}"))
            }
        }
    }
}

thread_local! {
    /// Set on guarded threads: stores the last panic instead of printing it.
    static LAST_PANIC: RefCell<Option<Option<Trouble>>> = const { RefCell::new(None) };
}

/// Runs `code` in a guarded thread and returns its result.
pub(crate) fn guarded<R: Send + 'static>(
    limit: Duration,
    code: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Trouble> {
    keep_panics();
    let (sender, receiver) = channel();
    let (names, name) = channel();
    let work = move || {
        let _ = names.send(std::fs::read_link("/proc/thread-self").ok());
        LAST_PANIC.set(Some(None));
        let mut result = Err(Trouble::TimeLimit);
        let held = allocation_counter::measure(|| {
            result = catch_unwind(AssertUnwindSafe(code)).map_err(|_| last_panic());
        });
        if held.bytes_max > MAX_BYTES && result.is_ok() {
            result = Err(Trouble::MemoryLimit(held.bytes_max));
        }
        // The receiver is dropped when the limit has passed.
        let _ = sender.send((result, own_time()));
    };
    let spawned = Builder::new().stack_size(STACK_BYTES).spawn(work);
    let worker = spawned.expect("the system has room for a thread");
    let name = name.recv().ok().flatten();
    let began = Instant::now();
    let mut wait = limit;
    loop {
        match receiver.recv_timeout(wait) {
            Ok((result, used)) => {
                let _ = worker.join();
                return match result {
                    Ok(_) if used > limit => Err(Trouble::TimeLimit),
                    result => result,
                };
            }
            Err(RecvTimeoutError::Timeout) => {
                // If the system cannot report the processor time, the elapsed time counts.
                let used = name.as_deref().and_then(time_of);
                let used = used.unwrap_or_else(|| began.elapsed());
                if used > limit || began.elapsed() > limit * PATIENCE {
                    return Err(Trouble::TimeLimit);
                }
                wait = limit.saturating_sub(used).max(Duration::from_millis(20));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Trouble::Panic {
                    place: "unknown".into(),
                    message: "the thread ended".into(),
                });
            }
        }
    }
}

/// Returns the processor time that this thread has used.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the processor time of another thread of this process, named by its path below `/proc`
/// (proc_pid_stat(5): fields 14 and 15, in ticks).
fn time_of(thread: &Path) -> Option<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = PathBuf::from("/proc").join(thread).join("stat");
    let stat = std::fs::read_to_string(stat).ok()?;
    // The second field, a name in parentheses, may contain any characters.
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let used = ticks()? + ticks()?;
    Some(Duration::from_millis(used * 1000 / TICKS_PER_SECOND))
}

fn last_panic() -> Trouble {
    let kept = LAST_PANIC.with_borrow_mut(|kept| kept.as_mut().and_then(Option::take));
    kept.unwrap_or(Trouble::Panic {
        place: "unknown".into(),
        message: String::new(),
    })
}

/// Returns a panic's message, which has one of two string types.
fn said(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_default()
}

/// Silences panics of guarded threads. All other panics are reported as usual.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map_or("unknown".into(), |place| {
                format!("{}:{}", place.file(), place.line())
            });
            let message = said(info.payload());
            let is_kept = LAST_PANIC.with_borrow_mut(|kept| match kept {
                Some(kept) => {
                    *kept = Some(Trouble::Panic { place, message });
                    true
                }
                None => false,
            });
            if !is_kept {
                usual(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_guarded_code_does_is_told() {
        let second = Duration::from_secs(1);
        assert_eq!(guarded(second, || 5), Ok(5));
        let panicked = guarded(second, || -> u32 { panic!("no") });
        assert!(matches!(&panicked, Err(Trouble::Panic { place, message })
            if place.contains("guard.rs") && message == "no"));
    }

    #[test]
    fn the_limit_is_one_of_the_time_used_not_of_the_time_passed() {
        let limit = Duration::from_millis(40);
        let waits = guarded(limit, move || std::thread::sleep(limit * 5));
        assert_eq!(waits, Ok(()));
        let works = guarded(limit, move || {
            while own_time() < limit * 2 {
                std::hint::spin_loop();
            }
        });
        assert_eq!(works, Err(Trouble::TimeLimit));
        let endless = guarded(limit, || {
            loop {
                std::thread::sleep(Duration::from_micros(10));
            }
        });
        assert_eq!(endless, Err::<(), _>(Trouble::TimeLimit));
    }

    #[test]
    fn the_memory_that_code_holds_at_once_is_limited() {
        let second = Duration::from_secs(1);
        let hold = |bytes: u64| {
            guarded(second, move || {
                drop(Vec::<u8>::with_capacity(bytes as usize));
            })
        };
        assert_eq!(hold(MAX_BYTES / 2), Ok(()));
        let held = hold(MAX_BYTES + 1);
        assert!(matches!(held, Err(Trouble::MemoryLimit(bytes)) if bytes > MAX_BYTES));
    }
}
