//! Flows that are known: by number, by the frames that match them, and by the objects they met.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ir::TableId;
use packet::{Nanos, PortId};
use table::EntryId;

use super::FlowState;
use crate::flow::Flow;
use crate::target::{RuleCounts, RuleId};
use crate::trace::Traced;

/// Number of a known flow. It stays when the flow's rule is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// A known flow.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) traced: Traced,
    /// The same flow, as rules share it.
    pub(super) flow: Arc<Flow>,
    /// A frame of the flow, to trace it again.
    pub(super) sample: Vec<u8>,
    pub(super) state: FlowState,
    /// The rule that the target has or adds.
    pub(super) rule: Option<RuleId>,
    /// Time since which the rule is there.
    pub(super) since: Nanos,
    /// Packets in software and in the target since the last decision.
    pub(super) in_software: u64,
    pub(super) in_target: u64,
    /// Packets a second.
    pub(super) rate: u64,
    /// Time before which a flow that was refused or evicted is not tried again.
    pub(super) not_before: Nanos,
    pub(super) last_use: Nanos,
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
}

/// Ranges of bytes with their masks: what a flow compares.
type Shape = Vec<(u32, Vec<u8>)>;

/// Ingress port and bytes that flows of a shape require.
type Values = (PortId, Vec<u8>);

/// All known flows.
#[derive(Debug, Default)]
pub(super) struct KnownFlows {
    flows: BTreeMap<FlowId, Known>,
    next: u64,
    /// Flows by what they compare, and then by the values.
    by_shape: HashMap<Shape, HashMap<Values, BTreeSet<FlowId>>>,
    by_table: HashMap<TableId, BTreeSet<FlowId>>,
    by_entry: HashMap<(TableId, Option<EntryId>), BTreeSet<FlowId>>,
}

fn shape_of(flow: &Flow) -> Shape {
    let matched = flow.matched.iter();
    matched
        .map(|bits| (bits.offset, bits.mask.clone()))
        .collect()
}

fn values_of(flow: &Flow) -> Values {
    let values = flow.matched.iter().flat_map(|bits| &bits.value);
    (flow.ingress, values.copied().collect())
}

/// Returns the values of a frame that flows of this shape compare.
fn masked(shape: &Shape, frame: &[u8]) -> Option<Vec<u8>> {
    let mut values = Vec::new();
    for (offset, mask) in shape {
        let bytes = frame.get(*offset as usize..)?.get(..mask.len())?;
        values.extend(bytes.iter().zip(mask).map(|(byte, mask)| byte & mask));
    }
    Some(values)
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
        let found = self.by_shape.iter().filter_map(|(shape, flows)| {
            let values = masked(shape, frame)?;
            let ids = flows.get(&(ingress, values))?;
            let mut fits = ids
                .iter()
                .filter(|id| self.flows[id].flow.matches(ingress, frame));
            fits.next().copied()
        });
        found.min()
    }

    /// Returns another known flow with the same packets.
    pub(super) fn twin(&self, of: FlowId, flow: &Flow) -> Option<FlowId> {
        let ids = self.by_shape.get(&shape_of(flow))?.get(&values_of(flow))?;
        let is_twin = |id: &&FlowId| **id != of && self.flows[id].flow.length == flow.length;
        ids.iter().find(is_twin).copied()
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
            known.flow = Arc::new(traced.flow.clone());
            known.traced = traced;
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
        let flow = &known.flow;
        let shape = shape_of(flow);
        let of_shape = self.by_shape.entry(shape.clone()).or_default();
        put(of_shape, values_of(flow), id, is_added);
        if of_shape.is_empty() {
            self.by_shape.remove(&shape);
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
