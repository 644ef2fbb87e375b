//! [`Forest`]: tries over prefixes that share their memory.
//!
//! The bits of an address behind those that all prefixes of a trie share choose a slot of its table, so many of them as it has prefixes enough for ([`Span`]);
//! the nodes below take six bits each. The nodes above the table stay, for the control side alone.
//!
//! A change is made in the node that the prefix ends in. [`Forest::snapshot`] pushes it down to the nodes and slots below
//! whose fallback it is: these get other lines, and so do those above them up to the table, since what snapshots show stays ([`Lines`]). After very many
//! changes, as when a table is filled, all lines are written anew instead, each once, and those of neighbours side by side.

use super::arena::Arena;
use super::lines::Lines;
use super::node::{Line, Local, Node, STRIDE, Target, ones};
use super::search::Shown;
use super::span::Span;
use super::tables::{RUN, TableChange, Tables};
use crate::engine::Versions;
use std::fmt;
use std::ops::{BitOr, BitXor};

/// An address, from its first bit on, with zeros behind.
pub(crate) trait Address:
    Copy
    + Default
    + Eq
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// How many bits are above the last nodes.
    const DEEPEST: u32;

    /// The first `count` bits, less than all, as a number; the greatest one, if that is too small for them.
    fn first(self, count: u32) -> usize;
    /// Without the first `count` bits, less than all.
    fn without(self, count: u32) -> Self;
    /// With zeros behind the first `count` bits, less than all.
    fn cut(self, count: u32) -> Self;
    /// The address whose first `count` bits, less than all, are this number.
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
            const DEEPEST: u32 = (<$type>::BITS - 1) / STRIDE * STRIDE;

            #[inline(always)]
            fn first(self, count: u32) -> usize {
                let bits = (self >> 1) >> (<$type>::BITS - 1 - count);
                usize::try_from(bits).unwrap_or(usize::MAX)
            }

            #[inline(always)]
            fn without(self, count: u32) -> Self {
                self << count
            }

            fn cut(self, count: u32) -> Self {
                self ^ self << count >> count
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

/// What the control side knows of a trie.
#[derive(Debug, Clone, Default)]
struct Trie<A> {
    /// Which bits choose a slot of its table. All prefixes begin with those before.
    span: Span<A>,
    /// Whether there is a prefix of no bits.
    has_default: bool,
    /// The node of the first bits; 0 is none.
    root: u32,
    /// How many prefixes there are, but for the default.
    count: usize,
    /// How many came or went since its table was last written anew only because prefixes shared more.
    changes: usize,
}

impl<A: Address> Trie<A> {
    /// How many levels of nodes are above the table.
    fn top(&self) -> usize {
        (self.span.end() / STRIDE) as usize
    }
}

/// Changes that are settled one by one, if they are not more than a share of the prefixes: beyond, all are at once.
const FEW: usize = 256;
const SHARE: usize = 4;

/// Tries that share their memory. Values are from 1 to [`Target::MOST`].
#[derive(Debug)]
pub(crate) struct Forest<A: Address> {
    /// By number; the first is the empty one.
    tries: Vec<Trie<A>>,
    free: Vec<TrieId>,
    nodes: Arena<Node>,
    /// The values of the prefixes of each node.
    values: Arena<u32>,
    lines: Lines,
    tables: Versions<Tables<A>>,
    /// How many prefixes there are, but for defaults.
    count: usize,
    /// Prefixes that came or went since the last [`snapshot`](Self::snapshot).
    unsettled: Vec<(TrieId, Prefix<A>)>,
    /// Whether there were too many of them to name.
    is_unsettled: bool,
}

impl<A: Address> Forest<A> {
    /// With the empty trie only. Tries may have names of so many limbs.
    pub(crate) fn new(name_limbs: usize) -> Self {
        Self {
            tries: vec![Trie::default()],
            free: Vec::new(),
            nodes: Arena::new(),
            values: Arena::new(),
            lines: Lines::new(),
            tables: Versions::new(Tables::new(name_limbs)),
            count: 0,
            unsettled: Vec::new(),
            is_unsettled: false,
        }
    }

    /// As if it were new; what snapshots show stays.
    pub(crate) fn clear(&mut self, name_limbs: usize) {
        let mut fresh = Self::new(name_limbs);
        std::mem::swap(&mut fresh.lines, &mut self.lines);
        std::mem::swap(&mut fresh.tables, &mut self.tables);
        fresh.lines.start_over(0);
        fresh.tables.reset(Tables::new(name_limbs));
        *self = fresh;
    }

    /// A trie without prefixes.
    pub(crate) fn add(&mut self) -> TrieId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.tries.push(Trie::default());
            TrieId((self.tries.len() - 1) as u32)
        });
        self.resize_table(id, Span::default());
        id
    }

    /// Gives a trie without prefixes back.
    pub(crate) fn give_back(&mut self, id: TrieId) {
        debug_assert!(self.is_empty(id));
        self.free.push(id);
    }

    /// The trie with a name; the empty one, if none has it.
    pub(crate) fn named(&self, name: &[u64]) -> TrieId {
        self.tables.newest().trie(name)
    }

    /// Gives a name to a trie, or takes it away.
    pub(crate) fn name(&mut self, name: &[u64], trie: Option<TrieId>) {
        let exact = name.into();
        self.tables.change(TableChange::Name { exact, trie });
    }

    pub(crate) fn is_empty(&self, id: TrieId) -> bool {
        let trie = self.trie(id);
        trie.count == 0 && !trie.has_default
    }

    /// How many nodes, values and lines there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> [usize; 3] {
        let (nodes, values) = (self.nodes.items(), self.values.items());
        [nodes.len(), values.len(), self.lines.room()]
    }

    /// About how many bytes it takes, with what snapshots that are held show.
    pub(crate) fn memory(&self) -> usize {
        let own = self.nodes.memory() + self.values.memory() + size_of_val(&self.tries[..]);
        own + self.lines.memory() + self.tables.memory(Tables::memory)
    }

    fn trie(&self, id: TrieId) -> &Trie<A> {
        &self.tries[id.0 as usize]
    }

    fn trie_mut(&mut self, id: TrieId) -> &mut Trie<A> {
        &mut self.tries[id.0 as usize]
    }

    /// Sets what a prefix leads to; packets see it when it is settled.
    pub(crate) fn insert(&mut self, id: TrieId, prefix: Prefix<A>, value: u32) {
        if prefix.len == 0 {
            return self.set_default(id, value);
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

    fn set_default(&mut self, trie: TrieId, value: u32) {
        self.trie_mut(trie).has_default = value != 0;
        self.tables.change(TableChange::Default { trie, value });
    }

    /// Takes a prefix out; packets see it when it is settled.
    pub(crate) fn remove(&mut self, id: TrieId, prefix: Prefix<A>) {
        if prefix.len == 0 {
            return self.set_default(id, 0);
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
        let root = std::mem::take(&mut self.trie_mut(id).root);
        self.drop_below(root);
        self.nodes.give(root, 1);
        self.resize_table(id, Span::default());
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
        self.lines.retire(std::mem::take(&mut node.target));
    }

    /// Remembers that a prefix came or went.
    fn unsettle(&mut self, id: TrieId, prefix: Prefix<A>) {
        self.trie_mut(id).changes += 1;
        if self.unsettled.len() >= FEW.max(self.count / SHARE) {
            self.unsettled = Vec::new();
            self.is_unsettled = true;
        }
        if !self.is_unsettled {
            self.unsettled.push((id, prefix));
        }
    }

    /// What packets search from now on.
    pub(crate) fn snapshot(&mut self) -> Shown<A> {
        self.settle();
        Shown {
            tables: self.tables.snapshot(),
            lines: self.lines.snapshot(),
        }
    }

    /// Brings what packets read in line with all changes.
    fn settle(&mut self) {
        if std::mem::take(&mut self.is_unsettled) {
            return self.write_all();
        }
        let mut changed = std::mem::take(&mut self.unsettled);
        for (id, prefix) in changed.drain(..) {
            self.settle_one(id, prefix);
        }
        self.unsettled = changed;
    }

    /// Writes all lines, as if there were none yet.
    fn write_all(&mut self) {
        self.lines.start_over(self.nodes.items().len());
        for node in self.nodes.items_mut() {
            node.target = Target::default();
        }
        for id in (0..self.tries.len() as u32).map(TrieId) {
            if self.trie(id).root != 0 {
                self.change_table(id, Span::of(self.shared(id), self.trie(id).count));
            }
        }
        self.lines.fit();
    }

    /// Brings what packets read in line with one prefix that came or went. Others may be to be settled yet: what is read of
    /// their nodes is what will be written, or is written anew with them.
    fn settle_one(&mut self, id: TrieId, prefix: Prefix<A>) {
        if self.trie(id).root == 0 {
            // The last prefix went, and all lines with it.
            return;
        }
        let span = self.right_span(id);
        if span != self.trie(id).span {
            self.change_table(id, span);
        }
        if !span.has(prefix) {
            // It went, and no slot led there since then.
            return;
        }
        let (path, level) = self.deepest(id, prefix);
        if level < self.trie(id).top() {
            let spare = span.end().saturating_sub(prefix.len);
            self.fill_slots(id, span.slot(prefix.address), 1 << spare);
        } else {
            self.settle_path(id, prefix.address, &path, level);
        }
    }

    /// Which bits should choose a slot. Those that do stay until prefixes share less, or are too many or too few for them. If prefixes share more, since
    /// one went, others choose as soon as enough came or went to be worth a table that is written anew: the next one may share as little again.
    fn right_span(&mut self, id: TrieId) -> Span<A> {
        let Trie {
            span,
            count,
            changes,
            ..
        } = *self.trie(id);
        let shared = self.shared(id);
        let best = Span::of(shared, count);
        if !(span.has(shared) && span.suits(count)) {
            return best;
        }
        if best.from() > span.from() && changes >= count / SHARE {
            self.trie_mut(id).changes = 0;
            return best;
        }
        span
    }

    /// What all prefixes of a trie share, but for the default, as far as nodes may begin behind it.
    fn shared(&self, id: TrieId) -> Prefix<A> {
        let mut node = self.nodes.get(self.trie(id).root);
        let (mut address, mut depth) = (A::default(), 0);
        while depth < A::DEEPEST {
            let Local { len, slot } = node.shared();
            address = address | A::from_first(slot as usize, depth + STRIDE);
            let Some(child) = node.only_child() else {
                let len = depth + len;
                return Prefix { address, len };
            };
            node = self.nodes.get(child);
            depth += STRIDE;
        }
        Prefix {
            address,
            len: depth,
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

    /// Writes the node at `level` of `path` anew, and has what is above it lead there.
    fn settle_path(&mut self, id: TrieId, address: A, path: &Path, level: usize) {
        let top = self.trie(id).top();
        let mut fallbacks = [0; 23];
        for level in 0..level {
            fallbacks[level + 1] =
                self.best_of_slot(path[level], address.slot(depth(level)), fallbacks[level]);
        }
        let mut before = self.nodes.get(path[level]).target;
        self.write(path[level], fallbacks[level]);
        for level in (top..level).rev() {
            let child = self.nodes.get(path[level + 1]).target;
            let slot = address.slot(depth(level));
            let now = self.nodes.get(path[level]).target;
            if now.is_node() && before.is_node() && self.lines.follow(now, slot) == before {
                // The rest of the node is as it was.
                self.nodes.get_mut(path[level]).target = self.lines.replace(now, slot, child);
            } else {
                self.write(path[level], fallbacks[level]);
            }
            before = now;
        }
        let first = self.trie(id).span.slot(address);
        let target = self.nodes.get(path[top]).target;
        self.set_slots(id, first, &[target.0]);
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

    /// Writes a node to other lines, and those below that have none or another fallback. Gives its target.
    fn write(&mut self, place: u32, fallback: u32) -> Target {
        let targets = self.targets(place, fallback, u64::MAX);
        self.lines.retire(self.nodes.get(place).target);
        let target = match Line::narrow(&targets, fallback) {
            Some(line) => self.lines.add(&[line]),
            None => self.lines.add(&Line::wide(&targets)),
        };
        let node = self.nodes.get_mut(place);
        (node.target, node.fallback) = (target, fallback);
        target
    }

    /// Where these slots of a node lead to; children there are written if they are not. Of other slots it says nothing.
    fn targets(&mut self, place: u32, fallback: u32, slots: u64) -> [u32; 64] {
        let node = *self.nodes.get(place);
        let mut targets = [fallback; 64];
        let values = self.values.run(node.own.first, node.own.count());
        node.own.spread(values, &mut targets);
        for slot in ones(node.children & slots) {
            let target = &mut targets[slot as usize];
            let child = node.first_child + node.children_before(slot) as u32;
            *target = self.written(child, *target).0;
        }
        targets
    }

    /// The target of a node with this fallback, which is written if it is not.
    fn written(&mut self, place: u32, fallback: u32) -> Target {
        let node = self.nodes.get(place);
        match node.target.is_node() && node.fallback == fallback {
            true => node.target,
            false => self.write(place, fallback),
        }
    }

    /// Has other bits choose a slot of a trie's table.
    fn change_table(&mut self, id: TrieId, span: Span<A>) {
        self.resize_table(id, span);
        let Trie { root, .. } = *self.trie(id);
        self.drop_lines_above(root, self.trie(id).top());
        self.fill_slots(id, 0, span.slots());
    }

    /// Gives a trie a table for these bits, all slots of which lead nowhere.
    fn resize_table(&mut self, trie: TrieId, span: Span<A>) {
        self.trie_mut(trie).span = span;
        self.tables.change(TableChange::Resize { trie, span });
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
        let mut targets = [0; RUN];
        for run in (first..first + count).step_by(RUN) {
            let targets = &mut targets[..RUN.min(first + count - run)];
            self.find_targets(id, run, targets);
            self.set_slots(id, run, targets);
        }
    }

    /// Finds where slots lead to, from `first` on, by the nodes above and below the table; the latter are written if they are not. All are slots of one node,
    /// the last above the table.
    fn find_targets(&mut self, id: TrieId, first: usize, targets: &mut [u32]) {
        let Trie { span, root, .. } = *self.trie(id);
        let Some(last) = self.trie(id).top().checked_sub(1) else {
            return targets.fill(self.written(root, 0).0);
        };
        let address = span.address(first);
        let (mut node, mut fallback) = (Some(root), 0);
        for level in 0..last {
            let Some(at) = node else { break };
            let slot = address.slot(depth(level));
            fallback = self.best_of_slot(at, slot, fallback);
            node = self.nodes.get(at).child(slot);
        }
        let Some(node) = node else {
            return targets.fill(fallback);
        };
        let slot = address.slot(depth(last)) as usize;
        let slots = (u64::MAX >> (RUN - targets.len())) << slot;
        let all = self.targets(node, fallback, slots);
        targets.copy_from_slice(&all[slot..][..targets.len()]);
    }

    /// Sets slots of a table, at most [`RUN`], from `first` on.
    fn set_slots(&mut self, trie: TrieId, first: usize, targets: &[u32]) {
        if self.tables.newest().table(trie).slots()[first..][..targets.len()] == *targets {
            return;
        }
        let first = first as u32;
        self.tables.change(match *targets {
            [target] => TableChange::Slot {
                trie,
                at: first,
                target: Target(target),
            },
            _ => TableChange::Slots {
                trie,
                first,
                targets: targets.into(),
            },
        });
    }
}
