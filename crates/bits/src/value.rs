//! [`Value`]: an owned `bit<W>` with its width.

use crate::limbs::{self, limbs_for};
use crate::{one, wire};
use std::cmp::Ordering;
use std::fmt;

/// Canonical number with its width.
///
/// Equal values have equal width and equal bits. The order is by the unsigned number, then by
/// width. Values of up to 128 bits are stored inline.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value(Store);

/// `Inline` if and only if the width is at most 128, so that equality can be derived.
///
/// Each variant has the width, beside which the variant's number has room: tables of a million
/// entries keep millions of values.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Store {
    Inline { width: u32, limbs: [u64; 2] },
    Boxed { width: u32, limbs: Box<[u64]> },
}

const _: () = assert!(size_of::<Value>() == 24);

/// Error of creating a value of a given width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueError {
    /// The number needs more than `width` bits.
    TooWide {
        /// The requested width.
        width: u32,
    },
    /// The text has no digits.
    NoDigits,
    /// The text has a character that is no digit of its base.
    BadDigit {
        /// The character.
        digit: char,
        /// The base: 2, 8, 10 or 16.
        base: u32,
    },
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooWide { width } => write!(f, "the number does not fit into {width} bits"),
            Self::NoDigits => f.write_str("a number is expected, but there are no digits"),
            Self::BadDigit { digit, base } => {
                write!(
                    f,
                    "'{}' is not a digit of base {base}",
                    digit.escape_default()
                )
            }
        }
    }
}

impl std::error::Error for ValueError {}

impl Value {
    /// Returns 0.
    pub fn zero(width: u32) -> Self {
        Self(if width <= 128 {
            Store::Inline {
                width,
                limbs: [0; 2],
            }
        } else {
            Store::Boxed {
                width,
                limbs: vec![0; limbs_for(width)].into_boxed_slice(),
            }
        })
    }

    /// Returns `width` ones.
    pub fn all_ones(width: u32) -> Self {
        Self::zero(width).not()
    }

    /// Returns a mask of `width` bits, of which the `len` most significant are ones (all, if `len`
    /// is larger).
    pub fn prefix_mask(len: u32, width: u32) -> Self {
        let mut value = Self::zero(width);
        let host_bits = u64::from(width.saturating_sub(len));
        limbs::shl(
            value.limbs_mut(),
            Self::all_ones(width).limbs(),
            host_bits,
            width,
        );
        value
    }

    /// Returns the low `width` bits of `number`.
    pub fn truncated(number: u128, width: u32) -> Self {
        Self::from_limbs(&[number as u64, (number >> 64) as u64], width)
    }

    /// Returns `number`, if it fits into `width` bits.
    pub fn from_u128(number: u128, width: u32) -> Result<Self, ValueError> {
        if width < 128 && number >> width != 0 {
            return Err(ValueError::TooWide { width });
        }
        Ok(Self::truncated(number, width))
    }

    /// Returns the low `width` bits of `src`. Missing limbs are 0.
    pub fn from_limbs(src: &[u64], width: u32) -> Self {
        let mut value = Self::zero(width);
        limbs::extract(value.limbs_mut(), src, 0, width);
        value
    }

    /// Returns the number in `bytes`, most significant byte first, if it fits into `width` bits.
    /// Leading zero bytes are accepted, and the empty string is 0.
    pub fn from_be_bytes(bytes: &[u8], width: u32) -> Result<Self, ValueError> {
        let mut value = Self::zero(width);
        let bits = bytes.len() * 8;
        let taken = bits.min(width as usize) as u32;
        let head = bits - taken as usize;
        let too_wide = bytes[..head / 8].iter().any(|&byte| byte != 0)
            || !head.is_multiple_of(8) && bytes[head / 8] >> (8 - head % 8) != 0;
        if too_wide {
            return Err(ValueError::TooWide { width });
        }
        wire::read(bytes, head, taken, value.limbs_mut())
            .expect("head + taken is the whole string");
        Ok(value)
    }

    /// Parses an unsigned number: decimal digits, or `0x`, `0b`, `0o` or `0d` followed by digits of
    /// that base. Underscores between digits are ignored.
    pub fn parse(text: &str, width: u32) -> Result<Self, ValueError> {
        let (base, digits) = split_base(text);
        let mut value = Self::zero(width);
        let mut any = false;
        for digit in digits.chars().filter(|&c| c != '_') {
            let number = digit
                .to_digit(base)
                .ok_or(ValueError::BadDigit { digit, base })?;
            any = true;
            value.push_digit(base, number)?;
        }
        if any {
            Ok(value)
        } else {
            Err(ValueError::NoDigits)
        }
    }

    /// `self = self * base + digit`.
    fn push_digit(&mut self, base: u32, digit: u32) -> Result<(), ValueError> {
        let width = self.width();
        let limbs = self.limbs_mut();
        let over = limbs::mul_add_small(limbs, u64::from(base), u64::from(digit));
        let top_is_canonical = limbs
            .last()
            .is_none_or(|&top| top <= one::mask(width - (limbs_for(width) as u32 - 1) * 64));
        if over == 0 && top_is_canonical {
            Ok(())
        } else {
            Err(ValueError::TooWide { width })
        }
    }

    /// Returns the width in bits.
    #[inline]
    pub fn width(&self) -> u32 {
        match self.0 {
            Store::Inline { width, .. } | Store::Boxed { width, .. } => width,
        }
    }

    /// Returns the number as `limbs_for(width)` limbs, least significant first.
    #[inline]
    pub fn limbs(&self) -> &[u64] {
        match &self.0 {
            Store::Inline { width, limbs } => &limbs[..limbs_for(*width)],
            Store::Boxed { limbs, .. } => limbs,
        }
    }

    #[inline]
    fn limbs_mut(&mut self) -> &mut [u64] {
        match &mut self.0 {
            Store::Inline { width, limbs } => &mut limbs[..limbs_for(*width)],
            Store::Boxed { limbs, .. } => limbs,
        }
    }

    /// Returns the number, if it fits into 64 bits.
    pub fn to_u64(&self) -> Option<u64> {
        self.to_u128().and_then(|number| u64::try_from(number).ok())
    }

    /// Returns the number, if it fits into 128 bits.
    pub fn to_u128(&self) -> Option<u128> {
        let limbs = self.limbs();
        if limbs.iter().skip(2).any(|&limb| limb != 0) {
            return None;
        }
        Some(
            limbs
                .iter()
                .take(2)
                .rev()
                .fold(0, |number, &limb| number << 64 | u128::from(limb)),
        )
    }

    /// Returns the number in `width / 8` bytes, rounded up, most significant first.
    pub fn to_be_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.width().div_ceil(8) as usize];
        let offset = bytes.len() * 8 - self.width() as usize;
        wire::write(&mut bytes, offset, self.width(), self.limbs())
            .expect("the bytes were made to fit");
        bytes
    }

    /// Returns the canonical byte string of P4Runtime (section "Bytestrings"): the shortest one
    /// that holds the number, most significant byte first, at least one byte.
    pub fn to_p4rt_bytes(&self) -> Vec<u8> {
        let bytes = self.to_be_bytes();
        match bytes.iter().position(|&byte| byte != 0) {
            Some(first) => bytes[first..].to_vec(),
            None => vec![0],
        }
    }

    /// Returns true if the number is 0.
    pub fn is_zero(&self) -> bool {
        limbs::is_zero(self.limbs())
    }

    /// `~self`.
    #[must_use]
    #[allow(clippy::should_implement_trait)]
    pub fn not(&self) -> Self {
        let mut result = Self::zero(self.width());
        limbs::not(result.limbs_mut(), self.limbs(), self.width());
        result
    }

    /// `-self`, wrapping.
    #[must_use]
    #[allow(clippy::should_implement_trait)]
    pub fn neg(&self) -> Self {
        let mut result = Self::zero(self.width());
        limbs::neg(result.limbs_mut(), self.limbs(), self.width());
        result
    }

    /// `self & mask`, of the width of `self`.
    #[must_use]
    pub fn and(&self, mask: &Self) -> Self {
        let mut result = self.clone();
        let masks = mask.limbs().iter().copied().chain(std::iter::repeat(0));
        for (limb, mask) in result.limbs_mut().iter_mut().zip(masks) {
            *limb &= mask;
        }
        result
    }

    /// Returns the number with another width: zero extended, or its low bits.
    #[must_use]
    pub fn resized(&self, width: u32) -> Self {
        Self::from_limbs(self.limbs(), width)
    }

    /// Returns `len` if exactly the `len` most significant bits are ones.
    pub fn prefix_len(&self) -> Option<u32> {
        let ones: u32 = self.limbs().iter().map(|limb| limb.count_ones()).sum();
        (*self == Self::prefix_mask(ones, self.width())).then_some(ones)
    }
}

/// Returns the base that the text's prefix denotes, and the digits after it.
fn split_base(text: &str) -> (u32, &str) {
    let prefixed = |prefixes: [&str; 2]| prefixes.into_iter().find_map(|p| text.strip_prefix(p));
    if let Some(digits) = prefixed(["0x", "0X"]) {
        (16, digits)
    } else if let Some(digits) = prefixed(["0b", "0B"]) {
        (2, digits)
    } else if let Some(digits) = prefixed(["0o", "0O"]) {
        (8, digits)
    } else {
        (10, prefixed(["0d", "0D"]).unwrap_or(text))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.limbs(), other.limbs());
        let shared = a.len().min(b.len());
        let longer = if limbs::is_zero(&a[shared..]) {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
        .then(if limbs::is_zero(&b[shared..]) {
            Ordering::Equal
        } else {
            Ordering::Less
        });
        longer
            .then_with(|| limbs::cmp(&a[..shared], &b[..shared]))
            .then(self.width().cmp(&other.width()))
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Writes `0x` and hexadecimal digits, without leading zeros.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        let mut significant = self.limbs().iter().rev().skip_while(|&&limb| limb == 0);
        write!(f, "{:x}", significant.next().unwrap_or(&0))?;
        significant.try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

/// Writes a P4 literal: width, `w`, number.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}w{self}", self.width())
    }
}
