//! Counters, indirect ([`CounterArray`]) and direct ([`CounterCell`] of an entry).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// One counter. Both numbers wrap at 64 bits.
#[derive(Debug)]
pub struct CounterCell {
    kind: CounterKind,
    cell: Cell,
}

#[derive(Debug, Default)]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Cell {
    #[inline]
    fn count(&self, kind: CounterKind, bytes: u64) {
        if kind != CounterKind::Bytes {
            self.packets.fetch_add(1, Relaxed);
        }
        if kind != CounterKind::Packets {
            self.bytes.fetch_add(bytes, Relaxed);
        }
    }

    fn read(&self) -> CounterReading {
        CounterReading {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    fn write(&self, reading: CounterReading) {
        self.packets.store(reading.packets, Relaxed);
        self.bytes.store(reading.bytes, Relaxed);
    }
}

impl CounterCell {
    /// A counter at 0.
    pub fn new(kind: CounterKind) -> Self {
        Self {
            kind,
            cell: Cell::default(),
        }
    }

    /// Counts a packet of `bytes` bytes.
    #[inline]
    pub fn count(&self, bytes: u64) {
        self.cell.count(self.kind, bytes);
    }

    /// Reads it.
    pub fn read(&self) -> CounterReading {
        self.cell.read()
    }

    /// Sets it.
    pub fn write(&self, reading: CounterReading) {
        self.cell.write(reading);
    }
}

/// Counters that a program finds by index. An index beyond the end gives `None` and does nothing.
#[derive(Debug)]
pub struct CounterArray {
    kind: CounterKind,
    cells: Box<[Cell]>,
}

impl CounterArray {
    /// `size` counters at 0.
    pub fn new(kind: CounterKind, size: usize) -> Self {
        Self {
            kind,
            cells: (0..size).map(|_| Cell::default()).collect(),
        }
    }

    /// What they count.
    pub fn kind(&self) -> CounterKind {
        self.kind
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "a size, not a filling")]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Counts a packet of `bytes` bytes in counter `index`.
    #[inline]
    pub fn count(&self, index: u64, bytes: u64) -> Option<()> {
        self.cell(index).map(|cell| cell.count(self.kind, bytes))
    }

    /// Reads counter `index`.
    pub fn read(&self, index: u64) -> Option<CounterReading> {
        self.cell(index).map(Cell::read)
    }

    /// Sets counter `index`.
    pub fn write(&self, index: u64, reading: CounterReading) -> Option<()> {
        self.cell(index).map(|cell| cell.write(reading))
    }

    /// Reads all.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = CounterReading> {
        self.cells.iter().map(Cell::read)
    }

    /// Sets all to 0.
    pub fn clear(&self) {
        self.cells
            .iter()
            .for_each(|cell| cell.write(CounterReading::default()));
    }

    #[inline]
    fn cell(&self, index: u64) -> Option<&Cell> {
        self.cells.get(usize::try_from(index).ok()?)
    }
}
