//! [`Tally`]: counts that several writers make without waiting for each other, and that one side sums.
//!
//! Each writer has a [`Lane`] of its own: cells that nobody else writes, so that counting is a load, an addition and a store, without the locked
//! instruction that shared cells need and without cache lines that travel between cores. A reading is the sum over all lanes and what the control side
//! has set; of a time ([`TIME`]) it is the latest. Sums wrap at 64 bits.

use bits::{Id, define_id};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

define_id! {
    /// Who counts. At any time, one thread at most counts in a lane; two would lose counts, and do nothing worse.
    pub struct Lane;
}

/// The word of a row, if it has so many, that is no count but a time: of several, the latest is meant.
pub(crate) const TIME: usize = 2;

/// What two writers have put into a word, as one.
#[inline]
fn join(word: usize, one: u64, other: u64) -> u64 {
    match word {
        TIME => one.max(other),
        _ => one.wrapping_add(other),
    }
}

/// The cells that packets count in, as one snapshot sees them: rows of some words, in each lane.
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

    /// The cells of a lane, row by row. A lane that came later than these cells shares the last one.
    #[inline]
    pub fn lane(&self, lane: Lane) -> &[AtomicU64] {
        &self.lanes[lane.index().min(self.lanes.len() - 1)]
    }

    /// Words in a row.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// A row of a lane; empty beyond the end.
    #[inline]
    pub(crate) fn row(&self, lane: Lane, row: usize) -> &[AtomicU64] {
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

/// Adds to a cell that nobody else writes.
#[inline(always)]
pub(crate) fn add(cell: &AtomicU64, amount: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// The control side of rows of counts. It grows; packets that hold older cells go on counting there.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    words: usize,
    rows: usize,
    lanes: usize,
    /// What the control side has added to each word.
    own: Vec<u64>,
    /// All cells that somebody may count in. Packets to come count in the last.
    cells: Vec<Arc<Cells>>,
}

impl Tally {
    /// Rows of `words` words, all 0, for one lane.
    pub(crate) fn new(rows: usize, words: usize) -> Self {
        Self {
            words,
            rows,
            lanes: 1,
            own: vec![0; rows * words],
            cells: vec![Arc::new(Cells::new(1, rows, words))],
        }
    }

    /// What packets count in.
    pub(crate) fn cells(&self) -> &Arc<Cells> {
        self.cells.last().expect("there are always cells")
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Makes it `rows` rows, at least as many as there are, for so many lanes.
    pub(crate) fn resize(&mut self, rows: usize, lanes: usize) {
        if (rows, lanes) == (self.rows, self.lanes) {
            return;
        }
        (self.rows, self.lanes) = (rows, lanes);
        self.own.resize(rows * self.words, 0);
        self.cells
            .push(Arc::new(Cells::new(lanes, rows, self.words)));
        self.fold();
    }

    /// For how many lanes there are cells.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// About how many bytes it takes.
    pub(crate) fn memory(&self) -> usize {
        let cells = self.cells.iter().flat_map(|cells| &cells.lanes);
        let words = self.own.len() + cells.map(|lane| lane.len()).sum::<usize>();
        words * size_of::<u64>()
    }

    /// Adds up the cells that no packet can reach any more.
    fn fold(&mut self) {
        let newest = self.cells.len() - 1;
        for mut old in std::mem::take(&mut self.cells).into_iter().enumerate() {
            if old.0 == newest || Arc::get_mut(&mut old.1).is_none() {
                self.cells.push(old.1);
                continue;
            }
            for lane in &old.1.lanes {
                for (at, (own, cell)) in self.own.iter_mut().zip(lane).enumerate() {
                    *own = join(at % self.words, *own, cell.load(Relaxed));
                }
            }
        }
    }

    /// A word of a row: all that was counted in it, or the latest time.
    pub(crate) fn read(&self, row: usize, word: usize) -> u64 {
        let own = self.own[row * self.words + word];
        let cells = self.cells.iter().map(|cells| cells.read(row, word));
        cells.fold(own, |sum, value| join(word, sum, value))
    }

    /// Sets what [`read`](Self::read) gives; a time is not set back. What packets count meanwhile is not lost.
    pub(crate) fn write(&mut self, row: usize, word: usize, value: u64) {
        let now = self.read(row, word);
        let own = &mut self.own[row * self.words + word];
        *own = match word {
            TIME => value,
            _ => own.wrapping_add(value.wrapping_sub(now)),
        };
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
        add(&old.row(Lane::new(0), 1)[0], 5);
        tally.resize(3, 2);
        let new = tally.cells().clone();
        add(&old.row(Lane::new(0), 1)[0], 1);
        add(&new.row(Lane::new(0), 1)[0], 10);
        add(&new.row(Lane::new(1), 1)[0], 20);
        old.row(Lane::new(0), 1)[TIME].store(7, Relaxed);
        new.row(Lane::new(1), 1)[TIME].store(9, Relaxed);
        assert_eq!((tally.read(1, 0), tally.read(1, TIME)), (36, 9));
        tally.write(1, 0, 3);
        add(&old.row(Lane::new(0), 1)[0], 1);
        assert_eq!(tally.read(1, 0), 4);
        drop(old);
        tally.resize(8, 2);
        assert_eq!(
            (tally.cells.len(), tally.read(1, 0), tally.read(1, TIME)),
            (2, 4, 9)
        );
        assert!(new.row(Lane::new(0), 3).is_empty());
    }

    /// How often each writer counts.
    const TIMES: usize = usual_or_interpreted(10_000, 100);

    #[test]
    fn writers_with_a_lane_each_lose_nothing() {
        let mut tally = Tally::new(1, 2);
        tally.resize(1, 4);
        let cells = tally.cells();
        std::thread::scope(|scope| {
            for lane in 0..4 {
                scope.spawn(move || {
                    let row = cells.row(Lane::new(lane), 0);
                    (0..TIMES).for_each(|_| add(&row[0], 1));
                });
            }
        });
        assert_eq!(tally.read(0, 0), 4 * TIMES as u64);
    }
}
