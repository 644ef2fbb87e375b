//! Runs code that may panic or never end: on a thread with a deep stack, under a time limit.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

/// The stack that the `polyplane` command runs on.
const STACK_BYTES: usize = 512 << 20;

/// What may go wrong with guarded code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It panicked.
    Panic {
        /// File and line.
        place: String,
        /// What it said.
        message: String,
    },
    /// It ran longer than the limit; its thread is left behind.
    TimeLimit,
}

thread_local! {
    /// Set on guarded threads: where the last panic is kept instead of printed.
    static LAST_PANIC: RefCell<Option<Option<Trouble>>> = const { RefCell::new(None) };
}

/// Runs `code`, and gives what it returns.
pub(crate) fn guarded<R: Send + 'static>(
    limit: Duration,
    code: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Trouble> {
    keep_panics();
    let (sender, receiver) = channel();
    let work = move || {
        LAST_PANIC.set(Some(None));
        let result = catch_unwind(AssertUnwindSafe(code)).map_err(|_| last_panic());
        // Nobody listens any more when the limit has passed.
        let _ = sender.send(result);
    };
    let spawned = Builder::new().stack_size(STACK_BYTES).spawn(work);
    let worker = spawned.expect("the system has room for a thread");
    match receiver.recv_timeout(limit) {
        Ok(result) => {
            let _ = worker.join();
            result
        }
        Err(RecvTimeoutError::Timeout) => Err(Trouble::TimeLimit),
        Err(RecvTimeoutError::Disconnected) => Err(Trouble::Panic {
            place: "unknown".into(),
            message: "the thread ended".into(),
        }),
    }
}

fn last_panic() -> Trouble {
    let kept = LAST_PANIC.with_borrow_mut(|kept| kept.as_mut().and_then(Option::take));
    kept.unwrap_or(Trouble::Panic {
        place: "unknown".into(),
        message: String::new(),
    })
}

/// A panic's message, which is a text of one of two kinds.
fn said(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_default()
}

/// Makes panics of guarded threads quiet; all others are told as before.
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
        let endless = guarded(Duration::from_millis(10), move || {
            std::thread::sleep(second);
        });
        assert_eq!(endless, Err(Trouble::TimeLimit));
    }
}
