//! [`Dimension`]: for each value of a part of the key, which rules it matches.
//!
//! Values that the same rules match, side by side, are one class with one row of bits. A short part has a row a value; a longer one is cut where the
//! interval of a rule begins or ends, and the class of a value is found by halving.

use super::bit_rows::{BitRow, Moved};
use super::layout::{Piece, Role};
use super::vectors::{VectorIndex, VectorPart};
use crate::prefetch::{BitWork, in_vectors, prefetch};
use bits::one;
use std::hint::select_unpredictable;

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
        in_vectors(Classify {
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

impl<'k, F: Fn(usize) -> &'k [u64]> BitWork for Classify<'_, F> {
    #[inline(always)]
    fn run(self) {
        let ((word, shift), mask) = (self.part.place, one::mask(self.part.width));
        let number_of = |at: usize| (self.key)(at)[word] >> shift & mask;
        match self.classes {
            Classes::Values => {
                for (at, class) in self.out.iter_mut().enumerate() {
                    *class = number_of(at) as u32;
                }
            }
            Classes::Narrow(starts) => starts.classify(|at| number_of(at) as u32, self.out),
            Classes::Wide(starts) => starts.classify(number_of, self.out),
        }
    }
}

/// Where classes begin, the first at 0; a power of two of them, the last ones for no class.
#[derive(Debug, Clone)]
struct Starts<T> {
    starts: Vec<T>,
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
        starts.resize(classes.next_power_of_two(), T::MAX);
        Self { starts, classes }
    }

    /// The class of a number. No branch depends on it.
    #[inline(always)]
    fn class(&self, number: T) -> usize {
        let mut class = 0;
        let mut half = self.starts.len() / 2;
        while half > 0 {
            let next = class + half;
            class = select_unpredictable(self.starts[next] <= number, next, class);
            half /= 2;
        }
        // What is behind the classes is no greater than the greatest number.
        class.min(self.classes - 1)
    }

    /// The classes of what `number_of` gives for each key.
    #[inline(always)]
    fn classify(&self, number_of: impl Fn(usize) -> T, classes: &mut [u32]) {
        // With the number of steps known, they follow each other without a loop, and no index needs a check.
        match self.starts.len().ilog2() {
            0 => classes.fill(0),
            1 => self.classify_in::<1>(number_of, classes),
            2 => self.classify_in::<2>(number_of, classes),
            3 => self.classify_in::<3>(number_of, classes),
            4 => self.classify_in::<4>(number_of, classes),
            5 => self.classify_in::<5>(number_of, classes),
            6 => self.classify_in::<6>(number_of, classes),
            7 => self.classify_in::<7>(number_of, classes),
            8 => self.classify_in::<8>(number_of, classes),
            9 => self.classify_in::<9>(number_of, classes),
            10 => self.classify_in::<10>(number_of, classes),
            11 => self.classify_in::<11>(number_of, classes),
            _ => {
                for (at, class) in classes.iter_mut().enumerate() {
                    *class = self.class(number_of(at)) as u32;
                }
            }
        }
    }

    #[inline(always)]
    fn classify_in<const STEPS: u32>(&self, number_of: impl Fn(usize) -> T, classes: &mut [u32]) {
        let starts = &self.starts[..1 << STEPS];
        for (at, class_of) in classes.iter_mut().enumerate() {
            let number = number_of(at);
            let mut class = 0;
            for step in (0..STEPS).rev() {
                let next = class | 1 << step;
                class = select_unpredictable(starts[next] <= number, next, class);
            }
            *class_of = class.min(self.classes - 1) as u32;
        }
    }

    /// Lets a class begin at `number`, and gives the one that was cut, if any was.
    fn cut(&mut self, number: T) -> Option<usize> {
        let class = self.class(number);
        if self.starts[class] == number {
            return None;
        }
        if self.classes < self.starts.len() {
            self.starts.pop();
        }
        self.starts.insert(class + 1, number);
        self.classes += 1;
        self.starts
            .resize(self.starts.len().next_power_of_two(), T::MAX);
        Some(class)
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
            Classes::Wide(starts) if self.part.width < u64::BITS => &starts.starts[..],
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
            Classes::Narrow(starts) => size_of_val(&starts.starts[..]),
            Classes::Wide(starts) => size_of_val(&starts.starts[..]),
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
