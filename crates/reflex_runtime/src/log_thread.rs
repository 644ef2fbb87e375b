//! The disk of a node, with a thread that writes and syncs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use consensus::Persist;
use reflex::{CAPACITY, LogDisk, LogDiskError, StoredNode};
use store::{Directory, LogOwner, LogWrite, RaftLog};
use support::wakeup::WakeupFd;

use crate::error::ProcessError;

/// Time between two attempts of a write that fails.
const RETRY: Duration = Duration::from_millis(100);

/// State that the thread and its owner share.
#[derive(Debug, Default)]
struct Shared {
    /// Number of the last complete write.
    completed: AtomicU64,
    is_ending: AtomicBool,
    error: Mutex<Option<LogDiskError>>,
}

impl Shared {
    fn set_error(&self, error: Option<LogDiskError>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

/// Disk of a node, in a file that a thread of its own writes.
#[derive(Debug)]
pub struct LogThread {
    /// `None` when it ends.
    writes: Option<Sender<(u64, LogWrite)>>,
    shared: Arc<Shared>,
    /// Last complete write that the node knows.
    known: u64,
    thread: Option<JoinHandle<()>>,
}

impl LogThread {
    /// Opens the log of a node in a directory. `wake` wakes the node's thread when a write is
    /// complete or fails.
    ///
    /// # Errors
    /// The directory cannot be used, or the log is damaged or of another node.
    pub fn open(
        dir: &Path,
        owner: LogOwner,
        wake: Arc<WakeupFd>,
    ) -> Result<StoredNode, ProcessError> {
        let directory = Directory::open(dir).map_err(ProcessError::new)?;
        let opened = directory.raft_log(owner, CAPACITY);
        let (log, saved) = opened.map_err(ProcessError::new)?;
        let shared = Arc::new(Shared::default());
        let (writes, taken) = channel();
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("log {}", owner.node))
                .spawn(move || run(log, &taken, &shared, &wake))
        };
        let thread =
            thread.map_err(|error| ProcessError(format!("cannot start a thread: {error}")));
        Ok(StoredNode {
            saved,
            disk: Box::new(LogThread {
                writes: Some(writes),
                shared,
                known: 0,
                thread: Some(thread?),
            }),
        })
    }
}

fn run(mut log: RaftLog, writes: &Receiver<(u64, LogWrite)>, shared: &Shared, wake: &WakeupFd) {
    while let Ok((number, write)) = writes.recv() {
        while let Err(error) = log.write(&write) {
            shared.set_error(Some(LogDiskError {
                is_full: error.is_full,
                message: error.message,
            }));
            wake.wake();
            if shared.is_ending.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(RETRY);
        }
        shared.set_error(None);
        shared.completed.store(number, Ordering::Release);
        wake.wake();
    }
}

impl LogDisk for LogThread {
    fn begin(&mut self, write: &Persist<'_>) {
        if let Some(writes) = &self.writes {
            // The thread ends only after this value.
            let _ = writes.send((write.number, LogWrite::of(write)));
        }
    }

    fn completed(&mut self) -> Option<u64> {
        let number = self.shared.completed.load(Ordering::Acquire);
        let is_new = number > self.known;
        self.known = number;
        is_new.then_some(number)
    }

    fn error(&self) -> Option<LogDiskError> {
        let error = self.shared.error.lock();
        error.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.writes = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has no more to write.
            let _ = thread.join();
        }
    }
}
