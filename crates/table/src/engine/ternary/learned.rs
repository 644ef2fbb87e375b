//! [`Learned`]: the independent sets of an index, and which of their rules are gone.

use super::isets::{Iset, MAX_ISETS, Near};
use super::layout::Layout;
use super::records::FlatRule;
use super::search::{Best, GROUP, precedes};
use std::sync::Arc;

/// Sets that all copies of an index share; what changes is which rules are gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Learned {
    sets: Arc<[Iset]>,
    /// A bit for each rule of each set that is gone; none where no rule is gone.
    gone: Vec<u64>,
    /// Where in `gone` the bits of a set begin, in words.
    first_word: [usize; MAX_ISETS],
    /// Rules that are not gone.
    live: usize,
}

impl Learned {
    /// At most [`MAX_ISETS`] sets.
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

    /// Rules that are not gone.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Rules, those that are gone included.
    pub(super) fn built(&self) -> usize {
        self.sets.iter().map(Iset::len).sum()
    }

    /// What all copies share.
    pub(super) fn shared_bytes(&self) -> usize {
        self.sets.iter().map(Iset::bytes).sum()
    }

    /// What this copy does not share with others.
    pub(super) fn own_bytes(&self) -> usize {
        self.gone.len() * 8
    }

    #[inline(always)]
    fn is_gone(&self, set: usize, place: u32) -> bool {
        let word = self.first_word[set % MAX_ISETS] + place as usize / 64;
        let gone = self.gone.get(word);
        gone.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// The rules that are not gone.
    pub(super) fn rules(&self) -> impl Iterator<Item = FlatRule> + '_ {
        self.sets.iter().enumerate().flat_map(move |(at, set)| {
            let live = (0..set.len() as u32).filter(move |&place| !self.is_gone(at, place));
            live.map(|place| set.rule(place))
        })
    }

    /// Takes a rule out; false if it is in no set.
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

    /// The best rules for a group of keys.
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

    /// The best rule for a key.
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

/// The place of each key in a set; asks for the records there.
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
    // As many steps for each as the longest search takes: how many one takes cannot be foretold.
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
