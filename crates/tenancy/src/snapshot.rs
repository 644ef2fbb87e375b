//! Root: the immutable snapshot of the hypervisor that workers read. The control side builds it,
//! and a worker takes it as a whole at the start of a burst (RCU).

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, FrameError, PortId};
use switch::DeviceMask;
use table::prefetch::prefetch_value;

use crate::description::Draft;
use crate::encapsulation::{Encapsulation, Outer, put_on};
use crate::guard::{Guard, Guards};
use crate::port_classifier::{IngressTarget, PortClassifiers};
use crate::port_map::{PortMap, Sharing};
use crate::rate_limiter::RateLimiter;
use crate::rule_classifier::Classifier;
use crate::vpdp::{Connection, VpdpId};

/// Tenant index: the dense index of a vPDP in this hypervisor. Indices are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VpdpIndex(pub(crate) u32);

impl VpdpIndex {
    /// Index of packets that belong to no vPDP.
    pub(crate) const NONE: VpdpIndex = VpdpIndex(u32::MAX);

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the bit by which worker threads identify the tenant's device.
    #[inline]
    pub(crate) fn mark(self) -> DeviceMask {
        DeviceMask::of(self.0)
    }
}

/// Egress entry of a virtual port.
#[derive(Debug)]
pub(crate) enum EgressAction {
    /// Not connected: packets are dropped.
    Open,
    /// A physical port.
    Port(PortId),
    /// A physical port with description headers.
    Described(PortId),
    /// A physical port with description headers and an outer header. Ports of a vPDP with the same
    /// encapsulation share one header.
    Wrapped(PortId, Arc<Outer>),
    /// A physical port with an egress filter: only the vPDP's own frames may leave.
    Guarded(Box<Guard>),
    /// A link to another virtual port.
    Link(IngressTarget),
}

impl EgressAction {
    /// Returns the outer header in front of description headers.
    pub(crate) fn outer(&self) -> Option<&Outer> {
        match self {
            EgressAction::Wrapped(_, outer) => Some(outer),
            _ => None,
        }
    }
}

/// Admission state of a vPDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Packets are admitted.
    Open,
    /// Packets are dropped for this reason.
    Closed(DropReason),
}

/// Maximum number of ports of which the egress entries are prefetched.
const FEW_PORTS: usize = 16;

/// Entry of a vPDP in the snapshot.
#[derive(Debug)]
pub(crate) struct VpdpPlace {
    pub(crate) slot: VpdpIndex,
    /// The vPDP's number and its creation number. The latter is unique among all vPDPs ever
    /// created.
    identity: Option<(VpdpId, u64)>,
    /// Generation number of the per-thread states that serve the vPDP; 0 if there are none.
    pub(crate) serial: u64,
    pub(crate) admission: Admission,
    pub(crate) gate: Arc<RateLimiter>,
    /// True if the rate limiter has no limits and is skipped.
    pub(crate) is_unlimited: bool,
    /// Description header of the vPDP's packets.
    description: Draft,
    exits: Box<[EgressAction]>,
    /// True if there are ports, and all are unconnected or physical ports with description
    /// headers.
    describes_all: bool,
}

/// Compact [`EgressAction`] for the common cases: a physical port, one with description headers, or
/// one that admits frames of one VLAN. [`EgressIndex::OTHER`] stands for all other cases. Kind and
/// port are encoded in one number, so that each packet needs one comparison at egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EgressIndex(u32);

impl EgressIndex {
    /// Flag: a port that admits frames of one VLAN. The VLAN is stored above the port number.
    /// Larger port numbers use [`EgressIndex::OTHER`].
    const OF_VLAN: u32 = 1 << 30;
    const VLAN_SHIFT: u32 = 16;
    const VLAN_PORTS: u32 = (1 << EgressIndex::VLAN_SHIFT) - 1;
    /// Flag: a port with description headers. Larger port numbers use [`EgressIndex::OTHER`].
    const DESCRIBED: u32 = 1 << 31;
    /// The full [`EgressAction`] must be read.
    pub(crate) const OTHER: EgressIndex = EgressIndex(u32::MAX);

    fn of(exit: &EgressAction) -> EgressIndex {
        match exit {
            EgressAction::Port(PortId(port)) if *port < EgressIndex::OF_VLAN => EgressIndex(*port),
            EgressAction::Described(PortId(port))
                if *port < EgressIndex::OTHER.0 - EgressIndex::DESCRIBED =>
            {
                EgressIndex(port | EgressIndex::DESCRIBED)
            }
            EgressAction::Guarded(guard) => match guard.one_vlan() {
                Some((vlan, PortId(port))) if port <= EgressIndex::VLAN_PORTS => EgressIndex(
                    EgressIndex::OF_VLAN | u32::from(vlan) << EgressIndex::VLAN_SHIFT | port,
                ),
                _ => EgressIndex::OTHER,
            },
            _ => EgressIndex::OTHER,
        }
    }

    /// Returns the physical port to which packets are sent unchanged.
    #[inline(always)]
    pub(crate) fn plain(self) -> Option<PortId> {
        (self.0 < EgressIndex::OF_VLAN).then_some(PortId(self.0))
    }

    /// Returns the VLAN, as [`crate::rule::Field::Vlan`], and the physical port to which packets
    /// of this VLAN are sent unchanged.
    #[inline(always)]
    pub(crate) fn of_vlan(self) -> Option<(u64, PortId)> {
        let is_of_vlan = (EgressIndex::OF_VLAN..EgressIndex::DESCRIBED).contains(&self.0);
        let vlan = (self.0 & !EgressIndex::OF_VLAN) >> EgressIndex::VLAN_SHIFT;
        is_of_vlan.then_some((vlan.into(), PortId(self.0 & EgressIndex::VLAN_PORTS)))
    }

    /// Returns the physical port to which packets are sent with only their description header
    /// added.
    #[inline(always)]
    pub(crate) fn described(self) -> Option<PortId> {
        let is_described = self.0 >= EgressIndex::DESCRIBED && self != EgressIndex::OTHER;
        is_described.then_some(PortId(self.0 & !EgressIndex::DESCRIBED))
    }
}

/// Egress map of a vPDP: virtual ports to egress entries.
#[derive(Clone, Copy)]
pub(crate) struct EgressMap<'r> {
    pub(crate) place: &'r VpdpPlace,
    outlets: &'r [EgressIndex],
}

impl<'r> EgressMap<'r> {
    /// Creates an empty egress map: all packets are dropped.
    pub(crate) fn none(place: &'r VpdpPlace) -> EgressMap<'r> {
        EgressMap {
            place,
            outlets: &[],
        }
    }

    #[inline(always)]
    pub(crate) fn outlet(self, port: PortId) -> EgressIndex {
        let outlet = self.outlets.get(port.0 as usize);
        outlet.copied().unwrap_or(EgressIndex::OTHER)
    }

    /// Prefetches the compact egress entries of the first ports.
    #[inline]
    pub(crate) fn ask_for_outlets(self) {
        prefetch_value(&self.outlets[..self.outlets.len().min(FEW_PORTS)]);
    }
}

impl VpdpPlace {
    /// Returns the vPDP's number.
    pub(crate) fn vpdp(&self) -> Option<VpdpId> {
        self.identity.map(|(vpdp, _)| vpdp)
    }

    /// Creates an entry without egress. It serves packets of a vPDP that no worker ever saw in a
    /// root.
    pub(crate) fn nowhere() -> VpdpPlace {
        VpdpPlace {
            slot: VpdpIndex::NONE,
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

    /// Returns true if all ports are unconnected or physical ports with description headers.
    pub(crate) fn describes_all(&self) -> bool {
        self.describes_all
    }

    /// Adds the vPDP's description header, and the outer header if there is one, to a packet.
    ///
    /// # Errors
    /// The frame would be too long; it is not changed.
    #[inline(always)]
    pub(crate) fn describe(
        &self,
        outer: Option<&Outer>,
        frame: &mut Frame,
    ) -> Result<(), FrameError> {
        put_on(self.description, outer, frame)
    }

    #[inline]
    pub(crate) fn exit(&self, port: PortId) -> &EgressAction {
        self.exits
            .get(port.0 as usize)
            .unwrap_or(&EgressAction::Open)
    }
}

/// Input of the control side for one vPDP's [`VpdpPlace`].
pub(crate) struct Tenant {
    pub(crate) vpdp: VpdpId,
    /// Unique among all vPDPs ever created.
    pub(crate) birth: u64,
    pub(crate) slot: VpdpIndex,
    pub(crate) serial: u64,
    pub(crate) admission: Admission,
    pub(crate) gate: Arc<RateLimiter>,
}

/// Snapshot of all data that packets need.
#[derive(Debug, Default)]
pub(crate) struct SwitchSnapshot {
    pub(crate) entrances: PortClassifiers,
    /// Indexed by tenant; [`VpdpPlace::nowhere`] where there is no vPDP.
    places: Box<[VpdpPlace]>,
    /// Compact egress entries of all tenants, concatenated; `begins` has each tenant's first
    /// index, and the end. With many alternating vPDPs, one cache line holds the entries of
    /// several.
    outlets: Box<[EgressIndex]>,
    begins: Box<[u32]>,
}

impl SwitchSnapshot {
    /// Builds the root of a port map that was checked. `tenants` are sorted by vPDP number.
    pub(crate) fn new(
        wiring: &PortMap,
        classifier: Option<Arc<Classifier>>,
        tenants: &[Tenant],
    ) -> SwitchSnapshot {
        let slot_of = |vpdp: VpdpId| {
            let found = tenants.binary_search_by_key(&vpdp, |tenant| tenant.vpdp);
            found.map_or(VpdpIndex::NONE, |at| tenants[at].slot)
        };
        let guards = Guards::new(wiring, classifier.clone());
        let most = tenants.iter().map(|tenant| tenant.slot.index() + 1).max();
        let mut places: Vec<Option<VpdpPlace>> = Vec::new();
        places.resize_with(most.unwrap_or(0), || None);
        for tenant in tenants {
            let connections = wiring.ports.get(&tenant.vpdp).into_iter().flatten();
            let mut outers = Outers::of(tenant.vpdp);
            let exits = connections.map(|connection| match *connection {
                Connection::Open => EgressAction::Open,
                Connection::Physical(port) => {
                    match wiring.shared.get(&port).map(|share| share.sharing) {
                        Some(Sharing::Described(carriage)) => match outers.of_carriage(carriage) {
                            Some(outer) => EgressAction::Wrapped(port, outer),
                            None => EgressAction::Described(port),
                        },
                        Some(Sharing::Destination(_) | Sharing::Rules) => {
                            let guard = guards.of(tenant.vpdp, port);
                            guard.map_or(EgressAction::Port(port), |guard| {
                                EgressAction::Guarded(Box::new(guard))
                            })
                        }
                        None => EgressAction::Port(port),
                    }
                }
                Connection::Link(other) => EgressAction::Link(IngressTarget {
                    slot: slot_of(other.vpdp),
                    port: PortId(other.port),
                }),
            });
            let exits: Box<[EgressAction]> = exits.collect();
            let is_described = |exit: &EgressAction| {
                matches!(exit, EgressAction::Described(_) | EgressAction::Open)
            };
            places[tenant.slot.index()] = Some(VpdpPlace {
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
        let places: Box<[VpdpPlace]> = places
            .map(|place| place.unwrap_or_else(VpdpPlace::nowhere))
            .collect();
        let mut outlets = Vec::new();
        let mut begins = vec![0];
        for place in &*places {
            outlets.extend(place.exits.iter().map(EgressIndex::of));
            begins.push(outlets.len() as u32);
        }
        SwitchSnapshot {
            entrances: PortClassifiers::new(wiring, classifier, slot_of),
            places,
            outlets: outlets.into(),
            begins: begins.into(),
        }
    }

    /// Returns the number of tenant indices, used or not.
    pub(crate) fn slots(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(crate) fn place(&self, slot: VpdpIndex) -> Option<&VpdpPlace> {
        let place = self.places.get(slot.index())?;
        (place.slot == slot).then_some(place)
    }

    /// Returns the egress map of a tenant. Does not read its [`VpdpPlace`].
    #[inline]
    pub(crate) fn ways(&self, slot: VpdpIndex) -> Option<EgressMap<'_>> {
        let place = self.places.get(slot.index())?;
        let begin = *self.begins.get(slot.index())?;
        let end = *self.begins.get(slot.index() + 1)?;
        let outlets = self.outlets.get(begin as usize..end as usize)?;
        Some(EgressMap { place, outlets })
    }

    /// Returns the current egress map of the same vPDP, if it still exists.
    pub(crate) fn ways_of(&self, place: &VpdpPlace) -> Option<EgressMap<'_>> {
        let ways = self.ways(place.slot)?;
        let is_same = place.identity.is_some() && ways.place.identity == place.identity;
        is_same.then_some(ways)
    }

    /// Returns true if packets of a deleted vPDP may still leave by a physical port. `place` is
    /// its entry in the root `before`.
    pub(crate) fn lets_leave(
        &self,
        before: &SwitchSnapshot,
        place: &VpdpPlace,
        port: PortId,
    ) -> bool {
        let lets = |number| self.entrances.lets_leave(&before.entrances, port, number);
        place.identity.is_some_and(|(number, _)| lets(number))
    }

    /// Returns the generation number of the per-thread states of a tenant; 0 if there are none.
    pub(crate) fn serial(&self, slot: VpdpIndex) -> u64 {
        self.place(slot).map_or(0, |place| place.serial)
    }
}

/// Outer headers of a vPDP, one per encapsulation.
struct Outers {
    vpdp: VpdpId,
    made: Vec<(Encapsulation, Option<Arc<Outer>>)>,
}

impl Outers {
    fn of(vpdp: VpdpId) -> Outers {
        let made = Vec::new();
        Outers { vpdp, made }
    }

    fn of_carriage(&mut self, carriage: Encapsulation) -> Option<Arc<Outer>> {
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
        let ways = |outlet: EgressIndex| (outlet.plain(), outlet.of_vlan(), outlet.described());
        let most = EgressIndex::DESCRIBED - 1;
        for port in [0, 1, 77, EgressIndex::OF_VLAN - 1] {
            let port = PortId(port);
            let plain = EgressIndex::of(&EgressAction::Port(port));
            assert_eq!(ways(plain), (Some(port), None, None));
        }
        for port in [0, 1, 77, most - 1] {
            let port = PortId(port);
            let described = EgressIndex::of(&EgressAction::Described(port));
            assert_eq!(ways(described), (None, None, Some(port)));
        }
        for port in [0, 1, 77, 65_535] {
            for vlan in [0, 0x1001, 0x1ffe] {
                let guard = Guard::of_one_vlan(PortId(port), vlan);
                let guarded = EgressIndex::of(&EgressAction::Guarded(Box::new(guard)));
                let found = (u64::from(vlan), PortId(port));
                assert_eq!(ways(guarded), (None, Some(found), None));
            }
        }
        let inlet = IngressTarget {
            slot: VpdpIndex(0),
            port: PortId(0),
        };
        let others = [
            EgressAction::Open,
            EgressAction::Link(inlet),
            EgressAction::Port(PortId(EgressIndex::OF_VLAN)),
            EgressAction::Port(PortId(EgressIndex::DESCRIBED)),
            EgressAction::Port(PortId(u32::MAX)),
            EgressAction::Guarded(Box::new(Guard::of_one_vlan(PortId(65_536), 0))),
            EgressAction::Described(PortId(most)),
            EgressAction::Described(PortId(u32::MAX)),
        ];
        for exit in others {
            assert_eq!(EgressIndex::of(&exit), EgressIndex::OTHER, "{exit:?}");
        }
        assert_eq!(ways(EgressIndex::OTHER), (None, None, None));
    }
}
