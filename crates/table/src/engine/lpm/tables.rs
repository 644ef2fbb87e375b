//! [`Tables`]: where searches in tries begin.

use super::node::Target;
use super::span::Span;
use super::trie::{Address, TrieId};
use crate::engine::Replay;
use crate::flat_map::FlatMap;

/// Where searches in a trie begin.
#[derive(Debug, Clone)]
pub(crate) struct Table<A> {
    /// Where the bits of an address that choose a slot end.
    pub(crate) end: u32,
    /// What addresses share before these bits, with zeros behind.
    shared: A,
    /// Where the slots lead to; and one more, nowhere, which is of all addresses that share less.
    slots: Box<[u32]>,
    /// The value of the prefix of no bits; 0 is none.
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

    /// What addresses share before the bits that choose a slot.
    pub(crate) fn shared(&self) -> A {
        self.shared
    }

    /// Where slots lead to, as [`Target`]s.
    #[inline(always)]
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// The slot of an address, given where the bits that choose it end.
    #[inline(always)]
    pub(crate) fn slot(&self, address: A, end: u32) -> usize {
        let slot = (address ^ self.shared).first(end);
        slot.min(self.slots.len() - 1)
    }

    /// Where an address begins.
    #[inline(always)]
    pub(crate) fn start(&self, address: A, end: u32) -> Target {
        Target(self.slots[self.slot(address, end)])
    }
}

/// The tables of all tries.
#[derive(Debug, Clone)]
pub(crate) struct Tables<A> {
    /// The trie of each combination of the exact fields.
    pub(crate) names: FlatMap,
    tables: Vec<Table<A>>,
    /// How many slots they have.
    slots: usize,
}

/// Slots that are set together at most, so that the time for a change has a bound.
pub(crate) const RUN: usize = 64;

/// One change.
#[derive(Debug)]
pub(crate) enum TableChange<A> {
    /// Exact fields, and the trie that they have from now on, if they have one.
    Name {
        exact: Box<[u64]>,
        trie: Option<TrieId>,
    },
    /// The prefix of no bits leads to this value, or to none.
    Default { trie: TrieId, value: u32 },
    /// The trie has a table for other bits, all slots of which lead nowhere.
    Resize { trie: TrieId, span: Span<A> },
    /// A slot.
    Slot {
        trie: TrieId,
        at: u32,
        target: Target,
    },
    /// At most [`RUN`] slots side by side.
    Slots {
        trie: TrieId,
        first: u32,
        targets: Box<[u32]>,
    },
}

impl<A: Address> Tables<A> {
    /// With the table of the empty trie only.
    pub(crate) fn new(exact_limbs: usize) -> Self {
        let empty = Table::new(Span::default());
        Self {
            names: FlatMap::new(exact_limbs),
            slots: empty.slots.len(),
            tables: vec![empty],
        }
    }

    /// The trie for these exact fields.
    #[inline(always)]
    pub(crate) fn trie(&self, exact: &[u64]) -> TrieId {
        // 0, which the map says of keys that it has not, is the empty trie.
        TrieId(self.names.get(exact))
    }

    #[inline(always)]
    pub(crate) fn table(&self, id: TrieId) -> &Table<A> {
        &self.tables[id.0 as usize]
    }

    fn table_mut(&mut self, id: TrieId) -> &mut Table<A> {
        &mut self.tables[id.0 as usize]
    }

    /// About how many bytes they take.
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
        // A clone reads slots in order, a change waits for one of them.
        self.slots / 128 + self.names.len() / 16 + self.tables.len() / 4
    }
}
