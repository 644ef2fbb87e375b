//! Measures the time from a proposal until three nodes in one thread have committed it: messages
//! are encoded, checked and applied; nothing is sent. Prints nanoseconds.

use std::time::Instant;

use consensus::{
    Ack, Capacity, ClientId, Config, Keep, LogIndex, Membership, NodeEvent, NodeId, Operation,
    RaftNode, RaftRole, ReadMode, Refusal, Request, RequestAnswer, StoredValue,
};

const NODES: u64 = 3;
const WARM: u64 = 50_000;
const WRITES: u64 = 200_000;

/// Three nodes, and messages between them as bytes in a buffer.
struct Cluster {
    nodes: Vec<RaftNode>,
    bytes: Vec<u8>,
    /// Receiver and end of each message in `bytes`.
    messages: Vec<(usize, usize)>,
    now: u64,
}

impl Cluster {
    fn new() -> Cluster {
        let voters: Vec<NodeId> = (1..=NODES).map(NodeId).collect();
        let members = Membership::of_voters(&voters).expect("three voters are few");
        let config = |id| Config {
            cluster: 1,
            id,
            seed: id.0,
            election_timeout: 1_000,
            heartbeat: 100,
            ack: Ack::Majority,
            keep: Keep::Memory,
            log_entries: 4096,
            window: 1024,
            max_batch: 64,
            reads: ReadMode::Index,
            max_reads: 64,
            capacity: Capacity {
                keys: 1024,
                reserved: 0,
                sessions: 64,
                session_life: u64::MAX,
            },
        };
        Cluster {
            nodes: voters
                .iter()
                .map(|id| RaftNode::new(config(*id), members, 0))
                .collect(),
            bytes: Vec::with_capacity(1 << 16),
            messages: Vec::with_capacity(64),
            now: 0,
        }
    }

    /// Delivers messages until there are no more.
    fn settle(&mut self) {
        loop {
            let (bytes, messages) = (&mut self.bytes, &mut self.messages);
            bytes.clear();
            messages.clear();
            for node in &mut self.nodes {
                node.flush(self.now);
                node.send(|to, message| {
                    bytes.extend_from_slice(message);
                    messages.push((to.0 as usize - 1, bytes.len()));
                });
            }
            if messages.is_empty() {
                return;
            }
            let mut begin = 0;
            for &(to, end) in messages.iter() {
                let received = self.nodes[to].receive(self.now, &bytes[begin..end]);
                received.expect("messages are not damaged here");
                begin = end;
            }
        }
    }

    fn elect(&mut self) -> usize {
        loop {
            self.now += 50;
            for node in &mut self.nodes {
                node.tick(self.now);
            }
            self.settle();
            if let Some(leader) = self.nodes.iter().position(|n| n.role() == RaftRole::Leader) {
                return leader;
            }
        }
    }

    /// Proposes a request and returns its answer when all nodes have committed it.
    fn request(&mut self, leader: usize, request: Request) -> Result<RequestAnswer, Refusal> {
        self.nodes[leader].propose(self.now, request, request.sequence)?;
        let index: LogIndex = self.nodes[leader].last();
        let mut answer = RequestAnswer::Stale;
        while self.nodes.iter().any(|node| node.commit() < index) {
            self.settle();
        }
        while let Some(event) = self.nodes[leader].next_event() {
            if let NodeEvent::Answered { answer: found, .. } = event {
                answer = found;
            }
        }
        Ok(answer)
    }
}

fn main() -> Result<(), Refusal> {
    let mut cluster = Cluster::new();
    let leader = cluster.elect();
    let open = Request {
        client: ClientId(0),
        sequence: 0,
        operation: Operation::OpenSession,
    };
    let RequestAnswer::Opened(client) = cluster.request(leader, open)? else {
        eprintln!("no session was opened");
        std::process::exit(1);
    };
    let value = StoredValue::new(&[7; 64]).expect("64 bytes fit");
    let mut times = Vec::with_capacity(WRITES as usize);
    for sequence in 1..=WARM + WRITES {
        let key = u128::from(sequence % 512).to_le_bytes();
        let request = Request {
            client,
            sequence,
            operation: Operation::Put(key, value),
        };
        let from = Instant::now();
        let answer = cluster.request(leader, request)?;
        let time = from.elapsed().as_nanos();
        assert_eq!(answer, RequestAnswer::Done);
        if sequence > WARM {
            times.push(time);
        }
    }
    times.sort_unstable();
    let at = |per_mille: usize| times[times.len() * per_mille / 1000];
    println!(
        "write committed by {NODES} nodes: median {} ns, p99 {} ns",
        at(500),
        at(990)
    );
    Ok(())
}
