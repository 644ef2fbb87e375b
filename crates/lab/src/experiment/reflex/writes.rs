//! Section 3.2.3: a write that three replicas on one thread have committed.

use std::time::Instant;

use consensus::{
    Ack, Capacity, ClientId, Config, Keep, Membership, NodeEvent, NodeId, Operation, RaftNode,
    RaftRole, ReadMode, Request, RequestAnswer, StoredValue,
};
use nanopu::CostTable;
use support::quantile::quantile;

use super::model::{add_model, raft_times, with_switch};
use super::{Context, Origin, Part, ROUNDS, Sheet, disk_writes, median, missing, remote_writes};

/// Three nodes, and messages between them as bytes in a buffer.
struct Cluster {
    nodes: Vec<RaftNode>,
    bytes: Vec<u8>,
    /// Receiver and end of each message in `bytes`.
    messages: Vec<(usize, usize)>,
    now: u64,
    leader: usize,
}

impl Cluster {
    fn new(ack: Ack) -> Result<Cluster, String> {
        let voters = [1, 2, 3].map(NodeId);
        let members = Membership::of_voters(&voters).ok_or("three voters are too many")?;
        let config = |id| Config {
            cluster: 1,
            id,
            seed: 1,
            election_timeout: 1_000,
            heartbeat: 100,
            ack,
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
        let mut cluster = Cluster {
            nodes: voters
                .map(|id| RaftNode::new(config(id), members, 0))
                .into(),
            bytes: Vec::with_capacity(1 << 16),
            messages: Vec::with_capacity(64),
            now: 0,
            leader: 0,
        };
        loop {
            cluster.now += 50;
            for node in &mut cluster.nodes {
                node.tick(cluster.now);
            }
            cluster.settle()?;
            let leads = |node: &RaftNode| node.role() == RaftRole::Leader;
            if let Some(leader) = cluster.nodes.iter().position(leads) {
                cluster.leader = leader;
                return Ok(cluster);
            }
        }
    }

    /// Delivers messages until there are no more.
    fn settle(&mut self) -> Result<(), String> {
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
                return Ok(());
            }
            let mut begin = 0;
            for &(to, end) in messages.iter() {
                let received = self.nodes[to].receive(self.now, &bytes[begin..end]);
                received.map_err(|error| error.to_string())?;
                begin = end;
            }
        }
    }

    /// Proposes a request and returns its answer when all nodes have committed it.
    fn request(&mut self, request: Request) -> Result<RequestAnswer, String> {
        let leader = &mut self.nodes[self.leader];
        let proposed = leader.propose(self.now, request, request.sequence);
        proposed.map_err(|refusal| refusal.to_string())?;
        let index = leader.last();
        while self.nodes.iter().any(|node| node.commit() < index) {
            self.settle()?;
        }
        let mut answer = None;
        while let Some(event) = self.nodes[self.leader].next_event() {
            if let NodeEvent::Answered { answer: found, .. } = event {
                answer = Some(found);
            }
        }
        answer.ok_or_else(|| "a committed write has no answer".to_owned())
    }
}

/// Returns median and 99th percentile of the times of writes in ns, for each round.
fn times(context: &mut Context<'_>, ack: Ack, part: usize) -> Result<[Vec<f64>; 2], String> {
    let writes = context.choose(50_000, 500);
    let mut cluster = Cluster::new(ack)?;
    let open = Request {
        client: ClientId(0),
        sequence: 0,
        operation: Operation::OpenSession,
    };
    let RequestAnswer::Opened(client) = cluster.request(open)? else {
        return Err("no session was opened".to_owned());
    };
    let value = StoredValue::new(&[7; 64]).unwrap_or_default();
    let mut sequence = 0;
    let mut found = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        context.tell("writes", part * ROUNDS + round, 2 * ROUNDS)?;
        let mut times = Vec::with_capacity(writes);
        for _ in 0..writes {
            sequence += 1;
            let key = u128::from(sequence % 512).to_le_bytes();
            let operation = Operation::Put(key, value);
            let request = Request {
                client,
                sequence,
                operation,
            };
            let start = Instant::now();
            let answer = cluster.request(request)?;
            times.push(start.elapsed().as_nanos() as f64);
            if answer != RequestAnswer::Done {
                return Err(format!("a write is answered by {answer:?}"));
            }
        }
        // The first round warms.
        if round > 0 {
            found[0].push(median(&times));
            found[1].push(quantile(&mut times, 0.99).unwrap_or(0.0));
        }
    }
    Ok(found)
}

/// Adds the rows of the model: three replicas of `raft.elf`, one write at a time.
fn model_rows(context: &Context<'_>, sheet: &mut Sheet) -> Result<(), String> {
    let writes = context.choose(10_000, 200);
    let rows = [
        ("write, switch of 1 ns", 1_000),
        ("write, switch of 300 ns (computed, not measured)", 300_000),
    ];
    for (subject, picos) in rows {
        let costs = with_switch(&CostTable::default(), picos)?;
        let found = raft_times(&costs, writes)?;
        let values = [
            ("median us", found.median / 1e3),
            ("p99 us", found.p99 / 1e3),
            ("outside of programs us", found.network / 1e3),
        ];
        let measure = |costs: &CostTable| Ok(raft_times(&with_switch(costs, picos)?, 100)?.median);
        add_model(sheet, subject, &values, &measure)?;
    }
    Ok(())
}

/// Measures writes by both rules of answers.
///
/// # Errors
/// A write fails, or a signal arrived.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Part, String> {
    let mut sheet = Sheet::new("section 3.2.3");
    let rules = [("majority", Ack::Majority), ("all", Ack::All)];
    for (part, (name, ack)) in rules.into_iter().enumerate() {
        let subject = format!("write, three replicas on one thread, ack = {name}");
        let [medians, tails] = times(context, ack, part)?;
        let values = [
            ("median us", median(&medians) / 1e3),
            ("p99 us", median(&tails) / 1e3),
        ];
        sheet.add(&subject, Origin::Measured, &values);
    }
    let paper = [
        ("write, switch of 1 ns", [1.88, 2.06]),
        (
            "write, switch of 300 ns (computed, not measured)",
            [3.08, 3.26],
        ),
        ("write over eRPC", [5.5, 6.3]),
    ];
    for (subject, [middle, tail]) in paper {
        sheet.add(
            subject,
            Origin::Paper,
            &[("median us", middle), ("p99 us", tail)],
        );
    }
    model_rows(context, &mut sheet)?;
    remote_writes::rows(context, &mut sheet)?;
    missing(
        &mut sheet,
        "write over AF_XDP",
        Origin::Measured,
        "it needs interfaces",
    );
    disk_writes::rows(context, &mut sheet)?;
    let note = format!(
        "Measured on one thread: until all three have committed and applied it; messages are encoded, checked and stored; values of 64 bytes; medians of {ROUNDS} rounds. \
         On two threads: the leader and its client on one, until the answer; ratios of the same round. On disk: beside a bare write and `fdatasync` in the directory of the results. \
         raft-rs is outside of the workspace: `cargo xtask reflex-peers`. Paper: 3.08 and 3.26 are 1.88 and 2.06 plus four passes of the switch."
    );
    Ok(sheet.part("Section 3.2.3: committed writes", note, Vec::new()))
}
