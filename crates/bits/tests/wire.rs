//! Tests of `wire`: it reads and writes exactly the bits of the field, and nothing outside the
//! bytes.

use bits::{OutOfBounds, limbs, limbs_for, wire};
use proptest::prelude::*;

/// Returns all bits in network order.
fn to_bits(bytes: &[u8]) -> Vec<bool> {
    bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |i| byte >> i & 1 == 1))
        .collect()
}

proptest! {
    #[test]
    fn fields_equal_the_bit_model(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        offset in 0usize..200,
        width in prop_oneof![0u32..=64, 1u32..300],
        number in proptest::collection::vec(any::<u64>(), 5),
    ) {
        let bits = to_bits(&bytes);
        let end = offset + width as usize;
        let mut dst = vec![u64::MAX; limbs_for(width) + 1];
        let read = wire::read(&bytes, offset, width, &mut dst);
        let mut number = number;
        limbs::truncate_in_place(&mut number, width);
        let mut written = bytes.clone();
        let write = wire::write(&mut written, offset, width, &number);
        if end.div_ceil(8) > bytes.len() {
            prop_assert_eq!(read, Err(OutOfBounds));
            prop_assert_eq!(write, Err(OutOfBounds));
            prop_assert_eq!(written, bytes);
            return Ok(());
        }
        prop_assert_eq!(dst.pop(), Some(u64::MAX));
        let got: Vec<bool> = (0..width).rev().map(|i| limbs::bit(&dst, i)).collect();
        prop_assert_eq!(&got[..], &bits[offset..end]);
        let mut want = bits;
        for i in 0..width {
            want[end - 1 - i as usize] = limbs::bit(&number, i);
        }
        prop_assert_eq!(to_bits(&written), want);
        if width <= 64 {
            prop_assert_eq!(wire::read_u64(&bytes, offset, width).ok(), Some(dst.first().copied().unwrap_or(0)));
            let mut narrow = bytes.clone();
            let value = if width == 0 { 0 } else { number[0] };
            wire::write_u64(&mut narrow, offset, width, value).unwrap();
            prop_assert_eq!(narrow, written);
        }
    }
}

#[test]
fn an_offset_that_overflows_is_out_of_bounds() {
    assert_eq!(wire::read_u64(&[0; 4], usize::MAX, 8), Err(OutOfBounds));
}

#[test]
fn fields_are_most_significant_bit_first() {
    // Version, header length and type of service of an IPv4 header.
    let header = [0x45, 0xc0, 0x05, 0xdc];
    assert_eq!(wire::read_u64(&header, 0, 4), Ok(4));
    assert_eq!(wire::read_u64(&header, 4, 4), Ok(5));
    assert_eq!(wire::read_u64(&header, 8, 6), Ok(0x30));
    assert_eq!(wire::read_u64(&header, 16, 16), Ok(1500));
}
