//! Fields of frames by their places in bits.

use passes::split::{ETHERNET_BYTES, FrameOption, SplitProgram, WireLayout};

use crate::names::NameError;

/// Field of at most 56 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitField {
    byte: usize,
    shift: u32,
    width: u32,
}

impl BitField {
    fn new(offset: u32, width: u32) -> BitField {
        BitField {
            byte: offset as usize / 8,
            shift: offset % 8,
            width,
        }
    }

    /// Returns the parameter of a frame with this name.
    pub(super) fn parameter(layout: &WireLayout, name: &str) -> Result<BitField, NameError> {
        let mut parameters = layout.parameters.iter();
        let found = parameters.find(|parameter| {
            parameter.name == name || parameter.name.ends_with(&format!(".{name}"))
        });
        let found = found.ok_or_else(|| NameError {
            name: format!("parameter {name}"),
        })?;
        Ok(BitField::new(found.offset, found.width))
    }

    /// Returns a part of the key: `width` bits from bit `at` on.
    pub(super) fn key(layout: &WireLayout, at: u32, width: u32) -> BitField {
        BitField::new(layout.key_offset + at, width)
    }

    fn word(self, bytes: &[u8]) -> u64 {
        let word = bytes.get(self.byte..self.byte + 8);
        let word = word.and_then(|word| word.try_into().ok());
        u64::from_be_bytes(word.unwrap_or_default())
    }

    /// Returns the value.
    #[inline(always)]
    pub(super) fn get(self, bytes: &[u8]) -> u64 {
        self.word(bytes) << self.shift >> (64 - self.width)
    }

    /// Writes the value.
    #[inline(always)]
    pub(super) fn put(self, bytes: &mut [u8], value: u64) {
        let left = 64 - self.width - self.shift;
        let mask = (u64::MAX >> (64 - self.width)) << left;
        let word = self.word(bytes) & !mask | value << left & mask;
        if let Some(place) = bytes.get_mut(self.byte..self.byte + 8) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// Fields that every response has.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseFields {
    response_type: [u8; 2],
    request_type: [u8; 2],
    min_bytes: usize,
    point: usize,
    resume: u16,
}

impl ResponseFields {
    /// Creates them for responses that resume at the place of this name.
    pub(super) fn new(program: &SplitProgram, resume: usize) -> ResponseFields {
        let layout = &program.plan.frame;
        ResponseFields {
            response_type: layout.response_type.to_be_bytes(),
            request_type: layout.request_type.to_be_bytes(),
            min_bytes: (ETHERNET_BYTES + layout.header_bytes) as usize,
            point: layout.option(FrameOption::ResumePoint).0,
            resume: resume as u16,
        }
    }

    /// Returns true if the frame is a whole request.
    #[inline(always)]
    pub(super) fn is_request(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.min_bytes && bytes[12..14] == self.request_type
    }

    /// Makes the frame a response.
    #[inline(always)]
    pub(super) fn answer(&self, bytes: &mut [u8]) {
        bytes[12..14].copy_from_slice(&self.response_type);
        bytes[self.point..self.point + 2].copy_from_slice(&self.resume.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_as_it_was_written_and_leaves_other_bits() {
        for (offset, width) in [(0, 1), (3, 56), (13, 32), (8, 48), (7, 9)] {
            let field = BitField::new(offset, width);
            for fill in [0u8, 0xff] {
                let mut bytes = [fill; 24];
                let value = 0x5a5a_5a5a_5a5a_5a5a >> (64 - width);
                field.put(&mut bytes, value);
                assert_eq!(field.get(&bytes), value);
                field.put(&mut bytes, u64::from(fill) * 0x0101_0101_0101_0101);
                assert_eq!(bytes, [fill; 24]);
            }
        }
    }
}
