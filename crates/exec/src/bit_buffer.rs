//! Bit buffer: bits appended one after the other, for field lists to hash and headers to emit.

use bits::{limbs_for, one, wire};

/// Number of spare bytes after the last one, so that a field can be written by one 64-bit store.
const SLACK: usize = 8;

/// Growable string of bits, first bit first. The last byte is zero-padded.
#[derive(Clone, Debug, Default)]
pub struct BitBuffer {
    /// Has at least `bits / 8` (rounded up) plus [`SLACK`] bytes. All bits after the last one are
    /// zero.
    bytes: Vec<u8>,
    bits: usize,
}

impl BitBuffer {
    /// Creates an empty buffer with a capacity of `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> BitBuffer {
        BitBuffer {
            bytes: vec![0; bytes + SLACK],
            bits: 0,
        }
    }

    /// Removes all bits and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        let used = self.bits.div_ceil(8).min(self.bytes.len());
        self.bytes[..used].fill(0);
        self.bits = 0;
    }

    /// Returns the number of bits.
    #[inline]
    pub fn bits(&self) -> usize {
        self.bits
    }

    /// Returns the allocated bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns true if there are no bits.
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Returns the bits, with the last byte zero-padded.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bits.div_ceil(8).min(self.bytes.len())]
    }

    /// Appends the canonical number in `limbs` with a width of `width` bits. Missing limbs are
    /// zero.
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

    /// Returns the whole memory and its capacity in bits, for code that appends by itself. Eight
    /// more bytes after the capacity may be written. All bits after the last appended one must stay
    /// zero.
    #[inline]
    pub fn storage(&mut self) -> (&mut [u8], usize) {
        let room = self.bytes.len().saturating_sub(SLACK) * 8;
        (&mut self.bytes, room)
    }

    /// Sets the number of bits, after code has appended through [`BitBuffer::storage`].
    #[inline]
    pub fn set_bits(&mut self, bits: usize) {
        self.bits = bits.min(self.bytes.len().saturating_sub(SLACK) * 8);
    }

    /// Appends `width` zeros and returns their position.
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
