//! [`Pool`]: leases of ranges of values, without locks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Number of chunks in which a large pool is divided.
const CHUNKS: u32 = 1024;

/// Maximum number of values in a chunk.
const MAX_CHUNK: u32 = 1 << 16;

/// Pool of the values from 0 to a size, divided into chunks that are leased as a whole.
#[derive(Debug)]
pub(crate) struct Pool {
    size: u32,
    /// Number of values in a chunk. The last chunk may have fewer.
    chunk: u32,
    /// One bit for each chunk, set while it is leased. Bits beyond the last chunk are set.
    leased: Box<[AtomicU64]>,
    /// The server that leased each chunk last.
    servers: Box<[AtomicU32]>,
    part: PoolPart,
}

/// Part of all pools: every `of`th chunk, from chunk number `part` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolPart {
    /// Number of the part, below `of`.
    pub(crate) part: u32,
    /// Number of parts, at least 1.
    pub(crate) of: u32,
}

impl PoolPart {
    /// The whole pool.
    pub(crate) const WHOLE: PoolPart = PoolPart { part: 0, of: 1 };

    fn has(self, chunk: u32) -> bool {
        chunk % self.of == self.part
    }
}

impl Default for PoolPart {
    fn default() -> Self {
        PoolPart::WHOLE
    }
}

impl Pool {
    /// Creates a pool. Only chunks of the part can be leased.
    pub(crate) fn new(size: u32, part: PoolPart) -> Pool {
        let chunk = (size / CHUNKS).clamp(1, MAX_CHUNK);
        let chunks = size.div_ceil(chunk);
        let words = chunks.div_ceil(64);
        let word = |at: u32| {
            let is_free = |bit: &u32| {
                let chunk = at * 64 + bit;
                chunk < chunks && part.has(chunk)
            };
            let free = (0..64).filter(is_free);
            AtomicU64::new(!free.fold(0, |bits, bit| bits | 1 << bit))
        };
        Pool {
            size,
            chunk,
            leased: (0..words).map(word).collect(),
            servers: (0..chunks).map(|_| AtomicU32::new(0)).collect(),
            part,
        }
    }

    /// Returns the number of values in a chunk.
    pub(crate) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Returns the server that has leased a value.
    pub(crate) fn owner(&self, value: u32) -> Option<u32> {
        if value >= self.size {
            return None;
        }
        let chunk = value / self.chunk;
        let bits = self.leased.get((chunk / 64) as usize)?.load(SeqCst);
        // Chunks of other parts count as leased, and their servers are unknown.
        let is_leased = bits & 1 << (chunk % 64) != 0 && self.part.has(chunk);
        is_leased.then(|| self.servers[chunk as usize].load(SeqCst))
    }

    /// Leases the lowest free chunk to a server. Returns its first value and the number of values,
    /// or `None` if all are leased.
    pub(crate) fn lease(&self, server: u32) -> Option<(u32, u32)> {
        for (at, word) in self.leased.iter().enumerate() {
            let mut bits = word.load(SeqCst);
            while bits != u64::MAX {
                let free = bits.trailing_ones();
                let taken = bits | 1 << free;
                match word.compare_exchange_weak(bits, taken, SeqCst, SeqCst) {
                    Ok(_) => {
                        let number = at as u32 * 64 + free;
                        self.servers[number as usize].store(server, SeqCst);
                        let first = number * self.chunk;
                        return Some((first, self.chunk.min(self.size - first)));
                    }
                    Err(now) => bits = now,
                }
            }
        }
        None
    }

    /// Ends the lease of the chunk that begins with this value. Returns false if there is none.
    pub(crate) fn release(&self, first: u32) -> bool {
        let is_own = self.part.has(first / self.chunk);
        if first >= self.size || !first.is_multiple_of(self.chunk) || !is_own {
            return false;
        }
        let chunk = first / self.chunk;
        let Some(word) = self.leased.get((chunk / 64) as usize) else {
            return false;
        };
        let bit = 1 << (chunk % 64);
        word.fetch_and(!bit, SeqCst) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::Ordering::Relaxed;

    fn all(pool: &Pool) -> Vec<(u32, u32)> {
        std::iter::from_fn(|| pool.lease(0)).collect()
    }

    #[test]
    fn parts_of_a_pool_are_disjoint_and_cover_it() {
        for size in [1, 2, 7, 64, 100, 5000, 64_512] {
            let mut values = Vec::new();
            for part in 0..3 {
                let pool = Pool::new(size, PoolPart { part, of: 3 });
                let leases = all(&pool);
                for (first, count) in &leases {
                    values.extend(*first..first + count);
                }
                assert!(leases.iter().all(|lease| pool.release(lease.0)));
                assert_eq!(all(&pool), leases);
                let other = Pool::new(
                    size,
                    PoolPart {
                        part: (part + 1) % 3,
                        of: 3,
                    },
                );
                assert!(leases.iter().all(|lease| !other.release(lease.0)));
            }
            values.sort_unstable();
            assert!(values.into_iter().eq(0..size), "{size}");
        }
    }

    #[test]
    fn a_leased_value_has_the_server_that_leased_it() {
        let pool = Pool::new(5000, PoolPart::WHOLE);
        assert_eq!(pool.owner(0), None);
        let (first, count) = pool.lease(3).unwrap();
        let (second, _) = pool.lease(1).unwrap();
        assert_eq!(pool.owner(first + count - 1), Some(3));
        assert_eq!(pool.owner(second), Some(1));
        assert!(pool.release(first));
        assert_eq!(pool.owner(first), None);
        assert_eq!(pool.owner(5000), None);
        let part = Pool::new(10, PoolPart { part: 1, of: 2 });
        assert_eq!(part.owner(0), None);
    }

    proptest! {
        #[test]
        fn leases_are_disjoint_and_cover_the_pool(size in prop_oneof![0u32..5000, any::<u32>()]) {
            let pool = Pool::new(size, PoolPart::WHOLE);
            let mut next = 0;
            for (first, count) in all(&pool) {
                prop_assert_eq!(first, next);
                prop_assert!(count > 0);
                next += count;
            }
            prop_assert_eq!(next, size);
        }

        #[test]
        fn it_equals_a_set(size in 1u32..3000, steps in proptest::collection::vec(0u32..4000, 0..200)) {
            let pool = Pool::new(size, PoolPart::WHOLE);
            let mut held = std::collections::BTreeSet::new();
            let chunks = size.div_ceil(pool.chunk);
            for step in steps {
                if step % 2 == 0 {
                    let free = (0..chunks).map(|at| at * pool.chunk).find(|at| !held.contains(at));
                    prop_assert_eq!(pool.lease(0).map(|lease| lease.0), free);
                    held.extend(free);
                } else {
                    let first = step / 2;
                    prop_assert_eq!(pool.release(first), held.remove(&first));
                }
            }
        }
    }

    #[test]
    fn threads_never_hold_the_same_value() {
        let pool = Pool::new(5000, PoolPart::WHOLE);
        let holders: Vec<AtomicU32> = (0..5000).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (pool, holders) = (&pool, &holders);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    let mut random = u64::from(thread) + 1;
                    for _ in 0..20_000 {
                        random = support::rng::mix(random.wrapping_add(1));
                        if random % 5 < 3 {
                            let Some((first, count)) = pool.lease(0) else {
                                continue;
                            };
                            for value in first..first + count {
                                assert_eq!(holders[value as usize].swap(thread + 1, Relaxed), 0);
                            }
                            mine.push((first, count));
                        } else if let Some((first, count)) = mine.pop() {
                            for value in first..first + count {
                                assert_eq!(holders[value as usize].swap(0, Relaxed), thread + 1);
                            }
                            assert!(pool.release(first));
                        }
                    }
                    for (first, count) in mine {
                        for value in first..first + count {
                            holders[value as usize].store(0, Relaxed);
                        }
                        assert!(pool.release(first));
                    }
                });
            }
        });
        assert_eq!(all(&pool).iter().map(|lease| lease.1).sum::<u32>(), 5000);
    }
}
