//! Fields of the specifications' figures: widths in bits and values, packed and read bit by bit.
//! The crate's own reading and writing is not used.

/// Packs fields of (width in bits, value), most significant bit first.
pub(crate) fn pack(fields: &[(usize, u64)]) -> Vec<u8> {
    let bits = fields.iter().flat_map(|&(width, value)| {
        assert!(
            width == 64 || value < 1 << width,
            "{value} has more than {width} bits"
        );
        (0..width).rev().map(move |bit| value >> bit & 1 != 0)
    });
    let bits: Vec<bool> = bits.collect();
    assert_eq!(bits.len() % 8, 0, "the fields are no whole bytes");
    let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    bits.chunks(8).map(byte).collect()
}

/// Reader of fields.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    pub(crate) fn next(&mut self, width: usize) -> u64 {
        let at = self.at;
        self.at += width;
        (at..at + width).fold(0, |value, at| {
            value << 1 | u64::from(self.bytes[at / 8] >> (7 - at % 8) & 1)
        })
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        assert_eq!(self.at % 8, 0);
        &self.bytes[self.at / 8..]
    }
}

/// An IPv4 header without options.
pub(crate) fn ipv4(dscp: u64, protocol: u64, source: u64, destination: u64) -> Vec<u8> {
    pack(&[
        (4, 4),
        (4, 5),
        (6, dscp),
        (2, 0),
        (16, 0),
        (16, 0x1234),
        (3, 2),
        (13, 0),
        (8, 64),
        (8, protocol),
        (16, 0),
        (32, source),
        (32, destination),
    ])
}

/// A TCP header without options.
pub(crate) fn tcp(source: u64, destination: u64) -> Vec<u8> {
    pack(&[
        (16, source),
        (16, destination),
        (32, 1),
        (32, 2),
        (4, 5),
        (6, 0),
        (6, 0x10),
        (16, 1000),
        (16, 0),
        (16, 0),
    ])
}

/// A UDP header.
pub(crate) fn udp(source: u64, destination: u64) -> Vec<u8> {
    pack(&[(16, source), (16, destination), (16, 0), (16, 0)])
}

/// Joins parts.
pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}
