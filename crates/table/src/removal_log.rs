//! [`RemovalLog`]: bounded queue of the entries that packets have removed from a learning table.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Number of cells beyond the table's capacity. Each packet in the middle of a removal needs one.
const MARGIN: usize = 1024;

/// Bounded queue with many producers and one consumer. Producers never wait.
///
/// Each cell has a sequence number, the id and the key. The sequence number is the cell's position
/// if it is free, and the position plus one if it is full. A removal that is not collected yet
/// belongs to an entry that the consumer has seen in the table. So there are at most as many as the
/// table has entries, and the queue is never full.
#[derive(Debug)]
pub(crate) struct RemovalLog {
    words: Box<[AtomicU64]>,
    stride: usize,
    cells: u64,
    /// Position of the next cell to fill.
    tail: AtomicU64,
    /// Position of the next cell to take. Written by the consumer only.
    head: AtomicU64,
}

impl RemovalLog {
    /// Creates the log of a table of this capacity, with keys of `key_limbs` limbs.
    pub(crate) fn new(capacity: usize, key_limbs: usize) -> Self {
        let stride = 2 + key_limbs;
        let cells = capacity + MARGIN;
        let word = |at: usize| match at % stride {
            0 => (at / stride) as u64,
            _ => 0,
        };
        Self {
            words: (0..cells * stride)
                .map(|at| AtomicU64::new(word(at)))
                .collect(),
            stride,
            cells: cells as u64,
            tail: 0.into(),
            head: 0.into(),
        }
    }

    /// Returns true if there is nothing to take.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tail.load(SeqCst) == self.head.load(SeqCst)
    }

    fn cell(&self, position: u64) -> &[AtomicU64] {
        let at = (position % self.cells) as usize * self.stride;
        &self.words[at..at + self.stride]
    }

    /// Appends an entry. Returns false if the log is full.
    pub(crate) fn push(&self, id: u64, key: &[u64]) -> bool {
        loop {
            let position = self.tail.load(SeqCst);
            let cell = self.cell(position);
            let sequence = cell[0].load(SeqCst);
            if sequence < position {
                return false;
            }
            let is_free = sequence == position;
            let next = position + 1;
            let is_mine = || self.tail.compare_exchange(position, next, SeqCst, SeqCst);
            if is_free && is_mine().is_ok() {
                let limbs = [id].into_iter().chain(key.iter().copied());
                for (word, limb) in cell[1..].iter().zip(limbs) {
                    word.store(limb, SeqCst);
                }
                cell[0].store(next, SeqCst);
                return true;
            }
        }
    }

    /// Removes all entries that were appended before the call, and passes each to `take`, in order.
    /// Waits for producers that are writing one of them.
    pub(crate) fn take(&self, mut take: impl FnMut(u64, Box<[u64]>)) {
        let end = self.tail.load(SeqCst);
        let start = self.head.load(SeqCst);
        for position in start..end {
            let cell = self.cell(position);
            while cell[0].load(SeqCst) != position + 1 {
                std::thread::yield_now();
            }
            let key = cell[2..].iter().map(|limb| limb.load(SeqCst)).collect();
            take(cell[1].load(SeqCst), key);
            cell[0].store(position + self.cells, SeqCst);
        }
        self.head.store(end, SeqCst);
    }
}
