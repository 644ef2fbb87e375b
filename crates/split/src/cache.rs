//! The entries of a mirrored table that the switch holds, and those that a key finds.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bits::Value;
use exec::BitBuffer;
use ir::{KeyMatch, TableId};
use passes::split::MirroredTable;
use placement::{ItemId, Prefix, PrefixTree};
use switch::{EntryId, TableEntry};

/// Maximum width of a prefix key.
const MAX_PREFIX: u32 = 128;

/// A mirrored table, as the coordinator sees it.
pub(crate) struct MirrorIndex {
    pub(crate) table: TableId,
    /// Maximum number of entries in the switch.
    capacity: usize,
    widths: Vec<u32>,
    prefix_key: Option<usize>,
    /// Entries by key, the prefix key left out.
    exact: HashMap<Box<[u8]>, Found>,
    /// Keys of the entries.
    keys: HashMap<EntryId, Box<[KeyMatch]>>,
    /// Entries that handlers have added, by their keys.
    learned: HashMap<Box<[u64]>, EntryId>,
    learned_entries: HashMap<EntryId, LearnedItem>,
    next_learned: u64,
    /// Entries in the switch, the oldest first.
    cached: VecDeque<EntryId>,
}

/// First id of entries that handlers have added. Their servers' ids are not unique.
const FIRST_LEARNED: u64 = 1 << 63;

/// Entry that a handler has added.
#[derive(Clone, Debug)]
pub(crate) struct LearnedItem {
    pub(crate) key: Box<[u64]>,
    pub(crate) entry: TableEntry,
}

/// Entries with the same exact keys.
enum Found {
    Entry(EntryId),
    Prefixes(Prefixes),
}

#[derive(Default)]
struct Prefixes {
    tree: PrefixTree<u128>,
    entries: BTreeMap<ItemId, EntryId>,
}

impl MirrorIndex {
    /// Creates the index of a table without entries.
    pub(crate) fn new(mirrored: &MirroredTable) -> MirrorIndex {
        MirrorIndex {
            table: mirrored.table,
            capacity: mirrored.entries as usize,
            widths: mirrored.key_widths.clone(),
            prefix_key: mirrored.prefix_key,
            exact: HashMap::new(),
            keys: HashMap::new(),
            learned: HashMap::new(),
            learned_entries: HashMap::new(),
            next_learned: FIRST_LEARNED,
            cached: VecDeque::new(),
        }
    }

    /// Returns the width of the whole key in bits.
    pub(crate) fn width(&self) -> usize {
        self.widths.iter().map(|&width| width as usize).sum()
    }

    /// Adds an entry. Returns the cached entries that the new one makes wrong.
    pub(crate) fn insert(&mut self, keys: &[KeyMatch], entry: EntryId) -> Vec<EntryId> {
        self.keys.insert(entry, keys.into());
        let exact = self.exact_of(keys);
        let Some(at) = self.prefix_key else {
            self.exact.insert(exact, Found::Entry(entry));
            return Vec::new();
        };
        let Some(prefix) = prefix_of(&keys[at], self.widths[at]) else {
            return Vec::new();
        };
        let found = self
            .exact
            .entry(exact)
            .or_insert_with(|| Found::Prefixes(Prefixes::default()));
        let Found::Prefixes(prefixes) = found else {
            return Vec::new();
        };
        let (item, _) = prefixes.tree.insert(prefix);
        prefixes.entries.insert(item, entry);
        let above = prefixes.tree.ancestors(item);
        let above: Vec<EntryId> = above
            .filter_map(|item| prefixes.entries.get(&item).copied())
            .collect();
        above
            .into_iter()
            .filter(|&entry| self.evict(entry))
            .collect()
    }

    /// Removes an entry. Returns true if the switch held it.
    pub(crate) fn remove(&mut self, entry: EntryId) -> bool {
        let Some(keys) = self.keys.remove(&entry) else {
            return false;
        };
        let exact = self.exact_of(&keys);
        match self.exact.get_mut(&exact) {
            Some(Found::Prefixes(prefixes)) => {
                let prefix = self
                    .prefix_key
                    .and_then(|at| prefix_of(&keys[at], self.widths[at]));
                if let Some(item) = prefix.and_then(|prefix| prefixes.tree.find(prefix)) {
                    prefixes.tree.remove(item);
                    prefixes.entries.remove(&item);
                }
                if prefixes.entries.is_empty() {
                    self.exact.remove(&exact);
                }
            }
            Some(Found::Entry(_)) => {
                self.exact.remove(&exact);
            }
            None => {}
        }
        self.evict(entry)
    }

    /// Adds an entry that a handler has added, or replaces the one with its key. Returns the
    /// replaced one if the switch held it.
    pub(crate) fn learn(&mut self, key: &[u64], entry: TableEntry) -> Option<EntryId> {
        let replaced = self.forget(key);
        let id = EntryId(self.next_learned);
        self.next_learned += 1;
        self.insert(&entry.keys, id);
        self.learned.insert(key.into(), id);
        let key = key.into();
        self.learned_entries.insert(id, LearnedItem { key, entry });
        replaced
    }

    /// Removes an entry that a handler has added. Returns it if the switch held it.
    pub(crate) fn forget(&mut self, key: &[u64]) -> Option<EntryId> {
        let id = self.learned.remove(key)?;
        self.learned_entries.remove(&id);
        self.remove(id).then_some(id)
    }

    /// Returns an entry that a handler has added.
    pub(crate) fn learned(&self, id: EntryId) -> Option<&LearnedItem> {
        self.learned_entries.get(&id)
    }

    /// Returns the entries with a time-out that handlers have added.
    pub(crate) fn timed(&self) -> impl Iterator<Item = (EntryId, &LearnedItem)> {
        let all = self.learned_entries.iter();
        all.filter(|(_, item)| item.entry.idle_timeout.is_some())
            .map(|(id, item)| (*id, item))
    }

    /// Removes all entries. Returns those that the switch held.
    pub(crate) fn clear(&mut self) -> Vec<EntryId> {
        self.exact.clear();
        self.keys.clear();
        self.learned.clear();
        self.learned_entries.clear();
        self.cached.drain(..).collect()
    }

    /// Takes an entry out of the switch. Returns true if it was there.
    pub(crate) fn evict(&mut self, entry: EntryId) -> bool {
        let place = self.cached.iter().position(|&cached| cached == entry);
        if let Some(place) = place {
            self.cached.remove(place);
        }
        place.is_some()
    }

    /// Returns the entry that the key finds, if the switch may hold it and does not: no longer
    /// prefix is below it.
    pub(crate) fn candidate(&self, key: &[u8]) -> Option<EntryId> {
        if self.capacity == 0 {
            return None;
        }
        let entry = match self.prefix_key {
            None => match self.exact.get(key)? {
                Found::Entry(entry) => *entry,
                Found::Prefixes(_) => return None,
            },
            Some(at) => self.longest(key, at)?,
        };
        (!self.cached.contains(&entry)).then_some(entry)
    }

    /// Returns the entry of the longest prefix that matches, unless longer ones are below it.
    fn longest(&self, key: &[u8], at: usize) -> Option<EntryId> {
        let before: usize = self.widths[..at].iter().map(|&width| width as usize).sum();
        let width = self.widths[at];
        let mut exact = BitBuffer::default();
        push_bits(&mut exact, key, 0, before);
        let behind = before + width as usize;
        push_bits(&mut exact, key, behind, self.width() - behind);
        let Found::Prefixes(prefixes) = self.exact.get(exact.bytes())? else {
            return None;
        };
        let address = bits_at(key, before, width as usize);
        let address = address.checked_shl(MAX_PREFIX - width).unwrap_or(0);
        let item = prefixes.tree.lookup(address)?;
        match prefixes.tree.children(item).next() {
            None => prefixes.entries.get(&item).copied(),
            Some(_) => None,
        }
    }

    /// Puts an entry into the switch. Returns the entry that leaves for it.
    pub(crate) fn put(&mut self, entry: EntryId) -> Option<EntryId> {
        let victim = match self.cached.len() >= self.capacity {
            true => self.cached.pop_front(),
            false => None,
        };
        self.cached.push_back(entry);
        victim
    }

    /// Returns the entries in the switch.
    pub(crate) fn cached(&self) -> impl Iterator<Item = EntryId> {
        self.cached.iter().copied()
    }

    /// Notes that the switch has no entry.
    pub(crate) fn forget_cached(&mut self) {
        self.cached.clear();
    }

    /// Returns the exact keys of an entry, as they are in frames.
    fn exact_of(&self, keys: &[KeyMatch]) -> Box<[u8]> {
        let mut exact = BitBuffer::default();
        for (at, key) in keys.iter().enumerate() {
            if Some(at) == self.prefix_key {
                continue;
            }
            if let KeyMatch::Exact(value) = key {
                exact.push(value.limbs(), self.widths[at]);
            }
        }
        exact.bytes().into()
    }
}

/// Returns the prefix of a key, aligned to the left.
fn prefix_of(key: &KeyMatch, width: u32) -> Option<Prefix<u128>> {
    let (value, len) = match key {
        KeyMatch::Any => (0, 0),
        KeyMatch::Exact(value) => (number(value), width),
        KeyMatch::Lpm(value, len) => (number(value), *len),
        KeyMatch::Ternary(..) | KeyMatch::Range(..) => return None,
    };
    let shift = MAX_PREFIX.checked_sub(width)?;
    let address = value.checked_shl(shift).unwrap_or(0);
    Some(Prefix::new(address, len.min(width) as u8))
}

fn number(value: &Value) -> u128 {
    let limbs = value.limbs();
    let limb = |at: usize| u128::from(limbs.get(at).copied().unwrap_or(0));
    limb(0) | limb(1) << 64
}

/// Returns up to 128 bits of a bit string.
fn bits_at(bytes: &[u8], first: usize, width: usize) -> u128 {
    (first..first + width).fold(0, |value, at| {
        let byte = bytes.get(at / 8).copied().unwrap_or(0);
        value << 1 | u128::from(byte >> (7 - at % 8) & 1)
    })
}

fn push_bits(to: &mut BitBuffer, bytes: &[u8], first: usize, width: usize) {
    for at in (first..first + width).step_by(64) {
        let now = (first + width - at).min(64);
        to.push_u64(bits_at(bytes, at, now) as u64, now as u32);
    }
}
