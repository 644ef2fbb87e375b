//! The rules of a monitor, with an index if they are many.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bits::Value;
use table::{
    ActionRef, EntryAction, FieldMatch, Improved, KeyField, KeyShape, Lookup, MatchKind, NewEntry,
    Table, TableError, TableSpec,
};

use super::{Fact, ReportFacts, ReportRule, Term, address_bits, prefix_mask};

/// Rules that are tried one after the other, at most: an index is slower for so few.
const FEW_RULES: usize = 16;
/// Time of one step in which an index becomes faster.
const STEP: Duration = Duration::from_millis(10);
/// Width of the bits of facts that a report has.
const PRESENCE: u32 = 16;
/// Bits of facts, before those of [`Fact::ALL`].
const SOURCE_V4: u128 = 1;
const SOURCE_V6: u128 = 2;
const DESTINATION_V4: u128 = 4;
const DESTINATION_V6: u128 = 8;
const FIRST_NUMBER: usize = 4;
/// Limbs of a key: presence, two addresses, and the numbers.
const LIMBS: usize = 1 + 2 * 2 + Fact::ALL.len();

/// The rules of a monitor. A report concerns it if any of them matches.
pub(crate) struct RuleSet {
    rules: Vec<ReportRule>,
    index: Option<Arc<Lookup>>,
}

impl RuleSet {
    /// Creates the set, with an index if the rules are many.
    pub(crate) fn new(rules: &[ReportRule]) -> RuleSet {
        let index = (rules.len() > FEW_RULES).then(|| index(rules)).flatten();
        RuleSet {
            rules: rules.to_vec(),
            index,
        }
    }

    /// Returns whether a rule matches.
    #[inline]
    pub(crate) fn matches(&self, facts: &ReportFacts) -> bool {
        match &self.index {
            Some(index) => index.find(&key(facts)).is_some(),
            None => self.rules.iter().any(|rule| rule.matches(facts)),
        }
    }
}

/// Returns the index of rules. `None` if the table refuses one: then they are tried one after the
/// other.
fn index(rules: &[ReportRule]) -> Option<Arc<Lookup>> {
    let field = |width, kind| KeyField { width, kind };
    let addresses = [field(128, MatchKind::Ternary); 2];
    let numbers = Fact::ALL.map(|(_, fact)| field(fact.width(), MatchKind::Range));
    let fields = [field(PRESENCE, MatchKind::Ternary)];
    let shape = KeyShape::new(fields.into_iter().chain(addresses).chain(numbers));
    debug_assert_eq!(shape.limbs(), LIMBS);
    // The entry that is found does not matter.
    let action = EntryAction::Direct(ActionRef {
        action: 0,
        params: Box::default(),
    });
    let mut table = Table::new(TableSpec::new(shape, rules.len()), action.clone());
    for matches in rules.iter().filter_map(matches) {
        let mut entry = NewEntry::new(matches, action.clone());
        entry.priority = Some(1);
        match table.insert(entry, 0) {
            // A rule that is there twice is not missed.
            Ok(_) | Err(TableError::Duplicate(_)) => {}
            Err(_) => return None,
        }
    }
    while table.improve(STEP) != Improved::NoMore {}
    Some(table.snapshot())
}

/// Returns the matches of a rule: what all of its conditions have in common. `None` if that is
/// nothing.
fn matches(rule: &ReportRule) -> Option<Vec<FieldMatch>> {
    let mut presence = 0;
    let mut addresses = [(0, 0); 2];
    let mut numbers = Fact::ALL.map(|(_, fact)| (0, fact.most()));
    for term in &rule.terms {
        match term {
            Term::Source(network, length) | Term::Destination(network, length) => {
                let is_source = matches!(term, Term::Source(..));
                let bits = match (is_source, network) {
                    (true, IpAddr::V4(_)) => SOURCE_V4,
                    (true, IpAddr::V6(_)) => SOURCE_V6,
                    (false, IpAddr::V4(_)) => DESTINATION_V4,
                    (false, IpAddr::V6(_)) => DESTINATION_V6,
                };
                presence |= bits;
                let (value, mask) = &mut addresses[usize::from(!is_source)];
                let own = prefix_mask(*length);
                let bits = address_bits(*network) & own;
                if (*value ^ bits) & *mask & own != 0 {
                    return None;
                }
                (*value, *mask) = (*value | bits, *mask | own);
            }
            Term::Number(fact, range) => {
                presence |= 1 << (FIRST_NUMBER + *fact as usize);
                let (low, high) = &mut numbers[*fact as usize];
                (*low, *high) = ((*low).max(*range.start()), (*high).min(*range.end()));
                if low > high {
                    return None;
                }
            }
        }
    }
    let ternary = |width, (value, mask)| FieldMatch::Ternary {
        value: Value::truncated(value, width),
        mask: Value::truncated(mask, width),
    };
    let numbers = Fact::ALL.iter().zip(numbers);
    let numbers = numbers.map(|((_, fact), (low, high))| FieldMatch::Range {
        lo: Value::truncated(low.into(), fact.width()),
        hi: Value::truncated(high.into(), fact.width()),
    });
    let presence = [ternary(PRESENCE, (presence, presence))];
    let addresses = addresses.map(|address| ternary(128, address));
    Some(
        presence
            .into_iter()
            .chain(addresses)
            .chain(numbers)
            .collect(),
    )
}

/// Returns the key of a report. What it does not have is 0, and its bit, too.
#[inline]
fn key(facts: &ReportFacts) -> [u64; LIMBS] {
    let mut key = [0; LIMBS];
    let mut presence = 0;
    if let Some(flow) = facts.flow {
        let bits = [
            (flow.source, SOURCE_V4, SOURCE_V6, 1),
            (flow.destination, DESTINATION_V4, DESTINATION_V6, 3),
        ];
        for (address, v4, v6, at) in bits {
            presence |= if address.is_ipv4() { v4 } else { v6 };
            let bits = address_bits(address);
            (key[at], key[at + 1]) = (bits as u64, (bits >> 64) as u64);
        }
    }
    for (at, (_, fact)) in Fact::ALL.iter().enumerate() {
        if let Some(number) = fact.of(facts) {
            presence |= 1 << (FIRST_NUMBER + at);
            key[5 + at] = number.into();
        }
    }
    key[0] = presence as u64;
    key
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use support::rng::Rng;
    use telemetry::{FlowKey, IntNodeId, L4Ports};

    use super::*;

    fn address(rng: &mut Rng) -> IpAddr {
        let low = rng.index(4) as u8;
        match rng.index(3) {
            0 => Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(low)).into(),
            _ => Ipv4Addr::new(10, 0, low, rng.index(4) as u8).into(),
        }
    }

    fn rule(rng: &mut Rng) -> ReportRule {
        let mut text = String::new();
        for _ in 0..1 + rng.index(3) {
            let (low, span) = (rng.index(6), rng.index(3));
            text += &match rng.index(7) {
                0 | 1 => {
                    let fact = rng.pick(&["ip.src", "ip.dst"]).unwrap();
                    let address = address(rng);
                    let most = if address.is_ipv4() { 33 } else { 129 };
                    format!("{fact} {address}/{} ", rng.index(most))
                }
                2 => "any ".to_owned(),
                _ => {
                    let (fact, _) = rng.pick(&Fact::ALL).unwrap();
                    match rng.index(8) {
                        0 => format!("{fact} any "),
                        _ => format!("{fact} {low}..{} ", low + span),
                    }
                }
            };
        }
        ReportRule::parse(&text).unwrap()
    }

    fn facts(rng: &mut Rng) -> ReportFacts {
        let small = |rng: &mut Rng| rng.index(8) as u16;
        let flow = (!rng.one_in(8)).then(|| FlowKey {
            source: address(rng),
            destination: address(rng),
            protocol: small(rng) as u8,
            ports: (!rng.one_in(4)).then(|| L4Ports {
                source: small(rng),
                destination: small(rng),
            }),
        });
        ReportFacts {
            flow,
            node: (!rng.one_in(4)).then(|| IntNodeId(small(rng).into())),
            ingress_port: (!rng.one_in(4)).then(|| small(rng)),
            egress_port: (!rng.one_in(4)).then(|| small(rng)),
            queue: (!rng.one_in(2)).then(|| small(rng) as u8),
            drop_reason: (!rng.one_in(2)).then(|| small(rng) as u8),
        }
    }

    #[test]
    fn an_index_gives_what_the_rules_give_one_after_the_other() {
        let mut rng = Rng::new(3);
        let (mut found, mut all) = (0, 0);
        for _ in 0..60 {
            let count = FEW_RULES + 1 + rng.index(30);
            let rules: Vec<ReportRule> = (0..count)
                .map(|_| rule(&mut rng))
                // One that matches all hides the others.
                .filter(|rule| rule.terms.len() > 1)
                .collect();
            let indexed = RuleSet {
                index: Some(index(&rules).expect("the table takes all rules")),
                rules: rules.clone(),
            };
            for _ in 0..300 {
                let facts = facts(&mut rng);
                let expected = rules.iter().any(|rule| rule.matches(&facts));
                assert_eq!(indexed.matches(&facts), expected, "{facts:?} {rules:#?}");
                (found, all) = (found + u32::from(expected), all + 1);
            }
        }
        assert!(
            (all / 10..9 * all / 10).contains(&found),
            "{found} of {all}"
        );
    }
}
