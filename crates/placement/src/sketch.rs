//! Count-min sketch (Cormode, Muthukrishnan, 2005) of the packets by flow, as registers of a
//! switch hold it.
//!
//! A switch counts only packets that fly. A flow of which the estimate is above the threshold is
//! sent as a digest; P4Runtime's digest acknowledgement time-out of one window suppresses repeated
//! ones. At the end of a window the control plane reads the registers, estimates the reported flows
//! by the same functions, and clears the registers.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::SketchSize;
use crate::hash::RowHashes;

/// Count-min sketch: rows of saturating 32-bit counters. Read and written for each packet, by
/// several threads at once.
#[derive(Debug)]
pub struct Sketch {
    size: SketchSize,
    /// All rows, one after another.
    cells: Box<[AtomicU32]>,
}

impl Sketch {
    /// Creates a sketch of zeros. A size of 0 columns or rows counts as 1.
    pub fn new(size: SketchSize) -> Sketch {
        let size = SketchSize {
            columns: size.columns.max(1),
            rows: size.rows.max(1),
        };
        Sketch {
            size,
            cells: (0..size.columns as usize * size.rows as usize)
                .map(|_| AtomicU32::new(0))
                .collect(),
        }
    }

    /// Returns the size.
    pub fn size(&self) -> SketchSize {
        self.size
    }

    /// Returns the indices of the key's cells, one in each row.
    #[inline]
    fn cells_of(&self, key: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let mut hashes = RowHashes::new(key);
        let columns = self.size.columns;
        (0..self.size.rows).map(move |row| {
            row as usize * columns as usize + (hashes.next_row() % columns) as usize
        })
    }

    /// Counts a packet of the flow and returns the estimate of its packets: at least the true
    /// number.
    #[inline]
    pub fn count(&self, key: &[u8]) -> u32 {
        let mut estimate = u32::MAX;
        for at in self.cells_of(key) {
            let more = |cell: u32| cell.checked_add(1);
            let before = self.cells[at].fetch_update(Relaxed, Relaxed, more);
            estimate = estimate.min(before.map_or(u32::MAX, |before| before + 1));
        }
        estimate
    }

    /// Returns the estimate of a flow's packets.
    #[inline]
    pub fn estimate(&self, key: &[u8]) -> u32 {
        let cells = self.cells_of(key).map(|at| self.cells[at].load(Relaxed));
        cells.min().unwrap_or(0)
    }

    /// Sets all counters to zero, as at the end of a window.
    pub fn clear(&self) {
        self.cells.iter().for_each(|cell| cell.store(0, Relaxed));
    }

    /// Copies one row of counters as read from a switch. Counters that are absent become zero.
    pub fn set_row(&self, row: u32, counters: &[u32]) {
        let columns = self.size.columns as usize;
        let cells = self.cells.chunks(columns).nth(row as usize);
        for (at, cell) in cells.into_iter().flatten().enumerate() {
            cell.store(counters.get(at).copied().unwrap_or(0), Relaxed);
        }
    }

    /// Returns one row of counters.
    pub fn row(&self, row: u32) -> Vec<u32> {
        let columns = self.size.columns as usize;
        let cells = self.cells.chunks(columns).nth(row as usize);
        let cells = cells.into_iter().flatten();
        cells.map(|cell| cell.load(Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use support::crc::crc32;
    use support::rng::Rng;

    const SIZE: SketchSize = SketchSize {
        columns: 256,
        rows: 2,
    };

    #[test]
    fn an_estimate_is_at_least_the_true_count() {
        let sketch = Sketch::new(SIZE);
        let mut rng = Rng::new(1);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for _ in 0..20_000 {
            let key = rng.below(1000);
            *counts.entry(key).or_default() += 1;
            let estimate = sketch.count(&key.to_be_bytes());
            assert!(estimate >= counts[&key]);
            assert_eq!(estimate, sketch.estimate(&key.to_be_bytes()));
        }
        sketch.clear();
        assert_eq!(sketch.estimate(&1u64.to_be_bytes()), 0);
    }

    #[test]
    fn the_cells_are_those_of_the_p4_program() {
        let sketch = Sketch::new(SIZE);
        sketch.count(b"flow");
        let first = crc32(b"flow") % 256;
        let second = crc32(b"flow\x9e\x37\x79\xb9") % 256;
        assert_eq!(sketch.row(0)[first as usize], 1);
        assert_eq!(sketch.row(1)[second as usize], 1);
        assert_eq!(sketch.row(0).iter().chain(&sketch.row(1)).sum::<u32>(), 2);
    }

    #[test]
    fn rows_read_from_a_switch_give_its_estimates() {
        let switch = Sketch::new(SIZE);
        for key in 0..2000u64 {
            switch.count(&(key % 700).to_be_bytes());
        }
        let control = Sketch::new(SIZE);
        for row in 0..SIZE.rows {
            control.set_row(row, &switch.row(row));
        }
        for key in 0..700u64 {
            let key = key.to_be_bytes();
            assert_eq!(control.estimate(&key), switch.estimate(&key));
        }
    }

    #[test]
    fn a_counter_saturates() {
        let sketch = Sketch::new(SketchSize {
            columns: 1,
            rows: 1,
        });
        sketch.set_row(0, &[u32::MAX - 1]);
        assert_eq!(sketch.count(b"a"), u32::MAX);
        assert_eq!(sketch.count(b"a"), u32::MAX);
    }
}
