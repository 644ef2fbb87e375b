//! [`Tables`]: root tables of tries, in which searches start.

use super::node::Target;
use super::span::Span;
use super::trie::{Address, TrieId};
use crate::engine::Replay;
use crate::flat_map::FlatMap;

/// Root table of a trie.
#[derive(Debug, Clone)]
pub(crate) struct Table<A> {
    /// Number of leading address bits that end with the table index.
    pub(crate) end: u32,
    /// Bits that all addresses share before the table index, followed by zeros.
    shared: A,
    /// Targets by table index. One more element, without a target, is for addresses that do not
    /// start with the shared bits.
    slots: Box<[u32]>,
    /// Value of the prefix of length 0; 0 for none.
    pub(crate) default: u32,
}

impl<A: Address> Table<A> {
    fn new(span: Span<A>) -> Self {
        Self {
            end: span.end(),
            shared: span.shared(),
            slots: vec![0; span.slots() + 1].into(),
            default: 0,
        }
    }

    /// Returns the bits that all addresses share before the table index.
    pub(crate) fn shared(&self) -> A {
        self.shared
    }

    /// Returns the [`Target`]s by table index.
    #[inline(always)]
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Returns the table index for an address. `end` is the field [`end`](Self::end), passed so
    /// that it can be a constant.
    #[inline(always)]
    pub(crate) fn slot(&self, address: A, end: u32) -> usize {
        let slot = (address ^ self.shared).first(end);
        slot.min(self.slots.len() - 1)
    }

    /// Returns the target at which the search for an address starts.
    #[inline(always)]
    pub(crate) fn start(&self, address: A, end: u32) -> Target {
        Target(self.slots[self.slot(address, end)])
    }
}

/// Root tables of all tries.
#[derive(Debug, Clone)]
pub(crate) struct Tables<A> {
    /// Map from each combination of exact fields to its trie.
    pub(crate) names: FlatMap,
    tables: Vec<Table<A>>,
    /// Number of elements of all tables.
    slots: usize,
}

/// Maximum number of table elements set by one change, which bounds the time of a change.
pub(crate) const RUN: usize = 64;

/// Operation on the tables.
#[derive(Debug)]
pub(crate) enum TableChange<A> {
    /// Sets or removes the trie of a combination of exact fields.
    Name {
        exact: Box<[u64]>,
        trie: Option<TrieId>,
    },
    /// Sets the value of the prefix of length 0; 0 for none.
    Default { trie: TrieId, value: u32 },
    /// Replaces the table of a trie by an empty one with another index range.
    Resize { trie: TrieId, span: Span<A> },
    /// Sets one element.
    Slot {
        trie: TrieId,
        at: u32,
        target: Target,
    },
    /// Sets at most [`RUN`] adjacent elements.
    Slots {
        trie: TrieId,
        first: u32,
        targets: Box<[u32]>,
    },
}

impl<A: Address> Tables<A> {
    /// Creates the tables with that of the empty trie only.
    pub(crate) fn new(exact_limbs: usize) -> Self {
        let empty = Table::new(Span::default());
        Self {
            names: FlatMap::new(exact_limbs),
            slots: empty.slots.len(),
            tables: vec![empty],
        }
    }

    /// Returns the trie for these exact fields.
    #[inline(always)]
    pub(crate) fn trie(&self, exact: &[u64]) -> TrieId {
        // The map returns 0 for a missing key, which is the empty trie.
        TrieId(self.names.get(exact))
    }

    #[inline(always)]
    pub(crate) fn table(&self, id: TrieId) -> &Table<A> {
        &self.tables[id.0 as usize]
    }

    fn table_mut(&mut self, id: TrieId) -> &mut Table<A> {
        &mut self.tables[id.0 as usize]
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.names.memory() + size_of_val(&self.tables[..]) + self.slots * size_of::<u32>()
    }

    fn resize(&mut self, id: TrieId, span: Span<A>) {
        let at = id.0 as usize;
        while self.tables.len() <= at {
            let empty = Table::new(Span::default());
            self.slots += empty.slots.len();
            self.tables.push(empty);
        }
        let default = self.tables[at].default;
        let table = Table {
            default,
            ..Table::new(span)
        };
        self.slots += table.slots.len();
        let old = std::mem::replace(&mut self.tables[at], table);
        self.slots -= old.slots.len();
    }
}

impl<A: Address> Replay for Tables<A> {
    type Op = TableChange<A>;

    fn apply(&mut self, change: &TableChange<A>) {
        match *change {
            TableChange::Name { ref exact, trie } => {
                match trie {
                    Some(trie) => self.names.insert(exact, trie.0 - 1),
                    None => self.names.remove(exact),
                };
            }
            TableChange::Default { trie, value } => self.table_mut(trie).default = value,
            TableChange::Resize { trie, span } => self.resize(trie, span),
            TableChange::Slot { trie, at, target } => {
                self.table_mut(trie).slots[at as usize] = target.0;
            }
            TableChange::Slots {
                trie,
                first,
                ref targets,
            } => {
                let slots = &mut self.table_mut(trie).slots[first as usize..];
                slots[..targets.len()].copy_from_slice(targets);
            }
        }
    }

    fn clone_cost(&self) -> usize {
        // A clone reads elements in order, while a change waits for a random one.
        self.slots / 128 + self.names.len() / 16 + self.tables.len() / 4
    }
}
