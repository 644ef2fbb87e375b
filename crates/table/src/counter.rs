//! Counters that programs find by index ([`CounterArray`]), and what all counters count. Direct ones are part of a table's entries.

use crate::tally::{Cells, Lane, Tally, add};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a counter counts.
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
    /// How many packets.
    pub packets: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl CounterKind {
    /// What a packet of `bytes` bytes adds to packets and to bytes.
    #[inline]
    pub(crate) fn amounts(self, bytes: u64) -> CounterReading {
        let packets = u64::from(self != Self::Bytes);
        let bytes = if self == Self::Packets { 0 } else { bytes };
        CounterReading { packets, bytes }
    }
}

impl CounterReading {
    /// Adds this to a row's two words, of a lane that nobody else writes.
    #[inline]
    pub(crate) fn add_to(self, row: &[AtomicU64]) {
        if let [packets, bytes, ..] = row {
            add(packets, self.packets);
            add(bytes, self.bytes);
        }
    }
}

/// Words of a counter's row.
const WORDS: usize = 2;

/// Counters that a program finds by index. An index beyond the end gives `None` and does nothing.
///
/// Both numbers wrap at 64 bits. Packets write [`CounterArray::cells`]; the control side does all else.
#[derive(Debug)]
pub struct CounterArray {
    kind: CounterKind,
    size: usize,
    cells: Arc<Cells>,
    tally: Mutex<Tally>,
}

impl CounterArray {
    /// `size` counters at 0, which one lane counts in.
    pub fn new(kind: CounterKind, size: usize) -> Self {
        let tally = Tally::new(size, WORDS);
        Self {
            kind,
            size,
            cells: tally.cells().clone(),
            tally: Mutex::new(tally),
        }
    }

    /// The same counters, for so many lanes. What packets go on to count in the former ones is read here too.
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

    /// What they count.
    pub fn kind(&self) -> CounterKind {
        self.kind
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a filling")]
    pub fn len(&self) -> usize {
        self.size
    }

    /// What packets count in: a row of packets and bytes a counter.
    #[inline]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Counts a packet of `bytes` bytes in counter `index`.
    #[inline]
    pub fn count(&self, lane: Lane, index: u64, bytes: u64) -> Option<()> {
        self.add(lane, index, self.kind.amounts(bytes))
    }

    /// Adds to counter `index`, whatever it counts.
    #[inline]
    pub fn add(&self, lane: Lane, index: u64, amounts: CounterReading) -> Option<()> {
        let index = self.index(index)?;
        amounts.add_to(self.cells.row(lane, index));
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

    /// Reads all.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CounterReading> {
        let tally = self.tally();
        let all: Vec<_> = (0..self.size).map(|index| reading(&tally, index)).collect();
        all.into_iter()
    }

    /// Sets all to 0.
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
