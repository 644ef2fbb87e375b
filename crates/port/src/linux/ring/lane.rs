//! One direction of a ring: a queue of messages in shared memory, with one sender and one receiver.
//!
//! A lane is an array of 64-bit words that both sides access by atomic operations only. Both count
//! words from zero: the sender those that it wrote (`head`), the receiver those that it took
//! (`tail`). A message is a word with its length in bytes, then its bytes in whole words. Its words
//! continue at the begin of the lane after the end.
//!
//! Each side counts in memory of its own, and only writes its count to the lane. So the other side
//! cannot change where this side reads or writes; it can only write a count or a length that cannot
//! be. That is found before it is used: [`Nonsense`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use packet::MAX_FRAME;

/// Words of messages in a lane: 256 KiB, at least three frames of any length. A power of two.
const CAPACITY: usize = 32 * 1024;
/// Word of the sender's count. Each shared count has two cache lines of its own, since processors
/// also fetch the neighbour of a line.
const HEAD: usize = 0;
/// Word of the receiver's count.
const TAIL: usize = 16;
/// Word that is not 0 while the receiver sleeps.
const SLEEPS: usize = 32;
/// First word of messages.
const DATA: usize = 48;
/// Words of a lane.
pub(super) const LANE_WORDS: usize = DATA + CAPACITY;

const _: () = assert!(CAPACITY.is_power_of_two());

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The other side wrote a count or a length that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

/// Reason for which a message is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotQueued {
    /// The receiver has not taken enough.
    Full,
    /// The message is longer than [`MAX_FRAME`].
    TooLong,
    /// The receiver's count cannot be.
    Nonsense,
}

/// A lane in memory that others may hold, too.
#[derive(Debug)]
struct Lane<W> {
    memory: Arc<W>,
    /// Word at which the lane begins.
    begin: usize,
}

impl<W: AsRef<[AtomicU64]>> Lane<W> {
    fn word(&self, at: usize) -> &AtomicU64 {
        &(*self.memory).as_ref()[self.begin + at]
    }

    /// Returns the word of a message by its count.
    fn data(&self, count: u64) -> &AtomicU64 {
        self.word(DATA + (count as usize & (CAPACITY - 1)))
    }

    /// Returns `words` words from a count on, in two parts: up to the end of the lane, and from its
    /// begin.
    fn parts(&self, count: u64, words: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let data = &(*self.memory).as_ref()[self.begin + DATA..self.begin + LANE_WORDS];
        let at = count as usize & (CAPACITY - 1);
        let first = words.min(CAPACITY - at);
        (&data[at..at + first], &data[..words - first])
    }
}

/// Sending side of a lane.
#[derive(Debug)]
pub(super) struct LaneSender<W> {
    lane: Lane<W>,
    /// Words written.
    head: u64,
    /// Words written that the receiver knows of.
    published: u64,
    /// Words that the receiver is known to have taken.
    tail: u64,
}

impl<W: AsRef<[AtomicU64]>> LaneSender<W> {
    /// Takes the sending side of a new lane, which has zeros only.
    pub(super) fn new(memory: Arc<W>, begin: usize) -> LaneSender<W> {
        LaneSender {
            lane: Lane { memory, begin },
            head: 0,
            published: 0,
            tail: 0,
        }
    }

    /// Writes a message. The receiver sees it after [`LaneSender::publish`].
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), NotQueued> {
        if bytes.len() > MAX_FRAME {
            return Err(NotQueued::TooLong);
        }
        let words = 1 + bytes.len().div_ceil(WORD);
        if self.room() < words {
            // Acquire: the receiver has read the words that it gives back before they are
            // overwritten here.
            self.tail = self.lane.word(TAIL).load(Ordering::Acquire);
            if self.head.wrapping_sub(self.tail) > CAPACITY as u64 {
                // As if it had taken nothing: later calls read the count again.
                self.tail = self.head.wrapping_sub(CAPACITY as u64);
                return Err(NotQueued::Nonsense);
            }
            if self.room() < words {
                return Err(NotQueued::Full);
            }
        }
        // Relaxed: the release of `publish` makes these visible.
        let length = self.lane.data(self.head);
        length.store(bytes.len() as u64, Ordering::Relaxed);
        let (first, second) = self.lane.parts(self.head.wrapping_add(1), words - 1);
        let (head, tail) = bytes.split_at(bytes.len().min(first.len() * WORD));
        for (to, from) in [(first, head), (second, tail)] {
            let mut whole = from.chunks_exact(WORD);
            let mut to = to.iter();
            // In this order: the end of `whole` takes no word of `to`.
            for (from, to) in whole.by_ref().zip(to.by_ref()) {
                to.store(word_of(from), Ordering::Relaxed);
            }
            if let (Some(to), false) = (to.next(), whole.remainder().is_empty()) {
                to.store(word_of(whole.remainder()), Ordering::Relaxed);
            }
        }
        self.head = self.head.wrapping_add(words as u64);
        Ok(())
    }

    fn room(&self) -> usize {
        CAPACITY - self.head.wrapping_sub(self.tail) as usize
    }

    /// Shows the receiver all messages. Returns true if it sleeps and must be woken.
    pub(super) fn publish(&mut self) -> bool {
        if self.published == self.head {
            return false;
        }
        self.published = self.head;
        // Release: a receiver that sees the count sees the messages.
        self.lane.word(HEAD).store(self.head, Ordering::Release);
        // The fences of both sides order two store-load pairs. This side stores its count, then
        // loads the mark; the receiver stores the mark, then loads the count. At least one sees the
        // other's store, so no message waits for a receiver that sleeps.
        fence(Ordering::SeqCst);
        let sleeps = self.lane.word(SLEEPS);
        // One wake-up is enough for each sleep.
        sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
    }
}

/// Returns up to eight bytes as a word.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// Receiving side of a lane.
#[derive(Debug)]
pub(super) struct LaneReceiver<W> {
    lane: Lane<W>,
    /// Words taken.
    tail: u64,
    /// Words taken that the sender knows of.
    released: u64,
    /// Words that the sender is known to have written.
    head: u64,
}

impl<W: AsRef<[AtomicU64]>> LaneReceiver<W> {
    /// Takes the receiving side of a new lane.
    pub(super) fn new(memory: Arc<W>, begin: usize) -> LaneReceiver<W> {
        LaneReceiver {
            lane: Lane { memory, begin },
            tail: 0,
            released: 0,
            head: 0,
        }
    }

    /// Returns the length of the next message in bytes, or `None` if there is none.
    ///
    /// # Errors
    /// The sender's count or the length cannot be.
    pub(super) fn next_length(&mut self) -> Result<Option<usize>, Nonsense> {
        if self.head == self.tail {
            // Acquire: the messages before this count are visible afterwards.
            self.head = self.lane.word(HEAD).load(Ordering::Acquire);
            if self.head == self.tail {
                return Ok(None);
            }
        }
        let waiting = self.head.wrapping_sub(self.tail);
        let length = self.lane.data(self.tail).load(Ordering::Relaxed);
        let is_possible = waiting <= CAPACITY as u64
            && length <= MAX_FRAME as u64
            && length.div_ceil(WORD as u64) < waiting;
        match is_possible {
            true => Ok(Some(length as usize)),
            false => Err(Nonsense),
        }
    }

    /// Takes the next message, of the length that [`LaneReceiver::next_length`] returned.
    pub(super) fn take(&mut self, out: &mut [u8]) {
        let words = out.len().div_ceil(WORD);
        let (first, second) = self.lane.parts(self.tail.wrapping_add(1), words);
        let length = out.len();
        let (head, tail) = out.split_at_mut(length.min(first.len() * WORD));
        for (from, to) in [(first, head), (second, tail)] {
            for (from, to) in from.iter().zip(to.chunks_mut(WORD)) {
                let word = from.load(Ordering::Relaxed).to_ne_bytes();
                to.copy_from_slice(&word[..to.len()]);
            }
        }
        self.tail = self.tail.wrapping_add(1 + words as u64);
    }

    /// Gives the room of the messages taken back to the sender.
    pub(super) fn release(&mut self) {
        if self.released != self.tail {
            self.released = self.tail;
            // Release: this side has read the words before the sender overwrites them.
            self.lane.word(TAIL).store(self.tail, Ordering::Release);
        }
    }

    /// Announces that the receiver is about to sleep, and needs a wake-up for the next message.
    /// Returns true if there is one already.
    pub(super) fn before_sleep(&self) -> bool {
        self.lane.word(SLEEPS).store(1, Ordering::Relaxed);
        // See `LaneSender::publish`.
        fence(Ordering::SeqCst);
        self.lane.word(HEAD).load(Ordering::Acquire) != self.tail
    }

    /// Announces that the receiver is awake.
    pub(super) fn after_sleep(&self) {
        self.lane.word(SLEEPS).store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::{Duration, Instant};

    use support::rng::Rng;

    use super::*;

    type Memory = Vec<AtomicU64>;

    fn memory() -> Arc<Memory> {
        Arc::new((0..LANE_WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn lane() -> (Arc<Memory>, LaneSender<Memory>, LaneReceiver<Memory>) {
        let memory = memory();
        let sender = LaneSender::new(Arc::clone(&memory), 0);
        let receiver = LaneReceiver::new(Arc::clone(&memory), 0);
        (memory, sender, receiver)
    }

    /// Returns the message of a number: its length and bytes follow from it.
    fn message(number: u64) -> Vec<u8> {
        let mut rng = Rng::new(number);
        let length = match rng.below(20) {
            0 => rng.below(MAX_FRAME as u64 + 1),
            _ => rng.below(200),
        };
        let byte = (number % 251) as u8;
        (0..length).map(|at| byte ^ at as u8).collect()
    }

    fn take(receiver: &mut LaneReceiver<Memory>) -> Option<Vec<u8>> {
        let length = receiver.next_length().expect("both sides are right")?;
        let mut out = vec![0; length];
        receiver.take(&mut out);
        Some(out)
    }

    #[test]
    fn messages_of_all_lengths_come_in_order_as_in_a_queue_of_the_same_room() {
        let (_, mut sender, mut receiver) = lane();
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let (mut rng, mut words, mut full) = (Rng::new(1), 0, 0);
        for number in 0..if cfg!(miri) { 100 } else { 20_000 } {
            let bytes = message(number);
            let needed = 1 + bytes.len().div_ceil(8);
            let queued = sender.push(&bytes);
            match words + needed <= CAPACITY {
                true => {
                    assert_eq!(queued, Ok(()));
                    words += needed;
                    model.push_back(bytes);
                }
                false => {
                    assert_eq!(queued, Err(NotQueued::Full));
                    full += 1;
                }
            }
            sender.publish();
            // More than one message for each that is sent, now and then.
            while rng.one_in(3)
                && let Some(bytes) = take(&mut receiver)
            {
                words -= 1 + bytes.len().div_ceil(8);
                assert_eq!(Some(bytes), model.pop_front());
                receiver.release();
            }
        }
        assert!(full > 100 || cfg!(miri), "{full}");
        assert_eq!(
            sender.push(&vec![0; MAX_FRAME + 1]),
            Err(NotQueued::TooLong)
        );
    }

    #[test]
    fn a_message_is_seen_when_it_is_published_and_its_room_is_free_when_it_is_released() {
        let (_, mut sender, mut receiver) = lane();
        sender.push(b"one").unwrap();
        assert_eq!(take(&mut receiver), None);
        assert!(!sender.publish(), "the receiver does not sleep");
        assert!(receiver.before_sleep(), "a message waits");
        assert_eq!(take(&mut receiver), Some(b"one".to_vec()));
        assert!(!receiver.before_sleep());
        sender.push(b"").unwrap();
        assert!(sender.publish() && !sender.publish(), "one wake-up");
        receiver.after_sleep();
        assert_eq!(take(&mut receiver), Some(Vec::new()));
        let large = vec![1; 60_000];
        let count = (0..10).filter(|_| sender.push(&large).is_ok()).count();
        sender.publish();
        while take(&mut receiver).is_some() {}
        assert_eq!(sender.push(&large), Err(NotQueued::Full));
        receiver.release();
        assert_eq!(
            (0..count).filter(|_| sender.push(&large).is_ok()).count(),
            count
        );
    }

    #[test]
    fn two_threads_lose_no_message_and_no_wake_up() {
        const MESSAGES: u64 = if cfg!(miri) { 200 } else { 20_000 };
        const LATE: Duration = Duration::from_secs(20);
        let (_, mut sender, mut receiver) = lane();
        let thread = std::thread::current();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut rng = Rng::new(2);
                for number in 0..MESSAGES {
                    let bytes = message(number);
                    while sender.push(&bytes) == Err(NotQueued::Full) {
                        if sender.publish() {
                            thread.unpark();
                        }
                        std::thread::yield_now();
                    }
                    if (rng.one_in(4) || number + 1 == MESSAGES) && sender.publish() {
                        thread.unpark();
                    }
                }
            });
            for number in 0..MESSAGES {
                let bytes = loop {
                    if let Some(bytes) = take(&mut receiver) {
                        break bytes;
                    }
                    receiver.release();
                    if !receiver.before_sleep() {
                        let start = Instant::now();
                        std::thread::park_timeout(LATE);
                        assert!(start.elapsed() < LATE, "a wake-up is lost");
                    }
                    receiver.after_sleep();
                };
                assert_eq!(bytes, message(number), "message {number}");
            }
        });
    }

    #[test]
    fn any_words_of_the_other_side_end_in_messages_of_allowed_lengths_or_are_refused() {
        let (memory, mut sender, mut receiver) = lane();
        let mut rng = Rng::new(3);
        let mut found = [0; 3];
        for _ in 0..if cfg!(miri) { 200 } else { 40_000 } {
            let near = |own: u64, rng: &mut Rng| match rng.below(4) {
                0 => rng.bits(),
                1 => own.wrapping_sub(rng.below(20)),
                _ => own.wrapping_add(rng.below(2 * CAPACITY as u64)),
            };
            let head = near(receiver.tail, &mut rng);
            let tail = near(sender.head.wrapping_sub(CAPACITY as u64), &mut rng);
            memory[HEAD].store(head, Ordering::Relaxed);
            memory[TAIL].store(tail, Ordering::Relaxed);
            let length = match rng.below(3) {
                0 => rng.bits(),
                _ => rng.below(80_000),
            };
            receiver
                .lane
                .data(receiver.tail)
                .store(length, Ordering::Relaxed);
            match receiver.next_length() {
                Ok(Some(length)) => {
                    assert!(length <= MAX_FRAME);
                    receiver.take(&mut vec![0; length]);
                    found[0] += 1;
                }
                Ok(None) => {}
                Err(Nonsense) => {
                    found[1] += 1;
                    // A broken connection gets a new lane; here the known count is forgotten.
                    receiver.head = receiver.tail;
                }
            }
            receiver.release();
            let bytes = vec![0; rng.below(3_000) as usize];
            found[2] += u32::from(sender.push(&bytes) == Err(NotQueued::Nonsense));
            assert!(sender.head.wrapping_sub(sender.tail) <= CAPACITY as u64);
        }
        let least = if cfg!(miri) { 1 } else { 1_000 };
        assert!(found.iter().all(|count| *count >= least), "{found:?}");
    }
}
