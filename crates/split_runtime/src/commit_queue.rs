//! Commits of the whole device that wait for the planes, and for the storage of its state.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};

use support::wakeup::WakeupFd;
use switch::{Batch, Done, Storage, StorageError};

/// Commit that has not ended.
pub(crate) struct Commit {
    done: Done,
    /// Result of storing it, if the state is stored.
    stored: Option<Receiver<Result<(), StorageError>>>,
}

impl Commit {
    /// Returns the result of storing the commit, once it is there.
    fn take_stored(&mut self) -> Option<Result<(), StorageError>> {
        let Some(stored) = &self.stored else {
            return Some(Ok(()));
        };
        let result = match stored.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(StorageError {
                is_full: false,
                message: "what keeps the state has ended".to_owned(),
            }),
        };
        if result.is_ok() {
            self.stored = None;
        }
        Some(result)
    }
}

/// Commits since they were last taken.
#[derive(Clone, Default)]
pub(crate) struct CommitQueue(Arc<Mutex<Vec<Commit>>>);

impl CommitQueue {
    /// Returns the storage of the whole device. It ends no commit itself. Batches go on to `store`;
    /// its results wake the loop up.
    pub(crate) fn storage(
        &self,
        store: Option<Box<dyn Storage>>,
        wakeup: Arc<WakeupFd>,
    ) -> Box<dyn Storage> {
        Box::new(CommitStorage {
            queue: self.clone(),
            store,
            wakeup,
        })
    }

    /// Takes the commits since the last call.
    pub(crate) fn take(&self) -> Vec<Commit> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting)
    }
}

struct CommitStorage {
    queue: CommitQueue,
    store: Option<Box<dyn Storage>>,
    wakeup: Arc<WakeupFd>,
}

impl Storage for CommitStorage {
    fn append(&mut self, batch: Batch, done: Done) {
        let stored = self.store.as_mut().map(|store| {
            let (sender, receiver) = channel();
            let wakeup = Arc::clone(&self.wakeup);
            store.append(
                batch,
                Box::new(move |result| {
                    // The commit may have failed already.
                    let _ = sender.send(result);
                    wakeup.wake();
                }),
            );
            receiver
        });
        let mut waiting = self.queue.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Commit { done, stored });
    }
}

/// Commits in order, each with what it waits for.
pub(crate) struct WaitingCommits<T> {
    commits: VecDeque<(T, Commit)>,
}

impl<T> Default for WaitingCommits<T> {
    fn default() -> Self {
        WaitingCommits {
            commits: VecDeque::new(),
        }
    }
}

impl<T> WaitingCommits<T> {
    pub(crate) fn push(&mut self, waits_for: T, commit: Commit) {
        self.commits.push_back((waits_for, commit));
    }

    /// Ends the commits at the front that are stored and for which `is_over` is true. If one cannot
    /// be stored, all fail.
    pub(crate) fn finish(&mut self, is_over: impl Fn(&T) -> bool) {
        while let Some((waits_for, commit)) = self.commits.front_mut() {
            match commit.take_stored() {
                Some(Err(error)) => return self.fail(&error),
                Some(Ok(())) if is_over(waits_for) => {}
                _ => return,
            }
            if let Some((_, commit)) = self.commits.pop_front() {
                (commit.done)(Ok(()));
            }
        }
    }

    /// Fails all commits. They are undone together.
    pub(crate) fn fail(&mut self, error: &StorageError) {
        for (_, commit) in self.commits.drain(..) {
            (commit.done)(Err(error.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Ended = Arc<Mutex<Vec<(u32, bool)>>>;

    fn commit(ended: &Ended, number: u32) -> Commit {
        let ended = Arc::clone(ended);
        Commit {
            done: Box::new(move |result| ended.lock().unwrap().push((number, result.is_ok()))),
            stored: None,
        }
    }

    #[test]
    fn commits_end_in_order_when_they_are_stored_and_the_planes_have_them() {
        let ended = Ended::default();
        let mut waiting = WaitingCommits::default();
        waiting.push(1, commit(&ended, 1));
        let (store, stored) = channel();
        let second = Commit {
            stored: Some(stored),
            ..commit(&ended, 2)
        };
        waiting.push(2, second);
        waiting.push(3, commit(&ended, 3));
        waiting.finish(|number| *number < 1);
        assert_eq!(ended.lock().unwrap()[..], []);
        waiting.finish(|_| true);
        assert_eq!(ended.lock().unwrap()[..], [(1, true)]);
        store.send(Ok(())).unwrap();
        waiting.finish(|number| *number < 2);
        waiting.finish(|number| *number < 3);
        assert_eq!(ended.lock().unwrap()[..], [(1, true), (2, true)]);
        waiting.fail(&StorageError {
            is_full: false,
            message: "a server refused".to_owned(),
        });
        assert_eq!(ended.lock().unwrap().last(), Some(&(3, false)));
    }

    #[test]
    fn commits_behind_one_that_cannot_be_stored_fail_as_well() {
        let ended = Ended::default();
        let mut waiting = WaitingCommits::default();
        let (store, stored) = channel();
        let first = Commit {
            stored: Some(stored),
            ..commit(&ended, 1)
        };
        waiting.push((), first);
        waiting.push((), commit(&ended, 2));
        drop(store);
        waiting.finish(|()| true);
        assert_eq!(ended.lock().unwrap()[..], [(1, false), (2, false)]);
    }
}
