//! [`Records`]: rules in the form in which keys are compared with them, in whole cache lines.

use super::layout::Layout;
use crate::entry::{EntryIdx, Rank};
use crate::prefetch::prefetch;
use bits::Id;
use std::hint::select_unpredictable;
use std::sync::Arc;

/// Marks the absence of a record, and the entry of a removed record.
pub(super) const NONE: u32 = u32::MAX;

/// Rank as two words; the first is more significant.
pub(super) type RankWords = (u64, u64);

/// Cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// Rule as the engine stores it.
#[derive(Debug, Clone)]
pub(super) struct FlatRule {
    /// Words `a` of the layout, followed by words `b`.
    pub(super) rows: Arc<[u64]>,
    pub(super) rank: RankWords,
    pub(super) idx: EntryIdx,
}

impl FlatRule {
    pub(super) fn a(&self) -> &[u64] {
        &self.rows[..self.rows.len() / 2]
    }

    pub(super) fn b(&self) -> &[u64] {
        &self.rows[self.rows.len() / 2..]
    }
}

/// Rules by record number. A record has the entry and the next record, the rank, words `a`, words
/// `b`.
#[derive(Debug, Clone)]
pub(super) struct Records {
    words: usize,
    lines_each: usize,
    lines: Vec<Line>,
    free: Vec<u32>,
}

/// Index of the first word `a` in a record.
const ROWS: usize = 3;

/// Reference to a record.
#[derive(Clone, Copy)]
pub(super) struct Record<'r>(&'r [Line]);

impl Record<'_> {
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self.0[at / 8].0[at % 8]
    }

    /// Returns the entry, or [`NONE`].
    #[inline(always)]
    pub(super) fn idx(&self) -> u32 {
        self.word(0) as u32
    }

    /// Returns the next record in its chain, or [`NONE`].
    #[inline(always)]
    pub(super) fn next(&self) -> u32 {
        (self.word(0) >> 32) as u32
    }

    #[inline(always)]
    pub(super) fn rank(&self) -> RankWords {
        (self.word(1), self.word(2))
    }

    /// Returns true if the rule matches. For rules of which most differ from the key in a fixed
    /// bit: the rest is then skipped.
    #[inline(always)]
    pub(super) fn matches<const N: usize>(&self, layout: &Layout, key: &[u64]) -> bool {
        self.has_bits::<N>(layout, key) && self.is_in_ranges::<N>(layout, key)
    }

    /// Returns true if the rule matches, without a branch. For rules that are likely to match.
    #[inline(always)]
    pub(super) fn matches_evenly<const N: usize>(&self, layout: &Layout, key: &[u64]) -> bool {
        self.has_bits::<N>(layout, key) & self.is_in_ranges::<N>(layout, key)
    }

    #[inline(always)]
    fn has_bits<const N: usize>(&self, layout: &Layout, key: &[u64]) -> bool {
        layout.has_bits::<N>(key, |word| self.a(word), |word| self.b::<N>(layout, word))
    }

    #[inline(always)]
    fn is_in_ranges<const N: usize>(&self, layout: &Layout, key: &[u64]) -> bool {
        layout.in_ranges(key, |word| self.a(word), |word| self.b::<N>(layout, word))
    }

    #[inline(always)]
    fn a(&self, word: usize) -> u64 {
        self.word(ROWS + word)
    }

    #[inline(always)]
    fn b<const N: usize>(&self, layout: &Layout, word: usize) -> u64 {
        let words = if N == 0 { layout.words } else { N };
        self.word(ROWS + words + word)
    }
}

impl Records {
    pub(super) fn new(words: usize) -> Self {
        Self {
            words,
            lines_each: (ROWS + words * 2).div_ceil(8),
            lines: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns the number of records, including free ones.
    pub(super) fn len(&self) -> usize {
        self.lines.len() / self.lines_each
    }

    pub(super) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>() + self.free.len() * 4
    }

    pub(super) fn reserve(&mut self, records: usize) {
        self.lines.reserve_exact(records * self.lines_each);
    }

    pub(super) fn get(&self, record: u32) -> Record<'_> {
        self.at::<0>(record)
    }

    /// Returns a record. `N` is the number of words, or 0 if it is not a constant.
    #[inline(always)]
    pub(super) fn at<const N: usize>(&self, record: u32) -> Record<'_> {
        let lines_each = self.lines_each::<N>();
        let first = record as usize * lines_each;
        Record(&self.lines[first..first + lines_each])
    }

    /// Prefetches a record. For [`NONE`], prefetches any valid record, because a prefetch of an
    /// unmapped address is slow.
    #[inline(always)]
    pub(super) fn prefetch<const N: usize>(&self, record: u32) {
        let record = select_unpredictable(record == NONE, 0, record);
        prefetch(&self.lines, record as usize * self.lines_each::<N>());
    }

    #[inline(always)]
    fn lines_each<const N: usize>(&self) -> usize {
        if N == 0 {
            self.lines_each
        } else {
            (ROWS + N * 2).div_ceil(8)
        }
    }

    /// Copies the words `a` and `b` of a record to `rows`.
    pub(super) fn copy_rows(&self, record: u32, rows: &mut [u64]) {
        let record = self.get(record);
        for (at, word) in rows.iter_mut().enumerate() {
            *word = record.word(ROWS + at);
        }
    }

    fn set(&mut self, record: u32, at: usize, word: u64) {
        let line = record as usize * self.lines_each + at / 8;
        self.lines[line].0[at % 8] = word;
    }

    /// Adds a rule in front of record `next`. Returns its record number.
    pub(super) fn add(&mut self, rule: &FlatRule, next: u32) -> u32 {
        let record = self.free.pop().unwrap_or_else(|| {
            let record = self.len() as u32;
            let len = self.lines.len() + self.lines_each;
            self.lines.resize(len, Line([0; 8]));
            record
        });
        self.set(
            record,
            0,
            u64::from(rule.idx.index() as u32) | u64::from(next) << 32,
        );
        self.set(record, 1, rule.rank.0);
        self.set(record, 2, rule.rank.1);
        for (at, &word) in rule.rows.iter().enumerate() {
            self.set(record, ROWS + at, word);
        }
        record
    }

    pub(super) fn set_next(&mut self, record: u32, next: u32) {
        let idx = u64::from(self.get(record).idx());
        self.set(record, 0, idx | u64::from(next) << 32);
    }

    /// Marks a record as removed, but keeps it allocated.
    pub(super) fn kill(&mut self, record: u32) {
        let next = u64::from(self.get(record).next());
        self.set(record, 0, u64::from(NONE) | next << 32);
    }

    /// Removes a record and frees it for reuse.
    pub(super) fn free(&mut self, record: u32) {
        self.kill(record);
        self.free.push(record);
    }

    /// Returns the rule in a record.
    pub(super) fn rule(&self, record: u32) -> FlatRule {
        let mut rows = vec![0; self.words * 2];
        self.copy_rows(record, &mut rows);
        let record = self.get(record);
        FlatRule {
            rows: rows.into(),
            rank: record.rank(),
            idx: EntryIdx::from_index(record.idx() as usize),
        }
    }

    /// Iterates over all records that hold a rule.
    pub(super) fn live(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len() as u32).filter(|&record| self.get(record).idx() != NONE)
    }
}

impl Rank {
    /// Returns the rank as two words with the same order.
    pub(super) fn words(self) -> RankWords {
        let (class, id) = self.parts();
        (class as u64 ^ 1 << 63, id)
    }
}
