//! Arithmetic on numbers of at most 64 bits, one limb each.
//!
//! Widths are 0..=64. Operands and results are canonical. A number of width zero is 0.

use std::cmp::Ordering;

/// Returns `width` ones.
#[inline]
pub const fn mask(width: u32) -> u64 {
    if width >= 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    }
}

/// Returns the most negative `int<width>`: only the sign bit is set.
#[inline]
const fn sign_bit(width: u32) -> u64 {
    mask(width) ^ (mask(width) >> 1)
}

/// `a + b`, wrapping.
#[inline]
pub const fn add(a: u64, b: u64, width: u32) -> u64 {
    a.wrapping_add(b) & mask(width)
}

/// `a - b`, wrapping.
#[inline]
pub const fn sub(a: u64, b: u64, width: u32) -> u64 {
    a.wrapping_sub(b) & mask(width)
}

/// `a * b`, wrapping.
#[inline]
pub const fn mul(a: u64, b: u64, width: u32) -> u64 {
    a.wrapping_mul(b) & mask(width)
}

/// `-a`, wrapping.
#[inline]
pub const fn neg(a: u64, width: u32) -> u64 {
    a.wrapping_neg() & mask(width)
}

/// `~a`.
#[inline]
pub const fn not(a: u64, width: u32) -> u64 {
    !a & mask(width)
}

/// `a << amount`; 0 when `amount` is the width or more.
#[inline]
pub const fn shl(a: u64, amount: u64, width: u32) -> u64 {
    if amount >= width as u64 {
        0
    } else {
        (a << amount) & mask(width)
    }
}

/// `a >> amount`, filled with zeros; 0 when `amount` is the width or more.
#[inline]
pub const fn shr(a: u64, amount: u64, width: u32) -> u64 {
    if amount >= width as u64 {
        0
    } else {
        a >> amount
    }
}

/// `a >> amount`, filled with the sign; all sign when `amount` is the width or more.
#[inline]
pub const fn ashr(a: u64, amount: u64, width: u32) -> u64 {
    let amount = if amount > 63 { 63 } else { amount };
    (to_signed(a, width) >> amount) as u64 & mask(width)
}

/// Returns the number that `a` represents as an `int<width>`.
#[inline]
pub const fn to_signed(a: u64, width: u32) -> i64 {
    if width == 0 {
        return 0;
    }
    let unused = 64 - width;
    ((a << unused) as i64) >> unused
}

/// Converts `a`, an `int<from>`, to an `int<to>`: sign extended or truncated.
#[inline]
pub const fn sign_extend(a: u64, from: u32, to: u32) -> u64 {
    to_signed(a, from) as u64 & mask(to)
}

/// Compares two numbers of type `int<width>`.
#[inline]
pub fn cmp_signed(a: u64, b: u64, width: u32) -> Ordering {
    to_signed(a, width).cmp(&to_signed(b, width))
}

/// `a |+| b` on `bit<width>`: at most all ones.
#[inline]
pub const fn sat_add(a: u64, b: u64, width: u32) -> u64 {
    let sum = add(a, b, width);
    if sum < a { mask(width) } else { sum }
}

/// `a |-| b` on `bit<width>`: at least 0.
#[inline]
pub const fn sat_sub(a: u64, b: u64) -> u64 {
    a.saturating_sub(b)
}

/// `a |+| b` on `int<width>`.
#[inline]
pub const fn sat_add_signed(a: u64, b: u64, width: u32) -> u64 {
    clamp_signed(
        to_signed(a, width) as i128 + to_signed(b, width) as i128,
        width,
    )
}

/// `a |-| b` on `int<width>`.
#[inline]
pub const fn sat_sub_signed(a: u64, b: u64, width: u32) -> u64 {
    clamp_signed(
        to_signed(a, width) as i128 - to_signed(b, width) as i128,
        width,
    )
}

#[inline]
const fn clamp_signed(exact: i128, width: u32) -> u64 {
    let max = (mask(width) >> 1) as i128;
    if exact > max {
        max as u64
    } else if exact < -max - 1 {
        sign_bit(width)
    } else {
        exact as u64 & mask(width)
    }
}

/// Returns bits `lo .. lo + width` of `a`. Bits beyond its end are 0.
#[inline]
pub const fn extract(a: u64, lo: u32, width: u32) -> u64 {
    if lo >= 64 { 0 } else { (a >> lo) & mask(width) }
}

/// Returns `into` with its bits `lo .. lo + width` replaced by `a`. `lo + width` is at most 64.
#[inline]
pub const fn deposit(into: u64, a: u64, lo: u32, width: u32) -> u64 {
    if width == 0 {
        return into;
    }
    let field = mask(width) << lo;
    (into & !field) | (a << lo)
}

/// `hi ++ lo`. The widths together are at most 64.
#[inline]
pub const fn concat(hi: u64, lo: u64, lo_width: u32) -> u64 {
    if lo_width >= 64 {
        lo
    } else {
        (hi << lo_width) | lo
    }
}
