//! CRC-32C (Castagnoli), the checksum of SCTP (RFC 9260, appendix A), computed eight bytes at a
//! time (slicing-by-8).

/// The generator polynomial, bit-reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Number of bytes processed in one step.
const STEP: usize = 8;

/// Lookup tables: for each byte position of a step, the remainders of all byte values.
static TABLES: [[u32; 256]; STEP] = tables();

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = remainder & 1;
            remainder >>= 1;
            if carry != 0 {
                remainder ^= POLYNOMIAL;
            }
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut place = 1;
    while place < STEP {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[place - 1][byte];
            tables[place][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        place += 1;
    }
    tables
}

/// Continues the CRC `remainder` with `bytes`. The initial remainder is all ones.
pub(crate) fn update(remainder: u32, bytes: &[u8]) -> u32 {
    let mut remainder = remainder;
    let mut steps = bytes.chunks_exact(STEP);
    for step in steps.by_ref() {
        let [a, b, c, d, e, f, g, h] = *step else {
            continue;
        };
        let low = remainder ^ u32::from_le_bytes([a, b, c, d]);
        let [a, b, c, d] = low.to_le_bytes();
        let places = [a, b, c, d, e, f, g, h];
        remainder = 0;
        for (byte, table) in places.into_iter().zip(TABLES.iter().rev()) {
            remainder ^= table[usize::from(byte)];
        }
    }
    for byte in steps.remainder() {
        let place = (remainder as u8 ^ byte) as usize;
        remainder = remainder >> 8 ^ TABLES[0][place];
    }
    remainder
}

/// Returns the checksum of an SCTP packet in wire byte order. The four bytes at `field`, where the
/// checksum is stored, count as zero.
pub(crate) fn sctp_checksum(packet: &[u8], field: usize) -> [u8; 4] {
    let (before, behind) = packet.split_at(field.min(packet.len()));
    let behind = behind.get(4..).unwrap_or_default();
    let remainder = update(update(update(!0, before), &[0; 4]), behind);
    (!remainder).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksums_of_rfc_3720_come_out() {
        let check = |bytes: &[u8], expect: u32| assert_eq!(!update(!0, bytes), expect);
        check(b"123456789", 0xe306_9283);
        check(&[0; 32], 0x8a91_36aa);
        check(&[0xff; 32], 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        check(&ascending, 0x46dd_794e);
    }

    #[test]
    fn any_cut_gives_the_same_remainder() {
        let bytes: Vec<u8> = (0..100).map(|n: u8| n.wrapping_mul(7)).collect();
        let whole = update(!0, &bytes);
        for cut in 0..bytes.len() {
            let (before, behind) = bytes.split_at(cut);
            assert_eq!(update(update(!0, before), behind), whole, "{cut}");
        }
    }
}
