//! [`Forest`]: several tries of prefixes that share their memory.
//!
//! The first bits of an address, after those that all prefixes of a trie share, are the index into
//! the trie's root table. The number of these bits depends on the number of prefixes ([`Span`]).
//! The nodes below the table cover six bits each. The nodes above the table exist for the control
//! side only.
//!
//! A change is first made in the control side of the node in which the prefix ends.
//! [`Forest::snapshot`] then propagates it to the nodes and table elements below that have the
//! prefix as their fallback. These get new lines, and so do the nodes above them up to the table,
//! because lines of snapshots do not change ([`Lines`]). After very many changes, for example a
//! bulk load, all lines are rewritten instead, once each. Lines of siblings are then adjacent.

use super::arena::Arena;
use super::lines::Lines;
use super::node::{Line, Local, Node, STRIDE, Target, WIDE_LINES, ones};
use super::search::Shown;
use super::span::Span;
use super::tables::{RUN, TableChange, Tables};
use crate::engine::Versions;
use std::fmt;
use std::ops::{BitOr, BitXor};

/// Address, from its first bit on, followed by zeros.
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
    /// Maximum number of bits above a node: the depth of the last nodes.
    const DEEPEST: u32;

    /// Returns the first `count` bits (not all) as a number; `usize::MAX` if they do not fit.
    fn first(self, count: u32) -> usize;
    /// Removes the first `count` bits (not all).
    fn without(self, count: u32) -> Self;
    /// Clears all bits after the first `count` (not all).
    fn cut(self, count: u32) -> Self;
    /// Creates the address with this number as its first `count` bits (not all).
    fn from_first(bits: usize, count: u32) -> Self;

    /// Returns the branch in the node after the first `depth` bits.
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

/// Prefix in a trie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefix<A> {
    pub(crate) address: A,
    pub(crate) len: u32,
}

impl<A: Address> Prefix<A> {
    /// Returns the number of nodes above the one in which the prefix ends.
    fn level(self) -> usize {
        ((self.len - 1) / STRIDE) as usize
    }

    /// Returns the prefix within the node in which it ends.
    fn local(self) -> Local {
        let depth = depth(self.level());
        Local {
            len: self.len - depth,
            slot: self.address.slot(depth),
        }
    }
}

/// Returns the number of bits that `level` nodes cover.
fn depth(level: usize) -> u32 {
    level as u32 * STRIDE
}

/// Indices of the nodes on the path of an address, from the root on.
type Path = [u32; 22];

/// Index of a trie in a forest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrieId(pub(crate) u32);

impl TrieId {
    /// The trie that never has a prefix.
    pub(crate) const EMPTY: Self = Self(0);
}

/// Control side of a trie.
#[derive(Debug, Clone, Default)]
struct Trie<A> {
    /// Range of bits for the table index. All prefixes start with the bits before it.
    span: Span<A>,
    /// True if there is a prefix of length 0.
    has_default: bool,
    /// Index of the root node; 0 for none.
    root: u32,
    /// Number of prefixes, without the default.
    count: usize,
    /// Number of prefixes inserted or removed since the table was last rebuilt because prefixes
    /// shared more bits.
    changes: usize,
}

impl<A: Address> Trie<A> {
    /// Returns the number of levels of nodes above the table.
    fn top(&self) -> usize {
        (self.span.end() / STRIDE) as usize
    }
}

/// Limits of pending changes: `FEW`, or one in `SHARE` prefixes if that is more. Up to the limit,
/// changes are propagated one by one. Beyond it, all lines are rewritten.
const FEW: usize = 256;
const SHARE: usize = 4;

/// Several tries that share their memory. Values are from 1 to [`Target::MAX`].
#[derive(Debug)]
pub(crate) struct Forest<A: Address> {
    /// By trie index; the first is the empty trie.
    tries: Vec<Trie<A>>,
    free: Vec<TrieId>,
    nodes: Arena<Node>,
    /// Values of the prefixes of each node.
    values: Arena<u32>,
    lines: Lines,
    tables: Versions<Tables<A>>,
    /// Number of prefixes, without defaults.
    count: usize,
    /// Prefixes inserted or removed since the last [`snapshot`](Self::snapshot).
    unsettled: Vec<(TrieId, Prefix<A>)>,
    /// True if there were too many pending changes to list.
    is_unsettled: bool,
}

impl<A: Address> Forest<A> {
    /// Creates a forest with only the empty trie. Trie names have `name_limbs` limbs.
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

    /// Removes all tries. Snapshots stay as they are.
    pub(crate) fn clear(&mut self, name_limbs: usize) {
        let mut fresh = Self::new(name_limbs);
        std::mem::swap(&mut fresh.lines, &mut self.lines);
        std::mem::swap(&mut fresh.tables, &mut self.tables);
        fresh.lines.start_over(0);
        fresh.tables.reset(Tables::new(name_limbs));
        *self = fresh;
    }

    /// Creates a trie without prefixes.
    pub(crate) fn add(&mut self) -> TrieId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.tries.push(Trie::default());
            TrieId((self.tries.len() - 1) as u32)
        });
        self.resize_table(id, Span::default());
        id
    }

    /// Releases a trie without prefixes.
    pub(crate) fn give_back(&mut self, id: TrieId) {
        debug_assert!(self.is_empty(id));
        self.free.push(id);
    }

    /// Returns the trie with a name, or the empty trie if there is none.
    pub(crate) fn named(&self, name: &[u64]) -> TrieId {
        self.tables.newest().trie(name)
    }

    /// Sets or removes the trie of a name.
    pub(crate) fn name(&mut self, name: &[u64], trie: Option<TrieId>) {
        let exact = name.into();
        self.tables.change(TableChange::Name { exact, trie });
    }

    pub(crate) fn is_empty(&self, id: TrieId) -> bool {
        let trie = self.trie(id);
        trie.count == 0 && !trie.has_default
    }

    /// Returns the number of nodes, values and lines that there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> [usize; 3] {
        let (nodes, values) = (self.nodes.items(), self.values.items());
        [nodes.len(), values.len(), self.lines.room()]
    }

    /// Returns the approximate size in bytes, including memory of snapshots that are held.
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

    /// Sets the value of a prefix. Packets see it in the next snapshot.
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

    /// Removes a prefix. Packets see this in the next snapshot.
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

    /// Returns the path to the node in which a prefix ends, if that node exists.
    fn path(&self, id: TrieId, prefix: Prefix<A>) -> Option<Path> {
        let (path, level) = self.deepest(id, prefix);
        (path[0] != 0 && level == prefix.level()).then_some(path)
    }

    /// Returns the path to the node in which a prefix ends. Creates missing nodes.
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

    /// Adds an empty child to a node.
    fn add_child(&mut self, node: u32, slot: u32) -> u32 {
        let old = *self.nodes.get(node);
        let rank = old.children_before(slot);
        let first = self
            .nodes
            .insert(old.first_child, old.child_count(), rank, Node::default());
        let changed = self.nodes.get_mut(node);
        changed.first_child = first;
        changed.children.flip(1 << slot);
        first + rank as u32
    }

    /// Removes empty nodes, from the one in which the prefix ends upwards. At least one node stays,
    /// because the trie is not empty.
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
            changed.children.flip(1 << slot);
        }
    }

    /// Removes all nodes of a trie that lost its last prefix.
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
        let count = children.count();
        for child in first_child..first_child + count {
            self.drop_below(child);
        }
        self.nodes.give(first_child, count as usize);
    }

    fn drop_lines(&mut self, node: u32) {
        let node = self.nodes.get_mut(node);
        self.lines.retire(std::mem::take(&mut node.target));
    }

    /// Records that a prefix was inserted or removed.
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

    /// Returns the tries that packets search from now on.
    pub(crate) fn snapshot(&mut self) -> Shown<A> {
        self.settle();
        Shown {
            tables: self.tables.snapshot(),
            lines: self.lines.snapshot(),
        }
    }

    /// Propagates all pending changes to the structures that packets read.
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

    /// Rewrites all lines from scratch. Their number is counted first, so that no more memory is
    /// allocated than they take.
    fn write_all(&mut self) {
        let ids = (0..self.tries.len() as u32).map(TrieId);
        let tries = ids.filter(|&id| self.trie(id).root != 0);
        let tries: Vec<(TrieId, Span<A>)> = tries
            .map(|id| (id, Span::of(self.shared(id), self.trie(id).count)))
            .collect();
        let lines = tries.iter().map(|&(id, span)| {
            let above = (span.end() / STRIDE) as usize;
            self.count_lines(self.trie(id).root, 0, above)
        });
        self.lines.start_over(lines.sum());
        for node in self.nodes.items_mut() {
            node.target = Target::default();
        }
        for (id, span) in tries {
            self.change_table(id, span);
        }
    }

    /// Returns the number of lines of a node with this fallback and of the nodes below it. The
    /// nodes of the first `above` levels have none.
    fn count_lines(&self, place: u32, fallback: u32, above: usize) -> usize {
        let node = self.nodes.get(place);
        let mut targets = [fallback; 64];
        let values = self.values.run(node.own.first, node.own.count());
        node.own.spread(values, &mut targets);
        let mut lines = 0;
        for (slot, child) in ones(node.children.bits()).zip(node.first_child..) {
            let target = &mut targets[slot as usize];
            lines += self.count_lines(child, *target, above.saturating_sub(1));
            *target = Target::node(child, false).0;
        }
        let own = match above {
            0 if Line::narrow(&targets, fallback).is_some() => 1,
            0 => WIDE_LINES,
            _ => 0,
        };
        own + lines
    }

    /// Propagates the insertion or removal of one prefix. Other changes may still be pending. Their
    /// nodes are then written now in their final form, or are rewritten with them.
    fn settle_one(&mut self, id: TrieId, prefix: Prefix<A>) {
        if self.trie(id).root == 0 {
            // The last prefix was removed, and all lines with it.
            return;
        }
        let span = self.right_span(id);
        if span != self.trie(id).span {
            self.change_table(id, span);
        }
        if !span.has(prefix) {
            // The prefix was removed, and no table element has led to it since.
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

    /// Returns the index range that the table should have. The current range stays until prefixes
    /// share fewer bits, or until their number no longer suits it. After a removal, prefixes may
    /// share more bits. Then the range changes only after enough changes to pay for a new table,
    /// because the next prefix may again share few bits.
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

    /// Returns the longest common prefix of all prefixes of a trie except the default, limited to
    /// the depth at which nodes may start.
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

    /// Returns the path to the node in which a prefix ends, as far as nodes exist, and the level of
    /// the last one.
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

    /// Rewrites the node at `level` of `path`, and updates the nodes and the table element above
    /// it.
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
                // Only this target of the node has changed.
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

    /// Returns the value of a branch of a node, ignoring children.
    fn best_of_slot(&self, node: u32, slot: u32, fallback: u32) -> u32 {
        self.best(node, Local { len: STRIDE, slot }, fallback)
    }

    /// Returns the value of the longest prefix of a node that covers this one, or equals it.
    fn best(&self, node: u32, local: Local, fallback: u32) -> u32 {
        let own = self.nodes.get(node).own;
        own.best(local)
            .map_or(fallback, |rank| *self.values.get(own.first + rank as u32))
    }

    /// Writes a node to new lines. Also writes the nodes below it that have no lines or another
    /// fallback. Returns its target.
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

    /// Returns the targets of the branches in `slots`; other elements are unspecified. Writes
    /// children there that have no valid lines.
    fn targets(&mut self, place: u32, fallback: u32, slots: u64) -> [u32; 64] {
        let node = *self.nodes.get(place);
        let mut targets = [fallback; 64];
        let values = self.values.run(node.own.first, node.own.count());
        node.own.spread(values, &mut targets);
        for slot in ones(node.children.bits() & slots) {
            let target = &mut targets[slot as usize];
            let child = node.first_child + node.children_before(slot) as u32;
            *target = self.written(child, *target).0;
        }
        targets
    }

    /// Returns the target of a node with this fallback. Writes the node if it has no valid lines.
    fn written(&mut self, place: u32, fallback: u32) -> Target {
        let node = self.nodes.get(place);
        match node.target.is_node() && node.fallback == fallback {
            true => node.target,
            false => self.write(place, fallback),
        }
    }

    /// Changes the index range of a trie's table.
    fn change_table(&mut self, id: TrieId, span: Span<A>) {
        self.resize_table(id, span);
        let Trie { root, .. } = *self.trie(id);
        self.drop_lines_above(root, self.trie(id).top());
        self.fill_slots(id, 0, span.slots());
    }

    /// Gives a trie an empty table with this index range.
    fn resize_table(&mut self, trie: TrieId, span: Span<A>) {
        self.trie_mut(trie).span = span;
        self.tables.change(TableChange::Resize { trie, span });
    }

    /// Retires the lines of the first `levels` levels from `node` on, which packets no longer
    /// reach.
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
        for child in first_child..first_child + children.count() {
            self.drop_lines_above(child, levels - 1);
        }
    }

    /// Sets `count` table elements, from `first` on, according to the nodes above and below the
    /// table.
    fn fill_slots(&mut self, id: TrieId, first: usize, count: usize) {
        let mut targets = [0; RUN];
        for run in (first..first + count).step_by(RUN) {
            let targets = &mut targets[..RUN.min(first + count - run)];
            self.find_targets(id, run, targets);
            self.set_slots(id, run, targets);
        }
    }

    /// Computes the targets of table elements from `first` on, according to the nodes above and
    /// below the table. Writes nodes below that have no valid lines. All elements must belong to
    /// the same node, the last above the table.
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

    /// Sets at most [`RUN`] table elements, from `first` on.
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
