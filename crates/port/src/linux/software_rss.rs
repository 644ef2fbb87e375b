//! Software RSS: shares one port between several workers. One worker, the owner, receives and
//! sends for all. It assigns each received frame to a worker by flow hash.
//!
//! Used for links that cannot distribute flows over queues: an interface with one queue, a TAP
//! device, an in-memory link. Frames of a flow keep their order. Each worker has one queue from
//! the owner, and one queue holds all frames to be sent.

use super::sys::xsk::join_fds;
use crate::{LinkState, Port, PortError, PortStats, RxDrop, TxDrop, TxOutcome, flow::flow_hash};
use crossbeam_queue::ArrayQueue;
use packet::{Batch, Frame, Nanos, PortId};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use support::wakeup::WakeupFd;

/// Maximum number of frames queued for one worker, or for transmission.
const DEPTH: usize = 2048;

/// Returns the shares of a port, one per worker. The first one is the owner's. With one worker,
/// the port itself is returned.
///
/// # Errors
/// Those of the operating system, such as too many descriptors.
pub fn spread(port: Box<dyn Port>, workers: usize) -> io::Result<Vec<Box<dyn Port>>> {
    if workers < 2 {
        return Ok(vec![port]);
    }
    let common = Arc::new(Common {
        id: port.id(),
        second_id: port.second_id(),
        name: port.name().to_owned(),
        link: AtomicU8::new(number_of(port.link())),
        leaving: Line::new()?,
    });
    let lanes: io::Result<Vec<Arc<Line>>> =
        (1..workers).map(|_| Line::new().map(Arc::new)).collect();
    let lanes = lanes?;
    let mut shares: Vec<Box<dyn Port>> = vec![Box::new(Owner::new(
        port,
        lanes.clone(),
        Arc::clone(&common),
    )?)];
    for lane in lanes {
        shares.push(Box::new(Share {
            common: Arc::clone(&common),
            lane,
            stats: PortStats::default(),
        }));
    }
    Ok(shares)
}

/// A queue of frames to one thread.
struct Line {
    frames: ArrayQueue<Frame>,
    /// Empty buffers, returned by the consumer.
    empty: ArrayQueue<Frame>,
    /// Wakes the consumer.
    bell: WakeupFd,
}

impl Line {
    fn new() -> io::Result<Line> {
        Ok(Line {
            frames: ArrayQueue::new(DEPTH),
            // Capacity for all buffers that are ever made: one per queued frame, and those in use
            // by each thread.
            empty: ArrayQueue::new(2 * DEPTH),
            bell: WakeupFd::new()?,
        })
    }

    /// Returns an empty buffer. Once the peak number of buffers exists, none is allocated.
    #[inline]
    fn buffer(&self) -> Frame {
        self.empty.pop().unwrap_or_default()
    }

    /// Returns a buffer to the pool, which has capacity for all buffers.
    #[inline]
    fn put_back(&self, frame: Frame) {
        let kept = self.empty.push(frame);
        debug_assert!(kept.is_ok());
    }

    /// Returns the descriptor to wait for. It is readable if frames are queued.
    fn before_sleep(&self) -> BorrowedFd<'_> {
        let fd = self.bell.before_sleep();
        if !self.frames.is_empty() {
            self.bell.wake();
        }
        fd
    }
}

/// State shared by all shares.
struct Common {
    id: PortId,
    second_id: Option<PortId>,
    name: String,
    /// The link state, as last seen by the owner.
    link: AtomicU8,
    /// Frames to be sent by the owner.
    leaving: Line,
}

fn number_of(link: LinkState) -> u8 {
    match link {
        LinkState::Up => 0,
        LinkState::Down => 1,
        LinkState::Gone => 2,
    }
}

impl Common {
    fn link(&self) -> LinkState {
        match self.link.load(Relaxed) {
            0 => LinkState::Up,
            1 => LinkState::Down,
            _ => LinkState::Gone,
        }
    }
}

/// The share of the worker that owns the port.
struct Owner {
    port: Box<dyn Port>,
    common: Arc<Common>,
    lanes: Vec<Arc<Line>>,
    /// Received frames, and the index of the next one to distribute.
    came: Batch,
    next: usize,
    /// One descriptor for both the port and the wake-up descriptor.
    joined: OwnedFd,
    /// Numbers of frames and bytes for other workers, and of frames dropped because a worker's
    /// queue was full.
    given: (u64, u64),
    missed: u64,
    /// Frames of other workers, to be sent in one batch.
    sending: Batch,
}

impl Owner {
    fn new(port: Box<dyn Port>, lanes: Vec<Arc<Line>>, common: Arc<Common>) -> io::Result<Owner> {
        let bell = common.leaving.bell.before_sleep();
        let joined = join_fds(port.poll_fd().into_iter().chain([bell]))?;
        common.leaving.bell.after_sleep();
        Ok(Owner {
            port,
            lanes,
            common,
            came: Batch::with_capacity(Batch::DEFAULT),
            next: 0,
            joined,
            given: (0, 0),
            missed: 0,
            sending: Batch::with_capacity(Batch::DEFAULT),
        })
    }

    /// Distributes received frames to the workers of their flows. The owner's frames go to
    /// `batch`, until it is full.
    fn give_out(&mut self, batch: &mut Batch) {
        let workers = self.lanes.len() as u64 + 1;
        while let Some(frame) = self.came.frames_mut().get_mut(self.next) {
            let worker = (u64::from(flow_hash(frame.bytes())) * workers) >> 32;
            match self.lanes.get((worker as usize).wrapping_sub(1)) {
                None => match batch.push() {
                    Some(slot) => std::mem::swap(slot, frame),
                    None => break,
                },
                Some(lane) => {
                    self.given.0 += 1;
                    self.given.1 += frame.len() as u64;
                    let taken = std::mem::replace(frame, lane.buffer());
                    if let Err(taken) = lane.frames.push(taken) {
                        lane.put_back(taken);
                        self.missed += 1;
                    }
                }
            }
            self.next += 1;
        }
        for lane in &self.lanes {
            if !lane.frames.is_empty() {
                lane.bell.wake();
            }
        }
    }

    fn has_given_all(&self) -> bool {
        self.next >= self.came.len()
    }

    /// Sends the frames queued by other workers.
    fn send_others(&mut self) {
        while !self.common.leaving.frames.is_empty() {
            self.sending.clear();
            while self.sending.room() > 0
                && let Some(mut frame) = self.common.leaving.frames.pop()
            {
                if let Some(slot) = self.sending.push() {
                    std::mem::swap(slot, &mut frame);
                }
                self.common.leaving.put_back(frame);
            }
            self.port.tx(self.sending.frames());
        }
    }
}

impl Port for Owner {
    fn id(&self) -> PortId {
        self.common.id
    }

    fn second_id(&self) -> Option<PortId> {
        self.port.second_id()
    }

    fn name(&self) -> &str {
        self.port.name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        self.common.leaving.bell.after_sleep();
        self.send_others();
        let before = batch.len();
        self.give_out(batch);
        // At most one batch is received per call. If there are more frames, the port's descriptor
        // is readable.
        if self.has_given_all() {
            self.came.clear();
            self.next = 0;
            let received = self.port.rx(&mut self.came, now);
            self.common.link.store(number_of(self.port.link()), Relaxed);
            self.give_out(batch);
            received?;
        }
        Ok(batch.len() - before)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        self.send_others();
        self.port.tx(frames)
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.port.stats();
        stats.rx_frames = stats.rx_frames.saturating_sub(self.given.0);
        stats.rx_bytes = stats.rx_bytes.saturating_sub(self.given.1);
        stats.rx_dropped.add(RxDrop::WorkerFull, self.missed);
        stats
    }

    fn link(&self) -> LinkState {
        self.port.link()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.common.leaving.before_sleep();
        Some(self.joined.as_fd())
    }
}

/// The share of a worker that does not own the port.
struct Share {
    common: Arc<Common>,
    lane: Arc<Line>,
    stats: PortStats,
}

impl Port for Share {
    fn id(&self) -> PortId {
        self.common.id
    }

    fn second_id(&self) -> Option<PortId> {
        self.common.second_id
    }

    fn name(&self) -> &str {
        &self.common.name
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        self.lane.bell.after_sleep();
        let before = batch.len();
        while batch.room() > 0
            && let Some(mut frame) = self.lane.frames.pop()
        {
            if let Some(slot) = batch.push() {
                std::mem::swap(slot, &mut frame);
                slot.arrival = now;
                self.stats.count_rx(slot.len());
            }
            self.lane.put_back(frame);
        }
        if batch.len() == before && self.common.link() == LinkState::Gone {
            return Err(PortError::Gone {
                name: self.common.name.clone(),
            });
        }
        Ok(batch.len() - before)
    }

    /// Queues the frames for the owner. Queued frames are reported as sent in the outcome. The
    /// owner's statistics count what happens to them.
    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        let mut outcome = TxOutcome::default();
        if self.common.link() == LinkState::Gone {
            let n = frames.len() as u64;
            self.stats.count_tx_drop(TxDrop::LinkDown, n, &mut outcome);
            return outcome;
        }
        let leaving = &self.common.leaving;
        for frame in frames {
            let mut copy = leaving.buffer();
            copy.copy_from(frame);
            match leaving.frames.push(copy) {
                Ok(()) => outcome.sent += 1,
                Err(copy) => {
                    leaving.put_back(copy);
                    let stats = &mut self.stats;
                    stats.count_tx_drop(TxDrop::QueueFull, 1, &mut outcome);
                }
            }
        }
        if !frames.is_empty() {
            leaving.bell.wake();
        }
        outcome
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link(&self) -> LinkState {
        self.common.link()
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.lane.before_sleep())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flows, Generator, MemoryPort, Order, Poller, Sizes, Template};
    use std::collections::HashMap;
    use std::time::Duration;

    const DEPTH_OF_LINK: usize = 1 << 14;

    /// Returns the far end of a link, and the shares of the near end.
    fn link(workers: usize) -> (MemoryPort, Vec<Box<dyn Port>>) {
        let (near, far) = MemoryPort::pair(PortId(3), PortId(9), DEPTH_OF_LINK);
        (far, spread(Box::new(near), workers).unwrap())
    }

    fn frames(flows: usize, n: usize) -> Vec<Frame> {
        let flows = Flows {
            count: flows,
            order: Order::Zipf { skew: 0.0 },
        };
        let mut generator =
            Generator::new(vec![Template::udp4()], flows, &Sizes::Fixed(100), 1).unwrap();
        let numbered = |number: usize| {
            let mut frame = Frame::new();
            generator.make(&mut frame);
            let at = frame.len() - 8;
            frame.bytes_mut()[at..].copy_from_slice(&(number as u64).to_be_bytes());
            frame
        };
        (0..n).map(numbered).collect()
    }

    fn number(frame: &Frame) -> u64 {
        u64::from_be_bytes(frame.bytes()[frame.len() - 8..].try_into().unwrap())
    }

    fn receive(share: &mut dyn Port) -> Vec<Frame> {
        let mut batch = Batch::with_capacity(7);
        let mut all = Vec::new();
        loop {
            batch.clear();
            if share.rx(&mut batch, Nanos(5)).unwrap() == 0 {
                return all;
            }
            all.extend(batch.frames().iter().map(|f| {
                let mut copy = Frame::new();
                copy.copy_from(f);
                copy
            }));
        }
    }

    #[test]
    fn each_flow_goes_to_one_worker_in_its_order_and_all_frames_arrive() {
        let (mut far, mut shares) = link(3);
        let sent = frames(50, 3000);
        assert_eq!(far.tx(&sent).sent, 3000);
        let got: Vec<Vec<Frame>> = shares.iter_mut().map(|s| receive(&mut **s)).collect();
        let mut owner = HashMap::new();
        for (worker, frames) in got.iter().enumerate() {
            assert!(frames.len() > 300, "worker {worker} has {}", frames.len());
            let mut last = HashMap::new();
            for frame in frames {
                assert_eq!((frame.ingress, frame.arrival), (PortId(3), Nanos(5)));
                let flow = flow_hash(frame.bytes());
                assert_eq!(*owner.entry(flow).or_insert(worker), worker);
                let before = last.insert(flow, number(frame));
                assert!(before < Some(number(frame)));
            }
        }
        assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 3000);
        let mut stats = PortStats::default();
        shares
            .iter_mut()
            .for_each(|share| stats.add(&share.stats()));
        assert_eq!((stats.rx_frames, stats.rx_dropped.total()), (3000, 0));
    }

    #[test]
    fn what_a_slow_worker_has_no_room_for_is_dropped_by_name() {
        let (mut far, mut shares) = link(2);
        let sent = frames(1 << 16, 4 * DEPTH);
        assert_eq!(far.tx(&sent).sent, 4 * DEPTH as u64);
        let own = receive(&mut *shares[0]).len();
        let other = receive(&mut *shares[1]).len();
        assert_eq!(other, DEPTH);
        let stats = shares[0].stats();
        assert_eq!(stats.rx_frames, own as u64);
        let missed = stats.rx_dropped.get(RxDrop::WorkerFull);
        assert_eq!(own + other + missed as usize, 4 * DEPTH);
        assert!(missed > 0);
    }

    #[test]
    fn other_workers_send_by_the_owner_and_wake_it() {
        let (mut far, mut shares) = link(2);
        let mut poller = Poller::new();
        assert_eq!(
            poller
                .wait(shares[0].poll_fd(), Duration::from_millis(1))
                .unwrap(),
            0
        );
        assert_eq!(shares[1].tx(&frames(5, 20)).sent, 20);
        assert_eq!(far.waiting(), 0);
        assert_eq!(
            poller
                .wait(shares[0].poll_fd(), Duration::from_secs(10))
                .unwrap(),
            1
        );
        assert!(receive(&mut *shares[0]).is_empty());
        let arrived = receive(&mut far);
        assert!(arrived.iter().map(number).eq(0..20));
        let stats = [0, 1].map(|at: usize| shares[at].stats().tx_frames);
        assert_eq!(stats, [20, 0]);
    }

    #[test]
    fn buffers_go_round_and_none_is_made_twice() {
        const ROUNDS: u64 = 300_000;
        let line = Line::new().unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let take_all = |frame: &mut Frame| {
            while let Some(mut taken) = line.frames.pop() {
                std::mem::swap(frame, &mut taken);
                line.put_back(taken);
            }
        };
        let made = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut frame = Frame::new();
                while !is_over.load(Relaxed) {
                    take_all(&mut frame);
                }
            });
            let mut made = 0;
            for _ in 0..ROUNDS {
                let buffer = line.empty.pop().unwrap_or_else(|| {
                    made += 1;
                    Frame::new()
                });
                if let Err(frame) = line.frames.push(buffer) {
                    line.put_back(frame);
                }
            }
            is_over.store(true, Relaxed);
            made
        });
        take_all(&mut Frame::new());
        assert_eq!(line.empty.len(), made);
        assert!(made <= DEPTH + 2, "{made}");
    }

    #[test]
    fn frames_for_a_sleeping_worker_wake_it() {
        let (mut far, mut shares) = link(2);
        far.tx(&frames(64, 100));
        let mut poller = Poller::new();
        let fd = shares[1].poll_fd();
        assert_eq!(poller.wait(fd, Duration::from_millis(1)).unwrap(), 0);
        receive(&mut *shares[0]);
        let fd = shares[1].poll_fd();
        assert_eq!(poller.wait(fd, Duration::from_secs(10)).unwrap(), 1);
        assert!(!receive(&mut *shares[1]).is_empty());
    }
}
