//! What workers see of the hypervisor: immutable, made by the control side, taken as a whole at the begin of a burst.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, FrameError, PortId};
use switch::Marks;
use table::prefetch::{prefetch_at, prefetch_value};

use crate::carriage::{Carriage, Outer, put_on};
use crate::classifier::{Classifier, outer_vlan};
use crate::description::{Description, Draft, number_of};
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

/// Where a packet goes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inlet {
    pub(crate) slot: Slot,
    pub(crate) port: PortId,
}

impl Inlet {
    /// Nowhere: of no slot.
    const NONE: Inlet = Inlet {
        slot: Slot::NONE,
        port: PortId(0),
    };
}

/// A port of the switch that several vPDPs share, as packets come in. Small: of many ports each packet may come in by another one.
#[derive(Debug)]
enum Entrance {
    /// Nobody's, or one vPDP's: that is told apart before.
    Closed,
    /// Several vPDPs', whose packets their VLANs tell apart, ascending.
    Vlans(Box<[(u64, Inlet)]>),
    /// Several vPDPs', whose packets begin with their descriptions: where they go in, by the vPDPs' numbers.
    Described(Box<[Described]>),
    /// Several vPDPs'.
    Shared(Box<Shared>),
}

const _: () = assert!(size_of::<Entrance>() <= 24);

impl Entrance {
    /// Descriptions that are the first bytes lead where they lead, whatever else there is.
    fn tell_apart_by_description(&mut self) {
        if let Entrance::Shared(shared) = self
            && let Sharing::Described(Carriage::Plain) = shared.sharing
        {
            let inlets = (0..)
                .zip(&shared.inlets.0)
                .map(|(number, &inlet)| Described {
                    draft: match VpdpId::new(number) {
                        Some(vpdp) if inlet.slot != Slot::NONE => Draft::of(vpdp),
                        _ => Draft::nobody(),
                    },
                    inlet,
                });
            *self = Entrance::Described(inlets.collect());
        }
    }

    /// Rules that ask for nothing but this port's VLANs lead where they lead without being asked.
    fn tell_apart_by(&mut self, owners: &[(u64, VpdpId)]) {
        let Entrance::Shared(shared) = self else {
            return;
        };
        if let Sharing::Rules = shared.sharing {
            let inlet =
                |&(vlan, vpdp): &(u64, VpdpId)| Some((vlan, shared.inlets.at(vpdp.index())?));
            *self = Entrance::Vlans(owners.iter().filter_map(inlet).collect());
        }
    }
}

/// Where packets of a vPDP go in, and what they begin with.
#[derive(Debug)]
struct Described {
    draft: Draft,
    inlet: Inlet,
}

#[derive(Debug)]
struct Shared {
    sharing: Sharing,
    inlets: Inlets,
}

/// Where packets go in, by numbers: of vPDPs that have a port, or of ports that are one vPDP's. [`Inlet::NONE`] for others.
#[derive(Debug, Default)]
struct Inlets(Box<[Inlet]>);

impl Inlets {
    #[inline]
    fn at(&self, number: usize) -> Option<Inlet> {
        let inlet = self.0.get(number).copied();
        inlet.filter(|inlet| inlet.slot != Slot::NONE)
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
    entrances: Box<[Entrance]>,
    /// Where packets go in by ports that are one vPDP's, in little memory: they may come by very many ports.
    whole: Inlets,
    classifier: Option<Arc<Classifier>>,
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
        let (whole, entrances) = entrances(wiring, classifier.as_deref(), slot_of);
        Root {
            whole,
            entrances,
            classifier,
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

    /// Whose a port of the switch is, if it is one vPDP's.
    pub(crate) fn owner(&self, port: PortId) -> Option<Slot> {
        self.whole(port).map(|inlet| inlet.slot)
    }

    /// Gives packets the virtual ports that they come in by, as long as their ports are one vPDP's each and `take` takes its slot, which is told of the first packet of each, by its number; how
    /// many. Of packets that come one behind the other by one port nothing is looked up but for the first.
    #[inline]
    pub(crate) fn enter_by_port(
        &self,
        frames: &mut [Frame],
        mut take: impl FnMut(Slot, usize) -> bool,
    ) -> usize {
        let (mut done, mut last) = (0, Slot::NONE);
        while let Some(port) = frames.get(done).map(|frame| frame.ingress) {
            let inlet = self.whole(port);
            let inlet = inlet.filter(|inlet| inlet.slot == last || take(inlet.slot, done));
            let Some(inlet) = inlet else {
                break;
            };
            last = inlet.slot;
            while let Some(frame) = frames.get_mut(done)
                && frame.ingress == port
            {
                frame.ingress = inlet.port;
                done += 1;
            }
        }
        done
    }

    /// Gives each of these packets the virtual port that it comes in by, and its slot to `slots`; [`Slot::NONE`] if it is no vPDP's, with the reason to `refuse`. There are as many
    /// slots as packets. Packets of one port, as they come where many wait, and neighbours by ports of one kind are looked at together. While they are looked into, those that come `later` are
    /// asked for one by one: where many are at once the processor waits.
    #[inline]
    pub(crate) fn enter(
        &self,
        frames: &mut [Frame],
        later: &[Frame],
        slots: &mut [Slot],
        refuse: &mut impl FnMut(DropReason),
    ) {
        debug_assert_eq!(frames.len(), slots.len());
        let mut later = later.iter();
        let mut ask = || {
            if let Some(frame) = later.next() {
                prefetch_at(frame.address());
            }
        };
        let common = common_port(frames);
        if let Some(inlet) = common.and_then(|port| self.whole(port)) {
            frames
                .iter_mut()
                .for_each(|frame| frame.ingress = inlet.port);
            return slots.fill(inlet.slot);
        }
        let mut done = 0;
        while let Some(port) = frames.get(done).map(|frame| frame.ingress) {
            let packets = frames[done..].iter_mut().zip(&mut slots[done..]);
            done += match self.entrances.get(port.0 as usize) {
                Some(Entrance::Vlans(owners)) if common.is_some() => {
                    let mut last = (NO_VLAN, Err(DropReason::Unclassified));
                    let inlet = |frame: &mut Frame| {
                        ask();
                        let vlan = outer_vlan(frame.bytes());
                        if vlan != last.0 {
                            last = (vlan, by_vlan(owners, vlan));
                        }
                        Some(last.1)
                    };
                    enter_while(packets, inlet, refuse)
                }
                Some(Entrance::Vlans(_)) => {
                    let inlet = |frame: &mut Frame| {
                        ask();
                        self.inlet_by_vlan(frame)
                    };
                    enter_while(packets, inlet, refuse)
                }
                Some(Entrance::Described(_)) => {
                    let inlet = |frame: &mut Frame| {
                        ask();
                        self.inlet_by_description(frame)
                    };
                    enter_while(packets, inlet, refuse)
                }
                _ if self.whole(port).is_some() => {
                    enter_while(packets, |frame| self.whole(frame.ingress).map(Ok), refuse)
                }
                other => {
                    let inlet = |frame: &mut Frame| {
                        ask();
                        Some(self.other_inlet(other, frame))
                    };
                    enter_while(packets.take(1), inlet, refuse)
                }
            };
        }
    }

    /// Where a packet goes in that comes by a port of which VLANs tell; nothing if it comes by another one.
    #[inline(always)]
    fn inlet_by_vlan(&self, frame: &Frame) -> Option<Result<Inlet, DropReason>> {
        match self.entrances.get(frame.ingress.0 as usize) {
            Some(Entrance::Vlans(owners)) => Some(by_vlan(owners, outer_vlan(frame.bytes()))),
            _ => None,
        }
    }

    /// Where a packet goes in that comes by a port of which descriptions tell; nothing if it comes by another one. The description is taken off.
    #[inline(always)]
    fn inlet_by_description(&self, frame: &mut Frame) -> Option<Result<Inlet, DropReason>> {
        match self.entrances.get(frame.ingress.0 as usize) {
            Some(Entrance::Described(inlets)) => Some(by_description(inlets, frame)),
            _ => None,
        }
    }

    /// Where packets of a port go in, if it is one vPDP's.
    #[inline(always)]
    fn whole(&self, port: PortId) -> Option<Inlet> {
        self.whole.at(port.0 as usize)
    }

    /// Where a packet goes in that comes by a port of no usual kind. A description in front of it is taken off.
    ///
    /// # Errors
    /// It is no vPDP's: why.
    #[inline(never)]
    fn other_inlet(
        &self,
        entrance: Option<&Entrance>,
        frame: &mut Frame,
    ) -> Result<Inlet, DropReason> {
        let Some(Entrance::Shared(shared)) = entrance else {
            return Err(DropReason::Unclassified);
        };
        let by_rules = |frame: &Frame| {
            let classifier = self.classifier.as_ref()?;
            classifier.find(frame.ingress, frame.bytes())
        };
        let vpdp = match &shared.sharing {
            Sharing::Described(carriage) => {
                let description = carriage.take_off(frame);
                Some(description.ok_or(DropReason::BadDescription)?.vpdp)
            }
            Sharing::Destination(prefix) => prefix.vpdp(frame.bytes()).or_else(|| by_rules(frame)),
            Sharing::Rules => by_rules(frame),
        };
        let inlet = vpdp.and_then(|vpdp| shared.inlets.at(vpdp.index()));
        inlet.ok_or(DropReason::Unclassified)
    }
}

/// The port that all of these frames come from, if they do.
#[inline(always)]
fn common_port(frames: &[Frame]) -> Option<PortId> {
    let port = frames.first()?.ingress;
    if frames.last()?.ingress != port {
        return None;
    }
    let ports = frames.iter().map(|frame| frame.ingress.0);
    are_all(ports, port.0).then_some(port)
}

/// Whether all of these numbers are this one, without a branch for each.
#[inline(always)]
pub(crate) fn are_all(numbers: impl Iterator<Item = u32>, one: u32) -> bool {
    numbers.fold(0, |other, number| other | number ^ one) == 0
}

/// Gives packets the virtual ports that they come in by, and their slots, as long as `inlet` says where they go in or why nowhere; how many.
#[inline(always)]
fn enter_while<'f>(
    packets: impl Iterator<Item = (&'f mut Frame, &'f mut Slot)>,
    mut inlet: impl FnMut(&mut Frame) -> Option<Result<Inlet, DropReason>>,
    refuse: &mut impl FnMut(DropReason),
) -> usize {
    let mut entered = 0;
    for (frame, slot) in packets {
        match inlet(frame) {
            Some(Ok(inlet)) => (frame.ingress, *slot) = (inlet.port, inlet.slot),
            Some(Err(reason)) => {
                refuse(reason);
                *slot = Slot::NONE;
            }
            None => break,
        }
        entered += 1;
    }
    entered
}

/// What no frame has.
const NO_VLAN: u64 = u64::MAX;

/// Where packets of a VLAN go in.
#[inline(always)]
fn by_vlan(owners: &[(u64, Inlet)], vlan: u64) -> Result<Inlet, DropReason> {
    of_vlan(owners, vlan).ok_or(DropReason::Unclassified)
}

/// Where a packet goes in that begins with its description, which is taken off.
#[inline(always)]
fn by_description(inlets: &[Described], frame: &mut Frame) -> Result<Inlet, DropReason> {
    let bytes = frame.bytes();
    let described = number_of(bytes).and_then(|number| inlets.get(number));
    let is_right = |described: &&Described| described.draft.length(bytes).is_some();
    match described.filter(is_right) {
        Some(described) if frame.pull_front(Description::BYTES).is_ok() => Ok(described.inlet),
        _ => Err(why_undescribed(frame.bytes())),
    }
}

/// Why no vPDP of a port is described by what these bytes begin with.
#[cold]
fn why_undescribed(bytes: &[u8]) -> DropReason {
    match Description::decode(bytes) {
        Some(_) => DropReason::Unclassified,
        None => DropReason::BadDescription,
    }
}

/// What a VLAN leads to.
#[inline]
pub(crate) fn of_vlan<T: Copy>(owners: &[(u64, T)], vlan: u64) -> Option<T> {
    let at = owners.binary_search_by_key(&vlan, |(vlan, _)| *vlan).ok()?;
    Some(owners[at].1)
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

fn entrances(
    wiring: &Wiring,
    classifier: Option<&Classifier>,
    slot_of: impl Fn(VpdpId) -> Slot,
) -> (Inlets, Box<[Entrance]>) {
    let mut whole: Vec<Inlet> = Vec::new();
    let mut entrances: Vec<Entrance> = Vec::new();
    for (virtual_port, physical) in wiring.physical() {
        let at = physical.0 as usize;
        if entrances.len() <= at {
            entrances.resize_with(at + 1, || Entrance::Closed);
            whole.resize(at + 1, Inlet::NONE);
        }
        let inlet = Inlet {
            slot: slot_of(virtual_port.vpdp),
            port: PortId(virtual_port.port),
        };
        let Some(&sharing) = wiring.shared.get(&physical) else {
            whole[at] = inlet;
            continue;
        };
        if let Entrance::Closed = entrances[at] {
            let inlets = vec![
                Inlet::NONE;
                wiring
                    .ports
                    .keys()
                    .last()
                    .map_or(0, |last| last.index() + 1)
            ];
            entrances[at] = Entrance::Shared(Box::new(Shared {
                sharing,
                inlets: Inlets(inlets.into()),
            }));
        }
        if let Entrance::Shared(shared) = &mut entrances[at] {
            shared.inlets.0[virtual_port.vpdp.index()] = inlet;
        }
    }
    entrances
        .iter_mut()
        .for_each(Entrance::tell_apart_by_description);
    if let Some(Classifier::Vlans(vlans)) = classifier {
        for (port, entrance) in (0..).map(PortId).zip(&mut entrances) {
            entrance.tell_apart_by(vlans.of_port(port));
        }
    }
    (Inlets(whole.into()), entrances.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ports 0 and 1 are whole, VLANs tell of 2 and 3, descriptions of 4 and 5, rules, of which there are none, of 6; 7 and 8 are nobody's.
    fn root() -> Root {
        let inlet = |slot, port| Inlet {
            slot: Slot(slot),
            port: PortId(port),
        };
        let vlans = |slot| Entrance::Vlans([(3, inlet(slot, 1)), (9, inlet(slot + 1, 2))].into());
        let described = |slot| {
            let draft = VpdpId::new(1).map_or(Draft::nobody(), Draft::of);
            let numbers = [Draft::nobody(), draft, Draft::nobody()];
            let inlet = inlet(slot, 4);
            Entrance::Described(numbers.map(|draft| Described { draft, inlet }).into())
        };
        let shared = Shared {
            sharing: Sharing::Rules,
            inlets: Inlets::default(),
        };
        Root {
            whole: Inlets([inlet(0, 0), inlet(1, 3)].into()),
            entrances: Box::new([
                Entrance::Closed,
                Entrance::Closed,
                vlans(2),
                vlans(4),
                described(6),
                described(7),
                Entrance::Shared(Box::new(shared)),
                Entrance::Closed,
            ]),
            ..Root::default()
        }
    }

    #[test]
    fn who_is_described_and_does_not_have_the_port_is_unclassified() {
        for (vpdp, expected) in [
            (1, None),
            (2, Some(DropReason::Unclassified)),
            (3, Some(DropReason::Unclassified)),
        ] {
            let header = VpdpId::new(vpdp).map(|vpdp| Description::of_packet(vpdp, 10).encode());
            let bytes = [&header.unwrap_or_default()[..], &[7; 10]].concat();
            let mut frames = [Frame::from_bytes(&bytes).unwrap_or_default()];
            frames[0].ingress = PortId(4);
            let (mut slots, mut refused) = ([Slot(77)], None);
            root().enter(&mut frames, &[], &mut slots, &mut |reason| {
                refused = Some(reason)
            });
            assert_eq!(refused, expected, "vPDP {vpdp}");
            assert_eq!(slots[0] == Slot::NONE, expected.is_some());
        }
    }

    fn frame(port: u32, kind: u8) -> Frame {
        let (vpdp, vlan) = (u16::from(kind % 3) + 1, [3, 9, 4][usize::from(kind % 3)]);
        let described = VpdpId::new(vpdp).map(|vpdp| Description::of_packet(vpdp, 28).encode());
        let tagged = [
            [1; 12].as_slice(),
            &[0x81, 0, 0, vlan],
            &[8, 0],
            &[kind; 10],
        ]
        .concat();
        let front = described
            .filter(|_| kind.is_multiple_of(2))
            .unwrap_or_default();
        let bytes = if port < 4 {
            tagged
        } else {
            [front.as_slice(), &tagged].concat()
        };
        let mut frame = Frame::from_bytes(&bytes).unwrap_or_default();
        frame.ingress = PortId(port);
        frame
    }

    proptest! {
        #[test]
        fn packets_go_in_together_where_they_go_in_one_by_one(
            packets in prop::collection::vec((0u32..9, any::<u8>()), 1..17),
            are_of_one_port in any::<bool>(),
        ) {
            let root = root();
            let port = |port| if are_of_one_port { packets[0].0 } else { port };
            let frames = || packets.iter().map(|(other, kind)| frame(port(*other), *kind));
            let (mut together, mut alone): (Vec<Frame>, Vec<Frame>) = (frames().collect(), frames().collect());
            let (mut refused, mut refused_alone) = (Vec::new(), Vec::new());
            let mut slots = vec![Slot(77); packets.len()];
            root.enter(&mut together, &[], &mut slots, &mut |reason| refused.push(reason));
            for (at, frame) in alone.iter_mut().enumerate() {
                let mut slot = Slot(78);
                root.enter(std::slice::from_mut(frame), &[], std::slice::from_mut(&mut slot), &mut |reason| refused_alone.push(reason));
                prop_assert_eq!(slots[at], slot);
                prop_assert_eq!(together[at].ingress, frame.ingress);
                prop_assert_eq!(together[at].bytes(), frame.bytes());
            }
            prop_assert_eq!(refused, refused_alone);
        }

        #[test]
        fn packets_go_in_by_their_ports_as_long_as_these_are_one_vpdps_and_are_taken(
            ports in prop::collection::vec(0u32..3, 0..17),
            refused_from in 0usize..20,
        ) {
            let root = root();
            let come = || ports.iter().map(|port| frame(*port, 0));
            let (mut frames, mut expected): (Vec<Frame>, Vec<Frame>) = (come().collect(), come().collect());
            let (mut taken, mut slots) = (Vec::new(), vec![Slot(77); ports.len()]);
            let entered = root.enter_by_port(&mut frames, |slot, at| {
                taken.push((slot, at));
                at < refused_from
            });
            // Each of these ports is another vPDP's: each change is asked about.
            let changes = (0..ports.len()).filter(|&at| at == 0 || ports[at] != ports[at - 1]);
            let end = changes.clone().find(|&at| at >= refused_from || ports[at] == 2).unwrap_or(ports.len());
            prop_assert_eq!(entered, end);
            root.enter(&mut expected[..end], &[], &mut slots[..end], &mut |_| {});
            let asked: Vec<_> = changes.clone().filter(|&at| at < end).map(|at| (slots[at], at)).collect();
            prop_assert_eq!(&taken[..asked.len()], &asked[..]);
            for (entered, expected) in frames.iter().zip(&expected) {
                prop_assert_eq!(entered.ingress, expected.ingress);
            }
        }
    }
}
