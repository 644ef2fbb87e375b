//! In-memory links: two ports joined by queues, for tests, benchmarks and simulated topologies.

use crate::{LinkState, Port, PortError, PortStats, TxDrop, TxOutcome};
use packet::{Batch, Frame, FramePool, Nanos, PortId};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One direction of the link: a queue of bounded length.
#[derive(Debug)]
struct Lane {
    queue: VecDeque<Frame>,
    free: FramePool,
    depth: usize,
}

/// One end of an in-memory link. The other end receives the frames that this one sends, in order.
#[derive(Debug)]
pub struct MemoryPort {
    id: PortId,
    name: String,
    incoming: Arc<Mutex<Lane>>,
    outgoing: Arc<Mutex<Lane>>,
    stats: PortStats,
}

impl MemoryPort {
    /// Returns both ends of a new link that queues at most `depth` frames in each direction.
    /// Excess frames are dropped as [`TxDrop::QueueFull`].
    pub fn pair(a: PortId, b: PortId, depth: usize) -> (MemoryPort, MemoryPort) {
        let lane = || {
            Arc::new(Mutex::new(Lane {
                queue: VecDeque::with_capacity(depth),
                free: FramePool::default(),
                depth,
            }))
        };
        let (to_a, to_b) = (lane(), lane());
        let end = |id, incoming: &Arc<Mutex<Lane>>, outgoing: &Arc<Mutex<Lane>>| MemoryPort {
            id,
            name: format!("memory{id}"),
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            stats: PortStats::default(),
        };
        (end(a, &to_a, &to_b), end(b, &to_b, &to_a))
    }

    /// Returns the number of frames queued for this end.
    pub fn waiting(&self) -> usize {
        lock(&self.incoming).queue.len()
    }
}

/// Locks a lane. A poisoned lock is ignored: a lane is consistent between any two statements, so a
/// panic elsewhere does not damage it.
fn lock(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Port for MemoryPort {
    fn id(&self) -> PortId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        let mut lane = lock(&self.incoming);
        let before = batch.len();
        while !lane.queue.is_empty() {
            let Some(slot) = batch.push() else { break };
            let Some(mut frame) = lane.queue.pop_front() else {
                break;
            };
            std::mem::swap(slot, &mut frame);
            lane.free.put(frame);
            slot.ingress = self.id;
            slot.arrival = now;
            self.stats.count_rx(slot.len());
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let mut lane = lock(&self.outgoing);
        let mut outcome = TxOutcome::default();
        for frame in frames {
            if lane.queue.len() >= lane.depth {
                self.stats.count_tx_drop(TxDrop::QueueFull, 1, &mut outcome);
                continue;
            }
            let mut copy = lane.free.get();
            copy.copy_from(frame);
            lane.queue.push_back(copy);
            self.stats.count_tx(frame.len(), &mut outcome);
        }
        outcome
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link(&self) -> LinkState {
        LinkState::Up
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_in_order_with_the_receivers_port_and_time() {
        let (mut a, mut b) = MemoryPort::pair(PortId(1), PortId(2), 8);
        let frames: Vec<Frame> = (0..3)
            .map(|i| Frame::from_bytes(&[i; 60]).unwrap())
            .collect();
        assert_eq!(a.tx(&frames).sent, 3);
        let mut batch = Batch::with_capacity(2);
        assert_eq!(b.rx(&mut batch, Nanos(5)).unwrap(), 2);
        assert_eq!(b.rx(&mut batch, Nanos(6)).unwrap(), 0, "the batch is full");
        assert_eq!(batch.frames()[1].bytes(), [1; 60]);
        assert_eq!(
            (batch.frames()[1].ingress, batch.frames()[1].arrival),
            (PortId(2), Nanos(5))
        );
        batch.clear();
        assert_eq!(b.rx(&mut batch, Nanos(7)).unwrap(), 1);
        assert_eq!(b.stats().rx_bytes, 180);
        assert_eq!(b.waiting(), 0);
    }

    #[test]
    fn a_full_link_drops_by_name() {
        let (mut a, mut b) = MemoryPort::pair(PortId(0), PortId(1), 2);
        let frames: Vec<Frame> = (0..5).map(|_| Frame::new()).collect();
        let outcome = a.tx(&frames);
        assert_eq!(
            (outcome.sent, outcome.dropped.get(TxDrop::QueueFull)),
            (2, 3)
        );
        assert_eq!(a.stats().tx_dropped, outcome.dropped);
        assert_eq!(b.waiting(), 2);
        assert_eq!(b.rx(&mut Batch::default(), Nanos::ZERO).unwrap(), 2);
    }
}
