//! Tests of tables: rejected updates, and state that survives changes.

use bits::Value;
use std::sync::Arc;
use table::*;

fn action(action: u32) -> EntryAction {
    EntryAction::Direct(ActionRef {
        action,
        params: Box::default(),
    })
}

fn value(number: u64, width: u32) -> Value {
    Value::truncated(number.into(), width)
}

fn table(kinds: &[MatchKind]) -> Table {
    let shape = KeyShape::new(kinds.iter().map(|&kind| KeyField { width: 8, kind }));
    let spec = TableSpec {
        direct_counter: Some(CounterKind::PacketsAndBytes),
        direct_meter: Some(MeterUnit::Packets),
        records: Arc::new(RecordLayout::new(
            [1, 7].map(|action| (action, RunBy::Entries, [])),
        )),
        ..TableSpec::new(shape, 2)
    };
    Table::new(spec, action(0))
}

fn exact(number: u64) -> NewEntry {
    NewEntry::new(vec![FieldMatch::Exact(value(number, 8))], action(1))
}

/// Checks the error that a table with one field of this kind returns for this match.
fn check(matched: FieldMatch, kind: MatchKind, expect: &str) {
    let priority = !matches!(kind, MatchKind::Exact | MatchKind::Lpm);
    let mut new = NewEntry::new(vec![matched], action(1));
    new.priority = priority.then_some(1);
    let result = table(&[kind]).insert(new, 0);
    assert_eq!(result.unwrap_err().to_string(), expect);
}

#[test]
fn a_match_that_is_not_well_formed_is_refused_by_field_and_fault() {
    use FieldMatch as M;
    use MatchKind as K;
    check(
        M::Exact(value(1, 9)),
        K::Exact,
        "key field 0: the field has 8 bits, but the value has 9",
    );
    check(
        M::Exact(value(1, 8)),
        K::Lpm,
        "key field 0: the field is matched as lpm, but the entry gives exact",
    );
    check(
        M::Lpm {
            value: value(0, 8),
            prefix_len: 9,
        },
        K::Lpm,
        "key field 0: a prefix of 9 bits is longer than the field's 8",
    );
    check(
        M::Lpm {
            value: value(1, 8),
            prefix_len: 7,
        },
        K::Lpm,
        "key field 0: the value has bits behind its prefix; clear them",
    );
    check(
        M::Ternary {
            value: value(3, 8),
            mask: value(2, 8),
        },
        K::Ternary,
        "key field 0: the value has bits outside of its mask; clear them",
    );
    check(
        M::Range {
            lo: value(3, 8),
            hi: value(2, 8),
        },
        K::Range,
        "key field 0: the range ends before it begins",
    );
    check(
        M::Optional(Some(value(3, 7))),
        K::Optional,
        "key field 0: the field has 8 bits, but the value has 7",
    );
    let short = NewEntry::new(vec![], action(1));
    assert_eq!(
        table(&[K::Exact]).insert(short, 0).unwrap_err().to_string(),
        "the key has 1 field, but the entry matches 0"
    );
}

#[test]
fn priorities_are_asked_for_exactly_where_the_key_needs_them() {
    let mut exact_table = table(&[MatchKind::Exact]);
    let with_priority = NewEntry {
        priority: Some(1),
        ..exact(1)
    };
    assert_eq!(
        exact_table.insert(with_priority, 0),
        Err(TableError::PriorityForbidden)
    );
    let mut optional_table = table(&[MatchKind::Optional]);
    let without = NewEntry::new(vec![FieldMatch::Optional(None)], action(1));
    assert_eq!(
        optional_table.insert(without.clone(), 0),
        Err(TableError::PriorityMissing)
    );
    let declared = NewEntry {
        is_const: true,
        ..without
    };
    assert!(optional_table.insert(declared, 0).is_ok());
}

#[test]
fn a_table_without_key_has_its_default_action_only() {
    let mut table = table(&[]);
    assert_eq!(
        table.insert(NewEntry::new(vec![], action(1)), 0),
        Err(TableError::NoKey)
    );
    table.set_default(action(7));
    let lookup = table.snapshot();
    assert_eq!(lookup.find(&[]), None);
    assert_eq!(lookup.default_action(), &action(7));
}

#[test]
fn a_full_table_takes_another_entry_after_a_deletion() {
    let mut table = table(&[MatchKind::Exact]);
    let first = table.insert(exact(1), 0).unwrap();
    table.insert(exact(2), 0).unwrap();
    assert_eq!(
        table.insert(exact(3), 0),
        Err(TableError::Full { capacity: 2 })
    );
    table.delete(first).unwrap();
    let third = table.insert(exact(3), 0).unwrap();
    assert!(third > first);
}

#[test]
fn cells_outlive_a_modification_and_count_for_old_snapshots_too() {
    let mut table = table(&[MatchKind::Exact]);
    let id = table.insert(exact(1), 100).unwrap();
    let old = table.snapshot();
    table.modify(id, action(2), None, Box::default()).unwrap();
    let new = table.snapshot();
    for lookup in [&old, &new] {
        let found = lookup.find(&[1]);
        lookup.record(found, CounterShard::new(0), 64, 200);
        lookup.count(found, CounterShard::new(0), 64);
    }
    assert_eq!(old.entry(old.find(&[1]).unwrap()).action, action(1));
    assert_eq!(new.entry(new.find(&[1]).unwrap()).action, action(2));
    let expect = UsageReading {
        hits: 2,
        bytes: 128,
        last_use_ns: 200,
    };
    assert_eq!(table.usage().collect::<Vec<_>>(), [(id, expect)]);
    let counter = CounterReading {
        packets: 2,
        bytes: 128,
    };
    assert_eq!(table.counter(Some(id)), Some(counter));
}

#[test]
fn an_entry_that_gets_a_time_out_later_is_unused_since_its_insertion() {
    let shape = KeyShape::new([KeyField {
        width: 8,
        kind: MatchKind::Exact,
    }]);
    let spec = TableSpec {
        notes_usage: false,
        ..TableSpec::new(shape, 100)
    };
    let mut table = Table::new(spec, action(0));
    let ids: Vec<EntryId> = (0..40)
        .map(|number| table.insert(exact(number), 100 + number).unwrap())
        .collect();
    let last_use = |table: &Table, id| table.usage_of(Some(id)).map(|usage| usage.last_use_ns);
    let before = table.snapshot();
    assert_eq!(last_use(&table, ids[39]), Some(139));
    // Packets that hold the snapshot from before write no rows.
    before.record(before.find(&[3]), CounterShard::new(0), 64, 500);
    let timeout = Some(50);
    table
        .modify(ids[3], action(1), timeout, Box::default())
        .unwrap();
    assert_eq!(last_use(&table, ids[3]), Some(103));
    assert_eq!(last_use(&table, ids[39]), Some(139));
    let late = table.insert(exact(200), 300).unwrap();
    assert_eq!(last_use(&table, late), Some(300));
    assert_eq!(table.idle(152).count(), 0);
    assert_eq!(table.idle(153).count(), 1);
    let after = table.snapshot();
    after.record(after.find(&[39]), CounterShard::new(0), 64, 600);
    assert_eq!(last_use(&table, ids[39]), Some(600));
}

#[test]
fn an_entry_is_idle_when_its_time_out_has_passed_since_the_last_packet() {
    let mut table = table(&[MatchKind::Exact]);
    let id = table
        .insert(
            NewEntry {
                idle_timeout_ns: Some(50),
                ..exact(1)
            },
            100,
        )
        .unwrap();
    table.insert(exact(2), 100).unwrap();
    let idle = |table: &Table, now| {
        table
            .idle(now)
            .map(|(entry, _)| entry.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(idle(&table, 149), []);
    assert_eq!(idle(&table, 150), [id]);
    let lookup = table.snapshot();
    lookup.record(lookup.find(&[1]), CounterShard::new(0), 64, 140);
    assert_eq!(idle(&table, 150), []);
    assert_eq!(idle(&table, 190), [id]);
}

#[test]
fn what_a_packet_on_an_old_snapshot_counts_is_not_counted_for_the_next_entry() {
    let mut table = table(&[MatchKind::Exact]);
    let old = table.insert(exact(1), 0).unwrap();
    let held = table.snapshot();
    table.delete(old).unwrap();
    for key in 2..20 {
        let id = table.insert(exact(key), 5).unwrap();
        held.record(held.find(&[1]), CounterShard::new(0), 64, 9);
        let usage = table.usage_of(Some(id)).unwrap();
        assert_eq!((usage.hits, usage.last_use_ns), (0, 5));
        table.delete(id).unwrap();
        table.snapshot();
    }
}

#[test]
fn records_tell_what_entries_do() {
    let mut table = table(&[MatchKind::Exact]);
    let id = table.insert(exact(1), 0).unwrap();
    let old = table.snapshot();
    table.modify(id, action(7), None, Box::default()).unwrap();
    let told = |lookup: &Lookup| {
        let record = lookup.find(&[1]).unwrap().get() as usize + 1;
        head_of(lookup, record)
    };
    assert_eq!(told(&old), 0);
    assert_eq!(told(&table.snapshot()), 1);
    table.set_default(EntryAction::Member(MemberId::new(1)));
    let default = head_of(&table.snapshot(), 0);
    assert_eq!(default, RecordLayout::ELSEWHERE);
}

/// Returns the position of the action that a record represents.
fn head_of(lookup: &Lookup, record: usize) -> u16 {
    lookup.record_layout().told_by(lookup.records(), record)
}

#[test]
fn a_table_that_goes_over_tells_what_entries_do_as_its_new_layout_says() {
    let layout = |actions: &[u32]| {
        Arc::new(RecordLayout::new(
            actions.iter().map(|&action| (action, RunBy::Entries, [])),
        ))
    };
    let mut table = table(&[MatchKind::Exact]);
    table.insert(exact(1), 0).unwrap();
    // A further action at the end leaves records as they are. Actions in another order, and removed
    // actions, do not.
    for (actions, head) in [
        (&[1, 7, 9][..], 0),
        (&[7, 1], 1),
        (&[7, 9], RecordLayout::ELSEWHERE),
    ] {
        let spec = TableSpec {
            records: layout(actions),
            ..table.spec().clone()
        };
        let before = table.snapshot();
        let told = head_of(&before, 1);
        table.refit(spec, action(0), None);
        let lookup = table.snapshot();
        assert_eq!(*lookup.record_layout(), *layout(actions));
        assert_eq!(head_of(&lookup, 1), head);
        assert_eq!(head_of(&before, 1), told);
    }
}

#[test]
fn a_snapshot_without_a_change_is_the_same_one() {
    let mut table = table(&[MatchKind::Exact]);
    let first = table.snapshot();
    assert!(Arc::ptr_eq(&first, &table.snapshot()));
    table.insert(exact(1), 0).unwrap();
    assert!(!Arc::ptr_eq(&first, &table.snapshot()));
}

#[test]
fn the_table_knows_how_many_entries_refer_to_a_member() {
    let mut table = table(&[MatchKind::Exact]);
    let (member, group) = (MemberId::new(4), GroupId::new(4));
    let id = table
        .insert(
            NewEntry {
                action: EntryAction::Member(member),
                ..exact(1)
            },
            0,
        )
        .unwrap();
    table.set_default(EntryAction::Member(member));
    assert_eq!(
        (table.uses_of_member(member), table.uses_of_group(group)),
        (2, 0)
    );
    table
        .modify(id, EntryAction::Group(group), None, Box::default())
        .unwrap();
    assert_eq!(
        (table.uses_of_member(member), table.uses_of_group(group)),
        (1, 1)
    );
    table.clear();
    table.set_default(action(0));
    assert_eq!(
        (table.uses_of_member(member), table.uses_of_group(group)),
        (0, 0)
    );
}

#[test]
fn a_wildcard_matches_everything() {
    use MatchKind as K;
    for kind in [K::Lpm, K::Ternary, K::Range, K::SignedRange, K::Optional] {
        let field = KeyField { width: 70, kind };
        let any = FieldMatch::any(&field).unwrap();
        let shape = KeyShape::new([field]);
        assert_eq!(shape.check(std::slice::from_ref(&any)), Ok(()));
        assert!(
            any.matches(&[0, 0]) && any.matches(&[u64::MAX, 0x3f]) && any.matches(&[7, 0x20]),
            "{kind}"
        );
    }
    assert_eq!(
        FieldMatch::any(&KeyField {
            width: 8,
            kind: K::Exact
        }),
        None
    );
}

#[test]
fn the_ends_of_a_range_are_in_the_order_of_its_field() {
    let range = |lo: u64, hi: u64| FieldMatch::Range {
        lo: value(lo, 8),
        hi: value(hi, 8),
    };
    let check = |kind, range: FieldMatch| {
        let shape = KeyShape::new([KeyField { width: 8, kind }]);
        shape.check(&[range]).map_err(|error| error.to_string())
    };
    let reversed = Err("key field 0: the range ends before it begins".to_owned());
    assert_eq!(check(MatchKind::SignedRange, range(0xff, 1)), Ok(()));
    assert_eq!(check(MatchKind::SignedRange, range(1, 0xff)), reversed);
    assert_eq!(check(MatchKind::Range, range(1, 0xff)), Ok(()));
    assert_eq!(check(MatchKind::Range, range(0xff, 1)), reversed);
}

#[test]
fn a_value_set_matches_any_of_its_members() {
    let shape = KeyShape::new([
        KeyField {
            width: 16,
            kind: MatchKind::Ternary,
        },
        KeyField {
            width: 8,
            kind: MatchKind::Exact,
        },
    ]);
    let member = |v, mask, e| {
        vec![
            FieldMatch::Ternary {
                value: value(v, 16),
                mask: value(mask, 16),
            },
            FieldMatch::Exact(value(e, 8)),
        ]
    };
    let mut set = ValueSet::new(shape, 2);
    assert!(!set.contains(&[0, 0]));
    set.insert(member(0x1200, 0xff00, 1)).unwrap();
    let before = set.clone();
    set.insert(member(0, 0, 2)).unwrap();
    assert!(set.contains(&[0x12ff, 1]) && set.contains(&[0x55, 2]) && !set.contains(&[0x55, 1]));
    assert!(!before.contains(&[0x55, 2]));
    assert_eq!(set.insert(member(0, 0, 2)), Err(ValueSetError::Duplicate));
    assert_eq!(
        set.insert(member(0, 0, 3)),
        Err(ValueSetError::Full { capacity: 2 })
    );
    let wrong = set.set(vec![member(0, 0, 1), member(1, 0, 1)]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "member 1: key field 0: the value has bits outside of its mask; clear them"
    );
    set.delete(&member(0, 0, 2)).unwrap();
    assert_eq!(set.delete(&member(0, 0, 2)), Err(ValueSetError::NotFound));
    assert_eq!(set.members().count(), 1);
    set.set(vec![]).unwrap();
    assert!(!set.contains(&[0x12ff, 1]));
}
