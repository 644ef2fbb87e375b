//! Bits appended one after the other: field lists to hash, headers to emit.

use bits::{limbs_for, one, wire};

/// Bytes kept behind the last one, so that a field is written by one 64-bit store.
const SLACK: usize = 8;

/// A growing string of bits, first bit first; the last byte is padded with zeros.
#[derive(Clone, Debug, Default)]
pub struct BitBuffer {
    /// At least `bits / 8` rounded up plus [`SLACK`] bytes; all zero behind the last bit.
    bytes: Vec<u8>,
    bits: usize,
}

impl BitBuffer {
    /// An empty buffer with room for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> BitBuffer {
        BitBuffer {
            bytes: vec![0; bytes + SLACK],
            bits: 0,
        }
    }

    /// Forgets all bits; the memory stays.
    #[inline]
    pub fn clear(&mut self) {
        let used = self.bits.div_ceil(8).min(self.bytes.len());
        self.bytes[..used].fill(0);
        self.bits = 0;
    }

    /// Number of bits.
    #[inline]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// The bits, the last byte padded with zeros.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bits.div_ceil(8).min(self.bytes.len())]
    }

    /// Appends the canonical number in `limbs`, `width` bits wide; limbs that are missing are zero.
    #[inline]
    pub fn push(&mut self, limbs: &[u64], width: u32) {
        if width <= 64 {
            self.push_u64(limbs.first().copied().unwrap_or(0), width);
        } else if limbs.len() >= limbs_for(width) {
            let at = self.grow(width as usize);
            let written = wire::write(&mut self.bytes, at, width, limbs);
            debug_assert!(written.is_ok());
        } else {
            let top = width - limbs.len() as u32 * 64;
            self.grow(top as usize);
            for &limb in limbs.iter().rev() {
                self.push_u64(limb, 64);
            }
        }
    }

    /// Appends a number of at most 64 bits.
    #[inline]
    pub fn push_u64(&mut self, value: u64, width: u32) {
        let at = self.grow(width as usize);
        let written = wire::write_u64(
            &mut self.bytes,
            at,
            width.min(64),
            value & one::mask(width.min(64)),
        );
        debug_assert!(written.is_ok());
    }

    /// Appends bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let at = self.grow(bytes.len() * 8);
        if at.is_multiple_of(8) {
            self.bytes[at / 8..at / 8 + bytes.len()].copy_from_slice(bytes);
        } else {
            for (i, &byte) in bytes.iter().enumerate() {
                let written = wire::write_u64(&mut self.bytes, at + i * 8, 8, u64::from(byte));
                debug_assert!(written.is_ok());
            }
        }
    }

    /// Appends zeros up to the next byte.
    pub fn pad_to_byte(&mut self) {
        let missing = self.bits.next_multiple_of(8) - self.bits;
        self.grow(missing);
    }

    /// Where the next bits go, for code that appends by itself: the whole memory, and how many bits there may be before it must grow. Behind these
    /// there are eight more bytes to write, but whatever is behind the last bit must be zero.
    #[inline]
    pub fn storage(&mut self) -> (&mut [u8], usize) {
        let room = self.bytes.len().saturating_sub(SLACK) * 8;
        (&mut self.bytes, room)
    }

    /// Says how many bits there are after such code has appended some.
    #[inline]
    pub fn set_bits(&mut self, bits: usize) {
        self.bits = bits.min(self.bytes.len().saturating_sub(SLACK) * 8);
    }

    /// Appends `width` zeros and gives their place.
    #[inline]
    fn grow(&mut self, width: usize) -> usize {
        let at = self.bits;
        self.bits += width;
        let needed = self.bits.div_ceil(8) + SLACK;
        if needed > self.bytes.len() {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_appended_msb_first_and_padded_with_zeros() {
        let mut buffer = BitBuffer::default();
        buffer.push_u64(0b101, 3);
        buffer.push_u64(0xff, 8);
        assert_eq!(buffer.bytes(), [0b1011_1111, 0b1110_0000]);
        buffer.push_bytes(&[0xab]);
        assert_eq!(buffer.bytes(), [0xbf, 0xf5, 0x60]);
        buffer.clear();
        buffer.push(&[0x0102_0304_0506_0708, 0x09], 72);
        assert_eq!(buffer.bytes(), [9, 1, 2, 3, 4, 5, 6, 7, 8]);
        buffer.push(&[5], 80);
        assert_eq!(buffer.bytes()[9..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    }
}
