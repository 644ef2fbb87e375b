//! Tests of the properties of rule sets.

use std::collections::HashSet;

use bits::Value;
use generators::rules::KEY_LIMBS;
use generators::{FiveTuple, Kind, Pattern, PortRange, Prefix, RuleSet, Spread};
use support::rng::Rng;

const SPREADS: [Spread; 2] = [Spread::Scaled, Spread::Copies];

#[test]
fn a_set_is_the_same_in_every_run_and_differs_by_seed() {
    for kind in Kind::ALL {
        let rules = |seed| {
            RuleSet::generate(kind, Spread::Scaled, 500, seed)
                .rules()
                .to_vec()
        };
        assert_eq!(rules(1), rules(1));
        assert_ne!(rules(1), rules(2));
    }
}

#[test]
fn sets_have_the_size_asked_for_without_repetition() {
    for kind in Kind::ALL {
        for spread in SPREADS {
            for size in [1, 10, 1000, 5000] {
                let set = RuleSet::generate(kind, spread, size, 7);
                assert_eq!(set.rules().len(), size, "{kind:?} {spread:?}");
                let different: HashSet<_> = set.rules().iter().collect();
                assert_eq!(different.len(), size);
            }
        }
    }
}

#[test]
fn no_rule_stands_behind_one_that_covers_it() {
    for kind in Kind::ALL {
        for spread in SPREADS {
            let set = RuleSet::generate(kind, spread, 2000, 3);
            let mut nested = 0;
            for (i, rule) in set.rules().iter().enumerate() {
                assert!(!set.rules()[..i].iter().any(|before| before.covers(rule)));
                nested += usize::from(set.rules()[i + 1..].iter().any(|r| r.covers(rule)));
            }
            assert!(nested > 0, "{kind:?} {spread:?}: nothing overlaps");
        }
    }
}

/// Returns true if a header, of one limb a field, matches the patterns.
fn is_matched(patterns: &[Pattern; KEY_LIMBS], header: &[u64]) -> bool {
    let mut fields = patterns.iter().zip(header);
    fields.all(|(pattern, limb)| {
        let field = Value::truncated((*limb).into(), pattern.width());
        match pattern {
            Pattern::Prefix { .. } => panic!("no field of a rule is a prefix"),
            Pattern::Ternary { value, mask } => {
                field.limbs()[0] & mask.limbs()[0] == value.limbs()[0]
            }
            Pattern::Range { lo, hi } => *lo <= field && field <= *hi,
        }
    })
}

#[test]
fn prefixes_and_ranges_are_well_formed() {
    for kind in Kind::ALL {
        let set = RuleSet::generate(kind, Spread::Scaled, 3000, 11);
        for rule in set.rules() {
            for prefix in [rule.source, rule.destination] {
                assert_eq!(prefix, Prefix::new(prefix.address, prefix.len));
            }
            for range in [rule.source_port, rule.destination_port] {
                assert!(range.lo <= range.hi, "{rule:?}");
            }
        }
    }
}

#[test]
fn priorities_descend_to_one() {
    let set = RuleSet::generate(Kind::Fw, Spread::Scaled, 50, 2);
    let priorities: Vec<i32> = set.prioritized().map(|(priority, _)| priority).collect();
    assert_eq!(priorities, (1..=50).rev().collect::<Vec<_>>());
}

#[test]
fn headers_of_the_trace_match_their_rules() {
    let set = RuleSet::generate(Kind::Ipc, Spread::Copies, 300, 5);
    let mut choices = Rng::new(9);
    for rule in set.rules() {
        let header = rule.random_header(&mut choices);
        assert!(is_matched(&rule.patterns(), &header));
        assert!(is_matched(&FiveTuple::ANY.patterns(), &header));
    }
    let trace = set.trace(1000, 1);
    assert_eq!(trace.len(), 1000 * KEY_LIMBS);
    for header in trace.chunks(KEY_LIMBS) {
        let mut rules = set.rules().iter();
        assert!(rules.any(|rule| is_matched(&rule.patterns(), header)));
    }
}

#[test]
fn covering_is_what_boxes_do() {
    let rule = FiveTuple {
        source: Prefix::new(0x0a00_0000, 8),
        destination: Prefix::new(0, 0),
        source_port: PortRange::ANY,
        destination_port: PortRange { lo: 80, hi: 90 },
        protocol: None,
    };
    let inside = FiveTuple {
        source: Prefix::new(0x0a01_0000, 16),
        destination_port: PortRange { lo: 80, hi: 80 },
        protocol: Some(6),
        ..rule
    };
    assert!(rule.covers(&inside) && rule.covers(&rule) && !inside.covers(&rule));
    let beside = FiveTuple {
        source: Prefix::new(0x0b00_0000, 16),
        ..inside
    };
    assert!(!rule.covers(&beside));
}

#[test]
fn kinds_differ_in_what_tells_them_apart() {
    let share = |kind, holds: fn(&FiveTuple) -> bool| {
        let set = RuleSet::generate(kind, Spread::Scaled, 4000, 1);
        set.rules().iter().filter(|rule| holds(rule)).count() as f64 / 4000.0
    };
    let long = |rule: &FiveTuple| rule.source.len > 20 && rule.destination.len > 20;
    assert!(share(Kind::Acl, long) > 0.75);
    assert!(share(Kind::Fw, long) < 0.4);
    let free_source_port = |rule: &FiveTuple| rule.source_port == PortRange::ANY;
    assert_eq!(share(Kind::Acl, free_source_port), 1.0);
    assert!(share(Kind::Ipc, free_source_port) < 0.95);
}
