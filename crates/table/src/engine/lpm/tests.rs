//! Tries against a table of all prefixes, as they grow to the largest tables and shrink to nothing.

use super::search::BATCH;
use super::trie::{Address, Forest, Prefix, TrieId};
use crate::entry::EntryIdx;
use crate::test_size::usual_or_interpreted;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// Prefixes by length and bits.
type Model = HashMap<(u32, u128), u32>;

/// What the model, which has prefixes of these lengths, says an address hits.
fn longest(model: &Model, lens: &BTreeSet<u32>, address: u128) -> Option<u32> {
    let by_len = |len: &u32| model.get(&(*len, cut(address, *len)));
    lens.iter().rev().find_map(by_len).map(|value| value - 1)
}

/// The first `len` bits of an address.
fn cut(address: u128, len: u32) -> u128 {
    address & !u128::MAX.checked_shr(len).unwrap_or(0)
}

/// A sequence of numbers that look random.
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

    /// An address that shares the beginning with many others: whole bytes are from few.
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

/// An [`Address`] for both widths from one of 128 bits.
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

/// Prefixes beside which addresses are looked up, and other addresses.
const LOOKED_UP: usize = usual_or_interpreted(60, 2);
/// One in so many prefixes is of the second trie.
const OF_OTHER: u64 = usual_or_interpreted(100, 5) as u64;
/// Changes of a small trie.
const CHANGES: usize = usual_or_interpreted(120, 8);

fn check<A: Cut>(forest: &mut Forest<A>, id: TrieId, model: &Model, numbers: &mut Numbers) {
    let shown = forest.snapshot();
    let lens = model.keys().map(|&(len, _)| len).collect();
    let beside = model.keys().take(LOOKED_UP).flat_map(|&(len, address)| {
        let behind = u128::MAX.checked_shr(len).unwrap_or(0);
        [address, address | behind, address.wrapping_sub(1)]
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

/// Prefixes come until there are `most`, and go until there are none; others of a second trie stay.
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

/// Twice, of which the second takes no more room.
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
            // Few different bits, so that prefixes lie in one another.
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
