//! [`Tables`]: where searches in tries begin.

use super::node::Target;
use super::trie::{Address, TrieId};
use crate::engine::Replay;
use crate::flat_map::FlatMap;

/// Where searches in a trie begin.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// How many bits of an address choose a slot.
    pub(crate) bits: u32,
    /// Where the slots lead to.
    slots: Box<[u32]>,
    /// The value of the prefix of no bits; 0 is none.
    pub(crate) default: u32,
}

impl Table {
    fn new(bits: u32) -> Self {
        Self {
            bits,
            slots: vec![0; 1 << bits].into(),
            default: 0,
        }
    }

    /// Where slots lead to, as [`Target`]s.
    #[inline(always)]
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Where an address begins.
    #[inline(always)]
    pub(crate) fn start<A: Address>(&self, address: A, bits: u32) -> Target {
        Target(self.slots[address.first(bits)])
    }
}

/// The tables of all tries.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    /// The trie of each combination of the exact fields.
    pub(crate) names: FlatMap,
    tables: Vec<Table>,
    /// How many slots they have.
    slots: usize,
}

/// Slots that are set together at most, so that the time for a change has a bound.
pub(crate) const RUN: usize = 64;

/// One change.
#[derive(Debug)]
pub(crate) enum TableChange {
    /// Exact fields, and the trie that they have from now on, if they have one.
    Name {
        exact: Box<[u64]>,
        trie: Option<TrieId>,
    },
    /// The prefix of no bits leads to this value, or to none.
    Default { trie: TrieId, value: u32 },
    /// The trie has a table of another size, all slots of which lead nowhere.
    Resize { trie: TrieId, bits: u32 },
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

impl Tables {
    /// With the table of the empty trie only.
    pub(crate) fn new(exact_limbs: usize) -> Self {
        Self {
            names: FlatMap::new(exact_limbs),
            tables: vec![Table::new(0)],
            slots: 1,
        }
    }

    /// The trie for these exact fields.
    #[inline(always)]
    pub(crate) fn trie(&self, exact: &[u64]) -> TrieId {
        // 0, which the map says of keys that it has not, is the empty trie.
        TrieId(self.names.get(exact))
    }

    #[inline(always)]
    pub(crate) fn table(&self, id: TrieId) -> &Table {
        &self.tables[id.0 as usize]
    }

    fn table_mut(&mut self, id: TrieId) -> &mut Table {
        &mut self.tables[id.0 as usize]
    }

    /// About how many bytes they take.
    pub(crate) fn memory(&self) -> usize {
        self.names.memory() + size_of_val(&self.tables[..]) + self.slots * size_of::<u32>()
    }

    fn resize(&mut self, id: TrieId, bits: u32) {
        let at = id.0 as usize;
        while self.tables.len() <= at {
            self.tables.push(Table::new(0));
            self.slots += 1;
        }
        let default = self.tables[at].default;
        let table = Table {
            default,
            ..Table::new(bits)
        };
        let old = std::mem::replace(&mut self.tables[at], table);
        self.slots = self.slots - old.slots.len() + (1 << bits);
    }
}

impl Replay for Tables {
    type Op = TableChange;

    fn apply(&mut self, change: &TableChange) {
        match *change {
            TableChange::Name { ref exact, trie } => {
                match trie {
                    Some(trie) => self.names.insert(exact, trie.0 - 1),
                    None => self.names.remove(exact),
                };
            }
            TableChange::Default { trie, value } => self.table_mut(trie).default = value,
            TableChange::Resize { trie, bits } => self.resize(trie, bits),
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
