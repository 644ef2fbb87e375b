//! Parts that engines have stored in an agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aggregate::Pair;

/// Parts by name, shared by the threads of an agent.
#[derive(Debug, Default)]
pub(crate) struct PartStore {
    parts: Mutex<BTreeMap<String, Arc<Vec<Pair>>>>,
}

impl PartStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Vec<Pair>>>> {
        // No thread leaves the map half changed.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a part in place of the one with this name.
    pub(crate) fn put(&self, name: String, pairs: Vec<Pair>) {
        let before = self.lock().insert(name, Arc::new(pairs));
        // A large one is freed without the lock.
        drop(before);
    }

    /// Returns a part.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Vec<Pair>>> {
        self.lock().get(name).cloned()
    }

    /// Drops all parts with names that begin with this prefix.
    pub(crate) fn forget(&self, prefix: &str) {
        let mut dropped = Vec::new();
        let mut parts = self.lock();
        let names = parts.range(prefix.to_owned()..).map(|(name, _)| name);
        let names: Vec<String> = names
            .take_while(|name| name.starts_with(prefix))
            .cloned()
            .collect();
        dropped.extend(names.iter().filter_map(|name| parts.remove(name)));
        drop(parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_forgets_the_parts_that_begin_with_it_alone() {
        let store = PartStore::default();
        let names = ["a", "a/1", "a/10", "a/2", "ab", "b"];
        for (prefix, left) in [
            ("a/", &["a", "ab", "b"][..]),
            ("a/1", &["a", "a/2", "ab", "b"]),
            ("c", &names),
            ("", &[]),
        ] {
            store.forget("");
            for name in names {
                store.put(name.to_owned(), Vec::new());
            }
            store.forget(prefix);
            let found = names.into_iter().filter(|name| store.get(name).is_some());
            assert_eq!(found.collect::<Vec<_>>(), left, "{prefix}");
        }
    }

    #[test]
    fn a_part_is_replaced_while_a_mapper_has_the_old_one() {
        let store = PartStore::default();
        store.put("a".to_owned(), vec![Pair::new(*b"k", 1)]);
        let old = store.get("a").unwrap();
        store.put("a".to_owned(), vec![Pair::new(*b"k", 2)]);
        assert_eq!(old[0].value, 1);
        assert_eq!(store.get("a").unwrap()[0].value, 2);
    }
}
