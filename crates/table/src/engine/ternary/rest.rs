//! [`ResidualKey`]: residual key, the bits in which a key is compared with the rules of a cell.
//! These are the bits that cells do not fix, packed into one word if they fit.

use super::layout::Layout;
use crate::compare::{Compare, LANES};
use bits::one;

/// Run of adjacent bits of a key, and its position in the packed word.
#[derive(Debug, Clone, Copy)]
struct Run {
    word: usize,
    shift: u32,
    mask: u64,
    to: u32,
}

/// Positions of the bits that cells do not fix.
#[derive(Debug, Clone)]
pub(super) struct ResidualKey {
    /// Number of words of the residual key.
    pub(super) words: usize,
    /// Runs that are packed into one word. Empty if the words are those of the key, or if cells fix
    /// all bits.
    runs: Box<[Run]>,
    /// For each word, the kinds of its bits.
    kinds: Box<[Kinds]>,
}

/// Kinds of the bits of a word.
#[derive(Debug, Clone)]
struct Kinds {
    /// Bits compared by value and mask.
    values: u64,
    /// Masks of the bits compared as ranges.
    ranges: Box<[u64]>,
}

impl ResidualKey {
    /// Returns the bits of a word that are compared by value and mask, and the mask of each range.
    #[inline(always)]
    pub(super) fn kinds(&self, word: usize) -> (u64, &[u64]) {
        let kinds = &self.kinds[word];
        (kinds.values, &kinds.ranges)
    }

    /// Creates the residual of keys without the bits of `mask`, which must not belong to ranges. No
    /// range may have more than one limb.
    pub(super) fn new(layout: &Layout, mask: &[u64]) -> Self {
        let mut open = vec![0; layout.words];
        for piece in &layout.pieces {
            open[piece.word] |= one::mask(piece.width) << piece.shift;
        }
        for (open, mask) in open.iter_mut().zip(mask) {
            *open &= !mask;
        }
        let count: u32 = open.iter().map(|word| word.count_ones()).sum();
        let mut rest = Self {
            words: 1,
            runs: runs(&open).into(),
            kinds: [].into(),
        };
        let kinds = |word: usize| Kinds {
            values: layout.values(word),
            ranges: layout.ranges(word).collect(),
        };
        let kinds = (0..layout.words).map(kinds);
        if count > u64::BITS {
            rest.words = layout.words;
            rest.runs = [].into();
            rest.kinds = kinds.collect();
        } else {
            rest.kinds = [rest.kinds_in_one(&kinds.collect::<Vec<_>>())].into();
        }
        rest
    }

    /// Returns the kinds of the bits in the packed word.
    fn kinds_in_one(&self, kinds: &[Kinds]) -> Kinds {
        let values: Vec<u64> = kinds.iter().map(|kinds| kinds.values).collect();
        let range = |(word, &bits): (usize, &u64)| {
            let mut words = vec![0; kinds.len()];
            words[word] = bits;
            self.of_words(&words)
        };
        let ranges = kinds.iter().enumerate();
        let ranges =
            ranges.flat_map(|(word, kinds)| kinds.ranges.iter().map(move |bits| (word, bits)));
        Kinds {
            values: self.of_words(&values),
            ranges: ranges.map(range).collect(),
        }
    }

    /// Returns true if the residual is one word. Longer residuals have all words of the key.
    #[inline(always)]
    pub(super) fn is_packed(&self) -> bool {
        self.words == 1
    }

    /// Packs the residual bits of a key into one word.
    #[inline(always)]
    fn of_words(&self, words: &[u64]) -> u64 {
        let runs = self.runs.iter();
        runs.fold(0, |rest, run| {
            rest | (words[run.word] >> run.shift & run.mask) << run.to
        })
    }

    /// Returns the residual of the words of a key.
    #[inline(always)]
    pub(super) fn of<'k>(&self, words: &'k [u64], packed: &'k mut [u64; 1]) -> &'k [u64] {
        if !self.is_packed() {
            return words;
        }
        packed[0] = self.of_words(words);
        packed
    }

    /// Returns true if some residual may match two rules. The functions return the words `a` and
    /// `b` of each rule.
    pub(super) fn overlap(
        &self,
        one: impl Fn(usize) -> (u64, u64),
        other: impl Fn(usize) -> (u64, u64),
    ) -> bool {
        (0..self.words).all(|word| {
            let (values, ranges) = self.kinds(word);
            let ((a, b), (other_a, other_b)) = (one(word), other(word));
            let meet = |&bits: &u64| a & bits <= other_b & bits && other_a & bits <= b & bits;
            (a ^ other_a) & b & other_b & values == 0 && ranges.iter().all(meet)
        })
    }

    /// Adds the residual bits to words of which the other bits are known.
    pub(super) fn put_back(&self, rest: &[u64], words: &mut [u64]) {
        if !self.is_packed() {
            words.copy_from_slice(rest);
        }
        for run in &self.runs {
            words[run.word] |= (rest[0] >> run.to & run.mask) << run.shift;
        }
    }
}

/// Returns which of several adjacent rules match a word of a key, one bit each. Higher bits are
/// ones. `values` and `ranges` are the kinds of the word's bits.
#[inline(always)]
pub(super) fn matching(
    compare: impl Compare,
    number: u64,
    (values, ranges): (u64, &[u64]),
    a: &[u64; LANES],
    b: &[u64; LANES],
) -> u32 {
    let mut others = compare.differing(number, a, b, values);
    for &bits in ranges {
        others |= compare.outside(number & bits, a, b, bits);
    }
    !others
}

/// Returns the runs of ones.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyField, KeyShape, MatchKind};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_left_is_put_back_where_it_was(
            open in 0u32..80,
            place in 0u32..24,
            numbers in any::<[u64; 3]>(),
        ) {
            let fields = [(64, MatchKind::Ternary), (40, MatchKind::Lpm), (16, MatchKind::Range), (8, MatchKind::Range)];
            let shape = KeyShape::new(fields.map(|(width, kind)| KeyField { width, kind }));
            let layout = Layout::new(&shape);
            prop_assert_eq!(layout.words, 2);
            // Open bits in the first word, and in the others from some position on.
            let first = one::mask(64) & !one::mask(open.min(64));
            let mask = [first, (one::mask(40) & !(one::mask(open.saturating_sub(64)) << place)) & layout.values(1)];
            let rest = ResidualKey::new(&layout, &mask);
            prop_assert_eq!(rest.is_packed(), open + 24 <= 64);
            let words = [numbers[0], numbers[1]];
            let mut back = [words[0] & mask[0], words[1] & mask[1]];
            rest.put_back(rest.of(&words, &mut [0]), &mut back);
            prop_assert_eq!(back, words);
            let kinds: u32 = (0..rest.words).map(|word| rest.kinds(word).1.iter().map(|bits| bits.count_ones()).sum::<u32>()).sum();
            prop_assert_eq!(kinds, 24);
        }
    }

    #[test]
    fn nothing_is_left_of_keys_whose_bits_are_all_the_same() {
        let fields = [64, 40].map(|width| KeyField {
            width,
            kind: MatchKind::Ternary,
        });
        let layout = Layout::new(&KeyShape::new(fields));
        let words = [u64::MAX, one::mask(40)];
        let rest = ResidualKey::new(&layout, &words);
        assert_eq!(rest.of(&words, &mut [1]), [0]);
        let mut back = words;
        rest.put_back(&[0], &mut back);
        assert_eq!(back, words);
    }
}
