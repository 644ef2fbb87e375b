//! Nodes of a trie. Each covers six bits of an address and has 64 branches (`slot` in the code).
//!
//! A node has two parts. A [`Node`] with an [`Own`] is for the control side: the prefixes that end
//! in the node, and its children. One or four [`Line`]s are for packets: the target of each branch,
//! which is the value of the best prefix or the next node. Shorter prefixes are pushed down to all
//! branches that they cover.
//!
//! There are two forms. In the wide form, the 64 targets are in four cache lines, of which a packet
//! reads one. The narrow form is for nodes with few different targets. One line has a bitmap of the
//! branches where the target changes, and the targets. The target is found by counting ones, as in
//! Poptrie (Asai and Ohara, SIGCOMM 2015). The form of a node and the kind of a target are
//! unpredictable, so packets do not branch on them.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Number of address bits that a node covers.
pub(crate) const STRIDE: u32 = 6;

/// Set of 64 numbers, as two words: nodes are many, and with words of 64 bits they would have gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BitSet([u32; 2]);

impl BitSet {
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.0[0]) | u64::from(self.0[1]) << 32
    }

    /// Adds the numbers that it lacks and removes those that it has.
    pub(crate) fn flip(&mut self, bits: u64) {
        self.0[0] ^= bits as u32;
        self.0[1] ^= (bits >> 32) as u32;
    }

    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.bits().count_ones()
    }
}

const _: () = assert!(size_of::<Node>() == 40);

/// Set of the prefixes that end in a node. Within it they have 1 to 6 bits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Own {
    /// Prefixes of 1 to 5 bits: bit `1 << len | bits`.
    short: BitSet,
    /// Prefixes of 6 bits: bit `bits`.
    long: BitSet,
    /// Index of the first value. Values of short prefixes come first, in the order of bits.
    pub(crate) first: u32,
}

/// Prefix within a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local {
    /// Length, 1 to 6.
    pub(crate) len: u32,
    /// First branch that it covers.
    pub(crate) slot: u32,
}

impl Local {
    /// Returns the longest prefix that covers both.
    fn shared(self, other: Self) -> Self {
        let same = (self.slot ^ other.slot).leading_zeros() - (u32::BITS - STRIDE);
        let len = same.min(self.len).min(other.len);
        let spare = STRIDE - len;
        let slot = self.slot >> spare << spare;
        Self { len, slot }
    }
}

impl Own {
    pub(crate) fn count(&self) -> usize {
        (self.short.count() + self.long.count()) as usize
    }

    /// Returns true if the prefix is in the set, and the rank of its value.
    pub(crate) fn rank(&self, local: Local) -> (bool, usize) {
        let (set, bit, before) = self.bit(local);
        let rank = (set & (bit - 1)).count_ones() + before;
        (set & bit != 0, rank as usize)
    }

    /// Inserts or removes a prefix.
    pub(crate) fn flip(&mut self, local: Local) {
        let (_, bit, _) = self.bit(local);
        if local.len == STRIDE {
            self.long.flip(bit);
        } else {
            self.short.flip(bit);
        }
    }

    /// Returns the set to which the prefix belongs, its bit there, and the number of prefixes that
    /// precede the set.
    fn bit(&self, local: Local) -> (u64, u64, u32) {
        if local.len == STRIDE {
            return (self.long.bits(), 1 << local.slot, self.short.count());
        }
        let name = 1 << local.len | local.slot >> (STRIDE - local.len);
        (self.short.bits(), 1 << name, 0)
    }

    /// Returns the rank of the value of the longest prefix that covers this one, or equals it.
    pub(crate) fn best(&self, Local { len, slot }: Local) -> Option<usize> {
        let ranks = (1..=len).rev().map(|len| self.rank(Local { len, slot }));
        ranks
            .into_iter()
            .find_map(|(is_there, rank)| is_there.then_some(rank))
    }

    /// Iterates over the prefixes of 1 to 5 bits, in the order of their values. Shorter prefixes
    /// come before the longer ones that they cover.
    fn short(&self) -> impl Iterator<Item = Local> {
        ones(self.short.bits()).map(|name| {
            let len = name.ilog2();
            let slot = name << (STRIDE - len) & 63;
            Local { len, slot }
        })
    }

    /// Sets the targets of the branches that the prefixes cover. `values` has the values of all
    /// prefixes.
    pub(crate) fn spread(&self, values: &[u32], targets: &mut [u32; 64]) {
        let mut values = values.iter();
        for (Local { len, slot }, value) in self.short().zip(&mut values) {
            targets[slot as usize..][..1 << (STRIDE - len)].fill(*value);
        }
        for (slot, value) in ones(self.long.bits()).zip(values) {
            targets[slot as usize] = *value;
        }
    }
}

/// Iterates over the positions of the ones.
pub(crate) fn ones(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let place = set.trailing_zeros();
        let rest = set & set.wrapping_sub(1);
        (std::mem::replace(&mut set, rest) != 0).then_some(place)
    })
}

/// Control side of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    pub(crate) own: Own,
    /// Branches with a child.
    pub(crate) children: BitSet,
    /// Index of the first child.
    pub(crate) first_child: u32,
    /// Target of branches that no prefix of this node covers: the value of the best shorter prefix.
    pub(crate) fallback: u32,
    /// Lines that packets read; not a node if packets do not reach it.
    pub(crate) target: Target,
}

impl Node {
    pub(crate) fn has_child(&self, slot: u32) -> bool {
        self.children.bits() >> slot & 1 != 0
    }

    /// Returns the number of children before branch `slot`.
    pub(crate) fn children_before(&self, slot: u32) -> usize {
        (self.children.bits() & ((1 << slot) - 1)).count_ones() as usize
    }

    /// Returns the index of the child of branch `slot`.
    pub(crate) fn child(&self, slot: u32) -> Option<u32> {
        self.has_child(slot)
            .then(|| self.first_child + self.children_before(slot) as u32)
    }

    /// Returns the longest prefix that covers everything in the node.
    pub(crate) fn shared(&self) -> Local {
        let slots = self.children.bits() | self.own.long.bits();
        let ends = slots
            .checked_ilog2()
            .map(|last| [slots.trailing_zeros(), last]);
        let ends = ends.into_iter().flatten();
        let all = ends.map(|slot| Local { len: STRIDE, slot });
        let shared = all.chain(self.own.short()).reduce(Local::shared);
        shared.unwrap_or(Local { len: 0, slot: 0 })
    }

    /// Returns the index of the only child if the node contains nothing else.
    pub(crate) fn only_child(&self) -> Option<u32> {
        let is_all = self.own.count() == 0 && self.child_count() == 1;
        is_all.then_some(self.first_child)
    }

    pub(crate) fn child_count(&self) -> usize {
        self.children.count() as usize
    }

    /// Returns true if the node has neither prefixes nor children.
    pub(crate) fn is_empty(&self) -> bool {
        self.children == BitSet::default() && self.own.count() == 0
    }
}

/// Target of a branch: nothing (0), a value, or a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Target(pub(crate) u32);

impl Target {
    /// Flag of a node. The other bits are the index of its first line.
    pub(crate) const NODE: u32 = 1 << 31;
    /// Flag of a node with four lines.
    pub(crate) const WIDE: u32 = 1 << 30;
    /// Maximum value, and maximum index of a line.
    pub(crate) const MAX: u32 = Self::WIDE - 1;

    /// Returns the value. Only meaningful if this is not a node.
    #[inline(always)]
    pub(crate) fn value(self) -> u32 {
        self.0 & Self::MAX
    }

    /// Creates the target for the node of which the lines start at index `place`.
    pub(crate) fn node(place: u32, is_wide: bool) -> Self {
        Self(Self::NODE | if is_wide { Self::WIDE } else { 0 } | place)
    }

    #[inline(always)]
    pub(crate) fn is_node(self) -> bool {
        self.0 & Self::NODE != 0
    }

    /// Returns the index of the node's first line and the number of lines, if this is a node.
    pub(crate) fn lines(self) -> Option<(u32, usize)> {
        let place = self.0 & Self::MAX;
        let count = if self.0 & Self::WIDE != 0 {
            WIDE_LINES
        } else {
            1
        };
        self.is_node().then_some((place, count))
    }

    #[inline(always)]
    fn is_wide(self) -> bool {
        self.0 & Self::WIDE != 0
    }

    /// Returns the index of the line that has branch `slot` of the node; 0 if this is not a node.
    #[inline(always)]
    pub(crate) fn line(self, slot: u32) -> usize {
        let place = self.0 & Self::MAX;
        let part = select_unpredictable(self.is_wide(), slot >> 4, 0);
        select_unpredictable(self.is_node(), place + part, 0) as usize
    }

    /// Returns the target of branch `slot` of this node. `line` is the line that has the branch.
    #[inline(always)]
    pub(crate) fn follow(self, slot: u32, line: &Line) -> Self {
        Self(line.get(self.word(slot, line)))
    }

    /// Returns the index of the word with the target of branch `slot` of this node. `line` is the
    /// line that has the branch.
    #[inline(always)]
    pub(crate) fn word(self, slot: u32, line: &Line) -> usize {
        let word = select_unpredictable(self.is_wide(), slot & 15, line.narrow_word(slot));
        word as usize & 15
    }
}

/// Number of lines of a node in the wide form.
pub(crate) const WIDE_LINES: usize = 4;

/// Cache line of a node that packets read: the whole node in the narrow form, or the targets of 16
/// branches in the wide form.
///
/// Narrow form: words 0 and 1 are a bitmap of the branches that do not lead to the fallback. Words
/// 2 and 3 are a bitmap of those of them that have another target than the branch before. Word 4 is
/// the fallback. Then follow the targets.
///
/// Lines are in memory that packets read, but a line is only written while no packet reaches it.
/// Its address is published later, which orders the write before all reads.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line([AtomicU32; 16]);

/// Words of a line.
pub(crate) type Image = [u32; 16];

pub(crate) const FALLBACK: usize = 4;
/// Maximum number of targets in one line.
const MAX: usize = 15 - FALLBACK;

impl Clone for Line {
    fn clone(&self) -> Self {
        Self(self.image().map(AtomicU32::new))
    }
}

impl Line {
    #[inline(always)]
    fn get(&self, word: usize) -> u32 {
        self.0[word].load(Relaxed)
    }

    pub(crate) fn image(&self) -> Image {
        std::array::from_fn(|word| self.get(word))
    }

    /// Writes all words. No packet may reach the line at that time.
    pub(crate) fn set(&self, image: &Image) {
        for (word, &number) in self.0.iter().zip(image) {
            word.store(number, Relaxed);
        }
    }

    /// Reads a bitmap of branches, which takes two words.
    #[inline(always)]
    fn slots(&self, word: usize) -> u64 {
        u64::from(self.get(word)) | u64::from(self.get(word + 1)) << 32
    }

    /// Returns the index of the word with the target of a branch, in the narrow form.
    #[inline(always)]
    fn narrow_word(&self, slot: u32) -> u32 {
        // Shifts the bitmap so that this branch is in the top bit.
        let up_to = |set: u64| set << (63 - slot);
        let is_covered = (up_to(self.slots(0)) as i64) < 0;
        // If the branch is covered, a run of equal targets starts at it or before it.
        let rank = up_to(self.slots(2)).count_ones();
        FALLBACK as u32 + select_unpredictable(is_covered, rank, 0)
    }

    /// Returns the line of a node in the narrow form, if there are few enough targets.
    pub(crate) fn narrow(targets: &[u32; 64], fallback: u32) -> Option<Image> {
        let (mut covered, mut starts) = (0u64, 0u64);
        let mut line = [0; 16];
        let (mut count, mut before) = (0, fallback);
        for (slot, &target) in targets.iter().enumerate() {
            if target != fallback {
                covered |= 1 << slot;
                if target != before {
                    count += 1;
                    if count > MAX {
                        return None;
                    }
                    starts |= 1 << slot;
                    line[FALLBACK + count] = target;
                }
            }
            before = target;
        }
        line[FALLBACK] = fallback;
        (line[0], line[1]) = (covered as u32, (covered >> 32) as u32);
        (line[2], line[3]) = (starts as u32, (starts >> 32) as u32);
        Some(line)
    }

    /// Returns the lines of a node in the wide form.
    pub(crate) fn wide(targets: &[u32; 64]) -> [Image; WIDE_LINES] {
        let (lines, _) = targets.as_chunks::<16>();
        std::array::from_fn(|i| lines[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_forms_of_a_node_lead_where_the_targets_say(
            runs in proptest::collection::vec((0u32..12, 1usize..20), 1..40),
            fallback in 0u32..3,
        ) {
            let mut targets = [fallback; 64];
            let all = runs.iter().flat_map(|&(target, count)| std::iter::repeat_n(target, count));
            for (target, value) in targets.iter_mut().zip(all) {
                *target = value;
            }
            let wide = Line::wide(&targets);
            let narrow = Line::narrow(&targets, fallback);
            for slot in 0..64 {
                let follow = |at: Target, images: &[Image]| {
                    let line = Line::default();
                    line.set(&images[at.line(slot)]);
                    at.follow(slot, &line)
                };
                let want = Target(targets[slot as usize]);
                prop_assert_eq!(follow(Target::node(0, true), &wide), want);
                if let Some(narrow) = narrow {
                    prop_assert_eq!(follow(Target::node(0, false), &[narrow]), want);
                }
            }
            let mut starts = targets.to_vec();
            starts.dedup();
            let count = starts.iter().filter(|&&target| target != fallback).count();
            prop_assert_eq!(narrow.is_some(), count <= MAX);
        }
    }
}
