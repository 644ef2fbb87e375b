//! Tests of `limbs` and `one` against `u128` arithmetic and lists of bits.

use bits::{limbs, limbs_for, one};
use proptest::prelude::*;

/// Bits, least significant first.
type Bits = Vec<bool>;

fn to_bits(limbs: &[u64], width: u32) -> Bits {
    (0..width).map(|i| limbs::bit(limbs, i)).collect()
}

fn from_bits(bits: &[bool]) -> Vec<u64> {
    let mut limbs = vec![0; limbs_for(bits.len() as u32)];
    for (i, _) in bits.iter().enumerate().filter(|(_, b)| **b) {
        limbs[i / 64] |= 1 << (i % 64);
    }
    limbs
}

/// Runs `op` on a destination full of ones, followed by a guard limb.
fn run(width: u32, op: impl FnOnce(&mut [u64])) -> Vec<u64> {
    let limbs = limbs_for(width);
    let mut dst = vec![u64::MAX; limbs + 1];
    op(&mut dst);
    assert_eq!(dst.pop(), Some(u64::MAX), "wrote beyond the number");
    dst
}

fn model_add(a: &[bool], b: &[bool], mut carry: bool) -> (Bits, bool) {
    let sum = a
        .iter()
        .zip(b)
        .map(|(&a, &b)| {
            let ones = u8::from(a) + u8::from(b) + u8::from(carry);
            carry = ones > 1;
            ones % 2 == 1
        })
        .collect();
    (sum, carry)
}

fn model_not(a: &[bool]) -> Bits {
    a.iter().map(|b| !b).collect()
}

fn model_mul(a: &[bool], b: &[bool]) -> Bits {
    let mut sum = vec![false; a.len()];
    for i in (0..b.len()).filter(|&i| b[i]) {
        let mut shifted = vec![false; i];
        shifted.extend(&a[..a.len() - i]);
        sum = model_add(&sum, &shifted, false).0;
    }
    sum
}

fn model_sat_add_signed(a: &[bool], b: &[bool]) -> Bits {
    let extend = |x: &[bool]| [x, &x[x.len() - 1..]].concat();
    let (sum, _) = model_add(&extend(a), &extend(b), false);
    clamp(sum)
}

fn model_sat_sub_signed(a: &[bool], b: &[bool]) -> Bits {
    let extend = |x: &[bool]| [x, &x[x.len() - 1..]].concat();
    let (difference, _) = model_add(&extend(a), &model_not(&extend(b)), true);
    clamp(difference)
}

/// Saturates a number with one extra bit: both upper bits must equal the sign.
fn clamp(mut exact: Bits) -> Bits {
    let sign = exact.pop().unwrap();
    let width = exact.len();
    if exact[width - 1] == sign {
        return exact;
    }
    let mut extreme = vec![!sign; width];
    extreme[width - 1] = sign;
    extreme
}

/// Generates bits that are random or nearly all the same, with a width that is often next to a
/// multiple of 64.
fn number(width: u32) -> impl Strategy<Value = Bits> {
    let width = width as usize;
    prop_oneof![
        proptest::collection::vec(any::<bool>(), width),
        (any::<bool>(), 0..width).prop_map(move |(fill, odd)| {
            let mut bits = vec![fill; width];
            bits[odd] = !fill;
            bits
        }),
        any::<bool>().prop_map(move |fill| vec![fill; width]),
    ]
}

fn width() -> impl Strategy<Value = u32> {
    prop_oneof![
        1u32..=130,
        Just(63),
        Just(64),
        Just(65),
        Just(128),
        131u32..700
    ]
}

fn pair() -> impl Strategy<Value = (u32, Bits, Bits)> {
    width().prop_flat_map(|w| (Just(w), number(w), number(w)))
}

proptest! {
    #[test]
    fn arithmetic_equals_the_bit_model((w, a, b) in pair()) {
        let (la, lb) = (from_bits(&a), from_bits(&b));
        let check = |name: &str, got: Vec<u64>, want: Bits| {
            assert_eq!(to_bits(&got, w), want, "{name}");
            assert_eq!(from_bits(&to_bits(&got, w)), got, "{name} is not canonical");
        };
        let (sum, over) = model_add(&a, &b, false);
        let (difference, not_below) = model_add(&a, &model_not(&b), true);
        check("add", run(w, |d| limbs::add(d, &la, &lb, w)), sum.clone());
        check("sub", run(w, |d| limbs::sub(d, &la, &lb, w)), difference.clone());
        check("mul", run(w, |d| limbs::mul(d, &la, &lb, w)), model_mul(&a, &b));
        let zero = vec![false; w as usize];
        check("neg", run(w, |d| limbs::neg(d, &la, w)), model_add(&zero, &model_not(&a), true).0);
        check("not", run(w, |d| limbs::not(d, &la, w)), model_not(&a));
        let zip = |f: fn(bool, bool) -> bool| a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect();
        check("and", run(w, |d| limbs::and(d, &la, &lb, w)), zip(|a, b| a & b));
        check("or", run(w, |d| limbs::or(d, &la, &lb, w)), zip(|a, b| a | b));
        check("xor", run(w, |d| limbs::xor(d, &la, &lb, w)), zip(|a, b| a ^ b));
        check("sat_add", run(w, |d| limbs::sat_add(d, &la, &lb, w)),
            if over { vec![true; w as usize] } else { sum });
        check("sat_sub", run(w, |d| limbs::sat_sub(d, &la, &lb, w)),
            if not_below { difference } else { zero });
        check("sat_add_signed", run(w, |d| limbs::sat_add_signed(d, &la, &lb, w)),
            model_sat_add_signed(&a, &b));
        check("sat_sub_signed", run(w, |d| limbs::sat_sub_signed(d, &la, &lb, w)),
            model_sat_sub_signed(&a, &b));
    }

    #[test]
    fn comparisons_equal_the_bit_model((w, a, b) in pair()) {
        let (la, lb) = (from_bits(&a), from_bits(&b));
        let unsigned = a.iter().rev().cmp(b.iter().rev());
        prop_assert_eq!(limbs::cmp(&la, &lb), unsigned);
        let sign = |x: &Bits| x[w as usize - 1];
        let signed = sign(&b).cmp(&sign(&a)).then(unsigned);
        prop_assert_eq!(limbs::cmp_signed(&la, &lb, w), signed);
        prop_assert_eq!(limbs::is_zero(&la), a.iter().all(|b| !b));
    }

    #[test]
    fn shifts_equal_the_bit_model((w, a, _) in pair(), amount in prop_oneof![0u64..800, any::<u64>()]) {
        let la = from_bits(&a);
        let at = |i: u64, fill: bool| i.try_into().ok().and_then(|i: usize| a.get(i).copied()).unwrap_or(fill);
        let model = |fill: bool, left: bool| -> Bits {
            (0..u64::from(w))
                .map(|i| if left { i.checked_sub(amount).is_some_and(|i| at(i, false)) }
                    else { at(i.saturating_add(amount), fill) })
                .collect()
        };
        prop_assert_eq!(to_bits(&run(w, |d| limbs::shl(d, &la, amount, w)), w), model(false, true));
        prop_assert_eq!(to_bits(&run(w, |d| limbs::shr(d, &la, amount, w)), w), model(false, false));
        prop_assert_eq!(to_bits(&run(w, |d| limbs::ashr(d, &la, amount, w)), w),
            model(a[w as usize - 1], false));
    }

    #[test]
    fn slices_and_casts_equal_the_bit_model((w, a, b) in pair(), x in any::<u32>(), y in any::<u32>()) {
        let (la, lb) = (from_bits(&a), from_bits(&b));
        let lo = x % w;
        let piece = y % (w - lo) + 1;
        let (from, to) = (lo as usize, (lo + piece) as usize);
        let extracted = run(piece, |d| limbs::extract(d, &la, lo, piece));
        prop_assert_eq!(&to_bits(&extracted, piece)[..], &a[from..to]);

        let mut deposited = lb.clone();
        limbs::deposit(&mut deposited, lo, &extracted, piece);
        let mut want = b.clone();
        want[from..to].copy_from_slice(&a[from..to]);
        prop_assert_eq!(to_bits(&deposited, w), want);

        let both = w + piece;
        let joined = run(both, |d| limbs::concat(d, &la, w, &extracted, piece));
        prop_assert_eq!(to_bits(&joined, both), [&a[from..to], &a[..]].concat());

        let wide = w + x % 200;
        let mut want = a.clone();
        want.resize(wide as usize, false);
        prop_assert_eq!(to_bits(&run(wide, |d| limbs::zero_extend(d, wide, &la, w)), wide), want);
        let mut want = a.clone();
        want.resize(wide as usize, a[w as usize - 1]);
        prop_assert_eq!(to_bits(&run(wide, |d| limbs::sign_extend(d, wide, &la, w)), wide), want);
        prop_assert_eq!(&to_bits(&run(piece, |d| limbs::truncate(d, piece, &la)), piece)[..],
            &a[..piece as usize]);
    }

    #[test]
    fn one_limb_equals_many_limbs(w in 1u32..=64, a in any::<u64>(), b in any::<u64>(), n in prop_oneof![0u64..70, any::<u64>()]) {
        let (a, b) = (a & one::mask(w), b & one::mask(w));
        let check = |name: &str, got: u64, op: &dyn Fn(&mut [u64])| {
            let mut dst = [u64::MAX];
            op(&mut dst);
            assert_eq!(got, dst[0], "{name}");
        };
        check("add", one::add(a, b, w), &|d| limbs::add(d, &[a], &[b], w));
        check("sub", one::sub(a, b, w), &|d| limbs::sub(d, &[a], &[b], w));
        check("mul", one::mul(a, b, w), &|d| limbs::mul(d, &[a], &[b], w));
        check("neg", one::neg(a, w), &|d| limbs::neg(d, &[a], w));
        check("not", one::not(a, w), &|d| limbs::not(d, &[a], w));
        check("shl", one::shl(a, n, w), &|d| limbs::shl(d, &[a], n, w));
        check("shr", one::shr(a, n, w), &|d| limbs::shr(d, &[a], n, w));
        check("ashr", one::ashr(a, n, w), &|d| limbs::ashr(d, &[a], n, w));
        check("sat_add", one::sat_add(a, b, w), &|d| limbs::sat_add(d, &[a], &[b], w));
        check("sat_sub", one::sat_sub(a, b), &|d| limbs::sat_sub(d, &[a], &[b], w));
        check("sat_add_signed", one::sat_add_signed(a, b, w), &|d| limbs::sat_add_signed(d, &[a], &[b], w));
        check("sat_sub_signed", one::sat_sub_signed(a, b, w), &|d| limbs::sat_sub_signed(d, &[a], &[b], w));
        assert_eq!(one::cmp_signed(a, b, w), limbs::cmp_signed(&[a], &[b], w));
        let lo = (n % u64::from(w)) as u32;
        let piece = w - lo;
        check("extract", one::extract(a, lo, piece), &|d| limbs::extract(d, &[a], lo, piece));
        check("deposit", one::deposit(a, b >> lo, lo, piece), &|d| {
            d[0] = a;
            limbs::deposit(d, lo, &[b >> lo], piece);
        });
        check("concat", one::concat(a >> lo, b & one::mask(lo), lo), &|d| {
            limbs::concat(d, &[a >> lo], piece, &[b & one::mask(lo)], lo);
        });
        check("sign_extend", one::sign_extend(a, w, 64), &|d| limbs::sign_extend(d, 64, &[a], w));
    }

    #[test]
    fn two_limbs_equal_u128(w in 65u32..=128, a in any::<u128>(), b in any::<u128>()) {
        let mask = u128::MAX >> (128 - w);
        let (a, b) = (a & mask, b & mask);
        let split = |x: u128| [x as u64, (x >> 64) as u64];
        let join = |x: Vec<u64>| u128::from(x[1]) << 64 | u128::from(x[0]);
        prop_assert_eq!(join(run(w, |d| limbs::mul(d, &split(a), &split(b), w))), a.wrapping_mul(b) & mask);
        prop_assert_eq!(join(run(w, |d| limbs::sub(d, &split(a), &split(b), w))), a.wrapping_sub(b) & mask);
    }
}

#[test]
fn a_number_of_width_zero_takes_no_limbs() {
    let none: &mut [u64] = &mut [];
    limbs::add(none, &[], &[], 0);
    limbs::shl(none, &[], 3, 0);
    limbs::ashr(none, &[], 3, 0);
    limbs::not(none, &[], 0);
    assert!(!limbs::is_negative(none, 0));
    assert_eq!(
        (one::add(0, 0, 0), one::to_signed(0, 0), one::ashr(0, 5, 0)),
        (0, 0, 0)
    );
}
