//! Classifier images: the program `examples/nanopu/classifier.c` on the model of the nanoPU finds
//! in an image what a lookup in the table finds.

use std::sync::Arc;

use bits::Value;
use generators::{FiveTuple, Kind, Pattern, RuleSet, Spread};
use nanopu::{CoreState, CostTable, Image, Output, RpcMessage, SingleCore};
use proptest::prelude::*;
use support::rng::Rng;
use table::{
    ActionRef, EntryAction, ExportError, FieldMatch, KeyField, KeyShape, Lookup, MatchKind,
    NewEntry, Table, TableSpec,
};

const PROGRAM: &[u8] = include_bytes!("../../examples/nanopu/classifier.elf");
/// Bytes of memory of the core.
const MEMORY: usize = 1 << 25;
/// Cycles between two keys. The largest rule sets here need fewer.
const APART: u64 = 100_000;

fn action() -> EntryAction {
    EntryAction::Direct(ActionRef {
        action: 0,
        params: [].into(),
    })
}

fn table_of(shape: &KeyShape, entries: Vec<(Vec<FieldMatch>, i32)>) -> Table {
    let mut table = Table::new(
        TableSpec::new(shape.clone(), entries.len().max(1)),
        action(),
    );
    for (matches, priority) in entries {
        let entry = NewEntry {
            priority: shape.needs_priority().then_some(priority),
            ..NewEntry::new(matches, action())
        };
        // Two random entries can be equal.
        let _ = table.insert(entry, 0);
    }
    table
}

fn field_of(pattern: &Pattern) -> (KeyField, FieldMatch) {
    let width = pattern.width();
    let (kind, matched) = match pattern.clone() {
        Pattern::Ternary { value, mask } => {
            (MatchKind::Ternary, FieldMatch::Ternary { value, mask })
        }
        Pattern::Range { lo, hi } => (MatchKind::Range, FieldMatch::Range { lo, hi }),
        Pattern::Prefix { value, len } => (
            MatchKind::Lpm,
            FieldMatch::Lpm {
                value,
                prefix_len: len,
            },
        ),
    };
    (KeyField { width, kind }, matched)
}

fn rules_table(set: &RuleSet) -> Table {
    let shape = KeyShape::new(FiveTuple::ANY.patterns().map(|it| field_of(&it).0));
    let entry = |(priority, rule): (i32, &FiveTuple)| {
        let matches = rule.patterns().map(|it| field_of(&it).1);
        (matches.to_vec(), priority)
    };
    table_of(&shape, set.prioritized().map(entry).collect())
}

/// Returns what the program answers to each key.
fn answers(image: &[u8], keys: &[&[u64]]) -> Vec<u64> {
    let program = Image::parse(PROGRAM, MEMORY).unwrap();
    let program = program.with_data(image, MEMORY).unwrap();
    let mut core = SingleCore::new(&program, MEMORY, &CostTable::default());
    for (number, key) in keys.iter().enumerate() {
        let bytes = key.iter().flat_map(|limb| limb.to_be_bytes()).collect();
        core.deliver(
            (1 + number as u64) * APART,
            RpcMessage {
                context: 0,
                peer: 1,
                peer_context: 0,
                bytes,
            },
        );
    }
    let outputs = core.run((2 + keys.len() as u64) * APART);
    assert!(
        !matches!(core.state(), CoreState::Faulted(_)),
        "{:?}",
        core.state()
    );
    let words = outputs.iter().filter_map(|(_, output)| match output {
        Output::Message(message) => Some(u64::from_be_bytes(message.bytes[..].try_into().unwrap())),
        _ => None,
    });
    words.collect()
}

/// Returns what lookups find, in the form of the program's answers.
fn expected(lookup: &Arc<Lookup>, keys: &[&[u64]]) -> Vec<u64> {
    let found = keys.iter().map(|key| lookup.find(key));
    found
        .map(|found| found.map_or(u64::MAX, |idx| lookup.entry(idx).id.0))
        .collect()
}

fn check(table: &mut Table, keys: &[u64]) {
    let image = table.classifier_image().unwrap();
    let keys: Vec<&[u64]> = keys.chunks(table.spec().shape.limbs()).collect();
    assert_eq!(answers(&image, &keys), expected(&table.snapshot(), &keys));
}

/// Keys of rules, the same with a changed limb, and random ones.
fn keys_for(set: &RuleSet, count: usize, seed: u64) -> Vec<u64> {
    let mut choices = Rng::new(seed);
    let mut keys = set.trace(count, seed);
    let fields = FiveTuple::ANY.patterns().map(|it| it.width());
    for key in keys.chunks_mut(fields.len()).skip(1).step_by(3) {
        let field = choices.below(fields.len() as u64) as usize;
        key[field] = choices.bits() >> (64 - fields[field]);
    }
    for _ in 0..count / 4 {
        keys.extend(fields.map(|width| choices.bits() >> (64 - width)));
    }
    keys
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_program_finds_the_rule_of_a_lookup(
        kind in prop::sample::select(&Kind::ALL[..]),
        spread in prop::sample::select(&[Spread::Scaled, Spread::Copies][..]),
        rules in prop_oneof![0usize..40, 40usize..400, 400usize..3000],
        seed in any::<u64>(),
    ) {
        let set = RuleSet::generate(kind, spread, rules, seed);
        check(&mut rules_table(&set), &keys_for(&set, 40, seed));
    }
}

#[test]
fn rule_sets_with_tuples_and_windows_are_searched_as_the_table_is() {
    for kind in Kind::ALL {
        let set = RuleSet::generate(kind, Spread::Scaled, 8_000, 1);
        let mut table = rules_table(&set);
        let image = table.classifier_image().unwrap();
        let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        // Of the sets that are tested, this part is in tuples: header of the image.
        let (sets, tuples) = (word(52), word(84));
        assert!(sets > 0 || tuples > 0, "{kind:?}");
        if kind == Kind::Fw {
            assert!(tuples > 0);
        }
        check(&mut table, &keys_for(&set, 200, 7));
    }
}

/// A field of any kind that images have, with a random condition.
fn any_field(choices: &mut Rng, kind: MatchKind, width: u32) -> FieldMatch {
    let wide = u128::from(choices.bits()) << 64 | u128::from(choices.bits());
    let value = Value::truncated(wide >> choices.below(u64::from(width)), width);
    let other = Value::truncated(u128::from(choices.bits()), width);
    match kind {
        MatchKind::Exact => FieldMatch::Exact(value),
        MatchKind::Optional => FieldMatch::Optional(choices.per_mille(500).then_some(value)),
        MatchKind::Lpm => {
            let prefix_len = choices.below(u64::from(width) + 1) as u32;
            let value = value.and(&Value::prefix_mask(prefix_len, width));
            FieldMatch::Lpm { value, prefix_len }
        }
        MatchKind::Range => match value.limbs() <= other.limbs() {
            true => FieldMatch::Range {
                lo: value,
                hi: other,
            },
            false => FieldMatch::Range {
                lo: other,
                hi: value,
            },
        },
        _ => {
            // Any bits, few of them.
            let mask = Value::truncated(wide & wide >> 7 & wide >> 31, width);
            let value = value.and(&mask);
            FieldMatch::Ternary { value, mask }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tables_of_other_keys_are_searched_as_well(
        fields in prop::collection::vec((0usize..5, prop::sample::select(&[1u32, 3, 8, 9, 16, 32, 48, 64, 100, 128][..])), 1..5),
        entries in 0usize..700,
        seed in any::<u64>(),
    ) {
        let kinds = [MatchKind::Exact, MatchKind::Optional, MatchKind::Lpm, MatchKind::Range, MatchKind::Ternary];
        let mut choices = Rng::new(seed);
        let fields = fields.iter().map(|&(kind, width)| match kinds[kind] {
            MatchKind::Range => (MatchKind::Range, width.min(64)),
            kind => (kind, width),
        });
        let fields: Vec<(MatchKind, u32)> = fields.collect();
        let shape = KeyShape::new(fields.iter().map(|&(kind, width)| KeyField { width, kind }));
        let list = (0..entries).map(|_| {
            let matches = fields.iter().map(|&(kind, width)| any_field(&mut choices, kind, width));
            (matches.collect::<Vec<_>>(), 1 + choices.below(1000) as i32)
        });
        let list: Vec<_> = list.collect();
        // Keys of entries, and others.
        let mut keys = Vec::new();
        for number in 0..60 {
            let near = list.get(choices.below(list.len().max(1) as u64) as usize);
            for (field, &(_, width)) in fields.iter().enumerate() {
                let random = Value::truncated(u128::from(choices.bits()) << 64 | u128::from(choices.bits()), width);
                let value = match near.map(|(matches, _)| &matches[field]) {
                    _ if number % 4 == 0 => random,
                    Some(FieldMatch::Exact(value) | FieldMatch::Optional(Some(value)) | FieldMatch::Lpm { value, .. }) => value.clone(),
                    Some(FieldMatch::Ternary { value, mask }) => {
                        let bits = [value, &random.and(&mask.not())].map(|it| it.to_u128().unwrap());
                        Value::truncated(bits[0] | bits[1], width)
                    }
                    Some(FieldMatch::Range { lo, hi }) => if number % 2 == 0 { lo.clone() } else { hi.clone() },
                    _ => random,
                };
                keys.extend_from_slice(value.limbs());
            }
        }
        check(&mut table_of(&shape, list), &keys);
    }
}

#[test]
fn keys_that_no_image_has_are_refused_by_name() {
    let image = |width: u32, kind: MatchKind| {
        let shape = KeyShape::new([KeyField { width, kind }]);
        table_of(&shape, Vec::new()).classifier_image()
    };
    let signed = image(16, MatchKind::SignedRange);
    assert_eq!(signed, Err(ExportError::SignedRange));
    assert_eq!(image(65, MatchKind::Range), Err(ExportError::WideRange));
    let wide = image(600, MatchKind::Ternary);
    assert_eq!(wide, Err(ExportError::WideKey { words: 10 }));
    assert!(image(512, MatchKind::Ternary).is_ok());
}

#[test]
fn messages_of_another_length_and_missing_images_find_nothing() {
    let set = RuleSet::generate(Kind::Acl, Spread::Scaled, 50, 1);
    let image = rules_table(&set).classifier_image().unwrap();
    let key = set.trace(1, 1);
    let long = [&key[..], &[0]].concat();
    let found = answers(&image, &[&key[..4], &key, &long, &key]);
    assert_eq!((found[0], found[2]), (u64::MAX, u64::MAX));
    assert_eq!(found[1], found[3]);
    assert!(found[1] < 50);
    assert_eq!(answers(&[], &[&key]), [u64::MAX]);
}
