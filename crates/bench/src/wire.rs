//! Reads, writes and checksums packet headers as bytes (RFC 791, RFC 768, RFC 9293, RFC 1071).

use packet::Frame;

/// Length of an Ethernet header, in bytes.
pub(crate) const ETHERNET: usize = 14;
/// Length of an Ethernet and an IPv4 header without options, in bytes.
pub(crate) const IPV4_END: usize = ETHERNET + 20;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
pub(crate) const ETHERTYPE_VLAN: u16 = 0x8100;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
pub(crate) fn be48(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 16 | u64::from(be16(bytes, at + 4))
}

#[inline(always)]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[inline(always)]
pub(crate) fn put48(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 6].copy_from_slice(&value.to_be_bytes()[2..]);
}

/// Folds a one's complement sum to 16 bits (RFC 1071).
#[inline(always)]
pub(crate) fn fold(mut sum: u64) -> u16 {
    sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// Returns true if the 20 bytes from `at` on are an IPv4 header with the checksum that would be
/// computed. The sum does not depend on byte order. An all-ones checksum field is rejected: it is
/// equivalent to zero in the sum, but is never computed.
#[inline(always)]
pub(crate) fn ipv4_is_right(bytes: &[u8], at: usize) -> bool {
    let header = &bytes[at..at + 20];
    let word = |i: usize| {
        u64::from(u32::from_ne_bytes([
            header[i],
            header[i + 1],
            header[i + 2],
            header[i + 3],
        ]))
    };
    let sum = word(0) + word(4) + word(8) + word(12) + word(16);
    fold(sum) == 0xffff && be16(header, 10) != 0xffff
}

/// Updates a checksum after a 16-bit word changed (RFC 1624, equation 3).
#[inline(always)]
pub(crate) fn corrected(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

/// Updates a checksum after a 32-bit word changed.
#[inline(always)]
pub(crate) fn corrected32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Decrements the TTL of the IPv4 header at `at` and updates its checksum, which must be correct.
#[inline(always)]
pub(crate) fn decrement_ttl(bytes: &mut [u8], at: usize) {
    let old = be16(bytes, at + 8);
    bytes[at + 8] = bytes[at + 8].wrapping_sub(1);
    let checksum = corrected(be16(bytes, at + 10), old, be16(bytes, at + 8));
    put16(bytes, at + 10, checksum);
}

/// Returns the sum of big-endian 16-bit words. An odd last byte is the high byte of its word.
fn sum16(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    words
        .map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)))
        .sum()
}

/// Writes the correct checksum into the IPv4 header without options at `at`.
pub(crate) fn seal_ipv4(bytes: &mut [u8], at: usize) {
    put16(bytes, at + 10, 0);
    let checksum = !fold(sum16(&bytes[at..at + 20]));
    put16(bytes, at + 10, checksum);
}

/// An IPv4 packet over Ethernet with a TCP or UDP header, padded with zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ipv4 {
    pub(crate) dst_mac: u64,
    pub(crate) src_mac: u64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) ttl: u8,
    pub(crate) protocol: u8,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    /// Length of the frame, in bytes.
    pub(crate) len: usize,
}

impl Ipv4 {
    /// Writes the packet, with correct checksums, to the frame.
    pub(crate) fn write(&self, frame: &mut Frame) {
        let len = self.len.max(IPV4_END + 20);
        // Not reached: frames of benchmarks are short.
        let Ok(bytes) = frame.make_space(len) else {
            return;
        };
        bytes.fill(0);
        put48(bytes, 0, self.dst_mac);
        put48(bytes, 6, self.src_mac);
        put16(bytes, 12, ETHERTYPE_IPV4);
        self.write_ipv4(&mut bytes[ETHERNET..]);
    }

    /// Writes the packet without its Ethernet header.
    pub(crate) fn write_ipv4(&self, bytes: &mut [u8]) {
        let len = bytes.len();
        bytes[0] = 0x45;
        put16(bytes, 2, len as u16);
        bytes[8] = self.ttl;
        bytes[9] = self.protocol;
        put32(bytes, 12, self.src);
        put32(bytes, 16, self.dst);
        seal_ipv4(bytes, 0);
        put16(bytes, 20, self.src_port);
        put16(bytes, 22, self.dst_port);
        let checksum_at = match self.protocol {
            TCP => {
                bytes[32] = 0x50;
                36
            }
            UDP => {
                put16(bytes, 24, (len - 20) as u16);
                26
            }
            _ => return,
        };
        let pseudo = sum16(&bytes[12..20]) + u64::from(self.protocol) + (len - 20) as u64;
        let sum = fold(pseudo + sum16(&bytes[20..]));
        // A checksum of zero is sent as all ones (RFC 768). For TCP that is equivalent.
        let checksum = if sum == 0xffff { 0xffff } else { !sum };
        put16(bytes, checksum_at, checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choices;

    #[test]
    fn a_corrected_checksum_is_the_one_that_would_be_computed() {
        let mut choices = Choices::new(1);
        let mut header = [0u8; 20];
        for _ in 0..10_000 {
            for byte in &mut header {
                // Many equal bytes, so that sums of zero and all ones occur.
                *byte = [0, 0xff, choices.bits() as u8][choices.below(3) as usize];
            }
            header[0] = 0x45;
            header[8] = header[8].max(1);
            seal_ipv4(&mut header, 0);
            assert!(ipv4_is_right(&header, 0));
            let mut corrected = header;
            decrement_ttl(&mut corrected, 0);
            let mut expected = corrected;
            seal_ipv4(&mut expected, 0);
            assert_eq!(corrected, expected);
        }
    }

    #[test]
    fn a_wrong_checksum_is_seen() {
        let mut header = [0u8; 20];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&[0xba, 0xff]);
        seal_ipv4(&mut header, 0);
        assert_eq!(be16(&header, 10), 0);
        put16(&mut header, 10, 0xffff);
        assert!(!ipv4_is_right(&header, 0));
        put16(&mut header, 10, 1);
        assert!(!ipv4_is_right(&header, 0));
    }
}
