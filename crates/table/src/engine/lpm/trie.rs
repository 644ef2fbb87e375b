//! [`Forest`]: tries over prefixes that share their memory.
//!
//! The first 0, 12 or 18 bits of an address choose a slot of a trie's table, by how many prefixes the trie has;
//! the nodes below take six bits each. The nodes above the table stay, for the control side. A search keeps the
//! best that it has seen on its way down: the slot's own, then a leaf.

use super::arena::Arena;
use super::node::{Found, Local, Node, Own, STRIDE, or};
use crate::prefetch::{BitWork, counting_bits, prefetch};
use std::fmt;

/// How many lookups wait for memory together.
pub(crate) const BATCH: usize = 64;

/// An address, from its first bit on, with zeros behind.
pub(crate) trait Address: Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// The first `count` bits, of at most 18.
    fn first(self, count: u32) -> usize;
    /// Without the first `count` bits, less than all.
    fn without(self, count: u32) -> Self;
    /// The address that begins with these `count` bits.
    fn from_first(bits: usize, count: u32) -> Self;

    /// The slot in the next node.
    #[inline(always)]
    fn slot(self) -> u32 {
        self.first(STRIDE) as u32
    }
}

macro_rules! address {
    ($type:ty) => {
        impl Address for $type {
            #[inline(always)]
            fn first(self, count: u32) -> usize {
                ((self >> 1) >> (<$type>::BITS - 1 - count)) as usize
            }

            #[inline(always)]
            fn without(self, count: u32) -> Self {
                self << count
            }

            fn from_first(bits: usize, count: u32) -> Self {
                ((bits as $type) << 1) << (<$type>::BITS - 1 - count)
            }
        }
    };
}

address!(u64);
address!(u128);

/// A prefix of a trie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefix<A> {
    pub(crate) address: A,
    pub(crate) len: u32,
}

impl<A: Address> Prefix<A> {
    /// How many bits the nodes above the one that it ends in take.
    fn depth(self) -> u32 {
        (self.len - 1) / STRIDE * STRIDE
    }

    /// The prefix within the node that it ends in.
    fn local(self) -> Local {
        let depth = self.depth();
        Local {
            len: self.len - depth,
            slot: self.address.without(depth).slot(),
        }
    }
}

/// Names a trie of a forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrieId(pub(crate) u32);

impl TrieId {
    /// The trie that never has a prefix.
    pub(crate) const EMPTY: Self = Self(0);
}

/// What the first bits of an address choose.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// The best prefix that is no longer than these bits.
    best: Found,
    /// The node for the bits behind; 0 is none.
    node: u32,
}

#[derive(Debug, Clone)]
struct Trie {
    /// How many bits choose a slot.
    bits: u32,
    slots: Box<[Slot]>,
    /// The prefix of no bits.
    default: Found,
    /// The node of the first bits; 0 is none.
    root: u32,
    /// How many prefixes there are, but for the default.
    count: usize,
}

impl Trie {
    fn new() -> Self {
        Self {
            bits: 0,
            slots: [Slot::default()].into(),
            default: 0,
            root: 0,
            count: 0,
        }
    }

    /// How many bits should choose a slot: a table takes no more than some hundred bytes a prefix. One that
    /// is there stays until it would be four times too large.
    fn right_bits(&self) -> u32 {
        let bits = |count| match count {
            0..256 => 0,
            256..16_384 => 12,
            _ => 18,
        };
        self.bits.clamp(bits(self.count), bits(self.count * 4))
    }
}

/// Tries that share their memory.
#[derive(Debug, Clone)]
pub(crate) struct Forest {
    tries: Vec<Trie>,
    free: Vec<TrieId>,
    nodes: Arena<Node>,
    /// At the places of `nodes`.
    owns: Vec<Own>,
    leaves: Arena<Found>,
    /// The values of all [`Own`].
    values: Arena<Found>,
}

impl Forest {
    /// With the empty trie only.
    pub(crate) fn new() -> Self {
        Self {
            tries: vec![Trie::new()],
            free: Vec::new(),
            nodes: Arena::new(),
            owns: vec![Own::default()],
            leaves: Arena::new(),
            values: Arena::new(),
        }
    }

    /// A trie without prefixes.
    pub(crate) fn add(&mut self) -> TrieId {
        self.free.pop().unwrap_or_else(|| {
            self.tries.push(Trie::new());
            TrieId((self.tries.len() - 1) as u32)
        })
    }

    /// Gives a trie without prefixes back.
    pub(crate) fn give_back(&mut self, id: TrieId) {
        *self.trie_mut(id) = Trie::new();
        self.free.push(id);
    }

    pub(crate) fn is_empty(&self, id: TrieId) -> bool {
        let trie = self.trie(id);
        trie.count == 0 && trie.default == 0
    }

    /// How many nodes there is room for.
    pub(crate) fn node_count(&self) -> usize {
        self.owns.len()
    }

    /// About how many bytes it takes.
    pub(crate) fn memory(&self) -> usize {
        let slots = self.tries.iter().map(|trie| size_of_val(&trie.slots[..]));
        let arenas = self.nodes.memory() + self.leaves.memory() + self.values.memory();
        slots.sum::<usize>() + arenas + size_of_val(&self.tries[..]) + size_of_val(&self.owns[..])
    }

    #[inline(always)]
    fn trie(&self, id: TrieId) -> &Trie {
        &self.tries[id.0 as usize]
    }

    fn trie_mut(&mut self, id: TrieId) -> &mut Trie {
        &mut self.tries[id.0 as usize]
    }

    /// The longest prefix of a trie that an address begins with.
    #[inline]
    pub(crate) fn find<A: Address>(&self, id: TrieId, address: A) -> Found {
        let trie = self.trie(id);
        let slot = trie.slots[address.first(trie.bits)];
        let leaf = self.search(slot.node, address.without(trie.bits));
        or(leaf, or(slot.best, trie.default))
    }

    /// The best leaf on the way down from a node.
    #[inline(always)]
    fn search<A: Address>(&self, mut node: u32, mut address: A) -> Found {
        let mut leaf = 0;
        while node != 0 {
            let slot = address.slot();
            let at = self.nodes.get(node);
            leaf = or(at.leaf(slot), leaf);
            node = if at.has_child(slot) {
                at.child(slot)
            } else {
                0
            };
            address = address.without(STRIDE);
        }
        *self.leaves.get(leaf)
    }

    /// Sets what a prefix leads to.
    pub(crate) fn insert<A: Address>(&mut self, id: TrieId, prefix: Prefix<A>, found: Found) {
        if prefix.len == 0 {
            self.trie_mut(id).default = found;
            return;
        }
        let node = self.node_for(id, prefix);
        let local = prefix.local();
        let own = self.owns[node as usize];
        let (is_there, rank) = own.rank(local);
        if is_there {
            *self.values.get_mut(own.first + rank as u32) = found;
        } else {
            let first = self.values.insert(own.first, own.count(), rank, found);
            let own = &mut self.owns[node as usize];
            own.first = first;
            own.flip(local);
            self.trie_mut(id).count += 1;
        }
        self.changed(id, node, prefix);
    }

    /// Takes a prefix out.
    pub(crate) fn remove<A: Address>(&mut self, id: TrieId, prefix: Prefix<A>) {
        if prefix.len == 0 {
            self.trie_mut(id).default = 0;
            return;
        }
        let Some(node) = self.node_at(id, prefix.address, prefix.depth()) else {
            return;
        };
        let local = prefix.local();
        let own = self.owns[node as usize];
        let (true, rank) = own.rank(local) else {
            return;
        };
        let first = self.values.remove(own.first, own.count(), rank);
        let own = &mut self.owns[node as usize];
        own.first = first;
        own.flip(local);
        self.trie_mut(id).count -= 1;
        self.changed(id, node, prefix);
        self.prune(id, prefix.address, prefix.depth());
    }

    /// Brings what packets read in line with the prefixes of a node, one of which came or went.
    fn changed<A: Address>(&mut self, id: TrieId, node: u32, prefix: Prefix<A>) {
        self.spread(node);
        let bits = self.trie(id).right_bits();
        if bits != self.trie(id).bits {
            let trie = self.trie_mut(id);
            trie.bits = bits;
            trie.slots = vec![Slot::default(); 1 << bits].into();
            self.fill_slots::<A>(id, 0, 1 << bits);
        } else if prefix.len <= bits {
            let count = 1 << (bits - prefix.len);
            self.fill_slots::<A>(id, prefix.address.first(bits), count);
        }
    }

    /// Makes the leaves of a node from its prefixes.
    fn spread(&mut self, node: u32) {
        let own = self.owns[node as usize];
        let best = own.spread(self.values.run(own.first, own.count()));
        let (mut covered, mut starts) = (0u64, 0u64);
        let mut leaves = [0; 64];
        let (mut count, mut before) = (0, 0);
        for (slot, &found) in best.iter().enumerate() {
            covered |= u64::from(found != 0) << slot;
            if found != 0 && found != before {
                starts |= 1 << slot;
                leaves[count] = found;
                count += 1;
            }
            before = found;
        }
        let old = *self.nodes.get(node);
        let first_leaf = self.leaves.retake(old.first_leaf, old.leaf_count(), count);
        self.leaves.write(first_leaf, &leaves[..count]);
        *self.nodes.get_mut(node) = Node {
            covered,
            starts,
            first_leaf,
            ..old
        };
    }

    /// Sets `count` slots, from `first` on, to what the nodes above the table say.
    fn fill_slots<A: Address>(&mut self, id: TrieId, first: usize, count: usize) {
        let Trie { bits, root, .. } = *self.trie(id);
        for index in first..first + count {
            let mut address = A::from_first(index, bits);
            let (mut node, mut leaf) = (root, 0);
            for _ in 0..bits / STRIDE {
                let at = self.nodes.get(node);
                let slot = address.slot();
                leaf = or(at.leaf(slot), leaf);
                node = if at.has_child(slot) {
                    at.child(slot)
                } else {
                    0
                };
                address = address.without(STRIDE);
            }
            let best = *self.leaves.get(leaf);
            self.trie_mut(id).slots[index] = Slot { best, node };
        }
    }

    /// The node at `depth` on the way of `address`.
    fn node_at<A: Address>(&self, id: TrieId, address: A, depth: u32) -> Option<u32> {
        let (mut node, mut address) = (self.trie(id).root, address);
        for _ in 0..depth / STRIDE {
            let at = self.nodes.get(node);
            let slot = address.slot();
            node = if at.has_child(slot) {
                at.child(slot)
            } else {
                0
            };
            address = address.without(STRIDE);
        }
        (node != 0).then_some(node)
    }

    /// The node that a prefix ends in, and all on the way, made where they are missing.
    fn node_for<A: Address>(&mut self, id: TrieId, prefix: Prefix<A>) -> u32 {
        if self.trie(id).root == 0 {
            let root = self.nodes.take(1);
            self.put_node(root, Node::default(), Own::default());
            let trie = self.trie_mut(id);
            trie.root = root;
            if trie.bits == 0 {
                trie.slots[0].node = root;
            }
        }
        let mut node = self.trie(id).root;
        for depth in (0..prefix.depth()).step_by(STRIDE as usize) {
            let slot = prefix.address.without(depth).slot();
            if !self.nodes.get(node).has_child(slot) {
                self.add_child(node, slot);
                self.link(id, node, prefix.address, depth);
            }
            node = self.nodes.get(node).child(slot);
        }
        node
    }

    fn put_node(&mut self, place: u32, node: Node, own: Own) {
        *self.nodes.get_mut(place) = node;
        self.owns.resize(self.nodes.items().len(), Own::default());
        self.owns[place as usize] = own;
    }

    /// Gives a node an empty child.
    fn add_child(&mut self, node: u32, slot: u32) {
        let old = *self.nodes.get(node);
        let (rank, count) = (old.children_before(slot), old.child_count());
        let first = self
            .nodes
            .insert(old.first_child, count, rank, Node::default());
        self.owns.resize(self.nodes.items().len(), Own::default());
        self.move_owns(old.first_child, first, rank, rank + 1, count - rank);
        self.move_owns(old.first_child, first, 0, 0, rank);
        self.owns[first as usize + rank] = Own::default();
        let at = self.nodes.get_mut(node);
        at.first_child = first;
        at.children |= 1 << slot;
    }

    /// Takes an empty child away.
    fn remove_child(&mut self, node: u32, slot: u32) {
        let old = *self.nodes.get(node);
        let (rank, count) = (old.children_before(slot), old.child_count());
        let first = self.nodes.remove(old.first_child, count, rank);
        self.owns.resize(self.nodes.items().len(), Own::default());
        self.move_owns(old.first_child, first, 0, 0, rank);
        self.move_owns(old.first_child, first, rank + 1, rank, count - rank - 1);
        let at = self.nodes.get_mut(node);
        at.first_child = first;
        at.children ^= 1 << slot;
    }

    /// Moves `count` of the [`Own`] of a run of nodes as the nodes were moved.
    fn move_owns(&mut self, old: u32, new: u32, from: usize, to: usize, count: usize) {
        let from = old as usize + from;
        self.owns.copy_within(from..from + count, new as usize + to);
    }

    /// Tells the table where the children of a node, at `depth` on the way of `address`, are now.
    fn link<A: Address>(&mut self, id: TrieId, node: u32, address: A, depth: u32) {
        if depth + STRIDE != self.trie(id).bits {
            return;
        }
        let at = *self.nodes.get(node);
        let first = address.first(depth) << STRIDE;
        for slot in 0..1 << STRIDE {
            let child = if at.has_child(slot) {
                at.child(slot)
            } else {
                0
            };
            self.trie_mut(id).slots[first + slot as usize].node = child;
        }
    }

    /// Takes the node at `depth` on the way of `address` away if nothing is in it, and those above.
    fn prune<A: Address>(&mut self, id: TrieId, address: A, depth: u32) {
        let Some(node) = self.node_at(id, address, depth) else {
            return;
        };
        if self.nodes.get(node).children != 0 || self.owns[node as usize].count() != 0 {
            return;
        }
        if depth == 0 {
            self.nodes.give(node, 1);
            let trie = self.trie_mut(id);
            trie.root = 0;
            trie.slots[0].node = 0;
            return;
        }
        let above = depth - STRIDE;
        if let Some(parent) = self.node_at(id, address, above) {
            self.remove_child(parent, address.without(above).slot());
            self.link(id, parent, address, above);
            self.prune(id, address, above);
        }
    }
}

/// The search for at most [`BATCH`] addresses.
struct Search<'s, A, T> {
    forest: &'s Forest,
    /// The trie of an address.
    trie_of: T,
    addresses: &'s [A],
    out: &'s mut [Found],
}

impl Forest {
    /// [`find`](Self::find) for at most [`BATCH`] addresses in one trie.
    pub(crate) fn find_some<A: Address>(&self, id: TrieId, addresses: &[A], out: &mut [Found]) {
        let trie = self.trie(id);
        counting_bits(Search {
            forest: self,
            trie_of: |_| trie,
            addresses,
            out,
        });
    }

    /// [`find`](Self::find) for at most [`BATCH`] addresses, each in a trie of its own.
    pub(crate) fn find_in<A: Address>(&self, ids: &[u32], addresses: &[A], out: &mut [Found]) {
        counting_bits(Search {
            forest: self,
            trie_of: |i: usize| self.trie(TrieId(ids[i])),
            addresses,
            out,
        });
    }
}

impl<'s, A: Address, T: Fn(usize) -> &'s Trie> BitWork for Search<'s, A, T> {
    #[inline(always)]
    fn run(self) {
        let Self {
            forest,
            trie_of,
            addresses,
            out,
        } = self;
        let nodes = forest.nodes.items();
        let leaves = forest.leaves.items();
        let addresses = &addresses[..addresses.len().min(BATCH)];
        for (i, address) in addresses.iter().enumerate() {
            let trie = trie_of(i);
            prefetch(&trie.slots, address.first(trie.bits));
        }
        // For each address the node that is next, and the best leaf so far. Node 0 and leaf 0 are for none.
        let mut next = [0; BATCH];
        let mut leaf = [0; BATCH];
        for (i, (address, out)) in addresses.iter().zip(&mut *out).enumerate() {
            let trie = trie_of(i);
            let slot = trie.slots[address.first(trie.bits)];
            *out = or(slot.best, trie.default);
            next[i] = slot.node;
            prefetch(nodes, slot.node as usize);
        }
        // Most searches end in the first node. Those that do not go on together.
        let mut deeper = [0u8; BATCH];
        let mut active = 0;
        for (i, address) in addresses.iter().enumerate() {
            let slot = address.without(trie_of(i).bits).slot();
            let node = &nodes[next[i] as usize];
            leaf[i] = node.leaf(slot);
            prefetch(leaves, leaf[i] as usize);
            if node.has_child(slot) {
                next[i] = node.child(slot);
                prefetch(nodes, next[i] as usize);
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
                let slot = addresses[i].without(trie_of(i).bits + depth).slot();
                let node = &nodes[next[i] as usize];
                leaf[i] = or(node.leaf(slot), leaf[i]);
                if node.has_child(slot) {
                    next[i] = node.child(slot);
                    prefetch(nodes, next[i] as usize);
                    deeper[active % BATCH] = i as u8;
                    active += 1;
                } else {
                    prefetch(leaves, leaf[i] as usize);
                }
            }
            depth += STRIDE;
        }
        for (leaf, out) in leaf.iter().zip(out) {
            *out = or(leaves[*leaf as usize], *out);
        }
    }
}
