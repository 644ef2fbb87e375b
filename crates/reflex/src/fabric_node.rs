//! The plane in a simulated fabric: in the place of the hosts that reports are sent to.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;

use consensus::{ElementChange, Term};
use fabric::topology::{DiskFate, LinkSpec};
use fabric::{Node, NodeCounts, Plane};
use packet::{Frame, FrameError, Nanos, PortId};
use switch::{Device, Ledger, QueueConfig};

use crate::element::{ElementAnswer, ElementCounts, ManagedElement};
use crate::loops::SourceIndex;
use crate::plane_driver::{CommandTarget, PlaneDriver};
use crate::udp_frame::datagram;

/// A device of a simulated switch that a plane changes, too.
#[derive(Clone)]
pub struct SharedDevice(Rc<Shared>);

struct Shared {
    device: RefCell<Device>,
    /// Number of starts after a crash, and the state of the disk at the last one.
    restarts: Cell<(u64, DiskFate)>,
    is_down: Cell<bool>,
}

impl SharedDevice {
    /// Shares a device.
    pub fn new(device: Device) -> SharedDevice {
        SharedDevice(Rc::new(Shared {
            device: RefCell::new(device),
            restarts: Cell::default(),
            is_down: Cell::new(false),
        }))
    }

    /// Calls a function with the device.
    pub fn with<T>(&self, work: impl FnOnce(&mut Device) -> T) -> T {
        work(&mut self.0.device.borrow_mut())
    }
}

impl Plane for SharedDevice {
    fn set_queue(&mut self, port: PortId, queue: QueueConfig) {
        Plane::set_queue(&mut *self.0.device.borrow_mut(), port, queue);
    }

    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError> {
        Plane::forward(&mut *self.0.device.borrow_mut(), port, frame, now)
    }

    fn step(&mut self, now: Nanos) {
        Plane::step(&mut *self.0.device.borrow_mut(), now);
    }

    fn next_time(&self) -> Option<Nanos> {
        Plane::next_time(&*self.0.device.borrow())
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        Plane::drain_sent(&mut *self.0.device.borrow_mut(), take);
    }

    fn ledger(&self) -> Ledger {
        Plane::ledger(&*self.0.device.borrow())
    }

    fn held(&self) -> usize {
        Plane::held(&*self.0.device.borrow())
    }

    fn crash(&mut self) {
        self.0.is_down.set(true);
    }

    fn restart(&mut self, fresh: Device, disk: DiskFate) -> Result<(), String> {
        Plane::restart(&mut *self.0.device.borrow_mut(), fresh, disk)?;
        let (restarts, _) = self.0.restarts.get();
        self.0.restarts.set((restarts + 1, disk));
        self.0.is_down.set(false);
        Ok(())
    }
}

/// An element of a fabric: a guard and its device. A copy is the same element, for another plane.
#[derive(Clone)]
pub struct FabricElement {
    device: SharedDevice,
    guard: Rc<RefCell<Guard>>,
    /// Number of the device's restarts that this plane knows.
    known: u64,
}

struct Guard {
    element: ManagedElement,
    /// Number of the device's restarts that the guard knows.
    known: u64,
}

impl FabricElement {
    /// Joins a guard with its device.
    pub fn new(device: SharedDevice, element: ManagedElement) -> FabricElement {
        let (known, _) = device.0.restarts.get();
        FabricElement {
            device,
            guard: Rc::new(RefCell::new(Guard { element, known })),
            known,
        }
    }

    /// Returns the guard as the device's last restart left it.
    fn guard(&self) -> RefMut<'_, Guard> {
        let mut guard = self.guard.borrow_mut();
        let (restarts, disk) = self.device.0.restarts.get();
        if guard.known != restarts {
            guard.known = restarts;
            guard.element.restart(disk == DiskFate::Kept);
        }
        guard
    }
}

impl CommandTarget for FabricElement {
    fn take(&mut self, term: Term, change: &ElementChange) -> Option<ElementAnswer> {
        if !self.is_connected() {
            // The plane sends it again.
            return None;
        }
        let element = &mut self.guard().element;
        let answer = self
            .device
            .with(|device| element.take(device, term, change));
        Some(answer)
    }

    fn next_answer(&mut self) -> Option<ElementAnswer> {
        let (restarts, _) = self.device.0.restarts.get();
        let is_new = restarts != self.known;
        self.known = restarts;
        is_new.then_some(ElementAnswer::Restarted)
    }

    fn settled(&mut self) {
        let element = &mut self.guard().element;
        self.device.with(|device| element.remove_others(device));
    }

    fn is_connected(&self) -> bool {
        !self.device.0.is_down.get()
    }

    fn counts(&self) -> ElementCounts {
        self.guard().element.counts()
    }

    fn keys(&self) -> Vec<String> {
        self.guard().element.keys().to_vec()
    }

    fn last_refusal(&self) -> Option<String> {
        let guard = self.guard();
        guard.element.last_refusal().map(ToString::to_string)
    }
}

/// Function that gets each frame of a source or of a monitor's program, and its time.
pub type FrameObserver = Box<dyn FnMut(&[u8], Nanos)>;

/// A plane that several nodes of a fabric share.
#[derive(Clone)]
pub struct FabricPlane(Rc<RefCell<PlaneDriver>>);

impl FabricPlane {
    /// Shares a plane.
    pub fn new(driver: PlaneDriver) -> FabricPlane {
        FabricPlane(Rc::new(RefCell::new(driver)))
    }

    /// Returns the node for the host of a source.
    pub fn node(&self, source: SourceIndex, observe: FrameObserver) -> SourceNode {
        let udp_port = self.get().plane().loops().sources[source.0].udp_port;
        SourceNode {
            shared: self.clone(),
            source,
            udp_port,
            observe,
            received: 0,
            others: 0,
        }
    }

    /// Returns the plane.
    pub fn get(&self) -> Ref<'_, PlaneDriver> {
        self.0.borrow()
    }

    /// Returns the plane, to change it.
    pub fn get_mut(&self) -> RefMut<'_, PlaneDriver> {
        self.0.borrow_mut()
    }
}

/// A node of the fabric that takes reports for a plane.
pub struct SourceNode {
    shared: FabricPlane,
    source: SourceIndex,
    udp_port: u16,
    observe: FrameObserver,
    received: u64,
    /// Frames that are no datagrams for the source.
    others: u64,
}

impl Node for SourceNode {
    fn attach(&mut self, _: PortId, _: &LinkSpec) {}

    fn receive(&mut self, _: PortId, bytes: &[u8], now: Nanos) {
        self.received += 1;
        (self.observe)(bytes, now);
        let datagram = datagram(bytes);
        let Some((from, _, payload)) = datagram.filter(|(_, port, _)| *port == self.udp_port)
        else {
            self.others += 1;
            return;
        };
        let mut driver = self.shared.get_mut();
        driver.receive(now, self.source, from, payload);
    }

    fn step(&mut self, now: Nanos) {
        self.shared.get_mut().step(now);
    }

    fn next_time(&self) -> Option<Nanos> {
        Some(self.shared.get().next_time())
    }

    fn drain_sent(&mut self, _: &mut dyn FnMut(PortId, &[u8], Nanos)) {}

    fn restart(&mut self, _: DiskFate, _: Nanos) -> Result<(), String> {
        Err(
            "the plane of one process keeps its store in memory; give the store's nodes addresses \
             of hosts, as docs/reference/reflex.md has it, or let the host pause"
                .to_owned(),
        )
    }

    fn tally(&self) -> NodeCounts {
        NodeCounts {
            received: self.received,
            delivered: self.received - self.others,
            dropped: vec![("no_report", self.others)],
            ..NodeCounts::default()
        }
    }
}
