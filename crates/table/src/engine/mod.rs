//! Match engines: from a key to the best entry that matches it.
//!
//! To add one, implement [`MatchEngine`], let [`choose`] pick it for the shapes it serves, and add it
//! to `tests/match_engines.rs`, where it must equal [`Linear`].

mod dense;
mod exact;
mod levels;
mod linear;
mod lpm;
mod signed;
mod steady;
mod ternary;
#[cfg(test)]
mod tests;
mod versions;

pub use dense::{Digit, DirectIndex, Directness};
pub use exact::Exact;
pub use levels::Levels;
pub use linear::Linear;
pub use lpm::TrieIndex;
pub use signed::Signed;
pub use ternary::{Ternary, VectorIndex, VectorPart};
pub use versions::{Replay, RuleChange, Versions};

use crate::entry::{EntryIdx, Rank};
use crate::flat_map::{BATCH, HashIndex};
use crate::key::{FieldMatch, KeyShape, MatchKind};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a match engine knows of an entry.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'e> {
    /// The entry's place, which is the answer.
    pub idx: EntryIdx,
    /// What it matches; checked against the key shape.
    pub matches: &'e Arc<[FieldMatch]>,
    /// Of all rules that match, the least rank is the answer. No two rules have the same.
    pub rank: Rank,
}

/// How far an engine's work on a faster index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Improved {
    /// It goes on when it is asked for again.
    UnderWay,
    /// The next snapshot has another index.
    Done,
    /// There is nothing to be done until more rules come or go.
    NoMore,
}

/// The control side of a match engine.
pub trait MatchEngine: fmt::Debug + Send + Sync {
    /// Adds a rule.
    fn insert(&mut self, rule: Rule<'_>);

    /// Removes a rule that was inserted, given as it was then.
    fn remove(&mut self, rule: Rule<'_>);

    /// Removes all rules.
    fn clear(&mut self);

    /// The rules of this moment, for packets to search. Costs what changed since the last one, not
    /// the number of rules; an engine that outgrew what it was built for may build anew.
    fn snapshot(&mut self) -> Arc<dyn Matcher>;

    /// Works on a faster index for the rules that there are, about as long as `budget` says. Packets search the old one until a snapshot is
    /// taken of the new one; what is found does not change.
    fn improve(&mut self, _budget: Duration) -> Improved {
        Improved::NoMore
    }

    /// About how many bytes the index takes, all copies of it included; not the rules themselves.
    fn memory(&self) -> usize;
}

/// For so few keys, what is done once for a batch costs more than it saves.
const FEW_NOTES: usize = 8;

/// What is found, as [`Matcher::find_announced`] notes it.
#[inline(always)]
fn number(found: Option<EntryIdx>) -> u64 {
    EntryIdx::record_of(found).into()
}

/// The packet side of a match engine: immutable.
pub trait Matcher: fmt::Debug + Send + Sync {
    /// The rule of least rank that `key` matches. The key has the limbs of the shape, canonical.
    fn find(&self, key: &[u64]) -> Option<EntryIdx>;

    /// [`find`](Self::find) for `out.len()` keys of equal length, which lie in `keys` one after the
    /// other. A batch of 32 to 64 hides best what memory takes.
    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let limbs = keys.len().checked_div(out.len()).unwrap_or(0);
        for (i, found) in out.iter_mut().enumerate() {
            *found = self.find(&keys[i * limbs..(i + 1) * limbs]);
        }
    }

    /// Asks the processor for what lookups of `notes.len()` keys, which lie in `keys` one after the other, read first, and notes what they will need
    /// not find out again.
    fn announce(&self, _keys: &[u64], _notes: &mut [u64]) {}

    /// [`find`](Self::find) for keys that were [announced](Self::announce) to this matcher, with what was noted: notes become the places of entries,
    /// plus 1, or 0.
    fn find_announced(&self, keys: &[u64], notes: &mut [u64]) {
        find_numbers(self, keys, notes);
    }

    /// Tells of memory that every lookup reads, or nearly so, whatever its key: an address in each line of it.
    fn tell_common(&self, _tell: &mut dyn FnMut(usize)) {}

    /// The index, where it is so simple that code had better look keys up by itself.
    fn direct(&self) -> Option<DirectIndex<'_>> {
        None
    }

    /// The index, where it is a hash table that code had better look keys up in by itself.
    fn hashed(&self) -> Option<HashIndex<'_>> {
        None
    }

    /// The index, where it is of so few rules that code had better look keys up by itself.
    fn vectors(&self) -> Option<VectorIndex<'_>> {
        None
    }

    /// The index, where it is a trie that code had better look keys up in by itself.
    fn trie(&self) -> Option<TrieIndex<'_>> {
        None
    }

    /// About how many bytes this index takes; not the rules themselves.
    fn memory(&self) -> usize;
}

/// The places of the entries that keys hit, plus 1, or 0: where nothing was noted of them, or it is of no use.
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

/// The same for a batch of many. Not part of it: few need no room for many.
#[inline(never)]
fn find_many_numbers(matcher: &(impl Matcher + ?Sized), keys: &[u64], notes: &mut [u64]) {
    let mut found = [None; BATCH];
    let found = &mut found[..notes.len()];
    matcher.find_batch(keys, found);
    for (note, found) in notes.iter_mut().zip(found) {
        *note = number(*found);
    }
}

/// The engine for keys of this shape.
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
