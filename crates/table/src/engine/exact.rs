//! Keys of exact fields only: one hash table.

use super::{MatchEngine, Matcher, Rule};
use crate::entry::EntryIdx;
use crate::key::FieldMatch;
use crate::limb_map::LimbMap;
use std::sync::Arc;

/// A hash table over whole keys.
#[derive(Debug, Clone)]
pub struct Exact {
    map: LimbMap<EntryIdx>,
}

impl Exact {
    /// Without rules.
    pub fn new() -> Self {
        Self {
            map: LimbMap::new(),
        }
    }
}

impl Default for Exact {
    fn default() -> Self {
        Self::new()
    }
}

/// The limbs of a match that has exact fields only.
fn limbs(matches: &[FieldMatch]) -> Vec<u64> {
    let exact = matches.iter().filter_map(|matched| match matched {
        FieldMatch::Exact(value) => Some(value.limbs()),
        _ => None,
    });
    exact.flatten().copied().collect()
}

impl MatchEngine for Exact {
    fn insert(&mut self, rule: Rule<'_>) {
        self.map.insert(&limbs(rule.matches), rule.idx);
    }

    fn remove(&mut self, rule: Rule<'_>) {
        self.map.remove(&limbs(rule.matches));
    }

    fn clear(&mut self) {
        *self = Self::new();
    }

    fn snapshot(&self) -> Arc<dyn Matcher> {
        Arc::new(self.clone())
    }

    fn memory(&self) -> usize {
        Matcher::memory(self)
    }
}

impl Matcher for Exact {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.map.get(key).copied()
    }

    fn memory(&self) -> usize {
        self.map.memory()
    }
}
