//! The nodes of a trie: six bits of the address each.
//!
//! A node is in two parts. [`Node`] is what packets read, as in Poptrie (Asai and Ohara, SIGCOMM 2015): which of
//! the 64 slots have a child, which are covered by a prefix that ends in this node, and where runs of slots with
//! the same prefix begin; the number of ones before a slot is the place of its child or leaf. Unlike there, a
//! prefix is not pushed down into nodes below, so that a change stays in its node. [`Own`] is what the control
//! side needs besides: the prefixes themselves.

use crate::entry::EntryIdx;

/// Bits of the address that a node takes.
pub(crate) const STRIDE: u32 = 6;

/// What packets read of a node.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
pub(crate) struct Node {
    /// The slots with a child.
    pub(crate) children: u64,
    /// The slots that a prefix of this node covers.
    pub(crate) covered: u64,
    /// Of these, the slots whose best prefix is not that of the slot before.
    pub(crate) starts: u64,
    /// The place of the first child.
    pub(crate) first_child: u32,
    /// The place of the leaf of the first start.
    pub(crate) first_leaf: u32,
}

const _: () = assert!(size_of::<Node>() == 32);

impl Node {
    /// The bits of a set up to and with `slot`, the highest of them on top.
    #[inline(always)]
    fn up_to(set: u64, slot: u32) -> u64 {
        set << (63 - slot)
    }

    #[inline(always)]
    pub(crate) fn has_child(&self, slot: u32) -> bool {
        (Self::up_to(self.children, slot) as i64) < 0
    }

    /// The place of the child of `slot`, which has one.
    #[inline(always)]
    pub(crate) fn child(&self, slot: u32) -> u32 {
        let rank = Self::up_to(self.children, slot).count_ones();
        self.first_child.wrapping_add(rank).wrapping_sub(1)
    }

    /// The place of the leaf for `slot`, if a prefix of this node covers it; else 0. Without branches: whether
    /// one does cannot be foreseen.
    #[inline(always)]
    pub(crate) fn leaf(&self, slot: u32) -> u32 {
        let is_covered = Self::up_to(self.covered, slot) as i64 >> 63;
        // A covered slot has a start at it or before.
        let rank = Self::up_to(self.starts, slot).count_ones();
        self.first_leaf.wrapping_add(rank).wrapping_sub(1) & is_covered as u32
    }

    /// How many children are before `slot`.
    pub(crate) fn children_before(&self, slot: u32) -> usize {
        (self.children & ((1 << slot) - 1)).count_ones() as usize
    }

    pub(crate) fn child_count(&self) -> usize {
        self.children.count_ones() as usize
    }

    pub(crate) fn leaf_count(&self) -> usize {
        self.starts.count_ones() as usize
    }
}

/// A value in a leaf, a slot or a default: an entry, plus 1; 0 is none.
pub(crate) type Found = u32;

/// The first, or the second if the first is none. Without branches.
#[inline(always)]
pub(crate) fn or(first: u32, second: u32) -> u32 {
    first | second & u32::from(first == 0).wrapping_neg()
}

/// The [`Found`] of an entry.
pub(crate) fn found(idx: EntryIdx) -> Found {
    idx.get().wrapping_add(1)
}

/// The prefixes that end in a node: of 1 to 6 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Own {
    /// Those of 1 to 5 bits: bit `1 << len | bits`.
    short: u64,
    /// Those of 6 bits: bit `bits`.
    long: u64,
    /// The place of the first value: short ones first, then in the order of bits.
    pub(crate) first: u32,
}

/// A prefix within a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local {
    /// 1 to 6.
    pub(crate) len: u32,
    /// The first slot that it covers.
    pub(crate) slot: u32,
}

impl Own {
    pub(crate) fn count(&self) -> usize {
        (self.short.count_ones() + self.long.count_ones()) as usize
    }

    /// Whether the prefix is there, and the rank of its value.
    pub(crate) fn rank(&self, local: Local) -> (bool, usize) {
        let (set, bit, before) = self.bit(local);
        let rank = (set & (bit - 1)).count_ones() + before;
        (set & bit != 0, rank as usize)
    }

    /// Puts the prefix in, or takes it out.
    pub(crate) fn flip(&mut self, local: Local) {
        let (_, bit, _) = self.bit(local);
        if local.len == STRIDE {
            self.long ^= bit;
        } else {
            self.short ^= bit;
        }
    }

    /// The set that the prefix belongs to, its bit there, and how many prefixes are before the set.
    fn bit(&self, local: Local) -> (u64, u64, u32) {
        if local.len == STRIDE {
            return (self.long, 1 << local.slot, self.short.count_ones());
        }
        let name = 1 << local.len | local.slot >> (STRIDE - local.len);
        (self.short, 1 << name, 0)
    }

    /// The best prefix for each slot, given the values of all.
    pub(crate) fn spread(&self, values: &[Found]) -> [Found; 64] {
        let mut best = [0; 64];
        let mut values = values.iter();
        // By ascending bit, so the longer of two comes later.
        for (name, value) in ones(self.short).zip(&mut values) {
            let spare = STRIDE - name.ilog2();
            let first = ((name << spare) & 63) as usize;
            best[first..first + (1 << spare)].fill(*value);
        }
        for (slot, value) in ones(self.long).zip(values) {
            best[slot as usize] = *value;
        }
        best
    }
}

/// The places of the ones.
fn ones(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let place = set.trailing_zeros();
        let rest = set & set.wrapping_sub(1);
        (std::mem::replace(&mut set, rest) != 0).then_some(place)
    })
}
