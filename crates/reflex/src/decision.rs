//! Decisions: what a monitor found, and what came of it.

use std::fmt;
use std::net::IpAddr;

use consensus::LogIndex;
use packet::Nanos;
use telemetry::{FlowKey, IntNodeId};

use crate::loops::{MonitorIndex, ReflexIndex};
use crate::write::Setting;

/// Maximum number of nodes of a path that a decision keeps.
pub const MAX_PATH: usize = 8;

/// Number of a decision, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(pub u64);

/// Nodes of a path, from the source, at most [`MAX_PATH`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathNodes {
    count: u8,
    nodes: [IntNodeId; MAX_PATH],
}

impl PathNodes {
    /// Creates the list of the first nodes.
    pub fn new(nodes: impl Iterator<Item = IntNodeId>) -> PathNodes {
        let mut path = PathNodes::default();
        for (place, node) in path.nodes.iter_mut().zip(nodes) {
            *place = node;
            path.count += 1;
        }
        path
    }

    /// Returns the nodes.
    pub fn get(&self) -> &[IntNodeId] {
        self.nodes.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// Subject of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A flow.
    Flow(FlowKey),
    /// A host.
    Host(IpAddr),
    /// All flows that concern the monitor.
    Tenant,
}

impl Subject {
    /// Returns the flow, if it is one.
    pub fn flow(&self) -> Option<&FlowKey> {
        match self {
            Subject::Flow(flow) => Some(flow),
            Subject::Host(_) | Subject::Tenant => None,
        }
    }
}

/// Measurement that a decision is based on, and what it was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// Latency of a packet's path.
    Latency {
        /// Latency of the packet.
        latency: Nanos,
        /// The moving average.
        average: Nanos,
    },
    /// Distinct peers of a host.
    Peers {
        /// Peers of the window, with the new one.
        peers: u32,
        /// Peers that are allowed.
        limit: u32,
    },
    /// A node that the packet visited twice.
    Revisit(IntNodeId),
    /// A drop since the packet's time to live ended; the exporter's number of the reason.
    TimeToLive(u8),
    /// Rate of all edges together, in bytes a second.
    Rate {
        /// The rate of the last interval.
        rate: u64,
        /// The limit.
        limit: u64,
        /// The rate that each edge may have.
        share: u64,
    },
    /// Queueing of a port.
    Queueing {
        /// Time in the node that 99 of 100 packets did not exceed.
        delay: Nanos,
        /// The objective.
        objective: Nanos,
        /// Mean length of frames.
        mean_bytes: u32,
    },
    /// Share of a flow in a queue.
    Burst {
        /// Node of the queue.
        node: IntNodeId,
        /// Port of the queue.
        port: u32,
        /// Bytes in the queue.
        bytes: u64,
        /// Bytes of the flow in it.
        flow_bytes: u64,
    },
    /// Values that a program wrote into its command.
    ByProgram {
        /// The value that it measured.
        measured: u64,
        /// The value that it compared it with.
        limit: u64,
    },
}

/// A decision of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its number.
    pub id: DecisionId,
    /// Time of the report.
    pub at: Nanos,
    /// The monitor.
    pub monitor: MonitorIndex,
    /// The subject.
    pub subject: Subject,
    /// Nodes of the packet's path.
    pub path: PathNodes,
    /// Measurement that it is based on.
    pub measured: Measured,
    /// The result.
    pub outcome: Outcome,
}

/// Result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The monitor has no permission: it reports only.
    Reported,
    /// It was refused, without effect.
    Refused(DecisionRefusal),
    /// It is on its way.
    Made(DecidedChange),
}

/// A change of an element by a decision, with the times of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedChange {
    /// The permission.
    pub reflex: ReflexIndex,
    /// The content that the place of the change gets.
    pub setting: Setting,
    /// Index in the store's log, when a majority of its nodes has it.
    pub log_index: Option<LogIndex>,
    /// Time at which the store answered, by its rule (`ack`).
    pub committed: Option<Nanos>,
    /// Time at which the element's answer arrived.
    pub answered: Option<Nanos>,
}

/// Reason for which a decision has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionRefusal {
    /// The last change of the place was too short a time ago, or is not done.
    Held,
    /// The place has this content by the last change.
    Same,
    /// The permission's changes of the last second are used up.
    Rate,
    /// The permission has no entry left.
    Entries,
    /// The monitor has no such permission, or it does not allow the change or the port.
    NotAllowed,
    /// The subject lacks a field of the table's key, or is in no prefix of the permission.
    NoKey,
    /// No permission concerns a node of the path.
    NotOnPath,
    /// Each port of the permission is one that the packet took.
    NoPort,
    /// Each other port of the permission would make a loop, or lead nowhere.
    UnsafePath,
    /// The store has no leader.
    NoQuorum,
    /// Too many requests wait at the store.
    Busy,
    /// The store has no room for the entry.
    StoreFull,
    /// The store's leader cannot keep entries on its disk.
    Disk,
    /// The switch refused the entry: its table is full, or has the entry already.
    SwitchRefused,
    /// The switch's table has keys of other widths.
    WrongKey,
}

impl DecisionRefusal {
    /// All reasons.
    pub const ALL: [DecisionRefusal; 15] = [
        DecisionRefusal::Held,
        DecisionRefusal::Same,
        DecisionRefusal::Rate,
        DecisionRefusal::Entries,
        DecisionRefusal::NotAllowed,
        DecisionRefusal::NoKey,
        DecisionRefusal::NotOnPath,
        DecisionRefusal::NoPort,
        DecisionRefusal::UnsafePath,
        DecisionRefusal::NoQuorum,
        DecisionRefusal::Busy,
        DecisionRefusal::StoreFull,
        DecisionRefusal::Disk,
        DecisionRefusal::SwitchRefused,
        DecisionRefusal::WrongKey,
    ];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            DecisionRefusal::Held => "held",
            DecisionRefusal::Same => "same",
            DecisionRefusal::Rate => "rate",
            DecisionRefusal::Entries => "entries",
            DecisionRefusal::NotAllowed => "not_allowed",
            DecisionRefusal::NoKey => "no_key",
            DecisionRefusal::NotOnPath => "not_on_path",
            DecisionRefusal::NoPort => "no_port",
            DecisionRefusal::UnsafePath => "unsafe_path",
            DecisionRefusal::NoQuorum => "no_quorum",
            DecisionRefusal::Busy => "busy",
            DecisionRefusal::StoreFull => "store_full",
            DecisionRefusal::Disk => "disk",
            DecisionRefusal::SwitchRefused => "switch_refused",
            DecisionRefusal::WrongKey => "wrong_key",
        }
    }
}

impl fmt::Display for DecisionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecisionRefusal::Held => "held: the last change of the place is too recent",
            DecisionRefusal::Same => "same: the place has this content already",
            DecisionRefusal::Rate => "rate: too many changes in the last second",
            DecisionRefusal::Entries => "entries: the permission has no entry left",
            DecisionRefusal::NotAllowed => {
                "not allowed: the monitor has no permission for the change or the port"
            }
            DecisionRefusal::NoKey => {
                "no key: it lacks a field of the table's key, or is in no prefix of the permission"
            }
            DecisionRefusal::NotOnPath => "not on path: no permission is for a node of the path",
            DecisionRefusal::NoPort => "no port: the packet took each port of the permission",
            DecisionRefusal::UnsafePath => {
                "unsafe path: each other port would make a loop, or lead nowhere"
            }
            DecisionRefusal::NoQuorum => "no quorum: the store has no leader",
            DecisionRefusal::Busy => "busy: too many requests wait at the store",
            DecisionRefusal::StoreFull => "store full: the store has no room for the entry",
            DecisionRefusal::Disk => "disk: the store's leader cannot keep entries on its disk",
            DecisionRefusal::SwitchRefused => {
                "switch refused: the table is full, or another owner made the entry"
            }
            DecisionRefusal::WrongKey => "wrong key: the table has keys of other widths",
        })
    }
}
