//! [`CounterArray`]: indirect counters, which programs access by index. The types for readings are
//! also used by direct counters, which are part of a table's entries.

use crate::tally::{Cells, CounterShard, Tally, add};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Unit of a counter, as in P4's counter type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// Packets only; bytes stay 0.
    Packets,
    /// Bytes only; packets stay 0.
    Bytes,
    /// Packets and their bytes.
    PacketsAndBytes,
}

/// One reading of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterReading {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl CounterKind {
    /// Returns the increment for a packet of `bytes` bytes.
    #[inline]
    pub(crate) fn amounts(self, bytes: u64) -> CounterReading {
        let packets = u64::from(self != Self::Bytes);
        let bytes = if self == Self::Packets { 0 } else { bytes };
        CounterReading { packets, bytes }
    }
}

impl CounterReading {
    /// Adds this to a row's two words, in a shard that no other thread writes.
    #[inline]
    pub(crate) fn add_to(self, row: &[AtomicU64]) {
        if let [packets, bytes, ..] = row {
            add(packets, self.packets);
            add(bytes, self.bytes);
        }
    }
}

/// Number of words of a counter's row.
const WORDS: usize = 2;

/// Array of counters that a program accesses by index. Operations with an index out of range return
/// `None` and do nothing.
///
/// Both numbers wrap at 64 bits. Packets write [`CounterArray::cells`]; all other methods are for
/// the control side.
#[derive(Debug)]
pub struct CounterArray {
    kind: CounterKind,
    size: usize,
    cells: Arc<Cells>,
    tally: Mutex<Tally>,
}

impl CounterArray {
    /// Creates `size` counters at 0 with one shard.
    pub fn new(kind: CounterKind, size: usize) -> Self {
        let tally = Tally::new(size, WORDS);
        Self {
            kind,
            size,
            cells: tally.cells().clone(),
            tally: Mutex::new(tally),
        }
    }

    /// Returns the same counters with `lanes` shards. Counts that packets still add to the old
    /// shards are read here too.
    pub fn with_lanes(&self, lanes: usize) -> Self {
        let mut tally = self.tally().clone();
        tally.resize(self.size, lanes);
        Self {
            kind: self.kind,
            size: self.size,
            cells: tally.cells().clone(),
            tally: Mutex::new(tally),
        }
    }

    /// Returns the unit of the counters.
    pub fn kind(&self) -> CounterKind {
        self.kind
    }

    /// Returns the number of counters.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a filling")]
    pub fn len(&self) -> usize {
        self.size
    }

    /// Returns the cells that packets count in: for each counter one row, packets and bytes.
    #[inline]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Counts a packet of `bytes` bytes in counter `index`.
    #[inline]
    pub fn count(&self, lane: CounterShard, index: u64, bytes: u64) -> Option<()> {
        self.add(lane, index, self.kind.amounts(bytes))
    }

    /// Adds `amounts` to counter `index`, whatever its unit.
    #[inline]
    pub fn add(&self, lane: CounterShard, index: u64, amounts: CounterReading) -> Option<()> {
        let index = self.index(index)?;
        amounts.add_to(self.cells.row(lane, index));
        Some(())
    }

    /// Adds packets that something outside has counted, as far as the counters have their unit.
    pub fn credit(&self, index: u64, amounts: CounterReading) -> Option<()> {
        let index = self.index(index)?;
        let mut tally = self.tally();
        if self.kind != CounterKind::Bytes {
            tally.add(index, 0, amounts.packets);
        }
        if self.kind != CounterKind::Packets {
            tally.add(index, 1, amounts.bytes);
        }
        Some(())
    }

    /// Reads counter `index`.
    pub fn read(&self, index: u64) -> Option<CounterReading> {
        let index = self.index(index)?;
        Some(reading(&self.tally(), index))
    }

    /// Sets counter `index`.
    pub fn write(&self, index: u64, reading: CounterReading) -> Option<()> {
        let index = self.index(index)?;
        let mut tally = self.tally();
        tally.write(index, 0, reading.packets);
        tally.write(index, 1, reading.bytes);
        Some(())
    }

    /// Reads all counters.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CounterReading> {
        let tally = self.tally();
        let all: Vec<_> = (0..self.size).map(|index| reading(&tally, index)).collect();
        all.into_iter()
    }

    /// Sets all counters to 0.
    pub fn clear(&self) {
        for index in 0..self.size as u64 {
            self.write(index, CounterReading::default());
        }
    }

    #[inline]
    fn index(&self, index: u64) -> Option<usize> {
        let index = usize::try_from(index).ok()?;
        (index < self.size).then_some(index)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reading(tally: &Tally, index: usize) -> CounterReading {
    CounterReading {
        packets: tally.read(index, 0),
        bytes: tally.read(index, 1),
    }
}
