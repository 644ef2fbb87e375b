//! [`Index`]: the flat structure that packets search.

use super::bit_rows::{BitRow, Bits512};
use super::cells::Cells;
use super::dimension::Keys;
use super::layout::{Layout, MAX_PACKED};
use super::learned::Learned;
use super::plan::{PLANNED_ROWS, Plan};
use super::records::{FlatRule, Records};
use super::search::{Best, GROUP, NOTHING};
use super::tuples::{Tuples, hash};
use super::vectors::Vectors;
use crate::engine::{Matcher, Replay};
use crate::entry::EntryIdx;
use crate::prefetch::{BitWork, in_vectors};
use std::sync::Arc;

/// Rules that share their masks with few others: they would be tuples of their own, or make the chains of others long.
type Rows = Vectors<Bits512>;

/// The most rules in rows.
pub(super) const MAX_ROWS: usize = Bits512::PLACES;

/// So many rules are not worth a new plan.
const FEW: usize = 12;
/// A plan for so many rules takes milliseconds.
const SOON_PLANNED: usize = 4096;

/// All rules: some in independent sets, a few in rows, the others in tuples.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) layout: Arc<Layout>,
    pub(super) learned: Learned,
    pub(super) records: Records,
    /// Most of the others, where that is worth it.
    pub(super) cells: Option<Cells>,
    /// None where the key does not suit.
    pub(super) rows: Option<Rows>,
    pub(super) tuples: Tuples,
    /// Rules in cells, rows or tuples.
    live: usize,
    /// As many as there were when these were built.
    built: usize,
    /// Rules that came since, to rows or tuples.
    came: usize,
}

/// A rule comes or goes.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) is_insert: bool,
    pub(super) rule: FlatRule,
}

impl Change {
    /// The rule comes.
    pub(super) fn insert(rule: FlatRule) -> Self {
        let is_insert = true;
        Self { is_insert, rule }
    }
}

impl Index {
    /// Without rules.
    pub(super) fn empty(layout: Arc<Layout>) -> Self {
        let words = layout.words;
        Self {
            learned: Learned::default(),
            records: Records::new(words),
            cells: None,
            rows: None,
            tuples: Tuples::new(words, [], &[]),
            live: 0,
            built: 0,
            came: 0,
            layout,
        }
    }

    /// With rules in sets and these others. Keys are of `all` rules, or like them.
    pub(super) fn new(
        layout: &Arc<Layout>,
        learned: Learned,
        mut others: Vec<FlatRule>,
        all: &[FlatRule],
    ) -> Self {
        let cells = Cells::of_most(layout, &mut others, PLANNED_ROWS);
        let plan = Plan::new(layout, &others, all);
        let mut index = Self::build(layout.clone(), &others, &plan);
        index.learned = learned;
        index.live += cells.as_ref().map_or(0, Cells::len);
        index.built = index.live;
        index.cells = cells.map(|mut cells| {
            cells.trust(&index.rows.as_ref().map_or(Vec::new(), Rows::rules));
            cells
        });
        index
    }

    /// With rules in rows and tuples, by a plan.
    pub(super) fn build(layout: Arc<Layout>, rules: &[FlatRule], plan: &Plan) -> Self {
        let mut index = Self::empty(layout);
        index.live = rules.len();
        index.built = rules.len();
        index.records.reserve(rules.len() + rules.len() / 16);
        let in_rows: Vec<FlatRule> = plan
            .rows
            .iter()
            .map(|&rule| rules[rule as usize].clone())
            .collect();
        index.rows = Rows::new(&index.layout, Keys::Words, &in_rows);
        let mut chains = vec![0; plan.masks.len()];
        for tuple in plan.tuple_of.iter().flatten() {
            chains[*tuple as usize] += 1;
        }
        let masks = plan.masks.iter().cloned().zip(chains);
        index.tuples = Tuples::new(index.layout.words, masks, &plan.windows);
        // Chains in a row in memory, each begun with its worst rule, so that all others come first.
        let mut order: Vec<(u32, u64, usize)> = (0..rules.len())
            .filter_map(|at| {
                let tuple = plan.tuple_of[at]?;
                let mask = &plan.masks[tuple as usize];
                Some((tuple, hash::<0>(rules[at].a(), mask), at))
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
        if index.rows.is_none() {
            for rule in &in_rows {
                index.tuples.insert(rule, &index.layout, &mut index.records);
            }
        }
        index.tuples.fit();
        index
    }

    /// How many rules cells, rows and tuples were built with.
    pub(super) fn built(&self) -> usize {
        self.built
    }

    /// Whether cells, rows and tuples have changed so much since they were built that they should be built anew.
    pub(super) fn is_outgrown(&self) -> bool {
        self.live > (self.built * 2).max(FEW)
            || self.live < self.built / 4
            || self.live <= SOON_PLANNED && self.came > FEW.max(self.live / 4)
            || self.cells.as_ref().is_some_and(Cells::is_outgrown)
    }

    /// Whether so many rules of the sets are gone that the others should go elsewhere.
    pub(super) fn is_forgotten(&self) -> bool {
        self.learned.live() < self.learned.built() / 4
    }

    /// How many rules there are.
    pub(super) fn len(&self) -> usize {
        self.learned.live() + self.live
    }

    /// The rules of cells, rows and tuples.
    pub(super) fn others(&self) -> Vec<FlatRule> {
        let live = self.records.live();
        let in_tuples = live.map(|record| self.records.rule(record));
        in_tuples
            .chain(self.rows.iter().flat_map(Rows::rules))
            .chain(self.cells.iter().flat_map(Cells::rules))
            .collect()
    }

    /// All rules.
    pub(super) fn rules(&self) -> Vec<FlatRule> {
        let mut rules = self.others();
        rules.extend(self.learned.rules());
        rules
    }

    fn insert(&mut self, rule: &FlatRule) {
        self.live += 1;
        if let Some(cells) = &mut self.cells {
            let rows = self.rows.iter().flat_map(Rows::all);
            if cells.insert(rule, rows) {
                return;
            }
        }
        self.came += 1;
        let has_tuple = self.tuples.suit(rule, &self.layout, &self.records);
        let rows = self.rows.as_mut().filter(|_| !has_tuple);
        if let Some(rows) = rows.filter(|rows| !rows.is_outgrown() && rows.takes(rule)) {
            rows.insert(rule);
            if let Some(cells) = &mut self.cells {
                cells.heed(rule);
            }
        } else {
            self.tuples.insert(rule, &self.layout, &mut self.records);
        }
    }

    fn remove(&mut self, rule: &FlatRule) {
        if self.learned.remove(rule) {
            return;
        }
        let is_gone = self.cells.as_mut().is_some_and(|cells| cells.remove(rule))
            || self.rows.as_mut().is_some_and(|rows| rows.remove(rule))
            || self.tuples.remove(rule, &self.layout, &mut self.records);
        debug_assert!(is_gone, "a rule that is removed was inserted");
        self.live -= usize::from(is_gone);
    }

    /// Up to [`GROUP`] packed keys, one after the other.
    pub(super) fn search_words(&self, keys: &[u64]) -> [Best; GROUP] {
        let mut key: [&[u64]; GROUP] = [&[]; GROUP];
        let mut count = 0;
        for (key, words) in key.iter_mut().zip(keys.chunks(self.layout.words)) {
            *key = words;
            count += 1;
        }
        let (index, keys, mut best) = (self, &key[..count], [NOTHING; GROUP]);
        let out = &mut best;
        match self.layout.words {
            1 => in_vectors(Group::<1> { index, keys, out }),
            2 => in_vectors(Group::<2> { index, keys, out }),
            3 => in_vectors(Group::<3> { index, keys, out }),
            4 => in_vectors(Group::<4> { index, keys, out }),
            _ => in_vectors(Group::<0> { index, keys, out }),
        }
        best
    }

    fn find_as<const N: usize>(&self, key: &[u64]) -> Option<EntryIdx> {
        let mut packed = [0; MAX_PACKED];
        self.search_one::<N>(self.layout.pack::<N>(key, &mut packed))
    }
}

impl Index {
    /// What a copy takes that shares the sets.
    pub(super) fn own_bytes(&self) -> usize {
        let rows = self.rows.as_ref().map_or(0, Rows::bytes);
        let cells = self.cells.as_ref().map_or(0, Cells::bytes);
        self.learned.own_bytes() + self.records.bytes() + self.tuples.bytes() + rows + cells
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

/// Packed keys, up to [`GROUP`].
struct Group<'b, const N: usize> {
    index: &'b Index,
    keys: &'b [&'b [u64]],
    out: &'b mut [Best; GROUP],
}

impl<const N: usize> BitWork for Group<'_, N> {
    #[inline(always)]
    fn run(self) {
        *self.out = self.index.search_packed::<N>(self.keys);
    }
}

/// A batch of lookups.
struct Batch<'b, const N: usize> {
    index: &'b Index,
    keys: &'b [u64],
    out: &'b mut [Option<EntryIdx>],
}

impl<const N: usize> BitWork for Batch<'_, N> {
    #[inline(always)]
    fn run(self) {
        let stride = self.keys.len().checked_div(self.out.len()).unwrap_or(0);
        for (i, out) in self.out.chunks_mut(GROUP).enumerate() {
            let first = i * GROUP * stride;
            let keys = &self.keys[first..first + out.len() * stride];
            self.index.search_group::<N>(keys, stride, out);
        }
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
        let index = self;
        match self.layout.words {
            1 => in_vectors(Batch::<1> { index, keys, out }),
            2 => in_vectors(Batch::<2> { index, keys, out }),
            3 => in_vectors(Batch::<3> { index, keys, out }),
            4 => in_vectors(Batch::<4> { index, keys, out }),
            _ => in_vectors(Batch::<0> { index, keys, out }),
        }
    }

    fn memory(&self) -> usize {
        self.learned.shared_bytes() + self.own_bytes()
    }
}
