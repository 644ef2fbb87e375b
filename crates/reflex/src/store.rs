//! The replicated store of a plane: its replicas in one process, with messages in memory.

use std::collections::VecDeque;

use consensus::{
    Capacity, ChangeBytes, ClientId, Config, ElementChange, ElementId, Keep, Key, LogIndex,
    Membership, NodeEvent, NodeId, Operation, RaftNode, RaftRole, Request, RequestAnswer, Term,
};
use packet::Nanos;
use support::rng::mix;

use crate::loops::StoreSpec;

/// Least time without a leader until an election.
const ELECTION_TIMEOUT: Nanos = Nanos::from_millis(10);
/// Time between heartbeats.
const HEARTBEAT: Nanos = Nanos::from_millis(1);
/// Sessions of the plane: requests that can be under way.
const SESSIONS: usize = 16;
/// Requests that wait at most.
const MAX_WAITING: usize = 4096;
/// Keys, changes and elements.
const KEYS: usize = 65_536;
/// Entries of a log in memory.
const LOG_ENTRIES: usize = 8192;
/// Rounds of messages in one step at most: an end for the case that nodes never agree.
const MAX_ROUNDS: usize = 1000;

/// Number of a request of the plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Event of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// A request is committed.
    Committed(RequestId),
    /// The store has no room for the request's key: it had no effect.
    Full(RequestId),
    /// A leader has a committed change for an element.
    Change(Term, ElementChange),
    /// A node begins to lead: elements get what they did not confirm.
    Leading,
}

/// Reason for which the store takes no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRefusal {
    /// No node leads: there is no quorum, or an election is under way.
    NoLeader,
    /// Too many requests wait.
    Busy,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: RequestId,
    operation: Operation,
}

/// A session of the plane at the store: it has one request at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Session {
    client: Option<ClientId>,
    sequence: u64,
    /// The request under way, and whether a node has it.
    current: Option<Waiting>,
    is_proposed: bool,
}

/// The replicas of a store, and the plane's sessions.
pub struct ReplicaGroup {
    nodes: Vec<RaftNode>,
    /// Nodes that neither send nor receive, for tests of faults.
    is_stopped: Vec<bool>,
    sessions: Vec<Session>,
    waiting: VecDeque<Waiting>,
    next_request: u64,
    events: VecDeque<StoreEvent>,
    next_tick: Nanos,
    bytes: Vec<u8>,
    messages: Vec<(usize, usize)>,
}

impl ReplicaGroup {
    /// Creates the replicas.
    ///
    /// Returns `None` if there are more than a cluster can have.
    pub fn new(spec: &StoreSpec, seed: u64, now: Nanos) -> Option<ReplicaGroup> {
        let voters = (1..=spec.nodes.len() as u64).map(NodeId);
        let voters: Vec<NodeId> = voters.collect();
        let members = Membership::of_voters(&voters)?;
        let config = |id: NodeId| Config {
            cluster: mix(seed),
            id,
            // Each node mixes it with its own name.
            seed: mix(seed),
            election_timeout: ELECTION_TIMEOUT.0,
            heartbeat: HEARTBEAT.0,
            ack: spec.ack,
            keep: Keep::Memory,
            log_entries: LOG_ENTRIES,
            window: 1024,
            max_batch: 64,
            max_reads: 16,
            capacity: Capacity {
                keys: KEYS,
                sessions: 4 * SESSIONS,
                session_life: u64::MAX,
            },
        };
        let nodes = voters.iter();
        let nodes = nodes.map(|id| RaftNode::new(config(*id), members, now.0));
        Some(ReplicaGroup {
            nodes: nodes.collect(),
            is_stopped: vec![false; voters.len()],
            sessions: vec![Session::default(); SESSIONS],
            waiting: VecDeque::with_capacity(MAX_WAITING),
            next_request: 0,
            events: VecDeque::new(),
            next_tick: now,
            bytes: Vec::new(),
            messages: Vec::new(),
        })
    }

    /// Requests a change of an element. The store has it when [`StoreEvent::Committed`] comes.
    ///
    /// # Errors
    /// The store takes no request now. There was no effect.
    pub fn change(
        &mut self,
        element: ElementId,
        key: Key,
        change: Option<ChangeBytes>,
    ) -> Result<RequestId, StoreRefusal> {
        self.request(Operation::Change {
            element,
            key,
            change,
        })
    }

    /// Records that an element has its changes up to an index.
    ///
    /// # Errors
    /// As [`ReplicaGroup::change`].
    pub fn confirm(
        &mut self,
        element: ElementId,
        index: LogIndex,
    ) -> Result<RequestId, StoreRefusal> {
        let index = index.0;
        self.request(Operation::Confirm { element, index })
    }

    fn request(&mut self, operation: Operation) -> Result<RequestId, StoreRefusal> {
        if self.leader().is_none() {
            return Err(StoreRefusal::NoLeader);
        }
        if self.waiting.len() >= MAX_WAITING {
            return Err(StoreRefusal::Busy);
        }
        self.next_request += 1;
        let id = RequestId(self.next_request);
        self.waiting.push_back(Waiting { id, operation });
        Ok(id)
    }

    /// Returns the node that leads, and that a majority follows as far as it knows.
    fn leader(&self) -> Option<usize> {
        let running = (0..self.nodes.len()).filter(|at| !self.is_stopped[*at]);
        let leaders = running.filter(|at| self.nodes[*at].role() == RaftRole::Leader);
        leaders.max_by_key(|at| self.nodes[*at].term())
    }

    /// Returns the number of the leading node, from 0, and its term.
    pub fn leading(&self) -> Option<(usize, Term)> {
        self.leader().map(|at| (at, self.nodes[at].term()))
    }

    /// Returns the first change of an element after an index, as the leader has it.
    pub fn change_after(
        &self,
        element: ElementId,
        after: LogIndex,
    ) -> Option<(Term, ElementChange)> {
        let leader = &self.nodes[self.leader()?];
        Some((leader.term(), leader.change_after(element, after)?))
    }

    /// Stops a node, or lets it go on with what it had: a fault for tests and experiments.
    pub fn set_stopped(&mut self, node: usize, is_stopped: bool) {
        if let Some(stopped) = self.is_stopped.get_mut(node) {
            *stopped = is_stopped;
        }
    }

    /// Does all work that is due at `now`: messages between replicas take no time.
    pub fn step(&mut self, now: Nanos) {
        if now >= self.next_tick {
            self.next_tick = now + HEARTBEAT;
            for (node, is_stopped) in self.nodes.iter_mut().zip(&self.is_stopped) {
                if !is_stopped {
                    node.tick(now.0);
                }
            }
        }
        for _ in 0..MAX_ROUNDS {
            self.propose(now);
            let is_quiet = !self.exchange(now);
            let is_answered = self.take_events();
            if is_quiet && !is_answered {
                break;
            }
        }
    }

    /// Gives waiting requests to idle sessions, and their requests to the leader.
    fn propose(&mut self, now: Nanos) {
        let Some(leader) = self.leader() else {
            return;
        };
        for (at, session) in self.sessions.iter_mut().enumerate() {
            if session.current.is_none() {
                let Some(next) = self.waiting.pop_front() else {
                    continue;
                };
                session.sequence += 1;
                session.current = Some(next);
                session.is_proposed = false;
            }
            let Some(current) = session.current.filter(|_| !session.is_proposed) else {
                continue;
            };
            let request = match session.client {
                Some(client) => Request {
                    client,
                    sequence: session.sequence,
                    operation: current.operation,
                },
                None => Request {
                    client: ClientId(0),
                    sequence: 0,
                    operation: Operation::OpenSession,
                },
            };
            let proposed = self.nodes[leader].propose(now.0, request, at as u64);
            session.is_proposed = proposed.is_ok();
        }
    }

    /// Delivers one round of messages. Returns false if there was none.
    fn exchange(&mut self, now: Nanos) -> bool {
        let (bytes, messages) = (&mut self.bytes, &mut self.messages);
        bytes.clear();
        messages.clear();
        for (node, is_stopped) in self.nodes.iter_mut().zip(&self.is_stopped) {
            if *is_stopped {
                continue;
            }
            node.flush(now.0);
            node.send(|to, message| {
                bytes.extend_from_slice(message);
                messages.push((to.0 as usize - 1, bytes.len()));
            });
        }
        let mut begin = 0;
        for (to, end) in messages.iter() {
            if let (Some(node), Some(false)) = (self.nodes.get_mut(*to), self.is_stopped.get(*to)) {
                let received = node.receive(now.0, &bytes[begin..*end]);
                debug_assert!(received.is_ok(), "messages are not damaged in memory");
            }
            begin = *end;
        }
        !messages.is_empty()
    }

    /// Takes the nodes' events. Returns true if a session can go on.
    fn take_events(&mut self) -> bool {
        let leader = self.leader();
        let mut goes_on = false;
        for at in 0..self.nodes.len() {
            while let Some(event) = self.nodes[at].next_event() {
                match event {
                    NodeEvent::Answered { token, answer } => {
                        goes_on = true;
                        self.answered(token as usize, answer);
                    }
                    NodeEvent::Unknown { token } => {
                        // It is repeated in its session.
                        if let Some(session) = self.sessions.get_mut(token as usize) {
                            session.is_proposed = false;
                            goes_on = true;
                        }
                    }
                    NodeEvent::Change { term, change } => {
                        self.events.push_back(StoreEvent::Change(term, change));
                    }
                    NodeEvent::Leading { .. } if leader == Some(at) => {
                        // Requests at a node that led before may be lost: repeated, they have
                        // their first effect.
                        for session in &mut self.sessions {
                            session.is_proposed = false;
                        }
                        goes_on = true;
                        self.events.push_back(StoreEvent::Leading);
                    }
                    NodeEvent::Leading { .. }
                    | NodeEvent::Read { .. }
                    | NodeEvent::ReadFailed { .. } => {}
                }
            }
        }
        goes_on
    }

    fn answered(&mut self, session: usize, answer: RequestAnswer) {
        let Some(session) = self.sessions.get_mut(session) else {
            return;
        };
        session.is_proposed = false;
        match answer {
            RequestAnswer::Opened(client) => session.client = Some(client),
            // The request that waits in it is proposed again in a new session.
            RequestAnswer::NoSession => session.client = None,
            RequestAnswer::SessionsFull => {}
            RequestAnswer::Full => {
                if let Some(current) = session.current.take() {
                    self.events.push_back(StoreEvent::Full(current.id));
                }
            }
            _ => {
                if let Some(current) = session.current.take() {
                    self.events.push_back(StoreEvent::Committed(current.id));
                }
            }
        }
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<StoreEvent> {
        self.events.pop_front()
    }

    /// Returns the time of the next action without a request.
    pub fn next_time(&self) -> Nanos {
        self.next_tick
    }
}

#[cfg(test)]
mod tests {
    use consensus::Ack;

    use super::*;

    fn group(nodes: usize) -> ReplicaGroup {
        let spec = StoreSpec {
            nodes: (0..nodes).map(|node| node.to_string()).collect(),
            ack: Ack::Majority,
        };
        ReplicaGroup::new(&spec, 1, Nanos::ZERO).expect("a few nodes")
    }

    /// Steps until a node leads. Returns the time.
    fn elect(group: &mut ReplicaGroup, mut now: Nanos) -> Nanos {
        let end = now + Nanos::from_secs(1);
        while now < end {
            now = group.next_time();
            group.step(now);
            if group.leader().is_some() {
                return now;
            }
        }
        panic!("no node leads after a second");
    }

    fn change(number: u64) -> (Key, Option<ChangeBytes>) {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        (key, ChangeBytes::new(&number.to_le_bytes()))
    }

    #[test]
    fn requests_are_committed_in_one_step_and_changes_come_in_their_order() {
        let mut group = group(3);
        let now = elect(&mut group, Nanos::ZERO);
        let mut ids = Vec::new();
        for number in 0..100 {
            let (key, bytes) = change(number);
            ids.push(group.change(ElementId(1), key, bytes).unwrap());
        }
        group.step(now);
        let mut previous = LogIndex(0);
        let mut committed = Vec::new();
        while let Some(event) = group.next_event() {
            match event {
                StoreEvent::Committed(id) => committed.push(id),
                StoreEvent::Change(_, change) => {
                    assert_eq!(change.previous, previous);
                    previous = change.index;
                }
                StoreEvent::Leading => {}
                StoreEvent::Full(id) => panic!("{id:?} has no room"),
            }
        }
        committed.sort();
        assert_eq!(committed, ids);
    }

    #[test]
    fn without_a_majority_requests_are_refused_and_with_one_again_they_are_committed() {
        let mut group = group(3);
        let mut now = elect(&mut group, Nanos::ZERO);
        let leader = group.leader().unwrap();
        let (key, bytes) = change(1);
        // A request under way when the leader stops is not lost.
        let id = group.change(ElementId(1), key, bytes).unwrap();
        // The leader has it, and the others do not.
        for node in (0..3).filter(|node| *node != leader) {
            group.set_stopped(node, true);
        }
        group.step(now);
        group.set_stopped(leader, true);
        for node in (0..3).filter(|node| *node != leader) {
            group.set_stopped(node, false);
        }
        now = elect(&mut group, now);
        for _ in 0..50 {
            now = group.next_time();
            group.step(now);
        }
        let mut events = std::iter::from_fn(|| group.next_event());
        assert!(events.any(|event| event == StoreEvent::Committed(id)));
        let second = group.leader().unwrap();
        group.set_stopped(second, true);
        let (key, bytes) = change(2);
        for _ in 0..100 {
            now = group.next_time();
            group.step(now);
        }
        let refused = group.change(ElementId(1), key, bytes);
        assert_eq!(refused, Err(StoreRefusal::NoLeader));
        group.set_stopped(leader, false);
        elect(&mut group, now);
        assert!(group.change(ElementId(1), key, bytes).is_ok());
    }
}
