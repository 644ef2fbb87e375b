//! Match engine for keys with one LPM field and otherwise exact fields: a trie over the LPM field
//! for each combination of exact values.

mod arena;
mod lines;
mod node;
mod search;
mod span;
mod tables;
mod trie;
mod trie_index;

use super::{MatchEngine, Matcher, Rule};
use crate::entry::EntryIdx;
use crate::key::{FieldMatch, KeyShape, MatchKind};
use crate::packing::{self, Packing};
use crate::prefetch::tell_lines_of;
use search::{BATCH, Shown};
use std::sync::Arc;
use trie::{Address, Forest, Prefix, TrieId};
pub use trie_index::TrieIndex;

/// Match engine with a trie for each combination of the exact fields.
#[derive(Debug)]
struct Lpm<A: KeyAddress> {
    forest: Forest<A>,
    layout: Arc<Layout>,
}

/// The only trie if keys have no exact fields.
const ONLY: TrieId = TrieId(1);

/// Creates the engine for keys of `shape`, which must have one LPM field and otherwise exact
/// fields. Returns `None` if the LPM field is wider than 128 bits or the exact fields are too long.
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
        let mut lpm = Self {
            forest: Forest::new(layout.exact.limbs()),
            layout: Arc::new(layout),
        };
        lpm.begin();
        lpm
    }

    /// Creates the trie for keys without exact fields, which always exists.
    fn begin(&mut self) {
        if !self.layout.has_exact() {
            let only = self.forest.add();
            debug_assert_eq!(only, ONLY);
        }
    }

    fn trie_of(&self, exact: &[u64]) -> TrieId {
        match self.layout.has_exact() {
            true => self.forest.named(exact),
            false => ONLY,
        }
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
}

impl<A: KeyAddress> MatchEngine for Lpm<A> {
    fn insert(&mut self, rule: Rule<'_>) {
        let mut exact = [0; packing::MAX];
        let exact = self.layout.exact_of(rule.matches, &mut exact);
        let trie = match self.trie_of(exact) {
            TrieId::EMPTY => {
                let trie = self.forest.add();
                self.forest.name(exact, Some(trie));
                trie
            }
            trie => trie,
        };
        let prefix = self.prefix(rule.matches);
        self.forest.insert(trie, prefix, rule.idx.get() + 1);
    }

    fn remove(&mut self, rule: Rule<'_>) {
        let mut exact = [0; packing::MAX];
        let exact = self.layout.exact_of(rule.matches, &mut exact);
        let trie = self.trie_of(exact);
        if trie == TrieId::EMPTY {
            return;
        }
        let prefix = self.prefix(rule.matches);
        self.forest.remove(trie, prefix);
        if self.layout.has_exact() && self.forest.is_empty(trie) {
            self.forest.give_back(trie);
            self.forest.name(exact, None);
        }
    }

    fn clear(&mut self) {
        self.forest.clear(self.layout.exact.limbs());
        self.begin();
    }

    fn snapshot(&mut self) -> Arc<dyn Matcher> {
        Arc::new(Index::<A> {
            layout: self.layout.clone(),
            shown: self.forest.snapshot(),
        })
    }

    fn memory(&self) -> usize {
        self.forest.memory()
    }
}

/// Positions of the fields in a key.
#[derive(Debug)]
struct Layout {
    /// Index of the LPM field.
    field: usize,
    width: u32,
    /// Index of its first limb in a key.
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
        ((1..=128).contains(&width) && exact.limbs() <= packing::MAX).then(|| Self {
            field,
            width,
            offset: shape.offset(field),
            exact,
        })
    }

    fn has_exact(&self) -> bool {
        self.exact.limbs() > 0
    }

    /// Returns the exact fields of a rule, packed.
    fn exact_of<'p>(&self, matches: &[FieldMatch], packed: &'p mut [u64]) -> &'p [u64] {
        let packed = &mut packed[..self.exact.limbs()];
        self.exact.pack_matches(matches, packed);
        packed
    }
}

/// An [`Address`] that can be made from limbs.
trait KeyAddress: Address {
    /// Returns the address in the low `width` bits of these limbs.
    fn from_limbs(limbs: &[u64], width: u32) -> Self;

    /// Returns the trie of all prefixes in the form that compiled code can search inline, if it
    /// supports addresses of this size.
    fn seen(shown: &Shown<Self>) -> Option<TrieIndex<'_>>;
}

impl KeyAddress for u64 {
    #[inline(always)]
    fn from_limbs(limbs: &[u64], width: u32) -> Self {
        limbs[0] << (64 - width)
    }

    fn seen(shown: &Shown<u64>) -> Option<TrieIndex<'_>> {
        Some(TrieIndex::of(shown, ONLY))
    }
}

impl KeyAddress for u128 {
    #[inline(always)]
    fn from_limbs(limbs: &[u64], width: u32) -> Self {
        (u128::from(limbs[1]) << 64 | u128::from(limbs[0])) << (128 - width)
    }

    fn seen(_: &Shown<u128>) -> Option<TrieIndex<'_>> {
        None
    }
}

/// Index that packets search.
#[derive(Debug)]
struct Index<A> {
    layout: Arc<Layout>,
    shown: Shown<A>,
}

impl<A: KeyAddress> Index<A> {
    #[inline(always)]
    fn address(&self, key: &[u64]) -> A {
        let Layout { width, offset, .. } = *self.layout;
        A::from_limbs(&key[offset..], width)
    }

    /// Returns the trie for the exact fields of a key.
    #[inline(always)]
    fn trie_of(&self, key: &[u64]) -> TrieId {
        let mut packed = [0; packing::MAX];
        let packed = &mut packed[..self.layout.exact.limbs()];
        self.layout.exact.pack(key, packed);
        self.shown.tables.trie(packed)
    }

    /// Looks up at most [`BATCH`] keys at once.
    #[inline(always)]
    fn find_some(&self, keys: &[u64], stride: usize, out: &mut [Option<EntryIdx>]) {
        let address_of = |i: usize| self.address(&keys[i * stride..][..stride]);
        if !self.layout.has_exact() {
            return self.shown.find_some(ONLY, address_of, out);
        }
        let mut tries = [0; BATCH];
        self.tries_of(keys, stride, &mut tries[..out.len()]);
        self.shown.find_in(&tries, address_of, out);
    }

    fn find_all(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        let stride = keys.len().checked_div(out.len()).unwrap_or(0);
        for (i, out) in out.chunks_mut(BATCH).enumerate() {
            let keys = &keys[i * BATCH * stride..][..out.len() * stride];
            match stride {
                // The most common case: the constant length makes key positions constant.
                1 => self.find_some(keys, 1, out),
                _ => self.find_some(keys, stride, out),
            }
        }
    }

    fn tries_of(&self, keys: &[u64], stride: usize, tries: &mut [u32]) {
        let limbs = self.layout.exact.limbs();
        let mut packed = [0; BATCH * packing::MAX];
        let packed = &mut packed[..tries.len() * limbs];
        for (key, packed) in keys
            .chunks_exact(stride)
            .zip(packed.chunks_exact_mut(limbs))
        {
            self.layout.exact.pack(key, packed);
        }
        self.shown.tables.names.get_batch(packed, tries);
    }
}

impl<A: KeyAddress> Matcher for Index<A> {
    fn find(&self, key: &[u64]) -> Option<EntryIdx> {
        let trie = if self.layout.has_exact() {
            self.trie_of(key)
        } else {
            ONLY
        };
        self.shown.find(trie, self.address(key))
    }

    fn find_batch(&self, keys: &[u64], out: &mut [Option<EntryIdx>]) {
        self.find_all(keys, out);
    }

    fn tell_common(&self, tell: &mut dyn FnMut(usize)) {
        tell_lines_of(self, tell);
        tell_lines_of(&*self.layout, tell);
        tell_lines_of(&*self.shown.tables, tell);
        // With exact fields, the trie depends on the key, and there may be none.
        if !self.layout.has_exact() {
            self.shown.tell_common(ONLY, tell);
        }
    }

    fn trie(&self) -> Option<TrieIndex<'_>> {
        let is_alone = !self.layout.has_exact();
        is_alone.then(|| A::seen(&self.shown))?
    }

    fn memory(&self) -> usize {
        self.shown.memory()
    }
}

#[cfg(test)]
mod tests;
