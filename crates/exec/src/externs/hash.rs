//! Hash algorithms over packed field lists, bit-compatible with BMv2.

use bits::limbs;
use ir::HashAlgorithm;
use support::checksum::internet_checksum;
pub use support::crc::crc32;
use support::crc::{Crc32, CrcTables};

use crate::RandomStream;

/// Parameters of a CRC (the Rocksoft model).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParameters {
    /// Polynomial, without its top bit.
    pub polynomial: u32,
    /// Initial value of the remainder.
    pub initial: u32,
    /// Value XORed with the result.
    pub final_xor: u32,
    /// True if each byte is processed least significant bit first.
    pub reflect_in: bool,
    /// True if the bits of the result are reversed.
    pub reflect_out: bool,
}

/// Hash parameters that the control plane may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashParameters {
    /// Parameters of `crc16_custom`; CRC-16/ARC by default.
    pub crc16: CrcParameters,
    /// Parameters of `crc32_custom`; CRC-32/ISO-HDLC by default.
    pub crc32: CrcParameters,
    /// Key of the Toeplitz hash, a multiple of 4 bytes. By default the key of the RSS
    /// documentation.
    pub toeplitz_key: Vec<u8>,
    /// Seed of the device, mixed into CRCs and Toeplitz hashes of fields and of selectors' keys. 0
    /// leaves them as they are. Devices with different seeds choose independently.
    pub seed: u32,
}

const CRC16: CrcParameters = CrcParameters {
    polynomial: 0x8005,
    initial: 0,
    final_xor: 0,
    reflect_in: true,
    reflect_out: true,
};

const CRC32: CrcParameters = CrcParameters {
    polynomial: 0x04c1_1db7,
    initial: 0xffff_ffff,
    final_xor: 0xffff_ffff,
    reflect_in: true,
    reflect_out: true,
};

/// CRC-16/CCITT-FALSE.
pub(crate) const CRC16_CCITT_FALSE: CrcParameters = CrcParameters {
    polynomial: 0x1021,
    initial: 0xffff,
    final_xor: 0,
    reflect_in: false,
    reflect_out: false,
};

/// Verification key of Microsoft's RSS specification.
const RSS_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

impl Default for HashParameters {
    fn default() -> Self {
        HashParameters {
            crc16: CRC16,
            crc32: CRC32,
            toeplitz_key: RSS_KEY.to_vec(),
            seed: 0,
        }
    }
}

/// Returns the hash of packed data.
pub fn hash(
    algorithm: HashAlgorithm,
    data: &[u8],
    parameters: &HashParameters,
    random: &mut RandomStream,
) -> u64 {
    match algorithm {
        HashAlgorithm::Crc32 | HashAlgorithm::TargetDefault => u64::from(crc32(data)),
        HashAlgorithm::Crc32Custom => u64::from(crc(data, &parameters.crc32, 32)),
        HashAlgorithm::Crc16 => u64::from(crc16(data)),
        HashAlgorithm::Crc16Custom => u64::from(crc(data, &parameters.crc16, 16)),
        HashAlgorithm::Random => random.next_u64(),
        HashAlgorithm::Identity => identity(data),
        HashAlgorithm::Csum16 => u64::from(csum16(data)),
        HashAlgorithm::Xor16 => u64::from(xor16(data)),
        HashAlgorithm::Toeplitz => u64::from(toeplitz(data, &parameters.toeplitz_key)),
    }
}

/// Returns the hash of packed fields or of a selector's key: as [`hash`], with the device's seed.
pub fn seeded_hash(
    algorithm: HashAlgorithm,
    data: &[u8],
    parameters: &HashParameters,
    random: &mut RandomStream,
) -> u64 {
    let hash = hash(algorithm, data, parameters, random);
    seeded(algorithm, hash, parameters.seed)
}

/// Mixes a seed into a hash. A seed of 0, and algorithms that are sums or copies of the data,
/// change nothing.
///
/// The seed goes through multiplications, not into the CRC's initial value: CRCs with different
/// initial values differ by a constant, so switches in a row would still choose alike.
#[inline]
pub fn seeded(algorithm: HashAlgorithm, hash: u64, seed: u32) -> u64 {
    if seed == 0 {
        return hash;
    }
    match algorithm {
        HashAlgorithm::Crc16 | HashAlgorithm::Crc16Custom => mixed(hash, seed) & 0xffff,
        HashAlgorithm::Crc32
        | HashAlgorithm::Crc32Custom
        | HashAlgorithm::TargetDefault
        | HashAlgorithm::Toeplitz => mixed(hash, seed),
        HashAlgorithm::Random
        | HashAlgorithm::Identity
        | HashAlgorithm::Csum16
        | HashAlgorithm::Xor16 => hash,
    }
}

/// Returns a 32-bit number that depends on all bits of both. For each seed the map is one to one.
#[inline]
fn mixed(hash: u64, seed: u32) -> u64 {
    let mut word = hash as u32 ^ seed.wrapping_mul(0x9e37_79b9);
    word = (word ^ word >> 16).wrapping_mul(0x85eb_ca6b);
    word = (word ^ word >> 13).wrapping_mul(0xc2b2_ae35);
    u64::from(word ^ word >> 16)
}

/// Computes `result = base + hash % max`, or `base` if `max` is zero. The operands may have any
/// number of limbs. The caller truncates the result to its type.
#[inline]
pub fn in_range(result: &mut [u64], hash: u64, base: &[u64], max: &[u64]) {
    let (&low, high) = max.split_first().unwrap_or((&0, &[]));
    let mut carry = if limbs::is_zero(high) {
        hash.checked_rem(low).unwrap_or(0)
    } else {
        hash
    };
    for (at, limb) in result.iter_mut().enumerate() {
        let (sum, is_over) = base.get(at).copied().unwrap_or(0).overflowing_add(carry);
        *limb = sum;
        carry = u64::from(is_over);
    }
}

static CRC16_TABLES: CrcTables = CrcTables::new(0xa001);

/// Returns the CRC-16/ARC.
pub fn crc16(data: &[u8]) -> u16 {
    CRC16_TABLES.add(0, data) as u16
}

/// Returns the CRC-32 of the first `bytes` bytes of words, each most significant byte first.
pub fn crc32_of_words(words: &[u64], bytes: usize) -> u32 {
    let mut crc = Crc32::new();
    crc.add_words(words, bytes);
    crc.get()
}

/// Returns the CRC-16/ARC of the first `bytes` bytes of words, each most significant byte first.
pub fn crc16_of_words(words: &[u64], bytes: usize) -> u16 {
    CRC16_TABLES.add_words(0, words, bytes) as u16
}

/// Returns a CRC of `width` bits (8 to 32) with any parameters.
pub fn crc(data: &[u8], parameters: &CrcParameters, width: u32) -> u32 {
    let mask = bits::one::mask(width) as u32;
    let top = 1 << (width - 1);
    let mut remainder = parameters.initial & mask;
    for &byte in data {
        let byte = if parameters.reflect_in {
            byte.reverse_bits()
        } else {
            byte
        };
        remainder ^= u32::from(byte) << (width - 8);
        for _ in 0..8 {
            remainder = if remainder & top != 0 {
                remainder << 1 ^ parameters.polynomial
            } else {
                remainder << 1
            };
        }
        remainder &= mask;
    }
    if parameters.reflect_out {
        remainder = remainder.reverse_bits() >> (32 - width);
    }
    (remainder ^ parameters.final_xor) & mask
}

/// RFC 1071's checksum.
pub fn csum16(data: &[u8]) -> u16 {
    internet_checksum(data)
}

/// Returns the XOR of all 16-bit words. An odd last byte is the high half of a word.
pub fn xor16(data: &[u8]) -> u16 {
    data.chunks(2).fold(0, |xor, word| {
        xor ^ u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])
    })
}

/// Returns the first eight bytes as a number, or all bytes if there are fewer.
pub fn identity(data: &[u8]) -> u64 {
    data.iter()
        .take(8)
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Returns the Toeplitz hash. The key repeats for data longer than the key.
pub fn toeplitz(data: &[u8], key: &[u8]) -> u32 {
    if key.len() < 4 {
        return 0;
    }
    let key_at = |i: usize| u64::from(key[i % key.len()]);
    let mut window = (0..4).fold(0, |window, i| window << 8 | key_at(i));
    let mut result = 0;
    for (i, &byte) in data.iter().enumerate() {
        window = window << 8 | key_at(i + 4);
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                result ^= (window >> (bit + 1)) as u32;
            }
        }
        window &= 0xffff_ffff;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tiers_with_different_seeds_choose_independently() {
        // Flows that a first switch sends to its path 0 of 4 use all 4 paths of a second one.
        let algorithms = [HashAlgorithm::Crc16, HashAlgorithm::Crc32];
        for (algorithm, other) in algorithms.into_iter().flat_map(|one| [(one, 7), (one, 8)]) {
            let flow = |n: u32| [n.to_be_bytes(), (n ^ 0xa5a5).to_be_bytes()].concat();
            let path = |data: &[u8], seed: u32| {
                let parameters = HashParameters {
                    seed,
                    ..HashParameters::default()
                };
                let mut random = RandomStream::new(1, 0);
                seeded_hash(algorithm, data, &parameters, &mut random) % 4
            };
            let mut counts = [0; 4];
            for data in (0..20_000).map(flow).filter(|data| path(data, 7) == 0) {
                counts[path(&data, other) as usize] += 1;
            }
            let all: u32 = counts.iter().sum();
            match other {
                7 => assert_eq!(counts, [all, 0, 0, 0], "{algorithm:?}"),
                _ => assert!(
                    counts.iter().all(|n| n * 5 > all),
                    "{algorithm:?} {counts:?}"
                ),
            }
        }
    }

    const CHECK: &[u8] = b"123456789";

    #[test]
    fn crcs_give_the_catalogue_s_check_values() {
        assert_eq!(crc32(CHECK), 0xcbf4_3926);
        assert_eq!(crc16(CHECK), 0xbb3d);
        assert_eq!(crc(CHECK, &CRC32, 32), 0xcbf4_3926);
        assert_eq!(crc(CHECK, &CRC16, 16), 0xbb3d);
        assert_eq!(crc(CHECK, &CRC16_CCITT_FALSE, 16), 0x29b1);
    }

    #[test]
    fn the_internet_checksum_gives_rfc_1071_s_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(csum16(&data), !0xddf2);
        assert_eq!(csum16(&[0xff]), 0x00ff);
    }

    #[test]
    fn toeplitz_gives_the_values_of_the_rss_specification() {
        let parameters = HashParameters::default();
        let ipv4 = [66, 9, 149, 187, 161, 142, 100, 80];
        assert_eq!(toeplitz(&ipv4, &parameters.toeplitz_key), 0x323e_8fc2);
        let tcp = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
        assert_eq!(toeplitz(&tcp, &parameters.toeplitz_key), 0x51cc_c178);
    }

    #[test]
    fn short_data_is_taken_as_it_is() {
        assert_eq!(identity(&[1, 2, 3]), 0x01_0203);
        assert_eq!(identity(&[1; 20]), 0x0101_0101_0101_0101);
        assert_eq!(xor16(&[0x12, 0x34, 0x56]), 0x4434);
    }

    #[test]
    fn a_hash_in_a_range_equals_the_sum_in_wide_numbers() {
        let split = |n: u128| [n as u64, (n >> 64) as u64];
        let numbers = [
            0,
            1,
            10,
            17,
            u128::from(u64::MAX),
            1 << 64,
            7 << 90,
            u128::MAX,
        ];
        for hash in [0, 17, u64::MAX] {
            for base in numbers {
                for max in numbers {
                    let sum = base.wrapping_add(u128::from(hash).checked_rem(max).unwrap_or(0));
                    let mut result = [9; 2];
                    in_range(&mut result, hash, &split(base), &split(max));
                    assert_eq!(result, split(sum), "{base} + {hash} % {max}");
                    in_range(&mut result[..1], hash, &split(base), &split(max));
                    assert_eq!(result[0], sum as u64);
                }
            }
        }
        let mut result = [9; 2];
        in_range(&mut result, 2, &[u64::MAX], &[3]);
        assert_eq!(result, [1, 1]);
    }
}
