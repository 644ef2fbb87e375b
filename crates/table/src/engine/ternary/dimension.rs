//! [`Dimension`]: for each value of a part of the key, which rules it matches.
//!
//! Values that the same rules match, side by side, are one class with one row of bits. A short part has a row a value; a longer one is cut where the
//! interval of a rule begins or ends, and the class of a value is found by a search in a few steps, each of which compares it with some numbers at once.

use super::bit_rows::{BitRow, Moved};
use super::layout::{Piece, Role};
use super::vectors::{VectorIndex, VectorPart};
use crate::compare::{ByHalves, Count, CountWork, FAN, counting_numbers};
use crate::prefetch::prefetch;
use bits::one;

/// Bits of a part whose rules may match other values than intervals. It has a row a value.
const CHUNK: u32 = 8;

/// A part of a key: some bits of a limb.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) limb: usize,
    shift: u32,
    width: u32,
    is_range: bool,
    /// Where it is in what is searched for: a word, and the first bit.
    place: (usize, u32),
}

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Keys as they come.
    Limbs,
    /// Keys as a layout packs them.
    Words,
}

/// What a rule matches in a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// All values between these, both included.
    Between(u64, u64),
    /// Values that have these bits where the second number has ones.
    Masked(u64, u64),
}

impl Part {
    /// The parts of the piece at this limb that `rules` (rows `a` and `b`) care about: where rows by value are near, chunks rather than more halvings than there
    /// are chunks, since each halving waits for the one before.
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

    /// What a rule with these rows matches.
    pub(super) fn condition(&self, piece: &Piece, a: &[u64], b: &[u64]) -> Condition {
        let (a, b) = (piece.of(a), piece.of(b));
        if self.is_range {
            return Condition::Between(a, b);
        }
        let of = |value: u64| value >> self.shift & one::mask(self.width);
        Condition::Masked(of(a), of(b))
    }

    /// The bits of the limb.
    pub(super) fn mask(&self) -> u64 {
        one::mask(self.width) << self.shift
    }

    #[inline(always)]
    fn of_key(&self, key: &[u64]) -> u64 {
        key[self.place.0] >> self.place.1 & one::mask(self.width)
    }

    /// The classes of keys. Not inlined, so that it is there once for rows of all lengths.
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
    /// Whether it holds for each number of this width.
    pub(super) fn is_open(self, width: u32) -> bool {
        match self {
            Self::Between(lo, hi) => lo == 0 && hi == one::mask(width),
            Self::Masked(_, mask) => mask == 0,
        }
    }

    /// The least and the greatest number, if all between them are as good.
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

    fn holds(self, number: u64) -> bool {
        match self {
            Self::Between(lo, hi) => (lo..=hi).contains(&number),
            Self::Masked(value, mask) => (number ^ value) & mask == 0,
        }
    }
}

/// What is behind an interval that ends here, among numbers of this width.
fn behind(hi: u64, width: u32) -> Option<u64> {
    hi.checked_add(1).filter(|&next| next <= one::mask(width))
}

/// Where classes begin that these intervals tell apart: in order, the first at 0.
fn starts_of(intervals: &[(u64, u64)], width: u32) -> Vec<u64> {
    let starts = intervals
        .iter()
        .flat_map(|&(lo, hi)| [Some(lo), behind(hi, width)]);
    let mut starts: Vec<u64> = starts.flatten().chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// How values are told apart.
#[derive(Debug, Clone)]
enum Classes {
    /// Each is a class.
    Values,
    /// By where classes begin.
    Narrow(Starts<u32>),
    Wide(Starts<u64>),
}

/// Finds the classes of keys in a part.
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

/// Numbers side by side, in a cache line if they are of 32 bits.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Block<T>([T; FAN]);

/// Where classes begin, the first at 0: a tree without pointers. The lowest level has all, and each other one has the first number of each block of the
/// level below.
#[derive(Debug, Clone)]
struct Starts<T> {
    /// From the top, which is one block, down.
    levels: Vec<Vec<Block<T>>>,
    classes: usize,
}

/// A number that classes begin at.
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
    /// From numbers in order, the first 0.
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

    /// As many as can be halved to the end, the last ones behind all classes, if they are few.
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

    /// The class of a number.
    fn class(&self, number: T) -> usize {
        self.class_in(&self.levels, number, ByHalves)
    }

    /// The class of a number, given the levels. No branch depends on it.
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
            // What is behind the numbers of a level is no greater than the greatest number.
            let block = place.min(level.len() - 1);
            place = block * FAN + count.up_to(&level[block].0, number) - 1;
        }
        place.min(self.classes - 1)
    }

    /// The classes of what `number_of` gives for each key.
    #[inline(always)]
    fn classify(&self, number_of: impl Fn(usize) -> T, count: impl Count<T>, classes: &mut [u32]) {
        // With the number of levels known, they follow each other without a loop.
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

    /// Lets a class begin at `number`, and gives the one that was cut, if any was.
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
    /// With at most so many numbers.
    fn new(numbers: &[T]) -> Self {
        let mut block = [T::MAX; FAN];
        block[..numbers.len()].copy_from_slice(numbers);
        Self(block)
    }
}

/// A part of the key, its classes and their rows.
#[derive(Debug, Clone)]
pub(super) struct Dimension<R> {
    pub(super) part: Part,
    classes: Classes,
    rows: Vec<R>,
    /// Rows when it was made.
    built: usize,
}

impl<R: BitRow> Dimension<R> {
    /// With what rules, each in a place, match in this part; each has an interval if the part is long.
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
        // First each bit where it changes, then what is there.
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
            // Code that looks keys up by itself knows of one kind.
            ..=32 if R::PLACES > VectorIndex::PLACES => Classes::Narrow(Starts::new(
                starts.into_iter().map(|start| start as u32).collect(),
            )),
            _ => Classes::Wide(Starts::new(starts)),
        };
        (classes, rows)
    }

    /// The part as code sees it that looks keys up by itself; `None` where that would be long, or wrong for the greatest number.
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

    /// Whether it has many more rows than when it was made.
    pub(super) fn is_outgrown(&self) -> bool {
        self.rows.len() > self.built * 2 + 64
    }

    /// Whether a rule can be put in that matches this here.
    pub(super) fn takes(&self, condition: Condition) -> bool {
        matches!(self.classes, Classes::Values) || condition.interval(self.part.width).is_some()
    }

    /// Puts a rule into a place, after these have moved.
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

    /// The row of a key.
    #[inline(always)]
    pub(super) fn row(&self, key: &[u64]) -> &R {
        &self.rows[self.class(self.part.of_key(key))]
    }

    #[inline(always)]
    pub(super) fn row_of_class(&self, class: u32) -> &R {
        &self.rows[class as usize]
    }

    /// The classes of keys, whose rows are asked for.
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
