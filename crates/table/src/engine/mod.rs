//! Match engines: indices that map a key to the best matching entry.
//!
//! To add an engine, implement [`MatchEngine`] and let [`choose`] select it for the key shapes that
//! it supports. Add it to `tests/match_engines.rs`, where it must equal [`Linear`].

mod dense;
mod exact;
mod levels;
mod linear;
mod lpm;
mod signed;
mod stable_copy;
mod ternary;
#[cfg(test)]
mod tests;
mod unsearched;
mod versions;

pub use dense::{Digit, DirectIndex, Directness};
pub use exact::Exact;
pub use levels::Levels;
pub use linear::Linear;
pub use lpm::TrieIndex;
pub use signed::Signed;
pub use ternary::{ExportError, Ternary, VectorIndex, VectorPart};
pub(crate) use ternary::{ImageRule, image};
pub use unsearched::Unsearched;
pub use versions::{Replay, RuleChange, Versions};

use crate::entry::{EntryIdx, Rank};
use crate::flat_map::{BATCH, HashIndex};
use crate::key::{FieldMatch, KeyShape, MatchKind};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The part of an entry that a match engine needs.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'e> {
    /// Entry index, which is the lookup result.
    pub idx: EntryIdx,
    /// Match of the entry, checked against the key shape.
    pub matches: &'e Arc<[FieldMatch]>,
    /// Rank. The matching rule with the least rank is the result. No two rules have the same rank.
    pub rank: Rank,
}

/// State of an engine's background optimization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Improved {
    /// Not finished; call it again.
    UnderWay,
    /// Finished: the next snapshot has another index.
    Done,
    /// Nothing to do until rules are inserted or removed.
    NoMore,
}

/// The control side of a match engine.
pub trait MatchEngine: fmt::Debug + Send + Sync {
    /// Inserts a rule.
    fn insert(&mut self, rule: Rule<'_>);

    /// Removes a rule, which must be given as it was inserted.
    fn remove(&mut self, rule: Rule<'_>);

    /// Removes all rules.
    fn clear(&mut self);

    /// Returns the current rules for packets to search. The cost is in proportion to the changes
    /// since the last snapshot, not to the number of rules. An engine that has outgrown its
    /// structure may rebuild it.
    fn snapshot(&mut self) -> Arc<dyn Matcher>;

    /// Builds a faster index for the current rules, for about `budget`. Packets search the old
    /// index until a snapshot of the new one is taken. Lookup results do not change.
    fn improve(&mut self, _budget: Duration) -> Improved {
        Improved::NoMore
    }

    /// Returns the approximate size of the index in bytes, including all copies. The rules
    /// themselves are not included.
    fn memory(&self) -> usize;
}

/// Maximum number of keys for which a loop of single lookups is cheaper than the fixed cost of a
/// batch.
const FEW_NOTES: usize = 8;

/// Returns a lookup result as [`Matcher::find_announced`] stores it.
#[inline(always)]
fn number(found: Option<EntryIdx>) -> u64 {
    EntryIdx::record_of(found).into()
}

/// The packet side of a match engine: an immutable index.
pub trait Matcher: fmt::Debug + Send + Sync {
    /// Returns the rule of least rank that `key` matches. The key has the limbs of the shape,
    /// canonical.
    fn find(&self, key: &[u64]) -> Option<EntryIdx>;

    /// Like [`find`](Self::find), for `out.len()` keys of equal length, which are consecutive in
    /// `keys`. Batches of 32 to 64 keys hide memory latency best.
    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let limbs = keys.len().checked_div(out.len()).unwrap_or(0);
        for (i, found) in out.iter_mut().enumerate() {
            *found = self.find(&keys[i * limbs..(i + 1) * limbs]);
        }
    }

    /// Prefetches what lookups of `notes.len()` keys read first. The keys are consecutive in
    /// `keys`. Stores intermediate results in `notes`, so that the lookups need not compute them
    /// again.
    fn announce(&self, _keys: &[u64], _notes: &mut [u64]) {}

    /// Like [`find`](Self::find), for keys that were [announced](Self::announce) to this matcher.
    /// `notes` holds the results of that call. Each is replaced by the index of the entry found
    /// plus 1, or by 0.
    fn find_announced(&self, keys: &[u64], notes: &mut [u64]) {
        find_numbers(self, keys, notes);
    }

    /// Reports memory that (nearly) every lookup reads, whatever its key: one address for each
    /// cache line of it.
    fn tell_common(&self, _tell: &mut dyn FnMut(usize)) {}

    /// Returns the index if it is a direct index, which compiled code can search inline.
    fn direct(&self) -> Option<DirectIndex<'_>> {
        None
    }

    /// Returns the index if it is a hash table that compiled code can search inline.
    fn hashed(&self) -> Option<HashIndex<'_>> {
        None
    }

    /// Returns the index if it is a bit-vector index, for few rules, that compiled code can search
    /// inline.
    fn vectors(&self) -> Option<VectorIndex<'_>> {
        None
    }

    /// Returns the index if it is a trie that compiled code can search inline.
    fn trie(&self) -> Option<TrieIndex<'_>> {
        None
    }

    /// Returns the approximate size of this index in bytes. The rules themselves are not included.
    fn memory(&self) -> usize;
}

/// Looks keys up in batches and stores entry indices plus 1, or 0. For engines that store nothing
/// in [`Matcher::announce`], or if that is of no use.
fn find_numbers(matcher: &(impl Matcher + ?Sized), keys: &[u64], notes: &mut [u64]) {
    let limbs = keys.len().checked_div(notes.len()).unwrap_or(0);
    for (i, notes) in notes.chunks_mut(BATCH).enumerate() {
        let keys = &keys[i * BATCH * limbs..][..notes.len() * limbs];
        if notes.len() > FEW_NOTES {
            find_many_numbers(matcher, keys, notes);
            continue;
        }
        for (i, note) in notes.iter_mut().enumerate() {
            *note = number(matcher.find(&keys[i * limbs..(i + 1) * limbs]));
        }
    }
}

/// Looks up a batch of more than [`FEW_NOTES`] keys. Not inlined, so that small batches do not need
/// stack space for a large one.
#[inline(never)]
fn find_many_numbers(matcher: &(impl Matcher + ?Sized), keys: &[u64], notes: &mut [u64]) {
    let mut found = [None; BATCH];
    let found = &mut found[..notes.len()];
    matcher.find_batch(keys, found);
    for (note, found) in notes.iter_mut().zip(found) {
        *note = number(*found);
    }
}

/// Returns an empty engine for keys of this shape.
pub fn choose(shape: &Arc<KeyShape>) -> Box<dyn MatchEngine> {
    if shape.count(MatchKind::SignedRange) > 0 {
        return match Signed::new(shape) {
            Some(engine) => Box::new(engine),
            None => Box::new(Linear::new(shape.clone())),
        };
    }
    let fields = shape.fields().len();
    match (shape.count(MatchKind::Exact), shape.count(MatchKind::Lpm)) {
        (exact, 0) if exact == fields => Box::new(Exact::new(shape)),
        (exact, 1) if exact + 1 == fields => {
            lpm::for_shape(shape).unwrap_or_else(|| Box::new(Levels::new(shape.clone())))
        }
        _ => Box::new(Ternary::new(shape.clone())),
    }
}
