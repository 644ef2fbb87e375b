//! A simulated switch: packets are queued for its processor, then for their egress ports.

use std::collections::VecDeque;

use packet::{Frame, FramePool, Nanos, PortId};
use switch::QueueConfig;

use crate::node::{Node, NodeCounts};
use crate::plane::Plane;
use crate::topology::{LinkSpec, ServiceSpec};

/// Name of the drop reason for packets that find the processor's queue full.
pub const OVERLOADED: &str = "processor_overload";

/// A packet that the processor works on, or that is queued for it.
struct Served {
    frame: Frame,
    port: PortId,
    done: Nanos,
}

/// A data plane with a model of its processing time. Packets are processed one after the other,
/// each in the time of [`ServiceSpec`]. The data plane's traffic manager sends at the links'
/// rates, so programs see the queues.
pub struct SwitchNode<P> {
    plane: P,
    service: ServiceSpec,
    /// The processor's queue, in FIFO order.
    served: VecDeque<Served>,
    free_at: Nanos,
    pool: FramePool,
    overloaded: u64,
    too_long: u64,
}

impl<P: Plane> SwitchNode<P> {
    /// Creates a switch from a data plane and its processing time.
    pub fn new(plane: P, service: ServiceSpec) -> SwitchNode<P> {
        SwitchNode {
            plane,
            service,
            served: VecDeque::new(),
            free_at: Nanos::ZERO,
            pool: FramePool::default(),
            overloaded: 0,
            too_long: 0,
        }
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
            packets_per_second: None,
        };
        self.plane.set_queue(port, queue);
    }

    fn receive(&mut self, port: PortId, bytes: &[u8], now: Nanos) {
        self.finish(now);
        // The first packet is being processed, the others are queued.
        if self.served.len() > self.service.backlog {
            self.overloaded += 1;
            return;
        }
        let mut frame = self.pool.get();
        if frame.assign(bytes).is_err() {
            self.too_long += 1;
            return;
        }
        let done = self.free_at.max(now) + self.service.time;
        self.free_at = done;
        self.served.push_back(Served { frame, port, done });
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

    fn tally(&self) -> NodeCounts {
        let ledger = self.plane.ledger();
        let waiting = self.served.len() as u64;
        let own = [
            (OVERLOADED, self.overloaded),
            ("frame_too_long", self.too_long),
        ];
        let dropped = ledger.drops().map(|(reason, n)| (reason.name(), n));
        NodeCounts {
            received: ledger.received + waiting + self.overloaded + self.too_long,
            made: ledger.generated + ledger.replicated,
            delivered: 0,
            sent: ledger.sent,
            dropped: dropped
                .chain(own.into_iter().filter(|(_, n)| *n > 0))
                .collect(),
            held: self.plane.held() as u64 + waiting,
        }
    }
}
