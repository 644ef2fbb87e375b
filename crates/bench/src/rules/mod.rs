//! [`RuleSet`]: sets of rules over the five-tuple, and headers that they match.
//!
//! A set is a kind, a size and a seed, and the same in every run. `profile` says what the kinds look like, `generate` makes rules from
//! it in three steps: what each rule matches but for addresses; addresses, by splitting the rules over a source tree and a destination
//! tree; and an order in which no rule stands behind one that covers it.

mod generate;
mod profile;

use crate::Choices;
use bits::Value;
use table::{EntryAction, FieldMatch, KeyField, KeyShape, MatchKind, NewEntry};

/// What a rule set is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Access control: long prefixes on both sides.
    Acl,
    /// Firewalls: one side often free.
    Fw,
    /// IP chains: prefixes of middle lengths, ports on either side.
    Ipc,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Acl, Self::Fw, Self::Ipc];

    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acl => "acl",
            Self::Fw => "fw",
            Self::Ipc => "ipc",
        }
    }
}

/// How addresses of a set that is larger than the ones that the statistics are from spread out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spread {
    /// The trees branch more, from the top, until each rule has room; as ClassBench scales sets.
    Scaled,
    /// The set is many sets of the described size beside each other, so that rules share their addresses with many others.
    Copies,
}

/// An IPv4 prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The address, with zeros behind the prefix.
    pub address: u32,
    /// Its length, 0 to 32.
    pub len: u8,
}

impl Prefix {
    /// The prefix of this length that `address` lies in.
    pub fn new(address: u32, len: u8) -> Self {
        let address = address & Self::mask(len);
        Self { address, len }
    }

    fn mask(len: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
    }

    /// Whether all addresses of `other` lie in this one.
    pub fn covers(self, other: Self) -> bool {
        self.len <= other.len && other.address & Self::mask(self.len) == self.address
    }

    fn random(self, choices: &mut Choices) -> u32 {
        self.address | choices.bits() as u32 & !Self::mask(self.len)
    }

    fn to_match(self) -> FieldMatch {
        FieldMatch::Ternary {
            value: Value::truncated(self.address.into(), 32),
            mask: Value::prefix_mask(self.len.into(), 32),
        }
    }
}

/// A range of ports, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    /// The least.
    pub lo: u16,
    /// The greatest.
    pub hi: u16,
}

impl PortRange {
    /// All ports.
    pub const ANY: Self = Self {
        lo: 0,
        hi: u16::MAX,
    };

    /// Whether all ports of `other` lie in this one.
    pub fn covers(self, other: Self) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    fn to_match(self) -> FieldMatch {
        FieldMatch::Range {
            lo: Value::truncated(self.lo.into(), 16),
            hi: Value::truncated(self.hi.into(), 16),
        }
    }
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FiveTuple {
    /// The source address.
    pub source: Prefix,
    /// The destination address.
    pub destination: Prefix,
    /// The source port.
    pub source_port: PortRange,
    /// The destination port.
    pub destination_port: PortRange,
    /// The protocol; `None` is any.
    pub protocol: Option<u8>,
}

/// Limbs of a key: each field has one.
pub const KEY_LIMBS: usize = 5;

impl FiveTuple {
    /// The key that rules match: addresses and protocol ternary, ports as ranges.
    pub fn shape() -> KeyShape {
        use MatchKind::{Range, Ternary};
        let fields = [
            (32, Ternary),
            (32, Ternary),
            (16, Range),
            (16, Range),
            (8, Ternary),
        ];
        KeyShape::new(fields.map(|(width, kind)| KeyField { width, kind }))
    }

    /// The match of an entry for this rule.
    pub fn matches(&self) -> Vec<FieldMatch> {
        let protocol = u128::from(self.protocol.unwrap_or(0));
        vec![
            self.source.to_match(),
            self.destination.to_match(),
            self.source_port.to_match(),
            self.destination_port.to_match(),
            FieldMatch::Ternary {
                value: Value::truncated(protocol, 8),
                mask: match self.protocol {
                    Some(_) => Value::all_ones(8),
                    None => Value::zero(8),
                },
            },
        ]
    }

    /// Whether it matches all that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        self.source.covers(other.source)
            && self.destination.covers(other.destination)
            && self.covers_application(other)
    }

    fn covers_application(&self, other: &Self) -> bool {
        self.source_port.covers(other.source_port)
            && self.destination_port.covers(other.destination_port)
            && (self.protocol.is_none() || self.protocol == other.protocol)
    }

    /// A header that it matches, each with the same probability, as the limbs of a key.
    pub fn random_header(&self, choices: &mut Choices) -> [u64; KEY_LIMBS] {
        let mut port = |range: PortRange| choices.between(u64::from(range.lo), u64::from(range.hi));
        let ports = [port(self.source_port), port(self.destination_port)];
        let protocol = match self.protocol {
            Some(number) => u64::from(number),
            None => choices.below(256),
        };
        [
            u64::from(self.source.random(choices)),
            u64::from(self.destination.random(choices)),
            ports[0],
            ports[1],
            protocol,
        ]
    }
}

/// Rules, the first of those that match wins.
#[derive(Debug, Clone)]
pub struct RuleSet {
    rules: Vec<FiveTuple>,
}

impl RuleSet {
    /// The set of this kind, size and seed. No two rules are the same; where a kind does not have so many different ones, there are
    /// fewer.
    pub fn generate(kind: Kind, spread: Spread, rules: usize, seed: u64) -> Self {
        Self {
            rules: generate::rules(kind, spread, rules, seed),
        }
    }

    /// The rules in order.
    pub fn rules(&self) -> &[FiveTuple] {
        &self.rules
    }

    /// Entries for a table with the key [`FiveTuple::shape`] in which the largest priority wins, in order.
    pub fn entries(
        &self,
        action: impl Fn(usize) -> EntryAction,
    ) -> impl ExactSizeIterator<Item = NewEntry> {
        let count = self.rules.len();
        self.rules
            .iter()
            .enumerate()
            .map(move |(i, rule)| NewEntry {
                priority: i32::try_from(count - i).ok(),
                ..NewEntry::new(rule.matches(), action(i))
            })
    }

    /// The uniform trace: a rule, each with the same probability, and a header in its box, likewise; `KEY_LIMBS` limbs a header.
    pub fn trace(&self, headers: usize, seed: u64) -> Vec<u64> {
        let mut choices = Choices::new(seed);
        let mut trace = Vec::with_capacity(headers * KEY_LIMBS);
        for _ in 0..headers {
            let which = choices.below(self.rules.len() as u64) as usize;
            if let Some(rule) = self.rules.get(which) {
                trace.extend(rule.random_header(&mut choices));
            }
        }
        trace
    }
}
