//! Tests of `Value`: round trips of conversions, and the order of values.

use bits::{Value, ValueError, limbs};
use proptest::prelude::*;

fn value() -> impl Strategy<Value = Value> {
    (
        prop_oneof![0u32..140, 1u32..600],
        proptest::collection::vec(any::<u64>(), 10),
    )
        .prop_map(|(width, limbs)| Value::from_limbs(&limbs, width))
}

proptest! {
    #[test]
    fn bytes_and_text_go_there_and_back(v in value()) {
        let w = v.width();
        prop_assert_eq!(Value::from_be_bytes(&v.to_be_bytes(), w), Ok(v.clone()));
        prop_assert_eq!(Value::from_be_bytes(&v.to_p4rt_bytes(), w), Ok(v.clone()));
        prop_assert_eq!(Value::parse(&v.to_string(), w), Ok(v.clone()));
        prop_assert_eq!(v.neg().neg(), v.clone());
        prop_assert_eq!(v.not().not(), v.clone());
        prop_assert!(v.and(&v.not()).is_zero());
        prop_assert_eq!(v.resized(w + 70).resized(w), v.clone());
        let short = v.to_p4rt_bytes();
        prop_assert!(short.len() == 1 || short[0] != 0);
    }

    #[test]
    fn small_numbers_equal_u128(a in any::<u128>(), b in any::<u128>(), shift in 0u32..128, w in 1u32..200) {
        let (a, b) = (a >> shift, b >> shift);
        let fits = |x: u128| w >= 128 || x >> w == 0;
        let v = Value::from_u128(a, w);
        prop_assert_eq!(v.is_ok(), fits(a));
        prop_assert_eq!(Value::parse(&a.to_string(), w), v.clone());
        prop_assert_eq!(Value::parse(&format!("0b{a:b}"), w), v.clone());
        prop_assert_eq!(Value::parse(&format!("0o{a:o}"), w), v.clone());
        prop_assert_eq!(Value::from_be_bytes(&a.to_be_bytes(), w), v.clone());
        let Ok(v) = v else { return Ok(()) };
        prop_assert_eq!(v.to_u128(), Some(a));
        prop_assert_eq!(v.to_string(), format!("{a:#x}"));
        if let Ok(other) = Value::from_u128(b, w) {
            prop_assert_eq!(v.cmp(&other), a.cmp(&b));
            prop_assert_eq!(v.resized(w + 100).cmp(&other.resized(w + 100)), a.cmp(&b));
            prop_assert_eq!(v.resized(w + 100) < other, a < b);
        }
    }

    #[test]
    fn prefix_masks_have_their_ones_on_top(w in 0u32..300, len in 0u32..320) {
        let mask = Value::prefix_mask(len, w);
        for i in 0..w {
            prop_assert_eq!(limbs::bit(mask.limbs(), i), i + len >= w);
        }
        prop_assert_eq!(mask.prefix_len(), Some(len.min(w)));
    }
}

#[test]
fn text_that_is_no_number_is_refused_by_name() {
    assert_eq!(Value::parse("", 8), Err(ValueError::NoDigits));
    assert_eq!(Value::parse("0x", 8), Err(ValueError::NoDigits));
    assert_eq!(
        Value::parse("12a", 8),
        Err(ValueError::BadDigit {
            digit: 'a',
            base: 10
        })
    );
    assert_eq!(
        Value::parse("0b2", 8),
        Err(ValueError::BadDigit {
            digit: '2',
            base: 2
        })
    );
    assert_eq!(
        Value::parse("256", 8),
        Err(ValueError::TooWide { width: 8 })
    );
    assert_eq!(
        Value::parse("-1", 8),
        Err(ValueError::BadDigit {
            digit: '-',
            base: 10
        })
    );
    assert_eq!(Value::parse("0xff_ff", 16).unwrap().to_u64(), Some(0xffff));
}

#[test]
fn a_value_of_no_bits_is_zero() {
    let empty = Value::zero(0);
    assert_eq!(empty.to_p4rt_bytes(), [0]);
    assert_eq!(Value::parse("0", 0), Ok(empty.clone()));
    assert_eq!(Value::parse("1", 0), Err(ValueError::TooWide { width: 0 }));
    assert_eq!(format!("{empty:?}"), "0w0x0");
}

#[test]
fn a_mask_with_a_hole_is_no_prefix() {
    assert_eq!(Value::truncated(0b1101, 4).prefix_len(), None);
    assert_eq!(Value::truncated(0b0111, 4).prefix_len(), None);
    assert_eq!(Value::truncated(0b1110, 4).prefix_len(), Some(3));
}
