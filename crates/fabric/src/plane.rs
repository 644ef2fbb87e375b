//! What a switch's packets go through behind its processor: one device, or virtual data planes.

use std::collections::VecDeque;

use packet::{Frame, FrameError, FramePool, Nanos, PortId};
use switch::{Change, Device, Ledger, QueueConfig};
use tenancy::{Connection, Hypervisor, VpdpId, Worker};

/// What forwards a switch's packets, with queues at its ports. Times given to it never go back.
pub trait Plane {
    /// Says how fast a port sends, and what waits for it.
    fn set_queue(&mut self, port: PortId, queue: QueueConfig);

    /// Takes a packet through; what is left of the frame is no packet any more.
    ///
    /// # Errors
    /// It is longer than a packet may be.
    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError>;

    /// Does all that is to be done by now.
    fn step(&mut self, now: Nanos);

    /// When something is to be done that needs no packet.
    fn next_time(&self) -> Option<Nanos>;

    /// Gives each packet that left to `take`: its port, its bytes, when it left.
    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos));

    /// What became of all packets; true between [`Plane::step`] and the next packet.
    fn ledger(&self) -> Ledger;

    /// Packets inside.
    fn held(&self) -> usize;
}

impl Plane for Device {
    fn set_queue(&mut self, port: PortId, queue: QueueConfig) {
        let set = self.apply(Change::SetQueue(port, queue));
        debug_assert!(set.is_ok(), "a queue can be set for every port: {set:?}");
    }

    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError> {
        self.receive(port, frame.bytes())?;
        Device::step(self, now);
        Ok(())
    }

    fn step(&mut self, now: Nanos) {
        Device::step(self, now);
    }

    fn next_time(&self) -> Option<Nanos> {
        Device::next_time(self)
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        Device::drain_sent(self, take);
    }

    fn ledger(&self) -> Ledger {
        Device::ledger(self)
    }

    fn held(&self) -> usize {
        Device::held(self)
    }
}

/// How often the control side of virtual data planes gets its turn: digests and messages wait for it no longer.
const TURN: Nanos = Nanos::from_millis(1);

/// Virtual data planes with one worker, in simulated time.
///
/// Each has queues of its own for a port that several have, at the whole rate of its link; what they send together beyond that, the line queues.
pub struct Tenants {
    hypervisor: Hypervisor,
    worker: Worker,
    next_turn: Nanos,
    out: Outbox,
}

/// Packets that left.
#[derive(Default)]
struct Outbox {
    sent: VecDeque<(PortId, Frame, Nanos)>,
    pool: FramePool,
}

impl Outbox {
    fn take(&mut self, port: PortId, frame: &mut Frame, time: Nanos) {
        let mut taken = self.pool.get();
        std::mem::swap(&mut taken, frame);
        self.sent.push_back((port, taken, time));
    }
}

impl Tenants {
    /// The virtual data planes of a switch, if it has no worker yet.
    pub fn new(mut hypervisor: Hypervisor) -> Option<Tenants> {
        let worker = hypervisor.workers(1).pop()?;
        Some(Tenants {
            hypervisor,
            worker,
            next_turn: Nanos::ZERO,
            out: Outbox::default(),
        })
    }

    fn run(&mut self, frames: &mut [Frame], now: Nanos) {
        let out = &mut self.out;
        self.worker
            .forward(frames, now, |port, frame, time| out.take(port, frame, time));
    }

    /// When a device has something to do of its own: entries that packets have added may expire.
    fn next_due(&self) -> Option<Nanos> {
        let devices = self.hypervisor.vpdps().filter_map(tenancy::Vpdp::device);
        devices.filter_map(Device::next_time).min()
    }

    /// Gives the control side its turn when there is something to do, or when it has waited long enough.
    fn control(&mut self, now: Nanos) {
        let is_due = self.next_due().is_some_and(|at| at <= now);
        if !is_due && now < self.next_turn {
            return;
        }
        self.next_turn = now + TURN;
        let out = &mut self.out;
        self.hypervisor
            .step(now, |port, frame, time| out.take(port, frame, time));
    }

    /// Virtual ports that are connected to a port of the switch.
    fn connected_to(&self, port: PortId) -> Vec<(VpdpId, PortId)> {
        let hypervisor = &self.hypervisor;
        let vpdps = hypervisor.vpdps().map(tenancy::Vpdp::id);
        let all = vpdps.flat_map(|id| (0..).zip(hypervisor.ports(id)).map(move |own| (id, own)));
        all.filter(|(_, (_, to))| **to == Connection::Physical(port))
            .map(|(id, (own, _))| (id, PortId(own)))
            .collect()
    }
}

impl Plane for Tenants {
    fn set_queue(&mut self, port: PortId, queue: QueueConfig) {
        for (id, own) in self.connected_to(port) {
            if let Some(device) = self.hypervisor.device_mut(id) {
                device.set_queue(own, queue);
                device.publish();
            }
        }
    }

    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError> {
        // A packet that comes when an entry expires does not find it any more.
        self.control(now);
        frame.ingress = port;
        frame.arrival = now;
        self.run(std::slice::from_mut(frame), now);
        Ok(())
    }

    fn step(&mut self, now: Nanos) {
        self.control(now);
        self.run(&mut [], now);
    }

    fn next_time(&self) -> Option<Nanos> {
        let times = [self.next_due(), self.worker.next_time()];
        times.into_iter().flatten().min()
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        while let Some((port, frame, time)) = self.out.sent.pop_front() {
            take(port, frame.bytes(), time);
            self.out.pool.put(frame);
        }
    }

    fn ledger(&self) -> Ledger {
        self.hypervisor.ledger()
    }

    fn held(&self) -> usize {
        self.hypervisor.held()
    }
}
