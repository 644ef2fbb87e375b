//! Schedules by hand: mistakes that need a sequence of events which random faults seldom make.

use consensus::mistake::Mistake;
use consensus::{
    Ack, Capacity, ClientId, Config, Keep, LogIndex, Membership, MembershipChange, NodeEvent,
    NodeId, Operation, RaftNode, RaftRole, ReadMode, Request, Term,
};

use super::Variant;
use super::disk::Disk;

const ELECTION: u64 = 100;

/// Three nodes, and the messages that they sent.
struct Script {
    variant: Variant,
    members: Membership,
    nodes: Vec<RaftNode>,
    disks: Vec<Disk>,
    messages: Vec<(u64, u64, Vec<u8>)>,
    now: u64,
    /// Time by which the clock of node 1 is late.
    late: u64,
    reads: ReadMode,
    /// Node with a disk that completes no write.
    stuck: Option<u64>,
}

impl Script {
    fn new(mistake: Option<Mistake>) -> Script {
        Script::with(mistake, ReadMode::Index)
    }

    fn with(mistake: Option<Mistake>, reads: ReadMode) -> Script {
        let members = Membership::of_voters(&[1, 2, 3].map(NodeId)).unwrap();
        Script::of(members, mistake, reads)
    }

    fn of(members: Membership, mistake: Option<Mistake>, reads: ReadMode) -> Script {
        let all = [1, 2, 3].map(NodeId);
        let variant = Variant { mistake };
        let node = |id| variant.node(Script::config(id, 0, reads), members, 0);
        Script {
            variant,
            members,
            nodes: all.map(node).into(),
            disks: all.map(|_| Disk::default()).into(),
            messages: Vec::new(),
            now: 0,
            late: 0,
            reads,
            stuck: None,
        }
    }

    fn config(id: NodeId, start: u64, reads: ReadMode) -> Config {
        Config {
            cluster: 1,
            id,
            seed: start,
            election_timeout: ELECTION,
            heartbeat: ELECTION / 10,
            ack: Ack::Majority,
            keep: Keep::Disk,
            log_entries: 64,
            window: 8,
            max_batch: 1,
            reads,
            max_reads: 8,
            capacity: Capacity {
                keys: 16,
                reserved: 0,
                sessions: 8,
                session_life: u64::MAX,
            },
        }
    }

    fn node(&mut self, id: u64) -> &mut RaftNode {
        &mut self.nodes[id as usize - 1]
    }

    /// Returns the time of a node's clock.
    fn time(&self, id: u64) -> u64 {
        match id {
            1 => self.now - self.late,
            _ => self.now,
        }
    }

    /// Takes the outputs of a node; its writes are complete at once, unless its disk is stuck.
    fn flush(&mut self, id: u64) {
        let now = self.time(id);
        let at = id as usize - 1;
        self.nodes[at].flush(now);
        if let Some(persist) = self.nodes[at].persist() {
            let number = persist.number;
            self.disks[at].begin(&persist);
            if self.stuck != Some(id) {
                self.disks[at].complete(number);
                self.nodes[at].persisted(number);
                self.nodes[at].flush(now);
            }
        }
        let messages = &mut self.messages;
        self.nodes[at].send(|to, bytes| messages.push((id, to.0, bytes.to_vec())));
    }

    /// Delivers the first message from one node to another. Returns false if there is none.
    fn deliver(&mut self, from: u64, to: u64) -> bool {
        let found = self
            .messages
            .iter()
            .position(|message| (message.0, message.1) == (from, to));
        let Some((_, _, bytes)) = found.map(|at| self.messages.remove(at)) else {
            return false;
        };
        let now = self.time(to);
        self.node(to).receive(now, &bytes).unwrap();
        self.flush(to);
        true
    }

    /// Delivers messages between two nodes until a condition holds or there are none.
    fn exchange(&mut self, a: u64, b: u64, is_done: impl Fn(&Script) -> bool) {
        while !is_done(self) && (self.deliver(a, b) || self.deliver(b, a)) {}
    }

    /// Makes a node campaign: time passes for it alone.
    fn campaign(&mut self, id: u64) {
        self.now += 2 * ELECTION;
        self.tick(id);
    }

    fn tick(&mut self, id: u64) {
        let now = self.time(id);
        self.node(id).tick(now);
        self.flush(id);
    }

    /// Elects node 1, and lets it commit its first entry, which all nodes then have.
    fn lead(&mut self) {
        self.elect(1, 2);
        self.now += ELECTION / 10;
        self.tick(1);
        self.exchange(1, 2, |_| false);
        self.exchange(1, 3, |_| false);
    }

    fn leads(&self, id: u64) -> bool {
        self.nodes[id as usize - 1].role() == RaftRole::Leader
    }

    /// Reads at node 1, which hears from no other node. Returns true if it answers.
    fn is_read(&mut self) -> bool {
        self.messages.clear();
        let now = self.time(1);
        self.node(1).read(now, [0; 16], 1).unwrap();
        self.flush(1);
        let mut events = std::iter::from_fn(|| self.node(1).next_event());
        events.any(|event| matches!(event, NodeEvent::Read { token: 1, .. }))
    }

    /// Elects a node by the vote of one other. No entry of its term leaves it.
    fn elect(&mut self, id: u64, voter: u64) {
        self.messages.clear();
        let leads = |script: &Script| script.nodes[id as usize - 1].role() == RaftRole::Leader;
        let mut attempts = 0;
        while !leads(self) || attempts == 0 {
            attempts += 1;
            assert!(attempts < 10, "node {id} is not elected");
            self.campaign(id);
            self.exchange(id, voter, leads);
        }
    }

    /// Opens a session at a leader: a request like any other.
    fn propose(&mut self, id: u64) {
        let (client, operation) = (ClientId(0), Operation::OpenSession);
        let request = Request {
            client,
            sequence: 0,
            operation,
        };
        let now = self.now;
        self.node(id).propose(now, request, 0).unwrap();
        self.flush(id);
    }

    fn restart(&mut self, id: u64) {
        let config = Script::config(NodeId(id), 1, self.reads);
        let saved = self.disks[id as usize - 1].read();
        let node = self.variant.restored(config, self.members, saved, self.now);
        *self.node(id) = node;
        self.stuck = self.stuck.filter(|stuck| *stuck != id);
    }
}

/// Figure 8 of the Raft paper with three nodes. Returns true if two nodes committed different
/// entries.
fn an_old_entry_is_counted(mistake: Option<Mistake>) -> bool {
    let mut script = Script::new(mistake);
    script.elect(1, 2);
    script.exchange(1, 2, |_| false);
    script.exchange(1, 3, |_| false);
    // Only node 1 has the second entry, of term 1.
    script.propose(1);
    // Only node 2 has the first entry of the next term, at the same index.
    script.elect(2, 3);
    assert_eq!(script.node(2).last(), LogIndex(2));
    // Node 1 no longer leads, and is elected by node 3, which gets the entry of term 1 from it.
    script.campaign(1);
    script.elect(1, 3);
    script.exchange(1, 3, |script| script.nodes[2].last() == LogIndex(2));
    script.deliver(3, 1);
    // Node 2 has an entry of a later term than node 3, and is elected by it.
    script.campaign(2);
    script.elect(2, 3);
    script.exchange(2, 3, |_| false);
    assert!(script.node(2).commit() > LogIndex(2));
    let old = script.node(1).commit() >= LogIndex(2);
    old && script.nodes[0].entry(LogIndex(2)) != script.nodes[1].entry(LogIndex(2))
}

/// A node votes for one of two candidates and restarts. Returns true if both lead the same term.
fn a_node_restarts_after_its_vote(mistake: Option<Mistake>) -> bool {
    let mut script = Script::new(mistake);
    script.campaign(1);
    script.campaign(2);
    // Both hear from node 3 that it would vote for them, then ask for its vote.
    for candidate in [1, 2] {
        script.deliver(candidate, 3);
        script.deliver(3, candidate);
        assert_eq!(script.node(candidate).role(), RaftRole::Candidate);
    }
    script.deliver(1, 3);
    script.restart(3);
    script.deliver(3, 1);
    script.deliver(2, 3);
    script.deliver(3, 2);
    let leads = |node: &RaftNode| node.role() == RaftRole::Leader && node.term() == Term(1);
    assert!(leads(script.node(1)));
    leads(script.node(2))
}

/// A leader restarts before its own write of an entry is complete. Returns true if it committed
/// the entry and two nodes without it go on.
fn a_leader_restarts_before_its_write(mistake: Option<Mistake>) -> bool {
    let mut script = Script::new(mistake);
    script.elect(1, 2);
    script.exchange(1, 2, |_| false);
    script.exchange(1, 3, |_| false);
    script.stuck = Some(1);
    script.propose(1);
    script.exchange(1, 2, |_| false);
    let is_committed = script.node(1).commit() == LogIndex(2);
    script.restart(1);
    script.elect(3, 1);
    is_committed
}

/// A leader reads, then another one is elected without its knowledge, and it reads again. Returns
/// true if the second read is answered.
fn an_old_leader_reads(mistake: Option<Mistake>) -> bool {
    let mut script = Script::new(mistake);
    script.elect(1, 2);
    script.exchange(1, 2, |_| false);
    let reads = |script: &mut Script, token: u64| {
        let now = script.now;
        script.node(1).read(now, [0; 16], token).unwrap();
        script.flush(1);
        script.exchange(1, 2, |_| false);
        script.flush(1);
        let mut is_read = false;
        while let Some(event) = script.node(1).next_event() {
            is_read |= matches!(event, NodeEvent::Read { token: read, .. } if read == token);
        }
        is_read
    };
    assert!(reads(&mut script, 1));
    script.elect(2, 3);
    script.exchange(2, 3, |_| false);
    // Node 2 has a later term now: from here on, node 1 hears from no other node.
    script.messages.clear();
    let now = script.now;
    script.node(1).read(now, [0; 16], 2).unwrap();
    script.flush(1);
    std::iter::from_fn(|| script.node(1).next_event())
        .any(|event| matches!(event, NodeEvent::Read { token: 2, .. }))
}

/// The clocks of a cluster with leases gain or lose at most 40 %.
const LEASES: ReadMode = ReadMode::Lease(400);

/// Node 1 has the slowest clock, and the others have the fastest ones. Returns true if it answers
/// a read by its lease while another node leads.
fn a_slow_leader_reads(mistake: Option<Mistake>) -> bool {
    let mut script = Script::with(mistake, LEASES);
    script.lead();
    // Of 143 units of true time, node 1 sees 86, and the others 200.
    script.late += 2 * ELECTION - 86;
    script.campaign(2);
    script.exchange(2, 3, |script| script.leads(2));
    assert!(script.leads(2));
    script.is_read()
}

/// Node 1 gives the leadership to node 2. Returns true if it answers a read by its lease while
/// node 2 leads.
fn a_leader_reads_after_a_transfer(mistake: Option<Mistake>) -> bool {
    let mut script = Script::with(mistake, LEASES);
    script.lead();
    let now = script.time(1);
    script.node(1).transfer(now, NodeId(2)).unwrap();
    script.flush(1);
    while script.deliver(1, 2) {}
    script.exchange(2, 3, |script| script.leads(2));
    assert!(script.leads(2));
    script.is_read()
}

/// Node 2 answers node 1 and restarts, and node 3 has heard nothing for long. Returns true if node
/// 3 is elected and node 1 answers a read by its lease.
fn a_voter_restarts_during_a_lease(mistake: Option<Mistake>) -> bool {
    let mut script = Script::with(mistake, LEASES);
    script.lead();
    for _ in 0..25 {
        script.now += ELECTION / 10;
        script.tick(1);
        script.exchange(1, 2, |_| false);
    }
    script.messages.clear();
    script.restart(2);
    script.tick(3);
    script.exchange(2, 3, |script| script.leads(3));
    assert!(script.leads(1));
    let is_elected = script.leads(3);
    script.is_read() && is_elected
}

#[test]
fn a_lease_answers_reads_until_it_ends() {
    let mut script = Script::with(None, LEASES);
    script.lead();
    assert!(script.is_read());
    // 100 * (1000 - 400) / (1000 + 400) is 42.
    script.now += 41;
    assert!(script.is_read());
    script.now += 1;
    assert!(!script.is_read());
    let mut script = Script::new(None);
    script.lead();
    assert!(!script.is_read());
}

#[test]
fn finds_leases_that_trust_clocks_or_outlive_a_transfer_or_a_restart() {
    for (schedule, mistake) in [
        (
            a_slow_leader_reads as fn(Option<Mistake>) -> bool,
            Mistake::LeasesWithoutDrift,
        ),
        (
            a_leader_reads_after_a_transfer,
            Mistake::LeasesAfterTransfer,
        ),
        (a_voter_restarts_during_a_lease, Mistake::VotesAfterRestart),
    ] {
        assert!(!schedule(None), "{mistake:?}");
        assert!(schedule(Some(mistake)), "{mistake:?}");
    }
}

#[test]
fn finds_reads_that_no_majority_confirms() {
    assert!(!an_old_leader_reads(None));
    assert!(an_old_leader_reads(Some(Mistake::ReadsWithoutQuorum)));
    assert!(an_old_leader_reads(Some(Mistake::CountsEarlierRounds)));
}

#[test]
fn finds_own_entries_that_count_before_their_write() {
    assert!(!a_leader_restarts_before_its_write(None));
    assert!(a_leader_restarts_before_its_write(Some(
        Mistake::CountsUnsynced
    )));
}

#[test]
fn finds_commitment_of_old_terms_by_counting() {
    assert!(!an_old_entry_is_counted(None));
    assert!(an_old_entry_is_counted(Some(Mistake::CommitsOldTerms)));
}

#[test]
fn finds_a_vote_that_a_restart_forgets() {
    assert!(!a_node_restarts_after_its_vote(None));
    assert!(a_node_restarts_after_its_vote(Some(Mistake::ForgetsVote)));
}

#[test]
fn a_learner_that_led_lets_the_voters_campaign_first() {
    let voters = Membership::of_voters(&[1, 2].map(NodeId)).unwrap();
    let members = voters.after(MembershipChange::AddLearner(NodeId(3)));
    let mut script = Script::of(members.unwrap(), None, ReadMode::Index);
    script.campaign(3);
    script.campaign(3);
    // Two rounds of votes, the first entry, and its heartbeat.
    let mut has_led = false;
    for voter in [1, 2].repeat(4) {
        script.exchange(3, voter, |_| false);
        has_led |= script.leads(3);
    }
    assert!(has_led);
    assert_eq!(script.nodes[2].role(), RaftRole::Follower);
    script.campaign(3);
    assert_eq!(script.nodes[2].role(), RaftRole::Follower);
    script.tick(1);
    assert_eq!(script.nodes[0].role(), RaftRole::PreCandidate);
}
