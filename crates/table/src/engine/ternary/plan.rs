//! [`Plan`]: choice of the tuples' masks for a rule set, and of the windows that filter them.
//!
//! Fewer tuples mean fewer searches, but coarser masks mean longer chains. Both costs are measured
//! on sample keys drawn from the rules. Tuples are merged as long as that saves more memory reads
//! than it adds.

use super::index::MAX_ROWS;
use super::layout::Layout;
use super::records::{FlatRule, RankWords};
use super::tuples::{WORST, hash};
use super::windows::{MAX_TUPLES, Window};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// Plan from which an index is built.
#[derive(Debug)]
pub(super) struct Plan {
    /// Masks of the tuples, in order of their best rules.
    pub(super) masks: Vec<Box<[u64]>>,
    /// Tuple of each rule; `None` for rules in bit vectors.
    pub(super) tuple_of: Vec<Option<u32>>,
    /// Windows of the tuples.
    pub(super) windows: Vec<Window>,
    /// Rules in bit vectors.
    pub(super) rows: Vec<u32>,
}

/// Maximum number of windows of tuples.
const MAX_WINDOWS: usize = 4;
/// Maximum number of rules in bit vectors by plan. The rest is room for later rules.
pub(super) const PLANNED_ROWS: usize = MAX_ROWS - 64;
/// Number of keys on which costs are measured.
const SAMPLES: usize = 768;
/// Number of pairs of a key and a rule by which windows are chosen.
const PAIRS: usize = 4096;
/// Approximate number of rules from which chain lengths are estimated.
const CHAIN_SAMPLES: usize = 12_000;
/// Minimum number of sampled rules of a group, if it has that many.
const GROUP_SAMPLES: usize = 48;
/// Number of hash values that distinguish chains; collisions are rare.
const PLACES: usize = 1 << 16;
/// Maximum number of different masks before merging.
const MAX_MASKS: usize = 1024;
/// Maximum number of tuples by plan. An index has room for some more.
const MAX_PLANNED: usize = MAX_TUPLES - 12;
/// Number of masks that are considered for merging with a given one.
const PARTNERS: usize = 6;
/// Cost of reading a record that does not match, relative to reading a bucket.
const RECORD_COST: f64 = 1.5;

/// Seeded random number generator (xorshift64*).
pub(super) struct Stream(pub(super) u64);

impl Stream {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

/// Candidate tuple.
struct Group {
    mask: Box<[u64]>,
    /// Number of merges into it.
    version: u32,
    best: RankWords,
    /// Number of rules.
    rules: usize,
    /// Sample of its rules.
    samples: Vec<ChainSample>,
    /// Bitmap of the sample keys for which it is searched.
    searched: Box<[u64]>,
    /// Total number of records that sample keys read without a match.
    in_vain: f64,
    /// True if its rules are in bit vectors instead.
    is_in_rows: bool,
    /// Group into which it was merged.
    merged_into: Option<usize>,
}

/// Possible merge of two groups.
#[derive(Clone, Copy)]
struct Merge {
    saving: f64,
    at: usize,
    other: usize,
    /// Versions of both groups when the saving was computed.
    versions: (u32, u32),
}

impl Ord for Merge {
    fn cmp(&self, other: &Self) -> Ordering {
        let places = (other.at, other.other).cmp(&(self.at, self.other));
        self.saving.total_cmp(&other.saving).then(places)
    }
}

impl PartialOrd for Merge {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Merge {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Merge {}

/// Random key that a rule matches.
struct SampleKey {
    key: Box<[u64]>,
    /// Rank of that rule.
    rank: RankWords,
    /// Index of the next key with the same hash.
    next: u16,
}

/// Rule that represents several rules of its group.
struct ChainSample {
    rule: u32,
    /// Number of rules that it represents.
    weight: f32,
}

impl Plan {
    /// Makes a plan for `rules`, which are some or all of `all`. Sample keys are drawn from `all`.
    pub(super) fn new(layout: &Layout, rules: &[FlatRule], all: &[FlatRule]) -> Self {
        let bits = (rules.len().max(1).ilog2() + 2).clamp(6, 16);
        let windows = windows(layout, rules, all, bits, MAX_WINDOWS);
        if rules.len() <= PLANNED_ROWS {
            return Self {
                masks: Vec::new(),
                tuple_of: vec![None; rules.len()],
                // For tuples of later rules that do not fit into bit vectors.
                windows,
                rows: (0..rules.len() as u32).collect(),
            };
        }
        let (masks, group_of) = masks(layout, rules);
        let mut planner = Planner::new(layout, rules, all, masks, &group_of, &windows);
        planner.choose_rows();
        planner.merge();
        planner.finish(&group_of, windows)
    }
}

/// Returns the different masks of the rules, coarsened until there are few enough, and the mask of
/// each rule.
fn masks(layout: &Layout, rules: &[FlatRule]) -> (Vec<Box<[u64]>>, Vec<u32>) {
    let mut masks: Vec<Box<[u64]>> = Vec::new();
    let mut group_of = Vec::with_capacity(rules.len());
    let mut mask = vec![0; layout.words];
    for step in [1, 4, 8, 16, 32, 64] {
        masks.clear();
        group_of.clear();
        let mut known: HashMap<Box<[u64]>, u32> = HashMap::new();
        for rule in rules {
            layout.fixed(rule.a(), rule.b(), &mut mask);
            layout.coarsen(&mut mask, step);
            let group = known.get(&mask[..]).copied().unwrap_or_else(|| {
                let group = masks.len() as u32;
                masks.push(mask.clone().into());
                known.insert(mask.clone().into(), group);
                group
            });
            group_of.push(group);
            if masks.len() > MAX_MASKS {
                break;
            }
        }
        if masks.len() <= MAX_MASKS {
            return (masks, group_of);
        }
    }
    (vec![vec![0; layout.words].into()], vec![0; rules.len()])
}

/// Draws random keys from rules.
fn sample_keys(layout: &Layout, rules: &[FlatRule], count: usize) -> Vec<(usize, Box<[u64]>)> {
    let mut stream = Stream(0x9e37_79b9_7f4a_7c15);
    let key = |_| {
        let rule = stream.below(rules.len());
        (rule, layout.key_in(&rules[rule], || stream.next()))
    };
    (0..count).map(key).collect()
}

/// Chooses up to `most` windows of `bits` bits. Each is the window that excludes the most rules for
/// a random key, among the rules that the previous windows admit.
fn windows(
    layout: &Layout,
    rules: &[FlatRule],
    all: &[FlatRule],
    bits: u32,
    most: usize,
) -> Vec<Window> {
    if rules.is_empty() {
        return Vec::new();
    }
    let candidates = Window::all(layout, bits, 4);
    let keys = sample_keys(layout, all, PAIRS.min(rules.len() * 32));
    let mut stream = Stream(0xd1b5_4a32_d192_ed03);
    let mut pairs: Vec<(&[u64], &FlatRule)> = keys
        .iter()
        .map(|(_, key)| (&**key, &rules[stream.below(rules.len())]))
        .collect();
    let mut chosen = Vec::new();
    while chosen.len() < most && !pairs.is_empty() {
        let admits = |window: &Window, &(key, rule): &(&[u64], &FlatRule)| {
            window.admits(rule.a(), rule.b(), window.of(key))
        };
        let admitted = |window: &Window| pairs.iter().filter(|pair| admits(window, pair)).count();
        let counted = candidates.iter().map(|window| (admitted(window), window));
        let Some((left, window)) = counted.min_by_key(|(admitted, _)| *admitted) else {
            break;
        };
        if left * 10 > pairs.len() * 9 {
            break;
        }
        chosen.push(*window);
        pairs.retain(|pair| admits(window, pair));
    }
    chosen
}

struct Planner<'r> {
    rules: &'r [FlatRule],
    keys: Vec<SampleKey>,
    groups: Vec<Group>,
    /// For each hash, the index of the first sample key that has it. Cleared after each use.
    first_key: Vec<u16>,
}

impl<'r> Planner<'r> {
    fn new(
        layout: &Layout,
        rules: &'r [FlatRule],
        all: &[FlatRule],
        masks: Vec<Box<[u64]>>,
        group_of: &[u32],
        windows: &[Window],
    ) -> Self {
        let keys: Vec<SampleKey> = sample_keys(layout, all, SAMPLES)
            .into_iter()
            .map(|(rule, key)| SampleKey {
                rank: all[rule].rank,
                key,
                next: u16::MAX,
            })
            .collect();
        let row = vec![0; SAMPLES.div_ceil(64)];
        let mut groups: Vec<Group> = masks
            .into_iter()
            .map(|mask| Group {
                mask,
                version: 0,
                best: WORST,
                samples: Vec::new(),
                searched: row.clone().into(),
                in_vain: 0.0,
                is_in_rows: false,
                rules: 0,
                merged_into: None,
            })
            .collect();
        for (rule, &group) in rules.iter().zip(group_of) {
            let group = &mut groups[group as usize];
            group.best = rule.rank.min(group.best);
            group.rules += 1;
        }
        let step = |group: &Group| {
            let share = (group.rules * CHAIN_SAMPLES / rules.len()).max(GROUP_SAMPLES);
            group.rules.div_ceil(share)
        };
        let steps: Vec<usize> = groups.iter().map(step).collect();
        let mut seen = vec![0usize; groups.len()];
        for (rule, &group) in group_of.iter().enumerate() {
            let (group, step) = (group as usize, steps[group as usize]);
            if seen[group].is_multiple_of(step) {
                groups[group].samples.push(ChainSample {
                    rule: rule as u32,
                    weight: step as f32,
                });
            }
            seen[group] += 1;
        }
        let mut planner = Self {
            rules,
            keys,
            groups,
            first_key: vec![u16::MAX; PLACES],
        };
        planner.find_searched(group_of, windows);
        for at in 0..planner.groups.len() {
            let mask = planner.groups[at].mask.clone();
            planner.groups[at].in_vain = planner.in_vain(&mask, &[at]);
        }
        planner
    }

    /// Determines the sample keys for which each group is searched.
    fn find_searched(&mut self, group_of: &[u32], windows: &[Window]) {
        let words = self.groups.len().div_ceil(64);
        let mut admitted = vec![vec![u64::MAX; words]; SAMPLES];
        for window in windows {
            // Only rows for values that sample keys have.
            let mut row_of = vec![u32::MAX; 1 << window.bits];
            let mut rows: Vec<Vec<u64>> = Vec::new();
            for SampleKey { key, .. } in &self.keys {
                let row = &mut row_of[window.of(key)];
                if *row == u32::MAX {
                    *row = rows.len() as u32;
                    rows.push(vec![0; words]);
                }
            }
            let mut open = vec![0u64; words];
            for (rule, &group) in self.rules.iter().zip(group_of) {
                let (word, bit) = (group as usize / 64, 1 << (group % 64));
                let few = window.values(rule.a(), rule.b(), |value| {
                    if let Some(row) = rows.get_mut(row_of[value] as usize) {
                        row[word] |= bit;
                    }
                });
                if !few {
                    open[word] |= bit;
                }
            }
            for (sample, admitted) in self.keys.iter().zip(&mut admitted) {
                let row = &rows[row_of[window.of(&sample.key)] as usize];
                for ((admitted, row), open) in admitted.iter_mut().zip(row).zip(&open) {
                    *admitted &= row | open;
                }
            }
        }
        for (key, admitted) in admitted.iter().enumerate() {
            // A group is not searched if its best rule is worse than the rule of the key.
            let rank = self.keys[key].rank;
            for (at, group) in self.groups.iter_mut().enumerate() {
                if admitted[at / 64] >> (at % 64) & 1 == 1 && group.best <= rank {
                    group.searched[key / 64] |= 1 << (key % 64);
                }
            }
        }
    }

    /// Returns the number of records that sample keys read without a match if the groups are merged
    /// under `mask`. A chain is read until its ranks are worse than that of the key's rule.
    fn in_vain(&mut self, mask: &[u64], groups: &[usize]) -> f64 {
        let place = |words: &[u64]| hash::<0>(words, mask) as usize % PLACES;
        let places: Vec<usize> = self.keys.iter().map(|key| place(&key.key)).collect();
        for (key, &place) in places.iter().enumerate() {
            self.keys[key].next = std::mem::replace(&mut self.first_key[place], key as u16);
        }
        let mut in_vain = 0.0;
        for sample in groups.iter().flat_map(|&group| &self.groups[group].samples) {
            let rule = &self.rules[sample.rule as usize];
            let mut at = self.first_key[place(rule.a())];
            while let Some(key) = self.keys.get(at as usize) {
                if rule.rank < key.rank {
                    in_vain += f64::from(sample.weight);
                }
                at = key.next;
            }
        }
        for place in places {
            self.first_key[place] = u16::MAX;
        }
        in_vain
    }

    /// Puts those groups into bit vectors that cost the most searches for each of their rules.
    fn choose_rows(&mut self) {
        let cost = |group: &Group| {
            let searches: u32 = group.searched.iter().map(|word| word.count_ones()).sum();
            f64::from(searches) / group.rules as f64
        };
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by(|&a, &b| cost(&self.groups[b]).total_cmp(&cost(&self.groups[a])));
        let mut room = PLANNED_ROWS;
        for at in order {
            let group = &mut self.groups[at];
            if group.rules <= room {
                room -= group.rules;
                group.is_in_rows = true;
            }
        }
    }

    /// Merges groups as long as that saves cost, or while there are too many. Always merges the
    /// pair that saves the most.
    fn merge(&mut self) {
        let mut queue: BinaryHeap<Merge> = BinaryHeap::new();
        let roots: Vec<usize> = (0..self.groups.len())
            .filter(|&at| self.is_root(at))
            .collect();
        let mut left = roots.len();
        for at in roots {
            queue.extend(self.best_merge(at));
        }
        while let Some(merge) = queue.pop() {
            if merge.saving <= 0.0 && left <= MAX_PLANNED {
                return;
            }
            let Merge { at, other, .. } = merge;
            if !self.is_root(at) {
                continue;
            }
            let versions = (self.groups[at].version, self.groups[other].version);
            if !self.is_root(other) || versions != merge.versions {
                queue.extend(self.best_merge(at));
                continue;
            }
            self.merge_into(at, other);
            left -= 1;
            queue.extend(self.best_merge(other));
        }
    }

    fn is_root(&self, at: usize) -> bool {
        self.groups[at].merged_into.is_none() && !self.groups[at].is_in_rows
    }

    fn best_merge(&mut self, at: usize) -> Option<Merge> {
        let partners = self.partners(at);
        let merges = partners.into_iter().map(|other| Merge {
            saving: self.saving(at, other),
            at,
            other,
            versions: (self.groups[at].version, self.groups[other].version),
        });
        merges.max()
    }

    /// Returns the groups of which the masks differ least from that of this group.
    fn partners(&self, at: usize) -> Vec<usize> {
        let mask = &self.groups[at].mask;
        let differing = |other: usize| -> u32 {
            let other = self.groups[other].mask.iter();
            let words = mask.iter().zip(other);
            words.map(|(a, b)| (a ^ b).count_ones()).sum()
        };
        let mut others: Vec<(u32, usize)> = (0..self.groups.len())
            .filter(|&other| other != at && self.is_root(other))
            .map(|other| (differing(other), other))
            .collect();
        if others.len() > PARTNERS {
            others.select_nth_unstable(PARTNERS);
            others.truncate(PARTNERS);
        }
        others.into_iter().map(|(_, other)| other).collect()
    }

    fn common(&self, at: usize, other: usize) -> Box<[u64]> {
        let (a, b) = (&self.groups[at].mask, &self.groups[other].mask);
        a.iter().zip(b).map(|(a, b)| a & b).collect()
    }

    /// Returns the cost that merging saves, in bucket reads over all sample keys.
    fn saving(&mut self, at: usize, other: usize) -> f64 {
        let mask = self.common(at, other);
        let in_vain = self.in_vain(&mask, &[at, other]);
        let (a, b) = (&self.groups[at], &self.groups[other]);
        let both = a.searched.iter().zip(&b.searched);
        let searches: u32 = both.map(|(a, b)| (a & b).count_ones()).sum();
        let added = in_vain - (a.in_vain + b.in_vain);
        f64::from(searches) - added * RECORD_COST
    }

    fn merge_into(&mut self, at: usize, other: usize) {
        let mask = self.common(at, other);
        let in_vain = self.in_vain(&mask, &[at, other]);
        let small = &mut self.groups[at];
        small.merged_into = Some(other);
        let (samples, searched) = (std::mem::take(&mut small.samples), small.searched.clone());
        let best = small.best;
        let large = &mut self.groups[other];
        large.mask = mask;
        large.in_vain = in_vain;
        large.version += 1;
        large.best = large.best.min(best);
        large.samples.extend(samples);
        for (large, small) in large.searched.iter_mut().zip(&searched) {
            *large |= small;
        }
    }

    fn finish(self, group_of: &[u32], windows: Vec<Window>) -> Plan {
        let mut kept: Vec<usize> = (0..self.groups.len())
            .filter(|&at| self.is_root(at))
            .collect();
        kept.sort_by_key(|&at| self.groups[at].best);
        let mut tuple_of_group = vec![None; self.groups.len()];
        for (tuple, &at) in kept.iter().enumerate() {
            tuple_of_group[at] = Some(tuple as u32);
        }
        let root = |mut at: usize| {
            while let Some(into) = self.groups[at].merged_into {
                at = into;
            }
            at
        };
        let tuple_of: Vec<Option<u32>> = (0..self.groups.len())
            .map(|at| tuple_of_group[root(at)])
            .collect();
        let masks = kept.iter().map(|&at| self.groups[at].mask.clone());
        let in_rows = group_of
            .iter()
            .zip(0..)
            .filter(|(at, _)| self.groups[**at as usize].is_in_rows);
        Plan {
            masks: masks.collect(),
            tuple_of: group_of.iter().map(|&at| tuple_of[at as usize]).collect(),
            windows,
            rows: in_rows.map(|(_, rule)| rule).collect(),
        }
    }
}
