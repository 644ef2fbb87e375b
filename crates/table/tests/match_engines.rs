//! Tests that every engine equals a scan over all entries, after any sequence of updates, in every
//! snapshot.

use bits::{Value, limbs_for};
use proptest::prelude::*;
use std::sync::Arc;
use table::engine::{Linear, Ternary};
use table::{
    ActionRef, DirectIndex, EntryAction, EntryId, FieldMatch, KeyField, KeyShape, Lookup,
    MatchEngine, MatchKind, NewEntry, PriorityOrder, Table, TableError, TableSpec,
};

/// Few different numbers, so that keys hit and entries overlap. Wide ones differ in the top bits as
/// well.
fn number(width: u32) -> impl Strategy<Value = Value> {
    (0u64..8, 0u64..3, any::<bool>()).prop_map(move |(low, high, ones)| {
        let limbs = limbs_for(width);
        let mut number = vec![0; limbs];
        if let Some(last) = number.last_mut() {
            *last = high << ((width - 1) % 64);
        }
        if let Some(first) = number.first_mut() {
            *first ^= low;
        }
        let value = Value::from_limbs(&number, width);
        if ones { value.not() } else { value }
    })
}

fn field_match(field: KeyField) -> BoxedStrategy<FieldMatch> {
    let w = field.width;
    match field.kind {
        MatchKind::Exact => number(w).prop_map(FieldMatch::Exact).boxed(),
        MatchKind::Lpm => (number(w), prop_oneof![0..=w, Just(w), Just(0), Just(w / 2)])
            .prop_map(|(value, prefix_len)| FieldMatch::Lpm { value, prefix_len }.canonical())
            .boxed(),
        MatchKind::Ternary => (number(w), number(w))
            .prop_map(|(value, mask)| FieldMatch::Ternary { value, mask }.canonical())
            .boxed(),
        MatchKind::Range => (number(w), number(w))
            .prop_map(|(a, b)| {
                let (lo, hi) = if a <= b { (a, b) } else { (b, a) };
                FieldMatch::Range { lo, hi }
            })
            .boxed(),
        MatchKind::SignedRange => (number(w), number(w))
            .prop_map(|(a, b)| {
                let (lo, hi) = if biased(&a) <= biased(&b) {
                    (a, b)
                } else {
                    (b, a)
                };
                FieldMatch::Range { lo, hi }
            })
            .boxed(),
        MatchKind::Optional => proptest::option::of(number(w))
            .prop_map(FieldMatch::Optional)
            .boxed(),
    }
}

/// Maps a signed number to an unsigned one with the same order, by an offset of half the range.
fn biased(number: &Value) -> Value {
    let mut limbs = number.limbs().to_vec();
    *limbs.last_mut().unwrap() ^= 1 << ((number.width() - 1) % 64);
    Value::from_limbs(&limbs, number.width())
}

fn kinds() -> impl Strategy<Value = Vec<MatchKind>> {
    use MatchKind::{Exact, Lpm, Optional, Range, Ternary};
    let any_kind = proptest::sample::select(vec![Exact, Lpm, Ternary, Range, Optional]);
    prop_oneof![
        (1usize..4).prop_map(|n| vec![Exact; n]),
        (0usize..3, 0usize..3).prop_map(|(before, behind)| {
            [vec![Exact; before], vec![Lpm], vec![Exact; behind]].concat()
        }),
        Just(vec![Lpm, Lpm]),
        Just(vec![Range]),
        proptest::collection::vec(any_kind, 1..5),
    ]
}

/// Match kinds of keys with at least one signed range. Most are short enough for the other engines
/// inside the adapter.
fn signed_kinds() -> impl Strategy<Value = Vec<MatchKind>> {
    use MatchKind::{Exact, Lpm, Optional, Range, SignedRange, Ternary};
    let any_kind = vec![Exact, Lpm, Ternary, Range, Optional, SignedRange];
    let any_kind = proptest::sample::select(any_kind);
    (proptest::collection::vec(any_kind, 0..6), any::<bool>()).prop_map(|(mut kinds, is_first)| {
        let at = if is_first { 0 } else { kinds.len() };
        kinds.insert(at, SignedRange);
        kinds
    })
}

fn shape(kinds: impl Strategy<Value = Vec<MatchKind>>) -> impl Strategy<Value = KeyShape> {
    let width = proptest::sample::select(vec![1u32, 3, 3, 8, 9, 11, 32, 48, 64, 65, 128, 200]);
    kinds.prop_flat_map(move |kinds| {
        let widths = proptest::collection::vec(width.clone(), kinds.len());
        widths.prop_map(move |widths| {
            let fields = widths.iter().zip(&kinds);
            KeyShape::new(fields.map(|(&width, &kind)| KeyField { width, kind }))
        })
    })
}

#[derive(Debug, Clone)]
enum Step {
    Insert {
        matches: Vec<FieldMatch>,
        priority: i32,
        is_const: bool,
    },
    Modify(prop::sample::Index),
    Delete(prop::sample::Index),
    Clear,
    Look,
}

fn steps(shape: &KeyShape) -> impl Strategy<Value = Vec<Step>> + use<> {
    let matches: Vec<_> = shape
        .fields()
        .iter()
        .map(|&field| field_match(field))
        .collect();
    let insert = (matches, -2i32..4, proptest::bool::weighted(0.1)).prop_map(
        |(matches, priority, is_const)| Step::Insert {
            matches,
            priority,
            is_const,
        },
    );
    let step = prop_oneof![
        12 => insert,
        2 => any::<prop::sample::Index>().prop_map(Step::Modify),
        4 => any::<prop::sample::Index>().prop_map(Step::Delete),
        1 => Just(Step::Look),
        1 => proptest::bool::weighted(0.1).prop_map(|c| if c { Step::Clear } else { Step::Look }),
    ];
    proptest::collection::vec(step, 0..120)
}

type Keys = Vec<Vec<Value>>;

fn scenario() -> impl Strategy<Value = (KeyShape, Vec<Step>, Keys, bool)> {
    scenario_of(shape(kinds()))
}

fn scenario_of(
    shape: impl Strategy<Value = KeyShape>,
) -> impl Strategy<Value = (KeyShape, Vec<Step>, Keys, bool)> {
    shape.prop_flat_map(|shape| {
        let key: Vec<_> = shape
            .fields()
            .iter()
            .map(|field| number(field.width))
            .collect();
        let keys = proptest::collection::vec(key, 20);
        let steps = steps(&shape);
        (Just(shape), steps, keys, any::<bool>())
    })
}

/// Entry of the model.
#[derive(Debug, Clone)]
struct Row {
    id: EntryId,
    matches: Vec<FieldMatch>,
    priority: Option<i32>,
    is_const: bool,
    action: u32,
}

/// Reference lookup according to P4 and P4Runtime, entry by entry, without code of the crate under
/// test.
fn model_find(shape: &KeyShape, rows: &[Row], key: &[Value], largest_wins: bool) -> Option<u32> {
    let field_hits = |((matched, value), field): ((&FieldMatch, &Value), &KeyField)| {
        let bit = |value: &Value, i: u32| value.limbs()[i as usize / 64] >> (i % 64) & 1;
        let equal_where = |want: &Value, cares: &dyn Fn(u32) -> bool| {
            (0..value.width()).all(|i| !cares(i) || bit(want, i) == bit(value, i))
        };
        match matched {
            FieldMatch::Exact(want) | FieldMatch::Optional(Some(want)) => {
                equal_where(want, &|_| true)
            }
            FieldMatch::Optional(None) => true,
            FieldMatch::Lpm {
                value: want,
                prefix_len,
            } => equal_where(want, &|i| i >= value.width() - prefix_len),
            FieldMatch::Ternary { value: want, mask } => equal_where(want, &|i| bit(mask, i) == 1),
            FieldMatch::Range { lo, hi } if field.kind == MatchKind::SignedRange => {
                (biased(lo)..=biased(hi)).contains(&biased(value))
            }
            FieldMatch::Range { lo, hi } => lo <= value && value <= hi,
        }
    };
    let goodness = |row: &&Row| -> (bool, i64) {
        let prefixes = row.matches.iter().map(|matched| match matched {
            FieldMatch::Lpm { prefix_len, .. } => i64::from(*prefix_len),
            _ => 0,
        });
        let by_priority = row
            .matches
            .iter()
            .any(|matched| !matches!(matched.kind(), MatchKind::Exact | MatchKind::Lpm));
        match row.priority {
            _ if !by_priority => (false, prefixes.sum()),
            None => (true, 0),
            Some(priority) if largest_wins => (false, i64::from(priority)),
            Some(priority) => (false, -i64::from(priority)),
        }
    };
    let hits = rows
        .iter()
        .filter(|row| (row.matches.iter().zip(key).zip(shape.fields())).all(field_hits));
    // `max_by_key` returns the last of equal elements, but the entry inserted first must win.
    hits.rev().max_by_key(goodness).map(|row| row.action)
}

fn direct(action: u32) -> EntryAction {
    EntryAction::Direct(ActionRef {
        action,
        params: [u64::from(action) * 3].into(),
    })
}

fn found(lookup: &Lookup, key: &[Value]) -> Option<u32> {
    let limbs: Vec<u64> = key
        .iter()
        .flat_map(|value| value.limbs())
        .copied()
        .collect();
    let found = lookup.find(&limbs);
    if let Some(direct) = lookup.direct() {
        let number = direct.slots[slot(&direct, &limbs)];
        assert_eq!(number.checked_sub(1), found.map(|idx| idx.get()));
    }
    found.map(|idx| match &lookup.entry(idx).action {
        EntryAction::Direct(action) => action.action,
        other => panic!("{other:?}"),
    })
}

/// Returns the array index of a key, computed as compiled code does inline.
fn slot(direct: &DirectIndex<'_>, key: &[u64]) -> usize {
    let digits = || key.iter().zip(direct.digits);
    match digits().all(|(limb, digit)| limb & digit.outside == 0) {
        true => digits().fold(0, |slot, (limb, digit)| slot | limb << digit.shift) as usize,
        false => direct.slots.len() - 1,
    }
}

/// Runs the steps on a table and on a list, and compares lookup results in current and older
/// snapshots.
fn check(
    shape: &KeyShape,
    engine: Option<Box<dyn MatchEngine>>,
    steps: &[Step],
    keys: &Keys,
    largest_wins: bool,
) {
    let capacity = 40;
    let order = if largest_wins {
        PriorityOrder::LargestWins
    } else {
        PriorityOrder::SmallestWins
    };
    let spec = TableSpec {
        order,
        ..TableSpec::new(shape.clone(), capacity)
    };
    let mut table = match engine {
        Some(engine) => Table::with_engine(spec, direct(0), engine),
        None => Table::new(spec, direct(0)),
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut seen: Vec<(Arc<Lookup>, Vec<Row>)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let action = number as u32 + 1;
        match step {
            Step::Insert {
                matches,
                priority,
                is_const,
            } => {
                let priority = (shape.needs_priority() && !is_const).then_some(*priority);
                let new = NewEntry {
                    priority,
                    is_const: *is_const,
                    ..NewEntry::new(matches.clone(), direct(action))
                };
                let same = rows
                    .iter()
                    .find(|row| row.matches == *matches && row.priority == priority);
                match (table.insert(new, 0), same) {
                    (Ok(id), None) => {
                        assert!(rows.len() < capacity);
                        assert!(
                            rows.last().is_none_or(|last| last.id < id),
                            "an id came twice"
                        );
                        rows.push(Row {
                            id,
                            matches: matches.clone(),
                            priority,
                            is_const: *is_const,
                            action,
                        });
                    }
                    (Err(TableError::Duplicate(id)), Some(row)) => assert_eq!(id, row.id),
                    (Err(TableError::Full { .. }), None) => assert_eq!(rows.len(), capacity),
                    (result, same) => panic!("{result:?}, but the model has {same:?}"),
                }
            }
            Step::Modify(_) | Step::Delete(_) if rows.is_empty() => {
                assert_eq!(
                    table.delete(EntryId(u64::MAX)).err(),
                    Some(TableError::NotFound)
                );
            }
            Step::Modify(which) => {
                let row = which.get(&rows).clone();
                let result = table.modify(row.id, direct(action), Some(5), Box::new([1]));
                if row.is_const {
                    assert_eq!(result, Err(TableError::ConstEntry(row.id)));
                } else {
                    result.unwrap();
                    rows.iter_mut()
                        .find(|other| other.id == row.id)
                        .unwrap()
                        .action = action;
                }
            }
            Step::Delete(which) => {
                let row = which.get(&rows).clone();
                let result = table.delete(row.id);
                if row.is_const {
                    assert_eq!(result.err(), Some(TableError::ConstEntry(row.id)));
                } else {
                    assert_eq!(result.unwrap().id, row.id);
                    rows.retain(|other| other.id != row.id);
                    assert!(table.get(row.id).is_none());
                    assert!(table.find(&row.matches, row.priority).is_none());
                }
            }
            Step::Clear => {
                table.clear();
                rows.retain(|row| row.is_const);
            }
            Step::Look => seen.push((table.snapshot(), rows.clone())),
        }
        assert_eq!(table.len(), rows.len());
    }
    let order: Vec<_> = table.iter().map(|entry| entry.id).collect();
    assert_eq!(order, rows.iter().map(|row| row.id).collect::<Vec<_>>());
    for row in &rows {
        assert_eq!(
            table.find(&row.matches, row.priority).map(|entry| entry.id),
            Some(row.id)
        );
    }
    seen.push((table.snapshot(), rows));
    // More keys than any engine looks up at once.
    let many: Vec<&Vec<Value>> = keys.iter().cycle().take(150).collect();
    let limbs = many
        .iter()
        .flat_map(|key| key.iter().flat_map(Value::limbs));
    let packed: Vec<u64> = limbs.copied().collect();
    for (lookup, rows) in &seen {
        let mut batch = vec![None; many.len()];
        lookup.find_batch(&packed, &mut batch);
        let mut notes = vec![u64::MAX; many.len()];
        lookup.announce(&packed, &mut notes);
        lookup.find_announced(&packed, &mut notes);
        let found_each = batch.iter().zip(&notes);
        for (key, (found, note)) in packed.chunks_exact(shape.limbs()).zip(found_each) {
            assert_eq!(lookup.find(key), *found);
            assert_eq!(found.map_or(0, |idx| u64::from(idx.get()) + 1), *note);
        }
        // So few keys that engines look them up one by one.
        let mut few = [u64::MAX; 3];
        let packed = &packed[..3 * shape.limbs()];
        lookup.announce(packed, &mut few);
        lookup.find_announced(packed, &mut few);
        assert_eq!(few, notes[..3]);
        for key in keys {
            assert_eq!(
                found(lookup, key),
                model_find(shape, rows, key, largest_wins),
                "{key:?} in {rows:#?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_chosen_engine_equals_a_scan((shape, steps, keys, largest_wins) in scenario()) {
        check(&shape, None, &steps, &keys, largest_wins);
    }

    #[test]
    fn the_ternary_engine_serves_every_shape((shape, steps, keys, largest_wins) in scenario()) {
        let engine = Box::new(Ternary::new(Arc::new(shape.clone())));
        check(&shape, Some(engine), &steps, &keys, largest_wins);
    }

    #[test]
    fn signed_ranges_are_in_the_order_of_signed_numbers(
        (shape, steps, keys, largest_wins) in scenario_of(shape(signed_kinds())),
    ) {
        check(&shape, None, &steps, &keys, largest_wins);
        let engine = Box::new(Linear::new(Arc::new(shape.clone())));
        check(&shape, Some(engine), &steps, &keys, largest_wins);
    }

    #[test]
    fn the_linear_engine_is_the_model((shape, steps, keys, largest_wins) in scenario()) {
        let engine = Box::new(Linear::new(Arc::new(shape.clone())));
        check(&shape, Some(engine), &steps, &keys, largest_wins);
    }
}

#[test]
fn many_ranges_in_one_bucket_keep_their_order() {
    let field = KeyField {
        width: 16,
        kind: MatchKind::Range,
    };
    let shape = KeyShape::new([field]);
    let mut table = Table::new(TableSpec::new(shape, 2000), direct(0));
    let value = |number: u64| Value::truncated(number.into(), 16);
    // All ranges cover the middle, so that they share no bits. Priorities come in a scattered
    // order.
    let mut ids = Vec::new();
    for i in 0..1000u64 {
        let matches = vec![FieldMatch::Range {
            lo: value(i),
            hi: value(65535 - i),
        }];
        let priority = Some((i * 617 % 1000) as i32 + 1);
        let new = NewEntry {
            priority,
            ..NewEntry::new(matches, direct(i as u32))
        };
        ids.push((priority, table.insert(new, 0).unwrap()));
    }
    ids.sort_unstable();
    while let Some((_, best)) = ids.pop() {
        let lookup = table.snapshot();
        let idx = lookup.find(&[32768]).unwrap();
        assert_eq!(lookup.entry(idx).id, best);
        table.delete(best).unwrap();
    }
    assert!(table.snapshot().find(&[32768]).is_none());
}

#[test]
fn snapshots_after_each_of_many_inserts_stay_as_they_were() {
    let exact = KeyField {
        width: 32,
        kind: MatchKind::Exact,
    };
    let mut table = Table::new(TableSpec::new(KeyShape::new([exact]), 20_000), direct(0));
    let mut kept = Vec::new();
    for i in 0..20_000u64 {
        let matches = vec![FieldMatch::Exact(Value::truncated(i.into(), 32))];
        table.insert(NewEntry::new(matches, direct(1)), 0).unwrap();
        let lookup = table.snapshot();
        if i % 997 == 0 {
            kept.push((i, lookup));
        }
    }
    for (i, lookup) in kept {
        assert!(lookup.find(&[i]).is_some());
        assert!(lookup.find(&[i + 1]).is_none());
        assert!(lookup.find(&[0]).is_some());
    }
}
