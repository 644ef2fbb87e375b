//! The way in: whose a packet is that comes by a port of the switch, told by the port alone, by the description or the VLAN that it begins with, or by rules; and the virtual port that it comes in by.

use std::ops::Range;
use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, PortId};
use table::prefetch::prefetch_at;

use crate::carriage::Carriage;
use crate::classifier::{Classifier, Owner, outer_vlan};
use crate::description::Description;
use crate::root::Slot;
use crate::sorter::{TOGETHER, are_all};
use crate::tag;
use crate::vpdp::VpdpId;
use crate::wiring::{Share, Sharing, Wiring};

mod described;
mod late;

use described::Descriptions;

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

/// The inlet of a VLAN's packets.
#[derive(Clone, Copy, Debug)]
struct Access {
    inlet: Inlet,
    /// True if they lose their tags.
    untags: bool,
}

impl Access {
    /// Has a packet of the VLAN go in there.
    #[inline(always)]
    fn take(self, frame: &mut Frame) {
        if self.untags {
            tag::take_off(frame);
        }
        frame.ingress = self.inlet.port;
    }
}

/// A port of the switch, as packets come in. Small: of many ports each packet may come in by another one.
#[derive(Debug)]
enum Entrance {
    /// Nobody's.
    Closed,
    /// One vPDP's.
    Whole(Inlet),
    /// One VLAN's packets are a vPDP's, and no others are anybody's: all of it is here, in one line of memory.
    Vlan { vlan: u16, access: Access },
    /// Several vPDPs', whose packets their VLANs tell apart: these are in [`Entrances::owners`].
    Vlans(Range<u32>),
    /// Several vPDPs', whose packets begin with their descriptions: the number that [`Descriptions`] knows the port by.
    Described(u32),
    /// Several vPDPs'.
    Shared(Box<Shared>),
}

const _: () = assert!(size_of::<Entrance>() <= 16);

impl Entrance {
    /// Descriptions that are the first bytes lead where they lead, whatever else there is.
    fn tell_apart_by_description(&mut self, described: &mut Vec<Inlets>) {
        if let Entrance::Shared(shared) = self
            && let Sharing::Described(Carriage::Plain) = shared.sharing
        {
            let inlets = std::mem::take(&mut shared.inlets);
            *self = Entrance::Described(described.len() as u32);
            described.push(inlets);
        }
    }

    /// Rules that ask for nothing but this port's VLANs lead where they lead without being asked.
    fn tell_apart_by(&mut self, vlans: &[(u16, Owner)], owners: &mut Vec<(u16, Access)>) {
        let Entrance::Shared(shared) = self else {
            return;
        };
        if let Sharing::Rules = shared.sharing {
            let begin = owners.len();
            let access = |&(vlan, owner): &(u16, Owner)| {
                let inlet = shared.inlets.at(owner.vpdp.index())?;
                let untags = owner.untags;
                Some((vlan, Access { inlet, untags }))
            };
            owners.extend(vlans.iter().filter_map(access));
            *self = match owners[begin..] {
                [(vlan, access)] => Entrance::Vlan { vlan, access },
                _ => Entrance::Vlans(begin as u32..owners.len() as u32),
            };
        }
    }
}

#[derive(Debug)]
struct Shared {
    sharing: Sharing,
    inlets: Inlets,
}

/// Where packets go in by a port, by the numbers of the vPDPs that have it; [`Inlet::NONE`] for others.
#[derive(Debug, Default)]
struct Inlets(Box<[Inlet]>);

impl Inlets {
    #[inline]
    fn at(&self, number: usize) -> Option<Inlet> {
        let inlet = self.0.get(number).copied();
        inlet.filter(|inlet| inlet.slot != Slot::NONE)
    }
}

/// Where packets come in: of all ports of the switch, whose its packets are.
#[derive(Debug, Default)]
pub(crate) struct Entrances {
    /// By port.
    ports: Box<[Entrance]>,
    /// Where packets of VLANs go in, ascending by port and VLAN.
    owners: Box<[(u16, Access)]>,
    descriptions: Descriptions,
    classifier: Option<Arc<Classifier>>,
}

impl Entrances {
    /// Those of a wiring that was checked.
    pub(crate) fn new(
        wiring: &Wiring,
        classifier: Option<Arc<Classifier>>,
        slot_of: impl Fn(VpdpId) -> Slot,
    ) -> Entrances {
        let mut entrances: Vec<Entrance> = Vec::new();
        for (virtual_port, physical) in wiring.physical() {
            let at = physical.0 as usize;
            if entrances.len() <= at {
                entrances.resize_with(at + 1, || Entrance::Closed);
            }
            let inlet = Inlet {
                slot: slot_of(virtual_port.vpdp),
                port: PortId(virtual_port.port),
            };
            let Some(&Share { sharing, .. }) = wiring.shared.get(&physical) else {
                if inlet.slot != Slot::NONE {
                    entrances[at] = Entrance::Whole(inlet);
                }
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
        let mut described = Vec::new();
        for entrance in &mut entrances {
            entrance.tell_apart_by_description(&mut described);
        }
        let mut owners = Vec::new();
        if let Some(Classifier::Vlans(vlans)) = classifier.as_deref() {
            for (port, entrance) in (0..).map(PortId).zip(&mut entrances) {
                entrance.tell_apart_by(vlans.of_port(port), &mut owners);
            }
        }
        Entrances {
            ports: entrances.into(),
            owners: owners.into(),
            descriptions: Descriptions::new(&described),
            classifier,
        }
    }

    /// Whose a port of the switch is, if it is one vPDP's.
    pub(crate) fn owner(&self, port: PortId) -> Option<Slot> {
        self.whole(port).map(|inlet| inlet.slot)
    }

    /// Gives packets, so many at most, the virtual ports that they come in by, as long as their ports, descriptions or VLANs by themselves say whose they are and `take` takes that slot, which is
    /// told of the first packet of each, by its number; how many. Descriptions are taken off.
    #[inline]
    pub(crate) fn enter_in_runs(
        &self,
        frames: &mut [Frame],
        most: usize,
        take: impl FnMut(Slot, usize) -> bool,
    ) -> usize {
        let mut takes = Takes {
            last: Slot::NONE,
            has_refused: false,
            take,
        };
        let (mut done, end) = (0, most.min(frames.len()));
        loop {
            done = self.enter_by_port(&mut frames[..end], done, &mut takes);
            let before = done;
            let next = frames[..end].get(done);
            done = match next.and_then(|frame| self.of_port(frame.ingress)) {
                Some(Entrance::Described(_)) => self.enter_described(frames, done..end, &mut takes),
                Some(Entrance::Vlan { .. } | Entrance::Vlans(_)) => {
                    self.enter_by_vlan(frames, done..end, &mut takes)
                }
                _ => return done,
            };
            if done == before || takes.has_refused {
                return done;
            }
        }
    }

    /// Whether packets that come by a port say by one of these signs whose they are.
    pub(crate) fn has_signs(&self, port: PortId) -> bool {
        match self.of_port(port) {
            Some(Entrance::Whole(_) | Entrance::Described(_)) => true,
            Some(Entrance::Vlan { .. } | Entrance::Vlans(_)) => true,
            Some(Entrance::Closed | Entrance::Shared(_)) | None => false,
        }
    }

    #[inline(always)]
    fn of_port(&self, port: PortId) -> Option<&Entrance> {
        self.ports.get(port.0 as usize)
    }

    /// By ports that are one vPDP's each.
    #[inline(always)]
    fn enter_by_port(
        &self,
        frames: &mut [Frame],
        mut done: usize,
        takes: &mut Takes<impl FnMut(Slot, usize) -> bool>,
    ) -> usize {
        loop {
            // Nothing is looked up but for the first one where all of so many come by one port.
            while let Some(some) = frames[done..].first_chunk_mut::<TOGETHER>()
                && let Some(port) = common_port(some)
            {
                let inlet = self.whole(port);
                let Some(inlet) = inlet.filter(|inlet| takes.has(inlet.slot, done)) else {
                    return done;
                };
                some.iter_mut().for_each(|frame| frame.ingress = inlet.port);
                done += TOGETHER;
            }
            if done == frames.len() {
                return done;
            }
            for frame in frames[done..].iter_mut().take(TOGETHER) {
                let inlet = self.whole(frame.ingress);
                let Some(inlet) = inlet.filter(|inlet| takes.has(inlet.slot, done)) else {
                    return done;
                };
                frame.ingress = inlet.port;
                done += 1;
            }
        }
    }

    /// By ports whose packets begin with their descriptions. Of packets of one vPDP that come one behind the other, by any ports, whose they are is not looked up but for the first.
    #[inline(never)]
    fn enter_described(
        &self,
        frames: &mut [Frame],
        packets: Range<usize>,
        takes: &mut Takes<impl FnMut(Slot, usize) -> bool>,
    ) -> usize {
        let mut done = packets.start;
        while done < packets.end {
            let frame = &frames[done];
            let found = self.described_port(frame);
            let found = found.and_then(|number| self.descriptions.find(number, frame.bytes()));
            let Some((own, mut to)) = found.filter(|(own, _)| takes.has(own.slot, done)) else {
                return done;
            };
            loop {
                ask_for(frames.get(done + TOGETHER));
                let frame = &mut frames[done];
                described::take_off(frame);
                frame.ingress = to;
                done += 1;
                let next = frames[..packets.end].get(done);
                let port = |frame| own.port(self.described_port(frame)?, frame.bytes());
                match next.and_then(port) {
                    Some(next) => to = next,
                    None => break,
                }
            }
        }
        done
    }

    /// By ports whose packets' VLANs tell. Packets that come one behind the other by one port and have one VLAN are not looked up but for the first.
    #[inline(never)]
    fn enter_by_vlan(
        &self,
        frames: &mut [Frame],
        Range { start, end }: Range<usize>,
        takes: &mut Takes<impl FnMut(Slot, usize) -> bool>,
    ) -> usize {
        let mut done = start;
        while done < end {
            // Whether the next one's port is the same cannot be foreseen where ports take turns: many are looked at at once.
            let looked_at = end.min(done + TOGETHER);
            let (looked_at_first, later) = frames.split_at_mut(looked_at);
            let some = &mut looked_at_first[done..];
            let Some(port) = common_port(some) else {
                for (at, frame) in some.iter_mut().enumerate() {
                    let access = self.by_vlan(frame).and_then(|(_, access)| access);
                    let access = access.filter(|one| takes.has(one.inlet.slot, done + at));
                    let Some(access) = access else {
                        return done + at;
                    };
                    ask_for(later.get(at));
                    access.take(frame);
                }
                done = looked_at;
                continue;
            };
            while done < looked_at {
                let Some((vlan, Some(access))) = self.by_vlan(&frames[done]) else {
                    return done;
                };
                if !takes.has(access.inlet.slot, done) {
                    return done;
                }
                loop {
                    ask_for(frames.get(done + TOGETHER));
                    access.take(&mut frames[done]);
                    done += 1;
                    let is_of_run =
                        |frame: &Frame| frame.ingress == port && outer_vlan(frame.bytes()) == vlan;
                    if done == end || !is_of_run(&frames[done]) {
                        break;
                    }
                }
            }
        }
        done
    }

    /// The VLAN of a frame and where its packets go in, if VLANs tell of the port that it comes by.
    #[inline(always)]
    fn by_vlan(&self, frame: &Frame) -> Option<(u64, Option<Access>)> {
        match *self.of_port(frame.ingress)? {
            Entrance::Vlan { vlan: own, access } => {
                let vlan = outer_vlan(frame.bytes());
                Some((vlan, (vlan == own.into()).then_some(access)))
            }
            Entrance::Vlans(Range { start, end }) => {
                let vlan = outer_vlan(frame.bytes());
                let owners = self.owners.get(start as usize..end as usize)?;
                Some((vlan, of_vlan(owners, vlan)))
            }
            _ => None,
        }
    }

    /// Gives each of these packets the virtual port that it comes in by, and its slot to `slots`; [`Slot::NONE`] if it is no vPDP's, with the reason to `refuse`. There are as many
    /// slots as packets. Neighbours by ports of one kind are looked at together. While they are looked into, those that come `later` are asked for one by one: where many are at once the
    /// processor waits.
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
        let mut ask = || ask_for(later.next());
        let mut done = 0;
        while let Some(port) = frames.get(done).map(|frame| frame.ingress) {
            let packets = frames[done..].iter_mut().zip(&mut slots[done..]);
            done += match self.of_port(port) {
                Some(Entrance::Vlan { .. } | Entrance::Vlans(_)) => {
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
                Some(Entrance::Whole(_)) => {
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

    /// The inlet of a packet that comes by a port of VLANs; nothing if it comes by another one. The
    /// tag of an access rule is removed.
    #[inline(always)]
    fn inlet_by_vlan(&self, frame: &mut Frame) -> Option<Result<Inlet, DropReason>> {
        let (_, access) = self.by_vlan(frame)?;
        Some(match access {
            Some(access) => {
                access.take(frame);
                Ok(access.inlet)
            }
            None => Err(DropReason::Unclassified),
        })
    }

    /// Where a packet goes in that comes by a port of which descriptions tell; nothing if it comes by another one. The description is taken off.
    #[inline(always)]
    fn inlet_by_description(&self, frame: &mut Frame) -> Option<Result<Inlet, DropReason>> {
        let number = self.described_port(frame)?;
        Some(match self.descriptions.find(number, frame.bytes()) {
            Some((own, port)) => {
                described::take_off(frame);
                Ok(Inlet {
                    slot: own.slot,
                    port,
                })
            }
            None => Err(why_undescribed(frame.bytes())),
        })
    }

    /// The number of the port that this frame came by, if its packets begin with their descriptions.
    #[inline(always)]
    fn described_port(&self, frame: &Frame) -> Option<usize> {
        match self.of_port(frame.ingress) {
            Some(Entrance::Described(number)) => Some(*number as usize),
            _ => None,
        }
    }

    /// Where packets of a port go in, if it is one vPDP's.
    #[inline(always)]
    fn whole(&self, port: PortId) -> Option<Inlet> {
        match self.of_port(port) {
            Some(Entrance::Whole(inlet)) => Some(*inlet),
            _ => None,
        }
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
        let as_it_is = |vpdp| Owner {
            vpdp,
            untags: false,
        };
        let owner = match &shared.sharing {
            Sharing::Described(carriage) => {
                let description = carriage.take_off(frame);
                Some(as_it_is(
                    description.ok_or(DropReason::BadDescription)?.vpdp,
                ))
            }
            Sharing::Destination(prefix) => {
                let own = prefix.vpdp(frame.bytes()).map(as_it_is);
                own.or_else(|| by_rules(frame))
            }
            Sharing::Rules => by_rules(frame),
        };
        let owner = owner.ok_or(DropReason::Unclassified)?;
        let inlet = shared.inlets.at(owner.vpdp.index());
        let inlet = inlet.ok_or(DropReason::Unclassified)?;
        if owner.untags {
            tag::take_off(frame);
        }
        Ok(inlet)
    }
}

/// Who takes packets slot by slot.
struct Takes<T> {
    last: Slot,
    has_refused: bool,
    take: T,
}

impl<T: FnMut(Slot, usize) -> bool> Takes<T> {
    /// Whether the packet of this number, which is this slot's, is taken.
    #[inline(always)]
    fn has(&mut self, slot: Slot, packet: usize) -> bool {
        slot == self.last || self.has_next(slot, packet)
    }

    #[inline]
    fn has_next(&mut self, slot: Slot, packet: usize) -> bool {
        self.has_refused = !(self.take)(slot, packet);
        if !self.has_refused {
            self.last = slot;
        }
        !self.has_refused
    }
}

/// Asks the processor for what is at the front of a frame.
#[inline(always)]
fn ask_for(frame: Option<&Frame>) {
    if let Some(frame) = frame {
        prefetch_at(frame.address());
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
pub(crate) fn of_vlan<T: Copy>(owners: &[(u16, T)], vlan: u64) -> Option<T> {
    // It has 13 bits.
    let vlan = vlan as u16;
    let at = owners.binary_search_by_key(&vlan, |(vlan, _)| *vlan).ok()?;
    Some(owners[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connection;
    use crate::rule::HAS_VLAN;
    use proptest::prelude::*;

    /// At ports 2 and 3, VLAN 3 has an access rule.
    ///
    /// Ports 0 and 1 are whole, VLANs tell of 2 (none, 3 and 9) and 3 (3), descriptions of 4 (of vPDPs 1 and 2) and 5 (of 2 and 3), rules, of which there are none, of 6; 7 and 8 are nobody's.
    fn entrances() -> Entrances {
        let inlet = |slot, port| Inlet {
            slot: Slot(slot),
            port: PortId(port),
        };
        let access = |inlet, untags| Access { inlet, untags };
        let has_vlan = HAS_VLAN as u16;
        let owners = [
            (0, 5, false),
            (has_vlan | 3, 1, true),
            (has_vlan | 9, 2, false),
        ];
        let owners = (2..).zip(owners);
        let vlans =
            owners.map(|(slot, (vlan, port, untags))| (vlan, access(inlet(slot, port), untags)));
        let vlans: Vec<_> = vlans.collect();
        let described = |inlets: [Inlet; 4]| Inlets(inlets.into());
        let none = Inlet::NONE;
        let described = [
            described([none, inlet(9, 4), inlet(10, 5), none]),
            described([none, none, inlet(10, 7), inlet(11, 8)]),
        ];
        let shared = Shared {
            sharing: Sharing::Rules,
            inlets: Inlets::default(),
        };
        Entrances {
            ports: Box::new([
                Entrance::Whole(inlet(0, 0)),
                Entrance::Whole(inlet(1, 3)),
                Entrance::Vlans(0..3),
                Entrance::Vlan {
                    vlan: has_vlan | 3,
                    access: access(inlet(5, 1), true),
                },
                Entrance::Described(0),
                Entrance::Described(1),
                Entrance::Shared(Box::new(shared)),
                Entrance::Closed,
            ]),
            owners: vlans.into(),
            descriptions: Descriptions::new(&described),
            classifier: None,
        }
    }

    /// 10 bytes behind the description of a vPDP that says so many to be headers.
    fn described(port: u32, vpdp: u16, length: u16) -> Frame {
        let header = VpdpId::new(vpdp).map(|vpdp| Description { vpdp, length }.encode());
        let bytes = [&header.unwrap_or_default()[..], &[7; 10]].concat();
        let mut frame = Frame::from_bytes(&bytes).unwrap_or_default();
        frame.ingress = PortId(port);
        frame
    }

    #[test]
    fn who_is_described_and_does_not_have_the_port_is_unclassified() {
        let unclassified = Err(DropReason::Unclassified);
        let bad = Err(DropReason::BadDescription);
        for (port, vpdp, length, expected) in [
            (4, 1, 14, Ok((9, 4))),
            (4, 2, 14, Ok((10, 5))),
            (4, 3, 14, unclassified),
            (4, 4, 14, unclassified),
            (5, 1, 14, unclassified),
            (5, 2, 14, Ok((10, 7))),
            (5, 3, 4, Ok((11, 8))),
            (5, 3, 3, bad),
            (5, 3, 15, bad),
        ] {
            let mut frames = [described(port, vpdp, length)];
            let (mut slots, mut refused) = ([Slot(77)], None);
            entrances().enter(&mut frames, &[], &mut slots, &mut |reason| {
                refused = Some(reason)
            });
            let found = match refused {
                Some(reason) => Err(reason),
                None => Ok((slots[0].0, frames[0].ingress.0)),
            };
            assert_eq!(found, expected, "vPDP {vpdp} by port {port}, {length}");
            assert_eq!(slots[0] == Slot::NONE, expected.is_err());
        }
    }

    #[test]
    fn packets_of_one_vpdp_by_several_described_ports_go_in_by_its_own_of_each() {
        let mut frames = [4, 5, 4, 4, 5].map(|port| described(port, 2, 14));
        let mut asked = Vec::new();
        let entered = entrances().enter_in_runs(&mut frames, 5, |slot, at| {
            asked.push((slot.0, at));
            true
        });
        assert_eq!((entered, asked), (5, vec![(10, 0)]));
        assert_eq!(frames.map(|frame| frame.ingress.0), [5, 7, 5, 5, 7]);
    }

    #[test]
    fn a_port_of_a_vpdp_that_has_no_slot_is_nobodys() {
        let mut wiring = Wiring::default();
        let vpdp = VpdpId::new(1).expect("it is one");
        wiring
            .ports
            .insert(vpdp, vec![Connection::Physical(PortId(3))]);
        let entrances = Entrances::new(&wiring, None, |_| Slot::NONE);
        assert_eq!(entrances.owner(PortId(3)), None);
        assert!(!entrances.has_signs(PortId(3)));
    }

    fn frame(port: u32, kind: u8) -> Frame {
        let (vpdp, vlan) = (
            u16::from(kind % 3) + 1,
            [3, 9, kind / 3 % 2][usize::from(kind % 3)],
        );
        // Some say less than the whole packet to be headers.
        let length = if kind.is_multiple_of(5) { 18 } else { 32 };
        let described = VpdpId::new(vpdp).map(|vpdp| Description { vpdp, length }.encode());
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
            let entrances = entrances();
            let port = |port| if are_of_one_port { packets[0].0 } else { port };
            let frames = || packets.iter().map(|(other, kind)| frame(port(*other), *kind));
            let (mut together, mut alone): (Vec<Frame>, Vec<Frame>) = (frames().collect(), frames().collect());
            let (mut refused, mut refused_alone) = (Vec::new(), Vec::new());
            let mut slots = vec![Slot(77); packets.len()];
            entrances.enter(&mut together, &[], &mut slots, &mut |reason| refused.push(reason));
            for (at, frame) in alone.iter_mut().enumerate() {
                let mut slot = Slot(78);
                entrances.enter(std::slice::from_mut(frame), &[], std::slice::from_mut(&mut slot), &mut |reason| refused_alone.push(reason));
                prop_assert_eq!(slots[at], slot);
                prop_assert_eq!(together[at].ingress, frame.ingress);
                prop_assert_eq!(together[at].bytes(), frame.bytes());
            }
            prop_assert_eq!(refused, refused_alone);
        }

        #[test]
        fn packets_go_in_by_runs_as_one_by_one_as_long_as_they_say_whose_they_are_and_are_taken(
            runs in prop::collection::vec((0u32..9, 0u8..12, 1usize..40), 0..12),
            most in 0usize..200,
            refused_from in 0usize..200,
        ) {
            let entrances = entrances();
            let packets = || runs.iter().flat_map(|&(port, kind, count)| (0..count).map(move |_| frame(port, kind)));
            let (mut frames, mut expected): (Vec<Frame>, Vec<Frame>) = (packets().collect(), packets().collect());
            let (mut asked, mut to_ask, mut end) = (Vec::new(), Vec::new(), 0);
            let entered = entrances.enter_in_runs(&mut frames, most, |slot, at| {
                asked.push((slot, at));
                at < refused_from
            });
            for (at, frame) in expected.iter_mut().enumerate().take(most) {
                let (mut slot, mut copy) = (Slot::NONE, Frame::new());
                copy.copy_from(frame);
                entrances.enter(std::slice::from_mut(&mut copy), &[], std::slice::from_mut(&mut slot), &mut |_| {});
                if slot == Slot::NONE {
                    break;
                }
                if to_ask.last().is_none_or(|(last, _)| *last != slot) {
                    to_ask.push((slot, at));
                    if at >= refused_from {
                        break;
                    }
                }
                *frame = copy;
                end = at + 1;
            }
            prop_assert_eq!(entered, end);
            prop_assert_eq!(asked, to_ask);
            for (entered, expected) in frames.iter().zip(&expected) {
                prop_assert_eq!(entered.ingress, expected.ingress);
                prop_assert_eq!(entered.bytes(), expected.bytes());
            }
        }
    }
}
