//! Division of numbers of any width, which `bits` leaves out: P4 allows it at run time for unsigned operands only.

use bits::{limbs, limbs_for};

/// `quotient = a / b`, `remainder = a % b`; both zero when `b` is zero. All have `limbs_for(width)` limbs.
pub fn div_rem(quotient: &mut [u64], remainder: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    let n = limbs_for(width);
    quotient[..n].fill(0);
    remainder[..n].fill(0);
    if limbs::is_zero(&b[..n]) {
        return;
    }
    for i in (0..width).rev() {
        let carried = shift_in(&mut remainder[..n], limbs::bit(a, i));
        if carried || limbs::cmp(&remainder[..n], &b[..n]).is_ge() {
            subtract(&mut remainder[..n], &b[..n]);
            quotient[i as usize / 64] |= 1 << (i % 64);
        }
    }
}

/// `a = a << 1 | bit`; gives the bit that left.
fn shift_in(a: &mut [u64], bit: bool) -> bool {
    let mut carry = bit;
    for limb in a {
        let top = *limb >> 63 == 1;
        *limb = *limb << 1 | u64::from(carry);
        carry = top;
    }
    carry
}

/// `a -= b`, wrapping.
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
        div_rem(&mut q, &mut r, &split(a), &split(b), 128);
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
