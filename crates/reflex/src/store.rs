//! The replicated store of a plane: its replicas in this process, with messages in memory between
//! them, and messages for those in other processes. It does no I/O.

mod reads;
mod replace;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use consensus::{
    Capacity, ChangeBytes, ClientBody, ClientId, ClientMessage, Config, ElementChange, ElementId,
    Keep, Key, LogIndex, Membership, MessageError, NodeEvent, NodeId, Operation, PeerMessage,
    Persist, RaftNode, RaftRole, Request, RequestAnswer, Saved, Term,
};
use packet::Nanos;
use support::rng::mix;

pub use self::replace::ReplaceProgress;

use self::reads::WaitingRead;
use crate::loops::StoreSpec;

/// Sessions of the plane: requests that can be under way. One is opened when it is needed.
const SESSIONS: usize = 64;
/// Requests that wait at most.
const MAX_WAITING: usize = 4096;
/// Keys, changes and elements.
const KEYS: usize = 65_536;
/// Keys that only the plane's own notes take: nodes that left, and settings.
const RESERVED_KEYS: usize = 512;
/// Entries of a log in memory.
const LOG_ENTRIES: usize = 8192;
/// Rounds of messages in one step at most: an end for the case that nodes never agree.
const MAX_ROUNDS: usize = 1000;
/// First token of the requests of other processes. Smaller ones are of the plane's sessions.
const FIRST_FOREIGN: u64 = 1 << 63;
/// Requests of other processes that wait for an answer at most.
const MAX_FOREIGN: usize = 4096;

/// Room of the replicated state. It is the same on all nodes: it gives a snapshot its size. A
/// session that is unused for a minute of log time can be given away, since a process that
/// restarts opens new ones.
pub const CAPACITY: Capacity = Capacity {
    keys: KEYS,
    reserved: RESERVED_KEYS,
    sessions: 1024,
    session_life: Nanos::from_secs(60).0,
};

/// Returns the name of the cluster of loops with this seed and these nodes. Nodes of other numbers
/// or names are another cluster: their majorities are others.
pub fn cluster_name(seed: u64, nodes: &[String]) -> u64 {
    nodes.iter().fold(mix(seed), |name, node| {
        let bytes = node.bytes().map(u64::from);
        bytes.chain([256]).fold(name, |name, byte| mix(name ^ byte))
    })
}

/// Number of a request of the plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Event of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// A change or a confirmation of an element is committed.
    Committed(RequestId),
    /// The store has no room for the request's key: it had no effect.
    Full(RequestId),
    /// Answer to an operation on a key.
    Answered(RequestId, RequestAnswer),
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
    /// The leader cannot keep entries on its disk.
    Disk,
    /// The key is one of the plane's own.
    Reserved,
}

impl std::fmt::Display for StoreRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StoreRefusal::NoLeader => "no_quorum: the store has no leader; ask again soon",
            StoreRefusal::Busy => "busy: too many requests wait at the store; ask again soon",
            StoreRefusal::Disk => "disk: the store cannot keep entries; make room on its disk",
            StoreRefusal::Reserved => {
                "reserved: keys that begin with the bytes ff ff are the plane's own; take another key"
            }
        })
    }
}

/// Error of a write to the disk of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogDiskError {
    /// True if the disk has no room.
    pub is_full: bool,
    /// Description with the file and what to do.
    pub message: String,
}

/// Disk of a node: keeps its votes and entries. One write is under way at a time.
pub trait LogDisk {
    /// Begins a write. It is tried again until it is complete.
    fn begin(&mut self, write: &Persist<'_>);

    /// Returns the number of a write, once, when it is complete and survives a power failure.
    fn completed(&mut self) -> Option<u64>;

    /// Returns the error of the write under way, if it could not be written yet.
    fn error(&self) -> Option<LogDiskError>;
}

/// A node's disk, with what it kept.
pub struct StoredNode {
    /// State of the node; `None` if it was never started.
    pub saved: Option<Saved>,
    /// The disk.
    pub disk: Box<dyn LogDisk>,
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
    /// Number of what was asked last: an answer to something else is not taken.
    asked: u64,
    /// Time at which a request to another process is sent again.
    deadline: Nanos,
    /// Time before which nothing is asked: the process that was asked does not lead, or the store
    /// has no room for a session.
    not_before: Nanos,
}

/// A node in this process.
struct Replica {
    node: RaftNode,
    /// It neither sends nor receives, for tests of faults.
    is_stopped: bool,
    disk: Option<Box<dyn LogDisk>>,
}

/// State of a node in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// Place in the list of the file.
    pub node: usize,
    /// Its role.
    pub role: RaftRole,
    /// Its term.
    pub term: Term,
    /// Place of the leader, if it is known.
    pub leader: Option<usize>,
    /// Index of the last committed entry.
    pub commit: LogIndex,
    /// Index of the last entry.
    pub last: LogIndex,
}

/// The replicas of a store in this process, and the plane's sessions.
pub struct ReplicaGroup {
    cluster: u64,
    replicas: Vec<Replica>,
    /// Nodes in all processes.
    nodes: usize,
    heartbeat: Nanos,
    sessions: Vec<Session>,
    waiting: VecDeque<Waiting>,
    reads: Vec<WaitingRead>,
    next_request: u64,
    /// Number of the next thing that is asked.
    next_asked: u64,
    /// Requests of other processes at this leader: who asked, and its number for it.
    foreign: HashMap<u64, (NodeId, u64)>,
    next_foreign: u64,
    events: VecDeque<StoreEvent>,
    /// Node that leaves, and the request that keeps this.
    leaving: Option<(NodeId, RequestId)>,
    /// Time of the last message of each node in another process, by place.
    heard: Vec<Nanos>,
    next_tick: Nanos,
    bytes: Vec<u8>,
    messages: Vec<(NodeId, usize)>,
    /// Messages to nodes in other processes.
    outgoing: Vec<u8>,
    outgoing_ends: Vec<(NodeId, usize)>,
}

/// Returns the name of the node at a place in the file's list.
fn node_id(place: usize) -> NodeId {
    NodeId(place as u64 + 1)
}

/// Returns the place of a node in the file's list.
fn place_of(id: NodeId) -> usize {
    (id.0 as usize).saturating_sub(1)
}

impl ReplicaGroup {
    /// Creates the replicas of a new store in memory, all in this process.
    ///
    /// Returns `None` if there are more than a cluster can have.
    pub fn new(spec: &StoreSpec, seed: u64, now: Nanos) -> Option<ReplicaGroup> {
        let nodes = (0..spec.nodes.len()).map(|place| (place, None)).collect();
        ReplicaGroup::of(spec, (seed, 0), now, nodes)
    }

    /// Creates the replicas of this process, by their places in the file's list, with their disks.
    /// `start` differs on each start.
    ///
    /// Returns `None` if there are more nodes than a cluster can have.
    pub fn on_disk(
        spec: &StoreSpec,
        (seed, start): (u64, u64),
        now: Nanos,
        nodes: Vec<(usize, StoredNode)>,
    ) -> Option<ReplicaGroup> {
        let nodes = nodes.into_iter();
        let nodes = nodes.map(|(place, node)| (place, Some(node))).collect();
        ReplicaGroup::of(spec, (seed, start), now, nodes)
    }

    fn of(
        spec: &StoreSpec,
        (seed, start): (u64, u64),
        now: Nanos,
        nodes: Vec<(usize, Option<StoredNode>)>,
    ) -> Option<ReplicaGroup> {
        let voters: Vec<NodeId> = (0..spec.voters).map(node_id).collect();
        let voters = Membership::of_voters(&voters)?;
        let heartbeat = Nanos(spec.election_timeout.0 / 10);
        let replicas = nodes.into_iter().map(|(place, stored)| {
            let config = Config {
                cluster: cluster_name(seed, &spec.nodes),
                id: node_id(place),
                // Each node mixes it with its own name.
                seed: mix(seed ^ start),
                election_timeout: spec.election_timeout.0,
                heartbeat: heartbeat.0,
                ack: spec.ack,
                keep: match stored {
                    Some(_) => Keep::Disk,
                    None => Keep::Memory,
                },
                log_entries: LOG_ENTRIES,
                window: 1024,
                max_batch: 64,
                reads: spec.reads,
                max_reads: 16,
                capacity: CAPACITY,
            };
            let (saved, disk) = match stored {
                Some(StoredNode { saved, disk }) => (saved, Some(disk)),
                None => (None, None),
            };
            // A spare node gets its members when it joins.
            let members = match place < spec.voters {
                true => voters,
                false => Membership::default(),
            };
            let node = match saved {
                Some(saved) => RaftNode::restore(config, members, saved, now.0),
                None => RaftNode::new(config, members, now.0),
            };
            Replica {
                node,
                is_stopped: false,
                disk,
            }
        });
        Some(ReplicaGroup {
            cluster: cluster_name(seed, &spec.nodes),
            replicas: replicas.collect(),
            nodes: spec.nodes.len(),
            heartbeat,
            sessions: vec![Session::default(); SESSIONS],
            waiting: VecDeque::with_capacity(MAX_WAITING),
            reads: Vec::new(),
            next_request: 0,
            // Answers to an earlier start of this process are not taken.
            next_asked: mix(start) >> 16,
            foreign: HashMap::new(),
            next_foreign: FIRST_FOREIGN,
            events: VecDeque::new(),
            leaving: None,
            heard: vec![now; spec.nodes.len()],
            next_tick: now,
            bytes: Vec::new(),
            messages: Vec::new(),
            outgoing: Vec::new(),
            outgoing_ends: Vec::new(),
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

    /// Requests an operation. The answer to one on a key is [`StoreEvent::Answered`].
    ///
    /// # Errors
    /// As [`ReplicaGroup::change`].
    pub fn request(&mut self, operation: Operation) -> Result<RequestId, StoreRefusal> {
        match self.leader() {
            Some(leader) => {
                let disk = self.replicas[leader].disk.as_ref();
                if disk.is_some_and(|disk| disk.error().is_some()) {
                    return Err(StoreRefusal::Disk);
                }
            }
            None if self.other_leader().is_some() => {}
            None => return Err(StoreRefusal::NoLeader),
        }
        if self.waiting.len() + self.reads.len() >= MAX_WAITING {
            return Err(StoreRefusal::Busy);
        }
        self.next_request += 1;
        let id = RequestId(self.next_request);
        match operation {
            Operation::Get(key) => self.reads.push(WaitingRead {
                id,
                key,
                asked: None,
            }),
            _ => self.waiting.push_back(Waiting { id, operation }),
        }
        Ok(id)
    }

    /// Gives up a request that waits, or that is under way: then its outcome is not known.
    pub fn forget(&mut self, id: RequestId) {
        self.waiting.retain(|waiting| waiting.id != id);
        self.reads.retain(|read| read.id != id);
        for session in &mut self.sessions {
            if session.current.is_some_and(|current| current.id == id) {
                session.current = None;
                session.is_proposed = false;
            }
        }
    }

    /// Returns true if a request of the plane has no answer yet.
    pub fn has_requests(&self) -> bool {
        let mut sessions = self.sessions.iter();
        !self.waiting.is_empty() || sessions.any(|session| session.current.is_some())
    }

    /// Returns the node of this process that leads, and that a majority follows as far as it knows.
    fn leader(&self) -> Option<usize> {
        let running = (0..self.replicas.len()).filter(|at| !self.replicas[*at].is_stopped);
        let leaders = running.filter(|at| self.replicas[*at].node.role() == RaftRole::Leader);
        leaders.max_by_key(|at| self.replicas[*at].node.term())
    }

    /// Returns the node of another process that leads, if it is known.
    pub fn other_leader(&self) -> Option<NodeId> {
        let leader = self.replicas.first()?.node.leader()?;
        let is_here = self.replicas.iter().any(|it| it.node.id() == leader);
        (!is_here).then_some(leader)
    }

    /// Returns the number of the leading node in this process, from 0, and its term.
    pub fn leading(&self) -> Option<(usize, Term)> {
        self.leader().map(|at| {
            let node = &self.replicas[at].node;
            (place_of(node.id()), node.term())
        })
    }

    /// Returns the states of the nodes in this process.
    pub fn states(&self) -> impl Iterator<Item = ReplicaState> + '_ {
        self.replicas.iter().map(|replica| {
            let node = &replica.node;
            ReplicaState {
                node: place_of(node.id()),
                role: node.role(),
                term: node.term(),
                leader: node.leader().map(place_of),
                commit: node.commit(),
                last: node.last(),
            }
        })
    }

    /// Returns the first error of a disk that has an incomplete write.
    pub fn disk_error(&self) -> Option<LogDiskError> {
        let disks = self.replicas.iter().filter_map(|it| it.disk.as_ref());
        disks.filter_map(|disk| disk.error()).next()
    }

    /// Returns the first change of an element after an index, as the leader has it.
    pub fn change_after(
        &self,
        element: ElementId,
        after: LogIndex,
    ) -> Option<(Term, ElementChange)> {
        let leader = &self.replicas[self.leader()?].node;
        Some((leader.term(), leader.change_after(element, after)?))
    }

    /// Returns the index up to which an element confirmed its changes, as the leader of this
    /// process has it.
    pub fn confirmed(&self, element: ElementId) -> LogIndex {
        let leader = self.leader().map(|at| &self.replicas[at].node);
        leader.map_or(LogIndex(0), |leader| leader.confirmed(element))
    }

    /// Returns the changes that make an element's state, as the leader of this process has them.
    pub fn changes_of(&self, element: ElementId) -> Vec<ElementChange> {
        let leader = self.leader().map(|at| &self.replicas[at].node);
        leader.map_or(Vec::new(), |leader| leader.changes_of(element))
    }

    /// Returns true if a node of this process leads and applied all that leaders before it
    /// committed.
    pub fn leads_with_all(&self) -> bool {
        self.leader().is_some_and(|at| {
            let node = &self.replicas[at].node;
            let last = node.entry(node.applied());
            last.is_some_and(|entry| entry.term == node.term())
        })
    }

    /// Returns the places of the nodes in other processes that this one should hear and did not for
    /// an election timeout: a leader hears all members, a follower its leader, and a node without a
    /// leader the other voters.
    pub fn unheard(&self, now: Nanos) -> Vec<usize> {
        let [replica] = &self.replicas[..] else {
            return Vec::new();
        };
        let node = &replica.node;
        let members = node.members().0;
        let expected: Vec<NodeId> = match (node.role(), node.leader()) {
            (RaftRole::Leader, _) => members.all().iter().map(|member| member.0).collect(),
            (_, Some(leader)) => vec![leader],
            (_, None) => members.voters().collect(),
        };
        let election = Nanos(10 * self.heartbeat.0);
        let is_silent = |place: &usize| {
            let heard = self.heard.get(*place);
            heard.is_some_and(|heard| now >= *heard + election)
        };
        let others = expected.into_iter().filter(|id| *id != node.id());
        others.map(place_of).filter(is_silent).collect()
    }

    /// Stops a node, or lets it go on with what it had: a fault for tests and experiments.
    pub fn set_stopped(&mut self, node: usize, is_stopped: bool) {
        if let Some(replica) = self.replicas.get_mut(node) {
            replica.is_stopped = is_stopped;
        }
    }

    /// Does all work that is due at `now`: messages between replicas of this process take no time.
    pub fn step(&mut self, now: Nanos) {
        if now >= self.next_tick {
            self.next_tick = now + self.heartbeat;
            for replica in self.replicas.iter_mut().filter(|it| !it.is_stopped) {
                replica.node.tick(now.0);
            }
        }
        for _ in 0..MAX_ROUNDS {
            self.propose(now);
            self.ask_reads(now);
            let is_quiet = !self.exchange(now);
            let is_answered = self.take_events(now);
            if is_quiet && !is_answered {
                break;
            }
        }
    }

    /// Gives waiting requests to idle sessions, and their requests to the leader.
    fn propose(&mut self, now: Nanos) {
        let leader = self.leader();
        let other = match leader {
            Some(_) => None,
            None => self.other_leader(),
        };
        if leader.is_none() && other.is_none() {
            return;
        }
        for session in &mut self.sessions {
            if session.current.is_none() {
                let Some(next) = self.waiting.pop_front() else {
                    continue;
                };
                session.sequence += 1;
                session.current = Some(next);
                session.is_proposed = false;
                session.asked = 0;
            }
            let is_lost = other.is_some() && now >= session.deadline;
            let is_due = (!session.is_proposed || is_lost) && now >= session.not_before;
            let Some(current) = session.current.filter(|_| is_due) else {
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
            if session.asked == 0 {
                self.next_asked = (self.next_asked + 1).max(1) & (FIRST_FOREIGN - 1);
                session.asked = self.next_asked;
            }
            if let Some(leader) = leader {
                let node = &mut self.replicas[leader].node;
                session.is_proposed = node.propose(now.0, request, session.asked).is_ok();
            } else if let Some(to) = other {
                session.is_proposed = true;
                session.deadline = now + self.heartbeat + self.heartbeat;
                let message = ClientMessage {
                    from: self.replicas[0].node.id(),
                    to,
                    token: session.asked,
                    body: ClientBody::Request(request),
                };
                message.encode(self.cluster, &mut self.outgoing);
                self.outgoing_ends.push((to, self.outgoing.len()));
            }
        }
    }

    /// Delivers one round of messages. Returns false if there was none in this process.
    fn exchange(&mut self, now: Nanos) -> bool {
        let (bytes, messages) = (&mut self.bytes, &mut self.messages);
        bytes.clear();
        messages.clear();
        let mut is_kept = false;
        for replica in self.replicas.iter_mut().filter(|it| !it.is_stopped) {
            let node = &mut replica.node;
            if let Some(disk) = &mut replica.disk {
                while let Some(number) = disk.completed() {
                    node.persisted(number);
                    is_kept = true;
                }
            }
            node.flush(now.0);
            if let Some(disk) = &mut replica.disk
                && let Some(write) = node.persist()
            {
                disk.begin(&write);
            }
            node.send(|to, message| {
                bytes.extend_from_slice(message);
                messages.push((to, bytes.len()));
            });
        }
        let mut begin = 0;
        let mut is_any = false;
        for (to, end) in messages.iter() {
            let message = &bytes[begin..*end];
            begin = *end;
            let here = self.replicas.iter_mut().find(|it| it.node.id() == *to);
            if let Some(replica) = here {
                is_any = true;
                if !replica.is_stopped {
                    let received = replica.node.receive(now.0, message);
                    debug_assert!(received.is_ok(), "messages are not damaged in memory");
                }
            } else {
                self.outgoing.extend_from_slice(message);
                self.outgoing_ends.push((*to, self.outgoing.len()));
            }
        }
        is_any || is_kept
    }

    /// Passes each message for a node in another process to `send`, with the node's place in the
    /// file's list.
    pub fn drain_messages(&mut self, mut send: impl FnMut(usize, &[u8])) {
        let mut begin = 0;
        for (to, end) in self.outgoing_ends.drain(..) {
            if place_of(to) < self.nodes {
                send(place_of(to), &self.outgoing[begin..end]);
            }
            begin = end;
        }
        self.outgoing.clear();
    }

    /// Takes the bytes of a message of a node in another process. The next step does the rest.
    ///
    /// # Errors
    /// They are no message for the node of this process. Nothing changed.
    pub fn receive_message(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), MessageError> {
        if !ClientMessage::is_client_kind(bytes) {
            let Some(replica) = self.replicas.first_mut() else {
                return Ok(());
            };
            replica.node.receive(now.0, bytes)?;
            if let Ok(message) = PeerMessage::decode(self.cluster, bytes)
                && let Some(heard) = self.heard.get_mut(place_of(message.from))
            {
                *heard = now;
            }
            return Ok(());
        }
        let message = ClientMessage::decode(self.cluster, bytes)?;
        let own = self.replicas.first().map(|replica| replica.node.id());
        if own != Some(message.to) {
            return Err(MessageError::Receiver(message.to));
        }
        match message.body {
            ClientBody::Request(request) => self.asked(now, &message, request),
            ClientBody::Answer(answer) => self.answered(now, message.token, answer),
            ClientBody::NotLeader(_) => {
                // This node hears from the leader whom to ask.
                let not_before = now + self.heartbeat;
                let mut sessions = self.sessions.iter_mut();
                if let Some(session) = sessions.find(|it| it.asked == message.token) {
                    session.is_proposed = false;
                    session.not_before = not_before;
                }
            }
        }
        Ok(())
    }

    /// Takes a request of another process.
    fn asked(&mut self, now: Nanos, message: &ClientMessage, request: Request) {
        let Some(leader) = self.leader() else {
            let leader = self.replicas.first().and_then(|it| it.node.leader());
            let body = ClientBody::NotLeader(leader);
            self.reply(message.from, message.token, body);
            return;
        };
        if self.foreign.len() >= MAX_FOREIGN {
            // It is repeated.
            return;
        }
        self.next_foreign = self.next_foreign.wrapping_add(1).max(FIRST_FOREIGN);
        let token = self.next_foreign;
        if self.replicas[leader]
            .node
            .propose(now.0, request, token)
            .is_ok()
        {
            self.foreign.insert(token, (message.from, message.token));
        }
    }

    fn reply(&mut self, to: NodeId, token: u64, body: ClientBody) {
        let message = ClientMessage {
            from: self.replicas[0].node.id(),
            to,
            token,
            body,
        };
        message.encode(self.cluster, &mut self.outgoing);
        self.outgoing_ends.push((to, self.outgoing.len()));
    }

    /// Takes the nodes' events. Returns true if a session can go on.
    fn take_events(&mut self, now: Nanos) -> bool {
        let leader = self.leader();
        let mut goes_on = false;
        for at in 0..self.replicas.len() {
            while let Some(event) = self.replicas[at].node.next_event() {
                match event {
                    NodeEvent::Answered { token, answer } if token >= FIRST_FOREIGN => {
                        if let Some((to, token)) = self.foreign.remove(&token) {
                            self.reply(to, token, ClientBody::Answer(answer));
                        }
                    }
                    NodeEvent::Answered { token, answer } => {
                        goes_on = true;
                        self.answered(now, token, answer);
                    }
                    NodeEvent::Unknown { token } if token >= FIRST_FOREIGN => {
                        // The process that asked repeats it.
                        self.foreign.remove(&token);
                    }
                    NodeEvent::Unknown { token } => {
                        // It is repeated in its session.
                        let mut sessions = self.sessions.iter_mut();
                        if let Some(session) = sessions.find(|it| it.asked == token) {
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
                            session.not_before = now;
                        }
                        goes_on = true;
                        self.events.push_back(StoreEvent::Leading);
                    }
                    NodeEvent::Leading { .. } => {}
                    event @ (NodeEvent::Read { .. } | NodeEvent::ReadFailed { .. }) => {
                        self.take_read(&event);
                    }
                }
            }
        }
        goes_on
    }

    /// Takes the answer to what a session asked.
    fn answered(&mut self, now: Nanos, asked: u64, answer: RequestAnswer) {
        let later = now + self.heartbeat;
        let mut sessions = self.sessions.iter_mut();
        let Some(session) = sessions.find(|it| it.asked == asked && asked != 0) else {
            return;
        };
        session.is_proposed = false;
        session.asked = 0;
        match answer {
            RequestAnswer::Opened(client) => session.client = Some(client),
            // The request that waits in it is proposed again in a new session.
            RequestAnswer::NoSession => session.client = None,
            RequestAnswer::SessionsFull => session.not_before = later,
            _ => {
                let Some(current) = session.current.take() else {
                    return;
                };
                self.events.push_back(match (current.operation, answer) {
                    (Operation::Change { .. } | Operation::Confirm { .. }, answer) => {
                        match answer {
                            RequestAnswer::Full => StoreEvent::Full(current.id),
                            _ => StoreEvent::Committed(current.id),
                        }
                    }
                    (_, answer) => StoreEvent::Answered(current.id, answer),
                });
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
