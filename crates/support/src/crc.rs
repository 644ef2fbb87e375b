//! CRC-32/ISO-HDLC: the CRC of Ethernet, and of `HashAlgorithm.crc32` in v1model and PSA.

/// Returns the table of remainders by byte for a reflected CRC with this reversed polynomial.
pub const fn reflected_table(reversed_polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
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
        table[i] = remainder;
        i += 1;
    }
    table
}

static CRC32_TABLE: [u32; 256] = reflected_table(0xedb8_8320);

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
        self.0 = bytes.iter().fold(self.0, |crc, &byte| {
            CRC32_TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8
        });
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

    #[test]
    fn bytes_in_parts_have_the_crc_of_all() {
        let mut crc = Crc32::default();
        crc.add(b"1234");
        assert_eq!(crc.get(), crc32(b"1234"));
        crc.add(b"56789");
        assert_eq!(crc.get(), crc32(b"123456789"));
    }
}
