//! Flows that are known: by number, by the frames that match them, and by the objects they met.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use ir::TableId;
use packet::{Nanos, PortId};
use table::EntryId;

use super::FlowState;
use crate::flow::{Flow, Step};
use crate::index::FlowIndex;
use crate::target::{RuleCounts, RuleId};
use crate::trace::Traced;

/// Number of a known flow. It stays when the flow's rule is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// A known flow.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) traced: Traced,
    /// A frame of the flow, to trace it again.
    pub(super) sample: Vec<u8>,
    pub(super) state: FlowState,
    /// The rule that the target has or adds.
    pub(super) rule: Option<RuleId>,
    /// Time since which the rule is there.
    pub(super) since: Nanos,
    /// Time at which the target's counts rose last.
    pub(super) counted: Nanos,
    /// Packets in software and in the target since the last decision.
    pub(super) in_software: u64,
    pub(super) in_target: u64,
    /// The last frames of this period that came to software although the hardware has a rule.
    pub(super) missed: VecDeque<Vec<u8>>,
    /// Packets since the flow is known.
    pub(super) all_in_software: u64,
    pub(super) all_in_target: u64,
    /// Packets a second.
    pub(super) rate: u64,
    /// Time before which a flow that was refused or evicted is not tried again.
    pub(super) not_before: Nanos,
    pub(super) last_use: Nanos,
    /// A decision was about it.
    pub(super) is_decided: bool,
}

/// Largest number of frames that are kept for one flow.
const MAX_MISSED: usize = 4;

impl Known {
    /// Notes a frame in software.
    pub(super) fn miss(&mut self, frame: &[u8]) {
        if self.state != FlowState::InHardware {
            return;
        }
        let mut place = match self.missed.len() < MAX_MISSED {
            true => Vec::new(),
            false => self.missed.pop_front().unwrap_or_default(),
        };
        place.clear();
        place.extend_from_slice(frame);
        self.missed.push_back(place);
    }

    /// Returns true if the flow sends packets to a port.
    pub(super) fn sends_to(&self, port: PortId) -> bool {
        let mut steps = self.flow().steps.iter();
        steps.any(|step| *step == Step::Output(port))
    }

    pub(super) fn flow(&self) -> &Arc<Flow> {
        &self.traced.flow
    }
}

/// A rule of the target.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: FlowId,
    pub(super) flow: Arc<Flow>,
    /// Counts that were credited.
    pub(super) counts: RuleCounts,
    /// The rule that takes its place.
    pub(super) successor: Option<RuleId>,
    /// The target has added it.
    pub(super) is_added: bool,
    /// The flow's objects are those of the program that runs now.
    pub(super) is_of_program: bool,
}

/// All known flows.
#[derive(Debug, Default)]
pub(super) struct KnownFlows {
    flows: BTreeMap<FlowId, Known>,
    next: u64,
    by_match: FlowIndex<FlowId>,
    by_table: HashMap<TableId, BTreeSet<FlowId>>,
    by_entry: HashMap<(TableId, Option<EntryId>), BTreeSet<FlowId>>,
}

impl KnownFlows {
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn get(&self, id: FlowId) -> Option<&Known> {
        self.flows.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut Known> {
        self.flows.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FlowId, &Known)> {
        self.flows.iter().map(|(id, known)| (*id, known))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (FlowId, &mut Known)> {
        self.flows.iter_mut().map(|(id, known)| (*id, known))
    }

    /// Returns the first flow after this one, or the first of all.
    pub(super) fn after(&self, id: FlowId) -> Option<FlowId> {
        let after = self.flows.range(FlowId(id.0 + 1)..).next();
        after
            .or_else(|| self.flows.first_key_value())
            .map(|(id, _)| *id)
    }

    /// Returns the oldest flow that a frame matches.
    pub(super) fn find(&self, ingress: PortId, frame: &[u8]) -> Option<FlowId> {
        let fits = |id: &FlowId| self.flows[id].flow().matches(ingress, frame);
        self.by_match.candidates(ingress, frame).filter(fits).min()
    }

    /// Returns another known flow with the same packets.
    pub(super) fn twin(&self, of: FlowId, flow: &Flow) -> Option<FlowId> {
        let is_twin = |id: &FlowId| {
            let other = self.flows[id].flow();
            *id != of && other.length == flow.length && other.checksums == flow.checksums
        };
        self.by_match.with_match_of(flow).find(is_twin)
    }

    pub(super) fn add(&mut self, make: impl FnOnce() -> Known) -> FlowId {
        self.next += 1;
        let id = FlowId(self.next);
        self.flows.insert(id, make());
        self.index(id, true);
        id
    }

    pub(super) fn remove(&mut self, id: FlowId) -> Option<Known> {
        self.index(id, false);
        self.flows.remove(&id)
    }

    /// Gives a flow another match or effect.
    pub(super) fn change(&mut self, id: FlowId, traced: Traced) {
        self.index(id, false);
        if let Some(known) = self.flows.get_mut(&id) {
            known.traced = traced;
        }
        self.index(id, true);
    }

    /// Gives a flow other objects.
    pub(super) fn renumber(&mut self, id: FlowId, flow: Arc<Flow>) {
        self.index(id, false);
        if let Some(known) = self.flows.get_mut(&id) {
            known.traced.flow = flow;
        }
        self.index(id, true);
    }

    /// Adds a flow to all indices, or removes it.
    fn index(&mut self, id: FlowId, is_added: bool) {
        fn put<K: std::hash::Hash + Eq>(
            map: &mut HashMap<K, BTreeSet<FlowId>>,
            key: K,
            id: FlowId,
            is_added: bool,
        ) {
            if is_added {
                map.entry(key).or_default().insert(id);
            } else if let Some(ids) = map.get_mut(&key) {
                ids.remove(&id);
                if ids.is_empty() {
                    map.remove(&key);
                }
            }
        }
        let Some(known) = self.flows.get(&id) else {
            return;
        };
        let flow = known.flow();
        match is_added {
            true => self.by_match.insert(flow, id),
            false => self.by_match.remove(flow, id),
        }
        for met in &flow.met.lookups {
            put(&mut self.by_table, met.table, id, is_added);
            put(&mut self.by_entry, (met.table, met.entry), id, is_added);
        }
    }

    /// Returns the flows that looked up a table.
    pub(super) fn of_table(&self, table: TableId) -> impl Iterator<Item = FlowId> + '_ {
        self.by_table.get(&table).into_iter().flatten().copied()
    }

    /// Returns the flows that hit an entry, or missed for `None`.
    pub(super) fn of_entry(
        &self,
        table: TableId,
        entry: Option<EntryId>,
    ) -> impl Iterator<Item = FlowId> + '_ {
        self.by_entry
            .get(&(table, entry))
            .into_iter()
            .flatten()
            .copied()
    }
}
