//! Keys of all kinds: tuple space search.
//!
//! Rules with the same mask form a tuple, with a hash table over masked keys. Tuples are searched by
//! their best rank, and the search ends when no tuple left can do better. A range is hashed by the
//! bits in which its ends agree; the rest of it is verified.

use super::{MatchEngine, Matcher, Rule};
use crate::entry::{EntryIdx, Rank};
use crate::key::{FieldMatch, KeyShape};
use crate::limb_map::LimbMap;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Tuple space search. A snapshot costs the number of tuples, that is of different masks.
#[derive(Debug)]
pub struct TupleSpace {
    shape: Arc<KeyShape>,
    /// By mask; none is empty.
    tuples: HashMap<Arc<[u64]>, Tuple>,
}

#[derive(Debug)]
struct Tuple {
    map: LimbMap<Bucket>,
    ranks: BTreeSet<Rank>,
}

impl TupleSpace {
    /// Without rules, for keys of `shape`.
    pub fn new(shape: Arc<KeyShape>) -> Self {
        Self {
            shape,
            tuples: HashMap::new(),
        }
    }
}

impl MatchEngine for TupleSpace {
    fn insert(&mut self, rule: Rule<'_>) {
        let masked = self.shape.masked(rule.matches);
        let tuple = self
            .tuples
            .entry(masked.mask.into())
            .or_insert_with(|| Tuple {
                map: LimbMap::new(),
                ranks: BTreeSet::new(),
            });
        tuple.ranks.insert(rule.rank);
        let verify = rule
            .matches
            .iter()
            .any(|matched| matches!(matched, FieldMatch::Range { .. }));
        let candidate = Candidate {
            rank: rule.rank,
            idx: rule.idx,
            verify: verify.then(|| rule.matches.clone()),
        };
        match tuple.map.get_mut(&masked.value) {
            Some(bucket) => bucket.insert(candidate),
            None => {
                tuple.map.insert(&masked.value, Bucket::of(candidate));
            }
        }
    }

    fn remove(&mut self, rule: Rule<'_>) {
        let masked = self.shape.masked(rule.matches);
        let Some(tuple) = self.tuples.get_mut(&masked.mask[..]) else {
            return;
        };
        tuple.ranks.remove(&rule.rank);
        if let Some(bucket) = tuple.map.get_mut(&masked.value) {
            bucket.remove(rule.rank);
            if bucket.is_empty() {
                tuple.map.remove(&masked.value);
            }
        }
        if tuple.map.is_empty() {
            self.tuples.remove(&masked.mask[..]);
        }
    }

    fn clear(&mut self) {
        self.tuples.clear();
    }

    fn snapshot(&self) -> Arc<dyn Matcher> {
        let mut tuples: Vec<SearchTuple> = self
            .tuples
            .iter()
            .filter_map(|(mask, tuple)| {
                let best = *tuple.ranks.first()?;
                Some(SearchTuple {
                    best,
                    mask: mask.clone(),
                    map: tuple.map.clone(),
                })
            })
            .collect();
        tuples.sort_unstable_by_key(|tuple| tuple.best);
        Arc::new(Search {
            shape: self.shape.clone(),
            tuples,
        })
    }

    fn memory(&self) -> usize {
        self.tuples.values().map(|tuple| tuple.map.memory()).sum()
    }
}

/// The packet side.
#[derive(Debug)]
struct Search {
    shape: Arc<KeyShape>,
    /// Ascending by best rank.
    tuples: Vec<SearchTuple>,
}

#[derive(Debug)]
struct SearchTuple {
    best: Rank,
    mask: Arc<[u64]>,
    map: LimbMap<Bucket>,
}

impl Matcher for Search {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        let mut found: Option<&Candidate> = None;
        for tuple in &self.tuples {
            if found.is_some_and(|found| found.rank < tuple.best) {
                break;
            }
            let Some(bucket) = tuple.map.get_masked(key, &tuple.mask) else {
                continue;
            };
            let better = bucket
                .iter()
                .take_while(|candidate| found.is_none_or(|found| candidate.rank < found.rank))
                .find(|candidate| candidate.matches(&self.shape, key));
            found = better.or(found);
        }
        found.map(|found| found.idx)
    }

    fn memory(&self) -> usize {
        self.tuples.iter().map(|tuple| tuple.map.memory()).sum()
    }
}

#[derive(Debug, Clone)]
struct Candidate {
    rank: Rank,
    idx: EntryIdx,
    /// What is left to check when the masked key is equal, if anything.
    verify: Option<Arc<[FieldMatch]>>,
}

impl Candidate {
    #[inline]
    fn matches(&self, shape: &KeyShape, key: &[u64]) -> bool {
        self.verify
            .as_ref()
            .is_none_or(|matches| shape.matches(matches, key))
    }
}

/// The candidates of one masked key by rank, in chunks that clones share. No chunk is empty.
#[derive(Debug, Clone)]
struct Bucket {
    chunks: Arc<Vec<Arc<Vec<Candidate>>>>,
}

/// A chunk that grows to this is split.
const CHUNK: usize = 128;

impl Bucket {
    fn of(candidate: Candidate) -> Self {
        Self {
            chunks: Arc::new(vec![Arc::new(vec![candidate])]),
        }
    }

    fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The last chunk that begins at `rank` or before; the first, if none does.
    fn chunk_for(&self, rank: Rank) -> usize {
        self.chunks
            .partition_point(|chunk| chunk[0].rank <= rank)
            .saturating_sub(1)
    }

    fn insert(&mut self, candidate: Candidate) {
        let at = self.chunk_for(candidate.rank);
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[at]);
        let place = chunk.partition_point(|other| other.rank < candidate.rank);
        chunk.insert(place, candidate);
        if chunk.len() >= CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            chunks.insert(at + 1, Arc::new(upper));
        }
    }

    fn remove(&mut self, rank: Rank) {
        let at = self.chunk_for(rank);
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(at) else {
            return;
        };
        Arc::make_mut(chunk).retain(|candidate| candidate.rank != rank);
        if chunk.is_empty() {
            chunks.remove(at);
        }
    }
}
