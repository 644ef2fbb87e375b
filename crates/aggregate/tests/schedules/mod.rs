//! All schedules of a small reduction with faults, with the emitted program as the switch.
//!
//! Two mappers, one switch and one reducer. A schedule chooses, step by step, which message arrives
//! next, which is lost or doubled, when a time-out fires, and when the switch is loaded again.
//! Mappers and reducer are the product's; a time-out is a step like any other, so clocks have no
//! influence. The switch is a device with the emitted program: its registers are read and written
//! before and after each frame, and each pair of registers and frame runs once.
//!
//! States with equal hashes of 128 bits count as one state.

mod search;

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

use aggregate::datagram::{self, Endpoint};
use aggregate::{
    FlowConfig, KeyClass, Kind, Mapper, Message, Operator, Pair, Reducer, ReducerConfig, Shape,
    SwitchPlace, SwitchReduction, ValueClass, emit,
};
use exec::ExternState;
use packet::{Nanos, PortId};
use switch::{Device, DeviceConfig};

pub(crate) use search::explore;

const MAPPERS: usize = 2;

/// Index of the reducer among the nodes.
const REDUCER: usize = MAPPERS;

/// Flow of the switch.
const SWITCH_FLOW: u16 = MAPPERS as u16;

const ATTEMPT: u16 = 1;

/// Messages of a flow in flight. Two let the places of the window come round.
const WINDOW: u32 = 2;

/// Slots that the reducer plans for. Eight keys make two epochs.
const PLANNED_SLOTS: u32 = 5;

/// Longer than all time-outs.
const LONG: Nanos = Nanos::from_millis(1000);

/// Numbers of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// Lost messages.
    pub(crate) losses: u8,
    /// Doubled messages, and time-outs of messages that are still on their way.
    pub(crate) duplicates: u8,
    /// Loads of the switch with empty registers.
    pub(crate) restarts: u8,
    /// Loads of the switch that keep the registers.
    pub(crate) reloads: u8,
}

impl Faults {
    fn sum(self) -> usize {
        [self.losses, self.duplicates, self.restarts, self.reloads]
            .map(usize::from)
            .iter()
            .sum()
    }

    /// Returns true if there are at least as many of each kind.
    fn covers(self, other: Faults) -> bool {
        self.losses >= other.losses
            && self.duplicates >= other.duplicates
            && self.restarts >= other.restarts
            && self.reloads >= other.reloads
    }
}

/// A small reduction.
pub(crate) struct Small {
    /// Faults at most.
    pub(crate) faults: Faults,
    /// Changes the program of the switch: for defects that the exploration has to find.
    pub(crate) edit: fn(String) -> String,
    /// False: a message to a mapper or the reducer waits as long as any other. True: it arrives,
    /// or is lost or doubled, before anything else happens; only the doubled one waits. That
    /// leaves out nothing: see docs/internals/aggregate.md.
    pub(crate) is_direct: bool,
    /// Maximum number of states.
    pub(crate) most: usize,
}

/// Result of an exploration.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// States.
    pub(crate) states: usize,
    /// Steps from a state to another.
    pub(crate) steps: u64,
    /// States in which the result is complete and all mappers know it.
    pub(crate) ends: u64,
    /// Different contents of the switch's registers.
    pub(crate) registers: usize,
    /// Frames that the program processed.
    pub(crate) runs: u64,
    /// False if the number of states reached its maximum.
    pub(crate) is_whole: bool,
    /// The first wrong result, failure, or state without progress, with the steps to it.
    pub(crate) problem: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            states,
            steps,
            ends,
            registers,
            runs,
            ..
        } = self;
        let whole = if self.is_whole { "all" } else { "only" };
        write!(
            f,
            "{whole} {states} states, {steps} steps, {ends} ends; {registers} contents of registers, \
             {runs} frames processed by the program"
        )?;
        match &self.problem {
            Some(problem) => write!(f, "\n{problem}"),
            None => write!(f, "; no wrong result, no state without progress"),
        }
    }
}

/// Values with numbers.
struct Interned<K> {
    numbers: HashMap<K, u32>,
}

impl<K: Hash + Eq> Interned<K> {
    fn new() -> Interned<K> {
        Interned {
            numbers: HashMap::new(),
        }
    }

    /// Returns the number of a value, and true if the value is new.
    fn number(&mut self, value: K) -> (u32, bool) {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(value).or_insert(next);
        (number, number == next)
    }
}

/// Receiver of a message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    Switch,
    /// A mapper or the reducer.
    Node(u8),
}

/// A message on its way: its receiver and the number of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Packet {
    to: Place,
    frame: u32,
}

/// A mapper or the reducer.
#[derive(Clone)]
enum Node {
    Mapper(Mapper),
    Reducer(Reducer),
}

impl Node {
    /// Returns all messages to send now.
    fn poll(&mut self, now: Nanos) -> Vec<Message> {
        let next = || match self {
            Node::Mapper(mapper) => mapper.poll(now),
            Node::Reducer(reducer) => reducer.poll(now).map(|addressed| addressed.message),
        };
        std::iter::from_fn(next).collect()
    }

    fn hash_state(&self, now: Nanos, state: &mut impl Hasher) {
        match self {
            Node::Mapper(mapper) => mapper.hash_state(now, state),
            Node::Reducer(reducer) => reducer.hash_state(state),
        }
    }
}

/// Event at a mapper or the reducer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Event {
    Arrival(u32),
    TimeOut,
    /// The master reports the number of the switch's load.
    Restart(u32),
}

/// A state of everything.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    nodes: [u32; MAPPERS + 1],
    registers: u32,
    incarnation: u32,
    /// True if the reducer knows the switch's last load.
    is_told: bool,
    left: Faults,
    /// Messages that are next to arrive, be lost or doubled.
    direct: Vec<Packet>,
    /// The others, sorted.
    network: Vec<Packet>,
}

impl State {
    fn remove(&mut self, packet: Packet) {
        if let Some(at) = self.network.iter().position(|p| *p == packet) {
            self.network.remove(at);
        }
    }

    fn add(&mut self, packets: &[Packet]) {
        self.network.extend(packets);
        self.network.sort_unstable();
    }

    /// Adds messages that were sent now.
    fn send(&mut self, packets: &[Packet], is_direct: bool) {
        let (direct, other): (Vec<Packet>, _) = packets
            .iter()
            .partition(|packet| is_direct && packet.to != Place::Switch);
        self.direct.extend(direct);
        self.add(&other);
    }
}

/// A step.
#[derive(Clone, Copy)]
enum Action {
    Deliver(Packet),
    Lose(Packet),
    Duplicate(Packet),
    TimeOut(usize),
    AllTimeOut,
    Load { keeps_registers: bool },
    Tell,
}

/// A node after an event, and what it sends.
type Stepped = (u32, Rc<[Packet]>);

/// A state with the steps to it.
type Way = (Vec<Action>, State);

/// Returns a hash of 128 bits.
fn hash_of(add: impl Fn(&mut DefaultHasher)) -> u128 {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        add(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// The exploration.
struct Explorer {
    devices: Vec<Device>,
    registers: Interned<Rc<[u64]>>,
    contents: Vec<Rc<[u64]>>,
    switched: HashMap<(u32, u32, u32), (u32, Option<Packet>)>,
    frames: Interned<Vec<u8>>,
    messages: Vec<(Vec<u8>, Message)>,
    nodes: Interned<u128>,
    /// Each node with its clock.
    known: Vec<(Node, Nanos)>,
    stepped: HashMap<(u32, Event), Stepped>,
    expected: Vec<Pair>,
    is_direct: bool,
    /// A defect of the switch that was seen in a step.
    defect: Option<String>,
    report: Report,
}

/// Returns the end of messages at a mapper, the reducer or the switch.
fn endpoint(place: Place) -> Endpoint {
    let (address, number) = match place {
        Place::Switch => (Ipv4Addr::new(198, 18, 0, 0), 0xfe),
        Place::Node(node) => (Ipv4Addr::new(10, 0, 0, node + 1), node + 1),
    };
    Endpoint {
        mac: [2, 0, 0, 0, 0, number],
        address,
        port: 9570,
    }
}

const SHAPE: Shape = Shape {
    operator: Operator::Add,
    keys: KeyClass::B8,
    values: ValueClass::I32,
};

/// Keys by the half of the order in which they are sent: each half is an epoch.
fn keys_of_half(half: u32) -> impl Iterator<Item = Vec<u8>> {
    let names = (b'a'..=b'z').map(|letter| vec![letter]);
    names.filter(move |name| Pair::new(name.clone(), 0).place(SHAPE.keys) >> 31 == half)
}

/// Returns the pairs of the mappers: three messages each, two of them in the first epoch, and one
/// sum that does not fit into 32 bits.
fn pairs() -> [Vec<Pair>; MAPPERS] {
    let first: Vec<Vec<u8>> = keys_of_half(0).take(4).collect();
    let second: Vec<Vec<u8>> = keys_of_half(1).take(1).collect();
    let pair = |key: &Vec<u8>, value: i128| Pair::new(key.clone(), value);
    [
        vec![
            pair(&first[0], 1),
            pair(&first[1], i32::MAX.into()),
            pair(&first[2], 3),
            pair(&second[0], 4),
        ],
        vec![
            pair(&first[0], 10),
            pair(&first[1], 20),
            pair(&first[3], 30),
            pair(&second[0], 40),
        ],
    ]
}

impl Explorer {
    fn new(small: &Small) -> Explorer {
        let reduction = SwitchReduction {
            job: 1,
            shape: SHAPE,
            // One key of the first epoch finds no slot.
            slots: 3,
            window: WINDOW,
            flows: MAPPERS as u32 + 1,
            pairs_per_message: 2,
            is_multicast: false,
        };
        let text = (small.edit)(emit(&[reduction]));
        let program = driver::compile_text("switch.p4", &text);
        let program = Arc::new(program.unwrap_or_else(|error| panic!("{error}")));
        let devices = (1..=u32::from(small.faults.restarts + small.faults.reloads) + 1).map(|incarnation| {
            let mut device = Device::new(
                Arc::clone(&program),
                &interp::Interp,
                &DeviceConfig::default(),
            )
            .unwrap_or_else(|error| panic!("{error}"));
            let mut entries = String::new();
            for node in 0..=MAPPERS as u8 {
                let Endpoint { mac, address, .. } = endpoint(Place::Node(node));
                let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
                entries += &format!(
                    "SwitchIngress.routes {{ hdr.ipv4.dst: {address}/32; }} -> \
                     forward(port: {node}, mac: {mac})\n"
                );
            }
            let Endpoint { mac, address, .. } = endpoint(Place::Node(REDUCER as u8));
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            for flow in 0..MAPPERS {
                entries += &format!(
                    "SwitchIngress.flows {{ standard_metadata.ingress_port: {flow}; \
                     hdr.ipv4.dst: {address}; hdr.agg.job: 1; hdr.agg.flow: {flow}; }} -> \
                     pass(port: {REDUCER}, mac: {mac}, reduces: 1)\n"
                );
            }
            entries += &format!(
                "SwitchIngress.reductions {{ hdr.agg.job: 1; }} -> take_part(attempt: {ATTEMPT}, \
                 incarnation: {incarnation}, own_flow: {SWITCH_FLOW}, own_port: {REDUCER}, \
                 own_mac: {mac})\n"
            );
            let file = entries::read(&program, "entries", &entries);
            let file = file.unwrap_or_else(|errors| panic!("{}", errors[0]));
            apply_entries::apply_file(&mut device, &file).unwrap_or_else(|error| panic!("{error}"));
            device
        });
        let mut sums: HashMap<Box<[u8]>, i128> = HashMap::new();
        for pair in pairs().into_iter().flatten() {
            *sums.entry(pair.key).or_default() += pair.value;
        }
        let mut expected: Vec<Pair> = sums.into_iter().map(|(k, v)| Pair::new(k, v)).collect();
        expected.sort_unstable();
        Explorer {
            devices: devices.collect(),
            registers: Interned::new(),
            contents: Vec::new(),
            switched: HashMap::new(),
            frames: Interned::new(),
            messages: Vec::new(),
            nodes: Interned::new(),
            known: Vec::new(),
            stepped: HashMap::new(),
            expected,
            is_direct: small.is_direct,
            defect: None,
            report: Report::default(),
        }
    }

    /// Returns the number of a content of the registers.
    fn content(&mut self, content: Vec<u64>) -> u32 {
        let content: Rc<[u64]> = content.into();
        let (number, is_new) = self.registers.number(Rc::clone(&content));
        if is_new {
            self.contents.push(content);
        }
        number
    }

    /// Returns the number of a frame. `None` if a host drops it.
    fn frame(&mut self, bytes: Vec<u8>) -> Option<u32> {
        let datagram = datagram::read(&bytes)?;
        let message = Message::read(datagram.payload)?;
        let (number, is_new) = self.frames.number(bytes.clone());
        if is_new {
            self.messages.push((bytes, message));
        }
        Some(number)
    }

    /// Runs the program on a frame. Returns the registers after it, and the sent frame.
    fn switch(&mut self, registers: u32, incarnation: u32, frame: u32) -> (u32, Option<Packet>) {
        let key = (registers, incarnation, frame);
        if let Some(done) = self.switched.get(&key) {
            return *done;
        }
        let device = &mut self.devices[incarnation as usize - 1];
        write_registers(device, &self.contents[registers as usize]);
        let (bytes, message) = &self.messages[frame as usize];
        // The port of a host is its number.
        let port = usize::from(message.header.flow).min(REDUCER) as u32;
        device
            .receive(PortId(port), bytes)
            .expect("the frame fits into the device");
        device.step(Nanos::ZERO);
        let mut sent = None;
        device.drain_sent(|port, bytes, _| sent = Some((port.0 as u8, bytes.to_vec())));
        let content = read_registers(device);
        self.report.runs += 1;
        let packet = sent.and_then(|(port, bytes)| {
            let frame = self.frame(bytes);
            if frame.is_none() {
                self.defect = Some("the switch sends a damaged frame".to_owned());
            }
            let to = Place::Node(port);
            frame.map(|frame| Packet { to, frame })
        });
        let done = (self.content(content), packet);
        self.switched.insert(key, done);
        done
    }

    /// Puts a message on its way. Those that touch no register of the switch pass it at once.
    fn send(&mut self, node: usize, mut message: Message) -> Packet {
        let header = &mut message.header;
        let is_from_reducer = node == REDUCER;
        if header.kind != Kind::Ack {
            // The number of the transmission decides the checksum alone.
            header.credit = 1;
        }
        let touches = matches!(header.kind, Kind::Data | Kind::Collect | Kind::Clear);
        let to = match (is_from_reducer, header.flow) {
            (true, SWITCH_FLOW) => Place::Switch,
            (true, flow) => Place::Node(flow as u8),
            (false, _) => Place::Node(REDUCER as u8),
        };
        let own = endpoint(Place::Node(node as u8));
        let frame = self.frame(datagram::write(own, endpoint(to), &message.write()));
        let frame = frame.expect("the frame has a message");
        if touches {
            let to = Place::Switch;
            return Packet { to, frame };
        }
        let (registers, packet) = self.switch(0, 1, frame);
        let packet = packet.filter(|packet| registers == 0 && packet.to == to);
        packet.expect("the switch forwards other messages")
    }

    /// Returns the number of a node's state, and judges a new one.
    fn node(&mut self, index: usize, node: Node, now: Nanos) -> u32 {
        let hash = hash_of(|hasher| {
            index.hash(hasher);
            node.hash_state(now, hasher);
        });
        let (number, is_new) = self.nodes.number(hash);
        if is_new {
            self.known.push((node, now));
        }
        number
    }

    /// Returns what is wrong with a reducer, or with what the switch did.
    fn judge(&self, reducer: u32) -> Option<String> {
        if let Some(defect) = &self.defect {
            return Some(defect.clone());
        }
        let (Node::Reducer(reducer), _) = &self.known[reducer as usize] else {
            return None;
        };
        if let Some(failure) = reducer.failure() {
            return Some(format!("the reduction fails: {failure}"));
        }
        let result = reducer.result();
        let is_wrong = reducer.is_complete() && result != self.expected;
        is_wrong.then(|| format!("the result is {result:?}"))
    }

    /// Returns the state of a node after an event, and what it sends.
    fn step(&mut self, index: usize, node: u32, event: Event) -> Stepped {
        if let Some(done) = self.stepped.get(&(node, event)) {
            return done.clone();
        }
        let (mut next, mut now) = self.known[node as usize].clone();
        match (event, &mut next) {
            (Event::Arrival(frame), next) => {
                let (_, message) = &self.messages[frame as usize];
                match next {
                    Node::Mapper(mapper) => mapper.receive(message, now),
                    Node::Reducer(reducer) => reducer.receive(message, now),
                }
            }
            (Event::Restart(incarnation), Node::Reducer(reducer)) => {
                reducer.restart(incarnation, now);
            }
            (Event::Restart(_), Node::Mapper(_)) => {}
            (Event::TimeOut, _) => now += LONG,
        }
        let messages = next.poll(now);
        let sent = messages.into_iter().map(|m| self.send(index, m)).collect();
        let done = (self.node(index, next, now), sent);
        self.stepped.insert((node, event), done.clone());
        done
    }

    /// Applies an event to a node of a state.
    fn apply(&mut self, state: &mut State, index: usize, event: Event) {
        let (node, sent) = self.step(index, state.nodes[index], event);
        state.nodes[index] = node;
        state.send(&sent, self.is_direct);
    }

    fn begin(&mut self, faults: Faults) -> State {
        let config = FlowConfig {
            job: 1,
            attempt: ATTEMPT,
            shape: SHAPE,
            window: WINDOW,
            pairs_per_message: 2,
            datagram_bytes: 1472,
            receivers: 0,
        };
        let content = read_registers(&self.devices[0]);
        let mut state = State {
            nodes: [0; MAPPERS + 1],
            registers: self.content(content),
            incarnation: 1,
            is_told: true,
            left: faults,
            direct: Vec::new(),
            network: Vec::new(),
        };
        let mappers = (0..).zip(pairs()).map(|(flow, pairs)| {
            Node::Mapper(Mapper::new(config, flow, pairs).expect("the keys are short"))
        });
        let reducer = Reducer::new(
            ReducerConfig {
                flows: config,
                mappers: MAPPERS as u16,
                switches: vec![SwitchPlace {
                    flow: SWITCH_FLOW,
                    level: 0,
                }],
                slots: PLANNED_SLOTS,
                open_epochs: 2,
                patience: Nanos(u64::MAX / 4),
                waiting: Nanos(u64::MAX / 4),
            },
            1,
        );
        for (index, mut node) in mappers.chain([Node::Reducer(reducer)]).enumerate() {
            let messages = node.poll(Nanos::ZERO);
            let sent: Vec<Packet> = messages.into_iter().map(|m| self.send(index, m)).collect();
            state.send(&sent, self.is_direct);
            state.nodes[index] = self.node(index, node, Nanos::ZERO);
        }
        state
    }

    /// Returns true if a node knows that the result is complete.
    fn is_complete(&self, node: u32) -> bool {
        match &self.known[node as usize].0 {
            Node::Mapper(mapper) => mapper.is_complete(),
            Node::Reducer(reducer) => reducer.is_complete(),
        }
    }

    /// Returns true if the result is complete and all mappers know it.
    fn has_ended(&self, state: &State) -> bool {
        state.nodes.iter().all(|node| self.is_complete(*node))
    }

    /// Returns true if a message is of an older load than its receiver knows. Loads have growing
    /// numbers, so it changes nothing, now or later.
    fn is_stale(&self, state: &State, packet: Packet) -> bool {
        let header = &self.messages[packet.frame as usize].1.header;
        let own = match packet.to {
            Place::Switch => state.incarnation,
            Place::Node(node) if usize::from(node) != REDUCER => 0,
            Place::Node(_) if header.kind == Kind::Signal => 0,
            // A complete reduction takes no further load.
            Place::Node(_) if self.is_complete(state.nodes[REDUCER]) => 0,
            Place::Node(_) if state.is_told => state.incarnation,
            Place::Node(_) => state.incarnation - 1,
        };
        header.incarnation < own
    }

    /// Returns true if a message changes nothing at its receiver, now or later: an old receipt or
    /// state at a mapper, or an old answer of the switch at the reducer.
    fn is_idle(&mut self, state: &State, packet: Packet) -> bool {
        let Place::Node(node) = packet.to else {
            return false;
        };
        let index = usize::from(node);
        let kind = self.messages[packet.frame as usize].1.header.kind;
        if index == REDUCER && !matches!(kind, Kind::Reply | Kind::Clear) {
            return false;
        }
        let before = state.nodes[index];
        let (after, sent) = self.step(index, before, Event::Arrival(packet.frame));
        after == before && sent.is_empty()
    }

    fn deliver(&mut self, state: &State, packet: Packet) -> State {
        let mut next = state.clone();
        next.remove(packet);
        match packet.to {
            Place::Switch => {
                let (registers, sent) =
                    self.switch(state.registers, state.incarnation, packet.frame);
                next.registers = registers;
                next.send(sent.as_slice(), self.is_direct);
            }
            Place::Node(node) => {
                self.apply(&mut next, usize::from(node), Event::Arrival(packet.frame));
            }
        }
        next
    }

    /// Returns the states after a state, each with the steps to it. The first one is without
    /// faults.
    fn successors(&mut self, state: &State) -> Vec<Way> {
        let mut all = Vec::new();
        for (action, next) in self.steps(state) {
            self.settle(vec![action], next, &mut all);
        }
        all
    }

    /// Adds the states after all direct messages of a state, and after those that change nothing.
    fn settle(&mut self, mut steps: Vec<Action>, mut state: State, into: &mut Vec<Way>) {
        self.report.steps += 1;
        loop {
            if !state.direct.is_empty() {
                let packet = state.direct.remove(0);
                let with = |action| [&steps[..], &[action]].concat();
                let arrived = self.deliver(&state, packet);
                self.settle(with(Action::Deliver(packet)), arrived.clone(), into);
                if state.left.losses > 0 {
                    let mut next = state.clone();
                    next.left.losses -= 1;
                    self.settle(with(Action::Lose(packet)), next, into);
                }
                if state.left.duplicates > 0 {
                    let mut next = arrived;
                    next.add(&[packet]);
                    next.left.duplicates -= 1;
                    self.settle(with(Action::Duplicate(packet)), next, into);
                }
                return;
            }
            let network = state.network.clone();
            let mut idle = network.into_iter();
            let Some(packet) = idle.find(|p| self.is_stale(&state, *p) || self.is_idle(&state, *p))
            else {
                into.push((steps, state));
                return;
            };
            let next = self.deliver(&state, packet);
            state.remove(packet);
            if next != state {
                self.defect = Some("a message of an older load changes something".to_owned());
            }
            steps.push(Action::Deliver(packet));
        }
    }

    /// Returns the next steps. The first one is without faults.
    fn steps(&mut self, state: &State) -> Vec<(Action, State)> {
        let mut all = Vec::new();
        if !state.is_told {
            let mut next = state.clone();
            next.is_told = true;
            self.apply(&mut next, REDUCER, Event::Restart(state.incarnation));
            all.push((Action::Tell, next));
        }
        let mut different = state.network.clone();
        different.dedup();
        for packet in &different {
            all.push((Action::Deliver(*packet), self.deliver(state, *packet)));
        }
        if state.network.is_empty() && state.is_told {
            let mut next = state.clone();
            for index in 0..=MAPPERS {
                self.apply(&mut next, index, Event::TimeOut);
            }
            all.push((Action::AllTimeOut, next));
        }
        for packet in &different {
            if state.left.losses > 0 {
                let mut next = state.clone();
                next.remove(*packet);
                next.left.losses -= 1;
                all.push((Action::Lose(*packet), next));
            }
            if state.left.duplicates > 0 {
                let mut next = state.clone();
                next.add(&[*packet]);
                next.left.duplicates -= 1;
                all.push((Action::Duplicate(*packet), next));
            }
        }
        for index in 0..=MAPPERS {
            // A time-out is early, and counts as a duplicate, while a message of the flow is on its
            // way.
            let mut flows = state.network.iter().map(|packet| {
                let (_, message) = &self.messages[packet.frame as usize];
                usize::from(message.header.flow)
            });
            let is_early = flows.any(|flow| flow == index);
            if is_early && state.left.duplicates == 0 {
                continue;
            }
            let mut next = state.clone();
            next.left.duplicates -= u8::from(is_early);
            self.apply(&mut next, index, Event::TimeOut);
            if (&next.nodes, &next.direct, &next.network)
                != (&state.nodes, &state.direct, &state.network)
            {
                all.push((Action::TimeOut(index), next));
            }
        }
        if state.is_told {
            let Faults {
                restarts, reloads, ..
            } = state.left;
            for (left, keeps_registers) in [(restarts, false), (reloads, true)] {
                if left == 0 {
                    continue;
                }
                let mut next = state.clone();
                next.incarnation += 1;
                next.is_told = false;
                match keeps_registers {
                    true => next.left.reloads -= 1,
                    false => (next.left.restarts, next.registers) = (left - 1, 0),
                }
                all.push((Action::Load { keeps_registers }, next));
            }
        }
        all
    }

    fn describe(&self, action: Action) -> String {
        let packet = |packet: Packet| {
            let (_, message) = &self.messages[packet.frame as usize];
            let to = match packet.to {
                Place::Switch => "the switch".to_owned(),
                Place::Node(node) if usize::from(node) == REDUCER => "the reducer".to_owned(),
                Place::Node(node) => format!("mapper {node}"),
            };
            let header = &message.header;
            format!(
                "{:?} to {to}, flow {}, epoch {}, sequence {}, load {}: {:?}",
                header.kind,
                header.flow,
                header.epoch,
                header.sequence,
                header.incarnation,
                message.body
            )
        };
        match action {
            Action::Deliver(of) => format!("deliver {}", packet(of)),
            Action::Lose(of) => format!("lose {}", packet(of)),
            Action::Duplicate(of) => format!("double {}", packet(of)),
            Action::TimeOut(node) => format!("time-out of node {node}"),
            Action::AllTimeOut => "time-out of all nodes".to_owned(),
            Action::Load {
                keeps_registers: true,
            } => "load the switch again; it keeps its registers".to_owned(),
            Action::Load { .. } => "load the switch again".to_owned(),
            Action::Tell => "tell the reducer".to_owned(),
        }
    }
}

/// Returns the cells of all registers.
fn read_registers(device: &Device) -> Vec<u64> {
    let mut content = Vec::new();
    for_each_cell(device, |array, index, limbs| {
        let at = content.len();
        content.resize(at + limbs, 0);
        array.read(index, &mut content[at..]);
    });
    content
}

/// Sets the cells of all registers.
fn write_registers(device: &Device, content: &[u64]) {
    let mut rest = content;
    for_each_cell(device, |array, index, limbs| {
        let (cell, after) = rest.split_at(limbs);
        array.write(index, cell);
        rest = after;
    });
}

fn for_each_cell(device: &Device, mut visit: impl FnMut(&table::RegisterArray, u64, usize)) {
    for (_, state) in device.configuration().cells.iter() {
        if let ExternState::Register(registers) = state {
            for array in registers.arrays() {
                let limbs = array.width().div_ceil(64) as usize;
                (0..array.len() as u64).for_each(|index| visit(array, index, limbs));
            }
        }
    }
}
