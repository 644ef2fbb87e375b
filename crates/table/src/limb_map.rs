//! [`LimbMap`]: hash map with limbs as keys. A clone costs almost nothing, because it is built from
//! [`Paged`].

use crate::paged::Paged;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// Hashes limbs. The function is the same in every run and has no secret, so an attacker can
/// construct keys that collide.
#[inline]
pub(crate) fn hash(limbs: impl Iterator<Item = u64>) -> u64 {
    limbs
        .fold(0x243f_6a88_85a3_08d3, |hash, limb| {
            fold(hash ^ limb, 0x9e37_79b9_7f4a_7c15)
        })
        .wrapping_mul(0xd1b5_4a32_d192_ed03)
        .rotate_left(32)
}

/// Returns the XOR of both halves of the 128-bit product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hash table with open addressing and linear probing, at most three quarters full. The positions
/// of keys depend on a random secret of each map, so that colliding keys cannot be chosen in
/// advance. Lookup results do not depend on the secret.
#[derive(Debug, Clone)]
pub(crate) struct LimbMap<V> {
    secret: u64,
    slots: Paged<Option<Slot<V>>>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Slot<V> {
    hash: u64,
    key: Arc<[u64]>,
    value: V,
}

impl<V: Clone> LimbMap<V> {
    pub(crate) fn new() -> Self {
        Self::with_secret(RandomState::new().build_hasher().finish())
    }

    fn with_secret(secret: u64) -> Self {
        Self {
            secret,
            slots: Paged::filled(4, None),
            len: 0,
        }
    }

    #[inline]
    fn hash(&self, limbs: impl Iterator<Item = u64>) -> u64 {
        hash(std::iter::once(self.secret).chain(limbs))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the approximate size in bytes, without memory that the values own.
    pub(crate) fn memory(&self) -> usize {
        let keys = (0..self.slots.len()).filter_map(|i| self.slots.get(i).as_ref());
        let keys = keys.map(|slot| size_of_val(&*slot.key) + 2 * size_of::<usize>());
        self.slots.memory() + keys.sum::<usize>()
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u64]) -> Option<&V> {
        let place = self
            .find(self.hash(key.iter().copied()), |stored| stored == key)
            .ok()?;
        self.slots.get(place).as_ref().map(|slot| &slot.value)
    }

    /// Returns the value of `key & mask`.
    #[inline]
    pub(crate) fn get_masked(&self, key: &[u64], mask: &[u64]) -> Option<&V> {
        let masked = || key.iter().zip(mask).map(|(limb, mask)| limb & mask);
        let place = self
            .find(self.hash(masked()), |stored| {
                masked().eq(stored.iter().copied())
            })
            .ok()?;
        self.slots.get(place).as_ref().map(|slot| &slot.value)
    }

    pub(crate) fn get_mut(&mut self, key: &[u64]) -> Option<&mut V> {
        let place = self
            .find(self.hash(key.iter().copied()), |stored| stored == key)
            .ok()?;
        self.slots
            .get_mut(place)
            .as_mut()
            .map(|slot| &mut slot.value)
    }

    /// Inserts a value and returns the one that it replaces.
    pub(crate) fn insert(&mut self, key: &[u64], value: V) -> Option<V> {
        if let Some(old) = self.get_mut(key) {
            return Some(std::mem::replace(old, value));
        }
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.put(Slot {
            hash: self.hash(key.iter().copied()),
            key: key.into(),
            value,
        });
        self.len += 1;
        None
    }

    /// Removes a value and returns it. Later elements of the same probe sequence move up if they
    /// may, so that no tombstone is needed.
    pub(crate) fn remove(&mut self, key: &[u64]) -> Option<V> {
        let mut hole = self
            .find(self.hash(key.iter().copied()), |stored| stored == key)
            .ok()?;
        let removed = self.slots.get_mut(hole).take();
        self.len -= 1;
        let mask = self.slots.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let Some(slot) = self.slots.get(next) else {
                break;
            };
            let home = slot.hash as usize & mask;
            // The element may move to the hole if its probe sequence starts at the hole or before.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                let moved = self.slots.get_mut(next).take();
                *self.slots.get_mut(hole) = moved;
                hole = next;
            }
        }
        removed.map(|slot| slot.value)
    }

    /// Returns the position of the key, or as an error the free position that ends the search.
    #[inline]
    fn find(&self, hash: u64, is_key: impl Fn(&[u64]) -> bool) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        while let Some(slot) = self.slots.get(place) {
            if slot.hash == hash && is_key(&slot.key) {
                return Ok(place);
            }
            place = (place + 1) & mask;
        }
        Err(place)
    }

    fn put(&mut self, slot: Slot<V>) {
        if let Err(place) = self.find(slot.hash, |_| false) {
            *self.slots.get_mut(place) = Some(slot);
        }
    }

    fn grow(&mut self) {
        let doubled = Paged::filled(self.slots.len() * 2, None);
        let old = std::mem::replace(&mut self.slots, doubled);
        for slot in (0..old.len()).filter_map(|i| old.get(i).clone()) {
            self.put(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_equals_the_map_of_the_standard_library(
            steps in proptest::collection::vec((any::<bool>(), 0u64..60, any::<u32>()), 0..usual_or_interpreted(300, 30))
        ) {
            let mut map = LimbMap::new();
            let mut model = HashMap::new();
            let mut copies = Vec::new();
            for (insert, key, value) in steps {
                let key = [key, key / 7];
                if insert {
                    prop_assert_eq!(map.insert(&key, value), model.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                copies.push((map.clone(), model.clone()));
            }
            for (map, model) in &copies[copies.len().saturating_sub(20)..] {
                prop_assert_eq!(map.is_empty(), model.is_empty());
                for key in (0..60).map(|key| [key, key / 7]) {
                    prop_assert_eq!(map.get(&key), model.get(&key));
                    let noisy = [key[0] | 1 << 40, key[1] | 1 << 9];
                    prop_assert_eq!(map.get_masked(&noisy, &[0xff, 0xff]), model.get(&key));
                }
            }
        }
    }
    /// Returns the largest distance of a key from its home position.
    fn farthest(map: &LimbMap<u32>) -> usize {
        let mask = map.slots.len() - 1;
        let slots = (0..map.slots.len()).filter_map(|at| Some((at, map.slots.get(at).as_ref()?)));
        let distances = slots.map(|(at, slot)| at.wrapping_sub(slot.hash as usize) & mask);
        distances.max().unwrap_or(0)
    }

    #[test]
    fn keys_that_collide_under_one_secret_do_not_under_another() {
        const KEYS: usize = usual_or_interpreted(500, 120);
        // More than the number of positions of a map with this number of keys.
        const HOMES: u64 = usual_or_interpreted(1 << 12, 1 << 9) as u64;
        let known = LimbMap::<u32>::with_secret(7);
        let collides = |key: &u64| known.hash([*key].into_iter()) % HOMES == 5;
        let keys: Vec<u64> = (0..).filter(collides).take(KEYS).collect();
        let filled = |mut map: LimbMap<u32>| {
            for &key in &keys {
                map.insert(&[key], 1);
            }
            farthest(&map)
        };
        assert!(filled(known.clone()) > KEYS * 4 / 5);
        assert!(filled(LimbMap::new()) < KEYS / 3);
    }
}
