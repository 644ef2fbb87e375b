//! [`Vectors`]: bit-vector classifier for up to 1,024 rules.
//!
//! Each part of a key selects a bit row, found by [`Dimension`]. The AND of these rows has exactly
//! the rules that the key matches. Rules are in order of rank, so the first bit is the result. No
//! step has an unpredictable branch.
//!
//! The method is that of Lakshman and Stiliadis, "High-Speed Policy-based Packet Forwarding Using
//! Efficient Multi-dimensional Range Matching", SIGCOMM 1998.
//!
//! Removing a rule leaves a hole. Inserting one moves the rules between its position and the
//! nearest hole by one position.

use super::bit_rows::{BitRow, Bits64, Moved};
use super::dimension::{Condition, Dimension, Keys, Part};
use super::layout::Layout;
use super::records::{FlatRule, NONE, RankWords};
use super::search::{Best, GROUP};
use super::tuples::WORST;
use crate::entry::EntryIdx;
use crate::prefetch::{BitWork, in_vectors};
use std::sync::Arc;

/// Maximum number of parts of a key.
const MAX_PARTS: usize = 16;

/// Bit vectors of few rules in the form that compiled code can search inline.
#[derive(Debug, Clone, Copy)]
pub struct VectorIndex<'m> {
    /// Positions that have a rule, one bit each.
    pub live: u64,
    /// The entry of each position (in memory: the entry index plus 1, or 0), followed by `None`.
    pub entries: &'m [Option<EntryIdx>],
    dimensions: &'m [Dimension<Bits64>],
}

impl<'m> VectorIndex<'m> {
    /// Maximum number of positions.
    pub const PLACES: usize = 64;

    /// Maximum number of steps of a lookup: one for each part and one for each step of binary
    /// search. With more steps, a batch lookup is faster.
    const MAX_STEPS: u32 = 24;

    /// Returns the parts of the key. The AND of `live` and the rows that all parts select has the
    /// matching rules. Its lowest bit is the position of the result.
    pub fn parts(&self) -> impl Iterator<Item = VectorPart<'m>> + use<'m> {
        self.dimensions.iter().filter_map(Dimension::seen)
    }
}

/// Part of a key.
#[derive(Debug, Clone, Copy)]
pub struct VectorPart<'m> {
    /// Index of the limb of the key.
    pub limb: usize,
    /// Right shift of the limb in bits.
    pub shift: u32,
    /// Mask after the shift.
    pub mask: u64,
    /// First values of classes: a power of two of them, at least 2, of which the first is 0. They
    /// are padded with values beyond all keys. Empty if each value is a class.
    pub starts: &'m [u64],
    /// For each class, the rules that match it, one bit for each position.
    pub rows: *const u64,
}

impl VectorPart<'_> {
    fn steps(&self) -> u32 {
        1 + self.starts.len().checked_ilog2().unwrap_or(0)
    }
}

/// Bit vectors of a set of rules, with room for more.
#[derive(Debug, Clone)]
pub(super) struct Vectors<R> {
    layout: Arc<Layout>,
    dimensions: Vec<Dimension<R>>,
    /// Positions that have a rule.
    live: R,
    /// The entry of each position, followed by `None`.
    entries: Vec<Option<EntryIdx>>,
    /// The rule of each position.
    rules: Vec<Option<FlatRule>>,
    /// The rank of each position, ascending. A hole has the rank of a neighbour or one in between.
    /// The last element is [`WORST`].
    ranks: Vec<RankWords>,
    len: usize,
    /// Number of rules when it was built.
    built: usize,
}

impl<R: BitRow> Vectors<R> {
    /// Creates bit vectors for these rules, at most [`BitRow::PLACES`]. Returns `None` if the key
    /// has wide ranges or too many parts.
    pub(super) fn new(layout: &Arc<Layout>, keys: Keys, rules: &[FlatRule]) -> Option<Self> {
        if layout.has_wide_ranges() {
            return None;
        }
        let rows = rules.iter().map(|rule| (rule.a(), rule.b()));
        let parts = layout.pieces.iter().enumerate();
        let parts: Vec<Part> = parts
            .flat_map(|piece| Part::of(piece, keys, rows.clone(), R::PLACES <= VectorIndex::PLACES))
            .collect();
        if parts.len() > MAX_PARTS {
            return None;
        }
        let mut order: Vec<&FlatRule> = rules.iter().collect();
        order.sort_by_key(|rule| rule.rank);
        let mut vectors = Self {
            layout: layout.clone(),
            dimensions: Vec::new(),
            live: R::ZERO,
            entries: vec![None; R::PLACES + 1],
            rules: vec![None; R::PLACES],
            ranks: vec![WORST; R::PLACES + 1],
            len: rules.len(),
            built: rules.len(),
        };
        // Spread the rules, with holes between them.
        let place_of = |at: usize| at * R::PLACES / rules.len().max(1);
        for (at, &rule) in order.iter().enumerate() {
            vectors.put(place_of(at), rule);
            vectors.ranks[place_of(at)..R::PLACES].fill(rule.rank);
        }
        let dimension = |part: Part| {
            let piece = &layout.pieces[part.limb];
            let conditions = order.iter().enumerate();
            let conditions: Vec<(usize, Condition)> = conditions
                .map(|(at, rule)| (place_of(at), part.condition(piece, rule.a(), rule.b())))
                .collect();
            Dimension::new(part, &conditions)
        };
        vectors.dimensions = parts.into_iter().map(dimension).collect();
        Some(vectors)
    }

    fn put(&mut self, place: usize, rule: &FlatRule) {
        self.live.set(place, true);
        self.entries[place] = Some(rule.idx);
        self.rules[place] = Some(rule.clone());
        self.ranks[place] = rule.rank;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Iterates over all rules, the best first.
    pub(super) fn all(&self) -> impl Iterator<Item = &FlatRule> {
        self.rules.iter().flatten()
    }

    pub(super) fn rules(&self) -> Vec<FlatRule> {
        self.all().cloned().collect()
    }

    pub(super) fn bytes(&self) -> usize {
        let rows: usize = self.dimensions.iter().map(Dimension::bytes).sum();
        let rule = size_of::<Option<FlatRule>>() + self.layout.words * 16;
        rows + self.rules.len() * (rule + size_of::<RankWords>() + size_of::<Option<EntryIdx>>())
    }

    /// Returns true if it should be rebuilt before more rules are inserted.
    pub(super) fn is_outgrown(&self) -> bool {
        self.len == R::PLACES
            || self.len < self.built / 4
            || self.dimensions.iter().any(Dimension::is_outgrown)
    }

    /// Returns true if the dimensions can represent a rule.
    pub(super) fn takes(&self, rule: &FlatRule) -> bool {
        let mut left: Vec<u64> = vec![u64::MAX; self.layout.pieces.len()];
        for dimension in &self.dimensions {
            let part = &dimension.part;
            let piece = &self.layout.pieces[part.limb];
            if !dimension.takes(part.condition(piece, rule.a(), rule.b())) {
                return false;
            }
            left[part.limb] &= !part.mask();
        }
        let pieces = self.layout.pieces.iter().zip(left);
        pieces
            .into_iter()
            .all(|(piece, left)| piece.is_open(rule.a(), rule.b(), left))
    }

    /// Inserts a rule that it can represent ([`takes`](Self::takes)).
    pub(super) fn insert(&mut self, rule: &FlatRule) {
        let behind = self.ranks.partition_point(|rank| *rank < rule.rank);
        let Some((place, moved)) = self.room(behind) else {
            debug_assert!(false, "a rule came that there is no room for");
            return;
        };
        match moved {
            Moved::Nothing => {}
            Moved::Up(from, hole) => {
                self.entries[from..=hole].rotate_right(1);
                self.rules[from..=hole].rotate_right(1);
                self.ranks[from..=hole].rotate_right(1);
            }
            Moved::Down(hole, to) => {
                self.entries[hole..=to].rotate_left(1);
                self.rules[hole..=to].rotate_left(1);
                self.ranks[hole..=to].rotate_left(1);
            }
        }
        self.live.shift(moved);
        self.put(place, rule);
        self.len += 1;
        for dimension in &mut self.dimensions {
            let part = dimension.part;
            let piece = &self.layout.pieces[part.limb];
            let condition = part.condition(piece, rule.a(), rule.b());
            dimension.insert(place, condition, moved);
        }
    }

    /// Returns the position for a rule between the positions before `behind` and the others, and
    /// the movement that frees it.
    fn room(&self, behind: usize) -> Option<(usize, Moved)> {
        let is_hole = |&place: &usize| self.rules[place].is_none();
        let above = (behind..R::PLACES).find(is_hole);
        let below = (0..behind).rev().find(is_hole);
        let (up, down) = (
            above.map(|hole| hole - behind),
            below.map(|hole| behind - 1 - hole),
        );
        match (above, below) {
            (Some(hole), _) if down.is_none_or(|down| up <= Some(down)) => {
                let moved = if hole == behind {
                    Moved::Nothing
                } else {
                    Moved::Up(behind, hole)
                };
                Some((behind, moved))
            }
            (_, Some(hole)) => {
                let moved = if hole + 1 == behind {
                    Moved::Nothing
                } else {
                    Moved::Down(hole, behind - 1)
                };
                Some((behind - 1, moved))
            }
            _ => None,
        }
    }

    /// Removes a rule. Returns false if it is not here.
    pub(super) fn remove(&mut self, rule: &FlatRule) -> bool {
        let first = self.ranks.partition_point(|rank| *rank < rule.rank);
        let same = |place: &usize| self.ranks[*place] == rule.rank;
        let mut places = (first..R::PLACES).take_while(same);
        let Some(place) = places.find(|&place| self.rules[place].is_some()) else {
            return false;
        };
        self.live.set(place, false);
        self.entries[place] = None;
        self.rules[place] = None;
        self.len -= 1;
        true
    }

    fn row(&self, key: &[u64]) -> R {
        let mut row = self.live;
        for dimension in &self.dimensions {
            row.keep(dimension.row(key));
        }
        row
    }

    pub(super) fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.entries[self.row(key).first()]
    }

    pub(super) fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        in_vectors(Batch {
            vectors: self,
            keys,
            out,
        });
    }

    /// Calls `tell(i, position)` with the first matching position of each of up to [`GROUP`] keys.
    #[inline(always)]
    fn places<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u64] + Copy,
        mut tell: impl FnMut(usize, usize),
    ) {
        let mut classes = [[0u32; GROUP]; MAX_PARTS];
        for (dimension, classes) in self.dimensions.iter().zip(&mut classes) {
            dimension.classify(key, &mut classes[..count]);
        }
        for at in 0..count {
            let mut row = self.live;
            for (dimension, classes) in self.dimensions.iter().zip(&classes) {
                row.keep(dimension.row_of_class(classes[at % GROUP]));
            }
            tell(at, row.first());
        }
    }

    /// Returns the rank and entry at a position.
    #[inline(always)]
    fn best(&self, place: usize) -> Best {
        Best {
            rank: self.ranks[place],
            idx: self.entries[place].map_or(NONE, EntryIdx::get),
        }
    }

    /// Searches for a key and improves `best`.
    #[inline(always)]
    pub(super) fn search_one(&self, key: &[u64], best: &mut Best) {
        best.improve(self.best(self.row(key).first()));
    }

    /// Searches for up to [`GROUP`] keys and improves `best`. `number` returns the index of a key
    /// in `best`.
    #[inline(always)]
    pub(super) fn search(
        &self,
        keys: &[&[u64]],
        number: impl Fn(usize) -> usize,
        best: &mut [Best; GROUP],
    ) {
        self.places(
            keys.len(),
            |at| keys[at],
            |at, place| {
                best[number(at) % GROUP].improve(self.best(place));
            },
        );
    }
}

impl Vectors<Bits64> {
    /// Returns the rules in the form that compiled code can search inline, if that is faster than a
    /// batch lookup.
    pub(super) fn seen(&self) -> Option<VectorIndex<'_>> {
        let index = VectorIndex {
            live: self.live.words()[0],
            entries: &self.entries,
            dimensions: &self.dimensions,
        };
        let are_all_seen = index.parts().count() == self.dimensions.len();
        let steps: u32 = index.parts().map(|part| part.steps()).sum();
        (are_all_seen && steps <= VectorIndex::MAX_STEPS).then_some(index)
    }
}

/// Work item: a batch of lookups.
struct Batch<'b, R> {
    vectors: &'b Vectors<R>,
    keys: &'b [u64],
    out: &'b mut [Option<EntryIdx>],
}

impl<R: BitRow> BitWork for Batch<'_, R> {
    #[inline(always)]
    fn run(self) {
        let stride = self.keys.len().checked_div(self.out.len()).unwrap_or(0);
        for (i, out) in self.out.chunks_mut(GROUP).enumerate() {
            let keys = &self.keys[i * GROUP * stride..][..out.len() * stride];
            let key = |at: usize| &keys[at * stride..][..stride];
            let vectors = self.vectors;
            vectors.places(out.len(), key, |at, place| out[at] = vectors.entries[place]);
        }
    }
}
