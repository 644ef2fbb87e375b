//! [`Learned`]: independent sets of an index, with a record of removed rules.

use super::isets::{Iset, MAX_ISETS, Near};
use super::layout::Layout;
use super::records::FlatRule;
use super::search::{Best, GROUP, precedes};
use std::sync::Arc;

/// Sets that all copies of an index share. Only the record of removed rules changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Learned {
    sets: Arc<[Iset]>,
    /// Bitmap of the removed rules of all sets; empty if no rule was removed.
    gone: Vec<u64>,
    /// For each set, the index of its first word in `gone`.
    first_word: [usize; MAX_ISETS],
    /// Number of rules that are not removed.
    live: usize,
}

impl Learned {
    /// Creates the structure with at most [`MAX_ISETS`] sets.
    pub(super) fn new(sets: Vec<Iset>) -> Self {
        debug_assert!(sets.len() <= MAX_ISETS);
        let mut first_word = [0; MAX_ISETS];
        let mut words = 0;
        for (set, first) in sets.iter().zip(&mut first_word) {
            *first = words;
            words += set.len().div_ceil(64);
        }
        Self {
            live: sets.iter().map(Iset::len).sum(),
            sets: sets.into(),
            gone: Vec::new(),
            first_word,
        }
    }

    /// Returns the number of rules that are not removed.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Returns the number of rules, including removed ones.
    pub(super) fn built(&self) -> usize {
        self.sets.iter().map(Iset::len).sum()
    }

    /// Returns the size in bytes of the parts that all copies share.
    pub(super) fn shared_bytes(&self) -> usize {
        self.sets.iter().map(Iset::bytes).sum()
    }

    /// Returns the size in bytes of the parts that this copy does not share.
    pub(super) fn own_bytes(&self) -> usize {
        self.gone.len() * 8
    }

    #[inline(always)]
    fn is_gone(&self, set: usize, place: u32) -> bool {
        let word = self.first_word[set % MAX_ISETS] + place as usize / 64;
        let gone = self.gone.get(word);
        gone.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// Iterates over the rules that are not removed.
    pub(super) fn rules(&self) -> impl Iterator<Item = FlatRule> + '_ {
        self.sets.iter().enumerate().flat_map(move |(at, set)| {
            let live = (0..set.len() as u32).filter(move |&place| !self.is_gone(at, place));
            live.map(|place| set.rule(place))
        })
    }

    /// Removes a rule. Returns false if it is in no set.
    pub(super) fn remove(&mut self, rule: &FlatRule) -> bool {
        let place = |(at, set): (usize, &Iset)| {
            let place = set.find(rule).filter(|&place| !self.is_gone(at, place));
            Some((at, place?))
        };
        let Some((set, place)) = self.sets.iter().enumerate().find_map(place) else {
            return false;
        };
        if self.gone.is_empty() {
            let words = self.sets.iter().map(|set| set.len().div_ceil(64));
            self.gone = vec![0; words.sum()];
        }
        self.gone[self.first_word[set] + place as usize / 64] |= 1 << (place % 64);
        self.live -= 1;
        true
    }

    /// Finds the best rules for a group of keys.
    #[inline(always)]
    pub(super) fn search<const N: usize>(
        &self,
        layout: &Layout,
        keys: &[&[u64]],
        best: &mut [Best; GROUP],
    ) {
        let mut places = [[0u32; GROUP]; MAX_ISETS];
        for (set, places) in self.sets.iter().zip(&mut places) {
            find_places::<N>(set, keys, places);
        }
        for (at, (set, places)) in self.sets.iter().zip(&places).enumerate() {
            for ((key, &place), best) in keys.iter().zip(places).zip(&mut *best) {
                self.compare::<N>(layout, (at, set), place, key, best);
            }
        }
    }

    /// Finds the best rule for a key.
    #[inline(always)]
    pub(super) fn search_one<const N: usize>(&self, layout: &Layout, key: &[u64], best: &mut Best) {
        for (at, set) in self.sets.iter().enumerate() {
            let number = set.number(key);
            let place = set.place(set.near(set.leaf(number), number), number);
            self.compare::<N>(layout, (at, set), place, key, best);
        }
    }

    #[inline(always)]
    fn compare<const N: usize>(
        &self,
        layout: &Layout,
        (at, set): (usize, &Iset),
        place: u32,
        key: &[u64],
        best: &mut Best,
    ) {
        let record = set.record::<N>(place);
        let (rank, idx) = (record.rank(), record.idx());
        let is_better = precedes(rank, best.rank)
            & record.matches_evenly::<N>(layout, key)
            & !self.is_gone(at, place);
        best.take_if(is_better, Best { rank, idx });
    }
}

/// Finds the position of each key in a set, and prefetches the records there.
#[inline(always)]
fn find_places<const N: usize>(set: &Iset, keys: &[&[u64]], places: &mut [u32; GROUP]) {
    let mut numbers = [0u32; GROUP];
    let mut leaves = [0usize; GROUP];
    let mut near = [Near::default(); GROUP];
    let keys = &keys[..keys.len().min(GROUP)];
    for (i, key) in keys.iter().enumerate() {
        numbers[i] = set.number(key);
        leaves[i] = set.leaf(numbers[i]);
    }
    for i in 0..keys.len() {
        near[i] = set.near(leaves[i], numbers[i]);
    }
    // All searches take as many steps as the longest one, because the number of steps of each is
    // unpredictable.
    let near = &mut near[..keys.len()];
    while near.iter().any(Near::is_wide) {
        for (near, &number) in near.iter_mut().zip(&numbers) {
            set.halve(near, number);
        }
    }
    for (i, &near) in near.iter().enumerate() {
        places[i] = set.place(near, numbers[i]);
        set.prefetch::<N>(places[i]);
    }
}
