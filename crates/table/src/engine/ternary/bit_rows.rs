//! [`BitRow`]: bit set of fixed size in as few cache lines as possible.

use std::fmt::Debug;

/// Movement of positions by one, which makes or closes a gap.
#[derive(Debug, Clone, Copy)]
pub(super) enum Moved {
    /// No position moves.
    Nothing,
    /// All positions from the first on move up by one, up to the hole at the second.
    Up(usize, usize),
    /// All positions after the hole at the first, up to and including the second, move down by one.
    Down(usize, usize),
}

/// Bit set of fixed size.
pub(super) trait BitRow: Copy + Debug + Send + Sync + 'static {
    /// The empty set.
    const ZERO: Self;
    /// Number of positions.
    const PLACES: usize;
    /// Maximum width in bits of a part of a key that has a row for each value. At least 8, and more
    /// if the rows then take at most 16 KB.
    const SHORT: u32;

    fn words(&self) -> &[u64];

    fn words_mut(&mut self) -> &mut [u64];

    /// Intersects with another set.
    fn keep(&mut self, other: &Self);

    /// Returns the first position in the set, or [`PLACES`](Self::PLACES) if it is empty.
    fn first(self) -> usize;

    fn set(&mut self, place: usize, bit: bool) {
        let word = &mut self.words_mut()[place / 64];
        *word = *word & !(1 << (place % 64)) | u64::from(bit) << (place % 64);
    }

    fn flip(&mut self, place: usize) {
        self.words_mut()[place / 64] ^= 1 << (place % 64);
    }

    /// Moves bits with their positions.
    fn shift(&mut self, moved: Moved) {
        let words = self.words_mut();
        match moved {
            Moved::Nothing => {}
            Moved::Up(from, hole) => {
                let mut carry = 0;
                let words = words.iter_mut().enumerate();
                for (at, word) in words.take(hole / 64 + 1).skip(from / 64) {
                    let (old, moving) = (*word, between(at, from, hole));
                    *word = old & !moving | (old << 1 | carry) & moving;
                    carry = old >> 63;
                }
            }
            Moved::Down(hole, to) => {
                let mut carry = 0;
                let words = words.iter_mut().enumerate();
                for (at, word) in words.take(to / 64 + 1).skip(hole / 64).rev() {
                    let (old, moving) = (*word, between(at, hole, to));
                    *word = old & !moving | (old >> 1 | carry << 63) & moving;
                    carry = old & 1;
                }
            }
        }
    }
}

/// Returns the bits of word `word` that are between two positions, both inclusive.
fn between(word: usize, from: usize, to: usize) -> u64 {
    let from = if word == from / 64 { from % 64 } else { 0 };
    let to = if word == to / 64 { to % 64 } else { 63 };
    u64::MAX << from & u64::MAX >> (63 - to)
}

macro_rules! bit_row {
    ($name:ident, $words:literal, $align:literal) => {
        #[doc = concat!("Bits in ", $words, " words.")]
        #[derive(Debug, Clone, Copy)]
        #[repr(align($align))]
        pub(super) struct $name([u64; $words]);

        impl BitRow for $name {
            const ZERO: Self = Self([0; $words]);
            const PLACES: usize = $words * 64;
            const SHORT: u32 = match (16 << 10) / size_of::<Self>() {
                0..512 => 8,
                512..1024 => 9,
                1024..2048 => 10,
                _ => 11,
            };

            #[inline(always)]
            fn words(&self) -> &[u64] {
                &self.0
            }

            #[inline(always)]
            fn words_mut(&mut self) -> &mut [u64] {
                &mut self.0
            }

            #[inline(always)]
            fn keep(&mut self, other: &Self) {
                for (word, other) in self.0.iter_mut().zip(&other.0) {
                    *word &= other;
                }
            }

            #[inline(always)]
            fn first(self) -> usize {
                // Branch-free, because the word with the first bit is unpredictable.
                let mut set = 1u32 << ($words - 1);
                for (at, &word) in self.0.iter().enumerate() {
                    set |= u32::from(word != 0) << at;
                }
                let word = set.trailing_zeros() as usize;
                // A copy, so that until here all words stay in registers.
                let words = self.0;
                let bit = words.get(word).map_or(64, |word| word.trailing_zeros());
                word * 64 + bit as usize
            }
        }
    };
}

bit_row!(Bits64, 1, 8);
bit_row!(Bits256, 4, 32);
bit_row!(Bits512, 8, 64);
bit_row!(Bits1024, 16, 64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moves<R: BitRow>(set: &[usize], moved: Moved) {
        let mut bits = vec![false; R::PLACES];
        let mut row = R::ZERO;
        for place in set.iter().map(|place| place % R::PLACES) {
            bits[place] = true;
            row.set(place, true);
        }
        let first = bits.iter().position(|&bit| bit);
        assert_eq!(row.first(), first.unwrap_or(R::PLACES));
        let within = |place: usize| place % R::PLACES;
        let moved = match moved {
            Moved::Nothing => Moved::Nothing,
            Moved::Up(a, b) => Moved::Up(within(a).min(within(b)), within(a).max(within(b))),
            Moved::Down(a, b) => Moved::Down(within(a).min(within(b)), within(a).max(within(b))),
        };
        match moved {
            Moved::Nothing => {}
            Moved::Up(from, hole) => bits.copy_within(from..hole, from + 1),
            Moved::Down(hole, to) => bits.copy_within(hole + 1..=to, hole),
        }
        row.shift(moved);
        // The bit at the position that became free is unspecified.
        let free = match moved {
            Moved::Nothing => None,
            Moved::Up(from, _) => Some(from),
            Moved::Down(_, to) => Some(to),
        };
        for place in (0..R::PLACES).filter(|&place| Some(place) != free) {
            let bit = row.words()[place / 64] >> (place % 64) & 1 == 1;
            assert_eq!(bit, bits[place], "{place} {moved:?}");
        }
    }

    proptest! {
        #[test]
        fn bits_move_with_their_places(
            set in proptest::collection::vec(0usize..1024, 0..300),
            (from, to) in (0usize..1024, 0usize..1024),
            up in any::<bool>(),
        ) {
            let moved = if up { Moved::Up(from, to) } else { Moved::Down(from, to) };
            moves::<Bits64>(&set, moved);
            moves::<Bits256>(&set, moved);
            moves::<Bits512>(&set, moved);
            moves::<Bits1024>(&set, moved);
        }
    }
}
