//! The plane in a simulated fabric: in the place of the hosts that reports are sent to.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::rc::Rc;

use fabric::topology::LinkSpec;
use fabric::{Node, NodeCounts, Plane};
use packet::{Frame, FrameError, Nanos, PortId};
use switch::{Device, Ledger, QueueConfig};

use crate::element::{ElementAnswer, ManagedElement};
use crate::loops::{ElementIndex, SourceIndex};
use crate::plane::{ElementCommand, ReflexPlane};

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

/// An element of the fabric: commands and answers take the time of its delay.
struct Attached {
    device: SharedDevice,
    element: ManagedElement,
    delay: Nanos,
    commands: VecDeque<(Nanos, ElementCommand)>,
    answers: VecDeque<(Nanos, ElementAnswer)>,
}

struct Shared {
    plane: ReflexPlane,
    elements: Vec<Attached>,
}

/// A plane with the elements of a fabric.
#[derive(Clone)]
pub struct FabricPlane(Rc<RefCell<Shared>>);

impl FabricPlane {
    /// Joins a plane with its elements, in the order of the loop file.
    pub fn new(plane: ReflexPlane, elements: Vec<(SharedDevice, ManagedElement)>) -> FabricPlane {
        let specs = plane.loops().elements.iter();
        let elements = elements.into_iter().zip(specs);
        let elements = elements.map(|((device, element), spec)| Attached {
            device,
            element,
            delay: spec.delay,
            commands: VecDeque::new(),
            answers: VecDeque::new(),
        });
        let elements = elements.collect();
        FabricPlane(Rc::new(RefCell::new(Shared { plane, elements })))
    }

    /// Returns the node for the host of a source.
    pub fn node(&self, source: SourceIndex) -> SourceNode {
        let udp_port = self.with(|plane, _| plane.loops().sources[source.0].udp_port);
        SourceNode {
            shared: self.clone(),
            source,
            udp_port,
            received: 0,
            others: 0,
        }
    }

    /// Calls a function with the plane and its elements.
    pub fn with<T>(&self, work: impl FnOnce(&mut ReflexPlane, &[&ManagedElement]) -> T) -> T {
        let shared = &mut *self.0.borrow_mut();
        let elements: Vec<&ManagedElement> = shared.elements.iter().map(|it| &it.element).collect();
        work(&mut shared.plane, &elements)
    }
}

impl Shared {
    fn step(&mut self, now: Nanos) {
        loop {
            let mut is_changed = false;
            for (at, attached) in self.elements.iter_mut().enumerate() {
                while attached
                    .commands
                    .front()
                    .is_some_and(|(due, _)| *due <= now)
                    && let Some((due, command)) = attached.commands.pop_front()
                {
                    let (term, change) = (command.term, command.change);
                    let element = &mut attached.element;
                    let answer = attached
                        .device
                        .with(|device| element.take(device, term, &change));
                    attached.answers.push_back((due + attached.delay, answer));
                }
                while attached.answers.front().is_some_and(|(due, _)| *due <= now)
                    && let Some((_, answer)) = attached.answers.pop_front()
                {
                    is_changed = true;
                    self.plane.answer(now, ElementIndex(at), answer);
                }
            }
            self.plane.step(now);
            self.plane.drain_commands(|command| {
                is_changed = true;
                let attached = &mut self.elements[command.element.0];
                attached.commands.push_back((now + attached.delay, command));
            });
            if !is_changed {
                return;
            }
        }
    }

    fn next_time(&self) -> Nanos {
        let due = self.elements.iter().flat_map(|attached| {
            let command = attached.commands.front().map(|(due, _)| *due);
            let answer = attached.answers.front().map(|(due, _)| *due);
            [command, answer].into_iter().flatten()
        });
        due.fold(self.plane.next_time(), Nanos::min)
    }
}

/// A node of the fabric that takes reports for a plane.
pub struct SourceNode {
    shared: FabricPlane,
    source: SourceIndex,
    udp_port: u16,
    received: u64,
    /// Frames that are no datagrams for the source.
    others: u64,
}

impl Node for SourceNode {
    fn attach(&mut self, _: PortId, _: &LinkSpec) {}

    fn receive(&mut self, _: PortId, bytes: &[u8], now: Nanos) {
        self.received += 1;
        let datagram = datagram(bytes);
        let Some((from, _, payload)) = datagram.filter(|(_, port, _)| *port == self.udp_port)
        else {
            self.others += 1;
            return;
        };
        let shared = &mut *self.shared.0.borrow_mut();
        shared.plane.receive(now, self.source, from, payload);
    }

    fn step(&mut self, now: Nanos) {
        self.shared.0.borrow_mut().step(now);
    }

    fn next_time(&self) -> Option<Nanos> {
        Some(self.shared.0.borrow().next_time())
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
