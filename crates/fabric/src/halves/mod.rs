//! Nodes of a split program: a switch with the switch half, and servers with the server half.
//!
//! They have one coordinator. Its changes cost no simulated time, but an entry works in the switch
//! only after the time of [`SplitSpec::install`]. A packet is in one node at a time, so the planes
//! are in one cell that all nodes share.

mod planes;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use exec::Engine;
use packet::{Frame, FrameError, Nanos, PortId};
use passes::split::SplitProgram;
use split::{Coordinator, PoolOwners, Wire};
use switch::{Change, Ledger, PacketProcessor, QueueConfig};

use crate::node::Node;
use crate::plane::{Outbox, Plane, with_priorities};
use crate::switch_node::SwitchNode;
use crate::topology::{ServiceSpec, SplitSpec};
use planes::Planes;

pub use planes::{SplitCounts, SplitError};

/// Function that creates the engine of the switch half (`None`), or of the server with this number
/// with its handlers.
pub type MakeEngine<'a> = dyn FnMut(Option<u16>) -> Box<dyn Engine> + 'a;

/// A split program over a switch and servers of a fabric, before it has nodes.
pub struct SplitFabric(Planes);

impl SplitFabric {
    /// Creates the planes of a split program. Its servers are those of the topology.
    ///
    /// # Errors
    /// A half cannot be loaded.
    pub fn new(
        program: &SplitProgram,
        spec: &SplitSpec,
        request_port: u32,
        seed: u64,
        engine_of: &mut MakeEngine<'_>,
    ) -> Result<SplitFabric, SplitError> {
        Planes::new(program, spec, request_port, seed, engine_of).map(SplitFabric)
    }

    /// Returns the coordinator, for the first entries of the whole program.
    pub fn coordinator_mut(&mut self) -> &mut Coordinator {
        self.0.coordinator_mut()
    }

    /// Sets the servers that have leased the values of pools, for packets with `@owner`.
    pub fn set_owners(&self, owners_of: impl Fn(&str) -> Option<Arc<dyn PoolOwners>>) {
        self.0.set_owners(owners_of);
    }

    /// Sends the entries to the planes, and returns the node of the switch. It has those of the
    /// servers ([`Node::take_servers`]).
    ///
    /// # Errors
    /// A plane refuses an entry.
    pub fn into_node(
        mut self,
        spec: &SplitSpec,
        service: ServiceSpec,
    ) -> Result<Box<dyn Node>, SplitError> {
        self.0.propagate()?;
        let wire = self.0.wire().clone();
        let planes = Rc::new(RefCell::new(self.0));
        let servers = spec.servers.iter().enumerate().map(|(number, server)| {
            let plane = ServerPlane {
                planes: Rc::clone(&planes),
                number,
                out: Outbox::default(),
                has_changed_others: false,
            };
            let flow = worker_of(wire.clone());
            let node = SwitchNode::new(plane, server.spec.service);
            Box::new(node.with_workers(server.spec.workers, flow)) as Box<dyn Node>
        });
        let plane = SwitchPlane {
            servers: servers.collect(),
            planes,
            out: Outbox::default(),
        };
        Ok(Box::new(SwitchNode::new(plane, service)))
    }
}

/// Returns the function that distributes requests over the workers of a server by flow.
fn worker_of(wire: Wire) -> crate::switch_node::WorkerOf {
    Box::new(move |frame| match wire.is_whole(frame) {
        true => wire.worker_hash(frame),
        false => 0,
    })
}

/// The switch.
struct SwitchPlane {
    planes: Rc<RefCell<Planes>>,
    servers: Vec<Box<dyn Node>>,
    out: Outbox,
}

impl Plane for SwitchPlane {
    fn set_queue(&mut self, port: PortId, queue: QueueConfig) {
        let mut planes = self.planes.borrow_mut();
        let switch = planes.switch_mut().inner_mut();
        let queue = with_priorities(switch, port, queue);
        let set = switch.apply(Change::SetQueue(port, queue));
        debug_assert!(set.is_ok(), "a queue can be set for every port: {set:?}");
    }

    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError> {
        frame.ingress = port;
        frame.arrival = now;
        let mut planes = self.planes.borrow_mut();
        let is_answer = planes.switch(frame, now, &mut self.out);
        planes.control(now, is_answer, &mut self.out);
        Ok(())
    }

    fn step(&mut self, now: Nanos) {
        self.planes.borrow_mut().control(now, false, &mut self.out);
    }

    fn next_time(&self) -> Option<Nanos> {
        self.planes.borrow().next_time()
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        self.out.drain(take);
    }

    fn ledger(&self) -> Ledger {
        self.planes.borrow().switch_ledger()
    }

    fn held(&self) -> usize {
        self.planes.borrow().held()
    }

    fn take_servers(&mut self) -> Vec<Box<dyn Node>> {
        std::mem::take(&mut self.servers)
    }

    fn split_counts(&self) -> Option<SplitCounts> {
        Some(self.planes.borrow().counts())
    }
}

/// A server.
struct ServerPlane {
    planes: Rc<RefCell<Planes>>,
    number: usize,
    out: Outbox,
    has_changed_others: bool,
}

impl ServerPlane {
    fn run(&mut self, frames: &mut [Frame], now: Nanos) {
        let mut planes = self.planes.borrow_mut();
        self.has_changed_others |= planes.server(self.number, frames, now, &mut self.out);
    }
}

impl Plane for ServerPlane {
    fn set_queue(&mut self, port: PortId, queue: QueueConfig) {
        let mut planes = self.planes.borrow_mut();
        let server = planes.server_mut(self.number).inner_mut();
        let queue = with_priorities(server, port, queue);
        let set = server.apply(Change::SetQueue(port, queue));
        debug_assert!(set.is_ok(), "a queue can be set for every port: {set:?}");
    }

    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError> {
        frame.ingress = port;
        frame.arrival = now;
        self.run(std::slice::from_mut(frame), now);
        Ok(())
    }

    fn step(&mut self, now: Nanos) {
        self.run(&mut [], now);
    }

    fn next_time(&self) -> Option<Nanos> {
        let planes = self.planes.borrow();
        planes.server_half(self.number).next_time()
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        self.out.drain(take);
    }

    fn ledger(&self) -> Ledger {
        let planes = self.planes.borrow();
        let server = planes.server_half(self.number);
        let mut ledger = server.inner().ledger();
        ledger.add(server.refused());
        ledger
    }

    fn held(&self) -> usize {
        let planes = self.planes.borrow();
        planes.server_half(self.number).inner().held()
    }

    fn changed_others(&mut self) -> bool {
        std::mem::take(&mut self.has_changed_others)
    }
}
