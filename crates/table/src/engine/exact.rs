//! [`Exact`]: match engine for keys of exact fields only. It is an array with one element for each
//! possible key if these are few, otherwise a hash table over packed keys.

use super::dense::{Dense, DirectIndex};
use super::stable_copy::{ASK, Base, StableCopy};
use super::{Improved, MatchEngine, Matcher, Replay, Rule, RuleChange, find_numbers};
use crate::entry::EntryIdx;
use crate::flat_map::{BATCH, FlatMap, Hash, HashIndex, OUTDATED};
use crate::key::{FieldMatch, KeyShape};
use crate::packing::{self, Packing};
use std::sync::Arc;
use std::time::Duration;

/// Match engine for exact keys.
#[derive(Debug)]
pub struct Exact {
    versions: StableCopy<Index>,
    packing: Arc<Packing>,
    shape: KeyShape,
}

impl Exact {
    /// Creates an engine without rules for keys of `shape`, which must have only exact fields.
    pub fn new(shape: &KeyShape) -> Self {
        let fields: Vec<usize> = (0..shape.fields().len()).collect();
        let packing = Packing::new(shape, &fields).expect("a whole key can be packed");
        let packing = Arc::new(packing);
        Self {
            versions: StableCopy::new(Index::new(packing.clone(), shape)),
            packing,
            shape: shape.clone(),
        }
    }
}

impl MatchEngine for Exact {
    fn insert(&mut self, rule: Rule<'_>) {
        self.versions.change(RuleChange::insert(rule));
    }

    fn remove(&mut self, rule: Rule<'_>) {
        self.versions.change(RuleChange::remove(rule));
    }

    fn clear(&mut self) {
        let empty = Index::new(self.packing.clone(), &self.shape);
        self.versions.reset(empty);
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        self.versions.snapshot()
    }

    fn improve(&mut self, _budget: Duration) -> Improved {
        self.versions.improve()
    }

    fn memory(&self) -> usize {
        self.versions.memory()
    }
}

/// Data structure of the index.
#[derive(Debug, Clone)]
enum Index {
    /// Array with one element for each possible key, while these are few and keys are short.
    Dense { dense: Dense, packing: Arc<Packing> },
    /// Hash table.
    Hashed(Hashed),
}

impl Index {
    fn new(packing: Arc<Packing>, shape: &KeyShape) -> Self {
        // Compiled code cannot search arrays with longer keys inline.
        if shape.limbs() > DirectIndex::MAX_LIMBS {
            return Self::Hashed(Hashed::new(&packing));
        }
        let dense = Dense::new(shape);
        Self::Dense { dense, packing }
    }

    fn insert(&mut self, key: &[u64], idx: u32) {
        if let Self::Dense { dense, packing } = self {
            if dense.insert(key, idx) {
                return;
            }
            let mut hashed = Hashed::new(packing);
            for (key, idx) in dense.iter() {
                hashed.insert(&key, idx);
            }
            *self = Self::Hashed(hashed);
        }
        if let Self::Hashed(hashed) = self {
            hashed.insert(key, idx);
        }
    }
}

/// Hash table over packed keys.
#[derive(Debug, Clone)]
struct Hashed {
    /// Packing of the keys; `None` if packing changes nothing, so that the common case needs no
    /// look at the steps.
    packing: Option<Packing>,
    map: FlatMap,
}

impl Hashed {
    fn new(packing: &Packing) -> Self {
        Self {
            map: FlatMap::new(packing.limbs()),
            packing: (!packing.is_identity()).then(|| packing.clone()),
        }
    }

    fn insert(&mut self, key: &[u64], idx: u32) {
        let map = &mut self.map;
        packed(self.packing.as_ref(), key, |key| map.insert(key, idx));
    }

    fn remove(&mut self, key: &[u64]) {
        let map = &mut self.map;
        packed(self.packing.as_ref(), key, |key| map.remove(key));
    }

    /// Packs keys into `packed` and looks them up.
    #[inline(always)]
    fn get_packed(
        &self,
        (packing, limbs): (&Packing, usize),
        keys: &[u64],
        packed: &mut [u64],
        found: &mut [u32],
    ) {
        let packed = &mut packed[..found.len() * limbs];
        let stride = keys.len() / found.len();
        for (key, packed) in keys
            .chunks_exact(stride)
            .zip(packed.chunks_exact_mut(limbs))
        {
            packing.pack(key, packed);
        }
        self.map.get_batch(packed, found);
    }

    /// Looks up at most [`BATCH`] keys at once.
    fn get_some(&self, keys: &[u64], found: &mut [u32]) {
        let Some(packing) = &self.packing else {
            return self.map.get_batch(keys, found);
        };
        match packing.limbs() {
            1 => self.get_packed((packing, 1), keys, &mut [0; BATCH], found),
            2 => self.get_packed((packing, 2), keys, &mut [0; 2 * BATCH], found),
            limbs => {
                let packed = &mut [0; packing::MAX * BATCH];
                self.get_packed((packing, limbs), keys, packed, found)
            }
        }
    }

    #[inline(always)]
    fn get(&self, key: &[u64]) -> u32 {
        packed(self.packing.as_ref(), key, |key| self.map.get(key))
    }

    /// Prefetches for keys and stores their hashes.
    fn announce(&self, keys: &[u64], notes: &mut [u64]) {
        self.each(keys, notes, |key, note| {
            *note = self.map.announce(key).bits();
        });
    }

    /// Looks up keys with the stored hashes.
    fn find_announced(&self, keys: &[u64], notes: &mut [u64]) {
        self.each(keys, notes, |key, note| {
            *note = self.map.get_announced(key, Hash::from_bits(*note)).into();
        });
    }

    /// Calls `each` with each key, packed, and its note.
    #[inline(always)]
    fn each(&self, keys: &[u64], notes: &mut [u64], each: impl Fn(&[u64], &mut u64)) {
        let stride = keys.len().checked_div(notes.len()).unwrap_or(0).max(1);
        for (key, note) in keys.chunks_exact(stride).zip(notes) {
            packed(self.packing.as_ref(), key, |key| each(key, note));
        }
    }

    fn outdate(&self, key: &[u64]) {
        packed(self.packing.as_ref(), key, |key| self.map.outdate(key));
    }

    /// Looks up keys and converts each result of the map with `entry`.
    #[inline(always)]
    fn find_all(
        &self,
        keys: &[u64],
        out: &mut [Option<EntryIdx>],
        entry: impl Fn(u32) -> Option<EntryIdx>,
    ) {
        let stride = keys.len().checked_div(out.len()).unwrap_or(0);
        let mut found = [0; BATCH];
        for (i, out) in out.chunks_mut(BATCH).enumerate() {
            let found = &mut found[..out.len()];
            let keys = &keys[i * BATCH * stride..][..out.len() * stride];
            self.get_some(keys, found);
            for (out, found) in out.iter_mut().zip(found) {
                *out = entry(*found);
            }
        }
    }
}

/// Converts a result of the map to an entry index, ignoring the outdated flag.
#[inline(always)]
fn entry(found: u32) -> Option<EntryIdx> {
    (found & !OUTDATED).checked_sub(1).map(EntryIdx::new)
}

/// Calls `then` with the packed key.
#[inline(always)]
fn packed<T>(packing: Option<&Packing>, key: &[u64], then: impl FnOnce(&[u64]) -> T) -> T {
    let Some(packing) = packing else {
        return then(key);
    };
    // Keys that are longer than this are not packed.
    let mut packed = [0; packing::MAX];
    let packed = &mut packed[..packing.limbs()];
    packing.pack(key, packed);
    then(packed)
}

/// Returns the key that these matches, all exact, match.
fn key_of(matches: &[FieldMatch]) -> Vec<u64> {
    let limbs = matches.iter().map(|matched| match matched {
        FieldMatch::Exact(value) => value.limbs(),
        _ => &[],
    });
    limbs.flatten().copied().collect()
}

impl Replay for Index {
    type Op = RuleChange;

    fn apply(&mut self, change: &RuleChange) {
        let key = key_of(&change.matches);
        match self {
            _ if change.is_insert => self.insert(&key, change.idx.get()),
            Self::Dense { dense, .. } => dense.remove(&key),
            Self::Hashed(hashed) => hashed.remove(&key),
        }
    }

    fn clone_cost(&self) -> usize {
        match self {
            Self::Dense { dense, .. } => dense.memory() / 4096,
            Self::Hashed(hashed) => hashed.map.len() / 16,
        }
    }
}

impl Base for Index {
    fn outdate(&self, change: &RuleChange) -> bool {
        match self {
            Self::Dense { .. } => false,
            Self::Hashed(hashed) => {
                hashed.outdate(&key_of(&change.matches));
                true
            }
        }
    }

    fn find_or_ask(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        match self {
            Self::Dense { dense, .. } => dense.find_batch(keys, out),
            Self::Hashed(hashed) => hashed.find_all(keys, out, |found| match found {
                OUTDATED.. => Some(ASK),
                found => entry(found),
            }),
        }
    }

    fn read_bytes(&self) -> usize {
        match self {
            // Such arrays are small.
            Self::Dense { .. } => 0,
            Self::Hashed(hashed) => hashed.map.memory(),
        }
    }
}

impl Matcher for Index {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        match self {
            Self::Dense { dense, .. } => dense.find(key),
            Self::Hashed(hashed) => hashed.get(key).checked_sub(1).map(EntryIdx::new),
        }
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        match self {
            Self::Dense { dense, .. } => dense.find_batch(keys, out),
            Self::Hashed(hashed) => hashed.find_all(keys, out, entry),
        }
    }

    fn announce(&self, keys: &[u64], notes: &mut [u64]) {
        if let Self::Hashed(hashed) = self {
            hashed.announce(keys, notes);
        }
    }

    fn find_announced(&self, keys: &[u64], notes: &mut [u64]) {
        match self {
            Self::Dense { .. } => find_numbers(self, keys, notes),
            Self::Hashed(hashed) => hashed.find_announced(keys, notes),
        }
    }

    fn direct(&self) -> Option<DirectIndex<'_>> {
        match self {
            Self::Dense { dense, .. } => Some(dense.direct()),
            Self::Hashed(_) => None,
        }
    }

    fn hashed(&self) -> Option<HashIndex<'_>> {
        match self {
            Self::Dense { .. } => None,
            Self::Hashed(hashed) => hashed.map.index(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Dense { dense, .. } => dense.memory(),
            Self::Hashed(hashed) => hashed.map.memory(),
        }
    }
}
