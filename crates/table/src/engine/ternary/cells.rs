//! [`Cells`]: hash table of rules by a set of bits that all of them fix. Rules with the same values
//! of these bits form a cell. They are stored next to each other and compared several at a time.
//!
//! If most rules have long prefixes in two fields, a coarse part of both leaves few rules in a
//! cell. One search then finds the cell, where a search in tuples would need a hash lookup for each
//! mask. The rules of a cell are in order of rank, so the first match is the best.
//!
//! "Bit vectors" here are the [`Vectors`](super::vectors::Vectors) of the same index, which hold
//! other rules (`row` in the code).

use super::buckets::{Buckets, Slot};
use super::layout::Layout;
use super::records::{FlatRule, NONE, RankWords};
use super::rest::{ResidualKey, matching};
use super::search::{Best, GROUP};
use super::tuples::hash;
use crate::compare::{Compare, CompareWork, LANES, Lanewise, comparing_rules};
use crate::entry::EntryIdx;
use crate::prefetch::prefetch;
use std::hint::select_unpredictable;
use std::ops::Range;

/// Maximum number of rules in a cell.
const MAX: usize = 255;
/// Thresholds in percent. For each, the bits that at least this share of the rules fixes are tried.
const SHARES: [usize; 12] = [99, 98, 97, 96, 95, 93, 90, 85, 80, 75, 70, 60];
/// Maximum number of rules by which the bits are chosen.
const SAMPLES: usize = 1 << 14;
/// Maximum cost of a search, as the number of rules compared.
const MAX_COMPARED: usize = 64;
/// At most one rule in `MAX_OUTSIDE` may have no cell.
const MAX_OUTSIDE: usize = 12;
/// Cost of rules outside of cells, which are in tuples, as the number of rules compared.
const OUTSIDE_COST: usize = 32;
/// Minimum number of unused words for which the cells are rebuilt.
const MIN_UNUSED: usize = 1 << 14;
/// Alignment of cells in words.
const STEP: usize = 4;
/// Number of words for rank and entry.
const ENTRY: usize = 3;
/// Flag in the entry word: if this rule was found, the bit vectors have no better match.
const SURE: u64 = 1 << 32;
/// Maximum number of cells for which [`SURE`] is maintained, because a rule added to the bit
/// vectors must be checked against all cells. With more than twice as many cells, the flag is no
/// longer used.
pub(super) const MAX_SURE: usize = 1 << 14;

/// Rules by cell.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// Number of words of a key.
    key_words: usize,
    /// The bits that all rules fix, by which cells are found.
    mask: Box<[u64]>,
    /// Hash table of cells. Their positions are in units of [`STEP`] words.
    table: Buckets,
    /// The bits in which the rules of a cell are compared.
    rest: ResidualKey,
    /// Storage of the cells. Each cell has, in this order:
    /// - the number of rules;
    /// - the fixed bits that they share;
    /// - the first residual words `a` of all rules, then the second ones, and so on, then those of
    ///   `b`;
    /// - for each rule its rank, and its entry with the flag [`SURE`] if it applies.
    ///
    /// After all cells there are a few more words, so that comparisons may read lanes without a
    /// rule.
    words: Vec<u64>,
    /// Positions of free blocks, by size in units of [`STEP`].
    free: Vec<Vec<u32>>,
    /// Total size of the free blocks, in units of [`STEP`].
    unused: usize,
    len: usize,
    /// True if [`SURE`] is maintained.
    has_sure: bool,
}

/// Candidate set of bits for cells, with the average number of rules that a key is compared with.
struct Choice {
    mask: Box<[u64]>,
    compared: usize,
}

impl Cells {
    /// Builds cells for those of the rules that fix the bits that most rules fix, and removes them
    /// from `rules`. Returns `None` if cells would be too large, or if too many rules would be
    /// left: more than `few`, and more than a fraction of all.
    pub(super) fn of_most(layout: &Layout, rules: &mut Vec<FlatRule>, few: usize) -> Option<Self> {
        if rules.len() <= few || layout.has_wide_ranges() {
            return None;
        }
        let masks = common_bits(layout, rules).into_iter();
        let choices = masks.filter_map(|mask| choice(mask, rules, few));
        let best = choices.min_by_key(|choice| choice.compared)?;
        let mut cells = Self {
            key_words: layout.words,
            rest: ResidualKey::new(layout, &best.mask),
            mask: best.mask,
            table: Buckets::with_room(0),
            words: vec![0; LANES],
            free: Vec::new(),
            unused: 0,
            len: 0,
            has_sure: false,
        };
        *rules = cells.fill(std::mem::take(rules));
        Some(cells)
    }

    /// Builds the cells. Returns the rules that have no place in one.
    fn fill(&mut self, rules: Vec<FlatRule>) -> Vec<FlatRule> {
        let has_bits = |rule: &FlatRule| self.has_bits(rule);
        let (mut members, mut others): (Vec<FlatRule>, Vec<FlatRule>) =
            rules.into_iter().partition(has_bits);
        members.sort_by_cached_key(|rule| (self.hash_of(rule), rule.rank));
        let cells: Vec<&[FlatRule]> = members
            .chunk_by(|a, b| self.hash_of(a) == self.hash_of(b))
            .collect();
        // A full bucket costs another memory access, so the load is kept low.
        self.table = Buckets::with_room(cells.len() * 3 / 2);
        for cell in cells {
            let is_same = |rule: &FlatRule| are_same(&self.mask, rule, &cell[0]);
            // The others have the same hash by chance.
            let (same, left): (Vec<FlatRule>, Vec<FlatRule>) =
                cell.iter().cloned().partition(is_same);
            others.extend(left);
            let (same, behind) = same.split_at(MAX.min(same.len()));
            others.extend_from_slice(behind);
            let head = self.begin(same.len(), &cell[0]);
            for (at, rule) in same.iter().enumerate() {
                self.put(head, at, rule, false);
            }
            self.table.add(self.hash_of(&cell[0]), head);
        }
        self.words.shrink_to_fit();
        others
    }

    fn hash_of(&self, rule: &FlatRule) -> u64 {
        hash::<0>(rule.a(), &self.mask)
    }

    /// Returns the number of rules.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if much of the storage is free blocks. If many cells grow, these blocks may
    /// never be reused.
    pub(super) fn is_outgrown(&self) -> bool {
        self.unused * STEP > MIN_UNUSED.max(self.words.len() / 2)
    }

    pub(super) fn bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|places| places.len() * 4).sum();
        self.table.bytes() + self.words.len() * 8 + free
    }

    /// Returns the number of cells.
    #[cfg(test)]
    pub(super) fn cells(&self) -> usize {
        self.table.used()
    }

    /// Returns the number of rules with the flag [`SURE`].
    #[cfg(test)]
    pub(super) fn sure(&self) -> usize {
        let is_sure = |head, at| self.words[self.entry(head, at) + 2] & SURE != 0;
        let sure = |head| {
            (0..self.count(head))
                .filter(|&at| is_sure(head, at))
                .count()
        };
        self.table.heads().map(sure).sum()
    }

    fn has_bits(&self, rule: &FlatRule) -> bool {
        has_bits(&self.mask, rule)
    }

    /// Returns the position of a rule's cell in the hash table, if the cell exists.
    fn slot(&self, rule: &FlatRule) -> Option<Slot> {
        self.table.find(self.hash_of(rule), |head| {
            are_same(&self.mask, &self.rule(head, 0), rule)
        })
    }

    /// Returns the number of rules in the cell at `head`.
    #[inline(always)]
    fn count(&self, head: u32) -> usize {
        self.words[head as usize * STEP] as usize
    }

    /// Returns the fixed bits that the rules of a cell share.
    fn common(&self, head: u32) -> &[u64] {
        &self.words[head as usize * STEP + 1..][..self.key_words]
    }

    /// Returns the index of the first word `a` of a cell.
    fn rows(&self, head: u32) -> usize {
        head as usize * STEP + 1 + self.key_words
    }

    /// Returns the number of words of a rule.
    fn columns(&self) -> usize {
        self.rest.words * 2 + ENTRY
    }

    /// Returns the index of the rank and entry of a rule.
    fn entry(&self, head: u32, at: usize) -> usize {
        self.rows(head) + self.count(head) * self.rest.words * 2 + at * ENTRY
    }

    fn rank(&self, head: u32, at: usize) -> RankWords {
        let at = self.entry(head, at);
        (self.words[at], self.words[at + 1])
    }

    fn rule(&self, head: u32, at: usize) -> FlatRule {
        let (rows, count) = (self.rows(head), self.count(head));
        let columns = (0..self.rest.words * 2).map(|column| rows + column * count + at);
        let rest: Vec<u64> = columns.map(|place| self.words[place]).collect();
        let (a, b) = rest.split_at(self.rest.words);
        let mut rows = [self.common(head), &self.mask].concat();
        let (row_a, row_b) = rows.split_at_mut(self.key_words);
        self.rest.put_back(a, row_a);
        self.rest.put_back(b, row_b);
        FlatRule {
            rows: rows.into(),
            rank: self.rank(head, at),
            idx: EntryIdx::new(self.words[self.entry(head, at) + 2] as u32),
        }
    }

    fn rules_of(&self, head: u32) -> impl Iterator<Item = FlatRule> + '_ {
        (0..self.count(head)).map(move |at| self.rule(head, at))
    }

    /// Iterates over all rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = FlatRule> + '_ {
        self.table.heads().flat_map(|head| self.rules_of(head))
    }

    /// Returns the size of a cell with `count` rules, in units of [`STEP`].
    fn steps(&self, count: usize) -> usize {
        (1 + self.key_words + count * self.columns()).div_ceil(STEP)
    }

    /// Allocates a block for a cell of this size.
    fn room(&mut self, steps: usize) -> u32 {
        if let Some(head) = self.free.get_mut(steps).and_then(Vec::pop) {
            self.unused -= steps;
            return head;
        }
        let begin = self.words.len() - LANES;
        self.words.resize(begin + steps * STEP + LANES, 0);
        (begin / STEP) as u32
    }

    /// Allocates a cell for `count` rules that share the fixed bits of `rule`. Returns its
    /// position.
    fn begin(&mut self, count: usize, rule: &FlatRule) -> u32 {
        let head = self.room(self.steps(count));
        let begin = head as usize * STEP;
        self.words[begin] = count as u64;
        for (word, (a, mask)) in rule.a().iter().zip(&self.mask).enumerate() {
            self.words[begin + 1 + word] = a & mask;
        }
        self.len += count;
        head
    }

    /// Writes a rule into a cell.
    fn put(&mut self, head: u32, at: usize, rule: &FlatRule, is_sure: bool) {
        let (rows, count) = (self.rows(head), self.count(head));
        let (mut a, mut b) = ([0], [0]);
        let (a, b) = (
            self.rest.of(rule.a(), &mut a),
            self.rest.of(rule.b(), &mut b),
        );
        for (column, word) in a.iter().chain(b).enumerate() {
            self.words[rows + column * count + at] = *word;
        }
        let entry = self.entry(head, at);
        let found = u64::from(rule.idx.get()) | if is_sure { SURE } else { 0 };
        self.words[entry..entry + ENTRY].copy_from_slice(&[rule.rank.0, rule.rank.1, found]);
    }

    /// Copies rules of a cell to another cell, from position `at` on.
    fn copy(&mut self, from: u32, rules: Range<usize>, to: u32, at: usize) {
        let (old, new) = (self.count(from), self.count(to));
        for column in 0..self.rest.words * 2 {
            let first = self.rows(from) + column * old;
            let to = self.rows(to) + column * new + at;
            self.words
                .copy_within(first + rules.start..first + rules.end, to);
        }
        let entries = self.entry(from, rules.start)..self.entry(from, rules.end);
        let to = self.entry(to, at);
        self.words.copy_within(entries, to);
    }

    /// Returns the index of the first rule of a cell with at least this rank.
    fn behind(&self, head: u32, rank: RankWords) -> usize {
        let (mut first, mut last) = (0, self.count(head));
        while first < last {
            let middle = (first + last) / 2;
            if self.rank(head, middle) < rank {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        first
    }

    fn forget(&mut self, head: u32) {
        let count = self.count(head);
        let steps = self.steps(count);
        if self.free.len() <= steps {
            self.free.resize(steps + 1, Vec::new());
        }
        self.free[steps].push(head);
        self.unused += steps;
        self.len -= count;
    }

    /// Inserts a rule. `rows` iterates over the rules in bit vectors, in order of rank. Returns
    /// false if the rule has no place here.
    pub(super) fn insert<'r>(
        &mut self,
        rule: &FlatRule,
        rows: impl Iterator<Item = &'r FlatRule>,
    ) -> bool {
        if !self.has_bits(rule) {
            return false;
        }
        let slot = self.slot(rule);
        let old = slot.map(|slot| self.table.head(slot));
        let count = old.map_or(0, |old| self.count(old));
        if count == MAX {
            return false;
        }
        let head = self.begin(count + 1, rule);
        let place = old.map_or(0, |old| self.behind(old, rule.rank));
        self.put(head, place, rule, self.has_sure);
        if let Some(old) = old {
            self.copy(old, 0..place, head, 0);
            self.copy(old, place..count, head, place + 1);
        }
        if self.has_sure {
            rows.take_while(|row| row.rank < rule.rank)
                .for_each(|row| self.doubt(head, place..place + 1, row));
        }
        self.replace(slot, old, head, rule);
        true
    }

    /// Replaces the cell `old` of a rule by `head` in the hash table, or adds it.
    fn replace(&mut self, slot: Option<Slot>, old: Option<u32>, head: u32, rule: &FlatRule) {
        if let (Some(slot), Some(old)) = (slot, old) {
            self.table.set_head(slot, head);
            self.forget(old);
            return;
        }
        if self.table.is_full() {
            self.rehash();
        }
        self.table.add(self.hash_of(rule), head);
    }

    fn rehash(&mut self) {
        let mut table = Buckets::with_room((self.table.used() + 1) * 2);
        for head in self.table.heads() {
            table.add(self.hash_of(&self.rule(head, 0)), head);
        }
        self.table = table;
    }

    /// Removes a rule. Returns false if it is not here.
    pub(super) fn remove(&mut self, rule: &FlatRule) -> bool {
        let slot = Some(rule).filter(|rule| self.has_bits(rule));
        let Some(slot) = slot.and_then(|rule| self.slot(rule)) else {
            return false;
        };
        let old = self.table.head(slot);
        let (count, place) = (self.count(old), self.behind(old, rule.rank));
        if place == count || self.rank(old, place) != rule.rank {
            return false;
        }
        if count == 1 {
            self.table.take(slot);
        } else {
            let head = self.begin(count - 1, rule);
            self.copy(old, 0..place, head, 0);
            self.copy(old, place + 1..count, head, place);
            self.table.set_head(slot, head);
        }
        self.forget(old);
        true
    }

    /// Computes the flag [`SURE`] of all rules. `rows` has the rules in bit vectors.
    pub(super) fn trust(&mut self, rows: &[FlatRule]) {
        if self.table.used() > MAX_SURE {
            return;
        }
        self.have_sure(true);
        for head in self.table.heads().collect::<Vec<_>>() {
            for row in rows {
                self.doubt(head, 0..self.count(head), row);
            }
        }
    }

    /// Updates the flag [`SURE`] for a rule added to the bit vectors.
    pub(super) fn heed(&mut self, row: &FlatRule) {
        if !self.has_sure {
            return;
        }
        if self.table.used() > MAX_SURE * 2 {
            return self.have_sure(false);
        }
        for head in self.table.heads().collect::<Vec<_>>() {
            self.doubt(head, 0..self.count(head), row);
        }
    }

    /// Starts to maintain [`SURE`] and sets it for all rules, or stops and clears it.
    fn have_sure(&mut self, has_sure: bool) {
        self.has_sure = has_sure;
        for head in self.table.heads().collect::<Vec<_>>() {
            for at in 0..self.count(head) {
                let entry = self.entry(head, at) + ENTRY - 1;
                let found = self.words[entry] & !SURE;
                self.words[entry] = found | if has_sure { SURE } else { 0 };
            }
        }
    }

    /// Clears [`SURE`] in those of these rules of a cell that overlap with `row` and have a worse
    /// rank. Rules are compared in place, because a cell may be large and rules in bit vectors may
    /// change often.
    fn doubt(&mut self, head: u32, rules: Range<usize>, row: &FlatRule) {
        if !self.overlaps(head, row) {
            return;
        }
        let (mut a, mut b) = ([0], [0]);
        let (a, b) = (self.rest.of(row.a(), &mut a), self.rest.of(row.b(), &mut b));
        let (rows, count) = (self.rows(head), self.count(head));
        for at in self.behind(head, row.rank).max(rules.start)..rules.end {
            let of_rule = |column: usize| self.words[rows + column * count + at];
            let of_rule = |word: usize| (of_rule(word), of_rule(self.rest.words + word));
            if self.rest.overlap(|word| (a[word], b[word]), of_rule) {
                let entry = self.entry(head, at);
                self.words[entry + ENTRY - 1] &= !SURE;
            }
        }
    }

    /// Returns true if the rule may match some key of this cell.
    fn overlaps(&self, head: u32, rule: &FlatRule) -> bool {
        let words = self.common(head).iter().zip(rule.a()).zip(rule.b());
        let words = words.zip(&self.mask);
        words.fold(0, |other, (((common, a), b), mask)| {
            other | (common ^ a) & b & mask
        }) == 0
    }

    /// Returns the hash of a key for the search of its cell, and prefetches the bucket.
    #[inline(always)]
    pub(super) fn hash<const N: usize>(&self, key: &[u64]) -> u64 {
        let hash = hash::<N>(key, &self.mask);
        self.table.prefetch(hash);
        hash
    }

    /// Returns the cell of a key, or [`NONE`], and true if there can be no other. Prefetches the
    /// cell.
    #[inline(always)]
    pub(super) fn cell(&self, hash: u64) -> (u32, bool) {
        let (head, is_only) = self.table.first_chain(hash);
        let begin = select_unpredictable(head == NONE, 0, head as usize * STEP);
        prefetch(&self.words, begin);
        prefetch(&self.words, begin + 8);
        prefetch(&self.words, begin + 16);
        (head, is_only)
    }

    /// Searches a cell and improves `best`. Returns true if the rule found has the flag [`SURE`].
    #[inline(always)]
    fn search_cell<'k, const N: usize, const R: usize>(
        &self,
        compare: impl Compare,
        kinds: impl Fn(usize) -> (u64, &'k [u64]) + Copy,
        key: &[u64],
        head: u32,
        best: &mut Best,
    ) -> bool {
        let key_words = if N == 0 { self.key_words } else { N };
        let rest_words = if R == 0 { self.rest.words } else { R };
        let count = self.count(head);
        let (common, rows) = self.words[head as usize * STEP + 1..].split_at(key_words);
        let differing = key.iter().zip(&self.mask).zip(common).take(key_words);
        if differing.fold(0, |all, ((key, mask), common)| all | (key & mask ^ common)) != 0 {
            return false;
        }
        let mut packed = [0];
        let rest = self.rest.of(key, &mut packed);
        let mut first = 0;
        while first < count {
            let lanes = |column: usize| &rows[column * count + first..].as_chunks().0[0];
            let mut all = u32::MAX;
            // A loop, because a fold would be a separate function with a call for each comparison.
            for (word, &number) in rest.iter().enumerate().take(rest_words) {
                let (a, b) = (lanes(word), lanes(rest_words + word));
                all &= matching(compare, number, kinds(word), a, b);
            }
            let lane = all.trailing_zeros() as usize;
            // Lanes after the last rule hold other data.
            if lane < LANES.min(count - first) {
                let entry = rest_words * 2 * count + (first + lane) * ENTRY;
                let entry = &rows[entry..][..ENTRY];
                let (rank, idx) = ((entry[0], entry[1]), entry[2] as u32);
                best.improve(Best { rank, idx });
                return entry[2] & SURE != 0;
            }
            first += LANES;
        }
        false
    }

    /// Searches all cells that may have this hash.
    #[inline(always)]
    fn search_chains<'k, const N: usize, const R: usize>(
        &self,
        compare: impl Compare,
        kinds: impl Fn(usize) -> (u64, &'k [u64]) + Copy,
        key: &[u64],
        hash: u64,
        best: &mut Best,
    ) -> bool {
        let heads = self.table.chains(hash);
        heads.fold(false, |is_sure, head| {
            is_sure | self.search_cell::<N, R>(compare, kinds, key, head, best)
        })
    }

    /// Searches the cell of one key.
    pub(super) fn search_one<const N: usize>(&self, key: &[u64], best: &mut Best) {
        let hash = hash::<N>(key, &self.mask);
        self.search_chains::<N, 0>(Lanewise, |word| self.rest.kinds(word), key, hash, best);
    }

    /// Searches the cells of keys with these hashes. Returns the keys for which the bit vectors
    /// must be searched too.
    #[inline(always)]
    pub(super) fn search<const N: usize>(
        &self,
        keys: &[&[u64]],
        hashes: &[u64; GROUP],
        best: &mut [Best; GROUP],
    ) -> Asked {
        let mut asked = Asked::default();
        comparing_rules(Search::<N> {
            cells: self,
            keys,
            hashes,
            best,
            asked: &mut asked,
        });
        asked
    }

    #[inline(always)]
    fn search_as<'k, const N: usize, const R: usize>(
        &self,
        compare: impl Compare,
        kinds: impl Fn(usize) -> (u64, &'k [u64]) + Copy,
        keys: &[&[u64]],
        hashes: &[u64; GROUP],
        best: &mut [Best; GROUP],
    ) -> Asked {
        let mut asked = Asked::default();
        let (mut found, mut count) = ([(0, NONE); GROUP], 0);
        for (i, &key) in keys.iter().enumerate().take(GROUP) {
            let (head, is_only) = self.cell(hashes[i]);
            found[count % GROUP] = (i as u8, head);
            count += usize::from((head != NONE) & is_only);
            let is_sure = !is_only && {
                let best = &mut best[i];
                self.search_chains::<N, R>(compare, kinds, key, hashes[i], best)
            };
            asked.add(i as u8, (head == NONE) | !(is_only | is_sure));
        }
        for &(i, head) in &found[..count] {
            let at = usize::from(i) % GROUP;
            let is_sure = self.search_cell::<N, R>(compare, kinds, keys[at], head, &mut best[at]);
            asked.add(i, !is_sure);
        }
        asked
    }
}

/// Search for a group of keys. Only this search is compiled with its vector instructions, because
/// tuples and independent sets are a fifth slower with them.
struct Search<'s, const N: usize> {
    cells: &'s Cells,
    keys: &'s [&'s [u64]],
    hashes: &'s [u64; GROUP],
    best: &'s mut [Best; GROUP],
    asked: &'s mut Asked,
}

impl<const N: usize> CompareWork for Search<'_, N> {
    #[inline(always)]
    fn run(self, compare: impl Compare) {
        let (cells, keys, hashes, best) = (self.cells, self.keys, self.hashes, self.best);
        let rest = &cells.rest;
        *self.asked = match rest.kinds(0) {
            (values, &[one, two]) if rest.is_packed() => {
                let ranges = [one, two];
                let kinds = |_| (values, &ranges[..]);
                cells.search_as::<N, 1>(compare, kinds, keys, hashes, best)
            }
            (values, &[]) if rest.is_packed() => {
                let kinds = |_| (values, &[][..]);
                cells.search_as::<N, 1>(compare, kinds, keys, hashes, best)
            }
            _ => {
                let kinds = |word| rest.kinds(word);
                cells.search_as::<N, 0>(compare, kinds, keys, hashes, best)
            }
        };
    }
}

/// List of keys that must be looked up in the bit vectors too, by their index in the group.
#[derive(Default)]
pub(super) struct Asked {
    keys: [u8; GROUP],
    count: usize,
}

impl Asked {
    /// Adds a key if `is_asked`, without a branch.
    #[inline(always)]
    fn add(&mut self, key: u8, is_asked: bool) {
        self.keys[self.count % GROUP] = key;
        self.count += usize::from(is_asked);
    }

    #[inline(always)]
    pub(super) fn keys(&self) -> &[u8] {
        &self.keys[..self.count]
    }
}

/// Returns true if a rule fixes all these bits.
fn has_bits(mask: &[u64], rule: &FlatRule) -> bool {
    let words = mask.iter().zip(rule.b());
    words.fold(0, |missing, (mask, b)| missing | mask & !b) == 0
}

/// Returns true if both rules have the same values of these bits.
fn are_same(mask: &[u64], a: &FlatRule, b: &FlatRule) -> bool {
    let words = a.a().iter().zip(b.a()).zip(mask);
    words.fold(0, |differing, ((a, b), mask)| differing | (a ^ b) & mask) == 0
}

/// Returns candidate sets of bits outside of ranges: for each threshold, those that enough rules
/// fix.
fn common_bits(layout: &Layout, rules: &[FlatRule]) -> Vec<Box<[u64]>> {
    let step = rules.len().div_ceil(SAMPLES).max(1);
    let looked_at = rules.len().div_ceil(step);
    let mut counts = vec![[0; 64]; layout.words];
    for rule in rules.iter().step_by(step) {
        for (word, counts) in counts.iter_mut().enumerate() {
            let fixed = rule.b()[word] & layout.values(word);
            for (bit, count) in counts.iter_mut().enumerate() {
                *count += (fixed >> bit & 1) as usize;
            }
        }
    }
    let mask_of = |percent: usize| -> Box<[u64]> {
        let word = |counts: &[usize; 64]| {
            let has_bit = |&bit: &usize| counts[bit] * 100 >= looked_at * percent;
            (0..64).filter(has_bit).fold(0, |mask, bit| mask | 1 << bit)
        };
        counts.iter().map(word).collect()
    };
    let mut masks: Vec<Box<[u64]>> = SHARES.map(mask_of).into();
    masks.dedup();
    masks
}

/// Computes the cost of cells by these bits; `None` if it is too high.
fn choice(mask: Box<[u64]>, rules: &[FlatRule], few: usize) -> Option<Choice> {
    let most_outside = few.max(rules.len() / MAX_OUTSIDE);
    let with_bits = || rules.iter().filter(|rule| has_bits(&mask, rule));
    if rules.len() - with_bits().count() > most_outside {
        return None;
    }
    let mut hashes: Vec<u64> = with_bits().map(|rule| hash::<0>(rule.a(), &mask)).collect();
    hashes.sort_unstable();
    let (mut within, mut pairs) = (0, 0);
    for cell in hashes.chunk_by(|a, b| a == b) {
        let count = cell.len().min(MAX);
        within += count;
        pairs += count * count;
    }
    let outside = rules.len() - within;
    let compared = pairs / within.max(1) + if outside > few { OUTSIDE_COST } else { 0 };
    let is_worth_it = outside <= most_outside && compared <= MAX_COMPARED;
    is_worth_it.then_some(Choice { mask, compared })
}
