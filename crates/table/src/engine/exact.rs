//! Keys of exact fields only: one hash table over packed keys.

use super::{MatchEngine, Matcher, Replay, Rule, RuleChange, Versions};
use crate::entry::EntryIdx;
use crate::flat_map::{BATCH, FlatMap};
use crate::key::KeyShape;
use crate::packing::{self, Packing};
use std::sync::Arc;

/// A hash table over whole keys.
#[derive(Debug)]
pub struct Exact {
    versions: Versions<Index>,
    packing: Arc<Packing>,
}

impl Exact {
    /// Without rules, for keys of `shape`, which has exact fields only.
    pub fn new(shape: &KeyShape) -> Self {
        let fields: Vec<usize> = (0..shape.fields().len()).collect();
        let packing = Packing::new(shape, &fields).expect("a whole key can be packed");
        let packing = Arc::new(packing);
        Self {
            versions: Versions::new(Index::new(packing.clone())),
            packing,
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
        self.versions.reset(Index::new(self.packing.clone()));
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        self.versions.snapshot()
    }

    fn memory(&self) -> usize {
        self.versions.memory(Matcher::memory)
    }
}

#[derive(Debug, Clone)]
struct Index {
    packing: Arc<Packing>,
    map: FlatMap,
}

impl Index {
    fn new(packing: Arc<Packing>) -> Self {
        Self {
            map: FlatMap::new(packing.limbs()),
            packing,
        }
    }

    /// Packs keys into `packed`, and finds them.
    #[inline(always)]
    fn get_packed(&self, keys: &[u64], limbs: usize, packed: &mut [u64], found: &mut [u32]) {
        let packed = &mut packed[..found.len() * limbs];
        let stride = keys.len() / found.len();
        for (key, packed) in keys
            .chunks_exact(stride)
            .zip(packed.chunks_exact_mut(limbs))
        {
            self.packing.pack(key, packed);
        }
        self.map.get_batch(packed, found);
    }

    /// At most [`BATCH`] keys at once.
    fn get_some(&self, keys: &[u64], found: &mut [u32]) {
        match self.packing.limbs() {
            _ if self.packing.is_identity() => self.map.get_batch(keys, found),
            1 => self.get_packed(keys, 1, &mut [0; BATCH], found),
            2 => self.get_packed(keys, 2, &mut [0; 2 * BATCH], found),
            limbs => self.get_packed(keys, limbs, &mut [0; packing::MOST * BATCH], found),
        }
    }

    #[inline(always)]
    fn get(&self, key: &[u64]) -> u32 {
        if self.packing.is_identity() {
            return self.map.get(key);
        }
        let mut packed = [0; packing::MOST];
        let packed = &mut packed[..self.packing.limbs()];
        self.packing.pack(key, packed);
        self.map.get(packed)
    }
}

impl Replay for Index {
    type Op = RuleChange;

    fn apply(&mut self, change: &RuleChange) {
        let mut short = [0; packing::MOST];
        let mut long;
        let limbs = self.packing.limbs();
        let packed = if limbs <= packing::MOST {
            &mut short[..limbs]
        } else {
            long = vec![0; limbs];
            &mut long[..]
        };
        self.packing.pack_matches(&change.matches, packed);
        if change.is_insert {
            self.map.insert(packed, change.idx.get());
        } else {
            self.map.remove(packed);
        }
    }

    fn clone_cost(&self) -> usize {
        self.map.len() / 16
    }
}

impl Matcher for Index {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        self.get(key).checked_sub(1).map(EntryIdx::new)
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let stride = keys.len().checked_div(out.len()).unwrap_or(0);
        let mut found = [0; BATCH];
        for (i, out) in out.chunks_mut(BATCH).enumerate() {
            let found = &mut found[..out.len()];
            let keys = &keys[i * BATCH * stride..][..out.len() * stride];
            self.get_some(keys, found);
            for (out, found) in out.iter_mut().zip(found) {
                *out = found.checked_sub(1).map(EntryIdx::new);
            }
        }
    }

    fn memory(&self) -> usize {
        self.map.memory()
    }
}
