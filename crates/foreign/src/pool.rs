//! [`Pool`]: leases of ranges of values, without locks.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

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
}

impl Pool {
    pub(crate) fn new(size: u32) -> Pool {
        let chunk = (size / CHUNKS).clamp(1, MAX_CHUNK);
        let chunks = size.div_ceil(chunk);
        let words = chunks.div_ceil(64);
        let word = |at: u32| match chunks - at * 64 {
            bits @ 0..64 => AtomicU64::new(u64::MAX << bits),
            _ => AtomicU64::new(0),
        };
        Pool {
            size,
            chunk,
            leased: (0..words).map(word).collect(),
        }
    }

    /// Leases the lowest free chunk. Returns its first value and the number of values, or `None` if
    /// all are leased.
    pub(crate) fn lease(&self) -> Option<(u32, u32)> {
        for (at, word) in self.leased.iter().enumerate() {
            let mut bits = word.load(SeqCst);
            while bits != u64::MAX {
                let free = bits.trailing_ones();
                let taken = bits | 1 << free;
                match word.compare_exchange_weak(bits, taken, SeqCst, SeqCst) {
                    Ok(_) => {
                        let first = (at as u32 * 64 + free) * self.chunk;
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
        if first >= self.size || !first.is_multiple_of(self.chunk) {
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
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    fn all(pool: &Pool) -> Vec<(u32, u32)> {
        std::iter::from_fn(|| pool.lease()).collect()
    }

    proptest! {
        #[test]
        fn leases_are_disjoint_and_cover_the_pool(size in prop_oneof![0u32..5000, any::<u32>()]) {
            let pool = Pool::new(size);
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
            let pool = Pool::new(size);
            let mut held = std::collections::BTreeSet::new();
            let chunks = size.div_ceil(pool.chunk);
            for step in steps {
                if step % 2 == 0 {
                    let free = (0..chunks).map(|at| at * pool.chunk).find(|at| !held.contains(at));
                    prop_assert_eq!(pool.lease().map(|lease| lease.0), free);
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
        let pool = Pool::new(5000);
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
                            let Some((first, count)) = pool.lease() else {
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
