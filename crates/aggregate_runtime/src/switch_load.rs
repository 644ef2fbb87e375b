//! Loads of switches: programs and entries, of a whole switch or of virtual data planes (vPDPs).

use std::collections::BTreeSet;

use aggregate::Plan;
use fabric::Topology;
use fabric::topology::SwitchId;
use packet::PortId;
use serde::{Deserialize, Serialize};

/// A load of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchLoad {
    /// Number of the load.
    pub number: u32,
    /// Its programs.
    pub planes: LoadedPlanes,
}

/// Programs of a switch in a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadedPlanes {
    /// One program with all of its reductions.
    Whole(ProgramText),
    /// A vPDP for each of its reductions, beside those of tenants.
    Vpdps(Vec<VpdpLoad>),
}

/// A program and its entries, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramText {
    /// The P4 text.
    pub program: String,
    /// The entries.
    pub entries: String,
}

impl ProgramText {
    /// Returns the number that a quota of entries counts: entries, and multicast groups with their
    /// replicas.
    pub fn entry_count(&self) -> usize {
        self.entries.lines().count() + self.entries.matches(" instance ").count()
    }
}

/// The vPDP of a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VpdpLoad {
    /// Number of the reduction.
    pub reduction: u16,
    /// Its program and entries.
    pub text: ProgramText,
    /// The ports of the switch that it needs, with the same numbers in the vPDP.
    pub ports: BTreeSet<PortId>,
    /// Bytes of its registers as planned.
    pub state_bytes: u64,
}

impl VpdpLoad {
    /// Returns the vPDP of a reduction in a switch, with the attempt and the number of the load.
    pub(crate) fn new(
        (plan, topology): (&Plan, &Topology),
        (switch, reduction): (SwitchId, u16),
        (attempt, number): (u16, u32),
    ) -> VpdpLoad {
        let own = plan.alone(reduction, topology);
        VpdpLoad {
            reduction,
            text: ProgramText {
                program: own.program(switch),
                entries: own.entries(switch, attempt, number),
            },
            ports: own.ports(switch, topology),
            state_bytes: own.state_bytes(switch),
        }
    }
}

/// A change of the vPDP of a running reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VpdpUpdate {
    /// Number of the reduction.
    pub reduction: u16,
    /// The change.
    pub change: VpdpChange,
}

/// A change of a vPDP that keeps its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VpdpChange {
    /// Another program.
    Program {
        /// The P4 text.
        text: String,
        /// The names of other state than the reduction's that may be lost.
        may_lose: Vec<String>,
    },
    /// The stage slot of the first stage of its ingress. `None`: any.
    Slot(Option<u32>),
}
