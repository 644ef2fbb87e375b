//! Generated rules and routes as entries of tables, for tests and benchmarks.
#![allow(dead_code, reason = "each test and benchmark uses a part")]

use generators::{FiveTuple, Pattern, RoutingTable, RuleSet};
use table::{EntryAction, FieldMatch, KeyField, KeyShape, MatchKind, NewEntry};

/// Returns the key of rule tables.
pub(crate) fn rule_shape() -> KeyShape {
    KeyShape::new(FiveTuple::ANY.patterns().map(key_field))
}

/// Returns the entries of a rule set.
pub(crate) fn rule_entries(
    set: &RuleSet,
    action: impl Fn(usize) -> EntryAction,
) -> impl ExactSizeIterator<Item = NewEntry> {
    let entry = move |(number, (priority, rule)): (usize, (i32, &FiveTuple))| NewEntry {
        priority: Some(priority),
        ..NewEntry::new(rule.patterns().map(field_match).into(), action(number))
    };
    set.prioritized().enumerate().map(entry)
}

/// Returns the key of a routing table.
pub(crate) fn route_shape(table: &RoutingTable) -> KeyShape {
    KeyShape::new([key_field(table.default_route())])
}

/// Returns the entries of a routing table.
pub(crate) fn route_entries(
    table: &RoutingTable,
    action: EntryAction,
) -> impl ExactSizeIterator<Item = NewEntry> {
    let routes = table.routes().iter();
    let matches = |&route| vec![field_match(table.pattern(route))];
    routes.map(move |route| NewEntry::new(matches(route), action.clone()))
}

fn key_field(pattern: Pattern) -> KeyField {
    KeyField {
        width: pattern.width(),
        kind: match pattern {
            Pattern::Prefix { .. } => MatchKind::Lpm,
            Pattern::Ternary { .. } => MatchKind::Ternary,
            Pattern::Range { .. } => MatchKind::Range,
        },
    }
}

fn field_match(pattern: Pattern) -> FieldMatch {
    match pattern {
        Pattern::Prefix { value, len } => FieldMatch::Lpm {
            value,
            prefix_len: len,
        },
        Pattern::Ternary { value, mask } => FieldMatch::Ternary { value, mask },
        Pattern::Range { lo, hi } => FieldMatch::Range { lo, hi },
    }
}
