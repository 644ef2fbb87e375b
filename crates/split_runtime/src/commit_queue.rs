//! Commits of the whole device that wait for the planes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use switch::{Batch, Done, Storage, StorageError};

/// Storage of the whole device, which ends no commit itself: commits end when the planes have the
/// changes.
#[derive(Clone, Default)]
pub(crate) struct CommitQueue(Arc<Mutex<Vec<Done>>>);

impl CommitQueue {
    /// Takes the commits since the last call.
    pub(crate) fn take(&self) -> Vec<Done> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting)
    }
}

impl Storage for CommitQueue {
    fn append(&mut self, _: Batch, done: Done) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(done);
    }
}

/// Commits in order, each with what it waits for.
pub(crate) struct WaitingCommits<T> {
    commits: VecDeque<(T, Done)>,
}

impl<T> Default for WaitingCommits<T> {
    fn default() -> Self {
        WaitingCommits {
            commits: VecDeque::new(),
        }
    }
}

impl<T> WaitingCommits<T> {
    pub(crate) fn push(&mut self, waits_for: T, done: Done) {
        self.commits.push_back((waits_for, done));
    }

    /// Ends the commits at the front for which `is_over` is true.
    pub(crate) fn finish(&mut self, is_over: impl Fn(&T) -> bool) {
        while let Some((waits_for, _)) = self.commits.front()
            && is_over(waits_for)
            && let Some((_, done)) = self.commits.pop_front()
        {
            done(Ok(()));
        }
    }

    /// Fails all commits. They are undone together.
    pub(crate) fn fail(&mut self, message: &str) {
        for (_, done) in self.commits.drain(..) {
            done(Err(StorageError {
                is_full: false,
                message: message.to_owned(),
            }));
        }
    }
}
