//! Tests of the ternary engine on rule sets of realistic sizes and shapes. It must return the first
//! matching rule while rules are inserted and removed.

mod generated;

use bits::Value;
use generated::{rule_entries, rule_shape};
use generators::rules::KEY_LIMBS;
use generators::{Kind, RuleSet, Spread};
use std::sync::Arc;
use std::time::Duration;
use support::rng::Rng;
use table::{
    ActionRef, EntryAction, EntryId, FieldMatch, Improved, KeyField, KeyShape, Lookup, MatchKind,
    NewEntry, Table, TableSpec,
};

fn direct(action: usize) -> EntryAction {
    EntryAction::Direct(ActionRef {
        action: action as u32,
        params: [].into(),
    })
}

fn action(lookup: &Lookup, found: Option<table::EntryIdx>) -> Option<usize> {
    found.map(|idx| match &lookup.entry(idx).action {
        EntryAction::Direct(action) => action.action as usize,
        other => panic!("{other:?}"),
    })
}

/// Compares single lookups, and batches of uneven sizes, with the model.
fn check(lookup: &Lookup, keys: &[u64], limbs: usize, model: impl Fn(&[u64]) -> Option<usize>) {
    let keys: Vec<&[u64]> = keys.chunks(limbs).collect();
    for (size, keys) in (1..).step_by(13).zip(keys.chunks(97)) {
        for keys in keys.chunks(size) {
            let mut out = vec![None; keys.len()];
            lookup.find_batch(&keys.concat(), &mut out);
            for (key, out) in keys.iter().zip(out) {
                let expected = model(key);
                assert_eq!(
                    action(lookup, out),
                    expected,
                    "in a batch of {size}: {key:?}"
                );
                assert_eq!(action(lookup, lookup.find(key)), expected, "{key:?}");
            }
        }
    }
}

/// Returns headers that match rules. A third of them have one bit inverted.
fn headers(set: &RuleSet, count: usize, seed: u64) -> Vec<u64> {
    let mut keys = set.trace(count, seed);
    let mut choices = Rng::new(seed);
    for header in keys.chunks_mut(KEY_LIMBS * 3) {
        let field = choices.below(KEY_LIMBS as u64) as usize;
        header[field] ^= 1 << choices.below(8);
    }
    keys
}

/// Rules in order, of which some are in the table.
struct Rules {
    shape: KeyShape,
    matches: Vec<Vec<FieldMatch>>,
    present: Vec<Option<EntryId>>,
}

impl Rules {
    fn of(entries: &[NewEntry]) -> Self {
        Self {
            shape: rule_shape(),
            matches: entries.iter().map(|entry| entry.matches.clone()).collect(),
            present: vec![None; entries.len()],
        }
    }

    fn model(&self, key: &[u64]) -> Option<usize> {
        let mut rules = self.matches.iter().zip(&self.present);
        rules.position(|(matches, present)| present.is_some() && self.shape.matches(matches, key))
    }
}

fn table(capacity: usize) -> Table {
    Table::new(TableSpec::new(rule_shape(), capacity), direct(0))
}

fn rules_come_and_go(kind: Kind, spread: Spread, count: usize) {
    let set = RuleSet::generate(kind, spread, count, 1);
    let entries: Vec<NewEntry> = rule_entries(&set, direct).collect();
    let mut table = table(count);
    let mut rules = Rules::of(&entries);
    // Two thirds at once, the others one by one between removals.
    for (entry, present) in entries[..count * 2 / 3].iter().zip(&mut rules.present) {
        *present = Some(table.insert(entry.clone(), 0).unwrap());
    }
    let held = table.snapshot();
    check(&held, &headers(&set, 300, 1), KEY_LIMBS, |key| {
        rules.model(key)
    });
    let before = rules.present.clone();
    let mut choices = Rng::new(2);
    for (rule, entry) in entries.iter().enumerate().skip(count * 2 / 3) {
        rules.present[rule] = Some(table.insert(entry.clone(), 0).unwrap());
        let gone = choices.below(rule as u64) as usize;
        if let Some(id) = rules.present[gone].take() {
            table.delete(id).unwrap();
        }
        // An index may be built while rules change, and may be used or not.
        table.improve(Duration::ZERO);
        if rule % 5 == 0 {
            table.snapshot();
        }
    }
    let keys = headers(&set, 300, 2);
    check(&table.snapshot(), &keys, KEY_LIMBS, |key| rules.model(key));
    while table.improve(Duration::MAX) != Improved::NoMore {}
    check(&table.snapshot(), &keys, KEY_LIMBS, |key| rules.model(key));
    rules.present = before;
    check(&held, &keys, KEY_LIMBS, |key| rules.model(key));
}

#[test]
fn access_control_lists_keep_their_meaning_while_rules_come_and_go() {
    rules_come_and_go(Kind::Acl, Spread::Scaled, 900);
    rules_come_and_go(Kind::Acl, Spread::Copies, 900);
    // A rule set of this size uses cells.
    rules_come_and_go(Kind::Acl, Spread::Scaled, 2400);
}

#[test]
fn firewalls_keep_their_meaning_while_rules_come_and_go() {
    rules_come_and_go(Kind::Fw, Spread::Scaled, 900);
    rules_come_and_go(Kind::Fw, Spread::Copies, 900);
}

#[test]
fn ip_chains_keep_their_meaning_while_rules_come_and_go() {
    rules_come_and_go(Kind::Ipc, Spread::Scaled, 900);
    rules_come_and_go(Kind::Ipc, Spread::Copies, 900);
}

#[test]
fn a_table_that_shrinks_to_nothing_finds_what_is_left() {
    let set = RuleSet::generate(Kind::Acl, Spread::Copies, 300, 4);
    let entries: Vec<NewEntry> = rule_entries(&set, direct).collect();
    let mut table = table(300);
    let mut rules = Rules::of(&entries);
    for (entry, present) in entries.iter().zip(&mut rules.present) {
        *present = Some(table.insert(entry.clone(), 0).unwrap());
    }
    let keys = headers(&set, 100, 3);
    for rule in (0..300).rev() {
        if let Some(id) = rules.present[rule].take() {
            table.delete(id).unwrap();
        }
        if rule % 23 == 0 {
            check(&table.snapshot(), &keys, KEY_LIMBS, |key| rules.model(key));
        }
    }
}

/// Returns a number with few different limbs, so that the upper ones are often equal and the lower
/// ones decide.
fn value(choices: &mut Rng, width: u32) -> Value {
    let limbs = width.div_ceil(64);
    let limbs: Vec<u64> = (0..limbs).map(|_| choices.below(3)).collect();
    Value::from_limbs(&limbs, width)
}

fn field_match(choices: &mut Rng, field: &KeyField) -> FieldMatch {
    if let Some(any) = FieldMatch::any(field)
        && choices.per_mille(250)
    {
        return any;
    }
    let (a, b) = (value(choices, field.width), value(choices, field.width));
    let matched = match field.kind {
        MatchKind::Exact => FieldMatch::Exact(a),
        MatchKind::Lpm => FieldMatch::Lpm {
            value: a,
            prefix_len: choices.below(field.width.into()) as u32,
        },
        MatchKind::Ternary => FieldMatch::Ternary { value: a, mask: b },
        MatchKind::Optional => FieldMatch::Optional(Some(a)),
        MatchKind::Range if a <= b => FieldMatch::Range { lo: a, hi: b },
        MatchKind::Range | MatchKind::SignedRange => FieldMatch::Range { lo: b, hi: a },
    };
    matched.canonical()
}

#[test]
fn long_keys_and_wide_ranges_are_matched_in_full() {
    // 1072 bits: too long to be packed.
    let fields = [
        (512, MatchKind::Range),
        (65, MatchKind::Range),
        (128, MatchKind::Ternary),
        (16, MatchKind::Optional),
        (128, MatchKind::Range),
        (200, MatchKind::Ternary),
        (23, MatchKind::Optional),
    ];
    let shape = KeyShape::new(fields.map(|(width, kind)| KeyField { width, kind }));
    let mut choices = Rng::new(8);
    let mut table = Table::new(TableSpec::new(shape.clone(), 500), direct(0));
    let mut rules: Vec<Vec<FieldMatch>> = Vec::new();
    while rules.len() < 300 {
        let fields = shape.fields().iter();
        let matches: Vec<_> = fields
            .map(|field| field_match(&mut choices, field))
            .collect();
        let new = NewEntry {
            priority: Some(1000 - rules.len() as i32),
            ..NewEntry::new(matches.clone(), direct(rules.len()))
        };
        table.insert(new, 0).unwrap();
        rules.push(matches);
    }
    let mut keys = Vec::new();
    for _ in 0..600 {
        for field in shape.fields() {
            keys.extend_from_slice(value(&mut choices, field.width).limbs());
        }
    }
    let lookup: Arc<Lookup> = table.snapshot();
    let model = |key: &[u64]| rules.iter().position(|rule| shape.matches(rule, key));
    let hits = keys
        .chunks(shape.limbs())
        .filter(|key| model(key).is_some());
    let hits = hits.count();
    assert!((100..590).contains(&hits), "{hits} of 600 keys hit");
    check(&lookup, &keys, shape.limbs(), model);
}
