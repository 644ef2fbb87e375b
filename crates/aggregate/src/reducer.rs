//! The reducer's part of a reduction: it receives what switches leave over, collects what they
//! hold, and checks both against what the mappers sent.
//!
//! No I/O and no clock. docs/internals/aggregate.md has the argument for exactness.

mod epochs;
mod progress;
mod switches;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use packet::Nanos;
use serde::{Deserialize, Serialize};

use crate::combined::Combined;
use crate::mapper::FlowConfig;
use crate::message::{Body, Flags, Header, Kind, Message, Receipts, State};
use crate::pair::Pair;
use crate::reduction_error::ReductionError;
use crate::timing::RoundTrip;
use crate::vector::{Layout, Vector};

use progress::{Asked, Clearing, Collection, Epoch, Received};

/// Maximum number of epochs of a reduction. Epochs' numbers do not come round again.
const MAX_EPOCHS: u64 = 1 << 12;

/// Number of an epoch after which no next input begins without a load.
const MAX_BASE: u16 = u16::MAX - 2 * MAX_EPOCHS as u16;

/// Number of places in the order of keys.
const ALL_PLACES: u64 = 1 << 32;

/// A switch that takes part in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchPlace {
    /// Its number among the flows: its replies are a flow of this number.
    pub flow: u16,
    /// Distance from the mappers, from 0. What a level holds passes the next ones.
    pub level: u16,
}

/// Parameters of a reducer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReducerConfig {
    /// Parameters of its flows.
    pub flows: FlowConfig,
    /// Number of mappers. Their flows are 0 and up.
    pub mappers: u16,
    /// The switches.
    pub switches: Vec<SwitchPlace>,
    /// Slots of an epoch in each switch.
    pub slots: u32,
    /// Number of epochs that mappers may send at once. Switches hold two.
    pub open_epochs: u16,
    /// Time without a message of a mapper or a switch after which it counts as failed.
    pub patience: Nanos,
    /// Time that mappers have for their next vector after the first one has it.
    pub waiting: Nanos,
}

/// Counters of a reducer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReducerCounts {
    /// Completed epochs.
    pub epochs: u64,
    /// Pairs that mappers sent in completed epochs.
    pub pairs: u64,
    /// Pairs of them that switches took out.
    pub absorbed: u64,
    /// Pairs in replies of switches.
    pub collected: u64,
    /// Messages of other attempts or incarnations, or of unknown flows.
    pub strays: u64,
    /// Messages that arrived again.
    pub repeats: u64,
    /// Restarts by new incarnations.
    pub restarts: u64,
}

/// Step of the work on the base epoch.
#[derive(Clone)]
enum Phase {
    /// Not all mappers have reported their number of keys.
    Waiting,
    /// Mappers send.
    Filling,
    /// The switches of a level are collected.
    Collecting {
        level: u16,
        absorbed: u64,
    },
    /// Switches forget the epoch before the base. By index of the switch.
    Clearing(BTreeMap<usize, Clearing>),
    Complete,
    Failed(ReductionError),
}

/// A message for a mapper or a switch, by the number of its flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addressed {
    /// The flow of the mapper or the switch.
    pub flow: u16,
    /// The message.
    pub message: Message,
}

/// Adds counts of messages. Those of a forged message may be beyond 64 bits together.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// A reducer.
#[derive(Clone)]
pub struct Reducer {
    config: ReducerConfig,
    incarnation: u32,
    phase: Phase,
    flows: Vec<Received>,
    collections: Vec<Collection>,
    /// Number of the base epoch, and place of its first key.
    base: u16,
    start: u32,
    epochs: VecDeque<Epoch>,
    /// Number of places of the next epoch.
    width: u64,
    round_trip: RoundTrip,
    outbox: VecDeque<Addressed>,
    result: Combined,
    /// Blocks of the vector, when all mappers have reported its length.
    layout: Option<Layout>,
    /// Number of the mappers' inputs that it reduces, from 1.
    submission: u32,
    /// Time at which the first mapper asked with its next input.
    first_asked_at: Option<Nanos>,
    completed_at: Option<Nanos>,
    counts: ReducerCounts,
}

impl Reducer {
    /// Creates a reducer, with the number of the first load of its switches.
    pub fn new(config: ReducerConfig, incarnation: u32) -> Reducer {
        let flows = (0..config.mappers).map(|_| Received::default());
        let collections = config.switches.iter().map(|_| Collection::default());
        Reducer {
            flows: flows.collect(),
            collections: collections.collect(),
            incarnation,
            phase: Phase::Waiting,
            base: 0,
            start: 0,
            epochs: VecDeque::new(),
            width: ALL_PLACES,
            round_trip: RoundTrip::default(),
            outbox: VecDeque::new(),
            result: Combined::default(),
            layout: None,
            submission: 1,
            first_asked_at: None,
            completed_at: None,
            counts: ReducerCounts::default(),
            config,
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> ReducerCounts {
        self.counts
    }

    /// Returns true if the result is complete.
    pub fn is_complete(&self) -> bool {
        self.completed_at.is_some()
    }

    /// Returns true if its switches have to be loaded, with the number for [`Reducer::restart`],
    /// before it goes on to the mappers' next inputs: the numbers of epochs are used up.
    pub fn wants_load(&self) -> bool {
        self.has_next_inputs() && self.base > MAX_BASE
    }

    /// Returns true if all mappers have asked with their next input.
    fn has_next_inputs(&self) -> bool {
        let is_ready = matches!(self.phase, Phase::Complete) && self.is_group();
        is_ready && self.flows.iter().all(|flow| flow.next.is_some())
    }

    /// Returns true if mappers get the result, and may have one input after the other.
    fn is_group(&self) -> bool {
        self.config.flows.receivers > 0
    }

    /// Returns the time at which the result was complete.
    pub fn completed_at(&self) -> Option<Nanos> {
        self.completed_at
    }

    /// Returns the failure, if the reduction has failed.
    pub fn failure(&self) -> Option<ReductionError> {
        match self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the reduced vector, when it is complete.
    pub fn vector(&self) -> Option<Vector> {
        let layout = self.layout.as_ref().filter(|_| self.is_complete())?;
        Some(self.result.vector(layout, self.config.mappers))
    }

    /// Returns the reduced pairs so far, sorted by key.
    pub fn result(&self) -> Vec<Pair> {
        self.result.sorted_pairs()
    }

    /// Hashes what decides the later messages and the result, without times and counters: an
    /// exploration of schedules takes reducers with equal hashes as one. The caller has polled all
    /// messages.
    pub fn hash_state(&self, state: &mut impl Hasher) {
        (self.incarnation, self.base, self.start, self.width).hash(state);
        std::mem::discriminant(&self.phase).hash(state);
        match &self.phase {
            Phase::Collecting { level, absorbed } => (level, absorbed).hash(state),
            Phase::Clearing(left) => left.keys().for_each(|index| index.hash(state)),
            Phase::Waiting | Phase::Filling | Phase::Complete | Phase::Failed(_) => {}
        }
        for flow in &self.flows {
            (flow.base, &flow.arrived, flow.asked, flow.since).hash(state);
        }
        for collection in &self.collections {
            (collection.next_sequence, collection.next_slot).hash(state);
            (collection.used, collection.counts).hash(state);
            let requests = collection.requests.iter();
            requests.for_each(|(sequence, request)| (sequence, request.first).hash(state));
        }
        for epoch in &self.epochs {
            (epoch.end, &epoch.flows, &epoch.partial).hash(state);
        }
        self.result.hash(state);
    }

    /// Begins the open epochs again, since the switches have been loaded again under this
    /// number. What they held of these epochs is lost.
    pub fn restart(&mut self, incarnation: u32, now: Nanos) {
        if incarnation <= self.incarnation || self.is_complete() && !self.is_group() {
            return;
        }
        self.incarnation = incarnation;
        self.counts.restarts += 1;
        for flow in &mut self.flows {
            flow.base = 0;
            flow.arrived.clear();
            flow.heard_at = now;
        }
        self.collections.fill_with(Collection::default);
        self.epochs.clear();
        self.base = 0;
        match self.phase {
            Phase::Waiting | Phase::Failed(_) => {}
            _ if self.is_complete() => self.phase = Phase::Complete,
            _ => self.fill(now),
        }
        self.advance(now);
    }

    /// Begins the open epochs again with another mapper of a flow, since the old one is dead or
    /// slow. Pairs of the old one in open epochs are dropped; its completed epochs stay.
    pub fn replace_mapper(&mut self, flow: u16, incarnation: u32, now: Nanos) {
        if incarnation <= self.incarnation {
            return;
        }
        if let Some(received) = self.flows.get_mut(usize::from(flow)) {
            received.since = incarnation;
        }
        self.restart(incarnation, now);
    }

    /// Returns its attempt.
    pub fn attempt(&self) -> u16 {
        self.config.flows.attempt
    }

    /// Processes a message of a mapper or a switch.
    pub fn receive(&mut self, message: &Message, now: Nanos) {
        let header = &message.header;
        let own = (self.config.flows.job, self.config.flows.attempt);
        if (header.job, header.attempt) != own || !header.flags.has(Flags::VALID) {
            self.counts.strays += 1;
            return;
        }
        if let Body::Question {
            pairs,
            since,
            submission,
            lanes,
        } = message.body
        {
            // A mapper that has seen no state yet knows no incarnation.
            let asked = Asked { keys: pairs, lanes };
            self.answer(header.flow, (asked, since, submission), now);
        } else if header.incarnation != self.incarnation {
            self.counts.strays += 1;
        } else {
            match &message.body {
                Body::Pairs(_) | Body::Large(_) | Body::End(_) => self.take(message, now),
                Body::Blocks(_) | Body::Floats(_) if header.kind == Kind::Data => {
                    self.take(message, now);
                }
                Body::Bank(bank, _) | Body::BlockBank(bank, _) if header.kind == Kind::Reply => {
                    self.collect(message, *bank, now);
                }
                Body::Wanted(block) if header.sequence == self.submission => {
                    self.send_block(header.flow, *block, now);
                }
                Body::Nothing if header.kind == Kind::Clear => self.cleared(header, now),
                _ => self.counts.strays += 1,
            }
        }
        self.advance(now);
    }

    /// Answers a mapper's question for the state.
    fn answer(&mut self, flow: u16, (asked, since, submission): (Asked, u32, u32), now: Nanos) {
        let Some(received) = self.flows.get_mut(usize::from(flow)) else {
            self.counts.strays += 1;
            return;
        };
        if since != received.since {
            // Of a mapper that was replaced, or of one that the master has not reported yet.
            self.counts.strays += 1;
            return;
        }
        received.heard_at = now;
        let is_awaited = if submission == self.submission {
            received.asked = Some(asked);
            matches!(self.phase, Phase::Waiting)
        } else if submission == self.submission.wrapping_add(1) && self.completed_at.is_some() {
            received.next = Some(asked);
            true
        } else {
            self.counts.strays += 1;
            return;
        };
        // A question for an input that is reduced, or for a result, is not one for the next input.
        if self.is_group() && is_awaited {
            self.first_asked_at.get_or_insert(now);
        }
        // A complete result stays known, also when mappers have no next input in time.
        let is_known =
            self.is_complete() || !matches!(self.phase, Phase::Waiting | Phase::Failed(_));
        if submission == self.submission && is_known {
            self.signal(flow);
        }
    }

    /// Answers a mapper's question for a block: of steps, or of the result if mappers get it.
    fn send_block(&mut self, flow: u16, block: u32, now: Nanos) {
        let done = match self.is_complete() {
            true => u32::MAX,
            false => self.start,
        };
        let mappers = self.config.mappers;
        let body = self.layout.as_ref().and_then(|layout| {
            let (is_scale, is_there) = (block < layout.scale_blocks, block < done);
            match is_scale {
                // A step is one of the combined scales of all blocks.
                true if done >= layout.scale_blocks => self.result.steps(block, mappers),
                false if is_there && self.is_group() => self.result.block(block, layout, mappers),
                _ => None,
            }
        });
        let received = self.flows.get_mut(usize::from(flow));
        let (Some(body), Some(received)) = (body, received) else {
            self.counts.strays += 1;
            return;
        };
        received.heard_at = now;
        let mut header = self.header(Kind::Result, flow, self.base);
        header.sequence = self.submission;
        header.flags = header.flags.with(Flags::ACK);
        self.send(flow, Message { header, body });
    }

    /// Sends the state to a mapper.
    fn signal(&mut self, flow: u16) {
        let mut header = self.header(Kind::Signal, flow, self.base);
        header.flags = header.flags.with(Flags::ACK);
        if self.is_complete() {
            header.flags = header.flags.with(Flags::LAST);
        }
        let state = State {
            base: self.base,
            since: self.flows[usize::from(flow)].since,
            submission: self.submission,
            start: self.start,
            ends: self.epochs.iter().map(|epoch| epoch.end).collect(),
        };
        let body = Body::State(state);
        self.send(flow, Message { header, body });
    }

    fn header(&self, kind: Kind, flow: u16, epoch: u16) -> Header {
        Header {
            flow,
            epoch,
            ..self.config.flows.header(kind, self.incarnation)
        }
    }

    fn send(&mut self, flow: u16, message: Message) {
        self.outbox.push_back(Addressed { flow, message });
    }

    /// Takes a message with pairs, or an epoch's end, and sends a receipt.
    fn take(&mut self, message: &Message, now: Nanos) {
        let header = &message.header;
        let window = self.config.flows.window;
        let Some(flow) = self.flows.get_mut(usize::from(header.flow)) else {
            self.counts.strays += 1;
            return;
        };
        flow.heard_at = now;
        let offset = header.sequence.wrapping_sub(flow.base);
        let is_old = offset as i32 <= -1;
        let has_arrived = is_old || flow.arrived.get(offset as usize) == Some(&true);
        if has_arrived {
            self.counts.repeats += 1;
        } else {
            let epoch = usize::from(header.epoch.wrapping_sub(self.base));
            if epoch >= self.epochs.len() {
                self.counts.strays += 1;
                return;
            }
            if header.flags.has(Flags::OLD) {
                // A switch has processed later messages of this place of the window, so this one
                // has a receipt already; its pairs are gone.
                self.counts.strays += 1;
                return;
            }
            flow.note(offset, window);
            self.add(epoch, message);
        }
        self.acknowledge(header);
    }

    /// Adds the pairs of a new message to their epoch.
    fn add(&mut self, epoch: usize, message: &Message) {
        let operator = self.config.flows.shape.operator;
        let epoch = &mut self.epochs[epoch];
        let flow = &mut epoch.flows[usize::from(message.header.flow)];
        match &message.body {
            Body::End(counts) => {
                flow.absorbed = flow.absorbed.saturating_add(counts.taken);
                flow.end = Some(*counts);
            }
            body => {
                flow.messages += 1;
                flow.left += body.pairs();
                let absorbed = u64::from(message.header.absorbed);
                flow.absorbed = flow.absorbed.saturating_add(absorbed);
                let layout = self.layout.as_ref();
                let number = message.header.flow;
                epoch.partial.add(number, body, operator, layout);
            }
        }
    }

    fn acknowledge(&mut self, of: &Header) {
        let flow = &self.flows[usize::from(of.flow)];
        let bits = flow.arrived.iter().take(128).enumerate();
        let arrived = bits.fold(0, |bits, (bit, is_set)| bits | u128::from(*is_set) << bit);
        let receipts = Receipts {
            base: flow.base,
            arrived,
        };
        let mut header = self.header(Kind::Ack, of.flow, of.epoch);
        header.flags = header.flags.with(Flags::ACK);
        header.flags.0 |= of.flags.0 & Flags::FULL.0;
        header.sequence = of.sequence;
        header.credit = self.config.flows.window.min(u32::from(u16::MAX)) as u16;
        let body = Body::Receipts(receipts);
        self.send(of.flow, Message { header, body });
    }

    /// Does what the state allows without further messages.
    fn advance(&mut self, now: Nanos) {
        loop {
            let is_done = match &self.phase {
                Phase::Waiting => self.begin(now),
                Phase::Filling => self.finish_filling(now),
                Phase::Collecting { level, absorbed } => {
                    let (level, absorbed) = (*level, *absorbed);
                    self.finish_level(level, absorbed, now)
                }
                Phase::Clearing(left) if left.is_empty() => {
                    match self.is_complete() {
                        true => self.phase = Phase::Complete,
                        false => self.fill(now),
                    }
                    // All messages of the next epoch may have arrived meanwhile.
                    true
                }
                Phase::Complete => self.begin_next(),
                Phase::Clearing(_) | Phase::Failed(_) => false,
            };
            if !is_done {
                return;
            }
        }
    }

    /// Fails if counts differ.
    fn check(&mut self, expected: u64, found: u64) -> bool {
        if expected != found {
            self.phase = Phase::Failed(ReductionError::Unbalanced {
                epoch: self.base,
                expected,
                found,
            });
        }
        expected == found
    }

    /// Returns the next message to send now, if there is one.
    pub fn poll(&mut self, now: Nanos) -> Option<Addressed> {
        self.step(now);
        self.outbox.pop_front()
    }

    /// Repeats what is due, and notices who is silent.
    fn step(&mut self, now: Nanos) {
        let round_trip = self.round_trip;
        let mut timed_out = 0;
        let is_due = |at: Nanos, transmissions: u32| at + round_trip.timeout(transmissions) <= now;
        match &mut self.phase {
            Phase::Waiting | Phase::Filling | Phase::Complete => {
                let silent = self.expected().find(|(_, until)| *until < now);
                if let Some((flow, _)) = silent {
                    self.phase = Phase::Failed(ReductionError::MapperSilent { flow });
                }
            }
            Phase::Collecting { level, .. } => {
                let level = *level;
                for index in self.of_level(level) {
                    let collection = &mut self.collections[index];
                    let mut due = Vec::new();
                    for (sequence, request) in &mut collection.requests {
                        if is_due(request.at, request.transmissions) {
                            timed_out = timed_out.max(request.transmissions);
                            request.at = now;
                            request.transmissions += 1;
                            due.push((*sequence, *request));
                        }
                    }
                    for (sequence, request) in due {
                        self.send_request(index, sequence, request);
                    }
                }
                let mut waiting = self.of_level(level);
                waiting.retain(|index| !self.collections[*index].is_complete());
                self.fail_if_silent(&waiting, now);
            }
            Phase::Clearing(left) => {
                let waiting: Vec<usize> = left.keys().copied().collect();
                let mut due = Vec::new();
                for (index, clearing) in left.iter_mut() {
                    if is_due(clearing.at, clearing.transmissions) {
                        timed_out = timed_out.max(clearing.transmissions);
                        clearing.at = now;
                        clearing.transmissions += 1;
                        due.push((*index, clearing.transmissions));
                    }
                }
                for (index, transmissions) in due {
                    self.send_clear(index, transmissions);
                }
                self.fail_if_silent(&waiting, now);
            }
            Phase::Failed(_) => {}
        }
        self.round_trip.timed_out(timed_out);
    }

    /// Iterates over the mappers that have to send something, each with the time until which it
    /// may be silent.
    fn expected(&self) -> impl Iterator<Item = (u16, Nanos)> {
        let Self { config, .. } = self;
        let flows = (0..).zip(&self.flows);
        flows.filter_map(move |(index, flow)| {
            let is_missing = match (self.epochs.front(), &self.phase) {
                (_, Phase::Complete) => flow.next.is_none(),
                (Some(epoch), _) => !epoch.flows[usize::from(index)].is_complete(),
                (None, _) => flow.asked.is_none(),
            };
            let until = match self.phase {
                Phase::Waiting | Phase::Complete if self.is_group() => {
                    self.first_asked_at.map(|at| at + config.waiting)
                }
                Phase::Complete => None,
                _ => Some(flow.heard_at + config.patience),
            };
            until.filter(|_| is_missing).map(|until| (index, until))
        })
    }

    fn fail_if_silent(&mut self, switches: &[usize], now: Nanos) {
        let patience = self.config.patience;
        let mut switches = switches.iter();
        let silent =
            switches.find(|index| now.since(self.collections[**index].heard_at) > patience);
        if let Some(index) = silent {
            let flow = self.config.switches[*index].flow;
            self.phase = Phase::Failed(ReductionError::SwitchSilent { flow });
        }
    }

    /// Returns the time of the next action without a message.
    pub fn next_time(&self) -> Option<Nanos> {
        if !self.outbox.is_empty() {
            return Some(Nanos::ZERO);
        }
        let deadline = |at: Nanos, transmissions| at + self.round_trip.timeout(transmissions);
        match &self.phase {
            Phase::Waiting | Phase::Filling | Phase::Complete => {
                let until = self.expected().map(|(_, until)| until);
                until.min().map(|until| until + Nanos(1))
            }
            Phase::Collecting { level, .. } => {
                let of_level = self.of_level(*level);
                let collections = of_level.iter().map(|index| &self.collections[*index]);
                let requests = collections.flat_map(|collection| collection.requests.values());
                requests
                    .map(|request| deadline(request.at, request.transmissions))
                    .min()
            }
            Phase::Clearing(left) => left
                .values()
                .map(|clearing| deadline(clearing.at, clearing.transmissions))
                .min(),
            Phase::Failed(_) => None,
        }
    }
}
