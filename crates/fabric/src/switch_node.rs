//! A simulated switch: packets are queued for its processor, then for their egress ports.

use std::collections::VecDeque;

use packet::{Frame, FramePool, Nanos, PortId};
use switch::{Device, QueueConfig};

use crate::halves::SplitCounts;
use crate::node::{Node, NodeCounts};
use crate::plane::{NO_RESTART, Plane};
use crate::simulation::RESTARTED;
use crate::topology::{DiskFate, LinkSpec, ServiceSpec};

/// Name of the drop reason for packets that find the processor's queue full.
pub const OVERLOADED: &str = "processor_overload";

/// Function from a packet to the number of its worker.
pub type WorkerOf = Box<dyn Fn(&Frame) -> u32>;

/// Function that loads the device of a switch again.
pub type LoadDevice = Box<dyn FnMut() -> Result<Device, String>>;

/// A packet that the processor works on, or that is queued for it.
struct Served {
    frame: Frame,
    port: PortId,
    done: Nanos,
}

/// A data plane with a model of its processing time. A worker processes packets one after the
/// other, each in the time of [`ServiceSpec`]. The data plane's traffic manager sends at the links'
/// rates, so programs see the queues.
pub struct SwitchNode<P> {
    plane: P,
    service: ServiceSpec,
    /// The queue of all workers, in order of completion.
    served: VecDeque<Served>,
    /// Time at which each worker is free.
    free_at: Vec<Nanos>,
    worker_of: WorkerOf,
    /// Processing time of all packets.
    busy: Nanos,
    pool: FramePool,
    overloaded: u64,
    too_long: u64,
    load: Option<LoadDevice>,
    /// Queues by port, which a device that is loaded again gets.
    queues: Vec<(PortId, QueueConfig)>,
    /// Counters before the last restart.
    before: NodeCounts,
}

impl<P: Plane> SwitchNode<P> {
    /// Creates a switch from a data plane and its processing time.
    pub fn new(plane: P, service: ServiceSpec) -> SwitchNode<P> {
        SwitchNode {
            plane,
            service,
            served: VecDeque::new(),
            free_at: vec![Nanos::ZERO],
            worker_of: Box::new(|_| 0),
            busy: Nanos::ZERO,
            pool: FramePool::default(),
            overloaded: 0,
            too_long: 0,
            load: None,
            queues: Vec::new(),
            before: NodeCounts::default(),
        }
    }

    /// Sets the function that loads the device again after a crash.
    #[must_use]
    pub fn with_loader(mut self, load: LoadDevice) -> SwitchNode<P> {
        self.load = Some(load);
        self
    }

    /// Sets the number of workers. A packet's worker is the result of `worker_of`, modulo this
    /// number.
    #[must_use]
    pub fn with_workers(mut self, workers: u16, worker_of: WorkerOf) -> SwitchNode<P> {
        self.free_at = vec![Nanos::ZERO; usize::from(workers.max(1))];
        self.worker_of = worker_of;
        self
    }

    /// Passes the packets that the processor has finished by now to the data plane, each with its
    /// completion time.
    fn finish(&mut self, now: Nanos) {
        while self.served.front().is_some_and(|first| first.done <= now)
            && let Some(mut served) = self.served.pop_front()
        {
            let Served { frame, port, done } = &mut served;
            if self.plane.forward(*port, frame, *done).is_err() {
                self.too_long += 1;
            }
            self.pool.put(served.frame);
        }
    }
}

impl<P: Plane> Node for SwitchNode<P> {
    fn attach(&mut self, port: PortId, link: &LinkSpec) {
        let queue = QueueConfig {
            depth: link.queue,
            bits_per_second: link.rate.map(|rate| rate.0),
            ..QueueConfig::default()
        };
        self.queues.retain(|(known, _)| *known != port);
        self.queues.push((port, queue));
        self.plane.set_queue(port, queue);
    }

    fn receive(&mut self, port: PortId, bytes: &[u8], now: Nanos) {
        self.finish(now);
        // Each worker processes a packet, the others are queued.
        if self.served.len() >= self.service.backlog + self.free_at.len() {
            self.overloaded += 1;
            return;
        }
        let mut frame = self.pool.get();
        if frame.assign(bytes).is_err() {
            self.too_long += 1;
            return;
        }
        let worker = (self.worker_of)(&frame) as usize % self.free_at.len();
        let free_at = &mut self.free_at[worker];
        let done = (*free_at).max(now) + self.service.time;
        *free_at = done;
        self.busy += self.service.time;
        let place = self.served.partition_point(|served| served.done <= done);
        self.served.insert(place, Served { frame, port, done });
    }

    fn step(&mut self, now: Nanos) {
        self.finish(now);
        self.plane.step(now);
    }

    fn next_time(&self) -> Option<Nanos> {
        let served = self.served.front().map(|served| served.done);
        served.into_iter().chain(self.plane.next_time()).min()
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        self.plane.drain_sent(take);
    }

    fn take_servers(&mut self) -> Vec<Box<dyn Node>> {
        self.plane.take_servers()
    }

    fn changed_others(&mut self) -> bool {
        self.plane.changed_others()
    }

    fn split_counts(&self) -> Option<SplitCounts> {
        self.plane.split_counts()
    }

    fn has_clock(&self) -> bool {
        true
    }

    fn crash(&mut self) {
        self.plane.crash();
    }

    fn restart(&mut self, disk: DiskFate, now: Nanos) -> Result<(), String> {
        let load = self.load.as_mut().ok_or(NO_RESTART)?;
        let fresh = load()?;
        let mut counts = self.tally();
        self.plane.restart(fresh, disk)?;
        counts
            .dropped
            .push((RESTARTED, std::mem::take(&mut counts.held)));
        self.before = counts;
        while let Some(served) = self.served.pop_front() {
            self.pool.put(served.frame);
        }
        self.free_at.fill(now);
        (self.busy, self.overloaded, self.too_long) = (Nanos::ZERO, 0, 0);
        for (port, queue) in &self.queues {
            self.plane.set_queue(*port, *queue);
        }
        Ok(())
    }

    fn tally(&self) -> NodeCounts {
        let ledger = self.plane.ledger();
        let waiting = self.served.len() as u64;
        let own = [
            (OVERLOADED, self.overloaded),
            ("frame_too_long", self.too_long),
        ];
        let dropped = ledger.drops().map(|(reason, n)| (reason.name(), n));
        let mut counts = NodeCounts {
            received: ledger.received + waiting + self.overloaded + self.too_long,
            made: ledger.generated + ledger.replicated,
            delivered: 0,
            sent: ledger.sent,
            dropped: dropped
                .chain(own.into_iter().filter(|(_, n)| *n > 0))
                .collect(),
            held: self.plane.held() as u64 + waiting,
            busy: self.busy,
        };
        counts.add(self.before.clone());
        counts
    }
}
