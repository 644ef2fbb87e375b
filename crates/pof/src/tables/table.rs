//! A table with its entries, by index and by match.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Entry;
use super::packed::{Forms, PackedEntry};
use crate::model::*;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its type.
    pub table_type: TableType,
    /// Maximum number of entries.
    pub size: u32,
    /// Its name.
    pub name: ObjectName,
    /// Its match fields.
    pub fields: Vec<Field>,
    entries: BTreeMap<u32, PackedEntry>,
    /// Hash of the match and index of each entry, but for LINEAR.
    by_match: BTreeSet<(u64, u32)>,
}

/// Match and priority of an entry: two entries of a table have different ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MatchKey {
    Values(u16, Vec<(FieldValue, FieldValue)>),
    Index(u32),
}

impl MatchKey {
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }
}

impl Table {
    pub(super) fn new(
        table_type: TableType,
        size: u32,
        name: ObjectName,
        fields: Vec<Field>,
    ) -> Table {
        Table {
            table_type,
            size,
            name,
            fields,
            entries: BTreeMap::new(),
            by_match: BTreeSet::new(),
        }
    }

    /// Returns its entries, by index.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries_from(0)
    }

    /// Returns its entries from this index on, by index.
    pub fn entries_from(&self, index: u32) -> impl Iterator<Item = Entry> {
        let entries = self.entries.range(index..);
        entries.map(|(index, entry)| entry.unpack(*index))
    }

    /// Returns the indices of its entries, in ascending order.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.entries.keys().copied()
    }

    /// Returns the entry with this index.
    pub fn entry(&self, index: u32) -> Option<Entry> {
        self.entries.get(&index).map(|entry| entry.unpack(index))
    }

    /// Returns true if it has an entry with this index.
    pub fn has_entry(&self, index: u32) -> bool {
        self.entries.contains_key(&index)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn key_of(&self, entry: &Entry) -> MatchKey {
        let full = [0xFF; VALUE_BYTES];
        let masked = |one: &Match, mask: &FieldValue| {
            let length = one.field.length;
            let bit = |at: usize| usize::from(length) > 8 * at;
            let kept: FieldValue = std::array::from_fn(|at| match bit(at) {
                true => mask[at] & last_mask(length, at),
                false => 0,
            });
            (std::array::from_fn(|at| one.value[at] & kept[at]), kept)
        };
        let matches = entry.matches.iter();
        match self.table_type {
            TableType::Masked => MatchKey::Values(
                entry.priority,
                matches.map(|one| masked(one, &one.mask)).collect(),
            ),
            TableType::LongestPrefix => {
                MatchKey::Values(0, matches.map(|one| masked(one, &one.mask)).collect())
            }
            TableType::Exact => {
                MatchKey::Values(0, matches.map(|one| masked(one, &full)).collect())
            }
            TableType::Linear => MatchKey::Index(entry.index),
        }
    }

    /// Returns the index of the entry with the match and priority of this one.
    pub(super) fn same_match(&self, entry: &Entry) -> Option<u32> {
        let key = self.key_of(entry);
        if let MatchKey::Index(index) = key {
            return self.has_entry(index).then_some(index);
        }
        let hash = key.hash();
        let alike = self.by_match.range((hash, 0)..=(hash, u32::MAX));
        let mut alike = alike.map(|(_, index)| *index);
        let has_key = |entry: Entry| self.key_of(&entry) == key;
        alike.find(|index| self.entry(*index).is_some_and(has_key))
    }

    pub(super) fn insert(&mut self, entry: Entry, forms: &mut Forms) {
        let index = entry.index;
        if let key @ MatchKey::Values(..) = self.key_of(&entry) {
            self.by_match.insert((key.hash(), index));
        }
        self.entries.insert(index, forms.pack(entry));
    }

    pub(super) fn remove(&mut self, index: u32, forms: &mut Forms) -> Option<Entry> {
        let packed = self.entries.remove(&index)?;
        let entry = packed.unpack(index);
        forms.free(packed);
        self.by_match.remove(&(self.key_of(&entry).hash(), index));
        Some(entry)
    }
}

/// Returns the bits of byte `at` that a field of this width has.
fn last_mask(length: u16, at: usize) -> u8 {
    let bits = usize::from(length).saturating_sub(8 * at);
    match bits {
        0 => 0,
        1..8 => 0xFF << (8 - bits),
        _ => 0xFF,
    }
}
