//! [`Cells`]: rules that all have the same bits fixed, by the values of these bits; those with the same values lie side by side and are compared some at a time.
//!
//! Where most rules are long prefixes on both sides, coarse bits of both leave few rules to a cell, and one search finds the cell where a search of each tuple
//! would find one rule. What in a cell comes first matches best, so a search ends at the first match.

use super::buckets::{Buckets, Slot};
use super::layout::Layout;
use super::records::{FlatRule, NONE, RankWords};
use super::rest::{Rest, matching};
use super::search::{Best, GROUP};
use super::tuples::hash;
use crate::compare::{Compare, CompareWork, LANES, Lanewise, comparing_rules};
use crate::entry::EntryIdx;
use crate::prefetch::prefetch;
use std::hint::select_unpredictable;
use std::ops::Range;

/// The most rules in a cell.
const MOST: usize = 255;
/// Bits are tried that so many of a hundred rules have fixed.
const SHARES: [usize; 12] = [99, 98, 97, 96, 95, 93, 90, 85, 80, 75, 70, 60];
/// Rules that bits are chosen by, at most.
const SAMPLES: usize = 1 << 14;
/// What a search of cells may cost at most, in rules compared.
const MOST_COMPARED: usize = 64;
/// Of so many rules, one may have no cell.
const MOST_OUTSIDE: usize = 12;
/// What it costs that other rules are in tuples, in rules compared.
const OUTSIDE_COST: usize = 32;
/// Nothing is built anew for so many unused words.
const LEAST_UNUSED: usize = 1 << 14;
/// Cells begin at multiples of so many words.
const STEP: usize = 4;
/// Words of ranks and entry.
const ENTRY: usize = 3;
/// Above the entry: rows need not be searched if this rule was found.
const SURE: u64 = 1 << 32;
/// With more cells, a rule that comes to rows would take long to tell them all; with twice as many, as may come, none is told any more.
pub(super) const MOST_SURE: usize = 1 << 14;

/// Rules by cell.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// Words of a key.
    key_words: usize,
    /// The bits that all rules have fixed.
    mask: Box<[u64]>,
    /// Where cells begin, in steps.
    table: Buckets,
    /// What rules are compared in.
    rest: Rest,
    /// Cells: how many rules; the bits that all have in common; the first words of what is left of rows `a`, the second ones and so on, rows `b`; and of each
    /// its rank and its entry, with [`SURE`] if no key that it matches finds a better rule in the rows. Behind all cells there are some words more, so that
    /// lanes may be read that have no rule.
    words: Vec<u64>,
    /// Where cells were that are no more, by how many steps they take.
    free: Vec<Vec<u32>>,
    /// How many steps these take.
    unused: usize,
    len: usize,
    /// Whether rules may be sure.
    has_sure: bool,
}

/// Bits to have cells by, and how many rules a key is compared with.
struct Choice {
    mask: Box<[u64]>,
    compared: usize,
}

impl Cells {
    /// Takes those of the rules that have the bits which most have, if few are in each cell and those that are left are `few`, or not many for so many rules.
    pub(super) fn of_most(layout: &Layout, rules: &mut Vec<FlatRule>, few: usize) -> Option<Self> {
        if rules.len() <= few || layout.has_wide_ranges() {
            return None;
        }
        let masks = common_bits(layout, rules).into_iter();
        let choices = masks.filter_map(|mask| choice(mask, rules, few));
        let best = choices.min_by_key(|choice| choice.compared)?;
        let mut cells = Self {
            key_words: layout.words,
            rest: Rest::new(layout, &best.mask),
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

    /// Takes what it can of these, and gives the others.
    fn fill(&mut self, rules: Vec<FlatRule>) -> Vec<FlatRule> {
        let has_bits = |rule: &FlatRule| self.has_bits(rule);
        let (mut members, mut others): (Vec<FlatRule>, Vec<FlatRule>) =
            rules.into_iter().partition(has_bits);
        members.sort_by_cached_key(|rule| (self.hash_of(rule), rule.rank));
        let cells: Vec<&[FlatRule]> = members
            .chunk_by(|a, b| self.hash_of(a) == self.hash_of(b))
            .collect();
        // Where a bucket is full, another one has to be looked at.
        self.table = Buckets::with_room(cells.len() * 3 / 2);
        for cell in cells {
            let is_same = |rule: &FlatRule| are_same(&self.mask, rule, &cell[0]);
            // Others have the same hash by chance.
            let (same, left): (Vec<FlatRule>, Vec<FlatRule>) =
                cell.iter().cloned().partition(is_same);
            others.extend(left);
            let (same, behind) = same.split_at(MOST.min(same.len()));
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

    /// How many rules there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether most of the room is where cells were: if many grow, nothing may want it again.
    pub(super) fn is_outgrown(&self) -> bool {
        self.unused * STEP > LEAST_UNUSED.max(self.words.len() / 2)
    }

    pub(super) fn bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|places| places.len() * 4).sum();
        self.table.bytes() + self.words.len() * 8 + free
    }

    /// How many cells there are.
    #[cfg(test)]
    pub(super) fn cells(&self) -> usize {
        self.table.used()
    }

    /// How many rules are sure.
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

    /// The slot of the cell that a rule is in, or would be.
    fn slot(&self, rule: &FlatRule) -> Option<Slot> {
        self.table.find(self.hash_of(rule), |head| {
            are_same(&self.mask, &self.rule(head, 0), rule)
        })
    }

    /// How many rules are in the cell that begins here.
    #[inline(always)]
    fn count(&self, head: u32) -> usize {
        self.words[head as usize * STEP] as usize
    }

    /// The bits that rules of a cell have in common.
    fn common(&self, head: u32) -> &[u64] {
        &self.words[head as usize * STEP + 1..][..self.key_words]
    }

    /// Where the rows of a cell begin.
    fn rows(&self, head: u32) -> usize {
        head as usize * STEP + 1 + self.key_words
    }

    /// Words of a rule.
    fn columns(&self) -> usize {
        self.rest.words * 2 + ENTRY
    }

    /// Where the ranks and the entry of a rule are.
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

    /// All rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = FlatRule> + '_ {
        self.table.heads().flat_map(|head| self.rules_of(head))
    }

    /// How many steps a cell of so many rules takes.
    fn steps(&self, count: usize) -> usize {
        (1 + self.key_words + count * self.columns()).div_ceil(STEP)
    }

    /// Room for a cell of so many steps.
    fn room(&mut self, steps: usize) -> u32 {
        if let Some(head) = self.free.get_mut(steps).and_then(Vec::pop) {
            self.unused -= steps;
            return head;
        }
        let begin = self.words.len() - LANES;
        self.words.resize(begin + steps * STEP + LANES, 0);
        (begin / STEP) as u32
    }

    /// A cell for so many rules, with the bits of one of them, and where it begins.
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

    /// Copies rules from a cell to a place of another one.
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

    /// The first rule of a cell that is not better than this rank.
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

    /// Puts a rule in, beside these rows; false if there is no place for it.
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
        if count == MOST {
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

    /// Enters the cell of a rule in place of another one.
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

    /// Takes a rule out; false if it is not here.
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

    /// Finds out which rules are sure beside these rows.
    pub(super) fn trust(&mut self, rows: &[FlatRule]) {
        if self.table.used() > MOST_SURE {
            return;
        }
        self.have_sure(true);
        for head in self.table.heads().collect::<Vec<_>>() {
            for row in rows {
                self.doubt(head, 0..self.count(head), row);
            }
        }
    }

    /// A rule comes to the rows.
    pub(super) fn heed(&mut self, row: &FlatRule) {
        if !self.has_sure {
            return;
        }
        if self.table.used() > MOST_SURE * 2 {
            return self.have_sure(false);
        }
        for head in self.table.heads().collect::<Vec<_>>() {
            self.doubt(head, 0..self.count(head), row);
        }
    }

    /// From now on rules may be sure, and all are, or none are.
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

    /// Of these rules of a cell, those that come behind one of the rows are not sure if they overlap. Each is compared in place: a cell may have many, and nobody knows
    /// how often such a row comes and goes.
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

    /// Whether there may be a key of this cell that the rule matches.
    fn overlaps(&self, head: u32, rule: &FlatRule) -> bool {
        let words = self.common(head).iter().zip(rule.a()).zip(rule.b());
        let words = words.zip(&self.mask);
        words.fold(0, |other, (((common, a), b), mask)| {
            other | (common ^ a) & b & mask
        }) == 0
    }

    /// Asks for where the cell of a key is found, and gives the hash.
    #[inline(always)]
    pub(super) fn hash<const N: usize>(&self, key: &[u64]) -> u64 {
        let hash = hash::<N>(key, &self.mask);
        self.table.prefetch(hash);
        hash
    }

    /// The cell of a key, or [`NONE`], and whether there can be no other; asks for it.
    #[inline(always)]
    pub(super) fn cell(&self, hash: u64) -> (u32, bool) {
        let (head, is_only) = self.table.first_chain(hash);
        let begin = select_unpredictable(head == NONE, 0, head as usize * STEP);
        prefetch(&self.words, begin);
        prefetch(&self.words, begin + 8);
        prefetch(&self.words, begin + 16);
        (head, is_only)
    }

    /// Searches a cell and keeps what is better than `best`. Whether something was found that no rule of the rows comes before.
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
            // A fold would be a function of its own, and each comparison a call.
            for (word, &number) in rest.iter().enumerate().take(rest_words) {
                let (a, b) = (lanes(word), lanes(rest_words + word));
                all &= matching(compare, number, kinds(word), a, b);
            }
            let lane = all.trailing_zeros() as usize;
            // Lanes behind the last rule have what is no rule.
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

    /// Searches all cells that may be of this hash.
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

    /// Searches the cells of keys with these hashes, and tells for which of them rows have to be searched too.
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

/// A search for a group of keys. Its instructions are used for nothing else: tuples and sets are searched a fifth slower with them.
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

/// Numbers of keys that are to be asked for elsewhere.
#[derive(Default)]
pub(super) struct Asked {
    keys: [u8; GROUP],
    count: usize,
}

impl Asked {
    /// Adds a key, if so, without a branch.
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

/// Whether a rule leaves none of these bits open.
fn has_bits(mask: &[u64], rule: &FlatRule) -> bool {
    let words = mask.iter().zip(rule.b());
    words.fold(0, |missing, (mask, b)| missing | mask & !b) == 0
}

/// Whether both rules want the same values of these bits.
fn are_same(mask: &[u64], a: &FlatRule, b: &FlatRule) -> bool {
    let words = a.a().iter().zip(b.a()).zip(mask);
    words.fold(0, |differing, ((a, b), mask)| differing | (a ^ b) & mask) == 0
}

/// The bits outside of ranges that many rules have fixed, for each share that may be meant by many.
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

/// What cells by these bits cost; `None` if it is too much.
fn choice(mask: Box<[u64]>, rules: &[FlatRule], few: usize) -> Option<Choice> {
    let most_outside = few.max(rules.len() / MOST_OUTSIDE);
    let with_bits = || rules.iter().filter(|rule| has_bits(&mask, rule));
    if rules.len() - with_bits().count() > most_outside {
        return None;
    }
    let mut hashes: Vec<u64> = with_bits().map(|rule| hash::<0>(rule.a(), &mask)).collect();
    hashes.sort_unstable();
    let (mut within, mut pairs) = (0, 0);
    for cell in hashes.chunk_by(|a, b| a == b) {
        let count = cell.len().min(MOST);
        within += count;
        pairs += count * count;
    }
    let outside = rules.len() - within;
    let compared = pairs / within.max(1) + if outside > few { OUTSIDE_COST } else { 0 };
    let is_worth_it = outside <= most_outside && compared <= MOST_COMPARED;
    is_worth_it.then_some(Choice { mask, compared })
}
