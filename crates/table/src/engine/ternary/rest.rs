//! [`Rest`]: what is left to compare of a key and the rules of a cell, all of which have some bits in common: the others, in one word if there is room.

use super::layout::Layout;
use crate::compare::{Compare, LANES};
use bits::one;

/// Bits of a key side by side, and where they go.
#[derive(Debug, Clone, Copy)]
struct Run {
    word: usize,
    shift: u32,
    mask: u64,
    to: u32,
}

/// Where the bits lie that cells leave open.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    /// How many words there are.
    pub(super) words: usize,
    /// What is put into one word; nothing if words are those of keys.
    runs: Box<[Run]>,
    /// The bits of each word that are not of a range.
    values: Box<[u64]>,
    /// Word and bits of each range.
    ranges: Box<[(usize, u64)]>,
}

impl Rest {
    /// Word and bits of each range.
    pub(super) fn ranges(&self) -> &[(usize, u64)] {
        &self.ranges
    }

    /// What `mask`, which has no bits of ranges, leaves of keys. No range has more limbs than one.
    pub(super) fn new(layout: &Layout, mask: &[u64]) -> Self {
        let mut open = vec![0; layout.words];
        for piece in &layout.pieces {
            open[piece.word] |= one::mask(piece.width) << piece.shift;
        }
        for (open, mask) in open.iter_mut().zip(mask) {
            *open &= !mask;
        }
        let count: u32 = open.iter().map(|word| word.count_ones()).sum();
        if count > u64::BITS {
            let ranges = layout.ranges();
            return Self {
                words: layout.words,
                runs: [].into(),
                values: (0..layout.words).map(|word| layout.values(word)).collect(),
                ranges: ranges.collect(),
            };
        }
        let mut rest = Self {
            words: 1,
            runs: runs(&open).into(),
            values: [0].into(),
            ranges: [].into(),
        };
        let values: Vec<u64> = (0..layout.words).map(|word| layout.values(word)).collect();
        rest.values = [rest.of_words(&values)].into();
        let bits = layout.ranges().map(|(word, bits)| {
            let mut words = vec![0; layout.words];
            words[word] = bits;
            (0, rest.of_words(&words))
        });
        rest.ranges = bits.collect();
        rest
    }

    /// Whether all is in one word.
    #[inline(always)]
    pub(super) fn is_packed(&self) -> bool {
        !self.runs.is_empty()
    }

    /// These bits of words of a key in one word.
    #[inline(always)]
    fn of_words(&self, words: &[u64]) -> u64 {
        let runs = self.runs.iter();
        runs.fold(0, |rest, run| {
            rest | (words[run.word] >> run.shift & run.mask) << run.to
        })
    }

    /// What is left of words of a key.
    #[inline(always)]
    pub(super) fn of<'k>(&self, words: &'k [u64], packed: &'k mut [u64; 1]) -> &'k [u64] {
        if !self.is_packed() {
            return words;
        }
        packed[0] = self.of_words(words);
        packed
    }

    /// Adds what is left to words of which the other bits are known.
    pub(super) fn put_back(&self, rest: &[u64], words: &mut [u64]) {
        if !self.is_packed() {
            words.copy_from_slice(rest);
        }
        for run in &self.runs {
            words[run.word] |= (rest[0] >> run.to & run.mask) << run.shift;
        }
    }

    /// Which rules that lie side by side match what is left of a key, a bit each, and ones behind them. The function gives the words of their rows `a` and then
    /// `b`; of them there are `R`, or 0 if the compiler does not know. It had better know how many ranges there are.
    #[inline(always)]
    pub(super) fn matching<'r, const R: usize>(
        &self,
        compare: impl Compare,
        rest: &[u64],
        ranges: &[(usize, u64)],
        lanes: impl Fn(usize) -> &'r [u64; LANES],
    ) -> u32 {
        let words = if R == 0 { self.words } else { R };
        let mut others = 0;
        for (word, &values) in self.values.iter().enumerate().take(words) {
            others |= compare.differing(rest[word], lanes(word), lanes(words + word), values);
        }
        for &(word, bits) in ranges {
            let number = rest[word % words] & bits;
            others |= compare.outside(number, lanes(word), lanes(words + word), bits);
        }
        !others
    }
}

/// Where ones lie side by side.
fn runs(open: &[u64]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut to = 0;
    for (word, &open) in open.iter().enumerate() {
        let mut left = open;
        while left != 0 {
            let shift = left.trailing_zeros();
            let width = (left >> shift).trailing_ones();
            let mask = one::mask(width);
            left &= !(mask << shift);
            runs.push(Run {
                word,
                shift,
                mask,
                to,
            });
            to += width;
        }
    }
    runs
}
