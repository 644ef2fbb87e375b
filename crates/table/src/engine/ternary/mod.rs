//! Keys of all kinds: tuple space search with few tuples, each of them rarely searched, and, where that is faster, a learned index.
//!
//! - [`layout`] packs keys and rules into few words; [`records`] holds rules as a search compares them;
//! - [`tuples`] are hash tables ([`buckets`]), one for each of a few masks; [`windows`] tell which of them
//!   are worth a search;
//! - [`vectors`] hold some hundred rules of rare masks, a bit each, in rows ([`bit_rows`]) by value of each part of the key ([`dimension`]);
//! - [`cells`] hold rules by bits that most have fixed, where few rules have the same ones, which are compared in the [`rest`];
//! - [`isets`] are rules of which a key can match one at most, found by a [`model`]; [`learned`] is a few of them;
//! - [`plan`] chooses masks, windows and rows for a set of rules;
//! - [`index`] is all that together, one flat structure; [`search`] goes through it for a group of keys at a
//!   time;
//! - [`form`] is an index or, where rules are few, vectors alone;
//! - [`improve`] makes an index with independent sets, measures both and tells which is faster.
//!
//! Small changes go into the index: new rules into rows and tuples, and of a set is noted which of its rules are gone. When rows and tuples are
//! outgrown, rules are collected, and the next snapshot builds them anew, so that a load of any size is built once.

mod bit_rows;
mod buckets;
mod cells;
mod dimension;
mod form;
mod improve;
mod index;
mod isets;
mod layout;
mod learned;
mod model;
mod plan;
mod records;
mod rest;
mod search;
#[cfg(test)]
mod tests;
mod tuples;
mod vectors;
mod windows;

use self::form::Form;
use self::improve::{Improvement, Progress};
use self::index::{Change, Index};
use self::layout::Layout;
use self::learned::Learned;
use self::records::{FlatRule, RankWords};
pub use self::vectors::{VectorIndex, VectorPart};
use super::{Improved, MatchEngine, Matcher, Replay, Rule, Versions};
use crate::key::KeyShape;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// With fewer rules there is nothing to be saved.
const WORTH_LEARNING: usize = 512;
/// Where nearly all rules are in sets, few others cost lookups much; but for changes of less than a fourth of this share of all rules, sets are not made anew.
const MOST_LEARNED: usize = 16;

/// Of all rules, the share that may have changed while a better index is made, for it to be worth the rest of the time when rows and tuples are built.
const MOST_MISSED: usize = 4;

/// Without rules.
fn empty(layout: &Arc<Layout>) -> Form {
    let few = Form::of_few(layout, &[]);
    few.unwrap_or_else(|| Form::Many(Box::new(Index::empty(layout.clone()))))
}

/// Keys of any shape.
#[derive(Debug)]
pub struct Ternary {
    shape: Arc<KeyShape>,
    layout: Arc<Layout>,
    versions: Versions<Form>,
    /// Rules that came since the index was outgrown. The next snapshot has them, in a new index.
    pending: BTreeMap<RankWords, FlatRule>,
    /// A better index being made, and the changes that it does not have.
    improvement: Option<(Improvement, Vec<Change>)>,
    /// Changes since an improvement was tried; `None` if none was since the sets were made.
    untried: Option<usize>,
}

impl Ternary {
    /// Without rules, for keys of `shape`, which has no signed ranges: see [`Signed`](super::Signed).
    pub fn new(shape: Arc<KeyShape>) -> Self {
        let layout = Arc::new(Layout::new(&shape));
        Self {
            versions: Versions::new(empty(&layout)),
            pending: BTreeMap::new(),
            improvement: None,
            untried: None,
            layout,
            shape,
        }
    }

    fn flat(&self, rule: Rule<'_>) -> FlatRule {
        FlatRule {
            rows: self.layout.rule(&self.shape, rule.matches),
            rank: rule.rank.words(),
            idx: rule.idx,
        }
    }

    /// Whether the next snapshot needs an index built anew.
    fn is_outgrown(&self) -> bool {
        !self.pending.is_empty() || self.versions.newest().is_outgrown()
    }

    /// Builds what is outgrown: all but the independent sets, and these too if they have lost most of their rules. A better index that is being made is
    /// still one for nearly the same rules, unless many came and went: it is made to its end, else one that takes longer than it takes rows and tuples to
    /// be outgrown would never come.
    fn build(&mut self) {
        let newest = self.versions.newest();
        let pending: Vec<FlatRule> = std::mem::take(&mut self.pending).into_values().collect();
        if newest.len() + pending.len() <= form::MOST_FEW {
            let rules = [newest.rules(), pending.clone()].concat();
            if let Some(few) = Form::of_few(&self.layout, &rules) {
                return self.start_over(few);
            }
        }
        let (learned, mut rules, untried) = match newest.index() {
            Some(index) if !index.is_forgotten() => {
                let untried = self.untried.map(|changes| changes + pending.len());
                (index.learned.clone(), index.others(), untried)
            }
            _ => (Learned::default(), newest.rules(), None),
        };
        let improvement = self.improvement.take().map(|(improvement, mut missed)| {
            missed.extend(pending.iter().cloned().map(Change::insert));
            (improvement, missed)
        });
        rules.extend(pending);
        let index = Index::new(&self.layout, learned, rules.clone(), &rules);
        let len = index.len();
        self.start_over(Form::Many(Box::new(index)));
        self.improvement = improvement.filter(|(_, missed)| missed.len() * MOST_MISSED <= len);
        self.untried = untried;
    }

    fn start_over(&mut self, form: Form) {
        self.versions.reset(form);
        self.improvement = None;
        self.untried = None;
    }

    fn change(&mut self, change: Change) {
        self.untried = self.untried.map(|changes| changes + 1);
        if let Some((_, missed)) = &mut self.improvement {
            missed.push(change.clone());
        }
        self.versions.change(change);
    }

    /// Whether trying to improve is worth its time: a quarter of the rules that are in no set have changed, or would have if these were a few more.
    fn is_worth_trying(&self) -> bool {
        let newest = self.versions.newest();
        let rules = newest.len();
        let outside = newest.built_outside_sets().max(rules / MOST_LEARNED);
        let changed = self.untried.is_none_or(|changes| changes * 4 > outside);
        rules >= WORTH_LEARNING && changed
    }
}

impl MatchEngine for Ternary {
    fn insert(&mut self, rule: Rule<'_>) {
        let rule = self.flat(rule);
        if self.is_outgrown() || !self.versions.newest().takes(&rule) {
            self.pending.insert(rule.rank, rule);
        } else {
            self.change(Change::insert(rule));
        }
    }

    fn remove(&mut self, rule: Rule<'_>) {
        let rule = self.flat(rule);
        if self.pending.remove(&rule.rank).is_none() {
            let is_insert = false;
            self.change(Change { is_insert, rule });
        }
    }

    fn clear(&mut self) {
        self.pending.clear();
        self.start_over(empty(&self.layout));
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        if self.is_outgrown() {
            self.build();
        }
        self.versions.snapshot()
    }

    fn improve(&mut self, budget: Duration) -> Improved {
        let start = Instant::now();
        if self.is_outgrown() {
            self.build();
            return Improved::Done;
        }
        if self.improvement.is_none() && self.is_worth_trying() {
            let improvement = Improvement::new(self.versions.snapshot());
            self.improvement = improvement.map(|improvement| (improvement, Vec::new()));
        }
        while let Some((improvement, missed)) = &mut self.improvement {
            match improvement.step() {
                Progress::More if start.elapsed() < budget => {}
                Progress::More => return Improved::UnderWay,
                Progress::NoBetter => {
                    self.improvement = None;
                    self.untried = Some(0);
                }
                Progress::Better(mut index) => {
                    for change in &*missed {
                        index.apply(change);
                    }
                    self.start_over(Form::Many(index));
                    self.untried = Some(0);
                    return Improved::Done;
                }
            }
        }
        Improved::NoMore
    }

    fn memory(&self) -> usize {
        let own: usize = self.versions.memory(Form::own_bytes);
        own + self.versions.newest().shared_bytes()
    }
}
