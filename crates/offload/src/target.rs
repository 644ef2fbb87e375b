//! Targets: places outside of the software that hold rules for flows.

use std::sync::Arc;

use packet::{Nanos, PortId};

use crate::flow::{Flow, NotOffloadable};

/// Number of a rule, which its owner chooses. A number is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// Room of a target for rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleCapacity {
    /// Number of rules that it holds; `None` if only the target itself knows.
    pub rules: Option<u32>,
    /// Number of rules that it holds now, those included that are being added.
    pub used: u32,
}

/// Counts of a rule since it was added. A target that starts again may count from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames as they came in, without the frame check sequence, as far as the
    /// target knows them.
    pub bytes: u64,
    /// Time of the last packet; `None` if there was none.
    pub last_use: Option<Nanos>,
}

/// Place of a rule that a target has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placed {
    /// The hardware has it.
    InHardware,
    /// The target accepted it, and the hardware does not have it.
    NotInHardware,
}

/// Something that happened at a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// A rule was added.
    Added(RuleId, Placed),
    /// A rule was not added, with the target's words. It may come long after the request.
    Refused(RuleId, String),
    /// There was no room for the rule.
    Full(RuleId),
    /// A rule was removed, with its last counts. Also the answer for a rule that is not there.
    Removed(RuleId, RuleCounts),
    /// A rule is no longer in hardware without a request, with its last counts.
    Evicted(RuleId, RuleCounts),
    /// A rule is no longer in the target without a request, with its last counts and the reason.
    Lost(RuleId, RuleCounts, String),
    /// The counts of a rule, as they were at this time.
    Counts(RuleId, Nanos, RuleCounts),
}

/// An interface of a target, and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInterface {
    /// The port of the switch.
    pub port: PortId,
    /// Name of the interface.
    pub name: String,
    /// Reason for which it takes no rules; `None` if it takes them.
    pub refusal: Option<String>,
}

/// A target. Requests return nothing: their results are events, in the target's own time, in any
/// order. Each request for a rule has exactly one result, but evictions and losses come unasked.
/// They are also the result of reading such a rule, as its removal is of reading one that is
/// removed.
pub trait Target {
    /// Returns its name, as users read it.
    fn name(&self) -> &str;

    /// Returns its interfaces, if it has any.
    fn interfaces(&self) -> Vec<TargetInterface> {
        Vec::new()
    }

    /// Returns its room.
    fn capacity(&self) -> RuleCapacity;

    /// Returns the time after which a packet's count is certainly in the counts that are read.
    fn counts_delay(&self) -> Nanos;

    /// Checks whether the target has an exact rule for a flow. It may refuse the rule later.
    ///
    /// # Errors
    /// It has none, with the reason.
    fn can(&self, flow: &Flow) -> Result<(), NotOffloadable>;

    /// Returns true if the rule of a flow takes this frame of it. Other frames of the flow come to
    /// the software although the rule is there.
    fn takes(&self, flow: &Flow, frame: &[u8]) -> bool {
        let _ = (flow, frame);
        true
    }

    /// Adds rules. Flows of the rules of one target must be disjoint, except for a rule and the one
    /// that replaces it.
    fn add(&mut self, now: Nanos, rules: Vec<(RuleId, Arc<Flow>)>);

    /// Replaces rules: an old one by a new one with its flow. Where there is room it adds the new
    /// one first and removes the old one after it, else it removes the old one first. Events are
    /// [`TargetEvent::Added`] for the new one, or one that says why it was not added, and
    /// [`TargetEvent::Removed`] for the old one, if it is gone.
    fn replace(&mut self, now: Nanos, rules: Vec<(RuleId, RuleId, Arc<Flow>)>);

    /// Removes rules.
    fn remove(&mut self, now: Nanos, rules: &[RuleId]);

    /// Asks for the counts of rules.
    fn read(&mut self, now: Nanos, rules: &[RuleId]);

    /// Does what is due and appends what happened.
    fn poll(&mut self, now: Nanos, events: &mut Vec<TargetEvent>);

    /// Returns the time at which something will be due; `None` if nothing is.
    fn next_time(&self) -> Option<Nanos>;
}
