//! Tests of tries against a map of all prefixes, while they grow to large tables and shrink to
//! nothing.

use super::search::{BATCH, Shown};
use super::span::Span;
use super::trie::{Address, Forest, Prefix, TrieId};
use crate::entry::EntryIdx;
use crate::test_size::usual_or_interpreted;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// Map from prefix (length and bits) to value.
type Model = HashMap<(u32, u128), u32>;

/// Returns the expected lookup result. `lens` has the lengths of the prefixes in the model.
fn longest(model: &Model, lens: &BTreeSet<u32>, address: u128) -> Option<u32> {
    let by_len = |len: &u32| model.get(&(*len, cut(address, *len)));
    lens.iter().rev().find_map(by_len).map(|value| value - 1)
}

/// Returns the first `len` bits of an address.
fn cut(address: u128, len: u32) -> u128 {
    address & !u128::MAX.checked_shr(len).unwrap_or(0)
}

/// Pseudo-random number generator.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns an address that shares its first bits with many others: most bytes have few values.
    fn address(&mut self) -> u128 {
        (0..16).fold(0, |address, i| {
            let byte = match i {
                0 | 3.. => self.below(3) * 100,
                _ => self.below(256),
            };
            address << 8 | u128::from(byte)
        })
    }
}

/// An [`Address`] of either width, made from one of 128 bits.
trait Cut: Address {
    const WIDTH: u32;
    fn of(address: u128) -> Self;
}

impl Cut for u64 {
    const WIDTH: u32 = 64;
    fn of(address: u128) -> Self {
        (address >> 64) as u64
    }
}

impl Cut for u128 {
    const WIDTH: u32 = 128;
    fn of(address: u128) -> Self {
        address
    }
}

/// Number of prefixes near which addresses are looked up, and of other addresses.
const LOOKED_UP: usize = usual_or_interpreted(60, 2);
/// One in this number of prefixes goes into the second trie.
const OF_OTHER: u64 = usual_or_interpreted(100, 5) as u64;
/// Number of changes of a small trie.
const CHANGES: usize = usual_or_interpreted(120, 8);

fn check<A: Cut>(forest: &mut Forest<A>, id: TrieId, model: &Model, numbers: &mut Numbers) {
    check_shown(&forest.snapshot(), id, model, numbers);
}

fn check_shown<A: Cut>(shown: &Shown<A>, id: TrieId, model: &Model, numbers: &mut Numbers) {
    let lens = model.keys().map(|&(len, _)| len).collect();
    let others = (0..LOOKED_UP).map(|_| 1 << 127 >> numbers.below(128));
    let others: Vec<u128> = others.collect();
    let beside = model
        .keys()
        .zip(others)
        .flat_map(|(&(len, address), other)| {
            let behind = u128::MAX.checked_shr(len).unwrap_or(0);
            [
                address,
                address | behind,
                address.wrapping_sub(1),
                address ^ other,
            ]
        });
    let addresses: Vec<u128> = beside
        .chain((0..LOOKED_UP).map(|_| numbers.address()))
        .collect();
    for addresses in addresses.chunks(BATCH) {
        let cut_all: Vec<A> = addresses.iter().map(|&address| A::of(address)).collect();
        let mut some = [Some(EntryIdx::new(77)); BATCH];
        let mut each = some;
        let address_of = |i: usize| cut_all[i];
        shown.find_some(id, address_of, &mut some[..addresses.len()]);
        shown.find_in(&[id.0; BATCH], address_of, &mut each[..addresses.len()]);
        for (i, &address) in addresses.iter().enumerate() {
            let want = longest(model, &lens, cut(address, A::WIDTH)).map(EntryIdx::new);
            let found = (shown.find(id, cut_all[i]), some[i], each[i]);
            assert_eq!(found, (want, want, want), "{address:032x}");
        }
    }
}

/// Inserts prefixes until there are `most`, and removes them until there are none. The prefixes of
/// a second trie stay.
fn grow_and_shrink<A: Cut>(
    forest: &mut Forest<A>,
    [id, other]: [TrieId; 2],
    most: usize,
    lens: &std::ops::RangeInclusive<u32>,
) {
    let (mut model, mut others) = (Model::new(), Model::new());
    let mut numbers = Numbers(most as u64);
    let mut all = Vec::new();
    let mut value = 0;
    while all.len() < most {
        let len = lens.start() + numbers.below(u64::from(lens.end() - lens.start() + 1)) as u32;
        let key = (len, cut(numbers.address(), len));
        value += 1;
        if numbers.below(OF_OTHER) == 0 {
            forest.insert(other, prefix::<A>(key), value);
            others.insert(key, value);
            continue;
        }
        forest.insert(id, prefix::<A>(key), value);
        if numbers.below(50) == 0 {
            forest.snapshot();
        }
        if model.insert(key, value).is_none() {
            all.push(key);
        }
        if all.len().is_power_of_two() || all.len() == most {
            check(forest, id, &model, &mut numbers);
        }
    }
    while let Some(key) = all.pop() {
        forest.remove(id, prefix::<A>(key));
        model.remove(&key);
        if numbers.below(50) == 0 {
            forest.snapshot();
        }
        if all.len().is_power_of_two() || all.len() + 5 == most {
            check(forest, id, &model, &mut numbers);
        }
    }
    assert!(forest.is_empty(id) && !forest.is_empty(other));
    check(forest, other, &others, &mut numbers);
    check(forest, TrieId::EMPTY, &Model::new(), &mut numbers);
}

fn prefix<A: Cut>((len, address): (u32, u128)) -> Prefix<A> {
    let address = A::of(address);
    Prefix { address, len }
}

/// Repeats the cycle. The second one must not need more memory.
fn grow_and_shrink_twice<A: Cut>(most: usize, lens: std::ops::RangeInclusive<u32>) {
    let mut forest = Forest::<A>::new(0);
    let ids = [forest.add(), forest.add()];
    grow_and_shrink::<A>(&mut forest, ids, most, &lens);
    let room = forest.room();
    grow_and_shrink::<A>(&mut forest, ids, most, &lens);
    assert_eq!(forest.room(), room);
}

#[test]
fn tries_are_right_while_tables_come_and_go() {
    grow_and_shrink_twice::<u64>(usual_or_interpreted(17_000, 6), 0..=64);
    grow_and_shrink_twice::<u64>(usual_or_interpreted(17_000, 6), 14..=32);
    grow_and_shrink_twice::<u128>(usual_or_interpreted(3_000, 6), 0..=128);
}

proptest! {
    #[test]
    fn small_tries_equal_a_table_of_all_prefixes(
        steps in proptest::collection::vec((any::<bool>(), 0u32..=24, any::<u64>()), 0..CHANGES),
    ) {
        let mut forest = Forest::new(0);
        let id = forest.add();
        let mut model = Model::new();
        let mut numbers = Numbers(1);
        for (value, (insert, len, bits)) in (1..).zip(steps) {
            // Few different bits, so that prefixes are nested.
            let address = cut(u128::from(bits & 0x4210_1084_2108_4210) << 64, len);
            let prefix = prefix::<u64>((len, address));
            if insert {
                forest.insert(id, prefix, value);
                model.insert((len, address), value);
            } else {
                forest.remove(id, prefix);
                model.remove(&(len, address));
            }
            if bits & 0x8000 == 0 {
                forest.snapshot();
            }
        }
        check(&mut forest, id, &model, &mut numbers);
    }
}

/// Length of a step's prefix, relative to the bits that most prefixes share: 0, shorter, equal,
/// longer, or the full width.
fn any_len(shared: u32, width: u32) -> impl Strategy<Value = u32> {
    prop_oneof![
        1 => Just(0),
        2 => 0..=shared,
        2 => Just(shared),
        12 => shared..=width.min(shared + 14),
        2 => shared..=width,
        2 => Just(width),
    ]
}

/// Step: true to insert a prefix; its length; its bits after the shared ones; a shared bit to
/// invert, if any; true if packets see the change at once.
type Step = (bool, u32, u128, Option<u32>, bool);

/// Number of bits that most prefixes share, and steps.
fn shared_and_steps(width: u32) -> impl Strategy<Value = (u32, Vec<Step>)> {
    (0..=width).prop_flat_map(move |shared| {
        let other = proptest::option::weighted(0.04, 0..shared.max(1));
        let step = (
            prop::bool::weighted(0.6),
            any_len(shared, width),
            any::<u128>(),
            other,
            prop::bool::weighted(0.15),
        );
        let steps = proptest::collection::vec(step, 0..CHANGES);
        (Just(shared), steps)
    })
}

/// Checks that a trie equals a map of all prefixes after each step that packets see, and that older
/// snapshots do not change. Most prefixes are removed at the end.
fn share_and_part<A: Cut>(shared: u32, steps: Vec<Step>) {
    let mut forest = Forest::<A>::new(0);
    let id = forest.add();
    let (mut model, mut numbers) = (Model::new(), Numbers(u64::from(shared)));
    let common = cut(0xa5c3_0f96_5a3c_f069_1234_5678_9abc_def1, shared);
    let mut held = Vec::new();
    for (value, (comes, len, bits, other, is_seen)) in (1..).zip(steps) {
        // Few different bits after the shared ones, so that prefixes are nested and tables are
        // dense.
        let bits = (bits & 0x9249 << 112) | (bits >> 64 & 0x11);
        let other = other.map_or(0, |bit| 1 << 127 >> bit);
        let key = (len, cut((common ^ other) | bits.unbounded_shr(shared), len));
        if comes {
            forest.insert(id, prefix::<A>(key), value);
            model.insert(key, value);
        } else {
            // Remove an existing prefix, if there is one.
            let key = model.keys().min_by_key(|known| known.1.abs_diff(key.1));
            let key = key.copied().unwrap_or((len, 0));
            forest.remove(id, prefix::<A>(key));
            model.remove(&key);
        }
        if is_seen {
            check(&mut forest, id, &model, &mut numbers);
            held.push((forest.snapshot(), model.clone()));
        }
    }
    for key in model.keys().copied().skip(3).collect::<Vec<_>>() {
        forest.remove(id, prefix::<A>(key));
        model.remove(&key);
        if model.len() % 8 == 3 {
            check(&mut forest, id, &model, &mut numbers);
        }
    }
    for (shown, model) in held {
        check_shown(&shown, id, &model, &mut numbers);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(usual_or_interpreted(64, 2) as u32))]

    #[test]
    fn tries_are_right_whatever_their_prefixes_share(
        (shared, steps) in shared_and_steps(32),
        (shared_by_long, steps_of_long) in shared_and_steps(128),
    ) {
        share_and_part::<u64>(shared, steps.clone());
        share_and_part::<u128>(shared, steps);
        share_and_part::<u128>(shared_by_long, steps_of_long.clone());
        let in_64 = steps_of_long.into_iter().map(|(comes, len, bits, other, is_seen)| {
            let other = other.map(|bit| bit.min(63));
            (comes, len.min(64), bits, other, is_seen)
        });
        share_and_part::<u64>(shared_by_long.min(64), in_64.collect());
    }

    #[test]
    fn a_span_is_right_for_the_prefixes_that_it_was_made_for(shared in 0u32..=60, bits: u64, count in 1usize..1_000_000) {
        let prefix = prefix::<u64>((shared, cut(u128::from(bits) << 64, shared)));
        let span = Span::of(prefix, count);
        prop_assert!(span.has(prefix) && span.suits(count));
        prop_assert!(span.slots() <= count * 16);
        prop_assert_eq!(span.shared().cut(span.from()), span.shared());
        for slot in [0, span.slots() - 1] {
            prop_assert_eq!(span.slot(span.address(slot)), slot);
        }
        let other = 1u64 << 63 >> (bits % 64);
        let is_in = span.slot(prefix.address ^ other) < span.slots();
        prop_assert_eq!(is_in, bits % 64 >= u64::from(span.from()));
    }
}

/// Iterates over `count` adjacent prefixes of 24 bits, from 10.8.0.0 on.
fn side_by_side(count: u32) -> impl Iterator<Item = (u32, u128)> {
    (0..count).map(|number| (24, u128::from(0x0a08_0000 + (number << 8)) << 96))
}

/// Returns the number of nodes on the path of an address.
fn nodes_to(forest: &mut Forest<u64>, id: TrieId, address: u128) -> u32 {
    forest.snapshot().nodes_to(id, u64::of(address))
}

#[test]
fn prefixes_side_by_side_are_found_without_a_node_between_also_after_another_came_and_went() {
    for count in [1, 7, 64, 256, usual_or_interpreted(2048, 300) as u32] {
        for is_seen_one_by_one in [false, true] {
            let mut forest = Forest::<u64>::new(0);
            let id = forest.add();
            forest.insert(id, prefix((0, 0)), 1);
            for (value, key) in (2..).zip(side_by_side(count)) {
                forest.insert(id, prefix(key), value);
                if is_seen_one_by_one {
                    forest.snapshot();
                }
            }
            let (_, address) = side_by_side(count).last().expect("there is one");
            assert_eq!(nodes_to(&mut forest, id, address), 0);
            let other = prefix((16, 0xc0a8 << 112));
            forest.insert(id, other, 1);
            assert!(nodes_to(&mut forest, id, address) > 0);
            forest.remove(id, other);
            assert_eq!(nodes_to(&mut forest, id, address), 0);
        }
    }
}

#[test]
fn a_prefix_that_comes_and_goes_again_and_again_does_not_have_all_slots_written_each_time() {
    const COUNT: u32 = usual_or_interpreted(2048, 300) as u32;
    let mut forest = Forest::<u64>::new(0);
    let id = forest.add();
    for (value, key) in (1..).zip(side_by_side(COUNT)) {
        forest.insert(id, prefix(key), value);
    }
    let (_, address) = side_by_side(COUNT).last().expect("there is one");
    let other = prefix((16, 0xc0a8 << 112));
    let mut changed = 0;
    let mut nodes = nodes_to(&mut forest, id, address);
    for _ in 0..COUNT {
        for value in [Some(1), None] {
            match value {
                Some(value) => forest.insert(id, other, value),
                None => forest.remove(id, other),
            }
            let now = nodes_to(&mut forest, id, address);
            changed += u32::from(now != nodes);
            nodes = now;
        }
    }
    assert!((2..=20).contains(&changed), "{changed}");
}
