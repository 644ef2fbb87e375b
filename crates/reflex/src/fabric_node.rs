//! The plane in a simulated fabric: in the place of the hosts that reports are sent to.

use std::cell::{Ref, RefCell, RefMut};
use std::net::Ipv4Addr;
use std::rc::Rc;

use consensus::{ElementChange, Term};
use fabric::topology::LinkSpec;
use fabric::{Node, NodeCounts, Plane};
use packet::{Frame, FrameError, Nanos, PortId};
use switch::{Device, Ledger, QueueConfig};

use crate::element::{ElementAnswer, ElementCounts, ManagedElement};
use crate::loops::SourceIndex;
use crate::plane_driver::{CommandTarget, PlaneDriver};

/// A device of a simulated switch that a plane changes, too.
#[derive(Clone)]
pub struct SharedDevice(Rc<RefCell<Device>>);

impl SharedDevice {
    /// Shares a device.
    pub fn new(device: Device) -> SharedDevice {
        SharedDevice(Rc::new(RefCell::new(device)))
    }

    /// Calls a function with the device.
    pub fn with<T>(&self, work: impl FnOnce(&mut Device) -> T) -> T {
        work(&mut self.0.borrow_mut())
    }
}

impl Plane for SharedDevice {
    fn set_queue(&mut self, port: PortId, queue: QueueConfig) {
        Plane::set_queue(&mut *self.0.borrow_mut(), port, queue);
    }

    fn forward(&mut self, port: PortId, frame: &mut Frame, now: Nanos) -> Result<(), FrameError> {
        Plane::forward(&mut *self.0.borrow_mut(), port, frame, now)
    }

    fn step(&mut self, now: Nanos) {
        Plane::step(&mut *self.0.borrow_mut(), now);
    }

    fn next_time(&self) -> Option<Nanos> {
        Plane::next_time(&*self.0.borrow())
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        Plane::drain_sent(&mut *self.0.borrow_mut(), take);
    }

    fn ledger(&self) -> Ledger {
        Plane::ledger(&*self.0.borrow())
    }

    fn held(&self) -> usize {
        Plane::held(&*self.0.borrow())
    }
}

/// An element of a fabric: a guard and its device.
pub struct FabricElement {
    device: SharedDevice,
    element: ManagedElement,
}

impl FabricElement {
    /// Joins a guard with its device.
    pub fn new(device: SharedDevice, element: ManagedElement) -> FabricElement {
        FabricElement { device, element }
    }
}

impl CommandTarget for FabricElement {
    fn take(&mut self, term: Term, change: &ElementChange) -> Option<ElementAnswer> {
        let element = &mut self.element;
        let answer = self
            .device
            .with(|device| element.take(device, term, change));
        Some(answer)
    }

    fn counts(&self) -> ElementCounts {
        self.element.counts()
    }

    fn keys(&self) -> Vec<String> {
        self.element.keys().to_vec()
    }

    fn last_refusal(&self) -> Option<String> {
        self.element.last_refusal().map(ToString::to_string)
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

    fn tally(&self) -> NodeCounts {
        NodeCounts {
            received: self.received,
            delivered: self.received - self.others,
            dropped: vec![("no_report", self.others)],
            ..NodeCounts::default()
        }
    }
}

/// Reads an Ethernet frame with an IPv4 UDP datagram: source address, destination port and payload.
/// `None` for other frames, fragments, and lengths that contradict each other.
pub fn datagram(frame: &[u8]) -> Option<(Ipv4Addr, u16, &[u8])> {
    let (ethernet, ip) = frame.split_first_chunk::<14>()?;
    if ethernet[12..] != [0x08, 0x00] {
        return None;
    }
    let header: &[u8; 20] = ip.first_chunk()?;
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    if header[0] >> 4 != 4 || header_length < 20 || header[9] != 17 || is_fragment {
        return None;
    }
    let (udp, payload) = ip.get(header_length..total)?.split_first_chunk::<8>()?;
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    let payload = payload.get(..length.checked_sub(8)?)?;
    let from = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    Some((from, u16::from_be_bytes([udp[2], udp[3]]), payload))
}
