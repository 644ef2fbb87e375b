//! What a vPDP's packets are, and what must become of them.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use packet::{Frame, Nanos, PortId};
use switch::Device;
use tenancy::{Carriage, Envelope, Hypervisor, Spec, VpdpId};

use super::{Life, LifeError, Operation};
use crate::Choices;
use crate::device::change;
use crate::setup::SetupError;
use crate::tenants::{Entry, Part};

/// Different packets of a vPDP.
const TEMPLATES: usize = 64;

/// Bytes of a packet's number, at its end: the vPDP in the first two of them.
pub(super) const NUMBER: usize = 8;

/// What became of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// Packets that came.
    pub came: u64,
    /// Packets that left, as they should.
    pub left: u64,
    /// Packets that were dropped where an operation says so.
    pub dropped: u64,
    /// Packets that were dropped otherwise.
    pub lost: u64,
    /// Packets that left with other bytes, or by another port, than any function that they could meet says.
    pub changed: u64,
    /// Packets that left behind a later one of their vPDP, or twice.
    pub reordered: u64,
}

impl AddAssign for Fates {
    fn add_assign(&mut self, other: Fates) {
        self.came += other.came;
        self.left += other.left;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.changed += other.changed;
        self.reordered += other.reordered;
    }
}

/// The switch where a vPDP is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// The one where all begin.
    First,
    /// The other one.
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

/// What packets of a vPDP may meet from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Where they are led.
    pub home: Home,
    /// Whether they may be dropped.
    pub may_drop: bool,
    /// The functions, by number: the one before and the one behind a change.
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

/// What leaves of a packet: the port of the switch and the frame's bytes but for its number.
struct Outcome {
    port: PortId,
    bytes: Box<[u8]>,
}

/// A packet of a vPDP, and what each function makes of it.
pub(super) struct Template {
    pub(super) frame: Frame,
    outcomes: Vec<Outcome>,
}

impl Template {
    /// Whether this is what a function makes of it.
    pub(super) fn is_made_by(&self, function: usize, port: PortId, bytes: &[u8]) -> bool {
        let outcome = self.outcomes.get(function);
        let (body, _) = bytes.split_at(bytes.len().saturating_sub(NUMBER));
        outcome.is_some_and(|outcome| outcome.port == port && *outcome.bytes == *body)
    }
}

/// The packets of a vPDP.
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

/// How a vPDP of the scene is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) vpdp: VpdpId,
    pub(super) entry: Entry,
    pub(super) part: Part,
    pub(super) ports: u32,
}

impl Seat {
    /// The port of the switch behind a virtual one.
    pub(super) fn physical(&self, port: u32) -> PortId {
        match self.entry {
            Entry::Described => PortId(port),
            Entry::Whole | Entry::Rules => {
                PortId((self.part.number as u32 + 1) * self.ports + port)
            }
        }
    }

    fn envelope(&self) -> Option<Envelope> {
        match self.entry {
            Entry::Described => Some(Envelope::new(self.vpdp, Carriage::Plain)),
            Entry::Whole | Entry::Rules => None,
        }
    }

    /// The packets that come for it, by what each function alone makes of them.
    pub(super) fn flow(&self, life: &Life<'_>, begins: Expectation) -> Result<Flow, LifeError> {
        let mut alone = life
            .functions
            .iter()
            .map(|function| Alone::new(life, function, self.part))
            .collect::<Result<Vec<Alone>, _>>()?;
        let mut choices = Choices::new(life.seed ^ self.part.number as u64);
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
            let outcomes = outcomes.ok_or(LifeError::Function)?;
            if let Some(envelope) = self.envelope() {
                envelope
                    .put_on(&mut frame)
                    .map_err(|_| LifeError::Function)?;
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

/// Tells a device all that it must know for a part.
pub(super) fn fill(device: &mut Device, life: &Life<'_>, part: Part) -> Result<(), LifeError> {
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
    hypervisor: Hypervisor,
    vpdp: VpdpId,
}

impl Alone {
    fn new(life: &Life<'_>, function: &tenancy::Function, part: Part) -> Result<Alone, LifeError> {
        let mut hypervisor = Hypervisor::new(Arc::clone(&life.engine));
        let made = hypervisor.create(Spec::default());
        let vpdp = made.map_err(|refusal| LifeError::Refusal(Operation::Create, refusal))?;
        let loaded = hypervisor.load(vpdp, function.clone());
        loaded.map_err(|refusal| LifeError::Refusal(Operation::Load, refusal))?;
        let device = hypervisor.device_mut(vpdp).ok_or(LifeError::Function)?;
        fill(device, life, part)?;
        Ok(Alone { hypervisor, vpdp })
    }

    /// The one packet that a function makes of one.
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
