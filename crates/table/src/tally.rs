//! [`Tally`]: sharded counters. Several threads count without synchronization, and the control side
//! sums.
//!
//! Each writer has its own shard ([`CounterShard`]), which no other thread writes. Counting is
//! therefore a load, an addition and a store. It needs no locked instruction, and no cache line
//! moves between cores. A reading is the sum over all shards plus what the control side has set.
//! For a time ([`TIME`]) it is the latest. Sums wrap at 64 bits.

use bits::{Id, define_id};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

define_id! {
    /// Index of a counter shard. At most one thread may count in a shard at any time. Two threads
    /// would lose counts, but cause no other harm.
    pub struct CounterShard;
}

/// Index of the word in a row, if rows have that many, that holds a time. Times of several writers
/// are combined by taking the latest.
pub(crate) const TIME: usize = 2;

/// Combines what two writers have put into a word.
#[inline]
fn join(word: usize, one: u64, other: u64) -> u64 {
    match word {
        TIME => one.max(other),
        _ => one.wrapping_add(other),
    }
}

/// Cells that packets count in, as one snapshot sees them: rows of `words` words, in each shard.
#[derive(Debug)]
pub struct Cells {
    words: usize,
    lanes: Box<[Box<[AtomicU64]>]>,
}

impl Cells {
    fn new(lanes: usize, rows: usize, words: usize) -> Self {
        let lane = || (0..rows * words).map(|_| AtomicU64::new(0)).collect();
        Self {
            words,
            lanes: (0..lanes.max(1)).map(|_| lane()).collect(),
        }
    }

    /// Returns the cells of a shard, row by row. A shard that was added later than these cells
    /// shares the last one.
    #[inline]
    pub fn lane(&self, lane: CounterShard) -> &[AtomicU64] {
        &self.lanes[lane.index().min(self.lanes.len() - 1)]
    }

    /// Returns the number of words in a row.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns a row of a shard; empty if there is no such row.
    #[inline]
    pub(crate) fn row(&self, lane: CounterShard, row: usize) -> &[AtomicU64] {
        let first = row * self.words;
        let row = self.lane(lane).get(first..first + self.words);
        row.unwrap_or_default()
    }

    fn read(&self, row: usize, word: usize) -> u64 {
        let cells = self.lanes.iter();
        let values =
            cells.filter_map(|lane| Some(lane.get(row * self.words + word)?.load(Relaxed)));
        values.fold(0, |sum, value| join(word, sum, value))
    }
}

/// Adds to a cell that no other thread writes.
#[inline(always)]
pub(crate) fn add(cell: &AtomicU64, amount: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// Control side of rows of counters. The number of rows may grow; packets that hold older cells
/// continue to count there.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    words: usize,
    rows: usize,
    lanes: usize,
    /// Sum that the control side has added to each word.
    own: Vec<u64>,
    /// True if `own` has only zeros. The system then gives no memory for it.
    is_own_zero: bool,
    /// All cells that some thread may count in. New packets count in the last.
    cells: Vec<Arc<Cells>>,
}

impl Tally {
    /// Creates rows of `words` words, all 0, with one shard.
    pub(crate) fn new(rows: usize, words: usize) -> Self {
        Self {
            words,
            rows,
            lanes: 1,
            own: vec![0; rows * words],
            is_own_zero: true,
            cells: vec![Arc::new(Cells::new(1, rows, words))],
        }
    }

    /// Returns the cells that packets count in.
    pub(crate) fn cells(&self) -> &Arc<Cells> {
        self.cells.last().expect("there are always cells")
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Changes the number of rows to `rows`, which must not be less than before, and the number of
    /// shards to `lanes`.
    pub(crate) fn resize(&mut self, rows: usize, lanes: usize) {
        if (rows, lanes) == (self.rows, self.lanes) {
            return;
        }
        (self.rows, self.lanes) = (rows, lanes);
        match self.is_own_zero {
            true => self.own = vec![0; rows * self.words],
            false => self.own.resize(rows * self.words, 0),
        }
        self.cells
            .push(Arc::new(Cells::new(lanes, rows, self.words)));
        self.fold();
    }

    /// Returns the number of shards.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn memory(&self) -> usize {
        let cells = self.cells.iter().flat_map(|cells| &cells.lanes);
        let words = self.own.len() + cells.map(|lane| lane.len()).sum::<usize>();
        words * size_of::<u64>()
    }

    /// Adds cells that no packet can reach any more to the sums, and frees them.
    fn fold(&mut self) {
        let newest = self.cells.len() - 1;
        for mut old in std::mem::take(&mut self.cells).into_iter().enumerate() {
            if old.0 == newest || Arc::get_mut(&mut old.1).is_none() {
                self.cells.push(old.1);
                continue;
            }
            for lane in &old.1.lanes {
                for (at, cell) in lane.iter().enumerate().take(self.own.len()) {
                    self.set_own(at, join(at % self.words, self.own[at], cell.load(Relaxed)));
                }
            }
        }
    }

    /// Sets a word of `own`. A word that stays 0 is not written.
    fn set_own(&mut self, at: usize, value: u64) {
        if self.own[at] != value {
            self.own[at] = value;
            self.is_own_zero = false;
        }
    }

    /// Reads a word of a row: the sum of all shards, or the latest time.
    pub(crate) fn read(&self, row: usize, word: usize) -> u64 {
        let own = self.own[row * self.words + word];
        let cells = self.cells.iter().map(|cells| cells.read(row, word));
        cells.fold(own, |sum, value| join(word, sum, value))
    }

    /// Adds to a word what no packet has counted in a shard. A time becomes no earlier.
    pub(crate) fn add(&mut self, row: usize, word: usize, amount: u64) {
        let at = row * self.words + word;
        self.set_own(at, join(word, self.own[at], amount));
    }

    /// Sets the value that [`read`](Self::read) returns. A time is never set back. Concurrent
    /// counts of packets are not lost.
    pub(crate) fn write(&mut self, row: usize, word: usize, value: u64) {
        let now = self.read(row, word);
        let at = row * self.words + word;
        let own = match word {
            TIME => value,
            _ => self.own[at].wrapping_add(value.wrapping_sub(now)),
        };
        self.set_own(at, own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_size::usual_or_interpreted;

    #[test]
    fn lanes_and_cells_that_packets_still_hold_are_summed() {
        let mut tally = Tally::new(2, 4);
        let old = tally.cells().clone();
        add(&old.row(CounterShard::new(0), 1)[0], 5);
        tally.resize(3, 2);
        let new = tally.cells().clone();
        add(&old.row(CounterShard::new(0), 1)[0], 1);
        add(&new.row(CounterShard::new(0), 1)[0], 10);
        add(&new.row(CounterShard::new(1), 1)[0], 20);
        old.row(CounterShard::new(0), 1)[TIME].store(7, Relaxed);
        new.row(CounterShard::new(1), 1)[TIME].store(9, Relaxed);
        assert_eq!((tally.read(1, 0), tally.read(1, TIME)), (36, 9));
        tally.add(1, 0, 2);
        tally.add(1, TIME, 8);
        assert_eq!((tally.read(1, 0), tally.read(1, TIME)), (38, 9));
        tally.write(1, 0, 3);
        add(&old.row(CounterShard::new(0), 1)[0], 1);
        assert_eq!(tally.read(1, 0), 4);
        drop(old);
        tally.resize(8, 2);
        assert_eq!(
            (tally.cells.len(), tally.read(1, 0), tally.read(1, TIME)),
            (2, 4, 9)
        );
        assert!(new.row(CounterShard::new(0), 3).is_empty());
    }

    /// Number of increments of each writer.
    const TIMES: usize = usual_or_interpreted(10_000, 100);

    #[test]
    fn writers_with_a_lane_each_lose_nothing() {
        let mut tally = Tally::new(1, 2);
        tally.resize(1, 4);
        let cells = tally.cells();
        std::thread::scope(|scope| {
            for lane in 0..4 {
                scope.spawn(move || {
                    let row = cells.row(CounterShard::new(lane), 0);
                    (0..TIMES).for_each(|_| add(&row[0], 1));
                });
            }
        });
        assert_eq!(tally.read(0, 0), 4 * TIMES as u64);
    }
}
