//! [`Rows`]: a few rules, a bit each.
//!
//! Rules that share their mask with few others would be tuples of their own, or make the chains of others long. Here a search tells from a row
//! of bits a window which of them may match, nearly always only those that do.

use super::layout::Layout;
use super::records::{FlatRule, NONE, RankWords, Records};
use super::search::Best;
use super::tuples::WORST;
use super::windows::{Window, Windows};

/// Words of a row.
const WORDS: usize = 4;
/// The most rules.
pub(super) const MAX_ROWS: usize = WORDS * 64;

/// Up to [`MAX_ROWS`] rules, after a build in order of rank.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    windows: Windows<WORDS>,
    /// The rules that there are.
    present: [u64; WORDS],
    /// No rule of a word has a better rank. When the best rule goes, the bound stays.
    best: [RankWords; WORDS],
    /// The record of each rule.
    records: Vec<u32>,
}

impl Rows {
    /// No rules.
    pub(super) fn new(windows: &[Window]) -> Self {
        Self {
            windows: Windows::new(windows),
            present: [0; WORDS],
            best: [WORST; WORDS],
            records: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.windows.bytes() + self.records.len() * 4
    }

    fn free(&self) -> Option<usize> {
        let free = |word: usize| word * 64 + self.present[word].trailing_ones() as usize;
        let word = (0..WORDS).find(|&word| self.present[word] != u64::MAX);
        word.map(free)
    }

    /// Puts a rule in; false if there is no room.
    pub(super) fn insert(&mut self, rule: &FlatRule, records: &mut Records) -> bool {
        let Some(at) = self.free() else {
            return false;
        };
        if self.records.len() <= at {
            self.records.resize(at + 1, NONE);
        }
        self.records[at] = records.add(rule, NONE);
        self.present[at / 64] |= 1 << (at % 64);
        let best = &mut self.best[at / 64];
        *best = rule.rank.min(*best);
        self.windows.enter(at, rule.a(), rule.b());
        true
    }

    /// Takes a rule out; false if it is not here.
    pub(super) fn remove(&mut self, rule: &FlatRule, records: &mut Records) -> bool {
        // Row `a` is a key that the rule matches.
        let admitted = self.windows.admitted(rule.a(), self.present);
        let found = ones(&admitted).find(|&at| records.get(self.records[at]).rank() == rule.rank);
        let Some(at) = found else {
            return false;
        };
        records.free(self.records[at]);
        self.present[at / 64] &= !(1 << (at % 64));
        self.windows.leave(at);
        true
    }

    /// Asks for what [`search`](Self::search) reads first.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: &[u64]) {
        self.windows.prefetch(key);
    }

    #[inline(always)]
    pub(super) fn search<const N: usize>(
        &self,
        layout: &Layout,
        records: &Records,
        key: &[u64],
        best: &mut Best,
    ) {
        let admitted = self.windows.admitted(key, self.present);
        for (word, mut left) in admitted.into_iter().enumerate() {
            if self.best[word] >= best.rank {
                continue;
            }
            while left != 0 {
                let at = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let record = records.at::<N>(self.records[at]);
                let rank = record.rank();
                if rank < best.rank && record.matches::<N>(layout, key) {
                    *best = Best {
                        rank,
                        idx: record.idx(),
                    };
                }
            }
        }
    }
}

/// The places of ones.
fn ones(words: &[u64; WORDS]) -> impl Iterator<Item = usize> + '_ {
    (0..MAX_ROWS).filter(|at| words[at / 64] >> (at % 64) & 1 == 1)
}
