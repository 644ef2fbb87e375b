//! Applying a table: from a key in slots to the action that runs.

use bits::{IdVec, limbs_for};
use ir::{ActionId, Arch, ExternKind, MatchKind, Program, Table, TableId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use table::{ActionRef, EntryAction, EntryIdx, RecordLayout};

use super::Slot;
use crate::convert::record_layout;
use crate::{CurrentEntry, Found, PacketContext, State, TableState};

/// A table as code applies it: where its key is put, and its actions.
#[derive(Clone, Debug)]
pub struct TableSite {
    /// Which.
    pub id: TableId,
    /// The first slot of the key: each matched field in its limbs, one behind the other.
    pub key: Slot,
    /// Limbs of the key.
    pub key_limbs: u32,
    /// Widths of the matched fields.
    pub key_widths: Box<[u32]>,
    /// Where the selector keys are put, with their widths.
    pub selectors: Box<[(Slot, u32)]>,
    /// The table's actions, by position.
    pub actions: Box<[ActionId]>,
    /// Where its entries' records have what.
    pub records: Arc<RecordLayout>,
    /// Positions in the table's list by action id, sorted.
    positions: Box<[(ActionId, u32)]>,
    /// v1model: a hit counts by itself.
    pub counts_hits: bool,
}

/// What applying a table came to.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'s> {
    /// What was found.
    pub found: Found,
    /// Whether that is a hit: not for an empty group, nor for a member that is gone.
    pub hit: bool,
    /// The position of the action to run in the table's list, if there is one.
    pub position: Option<u32>,
    /// Its parameters: all limbs of them.
    pub params: Params<'s>,
    /// The member whose action it is.
    pub member: Option<u32>,
    /// The group that the member was chosen from.
    pub group: Option<u32>,
}

/// Where the parameters of an action are.
#[derive(Clone, Copy, Debug)]
pub enum Params<'s> {
    /// In the device's state.
    Of(&'s [u64]),
    /// In [`PacketContext::learned_params`].
    Learned,
}

impl<'s> Params<'s> {
    /// The parameters.
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
    /// Nothing to run for what was found.
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

    /// Looks the key up, counts the packet for what was found and says what to run. The packet's current entry is what was found.
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

    /// The key in its slots.
    #[inline]
    fn key_of<'l>(&self, limbs: &'l [u64]) -> &'l [u64] {
        &limbs[self.key as usize..][..self.key_limbs as usize]
    }

    /// The entry for the key in its slots, without what packets added; counts nothing.
    #[inline]
    pub fn find(&self, limbs: &[u64], state: &State) -> Option<EntryIdx> {
        state.table(self.id)?.lookup.find(self.key_of(limbs))
    }

    /// What to run for what was found.
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
            // An empty group, or a member that is gone: as if nothing had been hit.
            None => {
                applied.hit = false;
                match table.lookup.default_action() {
                    EntryAction::Direct(action) => Some(action),
                    _ => None,
                }
            }
        };
        match action {
            Some(action) => {
                let params = &action.params[..];
                self.run(applied, action.action, Params::Of(params), params)
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

    /// An action that the table does not have, or whose parameters are missing, is not run.
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

    /// What an entry of the table, or its default action, says to run.
    #[inline]
    fn chosen<'s>(
        &self,
        applied: &mut Applied<'s>,
        table: &'s TableState,
        limbs: &[u64],
        packet: &mut PacketContext,
        state: &State,
    ) -> Option<&'s ActionRef> {
        match table.action(&applied.found)? {
            EntryAction::Direct(action) => Some(action),
            EntryAction::Member(member) => {
                applied.member = Some(member.get());
                table.member(*member)
            }
            EntryAction::Group(group) => {
                applied.group = Some(group.get());
                let hash = self.selector_hash(table, limbs, packet, state);
                let member = table.pick(*group, hash)?;
                applied.member = Some(member.get());
                table.member(member)
            }
        }
    }

    /// The hash of a selector's keys.
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
        crate::externs::hash::hash(profile.algorithm, data, &state.hash, &mut packet.random)
    }
}

/// Actions by their name for the control plane and their number of parameters.
type ActionsByName<'p> = HashMap<(&'p str, usize), Vec<ActionId>>;

fn actions_by_name(program: &Program) -> ActionsByName<'_> {
    let mut actions = ActionsByName::default();
    for (id, action) in program.actions.iter() {
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
        positions.entry(id).or_insert(position);
    }
    let mut names = HashSet::new();
    for (id, position) in listed() {
        let Some(action) = program.actions.get(id) else {
            continue;
        };
        let name = (action.control_plane_name.as_str(), action.params.len());
        if names.insert(name) {
            for &alias in by_name.get(&name).into_iter().flatten() {
                positions.entry(alias).or_insert(position);
            }
        }
    }
    positions.into_iter().collect()
}
