//! Replicas of both kinds with the same interface: bytes in, bytes out, at times in nanoseconds.

use std::collections::HashMap;

use consensus::{
    Ack, Capacity, ClientBody, ClientMessage, Config, Entry, Keep, LogIndex, Membership, NodeEvent,
    NodeId, RaftNode, RaftRole, Refusal,
};
use nanopu::{CoreState, CostTable, Image, Output, RpcMessage, SingleCore};

/// Name of the cluster.
pub(crate) const CLUSTER: u64 = 7;
/// IPv4 address of node 1; those of the others follow, and those of clients from node 100 on.
pub(crate) const ADDRESS: u32 = 0x0a00_0000;
/// Times in nanoseconds.
pub(crate) const ELECTION_NS: u64 = 1_000_000;
const HEARTBEAT_NS: u64 = 200_000;
/// Entries of a log of crate `consensus`: no run has more, so none of its leaders sends a snapshot,
/// which RISC-V replicas do not take.
const ENTRIES: usize = 16_384;
const KEYS: usize = 256;
pub(crate) const SESSIONS: usize = 64;
const MEMORY: usize = 1 << 24;
/// Cycle at which a core gets its configuration.
const SETUP_CYCLE: u64 = 200_000;
/// Cycles of the model's core in 5 ns.
const CYCLES: u64 = 16;

/// A message with its receiver.
pub(crate) type Sent = (NodeId, Vec<u8>);

/// Sizes that the seed chooses for all replicas of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Entries of a RISC-V replica's log. A follower that lacks older ones gets none while a
    /// RISC-V replica leads.
    pub(crate) ring: u64,
    /// Time after which an unused session expires.
    pub(crate) session_life: u64,
}

/// A replica.
pub(crate) enum Replica {
    Rust(Box<RustReplica>),
    Riscv(Box<RiscvReplica>),
}

impl Replica {
    pub(crate) fn receive(&mut self, now: u64, from: NodeId, bytes: &[u8]) {
        match self {
            Replica::Rust(replica) => replica.receive(now, bytes),
            Replica::Riscv(replica) => replica.receive(now, from, bytes),
        }
    }

    /// Does what is due, and returns what was sent.
    pub(crate) fn step(&mut self, now: u64) -> Result<Vec<Sent>, String> {
        match self {
            Replica::Rust(replica) => Ok(replica.step(now)),
            Replica::Riscv(replica) => replica.step(now),
        }
    }

    /// Executes nothing for a time, apart from what is due, and returns what was sent before. A
    /// Rust replica acts in its steps alone.
    pub(crate) fn pause(&mut self, now: u64, until: u64) -> Result<Vec<Sent>, String> {
        match self {
            Replica::Rust(replica) => Ok(replica.step(now)),
            Replica::Riscv(replica) => replica.pause(now, until),
        }
    }

    pub(crate) fn commit(&self) -> u64 {
        match self {
            Replica::Rust(replica) => replica.node.commit().0,
            Replica::Riscv(replica) => replica.word("raft", 5),
        }
    }

    /// Returns the term that this replica leads, if it does.
    pub(crate) fn led_term(&self) -> Option<u64> {
        match self {
            Replica::Rust(replica) => {
                let leads = replica.node.role() == RaftRole::Leader;
                leads.then(|| replica.node.term().0)
            }
            Replica::Riscv(replica) => {
                (replica.word("raft", 3) == 3).then(|| replica.word("raft", 0))
            }
        }
    }

    /// Returns an entry of the log.
    pub(crate) fn entry(&self, index: u64) -> Option<Entry> {
        match self {
            Replica::Rust(replica) => replica.node.entry(LogIndex(index)).copied(),
            Replica::Riscv(replica) => replica.entry(index),
        }
    }

    /// Returns the index of the first entry that this replica can send.
    pub(crate) fn first(&self) -> u64 {
        match self {
            Replica::Rust(_) => 1,
            Replica::Riscv(replica) => replica.word("raft", 10),
        }
    }

    pub(crate) const fn is_riscv(&self) -> bool {
        matches!(self, Replica::Riscv(_))
    }
}

/// A node of crate `consensus`.
pub(crate) struct RustReplica {
    node: RaftNode,
    /// Clients of requests, with their tokens.
    asked: HashMap<u64, (NodeId, u64)>,
    next_token: u64,
    answers: Vec<ClientMessage>,
}

impl RustReplica {
    pub(crate) fn new(id: NodeId, nodes: &[NodeId], seed: u64, sizes: Sizes) -> RustReplica {
        let members = Membership::of_voters(nodes).expect("few voters");
        let config = Config {
            reads: consensus::ReadMode::Index,
            cluster: CLUSTER,
            id,
            seed,
            election_timeout: ELECTION_NS,
            heartbeat: HEARTBEAT_NS,
            ack: Ack::Majority,
            keep: Keep::Memory,
            log_entries: ENTRIES,
            window: 64,
            max_batch: 64,
            max_reads: 16,
            capacity: Capacity {
                keys: KEYS,
                reserved: 0,
                sessions: SESSIONS,
                session_life: sizes.session_life,
            },
        };
        RustReplica {
            node: RaftNode::new(config, members, 0),
            asked: HashMap::new(),
            next_token: 0,
            answers: Vec::new(),
        }
    }

    fn answer(&mut self, to: NodeId, token: u64, body: ClientBody) {
        self.answers.push(ClientMessage {
            from: self.node.id(),
            to,
            token,
            body,
        });
    }

    fn receive(&mut self, now: u64, bytes: &[u8]) {
        if !ClientMessage::is_client_kind(bytes) {
            // Damaged messages are refused.
            let _ = self.node.receive(now, bytes);
            return;
        }
        let Ok(message) = ClientMessage::decode(CLUSTER, bytes) else {
            return;
        };
        let ClientBody::Request(request) = message.body else {
            return;
        };
        self.next_token += 1;
        match self.node.propose(now, request, self.next_token) {
            Ok(()) => {
                let client = (message.from, message.token);
                self.asked.insert(self.next_token, client);
            }
            Err(refusal) => {
                let leader = match refusal {
                    Refusal::NotLeader(leader) => leader,
                    _ => None,
                };
                self.answer(message.from, message.token, ClientBody::NotLeader(leader));
            }
        }
    }

    fn step(&mut self, now: u64) -> Vec<Sent> {
        self.node.tick(now);
        self.node.flush(now);
        let mut sent = Vec::new();
        self.node.send(|to, bytes| sent.push((to, bytes.to_vec())));
        while let Some(event) = self.node.next_event() {
            if let NodeEvent::Answered { token, answer } = event
                && let Some((to, token)) = self.asked.remove(&token)
            {
                self.answer(to, token, ClientBody::Answer(answer));
            }
        }
        for message in self.answers.drain(..) {
            let mut bytes = Vec::new();
            message.encode(CLUSTER, &mut bytes);
            sent.push((message.to, bytes));
        }
        sent
    }
}

/// `raft.elf` on a core of the model, without a transport.
pub(crate) struct RiscvReplica {
    core: SingleCore,
    image: Image,
    ring: u64,
}

impl RiscvReplica {
    pub(crate) fn new(id: NodeId, nodes: &[NodeId], seed: u64, sizes: Sizes) -> RiscvReplica {
        let file = include_bytes!("../../../examples/nanopu/raft.elf");
        let image = Image::parse(file, MEMORY).expect("the shipped image");
        let mut core = SingleCore::new(&image, MEMORY, &CostTable::default());
        let mut words = vec![CLUSTER, id.0, seed, ELECTION_NS, HEARTBEAT_NS, sizes.ring];
        words.extend([KEYS as u64, SESSIONS as u64, sizes.session_life, 64]);
        words.push(nodes.len() as u64);
        for node in nodes {
            words.extend([node.0, (u64::from(ADDRESS) + node.0) << 32]);
        }
        let bytes = words.into_iter().flat_map(u64::to_le_bytes).collect();
        // The program has bound its context by then.
        core.deliver(SETUP_CYCLE, message(NodeId(0), bytes));
        RiscvReplica {
            core,
            image,
            ring: sizes.ring,
        }
    }

    pub(crate) fn receive(&mut self, now: u64, from: NodeId, bytes: &[u8]) {
        self.core
            .deliver(now * CYCLES / 5, message(from, bytes.to_vec()));
    }

    pub(crate) fn step(&mut self, now: u64) -> Result<Vec<Sent>, String> {
        let outputs = self.core.run(now * CYCLES / 5);
        self.sent(outputs)
    }

    fn pause(&mut self, now: u64, until: u64) -> Result<Vec<Sent>, String> {
        let [now, until] = [now, until].map(|time| time * CYCLES / 5);
        let outputs = self.core.pause(now, until);
        self.sent(outputs)
    }

    fn sent(&self, outputs: Vec<(u64, Output)>) -> Result<Vec<Sent>, String> {
        if let CoreState::Faulted(fault) = self.core.state() {
            return Err(format!("a RISC-V replica has a fault: {fault}"));
        }
        let sent = outputs.into_iter().filter_map(|(_, output)| match output {
            Output::Message(message) => {
                let to = NodeId(u64::from(message.peer - ADDRESS));
                Some((to, message.bytes))
            }
            _ => None,
        });
        Ok(sent.collect())
    }

    /// Reads a number of 8 bytes of a variable.
    fn word(&self, name: &str, number: u64) -> u64 {
        let address = self.image.symbol(name).expect("a variable of raft.c");
        let bytes = self.core.memory().read(address + 8 * number);
        u64::from_le_bytes(bytes.expect("within memory"))
    }

    /// Reads an entry of the ring, as `struct slot` of raft.c has it. The entry in the place of
    /// which the next one may just be written is left out.
    fn entry(&self, index: u64) -> Option<Entry> {
        const SLOT: u64 = 208;
        let last = self.word("raft", 4);
        if index < self.word("raft", 10) || index > last || index + self.ring <= last + 1 {
            return None;
        }
        let place = self.image.symbol("ring")? + SLOT * (index % self.ring);
        let memory = self.core.memory();
        let length = usize::from(u16::from_le_bytes(memory.read(place + 8)?));
        Entry::read(memory.slice(place + 10, length)?)
    }
}

fn message(from: NodeId, bytes: Vec<u8>) -> RpcMessage {
    RpcMessage {
        context: 0,
        peer: ADDRESS + from.0 as u32,
        peer_context: 0,
        bytes,
    }
}
