//! Runs schedules of elections by raft-rs. The example `elections` of crate `consensus` runs the
//! same ones, and has the commands.

use std::collections::HashSet;
use std::io::Read;

use raft::eraftpb::Message;
use raft::storage::MemStorage;
use raft::{Config, RawNode, StateRole};

struct Host {
    /// `None` while it is stopped.
    raw: Option<RawNode<MemStorage>>,
    /// Storage of all of its starts, as of a disk.
    storage: MemStorage,
}

struct Cluster {
    hosts: Vec<Host>,
    cuts: HashSet<(usize, usize)>,
    messages: Vec<Message>,
}

fn node(id: u64, storage: MemStorage) -> RawNode<MemStorage> {
    let config = Config {
        id,
        election_tick: 10,
        heartbeat_tick: 1,
        pre_vote: true,
        check_quorum: true,
        max_size_per_msg: 2048,
        max_inflight_msgs: 64,
        ..Config::default()
    };
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    RawNode::new(&config, storage, &logger).expect("a valid configuration")
}

impl Cluster {
    fn new(nodes: usize) -> Cluster {
        let voters: Vec<u64> = (1..=nodes as u64).collect();
        let host = |id: &u64| {
            let storage = MemStorage::new_with_conf_state((voters.clone(), vec![]));
            let raw = Some(node(*id, storage.clone()));
            Host { raw, storage }
        };
        Cluster {
            hosts: voters.iter().map(host).collect(),
            cuts: HashSet::new(),
            messages: Vec::new(),
        }
    }

    fn flush(&mut self) {
        let messages = &mut self.messages;
        for host in &mut self.hosts {
            let Some(raw) = &mut host.raw else {
                continue;
            };
            while raw.has_ready() {
                let mut ready = raw.ready();
                messages.append(&mut ready.take_messages());
                if !ready.entries().is_empty() {
                    let entries = ready.entries();
                    raw.mut_store().wl().append(entries).expect("entries follow");
                }
                if let Some(state) = ready.hs() {
                    raw.mut_store().wl().set_hardstate(state.clone());
                }
                messages.append(&mut ready.take_persisted_messages());
                let mut light = raw.advance(ready);
                if let Some(commit) = light.commit_index() {
                    raw.mut_store().wl().mut_hard_state().set_commit(commit);
                }
                messages.append(&mut light.take_messages());
                raw.advance_apply();
            }
        }
    }

    fn settle(&mut self) {
        loop {
            self.flush();
            if self.messages.is_empty() {
                return;
            }
            for message in std::mem::take(&mut self.messages) {
                let (from, to) = (message.from as usize - 1, message.to as usize - 1);
                if let Some(raw) = &mut self.hosts[to].raw
                    && !self.cuts.contains(&(from, to))
                {
                    // A message that it refuses has no effect.
                    let _ = raw.step(message);
                }
            }
        }
    }

    fn tick(&mut self, at: usize) {
        if let Some(raw) = &mut self.hosts[at].raw {
            raw.tick();
        }
    }

    fn leader(&mut self) -> Option<&mut RawNode<MemStorage>> {
        let nodes = self.hosts.iter_mut().filter_map(|host| host.raw.as_mut());
        nodes
            .filter(|raw| raw.raft.state == StateRole::Leader)
            .max_by_key(|raw| raw.raft.term)
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
        let place = |at: usize| number(at) - 1;
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
                    cluster.tick(place(1));
                    cluster.settle();
                }
            }
            ["cut", _, _] => {
                cluster.cuts.insert((place(1), place(2)));
            }
            ["heal", _, _] => {
                cluster.cuts.remove(&(place(1), place(2)));
            }
            ["heal"] => cluster.cuts.clear(),
            ["stop", _] => cluster.hosts[place(1)].raw = None,
            ["start", _] => {
                let host = &mut cluster.hosts[place(1)];
                let id = place(1) as u64 + 1;
                host.raw
                    .get_or_insert_with(|| node(id, host.storage.clone()));
            }
            ["propose"] => {
                if let Some(leader) = cluster.leader() {
                    // A refusal has no effect, as there.
                    let _ = leader.propose(Vec::new(), vec![1]);
                }
                cluster.settle();
            }
            ["ask"] => {
                asked += 1;
                println!("{name} {asked} {}", cluster.leader().is_some());
            }
            _ => panic!("{line} is no command"),
        }
    }
}
