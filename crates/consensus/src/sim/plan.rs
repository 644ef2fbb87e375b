//! Parameters of a run, drawn from its seed. Times are in microseconds.

use consensus::{Ack, Capacity, Config, Keep, NodeId, ReadMode};
use support::rng::{Rng, mix};

/// Least time without a leader until an election.
pub(super) const ELECTION: u64 = 10_000;
/// Name of the simulated cluster.
pub(super) const CLUSTER: u64 = 0x706f_6c79;

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// True if leaders fail more often than others, soon after their election, and messages are
    /// slow.
    pub(super) is_storm: bool,
    pub(super) nodes: u64,
    pub(super) clients: usize,
    pub(super) ack: Ack,
    pub(super) keep: Keep,
    pub(super) log_entries: usize,
    pub(super) window: u64,
    pub(super) capacity: Capacity,
    /// Keys that clients use.
    pub(super) keys: u64,
    /// Time of faults.
    pub(super) faults: u64,
    /// Mean time between faults.
    pub(super) fault_gap: u64,
    /// Faults of messages, per mille.
    pub(super) loss: u32,
    pub(super) duplicates: u32,
    pub(super) damage: u32,
    /// Messages that take long, per mille: they arrive out of order.
    pub(super) slow: u32,
    /// Greatest time that a client waits between requests.
    pub(super) think: u64,
    /// True if the members change.
    pub(super) changes_members: bool,
    /// Time that most messages take at most.
    pub(super) delay: u64,
    /// Entries of one message at most.
    max_batch: u16,
    /// Clients that mostly read, from the node that led first of those that lead.
    pub(super) readers: usize,
    /// Deviation of clocks, in thousandths.
    pub(super) drift: u16,
    /// Way of reads.
    pub(super) reads: ReadMode,
    /// Crashes soon after a node comes to a new term, per mille.
    pub(super) term_crashes: u32,
    /// Seed of the nodes.
    seed: u64,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Plan {
        let mut rng = Rng::new(mix(seed) ^ 1);
        let rng = &mut rng;
        let often = |rng: &mut Rng, most: u64| match rng.one_in(3) {
            true => 0,
            false => rng.below(most) as u32,
        };
        let is_storm = rng.one_in(3);
        let mut plan = Plan {
            is_storm,
            nodes: if rng.one_in(2) { 3 } else { 5 },
            clients: rng.between(4, 8) as usize,
            ack: if rng.one_in(4) {
                Ack::All
            } else {
                Ack::Majority
            },
            keep: if rng.one_in(3) {
                Keep::Memory
            } else {
                Keep::Disk
            },
            log_entries: if rng.one_in(2) { 32 } else { 128 },
            window: rng.between(4, 32),
            capacity: Capacity {
                keys: if rng.one_in(4) { 3 } else { 16 },
                reserved: 0,
                sessions: 24,
                session_life: if rng.one_in(4) {
                    2 * ELECTION
                } else {
                    100 * ELECTION
                },
            },
            keys: rng.between(2, 4),
            faults: 12 * ELECTION + rng.below(8 * ELECTION),
            fault_gap: rng.between(ELECTION / 4, ELECTION),
            loss: often(rng, 150),
            duplicates: often(rng, 100),
            damage: often(rng, 30),
            slow: often(rng, 150),
            think: if rng.one_in(4) { 500 } else { 4_000 },
            changes_members: rng.one_in(2),
            delay: if is_storm { 3_000 } else { 200 },
            max_batch: if rng.one_in(2) { 1 } else { 64 },
            readers: rng.index(3),
            drift: if rng.one_in(3) { 400 } else { 50 },
            term_crashes: if is_storm {
                300 + rng.below(400) as u32
            } else {
                often(rng, 300)
            },
            reads: ReadMode::Index,
            seed: rng.bits(),
        };
        if rng.one_in(2) {
            plan.reads = ReadMode::Lease(plan.drift);
        }
        plan
    }

    /// Returns the configuration of a node at its start with this number.
    pub(super) fn config(&self, id: NodeId, start: u64) -> Config {
        Config {
            cluster: CLUSTER,
            id,
            seed: mix(self.seed ^ mix(start)),
            election_timeout: ELECTION,
            heartbeat: ELECTION / 7,
            ack: self.ack,
            keep: self.keep,
            log_entries: self.log_entries,
            window: self.window,
            max_batch: self.max_batch,
            reads: self.reads,
            max_reads: 64,
            capacity: self.capacity,
        }
    }
}
