//! A table of flows of fixed size: keys to places, for state that monitors hold beside it.

use std::hash::{Hash, Hasher};

use packet::Nanos;
use support::rng::mix;
use table::prefetch::prefetch;

/// Places of a bucket.
const BUCKET: usize = 8;

/// Key of a [`FlowTable`].
pub(crate) trait FlowTableKey: Copy + Eq {
    /// Returns a seeded hash: without the seed, keys of equal hash cannot be chosen.
    fn hash(&self, seed: u64) -> u64;
}

/// Tags of the places of a bucket, in half a cache line. A tag is a part of the key's hash, so a
/// lookup mostly compares one key; 0 is a free place.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Tags([u32; BUCKET]);

impl Tags {
    /// Returns the places with a tag, as bits.
    #[inline]
    fn with(&self, tag: u32) -> u32 {
        let places = self.0.iter().enumerate();
        places.fold(0, |bits, (at, it)| bits | u32::from(*it == tag) << at)
    }
}

/// A table of flows. A key has a place in one of two buckets of eight by a seeded hash, at first in
/// the one with more room. Known flows stay: a new one gets a free place, or that of a flow without
/// a report for a time, else none.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable<K> {
    tags: Box<[Tags]>,
    slots: Box<[Option<Slot<K>>]>,
    seed: u64,
    forget: Nanos,
    flows: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot<K> {
    key: K,
    last: Nanos,
}

/// Place of a flow in a [`FlowTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowPlace {
    /// Index of the place, below [`FlowTable::places`].
    pub(crate) index: usize,
    /// The flow is new: its state begins.
    pub(crate) is_new: bool,
}

/// Hash of a key: its tag and its two buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowHash(u64);

impl FlowHash {
    fn tag(self) -> u32 {
        (self.0 >> 20) as u32 | 1
    }
}

impl<K: FlowTableKey> FlowTable<K> {
    /// Creates a table for this number of flows, with at least half as many places more. A flow
    /// without a report for longer than `forget` may lose its place.
    pub(crate) fn new(flows: usize, forget: Nanos, seed: u64) -> FlowTable<K> {
        let buckets = Self::buckets_for(flows);
        FlowTable {
            tags: vec![Tags::default(); buckets].into(),
            slots: vec![None; buckets * BUCKET].into(),
            seed,
            forget,
            flows: 0,
        }
    }

    const fn buckets_for(flows: usize) -> usize {
        (flows + flows / 2).div_ceil(BUCKET).next_power_of_two()
    }

    /// Returns the bytes of a table for this number of flows, with a state of some bytes for each
    /// place.
    pub(crate) const fn bytes_for(flows: usize, state: usize) -> usize {
        let place = size_of::<Option<Slot<K>>>() + size_of::<Tags>() / BUCKET + state;
        Self::buckets_for(flows) * BUCKET * place
    }

    /// Returns the number of places.
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of flows.
    pub(crate) fn flows(&self) -> usize {
        self.flows
    }

    /// Returns the hash of a key.
    #[inline]
    pub(crate) fn hash(&self, key: &K) -> FlowHash {
        FlowHash(key.hash(self.seed))
    }

    #[inline]
    fn buckets(&self, FlowHash(hash): FlowHash) -> [usize; 2] {
        let mask = self.tags.len() - 1;
        [hash as usize & mask, (hash >> 32) as usize & mask]
    }

    /// Has the tags of a key read soon: step 1 of a lookup.
    #[inline]
    pub(crate) fn prefetch_tags(&self, hash: FlowHash) {
        for bucket in self.buckets(hash) {
            prefetch(&self.tags, bucket);
        }
    }

    /// Has the slots with the tag of a key read soon, and passes their places to `also`: step 2 of
    /// a lookup. Its memory was prefetched by step 1.
    #[inline]
    pub(crate) fn prefetch_slots(&self, hash: FlowHash, also: impl Fn(usize)) {
        for bucket in self.buckets(hash) {
            let mut places = self.tags[bucket].with(hash.tag());
            while places != 0 {
                let index = bucket * BUCKET + places.trailing_zeros() as usize;
                prefetch(&self.slots, index);
                also(index);
                places &= places - 1;
            }
        }
    }

    /// Returns the place of a flow, a new one if it has none. `None` if all its places are taken.
    #[inline]
    pub(crate) fn place(&mut self, key: &K, now: Nanos) -> Option<FlowPlace> {
        self.place_hashed(key, self.hash(key), now)
    }

    /// Returns the place of a flow with this hash, as [`FlowTable::place`].
    #[inline]
    pub(crate) fn place_hashed(
        &mut self,
        key: &K,
        hash: FlowHash,
        now: Nanos,
    ) -> Option<FlowPlace> {
        for bucket in self.buckets(hash) {
            let mut places = self.tags[bucket].with(hash.tag());
            while places != 0 {
                let index = bucket * BUCKET + places.trailing_zeros() as usize;
                if let Some(slot) = &mut self.slots[index]
                    && slot.key == *key
                {
                    slot.last = now;
                    let is_new = false;
                    return Some(FlowPlace { index, is_new });
                }
                places &= places - 1;
            }
        }
        self.add(key, hash, now)
    }

    /// Returns true if a flow has a place that it does not lose now.
    pub(crate) fn knows(&self, key: &K, now: Nanos) -> bool {
        let hash = self.hash(key);
        self.buckets(hash).into_iter().any(|bucket| {
            let slots = self.slots[bucket * BUCKET..][..BUCKET].iter().flatten();
            let mut own = slots.filter(|slot| slot.key == *key);
            own.any(|slot| now <= slot.last + self.forget)
        })
    }

    /// Gives a new flow a place.
    #[cold]
    fn add(&mut self, key: &K, hash: FlowHash, now: Nanos) -> Option<FlowPlace> {
        let (mut free, mut old, mut most) = (None, None, 0);
        for bucket in self.buckets(hash) {
            let (mut room, mut first) = (0, None);
            let start = bucket * BUCKET;
            for (index, slot) in (start..).zip(&self.slots[start..][..BUCKET]) {
                match slot {
                    Some(slot) if now > slot.last + self.forget => old = Some((index, true)),
                    Some(_) => {}
                    None => {
                        room += 1;
                        first = first.or(Some((index, false)));
                    }
                }
            }
            if room > most {
                (most, free) = (room, first);
            }
        }
        let (index, is_old) = free.or(old)?;
        self.flows += usize::from(!is_old);
        self.tags[index / BUCKET].0[index % BUCKET] = hash.tag();
        let (key, last) = (*key, now);
        self.slots[index] = Some(Slot { key, last });
        let is_new = true;
        Some(FlowPlace { index, is_new })
    }
}

/// Returns a seeded hash: without the seed, keys of equal hash cannot be chosen.
pub(crate) fn seeded_hash(seed: u64, key: &impl Hash) -> u64 {
    let mut hasher = SeededHasher(mix(seed));
    key.hash(&mut hasher);
    hasher.finish()
}

/// Hasher by [`mix`].
struct SeededHasher(u64);

impl Hasher for SeededHasher {
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use support::rng::Rng;

    use super::*;

    impl FlowTableKey for u64 {
        fn hash(&self, seed: u64) -> u64 {
            seeded_hash(seed, self)
        }
    }

    #[test]
    fn a_flow_keeps_its_place_while_others_come() {
        let mut table = FlowTable::new(1000, Nanos::from_secs(1), 7);
        let known = table.place(&0u64, Nanos::ZERO).unwrap();
        let mut rng = Rng::new(1);
        let others = (0..100_000).filter(|_| {
            let place = table.place(&rng.bits(), Nanos::from_millis(900));
            place.is_some()
        });
        assert!(others.count() < 4000);
        let found = table.place(&0, Nanos::from_secs(1)).unwrap();
        assert_eq!((found.index, found.is_new), (known.index, false));
        assert!(table.flows() <= table.places());
    }

    /// Offers new flows to a full table, and looks for known ones all the time.
    fn known_flows_stay(new_flows: u64) {
        let mut table = FlowTable::new(1000, Nanos::from_secs(1), 7);
        let known: Vec<(u64, usize)> = (1..=100)
            .map(|key| (key, table.place(&key, Nanos::ZERO).unwrap().index))
            .collect();
        let mut now = Nanos::ZERO;
        for number in 0..new_flows {
            now += Nanos(100);
            table.place(&(1 << 40 | number), now);
            let (key, index) = known[number as usize % known.len()];
            let found = table.place(&key, now).unwrap();
            assert_eq!((found.index, found.is_new), (index, false), "{key}");
        }
    }

    #[test]
    fn new_flows_take_no_place_of_known_ones() {
        known_flows_stay(100_000);
    }

    #[test]
    #[ignore = "ten million flows take a minute without optimisation"]
    fn ten_million_new_flows_take_no_place_of_known_ones() {
        known_flows_stay(10_000_000);
    }

    #[test]
    fn a_silent_flow_gives_its_place_to_a_new_one() {
        let mut table = FlowTable::new(1, Nanos(10), 7);
        let count = table.places() as u64;
        let placed = (0..count).filter(|key| table.place(key, Nanos(5)).is_some());
        assert_eq!(placed.count() as u64, count);
        assert_eq!(table.place(&count, Nanos(15)), None);
        let place = table.place(&count, Nanos(16)).unwrap();
        assert!(place.is_new);
        assert_eq!(table.flows() as u64, count);
    }

    #[test]
    fn the_table_holds_the_flows_that_it_is_made_for() {
        for seed in 0..20 {
            let mut table = FlowTable::new(43_000, Nanos::from_secs(1), seed);
            let placed = (0..43_000u64).filter(|key| table.place(key, Nanos(5)).is_some());
            assert_eq!(placed.count(), 43_000, "seed {seed}");
        }
    }
}
