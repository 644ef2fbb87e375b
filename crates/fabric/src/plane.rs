//! The data plane of a simulated switch: one device, or several virtual data planes (vPDPs).

use std::collections::VecDeque;

use packet::{Frame, FrameError, FramePool, Nanos, PortId};
use switch::{Change, Device, Ledger, QueueConfig};
use tenancy::{Connection, TenantSwitch, VpdpId, Worker};

use crate::halves::SplitCounts;
use crate::node::Node;
use crate::topology::DiskFate;

/// A data plane that forwards packets and queues them at its ports. Times passed to it never
/// decrease.
pub trait Plane {
    /// Sets rate and depth of a port's queue. What the queues of its priorities have stays.
    fn set_queue(&mut self, port: PortId, queue: QueueConfig);

    /// Processes a packet. The contents of `frame` are unspecified afterwards.
    ///
    /// # Errors
    /// The packet is too long.
    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError>;

    /// Does all work that is due at `now`.
    fn step(&mut self, now: Nanos);

    /// Returns the time of the next action without a packet.
    fn next_time(&self) -> Option<Nanos>;

    /// Passes each sent packet to `take`: its port, its bytes, and its transmission time.
    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos));

    /// Returns the packet accounting. It is exact after [`Plane::step`], before the next packet.
    fn ledger(&self) -> Ledger;

    /// Returns the number of packets inside.
    fn held(&self) -> usize;

    /// As [`Node::take_servers`].
    fn take_servers(&mut self) -> Vec<Box<dyn Node>> {
        Vec::new()
    }

    /// As [`Node::changed_others`].
    fn changed_others(&mut self) -> bool {
        false
    }

    /// As [`Node::split_counts`].
    fn split_counts(&self) -> Option<SplitCounts> {
        None
    }

    /// As [`Node::crash`].
    fn crash(&mut self) {}

    /// Goes on as a device that was loaded again, with the tables of the former one if the disk
    /// kept them. Packets inside are lost.
    ///
    /// # Errors
    /// The data plane is not one device, or its tables do not fit.
    fn restart(&mut self, fresh: Device, disk: DiskFate) -> Result<(), String> {
        let _ = (fresh, disk);
        Err(NO_RESTART.to_owned())
    }
}

/// Returns a queue with what the device has for the priorities of the port.
pub(crate) fn with_priorities(device: &Device, port: PortId, queue: QueueConfig) -> QueueConfig {
    QueueConfig {
        priorities: device.queue(port).priorities,
        ..queue
    }
}

/// Message for a switch that cannot be loaded again.
pub(crate) const NO_RESTART: &str = "it is not one device with a program of its own, and cannot \
                                     be started again; let another switch crash, or take `until` \
                                     away";

impl Plane for Device {
    fn set_queue(&mut self, port: PortId, queue: QueueConfig) {
        let queue = with_priorities(self, port, queue);
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

    fn restart(&mut self, mut fresh: Device, disk: DiskFate) -> Result<(), String> {
        if disk == DiskFate::Kept {
            // The second time, new entries get their metadata.
            for _ in 0..2 {
                let kept = fresh.synchronise(self, &[]);
                kept.map_err(|error| error.to_string())?;
            }
        }
        *self = fresh;
        Ok(())
    }
}

/// Interval of the hypervisor's control work: the maximum delay of digests and messages.
const TURN: Nanos = Nanos::from_millis(1);

/// Several virtual data planes with one worker, in simulated time.
///
/// For a shared port, each vPDP has separate queues at the link's full rate. If together they
/// exceed it, the link queues the excess.
pub struct Tenants {
    hypervisor: TenantSwitch,
    worker: Worker,
    next_turn: Nanos,
    out: Outbox,
}

/// Sent packets.
#[derive(Default)]
pub(crate) struct Outbox {
    sent: VecDeque<(PortId, Frame, Nanos)>,
    pool: FramePool,
}

impl Outbox {
    /// Passes the packets to `take` and removes them.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        while let Some((port, frame, time)) = self.sent.pop_front() {
            take(port, frame.bytes(), time);
            self.pool.put(frame);
        }
    }

    pub(crate) fn take(&mut self, port: PortId, frame: &mut Frame, time: Nanos) {
        let mut taken = self.pool.get();
        std::mem::swap(&mut taken, frame);
        self.sent.push_back((port, taken, time));
    }
}

impl Tenants {
    /// Creates the data plane from a hypervisor. Returns `None` if that already has a worker.
    pub fn new(mut hypervisor: TenantSwitch) -> Option<Tenants> {
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

    /// Returns the time of the next device action without a packet, such as the expiry of an entry
    /// added by a packet.
    fn next_due(&self) -> Option<Nanos> {
        let devices = self.hypervisor.vpdps().filter_map(tenancy::Vpdp::device);
        devices.filter_map(Device::next_time).min()
    }

    /// Does the hypervisor's control work if a device action is due or the interval has passed.
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

    /// Returns the virtual ports that are connected to a port of the switch.
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
        // Expiry comes before packets of the same time: the packet does not find an expired entry.
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
        self.out.drain(take);
    }

    fn ledger(&self) -> Ledger {
        self.hypervisor.ledger()
    }

    fn held(&self) -> usize {
        self.hypervisor.held()
    }
}
