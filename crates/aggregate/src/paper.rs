//! The paper's algorithm 1, as printed, in a simulated fabric: for comparisons. Its results are
//! wrong under loss.
//!
//! The switch next to the reducer combines all pairs and forwards the header alone. It keeps a
//! number for each mapper and drops what is not larger. Where the paper leaves a choice, the one
//! that loses less is taken: a dropped repeat gets an ACK too, so that a lost ACK stops no mapper,
//! and a mapper repeats its collection signal until the reducer has it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::rc::Rc;

use fabric::topology::{BitRate, HostId, LinkSpec, SwitchId, Topology};
use fabric::{FabricError, Node, NodeCounts, Simulation};
use packet::{Nanos, PortId};

use crate::datagram::{self, Endpoint};
use crate::host::endpoint;
use crate::mapper::FlowConfig;
use crate::message::{Bank, Body, EpochCounts, Flags, Header, Kind, Message, Receipts};
use crate::pair::{Operator, Pair};
use crate::plan::Plan;
use crate::timing::RoundTrip;
use crate::vector::Input;

/// Messages of a mapper in flight.
const WINDOW: usize = 32;

/// Later receipts after which a message is sent again.
const LATER_ARRIVALS: u32 = 3;

const ATTEMPT: u16 = 1;

/// Reading of the sentence "the switch will increment the register value of the mapper by one".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceReading {
    /// The switch adds one, whatever the number of the message is.
    AddsOne,
    /// The switch takes the number of the message.
    TakesNumber,
}

/// Outcome of a reduction by the paper's algorithm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaperOutcome {
    /// The reduced pairs, sorted by key.
    pub result: Vec<Pair>,
    /// True if all mappers have ended.
    pub is_complete: bool,
    /// Pairs that the mappers sent, without repeats.
    pub pairs: u64,
    /// Repeated messages.
    pub repeats: u64,
    /// Simulated time of the end.
    pub ended_at: Nanos,
}

/// Numbers of keys of a result that differ from one map over all pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrongKeys {
    /// Keys that are missing or lack a value: of sums and largest values the result is too small,
    /// of smallest values too large.
    pub missing: usize,
    /// Keys with another wrong value, or that no mapper has.
    pub doubled: usize,
}

impl WrongKeys {
    /// Compares a result with the pairs of all mappers.
    pub fn of(operator: Operator, inputs: &[Input], result: &[Pair]) -> WrongKeys {
        let mut expected = HashMap::new();
        for input in inputs {
            operator.combine_all(&mut expected, input.pairs());
        }
        let mut wrong = WrongKeys::default();
        let lacks = |expected: i128, found: i128| match operator {
            Operator::Max | Operator::Add => found < expected,
            Operator::Min => found > expected,
        };
        for pair in result {
            match expected.remove(&pair.key) {
                Some(value) if value == pair.value => {}
                Some(value) if lacks(value, pair.value) => wrong.missing += 1,
                _ => wrong.doubled += 1,
            }
        }
        wrong.missing += expected.len();
        wrong
    }
}

/// Ports of a node: each sends at its link's rate, and drops what its queue cannot hold.
#[derive(Default)]
struct Ports {
    links: BTreeMap<PortId, (Option<BitRate>, usize)>,
    free_at: BTreeMap<PortId, Nanos>,
    /// Starts of the transmissions of queued frames.
    starts: BTreeMap<PortId, VecDeque<Nanos>>,
    sent: VecDeque<(PortId, Vec<u8>, Nanos)>,
    counts: NodeCounts,
    full: u64,
    other: u64,
}

impl Ports {
    fn attach(&mut self, port: PortId, link: &LinkSpec) {
        self.links.insert(port, (link.rate, link.queue));
    }

    fn send(&mut self, port: PortId, frame: Vec<u8>, now: Nanos) {
        let (rate, queue) = self.links.get(&port).copied().unwrap_or((None, usize::MAX));
        let starts = self.starts.entry(port).or_default();
        while starts.front().is_some_and(|at| *at <= now) {
            starts.pop_front();
        }
        if starts.len() >= queue {
            self.full += 1;
            return;
        }
        let free_at = self.free_at.entry(port).or_default();
        let at = now.max(*free_at);
        *free_at = at + rate.map_or(Nanos::ZERO, |rate| rate.time_of(frame.len()));
        starts.push_back(at);
        self.sent.push_back((port, frame, at));
    }

    fn drain(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        while let Some((port, frame, at)) = self.sent.pop_front() {
            self.counts.sent += 1;
            take(port, &frame, at);
        }
    }

    fn tally(&self) -> NodeCounts {
        let mut counts = self.counts.clone();
        counts.held = self.sent.len() as u64;
        for (reason, number) in [("queue_full", self.full), ("not_for_this_node", self.other)] {
            if number > 0 {
                counts.dropped.push((reason, number));
            }
        }
        counts
    }
}

/// Returns a message of a flow.
fn message(config: &FlowConfig, kind: Kind, flow: u16, sequence: u32, body: Body) -> Message {
    let header = Header {
        flow,
        sequence,
        ..config.header(kind, 0)
    };
    Message { header, body }
}

fn receipt(config: &FlowConfig, flow: u16, sequence: u32) -> Message {
    let receipts = Receipts {
        base: sequence,
        arrived: 0,
    };
    let mut message = message(config, Kind::Ack, flow, sequence, Body::Receipts(receipts));
    message.header.flags = message.header.flags.with(Flags::ACK);
    message
}

/// A mapper: selective repeat, then a collection signal.
struct Mapper {
    flow: u16,
    reducer: Endpoint,
    /// By sequence number, from 1. The last one is the signal.
    messages: Vec<Message>,
    next: usize,
    /// Time and number of the transmissions, and true if it must be sent again.
    in_flight: BTreeMap<u32, (Nanos, u32, bool)>,
    round_trip: RoundTrip,
    repeats: u64,
}

impl Mapper {
    fn acknowledge(&mut self, sequence: u32, now: Nanos) {
        if let Some((at, 1, _)) = self.in_flight.remove(&sequence) {
            self.round_trip.add(now.since(at));
        }
        for (other, (_, transmissions, is_lost)) in &mut self.in_flight {
            *is_lost |= *transmissions == 1 && other + LATER_ARRIVALS <= sequence;
        }
    }

    /// Returns true if it may send a new message: the signal alone, after all others.
    fn has_next(&self) -> bool {
        let is_signal = self.next + 1 == self.messages.len();
        let most = if is_signal { 1 } else { WINDOW };
        self.next < self.messages.len() && self.in_flight.len() < most
    }

    fn poll(&mut self, now: Nanos) -> Option<Message> {
        let round_trip = self.round_trip;
        let mut due = self
            .in_flight
            .iter_mut()
            .filter(|(_, (at, n, is_lost))| *is_lost || *at + round_trip.timeout(*n) <= now);
        let sequence = match due.next() {
            Some((sequence, sent)) => {
                *sent = (now, sent.1 + 1, false);
                self.repeats += 1;
                *sequence
            }
            None => {
                if !self.has_next() {
                    return None;
                }
                self.next += 1;
                self.in_flight.insert(self.next as u32, (now, 1, false));
                self.next as u32
            }
        };
        let mut message = self.messages[sequence as usize - 1].clone();
        message.header.credit = self.in_flight[&sequence].1 as u16;
        Some(message)
    }

    fn next_time(&self) -> Option<Nanos> {
        if self.has_next() {
            return Some(Nanos::ZERO);
        }
        let sent = self.in_flight.values();
        sent.map(|(at, n, _)| *at + self.round_trip.timeout(*n))
            .min()
    }
}

/// The reducer, the paper's master.
struct Reducer {
    config: FlowConfig,
    mappers: Vec<Endpoint>,
    result: HashMap<Box<[u8]>, i128>,
    /// Messages with pairs of any size that have arrived.
    large: BTreeSet<(u16, u32)>,
    ended: BTreeSet<u16>,
    answers: VecDeque<(u16, Message)>,
    ended_at: Nanos,
}

impl Reducer {
    fn receive(&mut self, message: &Message, now: Nanos) {
        let Header { flow, sequence, .. } = message.header;
        let operator = self.config.shape.operator;
        match (&message.body, message.header.kind) {
            (Body::Large(pairs), _) => {
                if self.large.insert((flow, sequence)) {
                    operator.combine_all(&mut self.result, pairs);
                }
            }
            (Body::Bank(_, pairs), Kind::Reply) => {
                operator.combine_all(&mut self.result, pairs);
                return;
            }
            (_, Kind::End) => {
                if self.ended.insert(flow) {
                    self.ended_at = now;
                }
            }
            // The header of a message that the switch combined.
            _ => return,
        }
        let answer = receipt(&self.config, flow, sequence);
        self.answers.push_back((flow, answer));
    }
}

/// A mapper or reducer, with the number of its reduction.
enum Part {
    Mapper(Mapper),
    Reducer(Reducer),
}

type Parts = Rc<RefCell<Vec<(u16, Part)>>>;

struct Host {
    own: Endpoint,
    parts: Parts,
    ports: Ports,
}

impl Node for Host {
    fn attach(&mut self, port: PortId, link: &LinkSpec) {
        self.ports.attach(port, link);
    }

    fn receive(&mut self, _: PortId, bytes: &[u8], now: Nanos) {
        self.ports.counts.received += 1;
        let datagram = datagram::read(bytes).filter(|datagram| datagram.to == self.own.address);
        let Some(message) = datagram.and_then(|datagram| Message::read(datagram.payload)) else {
            self.ports.other += 1;
            return;
        };
        self.ports.counts.delivered += 1;
        let Header {
            job,
            flow,
            sequence,
            ..
        } = message.header;
        for (own, part) in self.parts.borrow_mut().iter_mut() {
            match part {
                Part::Mapper(mapper)
                    if (*own, mapper.flow, message.header.kind) == (job, flow, Kind::Ack) =>
                {
                    mapper.acknowledge(sequence, now);
                }
                Part::Reducer(reducer) if *own == job && message.header.kind != Kind::Ack => {
                    reducer.receive(&message, now);
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, now: Nanos) {
        for (_, part) in self.parts.borrow_mut().iter_mut() {
            loop {
                let (to, message) = match part {
                    Part::Mapper(mapper) => match mapper.poll(now) {
                        Some(message) => (mapper.reducer, message),
                        None => break,
                    },
                    Part::Reducer(reducer) => match reducer.answers.pop_front() {
                        Some((flow, message)) => (reducer.mappers[usize::from(flow)], message),
                        None => break,
                    },
                };
                self.ports.counts.made += 1;
                let frame = datagram::write(self.own, to, &message.write());
                self.ports.send(PortId(0), frame, now);
            }
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        let parts = self.parts.borrow();
        let times = parts.iter().filter_map(|(_, part)| match part {
            Part::Mapper(mapper) => mapper.next_time(),
            Part::Reducer(reducer) => reducer.answers.front().map(|_| Nanos::ZERO),
        });
        times.min()
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        self.ports.drain(take);
    }

    fn tally(&self) -> NodeCounts {
        self.ports.tally()
    }
}

/// A reduction in the switch: the arrays and the counter of algorithm 1.
struct Arrays {
    config: FlowConfig,
    bound: usize,
    values: HashMap<Box<[u8]>, i128>,
    progress: HashMap<u16, u32>,
}

impl Arrays {
    /// Returns true if a message is not an old one, and notes it.
    fn is_new(&mut self, flow: u16, sequence: u32, reading: SequenceReading) -> bool {
        let progress = self.progress.entry(flow).or_default();
        let is_new = sequence > *progress;
        if is_new {
            *progress = match reading {
                SequenceReading::AddsOne => *progress + 1,
                SequenceReading::TakesNumber => sequence,
            };
        }
        is_new
    }

    /// Takes all pairs out, as messages.
    fn collect(&mut self, flow: u16) -> Vec<Message> {
        let pairs = self
            .values
            .drain()
            .map(|(key, value)| Pair::new(key, value));
        let mut pairs: Vec<Pair> = pairs.collect();
        pairs.sort_unstable();
        let chunks = pairs.chunks(self.config.pairs_per_message);
        let body = |pairs: &[Pair]| Body::Bank(Bank::default(), pairs.to_vec());
        chunks
            .map(|pairs| message(&self.config, Kind::Reply, flow, 0, body(pairs)))
            .collect()
    }
}

struct Switch {
    id: SwitchId,
    plan: Rc<Plan>,
    reading: SequenceReading,
    arrays: BTreeMap<u16, Arrays>,
    ports: Ports,
}

impl Switch {
    /// Forwards a frame that came by a port, or was made of one that did. A message of a flow goes
    /// on its path, other frames on the routes.
    fn forward(&mut self, flow: Option<(u16, u16)>, mut frame: Vec<u8>, from: PortId, now: Nanos) {
        let to = Ipv4Addr::new(frame[30], frame[31], frame[32], frame[33]);
        let on_path = flow.and_then(|flow| self.plan.flow_hop((self.id, from), flow, to));
        match on_path.or_else(|| self.plan.next_hop(self.id, to)) {
            Some((port, mac)) => {
                frame[..6].copy_from_slice(&mac);
                self.ports.send(port, frame, now);
            }
            None => self.ports.other += 1,
        }
    }

    /// Algorithm 1: returns the messages to the reducer and to the mapper in place of a message.
    /// `None` if it is forwarded as it is.
    fn process(&mut self, message: &Message) -> Option<(Vec<Message>, Vec<Message>)> {
        let header = message.header;
        let Header { flow, sequence, .. } = header;
        let reading = self.reading;
        let arrays = self.arrays.get_mut(&header.job)?;
        let ack = receipt(&arrays.config, flow, sequence);
        match &message.body {
            Body::Pairs(pairs) if header.kind == Kind::Data => {
                if !arrays.is_new(flow, sequence, reading) {
                    return Some((Vec::new(), vec![ack]));
                }
                header.shape.operator.combine_all(&mut arrays.values, pairs);
                let mut to_reducer = vec![Message {
                    header,
                    body: Body::Pairs(Vec::new()),
                }];
                if arrays.values.len() > arrays.bound {
                    to_reducer.extend(arrays.collect(flow));
                }
                Some((to_reducer, vec![ack]))
            }
            Body::Bank(..) if header.kind == Kind::Collect => {
                let mut to_reducer = arrays.collect(flow);
                let end = Body::End(EpochCounts::default());
                to_reducer.push(self::message(
                    &arrays.config,
                    Kind::End,
                    flow,
                    sequence,
                    end,
                ));
                Some((to_reducer, Vec::new()))
            }
            _ => None,
        }
    }
}

impl Node for Switch {
    fn attach(&mut self, port: PortId, link: &LinkSpec) {
        self.ports.attach(port, link);
    }

    fn receive(&mut self, port: PortId, bytes: &[u8], now: Nanos) {
        self.ports.counts.received += 1;
        let Some(datagram) = datagram::read(bytes) else {
            self.ports.other += 1;
            return;
        };
        let message = Message::read(datagram.payload);
        let flow = message.as_ref().map(|m| (m.header.job, m.header.flow));
        let Some((to_reducer, to_mapper)) = message.and_then(|message| self.process(&message))
        else {
            self.forward(flow, bytes.to_vec(), port, now);
            return;
        };
        self.ports.counts.delivered += 1;
        let end = |mac: &[u8], ip: &[u8]| {
            let mac = [mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]];
            endpoint(mac, Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3]))
        };
        let from = end(&bytes[6..12], &bytes[26..30]);
        let to = end(&bytes[..6], &bytes[30..34]);
        let to_reducer = to_reducer
            .iter()
            .map(|m| datagram::write(from, to, &m.write()));
        let to_mapper = to_mapper
            .iter()
            .map(|m| datagram::write(to, from, &m.write()));
        let frames: Vec<Vec<u8>> = to_reducer.chain(to_mapper).collect();
        for frame in frames {
            self.ports.counts.made += 1;
            self.forward(flow, frame, port, now);
        }
    }

    fn step(&mut self, _: Nanos) {}

    fn next_time(&self) -> Option<Nanos> {
        None
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        self.ports.drain(take);
    }

    fn tally(&self) -> NodeCounts {
        self.ports.tally()
    }
}

/// A simulated fabric with the paper's algorithm in the last switch of each reduction of a plan.
pub struct PaperRun {
    simulation: Simulation,
    plan: Rc<Plan>,
    parts: Vec<Parts>,
}

impl PaperRun {
    /// Creates the fabric. `inputs` are, for each reduction and each of its mappers, the pairs of
    /// the mapper.
    ///
    /// # Errors
    /// As of [`Simulation::new`].
    pub fn new(
        topology: Topology,
        plan: Plan,
        inputs: &[Vec<Input>],
        reading: SequenceReading,
    ) -> Result<PaperRun, FabricError> {
        let plan = Rc::new(plan);
        let ends = topology.hosts.iter();
        let ends: Vec<Endpoint> = ends.map(|h| endpoint(h.mac, h.address)).collect();
        let parts: Vec<Parts> = ends.iter().map(|_| Parts::default()).collect();
        for (planned, inputs) in plan.reductions.iter().zip(inputs) {
            let (job, request) = (planned.job, &planned.request);
            let config = planned.flow_config(ATTEMPT);
            for ((flow, (host, _)), input) in (0..).zip(&request.mappers).zip(inputs) {
                let mapper = Mapper {
                    flow,
                    reducer: ends[request.reducer.0],
                    messages: messages(&config, flow, input.pairs()),
                    next: 0,
                    in_flight: BTreeMap::new(),
                    round_trip: RoundTrip::default(),
                    repeats: 0,
                };
                let mut parts = parts[host.0].borrow_mut();
                parts.push((job, Part::Mapper(mapper)));
            }
            let reducer = Reducer {
                config,
                mappers: request.mappers.iter().map(|(h, _)| ends[h.0]).collect(),
                result: HashMap::new(),
                large: BTreeSet::new(),
                ended: BTreeSet::new(),
                answers: VecDeque::new(),
                ended_at: Nanos::ZERO,
            };
            let mut parts = parts[request.reducer.0].borrow_mut();
            parts.push((job, Part::Reducer(reducer)));
        }
        let names: Vec<String> = topology.switches.iter().map(|s| s.name.clone()).collect();
        let mut simulation = Simulation::new(topology, &mut |spec| {
            let id = names.iter().position(|name| *name == spec.name);
            let id = SwitchId(id.unwrap_or_default());
            let reductions = plan.reductions.iter();
            let own = reductions.filter(|r| r.switches.last().is_some_and(|s| s.switch == id));
            let arrays = own.map(|planned| {
                let arrays = Arrays {
                    config: planned.flow_config(ATTEMPT),
                    bound: planned.request.slots as usize,
                    values: HashMap::new(),
                    progress: HashMap::new(),
                };
                (planned.job, arrays)
            });
            Ok(Box::new(Switch {
                id,
                plan: Rc::clone(&plan),
                reading,
                arrays: arrays.collect(),
                ports: Ports::default(),
            }))
        })?;
        for (number, (own, parts)) in ends.iter().zip(&parts).enumerate() {
            let node = Host {
                own: *own,
                parts: Rc::clone(parts),
                ports: Ports::default(),
            };
            simulation.replace_host(HostId(number), Box::new(node))?;
        }
        Ok(PaperRun {
            simulation,
            plan,
            parts,
        })
    }

    /// Runs until all mappers have ended, or until the time is over. `observe` is called
    /// frequently and stops the run by returning false.
    ///
    /// # Errors
    /// As of [`Simulation::run_until`].
    pub fn run(
        &mut self,
        end: Nanos,
        observe: &mut dyn FnMut(&Simulation) -> bool,
    ) -> Result<(), FabricError> {
        let is_done = |run: &PaperRun| run.outcomes().iter().all(|o| o.is_complete);
        while self.simulation.now() < end && observe(&self.simulation) && !is_done(self) {
            let slice = self.simulation.now() + Nanos::from_millis(10);
            self.simulation.run_until(slice.min(end))?;
        }
        Ok(())
    }

    /// Returns the outcome of each reduction.
    pub fn outcomes(&self) -> Vec<PaperOutcome> {
        let mut outcomes = vec![PaperOutcome::default(); self.plan.reductions.len()];
        for parts in &self.parts {
            for (job, part) in parts.borrow().iter() {
                let reduction = usize::from(*job) - 1;
                let outcome = &mut outcomes[reduction];
                match part {
                    Part::Mapper(mapper) => {
                        outcome.repeats += mapper.repeats;
                        let sent = mapper.messages.iter().map(|message| match &message.body {
                            Body::Pairs(pairs) | Body::Large(pairs) => pairs.len() as u64,
                            _ => 0,
                        });
                        outcome.pairs += sent.sum::<u64>();
                    }
                    Part::Reducer(reducer) => {
                        let pairs = reducer.result.iter();
                        let pairs = pairs.map(|(key, value)| Pair::new(key.clone(), *value));
                        outcome.result = pairs.collect();
                        outcome.result.sort_unstable();
                        outcome.is_complete = reducer.ended.len() == reducer.mappers.len();
                        outcome.ended_at = reducer.ended_at;
                    }
                }
            }
        }
        outcomes
    }

    /// Returns the simulation.
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }
}

/// Returns the messages of a mapper, the collection signal last.
fn messages(config: &FlowConfig, flow: u16, pairs: &[Pair]) -> Vec<Message> {
    let fits = |pair: &&Pair| {
        pair.key.len() <= config.shape.keys.longest() && config.shape.values.fits(pair.value)
    };
    let (small, large): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(fits);
    let copies = |pairs: &[&Pair]| pairs.iter().map(|pair| (*pair).clone()).collect();
    let small = small.chunks(config.pairs_per_message);
    let small = small.map(|pairs| Body::Pairs(copies(pairs)));
    let large = large.chunks(1).map(|pairs| Body::Large(copies(pairs)));
    let data = small.chain(large).map(|body| (Kind::Data, body));
    let signal = (Kind::Collect, Body::Bank(Bank::default(), Vec::new()));
    let all = (1..).zip(data.chain([signal]));
    all.map(|(sequence, (kind, body))| message(config, kind, flow, sequence, body))
        .collect()
}
