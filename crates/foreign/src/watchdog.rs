//! Watchdog: a thread that ends the process if a handler does not end.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::abi::{self, HandlerName, Mark, RunningCall, ThreadClock};
use crate::load::LoadError;

/// Processor time within which a handler ends. Time in which the thread cannot run, because the
/// machine is busy or the process is stopped, is not the handler's.
const LIMIT: Duration = Duration::from_millis(100);

/// Time within which a handler ends that waits and uses no processor time.
const WAIT_LIMIT: Duration = Duration::from_secs(1);

/// Interval in which the threads are observed.
const INTERVAL: Duration = Duration::from_millis(20);

/// Thread on which handlers have run.
struct Watched {
    mark: &'static Mark,
    clock: ThreadClock,
    /// The call that ran at the last observation.
    call: Option<WatchedCall>,
}

/// Call that was running when it was observed.
struct WatchedCall {
    call: RunningCall,
    /// Processor time of the thread at the first observation.
    began: Duration,
    /// Sum of the intervals since then. An interval in which the process was stopped counts once.
    waited: Duration,
}

/// Threads, and marks of those that have ended.
#[derive(Default)]
struct Threads {
    watched: Vec<Watched>,
    unused: Vec<&'static Mark>,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    watched: Vec::new(),
    unused: Vec::new(),
});

fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mark of a thread. The thread is no longer watched when it is dropped.
struct MarkLease(&'static Mark);

impl Drop for MarkLease {
    fn drop(&mut self) {
        let mut threads = threads();
        threads
            .watched
            .retain(|watched| !std::ptr::eq(watched.mark, self.0));
        threads.unused.push(self.0);
    }
}

thread_local! {
    static LEASE: OnceCell<MarkLease> = const { OnceCell::new() };
}

/// Returns the mark of this thread. From now on the thread is watched, if it has a clock.
pub(crate) fn mark_of_thread() -> &'static Mark {
    let new = || {
        let mut threads = threads();
        let unused = threads.unused.pop();
        let mark = unused.unwrap_or_else(|| Box::leak(Box::default()));
        threads
            .watched
            .extend(ThreadClock::of_thread().map(|clock| Watched {
                mark,
                clock,
                call: None,
            }));
        MarkLease(mark)
    };
    // A handler that runs while the thread ends is not watched.
    LEASE
        .try_with(|lease| lease.get_or_init(new).0)
        .unwrap_or_else(|_| Box::leak(Box::default()))
}

/// Returns the name for the marks of a handler.
pub(crate) fn name_of_handler(name: &str) -> &'static HandlerName {
    static NAMES: Mutex<BTreeMap<String, &'static HandlerName>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names
        .entry(name.to_owned())
        .or_insert_with(|| Box::leak(Box::new(HandlerName(name.to_owned()))))
}

/// Starts the watchdog, once in a process.
///
/// # Errors
/// The operating system provides no thread.
pub(crate) fn start() -> Result<(), LoadError> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        let watchdog = thread::Builder::new().name("c-watchdog".to_owned());
        let started = watchdog.spawn(|| {
            loop {
                thread::sleep(INTERVAL);
                threads().watched.iter_mut().for_each(Watched::observe);
            }
        });
        started.map(drop).map_err(|error| error.to_string())
    });
    started.clone().map_err(|error| LoadError::Loader {
        message: format!("there is no thread that watches it: {error}"),
    })
}

impl Watched {
    /// Ends the process if the call that runs has run for too long.
    fn observe(&mut self) {
        let (Some(running), Some(used)) = (self.mark.running(), self.clock.now()) else {
            self.call = None;
            return;
        };
        match &mut self.call {
            Some(watched) if watched.call == running => {
                watched.waited += INTERVAL;
                let ran = used.saturating_sub(watched.began);
                let limit: &[u8] = match (ran >= LIMIT, watched.waited >= WAIT_LIMIT) {
                    (true, _) => b"100 ms of processor time",
                    (false, true) => b"1 s",
                    (false, false) => return,
                };
                // It may have ended since then.
                if self.mark.running() == Some(running) {
                    abi::end_process(running, &[b"did not end within ", limit]);
                }
            }
            _ => {
                self.call = Some(WatchedCall {
                    call: running,
                    began: used,
                    waited: Duration::ZERO,
                });
            }
        }
    }
}
