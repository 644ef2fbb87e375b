//! Description header (HyperVDP, section IV-B): four bytes in front of a packet that name its
//! virtual data plane.
//!
//! From the most significant bit: 2 bits version, 12 bits vPDP number, 12 bits length of this
//! header and the packet's headers in bytes, 6 bits CRC.

use crate::vpdp::VpdpId;

/// Version of this layout.
const VERSION: u32 = 1;

const VERSION_SHIFT: u32 = 30;
const VPDP_SHIFT: u32 = 18;
const LENGTH_SHIFT: u32 = 6;
const TWELVE_BITS: u32 = 0xfff;

/// CRC generator x^6 + x + 1, without the leading term. It is primitive: any two wrong bits of 32,
/// and any burst of six, are detected.
const GENERATOR: u8 = 0b00_0011;

/// Version field, with its contribution to the CRC.
const FRONT: u32 = VERSION << VERSION_SHIFT | divide(VERSION << VERSION_SHIFT) as u32;

/// Contribution of each length to the header, in network byte order. Lengths below the minimum
/// have an invalid CRC ([`NO_CHECK`]).
static LENGTHS: [u32; 1 << 12] = {
    let checks = checks_from(LENGTH_SHIFT);
    let mut lengths = [0; 1 << 12];
    let mut length = 0;
    while length < lengths.len() {
        let check = match length < Description::BYTES {
            true => NO_CHECK,
            false => checks[length],
        };
        lengths[length] = ((length as u32) << LENGTH_SHIFT ^ check as u32).to_be();
        length += 1;
    }
    lengths
};

/// A value with more bits than the CRC: no header with it is valid.
const NO_CHECK: u8 = u8::MAX;

/// Contribution of each vPDP number to the CRC.
static CHECKS_OF_VPDPS: [u8; 1 << 12] = checks_from(VPDP_SHIFT);

/// Contents of a description header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The vPDP of the packet.
    pub vpdp: VpdpId,
    /// Number of bytes of this header and the packet's headers: the part that programs may parse.
    /// At least [`Description::BYTES`].
    pub length: u16,
}

impl Description {
    /// Length of the header in bytes.
    pub const BYTES: usize = 4;

    /// Maximum value of the length field.
    pub const MAX_LENGTH: u16 = TWELVE_BITS as u16;

    /// Creates the description of a whole packet of this many bytes; the length saturates.
    #[inline]
    pub fn of_packet(vpdp: VpdpId, bytes: usize) -> Description {
        let length = whole_length(bytes);
        Description { vpdp, length }
    }

    /// Encodes the header.
    #[inline]
    pub fn encode(self) -> [u8; Description::BYTES] {
        Draft::of(self.vpdp).of_length(self.length)
    }

    /// Decodes the header at the start of a packet. Returns `None` if it is truncated, of another
    /// version, damaged, or for vPDP 0, or if the packet is shorter than its length field.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Description> {
        let vpdp = VpdpId::new(vpdp_of(word(bytes)?))?;
        let length = Draft::of(vpdp).length(bytes)?;
        Some(Description { vpdp, length })
    }
}

/// Returns the first four bytes as a header word.
#[inline(always)]
fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_be_bytes)
}

#[inline(always)]
fn vpdp_of(word: u32) -> u16 {
    (word >> VPDP_SHIFT & TWELVE_BITS) as u16
}

/// Returns the vPDP number field of the header at the start of these bytes, without any check.
#[inline(always)]
pub(crate) fn number_of(bytes: &[u8]) -> Option<usize> {
    Some(vpdp_of(word(bytes)?).into())
}

/// Header template of a vPDP without the length, in network byte order. CRCs are linear: the CRC
/// of a header is the XOR of its parts' CRCs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft(u32);

impl Draft {
    /// Creates the template of this vPDP.
    #[inline]
    pub(crate) fn of(vpdp: VpdpId) -> Draft {
        let number = u32::from(vpdp.get()) << VPDP_SHIFT;
        let check = u32::from(CHECKS_OF_VPDPS[vpdp.index()]);
        Draft((FRONT ^ number ^ check).to_be())
    }

    /// Creates a template that matches no packet.
    pub(crate) fn nobody() -> Draft {
        Draft((1u32 << LENGTH_SHIFT).to_be())
    }

    /// Returns the header of a whole packet of this many bytes; the length saturates.
    #[inline]
    pub(crate) fn of_packet(self, bytes: usize) -> [u8; Description::BYTES] {
        self.of_length(whole_length(bytes))
    }

    #[inline]
    fn of_length(self, length: u16) -> [u8; Description::BYTES] {
        (self.0 ^ LENGTHS[usize::from(length) & TWELVE_BITS as usize]).to_ne_bytes()
    }

    /// Returns true if the packet begins with a valid header of this vPDP. The usual header, with
    /// the length of the whole packet, is compared first.
    #[inline(always)]
    pub(crate) fn describes(self, bytes: &[u8]) -> bool {
        let whole = bytes.len().min(Description::MAX_LENGTH.into()) as u16;
        bytes.starts_with(&self.of_length(whole)) || self.length(bytes).is_some()
    }

    /// Returns the length field of this vPDP's header at the start of the packet, or `None` if the
    /// header is invalid or another vPDP's.
    #[inline(always)]
    fn length(self, bytes: &[u8]) -> Option<u16> {
        let length = (word(bytes)? >> LENGTH_SHIFT & TWELVE_BITS) as u16;
        let fits = usize::from(length) <= bytes.len();
        (fits && bytes.starts_with(&self.of_length(length))).then_some(length)
    }
}

/// Returns the length field of a whole packet of this many bytes.
#[inline]
fn whole_length(bytes: usize) -> u16 {
    let length = bytes.saturating_add(Description::BYTES);
    length.min(Description::MAX_LENGTH.into()) as u16
}

/// Computes the CRC contribution of each 12-bit number, shifted left by `shift` bits. Multi-bit
/// numbers are the XOR of their bits.
const fn checks_from(shift: u32) -> [u8; 1 << 12] {
    let mut checks = [0; 1 << 12];
    let mut number = 1;
    while number < checks.len() {
        let rest = number & (number - 1);
        checks[number] = match rest {
            0 => divide((number as u32) << shift),
            _ => checks[rest] ^ checks[number ^ rest],
        };
        number += 1;
    }
    checks
}

/// Computes the CRC of a header, or of a part of it, bit by bit.
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
    fn the_generator_divides_every_header() {
        for vpdp in VpdpId::all() {
            for length in [4, 5, 60, 1518, 4094, Description::MAX_LENGTH] {
                let word = u32::from_be_bytes(header(vpdp.get(), length));
                assert_eq!(divide(word), 0, "vPDP {vpdp}, length {length}");
            }
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
                // If both are the same, only one bit is wrong.
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
        for length in 0..4 {
            let front =
                u32::from_be_bytes(header(9, 4)) & !(TWELVE_BITS << LENGTH_SHIFT | 0b11_1111);
            let fields = front | length << LENGTH_SHIFT;
            let short = (fields | u32::from(divide(fields))).to_be_bytes();
            assert_eq!(Description::decode(&[&short[..], &[0; 16]].concat()), None);
        }
        assert_eq!(Description::decode(&packet(4)[..3]), None);
    }

    #[test]
    fn a_header_for_no_vpdp_is_refused_and_none_is_nobodys() {
        let mut packet = Draft(FRONT.to_be()).of_length(20).to_vec();
        packet.resize(20, 0);
        assert_eq!(divide(u32::from_be_bytes(header(9, 20))), 0);
        assert_eq!(divide(word(&packet).unwrap()), 0);
        assert_eq!(Description::decode(&packet), None);
    }

    #[test]
    fn a_draft_describes_what_is_decoded_as_its_vpdps_and_nothing_else() {
        for bytes in [0, 3, 4, 20, 4095, 4096, 9000] {
            for length in [3, 4, 18, 20, 4094, Description::MAX_LENGTH] {
                for wrong in [0, 1 << 6, 1 << 18, 1] {
                    let front = u32::from_be_bytes(header(9, length)) ^ wrong;
                    let mut packet = front.to_be_bytes().to_vec();
                    packet.resize(bytes, 0);
                    let decoded = Description::decode(&packet).map(|found| found.vpdp.get());
                    for vpdp in [8, 9] {
                        let draft = Draft::of(VpdpId::new(vpdp).unwrap());
                        assert_eq!(
                            draft.describes(&packet),
                            decoded == Some(vpdp),
                            "{bytes} bytes of {length} for vPDP {vpdp}, bits {wrong:x} wrong"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_packet_is_described_as_far_as_can_be_said() {
        let vpdp = VpdpId::new(1).unwrap();
        assert_eq!(Description::of_packet(vpdp, 60).length, 64);
        assert_eq!(Description::of_packet(vpdp, 9000).length, 4095);
    }
}
