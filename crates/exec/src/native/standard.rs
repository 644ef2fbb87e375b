//! Native functions that come with Polyplane. A header argument is its validity, followed by its
//! fields in order.

use super::Natives;
use super::conntrack::Connections;
use crate::externs::{checksum, hash};

/// Indices of the fields of an IPv4 header without options among the arguments.
pub(super) mod ipv4 {
    /// `hdrChecksum`, after version, ihl, diffserv, totalLen, identification, flags, fragOffset,
    /// ttl and protocol.
    pub(in super::super) const CHECKSUM: usize = 9;
    /// `srcAddr`.
    pub(in super::super) const SOURCE: usize = 10;
    /// `dstAddr`.
    pub(in super::super) const DESTINATION: usize = 11;
    /// Number of fields.
    pub(in super::super) const FIELDS: usize = 12;
}

/// Returns the argument at an index, or 0 if it is missing.
pub(super) fn at(args: &[u64], place: usize) -> u64 {
    args.get(place).copied().unwrap_or(0)
}

pub(super) fn insert(natives: &mut Natives) {
    // bit<16> ebpf_ipv4_checksum(version, ihl, ..., srcAddr, dstAddr), without the checksum.
    natives.insert("ebpf_ipv4_checksum", |args, results| {
        let (before, after) = args.split_at(ipv4::CHECKSUM.min(args.len()));
        give(results, ipv4_checksum(before, after).into());
    });
    // bool verify_ipv4_checksum(in IPv4_h iphdr)
    natives.insert("verify_ipv4_checksum", |args, results| {
        let fields = args.get(1..).unwrap_or_default();
        let before = &fields[..ipv4::CHECKSUM.min(fields.len())];
        let after = fields.get(ipv4::SOURCE..).unwrap_or_default();
        let expected = u64::from(ipv4_checksum(before, after));
        give(results, u64::from(at(fields, ipv4::CHECKSUM) == expected));
    });
    // bit<16> incremental_checksum(in bit<16> checksum, in bit<32> old, in bit<32> new)
    natives.insert("incremental_checksum", |args, results| {
        let [sum, old, new] = [0, 1, 2].map(|i| at(args, i));
        let replaced = checksum::replace4(sum as u16, old as u32, new as u32);
        give(results, replaced.into());
    });
    // bit<16> compute_hash(in bit<32> a, in bit<32> b): a CRC of the first seven bytes, each number
    // in little-endian order.
    natives.insert("compute_hash", |args, results| {
        let mut data = [0; 8];
        data[..4].copy_from_slice(&(at(args, 0) as u32).to_le_bytes());
        data[4..].copy_from_slice(&(at(args, 1) as u32).to_le_bytes());
        let crc = hash::crc(&data[..7], &hash::CRC16_CCITT_FALSE, 16);
        give(results, crc.into());
    });
    // void extern_func(out bit<32> d, bit<32> s): d = s
    natives.insert("extern_func", |args, results| give(results, at(args, 0)));
    // bool tcp_conntrack(in Headers_t hdrs): Ethernet, IPv4 and TCP headers.
    let connections = Connections::default();
    natives.insert("tcp_conntrack", move |args, results| {
        give(results, u64::from(connections.accepts(args)));
    });
}

fn give(results: &mut [u64], value: u64) {
    if let Some(result) = results.first_mut() {
        *result = value;
    }
}

/// Returns the checksum of an IPv4 header without options, from the fields before and after it.
fn ipv4_checksum(before: &[u64], after: &[u64]) -> u16 {
    let [
        version,
        ihl,
        diffserv,
        length,
        id,
        flags,
        offset,
        ttl,
        protocol,
    ] = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| at(before, i));
    let [source, destination] = [0, 1].map(|i| at(after, i));
    let words = [
        version << 12 | ihl << 8 | diffserv,
        length,
        id,
        flags << 13 | offset,
        ttl << 8 | protocol,
        source >> 16,
        source & 0xffff,
        destination >> 16,
        destination & 0xffff,
    ];
    let mut sum: u64 = words.iter().map(|word| word & 0xffff).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, args: &[u64]) -> u64 {
        let mut result = [0];
        Natives::standard().get(name).unwrap()(args, &mut result);
        result[0]
    }

    /// The example of Wikipedia's article on the IPv4 header checksum.
    #[test]
    fn the_ipv4_checksum_is_that_of_the_header() {
        let args = [4, 5, 0, 0x73, 0, 2, 0, 0x40, 0x11, 0xc0a8_0001, 0xc0a8_00c7];
        assert_eq!(call("ebpf_ipv4_checksum", &args), 0xb861);
        let mut header = vec![1];
        header.extend(&args[..9]);
        header.push(0xb861);
        header.extend(&args[9..]);
        assert_eq!(call("verify_ipv4_checksum", &header), 1);
        header[10] ^= 1;
        assert_eq!(call("verify_ipv4_checksum", &header), 0);
    }

    #[test]
    fn an_incremental_checksum_is_that_of_the_new_header() {
        let with = |source: u64| {
            let args = [4, 5, 0, 0x73, 0, 2, 0, 0x40, 0x11, source, 0xc0a8_00c7];
            call("ebpf_ipv4_checksum", &args)
        };
        let args = [with(0xc0a8_0001), 0xc0a8_0001, 0x0a00_0001];
        assert_eq!(call("incremental_checksum", &args), with(0x0a00_0001));
    }
}
