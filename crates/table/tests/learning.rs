//! Tests of learning tables: they equal a map, and are safe when several packets write at once.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use table::*;

fn shape(limbs: usize) -> KeyShape {
    KeyShape::new((0..limbs).map(|_| KeyField {
        width: 64,
        kind: MatchKind::Exact,
    }))
}

fn learn<'p>(key: &'p [u64], params: &'p [u64]) -> Learn<'p> {
    Learn {
        key,
        action: params.len() as u32,
        params,
        idle_timeout_ns: None,
        now_ns: 0,
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, Vec<u64>),
    Modify(u64, Vec<u64>),
    Delete(u64),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let params = || proptest::collection::vec(any::<u64>(), 0..3);
    prop_oneof![
        8 => (0u64..40, params()).prop_map(|(key, params)| Step::Insert(key, params)),
        2 => (0u64..40, params()).prop_map(|(key, params)| Step::Modify(key, params)),
        4 => (0u64..40).prop_map(Step::Delete),
        1 => proptest::bool::weighted(0.1).prop_map(|clear| if clear { Step::Clear } else { Step::Delete(99) }),
    ]
}

proptest! {
    #[test]
    fn it_equals_a_map(steps in proptest::collection::vec(step(), 0..150)) {
        let table = LearningTable::new(shape(2), 2, 20);
        let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut refused = 0;
        for step in steps {
            match step {
                Step::Insert(key, params) => {
                    let result = table.insert(learn(&[key, 7], &params));
                    if model.contains_key(&key) {
                        prop_assert_eq!(result, Err(LearnError::Exists));
                    } else if model.len() == 20 {
                        prop_assert_eq!(result, Err(LearnError::Full));
                        refused += 1;
                    } else {
                        prop_assert!(result.is_ok());
                        model.insert(key, params);
                    }
                }
                Step::Modify(key, params) => {
                    let action = ActionRef { action: params.len() as u32, params: params[..].into() };
                    prop_assert_eq!(table.modify(&[key, 7], &action), Ok(model.contains_key(&key)));
                    model.entry(key).and_modify(|old| *old = params);
                }
                Step::Delete(key) => {
                    prop_assert_eq!(table.delete(&[key, 7]), model.remove(&key).is_some());
                }
                Step::Clear => {
                    table.clear();
                    model.clear();
                }
            }
        }
        prop_assert_eq!((table.len(), table.full()), (model.len(), refused));
        for key in 0..40 {
            let mut params = [0; 2];
            let hit = table.find(&[key, 7], &mut params);
            prop_assert_eq!(hit.map(|hit| &params[..hit.action as usize]), model.get(&key).map(|p| &p[..]));
            prop_assert_eq!(table.find(&[key, 8], &mut params), None);
        }
        let mut entries: Vec<_> =
            table.entries().into_iter().map(|entry| (entry.key[0], entry.action.params.to_vec())).collect();
        entries.sort_unstable();
        prop_assert_eq!(entries, model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn it_fills_up_to_its_capacity_and_no_further() {
    for capacity in [0, 1, 2, 3, 100, 5000] {
        let table = LearningTable::new(shape(1), 0, capacity);
        for key in 0..capacity as u64 {
            table.insert(learn(&[key * 256], &[])).unwrap();
        }
        assert_eq!(table.insert(learn(&[1], &[])), Err(LearnError::Full));
        assert_eq!((table.len(), table.full()), (capacity, 1));
        assert_eq!(table.entries().len(), capacity);
    }
}

#[test]
fn an_entry_expires_when_its_timer_was_not_restarted_in_time() {
    let table = LearningTable::new(shape(1), 1, 10);
    let timed = |key| Learn {
        idle_timeout_ns: Some(100),
        now_ns: 1000,
        ..learn(key, &[5])
    };
    table.insert(timed(&[1])).unwrap();
    table.insert(timed(&[2])).unwrap();
    table.insert(learn(&[3], &[])).unwrap();
    let find = |key| table.find(&[key], &mut [0]);
    table.restart_timer(&find(1).unwrap(), 1050);
    table.record(&find(2).unwrap(), 64, 1060);
    assert!(table.expire(1099).is_empty());
    let expired = table.expire(1100);
    let expect = LearnedEntry {
        id: EntryId(1),
        key: [2].into(),
        action: ActionRef {
            action: 1,
            params: [5].into(),
        },
        idle_timeout_ns: Some(100),
        timer_start_ns: 1000,
        usage: UsageReading {
            hits: 1,
            bytes: 64,
            last_use_ns: 1060,
        },
    };
    assert_eq!(expired, [expect]);
    table.set_idle_timeout(&find(3).unwrap(), Some(10), 1140);
    assert_eq!(table.expire(u64::MAX).len(), 2);
    assert!(table.is_empty());
}

#[test]
fn a_hit_does_not_count_for_the_next_entry_in_the_slot() {
    let table = LearningTable::new(shape(1), 0, 1);
    table.insert(learn(&[1], &[])).unwrap();
    let hit = table.find(&[1], &mut []).unwrap();
    table.delete(&[1]);
    table.insert(learn(&[1], &[])).unwrap();
    table.record(&hit, 64, 9);
    assert_eq!(table.entries()[0].usage, UsageReading::default());
}

#[test]
fn keys_and_parameters_of_the_wrong_size_are_refused() {
    let table = LearningTable::new(shape(2), 1, 4);
    assert_eq!(table.insert(learn(&[1], &[])), Err(LearnError::WrongSize));
    assert_eq!(
        table.insert(learn(&[1, 2], &[1, 2])),
        Err(LearnError::WrongSize)
    );
    let long = ActionRef {
        action: 0,
        params: [1, 2].into(),
    };
    assert_eq!(table.modify(&[1, 2], &long), Err(LearnError::WrongSize));
}

#[test]
fn many_packets_that_learn_the_same_keys_make_one_entry_a_key() {
    const KEYS: u64 = 20_000;
    const WORKERS: u64 = 2;
    // Long keys take long to write, so that races are likely.
    const LIMBS: usize = 40;
    let table = LearningTable::new(shape(LIMBS), 2, KEYS as usize);
    let inserted = AtomicUsize::new(0);
    // All workers reach each key at the same time, so that their inserts overlap.
    let arrived = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (table, inserted, arrived) = (&table, &inserted, &arrived);
            scope.spawn(move || {
                for key in 0..KEYS {
                    let mut params = [0; 2];
                    arrived.fetch_add(1, Ordering::SeqCst);
                    for spin in 0.. {
                        match arrived.load(Ordering::SeqCst) >= (key + 1) * WORKERS {
                            true => break,
                            false if spin < 10_000 => std::hint::spin_loop(),
                            false => std::thread::yield_now(),
                        }
                    }
                    let result = table.insert(learn(&[key; LIMBS], &[key, worker]));
                    inserted.fetch_add(usize::from(result.is_ok()), Ordering::Relaxed);
                    assert_ne!(result, Err(LearnError::WrongSize));
                    if matches!(result, Ok(_) | Err(LearnError::Exists)) {
                        assert!(
                            table.find(&[key; LIMBS], &mut params).is_some(),
                            "not visible"
                        );
                        assert_eq!(params[0], key);
                    }
                }
            });
        }
    });
    assert_eq!(inserted.load(Ordering::Relaxed), table.len());
    let entries = table.entries();
    let keys: std::collections::BTreeSet<_> = entries.iter().map(|entry| entry.key[0]).collect();
    assert_eq!((keys.len(), entries.len()), (table.len(), table.len()));
}

#[test]
fn a_reader_sees_an_entry_whole_or_not_at_all() {
    let table = LearningTable::new(shape(1), 4, 4);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..20_000u64 {
                let params = [round; 4];
                table.insert(learn(&[round % 3], &params)).unwrap();
                let next = ActionRef {
                    action: 4,
                    params: [round + 1; 4].into(),
                };
                assert_eq!(table.modify(&[round % 3], &next), Ok(true));
                assert!(table.delete(&[round % 3]));
            }
            done.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for key in 0..3 {
                    let mut params = [0; 4];
                    if table.find(&[key], &mut params).is_some() {
                        assert!(params.iter().all(|&param| param == params[0] && param > 0));
                    }
                }
                for entry in table.entries() {
                    assert!(
                        entry
                            .action
                            .params
                            .iter()
                            .all(|&p| p == entry.action.params[0])
                    );
                }
            }
        });
    });
}

/// Inserts an entry with this timeout. Returns true if it succeeded.
fn insert_timed(table: &LearningTable, key: u64, timeout: Option<u64>, now: u64) -> bool {
    let key = [key];
    let timed = Learn {
        idle_timeout_ns: timeout,
        now_ns: now,
        ..learn(&key, &[])
    };
    table.insert(timed).is_ok()
}

#[derive(Debug, Clone)]
enum Timed {
    Insert(u64, Option<u64>),
    Restart(u64),
    SetTimeout(u64, Option<u64>),
    Delete(u64),
    Wait(u64),
    Expire,
    TakeInserted,
}

fn timed() -> impl Strategy<Value = Timed> {
    let timeout = || proptest::option::weighted(0.9, 0u64..50);
    prop_oneof![
        4 => (0u64..12, timeout()).prop_map(|(key, timeout)| Timed::Insert(key, timeout)),
        3 => (0u64..12).prop_map(Timed::Restart),
        3 => (0u64..12, timeout()).prop_map(|(key, timeout)| Timed::SetTimeout(key, timeout)),
        1 => (0u64..12).prop_map(Timed::Delete),
        3 => (0u64..20).prop_map(Timed::Wait),
        2 => Just(Timed::Expire),
        1 => Just(Timed::TakeInserted),
    ]
}

proptest! {
    #[test]
    fn entries_expire_exactly_when_their_time_is_over(steps in proptest::collection::vec(timed(), 0..200)) {
        let table = LearningTable::new(shape(1), 0, 10);
        let mut model: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
        let (mut now, mut untold) = (0, Vec::new());
        for step in steps {
            match step {
                Timed::Insert(key, idle_timeout_ns) => {
                    if insert_timed(&table, key, idle_timeout_ns, now) {
                        prop_assert_eq!(model.insert(key, (now, idle_timeout_ns)), None);
                        untold.push(key);
                    }
                }
                Timed::Restart(key) => {
                    if let Some(hit) = table.find(&[key], &mut []) {
                        table.restart_timer(&hit, now);
                        model.get_mut(&key).unwrap().0 = now;
                    }
                }
                Timed::SetTimeout(key, timeout) => {
                    if let Some(hit) = table.find(&[key], &mut []) {
                        table.set_idle_timeout(&hit, timeout, now);
                        model.insert(key, (now, timeout));
                    }
                }
                Timed::Delete(key) => {
                    prop_assert_eq!(table.delete(&[key]), model.remove(&key).is_some());
                    untold.retain(|&other| other != key);
                }
                Timed::Wait(time) => now += time,
                Timed::Expire => {
                    let due = |&(start, timeout): &(u64, Option<u64>)| timeout.map(|timeout| start + timeout);
                    let is_over = |timer: &(u64, Option<u64>)| due(timer).is_some_and(|due| due <= now);
                    let next = model.values().filter_map(due).min().unwrap_or(u64::MAX);
                    prop_assert!(table.next_expiry() <= next);
                    let expect: Vec<u64> = model.iter().filter(|(_, timer)| is_over(timer)).map(|(&key, _)| key).collect();
                    let mut expired: Vec<u64> = table.expire(now).iter().map(|entry| entry.key[0]).collect();
                    expired.sort_unstable();
                    prop_assert_eq!(&expired, &expect);
                    model.retain(|_, timer| !is_over(timer));
                    untold.retain(|key| model.contains_key(key));
                }
                Timed::TakeInserted => {
                    let told: Vec<u64> = table.take_inserted().iter().map(|entry| entry.key[0]).collect();
                    prop_assert_eq!(&told, &untold);
                    prop_assert!(!table.is_told());
                    untold.clear();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_has_expired_at_a_time_does_not_depend_on_how_often_it_was_asked(
        timeouts in proptest::collection::vec(0u64..4_000_000, 2000..4000),
        restarted in proptest::collection::vec(any::<bool>(), 4000),
        asked in proptest::collection::vec(0u64..5_000_000, 0..10),
        last in 0u64..5_000_000,
    ) {
        let gone = |times: &[u64]| {
            let table = LearningTable::new(shape(1), 0, timeouts.len());
            for (key, &timeout) in timeouts.iter().enumerate() {
                insert_timed(&table, key as u64, Some(timeout), 0);
                if restarted[key] {
                    table.restart_timer(&table.find(&[key as u64], &mut []).unwrap(), 1000);
                }
            }
            let mut keys = Vec::new();
            for &now in times {
                keys.extend(table.expire(now).iter().map(|entry| entry.key[0]));
            }
            keys
        };
        let mut times: Vec<u64> = asked.into_iter().filter(|&at| at < last).chain([last]).collect();
        times.sort_unstable();
        prop_assert_eq!(gone(&times), gone(&[last]));
    }
}

#[test]
fn many_entries_that_are_due_at_once_go_little_by_little_and_within_the_bound() {
    const ENTRIES: u64 = 200_000;
    let table = LearningTable::new(shape(1), 0, ENTRIES as usize);
    for key in 0..ENTRIES {
        assert!(insert_timed(&table, key, Some(1_000_000), 0));
    }
    table.take_inserted();
    assert!(table.expire(999_999).is_empty());
    let (mut now, mut gone) = (1_000_000, 0);
    while gone < ENTRIES {
        let expired = table.expire(now).len() as u64;
        assert!((1..=1024).contains(&expired), "{expired}");
        gone += expired;
        let late = now - 1_000_000;
        assert!(late <= ENTRIES * 1000 && table.next_expiry() > now);
        now += 1_000_000;
    }
    assert!(table.is_empty() && table.next_expiry() == u64::MAX);
}

#[test]
fn an_entry_that_is_restored_keeps_its_name_its_timer_and_its_usage() {
    let table = LearningTable::new(shape(1), 1, 4);
    table.insert(learn(&[1], &[])).unwrap();
    let timed = Learn {
        idle_timeout_ns: Some(100),
        now_ns: 50,
        ..learn(&[2], &[7])
    };
    table.insert(timed).unwrap();
    let hit = table.find(&[2], &mut [0]).unwrap();
    table.record(&hit, 64, 60);
    let (entry, other) = (table.get(&[2]).unwrap(), LearningTable::new(shape(1), 1, 4));
    other.restore(&entry).unwrap();
    assert_eq!(other.restore(&entry), Err(LearnError::Exists));
    assert_eq!(other.get(&[2]).as_ref(), Some(&entry));
    assert_eq!(other.get(&[1]), None);
    assert!(other.take_inserted().is_empty());
    assert_eq!(other.insert(learn(&[3], &[])), Ok(EntryId(2)));
    assert!(other.expire(149).is_empty());
    assert_eq!(other.expire(150), [entry]);
}

#[test]
fn entries_come_and_go_once_while_packets_and_the_control_side_work_at_the_same_time() {
    const KEYS: u64 = 64;
    let table = LearningTable::new(shape(1), 0, 40);
    let (clock, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let inserted = AtomicUsize::new(0);
    let mut expired = 0;
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (table, clock, done, inserted) = (&table, &clock, &done, &inserted);
            scope.spawn(move || {
                let mut round = worker;
                while !done.load(Ordering::SeqCst) {
                    round += 7;
                    let key = round % KEYS;
                    let now_ns = clock.fetch_add(2000, Ordering::SeqCst);
                    let timeout = Some(10_000 + key * 500);
                    match table.find(&[key], &mut []) {
                        Some(hit) if round % 3 == 0 => {
                            table.set_idle_timeout(&hit, timeout, now_ns)
                        }
                        Some(hit) => table.restart_timer(&hit, now_ns),
                        None => {
                            let is_new = insert_timed(table, key, timeout, now_ns);
                            inserted.fetch_add(usize::from(is_new), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        while expired < 2000 && clock.load(Ordering::SeqCst) < 100_000_000_000 {
            expired += table.expire(clock.load(Ordering::SeqCst)).len();
            table.take_inserted();
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(expired >= 2000, "{expired} only");
    // Whatever raced, no bucket is forgotten: all entries have timeouts, so all expire.
    expired += table.expire(1 << 40).len();
    assert!(table.is_empty());
    assert_eq!(expired, inserted.into_inner());
}
