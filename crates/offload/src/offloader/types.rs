//! Settings, states, commands and reports of the offloader.

use std::fmt;
use std::sync::Arc;

use ir::TableId;
use packet::Nanos;
use placement::planes::PlanePolicy;
use switch::{CounterReading, Device};
use table::EntryId;

use super::FlowId;
use crate::flow::{CountedBytes, CounterCell, Flow};
use crate::target::RuleId;
use crate::trace::ParsedField;
#[cfg(doc)]
use crate::{Offloader, Target};

/// Settings of an [`Offloader`].
#[derive(Clone, Debug)]
pub struct OffloaderOptions {
    /// Policy that chooses the flows.
    pub policy: PlanePolicy,
    /// Time between two decisions, and between two readings of counts.
    pub period: Nanos,
    /// Flows that enter or leave the target in a second at most.
    pub moves_a_second: Option<u64>,
    /// Percentage by which a flow outside must be faster to take the place of one inside.
    pub hysteresis: u32,
    /// Packets a second below which no flow enters the target.
    pub least_rate: u64,
    /// Packets a second of a flow that software carries well: for the policies of OVS-POF-TC.
    pub home_limit: u64,
    /// Flows that the sweep traces again in a period.
    pub sweep: usize,
    /// Time after which a flow that was refused or evicted is tried again.
    pub retry_after: Nanos,
    /// Time after which a flow without packets is forgotten.
    pub forget_after: Nanos,
    /// Maximum number of flows that are known.
    pub most_flows: usize,
}

impl Default for OffloaderOptions {
    fn default() -> OffloaderOptions {
        OffloaderOptions {
            policy: PlanePolicy::Top,
            period: Nanos::from_secs(1),
            moves_a_second: None,
            hysteresis: 20,
            least_rate: 1,
            home_limit: 0,
            sweep: 1_000,
            retry_after: Nanos::from_secs(10),
            forget_after: Nanos::from_secs(10),
            most_flows: 100_000,
        }
    }
}

/// Choice of the owner that has precedence over the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    /// In the target whenever it has room.
    Always,
    /// In software.
    Never,
}

/// State of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// It is in software, and the decision leaves it there.
    Software,
    /// The decision wants it in the target, and it waits.
    Wanted(Waits),
    /// Its rule is being added.
    Adding,
    /// The hardware has its rule.
    InHardware,
    /// The target accepted the rule, and the hardware does not have it.
    NotInHardware,
    /// The target refused the rule, with these words.
    Refused(String),
    /// The hardware lost the rule.
    Evicted,
    /// The target lost the rule, for this reason.
    Lost(String),
}

/// Event for which a flow waits that is wanted in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The target had no room.
    Room,
    /// Its old rule is being removed.
    Removal,
}

impl FlowState {
    /// Returns the state's name, without a reason.
    pub fn name(&self) -> &'static str {
        match self {
            FlowState::Software => "software",
            FlowState::Wanted(_) => "wanted",
            FlowState::Adding => "adding",
            FlowState::InHardware => "in_hw",
            FlowState::NotInHardware => "not_in_hw",
            FlowState::Refused(_) => "refused",
            FlowState::Evicted => "evicted",
            FlowState::Lost(_) => "lost",
        }
    }

    /// Returns true if the target has a rule, or adds it.
    pub(super) fn is_in_target(&self) -> bool {
        matches!(
            self,
            FlowState::Adding | FlowState::InHardware | FlowState::NotInHardware
        )
    }
}

impl fmt::Display for FlowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let reason = match self {
            FlowState::Adding | FlowState::InHardware => return Ok(()),
            FlowState::Software => "no decision has put it into the target",
            FlowState::Wanted(Waits::Room) => "the target has no room",
            FlowState::Wanted(Waits::Removal) => "the target removes its old rule first",
            FlowState::NotInHardware => {
                "the target accepted the rule, and the hardware does not have it"
            }
            FlowState::Refused(reason) | FlowState::Lost(reason) => reason,
            FlowState::Evicted => "its packets came to software although the rule was added",
        };
        write!(f, ": {reason}")
    }
}

/// Work for the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum OffloadCommand {
    /// For [`Target::add`].
    Add(Vec<(RuleId, Arc<Flow>)>),
    /// For [`Target::replace`]: old rules, new ones and their flows.
    Replace(Vec<(RuleId, RuleId, Arc<Flow>)>),
    /// For [`Target::remove`].
    Remove(Vec<RuleId>),
    /// For [`Target::read`].
    Read(Vec<RuleId>),
    /// For the device's counters: [`Credit::apply`].
    Credit(Credit),
}

/// Packets that the target processed by a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Credit {
    /// The flow.
    pub flow: Arc<Flow>,
    /// Packets.
    pub packets: u64,
    /// Bytes of the frames as they came in.
    pub bytes: u64,
    /// Time of the last packet.
    pub last_use: Nanos,
}

impl Credit {
    /// Gives the packets to each entry, table and counter that the flow met. Returns true if one of
    /// these is not there any more. Entries for which `is_awaited` is true do not count as such:
    /// their counts go elsewhere.
    pub fn apply(
        &self,
        device: &mut Device,
        is_awaited: impl Fn(TableId, EntryId) -> bool,
    ) -> bool {
        let amounts = |bytes: CountedBytes| CounterReading {
            packets: self.packets,
            bytes: bytes.of(self.packets, self.bytes),
        };
        let is_gone =
            |table, entry: Option<EntryId>| entry.is_none_or(|entry| !is_awaited(table, entry));
        let mut has_gone = false;
        for met in &self.flow.met.lookups {
            let counted = amounts(met.bytes);
            let found = device.credit_lookups(met.table, met.entry, counted, self.last_use);
            has_gone |= !found && is_gone(met.table, met.entry);
        }
        for met in &self.flow.met.counters {
            let counted = amounts(met.bytes);
            has_gone |= match met.cell {
                CounterCell::Index(id, index) => !device.credit_counter(id, index, counted),
                CounterCell::Direct(table, entry) => {
                    let found = device.credit_direct_counter(table, entry, counted);
                    !found && is_gone(table, entry)
                }
            };
        }
        has_gone
    }
}

/// A flow as reports show it.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// The flow's number.
    pub id: FlowId,
    /// The flow.
    pub flow: Arc<Flow>,
    /// The fields that the parser takes from its packets.
    pub parsed: Arc<[ParsedField]>,
    /// Its state. Shown as text, it has the reason for which it is not in hardware.
    pub state: FlowState,
    /// Packets a second.
    pub rate: u64,
    /// Gain of the flow in the target, as the policy sees it where the owner has no choice.
    pub gain: i64,
    /// True if a decision was about the flow.
    pub is_decided: bool,
    /// Choice of the owner.
    pub wanted: Option<Override>,
    /// Packets that the software processed, since the flow is known.
    pub in_software: u64,
    /// Packets that the target processed and counted, since the flow is known.
    pub in_target: u64,
}
