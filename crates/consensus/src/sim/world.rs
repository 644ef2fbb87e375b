//! The world of a run: hosts, network, time, faults.

mod faults;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use consensus::{
    Admission, ChangeBytes, ElementChange, ElementId, Fence, Keep, Key, LogIndex, Membership,
    NodeEvent, NodeId, RaftNode, RaftRole, Term,
};
use support::rng::{Rng, mix};

use super::check::Checker;
use super::client::{Client, ELEMENTS, Histories, Question, Reply};
use super::disk::Disk;
use super::linear::{self, Verdict};
use super::plan::{ELECTION, Plan};
use super::variant::Variant;

/// Counts of a run: what its faults reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) steps: u64,
    pub(crate) committed: u64,
    pub(crate) operations: u64,
    pub(crate) unknown: u64,
    pub(crate) elections: u64,
    /// Terms with two candidates.
    pub(crate) rivals: u64,
    pub(crate) crashes: u64,
    pub(crate) partitions: u64,
    pub(crate) changes: u64,
    pub(crate) transfers: u64,
    pub(crate) snapshots: u64,
    pub(crate) installed: u64,
    pub(crate) refused: u64,
    pub(crate) impossible: u64,
    /// Hash of all steps.
    pub(crate) trace: u64,
}

impl Report {
    /// Adds the counts of another run.
    pub(crate) fn add(&mut self, other: &Report) {
        self.steps += other.steps;
        self.committed += other.committed;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.elections += other.elections;
        self.rivals += other.rivals;
        self.crashes += other.crashes;
        self.partitions += other.partitions;
        self.changes += other.changes;
        self.transfers += other.transfers;
        self.snapshots += other.snapshots;
        self.installed += other.installed;
        self.refused += other.refused;
        self.impossible += other.impossible;
        self.trace ^= other.trace;
    }
}

/// Machine of a node.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) node: Option<RaftNode>,
    disk: Disk,
    first_members: Membership,
    starts: u64,
    /// Speed of the clock in thousandths, and its time at the begin.
    rate: u64,
    offset: u64,
    paused_until: u64,
    /// Term when the node was last looked at.
    term: Term,
    /// True if the node lost its memory: its name is not used again.
    pub(super) is_lost: bool,
    /// Last change that each element answered to this leader.
    confirmed: [LogIndex; ELEMENTS as usize],
}

/// A managed element.
#[derive(Debug, Default)]
struct Element {
    fence: Fence,
    content: BTreeMap<Key, ChangeBytes>,
    /// Index of the last change that is in effect.
    shown: LogIndex,
}

#[derive(Clone, Debug)]
enum What {
    Message {
        to: usize,
        bytes: Vec<u8>,
    },
    Tick(usize),
    Written {
        host: usize,
        start: u64,
        number: u64,
    },
    Ask {
        host: usize,
        client: usize,
        attempt: u64,
        question: Question,
    },
    Reply {
        client: usize,
        attempt: u64,
        reply: Reply,
    },
    Wake {
        client: usize,
        attempt: u64,
    },
    Command {
        from: usize,
        term: Term,
        change: ElementChange,
    },
    Confirmed {
        host: usize,
        element: ElementId,
        index: LogIndex,
    },
    Crash(usize),
    Restart(usize),
    Unblock(Vec<(usize, usize)>),
    Fault,
    Administer,
}

/// Event at its time; of equal times the one that was made first.
#[derive(Debug)]
struct Scheduled {
    time: u64,
    number: u64,
    what: What,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

/// Everything.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) variant: Variant,
    pub(super) rng: Rng,
    now: u64,
    number: u64,
    attempts: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    pub(super) hosts: Vec<Host>,
    clients: Vec<Client>,
    elements: Vec<Element>,
    blocked: HashSet<(usize, usize)>,
    histories: Histories,
    checker: Checker,
    pub(super) report: Report,
    attempt_clients: BTreeMap<u64, usize>,
    /// Last candidate of each term.
    candidates: BTreeMap<Term, usize>,
}

/// Runs a seed.
///
/// # Errors
/// A rule does not hold; the text says which one.
pub(crate) fn run(seed: u64, variant: Variant) -> Result<Report, String> {
    let mut world = World::new(seed, variant);
    let healed = world.plan.faults;
    let outcome = world.run_phases(healed);
    let at = world.now;
    outcome
        .map(|()| world.report)
        .map_err(|error| format!("seed {seed}, at {at} us: {error}\n{}", world.describe()))
}

/// Runs a seed, and returns the histories of its keys.
///
/// # Errors
/// As [`run`].
pub(super) fn record(seed: u64, variant: Variant) -> Result<Histories, String> {
    let mut world = World::new(seed, variant);
    let healed = world.plan.faults;
    let outcome = world.run_phases(healed);
    outcome.map_err(|error| format!("seed {seed}: {error}"))?;
    Ok(world.histories)
}

impl World {
    fn new(seed: u64, variant: Variant) -> World {
        let plan = Plan::new(seed);
        let mut world = World {
            variant,
            rng: Rng::new(mix(seed) ^ 2),
            now: 0,
            number: 0,
            attempts: 0,
            queue: BinaryHeap::new(),
            hosts: Vec::new(),
            clients: (0..plan.clients).map(|_| Client::new()).collect(),
            elements: (0..ELEMENTS).map(|_| Element::default()).collect(),
            blocked: HashSet::new(),
            histories: Histories::new(),
            checker: Checker::default(),
            report: Report::default(),
            attempt_clients: BTreeMap::new(),
            candidates: BTreeMap::new(),
            plan,
        };
        let voters: Vec<NodeId> = (1..=world.plan.nodes).map(NodeId).collect();
        let members = Membership::of_voters(&voters).unwrap_or_default();
        for _ in 0..world.plan.nodes {
            world.add_host(members);
        }
        for client in 0..world.clients.len() {
            world.at(100 * client as u64, What::Wake { client, attempt: 0 });
        }
        world.at(ELECTION, What::Fault);
        world.at(ELECTION, What::Administer);
        world
    }

    /// Describes the plan and the nodes, for a seed that fails.
    fn describe(&self) -> String {
        let mut text = format!("{:?}\n", self.plan);
        for host in &self.hosts {
            let Some(node) = &host.node else {
                continue;
            };
            text += &format!(
                "node {}: {:?} of term {}, leader {:?}, log {} to {}, commit {}, {:?}, members {:?}\n",
                node.id(),
                node.role(),
                node.term(),
                node.leader(),
                node.base(),
                node.last(),
                node.commit(),
                node.counts(),
                node.members().0.all(),
            );
        }
        for client in &self.clients {
            text += &format!("{client:?}\n");
        }
        text
    }

    fn run_phases(&mut self, healed: u64) -> Result<(), String> {
        self.run_until(healed)?;
        self.heal();
        self.run_until(healed + 10 * ELECTION)?;
        let is_served = |client: &Client| client.answered.is_some_and(|call| call >= healed);
        if let Some(client) = self.clients.iter().position(|client| !is_served(client)) {
            return Err(format!("client {client} is not served after the faults"));
        }
        for client in &mut self.clients {
            client.ends = true;
        }
        self.run_until(healed + 20 * ELECTION)?;
        if !self.clients.iter().all(|client| client.has_ended) {
            return Err("a last read is not answered".to_owned());
        }
        self.check_elements()?;
        for client in &mut self.clients {
            client.stop(&mut self.histories);
        }
        self.check_histories()?;
        for host in &self.hosts {
            let counts = host.node.as_ref().map(RaftNode::counts).unwrap_or_default();
            self.report.snapshots += counts.snapshots;
            self.report.installed += counts.installed;
            self.report.refused += counts.refused;
            self.report.impossible += counts.impossible;
        }
        self.report.committed = self.checker.committed() as u64;
        Ok(())
    }

    fn check_histories(&mut self) -> Result<(), String> {
        for (key, history) in &self.histories {
            self.report.operations += history.len() as u64;
            let unknown = history.iter().filter(|op| op.done.is_none()).count();
            self.report.unknown += unknown as u64;
            match linear::check(history) {
                Verdict::Linearizable => {}
                verdict => return Err(format!("history of key {key}: {verdict:?}")),
            }
        }
        Ok(())
    }

    /// Checks that each element has what the store says.
    fn check_elements(&self) -> Result<(), String> {
        let leader = self
            .leading_host()
            .and_then(|at| self.hosts[at].node.as_ref());
        let leader = leader.ok_or("no leader at the end")?;
        for (number, element) in (1..).zip(&self.elements) {
            let (id, mut after) = (ElementId(number), LogIndex(0));
            let mut content = BTreeMap::new();
            while let Some(change) = leader.change_after(id, after) {
                after = change.index;
                if let Some(bytes) = change.change {
                    content.insert(change.key, bytes);
                }
            }
            if content != element.content {
                return Err(format!("element {number} differs from the store"));
            }
        }
        Ok(())
    }

    fn at(&mut self, delay: u64, what: What) {
        self.number += 1;
        let (time, number) = (self.now + delay, self.number);
        self.queue.push(Reverse(Scheduled { time, number, what }));
    }

    pub(super) fn is_healed(&self) -> bool {
        self.now >= self.plan.faults
    }

    pub(super) fn local_time(&self, host: usize) -> u64 {
        let host = &self.hosts[host];
        host.offset + self.now * host.rate / 1000
    }

    fn add_host(&mut self, members: Membership) -> usize {
        let at = self.hosts.len();
        self.hosts.push(Host {
            node: None,
            disk: Disk::default(),
            first_members: members,
            starts: 0,
            rate: self.rng.between(
                1000 - u64::from(self.plan.drift),
                1000 + u64::from(self.plan.drift),
            ),
            offset: self.rng.below(5 * ELECTION),
            paused_until: 0,
            term: Term(0),
            is_lost: false,
            confirmed: Default::default(),
        });
        self.start(at);
        self.at(1, What::Tick(at));
        at
    }

    /// Starts a node that is no member yet.
    pub(super) fn start_host(&mut self) -> NodeId {
        let at = self.add_host(Membership::default());
        NodeId(at as u64 + 1)
    }

    fn start(&mut self, at: usize) {
        let now = self.local_time(at);
        let host = &mut self.hosts[at];
        host.starts += 1;
        let id = NodeId(at as u64 + 1);
        let config = self.plan.config(id, host.starts * 100 + id.0);
        let members = host.first_members;
        let is_again = host.starts > 1 && self.plan.keep == Keep::Disk;
        host.node = Some(match is_again {
            true => self
                .variant
                .restored(config, members, host.disk.read(), now),
            false => self.variant.node(config, members, now),
        });
        self.checker.restarts(id);
    }

    fn run_until(&mut self, end: u64) -> Result<(), String> {
        while let Some(Reverse(next)) = self.queue.peek()
            && next.time < end
        {
            let Some(Reverse(event)) = self.queue.pop() else {
                break;
            };
            self.now = event.time;
            self.report.steps += 1;
            self.report.trace = mix(self.report.trace ^ event.time ^ event.number << 32);
            self.step(event.what)?;
        }
        self.now = end;
        Ok(())
    }

    fn step(&mut self, what: What) -> Result<(), String> {
        let touched = match &what {
            What::Message { to: host, .. } | What::Tick(host) => Some(*host),
            What::Written { host, .. } | What::Ask { host, .. } => Some(*host),
            _ => None,
        };
        if let Some(host) = touched {
            let wait = self.hosts[host].paused_until.saturating_sub(self.now);
            if wait > 0 {
                self.at(wait, what);
                return Ok(());
            }
        }
        self.happen(what)?;
        match touched {
            Some(host) => self.settle(host),
            None => Ok(()),
        }
    }

    fn happen(&mut self, what: What) -> Result<(), String> {
        match what {
            What::Message { to, bytes } => {
                let now = self.local_time(to);
                if let Some(node) = &mut self.hosts[to].node {
                    // Damaged messages are counted by the node.
                    let _ = node.receive(now, &bytes);
                }
            }
            What::Tick(host) => {
                let now = self.local_time(host);
                if let Some(node) = &mut self.hosts[host].node {
                    node.tick(now);
                }
                self.send_changes_again(host);
                self.at(ELECTION / 12, What::Tick(host));
            }
            What::Written {
                host,
                start,
                number,
            } => {
                let host = &mut self.hosts[host];
                if host.starts == start
                    && let Some(node) = &mut host.node
                    && host.disk.complete(number)
                {
                    node.persisted(number);
                }
            }
            What::Ask {
                host,
                client,
                attempt,
                question,
            } => {
                self.ask(host, client, attempt, question);
            }
            What::Reply {
                client,
                attempt,
                reply,
            } => {
                let now = self.now;
                let next = self.clients[client].reply(now, attempt, reply, &mut self.histories);
                if let Some((attempt, is_done)) = next {
                    let think = if is_done {
                        self.rng.below(self.plan.think)
                    } else {
                        300
                    };
                    self.at(1 + think, What::Wake { client, attempt });
                }
            }
            What::Wake { client, attempt } => self.wake(client, attempt),
            What::Command { from, term, change } => return self.command(from, term, change),
            What::Confirmed {
                host,
                element,
                index,
            } => {
                let confirmed = &mut self.hosts[host].confirmed[element.0 as usize - 1];
                *confirmed = index.max(*confirmed);
            }
            What::Crash(host) => {
                if !self.is_healed() {
                    self.crash(host, ELECTION / 50);
                }
            }
            What::Restart(host) => {
                if self.hosts[host].node.is_none() && !self.hosts[host].is_lost {
                    self.start(host);
                }
            }
            What::Unblock(links) => {
                for link in links {
                    self.blocked.remove(&link);
                }
            }
            What::Fault => {
                if !self.is_healed() {
                    self.fault();
                    let gap = self.rng.below(2 * self.plan.fault_gap);
                    self.at(1 + gap, What::Fault);
                }
            }
            What::Administer => {
                self.administer();
                self.at(ELECTION / 2, What::Administer);
            }
        }
        Ok(())
    }

    /// Takes the outputs of a node and checks it.
    fn settle(&mut self, at: usize) -> Result<(), String> {
        let now = self.local_time(at);
        // Sometimes the next event comes before the outputs of this one are taken.
        let waits = self.rng.one_in(5);
        let crashes = !self.is_healed() && self.rng.per_mille(self.plan.term_crashes);
        let host = &mut self.hosts[at];
        let Some(node) = &mut host.node else {
            return Ok(());
        };
        if !waits {
            node.flush(now);
        }
        if node.role() == RaftRole::Candidate {
            let other = self.candidates.insert(node.term(), at);
            self.report.rivals += u64::from(other.is_some_and(|other| other < at));
        }
        let is_new_term = std::mem::replace(&mut host.term, node.term()) != node.term();
        let mut written = None;
        if let Some(persist) = node.persist() {
            host.disk.begin(&persist);
            written = Some(What::Written {
                host: at,
                start: host.starts,
                number: persist.number,
            });
        }
        let mut messages = Vec::new();
        node.send(|to, bytes| messages.push((to, bytes.to_vec())));
        let mut events = Vec::new();
        while let Some(event) = node.next_event() {
            events.push(event);
        }
        self.checker.check(node)?;
        if let Some(written) = written {
            let delay = if self.rng.one_in(30) { 4_000 } else { 150 };
            let delay = self.rng.below(delay);
            self.at(1 + delay, written);
        }
        for (to, bytes) in messages {
            self.transmit(at, to, bytes);
        }
        for event in events {
            self.event(at, event);
        }
        if is_new_term && crashes {
            let delay = self.rng.below(self.plan.delay);
            self.at(delay, What::Crash(at));
        }
        Ok(())
    }

    fn event(&mut self, host: usize, event: NodeEvent) {
        let (token, reply) = match event {
            NodeEvent::Answered { token, answer } => (token, Reply::Answered(answer)),
            NodeEvent::Unknown { token } | NodeEvent::ReadFailed { token } => {
                (token, Reply::Failed)
            }
            NodeEvent::Read { token, value } => (token, Reply::Value(value)),
            NodeEvent::Change { term, change } => {
                self.send_command(host, term, change);
                return;
            }
            NodeEvent::Leading { .. } => {
                self.report.elections += 1;
                self.hosts[host].confirmed = Default::default();
                return;
            }
        };
        self.reply(token, reply);
    }

    fn reply(&mut self, attempt: u64, reply: Reply) {
        let Some(&client) = self.attempt_clients.get(&attempt) else {
            return;
        };
        if let Some(delay) = self.delay() {
            self.at(
                delay,
                What::Reply {
                    client,
                    attempt,
                    reply,
                },
            );
        }
    }

    fn wake(&mut self, client: usize, woken: u64) {
        self.attempts += 1;
        let (now, attempt) = (self.now, self.attempts);
        let is_there = |at: &usize| !self.hosts[*at].is_lost;
        let hosts: Vec<usize> = (0..self.hosts.len()).filter(is_there).collect();
        let leads = |at: &usize| {
            let node = self.hosts[*at].node.as_ref()?;
            (node.role() == RaftRole::Leader).then(|| (node.term(), *at))
        };
        let oldest = hosts.iter().filter_map(leads).min().map(|(_, at)| at);
        let with = (&self.plan, &mut self.rng, &mut self.histories);
        let next = self.clients[client].wake(now, woken, attempt, client, (&hosts, oldest), with);
        let Some((host, question)) = next else {
            return;
        };
        self.attempt_clients.insert(attempt, client);
        if let Some(delay) = self.delay() {
            self.at(
                delay,
                What::Ask {
                    host,
                    client,
                    attempt,
                    question,
                },
            );
        }
        self.at(ELECTION / 2, What::Wake { client, attempt });
    }

    fn ask(&mut self, host: usize, client: usize, attempt: u64, question: Question) {
        let now = self.local_time(host);
        let Some(node) = &mut self.hosts[host].node else {
            return;
        };
        let taken = match question {
            Question::Propose(request) => node.propose(now, request, attempt),
            Question::Read(key) => node.read(now, key, attempt),
        };
        if let Err(refusal) = taken
            && let Some(delay) = self.delay()
        {
            let reply = Reply::Refused(refusal);
            self.at(
                delay,
                What::Reply {
                    client,
                    attempt,
                    reply,
                },
            );
        }
    }

    fn send_command(&mut self, from: usize, term: Term, change: ElementChange) {
        for _ in 0..2 {
            if let Some(delay) = self.delay() {
                self.at(delay, What::Command { from, term, change });
            }
            if !self.rng.per_mille(self.plan.duplicates) {
                break;
            }
        }
    }

    /// Sends the first change that each element did not answer.
    fn send_changes_again(&mut self, at: usize) {
        let Some(node) = &self.hosts[at].node else {
            return;
        };
        if node.role() != RaftRole::Leader {
            return;
        }
        let term = node.term();
        let changes = (1..).zip(self.hosts[at].confirmed);
        let changes =
            changes.filter_map(|(element, after)| node.change_after(ElementId(element), after));
        for change in changes.collect::<Vec<_>>() {
            self.send_command(at, term, change);
        }
    }

    fn command(&mut self, from: usize, term: Term, change: ElementChange) -> Result<(), String> {
        let skips_fence = self.variant.skips_fence();
        let element = &mut self.elements[change.element.0 as usize - 1];
        let admission = element.fence.admit(term, change.previous, change.index);
        if admission == Admission::Apply || skips_fence {
            if change.index < element.shown {
                return Err(format!(
                    "element {} goes back to an old change",
                    change.element.0
                ));
            }
            element.shown = change.index;
            match change.change {
                Some(bytes) => element.content.insert(change.key, bytes),
                None => element.content.remove(&change.key),
            };
        }
        let index = match admission {
            Admission::OldTerm(_) | Admission::Gap(_) => return Ok(()),
            Admission::Apply | Admission::Repeat(_) => element.fence.applied(),
        };
        if let Some(delay) = self.delay() {
            self.at(
                delay,
                What::Confirmed {
                    host: from,
                    element: change.element,
                    index,
                },
            );
        }
        Ok(())
    }
}
