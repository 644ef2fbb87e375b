//! CRC-32/ISO-HDLC: the CRC of Ethernet, and of `HashAlgorithm.crc32` in v1model and PSA. Tables
//! for reflected CRCs of up to 32 bits.
//!
//! The remainder of several bytes is the XOR of the remainders of each byte with zeros after it. So
//! 16 bytes are looked up at once, each in a table of its own (Kounavis and Berry, "A Systematic
//! Approach to Building High Performance, Software-based, CRC Generators", 2005).

/// Bytes of a step.
const STEP: usize = 16;

/// Tables of a reflected CRC.
#[derive(Debug)]
pub struct CrcTables([[u32; 256]; STEP]);

impl CrcTables {
    /// Computes the tables of the CRC with this reversed polynomial.
    pub const fn new(reversed_polynomial: u32) -> CrcTables {
        let mut tables = [[0; 256]; STEP];
        let mut i = 0;
        while i < 256 {
            let mut remainder = i as u32;
            let mut bit = 0;
            while bit < 8 {
                remainder = if remainder & 1 == 1 {
                    remainder >> 1 ^ reversed_polynomial
                } else {
                    remainder >> 1
                };
                bit += 1;
            }
            tables[0][i] = remainder;
            i += 1;
        }
        let mut zeros = 1;
        while zeros < STEP {
            let mut i = 0;
            while i < 256 {
                let before = tables[zeros - 1][i];
                tables[zeros][i] = tables[0][(before & 0xff) as usize] ^ before >> 8;
                i += 1;
            }
            zeros += 1;
        }
        CrcTables(tables)
    }

    /// Returns the remainder after further bytes.
    #[inline]
    pub fn add(&self, remainder: u32, bytes: &[u8]) -> u32 {
        let (steps, rest) = bytes.as_chunks::<STEP>();
        let mut remainder = remainder;
        for step in steps {
            let number = u128::from_le_bytes(*step);
            remainder = self.step(remainder, number as u64, (number >> 64) as u64);
        }
        rest.iter().fold(remainder, |remainder, &byte| {
            self.0[0][usize::from(remainder as u8 ^ byte)] ^ remainder >> 8
        })
    }

    /// Returns the remainder after the first `bytes` bytes of words, each most significant byte
    /// first.
    #[inline]
    pub fn add_words(&self, remainder: u32, words: &[u64], bytes: usize) -> u32 {
        let mut remainder = remainder;
        let (whole, last) = (bytes / 8, bytes % 8);
        let whole_words = &words[..whole];
        let (pairs, rest) = whole_words.as_chunks::<2>();
        for [first, second] in pairs {
            remainder = self.step(remainder, first.swap_bytes(), second.swap_bytes());
        }
        for word in rest {
            remainder = self.add(remainder, &word.to_be_bytes());
        }
        match words.get(whole) {
            Some(word) if last > 0 => self.add(remainder, &word.to_be_bytes()[..last]),
            _ => remainder,
        }
    }

    /// Returns the remainder after 16 bytes, the first one least significant. The bytes to which
    /// the remainder is added come last: the processor looks up the others before it knows that.
    #[inline(always)]
    fn step(&self, remainder: u32, first: u64, second: u64) -> u32 {
        let of = |word: u64, byte: usize, zeros: usize| {
            self.0[zeros][usize::from((word >> (8 * byte)) as u8)]
        };
        let high = (0..8).fold(0, |all, byte| all ^ of(second, byte, STEP - 9 - byte));
        let high = (4..8).fold(high, |all, byte| all ^ of(first, byte, STEP - 1 - byte));
        let low = first ^ u64::from(remainder);
        let low = |byte: usize| of(low, byte, STEP - 1 - byte);
        high ^ ((low(0) ^ low(1)) ^ (low(2) ^ low(3)))
    }
}

static CRC32: CrcTables = CrcTables::new(0xedb8_8320);

/// CRC-32 of the bytes so far. Further bytes may be added after a result was read.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Crc32 {
    /// Starts a CRC of no bytes.
    #[inline]
    pub const fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// Adds bytes.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = CRC32.add(self.0, bytes);
    }

    /// Adds the first `bytes` bytes of words, each most significant byte first.
    #[inline]
    pub fn add_words(&mut self, words: &[u64], bytes: usize) {
        self.0 = CRC32.add_words(self.0, words, bytes);
    }

    /// Returns the CRC of all bytes so far.
    #[inline]
    pub const fn get(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Crc32::new()
    }
}

/// Returns the CRC-32 of the bytes.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.add(bytes);
    crc.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue_is_computed() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    /// Returns the remainder after the bytes, bit by bit.
    fn bitwise(reversed_polynomial: u32, remainder: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(remainder, |remainder, &byte| {
            (0..8).fold(remainder ^ u32::from(byte), |remainder, _| {
                let is_odd = remainder & 1 == 1;
                remainder >> 1 ^ if is_odd { reversed_polynomial } else { 0 }
            })
        })
    }

    #[test]
    fn steps_of_many_bytes_have_the_remainder_that_bits_one_by_one_have() {
        let mut choices = crate::rng::Rng::new(1);
        for polynomial in [0xedb8_8320, 0xa001] {
            let tables = CrcTables::new(polynomial);
            for len in 0..200 {
                let words: Vec<u64> = (0..25).map(|_| choices.bits()).collect();
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                let begin = choices.bits() as u32 & polynomial;
                let expected = bitwise(polynomial, begin, &bytes[..len]);
                assert_eq!(tables.add(begin, &bytes[..len]), expected);
                assert_eq!(tables.add_words(begin, &words, len), expected);
            }
        }
    }

    #[test]
    fn bytes_in_parts_have_the_crc_of_all() {
        let mut crc = Crc32::default();
        crc.add(b"1234");
        assert_eq!(crc.get(), crc32(b"1234"));
        crc.add(b"56789");
        assert_eq!(crc.get(), crc32(b"123456789"));
    }
}
