//! [`Linear`]: match engine for any key that tries all rules in turn. It is the reference for the
//! other engines.

use super::{MatchEngine, Matcher, Rule};
use crate::entry::{EntryIdx, Rank};
use crate::key::{FieldMatch, KeyShape};
use std::sync::Arc;

/// List of rules in order of rank.
#[derive(Debug, Clone)]
pub struct Linear {
    shape: Arc<KeyShape>,
    rules: Vec<(Rank, EntryIdx, Arc<[FieldMatch]>)>,
}

impl Linear {
    /// Creates an engine without rules for keys of `shape`.
    pub fn new(shape: Arc<KeyShape>) -> Self {
        Self {
            shape,
            rules: Vec::new(),
        }
    }
}

impl MatchEngine for Linear {
    fn insert(&mut self, rule: Rule<'_>) {
        let place = self.rules.partition_point(|(rank, ..)| *rank < rule.rank);
        self.rules
            .insert(place, (rule.rank, rule.idx, rule.matches.clone()));
    }

    fn remove(&mut self, rule: Rule<'_>) {
        self.rules.retain(|(rank, ..)| *rank != rule.rank);
    }

    fn clear(&mut self) {
        self.rules.clear();
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        Arc::new(self.clone())
    }

    fn memory(&self) -> usize {
        Matcher::memory(self)
    }
}

impl Matcher for Linear {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        let hit = self
            .rules
            .iter()
            .find(|(.., matches)| self.shape.matches(matches, key));
        hit.map(|(_, idx, _)| *idx)
    }

    fn memory(&self) -> usize {
        size_of_val(&self.rules[..])
    }
}
