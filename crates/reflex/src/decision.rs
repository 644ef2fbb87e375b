//! Decisions: what a monitor found, and what came of it.

use std::fmt;

use consensus::LogIndex;
use packet::Nanos;
use telemetry::{FlowKey, IntNodeId};

use crate::loops::{MonitorIndex, ReflexIndex};

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

/// A decision of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its number.
    pub id: DecisionId,
    /// Time of the report.
    pub at: Nanos,
    /// The monitor.
    pub monitor: MonitorIndex,
    /// The flow that it is about.
    pub flow: FlowKey,
    /// Nodes of the packet's path.
    pub path: PathNodes,
    /// Latency of the packet.
    pub latency: Nanos,
    /// The average that it was compared with.
    pub average: Nanos,
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
    /// The port that the flow is sent to.
    pub port: u32,
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
    /// The last change of the key was too short a time ago, or is not done.
    Held,
    /// The permission's changes of the last second are used up.
    Rate,
    /// The permission has no entry left.
    Entries,
    /// The flow lacks a field of the table's key.
    NoKey,
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
    pub const ALL: [DecisionRefusal; 10] = [
        DecisionRefusal::Held,
        DecisionRefusal::Rate,
        DecisionRefusal::Entries,
        DecisionRefusal::NoKey,
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
            DecisionRefusal::Rate => "rate",
            DecisionRefusal::Entries => "entries",
            DecisionRefusal::NoKey => "no_key",
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
            DecisionRefusal::Held => "held: the last change of this flow is too recent",
            DecisionRefusal::Rate => "rate: too many changes in the last second",
            DecisionRefusal::Entries => "entries: the permission has no entry left",
            DecisionRefusal::NoKey => "no key: the flow lacks a field of the table's key",
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
