//! Parts that engines have stored in an agent: as much as its memory allows, for some time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aggregate::Pair;

/// Bytes of a pair in memory beside its key: the pair, and what the allocator adds to the key.
const PAIR_BYTES: u64 = size_of::<Pair>() as u64 + 16;

/// Limits of the parts that engines store in an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Bytes of memory of all parts.
    pub bytes: u64,
    /// Time without use after which a part is dropped.
    pub age: Duration,
}

impl Default for PartLimits {
    /// Returns 1 GiB and an hour.
    fn default() -> PartLimits {
        PartLimits {
            bytes: 1 << 30,
            age: Duration::from_secs(3600),
        }
    }
}

/// Error of a part for which there is no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoRoomError {
    name: String,
    needed: u64,
    free: u64,
    limits: PartLimits,
}

impl fmt::Display for NoRoomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoomError {
            name,
            needed,
            free,
            limits: PartLimits { bytes, age },
        } = self;
        write!(
            f,
            "STORE: {name}: the part needs {needed} bytes, and {free} of the agent's {bytes} are \
             free; FORGET parts that are not needed, wait until unused ones end after {} s, or \
             start the agent with a larger --parts-memory",
            age.as_secs()
        )
    }
}

/// A stored part.
#[derive(Debug)]
struct Part {
    pairs: Arc<Vec<Pair>>,
    bytes: u64,
    /// Time of its last use.
    used_at: Instant,
}

/// Parts by name.
#[derive(Debug, Default)]
struct Parts {
    by_name: BTreeMap<String, Part>,
    bytes: u64,
    /// No part is too old before this time.
    next_end: Option<Instant>,
}

impl Parts {
    fn remove(&mut self, name: &str) -> Option<Part> {
        let part = self.by_name.remove(name)?;
        self.bytes -= part.bytes;
        Some(part)
    }

    /// Takes the parts of which the names are chosen.
    fn remove_all(&mut self, names: Vec<String>) -> Vec<Part> {
        let removed = names.iter().filter_map(|name| self.remove(name));
        removed.collect()
    }

    /// Takes the parts that are too old.
    fn remove_old(&mut self, age: Duration, now: Instant) -> Vec<Part> {
        if self.next_end.is_none_or(|end| now < end) {
            return Vec::new();
        }
        let is_old = |part: &Part| part.used_at + age <= now;
        let old = self.by_name.iter().filter(|(_, part)| is_old(part));
        let old = old.map(|(name, _)| name.clone()).collect();
        let removed = self.remove_all(old);
        let left = self.by_name.values().map(|part| part.used_at + age);
        self.next_end = left.min();
        removed
    }
}

/// Parts by name, shared by the threads of an agent.
#[derive(Debug, Default)]
pub(crate) struct PartStore {
    limits: PartLimits,
    parts: Mutex<Parts>,
}

/// Returns the bytes of a part in memory.
fn bytes_of(name: &str, pairs: &[Pair]) -> u64 {
    let keys = pairs.iter().map(|pair| PAIR_BYTES + pair.key.len() as u64);
    name.len() as u64 + keys.sum::<u64>()
}

impl PartStore {
    /// Creates a store with these limits.
    pub(crate) fn new(limits: PartLimits) -> PartStore {
        PartStore {
            limits,
            parts: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        // No thread leaves the parts half changed.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a part in place of the one with this name. Old parts are dropped first.
    ///
    /// # Errors
    /// There is no room for it. The one before stays.
    pub(crate) fn put(
        &self,
        name: String,
        mut pairs: Vec<Pair>,
        now: Instant,
    ) -> Result<(), NoRoomError> {
        pairs.shrink_to_fit();
        let needed = bytes_of(&name, &pairs);
        self.drop_old(now);
        let mut parts = self.lock();
        let before = parts.by_name.get(&name).map_or(0, |part| part.bytes);
        let free = self.limits.bytes - (parts.bytes - before);
        if needed > free {
            return Err(NoRoomError {
                name,
                needed,
                free,
                limits: self.limits,
            });
        }
        let before = parts.remove(&name);
        parts.bytes += needed;
        parts.next_end.get_or_insert(now + self.limits.age);
        let part = Part {
            pairs: Arc::new(pairs),
            bytes: needed,
            used_at: now,
        };
        parts.by_name.insert(name, part);
        drop(parts);
        // A large one is freed without the lock.
        drop(before);
        Ok(())
    }

    /// Returns a part, which is used at this time.
    pub(crate) fn get(&self, name: &str, now: Instant) -> Option<Arc<Vec<Pair>>> {
        self.drop_old(now);
        let mut parts = self.lock();
        let part = parts.by_name.get_mut(name)?;
        part.used_at = now;
        Some(Arc::clone(&part.pairs))
    }

    /// Drops all parts with names that begin with this prefix.
    pub(crate) fn forget(&self, prefix: &str) {
        let mut parts = self.lock();
        let names = parts.by_name.range(prefix.to_owned()..);
        let names = names.map(|(name, _)| name.clone());
        let names = names.take_while(|name| name.starts_with(prefix)).collect();
        let dropped = parts.remove_all(names);
        drop(parts);
        drop(dropped);
    }

    /// Drops parts that have not been used for too long.
    pub(crate) fn drop_old(&self, now: Instant) {
        let old = self.lock().remove_old(self.limits.age, now);
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::rng::Rng;

    #[test]
    fn a_prefix_forgets_the_parts_that_begin_with_it_alone() {
        let (store, now) = (PartStore::default(), Instant::now());
        let names = ["a", "a/1", "a/10", "a/2", "ab", "b"];
        for (prefix, left) in [
            ("a/", &["a", "ab", "b"][..]),
            ("a/1", &["a", "a/2", "ab", "b"]),
            ("c", &names),
            ("", &[]),
        ] {
            store.forget("");
            for name in names {
                store.put(name.to_owned(), Vec::new(), now).unwrap();
            }
            store.forget(prefix);
            let is_there = |name: &&str| store.get(name, now).is_some();
            let found = names.into_iter().filter(is_there);
            assert_eq!(found.collect::<Vec<_>>(), left, "{prefix}");
        }
    }

    #[test]
    fn a_part_is_replaced_while_a_mapper_has_the_old_one() {
        let (store, now) = (PartStore::default(), Instant::now());
        let put = |value| store.put("a".to_owned(), vec![Pair::new(*b"k", value)], now);
        put(1).unwrap();
        let old = store.get("a", now).unwrap();
        put(2).unwrap();
        assert_eq!(old[0].value, 1);
        assert_eq!(store.get("a", now).unwrap()[0].value, 2);
    }

    #[test]
    fn a_part_without_room_is_refused_with_the_limit_and_the_old_one_stays() {
        let pair = |value| vec![Pair::new(*b"key", value)];
        let limits = PartLimits {
            bytes: 2 * bytes_of("a", &pair(0)),
            age: Duration::from_secs(60),
        };
        let (store, now) = (PartStore::new(limits), Instant::now());
        let put = |name: &str, pairs| store.put(name.to_owned(), pairs, now);
        put("a", pair(1)).unwrap();
        put("b", pair(1)).unwrap();
        let error = put("c", pair(1)).unwrap_err().to_string();
        let words = ["STORE: c", "0 of the agent's", "60 s", "--parts-memory"];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        // What replaces a part has its room.
        put("a", pair(2)).unwrap();
        assert!(put("a", [pair(1), pair(2), pair(3)].concat()).is_err());
        assert_eq!(store.get("a", now).unwrap()[0].value, 2);
        store.forget("b");
        put("c", pair(1)).unwrap();
    }

    #[test]
    fn parts_end_by_age_and_memory_is_that_of_a_plain_map() {
        let start = Instant::now();
        let age = Duration::from_secs(10);
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let bytes = rng.between(100, 2000);
            let store = PartStore::new(PartLimits { bytes, age });
            // By name: bytes and time of the last use.
            let mut plain: BTreeMap<String, (u64, Instant)> = BTreeMap::new();
            let mut now = start;
            for _ in 0..200 {
                now += Duration::from_secs(rng.below(4));
                plain.retain(|_, (_, used_at)| *used_at + age > now);
                let name = format!("{}", rng.below(12));
                match rng.below(5) {
                    0 => store.drop_old(now),
                    1 => {
                        store.forget(&name);
                        plain.retain(|other, _| !other.starts_with(&name));
                    }
                    2 => {
                        let found = store.get(&name, now).is_some();
                        assert_eq!(found, plain.contains_key(&name), "seed {seed}");
                        plain.entry(name).and_modify(|(_, used_at)| *used_at = now);
                    }
                    _ => {
                        let pairs = vec![Pair::new(*b"0123", 1); rng.index(12)];
                        let needed = bytes_of(&name, &pairs);
                        let others = plain.iter().filter(|(other, _)| **other != name);
                        let others: u64 = others.map(|(_, (bytes, _))| bytes).sum();
                        let has_room = others + needed <= bytes;
                        let put = store.put(name.clone(), pairs, now);
                        assert_eq!(put.is_ok(), has_room, "seed {seed}");
                        if has_room {
                            plain.insert(name, (needed, now));
                        }
                    }
                }
                store.drop_old(now);
                let held: u64 = plain.values().map(|(bytes, _)| bytes).sum();
                assert_eq!(store.lock().bytes, held, "seed {seed}");
            }
        }
    }
}
