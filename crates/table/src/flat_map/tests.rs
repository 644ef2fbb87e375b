//! Tests of the map against that of the standard library, and of the properties of its lines.

use super::hash::{Hash, Seed};
use super::lines::{Line, Lines, NoRoom, Overflow};
use super::*;
use crate::test_size::usual_or_interpreted;
use crate::word::Word;
use proptest::prelude::*;
use std::collections::HashMap;

/// Returns the key of `limbs` limbs with this number.
fn key(number: u64, limbs: usize) -> Vec<u64> {
    (0..limbs as u64).map(|i| number << (i * 7 % 50)).collect()
}

/// Checks that the map equals the model, by single lookups and in batches.
fn check(map: &FlatMap, model: &HashMap<u64, u32>, limbs: usize, numbers: std::ops::Range<u64>) {
    assert_eq!(map.len(), model.len());
    let keys: Vec<u64> = numbers.clone().flat_map(|n| key(n, limbs)).collect();
    let mut found = vec![77; numbers.clone().count()];
    map.get_batch(&keys, &mut found);
    for (number, batched) in numbers.zip(found) {
        let want = model.get(&number).map_or(0, |value| value + 1);
        assert_eq!(
            (map.get(&key(number, limbs)), batched),
            (want, want),
            "{number}"
        );
    }
}

proptest! {
    #[test]
    fn it_equals_the_map_of_the_standard_library(
        limbs in 1usize..10,
        steps in proptest::collection::vec((0u8..3, 0u64..150), 0..usual_or_interpreted(600, 80)),
    ) {
        let mut map = FlatMap::new(limbs);
        let mut model = HashMap::new();
        let mut free: Vec<u32> = (0..150).collect();
        for (step, number) in steps {
            let key = key(number, limbs);
            if step == 0 {
                let old = model.remove(&number);
                prop_assert_eq!(map.remove(&key), old);
                free.extend(old);
            } else if let Some(value) = free.pop() {
                let old = model.insert(number, value);
                prop_assert_eq!(map.insert(&key, value), old);
                free.extend(old);
            }
        }
        check(&map, &model, limbs, 0..150);
    }
}

/// Number of keys of a map that has grown several times.
const MANY: u64 = usual_or_interpreted(20_000, 60) as u64;

#[test]
fn large_maps_keep_all_keys_while_they_grow_and_shrink() {
    for limbs in [1, 2, 3, 8] {
        let mut map = FlatMap::new(limbs);
        let mut model = HashMap::new();
        for number in 0..MANY {
            map.insert(&key(number, limbs), number as u32);
            model.insert(number, number as u32);
        }
        check(&map, &model, limbs, 0..MANY * 3 / 2);
        for number in (0..MANY).filter(|number| number % 3 != 0) {
            assert_eq!(map.remove(&key(number, limbs)), Some(number as u32));
            model.remove(&number);
        }
        check(&map, &model, limbs, 0..MANY * 3 / 2);
    }
}

/// Returns the load at which a map of this form grows or finds no room: the least of several seeds.
fn fill<M: MapCore>(limbs: usize, lines: usize) -> f64 {
    let fills = (0..usual_or_interpreted(20, 1) as u64).map(|number| {
        let mut map = M::with_lines(Seed::from_number(number), lines, limbs);
        let full = |&len: &usize| {
            (len + 1) * 100 > map.slots() * M::FILL
                || map.insert_new(&key(len as u64, limbs), len as u32).is_err()
        };
        let len = (0..).find(full).unwrap();
        len as f64 / map.slots() as f64
    });
    fills.fold(1.0, f64::min)
}

#[test]
fn lines_fill_to_more_than_85_hundredths() {
    for lines in [
        usual_or_interpreted(200, 22),
        usual_or_interpreted(3001, 50),
    ] {
        assert!(fill::<InlineMap<1, 5>>(1, lines) > 0.9);
        assert!(fill::<InlineMap<2, 3>>(2, lines) > 0.86);
        assert!(fill::<TaggedMap>(5, lines) > 0.9);
    }
}

#[test]
fn most_keys_lie_in_their_first_line() {
    const LINES: usize = usual_or_interpreted(2000, 40);
    const KEYS: u64 = LINES as u64 * 17 / 4;
    let mut map = InlineMap::<1, 5>::with_lines(Seed::from_number(3), LINES, 1);
    for number in 0..KEYS {
        map.insert_new(&[number], number as u32).unwrap();
    }
    let first = |number: &u64| {
        let hash = map.seed().hash_one(*number);
        map.lines.lines[hash.first(LINES)].probe(&[*number]) != 0
    };
    let firsts = (0..KEYS).filter(first).count() as u64;
    assert!(firsts * 5 > KEYS * 4, "{firsts} of {KEYS}");
}

/// Line for two keys that are identified by hashes chosen by the test.
#[derive(Debug, Clone, Default)]
struct Toy {
    marks: [u64; 2],
    values: [Word; 2],
    overflow: Overflow,
}

impl Line for Toy {
    type Mark = u64;
    const SLOTS: usize = 2;

    fn empty() -> Self {
        Self::default()
    }
    fn word(&self, slot: usize) -> &Word {
        &self.values[slot]
    }
    fn mark(&self, slot: usize) -> u64 {
        self.marks[slot]
    }
    fn set(&mut self, slot: usize, mark: u64, value: u32) {
        (self.marks[slot], self.values[slot]) = (mark, Word::new(value));
    }
    fn overflow(&self) -> &Overflow {
        &self.overflow
    }
    fn overflow_mut(&mut self) -> &mut Overflow {
        &mut self.overflow
    }
}

proptest! {
    /// Whatever hashes an attacker might reach, no key is lost, and the overflow counters lead to
    /// each key that is in its second line.
    #[test]
    fn every_key_lies_where_lookups_look_for_it(
        marks in proptest::collection::hash_set((0u64..8, 0u64..8, 0u64..4), 1..40),
        removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let count = 8;
        // Bits of the hash that selects line `first` and line `second` of eight.
        let of = |(first, second, low): (u64, u64, u64)| first << 61 | low << 40 | second << 29;
        let mut lines = Lines::<Toy>::new(count);
        let mut there = Vec::new();
        for (value, mark) in marks.into_iter().enumerate() {
            let hash = Hash::from_bits(of(mark));
            let result = lines.insert(hash, of(mark), value as u32, |m, _| Hash::from_bits(m));
            if result.is_ok() {
                there.push(of(mark));
            }
        }
        for which in removed {
            if there.is_empty() {
                break;
            }
            let mark = there.swap_remove(which.index(there.len()));
            let (line, slot) = place(&lines, mark).unwrap();
            lines.remove(line, slot, Hash::from_bits(mark));
        }
        prop_assert_eq!(lines.iter().count(), there.len());
        for mark in there {
            let hash = Hash::from_bits(mark);
            let (line, _) = place(&lines, mark).unwrap();
            let first = hash.first(count);
            prop_assert!(line == first || lines.lines[first].overflow.may_have(hash));
        }
    }
}

fn place(lines: &Lines<Toy>, mark: u64) -> Option<(usize, usize)> {
    let hash = Hash::from_bits(mark);
    let homes = [
        hash.first(lines.lines.len()),
        hash.second(lines.lines.len()),
    ];
    homes.iter().find_map(|&line| {
        let there = &lines.lines[line];
        let slot = (0..2).find(|&slot| there.mark(slot) == mark && there.value(slot) != 0);
        Some((line, slot?))
    })
}

#[test]
fn overflow_counters_count_to_their_end_and_then_stay() {
    let hash = Hash::from_bits(5 << 40);
    let mut lines = Lines::<Toy>::new(2);
    let overflow = lines.lines[0].overflow_mut();
    for _ in 0..6 {
        overflow.count(hash, 1);
    }
    assert!(overflow.may_have(hash) && !overflow.may_have(Hash::from_bits(4 << 40)));
    for _ in 0..6 {
        overflow.count(hash, -1);
    }
    assert!(!overflow.may_have(hash));
    for _ in 0..20 {
        overflow.count(hash, 1);
    }
    for _ in 0..20 {
        overflow.count(hash, -1);
    }
    assert!(overflow.may_have(hash));
}

/// An attacker who knows the secret can choose keys that all belong into a few lines. Without it,
/// this is not possible.
#[test]
fn keys_that_collide_under_one_seed_take_no_more_room_under_another_than_any_others() {
    const LINES: usize = usual_or_interpreted(1024, 32);
    const NEAR: usize = usual_or_interpreted(32, 8);
    const KEYS: usize = usual_or_interpreted(1000, 100);
    let known = Seed::from_number(7);
    let homes = |key: u64| {
        let hash = known.hash_one(key);
        [hash.first(LINES), hash.second(LINES)]
    };
    let is_near = |key: &u64| homes(*key).iter().all(|&line| line < NEAR);
    let colliding: Vec<u64> = (0..).filter(is_near).take(KEYS).collect();
    let mut attacked = InlineMap::<1, 5>::with_lines(known, LINES, 1);
    let refused = colliding
        .iter()
        .position(|&key| attacked.insert_new(&[key], 1) == Err(NoRoom));
    assert!(refused.is_some_and(|keys| keys <= NEAR * 5));
    let memory = |keys: &mut dyn Iterator<Item = u64>| {
        let mut map = FlatMap::new(1);
        keys.for_each(|key| assert_eq!(map.insert(&[key], 1), None));
        map.memory()
    };
    let usual = memory(&mut (1 << 40..).take(KEYS));
    assert!(memory(&mut colliding.iter().copied()) <= 2 * usual);
}
