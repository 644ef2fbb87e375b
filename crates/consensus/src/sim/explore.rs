//! All states of a small cluster: three nodes, a network that loses, repeats and delays, and a
//! bounded number of time-outs, proposals and crashes.
//!
//! A message stays in the network for ever: to deliver it twice is a repeat, never is a loss. There
//! is no time: a time-out is an action. More messages in the network only add to what can happen:
//! so messages that a node sends without a change are there at once, and a state is left out if one
//! with equal nodes and more messages was explored. What an input makes of a node depends on the
//! node alone, so it is computed once for each node state and input. The first time-out is that of
//! node 1, since the three are alike.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use consensus::mistake::Mistake;
use consensus::{
    Ack, Capacity, ClientId, Config, Entry, Keep, LogIndex, Membership, NodeId, Operation,
    RaftNode, RaftRole, ReadMode, Request, Saved, Term,
};

use support::rng::mix;

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
    Heartbeat(usize),
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
    /// Numbers of the hosts' states.
    hosts: [u32; NODES],
    history: History,
    /// A bit for each message that was sent.
    sent: Vec<u64>,
}

/// Events on the way to a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct History {
    /// Leader of each term, from 1; 0 is none.
    leaders: [u8; 4],
    /// Committed entries: term, hash, and the term of the node that committed it first.
    committed: Vec<(Term, u64, Term)>,
    time_outs: u8,
    resignations: u8,
    proposals: u8,
    crashes: u8,
}

/// Message that some node sent in some state.
#[derive(Debug)]
struct Sent {
    to: usize,
    bytes: Rc<[u8]>,
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
    /// Results of inputs: the host after it, and the messages that it sends.
    results: HashMap<(u32, Action), Taken, Mixing>,
    /// Greatest sets of messages with which nodes and history were met.
    seen: HashMap<([u32; NODES], History), Vec<Vec<u64>>, Mixing>,
    /// Digest of the state machine by the hash of the committed entries.
    digests: HashMap<u64, u64>,
    explored: Explored,
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
    let other = other.iter().chain(std::iter::repeat(&0));
    one.iter().zip(other).all(|(one, other)| one & !other == 0)
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
        seed: u64::from(is_second),
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
            results: HashMap::default(),
            seen: HashMap::default(),
            digests: HashMap::new(),
            explored: Explored::default(),
        }
    }

    fn intern_host(&mut self, host: Host) -> u32 {
        let next = self.hosts.len() as u32;
        let number = *self.host_numbers.entry(host.fingerprint()).or_insert(next);
        if number == next {
            let summary = host.summary();
            self.hosts.push((Rc::new(host), summary));
        }
        number
    }

    fn intern_message(&mut self, to: usize, bytes: &[u8]) -> u16 {
        if let Some(number) = self.message_numbers.get(bytes) {
            return *number;
        }
        let number = u16::try_from(self.messages.len()).expect("few messages");
        let bytes: Rc<[u8]> = bytes.into();
        self.message_numbers.insert(Rc::clone(&bytes), number);
        self.messages.push(Sent { to, bytes });
        number
    }

    /// Explores all states. An error has the actions that lead to it, without those that change no
    /// node.
    fn run(&mut self) -> Result<Explored, String> {
        let hosts = [0, 1, 2].map(|at| {
            let node = self.variant.node(config(at, false), self.members, 0);
            let host = Host {
                node,
                kept: Rc::default(),
                writing: None,
                is_second: false,
            };
            self.intern_host(host)
        });
        let first = State {
            hosts,
            history: History::default(),
            sent: Vec::new(),
        };
        let mut stack = vec![(first, vec![Action::TimeOut(0)])];
        let mut path: Vec<Action> = Vec::new();
        while let Some((state, actions)) = stack.last_mut() {
            // A state may be left as soon as one with more messages was met.
            let action = match self.is_greatest(state) {
                true => actions.pop(),
                false => None,
            };
            let Some(action) = action else {
                stack.pop();
                path.pop();
                continue;
            };
            self.explored.steps += 1;
            let before = state.clone();
            let mut after = self.step(&before, action);
            path.push(action);
            let checked = self.check(&before, &mut after, action);
            checked.map_err(|error| format!("{error}, after {path:?}"))?;
            // The messages of a known state are closed, so those of a part of them are among them.
            let is_known = self.is_known(&after);
            let actions = if is_known {
                Vec::new()
            } else {
                self.close(&mut after)
            };
            if is_known || !self.is_new(&after) {
                path.pop();
                continue;
            }
            self.count(&after);
            stack.push((after, actions));
        }
        self.explored.keys = self.seen.len();
        self.explored.node_states = self.hosts.len();
        self.explored.messages = self.messages.len();
        Ok(self.explored)
    }

    /// Returns true if a state with the same nodes and history and with all of these messages was
    /// explored: whatever can happen in this one can happen there.
    fn is_known(&self, state: &State) -> bool {
        let known = self.seen.get(&(state.hosts, state.history.clone()));
        known.is_some_and(|all| all.iter().any(|other| is_subset(&state.sent, other)))
    }

    /// Returns false if a state with the same nodes and history and with more messages was met.
    fn is_greatest(&self, state: &State) -> bool {
        let known = self.seen.get(&(state.hosts, state.history.clone()));
        known.is_none_or(|all| all.contains(&state.sent))
    }

    /// Adds a state. Returns false if it is known.
    fn is_new(&mut self, state: &State) -> bool {
        if self.is_known(state) {
            return false;
        }
        let known = self
            .seen
            .entry((state.hosts, state.history.clone()))
            .or_default();
        known.retain(|other| !is_subset(other, &state.sent));
        known.push(state.sent.clone());
        true
    }

    /// Sends what the nodes send without a change of any: more messages in the network can only
    /// add to what may happen. Returns the actions that change a node.
    fn close(&mut self, state: &mut State) -> Vec<Action> {
        loop {
            let mut actions = self.actions(state);
            let before = state.sent.clone();
            actions.retain(|action| {
                let (Action::Heartbeat(_) | Action::Deliver(_)) = action else {
                    return true;
                };
                let at = self.host_of(*action);
                let (after, sends) = self.result(state, at, *action);
                if after == state.hosts[at] {
                    add(&mut state.sent, &sends);
                }
                after != state.hosts[at]
            });
            if state.sent == before {
                return actions;
            }
        }
    }

    fn count(&mut self, state: &State) {
        let History {
            leaders, committed, ..
        } = &state.history;
        self.explored.states += 1;
        let noops = leaders.iter().filter(|leader| **leader > 0).count();
        let all = committed.len() >= usize::from(self.bounds.proposals) + noops && noops > 0;
        self.explored.complete += usize::from(all);
        let last = leaders[self.bounds.terms as usize - 1];
        self.explored.last_term += usize::from(last > 0);
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let (mut actions, history) = (Vec::new(), &state.history);
        for at in 0..NODES {
            let (host, summary) = &self.hosts[state.hosts[at] as usize];
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
        for (word, bits) in state.sent.iter().enumerate() {
            let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
            actions.extend(set.map(|bit| Action::Deliver((64 * word + bit) as u16)));
        }
        // They are explored first, since states with more messages come from them.
        let leads = |at: &usize| self.hosts[state.hosts[*at] as usize].1.leads;
        actions.extend((0..NODES).filter(leads).map(Action::Heartbeat));
        actions
    }

    fn host_of(&self, action: Action) -> usize {
        match action {
            Action::TimeOut(at)
            | Action::Heartbeat(at)
            | Action::Propose(at)
            | Action::Write(at)
            | Action::Crash { node: at, .. } => at,
            Action::Deliver(message) => self.messages[usize::from(message)].to,
        }
    }

    fn result(&mut self, state: &State, at: usize, action: Action) -> Taken {
        let number = state.hosts[at];
        if let Action::Propose(_) = action {
            // A proposal has its number in the cluster.
            return self.apply(number, at, action, state.history.proposals);
        }
        let known = self.results.get(&(number, action)).cloned();
        known.unwrap_or_else(|| {
            let result = self.apply(number, at, action, state.history.proposals);
            self.results.insert((number, action), result.clone());
            result
        })
    }

    fn step(&mut self, state: &State, action: Action) -> State {
        let at = self.host_of(action);
        let leads = self.hosts[state.hosts[at] as usize].1.leads;
        let (after, sends) = self.result(state, at, action);
        let mut state = state.clone();
        state.hosts[at] = after;
        add(&mut state.sent, &sends);
        let history = &mut state.history;
        match action {
            Action::TimeOut(_) if leads => history.resignations += 1,
            Action::TimeOut(_) => history.time_outs += 1,
            Action::Propose(_) => history.proposals += 1,
            Action::Crash { .. } => history.crashes += 1,
            Action::Heartbeat(_) | Action::Write(_) | Action::Deliver(_) => {}
        }
        state
    }

    /// Gives an input to a host. Returns the host after it and the messages that it sends.
    fn apply(&mut self, number: u32, at: usize, action: Action, proposals: u8) -> Taken {
        let mut host = Host::clone(&self.hosts[number as usize].0);
        match action {
            Action::TimeOut(_) => host.node.expire(),
            Action::Heartbeat(_) => host.node.tick(0),
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
            host.node
                .send(|to, bytes| sends.push((to.0 as usize - 1, bytes.to_vec())));
            while host.node.next_event().is_some() {}
            match host.writing.take() {
                Some((number, kept)) if !self.bounds.has_slow_disks => {
                    host.kept = kept;
                    host.node.persisted(number);
                }
                writing => {
                    host.writing = writing;
                    break;
                }
            }
        }
        host.node.merge_held();
        let mut numbers: Vec<u16> = sends
            .iter()
            .map(|(to, bytes)| self.intern_message(*to, bytes))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        (self.intern_host(host), numbers.into())
    }

    /// Checks a new state, and adds what its changed host did.
    fn check(&mut self, before: &State, after: &mut State, action: Action) -> Result<(), String> {
        let Some(at) = (0..NODES).find(|at| before.hosts[*at] != after.hosts[*at]) else {
            return Ok(());
        };
        let history = &mut after.history;
        let old = &self.hosts[before.hosts[at] as usize].1;
        let new = &self.hosts[after.hosts[at] as usize].1;
        let term = new.term.0 as usize;
        if new.leads && (!old.leads || old.term != new.term) {
            let leader = &mut history.leaders[term - 1];
            if *leader != 0 && *leader != at as u8 + 1 {
                return Err(format!("nodes {leader} and {} lead term {term}", at + 1));
            }
            *leader = at as u8 + 1;
            for (index, (entry_term, hash, committed_in)) in history.committed.iter().enumerate() {
                let has = new.log.get(index) == Some(&(*entry_term, *hash));
                if *committed_in < new.term && !has {
                    return Err(format!("node {} leads without entry {}", at + 1, index + 1));
                }
            }
        }
        for other in (0..NODES).filter(|other| *other != at) {
            let other = &self.hosts[after.hosts[other] as usize].1;
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
            match history.committed.get(index) {
                Some((known, known_hash, _)) if (*known, *known_hash) == (entry_term, hash) => {}
                Some(_) => {
                    let node = at + 1;
                    return Err(format!("node {node} committed another entry {}", index + 1));
                }
                None => history.committed.push((entry_term, hash, new.term)),
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
