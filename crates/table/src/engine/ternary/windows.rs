//! [`Windows`]: which tuples may have a rule for a key, from a few bits of it.
//!
//! A window is some bits of a key. For each value that they take, a row says which tuples have a rule that
//! a key with that value can match. The rows of all windows, and-ed, are the tuples that are worth a search
//! (the tuple pruning of Srinivasan, Suri and Varghese, "Packet Classification using Tuple Space Search",
//! SIGCOMM 1999, with tables of short windows in place of tries). A row may name a tuple that has no such rule
//! any more: that costs a search and changes no result.

use super::layout::{Layout, Piece, Role};
use crate::prefetch::prefetch;
use bits::one;

/// The most tuples, which are the bits of a row.
pub(super) const MAX_TUPLES: usize = 64;

/// The most values a rule may have in a window to be entered under each.
const FEW: u64 = 1 << 14;

/// Bits of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    word: usize,
    shift: u32,
    pub(super) bits: u32,
    /// Of a range, the window is the uppermost bits.
    is_range: bool,
}

impl Window {
    /// The windows of at most `bits` bits that a layout has, beside each other at least `step` bits apart.
    pub(super) fn all(layout: &Layout, bits: u32, step: usize) -> Vec<Self> {
        let of_piece = |piece: &Piece| {
            let bits = bits.min(piece.width);
            let step = match piece.role {
                Role::Ternary => step,
                // Only the uppermost one.
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

    /// The value of a key, or of a row of a rule.
    #[inline(always)]
    pub(super) fn of(&self, words: &[u64]) -> usize {
        (words[self.word] >> self.shift & one::mask(self.bits)) as usize
    }

    /// Whether a rule can match a key that has this value.
    pub(super) fn admits(&self, a: &[u64], b: &[u64], value: usize) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        if self.is_range {
            (a..=b).contains(&value)
        } else {
            (value ^ a) & b == 0
        }
    }

    /// The values that a key has if it matches the rule, where they lie side by side.
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

    /// Calls `each` with the values that a key has if it matches the rule. False, and no call, if they
    /// are many.
    pub(super) fn values(&self, a: &[u64], b: &[u64], mut each: impl FnMut(usize)) -> bool {
        let (a, b) = (self.of(a), self.of(b));
        if self.is_range {
            if (b - a) as u64 >= FEW {
                return false;
            }
            (a..=b).for_each(each);
            return true;
        }
        let open = !b & one::mask(self.bits) as usize;
        if 1u64
            .checked_shl(open.count_ones())
            .is_none_or(|values| values > FEW)
        {
            return false;
        }
        // All subsets of the open bits.
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

/// A row of bits for each value of each window: which tuples may have a rule for a key.
#[derive(Debug, Clone, Default)]
pub(super) struct Windows {
    windows: Box<[Place]>,
    /// The rows of all windows.
    rows: Box<[u64]>,
    /// The tuples that are in all rows of a window, for each of these.
    open: Box<[u64]>,
}

/// A window, and where its rows begin.
#[derive(Debug, Clone, Copy)]
struct Place {
    window: Window,
    first: usize,
}

impl Place {
    /// Where the row of a value is.
    #[inline(always)]
    fn row(&self, words: &[u64]) -> usize {
        self.first + self.window.of(words)
    }
}

impl Windows {
    /// Empty rows.
    pub(super) fn new(windows: &[Window]) -> Self {
        let mut rows = 0;
        let mut place = |window: &Window| {
            let first = rows;
            rows += 1 << window.bits;
            Place {
                window: *window,
                first,
            }
        };
        Self {
            windows: windows.iter().map(&mut place).collect(),
            rows: vec![0; rows].into(),
            open: vec![0; windows.len()].into(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }

    /// A tuple has a rule with these rows.
    pub(super) fn enter(&mut self, tuple: usize, a: &[u64], b: &[u64]) {
        let bit = 1 << tuple;
        for (Place { window, first }, open) in self.windows.iter().zip(&mut self.open) {
            if *open & bit != 0 {
                continue;
            }
            let rows = &mut self.rows[*first..first + (1 << window.bits)];
            if !window.values(a, b, |value| rows[value] |= bit) {
                *open |= bit;
                rows.iter_mut().for_each(|row| *row |= bit);
            }
        }
    }

    /// Asks for the rows of a key.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: &[u64]) {
        for place in &self.windows {
            prefetch(&self.rows, place.row(key));
        }
    }

    /// Of these tuples, those that are worth a search.
    #[inline(always)]
    pub(super) fn admitted(&self, key: &[u64], tuples: u64) -> u64 {
        let rows = self.windows.iter().map(|place| self.rows[place.row(key)]);
        rows.fold(tuples, |admitted, row| admitted & row)
    }
}
