//! The mapper's part of a reduction: it sends its pairs until the reducer has all of them.
//!
//! No I/O and no clock. docs/internals/aggregate.md has the argument for exactness.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use packet::Nanos;
use serde::{Deserialize, Serialize};

use crate::message::{Body, Flags, Header, Kind, Message, Receipts, State, large_bytes};
use crate::pair::{Pair, Shape};
use crate::timing::RoundTrip;

/// Time between two questions of a mapper that waits.
const QUESTION_INTERVAL: Nanos = Nanos::from_millis(2);

/// Longest time between two questions.
const MAX_QUESTION_INTERVAL: Nanos = Nanos::from_millis(100);

/// Transmissions of a message after which the mapper asks for the state.
const UNANSWERED: u32 = 3;

/// First congestion window, in messages.
const FIRST_WINDOW: f64 = 10.0;

/// Messages that arrive after one before that counts as lost.
const LATER_ARRIVALS: u32 = 3;

/// Parameters of a flow, equal in its mapper, its switches and its reducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowConfig {
    /// Number of the reduction.
    pub job: u16,
    /// Attempt of the job.
    pub attempt: u16,
    /// Operator and classes.
    pub shape: Shape,
    /// Maximum number of messages in flight: a power of two.
    pub window: u32,
    /// Maximum number of pairs in a message.
    pub pairs_per_message: usize,
    /// Maximum length of a datagram.
    pub datagram_bytes: usize,
}

impl FlowConfig {
    pub(crate) fn header(&self, kind: Kind, incarnation: u32) -> Header {
        Header {
            kind,
            flags: Flags::VALID,
            shape: self.shape,
            job: self.job,
            attempt: self.attempt,
            flow: 0,
            epoch: 0,
            sequence: 0,
            incarnation,
            pairs: 0,
            absorbed: 0,
            credit: 0,
        }
    }
}

/// Error for a key that does not fit into a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTooLongError {
    /// Its length.
    pub bytes: usize,
    /// The maximum length.
    pub most: usize,
}

impl fmt::Display for KeyTooLongError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyTooLongError { bytes, most } = self;
        write!(
            f,
            "a key has {bytes} bytes, but a datagram holds keys of at most {most}; use links with a \
             larger MTU or shorter keys"
        )
    }
}

impl std::error::Error for KeyTooLongError {}

/// Counters of a mapper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapperCounts {
    /// Messages with pairs, without repeats. Epochs that are sent again count again.
    pub messages: u64,
    /// Repeated messages.
    pub repeats: u64,
    /// Pairs of these messages.
    pub pairs: u64,
}

/// A message in flight.
#[derive(Clone)]
struct Sent {
    message: Message,
    at: Nanos,
    transmissions: u32,
    has_arrived: bool,
    is_lost: bool,
}

/// Pairs in the order in which they are sent.
#[derive(Clone)]
struct Ordered {
    pairs: Vec<(u32, Pair)>,
    next: usize,
}

impl Ordered {
    fn new(mut pairs: Vec<(u32, Pair)>) -> Ordered {
        pairs.sort_unstable();
        Ordered { pairs, next: 0 }
    }

    /// Returns to the first pair at this place or after it.
    fn rewind(&mut self, start: u32) {
        self.next = self.pairs.partition_point(|(place, _)| *place < start);
    }

    /// Returns the next pairs up to a place while `has_room` says so.
    fn take(&mut self, end: u32, mut has_room: impl FnMut(&Pair) -> bool) -> Vec<Pair> {
        let rest = &self.pairs[self.next..];
        let taken = rest
            .iter()
            .take_while(|(place, pair)| *place <= end && has_room(pair));
        let taken: Vec<Pair> = taken.map(|(_, pair)| pair.clone()).collect();
        self.next += taken.len();
        taken
    }
}

/// A mapper.
#[derive(Clone)]
pub struct Mapper {
    config: FlowConfig,
    flow: u16,
    /// Number of the load with which it began. 0: it is the flow's first mapper.
    since: u32,
    /// True if another mapper has its flow.
    is_replaced: bool,
    incarnation: u32,
    /// Pairs of the shape's classes.
    small: Ordered,
    /// Pairs with keys or values that the classes cannot hold. They go beside the switches.
    large: Ordered,
    /// The state that the reducer announced last.
    state: Option<State>,
    /// The epoch of the next message, with its messages and pairs so far.
    epoch: u16,
    messages: u32,
    pairs: u64,
    /// True if the end of the last epoch is on its way.
    has_ended: bool,
    is_complete: bool,
    next_sequence: u32,
    /// Messages from the base on.
    in_flight: VecDeque<Sent>,
    base: u32,
    round_trip: RoundTrip,
    window: f64,
    /// The window grows by each receipt up to here, then by each window.
    threshold: f64,
    /// Losses of messages before this one have shrunk the window.
    recovered: u32,
    credit: u32,
    question_at: Nanos,
    questions: u32,
    counts: MapperCounts,
}

impl Mapper {
    /// Creates the mapper of a flow. Each key is once in `pairs`.
    ///
    /// # Errors
    /// A key does not fit into a datagram.
    pub fn new(config: FlowConfig, flow: u16, pairs: Vec<Pair>) -> Result<Mapper, KeyTooLongError> {
        let room = config.datagram_bytes - crate::message::HEADER_BYTES;
        if let Some(pair) = pairs.iter().find(|pair| large_bytes(pair) > room) {
            let most = room - large_bytes(&Pair::new([], 0));
            return Err(KeyTooLongError {
                bytes: pair.key.len(),
                most,
            });
        }
        let Shape { keys, values, .. } = config.shape;
        let placed = pairs.into_iter().map(|pair| (pair.place(keys), pair));
        let (small, large) = placed
            .partition(|(_, pair)| pair.key.len() <= keys.longest() && values.fits(pair.value));
        Ok(Mapper {
            config,
            flow,
            since: 0,
            is_replaced: false,
            incarnation: 0,
            small: Ordered::new(small),
            large: Ordered::new(large),
            state: None,
            epoch: 0,
            messages: 0,
            pairs: 0,
            has_ended: false,
            is_complete: false,
            next_sequence: 0,
            in_flight: VecDeque::new(),
            base: 0,
            round_trip: RoundTrip::default(),
            window: FIRST_WINDOW,
            threshold: f64::MAX,
            recovered: 0,
            credit: config.window,
            question_at: Nanos::ZERO,
            questions: 0,
            counts: MapperCounts::default(),
        })
    }

    /// Makes it the mapper that replaces another one of its flow from a load on.
    #[must_use]
    pub fn replacing_since(mut self, incarnation: u32) -> Mapper {
        self.since = incarnation;
        self
    }

    /// Makes it begin at a time.
    #[must_use]
    pub fn beginning_at(mut self, at: Nanos) -> Mapper {
        self.question_at = at;
        self
    }

    /// Returns the number of the load with which it began. 0: it is the flow's first mapper.
    pub fn since(&self) -> u32 {
        self.since
    }

    /// Returns its attempt.
    pub fn attempt(&self) -> u16 {
        self.config.attempt
    }

    /// Returns true if another mapper has its flow. It sends nothing more.
    pub fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// Returns true if the reducer has announced that the result is complete.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the counters.
    pub fn counts(&self) -> MapperCounts {
        self.counts
    }

    /// Hashes what decides the later messages, without counters, and of times only that a question
    /// is due: an exploration of schedules takes mappers with equal hashes as one.
    pub fn hash_state(&self, now: Nanos, state: &mut impl Hasher) {
        (self.question_at <= now).hash(state);
        (self.incarnation, self.small.next, self.large.next).hash(state);
        (&self.state, self.epoch, self.messages, self.pairs).hash(state);
        (self.has_ended, self.is_complete, self.is_replaced).hash(state);
        (self.next_sequence, self.base, self.credit).hash(state);
        (self.window as u32).min(self.config.window).hash(state);
        for sent in &self.in_flight {
            let header = &sent.message.header;
            (header.sequence, header.epoch, &sent.message.body).hash(state);
            sent.transmissions.min(UNANSWERED).hash(state);
            (sent.has_arrived, sent.is_lost).hash(state);
        }
    }

    /// Processes a message of the reducer. Others are ignored.
    pub fn receive(&mut self, message: &Message, now: Nanos) {
        let header = &message.header;
        let own = (self.config.job, self.config.attempt, self.flow);
        if (header.job, header.attempt, header.flow) != own || !header.flags.has(Flags::VALID) {
            return;
        }
        match &message.body {
            Body::State(state) => self.announce(header, state, now),
            Body::Receipts(receipts) if header.incarnation == self.incarnation => {
                self.acknowledge(header, *receipts, now);
            }
            _ => {}
        }
    }

    fn announce(&mut self, header: &Header, state: &State, now: Nanos) {
        self.is_replaced |= state.since > self.since;
        if header.incarnation < self.incarnation || state.since != self.since {
            return;
        }
        let is_new = header.incarnation > self.incarnation || self.state.is_none();
        if is_new {
            self.incarnation = header.incarnation;
            self.restart(state);
        }
        self.is_complete |= header.flags.has(Flags::LAST);
        let known = self.state.as_ref();
        let has_more = known.is_none_or(|known| {
            state.base > known.base
                || state.base == known.base && state.ends.len() > known.ends.len()
        });
        if is_new || has_more {
            self.state = Some(state.clone());
            self.questions = 0;
            self.question_at = now + QUESTION_INTERVAL;
        }
    }

    /// Begins again with the first pair that is not in the result.
    fn restart(&mut self, state: &State) {
        self.in_flight.clear();
        (self.base, self.next_sequence, self.recovered) = (0, 0, 0);
        self.epoch = state.base;
        (self.messages, self.pairs) = (0, 0);
        self.has_ended = false;
        self.small.rewind(state.start);
        self.large.rewind(state.start);
        self.window = FIRST_WINDOW;
        self.threshold = f64::MAX;
    }

    fn acknowledge(&mut self, header: &Header, receipts: Receipts, now: Nanos) {
        self.credit = u32::from(header.credit);
        let offset_of = |sequence: u32, base: u32| sequence.wrapping_sub(base);
        let in_flight = self.in_flight.len() as u32;
        let mut arrived = 0;
        let done = offset_of(receipts.base, self.base);
        if done > in_flight {
            // Older than the base, or of messages that were never sent.
            return;
        }
        for sent in self.in_flight.iter_mut().take(done as usize) {
            arrived += u32::from(!sent.has_arrived);
            sent.has_arrived = true;
        }
        let mut highest = done;
        for bit in (0..64).filter(|bit| receipts.arrived >> bit & 1 == 1) {
            if let Some(sent) = self.in_flight.get_mut((done + bit) as usize) {
                arrived += u32::from(!sent.has_arrived);
                sent.has_arrived = true;
                highest = done + bit;
            }
        }
        let answered = offset_of(header.sequence, self.base) as usize;
        if let Some(sent) = self
            .in_flight
            .get(answered)
            .filter(|s| s.transmissions == 1)
        {
            self.round_trip.add(now.since(sent.at));
        }
        self.grow(arrived);
        if header.flags.has(Flags::FULL) {
            self.shrink(self.base.wrapping_add(answered as u32));
        }
        let patience = self.round_trip.smooth();
        let mut lost = None;
        for (offset, sent) in (0..).zip(self.in_flight.iter_mut().take(highest as usize)) {
            let is_late = !sent.has_arrived && offset + LATER_ARRIVALS <= highest;
            if is_late && !sent.is_lost && now.since(sent.at) >= patience {
                sent.is_lost = true;
                lost = Some(offset);
            }
        }
        if let Some(offset) = lost {
            self.shrink(self.base.wrapping_add(offset));
        }
        while self.in_flight.front().is_some_and(|sent| sent.has_arrived) {
            self.in_flight.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }

    /// Adds receipts to the window: slow start, then one message a window.
    fn grow(&mut self, arrived: u32) {
        let arrived = f64::from(arrived);
        self.window += match self.window < self.threshold {
            true => arrived,
            false => arrived / self.window,
        };
        self.window = self.window.min(f64::from(self.config.window));
    }

    /// Halves the window, once for all losses of one window.
    fn shrink(&mut self, sequence: u32) {
        if sequence.wrapping_sub(self.recovered) as i32 >= 0 {
            self.window = (self.window / 2.0).max(2.0);
            self.threshold = self.window;
            self.recovered = self.next_sequence;
        }
    }

    /// Returns the next message to send now, if there is one. The caller calls again until there
    /// is none.
    pub fn poll(&mut self, now: Nanos) -> Option<Message> {
        if self.is_complete || self.is_replaced {
            return None;
        }
        self.repeat(now)
            .or_else(|| self.send_next(now))
            .or_else(|| self.ask(now))
    }

    fn repeat(&mut self, now: Nanos) -> Option<Message> {
        let round_trip = self.round_trip;
        let mut due = self.in_flight.iter().enumerate().filter(|(_, sent)| {
            let deadline = sent.at + round_trip.timeout(sent.transmissions);
            !sent.has_arrived && (sent.is_lost || deadline <= now)
        });
        let (index, sent) = due.next()?;
        let is_timeout = !sent.is_lost;
        if is_timeout {
            self.shrink(self.base.wrapping_add(index as u32));
        }
        let sent = &mut self.in_flight[index];
        sent.at = now;
        sent.transmissions += 1;
        sent.is_lost = false;
        sent.message.header.credit = sent.transmissions as u16;
        self.counts.repeats += 1;
        Some(sent.message.clone())
    }

    fn send_next(&mut self, now: Nanos) -> Option<Message> {
        let missing = self.in_flight.iter().filter(|sent| !sent.has_arrived);
        let limit = (self.window as usize).min(self.credit as usize).max(1);
        let is_full = self.in_flight.len() >= self.config.window as usize;
        if is_full || missing.take(limit).count() >= limit {
            return None;
        }
        let mut message = self.next_message()?;
        message.header.sequence = self.next_sequence;
        message.header.credit = 1;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.in_flight.push_back(Sent {
            message: message.clone(),
            at: now,
            transmissions: 1,
            has_arrived: false,
            is_lost: false,
        });
        Some(message)
    }

    /// Builds the next message with pairs, or the end of an epoch.
    fn next_message(&mut self) -> Option<Message> {
        let state = self.state.as_ref()?;
        let index = self.epoch.checked_sub(state.base)?;
        let end = *state.ends.get(usize::from(index))?;
        if self.has_ended {
            return None;
        }
        let mut header = self.config.header(Kind::Data, self.incarnation);
        header.flow = self.flow;
        header.epoch = self.epoch;
        let mut room = self.config.pairs_per_message;
        let small = self.small.take(end, |_| {
            let has_room = room > 0;
            room -= usize::from(has_room);
            has_room
        });
        let body = match small.is_empty() {
            false => Body::Pairs(small),
            true => {
                let mut room = self.config.datagram_bytes - crate::message::HEADER_BYTES;
                let large = self.large.take(end, |pair| {
                    let has_room = room >= large_bytes(pair);
                    room = room.saturating_sub(large_bytes(pair));
                    has_room
                });
                Body::Large(large)
            }
        };
        match &body {
            Body::Pairs(pairs) | Body::Large(pairs) if !pairs.is_empty() => {
                self.messages += 1;
                self.pairs += pairs.len() as u64;
                self.counts.messages += 1;
                self.counts.pairs += pairs.len() as u64;
                Some(Message { header, body })
            }
            _ => {
                header.kind = Kind::End;
                if end == u32::MAX {
                    header.flags = header.flags.with(Flags::LAST);
                    self.has_ended = true;
                }
                self.epoch = self.epoch.wrapping_add(1);
                let body = Body::End {
                    messages: std::mem::take(&mut self.messages),
                    pairs: std::mem::take(&mut self.pairs),
                };
                Some(Message { header, body })
            }
        }
    }

    /// Asks for the state of the reduction, if there is nothing else to do.
    fn ask(&mut self, now: Nanos) -> Option<Message> {
        if !self.is_waiting() || now < self.question_at {
            return None;
        }
        self.questions += 1;
        let pause = QUESTION_INTERVAL.0 << self.questions.min(8);
        self.question_at = now + Nanos(pause).min(MAX_QUESTION_INTERVAL);
        let mut header = self.config.header(Kind::Signal, self.incarnation);
        header.flow = self.flow;
        header.credit = self.questions as u16;
        let pairs = (self.small.pairs.len() + self.large.pairs.len()) as u64;
        let body = Body::Question {
            pairs,
            since: self.since,
        };
        Some(Message { header, body })
    }

    /// Returns true if nothing is in flight, or if what is in flight gets no receipts: then the
    /// switches may have another incarnation, and drop it.
    fn is_waiting(&self) -> bool {
        let oldest = self.in_flight.front();
        oldest.is_none_or(|sent| sent.transmissions >= UNANSWERED)
    }

    /// Returns the time of the next action without a message.
    pub fn next_time(&self) -> Option<Nanos> {
        if self.is_complete || self.is_replaced {
            return None;
        }
        let question = self.is_waiting().then_some(self.question_at);
        let missing = self.in_flight.iter().filter(|sent| !sent.has_arrived);
        let deadlines = missing.map(|sent| match sent.is_lost {
            true => sent.at,
            false => sent.at + self.round_trip.timeout(sent.transmissions),
        });
        deadlines.chain(question).min()
    }
}
