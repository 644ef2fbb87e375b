//! Tests of engines with snapshots that share memory with later changes, against a list of rules.

use super::{DirectIndex, Directness, Improved, Linear, MatchEngine, Matcher, Rule, choose};
use crate::entry::{EntryId, EntryIdx, Rank};
use crate::key::{FieldMatch, KeyField, KeyShape, MatchKind};
use crate::packing::PackedKey;
use crate::test_size::usual_or_interpreted;
use bits::Value;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Key shapes with fields of up to one limb, and of several.
fn shapes() -> Vec<Arc<KeyShape>> {
    let shape = |fields: &[(u32, MatchKind)]| {
        let fields = fields.iter().map(|&(width, kind)| KeyField { width, kind });
        Arc::new(KeyShape::new(fields))
    };
    vec![
        shape(&[(64, MatchKind::Exact)]),
        shape(&[(48, MatchKind::Exact), (64, MatchKind::Exact)]),
        shape(&[(64, MatchKind::Exact); 5]),
        shape(&[(32, MatchKind::Lpm)]),
        shape(&[(128, MatchKind::Lpm)]),
        shape(&[(8, MatchKind::Exact), (32, MatchKind::Lpm)]),
    ]
}

/// Returns one of a few numbers that differ in the highest and lowest bits.
fn number(which: u8, width: u32) -> Value {
    let which = u128::from(which);
    let top = (which & 7) << (width - 3);
    Value::truncated(top | which >> 3 & 7 | which >> 6 << (width / 2), width)
}

/// Returns the match with this number. Few rules have the same key.
fn matches(shape: &KeyShape, which: u16) -> Arc<[FieldMatch]> {
    let [bits, lens] = which.to_le_bytes();
    let fields = shape.fields().iter();
    let matched = fields.map(|field| match field.kind {
        MatchKind::Lpm => FieldMatch::Lpm {
            value: number(bits, field.width),
            prefix_len: [0, 1, 3, 7, 12, field.width / 2, 25, field.width][lens as usize % 8],
        }
        .canonical(),
        _ if field.width == 8 => FieldMatch::Exact(number(bits & 1, field.width)),
        _ => FieldMatch::Exact(number(bits, field.width)),
    });
    matched.collect()
}

fn keys(shape: &KeyShape) -> Vec<u64> {
    let key = |which| {
        let fields = shape.fields().iter();
        let limbs = fields.flat_map(move |field| {
            let which = if field.width == 8 { which & 1 } else { which };
            number(which, field.width).limbs().to_vec()
        });
        limbs.collect::<Vec<_>>()
    };
    (0..=255).step_by(5).flat_map(key).collect()
}

/// Engine under test, and the list that it must equal.
struct Pair {
    shape: Arc<KeyShape>,
    keys: Vec<u64>,
    engine: Box<dyn MatchEngine>,
    list: Linear,
    /// The rule at each entry index.
    rules: Vec<Option<Arc<[FieldMatch]>>>,
}

type Answers = Vec<Option<EntryIdx>>;

impl Pair {
    fn new(shape: &Arc<KeyShape>) -> Self {
        Self {
            keys: keys(shape),
            engine: choose(shape),
            list: Linear::new(shape.clone()),
            rules: Vec::new(),
            shape: shape.clone(),
        }
    }

    /// Removes the rule if it is present. Otherwise inserts it at a free index.
    fn toggle(&mut self, which: u16) {
        self.toggle_rule(matches(&self.shape, which));
    }

    /// Like [`toggle`](Self::toggle), for any rule.
    fn toggle_rule(&mut self, matches: Arc<[FieldMatch]>) {
        let is_it = |rule: &Option<Arc<[FieldMatch]>>| rule.as_ref() == Some(&matches);
        let found = self.rules.iter().position(is_it);
        let free = self.rules.iter().position(Option::is_none);
        let place = found.or(free).unwrap_or(self.rules.len());
        let len = KeyShape::prefix_len(&matches);
        let rule = Rule {
            idx: EntryIdx::new(place as u32),
            matches: &matches,
            rank: Rank::smallest_first(-i64::from(len), EntryId(place as u64)),
        };
        self.rules.resize(self.rules.len().max(place + 1), None);
        match found {
            Some(_) => {
                self.engine.remove(rule);
                self.list.remove(rule);
                self.rules[place] = None;
            }
            None => {
                self.engine.insert(rule);
                self.list.insert(rule);
                self.rules[place] = Some(matches);
            }
        }
    }

    /// Returns a snapshot with the expected results for all keys.
    fn snapshot(&mut self) -> (Arc<dyn Matcher>, Answers) {
        let limbs = self.shape.limbs();
        let answers = self.keys.chunks_exact(limbs);
        let answers = answers.map(|key| Matcher::find(&self.list, key));
        (self.engine.snapshot(), answers.collect())
    }
}

/// Returns the results of a snapshot for all keys: from single lookups, from a batch, and after
/// announcing.
fn finds(matcher: &dyn Matcher, keys: &[u64], limbs: usize) -> [Answers; 3] {
    let one_by_one = keys.chunks_exact(limbs).map(|key| matcher.find(key));
    let mut together = vec![None; keys.len() / limbs];
    matcher.find_batch(keys, &mut together);
    let mut notes = vec![u64::MAX; together.len()];
    matcher.announce(keys, &mut notes);
    matcher.find_announced(keys, &mut notes);
    let of_note = |note: u64| Some(EntryIdx::new(note.checked_sub(1)? as u32));
    let announced = notes.into_iter().map(of_note);
    [one_by_one.collect(), together, announced.collect()]
}

/// Matcher that finds the keys below 100 and counts the calls.
#[derive(Debug, Default)]
struct Asked {
    alone: AtomicUsize,
    batches: Mutex<Vec<usize>>,
}

impl Matcher for Asked {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.alone.fetch_add(1, Relaxed);
        (key[0] < 100).then(|| EntryIdx::new(key[0] as u32))
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        assert_eq!(keys.len(), 2 * out.len());
        self.batches.lock().unwrap().push(out.len());
        for (key, out) in keys.chunks_exact(2).zip(out) {
            *out = (key[0] < 100).then(|| EntryIdx::new(key[0] as u32));
        }
    }

    fn memory(&self) -> usize {
        0
    }
}

#[test]
fn keys_that_were_announced_are_found_in_batches_unless_they_are_few() {
    for (count, alone, batches) in [
        (0, 0, vec![]),
        (8, 8, vec![]),
        (9, 0, vec![9]),
        (64, 0, vec![64]),
        (130, 2, vec![64, 64]),
        (150, 0, vec![64, 64, 22]),
    ] {
        let asked = Asked::default();
        let keys: Vec<u64> = (0..count).flat_map(|key| [key, 7]).collect();
        let mut notes = vec![u64::MAX; count as usize];
        asked.find_announced(&keys, &mut notes);
        let number = |key| if key < 100 { key + 1 } else { 0 };
        assert_eq!(notes, (0..count).map(number).collect::<Vec<_>>());
        assert_eq!(asked.alone.into_inner(), alone);
        assert_eq!(asked.batches.into_inner().unwrap(), batches);
    }
}

proptest! {
    #[test]
    fn every_snapshot_finds_what_a_list_of_its_moment_finds(
        steps in proptest::collection::vec((0u8..12, any::<u16>()), 0..usual_or_interpreted(100, 6)),
    ) {
        for shape in shapes() {
            let limbs = shape.limbs();
            let mut pair = Pair::new(&shape);
            let mut held = Vec::new();
            for &(step, which) in &steps {
                match step {
                    0..8 => pair.toggle(which % 2048),
                    8..10 => {
                        held.push(pair.snapshot());
                        held.drain(..held.len().saturating_sub(4));
                    }
                    10 if !held.is_empty() => drop(held.remove(which as usize % held.len())),
                    10 => pair.toggle(which % 16),
                    _ => while pair.engine.improve(Duration::ZERO) != Improved::NoMore {},
                }
            }
            held.push(pair.snapshot());
            for (matcher, answers) in &held {
                for found in finds(&**matcher, &pair.keys, limbs) {
                    prop_assert_eq!(&found, answers);
                }
            }
        }
    }
}

/// Widths of exact fields, mostly small, so that some keys suit a direct index, some are packed,
/// and some are too long for either. All have room for a [`number`].
fn exact_widths() -> impl Strategy<Value = Vec<u32>> {
    let width = prop_oneof![4 => 3u32..=8, 2 => 9u32..=32, 2 => 33u32..=64, 1 => 65u32..=128];
    proptest::collection::vec(width, 1..5)
}

/// Returns the rule with this number. A small number gives small values in all fields.
fn exact_rule(shape: &KeyShape, number: u64) -> Arc<[FieldMatch]> {
    let fields = (0..).zip(shape.fields());
    let value = |(at, field): (u32, &KeyField)| {
        let shifted = u128::from(number >> (3 * at));
        FieldMatch::Exact(Value::truncated(shifted << 64 | shifted, field.width))
    };
    fields.map(value).collect()
}

proptest! {
    /// Native code is compiled for the index that the widths of the fields imply, before there are
    /// entries.
    #[test]
    fn exact_keys_have_the_index_that_their_widths_promise_whatever_comes(
        widths in exact_widths(),
        numbers in proptest::collection::vec(prop_oneof![0u64..200, any::<u64>()], 0..usual_or_interpreted(150, 12)),
    ) {
        let exact = |&width| KeyField { width, kind: MatchKind::Exact };
        let shape = Arc::new(KeyShape::new(widths.iter().map(exact)));
        let directness = Directness::of(widths.iter().copied());
        let may_be_direct = shape.limbs() <= DirectIndex::MAX_LIMBS;
        let packed = PackedKey::of(&widths).map(|key| key.limbs);
        let mut pair = Pair::new(&shape);
        let mut held = std::collections::VecDeque::new();
        for number in numbers {
            pair.toggle_rule(exact_rule(&shape, number));
            // Tables that packets hold have snapshots of two copies.
            held.push_back(pair.engine.snapshot());
            held.drain(..held.len().saturating_sub(3));
            let newest = &held[held.len() - 1];
            let hashed = newest.hashed().map(|index| index.limbs);
            match newest.direct() {
                Some(direct) => {
                    prop_assert!(may_be_direct && hashed.is_none());
                    let slots = direct.slots.len() - 1;
                    let all: u32 = widths.iter().sum();
                    prop_assert!(directness != Directness::Whole || slots == 1 << all);
                }
                None => {
                    prop_assert!(!may_be_direct || directness == Directness::Sometimes);
                    prop_assert_eq!(hashed, packed);
                }
            }
        }
    }
}

#[test]
fn threads_find_what_their_snapshot_has_while_rules_come_and_go() {
    let changes = usual_or_interpreted(400, 5);
    for shape in shapes() {
        let limbs = shape.limbs();
        let mut pair = Pair::new(&shape);
        (0..usual_or_interpreted(150, 20)).for_each(|which| pair.toggle((which * 5 % 2048) as u16));
        let keys = pair.keys.clone();
        let newest = Mutex::new(Arc::new(pair.snapshot()));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let snapshot = newest.lock().unwrap().clone();
                        let (matcher, answers) = &*snapshot;
                        for found in finds(&**matcher, &keys, limbs) {
                            assert_eq!(&found, answers);
                        }
                    }
                });
            }
            for change in 0..changes {
                pair.toggle((change * 7919 % 2048) as u16);
                *newest.lock().unwrap() = Arc::new(pair.snapshot());
            }
            is_over.store(true, Relaxed);
        });
    }
}
