//! [`Index`]: the flat structure that packets search.

use super::layout::{Layout, MAX_PACKED};
use super::plan::Plan;
use super::records::{FlatRule, Records};
use super::search::GROUP;
use super::tuples::{Tuples, hash};
use crate::engine::{Matcher, Replay};
use crate::entry::EntryIdx;
use std::sync::Arc;

/// So many rules are a list.
const FEW: usize = 12;

/// All rules, in a list or in tuples.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) layout: Arc<Layout>,
    pub(super) records: Records,
    /// Rules in no structure, by rank; all of them where there are few.
    pub(super) list: Vec<u32>,
    pub(super) tuples: Tuples,
    /// Rules.
    live: usize,
    /// Rules when it was built.
    built: usize,
}

/// A rule comes or goes.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) is_insert: bool,
    pub(super) rule: FlatRule,
}

impl Index {
    /// Without rules.
    pub(super) fn empty(layout: Arc<Layout>) -> Self {
        let words = layout.words;
        Self {
            records: Records::new(words),
            list: Vec::new(),
            tuples: Tuples::new(words, [], &[]),
            live: 0,
            built: 0,
            layout,
        }
    }

    /// With these rules.
    pub(super) fn build(layout: Arc<Layout>, rules: &[FlatRule], plan: &Plan) -> Self {
        let mut index = Self::empty(layout);
        index.live = rules.len();
        index.built = rules.len();
        index.records.reserve(rules.len() + rules.len() / 16);
        if rules.len() <= FEW {
            let mut order: Vec<&FlatRule> = rules.iter().collect();
            order.sort_unstable_by_key(|rule| rule.rank);
            index.list = order
                .into_iter()
                .map(|rule| index.records.add(rule, super::records::NONE))
                .collect();
            return index;
        }
        let mut chains = vec![0; plan.masks.len()];
        for &tuple in &plan.tuple_of {
            chains[tuple as usize] += 1;
        }
        let masks = plan.masks.iter().cloned().zip(chains);
        index.tuples = Tuples::new(index.layout.words, masks, &plan.windows);
        // Chains in a row in memory, each begun with its worst rule, so that all others come first.
        let mut order: Vec<(u32, u64, usize)> = (0..rules.len())
            .map(|at| {
                let tuple = plan.tuple_of[at];
                let mask = &plan.masks[tuple as usize];
                (tuple, hash::<0>(rules[at].a(), mask), at)
            })
            .collect();
        order.sort_unstable_by_key(|&(tuple, hash, at)| {
            (tuple, hash >> 32, std::cmp::Reverse(rules[at].rank))
        });
        for (tuple, _, at) in order {
            let rule = &rules[at];
            index
                .tuples
                .insert_into(tuple as usize, rule, &mut index.records);
        }
        index
    }

    /// Whether it has changed so much since it was built that it should be built anew.
    pub(super) fn is_outgrown(&self) -> bool {
        self.live > (self.built * 2).max(FEW) || self.live < self.built / 4
    }

    /// All rules.
    pub(super) fn rules(&self) -> Vec<FlatRule> {
        let live = self.records.live();
        live.map(|record| self.records.rule(record)).collect()
    }

    fn insert(&mut self, rule: &FlatRule) {
        self.live += 1;
        if self.tuples.len() > 0 {
            self.tuples.insert(rule, &self.layout, &mut self.records);
            return;
        }
        let rank = |record: u32| self.records.get(record).rank();
        let place = self.list.partition_point(|&at| rank(at) < rule.rank);
        let record = self.records.add(rule, super::records::NONE);
        self.list.insert(place, record);
    }

    fn remove(&mut self, rule: &FlatRule) {
        let listed = self
            .list
            .iter()
            .position(|&at| self.records.get(at).rank() == rule.rank);
        let is_gone = match listed {
            Some(place) => {
                let record = self.list.remove(place);
                self.records.free(record);
                true
            }
            None => self.tuples.remove(rule, &self.layout, &mut self.records),
        };
        debug_assert!(is_gone, "a rule that is removed was inserted");
        self.live -= usize::from(is_gone);
    }

    fn find_as<const N: usize>(&self, key: &[u64]) -> Option<EntryIdx> {
        let mut packed = [0; MAX_PACKED];
        self.search_one::<N>(self.layout.pack(key, &mut packed))
    }

    fn find_batch_as<const N: usize>(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let stride = keys.len().checked_div(out.len()).unwrap_or(0);
        for (i, out) in out.chunks_mut(GROUP).enumerate() {
            let first = i * GROUP * stride;
            let keys = &keys[first..first + out.len() * stride];
            self.search_group::<N>(keys, stride, out);
        }
    }
}

impl Replay for Index {
    type Op = Change;

    fn apply(&mut self, change: &Change) {
        if change.is_insert {
            self.insert(&change.rule);
        } else {
            self.remove(&change.rule);
        }
    }

    fn clone_cost(&self) -> usize {
        // A clone copies about a hundred bytes a rule; a change touches a few cache lines.
        self.live / 32 + 16
    }
}

impl Matcher for Index {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        match self.layout.words {
            1 => self.find_as::<1>(key),
            2 => self.find_as::<2>(key),
            3 => self.find_as::<3>(key),
            4 => self.find_as::<4>(key),
            _ => self.find_as::<0>(key),
        }
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        match self.layout.words {
            1 => self.find_batch_as::<1>(keys, out),
            2 => self.find_batch_as::<2>(keys, out),
            3 => self.find_batch_as::<3>(keys, out),
            4 => self.find_batch_as::<4>(keys, out),
            _ => self.find_batch_as::<0>(keys, out),
        }
    }

    fn memory(&self) -> usize {
        self.records.bytes() + self.tuples.bytes() + self.list.len() * 4
    }
}
