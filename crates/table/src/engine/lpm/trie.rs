//! [`Forest`]: tries over prefixes that share their memory.
//!
//! The first 0, 12 or 18 bits of an address choose a slot of a trie's table, by how many prefixes the trie has;
//! the nodes below take six bits each. The nodes above the table stay, for the control side alone.
//!
//! A change is made in the node that the prefix ends in. [`Forest::settle`] pushes it down to the nodes and slots below
//! whose fallback it is: their lines are written anew, and above them those whose child has moved. After very many
//! changes, as when a table is filled, all lines are written anew instead, each once, and those of neighbours side by side.

use super::arena::Arena;
use super::node::{Line, Local, Node, STRIDE, Target, ones};
use crate::word::Word;
use std::fmt;
use std::ops::ControlFlow;

/// An address, from its first bit on, with zeros behind.
pub(crate) trait Address: Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// The first `count` bits, of at most 18.
    fn first(self, count: u32) -> usize;
    /// Without the first `count` bits, less than all.
    fn without(self, count: u32) -> Self;
    /// The address that begins with these `count` bits.
    fn from_first(bits: usize, count: u32) -> Self;

    /// The slot in the node behind the first `depth` bits.
    #[inline(always)]
    fn slot(self, depth: u32) -> u32 {
        self.without(depth).first(STRIDE) as u32
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
    /// How many nodes are above the one that it ends in.
    fn level(self) -> usize {
        ((self.len - 1) / STRIDE) as usize
    }

    /// The prefix within the node that it ends in.
    fn local(self) -> Local {
        let depth = depth(self.level());
        Local {
            len: self.len - depth,
            slot: self.address.slot(depth),
        }
    }
}

/// Bits that `level` nodes take.
fn depth(level: usize) -> u32 {
    level as u32 * STRIDE
}

/// The nodes on the way of an address, from the root on.
type Path = [u32; 22];

/// Names a trie of a forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrieId(pub(crate) u32);

impl TrieId {
    /// The trie that never has a prefix.
    pub(crate) const EMPTY: Self = Self(0);
}

#[derive(Debug, Clone)]
pub(super) struct Trie {
    /// How many bits choose a slot.
    pub(super) bits: u32,
    /// Where the slots lead to.
    pub(super) slots: Box<[Word]>,
    /// The value of the prefix of no bits; 0 is none.
    pub(super) default: u32,
    /// The node of the first bits; 0 is none.
    root: u32,
    /// How many prefixes there are, but for the default.
    count: usize,
}

impl Trie {
    fn new() -> Self {
        Self {
            bits: 0,
            slots: [Word::new(0)].into(),
            default: 0,
            root: 0,
            count: 0,
        }
    }

    /// How many bits should choose a slot: a table takes no more than some tens of bytes a prefix. One that is
    /// there stays until it would be four times too large.
    fn right_bits(&self) -> u32 {
        let bits = |count| match count {
            0..256 => 0,
            256..16_384 => 12,
            _ => 18,
        };
        self.bits.clamp(bits(self.count), bits(self.count * 4))
    }

    /// How many levels of nodes are above the table.
    fn top(&self) -> usize {
        (self.bits / STRIDE) as usize
    }
}

/// Changes that are settled one by one, if they are not more than a share of the prefixes: beyond, all are at once.
const FEW: usize = 256;
const SHARE: usize = 4;

/// The most words that are marked for one change that a base misses: as many as two levels of nodes have below one slot.
pub(super) const MOST_OUTDATED: usize = 64 * 64;

/// Tries that share their memory. Values are from 1 to [`Target::MOST`].
#[derive(Debug, Clone)]
pub(crate) struct Forest<A> {
    pub(super) tries: Vec<Trie>,
    free: Vec<TrieId>,
    nodes: Arena<Node>,
    /// The values of the prefixes of each node.
    values: Arena<u32>,
    pub(super) lines: Arena<Line>,
    /// How many prefixes there are, but for defaults.
    count: usize,
    /// Prefixes that came or went since the last [`settle`](Self::settle).
    unsettled: Vec<(TrieId, Prefix<A>)>,
    /// Whether there were too many of them to name.
    is_unsettled: bool,
    /// Not 0: some search is outdated.
    is_outdated: Word,
}

impl<A: Address> Forest<A> {
    /// With the empty trie only.
    pub(crate) fn new() -> Self {
        Self {
            tries: vec![Trie::new()],
            free: Vec::new(),
            nodes: Arena::new(),
            values: Arena::new(),
            lines: Arena::new(),
            count: 0,
            unsettled: Vec::new(),
            is_unsettled: false,
            is_outdated: Word::default(),
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
        self.nodes.items().len()
    }

    /// How many nodes, values and lines there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> [usize; 3] {
        let (nodes, values) = (self.nodes.items(), self.values.items());
        [nodes.len(), values.len(), self.lines.items().len()]
    }

    /// About how many bytes it takes.
    pub(crate) fn memory(&self) -> usize {
        let slots = self.tries.iter().map(|trie| size_of_val(&trie.slots[..]));
        let arenas = self.nodes.memory() + self.values.memory() + self.lines.memory();
        slots.sum::<usize>() + arenas + size_of_val(&self.tries[..])
    }

    /// About how many bytes lookups read.
    pub(crate) fn read_bytes(&self) -> usize {
        size_of_val(self.lines.items())
    }

    #[inline(always)]
    pub(super) fn trie(&self, id: TrieId) -> &Trie {
        &self.tries[id.0 as usize]
    }

    fn trie_mut(&mut self, id: TrieId) -> &mut Trie {
        &mut self.tries[id.0 as usize]
    }

    /// Sets what a prefix leads to; packets see it when it is settled.
    pub(crate) fn insert(&mut self, id: TrieId, prefix: Prefix<A>, value: u32) {
        if prefix.len == 0 {
            self.trie_mut(id).default = value;
            return;
        }
        let path = self.make_path(id, prefix);
        let node = path[prefix.level()];
        let local = prefix.local();
        let own = self.nodes.get(node).own;
        let (is_there, rank) = own.rank(local);
        if is_there {
            *self.values.get_mut(own.first + rank as u32) = value;
        } else {
            let first = self.values.insert(own.first, own.count(), rank, value);
            let own = &mut self.nodes.get_mut(node).own;
            own.first = first;
            own.flip(local);
            self.trie_mut(id).count += 1;
            self.count += 1;
        }
        self.unsettle(id, prefix);
    }

    /// Takes a prefix out; packets see it when it is settled.
    pub(crate) fn remove(&mut self, id: TrieId, prefix: Prefix<A>) {
        if prefix.len == 0 {
            self.trie_mut(id).default = 0;
            return;
        }
        let Some(path) = self.path(id, prefix) else {
            return;
        };
        let node = path[prefix.level()];
        let local = prefix.local();
        let own = self.nodes.get(node).own;
        let (true, rank) = own.rank(local) else {
            return;
        };
        let first = self.values.remove(own.first, own.count(), rank);
        let own = &mut self.nodes.get_mut(node).own;
        own.first = first;
        own.flip(local);
        self.trie_mut(id).count -= 1;
        self.count -= 1;
        if self.trie(id).count == 0 {
            self.drop_all(id);
        } else {
            self.prune(&path, prefix);
            self.unsettle(id, prefix);
        }
    }

    /// Says of all searches for which this prefix matters, if it comes or goes, that they are outdated; false, and nothing is done, if those are too many.
    pub(crate) fn outdate(&self, id: TrieId, prefix: Prefix<A>) -> bool {
        if prefix.len == 0 || id == TrieId::EMPTY || self.has_many_ends(id, prefix) {
            return false;
        }
        self.is_outdated.add_bits(1);
        // Only searches that find this now find the prefix after it came, or found it before it goes.
        let value = self.best_up_to(id, prefix);
        self.all_ends(id, prefix, |word| {
            if Target(word.get()).value() == value {
                Target::outdate(word);
            }
        });
        true
    }

    /// Whether searches within a prefix end in more than [`MOST_OUTDATED`] words.
    fn has_many_ends(&self, id: TrieId, prefix: Prefix<A>) -> bool {
        let mut ends = 0;
        let counted = self.each_end(id, prefix, &mut |_| {
            ends += 1;
            match ends > MOST_OUTDATED {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        counted.is_break()
    }

    /// What `outdate` said of this prefix does not hold any more: it came or went, and is settled.
    fn renew(&self, id: TrieId, prefix: Prefix<A>) {
        self.all_ends(id, prefix, Target::renew);
    }

    fn all_ends(&self, id: TrieId, prefix: Prefix<A>, mut act: impl FnMut(&Word)) {
        let _ = self.each_end(id, prefix, &mut |word| {
            act(word);
            ControlFlow::Continue(())
        });
    }

    /// The words in which searches within a prefix end, until `act` breaks off.
    fn each_end(
        &self,
        id: TrieId,
        Prefix { address, len }: Prefix<A>,
        act: &mut impl FnMut(&Word) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let trie = self.trie(id);
        let first = address.first(trie.bits);
        let (mut word, mut depth) = (&trie.slots[first], trie.bits);
        if len <= depth {
            let mut covered = trie.slots[first..first + (1 << (depth - len))].iter();
            return covered.try_for_each(|word| self.each_end_below(word, act));
        }
        loop {
            let target = Target(word.get());
            if !target.is_node() {
                return act(word);
            }
            let slot = address.slot(depth);
            depth += STRIDE;
            if len <= depth {
                let mut covered = slot..slot + (1 << (depth - len));
                return covered
                    .try_for_each(|slot| self.each_end_below(self.word(target, slot), act));
            }
            word = self.word(target, slot);
        }
    }

    fn each_end_below(
        &self,
        word: &Word,
        act: &mut impl FnMut(&Word) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let target = Target(word.get());
        match target.is_node() {
            true => (0..64).try_for_each(|slot| self.each_end_below(self.word(target, slot), act)),
            false => act(word),
        }
    }

    /// What says where a slot of a node leads to.
    fn word(&self, node: Target, slot: u32) -> &Word {
        node.word(slot, self.lines.get(node.line(slot) as u32))
    }

    /// The value of the longest prefix that covers this one, or is it; 0 is none.
    fn best_up_to(&self, id: TrieId, prefix: Prefix<A>) -> u32 {
        let (path, deepest) = self.deepest(id, prefix);
        let mut best = 0;
        if path[0] == 0 {
            return best;
        }
        for (level, &node) in path[..=deepest].iter().enumerate() {
            let local = match level == prefix.level() {
                true => prefix.local(),
                false => Local {
                    len: STRIDE,
                    slot: prefix.address.slot(depth(level)),
                },
            };
            best = self.best(node, local, best);
        }
        best
    }

    /// The way to the node that a prefix ends in, if it is there.
    fn path(&self, id: TrieId, prefix: Prefix<A>) -> Option<Path> {
        let (path, level) = self.deepest(id, prefix);
        (path[0] != 0 && level == prefix.level()).then_some(path)
    }

    /// The way to the node that a prefix ends in, with all nodes that are missing made.
    fn make_path(&mut self, id: TrieId, prefix: Prefix<A>) -> Path {
        if self.trie(id).root == 0 {
            let root = self.nodes.take(1);
            *self.nodes.get_mut(root) = Node::default();
            self.trie_mut(id).root = root;
        }
        let mut path = Path::default();
        path[0] = self.trie(id).root;
        for level in 0..prefix.level() {
            let slot = prefix.address.slot(depth(level));
            let child = self.nodes.get(path[level]).child(slot);
            path[level + 1] = child.unwrap_or_else(|| self.add_child(path[level], slot));
        }
        path
    }

    /// Gives a node an empty child.
    fn add_child(&mut self, node: u32, slot: u32) -> u32 {
        let old = *self.nodes.get(node);
        let rank = old.children_before(slot);
        let first = self
            .nodes
            .insert(old.first_child, old.child_count(), rank, Node::default());
        let changed = self.nodes.get_mut(node);
        changed.first_child = first;
        changed.children |= 1 << slot;
        first + rank as u32
    }

    /// Takes the nodes that are empty away, from the one that the prefix ends in upwards. One stays: the trie is not empty.
    fn prune(&mut self, path: &Path, prefix: Prefix<A>) {
        let mut level = prefix.level();
        while level > 0 && self.nodes.get(path[level]).is_empty() {
            self.drop_lines(path[level]);
            level -= 1;
            let slot = prefix.address.slot(depth(level));
            let old = *self.nodes.get(path[level]);
            let rank = old.children_before(slot);
            let first = self.nodes.remove(old.first_child, old.child_count(), rank);
            let changed = self.nodes.get_mut(path[level]);
            changed.first_child = first;
            changed.children ^= 1 << slot;
        }
    }

    /// Takes the nodes of a trie away whose last prefix went.
    fn drop_all(&mut self, id: TrieId) {
        let Trie { root, default, .. } = *self.trie(id);
        self.drop_below(root);
        self.nodes.give(root, 1);
        *self.trie_mut(id) = Trie {
            default,
            ..Trie::new()
        };
    }

    fn drop_below(&mut self, node: u32) {
        self.drop_lines(node);
        let Node {
            children,
            first_child,
            ..
        } = *self.nodes.get(node);
        let count = children.count_ones();
        for child in first_child..first_child + count {
            self.drop_below(child);
        }
        self.nodes.give(first_child, count as usize);
    }

    fn drop_lines(&mut self, node: u32) {
        let node = self.nodes.get_mut(node);
        if let Some((place, count)) = Target(node.target).lines() {
            self.lines.give(place, count);
            node.target = 0;
        }
    }

    /// Remembers that a prefix came or went.
    fn unsettle(&mut self, id: TrieId, prefix: Prefix<A>) {
        if self.unsettled.len() >= FEW.max(self.count / SHARE) {
            self.unsettled = Vec::new();
            self.is_unsettled = true;
        }
        if !self.is_unsettled {
            self.unsettled.push((id, prefix));
        }
    }

    /// Brings what packets read in line with all changes.
    pub(crate) fn settle(&mut self) {
        let is_outdated = std::mem::take(&mut self.is_outdated).get() != 0;
        if std::mem::take(&mut self.is_unsettled) {
            return self.write_all();
        }
        let mut changed = std::mem::take(&mut self.unsettled);
        for &(id, prefix) in &changed {
            self.settle_one(id, prefix);
        }
        for (id, prefix) in changed.drain(..) {
            if is_outdated {
                self.renew(id, prefix);
            }
        }
        self.unsettled = changed;
    }

    /// Writes all lines, as if there were none yet.
    fn write_all(&mut self) {
        self.lines = Arena::new();
        for node in self.nodes.items_mut() {
            node.target = 0;
        }
        for id in (0..self.tries.len() as u32).map(TrieId) {
            if self.trie(id).root != 0 {
                self.change_table(id, self.trie(id).right_bits());
            }
        }
    }

    /// Brings what packets read in line with one prefix that came or went. Others may be to be settled yet: what is read of
    /// their nodes is what will be written, or is written anew with them.
    fn settle_one(&mut self, id: TrieId, prefix: Prefix<A>) {
        let trie = self.trie(id);
        if trie.root == 0 {
            // The last prefix went, and all lines with it.
            return;
        }
        let right = trie.right_bits();
        if right != trie.bits {
            self.change_table(id, right);
        }
        let (path, level) = self.deepest(id, prefix);
        let trie = self.trie(id);
        if level < trie.top() {
            let spare = trie.bits.saturating_sub(prefix.len);
            self.fill_slots(id, prefix.address.first(trie.bits), 1 << spare);
        } else {
            self.settle_path(id, prefix.address, &path, level);
        }
    }

    /// The way to the node that a prefix ends in, as far as there are nodes, and the level of the last one.
    fn deepest(&self, id: TrieId, prefix: Prefix<A>) -> (Path, usize) {
        let mut path = Path::default();
        path[0] = self.trie(id).root;
        for level in 0..prefix.level() {
            let slot = prefix.address.slot(depth(level));
            match self.nodes.get(path[level]).child(slot) {
                Some(child) => path[level + 1] = child,
                None => return (path, level),
            }
        }
        (path, prefix.level())
    }

    /// Writes the lines of the node at `level` of `path` anew, and upwards from there whatever leads to lines that
    /// have moved.
    fn settle_path(&mut self, id: TrieId, address: A, path: &Path, level: usize) {
        let top = self.trie(id).top();
        let mut fallbacks = [0; 23];
        for level in 0..level {
            fallbacks[level + 1] =
                self.best_of_slot(path[level], address.slot(depth(level)), fallbacks[level]);
        }
        for level in (top..=level).rev() {
            let before = self.nodes.get(path[level]).target;
            if self.write(path[level], fallbacks[level]) == before {
                return;
            }
        }
        let index = address.first(self.trie(id).bits);
        self.trie_mut(id).slots[index] = Word::new(self.nodes.get(path[top]).target);
    }

    /// Where a slot of a node leads to, apart from children.
    fn best_of_slot(&self, node: u32, slot: u32, fallback: u32) -> u32 {
        self.best(node, Local { len: STRIDE, slot }, fallback)
    }

    /// The value of the longest prefix of a node that covers this one, or is it.
    fn best(&self, node: u32, local: Local, fallback: u32) -> u32 {
        let own = self.nodes.get(node).own;
        own.best(local)
            .map_or(fallback, |rank| *self.values.get(own.first + rank as u32))
    }

    /// Writes the lines of a node, and of those below that have none or another fallback. Gives its target.
    fn write(&mut self, place: u32, fallback: u32) -> u32 {
        let node = *self.nodes.get(place);
        let mut targets = [fallback; 64];
        let values = self.values.run(node.own.first, node.own.count());
        node.own.spread(values, &mut targets);
        for (slot, child) in ones(node.children).zip(node.first_child..) {
            let target = &mut targets[slot as usize];
            let Node {
                target: now,
                fallback,
                ..
            } = *self.nodes.get(child);
            *target = if now == 0 || fallback != *target {
                self.write(child, *target)
            } else {
                now
            };
        }
        let target = self.write_lines(Target(node.target), &targets, fallback).0;
        let node = self.nodes.get_mut(place);
        (node.target, node.fallback) = (target, fallback);
        target
    }

    fn write_lines(&mut self, before: Target, targets: &[u32; 64], fallback: u32) -> Target {
        let (place, count) = before.lines().unwrap_or((0, 0));
        if let Some(line) = Line::narrow(targets, fallback) {
            let place = self.lines.retake(place, count, 1);
            *self.lines.get_mut(place) = line;
            return Target::node(place, false);
        }
        let lines = Line::wide(targets);
        let place = self.lines.retake(place, count, lines.len());
        self.lines.write(place, &lines);
        Target::node(place, true)
    }

    /// Gives a trie a table of another size.
    fn change_table(&mut self, id: TrieId, bits: u32) {
        let root = self.trie(id).root;
        let trie = self.trie_mut(id);
        trie.bits = bits;
        trie.slots = vec![Word::new(0); 1 << bits].into();
        let top = trie.top();
        self.drop_lines_above(root, top);
        self.fill_slots(id, 0, 1 << bits);
    }

    /// Packets do not come to the nodes of the first `levels` levels from `node` on.
    fn drop_lines_above(&mut self, node: u32, levels: usize) {
        if levels == 0 {
            return;
        }
        self.drop_lines(node);
        let Node {
            children,
            first_child,
            ..
        } = *self.nodes.get(node);
        for child in first_child..first_child + children.count_ones() {
            self.drop_lines_above(child, levels - 1);
        }
    }

    /// Sets `count` slots, from `first` on, to what the nodes above and below the table say.
    fn fill_slots(&mut self, id: TrieId, first: usize, count: usize) {
        let trie = self.trie(id);
        let Trie { bits, root, .. } = *trie;
        let top = trie.top();
        for index in first..first + count {
            let address = A::from_first(index, bits);
            let (mut node, mut fallback) = (Some(root), 0);
            for level in 0..top {
                let Some(at) = node else { break };
                let slot = address.slot(depth(level));
                fallback = self.best_of_slot(at, slot, fallback);
                node = self.nodes.get(at).child(slot);
            }
            let target = match node {
                None => fallback,
                Some(node) => {
                    let Node {
                        target,
                        fallback: now,
                        ..
                    } = *self.nodes.get(node);
                    if target == 0 || now != fallback {
                        self.write(node, fallback)
                    } else {
                        target
                    }
                }
            };
            self.trie_mut(id).slots[index] = Word::new(target);
        }
    }
}
