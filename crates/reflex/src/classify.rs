//! Classification: the monitors that a report concerns.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use telemetry::{FlowKey, IntNodeId};

use crate::write;

/// Facts of a report that rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportFacts {
    /// Flow of the reported packet.
    pub flow: Option<FlowKey>,
    /// Node that sent the report.
    pub node: Option<IntNodeId>,
    /// Queue of the reported hop.
    pub queue: Option<u8>,
    /// Reason of a drop.
    pub drop_reason: Option<u8>,
}

/// Condition on one fact. A fact that the report does not have meets no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Source(Ipv4Addr, u8),
    Destination(Ipv4Addr, u8),
    Protocol(RangeInclusive<u32>),
    SourcePort(RangeInclusive<u32>),
    DestinationPort(RangeInclusive<u32>),
    Node(RangeInclusive<u32>),
    Queue(RangeInclusive<u32>),
    DropReason(RangeInclusive<u32>),
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
                 are ip.src, ip.dst, ip.protocol, l4.src, l4.dst, node, queue and drop_reason"
            }
            RuleError::Condition(..) => {
                "write a prefix, as in 10.0.1.0/24, for addresses; a number, a range, as in \
                 1..100, or any for the others"
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
            let make: fn(RangeInclusive<u32>) -> Term = match fact {
                "ip.src" | "ip.dst" => {
                    let word = words.next();
                    let word = word.ok_or_else(|| RuleError::NoCondition(fact.to_owned()))?;
                    let (address, length) = prefix(word)
                        .ok_or_else(|| RuleError::Condition(fact.to_owned(), word.to_owned()))?;
                    terms.push(match fact {
                        "ip.src" => Term::Source(address, length),
                        _ => Term::Destination(address, length),
                    });
                    continue;
                }
                "ip.protocol" => Term::Protocol,
                "l4.src" => Term::SourcePort,
                "l4.dst" => Term::DestinationPort,
                "node" => Term::Node,
                "queue" => Term::Queue,
                "drop_reason" => Term::DropReason,
                _ => return Err(RuleError::Fact(fact.to_owned())),
            };
            let word = words.next();
            let word = word.ok_or_else(|| RuleError::NoCondition(fact.to_owned()))?;
            let numbers = range(word)
                .ok_or_else(|| RuleError::Condition(fact.to_owned(), word.to_owned()))?;
            terms.push(make(numbers));
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
    fn holds(&self, facts: &ReportFacts) -> bool {
        let within = |range: &RangeInclusive<u32>, value: Option<u32>| {
            value.is_some_and(|value| range.contains(&value))
        };
        let flow = facts.flow;
        let ports = flow.and_then(|flow| flow.ports);
        match self {
            Term::Source(address, length) => {
                flow.is_some_and(|flow| is_in(flow.source, *address, *length))
            }
            Term::Destination(address, length) => {
                flow.is_some_and(|flow| is_in(flow.destination, *address, *length))
            }
            Term::Protocol(range) => within(range, flow.map(|flow| flow.protocol.into())),
            Term::SourcePort(range) => within(range, ports.map(|ports| ports.source.into())),
            Term::DestinationPort(range) => {
                within(range, ports.map(|ports| ports.destination.into()))
            }
            Term::Node(range) => within(range, facts.node.map(|node| node.0)),
            Term::Queue(range) => within(range, facts.queue.map(u32::from)),
            Term::DropReason(range) => within(range, facts.drop_reason.map(u32::from)),
        }
    }
}

fn is_in(address: IpAddr, network: Ipv4Addr, length: u8) -> bool {
    matches!(address, IpAddr::V4(address) if write::is_in(address, network, length))
}

/// Reads a prefix, as in 10.0.1.0/24, or an address.
pub(crate) fn prefix(word: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, length) = word.split_once('/').unwrap_or((word, "32"));
    let length = length.parse().ok().filter(|length| *length <= 32)?;
    Some((address.parse().ok()?, length))
}

fn range(word: &str) -> Option<RangeInclusive<u32>> {
    if word == "any" {
        return Some(0..=u32::MAX);
    }
    let (low, high) = word.split_once("..").unwrap_or((word, word));
    let range = low.parse().ok()?..=high.parse().ok()?;
    (!range.is_empty()).then_some(range)
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
