//! The target `datagrams`: messages of reductions as mappers and reducers get them from a network.
//!
//! - Messages of all kinds are read as they were written, and damaged ones are refused or read as
//!   what is written again.
//! - A reduction gets lost, doubled and reordered messages, very old ones, and ones of other
//!   reductions, attempts, loads and flows. Its result is that of a plain reduction.
//! - A reduction gets forged messages of its own number. It may fail, and never panics or holds
//!   much memory.

use std::collections::BTreeMap;
use std::fmt::Write;

use aggregate::{
    Bank, Body, EpochCounts, Flags, FlowConfig, Header, Input, KeyClass, Kind, LANES, LaneBlock,
    LaneOperation, Mapper, Message, Operator, Pair, Receipts, Reducer, ReducerConfig, Role, Shape,
    State, SwitchPlace, ValueClass, Vector,
};
use packet::Nanos;
use support::rng::Rng;

use super::guard::guarded;
use super::{Case, Fault};

/// Messages of a case that are written and read.
const MESSAGES: usize = 20;

/// Steps within which a reduction ends.
const MAX_STEPS: usize = 30_000;

/// Steps of a reduction with forged messages.
const FORGED_STEPS: usize = 600;

/// Bytes that a reduction may hold.
const MEMORY: u64 = 64 << 20;

/// Longest datagram of a reduction.
const DATAGRAM: usize = 1472;

/// Runs one case. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let stream = case.stream();
    let examined = guarded(case.limit, move || {
        let mut choices = Rng::new(stream);
        match choices.index(4) {
            0 => (0..MESSAGES)
                .try_for_each(|_| keeps_messages(&mut choices))
                .map(|()| true),
            1 => holds_little(&mut choices),
            _ => is_exact(&mut choices),
        }
    });
    let fault = match examined {
        Ok(Ok(is_complete)) => {
            if is_complete {
                case.accept();
            }
            return None;
        }
        Ok(Err(fault)) => fault,
        Err(trouble) => trouble.fault("reducing"),
    };
    Some((fault, format!("case {} of seed {}", case.number, case.seed)))
}

/// A number at a boundary, a small one or any.
fn number(choices: &mut Rng) -> u64 {
    match choices.index(4) {
        0 => [0, 1, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 63, u64::MAX][choices.index(8)],
        1 => choices.bits(),
        2 => u64::MAX - choices.below(3),
        _ => choices.below(5),
    }
}

fn shape(choices: &mut Rng) -> Shape {
    loop {
        let keys = match choices.index(6) {
            0 | 1 => KeyClass::Block,
            _ => KeyClass::ALL[choices.index(4)],
        };
        let values = match choices.index(5) {
            0 => ValueClass::F32,
            class => ValueClass::ALL[class - 1],
        };
        let operator = Operator::ALL[choices.index(3)];
        let shape = Shape {
            operator,
            keys,
            values,
        };
        if shape.is_possible() {
            return shape;
        }
    }
}

fn value(choices: &mut Rng, class: ValueClass) -> i128 {
    let bits = number(choices);
    match class {
        ValueClass::I32 | ValueClass::F32 => i128::from(bits as i32),
        ValueClass::U32 => i128::from(bits as u32),
        ValueClass::I64 => i128::from(bits as i64),
        ValueClass::U64 => i128::from(bits),
    }
}

fn pairs(choices: &mut Rng, shape: Shape) -> Vec<Pair> {
    let pair = |choices: &mut Rng| {
        let key: Vec<u8> = (0..choices.index(shape.keys.longest() + 1))
            .map(|_| choices.bits() as u8)
            .collect();
        let value = value(choices, shape.values);
        Pair::new(key, value)
    };
    (0..choices.index(6)).map(|_| pair(choices)).collect()
}

fn block(choices: &mut Rng) -> LaneBlock {
    let lane = |choices: &mut Rng| number(choices) as u32;
    LaneBlock {
        number: number(choices) as u32 >> LANES.trailing_zeros(),
        lanes: (0..LANES).map(|_| lane(choices)).collect(),
    }
}

fn bank(choices: &mut Rng) -> Bank {
    Bank {
        first: number(choices) as u32,
        used: number(choices) as u32,
        counts: number(choices),
    }
}

/// A kind with a body that it may have.
fn body(choices: &mut Rng, shape: Shape) -> (Kind, Body, bool) {
    let is_vector = shape.is_vector();
    let blocks = |choices: &mut Rng| (0..choices.index(3)).map(|_| block(choices)).collect();
    let lanes = [
        None,
        Some(LaneOperation::AddFloats),
        Some(LaneOperation::Integers(Operator::Add)),
        Some(LaneOperation::Integers(Operator::Max)),
    ];
    let is_answer = choices.one_in(2);
    let (kind, body) = match choices.index(9) {
        0 | 1 if is_vector && choices.one_in(3) => (Kind::Data, Body::Floats(block(choices))),
        0 | 1 if is_vector => (Kind::Data, Body::Blocks(blocks(choices))),
        0 => {
            let large = (0..choices.index(4)).map(|_| {
                let key = vec![choices.bits() as u8; choices.index(300)];
                Pair::new(key, i128::from(number(choices) as i64) << choices.index(64))
            });
            (Kind::Data, Body::Large(large.collect()))
        }
        1 => (Kind::Data, Body::Pairs(pairs(choices, shape))),
        2 if choices.one_in(2) => (Kind::Ack, Body::Taken),
        2 => {
            let base = number(choices) as u32;
            let arrived = u128::from(number(choices)) << choices.index(65);
            (Kind::Ack, Body::Receipts(Receipts { base, arrived }))
        }
        3 => {
            let counts = EpochCounts {
                messages: number(choices) as u32,
                pairs: number(choices),
                taken: number(choices),
            };
            (Kind::End, Body::End(counts))
        }
        4 if is_answer => {
            let state = State {
                base: number(choices) as u16,
                since: number(choices) as u32,
                submission: number(choices) as u32,
                start: number(choices) as u32,
                ends: (0..choices.index(4))
                    .map(|_| number(choices) as u32)
                    .collect(),
            };
            (Kind::Signal, Body::State(state))
        }
        4 => {
            let question = Body::Question {
                pairs: number(choices),
                since: number(choices) as u32,
                submission: number(choices) as u32,
                lanes: lanes[choices.index(lanes.len())],
            };
            (Kind::Signal, question)
        }
        5 | 6 => {
            let kind = match is_answer {
                true => Kind::Reply,
                false => Kind::Collect,
            };
            let bank = bank(choices);
            match is_vector {
                true => (kind, Body::BlockBank(bank, blocks(choices))),
                false => (kind, Body::Bank(bank, pairs(choices, shape))),
            }
        }
        7 if is_vector && is_answer && choices.one_in(2) => {
            (Kind::Result, Body::Floats(block(choices)))
        }
        7 if is_vector && is_answer => (Kind::Result, Body::Blocks(blocks(choices))),
        7 if is_vector => (Kind::Result, Body::Wanted(block(choices).number)),
        7 => (Kind::Control, Body::Nothing),
        _ => (Kind::Clear, Body::Nothing),
    };
    (kind, body, is_answer)
}

/// Returns the number of pairs in the header of a body.
fn pairs_of(body: &Body) -> u8 {
    match body {
        Body::Large(_) | Body::Floats(_) => 255,
        Body::Pairs(pairs) | Body::Bank(_, pairs) => pairs.len() as u8,
        Body::Blocks(blocks) | Body::BlockBank(_, blocks) => blocks.len() as u8,
        _ => 0,
    }
}

/// A message of any kind, with the number of a reduction.
fn message(choices: &mut Rng, shape: Shape, (job, attempt): (u16, u16)) -> Message {
    let (kind, body, is_answer) = body(choices, shape);
    let mut flags = Flags::VALID;
    if is_answer {
        flags = flags.with(Flags::ACK);
    }
    for flag in [Flags::FULL, Flags::LAST, Flags::OLD, Flags::COLLECT] {
        if choices.one_in(6) {
            flags = flags.with(flag);
        }
    }
    let header = Header {
        kind,
        flags,
        shape,
        job,
        attempt,
        flow: number(choices) as u16,
        epoch: number(choices) as u16,
        sequence: number(choices) as u32,
        incarnation: number(choices) as u32,
        pairs: pairs_of(&body),
        absorbed: number(choices) as u8,
        credit: number(choices) as u16,
    };
    Message { header, body }
}

/// Writes and reads a message, whole and damaged.
fn keeps_messages(choices: &mut Rng) -> Result<(), Fault> {
    let shape = shape(choices);
    let number = (choices.bits() as u16, choices.bits() as u16);
    let message = message(choices, shape, number);
    let mut bytes = message.write();
    if Message::read(&bytes).as_ref() != Some(&message) {
        let detail = format!("{message:?}\n{:?}", Message::read(&bytes));
        return Err(Fault::new("a message is read as another one", detail));
    }
    for _ in 0..1 + choices.index(4) {
        let at = choices.index(bytes.len() + 1);
        match choices.index(4) {
            0 if at < bytes.len() => bytes[at] ^= 1 << choices.index(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, choices.bits() as u8),
            _ if at < bytes.len() => bytes[at] = choices.bits() as u8,
            _ => {}
        }
    }
    let Some(damaged) = Message::read(&bytes) else {
        return Ok(());
    };
    let again = Message::read(&damaged.write()).map(|mut again| {
        // Bodies without pairs have no number of them.
        again.header.pairs = damaged.header.pairs;
        again
    });
    match again.as_ref() == Some(&damaged) {
        true => Ok(()),
        false => Err(Fault::new(
            "a damaged message is written as another one",
            format!("{damaged:?}\n{again:?}\n{bytes:02x?}"),
        )),
    }
}

/// A reduction over a network that the case decides on.
struct Reduction {
    config: FlowConfig,
    inputs: Vec<Input>,
    /// The mappers, then the reducer.
    roles: Vec<Role<usize>>,
    now: Nanos,
    /// Messages under way, each with its receiver.
    under_way: Vec<(usize, Message)>,
    /// All messages so far.
    sent: Vec<(usize, Message)>,
    switches: usize,
}

impl Reduction {
    fn new(choices: &mut Rng, switches: u16) -> Result<Reduction, Fault> {
        let shape = shape(choices);
        let mappers = 1 + choices.index(3);
        let length = choices.index(700);
        let inputs: Vec<Input> = (0..mappers)
            .map(|_| input(choices, shape, length))
            .collect();
        let config = FlowConfig {
            job: 7,
            attempt: 2,
            shape,
            window: 1 << choices.index(6),
            pairs_per_message: match shape.is_vector() {
                true => 1,
                false => 1 + choices.index(6),
            },
            datagram_bytes: DATAGRAM,
            receivers: match shape.is_vector() && choices.one_in(2) {
                true => mappers as u16,
                false => 0,
            },
        };
        let levels = switches.max(1);
        let reducer = ReducerConfig {
            flows: config,
            mappers: mappers as u16,
            switches: (0..switches)
                .map(|number| SwitchPlace {
                    flow: mappers as u16 + number,
                    level: number % levels,
                })
                .collect(),
            slots: 1 + choices.index(9) as u32,
            open_epochs: 1 + choices.index(4) as u16,
            patience: Nanos::from_secs(1000),
            waiting: Nanos::from_secs(1000),
        };
        let mut roles = Vec::new();
        for (flow, input) in inputs.iter().enumerate() {
            let mapper = Mapper::new(config, flow as u16, input.clone());
            let mapper = mapper.map_err(|error| Fault::new("no mapper", error.to_string()))?;
            roles.push(Role::Mapper {
                mapper: Box::new(mapper),
                job: config.job,
                flow: flow as u16,
                reducer: mappers,
            });
        }
        roles.push(Role::Reducer {
            reducer: Box::new(Reducer::new(reducer, 1)),
            job: config.job,
            flows: (0..mappers + usize::from(switches))
                .map(|it| if it < mappers { it } else { it + 1 })
                .collect(),
        });
        Ok(Reduction {
            config,
            inputs,
            roles,
            now: Nanos::ZERO,
            under_way: Vec::new(),
            sent: Vec::new(),
            switches: usize::from(switches),
        })
    }

    /// Lets all send what they have.
    fn send(&mut self) {
        for role in &mut self.roles {
            while let Some(next) = role.poll(self.now) {
                self.under_way.push(next.clone());
                self.sent.push(next);
            }
        }
    }

    fn deliver(&mut self, to: usize, message: &Message) {
        // What passes a network is read again.
        if let Some(message) = Message::read(&message.write())
            && let Some(role) = self.roles.get_mut(to)
        {
            role.receive(&message, self.now);
        }
    }

    /// Delivers, loses or doubles a message, or passes to the next time of something.
    fn step(&mut self, choices: &mut Rng, loss: usize) {
        self.send();
        if self.under_way.is_empty() || choices.one_in(30) {
            let times = self.roles.iter().filter_map(Role::next_time);
            let next = times.min().unwrap_or(self.now);
            self.now = (self.now + Nanos(1000)).max(next);
            return;
        }
        self.now += Nanos(choices.below(20_000));
        let at = match choices.one_in(5) {
            true => choices.index(self.under_way.len()),
            false => 0,
        };
        let (to, message) = match choices.one_in(20) {
            true => self.under_way[at].clone(),
            false => self.under_way.remove(at),
        };
        if choices.index(100) >= loss {
            self.deliver(to, &message);
        }
    }

    fn reducer(&self) -> Option<&Reducer> {
        match self.roles.last() {
            Some(Role::Reducer { reducer, .. }) => Some(reducer),
            _ => None,
        }
    }

    fn mappers(&mut self) -> impl Iterator<Item = &mut Mapper> {
        self.roles.iter_mut().filter_map(|role| match role {
            Role::Mapper { mapper, .. } => Some(&mut **mapper),
            Role::Reducer { .. } => None,
        })
    }

    /// Returns a message that changes nothing, and its receiver.
    fn stray(&self, choices: &mut Rng) -> Option<(usize, Message)> {
        let (to, mut message) = match choices.one_in(3) {
            true => {
                let own = (self.config.job, self.config.attempt);
                (
                    choices.index(self.roles.len()),
                    message(choices, self.config.shape, own),
                )
            }
            false => choices.pick(&self.sent)?.clone(),
        };
        let header = &mut message.header;
        match choices.index(6) {
            0 => header.job = header.job.wrapping_add(1 + choices.below(9) as u16),
            1 => header.attempt = header.attempt.wrapping_sub(1 + choices.below(9) as u16),
            2 => header.flags.0 &= !Flags::VALID.0,
            3 if header.kind == Kind::Data || header.kind == Kind::End => {
                header.incarnation = header.incarnation.wrapping_add(choices.bits() as u32 | 1);
                if header.incarnation == 1 {
                    header.incarnation = 2;
                }
            }
            4 if header.kind == Kind::Data || header.kind == Kind::End => {
                header.flow = self.inputs.len() as u16 + choices.below(1000) as u16;
            }
            // A very old one.
            _ => return choices.pick(&self.sent).cloned(),
        }
        Some((to, message))
    }
}

/// The input of a mapper.
fn input(choices: &mut Rng, shape: Shape, length: usize) -> Input {
    match (shape.keys, shape.values) {
        (KeyClass::Block, ValueClass::F32) => {
            let special = [f32::NAN, f32::INFINITY, 0.0, f32::MAX, f32::MIN_POSITIVE];
            let float = |choices: &mut Rng| match choices.one_in(400) {
                true => special[choices.index(special.len())],
                false => choices.below(2000) as f32 - 1000.0,
            };
            Input::Floats((0..length).map(|_| float(choices)).collect())
        }
        (KeyClass::Block, _) => {
            Input::Integers((0..length).map(|_| number(choices) as i32).collect())
        }
        (_, values) => {
            let mut pairs = BTreeMap::new();
            for _ in 0..choices.index(40) {
                let long = if choices.one_in(9) { 80 } else { 0 };
                let key = vec![choices.index(9) as u8; long + choices.index(6)];
                pairs.insert(key, value(choices, values));
            }
            let pairs = pairs.into_iter().map(|(key, value)| Pair::new(key, value));
            Input::Pairs(pairs.collect())
        }
    }
}

/// Runs a reduction with faults and strays. Its result is that of a plain reduction.
fn is_exact(choices: &mut Rng) -> Result<bool, Fault> {
    let mut reduction = Reduction::new(choices, 0)?;
    let loss = choices.index(12);
    let strays = choices.index(4);
    for _ in 0..MAX_STEPS {
        reduction.step(choices, loss);
        if choices.index(10) < strays
            && let Some((to, message)) = reduction.stray(choices)
        {
            reduction.deliver(to, &message);
        }
        if let Some(failure) = reduction.reducer().and_then(Reducer::failure) {
            return Err(Fault::new("a reduction fails", failure.to_string()));
        }
        let is_complete = reduction.reducer().is_some_and(Reducer::is_complete);
        if is_complete && reduction.mappers().all(|mapper| mapper.is_complete()) {
            return has_result(&mut reduction).map(|()| true);
        }
    }
    Err(Fault::new(
        "a reduction does not end",
        format!("{:?}", reduction.config),
    ))
}

fn has_result(reduction: &mut Reduction) -> Result<(), Fault> {
    let Shape { operator, .. } = reduction.config.shape;
    let is_vector = reduction.config.shape.is_vector();
    let expected = Vector::of(&reduction.inputs, operator).filter(|_| is_vector);
    let mut plain: BTreeMap<Box<[u8]>, i128> = BTreeMap::new();
    for pair in reduction.inputs.iter().flat_map(Input::pairs) {
        let value = plain.entry(pair.key.clone()).or_insert(pair.value);
        *value = match operator {
            Operator::Max => (*value).max(pair.value),
            Operator::Min => (*value).min(pair.value),
            // Its own first value is there already.
            Operator::Add => *value,
        };
    }
    if operator == Operator::Add {
        plain.values_mut().for_each(|value| *value = 0);
        for pair in reduction.inputs.iter().flat_map(Input::pairs) {
            if let Some(value) = plain.get_mut(&pair.key) {
                *value += pair.value;
            }
        }
    }
    let plain: Vec<Pair> = plain
        .into_iter()
        .map(|(key, value)| Pair { key, value })
        .collect();
    let reducer = reduction.reducer();
    let found = reducer.map(Reducer::result).unwrap_or_default();
    let vector = reducer.and_then(Reducer::vector);
    let mut wrong = String::new();
    if found != plain {
        let _ = writeln!(wrong, "{found:?}\n{plain:?}");
    }
    if vector != expected {
        let _ = writeln!(wrong, "{vector:?}\n{expected:?}");
    }
    if reduction.config.receivers > 0 {
        let expected = expected.map(Vector::in_32_bits);
        for mapper in reduction.mappers() {
            let received = mapper.take_result();
            if received != expected {
                let _ = writeln!(wrong, "a mapper has {received:?}\n{expected:?}");
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Fault::new("a wrong result", wrong)),
    }
}

/// Runs a reduction with forged messages of its number.
fn holds_little(choices: &mut Rng) -> Result<bool, Fault> {
    let switches = choices.index(3) as u16;
    let mut ended = Ok(false);
    let held = allocation_counter::measure(|| {
        ended = forge(choices, switches);
    });
    match held.bytes_max > MEMORY {
        true => Err(Fault::new(
            "forged messages take memory",
            format!("{}", held.bytes_max),
        )),
        false => ended,
    }
}

fn forge(choices: &mut Rng, switches: u16) -> Result<bool, Fault> {
    let mut reduction = Reduction::new(choices, switches)?;
    for _ in 0..FORGED_STEPS {
        reduction.step(choices, 2);
        if choices.one_in(3) {
            let own = (reduction.config.job, reduction.config.attempt);
            let mut forged = match choices.one_in(2) {
                true => message(choices, reduction.config.shape, own),
                false => {
                    let Some((_, sent)) = choices.pick(&reduction.sent) else {
                        continue;
                    };
                    let mut sent = sent.clone();
                    sent.body = body(choices, reduction.config.shape).1;
                    sent
                }
            };
            let header = &mut forged.header;
            let flows = reduction.inputs.len() + reduction.switches;
            if !choices.one_in(4) {
                header.flow = choices.index(flows) as u16;
                header.incarnation = 1;
                header.epoch = choices.below(3) as u16;
                header.sequence = choices.below(8) as u32;
            }
            if let Body::State(state) = &mut forged.body
                && choices.one_in(2)
            {
                (state.since, state.submission) = (0, 1);
            }
            if let Body::Question {
                since, submission, ..
            } = &mut forged.body
                && choices.one_in(2)
            {
                (*since, *submission) = (0, 1 + choices.below(2) as u32);
            }
            let to = choices.index(reduction.roles.len());
            reduction.deliver(to, &forged);
        }
    }
    reduction.send();
    let is_complete = reduction.reducer().is_some_and(Reducer::is_complete);
    if is_complete {
        let reducer = reduction.reducer();
        let _ = reducer.map(|reducer| (reducer.result(), reducer.vector()));
        reduction
            .mappers()
            .for_each(|mapper| drop(mapper.take_result()));
    }
    Ok(is_complete)
}
