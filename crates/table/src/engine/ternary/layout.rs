//! [`Layout`]: keys and rules in few words.
//!
//! A lookup key has a limb a field, most of it zeros. Packed, a five-tuple is two words, which is what
//! is hashed, compared and stored. A rule is two such rows, `a` and `b`: value and mask for all fields
//! but ranges, least and greatest value for ranges.

use super::records::FlatRule;
use crate::key::{FieldMatch, KeyShape, MatchKind};
use bits::{limbs_for, one};
use std::sync::Arc;

/// The most words of a packed key. Longer keys stay as they are, a word a limb.
pub(super) const MAX_PACKED: usize = 8;

/// Where the bits of a key lie.
#[derive(Debug)]
pub(super) struct Layout {
    /// How many words a key has.
    pub(super) words: usize,
    /// Whether words differ from limbs.
    packed: bool,
    /// One a limb, in the order of limbs.
    pub(super) pieces: Box<[Piece]>,
    /// Where each of them is.
    places: Box<[Place]>,
    /// The bits of each word that are not of a range.
    ternary: Box<[u64]>,
    /// The pieces that are a whole range field.
    ranges: Box<[Piece]>,
    /// First word and number of words of range fields with more limbs than one.
    wide_ranges: Box<[(usize, usize)]>,
}

/// A limb of a field, or a shorter field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) word: usize,
    pub(super) shift: u32,
    pub(super) width: u32,
    /// `width` ones.
    mask: u64,
    pub(super) role: Role,
}

/// Where a limb goes.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Of a packed key; of others, nothing.
    word: u8,
    shift: u8,
}

/// How a piece is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// By value and mask.
    Ternary,
    /// As a range, alone.
    Range,
    /// As part of a range that has more limbs.
    PartOfRange,
}

impl Piece {
    /// Its value in a row of words.
    #[inline(always)]
    pub(super) fn of(&self, words: &[u64]) -> u64 {
        words[self.word] >> self.shift & self.mask
    }

    /// Whether a rule with these rows leaves these bits of the piece open; of a range all or none are meant.
    pub(super) fn is_open(&self, a: &[u64], b: &[u64], bits: u64) -> bool {
        let (a, b, bits) = (self.of(a), self.of(b), bits & self.mask);
        match self.role {
            Role::Ternary => b & bits == 0,
            Role::Range | Role::PartOfRange => bits == 0 || (a == 0 && b == self.mask),
        }
    }
}

impl Layout {
    pub(super) fn new(shape: &KeyShape) -> Self {
        let packed = Self::packed(shape);
        if packed.words <= MAX_PACKED {
            packed
        } else {
            Self::by_limbs(shape)
        }
    }

    /// The limbs of all fields: width and role.
    fn limbs(shape: &KeyShape) -> Vec<(u32, Role)> {
        let of_field = |field: &crate::key::KeyField| {
            let limbs = limbs_for(field.width);
            let role = match field.kind {
                MatchKind::Range if limbs == 1 => Role::Range,
                MatchKind::Range => Role::PartOfRange,
                _ => Role::Ternary,
            };
            let width = field.width;
            (0..limbs as u32).map(move |limb| ((width - limb * 64).min(64), role))
        };
        shape.fields().iter().flat_map(of_field).collect()
    }

    /// Whole limbs and parts of long ranges first, in order and each in a word of its own; then the
    /// others, the widest first, each in the first word that has room.
    fn packed(shape: &KeyShape) -> Self {
        let limbs = Self::limbs(shape);
        let mut places = vec![(0, 0); limbs.len()];
        let alone = |&(width, role): &(u32, Role)| width == 64 || role == Role::PartOfRange;
        let mut room: Vec<u32> = Vec::new();
        for (i, _) in limbs.iter().enumerate().filter(|(_, limb)| alone(limb)) {
            places[i] = (room.len(), 0);
            room.push(0);
        }
        let mut others: Vec<usize> = (0..limbs.len()).filter(|&i| !alone(&limbs[i])).collect();
        others.sort_by_key(|&i| std::cmp::Reverse(limbs[i].0));
        for i in others {
            let width = limbs[i].0;
            let word = room.iter().position(|&left| left >= width);
            let word = word.unwrap_or_else(|| {
                room.push(64);
                room.len() - 1
            });
            places[i] = (word, 64 - room[word]);
            room[word] -= width;
        }
        Self::from_places(shape, &limbs, &places, room.len(), true)
    }

    fn by_limbs(shape: &KeyShape) -> Self {
        let limbs = Self::limbs(shape);
        let places: Vec<_> = (0..limbs.len()).map(|limb| (limb, 0)).collect();
        Self::from_places(shape, &limbs, &places, limbs.len(), false)
    }

    fn from_places(
        shape: &KeyShape,
        limbs: &[(u32, Role)],
        places: &[(usize, u32)],
        words: usize,
        packed: bool,
    ) -> Self {
        let pieces: Box<[Piece]> = limbs
            .iter()
            .zip(places)
            .map(|(&(width, role), &(word, shift))| Piece {
                word,
                shift,
                width,
                mask: one::mask(width),
                role,
            })
            .collect();
        let mut ternary = vec![u64::MAX; words];
        for piece in pieces.iter().filter(|piece| piece.role != Role::Ternary) {
            ternary[piece.word] &= !(piece.mask << piece.shift);
        }
        let ranges = pieces.iter().filter(|piece| piece.role == Role::Range);
        let wide = |(i, field): (usize, &crate::key::KeyField)| {
            let limbs = limbs_for(field.width);
            (field.kind == MatchKind::Range && limbs > 1)
                .then(|| (places[shape.offset(i)].0, limbs))
        };
        Self {
            words,
            packed,
            places: pieces
                .iter()
                .map(|piece| Place {
                    word: piece.word as u8,
                    shift: piece.shift as u8,
                })
                .collect(),
            ranges: ranges.copied().collect(),
            wide_ranges: shape.fields().iter().enumerate().filter_map(wide).collect(),
            pieces,
            ternary: ternary.into(),
        }
    }

    /// Whether a range has more limbs than one.
    pub(super) fn has_wide_ranges(&self) -> bool {
        !self.wide_ranges.is_empty()
    }

    /// Puts a key into `packed`, which is zeros, unless it stays as it is, and gives its words.
    #[inline(always)]
    pub(super) fn pack<'k, const N: usize>(
        &self,
        key: &'k [u64],
        packed: &'k mut [u64; MAX_PACKED],
    ) -> &'k [u64] {
        if !self.packed {
            return key;
        }
        for (limb, place) in key.iter().zip(&self.places) {
            packed[usize::from(place.word) % MAX_PACKED] |= limb << place.shift;
        }
        &packed[..if N == 0 { self.words } else { N }]
    }

    /// The rows `a` and `b` of a rule, one behind the other.
    pub(super) fn rule(&self, shape: &KeyShape, matches: &[FieldMatch]) -> Arc<[u64]> {
        let mut rows = vec![0; self.words * 2];
        let (row_a, row_b) = rows.split_at_mut(self.words);
        for (field, matched) in matches.iter().enumerate() {
            let first = shape.offset(field);
            let width = shape.fields()[field].width;
            let pieces = &self.pieces[first..first + limbs_for(width)];
            for (limb, piece) in pieces.iter().enumerate() {
                let all = piece.mask;
                let (a, b) = match matched {
                    FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) => {
                        (value.limbs()[limb], all)
                    }
                    FieldMatch::Optional(None) => (0, 0),
                    FieldMatch::Lpm { value, prefix_len } => {
                        let ignored = (width - prefix_len).saturating_sub(limb as u32 * 64);
                        (value.limbs()[limb], all & !one::mask(ignored))
                    }
                    FieldMatch::Ternary { value, mask } => {
                        (value.limbs()[limb], mask.limbs()[limb])
                    }
                    FieldMatch::Range { lo, hi } => (lo.limbs()[limb], hi.limbs()[limb]),
                };
                row_a[piece.word] |= a << piece.shift;
                row_b[piece.word] |= b << piece.shift;
            }
        }
        rows.into()
    }

    /// The bits in which all keys that the rule matches agree, into `mask`.
    pub(super) fn fixed(&self, a: &[u64], b: &[u64], mask: &mut [u64]) {
        for ((mask, b), ternary) in mask.iter_mut().zip(b).zip(&self.ternary) {
            *mask = b & ternary;
        }
        for piece in &self.ranges {
            let common = common_prefix(piece.of(a), piece.of(b), piece.width);
            mask[piece.word] |= common << piece.shift;
        }
        for &(first, words) in &self.wide_ranges {
            for word in (first..first + words).rev() {
                mask[word] = common_prefix(a[word], b[word], 64);
                if a[word] != b[word] {
                    break;
                }
            }
        }
    }

    /// Clears the lower bits of each piece's mask, down to a multiple of `step`.
    pub(super) fn coarsen(&self, mask: &mut [u64], step: u32) {
        if step == 1 {
            return;
        }
        for piece in &self.pieces {
            // A step of the mask stays where it is whole.
            let mut kept = 0;
            let mut upper = piece.width;
            while upper > 0 {
                let lower = (upper - 1) / step * step;
                let bits = one::mask(upper) & !one::mask(lower);
                if piece.of(mask) & bits == bits {
                    kept |= bits;
                }
                upper = lower;
            }
            mask[piece.word] &= !(piece.mask << piece.shift) | kept << piece.shift;
        }
    }

    /// A key that the rule matches, made of random numbers.
    pub(super) fn key_in(&self, rule: &FlatRule, mut random: impl FnMut() -> u64) -> Box<[u64]> {
        let (a, b) = (rule.a(), rule.b());
        let mut key = a.to_vec();
        for piece in &self.pieces {
            let random = random();
            let value = match piece.role {
                Role::Ternary => piece.of(a) | random & !piece.of(b) & piece.mask,
                Role::Range => {
                    let (lo, hi) = (piece.of(a), piece.of(b));
                    let count = u128::from(hi - lo) + 1;
                    lo + ((u128::from(random) * count) >> 64) as u64
                }
                // The least one: others are not worth the effort for a sample.
                Role::PartOfRange => piece.of(a),
            };
            key[piece.word] &= !(piece.mask << piece.shift);
            key[piece.word] |= value << piece.shift;
        }
        key.into()
    }

    /// Whether a key has the fixed bits of the rule whose rows these functions give. `N` is the number of words,
    /// or 0 where it is not known to the compiler.
    #[inline(always)]
    pub(super) fn has_bits<const N: usize>(
        &self,
        key: &[u64],
        a: impl Fn(usize) -> u64,
        b: impl Fn(usize) -> u64,
    ) -> bool {
        let words = if N == 0 { self.words } else { N };
        let mut differing = 0;
        for (word, (key, ternary)) in key.iter().zip(&self.ternary).take(words).enumerate() {
            differing |= (key ^ a(word)) & b(word) & ternary;
        }
        differing == 0
    }

    /// The bits of each range in a word that has one limb.
    pub(super) fn ranges(&self, word: usize) -> impl Iterator<Item = u64> + '_ {
        let ranges = self.ranges.iter().filter(move |piece| piece.word == word);
        ranges.map(|piece| piece.mask << piece.shift)
    }

    /// The bits of a word that are not of a range.
    pub(super) fn values(&self, word: usize) -> u64 {
        self.ternary[word]
    }

    /// Whether a key is in the ranges of that rule; without a branch for each.
    #[inline(always)]
    pub(super) fn in_ranges(
        &self,
        key: &[u64],
        a: impl Fn(usize) -> u64,
        b: impl Fn(usize) -> u64,
    ) -> bool {
        let mut is_in = true;
        for piece in &self.ranges {
            let of = |word: u64| word >> piece.shift & piece.mask;
            let (value, lo, hi) = (of(key[piece.word]), of(a(piece.word)), of(b(piece.word)));
            is_in &= (lo <= value) & (value <= hi);
        }
        is_in
            & self.wide_ranges.iter().all(|&(first, words)| {
                let row = || (first..first + words).rev();
                let key = || row().map(|word| key[word]);
                key().ge(row().map(&a)) && key().le(row().map(&b))
            })
    }
}

/// The leading bits, of `width`, in which two numbers agree, as a mask.
fn common_prefix(a: u64, b: u64, width: u32) -> u64 {
    let differing = 64 - (a ^ b).leading_zeros();
    one::mask(width) & !one::mask(differing)
}
