//! Keys with one LPM field, the others exact: a trie over the LPM field for each combination of the others.

mod arena;
mod node;
mod search;
mod trie;

use super::steady::{Base, Steady};
use super::{Improved, MatchEngine, Matcher, Replay, Rule, RuleChange};
use crate::entry::EntryIdx;
use crate::flat_map::FlatMap;
use crate::key::{FieldMatch, KeyShape, MatchKind};
use crate::packing::{self, Packing};
use search::{Ask, BATCH, Ignore, Outdated};
use std::sync::Arc;
use std::time::Duration;
use trie::{Address, Forest, Prefix, TrieId};

/// A trie for each combination of the exact fields.
#[derive(Debug)]
struct Lpm<A: KeyAddress> {
    versions: Steady<Index<A>>,
    layout: Arc<Layout>,
}

/// The engine for keys of `shape`, which has one LPM field and else exact ones. `None` if the LPM field is wider
/// than 128 bits or the others are very long.
pub(crate) fn for_shape(shape: &KeyShape) -> Option<Box<dyn MatchEngine>> {
    let layout = Layout::of(shape)?;
    Some(if layout.width <= 64 {
        Box::new(Lpm::<u64>::new(layout))
    } else {
        Box::new(Lpm::<u128>::new(layout))
    })
}

impl<A: KeyAddress> Lpm<A> {
    fn new(layout: Layout) -> Self {
        let layout = Arc::new(layout);
        Self {
            versions: Steady::new(Index::new(layout.clone())),
            layout,
        }
    }
}

impl<A: KeyAddress> MatchEngine for Lpm<A> {
    fn insert(&mut self, rule: Rule<'_>) {
        self.versions.change(RuleChange::insert(rule));
    }

    fn remove(&mut self, rule: Rule<'_>) {
        self.versions.change(RuleChange::remove(rule));
    }

    fn clear(&mut self) {
        self.versions.reset(Index::new(self.layout.clone()));
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        self.versions.finish(|index| index.forest.settle());
        self.versions.snapshot()
    }

    fn improve(&mut self, _budget: Duration) -> Improved {
        self.versions.improve()
    }

    fn memory(&self) -> usize {
        self.versions.memory()
    }
}

/// Where a key has its fields.
#[derive(Debug)]
struct Layout {
    /// The number of the LPM field.
    field: usize,
    width: u32,
    /// Where its limbs begin in a key.
    offset: usize,
    exact: Packing,
}

impl Layout {
    fn of(shape: &KeyShape) -> Option<Self> {
        let fields = shape.fields();
        let field = fields
            .iter()
            .position(|field| field.kind == MatchKind::Lpm)?;
        let others: Vec<usize> = (0..fields.len()).filter(|&other| other != field).collect();
        let exact = Packing::new(shape, &others)?;
        let width = fields[field].width;
        ((1..=128).contains(&width) && exact.limbs() <= packing::MOST).then(|| Self {
            field,
            width,
            offset: shape.offset(field),
            exact,
        })
    }

    fn has_exact(&self) -> bool {
        self.exact.limbs() > 0
    }
}

/// An [`Address`] made from limbs.
trait KeyAddress: Address {
    /// The address in the low `width` bits of these limbs.
    fn from_limbs(limbs: &[u64], width: u32) -> Self;
}

impl KeyAddress for u64 {
    #[inline(always)]
    fn from_limbs(limbs: &[u64], width: u32) -> Self {
        limbs[0] << (64 - width)
    }
}

impl KeyAddress for u128 {
    #[inline(always)]
    fn from_limbs(limbs: &[u64], width: u32) -> Self {
        (u128::from(limbs[1]) << 64 | u128::from(limbs[0])) << (128 - width)
    }
}

#[derive(Debug, Clone)]
struct Index<A> {
    layout: Arc<Layout>,
    /// The trie of each combination of the exact fields.
    tries: FlatMap,
    forest: Forest<A>,
}

/// The trie of keys without exact fields.
const ONLY: TrieId = TrieId(1);

impl<A: KeyAddress> Index<A> {
    fn new(layout: Arc<Layout>) -> Self {
        let mut forest = Forest::new();
        if !layout.has_exact() {
            let only = forest.add();
            debug_assert_eq!(only, ONLY);
        }
        Self {
            tries: FlatMap::new(layout.exact.limbs()),
            forest,
            layout,
        }
    }

    #[inline(always)]
    fn address(&self, key: &[u64]) -> A {
        let Layout { width, offset, .. } = *self.layout;
        A::from_limbs(&key[offset..], width)
    }

    /// The trie for the exact fields of a key.
    #[inline(always)]
    fn trie(&self, key: &[u64]) -> TrieId {
        let mut packed = [0; packing::MOST];
        let packed = &mut packed[..self.layout.exact.limbs()];
        self.layout.exact.pack(key, packed);
        // 0, which the map says of keys that it has not, is the empty trie.
        TrieId(self.tries.get(packed))
    }

    /// At most [`BATCH`] keys at once.
    #[inline(always)]
    fn find_some<M: Outdated>(&self, keys: &[u64], stride: usize, out: &mut [Option<EntryIdx>]) {
        let address_of = |i: usize| self.address(&keys[i * stride..][..stride]);
        if !self.layout.has_exact() {
            return self.forest.find_some::<M>(ONLY, address_of, out);
        }
        let mut tries = [0; BATCH];
        self.tries_of(keys, stride, &mut tries[..out.len()]);
        self.forest.find_in::<M>(&tries, address_of, out);
    }

    fn find_all<M: Outdated>(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let stride = keys.len().checked_div(out.len()).unwrap_or(0);
        for (i, out) in out.chunks_mut(BATCH).enumerate() {
            let keys = &keys[i * BATCH * stride..][..out.len() * stride];
            match stride {
                // The most common key; with its length known, its place is.
                1 => self.find_some::<M>(keys, 1, out),
                _ => self.find_some::<M>(keys, stride, out),
            }
        }
    }

    fn tries_of(&self, keys: &[u64], stride: usize, tries: &mut [u32]) {
        let limbs = self.layout.exact.limbs();
        let mut packed = [0; BATCH * packing::MOST];
        let packed = &mut packed[..tries.len() * limbs];
        for (key, packed) in keys
            .chunks_exact(stride)
            .zip(packed.chunks_exact_mut(limbs))
        {
            self.layout.exact.pack(key, packed);
        }
        self.tries.get_batch(packed, tries);
    }

    fn prefix(&self, matches: &[FieldMatch]) -> Prefix<A> {
        match &matches[self.layout.field] {
            FieldMatch::Lpm { value, prefix_len } => Prefix {
                address: A::from_limbs(value.limbs(), self.layout.width),
                len: *prefix_len,
            },
            _ => Prefix {
                address: A::default(),
                len: 0,
            },
        }
    }

    fn insert(&mut self, exact: &[u64], prefix: Prefix<A>, value: u32) {
        let trie = match self.trie_of(exact) {
            TrieId::EMPTY => {
                let trie = self.forest.add();
                self.tries.insert(exact, trie.0 - 1);
                trie
            }
            trie => trie,
        };
        self.forest.insert(trie, prefix, value);
    }

    fn remove(&mut self, exact: &[u64], prefix: Prefix<A>) {
        let trie = self.trie_of(exact);
        if trie == TrieId::EMPTY {
            return;
        }
        self.forest.remove(trie, prefix);
        if self.layout.has_exact() && self.forest.is_empty(trie) {
            self.forest.give_back(trie);
            self.tries.remove(exact);
        }
    }

    fn trie_of(&self, exact: &[u64]) -> TrieId {
        if self.layout.has_exact() {
            TrieId(self.tries.get(exact))
        } else {
            ONLY
        }
    }
}

impl<A: KeyAddress> Replay for Index<A> {
    type Op = RuleChange;

    fn apply(&mut self, change: &RuleChange) {
        let mut exact = [0; packing::MOST];
        let exact = &mut exact[..self.layout.exact.limbs()];
        self.layout.exact.pack_matches(&change.matches, exact);
        let prefix = self.prefix(&change.matches);
        if change.is_insert {
            self.insert(exact, prefix, change.idx.get() + 1);
        } else {
            self.remove(exact, prefix);
        }
    }

    fn clone_cost(&self) -> usize {
        self.forest.node_count() / 32
    }
}

impl<A: KeyAddress> Base for Index<A> {
    fn outdate(&self, change: &RuleChange) -> bool {
        let mut exact = [0; packing::MOST];
        let exact = &mut exact[..self.layout.exact.limbs()];
        self.layout.exact.pack_matches(&change.matches, exact);
        self.forest
            .outdate(self.trie_of(exact), self.prefix(&change.matches))
    }

    fn find_or_ask(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        self.find_all::<Ask>(keys, out);
    }

    fn read_bytes(&self) -> usize {
        self.forest.read_bytes()
    }
}

impl<A: KeyAddress> Matcher for Index<A> {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        let trie = if self.layout.has_exact() {
            self.trie(key)
        } else {
            ONLY
        };
        self.forest.find(trie, self.address(key))
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        self.find_all::<Ignore>(keys, out);
    }

    fn memory(&self) -> usize {
        self.forest.memory() + self.tries.memory()
    }
}

#[cfg(test)]
mod tests;
