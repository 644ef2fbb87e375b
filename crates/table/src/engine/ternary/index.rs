//! [`Index`]: search structure for many rules, as packets read it.

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

/// Bit vectors for rules that share their masks with few others. Such rules would need their own
/// tuples, or make the chains of other tuples long.
type Rows = Vectors<Bits512>;

/// Maximum number of rules in bit vectors.
pub(super) const MAX_ROWS: usize = Bits512::PLACES;

/// Up to this number of rules, a new plan does not pay.
const FEW: usize = 12;
/// Up to this number of rules, making a plan takes only milliseconds.
const SOON_PLANNED: usize = 4096;

/// All rules: some in independent sets, a few in bit vectors, the others in cells or tuples.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) layout: Arc<Layout>,
    pub(super) learned: Learned,
    pub(super) records: Records,
    /// Cells with most of the rules outside of sets, if that pays.
    pub(super) cells: Option<Cells>,
    /// Bit vectors; `None` if the key does not suit.
    pub(super) rows: Option<Rows>,
    pub(super) tuples: Tuples,
    /// Number of rules in cells, bit vectors and tuples.
    live: usize,
    /// Number of these rules when the index was built.
    built: usize,
    /// Number of rules inserted into bit vectors or tuples since then.
    came: usize,
}

/// Log record: a rule is inserted or removed.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) is_insert: bool,
    pub(super) rule: FlatRule,
}

impl Change {
    /// Creates the operation that inserts a rule.
    pub(super) fn insert(rule: FlatRule) -> Self {
        let is_insert = true;
        Self { is_insert, rule }
    }
}

impl Index {
    /// Creates an index without rules.
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

    /// Creates an index from the rules in `learned` and these others. `all` has the rules from
    /// which sample keys are drawn.
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

    /// Creates an index with the rules in bit vectors and tuples, according to a plan.
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
        // Insert chain after chain, so that each is contiguous in memory, and each with its worst
        // rule first, because insertion adds at the head.
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

    /// Returns the number of rules in cells, bit vectors and tuples when these were built.
    pub(super) fn built(&self) -> usize {
        self.built
    }

    /// Returns true if cells, bit vectors and tuples have changed so much that they should be
    /// rebuilt.
    pub(super) fn is_outgrown(&self) -> bool {
        self.live > (self.built * 2).max(FEW)
            || self.live < self.built / 4
            || self.live <= SOON_PLANNED && self.came > FEW.max(self.live / 4)
            || self.cells.as_ref().is_some_and(Cells::is_outgrown)
    }

    /// Returns true if so few rules of the independent sets are left that they should be moved
    /// elsewhere.
    pub(super) fn is_forgotten(&self) -> bool {
        self.learned.live() < self.learned.built() / 4
    }

    /// Returns the number of rules.
    pub(super) fn len(&self) -> usize {
        self.learned.live() + self.live
    }

    /// Returns the rules in cells, bit vectors and tuples.
    pub(super) fn others(&self) -> Vec<FlatRule> {
        let live = self.records.live();
        let in_tuples = live.map(|record| self.records.rule(record));
        in_tuples
            .chain(self.rows.iter().flat_map(Rows::rules))
            .chain(self.cells.iter().flat_map(Cells::rules))
            .collect()
    }

    /// Returns all rules.
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

    /// Searches up to [`GROUP`] packed keys, which are consecutive in `keys`.
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
    /// Returns the size in bytes of a copy that shares the independent sets.
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
        // A clone copies about 100 bytes for each rule, while a change touches a few cache lines.
        self.live / 32 + 16
    }
}

/// Work item: search for up to [`GROUP`] packed keys.
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

/// Work item: a batch of lookups.
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
