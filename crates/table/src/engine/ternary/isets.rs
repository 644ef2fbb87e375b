//! [`Iset`]: independent set, rules of which a key can match at most one, searched by a learned
//! index ([`model`](super::model)).
//!
//! In one window of the key, these rules are disjoint intervals. The model predicts approximately
//! where the interval with a key's number is. A bounded search finds the position, and the one rule
//! there is compared in full. [`Partition`] takes the largest such sets out of a rule set, one
//! after the other (Rashelbach et al., SIGCOMM 2020, section 3.6).

use super::layout::Layout;
use super::model::{AT_ONCE, Interval, Leaf, Model};
use super::records::{FlatRule, NONE, Record, Records};
use super::windows::Window;
use crate::prefetch::prefetch;
use std::hint::select_unpredictable;

/// Width of a window in bits.
const BITS: u32 = 32;
/// Maximum number of sets.
pub(super) const MAX_ISETS: usize = 4;
/// Minimum size of a set: one in `MIN_SHARE` of all rules. A smaller set costs more than it
/// saves.
const MIN_SHARE: usize = 12;

/// Rules with disjoint intervals. Immutable; removed rules are recorded in
/// [`Learned`](super::learned::Learned).
#[derive(Debug)]
pub(super) struct Iset {
    window: Window,
    model: Model,
    /// First values of the intervals, in order, with padding so that a search may read beyond the
    /// last.
    starts: Box<[u32]>,
    /// The rules, in the same order.
    records: Records,
    /// Index of the last rule.
    last: usize,
}

impl Iset {
    /// Creates a set of the rules that a [`Partition`] has chosen.
    pub(super) fn new(layout: &Layout, rules: &[FlatRule], set: &Independent) -> Self {
        let mut records = Records::new(layout.words);
        records.reserve(set.rules.len());
        let mut intervals = Vec::with_capacity(set.rules.len());
        for &rule in &set.rules {
            let rule = &rules[rule as usize];
            intervals.extend(set.window.interval(rule.a(), rule.b()));
            records.add(rule, NONE);
        }
        let model = Model::train(&intervals);
        let behind = std::iter::repeat_n(u32::MAX, AT_ONCE + 1);
        Self {
            window: set.window,
            model,
            starts: intervals.iter().map(|&(lo, _)| lo).chain(behind).collect(),
            last: records.len().saturating_sub(1),
            records,
        }
    }

    /// Returns the number of rules, including removed ones.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.records.bytes() + self.starts.len() * 4 + self.model.bytes()
    }

    /// Returns the key's number in the window.
    #[inline(always)]
    pub(super) fn number(&self, key: &[u64]) -> u32 {
        self.window.of(key) as u32
    }

    /// Returns the leaf of the model for a number, and prefetches it.
    #[inline(always)]
    pub(super) fn leaf(&self, number: u32) -> usize {
        let leaf = self.model.leaf(number);
        prefetch(self.model.leaves(), leaf);
        leaf
    }

    /// Returns the start of a search and prefetches what [`place`](Self::place) reads.
    #[inline(always)]
    pub(super) fn near(&self, leaf: usize, number: u32) -> Near {
        let leaf: Leaf = self.model.leaves()[leaf];
        let first = leaf.place(number).min(self.last);
        prefetch(&self.starts, first);
        prefetch(&self.starts, first + AT_ONCE);
        let span = leaf.span();
        Near { first, span }
    }

    /// Halves the search range.
    #[inline(always)]
    pub(super) fn halve(&self, near: &mut Near, number: u32) {
        // The result is at `first` or up to `span` positions after it.
        let half = near.span / 2;
        let middle = (near.first + half).min(self.last);
        let is_behind = self.starts[middle] <= number;
        near.first = select_unpredictable(is_behind, middle, near.first);
        near.span = select_unpredictable(is_behind, near.span - half, half);
    }

    /// Returns the only position at which a rule may match a key with this number.
    #[inline(always)]
    pub(super) fn place(&self, mut near: Near, number: u32) -> u32 {
        while near.is_wide() {
            self.halve(&mut near, number);
        }
        let first = near.first;
        let next = &self.starts[first + 1..first + 1 + AT_ONCE];
        let passed: u32 = next.iter().map(|&start| u32::from(start <= number)).sum();
        (first as u32 + passed).min(self.last as u32)
    }

    #[inline(always)]
    pub(super) fn record<const N: usize>(&self, place: u32) -> Record<'_> {
        self.records.at::<N>(place)
    }

    #[inline(always)]
    pub(super) fn prefetch<const N: usize>(&self, place: u32) {
        self.records.prefetch::<N>(place);
    }

    /// Returns the rule at a position.
    pub(super) fn rule(&self, place: u32) -> FlatRule {
        self.records.rule(place)
    }

    /// Returns the position of a rule, if it is in the set.
    pub(super) fn find(&self, rule: &FlatRule) -> Option<u32> {
        let (number, _) = self.window.interval(rule.a(), rule.b())?;
        let place = self.place(self.near(self.leaf(number), number), number);
        (self.record::<0>(place).rank() == rule.rank).then_some(place)
    }
}

/// Search range: start and length.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Near {
    first: usize,
    span: usize,
}

impl Near {
    /// Returns true if the range must be halved further.
    #[inline(always)]
    pub(super) fn is_wide(&self) -> bool {
        self.span > AT_ONCE
    }
}

/// Rules with disjoint intervals in a window, in order of the intervals.
#[derive(Debug)]
pub(super) struct Independent {
    pub(super) window: Window,
    pub(super) rules: Vec<u32>,
}

/// Intervals of rules in a window.
#[derive(Debug)]
struct Column {
    window: Window,
    /// Interval and rule index, in order of the interval's end.
    intervals: Vec<(Interval, u32)>,
}

/// Search for independent sets, one window at a time.
#[derive(Debug)]
pub(super) struct Partition {
    windows: Vec<Window>,
    columns: Vec<Column>,
    taken: Vec<bool>,
    sets: Vec<Independent>,
}

impl Partition {
    /// Starts the search in a set of `rules` rules.
    pub(super) fn new(layout: &Layout, rules: usize) -> Self {
        Self {
            windows: Window::all(layout, BITS, BITS as usize / 2),
            columns: Vec::new(),
            taken: vec![false; rules],
            sets: Vec::new(),
        }
    }

    /// Does one step of the work. Returns false if there is no more to do.
    pub(super) fn step(&mut self, rules: &[FlatRule]) -> bool {
        if let Some(window) = self.windows.pop() {
            self.columns.extend(Column::new(window, rules));
            return true;
        }
        let sets = self
            .columns
            .iter()
            .map(|column| column.independent(&self.taken));
        let largest = sets.max_by_key(|set| set.rules.len());
        let enough = self.taken.len().div_ceil(MIN_SHARE);
        let Some(set) = largest.filter(|set| set.rules.len() >= enough) else {
            return false;
        };
        for &rule in &set.rules {
            self.taken[rule as usize] = true;
        }
        self.sets.push(set);
        self.sets.len() < MAX_ISETS
    }

    /// Returns the sets, and for each rule true if it is in one.
    pub(super) fn finish(self) -> (Vec<Independent>, Vec<bool>) {
        (self.sets, self.taken)
    }
}

impl Column {
    /// Creates the list of intervals in a window. Returns `None` if too few rules are proper
    /// intervals there.
    fn new(window: Window, rules: &[FlatRule]) -> Option<Self> {
        let interval = |(rule, number): (&FlatRule, u32)| {
            let interval = window.interval(rule.a(), rule.b())?;
            Some((interval, number))
        };
        let mut intervals: Vec<_> = rules.iter().zip(0..).filter_map(interval).collect();
        if intervals.len() < rules.len() / MIN_SHARE {
            return None;
        }
        intervals.sort_unstable_by_key(|&((lo, hi), rule)| (hi, std::cmp::Reverse(lo), rule));
        Some(Self { window, intervals })
    }

    /// Returns the largest set of disjoint intervals, by interval scheduling: always take the one
    /// that ends first.
    fn independent(&self, taken: &[bool]) -> Independent {
        let mut end = None;
        let mut rules = Vec::new();
        for &((lo, hi), rule) in &self.intervals {
            if end.is_none_or(|end| lo > end) && !taken[rule as usize] {
                rules.push(rule);
                end = Some(hi);
            }
        }
        Independent {
            window: self.window,
            rules,
        }
    }
}
