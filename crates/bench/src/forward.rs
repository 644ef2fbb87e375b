//! Common interface of a device, a hand-written loop and a bare wire: frames are received, and
//! frames are sent.

use packet::{Frame, Nanos, PortId};
use table::CounterReading;

/// Forwards frames.
pub trait Forward {
    /// Adapts received frames, which are the same for all sides, to this side. Not part of the
    /// measured time.
    fn make_ready(&mut self, _frames: &mut [Frame]) {}

    /// Forwards received frames, each with its ingress port. Passes each sent frame to `out`, in
    /// order. The contents of `frames` are unspecified afterwards.
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames);

    /// Returns the values of all counters of the program. The cells of direct counters are in the
    /// order in which the entries were added.
    fn readings(&self) -> Vec<Reading>;
}

/// Values of one counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Its name in the program, without the names of enclosing controls.
    pub name: String,
    /// Values of its cells.
    pub cells: Vec<CounterReading>,
}

/// Receives sent frames. Stores the list of egress ports, as a driver fills a ring, and optionally
/// copies of the frames.
#[derive(Debug, Default)]
pub struct SentFrames {
    ports: Vec<PortId>,
    kept: Option<Vec<(PortId, Vec<u8>)>>,
}

impl SentFrames {
    /// Creates an outbox that stores only ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an outbox that also stores copies of the frames.
    pub fn keeping() -> Self {
        Self {
            kept: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// Stores a sent frame.
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

    /// Clears the ports. Returns the number of frames sent since the last call.
    #[inline]
    pub fn flush(&mut self) -> usize {
        let sent = self.ports.len();
        self.ports.clear();
        sent
    }

    /// Returns the frames stored since the last call.
    pub fn take_kept(&mut self) -> Vec<(PortId, Vec<u8>)> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// A wire: sends each frame at the neighbor of its ingress port, without parsing it. This is the
/// upper limit of the forwarding rate.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bare;

impl Forward for Bare {
    fn forward(&mut self, frames: &mut [Frame], _: Nanos, out: &mut SentFrames) {
        for frame in frames {
            out.take(PortId(frame.ingress.0 ^ 1), frame);
        }
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}
