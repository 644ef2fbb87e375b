//! Arithmetic on numbers of any width in slices of limbs, without allocation.
//!
//! Every operand and destination has at least `limbs_for(width)` limbs. Shorter slices are a bug of
//! the caller and cause a panic. Limbs beyond these are neither read nor written, unless stated
//! otherwise. Operands and results are canonical.

use crate::one;
use std::cmp::Ordering;

/// Returns the number of limbs of a number of `width` bits.
#[inline]
pub const fn limbs_for(width: u32) -> usize {
    width.div_ceil(64) as usize
}

/// Returns the mask of the last limb's bits that belong to a number of `width` bits (at least 1).
#[inline]
const fn top_mask(width: u32) -> u64 {
    one::mask((width - 1) % 64 + 1)
}

/// Clears the bits of the last limb above `width`, which makes `a` canonical.
#[inline]
pub fn truncate_in_place(a: &mut [u64], width: u32) {
    if width > 0 {
        a[limbs_for(width) - 1] &= top_mask(width);
    }
}

/// Returns true if all limbs of the slice are 0.
#[inline]
pub fn is_zero(a: &[u64]) -> bool {
    a.iter().all(|&limb| limb == 0)
}

/// Returns bit `index` of `a`. Bits beyond the slice are 0.
#[inline]
pub fn bit(a: &[u64], index: u32) -> bool {
    a.get(index as usize / 64)
        .is_some_and(|limb| limb >> (index % 64) & 1 == 1)
}

/// Returns the sign bit of `a` as an `int<width>`.
#[inline]
pub fn is_negative(a: &[u64], width: u32) -> bool {
    width > 0 && bit(a, width - 1)
}

/// Computes `dst = a + b + carry` and returns the carry out of the last limb.
fn add_carry(dst: &mut [u64], a: &[u64], b: impl Fn(usize) -> u64, mut carry: bool) -> bool {
    for i in 0..dst.len() {
        let (sum, over) = a[i].overflowing_add(b(i));
        let (sum, over_carry) = sum.overflowing_add(u64::from(carry));
        dst[i] = sum;
        carry = over | over_carry;
    }
    carry
}

/// `dst = a + b`, wrapping.
pub fn add(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    add_carry(&mut dst[..limbs_for(width)], a, |i| b[i], false);
    truncate_in_place(dst, width);
}

/// `dst = a - b`, wrapping.
pub fn sub(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    add_carry(&mut dst[..limbs_for(width)], a, |i| !b[i], true);
    truncate_in_place(dst, width);
}

/// `dst = a * b`, wrapping.
pub fn mul(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    let limbs = limbs_for(width);
    dst[..limbs].fill(0);
    for (i, &a) in a[..limbs].iter().enumerate() {
        let mut carry = 0;
        for (dst, &b) in dst[i..limbs].iter_mut().zip(b) {
            let exact = u128::from(a) * u128::from(b) + u128::from(*dst) + u128::from(carry);
            *dst = exact as u64;
            carry = (exact >> 64) as u64;
        }
    }
    truncate_in_place(dst, width);
}

/// `dst = -a`, wrapping.
pub fn neg(dst: &mut [u64], a: &[u64], width: u32) {
    let mut carry = true;
    for (dst, &a) in dst[..limbs_for(width)].iter_mut().zip(a) {
        (*dst, carry) = (!a).overflowing_add(u64::from(carry));
    }
    truncate_in_place(dst, width);
}

/// Computes `a = a * factor + addend` over the whole slice and returns the overflow.
pub fn mul_add_small(a: &mut [u64], factor: u64, addend: u64) -> u64 {
    let mut carry = addend;
    for limb in a {
        let exact = u128::from(*limb) * u128::from(factor) + u128::from(carry);
        *limb = exact as u64;
        carry = (exact >> 64) as u64;
    }
    carry
}

/// `dst = a & b`.
pub fn and(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    for i in 0..limbs_for(width) {
        dst[i] = a[i] & b[i];
    }
}

/// `dst = a | b`.
pub fn or(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    for i in 0..limbs_for(width) {
        dst[i] = a[i] | b[i];
    }
}

/// `dst = a ^ b`.
pub fn xor(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    for i in 0..limbs_for(width) {
        dst[i] = a[i] ^ b[i];
    }
}

/// `dst = ~a`.
pub fn not(dst: &mut [u64], a: &[u64], width: u32) {
    for i in 0..limbs_for(width) {
        dst[i] = !a[i];
    }
    truncate_in_place(dst, width);
}

/// `dst = a << amount`; 0 when `amount` is the width or more.
pub fn shl(dst: &mut [u64], a: &[u64], amount: u64, width: u32) {
    let limbs = limbs_for(width);
    if amount >= u64::from(width) {
        dst[..limbs].fill(0);
        return;
    }
    let (whole, part) = ((amount / 64) as usize, (amount % 64) as u32);
    for i in (0..limbs).rev() {
        let high = if i >= whole { a[i - whole] } else { 0 };
        let low = if i > whole { a[i - whole - 1] } else { 0 };
        dst[i] = if part == 0 {
            high
        } else {
            high << part | low >> (64 - part)
        };
    }
    truncate_in_place(dst, width);
}

/// `dst = a >> amount`, filled with zeros; 0 when `amount` is the width or more.
pub fn shr(dst: &mut [u64], a: &[u64], amount: u64, width: u32) {
    if amount >= u64::from(width) {
        dst[..limbs_for(width)].fill(0);
    } else {
        extract(dst, &a[..limbs_for(width)], amount as u32, width);
    }
}

/// `dst = a >> amount`, filled with the sign; all sign when `amount` is the width or more.
pub fn ashr(dst: &mut [u64], a: &[u64], amount: u64, width: u32) {
    shr(dst, a, amount, width);
    if is_negative(a, width) {
        let kept = u64::from(width).saturating_sub(amount) as u32;
        set_ones(dst, kept, width);
    }
}

/// Sets the bits `from .. to` of `a`.
fn set_ones(a: &mut [u64], from: u32, to: u32) {
    for (i, limb) in a[..limbs_for(to)].iter_mut().enumerate() {
        let start = from.saturating_sub(i as u32 * 64).min(64);
        let end = (to - i as u32 * 64).min(64);
        *limb |= one::mask(end) & !one::mask(start);
    }
}

/// Compares two unsigned numbers with the same number of limbs.
#[inline]
pub fn cmp(a: &[u64], b: &[u64]) -> Ordering {
    debug_assert_eq!(a.len(), b.len());
    a.iter().rev().cmp(b.iter().rev())
}

/// Compares two numbers of type `int<width>`.
#[inline]
pub fn cmp_signed(a: &[u64], b: &[u64], width: u32) -> Ordering {
    let limbs = limbs_for(width);
    is_negative(b, width)
        .cmp(&is_negative(a, width))
        .then_with(|| cmp(&a[..limbs], &b[..limbs]))
}

/// `dst = a |+| b` on `bit<width>`: at most all ones.
pub fn sat_add(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    let limbs = limbs_for(width);
    add(dst, a, b, width);
    if cmp(&dst[..limbs], &a[..limbs]) == Ordering::Less {
        set_ones(dst, 0, width);
    }
}

/// `dst = a |-| b` on `bit<width>`: at least 0.
pub fn sat_sub(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    let limbs = limbs_for(width);
    if cmp(&a[..limbs], &b[..limbs]) == Ordering::Less {
        dst[..limbs].fill(0);
    } else {
        sub(dst, a, b, width);
    }
}

/// `dst = a |+| b` on `int<width>`.
pub fn sat_add_signed(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    add(dst, a, b, width);
    let sign = is_negative(a, width);
    if sign == is_negative(b, width) && sign != is_negative(dst, width) {
        extreme_signed(dst, sign, width);
    }
}

/// `dst = a |-| b` on `int<width>`.
pub fn sat_sub_signed(dst: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    sub(dst, a, b, width);
    let sign = is_negative(a, width);
    if sign != is_negative(b, width) && sign != is_negative(dst, width) {
        extreme_signed(dst, sign, width);
    }
}

/// Stores the least (`negative`) or the greatest `int<width>` in `dst`.
fn extreme_signed(dst: &mut [u64], negative: bool, width: u32) {
    dst[..limbs_for(width)].fill(0);
    if negative {
        set_ones(dst, width - 1, width);
    } else {
        set_ones(dst, 0, width - 1);
    }
}

/// Returns the 64 bits of `a` from bit `lo` on. Bits beyond the slice are 0.
#[inline]
fn limb_at(a: &[u64], lo: usize) -> u64 {
    let (whole, part) = (lo / 64, lo % 64);
    let low = a.get(whole).copied().unwrap_or(0);
    if part == 0 {
        return low;
    }
    let high = a.get(whole + 1).copied().unwrap_or(0);
    low >> part | high << (64 - part)
}

/// `dst = src[lo + width - 1 : lo]`; bits beyond the end of the slice `src` are 0.
pub fn extract(dst: &mut [u64], src: &[u64], lo: u32, width: u32) {
    for (i, dst) in dst[..limbs_for(width)].iter_mut().enumerate() {
        *dst = limb_at(src, lo as usize + i * 64);
    }
    truncate_in_place(dst, width);
}

/// `dst[lo + width - 1 : lo] = src`; the other bits of `dst` stay.
pub fn deposit(dst: &mut [u64], lo: u32, src: &[u64], width: u32) {
    for (i, &piece) in src[..limbs_for(width)].iter().enumerate() {
        let piece_width = (width - i as u32 * 64).min(64);
        deposit_limb(dst, lo as usize + i * 64, piece, piece_width);
    }
}

/// Stores the `width` bits of `piece` (1..=64) at bit `lo` of `dst`.
#[inline]
fn deposit_limb(dst: &mut [u64], lo: usize, piece: u64, width: u32) {
    let (whole, part) = (lo / 64, (lo % 64) as u32);
    let low_width = width.min(64 - part);
    dst[whole] = one::deposit(dst[whole], piece & one::mask(low_width), part, low_width);
    let high_width = width - low_width;
    if high_width > 0 {
        dst[whole + 1] = one::deposit(dst[whole + 1], piece >> low_width, 0, high_width);
    }
}

/// `dst = hi ++ lo`, of width `hi_width + lo_width`.
pub fn concat(dst: &mut [u64], hi: &[u64], hi_width: u32, lo: &[u64], lo_width: u32) {
    zero_extend(dst, hi_width + lo_width, lo, lo_width);
    deposit(dst, lo_width, hi, hi_width);
}

/// `dst = (bit<to>) src`, where `src` is a `bit<from>` and `to` is `from` or more.
pub fn zero_extend(dst: &mut [u64], to: u32, src: &[u64], from: u32) {
    let (from, to) = (limbs_for(from), limbs_for(to));
    dst[..from].copy_from_slice(&src[..from]);
    dst[from..to].fill(0);
}

/// `dst = (int<to>) src`, where `src` is an `int<from>` and `to` is `from` or more.
pub fn sign_extend(dst: &mut [u64], to: u32, src: &[u64], from: u32) {
    zero_extend(dst, to, src, from);
    if is_negative(src, from) {
        set_ones(dst, from, to);
    }
}

/// `dst` = the low `to` bits of `src`, a number of at least that width.
pub fn truncate(dst: &mut [u64], to: u32, src: &[u64]) {
    let limbs = limbs_for(to);
    dst[..limbs].copy_from_slice(&src[..limbs]);
    truncate_in_place(dst, to);
}
