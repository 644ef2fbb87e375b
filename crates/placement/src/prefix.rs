//! Tree of prefixes: a Patricia trie (Morrison, 1968) in one array. Prefixes are inserted and
//! removed in the time of one walk.

use std::fmt;

use crate::ItemId;

/// Address of 32, 64 or 128 bits. A table with an exact key beside the prefix has the exact bits
/// first: a 24-bit VNI and an IPv4 address are a `u64` with prefixes of at least 24 bits.
pub trait Address: Copy + Eq + Ord + fmt::Debug {
    /// Number of bits.
    const WIDTH: u8;

    /// Returns the first `len` bits, followed by zeros.
    fn first(self, len: u8) -> Self;

    /// Returns the bit at a place, counted from the first one, or 0 after the last one.
    fn bit(self, at: u8) -> usize;

    /// Returns the number of first bits that two addresses share.
    fn shared(self, other: Self) -> u8;
}

macro_rules! address {
    ($type:ty) => {
        impl Address for $type {
            const WIDTH: u8 = <$type>::BITS as u8;

            #[inline]
            fn first(self, len: u8) -> Self {
                let mask = <$type>::MAX.checked_shr(u32::from(len)).unwrap_or(0);
                self & !mask
            }

            #[inline]
            fn bit(self, at: u8) -> usize {
                let rest = (Self::WIDTH - 1).checked_sub(at);
                rest.map_or(0, |shift| (self >> shift) as usize & 1)
            }

            #[inline]
            fn shared(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
        }
    };
}

address!(u32);
address!(u64);
address!(u128);

/// Prefix: the first bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix<A> {
    address: A,
    len: u8,
}

impl<A: Address> Prefix<A> {
    /// Creates a prefix of the first `len` bits, at most all.
    pub fn new(address: A, len: u8) -> Prefix<A> {
        let len = len.min(A::WIDTH);
        Prefix {
            address: address.first(len),
            len,
        }
    }

    /// Returns the address, zero after the prefix.
    pub fn address(self) -> A {
        self.address
    }

    /// Returns the number of bits.
    pub fn len(self) -> u8 {
        self.len
    }

    /// Returns true for the prefix of all addresses.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns true if the address begins with this prefix.
    #[inline]
    pub fn matches(self, address: A) -> bool {
        self.address.shared(address) >= self.len
    }
}

/// No node, and no item.
const NONE: u32 = u32::MAX;

/// Node: a prefix of the tree, or a place where two prefixes part.
#[derive(Clone, Copy, Debug)]
struct Node<A> {
    prefix: Prefix<A>,
    /// Item of the prefix. `NONE`: the prefix is not in the tree.
    item: u32,
    children: [u32; 2],
}

/// Set of prefixes, each with an item number. A number is used again after its prefix is removed.
#[derive(Clone, Debug)]
pub struct PrefixTree<A> {
    nodes: Vec<Node<A>>,
    free_nodes: Vec<u32>,
    root: u32,
    /// Node of each item.
    node_of: Vec<u32>,
    free_items: Vec<ItemId>,
}

impl<A: Address> Default for PrefixTree<A> {
    fn default() -> Self {
        PrefixTree {
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            root: NONE,
            node_of: Vec::new(),
            free_items: Vec::new(),
        }
    }
}

/// Place of a link to a node.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Child(u32, usize),
}

impl<A: Address> PrefixTree<A> {
    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        self.node_of.len() - self.free_items.len()
    }

    /// Returns true if there is no prefix.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn node(&self, at: u32) -> &Node<A> {
        &self.nodes[at as usize]
    }

    fn follow(&self, link: Link) -> u32 {
        match link {
            Link::Root => self.root,
            Link::Child(at, side) => self.node(at).children[side],
        }
    }

    fn set(&mut self, link: Link, to: u32) {
        match link {
            Link::Root => self.root = to,
            Link::Child(at, side) => self.nodes[at as usize].children[side] = to,
        }
    }

    fn new_node(&mut self, prefix: Prefix<A>, item: u32) -> u32 {
        let node = Node {
            prefix,
            item,
            children: [NONE; 2],
        };
        if let Some(at) = self.free_nodes.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    fn new_item(&mut self) -> ItemId {
        self.free_items.pop().unwrap_or_else(|| {
            self.node_of.push(NONE);
            ItemId(self.node_of.len() as u32 - 1)
        })
    }

    /// Inserts a prefix and returns its item, and true if the prefix is new.
    pub fn insert(&mut self, prefix: Prefix<A>) -> (ItemId, bool) {
        let mut link = Link::Root;
        loop {
            let at = self.follow(link);
            if at == NONE {
                return (self.insert_at(link, prefix), true);
            }
            let node = *self.node(at);
            let shared = node.prefix.address.shared(prefix.address);
            let shared = shared.min(node.prefix.len).min(prefix.len);
            if shared < node.prefix.len {
                let above = if shared == prefix.len {
                    let item = self.insert_at(link, prefix);
                    (self.follow(link), item)
                } else {
                    let fork = Prefix::new(prefix.address, shared);
                    let above = self.new_node(fork, NONE);
                    self.set(link, above);
                    let side = prefix.address.bit(shared);
                    (above, self.insert_at(Link::Child(above, side), prefix))
                };
                let side = node.prefix.address.bit(shared);
                self.set(Link::Child(above.0, side), at);
                return (above.1, true);
            }
            if prefix.len == node.prefix.len {
                if node.item != NONE {
                    return (ItemId(node.item), false);
                }
                let item = self.new_item();
                self.nodes[at as usize].item = item.0;
                self.node_of[item.index()] = at;
                return (item, true);
            }
            link = Link::Child(at, prefix.address.bit(node.prefix.len));
        }
    }

    /// Makes a node for the prefix at a link.
    fn insert_at(&mut self, link: Link, prefix: Prefix<A>) -> ItemId {
        let item = self.new_item();
        let at = self.new_node(prefix, item.0);
        self.node_of[item.index()] = at;
        self.set(link, at);
        item
    }

    /// Removes the prefix of an item. Returns false if there is none.
    pub fn remove(&mut self, item: ItemId) -> bool {
        let Some(prefix) = self.prefix(item) else {
            return false;
        };
        let (mut above, mut link) = (None, Link::Root);
        let target = self.node_of[item.index()];
        let mut at = self.root;
        while at != target {
            let len = self.node(at).prefix.len;
            above = Some((link, at));
            link = Link::Child(at, prefix.address.bit(len));
            at = self.follow(link);
        }
        self.nodes[at as usize].item = NONE;
        self.node_of[item.index()] = NONE;
        self.free_items.push(item);
        self.splice(link, at);
        if let Some((link, at)) = above
            && self.node(at).item == NONE
        {
            self.splice(link, at);
        }
        true
    }

    /// Removes a node without an item from a link, unless two prefixes part there.
    fn splice(&mut self, link: Link, at: u32) {
        let child = match self.node(at).children {
            [NONE, child] | [child, NONE] => child,
            _ => return,
        };
        self.set(link, child);
        self.free_nodes.push(at);
    }

    /// Returns the prefix of an item.
    pub fn prefix(&self, item: ItemId) -> Option<Prefix<A>> {
        let at = *self.node_of.get(item.index())?;
        Some(self.nodes.get(at as usize)?.prefix)
    }

    /// Returns the item of a prefix.
    pub fn find(&self, prefix: Prefix<A>) -> Option<ItemId> {
        let last = self.path(prefix).last()?;
        (self.prefix(last)? == prefix).then_some(last)
    }

    /// Returns the item with the longest prefix that matches the address.
    pub fn lookup(&self, address: A) -> Option<ItemId> {
        self.path(Prefix::new(address, A::WIDTH)).last()
    }

    /// Returns the items of all prefixes that contain `prefix`, shortest first. The last one is
    /// that of `prefix` itself, if it is in the tree.
    pub fn path(&self, prefix: Prefix<A>) -> impl Iterator<Item = ItemId> {
        let mut at = self.root;
        std::iter::from_fn(move || {
            while at != NONE {
                let node = self.node(at);
                if node.prefix.len > prefix.len || !node.prefix.matches(prefix.address) {
                    at = NONE;
                    break;
                }
                at = if node.prefix.len < prefix.len {
                    node.children[prefix.address.bit(node.prefix.len)]
                } else {
                    NONE
                };
                if node.item != NONE {
                    return Some(ItemId(node.item));
                }
            }
            None
        })
    }

    /// Returns the items of the shorter prefixes that contain the item's prefix, shortest first.
    pub fn ancestors(&self, item: ItemId) -> impl Iterator<Item = ItemId> {
        let prefix = self.prefix(item);
        let path = prefix.into_iter().flat_map(|prefix| self.path(prefix));
        path.filter(move |&other| other != item)
    }

    /// Returns the item of the longest of the shorter prefixes that contain the item's prefix.
    pub fn parent(&self, item: ItemId) -> Option<ItemId> {
        self.ancestors(item).last()
    }

    /// Returns the items of which this one is the parent, by address.
    pub fn children(&self, item: ItemId) -> impl Iterator<Item = ItemId> {
        self.below(item, false)
    }

    /// Returns the items of all longer prefixes in the item's prefix, each after the shorter ones.
    pub fn descendants(&self, item: ItemId) -> impl Iterator<Item = ItemId> {
        self.below(item, true)
    }

    fn below(&self, item: ItemId, is_deep: bool) -> impl Iterator<Item = ItemId> {
        let at = self.node_of.get(item.index());
        let children = at.and_then(|&at| self.nodes.get(at as usize));
        let children = children.map_or([NONE; 2], |node| node.children);
        let mut open: Vec<u32> = children.into_iter().rev().collect();
        std::iter::from_fn(move || {
            while let Some(at) = open.pop() {
                let Some(node) = self.nodes.get(at as usize) else {
                    continue;
                };
                if node.item == NONE || is_deep {
                    open.extend(node.children.into_iter().rev());
                }
                if node.item != NONE {
                    return Some(ItemId(node.item));
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use support::rng::Rng;

    /// Compares the tree with a map after random updates of short prefixes, which nest much.
    fn check<A: Address>(seed: u64, draw: impl Fn(u64) -> A) {
        let mut rng = Rng::new(seed);
        let mut tree = PrefixTree::default();
        let mut naive: BTreeMap<Prefix<A>, ItemId> = BTreeMap::new();
        for step in 0..2000 {
            let len = if rng.one_in(8) { 0..=40 } else { 0..=7 };
            let len = rng.between(*len.start(), *len.end()) as u8;
            let prefix = Prefix::new(draw(rng.bits()), len);
            if rng.one_in(3) {
                let removed = naive.remove(&prefix);
                assert_eq!(tree.find(prefix), removed);
                assert_eq!(removed.map(|item| tree.remove(item)), removed.map(|_| true));
            } else {
                let (item, is_new) = tree.insert(prefix);
                assert_eq!(naive.insert(prefix, item), (!is_new).then_some(item));
            }
            assert_eq!(tree.len(), naive.len());
            if step % 100 > 0 {
                continue;
            }
            let contains = |a: &Prefix<A>, b: &Prefix<A>| a.len < b.len && a.matches(b.address);
            let shorter = |prefix: &Prefix<A>| {
                let all = naive.iter().filter(|(other, _)| contains(other, prefix));
                let mut all: Vec<_> = all.map(|(other, item)| (other.len, *item)).collect();
                all.sort_unstable();
                all.into_iter().map(|(_, item)| item).collect::<Vec<_>>()
            };
            for (prefix, &item) in &naive {
                assert_eq!(tree.prefix(item), Some(*prefix));
                assert_eq!(tree.ancestors(item).collect::<Vec<_>>(), shorter(prefix));
                let longer = naive.iter().filter(|(other, _)| contains(prefix, other));
                let longer: Vec<ItemId> = longer.map(|(_, &item)| item).collect();
                assert_eq!(tree.descendants(item).collect::<Vec<_>>(), longer);
                let is_child = |other: &&ItemId| tree.parent(**other) == Some(item);
                let children: Vec<ItemId> = longer.iter().filter(is_child).copied().collect();
                assert_eq!(tree.children(item).collect::<Vec<_>>(), children);
                let address = prefix.address;
                let matching = naive.iter().filter(|(other, _)| other.matches(address));
                let longest = matching.max_by_key(|(other, _)| other.len);
                assert_eq!(tree.lookup(address), longest.map(|(_, &item)| item));
            }
        }
    }

    #[test]
    fn the_tree_is_a_map_of_prefixes() {
        for seed in 0..4 {
            check(seed, |bits| bits as u32);
            check(seed, |bits| bits);
            check(seed, |bits| u128::from(bits) << 64 | u128::from(bits));
        }
    }

    #[test]
    fn all_bits_and_no_bits_are_prefixes() {
        let mut tree = PrefixTree::<u32>::default();
        let (all, _) = tree.insert(Prefix::new(7, 0));
        let (one, _) = tree.insert(Prefix::new(u32::MAX, 99));
        assert_eq!(tree.lookup(5), Some(all));
        assert_eq!(tree.lookup(u32::MAX), Some(one));
        assert!(tree.remove(all) && !tree.remove(all) && tree.remove(one));
        assert!(tree.is_empty() && tree.lookup(5).is_none());
        assert!(tree.nodes.len() == tree.free_nodes.len());
    }
}
