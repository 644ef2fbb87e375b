//! Division of numbers of any width, which `bits` does not provide. P4 allows division at run time
//! for unsigned operands only.

use bits::{limbs, limbs_for};

/// Computes `quotient = a / b`, or zero if `b` is zero. `a` becomes the remainder. All operands
/// have `limbs_for(width)` limbs.
pub fn div(quotient: &mut [u64], a: &mut [u64], b: &[u64], width: u32) {
    let n = limbs_for(width);
    quotient[..n].fill(0);
    if limbs::is_zero(&b[..n]) {
        return;
    }
    // Shift-subtract division. `a` is shifted out at the top while the quotient's bits enter at the
    // bottom. The remainder is in `quotient` until the end.
    let remainder = &mut quotient[..n];
    let top = width - 1;
    for _ in 0..width {
        let bit = limbs::bit(a, top);
        shift_in(&mut a[..n], false);
        limbs::truncate_in_place(&mut a[..n], width);
        let carried = shift_in(remainder, bit);
        if carried || limbs::cmp(remainder, &b[..n]).is_ge() {
            subtract(remainder, &b[..n]);
            a[0] |= 1;
        }
    }
    a[..n].swap_with_slice(remainder);
}

/// Computes `remainder = a % b`, or zero if `b` is zero. `a` becomes the quotient.
pub fn rem(remainder: &mut [u64], a: &mut [u64], b: &[u64], width: u32) {
    let n = limbs_for(width);
    if limbs::is_zero(&b[..n]) {
        remainder[..n].fill(0);
        return;
    }
    div(remainder, a, b, width);
    a[..n].swap_with_slice(&mut remainder[..n]);
}

/// Computes `a = a << 1 | bit` and returns the bit shifted out.
fn shift_in(a: &mut [u64], bit: bool) -> bool {
    let mut carry = bit;
    for limb in a {
        let top = *limb >> 63 == 1;
        *limb = *limb << 1 | u64::from(carry);
        carry = top;
    }
    carry
}

/// Computes `a -= b`, wrapping.
fn subtract(a: &mut [u64], b: &[u64]) {
    let mut borrow = false;
    for (a, &b) in a.iter_mut().zip(b) {
        let (difference, under) = a.overflowing_sub(b);
        let (difference, under_borrow) = difference.overflowing_sub(u64::from(borrow));
        *a = difference;
        borrow = under || under_borrow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(a: u128, b: u128) {
        let split = |n: u128| [n as u64, (n >> 64) as u64];
        let (mut q, mut r) = ([0; 2], [0; 2]);
        div(&mut q, &mut split(a), &split(b), 128);
        rem(&mut r, &mut split(a), &split(b), 128);
        assert_eq!(q, split(a.checked_div(b).unwrap_or(0)));
        assert_eq!(r, split(a.checked_rem(b).unwrap_or(0)));
    }

    #[test]
    fn division_agrees_with_the_machine() {
        let numbers = [
            0,
            1,
            7,
            u64::MAX as u128,
            1 << 64,
            u128::MAX,
            u128::MAX / 3,
            1 << 127,
        ];
        for a in numbers {
            for b in numbers {
                check(a, b);
            }
        }
    }
}
