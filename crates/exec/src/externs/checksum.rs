//! Checksum units: running checksums of a packet, one for each extern instance, and incremental
//! updates.

use ir::HashAlgorithm;

use super::hash::{self, HashParameters};
use crate::{BitBuffer, RandomStream};

/// Running checksum of one extern instance for one packet.
#[derive(Clone, Debug)]
pub enum ChecksumUnit {
    /// Data added so far; hashed when the result is read (PSA `Checksum`).
    Data(BitBuffer),
    /// Ones' complement sum (PSA `InternetChecksum`).
    Sum(u16),
}

impl ChecksumUnit {
    /// Returns the number of bytes that [`ChecksumUnit::get`] hashes.
    pub fn len(&self) -> usize {
        match self {
            ChecksumUnit::Data(data) => data.bytes().len(),
            ChecksumUnit::Sum(_) => 0,
        }
    }

    /// Returns true if there is nothing to hash.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the allocated bytes.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            ChecksumUnit::Data(data) => data.capacity(),
            ChecksumUnit::Sum(_) => 0,
        }
    }

    /// Resets the checksum, as at the start of a packet.
    #[inline]
    pub fn clear(&mut self) {
        match self {
            ChecksumUnit::Data(data) => data.clear(),
            ChecksumUnit::Sum(sum) => *sum = 0,
        }
    }

    /// Adds packed data.
    pub fn add(&mut self, data: &BitBuffer) {
        match self {
            ChecksumUnit::Data(all) => append(all, data),
            ChecksumUnit::Sum(sum) => *sum = add(*sum, hash::ones_complement_sum(data.bytes())),
        }
    }

    /// Subtracts packed data from a sum (RFC 1624).
    pub fn subtract(&mut self, data: &BitBuffer) {
        if let ChecksumUnit::Sum(sum) = self {
            *sum = add(*sum, !hash::ones_complement_sum(data.bytes()));
        }
    }

    /// Returns the result: the hash of all data, or the complement of the sum.
    pub fn get(
        &self,
        algorithm: HashAlgorithm,
        parameters: &HashParameters,
        random: &mut RandomStream,
    ) -> u64 {
        match self {
            ChecksumUnit::Data(data) => hash::hash(algorithm, data.bytes(), parameters, random),
            ChecksumUnit::Sum(sum) => u64::from(!*sum),
        }
    }

    /// Returns the sum, or 0 for a unit without one.
    pub fn state(&self) -> u16 {
        match self {
            ChecksumUnit::Data(_) => 0,
            ChecksumUnit::Sum(sum) => *sum,
        }
    }

    /// Sets the sum.
    pub fn set_state(&mut self, state: u16) {
        if let ChecksumUnit::Sum(sum) = self {
            *sum = state;
        }
    }
}

fn append(all: &mut BitBuffer, data: &BitBuffer) {
    let whole = data.bits() / 8;
    let bytes = data.bytes();
    all.push_bytes(&bytes[..whole]);
    let rest = (data.bits() % 8) as u32;
    if rest > 0 {
        all.push_u64(u64::from(bytes[whole] >> (8 - rest)), rest);
    }
}

/// Returns `a + b` in ones' complement arithmetic.
fn add(a: u16, b: u16) -> u16 {
    let (sum, over) = a.overflowing_add(b);
    sum + u16::from(over)
}

/// Returns the checksum after a 16-bit word changed (RFC 1624, equation 3).
pub fn replace2(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// Returns the checksum after a 32-bit word changed (RFC 1624, equation 3).
pub fn replace4(checksum: u16, old: u32, new: u32) -> u16 {
    let high = replace2(checksum, (old >> 16) as u16, (new >> 16) as u16);
    replace2(high, old as u16, new as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incremental_update_gives_rfc_1624_s_example() {
        assert_eq!(replace2(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn subtracting_what_was_added_changes_nothing() {
        let mut data = BitBuffer::default();
        data.push_u64(0x1234_5678, 32);
        let mut other = BitBuffer::default();
        other.push_u64(0xfedc, 16);
        let mut unit = ChecksumUnit::Sum(0);
        unit.add(&other);
        let before = unit.state();
        unit.add(&data);
        unit.subtract(&data);
        assert_eq!(unit.state(), before);
    }

    #[test]
    fn replacing_equals_summing_again() {
        let sum = |words: &[u16]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            hash::csum16(&bytes)
        };
        let before = sum(&[0x4500, 0x0073, 0xc0a8, 0x0001]);
        assert_eq!(
            replace2(before, 0x0073, 0x1111),
            sum(&[0x4500, 0x1111, 0xc0a8, 0x0001])
        );
        assert_eq!(
            replace4(before, 0xc0a8_0001, 0x0a00_00ff),
            sum(&[0x4500, 0x0073, 0x0a00, 0x00ff])
        );
    }

    #[test]
    fn a_running_checksum_takes_data_of_any_width() {
        let mut unit = ChecksumUnit::Data(BitBuffer::default());
        let mut part = BitBuffer::default();
        part.push_u64(0x313, 12);
        unit.add(&part);
        part.clear();
        part.push(&[0x0233_3435_3637_3839], 60);
        unit.add(&part);
        let random = &mut RandomStream::default();
        let crc = unit.get(HashAlgorithm::Crc32, &HashParameters::default(), random);
        assert_eq!(crc, 0xcbf4_3926);
    }
}
