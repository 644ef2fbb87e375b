//! The reflex plane and its store: no allocation once they are warm, and decisions that do not
//! depend on how many reports one step takes.

use consensus::{
    Ack, Capacity, ClientId, Config, Keep, Membership, NodeEvent, NodeId, Operation, RaftNode,
    RaftRole, ReadMode, Request, RequestAnswer, StoredValue,
};
use packet::Nanos;
use reflex::{AcceptingElement, CommandTarget, Decision, Loops, Outcome, PlaneDriver};
use reflex::{ReflexPlane, SourceIndex};
use support::rng::Rng;
use testkit::reports::{FROM, LOOPS, five_hops};

/// Time at which the store has a leader.
const START: Nanos = Nanos::from_secs(1);

fn driver() -> PlaneDriver {
    let loops = Loops::read("loops", LOOPS).expect("the loop file is correct");
    let element: Box<dyn CommandTarget> = Box::<AcceptingElement>::default();
    let mut driver = PlaneDriver::new(ReflexPlane::new(loops, Nanos::ZERO), vec![element]);
    driver.run_until(START);
    driver
}

#[test]
fn a_warm_plane_takes_normal_reports_without_allocating() {
    const FLOWS: u16 = 256;
    let reports = (0..20_000u32).map(|n| five_hops(n, n as u16 % FLOWS, 500).unwrap());
    let reports: Vec<Vec<u8>> = reports.collect();
    let mut driver = driver();
    let mut now = START;
    let mut give = |reports: &[Vec<u8>]| {
        for report in reports {
            now += Nanos(100);
            driver.receive(now, SourceIndex(0), FROM, report);
            driver.step(now);
        }
    };
    // The window of each flow is full, and a heartbeat of the store was sent.
    let (cold, warm) = reports.split_at(10_000);
    give(cold);
    let measured = allocation_counter::measure(|| give(warm));
    assert_eq!(measured.count_total, 0, "{} bytes", measured.bytes_total);
    let counts = driver.plane().counts();
    assert_eq!((counts.accepted, counts.classified), (20_000, 20_000));
}

/// Returns a decision without what depends on the time of a step.
fn decided(decision: &Decision) -> Decision {
    let mut decision = *decision;
    if let Outcome::Made(change) = &mut decision.outcome {
        assert!(change.answered.is_some(), "{change:?}");
        (change.committed, change.answered, change.log_index) = (None, None, None);
    }
    decision
}

#[test]
fn decisions_are_the_same_for_any_number_of_reports_a_step() {
    const FLOWS: u64 = 40;
    let mut rng = Rng::new(5);
    let reports: Vec<Vec<u8>> = (0..4_000u32)
        .map(|n| {
            let latency = if rng.one_in(200) { 4_000 } else { 500 };
            five_hops(n, rng.below(FLOWS) as u16, latency).unwrap()
        })
        .collect();
    let decisions = |batch: usize| {
        let mut driver = driver();
        let mut now = START;
        for batch in reports.chunks(batch) {
            for report in batch {
                now += Nanos(100);
                driver.receive(now, SourceIndex(0), FROM, report);
            }
            driver.step(now);
        }
        driver.run_until(now + Nanos::from_millis(10));
        driver.plane().decisions().map(decided).collect::<Vec<_>>()
    };
    let one_by_one = decisions(1);
    let made = |decision: &&Decision| matches!(decision.outcome, Outcome::Made(_));
    assert!(one_by_one.iter().filter(made).count() > 5);
    for batch in [2, 7, 64, 1000] {
        assert_eq!(decisions(batch), one_by_one, "{batch} reports a step");
    }
}

/// Three nodes of a store, and the messages between them.
struct Cluster {
    nodes: Vec<RaftNode>,
    bytes: Vec<u8>,
    messages: Vec<(usize, usize)>,
    now: u64,
    leader: usize,
}

impl Cluster {
    fn new() -> Cluster {
        let voters = [1, 2, 3].map(NodeId);
        let members = Membership::of_voters(&voters).expect("three voters");
        let config = |id| Config {
            cluster: 1,
            id,
            seed: 1,
            election_timeout: 1_000,
            heartbeat: 100,
            ack: Ack::Majority,
            keep: Keep::Memory,
            log_entries: 256,
            window: 64,
            max_batch: 16,
            reads: ReadMode::Index,
            max_reads: 16,
            capacity: Capacity {
                keys: 64,
                reserved: 0,
                sessions: 4,
                session_life: u64::MAX,
            },
        };
        let nodes = voters.map(|id| RaftNode::new(config(id), members, 0));
        let mut cluster = Cluster {
            nodes: nodes.into(),
            bytes: Vec::with_capacity(1 << 16),
            messages: Vec::with_capacity(64),
            now: 0,
            leader: 0,
        };
        loop {
            cluster.pass(100);
            let leads = |node: &RaftNode| node.role() == RaftRole::Leader;
            if let Some(leader) = cluster.nodes.iter().position(leads) {
                cluster.leader = leader;
                return cluster;
            }
        }
    }

    /// Lets time pass, and delivers all messages.
    fn pass(&mut self, time: u64) {
        self.now += time;
        for node in &mut self.nodes {
            node.tick(self.now);
        }
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
            for (to, end) in messages.iter() {
                let received = self.nodes[*to].receive(self.now, &bytes[begin..*end]);
                received.expect("messages are not damaged");
                begin = *end;
            }
        }
    }

    /// Proposes a request, and returns its answer.
    fn request(&mut self, client: ClientId, sequence: u64, operation: Operation) -> RequestAnswer {
        let request = Request {
            client,
            sequence,
            operation,
        };
        let leader = &mut self.nodes[self.leader];
        leader
            .propose(self.now, request, sequence)
            .expect("it leads");
        self.pass(1);
        while let Some(event) = self.nodes[self.leader].next_event() {
            if let NodeEvent::Answered { answer, .. } = event {
                return answer;
            }
        }
        panic!("no answer");
    }
}

#[test]
fn a_warm_store_commits_snapshots_and_reads_without_allocating() {
    let mut cluster = Cluster::new();
    let opened = cluster.request(ClientId(0), 0, Operation::OpenSession);
    let RequestAnswer::Opened(client) = opened else {
        panic!("{opened:?}");
    };
    let value = StoredValue::new(&[7; 64]).expect("64 bytes fit");
    let mut sequence = 0;
    let mut work = |cluster: &mut Cluster| {
        for _ in 0..1_000 {
            sequence += 1;
            let key = u128::from(sequence % 50).to_le_bytes();
            let operation = match sequence % 5 {
                0 => Operation::Delete(key),
                1 => Operation::Get(key),
                _ => Operation::Put(key, value),
            };
            cluster.request(client, sequence, operation);
            let (now, leader) = (cluster.now, cluster.leader);
            cluster.nodes[leader].read(now, key, 1).expect("it leads");
            cluster.pass(1);
            assert!(matches!(
                cluster.nodes[leader].next_event(),
                Some(NodeEvent::Read { .. })
            ));
        }
    };
    work(&mut cluster);
    let measured = allocation_counter::measure(|| work(&mut cluster));
    assert_eq!(measured.count_total, 0, "{} bytes", measured.bytes_total);
    assert!(cluster.nodes[cluster.leader].counts().snapshots > 4);
}
