//! Tests of the interfaces between the parts of the ternary engine.

use super::cells::{Cells, MAX_SURE};
use super::form::Form;
use super::improve::Improvement;
use super::index::{Change, Index};
use super::layout::Layout;
use super::model::Model;
use super::plan::{Plan, Stream};
use super::records::FlatRule;
use super::{MAX_LEARNED, MAX_MISSED, Ternary};
use crate::engine::{MatchEngine, Matcher, Replay, Rule};
use crate::entry::{EntryId, EntryIdx, Rank};
use crate::key::{FieldMatch, KeyField, KeyShape, MatchKind};
use crate::test_size::usual_or_interpreted;
use bits::{Id, Value};
use proptest::prelude::*;
use std::iter;
use std::sync::Arc;

/// Numbers that are close together, far apart, or at the limits.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..300u32, any::<u32>(), u32::MAX - 300..=u32::MAX]
}

/// Disjoint intervals in order.
fn intervals() -> impl Strategy<Value = Vec<(u32, u32)>> {
    proptest::collection::btree_set(number(), 0..usual_or_interpreted(600, 100)).prop_map(|ends| {
        let ends: Vec<u32> = ends.into_iter().collect();
        ends.chunks_exact(2)
            .map(|ends| (ends[0], ends[1]))
            .collect()
    })
}

proptest! {
    #[test]
    fn a_model_is_never_farther_from_a_place_than_it_says(intervals in intervals()) {
        let model = Model::train(&intervals);
        for (place, &(lo, hi)) in intervals.iter().enumerate() {
            for x in [lo, lo + (hi - lo) / 3, hi - (hi - lo) / 5, hi] {
                let leaf = model.leaves()[model.leaf(x)];
                let first = leaf.place(x);
                prop_assert!(first <= place && place <= first + leaf.span(), "{x}: {first} {leaf:?}");
            }
        }
    }
}

fn shape() -> KeyShape {
    let fields = [
        (32, MatchKind::Ternary),
        (16, MatchKind::Range),
        (64, MatchKind::Lpm),
        (8, MatchKind::Ternary),
    ];
    KeyShape::new(fields.map(|(width, kind)| KeyField { width, kind }))
}

/// A few different values for each field, so that rules overlap, and some that are spread out, so
/// that there are independent sets.
fn matches(stream: &mut Stream) -> Arc<[FieldMatch]> {
    let value = |number: u64, width| Value::truncated(number.into(), width);
    let spread = [stream.next(), stream.next()];
    let len = [8, 16, 24, 32, 32][stream.below(5)];
    let (lo, more) = (stream.below(100), stream.below(50) * stream.below(2));
    let mask = [0, 255, 255, 0xf0][stream.below(4)];
    let prefix = [0, 20, 64][stream.below(3)];
    let fields = [
        FieldMatch::Ternary {
            value: value(spread[0], 32),
            mask: Value::prefix_mask(len, 32),
        },
        FieldMatch::Range {
            lo: value(lo as u64, 16),
            hi: value((lo + more) as u64, 16),
        },
        FieldMatch::Lpm {
            value: value(((spread[1] % 5) << 61) | (spread[1] % 3), 64),
            prefix_len: prefix,
        },
        FieldMatch::Ternary {
            value: value(stream.below(4) as u64, 8),
            mask: value(mask, 8),
        },
    ];
    fields.map(FieldMatch::canonical).into()
}

/// Number of keys in a check, each near some rule.
const LOOKED_UP: usize = usual_or_interpreted(200, 10);

struct Case {
    shape: KeyShape,
    layout: Arc<Layout>,
    stream: Stream,
    /// Current rules with their matches.
    rules: Vec<(FlatRule, Arc<[FieldMatch]>)>,
    next: usize,
}

impl Case {
    fn new(seed: u64) -> Self {
        let shape = shape();
        let layout = Arc::new(Layout::new(&shape));
        Self {
            shape,
            layout,
            stream: Stream(seed),
            rules: Vec::new(),
            next: 0,
        }
    }

    fn insert(&mut self) -> Change {
        let class = self.stream.below(1000) as i64;
        let rank = Rank::smallest_first(class, EntryId(self.next as u64));
        self.insert_ranked(rank)
    }

    fn insert_ranked(&mut self, rank: Rank) -> Change {
        let matches = matches(&mut self.stream);
        let rule = FlatRule {
            rows: self.layout.rule(&self.shape, &matches),
            rank: rank.words(),
            idx: EntryIdx::from_index(self.next),
        };
        self.next += 1;
        self.rules.push((rule.clone(), matches));
        Change::insert(rule)
    }

    /// Inserts a rule with the same match as another one.
    fn insert_like(&mut self, at: usize) -> Change {
        let class = self.stream.below(1000) as i64;
        self.insert_like_ranked(at, class)
    }

    fn insert_like_ranked(&mut self, at: usize, class: i64) -> Change {
        let rank = Rank::smallest_first(class, EntryId(self.next as u64));
        let (like, matches) = self.rules[at].clone();
        let rule = FlatRule {
            rank: rank.words(),
            idx: EntryIdx::from_index(self.next),
            ..like
        };
        self.next += 1;
        self.rules.push((rule.clone(), matches));
        Change::insert(rule)
    }

    /// Inserts a rule that matches all keys.
    fn insert_all(&mut self, class: i64) -> Change {
        let matches = self.shape.fields().iter().map(|field| match field.kind {
            MatchKind::Range => FieldMatch::Range {
                lo: Value::zero(field.width),
                hi: Value::zero(field.width).not(),
            },
            _ => FieldMatch::Ternary {
                value: Value::zero(field.width),
                mask: Value::zero(field.width),
            },
        });
        let matches: Arc<[FieldMatch]> = matches.collect();
        let rule = FlatRule {
            rows: self.layout.rule(&self.shape, &matches),
            rank: Rank::smallest_first(class, EntryId(0)).words(),
            idx: EntryIdx::from_index(self.next),
        };
        self.next += 1;
        self.rules.push((rule.clone(), matches));
        Change::insert(rule)
    }

    /// Inserts a rule into an engine, like [`insert`](Self::insert).
    fn insert_into(&mut self, engine: &mut Ternary) {
        let class = self.stream.below(1000) as i64;
        let rank = Rank::smallest_first(class, EntryId(self.next as u64));
        let idx = self.insert_ranked(rank).rule.idx;
        let (_, matches) = &self.rules[self.rules.len() - 1];
        engine.insert(Rule { idx, matches, rank });
    }

    fn remove(&mut self) -> Change {
        let which = self.stream.below(self.rules.len());
        let (rule, _) = self.rules.swap_remove(which);
        Change {
            is_insert: false,
            rule,
        }
    }

    /// Removes one of the first thousand rules, like [`remove`](Self::remove).
    fn remove_old(&mut self) -> Change {
        let which = self.stream.below(1000);
        let (rule, _) = self.rules.remove(which);
        Change {
            is_insert: false,
            rule,
        }
    }

    /// Returns an index without independent sets.
    fn plain(&self) -> Index {
        let rules: Vec<FlatRule> = self.rules.iter().map(|(rule, _)| rule.clone()).collect();
        let plan = Plan::new(&self.layout, &rules, &rules);
        Index::build(self.layout.clone(), &rules, &plan)
    }

    /// Returns an index with cells.
    fn with_cells(&self) -> Index {
        let rules: Vec<FlatRule> = self.rules.iter().map(|(rule, _)| rule.clone()).collect();
        let index = Index::new(&self.layout, Default::default(), rules.clone(), &rules);
        let in_cells = index.cells.as_ref().map_or(0, Cells::len);
        assert!(in_cells > rules.len() / 2, "{in_cells} rules are in cells");
        index
    }

    /// Returns an index with independent sets, whether it is faster or not.
    fn learned(&self) -> Index {
        let made = Improvement::new(Arc::new(Form::Many(Box::new(self.plain()))));
        let made = made.and_then(Improvement::unmeasured);
        made.expect("most rules have addresses of their own")
    }

    fn check(&mut self, index: &Index) {
        let mut keys = Vec::new();
        for _ in 0..LOOKED_UP {
            let (_, matches) = &self.rules[self.stream.below(self.rules.len())];
            for matched in &**matches {
                let value = match matched {
                    FieldMatch::Ternary { value, .. } | FieldMatch::Lpm { value, .. } => value,
                    FieldMatch::Range { hi, .. } => hi,
                    other => panic!("{other:?}"),
                };
                let other = (self.stream.below(4) == 0) as u64;
                keys.extend(value.limbs().iter().map(|limb| limb ^ other));
            }
        }
        let mut out = vec![None; LOOKED_UP];
        index.find_batch(&keys, &mut out);
        for (key, out) in keys.chunks(self.shape.limbs()).zip(out) {
            let matching = self
                .rules
                .iter()
                .filter(|(_, matches)| self.shape.matches(matches, key));
            let expected = matching
                .min_by_key(|(rule, _)| rule.rank)
                .map(|(rule, _)| rule.idx);
            assert_eq!((out, index.find(key)), (expected, expected), "{key:?}");
        }
    }
}

/// Inserts and removes rules in an index of the case's rules. Returns the index.
fn come_and_go(case: &mut Case, mut index: Index) -> Index {
    case.check(&index);
    let before = index.clone();
    let rules_before = case.rules.clone();
    for round in 0..rules_before.len() {
        let change = if round % 3 == 0 {
            case.insert()
        } else {
            case.remove()
        };
        index.apply(&change);
    }
    case.check(&index);
    assert_eq!(index.rules().len(), case.rules.len());
    assert_eq!(index.len(), case.rules.len());
    // Copies share the sets, but not the record of removed rules.
    let rules_after = std::mem::replace(&mut case.rules, rules_before);
    case.check(&before);
    case.rules = rules_after;
    index
}

#[test]
fn an_index_with_independent_sets_equals_a_scan_while_rules_come_and_go() {
    let sizes = [(3, 60), (4, 700), (5, 2500)];
    for &(seed, rules) in &sizes[..usual_or_interpreted(3, 1)] {
        let mut case = Case::new(seed);
        for _ in 0..rules {
            case.insert();
        }
        let index = case.learned();
        come_and_go(&mut case, index);
    }
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn an_index_with_cells_equals_a_scan_while_rules_come_and_go_and_when_a_cell_is_full() {
    for (seed, rules) in [(8, 700), (9, 3000)] {
        let mut case = Case::new(seed);
        for _ in 0..rules {
            case.insert();
        }
        let index = case.with_cells();
        let mut index = come_and_go(&mut case, index);
        let taken = index.cells.as_ref().map_or(0, Cells::len);
        // More rules with the same bits than fit into a cell.
        let like = index.cells.iter().flat_map(Cells::rules).next();
        let like = like.expect("rules are in cells");
        let is_like = |(rule, _): &(FlatRule, _)| rule.rank == like.rank;
        let like = case.rules.iter().position(is_like).expect("it is there");
        for _ in 0..400 {
            index.apply(&case.insert_like(like));
        }
        let more = index.cells.as_ref().map_or(0, Cells::len) - taken;
        assert!((200..400).contains(&more), "{more} rules more in cells");
        case.check(&index);
        while case.rules.len() > 100 {
            index.apply(&case.remove());
        }
        assert_eq!(index.len(), 100);
        case.check(&index);
    }
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn a_rule_of_a_cell_is_sure_unless_one_of_the_rows_may_come_before_it() {
    let mut case = Case::new(11);
    for _ in 0..3000 {
        case.insert();
    }
    let mut index = case.with_cells();
    let sure = |index: &Index| index.cells.as_ref().map_or(0, Cells::sure);
    let at_first = sure(&index);
    assert!(at_first > 1000, "{at_first} rules are sure");
    let one = index.cells.iter().flat_map(Cells::rules).next();
    let one = one.expect("rules are in cells").rank;
    let is_it = |(rule, _): &(FlatRule, _)| rule.rank == one;
    let like = case.rules.iter().position(is_it).expect("it is there");
    index.apply(&case.insert_like_ranked(like, -2));
    assert_eq!(sure(&index), at_first + 1);
    index.apply(&case.insert_all(-1));
    assert_eq!(
        sure(&index),
        1,
        "all others come behind the one for all keys"
    );
    case.check(&index);
    index.apply(&case.insert_like(like));
    assert_eq!(sure(&index), 1);
    case.check(&index);
}

/// Returns true if some key matches both.
fn meet(one: &[FieldMatch], other: &[FieldMatch]) -> bool {
    let number = |value: &Value| value.limbs()[0];
    let fixed = |matched: &FieldMatch| match matched {
        FieldMatch::Ternary { value, mask } => (number(value), number(mask)),
        FieldMatch::Lpm { value, prefix_len } => {
            (number(value), number(&Value::prefix_mask(*prefix_len, 64)))
        }
        other => panic!("{other:?}"),
    };
    one.iter().zip(other).all(|pair| match pair {
        (
            FieldMatch::Range { lo, hi },
            FieldMatch::Range {
                lo: first,
                hi: last,
            },
        ) => number(lo) <= number(last) && number(first) <= number(hi),
        (one, other) => {
            let ((a, a_mask), (b, b_mask)) = (fixed(one), fixed(other));
            (a ^ b) & a_mask & b_mask == 0
        }
    })
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn all_rules_of_cells_are_sure_that_no_rule_of_the_rows_meets_before() {
    let mut case = Case::new(12);
    for _ in 0..2000 {
        case.insert();
    }
    let mut index = case.with_cells();
    for _ in 0..2 {
        let matches_of = |rule: &FlatRule| {
            let mut rules = case.rules.iter();
            let found = rules.find(|(other, _)| other.rank == rule.rank);
            found.expect("it is there").1.clone()
        };
        let rows: Vec<_> = index.rows.iter().flat_map(|rows| rows.rules()).collect();
        let rows: Vec<_> = rows.iter().map(|row| (row.rank, matches_of(row))).collect();
        let is_sure = |rule: &FlatRule| {
            let matches = matches_of(rule);
            let mut rows = rows.iter();
            !rows.any(|(rank, row)| *rank < rule.rank && meet(row, &matches))
        };
        let cells = index.cells.as_ref().expect("it has some");
        let sure = cells.rules().filter(is_sure).count();
        assert_eq!(cells.sure(), sure);
        assert!(sure > 500 && cells.len() - sure > 50, "{sure} are sure");
        for _ in 0..500 {
            index.apply(&case.insert());
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn no_rule_is_sure_any_more_when_one_comes_to_the_rows_of_very_many_cells() {
    let mut case = Case::new(13);
    let mut rules: Vec<FlatRule> = (0..1000).map(|_| case.insert().rule).collect();
    let cells = Cells::of_most(&case.layout, &mut rules, 500);
    let mut cells = cells.expect("most have addresses");
    cells.trust(&[]);
    assert_eq!(cells.sure(), cells.len());
    let last = case.insert_all(2000).rule;
    while cells.cells() <= 2 * MAX_SURE {
        cells.insert(&case.insert().rule, iter::empty());
    }
    assert_eq!(cells.sure(), cells.len());
    cells.heed(&last);
    assert_eq!(cells.sure(), 0);
    cells.insert(&case.insert().rule, iter::empty());
    assert_eq!(cells.sure(), 0);
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn cells_that_all_grow_are_built_anew_before_they_take_much_more_room_than_they_need() {
    let mut case = Case::new(10);
    for _ in 0..5000 {
        case.insert();
    }
    let mut index = case.with_cells();
    let room = index.own_bytes();
    let mut came = 0;
    while !index.is_outgrown() {
        index.apply(&case.insert_like(came));
        came += 1;
    }
    assert!(came < 5000, "it is built anew for its number of rules");
    assert!(index.own_bytes() < room * 4);
    case.check(&index);
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn where_nearly_all_rules_are_in_sets_few_changes_are_worth_another_try() {
    let mut case = Case::new(1);
    for _ in 0..2000 {
        case.insert();
    }
    let is_worth_trying = |index: &Index, changes| {
        let mut engine = Ternary::new(Arc::new(case.shape.clone()));
        engine.start_over(Form::Many(Box::new(index.clone())));
        engine.untried = Some(changes);
        engine.is_worth_trying()
    };
    let plain = case.plain();
    assert!(!is_worth_trying(&plain, 500) && is_worth_trying(&plain, 501));
    let learned = case.learned();
    let outside = learned.built().max(2000 / MAX_LEARNED);
    assert!(outside < 1900, "{outside} of 2000 rules are in no set");
    assert!(!is_worth_trying(&learned, outside / 4) && is_worth_trying(&learned, outside / 4 + 1));
}

/// Returns an engine with this index, and with an improvement in progress.
fn improving(case: &Case, index: Index) -> Ternary {
    let mut engine = Ternary::new(Arc::new(case.shape.clone()));
    engine.start_over(Form::Many(Box::new(index)));
    let begun = Improvement::new(engine.versions.snapshot());
    engine.improvement = begun.map(|improvement| (improvement, Vec::new()));
    engine
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn a_better_index_that_is_being_made_outlives_new_plans_until_many_rules_have_changed() {
    let mut case = Case::new(6);
    for _ in 0..3000 {
        case.insert();
    }
    let learned = case.learned();
    let mut engine = improving(&case, learned);
    let mut plans = 0;
    for round in 0..700 {
        let is_outgrown = engine.is_outgrown();
        case.insert_into(&mut engine);
        if is_outgrown {
            // Both are removed again, one before it was ever in an index.
            case.insert_into(&mut engine);
            let (rule, _) = case.rules.pop().expect("one was put in");
            engine.pending.remove(&rule.rank);
            engine.change(case.remove_old());
            engine.snapshot();
            plans += 1;
            assert!(engine.pending.is_empty() && engine.improvement.is_some());
        } else if round % 5 == 0 {
            engine.change(case.remove_old());
        }
    }
    assert!(plans > 0, "nothing was planned anew");
    engine.snapshot();
    let (improvement, missed) = engine.improvement.take().expect("few rules have changed");
    let mut index = improvement.unmeasured().expect("there are sets");
    missed.iter().for_each(|change| index.apply(change));
    assert_eq!(index.len(), case.rules.len());
    case.check(&index);

    // Change rules until the improvement is abandoned.
    let mut engine = improving(&case, index);
    let (rules, mut came) = (case.rules.len(), 0);
    while engine.improvement.is_some() {
        case.insert_into(&mut engine);
        engine.snapshot();
        came += 1;
        assert!(came < rules, "it is still being made");
    }
    assert!(came * MAX_MISSED > rules, "{came} of {rules}");
}

#[test]
#[cfg_attr(miri, ignore = "plans for thousands of rules: Miri takes too long")]
fn a_small_index_is_planned_anew_when_a_quarter_of_its_rules_came_since_and_a_large_one_is_not() {
    for (rules, came, is_outgrown) in [(600, 200, false), (600, 201, true), (5000, 2000, false)] {
        let mut case = Case::new(7);
        for _ in 0..rules {
            case.insert();
        }
        let mut index = case.plain();
        for _ in 0..came {
            index.apply(&case.insert());
        }
        assert_eq!(index.is_outgrown(), is_outgrown, "{came} came to {rules}");
    }
}

/// Returns true if compiled code can search the rules of an engine inline. The engine has one field
/// of this width and kind, and a rule for each interval.
fn are_seen(width: u32, kind: MatchKind, intervals: &[(u64, u64)]) -> bool {
    let value = |number: u64| Value::truncated(number.into(), width);
    let shape = Arc::new(KeyShape::new([KeyField { width, kind }]));
    let mut engine = Ternary::new(shape);
    for (at, &(lo, hi)) in intervals.iter().enumerate() {
        let matches = match kind {
            MatchKind::Range => FieldMatch::Range {
                lo: value(lo),
                hi: value(hi),
            },
            _ => FieldMatch::Ternary {
                value: value(lo),
                mask: value(!(lo ^ hi)),
            },
        };
        engine.insert(Rule {
            idx: EntryIdx::from_index(at),
            matches: &[matches.canonical()].into(),
            rank: Rank::smallest_first(0, EntryId(at as u64)),
        });
    }
    engine.snapshot().vectors().is_some()
}

#[test]
fn code_sees_few_rules_whose_parts_are_soon_told_apart() {
    let one_each = |rules: u64| -> Vec<(u64, u64)> { (0..rules).map(|at| (at, at)).collect() };
    for rules in [0, 1, 56] {
        assert!(are_seen(16, MatchKind::Ternary, &one_each(rules)));
    }
    assert!(!are_seen(16, MatchKind::Ternary, &one_each(57)));
    for width in [16, 63] {
        assert!(are_seen(width, MatchKind::Range, &one_each(15)));
        // Seventeen classes, including the one after the last interval.
        assert!(!are_seen(width, MatchKind::Range, &one_each(16)));
    }
    // The greatest number is the same as the padding after the classes.
    assert!(!are_seen(64, MatchKind::Range, &one_each(1)));
    assert!(are_seen(64, MatchKind::Ternary, &[(0, u64::MAX)]));
}
