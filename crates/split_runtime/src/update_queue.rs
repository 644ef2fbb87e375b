//! Updates on their way to a plane: those that wait, and the batches that are sent.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use p4info::p4::v1 as rt;
use p4info::p4::v1::update::Type;
use p4rt::Code;
use p4rt::client::EncodedUpdates;

use crate::connection::{ANSWER_TIME, WriteError};

/// Maximum number of updates in one batch.
const MAX_UPDATES: usize = 10_000;

/// Maximum number of batches that a plane has not answered. While it applies one, the next one is
/// on its way.
const MAX_BATCHES: usize = 2;

/// Kind of an update on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpdateKind {
    /// True if no controller waits for it.
    pub(crate) is_move: bool,
    is_deletion: bool,
}

impl UpdateKind {
    pub(crate) fn of(update: &rt::Update, is_move: bool) -> UpdateKind {
        UpdateKind {
            is_move,
            is_deletion: update.r#type() == Type::Delete,
        }
    }
}

/// Answers of a plane since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// The first refused update of which a controller waits: its number, and the reason.
    pub(crate) refused: Option<(u64, String)>,
    /// The first refused move.
    pub(crate) refused_move: Option<String>,
    /// True if the plane does not answer.
    pub(crate) is_silent: bool,
}

/// Batch that is sent.
struct SentBatch {
    kinds: Vec<UpdateKind>,
    answer: Receiver<Result<(), WriteError>>,
    until: Instant,
}

/// Queue of the updates of a plane. Updates have numbers, from 1 on.
#[derive(Default)]
pub(crate) struct UpdateQueue {
    waiting: VecDeque<(EncodedUpdates, Vec<UpdateKind>)>,
    sent: VecDeque<SentBatch>,
    queued: u64,
    answered: u64,
}

impl UpdateQueue {
    /// Adds updates of these kinds.
    pub(crate) fn push(&mut self, updates: &EncodedUpdates, kinds: &[UpdateKind]) {
        if updates.is_empty() {
            return;
        }
        let last = self.waiting.back_mut();
        let last = last.filter(|(_, kinds)| kinds.len() < MAX_UPDATES);
        match last {
            Some((batch, batch_kinds)) => {
                batch.extend(updates);
                batch_kinds.extend_from_slice(kinds);
            }
            None => self.waiting.push_back((updates.clone(), kinds.to_vec())),
        }
        self.queued += kinds.len() as u64;
    }

    /// Returns the number of the last update.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the number of the last update that is answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    /// Returns true if all updates are answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Forgets all updates: no answer is waited for any more.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.sent.clear();
        self.answered = self.queued;
    }

    /// Sends the updates that the plane can take now.
    pub(crate) fn send(
        &mut self,
        write: impl Fn(EncodedUpdates) -> Receiver<Result<(), WriteError>>,
    ) {
        while self.sent.len() < MAX_BATCHES
            && let Some((updates, kinds)) = self.waiting.pop_front()
        {
            self.sent.push_back(SentBatch {
                kinds,
                answer: write(updates),
                until: Instant::now() + ANSWER_TIME,
            });
        }
    }

    /// Takes the answers that have arrived. Waits for `wait` at most until the next one does.
    pub(crate) fn take_answers(&mut self, name: &str, wait: Duration) -> Answers {
        let mut answers = Answers::default();
        let mut wait = Some(wait);
        while let Some(batch) = self.sent.front() {
            let answer = match wait.take().filter(|wait| !wait.is_zero()) {
                Some(wait) => batch.answer.recv_timeout(wait),
                None => batch.answer.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            };
            if answer == Err(RecvTimeoutError::Timeout) {
                answers.is_silent = Instant::now() >= batch.until;
                return answers;
            }
            let Some(batch) = self.sent.pop_front() else {
                return answers;
            };
            // Without an answer the connection has ended.
            if let Ok(Err(error)) = answer {
                self.note(name, &batch.kinds, error, &mut answers);
            }
            self.answered += batch.kinds.len() as u64;
        }
        answers
    }

    fn note(&self, name: &str, kinds: &[UpdateKind], error: WriteError, answers: &mut Answers) {
        let number = |at: usize| self.answered + at as u64 + 1;
        match error {
            // The plane gets its state when it is connected again.
            WriteError::NotConnected => {}
            WriteError::Batch(error) => {
                let refused = (number(0), format!("{name}: {error}"));
                answers.refused.get_or_insert(refused);
            }
            WriteError::Updates(refused) => {
                for (at, code, error) in refused {
                    let kind = kinds.get(at).copied();
                    // What must go has gone.
                    if kind.is_some_and(|kind| kind.is_deletion) && code == Code::NotFound {
                        continue;
                    }
                    let error = format!("{name}: {error}");
                    match kind.is_some_and(|kind| kind.is_move) {
                        true => {
                            answers.refused_move.get_or_insert(error);
                        }
                        false => {
                            answers.refused.get_or_insert((number(at), error));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn one() -> (EncodedUpdates, UpdateKind) {
        let update = rt::Update::default();
        let mut encoded = EncodedUpdates::default();
        encoded.push(&update);
        (encoded, UpdateKind::of(&update, false))
    }

    #[test]
    fn at_most_two_batches_are_sent_and_later_updates_wait_for_an_answer() {
        let senders: RefCell<Vec<Sender<Result<(), WriteError>>>> = RefCell::default();
        let lengths: RefCell<Vec<usize>> = RefCell::default();
        let write = |updates: EncodedUpdates| {
            let (sender, receiver) = channel();
            lengths.borrow_mut().push(updates.len());
            senders.borrow_mut().push(sender);
            receiver
        };
        let mut queue = UpdateQueue::default();
        let (encoded, kind) = one();
        for _ in 0..5 {
            queue.push(&encoded, &[kind]);
            queue.send(write);
        }
        assert_eq!(lengths.borrow()[..], [1, 1]);
        assert_eq!((queue.queued(), queue.answered()), (5, 0));
        assert_eq!(queue.take_answers("x", Duration::ZERO), Answers::default());
        senders.borrow()[0].send(Ok(())).unwrap();
        let refused = WriteError::Updates(vec![(0, Code::Internal, "full".to_owned())]);
        senders.borrow()[1].send(Err(refused)).unwrap();
        let answers = queue.take_answers("x", Duration::ZERO);
        assert_eq!(answers.refused, Some((2, "x: full".to_owned())));
        queue.send(write);
        assert_eq!(lengths.borrow()[..], [1, 1, 3]);
        // The connection ends: the plane gets its state later.
        senders.borrow_mut().clear();
        assert_eq!(queue.take_answers("x", Duration::ZERO), Answers::default());
        assert!(queue.is_empty());
        assert_eq!(queue.answered(), 5);
    }
}
