//! Fault injection: a port that drops, duplicates, reorders and corrupts received frames. The
//! faults follow from a seed.

use crate::chance::SplitMix;
use crate::{LinkState, Port, PortError, PortStats, RxDrop, TxOutcome};
use packet::{Batch, Frame, FramePool, Nanos, PortId};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// A probability in millionths. One million or more means always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerMillion(pub u32);

impl PerMillion {
    /// Returns true if the random number `draw` hits an event of this probability.
    #[inline]
    pub fn hits(self, draw: u64) -> bool {
        // The upper half of the draw, scaled to 0..1_000_000.
        ((draw >> 32) * 1_000_000) >> 32 < u64::from(self.0)
    }
}

/// Probability of each fault for a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// The frame is dropped.
    pub drop: PerMillion,
    /// The frame arrives twice.
    pub duplicate: PerMillion,
    /// The frame changes places with the frame before it.
    pub reorder: PerMillion,
    /// One bit of the frame is inverted.
    pub corrupt: PerMillion,
}

/// Number of faults injected so far, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Dropped frames, also counted in the port's statistics as [`RxDrop::Fault`].
    pub dropped: u64,
    /// Additional frames made by duplication.
    pub duplicated: u64,
    /// Pairs of frames that changed places.
    pub reordered: u64,
    /// Frames with an inverted bit.
    pub corrupted: u64,
}

/// A port that injects faults into received frames. Sent frames are not changed, so a link with
/// faults in both directions has one of these at each end. The same seed, rates and frames give
/// the same faults.
#[derive(Debug)]
pub struct FaultPort<P> {
    inner: P,
    rates: FaultRates,
    counts: FaultCounts,
    chance: SplitMix,
    arrived: Batch,
    ready: VecDeque<Frame>,
    pool: FramePool,
    stats: PortStats,
}

impl<P: Port> FaultPort<P> {
    /// Wraps `inner` in a port with faults.
    pub fn new(inner: P, rates: FaultRates, seed: u64) -> FaultPort<P> {
        FaultPort {
            inner,
            rates,
            counts: FaultCounts::default(),
            chance: SplitMix::new(seed),
            arrived: Batch::default(),
            ready: VecDeque::new(),
            pool: FramePool::default(),
            stats: PortStats::default(),
        }
    }

    /// Returns the number of faults so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Returns the number of frames received but not yet delivered, because the caller's batch was
    /// full.
    pub fn held(&self) -> usize {
        self.ready.len()
    }

    /// Decides the faults of each received frame. Every frame uses the same number of random
    /// draws. So a change of one rate does not change the frames that the other faults hit.
    fn strike(&mut self) {
        for i in 0..self.arrived.len() {
            let [drop, duplicate, reorder, corrupt, place] =
                std::array::from_fn(|_| self.chance.draw());
            if self.rates.drop.hits(drop) {
                self.counts.dropped += 1;
                continue;
            }
            let mut frame = self.pool.get();
            std::mem::swap(&mut frame, &mut self.arrived.frames_mut()[i]);
            if self.rates.corrupt.hits(corrupt) && flip_bit(&mut frame, place) {
                self.counts.corrupted += 1;
            }
            if self.rates.duplicate.hits(duplicate) {
                let mut twin = self.pool.get();
                twin.copy_from(&frame);
                self.ready.push_back(twin);
                self.counts.duplicated += 1;
            }
            self.ready.push_back(frame);
            let last = self.ready.len() - 1;
            if last > 0 && self.rates.reorder.hits(reorder) {
                self.ready.swap(last - 1, last);
                self.counts.reordered += 1;
            }
        }
        self.arrived.clear();
    }

    /// Moves ready frames to `batch` until it is full. Returns their number.
    fn deliver(&mut self, batch: &mut Batch) -> usize {
        let mut delivered = 0;
        while !self.ready.is_empty() {
            let Some(slot) = batch.push() else { break };
            let Some(mut frame) = self.ready.pop_front() else {
                break;
            };
            std::mem::swap(slot, &mut frame);
            self.pool.put(frame);
            self.stats.count_rx(slot.len());
            delivered += 1;
        }
        delivered
    }
}

impl<P: Port> Port for FaultPort<P> {
    fn id(&self) -> PortId {
        self.inner.id()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let mut delivered = self.deliver(batch);
        while batch.room() > 0 {
            let came = self.inner.rx(&mut self.arrived, now);
            let nothing = self.arrived.is_empty();
            self.strike();
            delivered += self.deliver(batch);
            match came {
                Err(error) if delivered == 0 => return Err(error),
                Err(_) => break,
                Ok(_) if nothing => break,
                Ok(_) => {}
            }
        }
        Ok(delivered)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        self.inner.tx(frames)
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.inner.stats();
        stats.rx_frames = self.stats.rx_frames;
        stats.rx_bytes = self.stats.rx_bytes;
        stats.rx_dropped.add(RxDrop::Fault, self.counts.dropped);
        stats
    }

    fn link(&self) -> LinkState {
        self.inner.link()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.poll_fd()
    }
}

/// Inverts the bit of the frame selected by `place`. Returns false if the frame is empty.
fn flip_bit(frame: &mut Frame, place: u64) -> bool {
    let bits = frame.len() as u64 * 8;
    if bits == 0 {
        return false;
    }
    let bit = place % bits;
    frame.bytes_mut()[(bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryPort;

    /// Sends 1000 numbered frames through a port with faults. Returns the delivered frames and the
    /// port.
    fn carry(rates: FaultRates, seed: u64) -> (Vec<Vec<u8>>, FaultPort<MemoryPort>) {
        let (mut sender, receiver) = MemoryPort::pair(PortId(0), PortId(1), 2000);
        let mut port = FaultPort::new(receiver, rates, seed);
        for i in 0..1000u16 {
            let mut bytes = [0; 60];
            bytes[..2].copy_from_slice(&i.to_be_bytes());
            sender.tx(&[Frame::from_bytes(&bytes).unwrap()]);
        }
        let mut got = Vec::new();
        let mut batch = Batch::with_capacity(7);
        while port.rx(&mut batch, Nanos::ZERO).unwrap() > 0 {
            got.extend(batch.frames().iter().map(|f| f.bytes().to_vec()));
            batch.clear();
        }
        (got, port)
    }

    #[test]
    fn without_faults_everything_arrives_in_order() {
        let (got, mut port) = carry(FaultRates::default(), 1);
        assert_eq!(got.len(), 1000);
        assert!(got.is_sorted());
        assert_eq!(port.counts(), FaultCounts::default());
        assert_eq!(port.stats().rx_frames, 1000);
    }

    #[test]
    fn faults_are_counted_and_packets_are_conserved() {
        let often = PerMillion(100_000);
        let rates = FaultRates {
            drop: often,
            duplicate: often,
            reorder: often,
            corrupt: often,
        };
        let (got, mut port) = carry(rates, 42);
        let counts = port.counts();
        for count in [
            counts.dropped,
            counts.duplicated,
            counts.reordered,
            counts.corrupted,
        ] {
            assert!((50..200).contains(&count), "{counts:?}");
        }
        assert_eq!(got.len() as u64 + counts.dropped, 1000 + counts.duplicated);
        let stats = port.stats();
        assert_eq!(stats.rx_dropped.get(RxDrop::Fault), counts.dropped);
        assert_eq!(stats.rx_frames, got.len() as u64);
        assert_eq!(port.held(), 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_gives_others() {
        let rates = FaultRates {
            drop: PerMillion(300_000),
            ..FaultRates::default()
        };
        assert_eq!(carry(rates, 7).0, carry(rates, 7).0);
        assert_ne!(carry(rates, 7).0, carry(rates, 8).0);
    }

    #[test]
    fn a_rate_of_a_million_strikes_every_frame() {
        let always = PerMillion(1_000_000);
        let (got, _) = carry(
            FaultRates {
                drop: always,
                ..FaultRates::default()
            },
            3,
        );
        assert!(got.is_empty());
        let (got, port) = carry(
            FaultRates {
                corrupt: always,
                ..FaultRates::default()
            },
            3,
        );
        assert_eq!((got.len(), port.counts().corrupted), (1000, 1000));
    }
}
