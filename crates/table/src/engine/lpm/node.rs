//! The nodes of a trie: six bits of an address each, so 64 slots.
//!
//! A node is in two parts. What the control side needs is an [`Own`] in a [`Node`]: the prefixes that end in the
//! node, and its children. What packets read are [`Line`]s: for each slot where it leads to, the best prefix or the
//! next node, with all shorter prefixes pushed down. Either the 64 targets lie in four cache lines, of which a
//! packet reads one; or, if neighbours have much in common, one line has a bitmap of where the target changes and
//! the targets themselves, found by counting ones, as in Poptrie (Asai and Ohara, SIGCOMM 2015). Which form a node
//! has, and what a slot is, cannot be foreseen, so packets take no branches on it.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bits of the address that a node takes.
pub(crate) const STRIDE: u32 = 6;

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

impl Local {
    /// The longest prefix that covers both.
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

    /// The rank of the value of the longest prefix that covers this one, or is it.
    pub(crate) fn best(&self, Local { len, slot }: Local) -> Option<usize> {
        let ranks = (1..=len).rev().map(|len| self.rank(Local { len, slot }));
        ranks
            .into_iter()
            .find_map(|(is_there, rank)| is_there.then_some(rank))
    }

    /// The prefixes of 1 to 5 bits, in the order of their values: the longer of two comes later.
    fn short(&self) -> impl Iterator<Item = Local> {
        ones(self.short).map(|name| {
            let len = name.ilog2();
            let slot = name << (STRIDE - len) & 63;
            Local { len, slot }
        })
    }

    /// Sets the targets of the slots that prefixes cover, given the values of all.
    pub(crate) fn spread(&self, values: &[u32], targets: &mut [u32; 64]) {
        let mut values = values.iter();
        for (Local { len, slot }, value) in self.short().zip(&mut values) {
            targets[slot as usize..][..1 << (STRIDE - len)].fill(*value);
        }
        for (slot, value) in ones(self.long).zip(values) {
            targets[slot as usize] = *value;
        }
    }
}

/// The places of the ones.
pub(crate) fn ones(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let place = set.trailing_zeros();
        let rest = set & set.wrapping_sub(1);
        (std::mem::replace(&mut set, rest) != 0).then_some(place)
    })
}

/// What the control side knows of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    pub(crate) own: Own,
    /// The slots with a child.
    pub(crate) children: u64,
    /// The place of the first child.
    pub(crate) first_child: u32,
    /// Where slots lead that no prefix of this node covers: the best of the shorter ones.
    pub(crate) fallback: u32,
    /// Where packets read it; nowhere, if they do not come here.
    pub(crate) target: Target,
}

impl Node {
    pub(crate) fn has_child(&self, slot: u32) -> bool {
        self.children >> slot & 1 != 0
    }

    /// How many children are before `slot`.
    pub(crate) fn children_before(&self, slot: u32) -> usize {
        (self.children & ((1 << slot) - 1)).count_ones() as usize
    }

    /// The place of the child of `slot`.
    pub(crate) fn child(&self, slot: u32) -> Option<u32> {
        self.has_child(slot)
            .then(|| self.first_child + self.children_before(slot) as u32)
    }

    /// What all that is in the node lies in.
    pub(crate) fn shared(&self) -> Local {
        let slots = self.children | self.own.long;
        let ends = slots
            .checked_ilog2()
            .map(|last| [slots.trailing_zeros(), last]);
        let ends = ends.into_iter().flatten();
        let all = ends.map(|slot| Local { len: STRIDE, slot });
        let shared = all.chain(self.own.short()).reduce(Local::shared);
        shared.unwrap_or(Local { len: 0, slot: 0 })
    }

    /// The place of a child that is all that there is in the node.
    pub(crate) fn only_child(&self) -> Option<u32> {
        let is_all = self.own.count() == 0 && self.child_count() == 1;
        is_all.then_some(self.first_child)
    }

    pub(crate) fn child_count(&self) -> usize {
        self.children.count_ones() as usize
    }

    /// Whether there is no reason for it to be.
    pub(crate) fn is_empty(&self) -> bool {
        self.children == 0 && self.own.count() == 0
    }
}

/// Where a slot leads to: nowhere (0), to a value, or on to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Target(pub(crate) u32);

impl Target {
    /// A node: the rest is the place of its first line.
    pub(crate) const NODE: u32 = 1 << 31;
    /// A node of four lines.
    pub(crate) const WIDE: u32 = 1 << 30;
    /// The greatest value, or place of a line.
    pub(crate) const MOST: u32 = Self::WIDE - 1;

    /// The value, if this is not a node.
    #[inline(always)]
    pub(crate) fn value(self) -> u32 {
        self.0 & Self::MOST
    }

    /// The node whose lines begin at `place`.
    pub(crate) fn node(place: u32, is_wide: bool) -> Self {
        Self(Self::NODE | if is_wide { Self::WIDE } else { 0 } | place)
    }

    #[inline(always)]
    pub(crate) fn is_node(self) -> bool {
        self.0 & Self::NODE != 0
    }

    /// How many lines it has, and the place of the first, if it is a node.
    pub(crate) fn lines(self) -> Option<(u32, usize)> {
        let place = self.0 & Self::MOST;
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

    /// The line of the node that has `slot`; line 0 if this is not a node.
    #[inline(always)]
    pub(crate) fn line(self, slot: u32) -> usize {
        let place = self.0 & Self::MOST;
        let part = select_unpredictable(self.is_wide(), slot >> 4, 0);
        select_unpredictable(self.is_node(), place + part, 0) as usize
    }

    /// Where `slot` of this node leads to, given its line.
    #[inline(always)]
    pub(crate) fn follow(self, slot: u32, line: &Line) -> Self {
        Self(line.get(self.word(slot, line)))
    }

    /// Which word says where `slot` of this node leads to, given its line.
    #[inline(always)]
    pub(crate) fn word(self, slot: u32, line: &Line) -> usize {
        let word = select_unpredictable(self.is_wide(), slot & 15, line.narrow_word(slot));
        word as usize & 15
    }
}

/// Lines of a node that has a word for each slot.
pub(crate) const WIDE_LINES: usize = 4;

/// What packets read of a node: all of it, or the targets of 16 slots.
///
/// All of it is: words 0 and 1, the slots that do not lead to the fallback; words 2 and 3, those of them whose target
/// is not that of the slot before; word 4, the fallback; then the targets.
///
/// Lines lie in memory that packets read, and are written where no packet comes; who comes later is told of them later, which orders the two.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line([AtomicU32; 16]);

/// The words of a line.
pub(crate) type Image = [u32; 16];

pub(crate) const FALLBACK: usize = 4;
/// The most targets in one line.
const MOST: usize = 15 - FALLBACK;

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

    /// Writes all words. No packet comes here meanwhile.
    pub(crate) fn set(&self, image: &Image) {
        for (word, &number) in self.0.iter().zip(image) {
            word.store(number, Relaxed);
        }
    }

    /// A set of slots, which takes two words.
    #[inline(always)]
    fn slots(&self, word: usize) -> u64 {
        u64::from(self.get(word)) | u64::from(self.get(word + 1)) << 32
    }

    /// The word of the target of a slot, in a line that is all of a node.
    #[inline(always)]
    fn narrow_word(&self, slot: u32) -> u32 {
        // The slots up to this one, which is on top.
        let up_to = |set: u64| set << (63 - slot);
        let is_covered = (up_to(self.slots(0)) as i64) < 0;
        // A covered slot has a start at it or before.
        let rank = up_to(self.slots(2)).count_ones();
        FALLBACK as u32 + select_unpredictable(is_covered, rank, 0)
    }

    /// The line that is all of a node, if it can be.
    pub(crate) fn narrow(targets: &[u32; 64], fallback: u32) -> Option<Image> {
        let (mut covered, mut starts) = (0u64, 0u64);
        let mut line = [0; 16];
        let (mut count, mut before) = (0, fallback);
        for (slot, &target) in targets.iter().enumerate() {
            if target != fallback {
                covered |= 1 << slot;
                if target != before {
                    count += 1;
                    if count > MOST {
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

    /// The lines of a node that has a word for each slot.
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
            prop_assert_eq!(narrow.is_some(), count <= MOST);
        }
    }
}
