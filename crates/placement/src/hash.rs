//! Hash functions of the sketch, the filters and the groups, which P4 programs compute alike.
//!
//! Row `r` hashes the key and `r` copies of [`SEED`] after it, as v1model does by
//!
//! ```p4
//! hash(cell, HashAlgorithm.crc32, 32w0, { key, SEED, SEED }, COLUMNS);   // row 2
//! ```
//!
//! and PSA by a `Hash` with `CRC32`. The key is the packed list of its fields in network byte
//! order, in whole bytes. Seeds stand after the key, because CRCs are linear: a seed before it
//! changes all results by one constant, and two flows that share a cell in one row would share
//! one in each row. Bytes after it multiply the remainder by a power of x, so each row selects
//! other bits of it.

use support::crc::Crc32;

/// Word after the key, once for each row after the first.
pub const SEED: u32 = 0x9e37_79b9;

/// Iterator over the hashes of one key, row by row. The key is read once.
#[derive(Clone, Debug)]
pub struct RowHashes(Crc32);

impl RowHashes {
    /// Hashes a key.
    #[inline]
    pub fn new(key: &[u8]) -> RowHashes {
        let mut crc = Crc32::new();
        crc.add(key);
        RowHashes(crc)
    }

    /// Returns the hash of the next row.
    #[inline]
    pub fn next_row(&mut self) -> u32 {
        let hash = self.0.get();
        self.0.add(&SEED.to_be_bytes());
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use support::crc::crc32;

    #[test]
    fn a_row_is_the_crc_of_the_key_and_its_seeds() {
        let mut rows = RowHashes::new(b"key");
        assert_eq!(rows.next_row(), crc32(b"key"));
        assert_eq!(rows.next_row(), crc32(b"key\x9e\x37\x79\xb9"));
        assert_eq!(
            rows.next_row(),
            crc32(b"key\x9e\x37\x79\xb9\x9e\x37\x79\xb9")
        );
    }

    /// Returns the rank of the words as vectors over the field of two elements.
    fn rank(mut words: Vec<u64>) -> usize {
        let mut rank = 0;
        for bit in 0..64 {
            let Some(at) = (rank..words.len()).find(|&i| words[i] >> bit & 1 == 1) else {
                continue;
            };
            words.swap(rank, at);
            let pivot = words[rank];
            for (i, word) in words.iter_mut().enumerate() {
                if i != rank && *word >> bit & 1 == 1 {
                    *word ^= pivot;
                }
            }
            rank += 1;
        }
        rank
    }

    /// Checks that the low `bits` of the first `rows` rows are independent functions of a key, but
    /// for two bits at most.
    fn check(rows: u32, bits: u32) {
        let all = |key: u64| {
            let mut hashes = RowHashes::new(&key.to_be_bytes());
            (0..rows).fold(0u64, |joint, _| {
                joint << bits | u64::from(hashes.next_row()) & ((1 << bits) - 1)
            })
        };
        let zero = all(0);
        let images = (0..64).map(|bit| all(1 << bit) ^ zero).collect();
        let rank = rank(images);
        assert!(
            rank + 2 >= (rows * bits) as usize,
            "{rows} rows, {bits} bits: {rank}"
        );
    }

    #[test]
    fn rows_of_one_key_are_independent() {
        for (rows, bits) in [(2, 10), (2, 13), (2, 14), (2, 16), (3, 10), (4, 8), (1, 32)] {
            check(rows, bits);
        }
    }
}
