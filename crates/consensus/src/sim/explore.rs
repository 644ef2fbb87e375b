//! All states of a small cluster: three nodes, a network that loses, repeats and delays, and a
//! bounded number of time-outs, proposals and crashes.
//!
//! A message stays in the network for ever: to deliver it twice is a repeat, never is a loss. There
//! is no time: a time-out is an action. More messages in the network only add to what can happen:
//! so messages that a node sends without a change are there at once, a leader sends its heartbeat
//! after each of its steps, and a state is left out if one with equal nodes and more messages was
//! explored. What an input makes of a node depends on the node alone, so it is computed once for
//! each node state and input. `reduce.rs` leaves out states that differ by the names of nodes, and
//! messages that can have no effect any more.

mod reduce;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use consensus::mistake::Mistake;
use consensus::{
    Ack, Capacity, ClientId, Config, Entry, Keep, LogIndex, Membership, NodeId, Operation,
    RaftNode, RaftRole, ReadMode, Request, Saved, Term,
};

use support::rng::mix;

use self::reduce::{LeftOut, Mirror, Origin, Sort};
use super::Variant;

const NODES: usize = 3;

/// Limits of what is explored.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Last term in which a node may campaign.
    terms: u64,
    /// Time-outs of followers and candidates.
    time_outs: u8,
    /// Times that a leader gives up since it hears no majority.
    resignations: u8,
    proposals: u8,
    crashes: u8,
    /// True if writes to disk are complete later, and a crash may lose the one under way.
    has_slow_disks: bool,
}

/// Step of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    TimeOut(usize),
    Propose(usize),
    /// The write under way is complete.
    Write(usize),
    /// A node stops and starts again; `keeps` is true if its disk has the write under way.
    Crash {
        node: usize,
        keeps: bool,
    },
    /// Delivers a message, by its number.
    Deliver(u16),
}

/// Content of a disk.
#[derive(Clone, Debug, Default, Hash)]
struct Kept {
    term: Term,
    vote: Option<NodeId>,
    entries: Vec<Entry>,
}

/// Node with its disk.
#[derive(Clone, Debug)]
struct Host {
    node: RaftNode,
    kept: Rc<Kept>,
    /// Number of the write under way, and what the disk has after it.
    writing: Option<(u64, Rc<Kept>)>,
    /// True if it was restarted: numbers of campaigns begin elsewhere.
    is_second: bool,
}

/// Part of a host that the checks compare.
#[derive(Debug)]
struct Summary {
    term: Term,
    leads: bool,
    log: Vec<(Term, u64)>,
    commit: usize,
    applied: usize,
    digest: u64,
}

/// State of a cluster.
#[derive(Clone, Debug)]
struct State {
    key: Key,
    /// A bit for each message that was sent and can have an effect; the last word is not 0.
    sent: Vec<u64>,
}

/// All of a state but its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    /// Numbers of the hosts' states.
    hosts: [u32; NODES],
    history: History,
}

/// Events on the way to a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct History {
    /// Leader of each term, from 1; 0 is none.
    leaders: [u8; 4],
    /// Numbers of the committed entries.
    committed: [u8; MAX_COMMITTED],
    committed_count: u8,
    time_outs: u8,
    resignations: u8,
    proposals: u8,
    crashes: u8,
}

/// Committed entries at most: one for each term, and the proposals.
const MAX_COMMITTED: usize = 8;

/// Committed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Committed {
    term: Term,
    hash: u64,
    /// Term of the node that committed it first.
    by: Term,
}

/// Message that some node sent in some state.
#[derive(Debug)]
struct Sent {
    from: usize,
    to: usize,
    term: Term,
    sort: Sort,
    bytes: Rc<[u8]>,
}

/// Sets of messages with which a key was met: none is a part of another one.
#[derive(Debug)]
enum Greatest {
    One(u32),
    Many(Vec<u32>),
}

impl Greatest {
    fn all(&self) -> &[u32] {
        match self {
            Greatest::One(one) => std::slice::from_ref(one),
            Greatest::Many(all) => all,
        }
    }
}

/// Result of an input: the number of the host after it, and the messages that it sends.
type Taken = (u32, Rc<[u16]>);

/// Outcome of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Explored {
    states: usize,
    steps: u64,
    /// States that differ by more than messages.
    keys: usize,
    /// Different sets of messages.
    sets: usize,
    node_states: usize,
    messages: usize,
    /// States in which all proposals are committed by a node.
    complete: usize,
    /// States in which a node led the last term.
    last_term: usize,
}

struct Explorer {
    variant: Variant,
    bounds: Bounds,
    members: Membership,
    hosts: Vec<(Rc<Host>, Summary)>,
    host_numbers: HashMap<u64, u32>,
    messages: Vec<Sent>,
    message_numbers: HashMap<Rc<[u8]>, u16>,
    committed: Vec<Committed>,
    /// Results of inputs: the host after it, and the messages that it sends.
    results: HashMap<(u32, Action), Taken, Mixing>,
    /// Sets of messages, by number.
    sets: Vec<Rc<[u64]>>,
    set_numbers: HashMap<Rc<[u64]>, u32, Mixing>,
    /// Numbers of the greatest sets of messages with which a key was met.
    seen: HashMap<Key, Greatest, Mixing>,
    /// Digest of the state machine by the hash of the committed entries.
    digests: HashMap<u64, u64>,
    mirror: Mirror,
    /// Memory for the messages that a reduction leaves out.
    without_effect: Vec<u16>,
    /// Messages that were left out, if they are recorded.
    left_out: Option<HashSet<LeftOut>>,
    explored: Explored,
}

/// State with actions that are explored one after the other.
struct Open {
    state: State,
    set: u32,
    actions: Vec<Action>,
}

/// Hasher of small keys.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);

type Mixing = std::hash::BuildHasherDefault<Mixer>;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn is_subset(one: &[u64], other: &[u64]) -> bool {
    // The last word of a set is not 0.
    one.len() <= other.len() && one.iter().zip(other).all(|(one, other)| one & !other == 0)
}

/// Returns the numbers of the bits that are set.
fn bits(words: &[u64]) -> impl Iterator<Item = u16> {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some((64 * at + bit) as u16)
        })
    })
}

fn add(sent: &mut Vec<u64>, messages: &[u16]) {
    for message in messages {
        let word = usize::from(*message) / 64;
        if sent.len() <= word {
            sent.resize(word + 1, 0);
        }
        sent[word] |= 1 << (message % 64);
    }
}

fn config(at: usize, is_second: bool) -> Config {
    Config {
        cluster: 1,
        id: NodeId(at as u64 + 1),
        // Campaigns of all nodes have the same numbers, so that nodes differ by their names only.
        seed: u64::from(is_second) ^ mix(at as u64 + 1),
        election_timeout: 1_000,
        heartbeat: 0,
        ack: Ack::Majority,
        keep: Keep::Disk,
        log_entries: 16,
        window: 4,
        max_batch: 1,
        reads: ReadMode::Index,
        max_reads: 1,
        capacity: Capacity {
            keys: 1,
            reserved: 0,
            sessions: 2,
            session_life: u64::MAX,
        },
    }
}

impl Host {
    fn fingerprint(&self) -> u64 {
        let writing = self.writing.as_ref().map(|(_, kept)| kept);
        hash_of(&(self.node.fingerprint(), &self.kept, writing, self.is_second))
    }

    fn summary(&self) -> Summary {
        let node = &self.node;
        let entries = (1..=node.last().0).filter_map(|index| node.entry(LogIndex(index)));
        Summary {
            term: node.term(),
            leads: node.role() == RaftRole::Leader,
            log: entries.map(|entry| (entry.term, hash_of(entry))).collect(),
            commit: node.commit().0 as usize,
            applied: node.applied().0 as usize,
            digest: node.digest(),
        }
    }
}

impl History {
    fn committed(&self) -> &[u8] {
        &self.committed[..usize::from(self.committed_count)]
    }

    fn commit(&mut self, number: u8) {
        self.committed[usize::from(self.committed_count)] = number;
        self.committed_count += 1;
    }
}

impl Explorer {
    fn new(bounds: Bounds, mistake: Option<Mistake>) -> Explorer {
        let members = [1, 2, 3].map(NodeId);
        Explorer {
            variant: Variant { mistake },
            bounds,
            members: Membership::of_voters(&members).unwrap(),
            hosts: Vec::new(),
            host_numbers: HashMap::new(),
            messages: Vec::new(),
            message_numbers: HashMap::new(),
            committed: Vec::new(),
            results: HashMap::default(),
            sets: Vec::new(),
            set_numbers: HashMap::default(),
            seen: HashMap::default(),
            digests: HashMap::new(),
            mirror: Mirror::default(),
            without_effect: Vec::new(),
            left_out: None,
            explored: Explored::default(),
        }
    }

    fn intern_host(&mut self, host: Host, origin: Origin) -> u32 {
        let next = self.hosts.len() as u32;
        let number = *self.host_numbers.entry(host.fingerprint()).or_insert(next);
        if number == next {
            let summary = host.summary();
            self.hosts.push((Rc::new(host), summary));
            self.mirror.add_host(origin);
        }
        number
    }

    fn intern_message(&mut self, bytes: &[u8]) -> u16 {
        if let Some(number) = self.message_numbers.get(bytes) {
            return *number;
        }
        let number = u16::try_from(self.messages.len()).expect("few messages");
        let bytes: Rc<[u8]> = bytes.into();
        self.message_numbers.insert(Rc::clone(&bytes), number);
        self.messages.push(Sent::new(bytes));
        number
    }

    fn intern_set(&mut self, set: &[u64]) -> u32 {
        if let Some(number) = self.set_numbers.get(set) {
            return *number;
        }
        let number = self.sets.len() as u32;
        let set: Rc<[u64]> = set.into();
        self.sets.push(Rc::clone(&set));
        self.set_numbers.insert(set, number);
        number
    }

    /// Explores all states. An error has the actions that lead to it, without those that change no
    /// node. Names of nodes may be exchanged after each action.
    fn run(&mut self) -> Result<Explored, String> {
        let hosts = [0, 1, 2].map(|at| {
            let node = self.variant.node(config(at, false), self.members, 0);
            let host = Host {
                node,
                kept: Rc::default(),
                writing: None,
                is_second: false,
            };
            self.intern_host(host, Origin::First(at))
        });
        let history = History::default();
        let first = Open {
            state: State {
                key: Key { hosts, history },
                sent: Vec::new(),
            },
            set: self.intern_set(&[]),
            actions: vec![Action::TimeOut(0)],
        };
        // Nothing is explored from a state that is not seen.
        self.seen.insert(first.state.key, Greatest::One(first.set));
        let mut stack = vec![first];
        let mut path: Vec<Action> = Vec::new();
        while let Some(open) = stack.last_mut() {
            // A state may be left as soon as one with more messages was met.
            let known = self.seen.get(&open.state.key);
            let is_greatest = known.is_some_and(|known| known.all().contains(&open.set));
            let action = open.actions.pop().filter(|_| is_greatest);
            let Some(action) = action else {
                stack.pop();
                path.pop();
                continue;
            };
            self.explored.steps += 1;
            let before = open.state.key.hosts;
            let mut after = self.step(&open.state, action);
            path.push(action);
            let checked = self.check(before, &mut after, action);
            checked.map_err(|error| format!("{error}, after {path:?}"))?;
            self.reduce(&mut after);
            // The messages of a known state are closed, so those of a part of them are among them.
            if self.is_known(&after) {
                path.pop();
                continue;
            }
            let actions = self.close(&mut after);
            let Some(set) = self.add_new(&after) else {
                path.pop();
                continue;
            };
            self.count(&after.key.history);
            stack.push(Open {
                state: after,
                set,
                actions,
            });
        }
        self.explored.keys = self.seen.len();
        self.explored.sets = self.sets.len();
        self.explored.node_states = self.hosts.len();
        self.explored.messages = self.messages.len();
        Ok(self.explored)
    }

    /// Returns true if a state with the same key and with all of these messages was explored:
    /// whatever can happen in this one can happen there.
    fn is_known(&self, state: &State) -> bool {
        let is_in = |set: &u32| is_subset(&state.sent, &self.sets[*set as usize]);
        let known = self.seen.get(&state.key);
        known.is_some_and(|known| known.all().iter().any(is_in))
    }

    /// Adds a state. Returns the number of its messages, or `None` if it is known.
    fn add_new(&mut self, state: &State) -> Option<u32> {
        if self.is_known(state) {
            return None;
        }
        let set = self.intern_set(&state.sent);
        let Some(known) = self.seen.get_mut(&state.key) else {
            self.seen.insert(state.key, Greatest::One(set));
            return Some(set);
        };
        let is_greater = |other: &u32| !is_subset(&self.sets[*other as usize], &state.sent);
        let mut all = known.all().to_vec();
        all.retain(is_greater);
        all.push(set);
        *known = match all[..] {
            [one] => Greatest::One(one),
            _ => Greatest::Many(all),
        };
        Some(set)
    }

    /// Sends what the nodes send without a change of any: more messages in the network can only
    /// add to what may happen. Returns the actions that change a node.
    fn close(&mut self, state: &mut State) -> Vec<Action> {
        loop {
            let mut actions = self.actions(state);
            let before = state.sent.clone();
            actions.retain(|action| {
                let Action::Deliver(_) = action else {
                    return true;
                };
                let at = self.host_of(*action);
                let (after, sends) = self.result(&state.key, at, *action);
                if after == state.key.hosts[at] {
                    add(&mut state.sent, &sends);
                }
                after != state.key.hosts[at]
            });
            self.reduce_messages(state);
            if state.sent == before {
                return actions;
            }
        }
    }

    fn count(&mut self, history: &History) {
        self.explored.states += 1;
        let noops = history.leaders.iter().filter(|leader| **leader > 0).count();
        let committed = usize::from(history.committed_count);
        let all = committed >= usize::from(self.bounds.proposals) + noops && noops > 0;
        self.explored.complete += usize::from(all);
        let last = history.leaders[self.bounds.terms as usize - 1];
        self.explored.last_term += usize::from(last > 0);
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let (mut actions, history) = (Vec::new(), &state.key.history);
        for at in 0..NODES {
            let (host, summary) = &self.hosts[state.key.hosts[at] as usize];
            if summary.leads {
                if history.resignations < self.bounds.resignations {
                    actions.push(Action::TimeOut(at));
                }
                if history.proposals < self.bounds.proposals {
                    actions.push(Action::Propose(at));
                }
            } else if history.time_outs < self.bounds.time_outs
                && summary.term.0 < self.bounds.terms
            {
                actions.push(Action::TimeOut(at));
            }
            if host.writing.is_some() {
                actions.push(Action::Write(at));
            }
            if history.crashes < self.bounds.crashes {
                let (node, keeps) = (at, false);
                actions.push(Action::Crash { node, keeps });
                if host.writing.is_some() {
                    let keeps = true;
                    actions.push(Action::Crash { node, keeps });
                }
            }
        }
        actions.extend(bits(&state.sent).map(Action::Deliver));
        actions
    }

    fn host_of(&self, action: Action) -> usize {
        match action {
            Action::TimeOut(at)
            | Action::Propose(at)
            | Action::Write(at)
            | Action::Crash { node: at, .. } => at,
            Action::Deliver(message) => self.messages[usize::from(message)].to,
        }
    }

    fn result(&mut self, key: &Key, at: usize, action: Action) -> Taken {
        let (number, proposals) = (key.hosts[at], key.history.proposals);
        if let Action::Propose(_) = action {
            // A proposal has its number in the cluster.
            return self.apply(number, at, action, proposals);
        }
        let known = self.results.get(&(number, action)).cloned();
        known.unwrap_or_else(|| {
            let result = self.apply(number, at, action, proposals);
            self.results.insert((number, action), result.clone());
            result
        })
    }

    fn step(&mut self, state: &State, action: Action) -> State {
        let at = self.host_of(action);
        let leads = self.hosts[state.key.hosts[at] as usize].1.leads;
        let (after, sends) = self.result(&state.key, at, action);
        let mut state = state.clone();
        state.key.hosts[at] = after;
        add(&mut state.sent, &sends);
        let history = &mut state.key.history;
        match action {
            Action::TimeOut(_) if leads => history.resignations += 1,
            Action::TimeOut(_) => history.time_outs += 1,
            Action::Propose(_) => history.proposals += 1,
            Action::Crash { .. } => history.crashes += 1,
            Action::Write(_) | Action::Deliver(_) => {}
        }
        state
    }

    /// Gives an input to a host. Returns the host after it and the messages that it sends.
    fn apply(&mut self, number: u32, at: usize, action: Action, proposals: u8) -> Taken {
        let mut host = Host::clone(&self.hosts[number as usize].0);
        match action {
            Action::TimeOut(_) => host.node.expire(),
            Action::Propose(_) => {
                let request = Request {
                    client: ClientId(0),
                    sequence: u64::from(proposals),
                    operation: Operation::OpenSession,
                };
                // A refusal leaves the node as it was.
                let _ = host.node.propose(0, request, 0);
            }
            Action::Write(_) => {
                if let Some((number, kept)) = host.writing.take() {
                    host.kept = kept;
                    host.node.persisted(number);
                }
            }
            Action::Crash { keeps, .. } => {
                if let Some((_, kept)) = host.writing.take().filter(|_| keeps) {
                    host.kept = kept;
                }
                let saved = Saved {
                    term: host.kept.term,
                    vote: host.kept.vote,
                    snapshot: None,
                    first: LogIndex(1),
                    entries: host.kept.entries.clone(),
                };
                host.is_second = true;
                host.node = self
                    .variant
                    .restored(config(at, true), self.members, saved, 0);
            }
            Action::Deliver(message) => {
                let bytes = Rc::clone(&self.messages[usize::from(message)].bytes);
                host.node.receive(0, &bytes).expect("messages are sound");
            }
        }
        let mut sends = Vec::new();
        let mut has_heartbeat = false;
        loop {
            host.node.flush(0);
            if let Some(persist) = host.node.persist() {
                let mut kept = Kept {
                    term: persist.term,
                    vote: persist.vote,
                    entries: host.kept.entries.clone(),
                };
                kept.entries.truncate(persist.from.0 as usize - 1);
                kept.entries.extend(persist.entries().copied());
                host.writing = Some((persist.number, Rc::new(kept)));
            }
            host.node.send(|_, bytes| sends.push(bytes.to_vec()));
            while host.node.next_event().is_some() {}
            match host.writing.take() {
                Some((number, kept)) if !self.bounds.has_slow_disks => {
                    host.kept = kept;
                    host.node.persisted(number);
                }
                writing => {
                    host.writing = writing;
                    if has_heartbeat || host.node.role() != RaftRole::Leader {
                        break;
                    }
                    has_heartbeat = true;
                    host.node.tick(0);
                }
            }
        }
        host.node.merge_held();
        let mut numbers: Vec<u16> = sends
            .iter()
            .map(|bytes| self.intern_message(bytes))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let origin = Origin::Step {
            host: number,
            action,
            proposals,
        };
        (self.intern_host(host, origin), numbers.into())
    }

    /// Checks a new state, and adds what its changed host did.
    fn check(
        &mut self,
        before: [u32; NODES],
        after: &mut State,
        action: Action,
    ) -> Result<(), String> {
        let Key { hosts, history } = &mut after.key;
        let Some(at) = (0..NODES).find(|at| before[*at] != hosts[*at]) else {
            return Ok(());
        };
        let old = &self.hosts[before[at] as usize].1;
        let new = &self.hosts[hosts[at] as usize].1;
        let term = new.term.0 as usize;
        if new.leads && (!old.leads || old.term != new.term) {
            let leader = &mut history.leaders[term - 1];
            if *leader != 0 && *leader != at as u8 + 1 {
                return Err(format!("nodes {leader} and {} lead term {term}", at + 1));
            }
            *leader = at as u8 + 1;
            for (index, number) in history.committed().iter().enumerate() {
                let entry = self.committed[usize::from(*number)];
                let has = new.log.get(index) == Some(&(entry.term, entry.hash));
                if entry.by < new.term && !has {
                    return Err(format!("node {} leads without entry {}", at + 1, index + 1));
                }
            }
        }
        for other in (0..NODES).filter(|other| *other != at) {
            let other = &self.hosts[hosts[other] as usize].1;
            let both = new.log.iter().zip(&other.log);
            let same: Vec<bool> = both.clone().map(|(one, other)| one.0 == other.0).collect();
            let last = same.iter().rposition(|is_same| *is_same);
            let differs = both
                .take(last.map_or(0, |last| last + 1))
                .any(|(one, other)| one != other);
            if differs {
                return Err(format!(
                    "logs differ before an equal entry: {new:?} {other:?}"
                ));
            }
        }
        for index in 0..new.commit {
            let Some((entry_term, hash)) = new.log.get(index).copied() else {
                return Err(format!("node {} committed more than it has", at + 1));
            };
            let known = history.committed().get(index).copied();
            match known.map(|number| self.committed[usize::from(number)]) {
                Some(known) if (known.term, known.hash) == (entry_term, hash) => {}
                Some(_) => {
                    let node = at + 1;
                    return Err(format!("node {node} committed another entry {}", index + 1));
                }
                None => {
                    let entry = Committed {
                        term: entry_term,
                        hash,
                        by: new.term,
                    };
                    let known = self.committed.iter().position(|other| *other == entry);
                    let number = known.unwrap_or_else(|| {
                        self.committed.push(entry);
                        self.committed.len() - 1
                    });
                    history.commit(u8::try_from(number).expect("few entries"));
                }
            }
        }
        let applied: Vec<u64> = new.log.iter().take(new.applied).map(|one| one.1).collect();
        let digest = *self.digests.entry(hash_of(&applied)).or_insert(new.digest);
        if digest != new.digest {
            return Err(format!(
                "node {} has another state after {action:?}",
                at + 1
            ));
        }
        Ok(())
    }
}

fn explore(bounds: Bounds, mistake: Option<Mistake>) -> Result<Explored, String> {
    Explorer::new(bounds, mistake).run()
}

const fn bounds(terms: u64, [time_outs, resignations, proposals, crashes]: [u8; 4]) -> Bounds {
    Bounds {
        terms,
        time_outs,
        resignations,
        proposals,
        crashes,
        has_slow_disks: false,
    }
}

/// Bounds of the tests that run always: rivals in a term, a second term, a crash with a slow disk.
const SMALL: [Bounds; 3] = [
    bounds(1, [2, 0, 1, 0]),
    bounds(2, [2, 1, 0, 0]),
    Bounds {
        has_slow_disks: true,
        ..bounds(1, [1, 0, 0, 1])
    },
];

#[test]
fn states_of_a_small_cluster_are_safe() {
    for bounds in SMALL {
        let explored = explore(bounds, None).unwrap();
        assert!(
            explored.complete > 0 && explored.last_term > 0,
            "{bounds:?}: {explored:?}"
        );
    }
}

#[test]
fn the_exploration_finds_mistakes() {
    for mistake in [
        Mistake::VotesTwice,
        Mistake::CountsHalf,
        Mistake::CountsPreVotes,
        Mistake::ForgetsVote,
    ] {
        let found = FOUND_WITHIN
            .iter()
            .any(|bounds| explore(*bounds, Some(mistake)).is_err());
        assert!(found, "{mistake:?} is not found");
    }
}

/// Bounds within which mistakes are found.
const FOUND_WITHIN: [Bounds; 3] = [SMALL[0], SMALL[1], bounds(1, [2, 0, 0, 1])];

/// All states within bounds of some minutes, or within those of the environment.
#[test]
#[ignore = "minutes: cargo xtask consensus --explore"]
fn all_states_are_safe() {
    let given = std::env::var("POLYPLANE_EXPLORE");
    let whole = match given.as_deref().map(parse) {
        Ok(Some(bounds)) => vec![bounds],
        Ok(None) => panic!("POLYPLANE_EXPLORE is not six numbers, the first from 1 to 4"),
        Err(_) => WHOLE.to_vec(),
    };
    for bounds in whole {
        println!("{bounds:?}: {:?}", explore(bounds, None).unwrap());
    }
}

/// Bounds of `cargo xtask consensus --explore`.
const WHOLE: [Bounds; 3] = [
    bounds(1, [1, 0, 2, 1]),
    bounds(2, [2, 1, 1, 1]),
    Bounds {
        has_slow_disks: true,
        ..bounds(1, [2, 0, 0, 1])
    },
];

/// Reads terms, time-outs, resignations, proposals, crashes, and 1 for slow disks.
fn parse(text: &str) -> Option<Bounds> {
    let numbers: Option<Vec<u8>> = text.split(',').map(|word| word.parse().ok()).collect();
    let [terms, first, second, third, fourth, slow] = numbers?.try_into().ok()?;
    (1..=4).contains(&terms).then(|| Bounds {
        has_slow_disks: slow > 0,
        ..bounds(terms.into(), [first, second, third, fourth])
    })
}
