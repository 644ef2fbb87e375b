//! Bloom filter (Bloom, 1970) of flows, as registers of a switch hold it: a bit vector for each
//! row, each with a hash function of its own.

use crate::SketchSize;
use crate::hash::RowHashes;

/// Bloom filter. Read and written for each packet.
#[derive(Clone, Debug)]
pub struct BloomFilter {
    size: SketchSize,
    /// Bits of all rows, one row after another, each in whole words.
    words: Vec<u64>,
    /// Number of bits that are set, by row.
    set: Vec<u32>,
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
            words: vec![0; words],
            set: vec![0; size.rows as usize],
        }
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
    pub fn insert(&mut self, key: &[u8]) {
        for (row, (word, bit)) in self.places(key).enumerate() {
            let word = &mut self.words[word];
            self.set[row] += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Returns true for each flow that was added, and for some others.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.places(key)
            .all(|(word, bit)| self.words[word] & bit != 0)
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.set.fill(0);
    }

    /// Returns the probability that a flow is found that was not added.
    pub fn error_rate(&self) -> f64 {
        let columns = f64::from(self.size.columns);
        self.set
            .iter()
            .map(|&set| f64::from(set) / columns)
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
        let mut filter = BloomFilter::new(size);
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
