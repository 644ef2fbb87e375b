//! Runs schedules of elections that it reads from standard input, and prints for each question if
//! a node leads: `cargo xtask reflex-elections` compares the answers with those of raft-rs.
//!
//! A line is a command. `schedule NAME NODES` starts a cluster. `run TICKS` advances the clocks of
//! all running nodes, and delivers all messages after each tick. `only NODE TICKS` advances the
//! clock of one node. `cut A B` drops the messages from A to B. `heal A B` ends this, and `heal`
//! ends it for all links. `stop NODE` and `start NODE` crash and restart a node. `propose` sends a
//! request to the leader. `ask` prints if a node leads.

use std::collections::HashSet;
use std::io::Read;

use consensus::{
    Ack, Capacity, ClientId, Config, Entry, Keep, LogIndex, Membership, NodeId, Operation,
    RaftNode, RaftRole, ReadMode, Request, Saved,
};

/// Units of time in a tick: an election timeout is ten ticks.
const TICK: u64 = 10;

/// Node with what its disk has.
struct Host {
    /// `None` while it is stopped.
    node: Option<RaftNode>,
    saved: Saved,
    now: u64,
    starts: u64,
}

struct Cluster {
    hosts: Vec<Host>,
    members: Membership,
    /// Directions without messages.
    cuts: HashSet<(usize, usize)>,
    messages: Vec<(usize, usize, Vec<u8>)>,
}

fn config(id: NodeId, start: u64) -> Config {
    Config {
        cluster: 1,
        id,
        seed: start,
        election_timeout: 10 * TICK,
        heartbeat: TICK,
        ack: Ack::Majority,
        keep: Keep::Disk,
        log_entries: 1024,
        window: 64,
        max_batch: 16,
        reads: ReadMode::Index,
        max_reads: 8,
        capacity: Capacity {
            keys: 16,
            reserved: 0,
            sessions: 8,
            session_life: u64::MAX,
        },
    }
}

impl Cluster {
    fn new(nodes: usize) -> Cluster {
        let voters: Vec<NodeId> = (1..=nodes as u64).map(NodeId).collect();
        let members = Membership::of_voters(&voters).expect("few voters");
        let host = |id: &NodeId| Host {
            node: Some(RaftNode::new(config(*id, 0), members, 0)),
            saved: Saved {
                first: LogIndex(1),
                ..Saved::default()
            },
            now: 0,
            starts: 0,
        };
        Cluster {
            hosts: voters.iter().map(host).collect(),
            members,
            cuts: HashSet::new(),
            messages: Vec::new(),
        }
    }

    /// Takes the outputs of all nodes; writes are complete at once.
    fn flush(&mut self) {
        for (at, host) in self.hosts.iter_mut().enumerate() {
            let Some(node) = &mut host.node else {
                continue;
            };
            node.flush(host.now);
            if let Some(persist) = node.persist() {
                assert!(persist.snapshot.is_none(), "schedules are short");
                (host.saved.term, host.saved.vote) = (persist.term, persist.vote);
                host.saved.entries.truncate(persist.from.0 as usize - 1);
                let entries: Vec<Entry> = persist.entries().copied().collect();
                host.saved.entries.extend(entries);
                let number = persist.number;
                node.persisted(number);
                node.flush(host.now);
            }
            let messages = &mut self.messages;
            node.send(|to, bytes| messages.push((at, to.0 as usize - 1, bytes.to_vec())));
            while node.next_event().is_some() {}
        }
    }

    /// Delivers messages until there are no more.
    fn settle(&mut self) {
        loop {
            self.flush();
            if self.messages.is_empty() {
                return;
            }
            for (from, to, bytes) in std::mem::take(&mut self.messages) {
                let host = &mut self.hosts[to];
                if let Some(node) = &mut host.node
                    && !self.cuts.contains(&(from, to))
                {
                    node.receive(host.now, &bytes).expect("messages are sound");
                }
            }
        }
    }

    fn tick(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        host.now += TICK;
        if let Some(node) = &mut host.node {
            node.tick(host.now);
        }
    }

    fn start(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.node.is_none() {
            host.starts += 1;
            let config = config(NodeId(at as u64 + 1), host.starts);
            let saved = host.saved.clone();
            let node = RaftNode::restore(config, self.members, saved, host.now);
            host.node = Some(node);
        }
    }

    /// Returns the node that leads the greatest term.
    fn leader(&mut self) -> Option<&mut RaftNode> {
        let nodes = self.hosts.iter_mut().filter_map(|host| host.node.as_mut());
        nodes
            .filter(|node| node.role() == RaftRole::Leader)
            .max_by_key(|node| node.term())
    }

    fn propose(&mut self) {
        let request = Request {
            client: ClientId(0),
            sequence: 0,
            operation: Operation::OpenSession,
        };
        if let Some(leader) = self.leader() {
            // A refusal has no effect, as there.
            let _ = leader.propose(0, request, 0);
        }
        self.settle();
    }
}

fn main() {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .expect("schedules are text");
    let mut cluster = Cluster::new(3);
    let (mut name, mut asked) = ("", 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| -> usize { words[at].parse().expect("a number") };
        let node = |at: usize| number(at) - 1;
        match words[..] {
            [] => {}
            ["schedule", given, _] => {
                (name, asked, cluster) = (given, 0, Cluster::new(number(2)));
            }
            ["run", _] => {
                for _ in 0..number(1) {
                    (0..cluster.hosts.len()).for_each(|at| cluster.tick(at));
                    cluster.settle();
                }
            }
            ["only", _, _] => {
                for _ in 0..number(2) {
                    cluster.tick(node(1));
                    cluster.settle();
                }
            }
            ["cut", _, _] => {
                cluster.cuts.insert((node(1), node(2)));
            }
            ["heal", _, _] => {
                cluster.cuts.remove(&(node(1), node(2)));
            }
            ["heal"] => cluster.cuts.clear(),
            ["stop", _] => cluster.hosts[node(1)].node = None,
            ["start", _] => cluster.start(node(1)),
            ["propose"] => cluster.propose(),
            ["ask"] => {
                asked += 1;
                println!("{name} {asked} {}", cluster.leader().is_some());
            }
            _ => panic!("{line} is no command"),
        }
    }
}
