//! [`Ternary`]: match engine for all key shapes. It is tuple space search with few tuples, each of
//! them rarely searched. It also uses bit vectors, cells and, if that is faster, a learned index.
//!
//! Modules:
//! - [`layout`] packs keys and rules into few words; [`records`] stores rules in the form in which
//!   they are compared.
//! - [`tuples`] are hash tables ([`buckets`]), one for each of a few masks. [`windows`] are filters
//!   that select the tuples worth searching.
//! - [`vectors`] hold some hundred rules with rare masks. Each rule is a bit in the bit rows
//!   ([`bit_rows`]) of each part of the key ([`dimension`]).
//! - [`cells`] hold rules by bits that most rules fix, if few rules have the same values. Within a
//!   cell, the other bits are compared ([`rest`]).
//! - [`isets`] are independent sets: rules of which a key can match at most one, found by a
//!   [`model`]. [`learned`] is a group of them.
//! - [`plan`] chooses masks, windows and bit vectors for a set of rules.
//! - [`index`] combines all of this in one flat structure; [`search`] searches it for a group of
//!   keys at a time.
//! - [`form`] is either an index or, for few rules, bit vectors alone.
//! - [`improve`] builds an index with independent sets, measures both and keeps the faster one.
//! - [`image`](mod@image) writes sets, bit vectors and tuples to one run of bytes, for other
//!   processors.
//!
//! Small changes are applied to the index: new rules are added to cells, bit vectors or tuples, and
//! rules removed from independent sets are marked. If these parts are outgrown, further new rules
//! are only collected, and the next snapshot rebuilds the index. A bulk load of any size is thus
//! built once.

mod bit_rows;
mod buckets;
mod cells;
mod dimension;
mod form;
mod image;
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
pub use self::image::ExportError;
pub(crate) use self::image::{ImageRule, image};
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

/// Minimum number of rules for which independent sets may pay.
const WORTH_LEARNING: usize = 512;
/// Lower bound for the share of rules outside of sets, one in `MAX_LEARNED`, when the number of
/// changes is judged. Without it, sets that hold nearly all rules would be rebuilt after very few
/// changes.
const MAX_LEARNED: usize = 16;

/// Maximum share of rules, one in `MAX_MISSED`, that may change while a better index is built
/// without its construction being abandoned.
const MAX_MISSED: usize = 4;

/// Creates the search structure without rules.
fn empty(layout: &Arc<Layout>) -> Form {
    let few = Form::of_few(layout, &[]);
    few.unwrap_or_else(|| Form::Many(Box::new(Index::empty(layout.clone()))))
}

/// Match engine for keys of any shape without signed ranges.
#[derive(Debug)]
pub struct Ternary {
    shape: Arc<KeyShape>,
    layout: Arc<Layout>,
    versions: Versions<Form>,
    /// Rules inserted since the index was outgrown. The next snapshot adds them to a new index.
    pending: BTreeMap<RankWords, FlatRule>,
    /// Better index under construction, and the changes that it misses.
    improvement: Option<(Improvement, Vec<Change>)>,
    /// Number of changes since the last attempt to improve; `None` if there was no attempt since
    /// the sets were built.
    untried: Option<usize>,
}

impl Ternary {
    /// Creates an engine without rules for keys of `shape`, which must have no signed ranges: see
    /// [`Signed`](super::Signed).
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

    /// Returns true if the next snapshot must rebuild the index.
    fn is_outgrown(&self) -> bool {
        !self.pending.is_empty() || self.versions.newest().is_outgrown()
    }

    /// Rebuilds the index except the independent sets, and these too if they have lost most of
    /// their rules. An improvement in progress is continued unless too many rules have changed.
    /// Otherwise, one that takes longer than the index takes to be outgrown would never finish.
    fn build(&mut self) {
        let newest = self.versions.newest();
        let pending: Vec<FlatRule> = std::mem::take(&mut self.pending).into_values().collect();
        if newest.len() + pending.len() <= form::MAX_FEW {
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
        self.improvement = improvement.filter(|(_, missed)| missed.len() * MAX_MISSED <= len);
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

    /// Returns true if an attempt to improve is worth its time: changes amount to more than a
    /// quarter of the rules outside of sets, or of a minimum share of all rules.
    fn is_worth_trying(&self) -> bool {
        let newest = self.versions.newest();
        let rules = newest.len();
        let outside = newest.built_outside_sets().max(rules / MAX_LEARNED);
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
