//! Integers of arbitrary precision.

use std::cmp::Ordering;
use std::fmt;

/// A natural number of arbitrary precision: big-endian bytes without leading zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Number(Vec<u8>);

/// A signed integer of arbitrary precision. Zero is not negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Int {
    negative: bool,
    magnitude: Number,
}

impl Number {
    /// Creates a number from big-endian bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Number {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Number(bytes[zeros..].to_vec())
    }

    /// Creates a number from a machine word.
    #[must_use]
    pub fn from_u64(number: u64) -> Number {
        Number::from_bytes(&number.to_be_bytes())
    }

    /// Returns 2^`width` - 1.
    #[must_use]
    pub fn ones(width: u32) -> Number {
        Number(vec![0xff; width.div_ceil(8) as usize]).low_bits(width)
    }

    /// Returns true if the number is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a digit: returns the number times `base`, plus `digit`.
    pub(crate) fn with_digit(self, base: u32, digit: u32) -> Number {
        let mut carry = digit;
        let mut bytes = self.0;
        for byte in bytes.iter_mut().rev() {
            let sum = u32::from(*byte) * base + carry;
            *byte = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        if carry > 0 {
            bytes.insert(0, carry as u8);
        }
        Number::from_bytes(&bytes)
    }

    /// Returns the number modulo 2^`width`.
    fn low_bits(&self, width: u32) -> Number {
        let size = width.div_ceil(8) as usize;
        let mut bytes = self.0[self.0.len().saturating_sub(size)..].to_vec();
        if let Some(first) = bytes.first_mut().filter(|_| self.0.len() >= size) {
            *first &= 0xff >> (size as u32 * 8 - width);
        }
        Number::from_bytes(&bytes)
    }

    /// Returns the two's complement of a number below 2^`width`; 0 for 0.
    fn complement(&self, width: u32) -> Number {
        let size = width.div_ceil(8) as usize;
        let mut bytes = vec![0; size - self.0.len()];
        bytes.extend_from_slice(&self.0);
        let mut carry = true;
        for byte in bytes.iter_mut().rev() {
            let (sum, over) = (!*byte).overflowing_add(u8::from(carry));
            *byte = sum;
            carry = over;
        }
        Number::from_bytes(&bytes).low_bits(width)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        if self.0.is_empty() {
            return f.write_str("0");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Int {
    /// Creates a non-negative integer.
    #[must_use]
    pub fn new(magnitude: Number) -> Int {
        Int {
            negative: false,
            magnitude,
        }
    }

    /// Returns the integer with the opposite sign.
    pub(crate) fn negated(self) -> Int {
        Int {
            negative: !self.negative && !self.magnitude.is_zero(),
            magnitude: self.magnitude,
        }
    }

    /// Returns the integer modulo 2^`width`, in two's complement.
    pub(crate) fn modulo(&self, width: u32) -> Number {
        let low = self.magnitude.low_bits(width);
        match self.negative {
            true => low.complement(width),
            false => low,
        }
    }
}

impl Ord for Int {
    fn cmp(&self, other: &Int) -> Ordering {
        match (self.negative, other.negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.magnitude.cmp(&other.magnitude),
            (true, true) => other.magnitude.cmp(&self.magnitude),
        }
    }
}

impl PartialOrd for Int {
    fn partial_cmp(&self, other: &Int) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        self.magnitude.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_modulo_powers_of_two_as_machine_words_are() {
        let edges = [0u64, 1, 2, 127, 128, 255, 256, 65_535, 65_536, u64::MAX];
        for number in edges {
            for width in 1..=64 {
                let mask = u64::MAX >> (64 - width);
                let int = Int::new(Number::from_u64(number));
                assert_eq!(int.modulo(width), Number::from_u64(number & mask));
                let negative = number.wrapping_neg() & mask;
                assert_eq!(int.negated().modulo(width), Number::from_u64(negative));
            }
        }
        assert_eq!(
            Int::new(Number::from_u64(1)).negated().modulo(72),
            Number::ones(72)
        );
        assert_eq!(Number::ones(9), Number::from_u64(511));
    }
}
