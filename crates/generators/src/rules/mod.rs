//! [`RuleSet`]: sets of rules over the five-tuple, and headers that match them.
//!
//! A set is defined by kind, size and seed, and is the same in every run. `profile` has the
//! statistics of the kinds. `generate` creates rules in three steps. It draws everything except
//! the addresses, it distributes the rules over a source and a destination address tree, and it
//! orders them so that no rule follows one that covers it.

mod filters;
mod generate;
mod profile;

pub use filters::FilterError;

use bits::Value;
use support::rng::Rng;

use crate::Pattern;

/// Kind of a rule set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Access control: long prefixes on both sides.
    Acl,
    /// Firewalls: often a wildcard on one side.
    Fw,
    /// IP chains: prefixes of medium length, ports on either side.
    Ipc,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Acl, Self::Fw, Self::Ipc];

    /// Returns its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acl => "acl",
            Self::Fw => "fw",
            Self::Ipc => "ipc",
        }
    }
}

/// Address distribution of a set larger than those that the statistics are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spread {
    /// The trees branch more, from the top, until all rules fit. This is ClassBench's scaling.
    Scaled,
    /// Several sets of the described size beside each other, so that each rule shares its
    /// addresses with many others.
    Copies,
}

/// An IPv4 prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// The address. The bits after the prefix are zero.
    pub address: u32,
    /// Prefix length, 0 to 32.
    pub len: u8,
}

impl Prefix {
    /// Returns the prefix of this length that contains `address`.
    pub fn new(address: u32, len: u8) -> Self {
        let address = address & Self::mask(len);
        Self { address, len }
    }

    fn mask(len: u8) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
    }

    /// Returns true if this prefix contains all addresses of `other`.
    pub fn covers(self, other: Self) -> bool {
        self.len <= other.len && other.address & Self::mask(self.len) == self.address
    }

    fn random(self, choices: &mut Rng) -> u32 {
        self.address | choices.bits() as u32 & !Self::mask(self.len)
    }

    fn pattern(self) -> Pattern {
        Pattern::Ternary {
            value: Value::truncated(self.address.into(), 32),
            mask: Value::prefix_mask(self.len.into(), 32),
        }
    }
}

/// A range of ports, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    /// Minimum.
    pub lo: u16,
    /// Maximum.
    pub hi: u16,
}

impl PortRange {
    /// All ports.
    pub const ANY: Self = Self {
        lo: 0,
        hi: u16::MAX,
    };

    /// Returns true if this range contains all ports of `other`.
    pub fn covers(self, other: Self) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    fn pattern(self) -> Pattern {
        Pattern::Range {
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
    /// The protocol. `None` matches any.
    pub protocol: Option<u8>,
}

/// Number of limbs of a key: one per field.
pub const KEY_LIMBS: usize = 5;

impl FiveTuple {
    /// The rule that matches everything.
    pub const ANY: Self = Self {
        source: Prefix { address: 0, len: 0 },
        destination: Prefix { address: 0, len: 0 },
        source_port: PortRange::ANY,
        destination_port: PortRange::ANY,
        protocol: None,
    };

    /// Returns the patterns of this rule's entry: addresses and protocol ternary, ports as ranges.
    pub fn patterns(&self) -> [Pattern; KEY_LIMBS] {
        let protocol = u128::from(self.protocol.unwrap_or(0));
        [
            self.source.pattern(),
            self.destination.pattern(),
            self.source_port.pattern(),
            self.destination_port.pattern(),
            Pattern::Ternary {
                value: Value::truncated(protocol, 8),
                mask: match self.protocol {
                    Some(_) => Value::all_ones(8),
                    None => Value::zero(8),
                },
            },
        ]
    }

    /// Returns true if this rule matches everything that `other` matches.
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

    /// Returns a uniformly random header that the rule matches, as the limbs of a key.
    pub fn random_header(&self, choices: &mut Rng) -> [u64; KEY_LIMBS] {
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

/// An ordered list of rules. The first matching rule wins.
#[derive(Debug, Clone)]
pub struct RuleSet {
    rules: Vec<FiveTuple>,
}

impl RuleSet {
    /// Generates the set of this kind, size and seed. All rules are different. The set is smaller
    /// if the kind does not have enough different rules.
    pub fn generate(kind: Kind, spread: Spread, rules: usize, seed: u64) -> Self {
        Self {
            rules: generate::rules(kind, spread, rules, seed),
        }
    }

    /// Returns the rules in order.
    pub fn rules(&self) -> &[FiveTuple] {
        &self.rules
    }

    /// Returns the rules with their priorities, which descend in rule order; the largest wins.
    pub fn prioritized(&self) -> impl ExactSizeIterator<Item = (i32, &FiveTuple)> {
        let count = self.rules.len();
        let priority = move |i| i32::try_from(count - i).unwrap_or(i32::MAX);
        let numbered = self.rules.iter().enumerate();
        numbered.map(move |(i, rule)| (priority(i), rule))
    }

    /// Returns a uniform trace of `headers` headers, of `KEY_LIMBS` limbs each. Each is a random
    /// header of a random rule.
    pub fn trace(&self, headers: usize, seed: u64) -> Vec<u64> {
        let mut choices = Rng::new(seed);
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
