//! The traffic manager's queues: a first-in-first-out queue for each egress port and priority, served strictly by priority at the port's rate.
//!
//! Time is an input: a packet leaves at the first moment at which its port is free and nothing of higher priority waits. At the default, unlimited
//! rate that is the moment at which it came. Depths and times are those that v1model shows as `enq_qdepth`, `deq_qdepth`, `enq_timestamp` and
//! `deq_timedelta`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use packet::{Nanos, PortId};

/// How a port sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Packets that one priority's queue holds; one more is dropped.
    pub depth: usize,
    /// Bits a second; unlimited without it.
    pub bits_per_second: Option<u64>,
    /// Packets a second; unlimited without it.
    pub packets_per_second: Option<u64>,
}

impl Default for QueueConfig {
    /// Unlimited rate, and room for 64 packets as in BMv2.
    fn default() -> Self {
        QueueConfig {
            depth: 64,
            bits_per_second: None,
            packets_per_second: None,
        }
    }
}

impl QueueConfig {
    /// How long the port is busy with a packet.
    fn busy(&self, bytes: usize) -> u64 {
        let by = |unit: u64, rate: Option<u64>| {
            rate.map_or(0, |rate| {
                (u128::from(unit) * 1_000_000_000 / u128::from(rate.max(1))) as u64
            })
        };
        by(bytes as u64 * 8, self.bits_per_second).max(by(1, self.packets_per_second))
    }

    fn is_limited(&self) -> bool {
        self.bits_per_second.is_some() || self.packets_per_second.is_some()
    }
}

/// What a packet sees of the queue that it went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTimes {
    /// When it came.
    pub enqueued: Nanos,
    /// Packets in its queue when it came.
    pub enqueue_depth: u32,
    /// When it left.
    pub dequeued: Nanos,
    /// Packets in its queue when it left.
    pub dequeue_depth: u32,
}

struct Waiting<T> {
    item: T,
    bytes: usize,
    sequence: u64,
    enqueued: Nanos,
    enqueue_depth: u32,
}

struct PortQueues<T> {
    config: QueueConfig,
    /// By priority, the highest served first.
    queues: BTreeMap<u8, VecDeque<Waiting<T>>>,
    free_at: Nanos,
}

/// All queues of a device.
pub struct Queues<T> {
    default: QueueConfig,
    ports: BTreeMap<PortId, PortQueues<T>>,
    /// Ports with packets: when each may send, and the sequence number of its next packet.
    ready: BinaryHeap<Reverse<(Nanos, u64, PortId)>>,
    sequence: u64,
    held: usize,
}

impl<T> Queues<T> {
    /// Empty queues; ports take `default` until they are configured.
    pub fn new(default: QueueConfig) -> Self {
        Queues {
            default,
            ports: BTreeMap::new(),
            ready: BinaryHeap::new(),
            sequence: 0,
            held: 0,
        }
    }

    /// Sets how a port sends.
    pub fn configure(&mut self, port: PortId, config: QueueConfig) {
        self.port(port).config = config;
    }

    fn port(&mut self, port: PortId) -> &mut PortQueues<T> {
        let config = self.default;
        self.ports.entry(port).or_insert_with(|| PortQueues {
            config,
            queues: BTreeMap::new(),
            free_at: Nanos::ZERO,
        })
    }

    /// Whether ports that are not configured send at once.
    pub fn is_usually_free(&self) -> bool {
        !self.default.is_limited()
    }

    /// Writes the ports that are shaped, or where packets wait, into `busy`, ascending.
    pub fn busy(&self, busy: &mut Vec<u32>) {
        let is_busy = |queues: &PortQueues<T>| {
            queues.config.is_limited() || queues.queues.values().any(|queue| !queue.is_empty())
        };
        let ports = self.ports.iter().filter(|(_, queues)| is_busy(queues));
        busy.clear();
        busy.extend(ports.map(|(port, _)| port.0));
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Packets that wait in one queue.
    pub fn waiting(&self, port: PortId, priority: u8) -> usize {
        let queues = self.ports.get(&port).map(|port| &port.queues);
        queues
            .and_then(|queues| queues.get(&priority))
            .map_or(0, VecDeque::len)
    }

    /// Puts a packet in; gives it back when its queue is full.
    pub fn push(
        &mut self,
        port: PortId,
        priority: u8,
        bytes: usize,
        now: Nanos,
        item: T,
    ) -> Result<(), T> {
        self.sequence += 1;
        let sequence = self.sequence;
        let queues = self.port(port);
        let was_empty = queues.queues.values().all(VecDeque::is_empty);
        let limited = queues.config.is_limited();
        let (depth, free_at) = (queues.config.depth, queues.free_at);
        let queue = queues.queues.entry(priority).or_default();
        // At unlimited rate nothing ever waits, so nothing can be full: the packets here are those of one batch.
        if limited && queue.len() >= depth {
            return Err(item);
        }
        let enqueue_depth = queue.len() as u32;
        queue.push_back(Waiting {
            item,
            bytes,
            sequence,
            enqueued: now,
            enqueue_depth,
        });
        self.held += 1;
        if was_empty {
            self.ready.push(Reverse((now.max(free_at), sequence, port)));
        }
        Ok(())
    }

    /// The next packet that may leave by `now`, its port and what it saw of the queue.
    pub fn pop(&mut self, now: Nanos) -> Option<(PortId, T, QueueTimes)> {
        let Reverse((at, _, port)) = *self.ready.peek()?;
        if at > now {
            return None;
        }
        self.ready.pop();
        let queues = self.ports.get_mut(&port)?;
        let queue = queues
            .queues
            .values_mut()
            .rev()
            .find(|queue| !queue.is_empty())?;
        let waiting = queue.pop_front()?;
        let dequeue_depth = queue.len() as u32;
        let leaves = at.max(waiting.enqueued);
        queues.free_at = leaves + Nanos(queues.config.busy(waiting.bytes));
        self.held -= 1;
        let next = queues.queues.values().rev().find_map(|queue| queue.front());
        if let Some(next) = next {
            self.ready.push(Reverse((
                queues.free_at.max(next.enqueued),
                next.sequence,
                port,
            )));
        }
        let times = QueueTimes {
            enqueued: waiting.enqueued,
            enqueue_depth: waiting.enqueue_depth,
            dequeued: leaves,
            dequeue_depth,
        };
        Some((port, waiting.item, times))
    }

    /// When the next packet may leave.
    pub fn next_time(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((at, _, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(n: u64) -> Nanos {
        Nanos(n)
    }

    fn drain(queues: &mut Queues<u32>, now: u64) -> Vec<(u32, u32, u64)> {
        let mut out = Vec::new();
        while let Some((port, item, times)) = queues.pop(ns(now)) {
            out.push((port.0, item, times.dequeued.0));
        }
        out
    }

    #[test]
    fn at_unlimited_rate_packets_leave_in_the_order_in_which_they_came() {
        let mut queues = Queues::new(QueueConfig::default());
        for (item, port) in [(1, 5), (2, 6), (3, 5), (4, 7)] {
            assert!(queues.push(PortId(port), 0, 100, ns(10), item).is_ok());
        }
        assert_eq!(
            drain(&mut queues, 10),
            [(5, 1, 10), (6, 2, 10), (5, 3, 10), (7, 4, 10)]
        );
        assert_eq!(queues.held(), 0);
    }

    #[test]
    fn a_rate_spaces_packets_and_a_full_queue_gives_them_back() {
        let config = QueueConfig {
            depth: 2,
            packets_per_second: Some(1_000_000),
            bits_per_second: None,
        };
        let mut queues = Queues::new(config);
        let pushed: Vec<bool> = (0..4)
            .map(|i| queues.push(PortId(1), 0, 64, ns(0), i).is_ok())
            .collect();
        assert_eq!(pushed, [true, true, false, false]);
        assert_eq!(drain(&mut queues, 999), [(1, 0, 0)]);
        assert_eq!(queues.next_time(), Some(ns(1000)));
        assert_eq!(drain(&mut queues, 5000), [(1, 1, 1000)]);
    }

    #[test]
    fn the_higher_priority_goes_first_and_depths_are_those_of_its_queue() {
        let config = QueueConfig {
            depth: 8,
            bits_per_second: Some(8_000_000_000),
            packets_per_second: None,
        };
        let mut queues = Queues::new(config);
        for (item, priority) in [(1, 0), (2, 0), (3, 7), (4, 7)] {
            assert!(queues.push(PortId(1), priority, 1000, ns(0), item).is_ok());
        }
        let order: Vec<u32> = drain(&mut queues, 10_000)
            .iter()
            .map(|(_, item, _)| *item)
            .collect();
        assert_eq!(order, [3, 4, 1, 2]);
    }
}
