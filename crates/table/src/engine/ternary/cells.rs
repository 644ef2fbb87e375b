//! [`Cells`]: rules that all have the same bits fixed, by the values of these bits; those with the same values lie side by side and are compared some at a time.
//!
//! Where most rules are long prefixes on both sides, coarse bits of both leave few rules to a cell, and one search finds the cell where a search of each tuple
//! would find one rule. What in a cell comes first matches best, so a search ends at the first match.

use super::buckets::{Buckets, Slot};
use super::layout::{LANES, Layout};
use super::records::{FlatRule, NONE};
use super::search::{Best, GROUP};
use super::tuples::hash;
use crate::entry::EntryIdx;
use crate::prefetch::prefetch;
use bits::Id;
use std::hint::select_unpredictable;

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

/// Rules by cell.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// Words of a key.
    key_words: usize,
    /// The bits that all rules have fixed.
    mask: Box<[u64]>,
    /// Where cells begin, in steps.
    table: Buckets,
    /// Cells: how many rules, and then, of each [`LANES`] of them, the first words of rows `a`, the second ones and so on, rows `b`, ranks and entries. Behind
    /// all cells there are some words more, so that lanes may be read that have no rule.
    words: Vec<u64>,
    /// Where cells were that are no more, by how many steps they take.
    free: Vec<Vec<u32>>,
    /// How many steps these take.
    unused: usize,
    len: usize,
}

/// Bits to have cells by, and how many rules a key is compared with.
struct Choice {
    mask: Box<[u64]>,
    compared: usize,
}

impl Cells {
    /// Takes those of the rules that have the bits which most have, if few are in each cell and those that are left are `few`, or not many for so many rules.
    pub(super) fn of_most(layout: &Layout, rules: &mut Vec<FlatRule>, few: usize) -> Option<Self> {
        if rules.len() <= few || !layout.compares_lanes() {
            return None;
        }
        let masks = common_bits(layout, rules).into_iter();
        let choices = masks.filter_map(|mask| choice(mask, rules, few));
        let best = choices.min_by_key(|choice| choice.compared)?;
        let mut cells = Self {
            key_words: layout.words,
            mask: best.mask,
            table: Buckets::with_room(0),
            words: vec![0; LANES],
            free: Vec::new(),
            unused: 0,
            len: 0,
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
            let (mut same, left): (Vec<FlatRule>, Vec<FlatRule>) =
                cell.iter().cloned().partition(is_same);
            others.extend(left);
            others.extend(same.drain(MOST.min(same.len())..));
            let head = self.write(&same);
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

    /// Words of a rule.
    fn columns(&self) -> usize {
        self.key_words * 2 + 3
    }

    /// Where a word of the rule at a place of a cell of so many is.
    fn place(&self, head: u32, count: usize, at: usize, column: usize) -> usize {
        let lane = at % LANES;
        let stride = LANES.min(count - (at - lane));
        head as usize * STEP + 1 + (at - lane) * self.columns() + column * stride + lane
    }

    fn rule(&self, head: u32, at: usize) -> FlatRule {
        let count = self.count(head);
        let word = |column: usize| self.words[self.place(head, count, at, column)];
        let rows = self.key_words * 2;
        FlatRule {
            rows: (0..rows).map(word).collect(),
            rank: (word(rows), word(rows + 1)),
            idx: EntryIdx::from_index(word(rows + 2) as usize),
        }
    }

    fn rules_of(&self, head: u32) -> Vec<FlatRule> {
        let places = 0..self.count(head);
        places.map(|at| self.rule(head, at)).collect()
    }

    /// All rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = FlatRule> + '_ {
        self.table.heads().flat_map(|head| self.rules_of(head))
    }

    /// How many steps a cell of so many rules takes.
    fn steps(&self, count: usize) -> usize {
        (1 + count * self.columns()).div_ceil(STEP)
    }

    /// Writes a cell, and gives where it begins.
    fn write(&mut self, rules: &[FlatRule]) -> u32 {
        let (count, steps) = (rules.len(), self.steps(rules.len()));
        let free = self.free.get_mut(steps).and_then(Vec::pop);
        let head = match free {
            Some(head) => {
                self.unused -= steps;
                head
            }
            None => {
                let begin = self.words.len() - LANES;
                self.words.resize(begin + steps * STEP + LANES, 0);
                (begin / STEP) as u32
            }
        };
        self.words[head as usize * STEP] = count as u64;
        for (at, rule) in rules.iter().enumerate() {
            let (rank, idx) = (rule.rank, rule.idx.index() as u64);
            let words = rule.rows.iter().copied().chain([rank.0, rank.1, idx]);
            for (column, word) in words.enumerate() {
                let place = self.place(head, count, at, column);
                self.words[place] = word;
            }
        }
        self.len += count;
        head
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

    /// Puts a rule in; false if there is no place for it.
    pub(super) fn insert(&mut self, rule: &FlatRule) -> bool {
        if !self.has_bits(rule) {
            return false;
        }
        let Some(slot) = self.slot(rule) else {
            if self.table.is_full() {
                self.rehash();
            }
            let head = self.write(std::slice::from_ref(rule));
            self.table.add(self.hash_of(rule), head);
            return true;
        };
        let head = self.table.head(slot);
        if self.count(head) == MOST {
            return false;
        }
        let mut rules = self.rules_of(head);
        let behind = rules.partition_point(|other| other.rank < rule.rank);
        rules.insert(behind, rule.clone());
        self.forget(head);
        let head = self.write(&rules);
        self.table.set_head(slot, head);
        true
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
        let head = self.table.head(slot);
        let mut rules = self.rules_of(head);
        let Ok(place) = rules.binary_search_by_key(&rule.rank, |other| other.rank) else {
            return false;
        };
        rules.remove(place);
        self.forget(head);
        if rules.is_empty() {
            self.table.take(slot);
        } else {
            let head = self.write(&rules);
            self.table.set_head(slot, head);
        }
        true
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

    /// Searches a cell and keeps what is better than `best`.
    #[inline(always)]
    pub(super) fn search_cell<const N: usize>(
        &self,
        layout: &Layout,
        key: &[u64],
        head: u32,
        best: &mut Best,
    ) {
        let key_words = if N == 0 { self.key_words } else { N };
        let count = self.count(head);
        let cell = &self.words[head as usize * STEP + 1..];
        for first in (0..count).step_by(LANES) {
            let part = &cell[first * (key_words * 2 + 3)..];
            let stride = LANES.min(count - first);
            let lanes = |column: usize| {
                let words = &part[column * stride..column * stride + LANES];
                std::array::from_fn(|lane| words[lane])
            };
            // Lanes behind the last rule have what is no rule.
            let lane = layout.matching_lanes::<N>(key, lanes).trailing_zeros() as usize;
            if lane < stride {
                let word = |column: usize| part[column * stride + lane];
                let rank = (word(key_words * 2), word(key_words * 2 + 1));
                let idx = word(key_words * 2 + 2) as u32;
                best.improve(Best { rank, idx });
                return;
            }
        }
    }

    /// Searches all cells that may be of this hash.
    #[inline(always)]
    pub(super) fn search_one<const N: usize>(
        &self,
        layout: &Layout,
        key: &[u64],
        hash: u64,
        best: &mut Best,
    ) {
        for head in self.table.chains(hash) {
            self.search_cell::<N>(layout, key, head, best);
        }
    }

    /// The cells of keys with these hashes. Where a key may have more than one, they are searched at once.
    #[inline(always)]
    pub(super) fn cells_of<const N: usize>(
        &self,
        layout: &Layout,
        keys: &[&[u64]],
        hashes: &[u64; GROUP],
        best: &mut [Best; GROUP],
    ) -> Found {
        let mut found = Found {
            cells: [(0, NONE); GROUP],
            count: 0,
        };
        for (i, &key) in keys.iter().enumerate().take(GROUP) {
            let (head, is_only) = self.cell(hashes[i]);
            found.cells[found.count % GROUP] = (i as u8, head);
            found.count += usize::from((head != NONE) & is_only);
            if !is_only {
                self.search_one::<N>(layout, key, hashes[i], &mut best[i]);
            }
        }
        found
    }

    /// Searches the cells that were found.
    #[inline(always)]
    pub(super) fn search<const N: usize>(
        &self,
        layout: &Layout,
        keys: &[&[u64]],
        found: &Found,
        best: &mut [Best; GROUP],
    ) {
        for &(i, head) in &found.cells[..found.count] {
            let i = usize::from(i) % GROUP;
            self.search_cell::<N>(layout, keys[i], head, &mut best[i]);
        }
    }
}

/// Cells, each with the number of its key.
pub(super) struct Found {
    cells: [(u8, u32); GROUP],
    count: usize,
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
