//! The description header (HyperVDP, section IV-B): four bytes in front of a packet that say which virtual data plane it is for.
//!
//! From the most significant bit on: 2 bits version, 12 bits vPDP, 12 bits length of this header and the packet's own headers in bytes, 6 bits check.

use packet::MAX_FRAME;

use crate::vpdp::VpdpId;

/// The version of this layout.
const VERSION: u32 = 1;

const VERSION_SHIFT: u32 = 30;
const VPDP_SHIFT: u32 = 18;
const LENGTH_SHIFT: u32 = 6;
const TWELVE_BITS: u32 = 0xfff;

/// The check's generator, x^6 + x + 1, without its first term: it is primitive, so that of 32 bits any two wrong ones, and any six neighbours, show.
const GENERATOR: u8 = 0b00_0011;

/// What each byte of a header adds to its remainder: a header whose bytes' remainders cancel out is right.
const REMAINDERS: [[u8; 256]; Description::BYTES] = remainders();

/// What the lower and the upper half of a length add to it: two lines of memory, where all bytes' remainders are sixteen.
const LENGTHS: [[u8; 64]; 2] = [remainders_of_length(0), remainders_of_length(6)];

const SIX_BITS: usize = 0x3f;

/// What is said of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Whose it is.
    pub vpdp: VpdpId,
    /// Bytes of this header and the headers behind it: as far as programs may look.
    pub length: u16,
}

impl Description {
    /// Bytes of the header.
    pub const BYTES: usize = 4;

    /// The greatest length that it can say.
    pub const MAX_LENGTH: u16 = TWELVE_BITS as u16;

    /// The description of a whole packet of so many bytes, as far as it can be said.
    #[inline]
    pub fn of_packet(vpdp: VpdpId, bytes: usize) -> Description {
        let length = whole_length(bytes);
        Description { vpdp, length }
    }

    /// The header.
    #[inline]
    pub fn encode(self) -> [u8; Description::BYTES] {
        Draft::of(self.vpdp).of_length(self.length)
    }

    /// What the header at the front of these bytes says; nothing if it is not whole, of another version, damaged, for no vPDP, or if the packet is
    /// shorter than it says.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Description> {
        let word = u32::from_be_bytes(*bytes.first_chunk()?);
        let length = word >> LENGTH_SHIFT & TWELVE_BITS;
        let is_right = word >> VERSION_SHIFT == VERSION
            && remainder(word) == 0
            && (Description::BYTES..=bytes.len()).contains(&(length as usize));
        let vpdp = VpdpId::new((word >> VPDP_SHIFT & TWELVE_BITS) as u16)?;
        is_right.then_some(Description {
            vpdp,
            length: length as u16,
        })
    }
}

/// The header of a vPDP's packets but for the length. The checks of parts of a header together are the whole one's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft(u32);

impl Draft {
    /// Of this vPDP.
    pub(crate) fn of(vpdp: VpdpId) -> Draft {
        Draft(checked(
            VERSION << VERSION_SHIFT | u32::from(vpdp.get()) << VPDP_SHIFT,
        ))
    }

    /// Of no vPDP: nobody takes it.
    pub(crate) fn nobody() -> Draft {
        Draft(0)
    }

    /// The header of a whole packet of so many bytes, as far as it can be said.
    #[inline]
    pub(crate) fn of_packet(self, bytes: usize) -> [u8; Description::BYTES] {
        self.of_length(whole_length(bytes))
    }

    #[inline]
    fn of_length(self, length: u16) -> [u8; Description::BYTES] {
        let length = usize::from(length);
        let check = LENGTHS[0][length & SIX_BITS] ^ LENGTHS[1][length >> 6 & SIX_BITS];
        let length = (length as u32 & TWELVE_BITS) << LENGTH_SHIFT;
        (self.0 ^ length ^ u32::from(check)).to_be_bytes()
    }
}

/// The length that a description says of a whole packet of so many bytes.
#[inline]
fn whole_length(bytes: usize) -> u16 {
    let length = bytes.min(MAX_FRAME) + Description::BYTES;
    length.min(Description::MAX_LENGTH.into()) as u16
}

/// A header, or a part of it, with its check.
#[inline]
fn checked(word: u32) -> u32 {
    word | u32::from(remainder(word))
}

/// The remainder of a header divided by the generator: 0 if its check is right; the check itself if it is still to be put in.
#[inline]
fn remainder(word: u32) -> u8 {
    let [a, b, c, d] = word.to_be_bytes();
    REMAINDERS[0][a as usize]
        ^ REMAINDERS[1][b as usize]
        ^ REMAINDERS[2][c as usize]
        ^ REMAINDERS[3][d as usize]
}

const fn remainders() -> [[u8; 256]; Description::BYTES] {
    let mut table = [[0; 256]; Description::BYTES];
    let mut place = 0;
    while place < Description::BYTES {
        let mut byte = 0;
        while byte < 256 {
            table[place][byte] = divide((byte as u32) << (8 * (Description::BYTES - 1 - place)));
            byte += 1;
        }
        place += 1;
    }
    table
}

/// Of six bits of a length, from this one on.
const fn remainders_of_length(from: u32) -> [u8; 64] {
    let mut table = [0; 64];
    let mut bits = 0;
    while bits < 64 {
        table[bits] = divide((bits as u32) << (LENGTH_SHIFT + from));
        bits += 1;
    }
    table
}

/// Division bit by bit, the most significant first.
const fn divide(word: u32) -> u8 {
    let mut rest = 0u8;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        let carry = rest >> 5 & 1;
        rest = (rest << 1 | (word >> bit & 1) as u8) & 0b11_1111;
        if carry == 1 {
            rest ^= GENERATOR;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(vpdp: u16, length: u16) -> [u8; 4] {
        let vpdp = VpdpId::new(vpdp).unwrap();
        Description { vpdp, length }.encode()
    }

    #[test]
    fn a_header_says_what_was_written() {
        for (vpdp, length) in [(1, 4), (4095, 64), (77, 18)] {
            let mut packet = header(vpdp, length).to_vec();
            packet.resize(64, 0);
            let read = Description::decode(&packet).unwrap();
            assert_eq!((read.vpdp.get(), read.length), (vpdp, length));
        }
    }

    #[test]
    fn every_length_has_its_check() {
        let packet = vec![0; Description::MAX_LENGTH.into()];
        for length in 4..=Description::MAX_LENGTH {
            let mut packet = packet.clone();
            packet[..4].copy_from_slice(&header(0xa5a, length));
            let read = Description::decode(&packet).unwrap();
            assert_eq!((read.vpdp.get(), read.length), (0xa5a, length));
        }
    }

    #[test]
    fn fields_are_where_the_document_says() {
        let word = u32::from_be_bytes(header(0xabc, 0x123));
        assert_eq!(word >> 6, 0b01 << 24 | 0xabc << 12 | 0x123);
    }

    #[test]
    fn one_or_two_wrong_bits_show() {
        let right = u32::from_be_bytes(header(0x5a5, 40));
        for first in 0..32 {
            for second in 0..32 {
                // Where both are the same only one is wrong.
                let wrong = right ^ 1 << first ^ u32::from(first != second) << second;
                let mut packet = wrong.to_be_bytes().to_vec();
                packet.resize(4095, 0);
                assert_eq!(
                    Description::decode(&packet),
                    None,
                    "bits {first} and {second}"
                );
            }
        }
    }

    #[test]
    fn lengths_beyond_the_packet_and_below_the_header_are_refused() {
        let packet = |length| [header(9, length).as_slice(), &[0; 16]].concat();
        assert!(Description::decode(&packet(20)).is_some());
        assert_eq!(Description::decode(&packet(21)), None);
        assert_eq!(Description::decode(&packet(3)), None);
        assert_eq!(Description::decode(&packet(4)[..3]), None);
    }

    #[test]
    fn a_long_packet_is_described_as_far_as_can_be_said() {
        let vpdp = VpdpId::new(1).unwrap();
        assert_eq!(Description::of_packet(vpdp, 60).length, 64);
        assert_eq!(Description::of_packet(vpdp, 9000).length, 4095);
    }
}
