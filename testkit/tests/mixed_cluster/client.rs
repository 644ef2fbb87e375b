//! Clients: each has a session and one request at a time, which it repeats until it is answered.

use consensus::{
    ClientBody, ClientId, ClientMessage, NodeId, Operation, Request, RequestAnswer, StoredValue,
};
use support::rng::Rng;

use crate::replica::{CLUSTER, ELECTION_NS, Sent};

/// Keys of all clients.
const KEYS: u64 = 3;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) request: Request,
    pub(crate) answer: RequestAnswer,
}

/// A client.
pub(crate) struct Client {
    id: NodeId,
    nodes: Vec<NodeId>,
    session: Option<ClientId>,
    sequence: u64,
    /// The request under way, its begin, and the first token of it.
    current: Option<(Request, u64, u64)>,
    token: u64,
    leader: usize,
    /// Time of the next attempt or request.
    next: u64,
    values: u64,
    pub(crate) done: Vec<Done>,
}

impl Client {
    pub(crate) fn new(id: NodeId, nodes: &[NodeId]) -> Client {
        Client {
            id,
            nodes: nodes.to_vec(),
            session: None,
            sequence: 0,
            current: None,
            token: 0,
            leader: 0,
            next: 3 * ELECTION_NS,
            values: 0,
            done: Vec::new(),
        }
    }

    pub(crate) const fn id(&self) -> NodeId {
        self.id
    }

    /// Returns true if no request is under way and the session is open.
    pub(crate) const fn is_idle(&self) -> bool {
        self.current.is_none() && self.session.is_some()
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    fn choose(&mut self, rng: &mut Rng) -> Operation {
        let key = u128::from(rng.below(KEYS)).to_le_bytes();
        let mut value = || {
            self.values += 1;
            let bytes = (self.id.0 << 32 | self.values).to_le_bytes();
            // Values of all lengths from 8 bytes on.
            let mut long = bytes.to_vec();
            long.resize(8 + self.values as usize % 57, 7);
            StoredValue::new(&long).expect("at most 64 bytes")
        };
        match rng.below(6) {
            0 => Operation::Get(key),
            1 => Operation::Delete(key),
            2 => Operation::CompareAndSet {
                key,
                expected: None,
                new: value(),
            },
            3 => {
                // The value that this client saw last, if it saw one.
                let seen = self.done.iter().rev().find_map(|done| match done.answer {
                    RequestAnswer::Value(value) | RequestAnswer::Differs(value) => value,
                    _ => None,
                });
                Operation::CompareAndSet {
                    key,
                    expected: seen,
                    new: value(),
                }
            }
            _ => Operation::Put(key, value()),
        }
    }

    /// Sends a request or repeats it, if it is time. `begins` allows new ones.
    pub(crate) fn step(&mut self, now: u64, rng: &mut Rng, begins: bool) -> Option<Sent> {
        if now < self.next {
            return None;
        }
        if self.current.is_none() {
            if !begins && self.session.is_some() {
                self.next = now + ELECTION_NS;
                return None;
            }
            let request = match self.session {
                None => {
                    self.sequence = 0;
                    Request {
                        client: ClientId(0),
                        sequence: 0,
                        operation: Operation::OpenSession,
                    }
                }
                Some(client) => {
                    self.sequence += 1;
                    let operation = self.choose(rng);
                    Request {
                        client,
                        sequence: self.sequence,
                        operation,
                    }
                }
            };
            self.current = Some((request, now, self.token + 1));
        } else {
            // No answer: another replica may lead.
            self.leader = rng.index(self.nodes.len());
        }
        self.next = now + ELECTION_NS / 2 + rng.below(ELECTION_NS / 2);
        self.attempt()
    }

    fn attempt(&mut self) -> Option<Sent> {
        let (request, ..) = self.current?;
        self.token += 1;
        let to = self.nodes[self.leader];
        let message = ClientMessage {
            from: self.id,
            to,
            token: self.token,
            body: ClientBody::Request(request),
        };
        let mut bytes = Vec::new();
        message.encode(CLUSTER, &mut bytes);
        Some((to, bytes))
    }

    /// Takes a message of a replica.
    pub(crate) fn receive(&mut self, now: u64, bytes: &[u8], rng: &mut Rng) {
        let Ok(message) = ClientMessage::decode(CLUSTER, bytes) else {
            return;
        };
        let Some((request, begin, first)) = self.current else {
            return;
        };
        if message.token < first {
            return;
        }
        match message.body {
            ClientBody::Answer(answer) => {
                match answer {
                    RequestAnswer::Opened(session) => self.session = Some(session),
                    RequestAnswer::NoSession => self.session = None,
                    _ => {}
                }
                self.done.push(Done {
                    begin,
                    end: now,
                    request,
                    answer,
                });
                self.current = None;
                self.next = now + rng.below(400_000);
            }
            ClientBody::NotLeader(Some(leader)) => {
                let known = self.nodes.iter().position(|node| *node == leader);
                self.leader = known.unwrap_or(0);
                self.next = self.next.min(now + 50_000);
            }
            ClientBody::NotLeader(None) | ClientBody::Request(_) => {}
        }
    }
}
