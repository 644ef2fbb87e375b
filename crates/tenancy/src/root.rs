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
use crate::guard::{Guard, Guards};
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
    /// To a port of the switch, if they are the vPDP's own.
    Guarded(Box<Guard>),
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
    /// The vPDP's number, and its birth, which is different for each vPDP that there ever was.
    identity: Option<(VpdpId, u64)>,
    /// The workers' seats that serve it; 0 is none.
    pub(crate) serial: u64,
    pub(crate) admission: Admission,
    pub(crate) gate: Arc<Gate>,
    /// Whether the gate limits nothing, so that it need not be asked.
    pub(crate) is_unlimited: bool,
    /// What is said of its packets.
    description: Draft,
    exits: Box<[Exit]>,
    /// Whether there are ports, and packets go to none but ports of the switch that carry descriptions.
    describes_all: bool,
}

/// An [`Exit`] in little memory, as most packets ask: a port of the switch, one that carries
/// descriptions, one where frames of one VLAN may leave, or another way. One number says both
/// where packets go and how: that is one comparison
/// where each packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlet(u32);

impl Outlet {
    /// Of ports where frames of one VLAN may leave, which stands in front of the port. Ports of
    /// greater numbers go the other way.
    const OF_VLAN: u32 = 1 << 30;
    const VLAN_SHIFT: u32 = 16;
    const VLAN_PORTS: u32 = (1 << Outlet::VLAN_SHIFT) - 1;
    /// Of ports that carry descriptions. Ports of greater numbers go the other way.
    const DESCRIBED: u32 = 1 << 31;
    /// [`Exit`] tells where packets go.
    pub(crate) const OTHER: Outlet = Outlet(u32::MAX);

    fn of(exit: &Exit) -> Outlet {
        match exit {
            Exit::Port(PortId(port)) if *port < Outlet::OF_VLAN => Outlet(*port),
            Exit::Described(PortId(port)) if *port < Outlet::OTHER.0 - Outlet::DESCRIBED => {
                Outlet(port | Outlet::DESCRIBED)
            }
            Exit::Guarded(guard) => match guard.one_vlan() {
                Some((vlan, PortId(port))) if port <= Outlet::VLAN_PORTS => {
                    Outlet(Outlet::OF_VLAN | u32::from(vlan) << Outlet::VLAN_SHIFT | port)
                }
                _ => Outlet::OTHER,
            },
            _ => Outlet::OTHER,
        }
    }

    /// The port of the switch to which packets go as they are.
    #[inline(always)]
    pub(crate) fn plain(self) -> Option<PortId> {
        (self.0 < Outlet::OF_VLAN).then_some(PortId(self.0))
    }

    /// The VLAN, as [`crate::rule::Field::Vlan`], and the port of the switch to which packets of
    /// this VLAN go as they are.
    #[inline(always)]
    pub(crate) fn of_vlan(self) -> Option<(u64, PortId)> {
        let is_of_vlan = (Outlet::OF_VLAN..Outlet::DESCRIBED).contains(&self.0);
        let vlan = (self.0 & !Outlet::OF_VLAN) >> Outlet::VLAN_SHIFT;
        is_of_vlan.then_some((vlan.into(), PortId(self.0 & Outlet::VLAN_PORTS)))
    }

    /// The port of the switch to which packets go with their descriptions, and nothing else, in front of them.
    #[inline(always)]
    pub(crate) fn described(self) -> Option<PortId> {
        let is_described = self.0 >= Outlet::DESCRIBED && self != Outlet::OTHER;
        is_described.then_some(PortId(self.0 & !Outlet::DESCRIBED))
    }
}

/// The ways out of a place.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'r> {
    pub(crate) place: &'r Place,
    outlets: &'r [Outlet],
}

impl<'r> Ways<'r> {
    /// None lead out.
    pub(crate) fn none(place: &'r Place) -> Ways<'r> {
        Ways {
            place,
            outlets: &[],
        }
    }

    #[inline(always)]
    pub(crate) fn outlet(self, port: PortId) -> Outlet {
        let outlet = self.outlets.get(port.0 as usize);
        outlet.copied().unwrap_or(Outlet::OTHER)
    }

    /// Asks the processor for the outlets, those of few ports.
    #[inline]
    pub(crate) fn ask_for_outlets(self) {
        prefetch_value(&self.outlets[..self.outlets.len().min(FEW_PORTS)]);
    }
}

impl Place {
    /// Of no vPDP, or of one that had its seats for too short a time to be in any root that a worker saw: nothing leads out.
    pub(crate) fn nowhere() -> Place {
        Place {
            slot: Slot::NONE,
            identity: None,
            serial: 0,
            admission: Admission::Closed(DropReason::NoProgram),
            gate: Arc::default(),
            is_unlimited: true,
            description: Draft::nobody(),
            exits: Box::default(),
            describes_all: false,
        }
    }

    /// Whether packets go to no ports but those of the switch that carry descriptions.
    pub(crate) fn describes_all(&self) -> bool {
        self.describes_all
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

/// What the control side says of a vPDP.
pub(crate) struct Tenant {
    pub(crate) vpdp: VpdpId,
    /// Different for each vPDP that there ever was.
    pub(crate) birth: u64,
    pub(crate) slot: Slot,
    pub(crate) serial: u64,
    pub(crate) admission: Admission,
    pub(crate) gate: Arc<Gate>,
}

/// All that packets need.
#[derive(Debug, Default)]
pub(crate) struct Root {
    pub(crate) entrances: Entrances,
    /// By slot; [`Place::nowhere`] where there is no vPDP.
    places: Box<[Place]>,
    /// The outlets of all places, one place's behind the other's; and by slot where they begin, and where the last ones end. Where many vPDPs take turns those of several are in one cache line.
    outlets: Box<[Outlet]>,
    begins: Box<[u32]>,
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
        let guards = Guards::new(wiring, classifier.clone());
        let most = tenants.iter().map(|tenant| tenant.slot.index() + 1).max();
        let mut places: Vec<Option<Place>> = Vec::new();
        places.resize_with(most.unwrap_or(0), || None);
        for tenant in tenants {
            let connections = wiring.ports.get(&tenant.vpdp).into_iter().flatten();
            let mut outers = Outers::of(tenant.vpdp);
            let exits = connections.map(|connection| match *connection {
                Connection::Open => Exit::Open,
                Connection::Physical(port) => {
                    match wiring.shared.get(&port).map(|share| share.sharing) {
                        Some(Sharing::Described(carriage)) => match outers.of_carriage(carriage) {
                            Some(outer) => Exit::Wrapped(port, outer),
                            None => Exit::Described(port),
                        },
                        Some(Sharing::Destination(_) | Sharing::Rules) => {
                            let guard = guards.of(tenant.vpdp, port);
                            guard.map_or(Exit::Port(port), |guard| Exit::Guarded(Box::new(guard)))
                        }
                        None => Exit::Port(port),
                    }
                }
                Connection::Link(other) => Exit::Link(Inlet {
                    slot: slot_of(other.vpdp),
                    port: PortId(other.port),
                }),
            });
            let exits: Box<[Exit]> = exits.collect();
            let is_described = |exit: &Exit| matches!(exit, Exit::Described(_) | Exit::Open);
            places[tenant.slot.index()] = Some(Place {
                slot: tenant.slot,
                identity: Some((tenant.vpdp, tenant.birth)),
                serial: tenant.serial,
                admission: tenant.admission,
                gate: Arc::clone(&tenant.gate),
                is_unlimited: tenant.gate.is_open(),
                description: Draft::of(tenant.vpdp),
                describes_all: !exits.is_empty() && exits.iter().all(is_described),
                exits,
            });
        }
        let places = places.into_iter();
        let places: Box<[Place]> = places
            .map(|place| place.unwrap_or_else(Place::nowhere))
            .collect();
        let mut outlets = Vec::new();
        let mut begins = vec![0];
        for place in &*places {
            outlets.extend(place.exits.iter().map(Outlet::of));
            begins.push(outlets.len() as u32);
        }
        Root {
            entrances: Entrances::new(wiring, classifier, slot_of),
            places,
            outlets: outlets.into(),
            begins: begins.into(),
        }
    }

    /// Slots that there may be.
    pub(crate) fn slots(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(crate) fn place(&self, slot: Slot) -> Option<&Place> {
        let place = self.places.get(slot.index())?;
        (place.slot == slot).then_some(place)
    }

    /// The ways out of a slot, if there is one. Nothing is read of its place.
    #[inline]
    pub(crate) fn ways(&self, slot: Slot) -> Option<Ways<'_>> {
        let place = self.places.get(slot.index())?;
        let begin = *self.begins.get(slot.index())?;
        let end = *self.begins.get(slot.index() + 1)?;
        let outlets = self.outlets.get(begin as usize..end as usize)?;
        Some(Ways { place, outlets })
    }

    /// The ways out of the vPDP of this place, if it is still there.
    pub(crate) fn ways_of(&self, place: &Place) -> Option<Ways<'_>> {
        let ways = self.ways(place.slot)?;
        let is_same = place.identity.is_some() && ways.place.identity == place.identity;
        is_same.then_some(ways)
    }

    /// True if packets of a deleted vPDP that had this place in a root before may still leave by a
    /// port of the switch.
    pub(crate) fn lets_leave(&self, before: &Root, place: &Place, port: PortId) -> bool {
        let lets = |number| self.entrances.lets_leave(&before.entrances, port, number);
        place.identity.is_some_and(|(number, _)| lets(number))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlet_leads_where_its_exit_does_or_leaves_it_to_that() {
        let ways = |outlet: Outlet| (outlet.plain(), outlet.of_vlan(), outlet.described());
        let most = Outlet::DESCRIBED - 1;
        for port in [0, 1, 77, Outlet::OF_VLAN - 1] {
            let port = PortId(port);
            let plain = Outlet::of(&Exit::Port(port));
            assert_eq!(ways(plain), (Some(port), None, None));
        }
        for port in [0, 1, 77, most - 1] {
            let port = PortId(port);
            let described = Outlet::of(&Exit::Described(port));
            assert_eq!(ways(described), (None, None, Some(port)));
        }
        for port in [0, 1, 77, 65_535] {
            for vlan in [0, 0x1001, 0x1ffe] {
                let guard = Guard::of_one_vlan(PortId(port), vlan);
                let guarded = Outlet::of(&Exit::Guarded(Box::new(guard)));
                let found = (u64::from(vlan), PortId(port));
                assert_eq!(ways(guarded), (None, Some(found), None));
            }
        }
        let inlet = Inlet {
            slot: Slot(0),
            port: PortId(0),
        };
        let others = [
            Exit::Open,
            Exit::Link(inlet),
            Exit::Port(PortId(Outlet::OF_VLAN)),
            Exit::Port(PortId(Outlet::DESCRIBED)),
            Exit::Port(PortId(u32::MAX)),
            Exit::Guarded(Box::new(Guard::of_one_vlan(PortId(65_536), 0))),
            Exit::Described(PortId(most)),
            Exit::Described(PortId(u32::MAX)),
        ];
        for exit in others {
            assert_eq!(Outlet::of(&exit), Outlet::OTHER, "{exit:?}");
        }
        assert_eq!(ways(Outlet::OTHER), (None, None, None));
    }
}
