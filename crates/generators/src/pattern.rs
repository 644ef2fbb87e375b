//! [`Pattern`]: the match of an entry on one key field.

use bits::Value;

/// Match of an entry on one key field. All patterns of a field are of the same variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// The first `len` bits equal those of `value`. The other bits of `value` are 0.
    Prefix {
        /// The prefix, followed by zeros.
        value: Value,
        /// Prefix length.
        len: u32,
    },
    /// The field equals `value` where `mask` has ones. Where it has zeros, `value` is 0.
    Ternary {
        /// The bits to match.
        value: Value,
        /// The bits that are compared.
        mask: Value,
    },
    /// The field is in a range.
    Range {
        /// Minimum.
        lo: Value,
        /// Maximum.
        hi: Value,
    },
}

impl Pattern {
    /// Returns the width of the field in bits.
    pub fn width(&self) -> u32 {
        match self {
            Pattern::Prefix { value, .. } | Pattern::Ternary { value, .. } => value.width(),
            Pattern::Range { lo, .. } => lo.width(),
        }
    }
}
