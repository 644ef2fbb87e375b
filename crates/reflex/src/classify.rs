//! Classification: the monitors that a report concerns.

mod rule_index;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use telemetry::{FlowKey, IntNodeId};

pub(crate) use rule_index::RuleSet;

/// Facts of a report that rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportFacts {
    /// Flow of the reported packet.
    pub flow: Option<FlowKey>,
    /// Node that sent the report.
    pub node: Option<IntNodeId>,
    /// Port of the reported hop at which the packet arrived.
    pub ingress_port: Option<u16>,
    /// Port of the reported hop by which the packet left.
    pub egress_port: Option<u16>,
    /// Queue of the reported hop.
    pub queue: Option<u8>,
    /// Reason of a drop.
    pub drop_reason: Option<u8>,
}

/// Condition on one fact. A fact that the report does not have meets no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Source(IpAddr, u8),
    Destination(IpAddr, u8),
    Number(Fact, RangeInclusive<u32>),
}

/// Fact that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Protocol,
    SourcePort,
    DestinationPort,
    Node,
    IngressPort,
    EgressPort,
    Queue,
    DropReason,
}

impl Fact {
    /// All of them with their names in rules.
    const ALL: [(&'static str, Fact); 8] = [
        ("ip.protocol", Fact::Protocol),
        ("l4.src", Fact::SourcePort),
        ("l4.dst", Fact::DestinationPort),
        ("node", Fact::Node),
        ("ingress_port", Fact::IngressPort),
        ("egress_port", Fact::EgressPort),
        ("queue", Fact::Queue),
        ("drop_reason", Fact::DropReason),
    ];

    /// Returns its width in bits.
    fn width(self) -> u32 {
        match self {
            Fact::Protocol | Fact::Queue | Fact::DropReason => 8,
            Fact::SourcePort | Fact::DestinationPort | Fact::IngressPort | Fact::EgressPort => 16,
            Fact::Node => 32,
        }
    }

    /// Returns its largest number.
    fn most(self) -> u32 {
        u32::MAX >> (32 - self.width())
    }

    /// Returns its number in a report.
    #[inline]
    fn of(self, facts: &ReportFacts) -> Option<u32> {
        let ports = || facts.flow.and_then(|flow| flow.ports);
        match self {
            Fact::Protocol => facts.flow.map(|flow| flow.protocol.into()),
            Fact::SourcePort => ports().map(|ports| ports.source.into()),
            Fact::DestinationPort => ports().map(|ports| ports.destination.into()),
            Fact::Node => facts.node.map(|node| node.0),
            Fact::IngressPort => facts.ingress_port.map(u32::from),
            Fact::EgressPort => facts.egress_port.map(u32::from),
            Fact::Queue => facts.queue.map(u32::from),
            Fact::DropReason => facts.drop_reason.map(u32::from),
        }
    }
}

/// A rule: conditions that all must hold. One without conditions, `any`, matches all reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRule {
    terms: Vec<Term>,
    text: String,
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// A fact is not known.
    Fact(String),
    /// A fact has no condition after it.
    NoCondition(String),
    /// A condition is none for its fact.
    Condition(String, String),
}

impl RuleError {
    /// Returns a hint how to correct the rule.
    pub fn mend(&self) -> &'static str {
        match self {
            RuleError::Fact(_) | RuleError::NoCondition(_) => {
                "write facts and conditions, as in \"ip.src 10.0.1.0/24 l4.dst 5000..6000\"; facts \
                 are ip.src, ip.dst, ip.protocol, l4.src, l4.dst, node, ingress_port, egress_port, \
                 queue and drop_reason"
            }
            RuleError::Condition(..) => {
                "write a prefix, as in 10.0.1.0/24 or 2001:db8::/32, for addresses; a number, a \
                 range, as in 1..100, or any for the others: node has 32 bits, ports have 16, \
                 ip.protocol, queue and drop_reason 8"
            }
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Fact(word) => write!(f, "\"{word}\" is no fact of a report"),
            RuleError::NoCondition(word) => write!(f, "{word} has no condition"),
            RuleError::Condition(fact, word) => {
                write!(f, "\"{word}\" is no condition for {fact}")
            }
        }
    }
}

impl std::error::Error for RuleError {}

impl ReportRule {
    /// Reads a rule.
    ///
    /// # Errors
    /// A fact or a condition is not understood.
    pub fn parse(text: &str) -> Result<ReportRule, RuleError> {
        let mut words = text.split_whitespace();
        let mut terms = Vec::new();
        while let Some(fact) = words.next() {
            if fact == "any" {
                continue;
            }
            let number = Fact::ALL.iter().find(|(name, _)| *name == fact);
            if number.is_none() && !["ip.src", "ip.dst"].contains(&fact) {
                return Err(RuleError::Fact(fact.to_owned()));
            }
            let word = words.next();
            let word = word.ok_or_else(|| RuleError::NoCondition(fact.to_owned()))?;
            let term = match number {
                Some((_, number)) => {
                    range(word, number.most()).map(|range| Term::Number(*number, range))
                }
                None => any_prefix(word).map(|(address, length)| match fact {
                    "ip.src" => Term::Source(address, length),
                    _ => Term::Destination(address, length),
                }),
            };
            let error = || RuleError::Condition(fact.to_owned(), word.to_owned());
            terms.push(term.ok_or_else(error)?);
        }
        Ok(ReportRule {
            terms,
            text: text.to_owned(),
        })
    }

    /// Returns whether a report meets all conditions.
    #[inline]
    pub fn matches(&self, facts: &ReportFacts) -> bool {
        self.terms.iter().all(|term| term.holds(facts))
    }
}

impl fmt::Display for ReportRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Term {
    #[inline]
    fn holds(&self, facts: &ReportFacts) -> bool {
        match self {
            Term::Source(network, length) => {
                let flow = facts.flow;
                flow.is_some_and(|flow| is_in(flow.source, *network, *length))
            }
            Term::Destination(network, length) => {
                let flow = facts.flow;
                flow.is_some_and(|flow| is_in(flow.destination, *network, *length))
            }
            Term::Number(fact, range) => {
                let number = fact.of(facts);
                number.is_some_and(|number| range.contains(&number))
            }
        }
    }
}

/// Returns an address as 128 bits, an IPv4 address in the upper ones: a prefix has the same length.
fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns the mask of a prefix.
fn prefix_mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// Returns whether a network has an address.
#[inline]
fn is_in(address: IpAddr, network: IpAddr, length: u8) -> bool {
    let differ = address_bits(address) ^ address_bits(network);
    address.is_ipv4() == network.is_ipv4() && differ & prefix_mask(length) == 0
}

/// Reads a prefix of IPv4, as in 10.0.1.0/24, or an address.
pub(crate) fn prefix(word: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, length) = word.split_once('/').unwrap_or((word, "32"));
    let length = length.parse().ok().filter(|length| *length <= 32)?;
    Some((address.parse().ok()?, length))
}

/// Reads a prefix of IPv4 or IPv6, or an address.
fn any_prefix(word: &str) -> Option<(IpAddr, u8)> {
    if let Some((address, length)) = prefix(word) {
        return Some((address.into(), length));
    }
    let (address, length) = word.split_once('/').unwrap_or((word, "128"));
    let length = length.parse().ok().filter(|length| *length <= 128)?;
    let address: Ipv6Addr = address.parse().ok()?;
    Some((address.into(), length))
}

/// Reads a number, a range or `any`, up to the largest number.
fn range(word: &str, most: u32) -> Option<RangeInclusive<u32>> {
    if word == "any" {
        return Some(0..=most);
    }
    let (low, high) = word.split_once("..").unwrap_or((word, word));
    let range = low.parse().ok()?..=high.parse().ok()?;
    (!range.is_empty() && *range.end() <= most).then_some(range)
}

#[cfg(test)]
mod tests {
    use telemetry::L4Ports;

    use super::*;

    #[test]
    fn a_rule_matches_reports_that_meet_all_of_its_conditions() {
        let flow = FlowKey {
            source: Ipv4Addr::new(10, 0, 1, 7).into(),
            destination: Ipv4Addr::new(10, 0, 2, 9).into(),
            protocol: 17,
            ports: Some(L4Ports {
                source: 1000,
                destination: 5000,
            }),
        };
        let facts = ReportFacts {
            flow: Some(flow),
            node: Some(IntNodeId(7)),
            ingress_port: Some(1),
            egress_port: Some(500),
            queue: Some(3),
            drop_reason: None,
        };
        for (text, expected) in [
            ("any", true),
            ("", true),
            ("ip.src 10.0.1.0/24", true),
            ("ip.src 10.0.1.0/24 ip.dst 10.0.2.9", true),
            ("ip.src 10.0.0.0/24", false),
            ("ip.src 0.0.0.0/0 l4.dst 4000..5000", true),
            ("l4.dst 5001..6000", false),
            ("l4.src any ip.protocol 17 queue 3 node 1..7", true),
            ("drop_reason any", false),
            ("any node 8", false),
            ("ingress_port 1 egress_port 400..600", true),
            ("ingress_port 2", false),
            ("ip.src ::/0", false),
        ] {
            assert_eq!(
                ReportRule::parse(text).unwrap().matches(&facts),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_rule_that_is_not_understood_is_an_error_with_a_hint() {
        for (text, expected) in [
            ("colour red", "\"colour\" is no fact of a report"),
            ("node", "node has no condition"),
            ("node 9..1", "\"9..1\" is no condition for node"),
            ("queue -1", "\"-1\" is no condition for queue"),
            ("queue 256", "\"256\" is no condition for queue"),
            ("l4.dst 1..65536", "\"1..65536\" is no condition for l4.dst"),
            (
                "ip.dst 2001:db8::/129",
                "\"2001:db8::/129\" is no condition for ip.dst",
            ),
            ("ip.src", "ip.src has no condition"),
            (
                "ip.src 10.0.0.0/33",
                "\"10.0.0.0/33\" is no condition for ip.src",
            ),
        ] {
            let error = ReportRule::parse(text).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(!error.mend().is_empty());
        }
    }
}
