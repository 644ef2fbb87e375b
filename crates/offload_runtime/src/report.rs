//! Reports of the offload on a running switch. They are values: others print them.

use serde::{Deserialize, Serialize};

/// A flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowRow {
    /// Its number.
    pub flow: u64,
    /// Its packets, as a filter reads: port, fields, lengths.
    #[serde(rename = "match")]
    pub matched: String,
    /// Ports to which it sends; none for a drop.
    pub outputs: Vec<u32>,
    /// `nic` or `software`.
    pub plane: String,
    /// `software`, `wanted`, `adding`, `in_hw`, `not_in_hw`, `refused`, `evicted` or `lost`.
    pub state: String,
    /// Packets a second.
    pub rate: u64,
    /// Packets that the software has processed, as its samples say.
    pub software_packets: u64,
    /// Packets that the NIC has counted.
    pub nic_packets: u64,
    /// Gain in the NIC, in packets a second, as the policy sees it where the owner has no choice.
    pub gain: i64,
    /// Choice of the owner by a table: `always` or `never`.
    pub wanted: Option<String>,
    /// Tables that its packets look up, in order.
    pub tables: Vec<String>,
    /// Reason for which it is not in hardware.
    pub reason: Option<String>,
}

/// A reason with its number of times or packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonRow {
    /// The reason.
    pub reason: String,
    /// Times, or packets.
    pub count: u64,
}

/// An interface of the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceRow {
    /// The port of the switch.
    pub port: u32,
    /// Name of the interface.
    pub interface: String,
    /// Reason for which it takes no rules; `None` if it takes them.
    pub refusal: Option<String>,
}

/// Number of flows in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRow {
    /// The state.
    pub state: String,
    /// Flows.
    pub flows: u64,
}

/// Numbers of what was done since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadStats {
    /// The target's name.
    pub target: String,
    /// Its interfaces; none of the model.
    pub interfaces: Vec<InterfaceRow>,
    /// Known flows by state, with those states that have none.
    pub states: Vec<StateRow>,
    /// Rules in the target, those included that are being added.
    pub rules: u64,
    /// Rules that it holds at most, if that is known.
    pub capacity: Option<u64>,
    /// Packets of the target that the device's counts have.
    pub packets: u64,
    /// Their bytes, as the target counts them.
    pub bytes: u64,
    /// Packets of the target that came after an entry or counter of theirs had gone, so that its
    /// counts lack them.
    pub uncredited_packets: u64,
    /// Rules that the target was given.
    pub added: u64,
    /// Rules that took the place of others, since their effect had changed.
    pub replaced: u64,
    /// Rules that the target was asked to remove.
    pub removed: u64,
    /// Rules that the hardware lost.
    pub evicted: u64,
    /// Rules that the target refused, by reason.
    pub refused: Vec<ReasonRow>,
    /// Packets that cannot be offloaded, by reason, as the samples say.
    pub not_offloadable: Vec<ReasonRow>,
    /// Packets of flows that are not known, since too many are.
    pub unnoted_packets: u64,
    /// Flows that were traced again.
    pub retraced: u64,
    /// Those of them that had another match or effect.
    pub changed: u64,
    /// Times at which more changes waited than are kept, and all flows were traced again.
    pub lost_changes: u64,
}

/// The decision, and what it depends on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlacementReport {
    /// The policy.
    pub policy: String,
    /// Milliseconds between two decisions.
    pub period_ms: u64,
    /// Flows that may move in a second; `None` has no limit.
    pub moves_a_second: Option<u64>,
    /// Percentage by which a flow outside must be faster than one inside.
    pub hysteresis: u32,
    /// The planes.
    pub planes: Vec<PlaneRow>,
    /// The owner's choices.
    pub tables: Vec<TableRow>,
    /// Reason for which nothing is decided.
    pub error: Option<String>,
}

/// A plane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlaneRow {
    /// `nic` or `software`.
    pub plane: String,
    /// Its flows.
    pub flows: u64,
    /// Flows that it holds at most; `None` has no limit that is known.
    pub capacity: Option<u64>,
    /// Their packets a second.
    pub rate: u64,
}

/// The owner's choice for a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableRow {
    /// The table.
    pub table: String,
    /// `always` or `never`.
    pub choice: String,
    /// True if the program that runs has the table.
    pub is_there: bool,
}
