//! Keys of all kinds: tuple space search with few tuples, each of them rarely searched.
//!
//! - [`layout`] packs keys and rules into few words; [`records`] holds rules as a search compares them;
//! - [`tuples`] are hash tables ([`buckets`]), one for each of a few masks; [`windows`] tell which of them
//!   are worth a search;
//! - [`plan`] chooses masks and windows for a set of rules;
//! - [`index`] is all that together, one flat structure; [`search`] goes through it for a group of keys at a
//!   time.
//!
//! Small changes go into the index. When it is outgrown, rules are collected, and the next snapshot builds a
//! new one, so that a load of any size is built once.

mod buckets;
mod index;
mod layout;
mod plan;
mod records;
mod search;
mod tuples;
mod windows;

use self::index::{Change, Index};
use self::layout::Layout;
use self::plan::Plan;
use self::records::{FlatRule, RankWords};
use super::{MatchEngine, Matcher, Rule, Versions};
use crate::key::KeyShape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys of any shape.
#[derive(Debug)]
pub struct Ternary {
    shape: Arc<KeyShape>,
    layout: Arc<Layout>,
    versions: Versions<Index>,
    /// Rules that came since the index was outgrown. The next snapshot has them, in a new index.
    pending: BTreeMap<RankWords, FlatRule>,
}

impl Ternary {
    /// Without rules, for keys of `shape`, which has no signed ranges: see [`Signed`](super::Signed).
    pub fn new(shape: Arc<KeyShape>) -> Self {
        let layout = Arc::new(Layout::new(&shape));
        Self {
            versions: Versions::new(Index::empty(layout.clone())),
            pending: BTreeMap::new(),
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

    fn build(&mut self) {
        let mut rules = self.versions.newest().rules();
        rules.extend(std::mem::take(&mut self.pending).into_values());
        let plan = Plan::new(&self.layout, &rules);
        let index = Index::build(self.layout.clone(), &rules, &plan);
        self.versions.reset(index);
    }
}

impl MatchEngine for Ternary {
    fn insert(&mut self, rule: Rule<'_>) {
        let rule = self.flat(rule);
        if self.is_outgrown() {
            self.pending.insert(rule.rank, rule);
        } else {
            let is_insert = true;
            self.versions.change(Change { is_insert, rule });
        }
    }

    fn remove(&mut self, rule: Rule<'_>) {
        let rule = self.flat(rule);
        if self.pending.remove(&rule.rank).is_none() {
            let is_insert = false;
            self.versions.change(Change { is_insert, rule });
        }
    }

    fn clear(&mut self) {
        self.pending.clear();
        self.versions.reset(Index::empty(self.layout.clone()));
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        if self.is_outgrown() {
            self.build();
        }
        self.versions.snapshot()
    }

    fn memory(&self) -> usize {
        self.versions.copies().map(Matcher::memory).sum()
    }
}
