//! [`Windows`]: filters that select, from a few bits of a key, the tuples that may have a matching
//! rule.
//!
//! A window is a range of adjacent bits of a key. For each of its values there is a bit row of the
//! tuples that have a rule which a key with that value can match. The AND of the rows of all
//! windows has the tuples that are worth searching. A row may have tuples of which the rules were
//! removed since. That costs a search but does not change the result.
//!
//! This is the tuple pruning of Srinivasan, Suri and Varghese ("Packet Classification using Tuple
//! Space Search", SIGCOMM 1999). It uses tables of short windows in place of tries.
//!
//! Most values have the same row as others, so a value stores the number of its row. For 2^15
//! values, lookups touch 64 KB instead of 256 KB.

use super::layout::{Layout, Piece, Role};
use crate::prefetch::prefetch;
use bits::one;
use std::collections::HashMap;

/// Maximum number of tuples: the number of bits in a row.
pub(super) const MAX_TUPLES: usize = 64;

/// Maximum number of values for which a rule is recorded one by one: one in `FEW_SHARE` of all
/// values of the window, at least one. With more values, the window would exclude its tuple rarely,
/// and each update would touch thousands of values.
const FEW_SHARE: usize = 4;

/// Range of adjacent bits of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) word: usize,
    pub(super) shift: u32,
    pub(super) bits: u32,
    /// True if the field is a range. The window then has its uppermost bits.
    is_range: bool,
}

impl Window {
    /// Returns all windows of at most `bits` bits in a layout. Adjacent windows are at least `step`
    /// bits apart.
    pub(super) fn all(layout: &Layout, bits: u32, step: usize) -> Vec<Self> {
        let of_piece = |piece: &Piece| {
            let bits = bits.min(piece.width);
            let step = match piece.role {
                Role::Ternary => step,
                // Only the uppermost bits.
                Role::Range | Role::PartOfRange => piece.width as usize,
            };
            let (word, shift, is_range) = (piece.word, piece.shift, piece.role != Role::Ternary);
            let usable = piece.role != Role::PartOfRange;
            (0..=piece.width - bits)
                .rev()
                .step_by(step.max(1))
                .filter(move |_| usable)
                .map(move |at| Self {
                    word,
                    shift: shift + at,
                    bits,
                    is_range,
                })
        };
        layout.pieces.iter().flat_map(of_piece).collect()
    }

    /// Returns the value of a key, or of the words `a` or `b` of a rule, in the window.
    #[inline(always)]
    pub(super) fn of(&self, words: &[u64]) -> usize {
        (words[self.word] >> self.shift & one::mask(self.bits)) as usize
    }

    /// Returns true if a rule can match a key with this value.
    pub(super) fn admits(&self, a: &[u64], b: &[u64], value: usize) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        if self.is_range {
            (a..=b).contains(&value)
        } else {
            (value ^ a) & b == 0
        }
    }

    /// Returns the values of matching keys if they form an interval.
    pub(super) fn interval(&self, a: &[u64], b: &[u64]) -> Option<(u32, u32)> {
        let (a, b) = (self.of(a) as u64, self.of(b) as u64);
        let (lo, hi) = if self.is_range {
            (a, b)
        } else {
            let open = !b & one::mask(self.bits);
            let is_prefix = open & (open + 1) == 0;
            is_prefix.then_some((a & b, a & b | open))?
        };
        u32::try_from(lo).ok().zip(u32::try_from(hi).ok())
    }

    /// Calls `each` with the values of matching keys. Returns false without a call if there are
    /// more than [`FEW_SHARE`] allows.
    pub(super) fn values(&self, a: &[u64], b: &[u64], mut each: impl FnMut(usize)) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        let few = ((1usize << self.bits) / FEW_SHARE).max(1);
        if self.is_range {
            if b - a >= few {
                return false;
            }
            (a..=b).for_each(each);
            return true;
        }
        let open = !b & one::mask(self.bits) as usize;
        if 1 << open.count_ones() > few {
            return false;
        }
        // Iterate over all subsets of the open bits.
        let mut subset = open;
        loop {
            each(a & b | subset);
            if subset == 0 {
                return true;
            }
            subset = (subset - 1) & open;
        }
    }
}

/// For each window and value, the tuples that may have a matching rule.
#[derive(Debug, Clone, Default)]
pub(super) struct Windows(Box<[Column]>);

/// Window with the rows of its values.
#[derive(Debug, Clone)]
struct Column {
    window: Window,
    /// Index in `rows` for each value.
    row_of: Box<[u16]>,
    /// Rows of tuples, one bit each. Some may be equal, and some may no longer be used.
    rows: Vec<u64>,
    /// Number of rows after the last deduplication; [`MAX_ROWS`] if each value has its own row.
    different: usize,
    /// Tuples that are in all rows.
    open: u64,
}

/// Maximum number of rows: the range of a row number, and the maximum number of values.
const MAX_ROWS: usize = 1 << 16;
/// Number of additional rows below which deduplication does not pay.
const FEW_ROWS: usize = 256;
/// Minimum number of free rows after deduplication. With fewer, they would soon be used up again.
const MIN_ROOM: usize = MAX_ROWS / 8;

impl Column {
    /// Creates a column with one empty row.
    fn new(window: Window) -> Self {
        debug_assert!(1 << window.bits <= MAX_ROWS);
        Self {
            row_of: vec![0; 1 << window.bits].into(),
            rows: vec![0],
            different: 1,
            open: 0,
            window,
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.row_of) + self.rows.capacity() * size_of::<u64>()
    }

    /// Returns the row of a key.
    #[inline(always)]
    fn row(&self, key: &[u64]) -> u64 {
        self.rows[usize::from(self.row_of[self.window.of(key)])]
    }

    /// Records that a tuple has a rule with these words.
    fn enter(&mut self, bit: u64, a: &[u64], b: &[u64]) {
        if self.open & bit != 0 {
            return;
        }
        if self.rows.len() > self.different + self.different / 2 + FEW_ROWS {
            self.share();
        }
        let window = self.window;
        let mut others = Others::default();
        if !window.values(a, b, |value| self.set(value, bit, &mut others)) {
            self.open |= bit;
            self.rows.iter_mut().for_each(|row| *row |= bit);
        }
    }

    /// Sets a bit in the row of a value.
    fn set(&mut self, value: usize, bit: u64, others: &mut Others) {
        let before = self.row_of[value];
        let row = self.rows[usize::from(before)] | bit;
        if self.rows[usize::from(before)] == row {
            return;
        }
        if let Some(known) = others.get(before) {
            self.row_of[value] = known;
            return;
        }
        if self.rows.len() == MAX_ROWS && self.different < MAX_ROWS {
            self.share();
            if MAX_ROWS - self.rows.len() < MIN_ROOM {
                self.part();
            }
            *others = Others::default();
        }
        match u16::try_from(self.rows.len()) {
            Ok(new) => {
                others.put(self.row_of[value], new);
                self.rows.push(row);
                self.row_of[value] = new;
            }
            // Each value has its own row then.
            Err(_) => self.rows[usize::from(self.row_of[value])] = row,
        }
    }

    /// Makes values with equal rows share one, and drops unused rows.
    fn share(&mut self) {
        let mut rows = Vec::new();
        let mut known: HashMap<u64, u16> = HashMap::new();
        let mut number_of = vec![None; self.rows.len()];
        for number in &mut self.row_of {
            let old = usize::from(*number);
            *number = *number_of[old].get_or_insert_with(|| {
                *known.entry(self.rows[old]).or_insert_with(|| {
                    rows.push(self.rows[old]);
                    (rows.len() - 1) as u16
                })
            });
        }
        self.different = rows.len();
        self.rows = rows;
    }

    /// Gives each value its own row. There are [`MAX_ROWS`] rows then, because a window with fewer
    /// values never has that many rows.
    fn part(&mut self) {
        let row = |&number: &u16| self.rows[usize::from(number)];
        self.rows = self.row_of.iter().map(row).collect();
        self.row_of = (0..=u16::MAX).take(self.row_of.len()).collect();
        self.different = self.rows.len();
    }
}

/// Rows that were copied while a bit is set for many values: maps the old row to the copy, for
/// other values that share the old row.
#[derive(Default)]
struct Others {
    /// The last copy, which is mostly the only one.
    last: Option<(u16, u16)>,
    all: HashMap<u16, u16>,
}

impl Others {
    fn get(&self, before: u16) -> Option<u16> {
        let last = self.last.filter(|&(last, _)| last == before);
        last.map(|(_, now)| now)
            .or_else(|| self.all.get(&before).copied())
    }

    fn put(&mut self, before: u16, now: u16) {
        self.all.extend(self.last.replace((before, now)));
    }
}

impl Windows {
    /// Creates empty rows.
    pub(super) fn new(windows: &[Window]) -> Self {
        Self(windows.iter().copied().map(Column::new).collect())
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(Column::bytes).sum()
    }

    /// Records that a tuple has a rule with these words.
    pub(super) fn enter(&mut self, tuple: usize, a: &[u64], b: &[u64]) {
        for column in &mut self.0 {
            column.enter(1 << tuple, a, b);
        }
    }

    /// Releases unused memory after many insertions.
    pub(super) fn share(&mut self) {
        for column in &mut self.0 {
            column.share();
            column.rows.shrink_to_fit();
        }
    }

    /// Iterates over the windows, each with the row number of each value and the rows.
    pub(super) fn columns(&self) -> impl ExactSizeIterator<Item = (Window, &[u16], &[u64])> {
        let columns = self.0.iter();
        columns.map(|column| (column.window, &*column.row_of, &*column.rows))
    }

    /// Prefetches the row numbers of a key.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: &[u64]) {
        for column in &self.0 {
            prefetch(&column.row_of, column.window.of(key));
        }
    }

    /// Returns those of these tuples that are worth searching.
    #[inline(always)]
    pub(super) fn admitted(&self, key: &[u64], tuples: u64) -> u64 {
        let rows = self.0.iter().map(|column| column.row(key));
        rows.fold(tuples, |admitted, row| admitted & row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;

    /// Returns a window of `bits` bits.
    fn window(bits: u32, is_range: bool) -> Window {
        Window {
            word: 0,
            shift: 3,
            bits,
            is_range,
        }
    }

    #[test]
    fn a_rule_that_comes_touches_a_fourth_of_the_values_at_most_and_one_at_least() {
        for bits in 1..=16 {
            let most = ((1 << bits) / FEW_SHARE).max(1);
            for open in 0..=bits {
                let values = 1usize << open;
                let mask = (one::mask(bits) & !one::mask(open)) << 3;
                let range = [(values as u64 - 1) << 3];
                for (is_range, b) in [(false, [mask]), (true, range)] {
                    let mut touched = 0;
                    let is_few = window(bits, is_range).values(&[0], &b, |_| touched += 1);
                    assert_eq!(is_few, values <= most, "{open} of {bits} bits");
                    assert_eq!(touched, if is_few { values } else { 0 });
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_row_names_the_tuples_that_have_a_rule_for_the_value(
            rules in proptest::collection::vec((0usize..64, 0u64..256, 0u64..256), 0..usual_or_interpreted(200, 20)),
            is_range in any::<bool>(),
            shared in 0..usual_or_interpreted(200, 20),
        ) {
            let window = window(8, is_range);
            let mut windows = Windows::new(&[window]);
            let mut model = [0u64; 256];
            for (number, (tuple, a, b)) in rules.into_iter().enumerate() {
                let (a, b) = match is_range {
                    true => (a.min(b), a.max(b)),
                    false => (a & b, b),
                };
                let (a, b) = ([a << 3], [b << 3]);
                windows.enter(tuple, &a, &b);
                if number == shared {
                    windows.share();
                }
                let values = (0..256).filter(|&value| window.admits(&a, &b, value));
                let is_many = values.count() * FEW_SHARE > 256;
                for (value, row) in model.iter_mut().enumerate() {
                    *row |= u64::from(is_many || window.admits(&a, &b, value)) << tuple;
                }
            }
            for (value, row) in (0u64..).zip(model) {
                prop_assert_eq!(windows.admitted(&[value << 3], u64::MAX), row);
            }
            windows.share();
            let mut different = model.to_vec();
            different.sort_unstable();
            different.dedup();
            prop_assert_eq!(windows.bytes(), 256 * 2 + different.len() * 8);
        }
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "sets half a million bits in 65,536 rows: Miri takes too long"
    )]
    fn when_nearly_all_rows_differ_each_value_has_its_own_and_none_are_compared_again() {
        const SAME: u64 = 1000;
        let mut windows = Windows::new(&[window(16, false)]);
        let mask = [0xffff << 3];
        // The first thousand values share one row; all others have their own.
        for value in SAME..1 << 16 {
            for bit in (0..16).filter(|bit| value >> bit & 1 == 1) {
                windows.enter(bit, &[value << 3], &mask);
            }
        }
        windows.share();
        assert_eq!(windows.0[0].different, (1 << 16) - SAME as usize + 1);
        for value in 0u64..3 * SAME {
            windows.enter(20, &[value << 3], &mask);
        }
        let column = &windows.0[0];
        assert_eq!((column.rows.len(), column.different), (MAX_ROWS, MAX_ROWS));
        for value in 0u64..1 << 16 {
            let bits = if value < SAME { 0 } else { value };
            let more = u64::from(value < 3 * SAME) << 20;
            assert_eq!(windows.admitted(&[value << 3], u64::MAX), bits | more);
        }
        windows.share();
        assert_eq!(windows.0[0].different, (1 << 16) - SAME as usize + 1);
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "sets half a million bits in 65,536 rows: Miri takes too long"
    )]
    fn rows_may_be_as_many_as_values_and_change_then() {
        let mut windows = Windows::new(&[window(16, false)]);
        let mask = [0xffff << 3];
        // Set the bits of each value as its row, then one more bit for one value.
        for value in 0u64..1 << 16 {
            for bit in (0..16).filter(|bit| value >> bit & 1 == 1) {
                windows.enter(bit, &[value << 3], &mask);
            }
        }
        let rows = windows.clone();
        windows.enter(20, &[5 << 3], &mask);
        for value in 0u64..1 << 16 {
            let key = [value << 3];
            assert_eq!(rows.admitted(&key, u64::MAX), value);
            let more = u64::from(value == 5) << 20;
            assert_eq!(windows.admitted(&key, u64::MAX), value | more);
        }
    }
}
