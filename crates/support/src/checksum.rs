//! The Internet checksum: the ones' complement of the ones' complement sum of 16-bit words in
//! network byte order (RFC 1071).

/// Folds the carries of a sum of 16-bit words back into 16 bits. The result is 0 only if the sum
/// is 0.
#[inline(always)]
pub const fn fold(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// Returns the ones' complement sum of `start` and the words of `bytes`, folded to 16 bits. The
/// last of an odd number of bytes is the high byte of its word.
#[inline]
pub fn sum_from(start: u32, bytes: &[u8]) -> u16 {
    // The sum is independent of byte order (RFC 1071, section 2B): little-endian words are added,
    // and the result is swapped.
    let mut sum = 0u64;
    let (chunks, mut rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let chunk = u64::from_le_bytes(*chunk);
        sum += (chunk & 0xffff_ffff) + (chunk >> 32);
    }
    if let Some((chunk, after)) = rest.split_first_chunk() {
        sum += u64::from(u32::from_le_bytes(*chunk));
        rest = after;
    }
    if let Some((word, after)) = rest.split_first_chunk() {
        sum += u64::from(u16::from_le_bytes(*word));
        rest = after;
    }
    if let [last] = rest {
        sum += u64::from(*last);
    }
    let sum = fold(sum).swap_bytes();
    fold(u64::from(sum) + u64::from(start))
}

/// Returns the ones' complement sum of the words of `bytes`, folded to 16 bits. It is 0xffff if
/// `bytes` contain a correct checksum.
#[inline]
pub fn ones_complement_sum(bytes: &[u8]) -> u16 {
    sum_from(0, bytes)
}

/// Returns the Internet checksum of `bytes`. It is 0 if `bytes` contain a correct checksum.
#[inline]
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    !ones_complement_sum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn the_example_of_rfc_1071_has_its_sum() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(ones_complement_sum(&data), 0xddf2);
        assert_eq!(internet_checksum(&data), !0xddf2);
        assert_eq!(internet_checksum(&[0xff]), 0x00ff);
        assert_eq!(internet_checksum(&[]), 0xffff);
    }

    #[test]
    fn a_header_with_its_checksum_sums_to_all_ones() {
        let mut header = [
            0x45, 0, 0, 115, 0, 0, 64, 0, 64, 17, 0, 0, 192, 168, 0, 1, 192, 168, 0, 199,
        ];
        let checksum = internet_checksum(&header);
        assert_eq!(checksum, 0xb861);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(ones_complement_sum(&header), 0xffff);
        assert_eq!(internet_checksum(&header), 0);
    }

    /// Adds word by word and folds after each.
    fn naive_sum(start: u32, bytes: &[u8]) -> u16 {
        let mut sum = (start & 0xffff) + (start >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        for word in bytes.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    proptest! {
        #[test]
        fn sums_of_any_bytes_are_those_word_by_word(
            start in any::<u32>(), bytes in proptest::collection::vec(any::<u8>(), 0..70)
        ) {
            prop_assert_eq!(sum_from(start, &bytes), naive_sum(start, &bytes));
            let ones = vec![0xff; bytes.len()];
            prop_assert_eq!(sum_from(start, &ones), naive_sum(start, &ones));
        }

        #[test]
        fn folding_keeps_the_remainder_and_zero(sum in any::<u64>()) {
            let folded = fold(sum);
            prop_assert_eq!(u64::from(folded) % 0xffff, sum % 0xffff);
            prop_assert_eq!(folded == 0, sum == 0);
        }
    }

    #[test]
    fn the_largest_sums_fold_to_16_bits() {
        for (sum, folded) in [(0, 0), (0xffff, 0xffff), (0x1_0000, 1), (u64::MAX, 0xffff)] {
            assert_eq!(fold(sum), folded, "{sum:#x}");
        }
    }
}
