//! Replicas and clients in simulated time, with messages that are lost, repeated, late and damaged,
//! partitions, replicas that pause and one that stops for ever. All of it is from one seed.

use std::collections::{BTreeMap, HashMap};

use consensus::NodeId;
use support::rng::Rng;

use crate::check::{Records, check};
use crate::client::Client;
use crate::replica::{ELECTION_NS, Replica, RiscvReplica, RustReplica, Sent, Sizes};

/// Name of the first client.
const CLIENT: u64 = 100;
const CLIENTS: usize = 4;
/// Time with faults, and time after them in which all clients must be served.
const FAULTS_NS: u64 = 20 * ELECTION_NS;
const CALM_NS: u64 = 20 * ELECTION_NS;
/// Time between two steps of a replica without messages, and from a message to a step.
const STEP_NS: u64 = 50_000;
const WORK_NS: u64 = 2_500;

enum Event {
    Arrival(NodeId, NodeId, Vec<u8>),
    Step(usize, bool),
    Client(usize),
    /// Chooses the next partition or pause.
    Fault,
}

/// Rates of faults of messages, in a thousand.
struct Rates {
    lost: u32,
    repeated: u32,
    late: u32,
    damaged: u32,
}

/// A cluster with clients and faults.
pub(crate) struct World {
    rng: Rng,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    replicas: Vec<Replica>,
    clients: Vec<Client>,
    rates: Rates,
    /// Replicas that others do not reach.
    cut: Vec<bool>,
    /// End of each replica's pause.
    paused: Vec<u64>,
    /// A replica that stops for ever, and when.
    stops: Option<(usize, u64)>,
    led: HashMap<u64, usize>,
    lost: u64,
    sizes: Sizes,
    /// The entries that each replica committed.
    records: Records,
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let count = [3, 3, 5][rng.index(3)];
        let nodes: Vec<NodeId> = (1..=count).map(NodeId).collect();
        // At least one of each kind.
        let first = rng.index(nodes.len());
        let is_riscv: Vec<bool> = (0..nodes.len())
            .map(|place| match (place + nodes.len() - first) % nodes.len() {
                0 => true,
                1 => false,
                _ => rng.below(2) == 0,
            })
            .collect();
        let sizes = Sizes {
            ring: [16, 64, 8192, 8192][rng.index(4)],
            session_life: [2 * ELECTION_NS, u64::MAX][rng.index(2)],
        };
        let replicas = nodes.iter().zip(&is_riscv).map(|(id, is_riscv)| {
            let seed = rng.bits();
            match is_riscv {
                true => Replica::Riscv(Box::new(RiscvReplica::new(*id, &nodes, seed, sizes))),
                false => Replica::Rust(Box::new(RustReplica::new(*id, &nodes, seed, sizes))),
            }
        });
        let replicas: Vec<Replica> = replicas.collect();
        let clients = (0..CLIENTS as u64).map(|n| Client::new(NodeId(CLIENT + n), &nodes));
        let rates = Rates {
            lost: rng.below(100) as u32,
            repeated: rng.below(50) as u32,
            late: rng.below(50) as u32,
            damaged: rng.below(10) as u32,
        };
        let stops = (rng.below(3) == 0).then(|| (rng.index(replicas.len()), rng.below(FAULTS_NS)));
        let mut world = World {
            now: 0,
            events: BTreeMap::new(),
            sequence: 0,
            clients: clients.collect(),
            rates,
            cut: vec![false; replicas.len()],
            paused: vec![0; replicas.len()],
            stops,
            led: HashMap::new(),
            lost: 0,
            sizes,
            records: vec![BTreeMap::new(); replicas.len()],
            replicas,
            rng,
        };
        for replica in 0..world.replicas.len() {
            world.at(STEP_NS, Event::Step(replica, true));
        }
        for client in 0..CLIENTS {
            world.at(3 * ELECTION_NS, Event::Client(client));
        }
        world.at(4 * ELECTION_NS, Event::Fault);
        world
    }

    fn at(&mut self, time: u64, event: Event) {
        self.events.insert((time, self.sequence), event);
        self.sequence += 1;
    }

    /// Returns the terms that RISC-V replicas and the others led.
    pub(crate) fn leaders(&self) -> [usize; 2] {
        let is_riscv = |place: &&usize| self.replicas[**place].is_riscv();
        let riscv = self.led.values().filter(is_riscv).count();
        [riscv, self.led.len() - riscv]
    }

    /// Returns the number of messages that were lost.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    fn is_calm(&self) -> bool {
        self.now >= FAULTS_NS
    }

    fn has_stopped(&self, replica: usize) -> bool {
        self.stops
            .is_some_and(|(stopped, time)| stopped == replica && self.now >= time)
    }

    fn place_of(&self, node: NodeId) -> Option<usize> {
        let place = node.0.checked_sub(1)? as usize;
        (place < self.replicas.len()).then_some(place)
    }

    /// Puts messages on their way.
    fn send(&mut self, from: NodeId, sent: Vec<Sent>) {
        for (to, bytes) in sent {
            let ends = [from, to].map(|node| self.place_of(node));
            let is_cut = |end: &Option<usize>| end.is_some_and(|place| self.cut[place]);
            let is_between = is_cut(&ends[0]) != is_cut(&ends[1]);
            let calm = self.is_calm();
            if !calm && (is_between || self.rng.per_mille(self.rates.lost)) {
                self.lost += 1;
                continue;
            }
            let mut copies = 1;
            if !calm && self.rng.per_mille(self.rates.repeated) {
                copies = 2;
            }
            for _ in 0..copies {
                let mut delay = 500 + self.rng.below(5_000);
                let mut bytes = bytes.clone();
                if !calm && self.rng.per_mille(self.rates.late) {
                    delay += self.rng.below(2 * ELECTION_NS);
                }
                if !calm && self.rng.per_mille(self.rates.damaged) {
                    let bit = self.rng.index(bytes.len() * 8);
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                self.at(self.now + delay, Event::Arrival(from, to, bytes));
            }
        }
    }

    /// Runs to the end and checks it.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        let end = FAULTS_NS + CALM_NS;
        while let Some(((time, _), event)) = self.events.pop_first() {
            self.now = time;
            if time > end || self.is_calm() && self.is_served() {
                break;
            }
            self.process(event)?;
        }
        if !self.is_served() && self.must_serve() {
            return Err("a client is not served after the faults".to_owned());
        }
        let done = self.clients.iter().flat_map(|client| &client.done);
        let done: Vec<_> = done.copied().collect();
        check(&self.records, &done, self.sizes.session_life)
    }

    /// Returns true if a majority runs and lacks no entry that a RISC-V replica has overwritten.
    pub(crate) fn must_serve(&self) -> bool {
        let first = self.replicas.iter().map(Replica::first).max().unwrap_or(1);
        let places = 0..self.replicas.len();
        let has_all = |place: &usize| self.replicas[*place].commit() + 1 >= first;
        let up = places.filter(|place| !self.has_stopped(*place) && has_all(place));
        up.count() > self.replicas.len() / 2
    }

    /// Returns true if a RISC-V replica has overwritten entries.
    pub(crate) fn has_wrapped(&self) -> bool {
        self.replicas.iter().any(|replica| replica.first() > 1)
    }

    /// Keeps the entries that a replica has committed since the last call.
    fn record(&mut self, place: usize) {
        let record = &mut self.records[place];
        let replica = &self.replicas[place];
        let next = record.last_key_value().map_or(1, |(index, _)| index + 1);
        let new = next..=replica.commit();
        record.extend(new.filter_map(|index| Some((index, replica.entry(index)?))));
    }

    /// Returns true if each client has an answer to a request that began after the faults.
    fn is_served(&self) -> bool {
        let is_after = |client: &Client| {
            let mut done = client.done.iter();
            client.is_idle() && done.any(|one| one.begin > FAULTS_NS)
        };
        self.clients.iter().all(is_after)
    }

    fn process(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrival(from, to, bytes) => self.arrive(from, to, bytes),
            Event::Step(replica, repeats) => self.step(replica, repeats)?,
            Event::Client(client) => {
                let sent = self.clients[client].step(self.now, &mut self.rng, true);
                let id = self.clients[client].id();
                self.send(id, sent.into_iter().collect());
                let next = self.clients[client].next().max(self.now + 1_000);
                self.at(next.min(self.now + STEP_NS), Event::Client(client));
            }
            Event::Fault => self.change_faults()?,
        }
        Ok(())
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, bytes: Vec<u8>) {
        let Some(place) = self.place_of(to) else {
            let client = to.0.checked_sub(CLIENT).map(|number| number as usize);
            if let Some(client) = client.and_then(|client| self.clients.get_mut(client)) {
                client.receive(self.now, &bytes, &mut self.rng);
            }
            return;
        };
        if self.has_stopped(place) {
            return;
        }
        if self.paused[place] > self.now {
            self.at(self.paused[place], Event::Arrival(from, to, bytes));
            return;
        }
        self.replicas[place].receive(self.now, from, &bytes);
        // A program takes some time for a message.
        for steps in 1..=2 {
            self.at(self.now + steps * WORK_NS, Event::Step(place, false));
        }
    }

    fn step(&mut self, place: usize, repeats: bool) -> Result<(), String> {
        if self.has_stopped(place) {
            return Ok(());
        }
        if repeats {
            self.at(self.now + STEP_NS, Event::Step(place, true));
        }
        if self.paused[place] > self.now {
            return Ok(());
        }
        let sent = self.replicas[place].step(self.now)?;
        self.record(place);
        if let Some(term) = self.replicas[place].led_term()
            && *self.led.entry(term).or_insert(place) != place
        {
            return Err(format!("two replicas lead term {term}"));
        }
        self.send(NodeId(place as u64 + 1), sent);
        Ok(())
    }

    fn change_faults(&mut self) -> Result<(), String> {
        let all = 0..self.replicas.len();
        self.cut.fill(false);
        if self.is_calm() {
            return Ok(());
        }
        match self.rng.below(4) {
            0 => {
                for place in all {
                    self.cut[place] = self.rng.below(2) == 0;
                }
            }
            1 => {
                // The leader of the newest term, in most cases.
                let newest = self.led.iter().max_by_key(|(term, _)| **term);
                if let Some((_, place)) = newest {
                    self.cut[*place] = true;
                }
            }
            2 => {
                let place = self.rng.index(self.replicas.len());
                let until = self.now + self.rng.below(3 * ELECTION_NS);
                if !self.has_stopped(place) && self.paused[place] <= self.now {
                    self.paused[place] = until;
                    let sent = self.replicas[place].pause(self.now, until)?;
                    self.record(place);
                    self.send(NodeId(place as u64 + 1), sent);
                }
            }
            _ => {}
        }
        let next = ELECTION_NS / 2 + self.rng.below(3 * ELECTION_NS);
        self.at(self.now + next, Event::Fault);
        Ok(())
    }
}
