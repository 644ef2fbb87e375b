//! Lookups in a [`Forest`], one by one and in batches.

use super::node::{STRIDE, Target};
use super::trie::{Address, Forest, Trie, TrieId};
use crate::engine::steady::ASK;
use crate::entry::EntryIdx;
use crate::prefetch::{BitWork, counting_bits, prefetch};
use std::hint::select_unpredictable;
use std::marker::PhantomData;

/// How many lookups wait for memory together.
pub(crate) const BATCH: usize = 64;

/// The first, or the second if the first is none.
#[inline(always)]
fn or(first: u32, second: u32) -> u32 {
    select_unpredictable(first == 0, second, first)
}

/// The entry that a value names.
#[inline(always)]
fn entry(value: u32) -> Option<EntryIdx> {
    value.checked_sub(1).map(EntryIdx::new)
}

/// What a search finds where it is outdated.
pub(crate) trait Outdated {
    /// `None`: the same as where it is not.
    const FOUND: Option<EntryIdx>;
}

/// What this copy says.
pub(crate) struct Ignore;

impl Outdated for Ignore {
    const FOUND: Option<EntryIdx> = None;
}

/// Whoever searches asks another copy.
pub(crate) struct Ask;

impl Outdated for Ask {
    const FOUND: Option<EntryIdx> = Some(ASK);
}

impl<A: Address> Forest<A> {
    /// The entry of the longest prefix of a trie that an address begins with.
    #[inline]
    pub(crate) fn find(&self, id: TrieId, address: A) -> Option<EntryIdx> {
        let trie = self.trie(id);
        let lines = self.lines.items();
        let mut target = Target(trie.slots[address.first(trie.bits)].get());
        let mut depth = trie.bits;
        while target.is_node() {
            let slot = address.slot(depth);
            target = target.follow(slot, &lines[target.line(slot)]);
            depth += STRIDE;
        }
        entry(or(target.value(), trie.default))
    }

    /// [`find`](Self::find) for at most [`BATCH`] addresses in one trie.
    pub(crate) fn find_some<M: Outdated>(
        &self,
        id: TrieId,
        address_of: impl Fn(usize) -> A,
        out: &mut [Option<EntryIdx>],
    ) {
        let trie = self.trie(id);
        let trie_of = |_| trie;
        // With the number of bits known, shifts are short.
        match trie.bits {
            12 => self.search::<M, 12>(trie_of, address_of, out),
            18 => self.search::<M, 18>(trie_of, address_of, out),
            _ => self.search::<M, ANY>(trie_of, address_of, out),
        }
    }

    /// [`find`](Self::find) for at most [`BATCH`] addresses, each in a trie of its own.
    pub(crate) fn find_in<M: Outdated>(
        &self,
        ids: &[u32; BATCH],
        address_of: impl Fn(usize) -> A,
        out: &mut [Option<EntryIdx>],
    ) {
        let trie_of = |i: usize| self.trie(TrieId(ids[i % BATCH]));
        self.search::<M, ANY>(trie_of, address_of, out);
    }

    fn search<'s, M: Outdated, const BITS: u32>(
        &'s self,
        trie_of: impl Fn(usize) -> &'s Trie,
        address_of: impl Fn(usize) -> A,
        out: &'s mut [Option<EntryIdx>],
    ) {
        counting_bits(Search::<A, M, _, _, BITS> {
            forest: self,
            trie_of,
            address_of,
            outdated: PhantomData,
            out,
        });
    }
}

/// The search for at most [`BATCH`] addresses, in tries whose tables are chosen by `BITS` bits.
struct Search<'s, A, M, T, F, const BITS: u32> {
    forest: &'s Forest<A>,
    trie_of: T,
    address_of: F,
    outdated: PhantomData<M>,
    out: &'s mut [Option<EntryIdx>],
}

/// As many bits as each trie says.
const ANY: u32 = u32::MAX;

impl<'s, A, M, T, F, const BITS: u32> BitWork for Search<'s, A, M, T, F, BITS>
where
    A: Address,
    M: Outdated,
    T: Fn(usize) -> &'s Trie,
    F: Fn(usize) -> A,
{
    #[inline(always)]
    fn run(self) {
        let trie_of = self.trie_of;
        let bits_of = |i: usize| if BITS == ANY { trie_of(i).bits } else { BITS };
        let lines = self.forest.lines.items();
        let count = self.out.len().min(BATCH);
        let mut addresses = [A::default(); BATCH];
        for (i, address) in addresses[..count].iter_mut().enumerate() {
            *address = (self.address_of)(i);
            prefetch(&trie_of(i).slots, address.first(bits_of(i)));
        }
        // Where each search is, and the line that it reads next.
        let mut targets = [0; BATCH];
        let mut next = [0; BATCH];
        for i in 0..count {
            let (address, bits) = (addresses[i], bits_of(i));
            let target = Target(trie_of(i).slots[address.first(bits)].get());
            targets[i] = target.0;
            next[i] = target.line(address.slot(bits)) as u32;
            prefetch(lines, next[i] as usize);
        }
        // Most searches end after one node. Those that do not go on together.
        let mut deeper = [0u8; BATCH];
        let mut active = 0;
        for i in 0..count {
            let (address, bits) = (addresses[i], bits_of(i));
            let target = Target(targets[i]);
            let followed = target.follow(address.slot(bits), &lines[next[i] as usize]);
            let to = select_unpredictable(target.is_node(), followed.0, target.0);
            let target = Target(to).after(target);
            targets[i] = target.0;
            if target.is_node() {
                next[i] = target.line(address.slot(bits + STRIDE)) as u32;
                prefetch(lines, next[i] as usize);
                deeper[active % BATCH] = i as u8;
                active += 1;
            }
        }
        let mut depth = STRIDE;
        while active > 0 {
            let searches = active;
            active = 0;
            for search in 0..searches {
                let i = deeper[search % BATCH] as usize % BATCH;
                let (address, bits) = (addresses[i], bits_of(i) + depth);
                let target = Target(targets[i]);
                let followed = target.follow(address.slot(bits), &lines[next[i] as usize]);
                let target = followed.after(target);
                targets[i] = target.0;
                if target.is_node() {
                    next[i] = target.line(address.slot(bits + STRIDE)) as u32;
                    prefetch(lines, next[i] as usize);
                    deeper[active % BATCH] = i as u8;
                    active += 1;
                }
            }
            depth += STRIDE;
        }
        for (i, out) in self.out[..count].iter_mut().enumerate() {
            let target = Target(targets[i]);
            let found = entry(or(target.value(), trie_of(i).default));
            *out = match M::FOUND {
                Some(found) if target.is_outdated() => Some(found),
                _ => found,
            };
        }
    }
}
