//! [`Shown`]: snapshot of tries, with single and batch lookups.

use super::lines::ShownLines;
use super::node::{STRIDE, Target};
use super::tables::{Table, Tables};
use super::trie::{Address, TrieId};
use crate::entry::EntryIdx;
use crate::prefetch::{BitWork, counting_bits, prefetch, tell_few_lines_of, tell_lines_of};
use std::hint::select_unpredictable;
use std::sync::Arc;

/// Number of lookups of which the memory accesses overlap.
pub(crate) const BATCH: usize = 64;

/// Returns `first`, or `second` if `first` is 0.
#[inline(always)]
fn or(first: u32, second: u32) -> u32 {
    select_unpredictable(first == 0, second, first)
}

/// Converts a value of the trie to an entry index.
#[inline(always)]
fn entry(value: u32) -> Option<EntryIdx> {
    value.checked_sub(1).map(EntryIdx::new)
}

/// Immutable snapshot of tries.
#[derive(Debug)]
pub(crate) struct Shown<A> {
    pub(crate) tables: Arc<Tables<A>>,
    pub(crate) lines: ShownLines,
}

impl<A: Address> Shown<A> {
    /// Returns the approximate size in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tables.memory() + self.lines.memory()
    }

    /// Reports memory that all lookups in a trie read, whatever the address, if it is small.
    pub(crate) fn tell_common(&self, id: TrieId, tell: &mut dyn FnMut(usize)) {
        let table = self.tables.table(id);
        tell_lines_of(table, tell);
        tell_few_lines_of(table.slots(), tell);
    }

    /// Returns the entry of the longest prefix in a trie that matches an address.
    #[inline]
    pub(crate) fn find(&self, id: TrieId, address: A) -> Option<EntryIdx> {
        let table = self.tables.table(id);
        let (target, _) = self.walk(table, address);
        entry(or(target.value(), table.default))
    }

    /// Returns the target for an address, and the number of address bits that were used.
    #[inline(always)]
    fn walk(&self, table: &Table<A>, address: A) -> (Target, u32) {
        let lines = self.lines.all();
        let mut target = table.start(address, table.end);
        let mut depth = table.end;
        while target.is_node() {
            let slot = address.slot(depth);
            target = target.follow(slot, &lines[target.line(slot)]);
            depth += STRIDE;
        }
        (target, depth)
    }

    /// Returns the number of nodes on the path of an address.
    #[cfg(test)]
    pub(crate) fn nodes_to(&self, id: TrieId, address: A) -> u32 {
        let table = self.tables.table(id);
        let (_, depth) = self.walk(table, address);
        (depth - table.end) / STRIDE
    }

    /// Like [`find`](Self::find), for at most [`BATCH`] addresses in one trie.
    pub(crate) fn find_some(
        &self,
        id: TrieId,
        address_of: impl Fn(usize) -> A,
        out: &mut [Option<EntryIdx>],
    ) {
        let table = self.tables.table(id);
        let table_of = |_| table;
        // A constant number of bits makes shifts faster.
        match table.end {
            12 => self.search::<12>(table_of, address_of, out),
            18 => self.search::<18>(table_of, address_of, out),
            24 => self.search::<24>(table_of, address_of, out),
            _ => self.search::<ANY>(table_of, address_of, out),
        }
    }

    /// Like [`find`](Self::find), for at most [`BATCH`] addresses, each in its own trie.
    pub(crate) fn find_in(
        &self,
        ids: &[u32; BATCH],
        address_of: impl Fn(usize) -> A,
        out: &mut [Option<EntryIdx>],
    ) {
        let table_of = |i: usize| self.tables.table(TrieId(ids[i % BATCH]));
        self.search::<ANY>(table_of, address_of, out);
    }

    fn search<'s, const END: u32>(
        &'s self,
        table_of: impl Fn(usize) -> &'s Table<A>,
        address_of: impl Fn(usize) -> A,
        out: &'s mut [Option<EntryIdx>],
    ) {
        counting_bits(Search::<A, _, _, END> {
            shown: self,
            table_of,
            address_of,
            out,
        });
    }
}

/// Search for at most [`BATCH`] addresses, in tries of which the table index ends at bit `END`.
struct Search<'s, A, T, F, const END: u32> {
    shown: &'s Shown<A>,
    table_of: T,
    address_of: F,
    out: &'s mut [Option<EntryIdx>],
}

/// [`Search`] parameter `END`: the end depends on the trie.
const ANY: u32 = u32::MAX;

impl<'s, A, T, F, const END: u32> BitWork for Search<'s, A, T, F, END>
where
    A: Address,
    T: Fn(usize) -> &'s Table<A>,
    F: Fn(usize) -> A,
{
    #[inline(always)]
    fn run(self) {
        let table_of = self.table_of;
        let end_of = |i: usize| if END == ANY { table_of(i).end } else { END };
        let lines = self.shown.lines.all();
        let count = self.out.len().min(BATCH);
        let mut addresses = [A::default(); BATCH];
        // For each search, the index of the table element that it reads next, then the index of the
        // line.
        let mut next = [0; BATCH];
        for i in 0..count {
            let (address, table) = ((self.address_of)(i), table_of(i));
            let slot = table.slot(address, end_of(i));
            prefetch(table.slots(), slot);
            addresses[i] = address;
            next[i] = slot as u32;
        }
        // Current target of each search.
        let mut targets = [0; BATCH];
        for i in 0..count {
            let (address, end) = (addresses[i], end_of(i));
            let target = Target(table_of(i).slots()[next[i] as usize]);
            targets[i] = target.0;
            next[i] = target.line(address.slot(end)) as u32;
            prefetch(lines, next[i] as usize);
        }
        // Most searches end after one node. The others continue together.
        let mut deeper = [0u8; BATCH];
        let mut active = 0;
        for i in 0..count {
            let (address, end) = (addresses[i], end_of(i));
            let target = Target(targets[i]);
            let followed = target.follow(address.slot(end), &lines[next[i] as usize]);
            let to = select_unpredictable(target.is_node(), followed.0, target.0);
            let target = Target(to);
            targets[i] = target.0;
            if target.is_node() {
                next[i] = target.line(address.slot(end + STRIDE)) as u32;
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
                let (address, end) = (addresses[i], end_of(i) + depth);
                let target = Target(targets[i]);
                let target = target.follow(address.slot(end), &lines[next[i] as usize]);
                targets[i] = target.0;
                if target.is_node() {
                    next[i] = target.line(address.slot(end + STRIDE)) as u32;
                    prefetch(lines, next[i] as usize);
                    deeper[active % BATCH] = i as u8;
                    active += 1;
                }
            }
            depth += STRIDE;
        }
        for (i, out) in self.out[..count].iter_mut().enumerate() {
            *out = entry(or(Target(targets[i]).value(), table_of(i).default));
        }
    }
}
