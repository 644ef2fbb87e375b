//! [`KeyShape`]: the fields of a table's key. [`FieldMatch`]: the condition that an entry has for
//! one field.

use bits::{Value, limbs, limbs_for, one};
use std::cmp::Ordering;
use std::fmt;

/// Match kind of a key field (P4_16 section 14.2.1.1, and `range` and `optional` of PSA).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// The field equals the value.
    Exact,
    /// The leading bits are equal; the longest prefix wins.
    Lpm,
    /// The field equals the value in the bits that are set in the mask.
    Ternary,
    /// The field is between two values, both inclusive, as unsigned numbers.
    Range,
    /// The field is between two values, both inclusive, as numbers in two's complement.
    SignedRange,
    /// The field equals the value, or has any value.
    Optional,
}

impl fmt::Display for MatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Lpm => "lpm",
            Self::Ternary => "ternary",
            Self::Range | Self::SignedRange => "range",
            Self::Optional => "optional",
        })
    }
}

/// One field of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyField {
    /// Its width in bits.
    pub width: u32,
    /// Its match kind.
    pub kind: MatchKind,
}

/// The fields of a key, in order, and their offsets in the limbs of a lookup key.
///
/// Each field starts on a new limb: field `i` is the limbs `offset(i) .. offset(i) +
/// limbs_for(width)` of the key, least significant first, canonical.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyShape {
    fields: Box<[KeyField]>,
    offsets: Box<[usize]>,
    limbs: usize,
}

impl KeyShape {
    /// Creates the shape with these fields.
    pub fn new(fields: impl IntoIterator<Item = KeyField>) -> Self {
        let fields: Box<[KeyField]> = fields.into_iter().collect();
        let mut limbs = 0;
        let offsets = fields
            .iter()
            .map(|field| {
                let offset = limbs;
                limbs += limbs_for(field.width);
                offset
            })
            .collect();
        Self {
            fields,
            offsets,
            limbs,
        }
    }

    /// Returns the fields.
    pub fn fields(&self) -> &[KeyField] {
        &self.fields
    }

    /// Returns the index of the first limb of field `field`.
    pub fn offset(&self, field: usize) -> usize {
        self.offsets[field]
    }

    /// Returns the limbs of field `field` of `key`.
    #[inline]
    pub fn field<'k>(&self, key: &'k [u64], field: usize) -> &'k [u64] {
        let offset = self.offsets[field];
        &key[offset..offset + limbs_for(self.fields[field].width)]
    }

    /// Returns the number of limbs of a key.
    #[inline]
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// Returns true if entries need a priority: a field is ternary, range or optional (P4Runtime,
    /// section "TableEntry").
    pub fn needs_priority(&self) -> bool {
        use MatchKind::{Exact, Lpm};
        self.fields
            .iter()
            .any(|field| !matches!(field.kind, Exact | Lpm))
    }

    /// Returns the number of fields of this kind.
    pub fn count(&self, kind: MatchKind) -> usize {
        self.fields
            .iter()
            .filter(|field| field.kind == kind)
            .count()
    }

    /// Checks that `matches` is well formed for this shape. All other functions here rely on it.
    pub fn check(&self, matches: &[FieldMatch]) -> Result<(), KeyError> {
        if matches.len() != self.fields.len() {
            return Err(KeyError::FieldCount {
                expected: self.fields.len(),
                got: matches.len(),
            });
        }
        for (index, (field, matched)) in self.fields.iter().zip(matches).enumerate() {
            matched
                .check(field)
                .map_err(|fault| KeyError::Field { index, fault })?;
        }
        Ok(())
    }

    /// Returns true if `key` matches all fields. `matches` must be checked.
    pub fn matches(&self, matches: &[FieldMatch], key: &[u64]) -> bool {
        matches
            .iter()
            .enumerate()
            .all(|(i, matched)| matched.matches(self.field(key, i)))
    }

    /// Returns a necessary condition for a match: a mask and a value over the limbs of a key.
    /// Without range fields it is also sufficient. `matches` must be checked.
    pub(crate) fn masked(&self, matches: &[FieldMatch]) -> MaskedKey {
        let mut masked = MaskedKey {
            mask: Vec::with_capacity(self.limbs),
            value: Vec::with_capacity(self.limbs),
        };
        for (field, matched) in self.fields.iter().zip(matches) {
            let mask = matched.mask(field.width);
            masked.mask.extend_from_slice(mask.limbs());
            masked
                .value
                .extend_from_slice(matched.value(field.width).and(&mask).limbs());
        }
        masked
    }

    /// Returns the sum of all prefix lengths in `matches`.
    pub fn prefix_len(matches: &[FieldMatch]) -> u32 {
        let prefix_len = |matched: &FieldMatch| match matched {
            FieldMatch::Lpm { prefix_len, .. } => *prefix_len,
            _ => 0,
        };
        matches.iter().map(prefix_len).sum()
    }
}

/// Condition on whole keys: `key & mask == value`. `value` has no bits outside of `mask`.
pub(crate) struct MaskedKey {
    pub(crate) mask: Vec<u64>,
    pub(crate) value: Vec<u64>,
}

/// Condition that an entry has for one field of the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldMatch {
    /// The field equals the value.
    Exact(Value),
    /// The field equals `value` in the first `prefix_len` bits. The other bits of `value` are 0.
    Lpm {
        /// The prefix, followed by zeros.
        value: Value,
        /// From 0 (matches anything) to the width of the field.
        prefix_len: u32,
    },
    /// The field equals `value` where `mask` has ones. Where it has zeros, `value` is 0.
    Ternary {
        /// The bits to match.
        value: Value,
        /// The bits that are compared; all zeros matches anything.
        mask: Value,
    },
    /// The field is from `lo` to `hi`, both inclusive. `lo` is at most `hi` in the order of the
    /// field's kind. A signed range from a negative to a non-negative number wraps around when read
    /// as unsigned numbers: it has all values from `lo` on, and all up to `hi`.
    Range {
        /// The least value.
        lo: Value,
        /// The greatest value.
        hi: Value,
    },
    /// The field equals the value, or has any value.
    Optional(Option<Value>),
}

impl FieldMatch {
    /// Returns the kind of field that this match is for. A range match is also for signed range
    /// fields, but `Range` is returned.
    pub fn kind(&self) -> MatchKind {
        match self {
            Self::Exact(_) => MatchKind::Exact,
            Self::Lpm { .. } => MatchKind::Lpm,
            Self::Ternary { .. } => MatchKind::Ternary,
            Self::Range { .. } => MatchKind::Range,
            Self::Optional(_) => MatchKind::Optional,
        }
    }

    /// Returns the match that every value of `field` satisfies; `None` for an exact field.
    pub fn any(field: &KeyField) -> Option<Self> {
        let width = field.width;
        match field.kind {
            MatchKind::Exact => None,
            MatchKind::Lpm => Some(Self::Lpm {
                value: Value::zero(width),
                prefix_len: 0,
            }),
            MatchKind::Ternary => Some(Self::Ternary {
                value: Value::zero(width),
                mask: Value::zero(width),
            }),
            MatchKind::Range => Some(Self::Range {
                lo: Value::zero(width),
                hi: Value::all_ones(width),
            }),
            MatchKind::SignedRange => {
                let lo = Value::prefix_mask(1, width);
                let hi = lo.not();
                Some(Self::Range { lo, hi })
            }
            MatchKind::Optional => Some(Self::Optional(None)),
        }
    }

    /// Clears the bits that the match ignores, so that for example `10.1.2.3/8` becomes
    /// `10.0.0.0/8`.
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::Lpm { value, prefix_len } => {
                let value = value.and(&Value::prefix_mask(prefix_len, value.width()));
                Self::Lpm { value, prefix_len }
            }
            Self::Ternary { value, mask } => Self::Ternary {
                value: value.and(&mask),
                mask,
            },
            other => other,
        }
    }

    /// Returns true if the field with these limbs matches.
    #[inline]
    pub fn matches(&self, field: &[u64]) -> bool {
        match self {
            Self::Exact(value) | Self::Optional(Some(value)) => value.limbs() == field,
            Self::Optional(None) => true,
            Self::Lpm { value, prefix_len } => {
                let ignored = (value.width() - prefix_len) as usize;
                let masked = field
                    .iter()
                    .enumerate()
                    .map(|(i, limb)| limb & !one::mask(ignored.saturating_sub(i * 64) as u32));
                masked.eq(value.limbs().iter().copied())
            }
            Self::Ternary { value, mask } => {
                let masked = field
                    .iter()
                    .zip(mask.limbs())
                    .map(|(limb, mask)| limb & mask);
                masked.eq(value.limbs().iter().copied())
            }
            Self::Range { lo, hi } => {
                let is_from = limbs::cmp(lo.limbs(), field) != Ordering::Greater;
                let is_to = limbs::cmp(field, hi.limbs()) != Ordering::Greater;
                match lo <= hi {
                    true => is_from && is_to,
                    false => is_from || is_to,
                }
            }
        }
    }

    fn check(&self, field: &KeyField) -> Result<(), KeyFault> {
        let is_for_it = match field.kind {
            MatchKind::SignedRange => self.kind() == MatchKind::Range,
            kind => self.kind() == kind,
        };
        if !is_for_it {
            return Err(KeyFault::WrongKind {
                expected: field.kind,
                got: self.kind(),
            });
        }
        let width_is_right = |value: &Value| match value.width() {
            width if width == field.width => Ok(()),
            got => Err(KeyFault::WrongWidth {
                expected: field.width,
                got,
            }),
        };
        match self {
            Self::Exact(value) | Self::Optional(Some(value)) => width_is_right(value),
            Self::Optional(None) => Ok(()),
            Self::Lpm { value, prefix_len } => {
                width_is_right(value)?;
                if *prefix_len > field.width {
                    return Err(KeyFault::PrefixTooLong {
                        len: *prefix_len,
                        width: field.width,
                    });
                }
                let prefix = value.and(&Value::prefix_mask(*prefix_len, field.width));
                if prefix == *value {
                    Ok(())
                } else {
                    Err(KeyFault::BitsBehindPrefix)
                }
            }
            Self::Ternary { value, mask } => {
                width_is_right(value)?;
                width_is_right(mask)?;
                if value.and(mask) == *value {
                    Ok(())
                } else {
                    Err(KeyFault::BitsOutsideMask)
                }
            }
            Self::Range { lo, hi } => {
                width_is_right(lo)?;
                width_is_right(hi)?;
                let order = match field.kind {
                    MatchKind::SignedRange => {
                        limbs::cmp_signed(lo.limbs(), hi.limbs(), field.width)
                    }
                    _ => limbs::cmp(lo.limbs(), hi.limbs()),
                };
                match order {
                    Ordering::Greater => Err(KeyFault::RangeReversed),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Returns a mask of bits in which all matching values agree.
    fn mask(&self, width: u32) -> Value {
        match self {
            Self::Exact(_) | Self::Optional(Some(_)) => Value::all_ones(width),
            Self::Optional(None) => Value::zero(width),
            Self::Lpm { prefix_len, .. } => Value::prefix_mask(*prefix_len, width),
            Self::Ternary { mask, .. } => mask.clone(),
            Self::Range { lo, hi } => Value::prefix_mask(common_prefix_len(lo, hi), width),
        }
    }

    /// Returns one of the matching values.
    fn value(&self, width: u32) -> Value {
        match self {
            Self::Exact(value)
            | Self::Optional(Some(value))
            | Self::Lpm { value, .. }
            | Self::Ternary { value, .. } => value.clone(),
            Self::Optional(None) => Value::zero(width),
            Self::Range { lo, .. } => lo.clone(),
        }
    }
}

/// Returns the number of leading bits that two values of the same width share.
fn common_prefix_len(a: &Value, b: &Value) -> u32 {
    let differing = (0..a.width())
        .rev()
        .find(|&i| limbs::bit(a.limbs(), i) != limbs::bit(b.limbs(), i));
    differing.map_or(a.width(), |highest| a.width() - 1 - highest)
}

/// Error: the match of an entry is not well formed for the table's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyError {
    /// The number of matches differs from the number of key fields.
    FieldCount {
        /// Number of fields of the key.
        expected: usize,
        /// Number of matches of the entry.
        got: usize,
    },
    /// The match of one field is wrong.
    Field {
        /// Index of the field in the key, from 0.
        index: usize,
        /// Fault of the match.
        fault: KeyFault,
    },
}

/// Fault of the match of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFault {
    /// The match is for another match kind.
    WrongKind {
        /// The kind of the field.
        expected: MatchKind,
        /// The kind of the match.
        got: MatchKind,
    },
    /// A value has another width than the field.
    WrongWidth {
        /// The width of the field.
        expected: u32,
        /// The width of the value.
        got: u32,
    },
    /// A ternary value has ones where its mask has zeros.
    BitsOutsideMask,
    /// The prefix is longer than the field.
    PrefixTooLong {
        /// The prefix length.
        len: u32,
        /// The width of the field.
        width: u32,
    },
    /// A prefix has ones after its end.
    BitsBehindPrefix,
    /// The least value of a range is greater than its greatest.
    RangeReversed,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FieldCount { expected, got } => {
                write!(
                    f,
                    "the key has {}, but the entry matches {got}",
                    support::count::count(*expected as u64, "field")
                )
            }
            Self::Field { index, fault } => write!(f, "key field {index}: {fault}"),
        }
    }
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongKind { expected, got } => {
                write!(
                    f,
                    "the field is matched as {expected}, but the entry gives {got}"
                )
            }
            Self::WrongWidth { expected, got } => {
                write!(f, "the field has {expected} bits, but the value has {got}")
            }
            Self::BitsOutsideMask => {
                f.write_str("the value has bits outside of its mask; clear them")
            }
            Self::PrefixTooLong { len, width } => {
                write!(
                    f,
                    "a prefix of {len} bits is longer than the field's {width}"
                )
            }
            Self::BitsBehindPrefix => {
                f.write_str("the value has bits behind its prefix; clear them")
            }
            Self::RangeReversed => f.write_str("the range ends before it begins"),
        }
    }
}

impl std::error::Error for KeyError {}
impl std::error::Error for KeyFault {}
