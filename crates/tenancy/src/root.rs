//! What workers see of the hypervisor: immutable, made by the control side, taken as a whole at the begin of a burst.

use std::ops::Range;
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

    /// Gives packets, from the first of these on, the virtual ports that they come in by, as long as ports, VLANs or descriptions at the front tell whose they are and `take` takes those of this
    /// slot, at these places; where that ends. Descriptions are taken off. What is not taken, `take` may be asked again.
    #[inline(always)]
    pub(crate) fn enter(
        &self,
        frames: &mut [Frame],
        places: Range<usize>,
        mut take: impl FnMut(Slot, Range<usize>) -> bool,
    ) -> usize {
        let (mut done, end) = (places.start, places.end.min(frames.len()));
        while done < end {
            let port = frames[done].ingress;
            let entering = Entering {
                frames: &mut *frames,
                places: done..end,
                take: &mut take,
            };
            let ended = match self.entrances.get(port.0 as usize) {
                _ if self.whole(port).is_some() => entering.by_port(|port| self.whole(port)),
                Some(Entrance::Vlans(_)) => entering.by_bytes(0, |frame| self.inlet_by_vlan(frame)),
                Some(Entrance::Described(_)) => {
                    entering.by_bytes(Description::BYTES, |frame| self.inlet_by_description(frame))
                }
                _ => done,
            };
            if ended == done {
                break;
            }
            done = ended;
        }
        done
    }

    /// Gives the packet at a place the virtual port that it comes in by, whatever tells of it, and says its slot. A description in front of it is taken off.
    ///
    /// # Errors
    /// It is no vPDP's: why.
    #[inline(never)]
    pub(crate) fn enter_one(&self, frames: &mut [Frame], place: usize) -> Result<Slot, DropReason> {
        ask_for_later(frames, place);
        let frame = &mut frames[place];
        let inlet = match self.entrances.get(frame.ingress.0 as usize) {
            _ if let Some(inlet) = self.whole(frame.ingress) => inlet,
            Some(Entrance::Vlans(_)) => {
                self.inlet_by_vlan(frame).ok_or(DropReason::Unclassified)?
            }
            Some(Entrance::Described(_)) => {
                let inlet = self.inlet_by_description(frame);
                let inlet = inlet.ok_or_else(|| why_undescribed(frame.bytes()))?;
                let taken_off = frame.pull_front(Description::BYTES);
                taken_off.map_err(|_| DropReason::BadDescription)?;
                inlet
            }
            Some(Entrance::Shared(shared)) => self.shared_inlet(shared, frame)?,
            Some(Entrance::Closed) | None => return Err(DropReason::Unclassified),
        };
        frame.ingress = inlet.port;
        Ok(inlet.slot)
    }

    /// Where a packet goes in that comes by a port of which VLANs tell, if its VLAN does.
    #[inline(always)]
    fn inlet_by_vlan(&self, frame: &Frame) -> Option<Inlet> {
        match self.entrances.get(frame.ingress.0 as usize) {
            Some(Entrance::Vlans(owners)) => of_vlan(owners, outer_vlan(frame.bytes())),
            _ => None,
        }
    }

    /// Where a packet goes in that comes by a port of which descriptions tell, if it begins with one that is right.
    #[inline(always)]
    fn inlet_by_description(&self, frame: &Frame) -> Option<Inlet> {
        let Some(Entrance::Described(inlets)) = self.entrances.get(frame.ingress.0 as usize) else {
            return None;
        };
        let bytes = frame.bytes();
        let described = inlets.get(number_of(bytes)?)?;
        described.draft.length(bytes)?;
        Some(described.inlet)
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
    fn shared_inlet(&self, shared: &Shared, frame: &mut Frame) -> Result<Inlet, DropReason> {
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

/// Whether all of these numbers are this one, without a branch for each.
#[inline(always)]
pub(crate) fn are_all(numbers: impl Iterator<Item = u32>, one: u32) -> bool {
    numbers.fold(0, |other, number| other | number ^ one) == 0
}

/// Whether several frames come one behind the other by the port of the first of these: three that do by accident are rare, so that the processor foresees it.
#[inline(always)]
fn are_likely_of_one_port(frames: &[Frame]) -> bool {
    let port = |at: usize| frames[at.min(frames.len() - 1)].ingress;
    port(LEAD / 2) == port(0) && port(LEAD - 1) == port(0)
}

/// So many frames before it is looked into, one is asked for, one by one: where many are at once the processor waits.
const LEAD: usize = 16;

/// Asks for the frame that is looked into so much later than this one.
#[inline(always)]
fn ask_for_later(frames: &[Frame], place: usize) {
    if let Some(later) = frames.get(place + LEAD) {
        prefetch_at(later.address());
    }
}

/// Frames that go in one behind the other by ports of one kind.
struct Entering<'f, T> {
    frames: &'f mut [Frame],
    places: Range<usize>,
    /// Whether packets of a slot, at these places, are taken.
    take: &'f mut T,
}

impl<T: FnMut(Slot, Range<usize>) -> bool> Entering<'_, T> {
    /// As long as `inlet` says of a port where its packets go in; where that ends. Of packets that come one behind the other by one port, as they do where many wait, little is looked up.
    #[inline(always)]
    fn by_port(self, inlet: impl Fn(PortId) -> Option<Inlet>) -> usize {
        let Entering {
            frames,
            places,
            take,
        } = self;
        let mut enter = |frames: &mut [Frame], place: usize| {
            let inlet = inlet(frames[0].ingress);
            let inlet = inlet.filter(|inlet| take(inlet.slot, place..place + frames.len()));
            let port = inlet.map(|inlet| inlet.port);
            port.map(|port| frames.iter_mut().for_each(|frame| frame.ingress = port))
        };
        let mut done = places.start;
        while done < places.end {
            let rest = &mut frames[done..places.end];
            if are_likely_of_one_port(rest) {
                let port = rest[0].ingress;
                let alike = rest
                    .iter()
                    .take_while(|frame| frame.ingress == port)
                    .count();
                if enter(&mut rest[..alike], done).is_none() {
                    break;
                }
                done += alike;
                continue;
            }
            let some = rest.len().min(LEAD);
            for frame in &mut rest[..some] {
                if enter(std::slice::from_mut(frame), done).is_none() {
                    return done;
                }
                done += 1;
            }
        }
        done
    }

    /// As long as `inlet` says of a packet where it goes in; where that ends. So much of its front is taken off.
    #[inline(always)]
    fn by_bytes(self, front: usize, inlet: impl Fn(&Frame) -> Option<Inlet>) -> usize {
        for place in self.places.clone() {
            ask_for_later(self.frames, place);
            let frame = &mut self.frames[place];
            let inlet = inlet(frame).filter(|inlet| (self.take)(inlet.slot, place..place + 1));
            match inlet {
                Some(inlet) if front == 0 || frame.pull_front(front).is_ok() => {
                    frame.ingress = inlet.port;
                }
                _ => return place,
            }
        }
        self.places.end
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
            let entered = root().enter_one(&mut frames, 0);
            assert_eq!(entered.err(), expected, "vPDP {vpdp}");
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
        fn packets_go_in_together_where_they_go_in_one_by_one_as_long_as_they_are_taken(
            packets in prop::collection::vec((0u32..9, any::<u8>()), 1..40),
            are_of_one_port in any::<bool>(),
            ends in (0usize..4, 0usize..80),
            refused_from in 0usize..80,
        ) {
            let root = root();
            let port = |port| if are_of_one_port { packets[0].0 } else { port };
            let frames = || packets.iter().map(|(other, kind)| frame(port(*other), *kind));
            let (mut together, mut alone): (Vec<Frame>, Vec<Frame>) = (frames().collect(), frames().collect());
            let mut taken = Vec::new();
            let places = ends.0.min(packets.len())..ends.1.clamp(ends.0.min(packets.len()), packets.len());
            let end = root.enter(&mut together, places.clone(), |slot, at| {
                let is_taken = at.end <= refused_from;
                taken.extend(at.filter(|_| is_taken).map(|at| (slot, at)));
                is_taken
            });
            let mut expected = Vec::new();
            prop_assert!(end <= places.end);
            for at in places.start..end {
                expected.push((root.enter_one(&mut alone, at).unwrap_or(Slot::NONE), at));
            }
            prop_assert_eq!(taken, expected);
            for (together, alone) in together.iter().zip(&alone) {
                prop_assert_eq!(together.ingress, alone.ingress);
                prop_assert_eq!(together.bytes(), alone.bytes());
            }
            // What ended there is not taken, with those behind it that come by its port, or nobody's, or at a port of rules.
            let rest = &alone[end..places.end];
            let alike = rest.iter().take_while(|frame| frame.ingress == rest[0].ingress);
            let is_refused = end + alike.count() > refused_from;
            if end < places.end {
                let is_of_rules = alone[end].ingress == PortId(6);
                prop_assert!(is_refused || is_of_rules || root.enter_one(&mut alone, end).is_err());
            }
        }
    }
}
