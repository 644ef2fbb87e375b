//! Cancellation of calls: work is cancelled if its client no longer waits for the answer.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::pipeline::lock;

type Cancel = Box<dyn FnOnce() + Send>;

/// Handle of a client that waits for an answer. Clones share the same state.
#[derive(Clone, Default)]
pub(crate) struct Caller(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_gone: bool,
    cancel: Option<Cancel>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

impl Caller {
    /// Registers `cancel`, to be called if the client goes away before the answer. If it has
    /// already gone, `cancel` is called immediately. A later registration replaces an earlier one.
    pub(crate) fn when_gone(&self, cancel: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.0);
        match state.is_gone {
            false => state.cancel = Some(Box::new(cancel)),
            true => {
                drop(state);
                cancel();
            }
        }
    }

    fn go(&self) {
        let mut state = lock(&self.0);
        state.is_gone = true;
        let cancel = state.cancel.take();
        drop(state);
        if let Some(cancel) = cancel {
            cancel();
        }
    }
}

/// Guard of a call in progress. It is dropped with the call's future if the client cancels the
/// call, the deadline expires or the connection is lost.
#[derive(Debug, Default)]
pub(crate) struct Call(Caller);

impl Call {
    /// Returns the handle of the client.
    pub(crate) fn caller(&self) -> Caller {
        self.0.clone()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.go();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn work_is_cancelled_when_the_call_ends_before_or_after_it_begins() {
        let count = Arc::new(AtomicU32::new(0));
        let cancel = || {
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(1, Relaxed);
            }
        };
        let call = Call::default();
        let caller = call.caller();
        caller.when_gone(cancel());
        assert_eq!(count.load(Relaxed), 0);
        drop(call);
        assert_eq!(count.load(Relaxed), 1);
        caller.when_gone(cancel());
        assert_eq!(count.load(Relaxed), 2);
    }
}
