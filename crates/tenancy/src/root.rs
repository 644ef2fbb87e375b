//! What workers see of the hypervisor: immutable, made by the control side, taken as a whole at the begin of a burst.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, FrameError, PortId};
use switch::Marks;
use table::prefetch::prefetch_value;

use crate::carriage::{Carriage, Outer, put_on};
use crate::classifier::Classifier;
use crate::description::Draft;
use crate::entrance::{Entrances, Inlet};
use crate::gate::Gate;
use crate::vpdp::{Connection, VpdpId};
use crate::wiring::{Sharing, Wiring};

/// The place of a vPDP among those of a hypervisor: dense, used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// Of packets that are no vPDP's.
    pub(crate) const NONE: Slot = Slot(u32::MAX);

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// What workers' threads tell its device by.
    #[inline]
    pub(crate) fn mark(self) -> Marks {
        Marks::of(self.0)
    }
}

/// A virtual port, as packets leave.
#[derive(Debug)]
pub(crate) enum Exit {
    /// They are dropped.
    Open,
    /// To a port of the switch.
    Port(PortId),
    /// To a port of the switch that carries descriptions.
    Described(PortId),
    /// To one that carries them with this in front of them. Ports of a vPDP that carry them alike have one.
    Wrapped(PortId, Arc<Outer>),
    /// To another virtual port.
    Link(Inlet),
}

impl Exit {
    /// What stands in front of descriptions.
    pub(crate) fn outer(&self) -> Option<&Outer> {
        match self {
            Exit::Wrapped(_, outer) => Some(outer),
            _ => None,
        }
    }
}

/// Whether packets are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// They are.
    Open,
    /// They are dropped for this reason.
    Closed(DropReason),
}

/// Ports whose exits are asked for ahead.
const FEW_PORTS: usize = 16;

/// A vPDP.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    /// The workers' seats that serve it; 0 is none.
    pub(crate) serial: u64,
    pub(crate) admission: Admission,
    pub(crate) gate: Arc<Gate>,
    /// Whether the gate limits nothing, so that it need not be asked.
    pub(crate) is_unlimited: bool,
    /// What is said of its packets.
    description: Draft,
    exits: Box<[Exit]>,
    /// The same in little memory, as most packets ask: the port of the switch, or [`NO_EXIT`].
    plain: Box<[PortId]>,
    /// The same of ports that carry descriptions, where there are no others; else nothing.
    described: Box<[PortId]>,
}

/// Of a virtual port from which packets go another way. One number says both where packets go and whether: that is one
/// comparison where each packet leaves.
pub(crate) const NO_EXIT: PortId = PortId(u32::MAX);

impl Place {
    /// Of a vPDP that had its seats for too short a time to be in any root that a worker saw: nothing leads out.
    pub(crate) fn nowhere() -> Place {
        Place {
            slot: Slot::NONE,
            serial: 0,
            admission: Admission::Closed(DropReason::NoProgram),
            gate: Arc::default(),
            is_unlimited: true,
            description: Draft::nobody(),
            exits: Box::default(),
            plain: Box::default(),
            described: Box::default(),
        }
    }

    /// Asks the processor for the exits, those of few ports.
    #[inline]
    pub(crate) fn ask_for_exits(&self) {
        let exits = match self.describes_all() {
            true => &self.described,
            false => &self.plain,
        };
        prefetch_value(&exits[..exits.len().min(FEW_PORTS)]);
    }

    /// The port of the switch to which packets go as they are, or [`NO_EXIT`].
    #[inline(always)]
    pub(crate) fn plain_exit(&self, port: PortId) -> PortId {
        exit_in(&self.plain, port)
    }

    /// The port of the switch to which packets go with their descriptions, and nothing else, in front of them, or [`NO_EXIT`].
    #[inline(always)]
    pub(crate) fn described_exit(&self, port: PortId) -> PortId {
        exit_in(&self.described, port)
    }

    /// Whether packets go to such ports of the switch, and to no others.
    pub(crate) fn describes_all(&self) -> bool {
        !self.described.is_empty()
    }

    /// Puts its description, and what is in front of that, in front of one of its packets.
    ///
    /// # Errors
    /// The frame would be too long; it stays as it is.
    #[inline(always)]
    pub(crate) fn describe(
        &self,
        outer: Option<&Outer>,
        frame: &mut Frame,
    ) -> Result<(), FrameError> {
        put_on(self.description, outer, frame)
    }

    #[inline]
    pub(crate) fn exit(&self, port: PortId) -> &Exit {
        self.exits.get(port.0 as usize).unwrap_or(&Exit::Open)
    }
}

#[inline(always)]
fn exit_in(exits: &[PortId], port: PortId) -> PortId {
    exits.get(port.0 as usize).copied().unwrap_or(NO_EXIT)
}

/// What the control side says of a vPDP.
pub(crate) struct Tenant {
    pub(crate) vpdp: VpdpId,
    pub(crate) slot: Slot,
    pub(crate) serial: u64,
    pub(crate) admission: Admission,
    pub(crate) gate: Arc<Gate>,
}

/// All that packets need.
#[derive(Debug, Default)]
pub(crate) struct Root {
    pub(crate) entrances: Entrances,
    places: Box<[Option<Place>]>,
}

impl Root {
    /// The root of a wiring that was checked, and of tenants in the order of their numbers.
    pub(crate) fn new(
        wiring: &Wiring,
        classifier: Option<Arc<Classifier>>,
        tenants: &[Tenant],
    ) -> Root {
        let slot_of = |vpdp: VpdpId| {
            let found = tenants.binary_search_by_key(&vpdp, |tenant| tenant.vpdp);
            found.map_or(Slot::NONE, |at| tenants[at].slot)
        };
        let most = tenants.iter().map(|tenant| tenant.slot.index() + 1).max();
        let mut places: Vec<Option<Place>> = Vec::new();
        places.resize_with(most.unwrap_or(0), || None);
        for tenant in tenants {
            let connections = wiring.ports.get(&tenant.vpdp).into_iter().flatten();
            let mut outers = Outers::of(tenant.vpdp);
            let exits = connections.map(|connection| match *connection {
                Connection::Open => Exit::Open,
                Connection::Physical(port) => match wiring.shared.get(&port) {
                    Some(Sharing::Described(carriage)) => match outers.of_carriage(*carriage) {
                        Some(outer) => Exit::Wrapped(port, outer),
                        None => Exit::Described(port),
                    },
                    _ => Exit::Port(port),
                },
                Connection::Link(other) => Exit::Link(Inlet {
                    slot: slot_of(other.vpdp),
                    port: PortId(other.port),
                }),
            });
            let exits: Box<[Exit]> = exits.collect();
            let plain = exits.iter().map(|exit| match exit {
                Exit::Port(port) => *port,
                _ => NO_EXIT,
            });
            let described = exits.iter().map(|exit| match exit {
                Exit::Described(port) => *port,
                _ => NO_EXIT,
            });
            let are_described = |exit: &Exit| matches!(exit, Exit::Described(_) | Exit::Open);
            let described: Box<[PortId]> = match exits.iter().all(are_described) {
                true => described.collect(),
                false => Box::default(),
            };
            places[tenant.slot.index()] = Some(Place {
                slot: tenant.slot,
                serial: tenant.serial,
                admission: tenant.admission,
                gate: Arc::clone(&tenant.gate),
                is_unlimited: tenant.gate.is_open(),
                description: Draft::of(tenant.vpdp),
                plain: plain.collect(),
                described,
                exits,
            });
        }
        Root {
            entrances: Entrances::new(wiring, classifier, slot_of),
            places: places.into(),
        }
    }

    /// Slots that there may be.
    pub(crate) fn slots(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(crate) fn place(&self, slot: Slot) -> Option<&Place> {
        self.places.get(slot.index())?.as_ref()
    }

    /// The seats that serve a slot; 0 is none.
    pub(crate) fn serial(&self, slot: Slot) -> u64 {
        self.place(slot).map_or(0, |place| place.serial)
    }
}

/// What stands in front of a vPDP's descriptions, one of each kind.
struct Outers {
    vpdp: VpdpId,
    made: Vec<(Carriage, Option<Arc<Outer>>)>,
}

impl Outers {
    fn of(vpdp: VpdpId) -> Outers {
        let made = Vec::new();
        Outers { vpdp, made }
    }

    fn of_carriage(&mut self, carriage: Carriage) -> Option<Arc<Outer>> {
        let known = self.made.iter().find(|(other, _)| *other == carriage);
        if let Some((_, outer)) = known {
            return outer.clone();
        }
        let outer = Outer::of(self.vpdp, carriage).map(Arc::new);
        self.made.push((carriage, outer.clone()));
        outer
    }
}
