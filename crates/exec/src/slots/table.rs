//! Table application: from a key in slots to the action to run.

use bits::{IdVec, limbs_for};
use ir::{ActionId, Arch, ExternKind, MatchKind, Program, Table, TableId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use support::work::checkpoint;
use table::{CallRef, EntryActionRef, EntryIdx, RecordLayout};

use super::Slot;
use crate::convert::record_layout;
use crate::{CurrentEntry, Found, PacketContext, State, TableState};

/// Layout of a table as code applies it: the slots of its key, and its actions.
#[derive(Clone, Debug)]
pub struct TableSite {
    /// Id of the table.
    pub id: TableId,
    /// First slot of the key. The matched fields are stored one after the other, each in its limbs.
    pub key: Slot,
    /// Number of limbs of the key.
    pub key_limbs: u32,
    /// Widths of the matched fields.
    pub key_widths: Box<[u32]>,
    /// Slots and widths of the selector keys.
    pub selectors: Box<[(Slot, u32)]>,
    /// Actions of the table, in the order of its `actions` list.
    pub actions: Box<[ActionId]>,
    /// Layout of the entries' records.
    pub records: Arc<RecordLayout>,
    /// Positions in the table's list by action id, sorted.
    positions: Box<[(ActionId, u32)]>,
    /// True if a hit counts in the direct counter implicitly (v1model).
    pub counts_hits: bool,
}

/// Result of applying a table.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'s> {
    /// Result of the lookup.
    pub found: Found,
    /// True for a hit. False if the entry refers to an empty group or a missing member.
    pub hit: bool,
    /// Position of the action to run in the table's `actions` list, if there is one.
    pub position: Option<u32>,
    /// Parameters of the action: all of their limbs.
    pub params: Params<'s>,
    /// Member of which the action is run.
    pub member: Option<u32>,
    /// Group from which the member was selected.
    pub group: Option<u32>,
}

/// Location of an action's parameters.
#[derive(Clone, Copy, Debug)]
pub enum Params<'s> {
    /// In the device's state.
    Of(&'s [u64]),
    /// In [`PacketContext::learned_params`].
    Learned,
}

impl<'s> Params<'s> {
    /// Returns the parameters.
    #[inline]
    pub fn limbs<'p>(self, learned: &'p [u64]) -> &'p [u64]
    where
        's: 'p,
    {
        match self {
            Params::Of(limbs) => limbs,
            Params::Learned => learned,
        }
    }
}

impl Applied<'_> {
    /// Returns a result without an action to run.
    fn of(found: Found) -> Self {
        Applied {
            found,
            hit: found != Found::Miss,
            position: None,
            params: Params::Of(&[]),
            member: None,
            group: None,
        }
    }
}

impl TableSite {
    /// Lays out all tables of a verified program. `take` allocates slots for a number of limbs.
    pub fn all(program: &Program, mut take: impl FnMut(u32) -> Slot) -> IdVec<TableId, TableSite> {
        let by_name = actions_by_name(program);
        let tables = program.tables.iter();
        let sites = tables.map(|(id, table)| Self::new(program, &by_name, id, table, &mut take));
        sites.collect()
    }

    fn new(
        program: &Program,
        by_name: &ActionsByName,
        id: TableId,
        table: &Table,
        mut take: impl FnMut(u32) -> Slot,
    ) -> TableSite {
        checkpoint();
        let width = |key: &ir::Key| key.expr.ty(program, None).map_or(0, |ty| ty.width());
        let is_matched = |key: &&ir::Key| key.match_kind != MatchKind::Selector;
        let key_widths: Box<[u32]> = table.keys.iter().filter(is_matched).map(width).collect();
        let key_limbs = key_widths
            .iter()
            .map(|&width| limbs_for(width) as u32)
            .sum();
        let selectors = table
            .keys
            .iter()
            .filter(|key| key.match_kind == MatchKind::Selector)
            .map(|key| (take((limbs_for(width(key)) as u32).max(1)), width(key)))
            .collect();
        let is_counted = table
            .direct_counter
            .and_then(|counter| program.externs.get(counter))
            .is_some_and(|counter| matches!(counter.kind, ExternKind::DirectCounter { .. }));
        TableSite {
            id,
            key: take(key_limbs),
            key_limbs,
            key_widths,
            selectors,
            actions: table.actions.iter().map(|action| action.action).collect(),
            records: Arc::new(record_layout(program, table)),
            positions: action_positions(program, by_name, table),
            counts_hits: is_counted && program.arch == Arch::V1model,
        }
    }

    /// Looks up the key, records the packet for the result, and returns the action to run. Sets the
    /// packet's current entry.
    #[inline]
    pub fn apply<'s>(
        &self,
        limbs: &[u64],
        packet: &mut PacketContext,
        state: &'s State,
    ) -> Applied<'s> {
        let Some(table) = state.table(self.id) else {
            return Applied::of(Found::Miss);
        };
        let found = table.find(self.key_of(limbs), &mut packet.learned_params);
        let bytes = u64::from(packet.length);
        table.record(&found, packet.lane, bytes, packet.now);
        if self.counts_hits && found != Found::Miss {
            table.count(&found, packet.lane, bytes);
        }
        packet.current = Some(CurrentEntry {
            table: self.id,
            found,
        });
        self.settle(found, limbs, packet, state)
    }

    /// Returns the key from its slots.
    #[inline]
    fn key_of<'l>(&self, limbs: &'l [u64]) -> &'l [u64] {
        &limbs[self.key as usize..][..self.key_limbs as usize]
    }

    /// Returns the entry for the key in its slots. Entries that packets added are not searched, and
    /// nothing is counted.
    #[inline]
    pub fn find(&self, limbs: &[u64], state: &State) -> Option<EntryIdx> {
        state.table(self.id)?.lookup.find(self.key_of(limbs))
    }

    /// Returns the action to run for a lookup result.
    pub fn settle<'s>(
        &self,
        found: Found,
        limbs: &[u64],
        packet: &mut PacketContext,
        state: &'s State,
    ) -> Applied<'s> {
        let mut applied = Applied::of(found);
        let Some(table) = state.table(self.id) else {
            return applied;
        };
        if let Found::Learned(hit) = &found {
            return self.run(applied, hit.action, Params::Learned, &packet.learned_params);
        }
        let action = match self.chosen(&mut applied, table, limbs, packet, state) {
            Some(action) => Some(action),
            // An empty group or a missing member is treated as a miss.
            None => {
                applied.hit = false;
                match table.lookup.action(None) {
                    EntryActionRef::Direct(call) => Some(call),
                    _ => None,
                }
            }
        };
        match action {
            Some(CallRef { action, params }) => {
                self.run(applied, action, Params::Of(params), params)
            }
            None => applied,
        }
    }

    /// Returns the position of an action in the table's list.
    #[inline]
    fn position(&self, action: ActionId) -> Option<u32> {
        let at = self.positions.binary_search_by_key(&action, |&(id, _)| id);
        at.ok().map(|at| self.positions[at].1)
    }

    /// Sets the action to run. An action that the table does not have, or that has too few
    /// parameters, is not run.
    #[inline]
    fn run<'s>(
        &self,
        applied: Applied<'s>,
        action: u32,
        params: Params<'s>,
        limbs: &[u64],
    ) -> Applied<'s> {
        let position = self.position(ActionId::new(action));
        let needed = |at: u32| self.records.param_limbs(at as usize);
        Applied {
            position: position.filter(|&at| needed(at) <= limbs.len()),
            params,
            ..applied
        }
    }

    /// Returns the action of an entry or of the default action.
    #[inline]
    fn chosen<'s>(
        &self,
        applied: &mut Applied<'s>,
        table: &'s TableState,
        limbs: &[u64],
        packet: &mut PacketContext,
        state: &State,
    ) -> Option<CallRef<'s>> {
        match table.action(&applied.found)? {
            EntryActionRef::Direct(call) => Some(call),
            EntryActionRef::Member(member) => {
                applied.member = Some(member.get());
                table.member(member).map(CallRef::from)
            }
            EntryActionRef::Group(group) => {
                applied.group = Some(group.get());
                let hash = self.selector_hash(table, limbs, packet, state);
                let member = table.pick(group, hash)?;
                applied.member = Some(member.get());
                table.member(member).map(CallRef::from)
            }
        }
    }

    /// Returns the hash of the selector keys.
    fn selector_hash(
        &self,
        table: &TableState,
        limbs: &[u64],
        packet: &mut PacketContext,
        state: &State,
    ) -> u64 {
        let Some(profile) = &table.profile else {
            return 0;
        };
        packet.data.clear();
        for &(slot, width) in &self.selectors {
            packet.data.push(&limbs[slot as usize..], width);
        }
        let data = packet.data.bytes();
        let random = &mut packet.random;
        crate::externs::hash::seeded_hash(profile.algorithm, data, &state.hash, random)
    }
}

/// Actions by their name for the control plane and their number of parameters.
type ActionsByName<'p> = HashMap<(&'p str, usize), Vec<ActionId>>;

fn actions_by_name(program: &Program) -> ActionsByName<'_> {
    let mut actions = ActionsByName::default();
    for (id, action) in program.actions.iter() {
        checkpoint();
        let name = (action.control_plane_name.as_str(), action.params.len());
        actions.entry(name).or_default().push(id);
    }
    actions
}

/// Positions of actions in the table's list, sorted by action id.
///
/// Tables that share a profile may list different specialisations of the same actions. An action
/// that the table does not list has the position of the first listed one of its name.
fn action_positions(
    program: &Program,
    by_name: &ActionsByName,
    table: &Table,
) -> Box<[(ActionId, u32)]> {
    let listed = || table.actions.iter().map(|listed| listed.action).zip(0..);
    let mut positions = BTreeMap::new();
    for (id, position) in listed() {
        checkpoint();
        positions.entry(id).or_insert(position);
    }
    let mut names = HashSet::new();
    for (id, position) in listed() {
        checkpoint();
        let Some(action) = program.actions.get(id) else {
            continue;
        };
        let name = (action.control_plane_name.as_str(), action.params.len());
        if names.insert(name) {
            for &alias in by_name.get(&name).into_iter().flatten() {
                checkpoint();
                positions.entry(alias).or_insert(position);
            }
        }
    }
    positions.into_iter().collect()
}
