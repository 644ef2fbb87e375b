//! Measures the time from a proposal until three nodes of raft-rs in one thread have committed it,
//! as the example `write_latency` of crate `consensus` does: values of 64 bytes under 16-byte keys,
//! messages by value, no wire and no encoding. Prints nanoseconds.

use std::collections::HashMap;
use std::time::Instant;

use raft::prelude::*;
use raft::storage::MemStorage;
use raft::{Config, RawNode, StateRole};

const WARM: u64 = 20_000;
const WRITES: u64 = 100_000;

struct Node {
    raw: RawNode<MemStorage>,
    table: HashMap<[u8; 16], [u8; 64]>,
    applied: u64,
}

struct Cluster {
    nodes: Vec<Node>,
    messages: Vec<Message>,
}

impl Cluster {
    fn new() -> Cluster {
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = |id| {
            let config = Config {
                id,
                election_tick: 10,
                heartbeat_tick: 1,
                pre_vote: true,
                check_quorum: true,
                max_size_per_msg: 2048,
                max_inflight_msgs: 1024,
                ..Config::default()
            };
            let storage = MemStorage::new_with_conf_state((vec![1, 2, 3], vec![]));
            Node {
                raw: RawNode::new(&config, storage, &logger).expect("a valid configuration"),
                table: HashMap::new(),
                applied: 0,
            }
        };
        Cluster {
            nodes: (1..=3).map(node).collect(),
            messages: Vec::new(),
        }
    }

    fn ready(&mut self) {
        let messages = &mut self.messages;
        for node in &mut self.nodes {
            while node.raw.has_ready() {
                let mut ready = node.raw.ready();
                messages.append(&mut ready.take_messages());
                let committed = ready.take_committed_entries();
                apply(&mut node.table, &mut node.applied, &committed);
                if !ready.entries().is_empty() {
                    node.raw
                        .mut_store()
                        .wl()
                        .append(ready.entries())
                        .expect("entries follow");
                }
                if let Some(state) = ready.hs() {
                    node.raw.mut_store().wl().set_hardstate(state.clone());
                }
                messages.append(&mut ready.take_persisted_messages());
                let mut light = node.raw.advance(ready);
                if let Some(commit) = light.commit_index() {
                    node.raw
                        .mut_store()
                        .wl()
                        .mut_hard_state()
                        .set_commit(commit);
                }
                messages.append(&mut light.take_messages());
                apply(
                    &mut node.table,
                    &mut node.applied,
                    &light.take_committed_entries(),
                );
                node.raw.advance_apply();
            }
        }
    }

    fn settle(&mut self) {
        loop {
            self.ready();
            if self.messages.is_empty() {
                return;
            }
            for message in std::mem::take(&mut self.messages) {
                let to = message.to as usize - 1;
                self.nodes[to]
                    .raw
                    .step(message)
                    .expect("a node of the cluster");
            }
        }
    }
}

fn apply(table: &mut HashMap<[u8; 16], [u8; 64]>, applied: &mut u64, entries: &[Entry]) {
    for entry in entries {
        *applied = entry.index;
        if entry.data.len() == 80 {
            let (key, value) = entry.data.split_at(16);
            table.insert(key.try_into().unwrap(), value.try_into().unwrap());
        }
    }
}

fn main() {
    let mut cluster = Cluster::new();
    let leader = loop {
        for node in &mut cluster.nodes {
            node.raw.tick();
        }
        cluster.settle();
        let leads = |node: &Node| node.raw.raft.state == StateRole::Leader;
        if let Some(leader) = cluster.nodes.iter().position(leads) {
            break leader;
        }
    };
    let mut times = Vec::with_capacity(WRITES as usize);
    for number in 0..WARM + WRITES {
        let mut data = vec![7; 80];
        data[..16].copy_from_slice(&u128::from(number % 512).to_le_bytes());
        let from = Instant::now();
        cluster.nodes[leader]
            .raw
            .propose(Vec::new(), data)
            .expect("the leader takes it");
        let index = cluster.nodes[leader].raw.raft.raft_log.last_index();
        while cluster.nodes.iter().any(|node| node.applied < index) {
            cluster.settle();
        }
        let time = from.elapsed().as_nanos();
        if number >= WARM {
            times.push(time);
        }
        if number % 1024 == 0 {
            for node in &mut cluster.nodes {
                let applied = node.applied.saturating_sub(512);
                if applied > 0 {
                    node.raw
                        .mut_store()
                        .wl()
                        .compact(applied)
                        .expect("applied entries");
                }
            }
        }
    }
    times.sort_unstable();
    let at = |per_mille: usize| times[times.len() * per_mille / 1000];
    println!(
        "raft-rs: write committed by 3 nodes: median {} ns, p99 {} ns",
        at(500),
        at(990)
    );
}
