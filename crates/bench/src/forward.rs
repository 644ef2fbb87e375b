//! What a device, a loop written by hand and a bare wire have in common: frames go in, and some come out.

use packet::{Frame, Nanos, PortId};
use table::CounterReading;

/// Something that forwards frames.
pub trait Forward {
    /// Makes frames what comes in at this side, of packets that are the same for all sides. It is not timed.
    fn make_ready(&mut self, _frames: &mut [Frame]) {}

    /// Takes frames in, each from its own port, and gives each that leaves to `out`, in order. What stays in `frames` counts no more.
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut Outbox);

    /// What it has counted: each of the program's counters, direct ones in the order in which entries were added.
    fn readings(&self) -> Vec<Reading>;
}

/// A counter of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Its name in the program, without the names of controls around it.
    pub name: String,
    /// Its cells.
    pub cells: Vec<CounterReading>,
}

/// Where frames go that leave: a list of ports, as a driver would fill a ring; copies of the frames where somebody wants to see them.
#[derive(Debug, Default)]
pub struct Outbox {
    ports: Vec<PortId>,
    kept: Option<Vec<(PortId, Vec<u8>)>>,
}

impl Outbox {
    /// An outbox that keeps nothing but ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// An outbox that keeps what it is given.
    pub fn keeping() -> Self {
        Self {
            kept: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// A frame leaves.
    #[inline]
    pub fn take(&mut self, port: PortId, frame: &Frame) {
        self.ports.push(port);
        if self.kept.is_some() {
            self.keep(port, frame);
        }
    }

    #[cold]
    fn keep(&mut self, port: PortId, frame: &Frame) {
        if let Some(kept) = &mut self.kept {
            kept.push((port, frame.bytes().to_vec()));
        }
    }

    /// Forgets the ports, and says how many frames left since the last time.
    #[inline]
    pub fn flush(&mut self) -> usize {
        let sent = self.ports.len();
        self.ports.clear();
        sent
    }

    /// The frames that were kept since the last time.
    pub fn take_kept(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// A wire: what comes in by a port goes out by its neighbour, and nobody looks at it. Nothing forwards faster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bare;

impl Forward for Bare {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut Outbox) {
        for frame in frames {
            out.take(PortId(frame.ingress.0 ^ 1), frame);
        }
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
