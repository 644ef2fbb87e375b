//! Commits of the whole device that wait for the planes.

use std::sync::{Arc, Mutex, PoisonError};

use switch::{Batch, Done, Storage, StorageError};

/// Queue of commits: the storage of the whole device. Commits end when the planes have the changes.
#[derive(Clone, Default)]
pub(crate) struct CommitQueue(Arc<Mutex<Vec<Done>>>);

impl CommitQueue {
    fn take(&self) -> Vec<Done> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting)
    }

    /// Ends all commits so far. An error is the reason why planes do not have the changes.
    pub(crate) fn finish(&self, result: &Result<(), String>) {
        for done in self.take() {
            done(result.clone().map_err(|message| StorageError {
                is_full: false,
                message,
            }));
        }
    }
}

impl Storage for CommitQueue {
    fn append(&mut self, _: Batch, done: Done) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(done);
    }
}
