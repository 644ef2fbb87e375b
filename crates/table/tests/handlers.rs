//! Tests of learning tables for handlers: packets insert, replace and remove entries, and a replica
//! that follows the collected changes has the same entries.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use table::*;

const CAPACITY: usize = 5;

fn table(capacity: usize) -> LearningTable {
    let field = KeyField {
        width: 64,
        kind: MatchKind::Exact,
    };
    LearningTable::new(KeyShape::new([field]), 1, capacity).for_handlers()
}

fn insert(table: &LearningTable, key: u64, param: u64, timeout: u64, now: u64) -> bool {
    let new = Learn {
        key: &[key],
        action: 1,
        params: &[param],
        idle_timeout_ns: Some(timeout),
        now_ns: now,
    };
    table.insert(new).is_ok()
}

/// Applies the changes to a table that had the entries of the last call.
fn follow(replica: &LearningTable, changes: Vec<LearnedChange>) {
    for change in changes {
        match change {
            LearnedChange::Removed(id, key) => {
                assert_eq!(replica.get(&key).map(|entry| entry.id), Some(id));
                assert!(replica.delete(&key));
            }
            LearnedChange::Inserted(entry) => replica.restore(&entry).unwrap(),
            LearnedChange::Modified(entry) => {
                assert_eq!(
                    replica.get(&entry.key).map(|entry| entry.id),
                    Some(entry.id)
                );
                assert_eq!(replica.modify(&entry.key, &entry.action), Ok(true));
            }
        }
    }
}

fn entries(table: &LearningTable) -> Vec<(EntryId, u64, u64)> {
    let entries = table.entries().into_iter();
    entries
        .map(|entry| (entry.id, entry.key[0], entry.action.params[0]))
        .collect()
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, u64, u64),
    Replace(u64, u64),
    Remove(u64),
    Hit(u64),
    Wait(u64),
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0u64..8, any::<u64>(), 1u64..60).prop_map(|(k, p, t)| Step::Insert(k, p, t)),
        3 => (0u64..8, any::<u64>()).prop_map(|(key, param)| Step::Replace(key, param)),
        4 => (0u64..8).prop_map(Step::Remove),
        3 => (0u64..8).prop_map(Step::Hit),
        2 => (0u64..20).prop_map(Step::Wait),
        3 => Just(Step::Collect),
    ]
}

proptest! {
    #[test]
    fn it_equals_a_map_and_a_replica_follows(steps in proptest::collection::vec(step(), 0..200)) {
        let (table, replica) = (table(CAPACITY), table(CAPACITY));
        // Parameter, time of last use, time-out.
        let mut model: BTreeMap<u64, (u64, u64, u64)> = BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Insert(key, param, timeout) => {
                    let fits = !model.contains_key(&key) && model.len() < CAPACITY;
                    prop_assert_eq!(insert(&table, key, param, timeout, now), fits);
                    if fits {
                        model.insert(key, (param, now, timeout));
                    }
                }
                Step::Replace(key, param) => {
                    let replaced = table.replace(&[key], 1, &[param]);
                    prop_assert_eq!(replaced, Ok(model.contains_key(&key)));
                    model.entry(key).and_modify(|entry| entry.0 = param);
                }
                Step::Remove(key) => {
                    prop_assert_eq!(table.remove(&[key]), Ok(model.remove(&key).is_some()));
                }
                Step::Hit(key) => {
                    let hit = table.find(&[key], &mut [0]);
                    prop_assert_eq!(hit.is_some(), model.contains_key(&key));
                    if let Some(hit) = hit {
                        table.record(&hit, 64, now);
                        model.entry(key).and_modify(|entry| entry.1 = now);
                    }
                }
                Step::Wait(time) => now += time,
                Step::Collect => {
                    follow(&replica, table.take_changes());
                    prop_assert!(!table.is_told());
                    prop_assert_eq!(entries(&replica), entries(&table));
                    for entry in table.expire(now) {
                        prop_assert!(replica.delete(&entry.key));
                    }
                    model.retain(|_, (_, used, timeout)| *used + *timeout > now);
                    prop_assert_eq!(entries(&replica), entries(&table));
                }
            }
            let mut held: Vec<_> = entries(&table).iter().map(|&(_, key, p)| (key, p)).collect();
            held.sort_unstable();
            let expect: Vec<_> = model.iter().map(|(&key, &(param, ..))| (key, param)).collect();
            prop_assert_eq!(held, expect);
            prop_assert_eq!(table.len(), model.len());
        }
    }
}

#[test]
fn a_replica_follows_while_many_packets_write() {
    let (table, replica) = (table(CAPACITY), table(CAPACITY));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3u64)
            .map(|worker| {
                let table = &table;
                scope.spawn(move || {
                    let mut random = worker * 7919 + 1;
                    for _ in 0..30_000 {
                        random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                        let (key, what) = (random >> 61, (random >> 40) % 4);
                        match what {
                            0 | 1 => {
                                insert(table, key, random, 1 << 40, 0);
                            }
                            2 => {
                                let _ = table.replace(&[key], 1, &[random]);
                            }
                            _ => {
                                let _ = table.remove(&[key]);
                            }
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                follow(&replica, table.take_changes());
                std::thread::yield_now();
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    follow(&replica, table.take_changes());
    assert_eq!(entries(&replica), entries(&table));
    assert_eq!(table.len(), entries(&table).len());
}

#[test]
fn tables_for_other_programs_refuse_the_operations_of_handlers() {
    let field = KeyField {
        width: 64,
        kind: MatchKind::Exact,
    };
    let table = LearningTable::new(KeyShape::new([field]), 1, 4);
    insert(&table, 1, 1, 1, 0);
    assert_eq!(table.remove(&[1]), Err(LearnError::WrongSize));
    assert_eq!(table.replace(&[1], 1, &[2]), Err(LearnError::WrongSize));
    let handlers = self::table(4);
    assert_eq!(handlers.remove(&[1, 2]), Err(LearnError::WrongSize));
    assert_eq!(
        handlers.replace(&[1], 1, &[2, 3]),
        Err(LearnError::WrongSize)
    );
}
