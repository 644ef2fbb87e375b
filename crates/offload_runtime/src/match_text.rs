//! The match of a flow in words.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use offload::Flow;
use support::mac::MacAddress;

/// Form of a field's value.
#[derive(Clone, Copy)]
enum Form {
    Mac,
    Hex,
    Number,
    Ipv4,
    Ipv6,
}

/// A field: name, offset in its header, bytes.
type NamedField = (&'static str, u32, u32, Form);

const ETHERNET: &[NamedField] = &[
    ("eth.dst", 0, 6, Form::Mac),
    ("eth.src", 6, 6, Form::Mac),
    ("eth.type", 12, 2, Form::Hex),
];
const VLAN: &[NamedField] = &[("vlan.tci", 0, 2, Form::Hex), ("eth.type", 2, 2, Form::Hex)];
const IPV4: &[NamedField] = &[
    ("ipv4.tos", 1, 1, Form::Hex),
    ("ipv4.ttl", 8, 1, Form::Number),
    ("ipv4.protocol", 9, 1, Form::Number),
    ("ipv4.src", 12, 4, Form::Ipv4),
    ("ipv4.dst", 16, 4, Form::Ipv4),
];
const IPV6: &[NamedField] = &[
    ("ipv6.next", 6, 1, Form::Number),
    ("ipv6.hops", 7, 1, Form::Number),
    ("ipv6.src", 8, 16, Form::Ipv6),
    ("ipv6.dst", 24, 16, Form::Ipv6),
];
const TCP: &[NamedField] = &[
    ("tcp.src", 0, 2, Form::Number),
    ("tcp.dst", 2, 2, Form::Number),
];
const UDP: &[NamedField] = &[
    ("udp.src", 0, 2, Form::Number),
    ("udp.dst", 2, 2, Form::Number),
];

/// A field of a program and its bits in the frame as it came in.
#[derive(Clone, Copy, Debug)]
pub struct ProgramField<'n> {
    /// Name in the program, as `hdr.ipv4.ttl`.
    pub name: &'n str,
    /// Offset of the first bit.
    pub offset: u32,
    /// Number of bits.
    pub width: u32,
}

/// Returns a text in which the program's field takes the place of each `byte N` that it has. Bytes
/// of one field in a row are named once.
pub fn with_field_names(text: &str, fields: &[ProgramField<'_>]) -> String {
    let field_of = |digits: &str| {
        let first = digits.parse::<u32>().ok()?.checked_mul(8)?;
        let has = |field: &&ProgramField<'_>| {
            field.offset < first.saturating_add(8) && first < field.offset + field.width
        };
        fields.iter().find(has)
    };
    let mut named = String::new();
    let (mut rest, mut last) = (text, "");
    while let Some((before, after)) = rest.split_once("byte ") {
        let end = after.find(|c: char| !c.is_ascii_digit());
        let (digits, after) = after.split_at(end.unwrap_or(after.len()));
        match field_of(digits) {
            Some(field) if before == ", " && field.name == last => {}
            Some(field) => {
                named.push_str(before);
                named.push_str(field.name);
                last = field.name;
            }
            None => {
                named.push_str(before);
                named.push_str("byte ");
                named.push_str(digits);
                last = "";
            }
        }
        rest = after;
    }
    named + rest
}

/// The bits that are compared and not written yet: value and mask by offset.
struct Bits(BTreeMap<u32, (u8, u8)>);

/// Returns the packets of a flow as a filter: the names are those of `--trace`. Headers have names
/// only where the flow's own bits say which headers there are. Other bits are
/// `bytes[OFFSET:LENGTH]` with a mask after `/`. `checksum[OFFSET] right` is a checksum that the
/// program checks.
///
/// Bits that have no such name have those of `fields`, the program's own.
pub fn match_text(flow: &Flow, fields: &[ProgramField<'_>]) -> String {
    let all = flow.matched.iter().flat_map(|bits| {
        let bytes = bits.value.iter().zip(&bits.mask);
        (bits.offset..)
            .zip(bytes)
            .map(|(at, (value, mask))| (at, (*value, *mask)))
    });
    let mut bits = Bits(all.filter(|(_, (_, mask))| *mask != 0).collect());
    let mut parts = vec![format!("port {}", flow.ingress.0)];
    let mut kind = bits.known(12, 2);
    bits.write(0, ETHERNET, &mut parts);
    let mut base = 14;
    while let Some(0x8100 | 0x88A8) = kind {
        kind = bits.known(base + 2, 2);
        bits.write(base, VLAN, &mut parts);
        base += 4;
    }
    match kind {
        Some(0x0800) => {
            let first = bits.known(base, 1);
            let protocol = bits.known(base + 9, 1);
            bits.write(base, IPV4, &mut parts);
            if first == Some(0x45) {
                bits.0.remove(&base);
                bits.transport(base + 20, protocol, &mut parts);
            }
        }
        Some(0x86DD) => {
            let protocol = bits.known(base + 6, 1);
            bits.write(base, IPV6, &mut parts);
            bits.transport(base + 40, protocol, &mut parts);
        }
        _ => {}
    }
    for field in fields {
        bits.write_field(field, &mut parts);
    }
    bits.rest(&mut parts);
    let least = bits_end(flow).max(14);
    if flow.length.min > least {
        parts.push(format!("len >= {}", flow.length.min));
    }
    if flow.length.max < packet::MAX_FRAME as u32 {
        parts.push(format!("len <= {}", flow.length.max));
    }
    for test in &flow.checksums {
        let state = if test.is_right { "right" } else { "wrong" };
        parts.push(format!("checksum[{}] {state}", test.offset));
    }
    parts.join(", ")
}

/// Returns the offset after the last byte that a flow compares.
fn bits_end(flow: &Flow) -> u32 {
    flow.matched.last().map_or(0, |bits| bits.end())
}

impl Bits {
    /// Returns value and mask of some bytes, at most 16.
    fn value(&self, at: u32, len: u32) -> (u128, u128) {
        let bytes = (at..at + len).map(|at| self.0.get(&at).copied().unwrap_or_default());
        bytes.fold((0, 0), |(value, mask), (v, m)| {
            (value << 8 | u128::from(v), mask << 8 | u128::from(m))
        })
    }

    /// Returns the value of bytes of which all bits are compared.
    fn known(&self, at: u32, len: u32) -> Option<u128> {
        let (value, mask) = self.value(at, len);
        (mask == all_bits(len)).then_some(value)
    }

    fn transport(&mut self, base: u32, protocol: Option<u128>, parts: &mut Vec<String>) {
        match protocol {
            Some(6) => self.write(base, TCP, parts),
            Some(17) => self.write(base, UDP, parts),
            _ => {}
        }
    }

    /// Writes the fields of a header that have bits.
    fn write(&mut self, base: u32, fields: &[NamedField], parts: &mut Vec<String>) {
        for (name, offset, len, form) in fields {
            let at = base + offset;
            let (value, mask) = self.value(at, *len);
            if mask != 0 {
                let text = field_text(value, mask, *len, *form);
                parts.push(format!("{name} {text}"));
                self.0.retain(|byte, _| !(at..at + len).contains(byte));
            }
        }
    }

    /// Writes a field of the program that has bits, and clears these.
    fn write_field(&mut self, field: &ProgramField<'_>, parts: &mut Vec<String>) {
        if field.width > 128 {
            return;
        }
        let (mut value, mut mask) = (0u128, 0u128);
        for at in field.offset..field.offset + field.width {
            let (v, m) = self.0.get(&(at / 8)).copied().unwrap_or_default();
            let shift = 7 - at % 8;
            value = value << 1 | u128::from(v >> shift & 1);
            mask = mask << 1 | u128::from(m >> shift & 1);
        }
        if mask == 0 {
            return;
        }
        let name = field.name;
        parts.push(match mask == u128::MAX >> (128 - field.width) {
            true => format!("{name} {value:#x}"),
            false => format!("{name} {value:#x}/{mask:#x}"),
        });
        for at in field.offset..field.offset + field.width {
            if let Some((v, m)) = self.0.get_mut(&(at / 8)) {
                let bit = 0x80 >> (at % 8);
                (*v, *m) = (*v & !bit, *m & !bit);
            }
        }
        self.0.retain(|_, (_, mask)| *mask != 0);
    }

    /// Writes the other bits.
    fn rest(&self, parts: &mut Vec<String>) {
        let mut bytes = self.0.iter().peekable();
        while let Some((start, first)) = bytes.next() {
            let mut run = vec![*first];
            while let Some((_, next)) = bytes.next_if(|(at, _)| **at == start + run.len() as u32) {
                run.push(*next);
            }
            let (mut value, mut mask) = ("0x".to_owned(), "0x".to_owned());
            for (v, m) in &run {
                // Writing to text does not fail.
                let _ = write!(value, "{v:02x}");
                let _ = write!(mask, "{m:02x}");
            }
            let is_whole = run.iter().all(|(_, mask)| *mask == 0xFF);
            let mask = if is_whole {
                String::new()
            } else {
                format!("/{mask}")
            };
            parts.push(format!("bytes[{start}:{}] {value}{mask}", run.len()));
        }
    }
}

fn all_bits(len: u32) -> u128 {
    u128::MAX >> (128 - 8 * len)
}

fn field_text(value: u128, mask: u128, len: u32, form: Form) -> String {
    let whole = all_bits(len);
    let one = |value: u128| match form {
        Form::Mac => {
            let [_, _, mac @ ..] = (value as u64).to_be_bytes();
            MacAddress(mac).to_string()
        }
        Form::Hex => format!("{value:#x}"),
        Form::Number => value.to_string(),
        Form::Ipv4 => Ipv4Addr::from(value as u32).to_string(),
        Form::Ipv6 => Ipv6Addr::from(value).to_string(),
    };
    let ones = mask.count_ones();
    let is_prefix = mask == whole & !(whole >> ones.min(127));
    match form {
        _ if mask == whole => one(value),
        Form::Ipv4 | Form::Ipv6 if is_prefix => format!("{}/{ones}", one(value)),
        Form::Number => format!("{value:#x}/{mask:#x}"),
        _ => format!("{}/{}", one(value), one(mask)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use offload::{LengthRange, MatchedBits, Met};
    use packet::PortId;

    /// Offset, value and mask.
    type Compared<'b> = (u32, &'b [u8], &'b [u8]);

    fn text(matched: &[Compared<'_>], max: u32) -> String {
        text_with(matched, max, &[])
    }

    fn text_with(matched: &[Compared<'_>], max: u32, fields: &[ProgramField<'_>]) -> String {
        let matched = matched.iter().map(|(offset, value, mask)| MatchedBits {
            offset: *offset,
            value: value.to_vec(),
            mask: mask.to_vec(),
        });
        let flow = Flow {
            ingress: PortId(3),
            matched: matched.collect(),
            length: LengthRange { min: 0, max },
            checksums: Vec::new(),
            steps: Vec::new(),
            drop: None,
            met: Met::default(),
        };
        match_text(&flow, fields)
    }

    #[test]
    fn other_bits_have_the_names_of_the_program() {
        let all = packet::MAX_FRAME as u32;
        let field = |name, offset, width| ProgramField {
            name,
            offset,
            width,
        };
        let fields = [
            field("hdr.ethernet.kind", 96, 16),
            field("hdr.own.high", 112, 4),
            field("hdr.own.low", 116, 4),
            field("hdr.own.word", 120, 16),
            field("hdr.own.blob", 136, 4_096),
        ];
        let matched: [Compared<'_>; 3] = [
            (12, &[0x12, 0x34, 0x50], &[0xFF, 0xFF, 0xF0]),
            (15, &[1, 0], &[0xFF, 0x80]),
            (17, &[9], &[0xFF]),
        ];
        assert_eq!(
            text_with(&matched, all, &fields),
            "port 3, eth.type 0x1234, hdr.own.high 0x5, hdr.own.word 0x100/0xff80, bytes[17:1] 0x09"
        );
        let words = "bits of byte 14, eth.type, byte 15, byte 16, and byte 9000.";
        assert_eq!(
            with_field_names(words, &fields),
            "bits of hdr.own.high, eth.type, hdr.own.word, and byte 9000."
        );
        // Fields have their places in the frame as it came in.
        let words = "offset 14 of the changed frame";
        assert_eq!(with_field_names(words, &fields), words);
    }

    #[test]
    fn fields_have_names_where_the_flow_fixes_the_headers_before_them() {
        let all = packet::MAX_FRAME as u32;
        let whole = [0xFF; 6];
        let ipv4: Compared<'_> = (12, &[8, 0, 0x45], &whole[..3]);
        let cases: [(&[Compared<'_>], &str); 6] = [
            (&[], "port 3"),
            (
                &[(0, &[2, 0, 0, 0, 0, 1], &whole)],
                "port 3, eth.dst 02:00:00:00:00:01",
            ),
            (
                &[
                    ipv4,
                    (23, &[17], &whole[..1]),
                    (30, &[10, 0, 1], &whole[..3]),
                    (36, &[0, 53], &whole[..2]),
                ],
                "port 3, eth.type 0x800, ipv4.protocol 17, ipv4.dst 10.0.1.0/24, udp.dst 53",
            ),
            // Without the header's length it is no port.
            (
                &[
                    (12, &[8, 0], &whole[..2]),
                    (23, &[17], &whole[..1]),
                    (36, &[0, 53], &whole[..2]),
                ],
                "port 3, eth.type 0x800, ipv4.protocol 17, bytes[36:2] 0x0035",
            ),
            (
                &[
                    (12, &[0x81, 0], &whole[..2]),
                    (16, &[0x86, 0xDD], &whole[..2]),
                    (25, &[9], &whole[..1]),
                ],
                "port 3, eth.type 0x8100, eth.type 0x86dd, ipv6.hops 9",
            ),
            (
                &[(40, &[0x50, 1], &[0xF0, 0xFF])],
                "port 3, bytes[40:2] 0x5001/0xf0ff",
            ),
        ];
        for (matched, expected) in cases {
            assert_eq!(text(matched, all), expected);
        }
        assert_eq!(text(&[], 60), "port 3, len <= 60");
    }
}
