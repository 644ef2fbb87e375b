//! [`Tuples`]: tuple space, a hash table over masked keys for each mask.
//!
//! A rule is in a tuple of which the mask has no bit that the rule leaves open. The fewer bits the
//! mask has, the more rules share a masked key and thus a chain. Chains are in order of rank (Daly
//! et al., "TupleMerge: Fast Software Packet Processing for Online Packet Classification", IEEE/ACM
//! Transactions on Networking 27(4), 2019).

use super::buckets::{Buckets, Slot};
use super::layout::Layout;
use super::records::{FlatRule, NONE, RankWords, Records};
use super::windows::{MAX_TUPLES, Window, Windows};
use bits::one;

/// Chain length at which a further rule gets a tuple with its own mask instead.
const LONG_CHAIN: usize = 24;
/// Number of free tuples at or below which rules share existing tuples.
const RESERVE: usize = 3;

/// Rank that is worse than all others.
pub(super) const WORST: RankWords = (u64::MAX, u64::MAX);

/// The tuples. After a build they are in order of their best ranks.
#[derive(Debug, Clone)]
pub(super) struct Tuples {
    words: usize,
    /// Words of each mask, concatenated.
    masks: Vec<u64>,
    tables: Vec<Buckets>,
    /// For each tuple, a bound: no rule of it has a better rank. The bound stays when the best rule
    /// is removed.
    best: Vec<RankWords>,
    windows: Windows,
}

/// Returns the hash of `key & mask`.
#[inline(always)]
pub(super) fn hash<const N: usize>(key: &[u64], mask: &[u64]) -> u64 {
    let words = if N == 0 { mask.len() } else { N };
    let at = |word: usize| {
        if word < words {
            key[word] & mask[word]
        } else {
            0
        }
    };
    let mut hash = 0x2d35_8dcc_aa6c_78a5;
    let mut word = 0;
    while word < words {
        let product =
            u128::from(at(word) ^ hash) * u128::from(at(word + 1) ^ 0x8bb8_4b93_962e_acc9);
        hash = product as u64 ^ (product >> 64) as u64;
        word += 2;
    }
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash >> 29
}

impl Tuples {
    /// Creates empty tuples with these masks, each with room for the given number of chains.
    pub(super) fn new(
        words: usize,
        masks: impl IntoIterator<Item = (Box<[u64]>, usize)>,
        windows: &[Window],
    ) -> Self {
        let mut tuples = Self {
            words,
            masks: Vec::new(),
            tables: Vec::new(),
            best: Vec::new(),
            windows: Windows::new(windows),
        };
        for (mask, chains) in masks {
            tuples.push(&mask, chains);
        }
        tuples
    }

    pub(super) fn len(&self) -> usize {
        self.tables.len()
    }

    pub(super) fn bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(Buckets::bytes).sum();
        tables + self.masks.len() * 8 + self.best.len() * 16 + self.windows.bytes()
    }

    fn push(&mut self, mask: &[u64], chains: usize) {
        self.masks.extend_from_slice(mask);
        self.tables.push(Buckets::with_room(chains));
        self.best.push(WORST);
    }

    #[inline(always)]
    pub(super) fn mask<const N: usize>(&self, tuple: usize) -> &[u64] {
        let words = if N == 0 { self.words } else { N };
        &self.masks[tuple * words..(tuple + 1) * words]
    }

    #[inline(always)]
    pub(super) fn table(&self, tuple: usize) -> &Buckets {
        &self.tables[tuple]
    }

    #[inline(always)]
    pub(super) fn best(&self, tuple: usize) -> RankWords {
        self.best[tuple]
    }

    /// Prefetches what [`candidates`](Self::candidates) reads.
    #[inline(always)]
    pub(super) fn prefetch_candidates(&self, key: &[u64]) {
        self.windows.prefetch(key);
    }

    /// Returns the tuples that are worth searching, one bit each.
    #[inline(always)]
    pub(super) fn candidates(&self, key: &[u64]) -> u64 {
        self.windows.admitted(key, one::mask(self.len() as u32))
    }

    /// Returns the tuples of which the masks have no bit outside of `fixed`, the one with the most
    /// bits first.
    fn compatible(&self, fixed: &[u64]) -> Vec<usize> {
        let has_none_other = |tuple: &usize| {
            let mask = self.mask::<0>(*tuple).iter();
            mask.zip(fixed).all(|(mask, fixed)| mask & !fixed == 0)
        };
        let bits = |tuple: usize| -> u32 {
            let mask = self.mask::<0>(tuple).iter();
            mask.map(|word| word.count_ones()).sum()
        };
        let mut tuples: Vec<usize> = (0..self.len()).filter(has_none_other).collect();
        tuples.sort_by_key(|&tuple| std::cmp::Reverse(bits(tuple)));
        tuples
    }

    fn slot(&self, tuple: usize, a: &[u64], records: &Records) -> Option<Slot> {
        let mask = self.mask::<0>(tuple);
        let mut head_rows = vec![0; self.words];
        self.tables[tuple].find(hash::<0>(a, mask), |head| {
            records.copy_rows(head, &mut head_rows);
            let both = head_rows.iter().zip(a).zip(mask);
            both.into_iter()
                .all(|((head, a), mask)| (head ^ a) & mask == 0)
        })
    }

    /// Returns true if there is a tuple for a rule in which neither is the mask much coarser nor
    /// the chain long.
    pub(super) fn suit(&self, rule: &FlatRule, layout: &Layout, records: &Records) -> bool {
        let mut fixed = vec![0; self.words];
        layout.fixed(rule.a(), rule.b(), &mut fixed);
        self.suiting(rule, &fixed, records).is_some()
    }

    fn suiting(&self, rule: &FlatRule, fixed: &[u64], records: &Records) -> Option<usize> {
        let best = self.compatible(fixed).first().copied();
        best.filter(|&tuple| {
            self.mask::<0>(tuple) == fixed || self.chain_len(tuple, rule, records) < LONG_CHAIN
        })
    }

    /// Inserts a rule into the tuple that suits it best.
    pub(super) fn insert(&mut self, rule: &FlatRule, layout: &Layout, records: &mut Records) {
        let mut fixed = vec![0; self.words];
        layout.fixed(rule.a(), rule.b(), &mut fixed);
        let tuple = self.choose(rule, &fixed, records);
        self.insert_into(tuple, rule, records);
    }

    fn choose(&mut self, rule: &FlatRule, fixed: &[u64], records: &Records) -> usize {
        let room = MAX_TUPLES - self.len();
        if let Some(tuple) = self.suiting(rule, fixed, records) {
            return tuple;
        }
        let best = self.compatible(fixed).first().copied();
        match (room, best) {
            (0..=RESERVE, Some(tuple)) => return tuple,
            // The last tuple has an empty mask and accepts any rule.
            (0 | 1, None) => self.push(&vec![0; self.words], 8),
            _ => self.push(fixed, 8),
        }
        self.len() - 1
    }

    fn chain_len(&self, tuple: usize, rule: &FlatRule, records: &Records) -> usize {
        let slot = self.slot(tuple, rule.a(), records);
        let head = slot.map_or(NONE, |slot| self.tables[tuple].head(slot));
        chain(head, records).take(LONG_CHAIN).count()
    }

    /// Releases unused memory after many insertions.
    pub(super) fn fit(&mut self) {
        self.windows.share();
    }

    /// Inserts a rule into this tuple.
    pub(super) fn insert_into(&mut self, tuple: usize, rule: &FlatRule, records: &mut Records) {
        self.best[tuple] = self.best[tuple].min(rule.rank);
        self.windows.enter(tuple, rule.a(), rule.b());
        let Some(slot) = self.slot(tuple, rule.a(), records) else {
            let record = records.add(rule, NONE);
            if self.tables[tuple].is_full() {
                self.rehash(tuple, records);
            }
            let hash = hash::<0>(rule.a(), self.mask::<0>(tuple));
            self.tables[tuple].add(hash, record);
            return;
        };
        let head = self.tables[tuple].head(slot);
        let before = chain(head, records).take_while(|&at| records.get(at).rank() < rule.rank);
        match before.last() {
            None => {
                let record = records.add(rule, head);
                self.tables[tuple].set_head(slot, record);
            }
            Some(before) => {
                let record = records.add(rule, records.get(before).next());
                records.set_next(before, record);
            }
        }
    }

    fn rehash(&mut self, tuple: usize, records: &Records) {
        let old = &self.tables[tuple];
        let mut new = Buckets::with_room((old.used() + 1) * 2);
        let mut a = vec![0; self.words];
        for head in old.heads() {
            records.copy_rows(head, &mut a);
            new.add(hash::<0>(&a, self.mask::<0>(tuple)), head);
        }
        self.tables[tuple] = new;
    }

    /// Removes a rule. Returns false if it is in no tuple.
    pub(super) fn remove(
        &mut self,
        rule: &FlatRule,
        layout: &Layout,
        records: &mut Records,
    ) -> bool {
        let mut fixed = vec![0; self.words];
        layout.fixed(rule.a(), rule.b(), &mut fixed);
        let tuples = self.compatible(&fixed);
        tuples
            .into_iter()
            .any(|tuple| self.remove_from(tuple, rule, records))
    }

    fn remove_from(&mut self, tuple: usize, rule: &FlatRule, records: &mut Records) -> bool {
        let Some(slot) = self.slot(tuple, rule.a(), records) else {
            return false;
        };
        let head = self.tables[tuple].head(slot);
        let mut before = NONE;
        let found = chain(head, records).find(|&at| {
            let is_it = records.get(at).rank() == rule.rank;
            if !is_it {
                before = at;
            }
            is_it
        });
        let Some(found) = found else {
            return false;
        };
        let next = records.get(found).next();
        match (before, next) {
            (NONE, NONE) => self.tables[tuple].take(slot),
            (NONE, next) => self.tables[tuple].set_head(slot, next),
            (before, next) => records.set_next(before, next),
        }
        records.free(found);
        true
    }
}

/// Iterates over the records of a chain.
pub(super) fn chain(head: u32, records: &Records) -> impl Iterator<Item = u32> + '_ {
    let next = |record: &u32| Some(records.get(*record).next()).filter(|&next| next != NONE);
    std::iter::successors(Some(head).filter(|&head| head != NONE), next)
}
