//! The mapper's part of a reduction: it sends its pairs until the reducer has all of them.
//!
//! No I/O and no clock. docs/internals/aggregate.md has the argument for exactness.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use packet::Nanos;
use serde::{Deserialize, Serialize};

use crate::arrivals::Arrivals;
use crate::message::{Bank, Body, EpochCounts, Flags, Header, Kind, Message, Receipts, State};
use crate::pair::{Operator, Shape};
use crate::source::{InputError, Source};
use crate::timing::RoundTrip;
use crate::vector::{Input, LaneBlock, Next, Vector};

/// Time between two questions of a mapper that waits.
const QUESTION_INTERVAL: Nanos = Nanos::from_millis(2);

/// Longest time between two questions.
const MAX_QUESTION_INTERVAL: Nanos = Nanos::from_millis(100);

/// Time without a message of the reducer after which a mapper shows that it is alive, if switches
/// send it receipts.
const ALIVE_INTERVAL: Nanos = Nanos::from_millis(500);

/// Transmissions of a message after which the mapper asks for the state.
const UNANSWERED: u32 = 3;

/// First congestion window, in messages.
const FIRST_WINDOW: f64 = 10.0;

/// Maximum number of questions for blocks of the result in flight.
const MAX_ASKED: usize = 16;

/// Messages that arrive after one before that counts as lost.
const LATER_ARRIVALS: usize = 3;

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
    /// Number of mappers, if each gets the result of its vector too, else 0.
    pub receivers: u16,
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

/// Question for a block of the result.
#[derive(Clone, Copy)]
struct Asked {
    /// Time of the last transmission, or at which the block was missed.
    at: Nanos,
    transmissions: u32,
}

/// A message in flight.
#[derive(Clone)]
struct Sent {
    message: Message,
    /// Number of its pairs. 0: it is an end.
    pairs: u64,
    at: Nanos,
    transmissions: u32,
    has_arrived: bool,
    is_lost: bool,
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
    source: Source,
    /// Number of its input, from 1. 0: it has none yet.
    submission: u32,
    /// The result so far, if mappers get it.
    arrivals: Option<Arrivals>,
    /// Replies of switches before this epoch are of the inputs before.
    first_epoch: u16,
    /// The state that the reducer announced last.
    state: Option<State>,
    /// The epoch of the next message, with its counts so far.
    epoch: u16,
    epoch_counts: EpochCounts,
    /// Messages of the epoch without receipts. Its end waits for them, and so does the next epoch:
    /// the numbers of messages do not depend on the times of receipts.
    missing: u32,
    /// True if the end of the last epoch is on its way.
    has_ended: bool,
    /// True if the reducer has announced that the result is complete.
    is_announced: bool,
    next_sequence: u32,
    /// Messages from the base on.
    in_flight: VecDeque<Sent>,
    base: u32,
    /// Round trips to the reducer, and to switches.
    round_trip: RoundTrip,
    switch_trip: RoundTrip,
    window: f64,
    /// The window grows by each receipt up to here, then by each window.
    threshold: f64,
    /// Losses of messages before this one have shrunk the window.
    recovered: u32,
    credit: u32,
    question_at: Nanos,
    questions: u32,
    /// Since the reducer was heard last, a switch has sent a receipt. Then the mapper shows at
    /// this time that it is alive.
    alive_at: Option<Nanos>,
    /// Questions for blocks of the result without an answer.
    asked: BTreeMap<u32, Asked>,
    counts: MapperCounts,
}

impl Mapper {
    /// Creates the mapper of a flow.
    ///
    /// # Errors
    /// A key does not fit into a datagram, or the input is not of the flow's shape.
    pub fn new(
        config: FlowConfig,
        flow: u16,
        input: impl Into<Input>,
    ) -> Result<Mapper, InputError> {
        let mut mapper = Mapper::of_group(config, flow);
        mapper.begin_with(Source::new(&config, input.into())?);
        Ok(mapper)
    }

    /// Creates the mapper of a flow that gets its vectors one after the other, and all mappers the
    /// result of each.
    pub fn of_group(config: FlowConfig, flow: u16) -> Mapper {
        Mapper {
            config,
            flow,
            since: 0,
            is_replaced: false,
            incarnation: 0,
            source: Source::none(),
            submission: 0,
            arrivals: None,
            first_epoch: 0,
            state: None,
            epoch: 0,
            epoch_counts: EpochCounts::default(),
            missing: 0,
            has_ended: false,
            is_announced: false,
            next_sequence: 0,
            in_flight: VecDeque::new(),
            base: 0,
            round_trip: RoundTrip::default(),
            switch_trip: RoundTrip::default(),
            window: FIRST_WINDOW,
            threshold: f64::MAX,
            recovered: 0,
            credit: config.window,
            question_at: Nanos::ZERO,
            questions: 0,
            alive_at: None,
            asked: BTreeMap::new(),
            counts: MapperCounts::default(),
        }
    }

    /// Takes its next vector, with the operator.
    ///
    /// # Errors
    /// The result of the vector before has not been taken, or the program of the reduction does not
    /// have the operation.
    pub fn submit(
        &mut self,
        input: Input,
        operator: Operator,
        now: Nanos,
    ) -> Result<(), InputError> {
        if !self.is_idle() {
            return Err(InputError::Busy);
        }
        let source = Source::of_vector(&self.config, input, operator)?;
        self.begin_with(source);
        self.question_at = now;
        Ok(())
    }

    fn begin_with(&mut self, source: Source) {
        self.arrivals = match (self.config.receivers, source.blocks()) {
            (1.., Some(blocks)) => Some(Arrivals::new(blocks.layout())),
            _ => None,
        };
        self.source = source;
        self.submission += 1;
        (self.is_announced, self.has_ended) = (false, false);
        self.state = None;
        self.questions = 0;
        self.asked.clear();
    }

    /// Returns true if it has no vector: there was none, or its result has been taken.
    pub fn is_idle(&self) -> bool {
        self.submission == 0 || self.is_announced && self.arrivals.is_none()
    }

    /// Takes the result, when it is complete and mappers get it.
    pub fn take_result(&mut self) -> Option<Vector> {
        match self.is_complete() {
            true => self.arrivals.take().map(Arrivals::into_vector),
            false => None,
        }
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

    /// Returns true if the reducer has announced that the result is complete, and all of it is
    /// here if mappers get it.
    pub fn is_complete(&self) -> bool {
        let mut arrivals = self.arrivals.iter();
        self.is_announced && arrivals.all(Arrivals::is_complete)
    }

    /// Returns true if it gets the result, with replies of switches.
    pub(crate) fn gets_result(&self) -> bool {
        self.config.receivers > 0
    }

    /// Returns the counters.
    pub fn counts(&self) -> MapperCounts {
        self.counts
    }

    /// Hashes what decides the later messages, without counters, and of times only that a question
    /// is due: an exploration of schedules takes mappers with equal hashes as one.
    pub fn hash_state(&self, now: Nanos, state: &mut impl Hasher) {
        (self.question_at <= now).hash(state);
        (self.incarnation, &self.source).hash(state);
        (&self.state, self.epoch, self.epoch_counts, self.missing).hash(state);
        (self.has_ended, self.is_announced, self.is_replaced).hash(state);
        self.alive_at.is_some().hash(state);
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
        let own = (self.config.job, self.config.attempt);
        if (header.job, header.attempt) != own || !header.flags.has(Flags::VALID) {
            return;
        }
        let is_current = header.incarnation == self.incarnation;
        let is_answer = header.kind == Kind::Result && header.sequence == self.submission;
        match &message.body {
            Body::BlockBank(bank, blocks) if header.kind == Kind::Reply && is_current => {
                self.take_reply(header.epoch, *bank, blocks);
            }
            _ if header.flow != self.flow => {}
            Body::State(state) => {
                self.alive_at = None;
                self.announce(header, state, now);
            }
            Body::Receipts(receipts) if is_current => {
                self.alive_at = None;
                self.acknowledge(header, *receipts, now);
            }
            Body::Blocks(blocks) if is_answer && is_current => {
                self.alive_at = None;
                blocks
                    .iter()
                    .for_each(|block| self.take_answer(block, false));
            }
            Body::Floats(block) if is_answer && is_current => {
                self.alive_at = None;
                self.take_answer(block, true);
            }
            Body::Taken if is_current => {
                self.alive_at.get_or_insert(now + ALIVE_INTERVAL);
                self.take_receipt_of_switch(header, now);
            }
            _ => {}
        }
    }

    fn announce(&mut self, header: &Header, state: &State, now: Nanos) {
        self.is_replaced |= state.since > self.since;
        let is_own = (state.since, state.submission) == (self.since, self.submission);
        if header.incarnation < self.incarnation || !is_own {
            return;
        }
        let is_loaded = header.incarnation > self.incarnation;
        let is_new = is_loaded || self.state.is_none();
        if is_loaded {
            self.incarnation = header.incarnation;
            self.forget_messages();
        }
        if is_new {
            self.begin_at(state);
        }
        self.is_announced |= header.flags.has(Flags::LAST);
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

    /// Forgets what was sent under the number of an older load.
    fn forget_messages(&mut self) {
        self.in_flight.clear();
        (self.base, self.next_sequence, self.recovered) = (0, 0, 0);
        self.window = FIRST_WINDOW;
        self.threshold = f64::MAX;
    }

    /// Begins with the first pair that is not in the result.
    fn begin_at(&mut self, state: &State) {
        self.epoch = state.base;
        self.first_epoch = state.base;
        (self.epoch_counts, self.missing) = (EpochCounts::default(), 0);
        self.has_ended = false;
        self.source.rewind(state.start);
    }

    /// Takes blocks of a switch's reply, if they have what all mappers sent. Those of which the
    /// reducer has a part come with its answers.
    fn take_reply(&mut self, epoch: u16, bank: Bank, blocks: &[LaneBlock]) {
        let is_own = self.state.is_some() && epoch >= self.first_epoch;
        let mappers = u64::from(self.config.receivers);
        let expected = mappers * blocks.len() as u64;
        let (Some(arrivals), Some(own)) = (&mut self.arrivals, self.source.blocks_mut()) else {
            return;
        };
        if !is_own || bank.mappers() != expected {
            return;
        }
        for block in blocks {
            match block.number < own.layout().scale_blocks {
                true => own.learn_scales(block, mappers),
                false => arrivals.take_lanes(block, own.steps()),
            }
            self.asked.remove(&block.number);
        }
    }

    /// Takes a block of the reducer's answer.
    fn take_answer(&mut self, block: &LaneBlock, are_values: bool) {
        let Some(own) = self.source.blocks_mut() else {
            return;
        };
        match &mut self.arrivals {
            _ if block.number < own.layout().scale_blocks => own.learn(block),
            Some(arrivals) if are_values => arrivals.take_values(block),
            Some(arrivals) => arrivals.take_lanes(block, own.steps()),
            None => {}
        }
        self.asked.remove(&block.number);
    }

    fn acknowledge(&mut self, header: &Header, receipts: Receipts, now: Nanos) {
        self.credit = u32::from(header.credit);
        let in_flight = self.in_flight.len() as i32;
        // Negative for receipts that are older than the base.
        let done = receipts.base.wrapping_sub(self.base) as i32;
        if done > in_flight {
            // Of messages that were never sent.
            return;
        }
        let mut offsets: Vec<i32> = (0..done).collect();
        let bits = (0..128).filter(|bit| receipts.arrived >> bit & 1 == 1);
        offsets.extend(bits.map(|bit| done + bit));
        let offsets = offsets.into_iter().filter(|at| (0..in_flight).contains(at));
        let offsets: Vec<usize> = offsets.map(|at| at as usize).collect();
        let answered = header.sequence.wrapping_sub(self.base) as usize;
        let sent = self.in_flight.get(answered);
        if let Some(sent) = sent.filter(|sent| sent.transmissions == 1) {
            self.round_trip.add(now.since(sent.at));
        }
        self.note_arrivals(&offsets, false);
        if header.flags.has(Flags::FULL) {
            self.shrink(header.sequence);
        }
        self.note_losses(offsets.last().copied(), now);
    }

    /// Takes a receipt of a switch: it has all pairs of one message.
    fn take_receipt_of_switch(&mut self, header: &Header, now: Nanos) {
        let offset = header.sequence.wrapping_sub(self.base) as usize;
        let Some(sent) = self.in_flight.get(offset).filter(|sent| sent.pairs > 0) else {
            return;
        };
        if sent.transmissions == 1 {
            self.switch_trip.add(now.since(sent.at));
        }
        self.note_arrivals(&[offset], true);
        self.note_losses(Some(offset), now);
    }

    /// Notes the receipts of messages, by their places in flight.
    fn note_arrivals(&mut self, offsets: &[usize], are_taken: bool) {
        let mut arrived = 0;
        for offset in offsets {
            let sent = &mut self.in_flight[*offset];
            if std::mem::replace(&mut sent.has_arrived, true) {
                continue;
            }
            arrived += 1;
            if sent.pairs > 0 {
                self.missing -= 1;
                match are_taken {
                    true => self.epoch_counts.taken += sent.pairs,
                    false => self.epoch_counts.messages += 1,
                }
            }
        }
        self.grow(arrived);
    }

    /// Notes messages as lost that are sent well before one that has arrived, and moves the base
    /// on.
    fn note_losses(&mut self, highest: Option<usize>, now: Nanos) {
        let highest = highest.unwrap_or(0);
        let patience = self.trip().smooth();
        let mut lost = None;
        for (offset, sent) in self.in_flight.iter_mut().take(highest).enumerate() {
            let is_late = !sent.has_arrived && offset + LATER_ARRIVALS <= highest;
            if is_late && !sent.is_lost && now.since(sent.at) >= patience {
                sent.is_lost = true;
                lost = Some(offset);
            }
        }
        if let Some(offset) = lost {
            self.shrink(self.base.wrapping_add(offset as u32));
        }
        while self.in_flight.front().is_some_and(|sent| sent.has_arrived) {
            self.in_flight.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }

    /// Returns the longer one of the round trips to the reducer and to switches: the mapper does
    /// not know who will have a message.
    fn trip(&self) -> RoundTrip {
        self.round_trip.longer(self.switch_trip)
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
        if self.is_at_rest() {
            return None;
        }
        self.repeat(now)
            .or_else(|| self.send_next(now))
            .or_else(|| self.ask_for_result(now))
            .or_else(|| self.ask(now))
    }

    fn repeat(&mut self, now: Nanos) -> Option<Message> {
        let round_trip = self.trip();
        let mut due = self.in_flight.iter().enumerate().filter(|(_, sent)| {
            let deadline = sent.at + round_trip.timeout(sent.transmissions);
            !sent.has_arrived && (sent.is_lost || deadline <= now)
        });
        let (index, sent) = due.next()?;
        let (is_timeout, transmissions) = (!sent.is_lost, sent.transmissions);
        if is_timeout {
            self.round_trip.timed_out(transmissions);
            self.switch_trip.timed_out(transmissions);
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
        let (mut message, pairs) = self.next_message()?;
        message.header.sequence = self.next_sequence;
        message.header.credit = 1;
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.in_flight.push_back(Sent {
            message: message.clone(),
            pairs,
            at: now,
            transmissions: 1,
            has_arrived: false,
            is_lost: false,
        });
        Some(message)
    }

    /// Builds the next message with pairs, or the end of an epoch. Returns it with the number of
    /// its pairs.
    fn next_message(&mut self) -> Option<(Message, u64)> {
        let state = self.state.as_ref()?;
        let index = self.epoch.checked_sub(state.base)?;
        let end = *state.ends.get(usize::from(index))?;
        if self.has_ended {
            return None;
        }
        let mut header = self.config.header(Kind::Data, self.incarnation);
        header.flow = self.flow;
        header.epoch = self.epoch;
        match self.source.next(end, &self.config) {
            Next::Ready((operator, body)) => {
                let pairs = body.pairs();
                self.epoch_counts.pairs += pairs;
                self.missing += 1;
                self.counts.messages += 1;
                self.counts.pairs += pairs;
                header.shape.operator = operator;
                Some((Message { header, body }, pairs))
            }
            Next::Nothing if self.missing == 0 => {
                header.kind = Kind::End;
                if end == u32::MAX {
                    header.flags = header.flags.with(Flags::LAST);
                    self.has_ended = true;
                }
                self.epoch = self.epoch.wrapping_add(1);
                let body = Body::End(std::mem::take(&mut self.epoch_counts));
                Some((Message { header, body }, 0))
            }
            Next::Nothing | Next::Waiting => None,
        }
    }

    /// Asks for a block of the result, if it is there and missing here.
    fn ask_for_result(&mut self, now: Nanos) -> Option<Message> {
        let wanted: Vec<u32> = self.wanted().collect();
        for block in &wanted {
            // It may be on its way from a switch.
            self.asked.entry(*block).or_insert(Asked {
                at: now,
                transmissions: 0,
            });
        }
        let mut due = wanted.into_iter();
        let block = due.find(|block| self.ask_time(*block) <= now)?;
        let asked = self.asked.get_mut(&block)?;
        asked.at = now;
        asked.transmissions += 1;
        let mut header = self.config.header(Kind::Result, self.incarnation);
        header.flow = self.flow;
        header.sequence = self.submission;
        header.credit = asked.transmissions as u16;
        let body = Body::Wanted(block);
        Some(Message { header, body })
    }

    /// Returns the blocks that are in the result and not here: those of steps, and all others if
    /// mappers get the result.
    fn wanted(&self) -> impl Iterator<Item = u32> {
        let known = self.state.as_ref().zip(self.source.blocks());
        let blocks = known.into_iter().flat_map(|(state, blocks)| {
            let scale_blocks = blocks.layout().scale_blocks;
            let done = match self.is_announced {
                true => u32::MAX,
                false => state.start,
            };
            let scales = blocks.steps().unknown();
            let scales = scales.take_while(move |_| done >= scale_blocks);
            let arrivals = self.arrivals.iter();
            scales.chain(arrivals.flat_map(move |arrivals| arrivals.missing(done)))
        });
        blocks.take(MAX_ASKED)
    }

    /// Returns the time of the next question for a block of the result.
    fn ask_time(&self, block: u32) -> Nanos {
        match self.asked.get(&block) {
            None => Nanos::ZERO,
            Some(asked) if asked.transmissions > 0 => {
                asked.at + self.trip().timeout(asked.transmissions)
            }
            Some(asked) if self.arrivals.is_some() => asked.at + self.trip().smooth(),
            Some(asked) => asked.at,
        }
    }

    /// Asks for the state of the reduction, if there is nothing else to do, or to be heard.
    fn ask(&mut self, now: Nanos) -> Option<Message> {
        if self.question_time().is_none_or(|at| now < at) {
            return None;
        }
        self.questions += 1;
        let pause = QUESTION_INTERVAL.0 << self.questions.min(8);
        self.question_at = now + Nanos(pause).min(MAX_QUESTION_INTERVAL);
        self.alive_at = None;
        let mut header = self.config.header(Kind::Signal, self.incarnation);
        header.flow = self.flow;
        header.credit = self.questions as u16;
        let body = Body::Question {
            pairs: self.source.len(),
            since: self.since,
            submission: self.submission,
            lanes: self.source.blocks().map(|it| it.layout().operation()),
        };
        Some(Message { header, body })
    }

    /// Returns true if nothing is in flight, or if what is in flight gets no receipts: then the
    /// switches may have another incarnation, and drop it.
    fn is_waiting(&self) -> bool {
        let oldest = self.in_flight.front();
        oldest.is_none_or(|sent| sent.transmissions >= UNANSWERED)
    }

    /// Returns the time of the next question.
    fn question_time(&self) -> Option<Nanos> {
        let waiting = self.is_waiting().then_some(self.question_at);
        waiting.into_iter().chain(self.alive_at).min()
    }

    /// Returns true if it has nothing to send.
    fn is_at_rest(&self) -> bool {
        self.submission == 0 || self.is_complete() || self.is_replaced
    }

    /// Returns the time of the next action without a message.
    pub fn next_time(&self) -> Option<Nanos> {
        if self.is_at_rest() {
            return None;
        }
        let missing = self.in_flight.iter().filter(|sent| !sent.has_arrived);
        let deadlines = missing.map(|sent| match sent.is_lost {
            true => sent.at,
            false => sent.at + self.trip().timeout(sent.transmissions),
        });
        let asks = self.wanted().map(|block| self.ask_time(block));
        let questions = self.question_time().into_iter().chain(asks);
        deadlines.chain(questions).min()
    }
}
