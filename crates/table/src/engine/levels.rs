//! [`Levels`]: match engine for keys with one LPM field and otherwise exact fields, of any length.
//! It has one hash table for each prefix length and searches the longest first. Used for keys that
//! are too long for [`lpm`](super::lpm).

use super::{MatchEngine, Matcher, Rule};
use crate::entry::EntryIdx;
use crate::key::KeyShape;
use crate::limb_map::LimbMap;
use std::sync::Arc;

/// Match engine with one hash table for each prefix length in use.
#[derive(Debug, Clone)]
pub struct Levels {
    shape: Arc<KeyShape>,
    /// In descending order of prefix length; none is empty.
    levels: Vec<Level>,
}

#[derive(Debug, Clone)]
struct Level {
    prefix_len: u32,
    mask: Arc<[u64]>,
    map: LimbMap<EntryIdx>,
}

impl Levels {
    /// Creates an engine without rules for keys of `shape`, which must have one LPM field and
    /// otherwise exact fields.
    pub fn new(shape: Arc<KeyShape>) -> Self {
        Self {
            shape,
            levels: Vec::new(),
        }
    }

    fn level(&self, prefix_len: u32) -> Result<usize, usize> {
        self.levels
            .binary_search_by(|level| prefix_len.cmp(&level.prefix_len))
    }
}

impl MatchEngine for Levels {
    fn insert(&mut self, rule: Rule<'_>) {
        let prefix_len = KeyShape::prefix_len(rule.matches);
        let masked = self.shape.masked(rule.matches);
        let place = self.level(prefix_len).unwrap_or_else(|place| {
            let level = Level {
                prefix_len,
                mask: masked.mask.into(),
                map: LimbMap::new(),
            };
            self.levels.insert(place, level);
            place
        });
        self.levels[place].map.insert(&masked.value, rule.idx);
    }

    fn remove(&mut self, rule: Rule<'_>) {
        let Ok(place) = self.level(KeyShape::prefix_len(rule.matches)) else {
            return;
        };
        self.levels[place]
            .map
            .remove(&self.shape.masked(rule.matches).value);
        if self.levels[place].map.is_empty() {
            self.levels.remove(place);
        }
    }

    fn clear(&mut self) {
        self.levels.clear();
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        Arc::new(self.clone())
    }

    fn memory(&self) -> usize {
        Matcher::memory(self)
    }
}

impl Matcher for Levels {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.levels
            .iter()
            .find_map(|level| level.map.get_masked(key, &level.mask))
            .copied()
    }

    fn memory(&self) -> usize {
        self.levels.iter().map(|level| level.map.memory()).sum()
    }
}
