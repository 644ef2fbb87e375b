//! Maps with an undo log: they record previous values of changed keys.

use std::collections::BTreeMap;
use std::ops::Deref;

/// Map that records the values that keys had before they were changed.
#[derive(Clone, Debug)]
pub(crate) struct UndoMap<K, V> {
    map: BTreeMap<K, V>,
    before: Before<K, V>,
}

/// Previous values of changed keys; `None` if the key was absent.
pub(crate) type Before<K, V> = BTreeMap<K, Option<V>>;

impl<K, V> Default for UndoMap<K, V> {
    fn default() -> Self {
        UndoMap {
            map: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }
}

impl<K, V> Deref for UndoMap<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.map
    }
}

/// Builds a map without recorded changes.
impl<K: Ord, V> FromIterator<(K, V)> for UndoMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        UndoMap {
            map: items.into_iter().collect(),
            before: BTreeMap::new(),
        }
    }
}

impl<K, V> IntoIterator for UndoMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::collections::btree_map::IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_iter()
    }
}

impl<K: Ord + Clone, V> UndoMap<K, V> {
    /// Adds or replaces a value.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let before = self.map.insert(key.clone(), value);
        self.before.entry(key).or_insert(before);
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(before) = self.map.remove(key) {
            self.before.entry(key.clone()).or_insert(Some(before));
        }
    }

    /// Returns the previous values of the keys changed since the last call.
    pub(crate) fn take_before(&mut self) -> Before<K, V> {
        std::mem::take(&mut self.before)
    }

    /// Restores previous values.
    pub(crate) fn put_back(&mut self, before: Before<K, V>) {
        for (key, value) in before {
            match value {
                Some(value) => self.insert(key, value),
                None => self.remove(&key),
            }
        }
    }
}
