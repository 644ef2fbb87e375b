//! Bloom filter (Bloom, 1970) of flows, as registers of a switch hold it: a bit vector for each
//! row, each with a hash function of its own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::SketchSize;
use crate::hash::RowHashes;

/// Bloom filter. Read and written for each packet, by several threads at once.
#[derive(Debug)]
pub struct BloomFilter {
    size: SketchSize,
    /// Bits of all rows, one row after another, each in whole words.
    words: Box<[AtomicU64]>,
    /// Number of bits that are set, by row.
    set: Box<[AtomicU32]>,
}

impl BloomFilter {
    /// Creates an empty filter of `columns` bits in each row. A size of 0 counts as 1.
    pub fn new(size: SketchSize) -> BloomFilter {
        let size = SketchSize {
            columns: size.columns.max(1),
            rows: size.rows.max(1),
        };
        let words = size.columns.div_ceil(64) as usize * size.rows as usize;
        BloomFilter {
            size,
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            set: (0..size.rows).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Returns the size.
    pub fn size(&self) -> SketchSize {
        self.size
    }

    /// Returns the word and the bit of the key in each row.
    #[inline]
    fn places(&self, key: &[u8]) -> impl Iterator<Item = (usize, u64)> + use<> {
        let mut hashes = RowHashes::new(key);
        let columns = self.size.columns;
        let words = columns.div_ceil(64) as usize;
        (0..self.size.rows).map(move |row| {
            let at = hashes.next_row() % columns;
            (row as usize * words + (at / 64) as usize, 1 << (at % 64))
        })
    }

    /// Adds a flow.
    #[inline]
    pub fn insert(&self, key: &[u8]) {
        for (row, (word, bit)) in self.places(key).enumerate() {
            let word = &self.words[word];
            if word.load(Relaxed) & bit == 0 {
                let before = word.fetch_or(bit, Relaxed);
                self.set[row].fetch_add(u32::from(before & bit == 0), Relaxed);
            }
        }
    }

    /// Returns true for each flow that was added, and for some others.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.places(key)
            .all(|(word, bit)| self.words[word].load(Relaxed) & bit != 0)
    }

    /// Removes all flows.
    pub fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
        self.set.iter().for_each(|set| set.store(0, Relaxed));
    }

    /// Returns the probability that a flow is found that was not added.
    pub fn error_rate(&self) -> f64 {
        let columns = f64::from(self.size.columns);
        self.set
            .iter()
            .map(|set| f64::from(set.load(Relaxed)) / columns)
            .product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_flows_are_found_and_few_others() {
        let size = SketchSize {
            columns: 1000,
            rows: 3,
        };
        let filter = BloomFilter::new(size);
        assert_eq!(filter.error_rate(), 0.0);
        for key in 0..200u64 {
            filter.insert(&key.to_be_bytes());
        }
        assert!((0..200u64).all(|key| filter.contains(&key.to_be_bytes())));
        let others = 1000..101_000u64;
        let found = others
            .filter(|key| filter.contains(&key.to_be_bytes()))
            .count();
        let rate = filter.error_rate();
        assert!((0.003..0.01).contains(&rate), "{rate}");
        assert!(
            (found as f64 / 100_000.0 - rate).abs() < rate,
            "{found} {rate}"
        );
        filter.clear();
        assert!((0..200u64).all(|key| !filter.contains(&key.to_be_bytes())));
    }
}
