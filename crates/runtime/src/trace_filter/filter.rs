//! Packet filters for tracing: conditions on the port, the length, fields of common protocols and
//! any bytes, as in `ipv4.dst == 10.0.0.0/8 and not tcp.dst == 22`.
//!
//! A filter is evaluated for every packet at full speed. So each condition is a comparison of
//! bytes at an offset that is found without any state.

use std::fmt;

use packet::PortId;

/// Ethernet types and IP protocol numbers.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
const IPV6: u16 = 0x86dd;
const SERVICE_VLAN: u16 = 0x88a8;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;

/// Offset of the Ethernet type in an untagged frame.
const TYPE_AT: usize = 12;

/// Condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Always true.
    All,
    /// A comparison of a field holds.
    Is(Comparison),
    /// The packet has a header of this kind.
    Has(Layer),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

/// Comparison of a field with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(super) field: Field,
    pub(super) relation: Relation,
    pub(super) value: u128,
    /// Mask of the compared bits.
    pub(super) mask: u128,
}

/// A number in a packet, or in its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Port,
    Length,
    /// Bytes of a header, in network byte order.
    Bytes {
        layer: Layer,
        at: usize,
        len: usize,
    },
}

/// A header. Offsets of fields start at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The frame itself.
    Frame,
    /// The Ethernet type after all VLAN tags.
    Type,
    /// The outermost VLAN tag's control information.
    Vlan,
    /// A network header of this Ethernet type.
    Network(u16),
    /// A transport header of this protocol, in IPv4 (not in a later fragment) or directly after
    /// an IPv6 header.
    Transport(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Relation {
    #[inline]
    fn holds(self, one: u128, other: u128) -> bool {
        match self {
            Relation::Equal => one == other,
            Relation::NotEqual => one != other,
            Relation::Less => one < other,
            Relation::AtMost => one <= other,
            Relation::Greater => one > other,
            Relation::AtLeast => one >= other,
        }
    }
}

impl Condition {
    /// Returns true if the packet matches. A comparison with a field that the packet does not
    /// have never holds.
    #[inline]
    pub(crate) fn matches(&self, port: PortId, bytes: &[u8]) -> bool {
        match self {
            Condition::All => true,
            Condition::Is(comparison) => comparison.holds(port, bytes),
            Condition::Has(layer) => layer.begin(bytes).is_some(),
            Condition::Not(inner) => !inner.matches(port, bytes),
            Condition::And(one, other) => one.matches(port, bytes) && other.matches(port, bytes),
            Condition::Or(one, other) => one.matches(port, bytes) || other.matches(port, bytes),
        }
    }
}

impl Comparison {
    #[inline]
    fn holds(&self, port: PortId, bytes: &[u8]) -> bool {
        let found = match self.field {
            Field::Port => Some(u128::from(port.0)),
            Field::Length => Some(bytes.len() as u128),
            Field::Bytes { layer, at, len } => number(bytes, layer, at, len),
        };
        found.is_some_and(|found| self.relation.holds(found & self.mask, self.value))
    }
}

/// Returns the number in `len` bytes of a header, if the packet has them.
#[inline]
fn number(bytes: &[u8], layer: Layer, at: usize, len: usize) -> Option<u128> {
    let begin = layer.begin(bytes)? + at;
    let field = bytes.get(begin..begin + len)?;
    // The common lengths need no loop.
    Some(match *field {
        [a] => a.into(),
        [a, b] => u16::from_be_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]).into(),
        _ => field
            .iter()
            .fold(0, |number, byte| number << 8 | u128::from(*byte)),
    })
}

impl Layer {
    /// Returns the offset of the header, if the packet has it.
    #[inline]
    fn begin(self, bytes: &[u8]) -> Option<usize> {
        match self {
            Layer::Frame => Some(0),
            Layer::Type => Some(ether_type(bytes)?.1),
            Layer::Vlan => is_tag(word(bytes, TYPE_AT)?).then_some(TYPE_AT + 2),
            Layer::Network(wanted) => {
                let (kind, at) = ether_type(bytes)?;
                (kind == wanted).then_some(at + 2)
            }
            Layer::Transport(wanted) => transport(bytes, wanted),
        }
    }
}

/// Returns the Ethernet type after all VLAN tags, and its offset.
#[inline]
fn ether_type(bytes: &[u8]) -> Option<(u16, usize)> {
    let mut at = TYPE_AT;
    let mut kind = word(bytes, at)?;
    while is_tag(kind) {
        at += 4;
        kind = word(bytes, at)?;
    }
    Some((kind, at))
}

fn transport(bytes: &[u8], wanted: u8) -> Option<usize> {
    let (kind, at) = ether_type(bytes)?;
    let packet = at + 2;
    match kind {
        IPV4 => {
            let is_later_fragment = word(bytes, packet + 6)? & 0x1fff != 0;
            let length = usize::from(*bytes.get(packet)? & 0xf) * 4;
            let is_wanted = *bytes.get(packet + 9)? == wanted && !is_later_fragment;
            is_wanted.then_some(packet + length)
        }
        IPV6 => (*bytes.get(packet + 6)? == wanted).then_some(packet + 40),
        _ => None,
    }
}

#[inline]
fn is_tag(kind: u16) -> bool {
    kind == VLAN || kind == SERVICE_VLAN
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([word[0], word[1]]))
}

/// Notation for values of a field, besides numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    Number,
    Mac,
    Ipv4,
    Ipv6,
}

/// A field with a name.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) field: Field,
    pub(super) bits: u32,
    pub(super) notation: Notation,
}

/// Headers with names.
pub(super) const HEADERS: [(&str, Layer); 8] = [
    ("arp", Layer::Network(ARP)),
    ("vlan", Layer::Vlan),
    ("ipv4", Layer::Network(IPV4)),
    ("ipv6", Layer::Network(IPV6)),
    ("icmp", Layer::Transport(ICMP)),
    ("tcp", Layer::Transport(TCP)),
    ("udp", Layer::Transport(UDP)),
    ("icmp6", Layer::Transport(ICMP6)),
];

/// Returns the fields with names.
pub(super) fn fields() -> Vec<Named> {
    use Notation::{Ipv4, Ipv6, Mac, Number};
    let bytes = |layer, at, len| Field::Bytes { layer, at, len };
    let (v4, v6) = (Layer::Network(IPV4), Layer::Network(IPV6));
    let (tcp, udp) = (Layer::Transport(TCP), Layer::Transport(UDP));
    let all = [
        ("port", Field::Port, 32, Number),
        ("len", Field::Length, 32, Number),
        ("eth.dst", bytes(Layer::Frame, 0, 6), 48, Mac),
        ("eth.src", bytes(Layer::Frame, 6, 6), 48, Mac),
        ("eth.type", bytes(Layer::Type, 0, 2), 16, Number),
        ("vlan.id", bytes(Layer::Vlan, 0, 2), 12, Number),
        ("ipv4.ttl", bytes(v4, 8, 1), 8, Number),
        ("ipv4.protocol", bytes(v4, 9, 1), 8, Number),
        ("ipv4.src", bytes(v4, 12, 4), 32, Ipv4),
        ("ipv4.dst", bytes(v4, 16, 4), 32, Ipv4),
        ("ipv6.next", bytes(v6, 6, 1), 8, Number),
        ("ipv6.hops", bytes(v6, 7, 1), 8, Number),
        ("ipv6.src", bytes(v6, 8, 16), 128, Ipv6),
        ("ipv6.dst", bytes(v6, 24, 16), 128, Ipv6),
        ("tcp.src", bytes(tcp, 0, 2), 16, Number),
        ("tcp.dst", bytes(tcp, 2, 2), 16, Number),
        ("udp.src", bytes(udp, 0, 2), 16, Number),
        ("udp.dst", bytes(udp, 2, 2), 16, Number),
    ];
    let named = all.into_iter().map(|(name, field, bits, notation)| Named {
        name,
        field,
        bits,
        notation,
    });
    named.collect()
}

/// Error: a text is not a packet filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Byte offset in the text.
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at character {})", self.what, self.at + 1)
    }
}

impl std::error::Error for FilterError {}
