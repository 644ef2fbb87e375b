//! [`Layout`]: packing of keys and rules into few words.
//!
//! A lookup key has at least one limb for each field, mostly zeros. Packed, a five-tuple takes two
//! words, which are hashed, compared and stored. A rule is two arrays of such words, `a` and `b`:
//! value and mask for all fields except ranges, least and greatest value for ranges.

use super::records::FlatRule;
use crate::key::{FieldMatch, KeyShape, MatchKind};
use bits::{limbs_for, one};
use std::sync::Arc;

/// Maximum number of words of a packed key. Longer keys are not packed: each limb is a word.
pub(super) const MAX_PACKED: usize = 8;

/// Positions of the bits of a key in its words.
#[derive(Debug)]
pub(super) struct Layout {
    /// Number of words of a key.
    pub(super) words: usize,
    /// True if words differ from limbs.
    packed: bool,
    /// One for each limb, in order.
    pub(super) pieces: Box<[Piece]>,
    /// Position of each limb.
    places: Box<[Place]>,
    /// For each word, the bits that do not belong to a range.
    ternary: Box<[u64]>,
    /// Pieces that are a whole range field.
    ranges: Box<[Piece]>,
    /// First word and number of words of the range fields with more than one limb.
    wide_ranges: Box<[(usize, usize)]>,
}

/// Limb of a field, or a shorter field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) word: usize,
    pub(super) shift: u32,
    pub(super) width: u32,
    /// Mask of `width` ones.
    mask: u64,
    pub(super) role: Role,
}

/// Position of a limb in a packed key.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Index of the word. Unused if keys are not packed.
    word: u8,
    shift: u8,
}

/// Method by which a piece is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// By value and mask.
    Ternary,
    /// As a complete range.
    Range,
    /// As one limb of a wider range.
    PartOfRange,
}

impl Piece {
    /// Returns the value of the piece in an array of words.
    #[inline(always)]
    pub(super) fn of(&self, words: &[u64]) -> u64 {
        words[self.word] >> self.shift & self.mask
    }

    /// Returns true if a rule with these words does not depend on the given bits of the piece. A
    /// range depends on all of its bits or on none.
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

    /// Returns the width and role of the limbs of all fields.
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

    /// Packs the limbs. Whole limbs and limbs of wide ranges come first, in order, each in its own
    /// word. The others follow, widest first, each in the first word that has room.
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

    /// Returns true if some range has more than one limb.
    pub(super) fn has_wide_ranges(&self) -> bool {
        !self.wide_ranges.is_empty()
    }

    /// Packs a key into `packed`, which must be zero, and returns its words. Keys that are not
    /// packed are returned as they are.
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

    /// Returns the words `a` of a rule, followed by its words `b`.
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

    /// Computes the bits in which all keys that the rule matches agree, into `mask`.
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
            // A group of `step` bits stays if all its bits are set.
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

    /// Returns a random key that the rule matches.
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
                // The least value: other values are not worth the effort for a sample.
                Role::PartOfRange => piece.of(a),
            };
            key[piece.word] &= !(piece.mask << piece.shift);
            key[piece.word] |= value << piece.shift;
        }
        key.into()
    }

    /// Returns true if a key matches the fields of a rule that are not ranges. `a` and `b` return
    /// the rule's words. `N` is the number of words, or 0 if it is not a constant.
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

    /// Iterates over the masks of the one-limb ranges in a word.
    pub(super) fn ranges(&self, word: usize) -> impl Iterator<Item = u64> + '_ {
        let ranges = self.ranges.iter().filter(move |piece| piece.word == word);
        ranges.map(|piece| piece.mask << piece.shift)
    }

    /// Returns the bits of a word that do not belong to a range.
    pub(super) fn values(&self, word: usize) -> u64 {
        self.ternary[word]
    }

    /// Returns true if a key matches the ranges of a rule. Branch-free for one-limb ranges.
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

/// Returns the mask of the leading bits, of `width`, in which two numbers agree.
fn common_prefix(a: u64, b: u64, width: u32) -> u64 {
    let differing = 64 - (a ^ b).leading_zeros();
    one::mask(width) & !one::mask(differing)
}
