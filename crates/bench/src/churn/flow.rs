//! Packets of a vPDP, with the expected results of each packet.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use packet::{Frame, Nanos, PortId};
use support::rng::Rng;
use switch::Device;
use tenancy::{EncapHeader, Encapsulation, Spec, TenantSwitch, VpdpId};

use super::{ChurnError, ChurnTest, Operation};
use crate::device::change;
use crate::setup::SetupError;
use crate::tenants::{Entry, Part};

/// Number of different packets per vPDP.
const TEMPLATES: usize = 64;

/// Length of a packet's sequence number, which is at its end, in bytes. The first two bytes hold
/// the vPDP's index.
pub(super) const NUMBER: usize = 8;

/// Delivery counters of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Packets received.
    pub came: u64,
    /// Packets sent in order.
    pub left: u64,
    /// Packets dropped while an operation allows it.
    pub dropped: u64,
    /// Packets dropped while no operation allows it.
    pub lost: u64,
    /// Packets sent with other bytes or at another port than any allowed function produces.
    pub changed: u64,
    /// Packets sent after a later packet of the same vPDP, or twice.
    pub reordered: u64,
}

impl AddAssign for DeliveryCounts {
    fn add_assign(&mut self, other: DeliveryCounts) {
        self.came += other.came;
        self.left += other.left;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.changed += other.changed;
        self.reordered += other.reordered;
    }
}

/// The switch that a vPDP is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The switch on which all vPDPs start.
    First,
    /// The other switch.
    Second,
}

impl Home {
    pub(super) fn other(self) -> Home {
        match self {
            Home::First => Home::Second,
            Home::Second => Home::First,
        }
    }
}

/// Allowed results for the packets of a vPDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The switch that its packets are sent to.
    pub home: Home,
    /// True if packets may be dropped.
    pub may_drop: bool,
    /// Numbers of the allowed functions: before and after a change.
    pub functions: [u8; 2],
}

impl Expectation {
    fn pack(self) -> u64 {
        let [before, behind] = self.functions.map(u64::from);
        let home = u64::from(self.home == Home::Second);
        home | u64::from(self.may_drop) << 1 | before << 8 | behind << 16
    }

    fn unpack(packed: u64) -> Expectation {
        Expectation {
            home: match packed & 1 {
                0 => Home::First,
                _ => Home::Second,
            },
            may_drop: packed & 2 != 0,
            functions: [8, 16].map(|at| (packed >> at) as u8),
        }
    }
}

/// Result of a packet: egress port and bytes, without the sequence number.
struct Outcome {
    port: PortId,
    bytes: Box<[u8]>,
}

/// A packet of a vPDP, with the result of each function.
pub(super) struct Template {
    pub(super) frame: Frame,
    outcomes: Vec<Outcome>,
}

impl Template {
    /// Returns true if this is the result of a function.
    pub(super) fn is_made_by(&self, function: usize, port: PortId, bytes: &[u8]) -> bool {
        let outcome = self.outcomes.get(function);
        let (body, _) = bytes.split_at(bytes.len().saturating_sub(NUMBER));
        outcome.is_some_and(|outcome| outcome.port == port && *outcome.bytes == *body)
    }
}

/// The packets of a vPDP, and their allowed results.
pub(super) struct Flow {
    pub(super) templates: Vec<Template>,
    expectation: AtomicU64,
}

impl Flow {
    pub(super) fn expectation(&self) -> Expectation {
        Expectation::unpack(self.expectation.load(Ordering::Acquire))
    }

    pub(super) fn expect(&self, expectation: Expectation) {
        self.expectation
            .store(expectation.pack(), Ordering::Release);
    }
}

/// Identity of a vPDP in the test, and the assignment of packets to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TenantPorts {
    pub(super) vpdp: VpdpId,
    pub(super) entry: Entry,
    pub(super) part: Part,
    pub(super) ports: u32,
}

impl TenantPorts {
    /// Returns the physical port of a virtual port.
    pub(super) fn physical(&self, port: u32) -> PortId {
        match self.entry {
            Entry::Described => PortId(port),
            Entry::Whole | Entry::Rules => {
                PortId((self.part.number as u32 + 1) * self.ports + port)
            }
        }
    }

    fn envelope(&self) -> Option<EncapHeader> {
        match self.entry {
            Entry::Described => Some(EncapHeader::new(self.vpdp, Encapsulation::Plain)),
            Entry::Whole | Entry::Rules => None,
        }
    }

    /// Creates the packets for the vPDP, with the result of each function run alone.
    pub(super) fn flow(
        &self,
        life: &ChurnTest<'_>,
        begins: Expectation,
    ) -> Result<Flow, ChurnError> {
        let mut alone = life
            .functions
            .iter()
            .map(|function| Alone::new(life, function, self.part))
            .collect::<Result<Vec<Alone>, _>>()?;
        let mut choices = Rng::new(life.seed ^ self.part.number as u64);
        let mut templates = Vec::new();
        while templates.len() < TEMPLATES {
            let mut frame = Frame::new();
            life.workload.packet(&mut choices, self.part, &mut frame);
            let ingress = frame.ingress;
            let outcome = |alone: &mut Alone| {
                let (port, mut frame) = alone.send(&frame)?;
                if let Some(envelope) = self.envelope() {
                    envelope.put_on(&mut frame).ok()?;
                }
                let len = frame.len().checked_sub(NUMBER)?;
                Some(Outcome {
                    port: self.physical(port.0),
                    bytes: frame.bytes()[..len].into(),
                })
            };
            let outcomes: Option<Vec<Outcome>> = alone.iter_mut().map(outcome).collect();
            let outcomes = outcomes.ok_or(ChurnError::Function)?;
            if let Some(envelope) = self.envelope() {
                envelope
                    .put_on(&mut frame)
                    .map_err(|_| ChurnError::Function)?;
            }
            frame.ingress = self.physical(ingress.0);
            templates.push(Template { frame, outcomes });
        }
        Ok(Flow {
            templates,
            expectation: AtomicU64::new(begins.pack()),
        })
    }
}

/// Adds the entries of a part to a device.
pub(super) fn fill(
    device: &mut Device,
    life: &ChurnTest<'_>,
    part: Part,
) -> Result<(), ChurnError> {
    let program = Arc::clone(device.program());
    life.workload.setup(&program, part, &mut |item| {
        let applied = device.apply(change(item));
        applied.map_err(|error| SetupError::Entry(error.to_string()))?;
        Ok(())
    })?;
    device.publish();
    Ok(())
}

/// A function that runs alone, with the entries of a part.
struct Alone {
    hypervisor: TenantSwitch,
    vpdp: VpdpId,
}

impl Alone {
    fn new(
        life: &ChurnTest<'_>,
        function: &tenancy::Function,
        part: Part,
    ) -> Result<Alone, ChurnError> {
        let mut hypervisor = TenantSwitch::new(Arc::clone(&life.engine));
        let made = hypervisor.create(Spec::default());
        let vpdp = made.map_err(|refusal| ChurnError::Refusal(Operation::Create, refusal))?;
        let loaded = hypervisor.load(vpdp, function.clone());
        loaded.map_err(|refusal| ChurnError::Refusal(Operation::Load, refusal))?;
        let device = hypervisor.device_mut(vpdp).ok_or(ChurnError::Function)?;
        fill(device, life, part)?;
        Ok(Alone { hypervisor, vpdp })
    }

    /// Returns the result of a packet. Returns `None` unless the function sends exactly one
    /// packet.
    fn send(&mut self, frame: &Frame) -> Option<(PortId, Frame)> {
        let device = self.hypervisor.device_mut(self.vpdp)?;
        let mut sent = Vec::new();
        let mut burst = [Frame::from_bytes(frame.bytes()).ok()?];
        burst[0].ingress = frame.ingress;
        device.forward(&mut burst, Nanos::ZERO, |port, frame, _| {
            sent.extend(
                Frame::from_bytes(frame.bytes())
                    .ok()
                    .map(|frame| (port, frame)),
            );
        });
        match sent.len() {
            1 => sent.pop(),
            _ => None,
        }
    }
}
