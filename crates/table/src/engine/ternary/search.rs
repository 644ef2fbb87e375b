//! Search of an index for a group of keys. All memory that a step reads is prefetched before the
//! step.

use super::index::Index;
use super::layout::MAX_PACKED;
use super::records::{NONE, RankWords};
use super::tuples::{WORST, hash};
use crate::entry::EntryIdx;
use bits::Id;
use std::hint::select_unpredictable;

/// Number of keys that are searched together.
pub(super) const GROUP: usize = 32;
/// Number of tuples that are searched for a key in one step. Their memory accesses overlap.
const WAVE: usize = 4;

/// Best rule for a key so far.
#[derive(Clone, Copy)]
pub(super) struct Best {
    pub(super) rank: RankWords,
    pub(super) idx: u32,
}

pub(super) const NOTHING: Best = Best {
    rank: WORST,
    idx: NONE,
};

impl Best {
    /// Replaces itself by `other` if that is better.
    #[inline(always)]
    pub(super) fn improve(&mut self, other: Self) {
        self.take_if(precedes(other.rank, self.rank), other);
    }

    /// Replaces itself by `other` if `is_taken`. Branch-free, because the condition is
    /// unpredictable.
    #[inline(always)]
    pub(super) fn take_if(&mut self, is_taken: bool, other: Self) {
        self.rank.0 = select_unpredictable(is_taken, other.rank.0, self.rank.0);
        self.rank.1 = select_unpredictable(is_taken, other.rank.1, self.rank.1);
        self.idx = select_unpredictable(is_taken, other.idx, self.idx);
    }

    pub(super) fn found(self) -> Option<EntryIdx> {
        (self.idx != NONE).then(|| EntryIdx::from_index(self.idx as usize))
    }
}

/// Returns true if the first rank is better, without a branch.
#[inline(always)]
pub(super) fn precedes(a: RankWords, b: RankWords) -> bool {
    let one = |(high, low): RankWords| u128::from(high) << 64 | u128::from(low);
    one(a) < one(b)
}

/// Search of one tuple for one key.
#[derive(Clone, Copy, Default)]
struct Probe {
    hash: u64,
    key: u8,
    tuple: u8,
}

impl Index {
    /// Searches a chain, which is in order of rank.
    #[inline(always)]
    fn search_chain<const N: usize>(&self, key: &[u64], head: u32, best: &mut Best) {
        let mut at = head;
        while at != NONE {
            let record = self.records.at::<N>(at);
            let rank = record.rank();
            if rank >= best.rank {
                return;
            }
            if record.matches::<N>(&self.layout, key) {
                *best = Best {
                    rank,
                    idx: record.idx(),
                };
                return;
            }
            at = record.next();
        }
    }

    /// Searches one key.
    #[inline(always)]
    pub(super) fn search_one<const N: usize>(&self, key: &[u64]) -> Option<EntryIdx> {
        let mut best = NOTHING;
        self.learned.search_one::<N>(&self.layout, key, &mut best);
        if let Some(cells) = &self.cells {
            cells.search_one::<N>(key, &mut best);
        }
        if let Some(rows) = &self.rows {
            rows.search_one(key, &mut best);
        }
        let mut candidates = self.tuples.candidates(key);
        while candidates != 0 {
            let tuple = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            if self.tuples.best(tuple) < best.rank {
                let hash = hash::<N>(key, self.tuples.mask::<N>(tuple));
                let table = self.tuples.table(tuple);
                for head in table.chains(hash) {
                    self.search_chain::<N>(key, head, &mut best);
                }
            }
        }
        best.found()
    }

    /// Searches up to [`GROUP`] keys of `stride` limbs each.
    #[inline(always)]
    pub(super) fn search_group<const N: usize>(
        &self,
        keys: &[u64],
        stride: usize,
        out: &mut [Option<EntryIdx>],
    ) {
        let count = out.len();
        debug_assert!(count <= GROUP);
        let mut packed = [[0u64; MAX_PACKED]; GROUP];
        let mut key: [&[u64]; GROUP] = [&[]; GROUP];
        for (i, (key, packed)) in key.iter_mut().zip(&mut packed).take(count).enumerate() {
            let limbs = &keys[i * stride..(i + 1) * stride];
            *key = self.layout.pack::<N>(limbs, packed);
        }
        let best = self.search_packed::<N>(&key[..count]);
        for (out, best) in out.iter_mut().zip(best) {
            *out = best.found();
        }
    }

    /// Returns the best rules for up to [`GROUP`] packed keys.
    #[inline(always)]
    pub(super) fn search_packed<const N: usize>(&self, key: &[&[u64]]) -> [Best; GROUP] {
        if self.tuples.len() > 0 {
            for key in key {
                self.tuples.prefetch_candidates(key);
            }
        }
        let mut hashes = [0; GROUP];
        if let Some(cells) = &self.cells {
            for (hash, key) in hashes.iter_mut().zip(key) {
                *hash = cells.hash::<N>(key);
            }
        }
        let mut best = [NOTHING; GROUP];
        self.learned.search::<N>(&self.layout, key, &mut best);
        let asked = self.cells.as_ref();
        let asked = asked.map(|cells| cells.search::<N>(key, &hashes, &mut best));
        match (&self.rows, &asked) {
            (Some(rows), Some(asked)) => {
                let mut left: [&[u64]; GROUP] = [&[]; GROUP];
                for (left, &i) in left.iter_mut().zip(asked.keys()) {
                    *left = key[usize::from(i)];
                }
                let asked = asked.keys();
                rows.search(&left[..asked.len()], |at| asked[at].into(), &mut best);
            }
            (Some(rows), None) => rows.search(key, |at| at, &mut best),
            (None, _) => {}
        }
        if self.tuples.len() > 0 {
            let mut candidates = [0u64; GROUP];
            for (candidates, key) in candidates.iter_mut().zip(key) {
                *candidates = self.tuples.candidates(key);
            }
            self.search_tuples::<N>(key, &mut candidates, &mut best);
        }
        best
    }

    /// Searches a few tuples for each key at a time, because a match makes further tuples
    /// unnecessary. The number of tuples and their results are unpredictable. To avoid branches,
    /// list elements are always written, and the length is increased conditionally.
    #[inline(always)]
    fn search_tuples<const N: usize>(
        &self,
        key: &[&[u64]],
        candidates: &mut [u64; GROUP],
        best: &mut [Best; GROUP],
    ) {
        let mut open: [u8; GROUP] = std::array::from_fn(|i| i as u8);
        let mut open_count = 0;
        for (i, candidates) in candidates.iter().enumerate().take(key.len()) {
            open[open_count] = i as u8;
            open_count += usize::from(*candidates != 0);
        }
        let mut probes = [Probe::default(); GROUP * WAVE];
        let mut chains = [(0u8, NONE); GROUP * WAVE];
        while open_count > 0 {
            let mut wanted = 0;
            for _ in 0..WAVE {
                let mut left = 0;
                for at in 0..open_count {
                    let i = usize::from(open[at]) % GROUP;
                    let tuple = candidates[i].trailing_zeros() as usize;
                    candidates[i] &= candidates[i] - 1;
                    open[left] = i as u8;
                    left += usize::from(candidates[i] != 0);
                    let hash = hash::<N>(key[i], self.tuples.mask::<N>(tuple));
                    self.tuples.table(tuple).prefetch(hash);
                    probes[wanted] = Probe {
                        hash,
                        key: i as u8,
                        tuple: tuple as u8,
                    };
                    wanted += usize::from(precedes(self.tuples.best(tuple), best[i].rank));
                }
                open_count = left;
            }
            let mut found = 0;
            for probe in &probes[..wanted] {
                let table = self.tuples.table(usize::from(probe.tuple));
                let i = usize::from(probe.key) % GROUP;
                let (head, is_only) = table.first_chain(probe.hash);
                self.records.prefetch::<N>(head);
                chains[found] = (probe.key, head);
                found += usize::from(head != NONE);
                if !is_only {
                    for head in table.chains(probe.hash) {
                        self.search_chain::<N>(key[i], head, &mut best[i]);
                    }
                }
            }
            for &(i, head) in &chains[..found] {
                let i = usize::from(i) % GROUP;
                self.search_chain::<N>(key[i], head, &mut best[i]);
            }
        }
    }
}
