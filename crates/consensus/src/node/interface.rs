//! The configuration of a node, its refusals, events and counts.

use crate::entry::StoredValue;
use crate::ids::{NodeId, Term};
use crate::state::{Capacity, ElementChange, RequestAnswer};

/// Voters that must have an entry before its request is answered. A majority commits it in any
/// case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ack {
    /// A majority: Raft's rule.
    #[default]
    Majority,
    /// All. While one voter is away, no request is answered.
    All,
}

/// Place that keeps votes and entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Memory: a node that restarts must get a new name and join as a new member.
    #[default]
    Memory,
    /// The caller's disk, by [`super::RaftNode::persist`].
    Disk,
}

/// Way in which a leader makes sure, before it answers a read, that no other node leads. It is the
/// same on all nodes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// A majority answers a round of messages that began after the read. No clock is trusted.
    #[default]
    Index,
    /// A lease: a majority answered a round, and gives no vote for an election timeout. Each clock
    /// gains or loses at most this many thousandths of true time.
    Lease(u16),
}

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the cluster: messages of other ones are refused.
    pub cluster: u64,
    /// Name of this node.
    pub id: NodeId,
    /// Seed of random choices. It differs on each start of a node.
    pub seed: u64,
    /// Least time without a leader until an election. In the unit of the caller's clock.
    pub election_timeout: u64,
    /// Time between heartbeats.
    pub heartbeat: u64,
    /// Rule of answers.
    pub ack: Ack,
    /// Place that keeps votes and entries.
    pub keep: Keep,
    /// Entries in memory at most; a snapshot includes older ones. Rounded up to a power of two.
    pub log_entries: usize,
    /// Entries that are on their way to one node at most.
    pub window: u64,
    /// Entries of one message at most, if they fit.
    pub max_batch: u16,
    /// Way of reads.
    pub reads: ReadMode,
    /// Reads that wait at most.
    pub max_reads: usize,
    /// Room of the replicated state.
    pub capacity: Capacity,
}

/// Role of a node in its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftRole {
    /// Follows a leader, or waits for one.
    Follower,
    /// Asks if it would be elected.
    PreCandidate,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
}

/// Reason for which a node takes no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This node does not lead: ask the leader, if it is known.
    NotLeader(Option<NodeId>),
    /// The leader has not committed an entry of its term yet: ask again soon.
    TooEarly,
    /// The log or the queue of reads is full: ask again when requests are answered.
    Full,
    /// Leadership is being given to another node: ask again soon.
    Transferring,
    /// A change of members is not committed yet: ask again soon.
    ChangePending,
    /// The learner does not have the log yet: ask again later.
    NotCaughtUp,
    /// The change does not apply to the members: read them.
    NoSuchChange,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Refusal::NotLeader(Some(leader)) => {
                return write!(f, "this node does not lead: ask node {leader}");
            }
            Refusal::NotLeader(None) => "no leader is known: ask again soon",
            Refusal::TooEarly => "the leader is new: ask again soon",
            Refusal::Full => "the log is full: ask again when requests are answered",
            Refusal::Transferring => "another node becomes leader: ask again soon",
            Refusal::ChangePending => "a change of members is under way: ask again soon",
            Refusal::NotCaughtUp => "the learner does not have the log yet: ask again later",
            Refusal::NoSuchChange => "the change does not apply: read the members",
        };
        f.write_str(text)
    }
}

impl std::error::Error for Refusal {}

/// Event for the caller. Tokens are those of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// The request was committed and applied.
    Answered {
        /// Token of the request.
        token: u64,
        /// The answer.
        answer: RequestAnswer,
    },
    /// The request may have been applied, or may be later: repeat it in its session.
    Unknown {
        /// Token of the request.
        token: u64,
    },
    /// The read is done: the value was current at some time since the request.
    Read {
        /// Token of the read.
        token: u64,
        /// The value.
        value: Option<StoredValue>,
    },
    /// The read failed without effect: ask again.
    ReadFailed {
        /// Token of the read.
        token: u64,
    },
    /// This node leads and a change of an element is committed: send it with this term.
    Change {
        /// Term of this leader.
        term: Term,
        /// The change.
        change: ElementChange,
    },
    /// This node begins to lead: send each element what [`super::RaftNode::change_after`] has for
    /// it.
    Leading {
        /// Its term.
        term: Term,
    },
}

/// Counts of what a node did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages refused by [`super::RaftNode::receive`].
    pub refused: u64,
    /// Messages that were not sent because too many waited.
    pub dropped: u64,
    /// Messages with fields that no correct node sends.
    pub impossible: u64,
    /// Elections won.
    pub elections: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Snapshots received.
    pub installed: u64,
    /// Times that a leader without a majority gave up.
    pub deposed: u64,
}
