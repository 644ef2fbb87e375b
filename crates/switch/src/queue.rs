//! Traffic manager: a FIFO queue for each egress port and priority, with strict priority scheduling
//! and rate limits by port, and by priority within those.
//!
//! Time is an input. A packet leaves at the first moment at which its port is free and no packet of
//! higher priority waits. At the default, unlimited rate that is its arrival time. Depths and times
//! are those of v1model's `enq_qdepth`, `deq_qdepth`, `enq_timestamp` and `deq_timedelta`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};

use packet::{Nanos, PortId};

/// Queue configuration of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Maximum number of packets in the queue of one priority. Further packets are dropped.
    pub depth: usize,
    /// Rate in bits per second; `None` means unlimited.
    pub bits_per_second: Option<u64>,
    /// Rate in packets per second; `None` means unlimited.
    pub packets_per_second: Option<u64>,
    /// Limits of the queues of single priorities.
    pub priorities: [PriorityQueueConfig; QUEUE_PRIORITIES],
}

/// Number of priorities of which the queues can have limits of their own: those of v1model.
pub const QUEUE_PRIORITIES: usize = 8;

/// Limits of the queue of one priority, beside those of its port. Without them it has those alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityQueueConfig {
    /// Maximum number of packets in the queue, in place of the port's.
    pub depth: Option<NonZeroU32>,
    /// Rate in bits per second.
    pub bits_per_second: Option<NonZeroU64>,
    /// Rate in packets per second.
    pub packets_per_second: Option<NonZeroU64>,
}

impl PriorityQueueConfig {
    fn is_limited(&self) -> bool {
        self.bits_per_second.is_some() || self.packets_per_second.is_some()
    }
}

impl Default for QueueConfig {
    /// Returns an unlimited rate and a depth of 64 packets, as in BMv2.
    fn default() -> Self {
        QueueConfig {
            depth: 64,
            bits_per_second: None,
            packets_per_second: None,
            priorities: Default::default(),
        }
    }
}

/// Returns the transmission time of a packet in nanoseconds, at rates in bits and packets per
/// second.
fn busy(bytes: usize, bits_per_second: Option<u64>, packets_per_second: Option<u64>) -> u64 {
    let by = |unit: u64, rate: Option<u64>| {
        rate.map_or(0, |rate| {
            (u128::from(unit) * 1_000_000_000 / u128::from(rate.max(1))) as u64
        })
    };
    by(bytes as u64 * 8, bits_per_second).max(by(1, packets_per_second))
}

impl QueueConfig {
    /// Returns the transmission time of a packet in nanoseconds.
    fn busy(&self, bytes: usize) -> u64 {
        busy(bytes, self.bits_per_second, self.packets_per_second)
    }

    /// Returns true if the port or a priority has a rate limit.
    fn is_limited(&self) -> bool {
        self.has_rate() || self.has_own_rates()
    }

    fn has_rate(&self) -> bool {
        self.bits_per_second.is_some() || self.packets_per_second.is_some()
    }

    fn has_own_rates(&self) -> bool {
        self.priorities.iter().any(PriorityQueueConfig::is_limited)
    }

    fn of_priority(&self, priority: u8) -> PriorityQueueConfig {
        let own = self.priorities.get(usize::from(priority));
        own.copied().unwrap_or_default()
    }

    fn depth_of(&self, priority: u8) -> usize {
        let own = self.of_priority(priority).depth;
        own.map_or(self.depth, |depth| depth.get() as usize)
    }
}

/// Queue times and depths of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTimes {
    /// Time of arrival in the queue.
    pub enqueued: Nanos,
    /// Number of packets in its queue on arrival.
    pub enqueue_depth: u32,
    /// Time of departure.
    pub dequeued: Nanos,
    /// Number of packets left in its queue on departure.
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
    /// True if the port was configured explicitly.
    is_configured: bool,
    /// Queues by priority; the highest is served first.
    queues: BTreeMap<u8, VecDeque<Waiting<T>>>,
    /// Time at which the port is free again after the last packet.
    free_at: Nanos,
    /// Departure time and bytes of the last packet.
    last: (Nanos, usize),
    /// The same by priority.
    last_of: [Option<(Nanos, usize)>; QUEUE_PRIORITIES],
}

impl<T> PortQueues<T> {
    fn is_empty(&self) -> bool {
        self.queues.values().all(VecDeque::is_empty)
    }

    /// Returns the packet that leaves next.
    fn next(&self) -> Option<NextPacket> {
        let has_own_rates = self.config.has_own_rates();
        let mut next: Option<NextPacket> = None;
        for (priority, queue) in self.queues.iter().rev() {
            let Some(front) = queue.front() else {
                continue;
            };
            let free_at = self.free_at.max(self.free_at_of(*priority));
            let at = free_at.max(front.enqueued);
            if next.is_none_or(|next| at < next.at) {
                next = Some(NextPacket {
                    at,
                    sequence: front.sequence,
                    priority: *priority,
                });
            }
            // A lower priority goes first only while a higher one may not send.
            if !has_own_rates {
                break;
            }
        }
        next
    }

    /// Returns the time from which a priority may send by its own rate.
    fn free_at_of(&self, priority: u8) -> Nanos {
        let own = self.config.of_priority(priority);
        let last = self.last_of.get(usize::from(priority)).copied().flatten();
        last.map_or(Nanos::ZERO, |(left, bytes)| {
            let [bits, packets] = [own.bits_per_second, own.packets_per_second];
            left + Nanos(busy(bytes, bits.map(Into::into), packets.map(Into::into)))
        })
    }
}

/// The packet of a port that leaves next.
#[derive(Clone, Copy)]
struct NextPacket {
    at: Nanos,
    sequence: u64,
    priority: u8,
}

/// Number of unconfigured idle ports to keep, so that ports in use keep their memory.
const IDLE_PORTS: usize = 512;

/// All queues of a device.
pub struct Queues<T> {
    default: QueueConfig,
    ports: BTreeMap<PortId, PortQueues<T>>,
    /// Number of ports at which idle ones are removed.
    most_ports: usize,
    /// Heap with one element for each port that has packets: the time at which it may send, and the
    /// sequence number of its next packet.
    ready: BinaryHeap<Reverse<(Nanos, u64, PortId)>>,
    sequence: u64,
    held: usize,
    /// True if any port is shaped.
    has_limited: bool,
    /// Time at which all ports that have sent are free.
    all_free_at: Nanos,
}

impl<T> Queues<T> {
    /// Creates empty queues. Ports use `default` until they are configured.
    pub fn new(default: QueueConfig) -> Self {
        Queues {
            default,
            ports: BTreeMap::new(),
            most_ports: IDLE_PORTS,
            ready: BinaryHeap::new(),
            sequence: 0,
            held: 0,
            has_limited: default.is_limited(),
            all_free_at: Nanos::ZERO,
        }
    }

    /// Configures a port from `now` on. A packet in transmission continues at the new rate, as if
    /// it had started at that rate. Waiting packets leave no earlier than now.
    pub fn configure(&mut self, port: PortId, config: QueueConfig, now: Nanos) {
        let queues = self.port(port, now);
        queues.config = config;
        queues.is_configured = true;
        if queues.free_at > now {
            let (left, bytes) = queues.last;
            queues.free_at = now.max(left + Nanos(config.busy(bytes)));
        }
        self.schedule(port, now);
        let mut ports = self.ports.values();
        self.has_limited = self.default.is_limited() || ports.any(|port| port.config.is_limited());
        let free_at = self.ports.values().map(|port| port.free_at).max();
        self.all_free_at = free_at.unwrap_or(Nanos::ZERO);
    }

    /// Notes when the next packet of a port leaves, which is not before `now`.
    fn schedule(&mut self, port: PortId, now: Nanos) {
        let next = self.ports.get(&port).and_then(PortQueues::next);
        if let Some(NextPacket { at, sequence, .. }) = next {
            self.ready.retain(|Reverse((_, _, other))| *other != port);
            self.ready.push(Reverse((at.max(now), sequence, port)));
        }
    }

    fn port(&mut self, port: PortId, now: Nanos) -> &mut PortQueues<T> {
        if self.ports.len() >= self.most_ports && !self.ports.contains_key(&port) {
            self.forget_idle(now);
        }
        let config = self.default;
        self.ports.entry(port).or_insert_with(|| PortQueues {
            config,
            is_configured: false,
            queues: BTreeMap::new(),
            free_at: Nanos::ZERO,
            last: (Nanos::ZERO, 0),
            last_of: [None; QUEUE_PRIORITIES],
        })
    }

    /// Removes ports without state, so that packets to ever new ports do not grow the memory.
    fn forget_idle(&mut self, now: Nanos) {
        self.ports
            .retain(|_, queues| queues.is_configured || queues.free_at > now || !queues.is_empty());
        // Doubles the limit if many ports are in use, so that the scan stays rare.
        self.most_ports = IDLE_PORTS.max(self.ports.len() * 2);
    }

    /// Returns the configuration of ports that are not configured.
    pub fn default_config(&self) -> QueueConfig {
        self.default
    }

    /// Returns the configuration of a port.
    pub fn config(&self, port: PortId) -> QueueConfig {
        let queues = self.ports.get(&port);
        queues.map_or(self.default, |queues| queues.config)
    }

    /// Returns true if a port has a rate limit.
    pub fn is_shaped(&self, port: PortId) -> bool {
        self.config(port).is_limited()
    }

    /// Returns the configured ports with their configurations.
    pub fn configured(&self) -> Vec<(PortId, QueueConfig)> {
        let ports = self.ports.iter().filter(|(_, queues)| queues.is_configured);
        ports.map(|(port, queues)| (*port, queues.config)).collect()
    }

    /// Returns true if ports that are not configured have no rate limit.
    pub fn is_usually_free(&self) -> bool {
        !self.default.is_limited()
    }

    /// Writes the busy ports to `busy`, ascending: those that are shaped, are still sending at
    /// `now`, or have waiting packets.
    pub fn busy(&self, now: Nanos, busy: &mut Vec<u32>) {
        busy.clear();
        if !self.has_limited && self.held == 0 && self.all_free_at <= now {
            return;
        }
        let is_busy = |queues: &PortQueues<T>| {
            queues.config.is_limited() || queues.free_at > now || !queues.is_empty()
        };
        let ports = self.ports.iter().filter(|(_, queues)| is_busy(queues));
        busy.extend(ports.map(|(port, _)| port.0));
    }

    /// Returns the number of waiting packets.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of packets in one queue.
    pub fn waiting(&self, port: PortId, priority: u8) -> usize {
        let queues = self.ports.get(&port).map(|port| &port.queues);
        queues
            .and_then(|queues| queues.get(&priority))
            .map_or(0, VecDeque::len)
    }

    /// Enqueues a packet. Returns it as the error if its queue is full.
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
        let queues = self.port(port, now);
        let was_empty = queues.is_empty();
        let own = queues.config.of_priority(priority);
        let limited = queues.config.has_rate() || own.is_limited() || queues.free_at > now;
        let depth = queues.config.depth_of(priority);
        let has_own_rates = queues.config.has_own_rates();
        let free_at = queues.free_at;
        let queue = queues.queues.entry(priority).or_default();
        // At unlimited rate nothing ever waits, so no queue is full: its packets belong to the
        // current batch.
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
        if has_own_rates {
            // It may leave before packets that wait for the rate of their priority.
            self.schedule(port, now);
        } else if was_empty {
            self.ready.push(Reverse((now.max(free_at), sequence, port)));
        }
        Ok(())
    }

    /// Dequeues the next packet that may leave by `now`. Returns its port and its queue times too.
    pub fn pop(&mut self, now: Nanos) -> Option<(PortId, T, QueueTimes)> {
        let Reverse((at, _, port)) = *self.ready.peek()?;
        if at > now {
            return None;
        }
        self.ready.pop();
        let queues = self.ports.get_mut(&port)?;
        let next = queues.next()?;
        let queue = queues.queues.get_mut(&next.priority)?;
        let waiting = queue.pop_front()?;
        let dequeue_depth = queue.len() as u32;
        let leaves = at.max(next.at);
        queues.free_at = leaves + Nanos(queues.config.busy(waiting.bytes));
        queues.last = (leaves, waiting.bytes);
        if let Some(last) = queues.last_of.get_mut(usize::from(next.priority)) {
            *last = Some(queues.last);
        }
        self.all_free_at = self.all_free_at.max(queues.free_at);
        self.held -= 1;
        if let Some(NextPacket { at, sequence, .. }) = queues.next() {
            self.ready.push(Reverse((at, sequence, port)));
        }
        let times = QueueTimes {
            enqueued: waiting.enqueued,
            enqueue_depth: waiting.enqueue_depth,
            dequeued: leaves,
            dequeue_depth,
        };
        Some((port, waiting.item, times))
    }

    /// Returns the time at which the next packet may leave.
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
            ..QueueConfig::default()
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
    fn ports_that_are_named_once_are_forgotten_and_those_that_matter_are_not() {
        let slow = QueueConfig {
            packets_per_second: Some(1),
            ..QueueConfig::default()
        };
        let mut queues = Queues::new(QueueConfig::default());
        queues.configure(PortId(7), slow, ns(0));
        for item in 0..3 {
            assert!(queues.push(PortId(7), 0, 64, ns(0), item).is_ok());
        }
        for port in 1000..101_000 {
            assert!(queues.push(PortId(port), 0, 64, ns(5), port).is_ok());
            assert_eq!(
                queues.pop(ns(5)).map(|popped| popped.0),
                Some(PortId(if port == 1000 { 7 } else { port - 1 }))
            );
        }
        assert!(queues.ports.len() <= IDLE_PORTS, "{}", queues.ports.len());
        assert_eq!(queues.waiting(PortId(7), 0), 2);
        assert_eq!(drain(&mut queues, 3_000_000_000).len(), 3);
        // A port stays busy until its last packet is sent.
        let mut queues = Queues::new(slow);
        for port in 0..2000 {
            assert!(queues.push(PortId(port), 0, 64, ns(0), port).is_ok());
        }
        assert_eq!(drain(&mut queues, 0).len(), 2000);
        assert!(queues.push(PortId(3), 0, 64, ns(10), 0).is_ok());
        assert_eq!(queues.next_time(), Some(ns(1_000_000_000)));
    }

    #[test]
    fn a_new_rate_counts_at_once_for_what_waits() {
        let rate = |packets_per_second| QueueConfig {
            depth: 8,
            packets_per_second,
            ..QueueConfig::default()
        };
        let configured = |config: QueueConfig, now: u64| {
            let mut queues = Queues::new(rate(Some(1)));
            for item in 0..3 {
                assert!(queues.push(PortId(1), 0, 64, ns(0), item).is_ok());
            }
            assert_eq!(drain(&mut queues, 0), [(1, 0, 0)]);
            queues.configure(PortId(1), config, ns(now));
            drain(&mut queues, 10_000_000_000)
        };
        // Unlimited: all leave now. Faster: the first packet has been sent, or is sent at the new
        // rate. Slower: the port is busy for longer.
        assert_eq!(configured(rate(None), 500), [(1, 1, 500), (1, 2, 500)]);
        let fast = rate(Some(1_000_000));
        assert_eq!(configured(fast, 400), [(1, 1, 1000), (1, 2, 2000)]);
        assert_eq!(configured(fast, 5000), [(1, 1, 5000), (1, 2, 6000)]);
        let half = 2_000_000_000;
        let slow = QueueConfig {
            bits_per_second: Some(256),
            ..rate(None)
        };
        assert_eq!(configured(slow, 400), [(1, 1, half), (1, 2, 2 * half)]);
    }

    #[test]
    fn ports_are_busy_while_they_are_shaped_or_send_or_hold_packets() {
        let busy = |queues: &Queues<u32>, now| {
            let mut busy = vec![77];
            queues.busy(ns(now), &mut busy);
            busy
        };
        let mut queues = Queues::new(QueueConfig::default());
        assert!(busy(&queues, 0).is_empty());
        assert!(queues.push(PortId(3), 0, 64, ns(10), 1).is_ok());
        assert_eq!(busy(&queues, 10), [3]);
        assert_eq!(drain(&mut queues, 10).len(), 1);
        assert!(busy(&queues, 10).is_empty());
        let slow = QueueConfig {
            packets_per_second: Some(1),
            ..QueueConfig::default()
        };
        queues.configure(PortId(5), slow, ns(20));
        assert_eq!(busy(&queues, 20), [5]);
        assert!(queues.push(PortId(5), 0, 64, ns(20), 2).is_ok());
        assert_eq!(drain(&mut queues, 20).len(), 1);
        queues.configure(PortId(5), QueueConfig::default(), ns(30));
        assert_eq!(busy(&queues, 25), [5]);
        assert!(busy(&queues, 30).is_empty());
        // All ports are shaped by the default configuration.
        let mut queues = Queues::new(slow);
        assert!(queues.push(PortId(3), 0, 64, ns(0), 1).is_ok());
        assert_eq!(drain(&mut queues, 0).len(), 1);
        assert_eq!(busy(&queues, 2_000_000_000), [3]);
    }

    #[test]
    fn a_busy_port_s_queue_is_full_at_its_depth_whatever_its_rate() {
        let mut queues = Queues::new(QueueConfig::default());
        let config = |packets_per_second| QueueConfig {
            depth: 2,
            packets_per_second,
            ..QueueConfig::default()
        };
        queues.configure(PortId(1), config(Some(1)), ns(0));
        assert!(queues.push(PortId(1), 0, 64, ns(0), 0).is_ok());
        assert_eq!(drain(&mut queues, 0).len(), 1);
        queues.configure(PortId(1), config(None), ns(100));
        // Packets that arrive before 100 find the port busy until then.
        let pushed = [1, 2, 3].map(|item| queues.push(PortId(1), 0, 64, ns(50), item).is_ok());
        assert_eq!(pushed, [true, true, false]);
        assert_eq!(drain(&mut queues, 100), [(1, 1, 100), (1, 2, 100)]);
    }

    #[test]
    fn the_higher_priority_goes_first_and_depths_are_those_of_its_queue() {
        let config = QueueConfig {
            depth: 8,
            bits_per_second: Some(8_000_000_000),
            ..QueueConfig::default()
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

    #[test]
    fn a_priority_has_a_rate_and_a_depth_of_its_own_within_those_of_the_port() {
        let mut config = QueueConfig::default();
        config.priorities[7] = PriorityQueueConfig {
            depth: NonZeroU32::new(2),
            packets_per_second: NonZeroU64::new(1_000_000),
            ..PriorityQueueConfig::default()
        };
        let mut queues = Queues::new(QueueConfig::default());
        queues.configure(PortId(1), config, ns(0));
        let mut push =
            |item, priority, now| queues.push(PortId(1), priority, 64, ns(now), item).is_ok();
        assert_eq!(
            [10, 11, 12].map(|item| push(item, 7, 0)),
            [true, true, false]
        );
        // Another priority has no limit, and does not wait for the first one.
        assert!((0..100).all(|item| push(item, 0, 0)));
        assert_eq!(busy(&queues, 0), [1]);
        assert_eq!(drain(&mut queues, 0).len(), 101);
        assert_eq!(queues.next_time(), Some(ns(1000)));
        assert!(queues.push(PortId(1), 0, 64, ns(500), 13).is_ok());
        assert_eq!(drain(&mut queues, 500), [(1, 13, 500)]);
        assert_eq!(drain(&mut queues, 2000), [(1, 11, 1000)]);
        // What waits leaves at a new rate as if its packet before had.
        assert!([14, 15].map(|item| queues.push(PortId(1), 7, 64, ns(2000), item).is_ok())[1]);
        assert_eq!(drain(&mut queues, 2000), [(1, 14, 2000)]);
        config.priorities[7].packets_per_second = NonZeroU64::new(500_000);
        queues.configure(PortId(1), config, ns(2100));
        assert_eq!(drain(&mut queues, 9000), [(1, 15, 4000)]);
        // The rate of the port holds for all of them.
        config.packets_per_second = Some(100_000);
        queues.configure(PortId(1), config, ns(20_000));
        assert!(queues.push(PortId(1), 7, 64, ns(20_000), 16).is_ok());
        assert!(queues.push(PortId(1), 0, 64, ns(20_000), 17).is_ok());
        let order = [(1, 16, 20_000), (1, 17, 30_000)];
        assert_eq!(drain(&mut queues, 90_000), order);
    }

    fn busy(queues: &Queues<u32>, now: u64) -> Vec<u32> {
        let mut busy = Vec::new();
        queues.busy(ns(now), &mut busy);
        busy
    }
}
