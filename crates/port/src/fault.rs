//! Fault injection: a port that drops, duplicates, reorders and corrupts received frames. The
//! faults follow from a seed.

use crate::{LinkState, Port, PortError, PortStats, RxDrop, TxDrop, TxOutcome};
use packet::{Batch, Frame, FramePool, Nanos, PortId};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use support::rng::Rng;

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

/// Faults of the frames of one direction.
#[derive(Debug)]
struct Injector {
    rates: FaultRates,
    counts: FaultCounts,
    chance: Rng,
    /// Frames after their faults.
    ready: VecDeque<Frame>,
    pool: FramePool,
}

impl Injector {
    fn new(rates: FaultRates, seed: u64) -> Injector {
        Injector {
            rates,
            counts: FaultCounts::default(),
            chance: Rng::new(seed),
            ready: VecDeque::new(),
            pool: FramePool::default(),
        }
    }

    /// Decides the faults of a frame, which `fill` writes. Every frame uses the same number of
    /// random draws. So a change of one rate does not change the frames that the other faults hit.
    fn strike(&mut self, fill: impl FnOnce(&mut Frame)) {
        let [drop, duplicate, reorder, corrupt, place] =
            std::array::from_fn(|_| self.chance.bits());
        if self.rates.drop.hits(drop) {
            self.counts.dropped += 1;
            return;
        }
        let mut frame = self.pool.get();
        fill(&mut frame);
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
}

/// A port that injects faults into received frames, and into sent ones if it is made for both
/// directions. The same seed, rates and frames give the same faults.
#[derive(Debug)]
pub struct FaultPort<P> {
    inner: P,
    received: Injector,
    sent: Option<Injector>,
    arrived: Batch,
    stats: PortStats,
}

impl<P: Port> FaultPort<P> {
    /// Wraps `inner` in a port with faults of received frames. A link with faults in both
    /// directions has one of these at each end.
    pub fn new(inner: P, rates: FaultRates, seed: u64) -> FaultPort<P> {
        FaultPort {
            inner,
            received: Injector::new(rates, seed),
            sent: None,
            arrived: Batch::default(),
            stats: PortStats::default(),
        }
    }

    /// Wraps `inner` in a port with faults in both directions, for a link with another kind of end.
    /// Sent frames change places only within one call of [`Port::tx`].
    pub fn both_ways(inner: P, rates: FaultRates, seed: u64) -> FaultPort<P> {
        let sent = Injector::new(rates, Rng::new(seed).bits());
        FaultPort {
            sent: Some(sent),
            ..FaultPort::new(inner, rates, seed)
        }
    }

    /// Returns the number of faults so far, of received frames and of sent ones.
    pub fn counts(&self) -> FaultCounts {
        let mut counts = self.received.counts;
        if let Some(Injector { counts: sent, .. }) = &self.sent {
            counts.dropped += sent.dropped;
            counts.duplicated += sent.duplicated;
            counts.reordered += sent.reordered;
            counts.corrupted += sent.corrupted;
        }
        counts
    }

    /// Returns the number of frames received but not yet delivered, because the caller's batch was
    /// full.
    pub fn held(&self) -> usize {
        self.received.ready.len()
    }

    /// Decides the faults of each received frame.
    fn strike(&mut self) {
        for arrived in self.arrived.frames_mut() {
            self.received.strike(|frame| std::mem::swap(frame, arrived));
        }
        self.arrived.clear();
    }

    /// Moves ready frames to `batch` until it is full. Returns their number.
    fn deliver(&mut self, batch: &mut Batch) -> usize {
        let mut delivered = 0;
        while !self.received.ready.is_empty() {
            let Some(slot) = batch.push() else { break };
            let Some(mut frame) = self.received.ready.pop_front() else {
                break;
            };
            std::mem::swap(slot, &mut frame);
            self.received.pool.put(frame);
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
        let Some(faults) = &mut self.sent else {
            return self.inner.tx(frames);
        };
        let FaultCounts {
            dropped: dropped_before,
            duplicated: duplicated_before,
            ..
        } = faults.counts;
        for frame in frames {
            faults.strike(|copy| copy.copy_from(frame));
        }
        let mut outcome = self.inner.tx(faults.ready.make_contiguous());
        while let Some(frame) = faults.ready.pop_front() {
            faults.pool.put(frame);
        }
        let dropped = faults.counts.dropped - dropped_before;
        outcome.dropped.add(TxDrop::Fault, dropped);
        // A duplicate comes into being on the link: it was not given to the port.
        let duplicated = faults.counts.duplicated - duplicated_before;
        outcome.sent = outcome.sent.saturating_sub(duplicated);
        outcome
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.inner.stats();
        stats.rx_frames = self.stats.rx_frames;
        stats.rx_bytes = self.stats.rx_bytes;
        stats
            .rx_dropped
            .add(RxDrop::Fault, self.received.counts.dropped);
        if let Some(Injector { counts, .. }) = &self.sent {
            stats.tx_dropped.add(TxDrop::Fault, counts.dropped);
        }
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
    fn faults_of_sent_frames_are_counted_and_each_given_frame_is_accounted_for() {
        let often = PerMillion(100_000);
        let rates = FaultRates {
            drop: often,
            duplicate: often,
            reorder: often,
            corrupt: often,
        };
        let (sender, mut receiver) = MemoryPort::pair(PortId(0), PortId(1), 2000);
        let mut port = FaultPort::both_ways(sender, rates, 42);
        let frames: Vec<Frame> = (0..1000u16)
            .map(|i| Frame::from_bytes(&[i.to_be_bytes(); 30].concat()).unwrap())
            .collect();
        let outcome = port.tx(&frames);
        let counts = port.counts();
        for count in [
            counts.dropped,
            counts.duplicated,
            counts.reordered,
            counts.corrupted,
        ] {
            assert!((50..200).contains(&count), "{counts:?}");
        }
        assert_eq!(outcome.dropped.get(TxDrop::Fault), counts.dropped);
        assert_eq!(outcome.sent + counts.dropped, 1000);
        let mut batch = Batch::with_capacity(2000);
        let arrived = receiver.rx(&mut batch, Nanos::ZERO).unwrap() as u64;
        assert_eq!(arrived, outcome.sent + counts.duplicated);
        assert_eq!(port.stats().tx_dropped.get(TxDrop::Fault), counts.dropped);
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
