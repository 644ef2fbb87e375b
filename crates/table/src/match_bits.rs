//! [`MatchBits`]: the matches of an entry and its priority as a string of bits of fixed length.
//!
//! Two entries of a table have the same match and priority if and only if their strings are equal.
//! The string is thus also the identity of an entry. A route to an IPv4 prefix takes 38 bits, a
//! ternary five-tuple with a priority 241.

use crate::key::{FieldMatch, KeyField, KeyShape, MatchKind};
use bits::Value;
use std::sync::Arc;

/// Coding of matches that are checked against a key shape, with the priority if the key needs one.
#[derive(Debug)]
pub(crate) struct MatchBits {
    shape: Arc<KeyShape>,
    has_priority: bool,
    limbs: usize,
}

/// Number of bits of a priority: one that states if there is one, and the number.
const PRIORITY_BITS: usize = 1 + 32;

impl MatchBits {
    /// Creates the coding for a key of this shape.
    pub(crate) fn new(shape: Arc<KeyShape>) -> Self {
        let has_priority = shape.needs_priority();
        let fields: usize = shape.fields().iter().map(bits_of).sum();
        let bits = fields + if has_priority { PRIORITY_BITS } else { 0 };
        Self {
            shape,
            has_priority,
            limbs: bits.div_ceil(64),
        }
    }

    /// Returns the number of limbs of a string.
    pub(crate) fn limbs(&self) -> usize {
        self.limbs
    }

    /// Writes the string of checked matches and a priority to `limbs`.
    pub(crate) fn write(&self, matches: &[FieldMatch], priority: Option<i32>, limbs: &mut [u64]) {
        limbs.fill(0);
        let mut writer = BitWriter { limbs, at: 0 };
        for (field, matched) in self.shape.fields().iter().zip(matches) {
            match matched {
                FieldMatch::Exact(value) => writer.value(value),
                FieldMatch::Lpm { value, prefix_len } => {
                    writer.value(value);
                    writer.number((*prefix_len).into(), length_bits(field.width));
                }
                FieldMatch::Ternary { value: a, mask: b } | FieldMatch::Range { lo: a, hi: b } => {
                    writer.value(a);
                    writer.value(b);
                }
                FieldMatch::Optional(value) => {
                    writer.number(value.is_some().into(), 1);
                    match value {
                        Some(value) => writer.value(value),
                        None => writer.at += field.width as usize,
                    }
                }
            }
        }
        if self.has_priority {
            writer.number(priority.is_some().into(), 1);
            writer.number(priority.unwrap_or_default().cast_unsigned().into(), 32);
        }
    }

    /// Reads the matches of a string.
    pub(crate) fn matches<C: FromIterator<FieldMatch>>(&self, limbs: &[u64]) -> C {
        let mut reader = BitReader { limbs, at: 0 };
        let fields = self.shape.fields().iter();
        fields
            .map(|&KeyField { width, kind }| match kind {
                MatchKind::Exact => FieldMatch::Exact(reader.value(width)),
                MatchKind::Lpm => FieldMatch::Lpm {
                    value: reader.value(width),
                    prefix_len: reader.number(length_bits(width)) as u32,
                },
                MatchKind::Ternary => FieldMatch::Ternary {
                    value: reader.value(width),
                    mask: reader.value(width),
                },
                MatchKind::Range | MatchKind::SignedRange => FieldMatch::Range {
                    lo: reader.value(width),
                    hi: reader.value(width),
                },
                MatchKind::Optional => {
                    let is_some = reader.number(1) != 0;
                    let value = reader.value(width);
                    FieldMatch::Optional(is_some.then_some(value))
                }
            })
            .collect()
    }

    /// Reads the priority of a string.
    pub(crate) fn priority(&self, limbs: &[u64]) -> Option<i32> {
        if !self.has_priority {
            return None;
        }
        let at = self.shape.fields().iter().map(bits_of).sum();
        let mut reader = BitReader { limbs, at };
        let is_some = reader.number(1) != 0;
        let priority = (reader.number(32) as u32).cast_signed();
        is_some.then_some(priority)
    }
}

/// Returns the number of bits of a field's match.
fn bits_of(field: &KeyField) -> usize {
    let width = field.width as usize;
    match field.kind {
        MatchKind::Exact => width,
        MatchKind::Lpm => width + length_bits(field.width) as usize,
        MatchKind::Ternary | MatchKind::Range | MatchKind::SignedRange => 2 * width,
        MatchKind::Optional => 1 + width,
    }
}

/// Returns the number of bits that hold a prefix length of a field of `width` bits.
fn length_bits(width: u32) -> u32 {
    u32::BITS - width.leading_zeros()
}

/// Writer of numbers, one after the other, to limbs that are 0.
struct BitWriter<'l> {
    limbs: &'l mut [u64],
    at: usize,
}

impl BitWriter<'_> {
    /// Writes the low `width` bits (at most 64) of `number`, which has no others.
    fn number(&mut self, number: u64, width: u32) {
        if width == 0 {
            return;
        }
        let (limb, shift) = (self.at / 64, (self.at % 64) as u32);
        self.limbs[limb] |= number << shift;
        if shift + width > 64 {
            self.limbs[limb + 1] |= number >> (64 - shift);
        }
        self.at += width as usize;
    }

    fn value(&mut self, value: &Value) {
        let mut width = value.width();
        for &limb in value.limbs() {
            self.number(limb, width.min(64));
            width = width.saturating_sub(64);
        }
    }
}

/// Reader of what a [`BitWriter`] wrote.
struct BitReader<'l> {
    limbs: &'l [u64],
    at: usize,
}

impl BitReader<'_> {
    /// Reads a number of `width` bits, at most 64.
    fn number(&mut self, width: u32) -> u64 {
        if width == 0 {
            return 0;
        }
        let (limb, shift) = (self.at / 64, (self.at % 64) as u32);
        let mut number = self.limbs[limb] >> shift;
        if shift + width > 64 {
            number |= self.limbs[limb + 1] << (64 - shift);
        }
        self.at += width as usize;
        number & bits::one::mask(width)
    }

    fn value(&mut self, width: u32) -> Value {
        if width <= 64 {
            return Value::truncated(self.number(width).into(), width);
        }
        let limbs = bits::limbs_for(width) as u32;
        let limbs: Vec<u64> = (0..limbs)
            .map(|limb| self.number((width - limb * 64).min(64)))
            .collect();
        Value::from_limbs(&limbs, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a checked match of a field, from a few numbers.
    fn matched(field: &KeyField, [a, b]: [u64; 2]) -> FieldMatch {
        let width = field.width;
        let value = |number: u64| Value::from_limbs(&[number, number << 3, number, !number], width);
        match field.kind {
            MatchKind::Exact => FieldMatch::Exact(value(a)),
            MatchKind::Lpm => FieldMatch::Lpm {
                value: value(a),
                prefix_len: b as u32 % (width + 1),
            },
            MatchKind::Ternary => FieldMatch::Ternary {
                value: value(a),
                mask: value(b),
            },
            MatchKind::Range | MatchKind::SignedRange => FieldMatch::Range {
                lo: value(a).and(&value(b)),
                hi: value(a),
            },
            MatchKind::Optional => FieldMatch::Optional((b % 2 == 0).then(|| value(a))),
        }
        .canonical()
    }

    fn kind() -> impl Strategy<Value = MatchKind> {
        prop_oneof![
            Just(MatchKind::Exact),
            Just(MatchKind::Lpm),
            Just(MatchKind::Ternary),
            Just(MatchKind::Range),
            Just(MatchKind::Optional),
        ]
    }

    proptest! {
        #[test]
        fn strings_are_equal_if_matches_and_priorities_are_and_are_read_as_written(
            fields in proptest::collection::vec((kind(), 0u32..200), 1..6),
            a in proptest::collection::vec(any::<[u64; 2]>(), 6),
            b in proptest::collection::vec(any::<[u64; 2]>(), 6),
            is_like_a in proptest::collection::vec(any::<bool>(), 6),
            priorities in proptest::array::uniform2(proptest::option::of(-2i32..3)),
        ) {
            let fields = fields.into_iter().map(|(kind, width)| KeyField { width, kind });
            let shape = Arc::new(KeyShape::new(fields));
            let coding = MatchBits::new(shape.clone());
            let matches = |numbers: &[[u64; 2]]| -> Vec<FieldMatch> {
                shape.fields().iter().zip(numbers).map(|(field, n)| matched(field, *n)).collect()
            };
            let mixed = b.iter().zip(&a).zip(is_like_a);
            let mixed: Vec<_> = mixed.map(|((b, a), like)| if like { *a } else { *b }).collect();
            let (a, b) = (matches(&a), matches(&mixed));
            prop_assert_eq!(shape.check(&a), Ok(()));
            let [pa, pb] = priorities.map(|priority| priority.filter(|_| shape.needs_priority()));
            let write = |matches: &[FieldMatch], priority| {
                let mut limbs = vec![7; coding.limbs()];
                coding.write(matches, priority, &mut limbs);
                limbs
            };
            let (one, other) = (write(&a, pa), write(&b, pb));
            prop_assert_eq!(one == other, (&a, pa) == (&b, pb));
            prop_assert_eq!(coding.matches::<Vec<_>>(&one), a);
            prop_assert_eq!(coding.priority(&one), pa);
        }
    }

    #[test]
    fn strings_are_as_short_as_the_fields() {
        let limbs = |fields: &[(MatchKind, u32)]| {
            let fields = fields.iter().map(|&(kind, width)| KeyField { width, kind });
            MatchBits::new(Arc::new(KeyShape::new(fields))).limbs()
        };
        assert_eq!(limbs(&[(MatchKind::Lpm, 32)]), 1);
        assert_eq!(limbs(&[(MatchKind::Lpm, 128)]), 3);
        assert_eq!(limbs(&[(MatchKind::Exact, 48), (MatchKind::Exact, 9)]), 1);
        let five_tuple = [32, 32, 16, 16, 8].map(|width| (MatchKind::Ternary, width));
        assert_eq!(limbs(&five_tuple), 4);
    }
}
