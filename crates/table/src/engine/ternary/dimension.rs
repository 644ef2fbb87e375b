//! [`Dimension`]: for each value of a part of the key, the set of rules that match it, as a bit
//! row.
//!
//! Adjacent values that the same rules match form a class with one bit row. A narrow part has one
//! row for each value. A wide part is cut where the interval of a rule starts or ends. The class of
//! a value is then found by a search of a few steps, each of which compares several numbers at
//! once. The method is bit-vector packet classification (Lakshman and Stiliadis, SIGCOMM 1998).

use super::bit_rows::{BitRow, Moved};
use super::layout::{Piece, Role};
use super::vectors::{VectorIndex, VectorPart};
use crate::compare::{ByHalves, Count, CountWork, FAN, counting_numbers};
use crate::prefetch::prefetch;
use bits::one;

/// Width in bits of a part in which rules may match other sets than intervals. It has one row for
/// each value.
const CHUNK: u32 = 8;

/// Part of a key: adjacent bits of a limb.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) limb: usize,
    shift: u32,
    pub(super) width: u32,
    is_range: bool,
    /// Position in the search key: index of the word, and first bit.
    pub(super) place: (usize, u32),
}

/// Format of the search keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Limbs of the lookup key.
    Limbs,
    /// Words, as packed by a [`Layout`](super::layout::Layout).
    Words,
}

/// Condition of a rule for a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// All values between these, both inclusive.
    Between(u64, u64),
    /// Values that equal the first number in the bits that are set in the second.
    Masked(u64, u64),
}

impl Part {
    /// Splits the piece at this limb into the parts in which some of the `rules` (words `a` and
    /// `b`) have a condition. If rows are in the cache (`chunks_are_near`), chunks are preferred as
    /// long as they are no more than the steps of a binary search. Each of those steps would wait
    /// for the previous one.
    pub(super) fn of<'r>(
        (limb, piece): (usize, &Piece),
        keys: Keys,
        rules: impl Iterator<Item = (&'r [u64], &'r [u64])> + Clone,
        chunks_are_near: bool,
    ) -> Vec<Self> {
        let place = match keys {
            Keys::Limbs => (limb, 0),
            Keys::Words => (piece.word, piece.shift),
        };
        let whole = Self {
            limb,
            shift: 0,
            width: piece.width,
            is_range: piece.role != Role::Ternary,
            place,
        };
        let matters = |part: &Self| {
            let mut rules = rules.clone();
            rules.any(|(a, b)| !part.condition(piece, a, b).is_open(part.width))
        };
        let conditions = rules.clone().map(|(a, b)| whole.condition(piece, a, b));
        let intervals = conditions.map(|condition| condition.interval(piece.width));
        let intervals: Option<Vec<(u64, u64)>> = intervals.collect();
        let chunk = |shift| Self {
            shift,
            width: CHUNK.min(piece.width - shift),
            place: (place.0, place.1 + shift),
            ..whole
        };
        let chunks = (0..piece.width).step_by(CHUNK as usize).map(chunk);
        let chunks: Vec<Self> = chunks.filter(matters).collect();
        let is_whole = |intervals: &Vec<(u64, u64)>| {
            let halvings = starts_of(intervals, piece.width).len();
            let halvings = halvings.next_power_of_two().ilog2() as usize;
            whole.is_range || !chunks_are_near || chunks.len() > halvings
        };
        match whole.width <= CHUNK || intervals.as_ref().is_some_and(is_whole) {
            true => Some(whole).filter(matters).into_iter().collect(),
            false => chunks,
        }
    }

    /// Returns the condition of a rule with these words.
    pub(super) fn condition(&self, piece: &Piece, a: &[u64], b: &[u64]) -> Condition {
        let (a, b) = (piece.of(a), piece.of(b));
        if self.is_range {
            return Condition::Between(a, b);
        }
        let of = |value: u64| value >> self.shift & one::mask(self.width);
        Condition::Masked(of(a), of(b))
    }

    /// Returns the mask of the part's bits in the limb.
    pub(super) fn mask(&self) -> u64 {
        one::mask(self.width) << self.shift
    }

    #[inline(always)]
    fn of_key(&self, key: &[u64]) -> u64 {
        key[self.place.0] >> self.place.1 & one::mask(self.width)
    }

    /// Computes the classes of keys. Not inlined, so that one copy serves rows of all lengths.
    #[inline(never)]
    fn classify<'k>(&self, classes: &Classes, key: impl Fn(usize) -> &'k [u64], out: &mut [u32]) {
        counting_numbers(Classify {
            part: self,
            classes,
            key,
            out,
        });
    }
}

impl Condition {
    /// Returns true if all numbers of this width satisfy the condition.
    pub(super) fn is_open(self, width: u32) -> bool {
        match self {
            Self::Between(lo, hi) => lo == 0 && hi == one::mask(width),
            Self::Masked(_, mask) => mask == 0,
        }
    }

    /// Returns the least and the greatest number, if all numbers between them satisfy the
    /// condition.
    pub(super) fn interval(self, width: u32) -> Option<(u64, u64)> {
        match self {
            Self::Between(lo, hi) => Some((lo, hi)),
            Self::Masked(value, mask) => {
                let open = !mask & one::mask(width);
                let is_prefix = open & open.wrapping_add(1) == 0;
                is_prefix.then_some((value & mask, value & mask | open))
            }
        }
    }

    pub(super) fn holds(self, number: u64) -> bool {
        match self {
            Self::Between(lo, hi) => (lo..=hi).contains(&number),
            Self::Masked(value, mask) => (number ^ value) & mask == 0,
        }
    }
}

/// Returns the number after an interval that ends at `hi`, among numbers of this width.
fn behind(hi: u64, width: u32) -> Option<u64> {
    hi.checked_add(1).filter(|&next| next <= one::mask(width))
}

/// Returns the first values of the classes that these intervals define, in order. The first is 0.
pub(super) fn starts_of(intervals: &[(u64, u64)], width: u32) -> Vec<u64> {
    let starts = intervals
        .iter()
        .flat_map(|&(lo, hi)| [Some(lo), behind(hi, width)]);
    let mut starts: Vec<u64> = starts.flatten().chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Mapping from values to classes.
#[derive(Debug, Clone)]
enum Classes {
    /// Each value is a class.
    Values,
    /// Classes are intervals, with their first values.
    Narrow(Starts<u32>),
    Wide(Starts<u64>),
}

/// Work item: computes the classes of keys in a part.
struct Classify<'c, F> {
    part: &'c Part,
    classes: &'c Classes,
    key: F,
    out: &'c mut [u32],
}

impl<'k, F: Fn(usize) -> &'k [u64]> CountWork for Classify<'_, F> {
    #[inline(always)]
    fn run(self, count: impl Count<u32> + Count<u64>) {
        let ((word, shift), mask) = (self.part.place, one::mask(self.part.width));
        let number_of = |at: usize| (self.key)(at)[word] >> shift & mask;
        match self.classes {
            Classes::Values => {
                for (at, class) in self.out.iter_mut().enumerate() {
                    *class = number_of(at) as u32;
                }
            }
            Classes::Narrow(starts) => {
                starts.classify(|at| number_of(at) as u32, count, self.out);
            }
            Classes::Wide(starts) => starts.classify(number_of, count, self.out),
        }
    }
}

/// Group of adjacent numbers. Numbers of 32 bits fill one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Block<T>([T; FAN]);

/// First values of classes, in order, as a search tree without pointers. The lowest level has all
/// values. Each other level has the first value of each block of the level below.
#[derive(Debug, Clone)]
struct Starts<T> {
    /// From the top level, which is one block, to the lowest.
    levels: Vec<Vec<Block<T>>>,
    classes: usize,
}

/// Type of the first values of classes.
trait Number: Copy + Ord {
    const MAX: Self;
}

impl Number for u32 {
    const MAX: Self = u32::MAX;
}

impl Number for u64 {
    const MAX: Self = u64::MAX;
}

impl<T: Number> Starts<T> {
    /// Creates the tree from ordered numbers, of which the first is 0.
    fn new(mut starts: Vec<T>) -> Self {
        let classes = starts.len();
        let mut levels = Vec::new();
        while levels.is_empty() || starts.len() > 1 {
            let level: Vec<Block<T>> = starts.chunks(FAN).map(Block::new).collect();
            starts = level.iter().map(|block| block.0[0]).collect();
            levels.push(level);
        }
        levels.reverse();
        Self { levels, classes }
    }

    /// Returns the first values if they fit into one block, padded to a power of two for binary
    /// search.
    fn in_one_block(&self) -> Option<&[T]> {
        match &self.levels[..] {
            [level] if self.classes > 1 => Some(&level[0].0[..self.classes.next_power_of_two()]),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        let levels = self.levels.iter().map(|level| size_of_val(&level[..]));
        levels.sum()
    }

    /// Returns the class of a number.
    fn class(&self, number: T) -> usize {
        self.class_in(&self.levels, number, ByHalves)
    }

    /// Returns the class of a number, given the levels. Branch-free.
    #[inline(always)]
    fn class_in(
        &self,
        levels: &[impl AsRef<[Block<T>]>],
        number: T,
        count: impl Count<T>,
    ) -> usize {
        let mut place = 0;
        for level in levels {
            let level = level.as_ref();
            // The padding after the numbers of a level is not greater than the greatest number, so
            // it may be counted too.
            let block = place.min(level.len() - 1);
            place = block * FAN + count.up_to(&level[block].0, number) - 1;
        }
        place.min(self.classes - 1)
    }

    /// Computes the class of `number_of(i)` for each key `i`.
    #[inline(always)]
    fn classify(&self, number_of: impl Fn(usize) -> T, count: impl Count<T>, classes: &mut [u32]) {
        // A constant number of levels unrolls the loop.
        match self.levels.len() {
            1 => self.classify_in::<1>(number_of, count, classes),
            2 => self.classify_in::<2>(number_of, count, classes),
            3 => self.classify_in::<3>(number_of, count, classes),
            _ => {
                for (at, class) in classes.iter_mut().enumerate() {
                    *class = self.class_in(&self.levels, number_of(at), count) as u32;
                }
            }
        }
    }

    #[inline(always)]
    fn classify_in<const LEVELS: usize>(
        &self,
        number_of: impl Fn(usize) -> T,
        count: impl Count<T>,
        classes: &mut [u32],
    ) {
        let levels: [&[Block<T>]; LEVELS] = std::array::from_fn(|level| &self.levels[level][..]);
        for (at, class) in classes.iter_mut().enumerate() {
            *class = self.class_in(&levels, number_of(at), count) as u32;
        }
    }

    /// Splits the class that contains `number` so that one starts there. Returns the class that was
    /// split, or `None` if one already starts there.
    fn cut(&mut self, number: T) -> Option<usize> {
        let class = self.class(number);
        let lowest = self.levels.last()?.iter();
        let mut starts: Vec<T> = lowest.flat_map(|block| block.0).collect();
        if starts[class] == number {
            return None;
        }
        starts.truncate(self.classes);
        starts.insert(class + 1, number);
        *self = Self::new(starts);
        Some(class)
    }
}

impl<T: Number> Block<T> {
    /// Creates a block with these numbers, at most [`FAN`].
    fn new(numbers: &[T]) -> Self {
        let mut block = [T::MAX; FAN];
        block[..numbers.len()].copy_from_slice(numbers);
        Self(block)
    }
}

/// Part of the key with its classes and their bit rows.
#[derive(Debug, Clone)]
pub(super) struct Dimension<R> {
    pub(super) part: Part,
    classes: Classes,
    rows: Vec<R>,
    /// Number of rows when it was built.
    built: usize,
}

impl<R: BitRow> Dimension<R> {
    /// Creates the dimension from the conditions of rules, each with its bit position. If the part
    /// is wide, each condition must be an interval.
    pub(super) fn new(part: Part, rules: &[(usize, Condition)]) -> Self {
        let (classes, rows) = if part.width <= R::SHORT {
            (Classes::Values, Self::rows_of_values(part, rules))
        } else {
            Self::rows_of_intervals(part, rules)
        };
        let built = rows.len();
        Self {
            part,
            classes,
            rows,
            built,
        }
    }

    fn rows_of_values(part: Part, rules: &[(usize, Condition)]) -> Vec<R> {
        let row = |value| {
            let mut row = R::ZERO;
            for (place, condition) in rules {
                if condition.holds(value) {
                    row.set(*place, true);
                }
            }
            row
        };
        (0..1 << part.width).map(row).collect()
    }

    fn rows_of_intervals(part: Part, rules: &[(usize, Condition)]) -> (Classes, Vec<R>) {
        let interval = |condition: &Condition| condition.interval(part.width).unwrap_or((0, 0));
        let intervals = rules.iter().map(|(_, condition)| interval(condition));
        let intervals: Vec<(u64, u64)> = intervals.collect();
        let starts = starts_of(&intervals, part.width);
        // First set each bit where it changes, then accumulate.
        let mut rows = vec![R::ZERO; starts.len()];
        let mut flip = |start: u64, place: usize| {
            if let Ok(class) = starts.binary_search(&start) {
                rows[class].flip(place);
            }
        };
        for ((place, _), &(lo, hi)) in rules.iter().zip(&intervals) {
            flip(lo, *place);
            if let Some(next) = behind(hi, part.width) {
                flip(next, *place);
            }
        }
        for class in 1..rows.len() {
            let before = rows[class - 1];
            let words = rows[class].words_mut().iter_mut();
            for (word, before) in words.zip(before.words()) {
                *word ^= before;
            }
        }
        let classes = match part.width {
            // Compiled code that searches inline supports only `u64`.
            ..=32 if R::PLACES > VectorIndex::PLACES => Classes::Narrow(Starts::new(
                starts.into_iter().map(|start| start as u32).collect(),
            )),
            _ => Classes::Wide(Starts::new(starts)),
        };
        (classes, rows)
    }

    /// Returns the part in the form that compiled code can search inline; `None` if the search
    /// would be long, or incorrect for the greatest number.
    pub(super) fn seen(&self) -> Option<VectorPart<'_>> {
        let starts = match &self.classes {
            Classes::Values => &[][..],
            Classes::Wide(starts) if self.part.width < u64::BITS => starts.in_one_block()?,
            _ => return None,
        };
        let (limb, shift) = self.part.place;
        Some(VectorPart {
            limb,
            shift,
            mask: one::mask(self.part.width),
            starts,
            rows: self.rows.as_ptr().cast(),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let starts = match &self.classes {
            Classes::Values => 0,
            Classes::Narrow(starts) => starts.bytes(),
            Classes::Wide(starts) => starts.bytes(),
        };
        starts + size_of_val(&self.rows[..])
    }

    /// Returns true if it has many more rows than when it was built.
    pub(super) fn is_outgrown(&self) -> bool {
        self.rows.len() > self.built * 2 + 64
    }

    /// Returns true if a rule with this condition can be inserted.
    pub(super) fn takes(&self, condition: Condition) -> bool {
        matches!(self.classes, Classes::Values) || condition.interval(self.part.width).is_some()
    }

    /// Inserts a rule at a bit position, after bits were moved as `moved` says.
    pub(super) fn insert(&mut self, place: usize, condition: Condition, moved: Moved) {
        let width = self.part.width;
        let put = |row: &mut R, bit: bool| {
            row.shift(moved);
            row.set(place, bit);
        };
        if let Classes::Values = self.classes {
            for (value, row) in self.rows.iter_mut().enumerate() {
                put(row, condition.holds(value as u64));
            }
            return;
        }
        let Some((lo, hi)) = condition.interval(width) else {
            return;
        };
        self.cut(lo);
        if hi < one::mask(width) {
            self.cut(hi + 1);
        }
        let (first, last) = (self.class(lo), self.class(hi));
        for (class, row) in self.rows.iter_mut().enumerate() {
            put(row, (first..=last).contains(&class));
        }
    }

    fn cut(&mut self, number: u64) {
        let class = match &mut self.classes {
            Classes::Values => None,
            Classes::Narrow(starts) => starts.cut(number as u32),
            Classes::Wide(starts) => starts.cut(number),
        };
        if let Some(class) = class {
            self.rows.insert(class + 1, self.rows[class]);
        }
    }

    #[inline(always)]
    fn class(&self, number: u64) -> usize {
        match &self.classes {
            Classes::Values => number as usize,
            Classes::Narrow(starts) => starts.class(number as u32),
            Classes::Wide(starts) => starts.class(number),
        }
    }

    /// Returns the row of a key.
    #[inline(always)]
    pub(super) fn row(&self, key: &[u64]) -> &R {
        &self.rows[self.class(self.part.of_key(key))]
    }

    #[inline(always)]
    pub(super) fn row_of_class(&self, class: u32) -> &R {
        &self.rows[class as usize]
    }

    /// Computes the classes of keys and prefetches their rows.
    #[inline(always)]
    pub(super) fn classify<'k>(&self, key: impl Fn(usize) -> &'k [u64], classes: &mut [u32]) {
        self.part.classify(&self.classes, key, classes);
        for &class in &*classes {
            prefetch(&self.rows, class as usize);
            if size_of::<R>() > 64 {
                prefetch(self.rows[class as usize].words(), 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;

    /// Looks up as [`Classify`] does.
    struct Asked<'a, T>(&'a Starts<T>, &'a [T], &'a mut [u32]);

    impl CountWork for Asked<'_, u32> {
        #[inline(always)]
        fn run(self, count: impl Count<u32> + Count<u64>) {
            self.0.classify(|at| self.1[at], count, self.2);
        }
    }

    proptest! {
        #[test]
        fn a_number_is_in_the_last_class_that_does_not_begin_behind_it(
            first in proptest::collection::vec(any::<u32>(), 0..usual_or_interpreted(5000, 300)),
            cuts in proptest::collection::vec(any::<u32>(), 0..20),
            asked in proptest::collection::vec(any::<u32>(), 1..100),
        ) {
            let mut model: Vec<u32> = first.into_iter().chain([0]).collect();
            model.sort_unstable();
            model.dedup();
            let mut starts = Starts::new(model.clone());
            for number in cuts.into_iter().chain([0, u32::MAX]) {
                let class = model.partition_point(|&start| start <= number) - 1;
                let is_cut = model[class] != number;
                prop_assert_eq!(starts.cut(number), is_cut.then_some(class));
                if is_cut {
                    model.insert(class + 1, number);
                }
            }
            let mut asked = asked;
            asked.extend(model.iter().flat_map(|&start| [start, start.saturating_sub(1)]));
            let mut classes = vec![0; asked.len()];
            counting_numbers(Asked(&starts, &asked, &mut classes));
            for (&number, class) in asked.iter().zip(classes) {
                let want = model.partition_point(|&start| start <= number) - 1;
                prop_assert_eq!((class as usize, starts.class(number)), (want, want));
            }
        }
    }
}
