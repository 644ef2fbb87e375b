//! [`Unsearched`]: match engine of a table that no packet searches. It keeps no rules.

use super::{MatchEngine, Matcher, Rule};
use crate::entry::EntryIdx;
use std::sync::Arc;

/// Engine without an index. Its lookups find nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unsearched;

impl MatchEngine for Unsearched {
    fn insert(&mut self, _: Rule<'_>) {}

    fn remove(&mut self, _: Rule<'_>) {}

    fn clear(&mut self) {}

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        Arc::new(Unsearched)
    }

    fn memory(&self) -> usize {
        0
    }
}

impl Matcher for Unsearched {
    fn find(&self, _: &[u64]) -> Option<EntryIdx> {
        None
    }

    fn memory(&self) -> usize {
        0
    }
}
