//! Decides which steps of a chain are merged.
//!
//! Steps are visited in order. A step is merged with the steps before it if all of these hold:
//!
//! - those steps are one merged group already;
//! - each of them can be followed;
//! - its parser is equal to that of the first step of the group.
//!
//! If a step stays separate, so do all other steps that packets may reach instead of it.

use std::collections::{BTreeMap, BTreeSet};

use bits::{Id, IdVec};
use ir::{FieldId, HeaderId};

use support::work::checkpoint;

use super::profile::{Profile, TIMES_AND_DEPTHS, TOLD};
use super::reason::Reason;
use super::same;
use crate::compose::Steps;
use crate::compose::graph::{Next, Node, NodeId, What};
use crate::link::Known;

/// The steps that are merged.
pub(in crate::compose) struct Plan {
    /// For each step, the first one of its group.
    pub(in crate::compose) first: IdVec<NodeId, NodeId>,
    /// The storage that a step shares with that first one, by ids of both programs.
    pub(in crate::compose) shared: BTreeMap<NodeId, Known>,
    /// For each step with predecessors, the reason why it stays separate, if it does.
    pub(in crate::compose) apart: BTreeMap<NodeId, Reason>,
}

/// Returns the plan that merges nothing.
pub(in crate::compose) fn apart(nodes: &IdVec<NodeId, Node<'_>>, why: &Reason) -> Plan {
    Plan {
        first: nodes.ids().collect(),
        shared: BTreeMap::new(),
        apart: nodes.ids().map(|id| (id, why.clone())).collect(),
    }
}

/// Returns the plan that merges as many steps as possible.
pub(in crate::compose) fn plan<'n>(nodes: &'n IdVec<NodeId, Node<'n>>, steps: &Steps<'n>) -> Plan {
    let mut planner = Planner {
        nodes,
        before: nodes.ids().map(|_| Vec::new()).collect(),
        profiles: Vec::new(),
        apart: BTreeMap::new(),
        ends: BTreeSet::new(),
    };
    for (id, node) in nodes.iter() {
        checkpoint();
        planner.profiles.push(match node.what {
            What::Program(step) => steps[id].and_then(|program| Profile::of(&step.name, program)),
            What::Choice | What::End => None,
        });
    }
    for (id, node) in nodes.iter() {
        checkpoint();
        for next in node.successors() {
            planner.before[next].push(id);
        }
    }
    planner.keep_choices_apart();
    loop {
        let plan = planner.pass();
        if !planner.cut(&plan) {
            return plan;
        }
    }
}

fn step_name<'n>(nodes: &'n IdVec<NodeId, Node<'_>>, id: NodeId) -> Option<&'n str> {
    match nodes[id].what {
        What::Program(step) => Some(&step.name),
        What::Choice | What::End => None,
    }
}

struct Planner<'n> {
    nodes: &'n IdVec<NodeId, Node<'n>>,
    /// Predecessors of each step.
    before: IdVec<NodeId, Vec<NodeId>>,
    profiles: Vec<Option<Profile<'n>>>,
    /// Steps that stay separate from their predecessors.
    apart: BTreeMap<NodeId, Reason>,
    /// Steps from which all successors stay separate.
    ends: BTreeSet<NodeId>,
}

impl Planner<'_> {
    /// Keeps steps around certain choices separate: those that test metadata which the device sets
    /// for each step. Such a choice is about its own step and the packet that this step emitted.
    fn keep_choices_apart(&mut self) {
        for (id, node) in self.nodes.iter() {
            checkpoint();
            let Some(field) = asks_for_what_is_told(&node.next) else {
                continue;
            };
            let apart = node.successors().into_iter().chain([id]);
            for apart in apart.filter(|id| !self.before[*id].is_empty()) {
                let (step, field) = (self.name(id), field.to_owned());
                let reason = Reason::Decides { step, field };
                self.apart.entry(apart).or_insert(reason);
            }
        }
    }

    /// Visits all steps in order, with the separations known so far.
    fn pass(&mut self) -> Plan {
        let mut plan = Plan {
            first: IdVec::new(),
            shared: BTreeMap::new(),
            apart: BTreeMap::new(),
        };
        for id in self.nodes.ids() {
            checkpoint();
            let first = match self.joined(id, &plan) {
                Ok(first) => first,
                Err(reason) => {
                    if !self.before[id].is_empty() {
                        self.apart.entry(id).or_insert(reason);
                    }
                    plan.first.push(id);
                    continue;
                }
            };
            plan.first.push(first.0);
            plan.shared.insert(id, first.1);
        }
        plan.apart.clone_from(&self.apart);
        plan
    }

    /// Returns the first step of the group that a step joins, and the storage that it shares with
    /// it.
    fn joined(&self, id: NodeId, plan: &Plan) -> Result<(NodeId, Known), Reason> {
        if let Some(reason) = self.apart.get(&id) {
            return Err(reason.clone());
        }
        let other_way = |id: NodeId| Reason::OtherWay {
            step: self.name(id),
        };
        let before = &self.before[id];
        let Some(&one) = before.first() else {
            return Err(other_way(id));
        };
        let first = plan.first[one];
        if let Some(&other) = before.iter().find(|&&other| plan.first[other] != first) {
            return Err(other_way(other));
        }
        for &step in before {
            checkpoint();
            if self.ends.contains(&step) {
                return Err(other_way(step));
            }
            if let Some(profile) = &self.profiles[step.index()] {
                profile.can_be_followed()?;
            }
        }
        let Some(entry) = &self.profiles[first.index()] else {
            return Err(other_way(first));
        };
        match &self.profiles[id.index()] {
            None => Ok((first, Known::default())),
            Some(profile) => Ok((first, shared(entry, profile)?)),
        }
    }

    fn name(&self, id: NodeId) -> String {
        step_name(self.nodes, id).unwrap_or("a choice").to_owned()
    }

    /// Derives further separations from the known ones. Returns true if there were any.
    fn cut(&mut self, plan: &Plan) -> bool {
        let known = (self.apart.len(), self.ends.len());
        for &id in plan.apart.keys() {
            checkpoint();
            self.ends.extend(&self.before[id]);
        }
        for id in self.ends.clone() {
            checkpoint();
            for next in self.nodes[id].successors() {
                let step = self.name(id);
                self.apart.entry(next).or_insert(Reason::OtherWay { step });
            }
        }
        for id in self.mixed_ends(plan) {
            let step = self.name(id);
            self.apart.entry(id).or_insert(Reason::OtherWay { step });
        }
        known != (self.apart.len(), self.ends.len())
    }

    /// Returns the last members of the groups that have no single successor. Their last members
    /// neither all end the chain nor all lead to one step.
    fn mixed_ends(&self, plan: &Plan) -> Vec<NodeId> {
        let mut lasts: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in self.nodes.iter() {
            checkpoint();
            let stays = |next: &NodeId| plan.first[*next] == plan.first[id];
            if !node.successors().iter().any(stays) {
                lasts.entry(plan.first[id]).or_default().push(id);
            }
        }
        let way = |id: NodeId| match self.nodes[id].next {
            Next::End => Some(None),
            Next::Node(next) => Some(Some(next)),
            Next::Choice { .. } => None,
        };
        let mut mixed = Vec::new();
        for ids in lasts.into_values().filter(|ids| ids.len() > 1) {
            let ways: Vec<_> = ids.iter().map(|&id| way(id)).collect();
            if ways.contains(&None) || ways.iter().any(|way| way != &ways[0]) {
                mixed.extend(ids.into_iter().filter(|&id| plan.first[id] != id));
            }
        }
        mixed
    }
}

/// Returns a field in a choice's conditions that the device sets for each step. A field of another
/// kind with the same name counts too.
fn asks_for_what_is_told<'n>(next: &Next<'n>) -> Option<&'n str> {
    let Next::Choice { arms, .. } = next else {
        return None;
    };
    let is_told = |name: &&str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        TOLD.contains(&last) || TIMES_AND_DEPTHS.contains(&last)
    };
    let mut names = arms.iter().flat_map(|(condition, _)| condition.fields());
    names.find(is_told)
}

/// Returns the storage that two steps share when they are merged.
fn shared(entry: &Profile<'_>, step: &Profile<'_>) -> Result<Known, Reason> {
    step.can_follow()?;
    let differ = |differs| Reason::OtherParser {
        step: step.step.to_owned(),
        before: entry.step.to_owned(),
        differs,
    };
    let known = same::parsers((entry.program, entry.parser), (step.program, step.parser))
        .map_err(differ)?;
    let is_standard = |(_, field): &(&FieldId, &FieldId)| {
        checkpoint();
        let mut standard = entry.program.pipeline.intrinsics.values();
        standard.any(|intrinsic| intrinsic == *field)
    };
    let own = || known.fields.iter().filter(|pair| !is_standard(pair));
    let is_indexed = step.indexes(own().map(|(field, _)| *field))
        || entry.indexes(own().map(|(_, field)| *field));
    match is_indexed
        || in_stacks(entry, known.headers.values())
        || in_stacks(step, known.headers.keys())
    {
        true => Err(differ("elements of stacks and arrays")),
        false => Ok(known),
    }
}

/// Returns true if some of these headers are elements of stacks.
fn in_stacks<'h>(profile: &Profile<'_>, mut headers: impl Iterator<Item = &'h HeaderId>) -> bool {
    let stacks = profile.program.stacks.values();
    let ranges: Vec<_> = stacks
        .map(|stack| stack.first.get()..stack.first.get() + stack.len)
        .collect();
    headers.any(|header| {
        checkpoint();
        ranges.iter().any(|range| range.contains(&header.get()))
    })
}
