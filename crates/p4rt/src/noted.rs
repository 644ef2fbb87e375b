//! Maps that remember what was changed in them since somebody asked.

use std::collections::BTreeMap;
use std::ops::Deref;

/// A map with the values that keys had before they were changed.
#[derive(Clone, Debug)]
pub(crate) struct Noted<K, V> {
    map: BTreeMap<K, V>,
    before: Before<K, V>,
}

/// What was at keys that were changed; nothing where there was none.
pub(crate) type Before<K, V> = BTreeMap<K, Option<V>>;

impl<K, V> Default for Noted<K, V> {
    fn default() -> Self {
        Noted {
            map: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }
}

impl<K, V> Deref for Noted<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.map
    }
}

/// Nothing counts as changed.
impl<K: Ord, V> FromIterator<(K, V)> for Noted<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        Noted {
            map: items.into_iter().collect(),
            before: BTreeMap::new(),
        }
    }
}

impl<K, V> IntoIterator for Noted<K, V> {
    type Item = (K, V);
    type IntoIter = std::collections::btree_map::IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_iter()
    }
}

impl<K: Ord + Clone, V> Noted<K, V> {
    /// Adds or replaces a value.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let before = self.map.insert(key.clone(), value);
        self.before.entry(key).or_insert(before);
    }

    /// Takes a value away.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(before) = self.map.remove(key) {
            self.before.entry(key.clone()).or_insert(Some(before));
        }
    }

    /// What was changed since the last time.
    pub(crate) fn take_before(&mut self) -> Before<K, V> {
        std::mem::take(&mut self.before)
    }

    /// Makes it as it was.
    pub(crate) fn put_back(&mut self, before: Before<K, V>) {
        for (key, value) in before {
            match value {
                Some(value) => self.insert(key, value),
                None => self.remove(&key),
            }
        }
    }
}
