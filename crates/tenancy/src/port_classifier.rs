//! Ingress classification: maps a received packet to a vPDP and a virtual port. A physical port
//! belongs to one vPDP, or its packets are assigned by description header, by VLAN or by
//! classification rules.

use std::ops::Range;
use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, PortId};
use table::prefetch::prefetch_at;

use crate::description::Description;
use crate::encapsulation::Encapsulation;
use crate::port_map::{PortMap, Share, Sharing};
use crate::rule_classifier::{Classifier, Owner, outer_vlan};
use crate::snapshot::VpdpIndex;
use crate::sorter::{TOGETHER, are_all};
use crate::tag;
use crate::vpdp::VpdpId;

mod described;
mod late;

use described::Descriptions;

/// Ingress target of a packet: tenant index and virtual port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IngressTarget {
    pub(crate) slot: VpdpIndex,
    pub(crate) port: PortId,
}

impl IngressTarget {
    /// No target: the packet belongs to no vPDP.
    const NONE: IngressTarget = IngressTarget {
        slot: VpdpIndex::NONE,
        port: PortId(0),
    };
}

/// Ingress target of the packets of one VLAN.
#[derive(Clone, Copy, Debug)]
struct Access {
    inlet: IngressTarget,
    /// True if the VLAN tag is removed (access port).
    untags: bool,
}

impl Access {
    /// Removes the tag if necessary, and sets the virtual port of a packet of this VLAN.
    #[inline(always)]
    fn take(self, frame: &mut Frame) {
        if self.untags {
            tag::take_off(frame);
        }
        frame.ingress = self.inlet.port;
    }
}

/// Classifier of one physical port. It is kept small because with many ports each packet may need
/// a different one.
#[derive(Debug)]
enum PortClassifier {
    /// The port belongs to no vPDP.
    Closed,
    /// The port belongs to one vPDP.
    Whole(IngressTarget),
    /// The packets of one VLAN belong to a vPDP; all others are dropped. The whole entry is stored
    /// here, in one cache line.
    Vlan { vlan: u16, access: Access },
    /// Several vPDPs share the port by VLAN: the range of its entries in
    /// [`PortClassifiers::owners`].
    Vlans(Range<u32>),
    /// Several vPDPs share the port by description header: the index of the port in
    /// [`Descriptions`].
    Described(u32),
    /// Several vPDPs share the port in another mode.
    Shared(Box<Shared>),
}

const _: () = assert!(size_of::<PortClassifier>() <= 16);

impl PortClassifier {
    /// Converts a port with plain description headers (no outer header) to
    /// [`PortClassifier::Described`]. The header alone selects the target, whatever rules exist.
    fn tell_apart_by_description(&mut self, described: &mut Vec<Inlets>) {
        if let PortClassifier::Shared(shared) = self
            && let Sharing::Described(Encapsulation::Plain) = shared.sharing
        {
            let inlets = std::mem::take(&mut shared.inlets);
            *self = PortClassifier::Described(described.len() as u32);
            described.push(inlets);
        }
    }

    /// Converts a port of which all rules match on the VLAN only, so that no rule lookup is
    /// needed.
    fn tell_apart_by(&mut self, vlans: &[(u16, Owner)], owners: &mut Vec<(u16, Access)>) {
        let PortClassifier::Shared(shared) = self else {
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
                [(vlan, access)] => PortClassifier::Vlan { vlan, access },
                _ => PortClassifier::Vlans(begin as u32..owners.len() as u32),
            };
        }
    }
}

#[derive(Debug)]
struct Shared {
    sharing: Sharing,
    inlets: Inlets,
}

/// Ingress targets of a port, indexed by vPDP number; [`IngressTarget::NONE`] for vPDPs without
/// this port.
#[derive(Debug, Default)]
struct Inlets(Box<[IngressTarget]>);

impl Inlets {
    #[inline]
    fn at(&self, number: usize) -> Option<IngressTarget> {
        let inlet = self.0.get(number).copied();
        inlet.filter(|inlet| inlet.slot != VpdpIndex::NONE)
    }
}

/// Ingress classifier of the switch: maps all ports' packets to vPDPs.
#[derive(Debug, Default)]
pub(crate) struct PortClassifiers {
    /// Indexed by physical port.
    ports: Box<[PortClassifier]>,
    /// VLAN entries of all ports, ascending by port and VLAN.
    owners: Box<[(u16, Access)]>,
    descriptions: Descriptions,
    classifier: Option<Arc<Classifier>>,
}

impl PortClassifiers {
    /// Builds the classifier of a port map that was checked.
    pub(crate) fn new(
        wiring: &PortMap,
        classifier: Option<Arc<Classifier>>,
        slot_of: impl Fn(VpdpId) -> VpdpIndex,
    ) -> PortClassifiers {
        let mut entrances: Vec<PortClassifier> = Vec::new();
        for (virtual_port, physical) in wiring.physical() {
            let at = physical.0 as usize;
            if entrances.len() <= at {
                entrances.resize_with(at + 1, || PortClassifier::Closed);
            }
            let inlet = IngressTarget {
                slot: slot_of(virtual_port.vpdp),
                port: PortId(virtual_port.port),
            };
            let Some(&Share { sharing, .. }) = wiring.shared.get(&physical) else {
                if inlet.slot != VpdpIndex::NONE {
                    entrances[at] = PortClassifier::Whole(inlet);
                }
                continue;
            };
            if let PortClassifier::Closed = entrances[at] {
                let inlets = vec![
                    IngressTarget::NONE;
                    wiring
                        .ports
                        .keys()
                        .last()
                        .map_or(0, |last| last.index() + 1)
                ];
                entrances[at] = PortClassifier::Shared(Box::new(Shared {
                    sharing,
                    inlets: Inlets(inlets.into()),
                }));
            }
            if let PortClassifier::Shared(shared) = &mut entrances[at] {
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
        PortClassifiers {
            ports: entrances.into(),
            owners: owners.into(),
            descriptions: Descriptions::new(&described),
            classifier,
        }
    }

    /// Returns the tenant that a physical port belongs to, if it is one vPDP's alone.
    pub(crate) fn owner(&self, port: PortId) -> Option<VpdpIndex> {
        self.whole(port).map(|inlet| inlet.slot)
    }

    /// Classifies a prefix of the burst, at most `most` packets, and returns its length. It stops
    /// at the first packet that its port, description or VLAN alone does not assign. It also stops
    /// when `take` returns false. `take` is called with the tenant and the packet index at the
    /// first packet of each run of one tenant. Description headers are removed.
    #[inline]
    pub(crate) fn enter_in_runs(
        &self,
        frames: &mut [Frame],
        most: usize,
        take: impl FnMut(VpdpIndex, usize) -> bool,
    ) -> usize {
        let mut takes = Takes {
            last: VpdpIndex::NONE,
            has_refused: false,
            take,
        };
        let (mut done, end) = (0, most.min(frames.len()));
        loop {
            done = self.enter_by_port(&mut frames[..end], done, &mut takes);
            let before = done;
            let next = frames[..end].get(done);
            done = match next.and_then(|frame| self.of_port(frame.ingress)) {
                Some(PortClassifier::Described(_)) => {
                    self.enter_described(frames, done..end, &mut takes)
                }
                Some(PortClassifier::Vlan { .. } | PortClassifier::Vlans(_)) => {
                    self.enter_by_vlan(frames, done..end, &mut takes)
                }
                _ => return done,
            };
            if done == before || takes.has_refused {
                return done;
            }
        }
    }

    /// Returns true if port, description or VLAN alone assigns the packets of this port.
    pub(crate) fn has_signs(&self, port: PortId) -> bool {
        match self.of_port(port) {
            Some(PortClassifier::Whole(_) | PortClassifier::Described(_)) => true,
            Some(PortClassifier::Vlan { .. } | PortClassifier::Vlans(_)) => true,
            Some(PortClassifier::Closed | PortClassifier::Shared(_)) | None => false,
        }
    }

    #[inline(always)]
    fn of_port(&self, port: PortId) -> Option<&PortClassifier> {
        self.ports.get(port.0 as usize)
    }

    /// Classifies packets of ports that belong to one vPDP each.
    #[inline(always)]
    fn enter_by_port(
        &self,
        frames: &mut [Frame],
        mut done: usize,
        takes: &mut Takes<impl FnMut(VpdpIndex, usize) -> bool>,
    ) -> usize {
        loop {
            // A full chunk from one port needs one lookup for all its packets.
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

    /// Classifies packets of ports shared by description header. Consecutive packets of one vPDP,
    /// from any of its ports, need one lookup of the vPDP.
    #[inline(never)]
    fn enter_described(
        &self,
        frames: &mut [Frame],
        packets: Range<usize>,
        takes: &mut Takes<impl FnMut(VpdpIndex, usize) -> bool>,
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

    /// Classifies packets of ports shared by VLAN. Consecutive packets of one port and one VLAN
    /// need one lookup.
    #[inline(never)]
    fn enter_by_vlan(
        &self,
        frames: &mut [Frame],
        Range { start, end }: Range<usize>,
        takes: &mut Takes<impl FnMut(VpdpIndex, usize) -> bool>,
    ) -> usize {
        let mut done = start;
        while done < end {
            // With alternating ports, a branch per packet on the next port is mispredicted: a
            // whole chunk is compared at once.
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

    /// Returns a frame's VLAN and the target of that VLAN, if its port is shared by VLAN.
    #[inline(always)]
    fn by_vlan(&self, frame: &Frame) -> Option<(u64, Option<Access>)> {
        match *self.of_port(frame.ingress)? {
            PortClassifier::Vlan { vlan: own, access } => {
                let vlan = outer_vlan(frame.bytes());
                Some((vlan, (vlan == own.into()).then_some(access)))
            }
            PortClassifier::Vlans(Range { start, end }) => {
                let vlan = outer_vlan(frame.bytes());
                let owners = self.owners.get(start as usize..end as usize)?;
                Some((vlan, of_vlan(owners, vlan)))
            }
            _ => None,
        }
    }

    /// Classifies all packets: sets each one's virtual port and stores its tenant index in
    /// `slots`. A packet of no vPDP gets [`VpdpIndex::NONE`], and its drop reason is passed to
    /// `refuse`. `slots` has the length of `frames`.
    ///
    /// Consecutive packets from ports of one kind are processed by one loop. Packets of `later`
    /// are prefetched one by one meanwhile: a burst of prefetches would stall the processor.
    #[inline]
    pub(crate) fn enter(
        &self,
        frames: &mut [Frame],
        later: &[Frame],
        slots: &mut [VpdpIndex],
        refuse: &mut impl FnMut(DropReason),
    ) {
        debug_assert_eq!(frames.len(), slots.len());
        let mut later = later.iter();
        let mut ask = || ask_for(later.next());
        let mut done = 0;
        while let Some(port) = frames.get(done).map(|frame| frame.ingress) {
            let packets = frames[done..].iter_mut().zip(&mut slots[done..]);
            done += match self.of_port(port) {
                Some(PortClassifier::Vlan { .. } | PortClassifier::Vlans(_)) => {
                    let inlet = |frame: &mut Frame| {
                        ask();
                        self.inlet_by_vlan(frame)
                    };
                    enter_while(packets, inlet, refuse)
                }
                Some(PortClassifier::Described(_)) => {
                    let inlet = |frame: &mut Frame| {
                        ask();
                        self.inlet_by_description(frame)
                    };
                    enter_while(packets, inlet, refuse)
                }
                Some(PortClassifier::Whole(_)) => {
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

    /// Returns the ingress target of a packet from a port shared by VLAN, or `None` for other
    /// ports. The tag of an access VLAN is removed.
    #[inline(always)]
    fn inlet_by_vlan(&self, frame: &mut Frame) -> Option<Result<IngressTarget, DropReason>> {
        let (_, access) = self.by_vlan(frame)?;
        Some(match access {
            Some(access) => {
                access.take(frame);
                Ok(access.inlet)
            }
            None => Err(DropReason::Unclassified),
        })
    }

    /// Returns the ingress target of a packet from a port shared by description header, or `None`
    /// for other ports. The header is removed.
    #[inline(always)]
    fn inlet_by_description(&self, frame: &mut Frame) -> Option<Result<IngressTarget, DropReason>> {
        let number = self.described_port(frame)?;
        Some(match self.descriptions.find(number, frame.bytes()) {
            Some((own, port)) => {
                described::take_off(frame);
                Ok(IngressTarget {
                    slot: own.slot,
                    port,
                })
            }
            None => Err(why_undescribed(frame.bytes())),
        })
    }

    /// Returns the [`Descriptions`] index of a frame's port, if the port is shared by description
    /// header.
    #[inline(always)]
    fn described_port(&self, frame: &Frame) -> Option<usize> {
        match self.of_port(frame.ingress) {
            Some(PortClassifier::Described(number)) => Some(*number as usize),
            _ => None,
        }
    }

    /// Returns the ingress target of a port that belongs to one vPDP.
    #[inline(always)]
    fn whole(&self, port: PortId) -> Option<IngressTarget> {
        match self.of_port(port) {
            Some(PortClassifier::Whole(inlet)) => Some(*inlet),
            _ => None,
        }
    }

    /// Returns the ingress target of a packet from a port without a fast path. A description
    /// header is removed.
    ///
    /// # Errors
    /// The drop reason, if the packet belongs to no vPDP.
    #[inline(never)]
    fn other_inlet(
        &self,
        entrance: Option<&PortClassifier>,
        frame: &mut Frame,
    ) -> Result<IngressTarget, DropReason> {
        let Some(PortClassifier::Shared(shared)) = entrance else {
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

/// Calls `take` once per run of packets of one tenant.
struct Takes<T> {
    last: VpdpIndex,
    has_refused: bool,
    take: T,
}

impl<T: FnMut(VpdpIndex, usize) -> bool> Takes<T> {
    /// Returns true if packet `packet` of tenant `slot` is accepted.
    #[inline(always)]
    fn has(&mut self, slot: VpdpIndex, packet: usize) -> bool {
        slot == self.last || self.has_next(slot, packet)
    }

    #[inline]
    fn has_next(&mut self, slot: VpdpIndex, packet: usize) -> bool {
        self.has_refused = !(self.take)(slot, packet);
        if !self.has_refused {
            self.last = slot;
        }
        !self.has_refused
    }
}

/// Prefetches the first bytes of a frame.
#[inline(always)]
fn ask_for(frame: Option<&Frame>) {
    if let Some(frame) = frame {
        prefetch_at(frame.address());
    }
}

/// Returns the ingress port of all these frames, if they have one in common.
#[inline(always)]
fn common_port(frames: &[Frame]) -> Option<PortId> {
    let port = frames.first()?.ingress;
    if frames.last()?.ingress != port {
        return None;
    }
    let ports = frames.iter().map(|frame| frame.ingress.0);
    are_all(ports, port.0).then_some(port)
}

/// Classifies packets while `inlet` returns a result, and returns their number. Sets the virtual
/// port and tenant index of each; a packet with an error gets [`VpdpIndex::NONE`].
#[inline(always)]
fn enter_while<'f>(
    packets: impl Iterator<Item = (&'f mut Frame, &'f mut VpdpIndex)>,
    mut inlet: impl FnMut(&mut Frame) -> Option<Result<IngressTarget, DropReason>>,
    refuse: &mut impl FnMut(DropReason),
) -> usize {
    let mut entered = 0;
    for (frame, slot) in packets {
        match inlet(frame) {
            Some(Ok(inlet)) => (frame.ingress, *slot) = (inlet.port, inlet.slot),
            Some(Err(reason)) => {
                refuse(reason);
                *slot = VpdpIndex::NONE;
            }
            None => break,
        }
        entered += 1;
    }
    entered
}

/// Returns the drop reason of a packet without a matching description header.
#[cold]
fn why_undescribed(bytes: &[u8]) -> DropReason {
    match Description::decode(bytes) {
        Some(_) => DropReason::Unclassified,
        None => DropReason::BadDescription,
    }
}

/// Returns the entry of a VLAN in a sorted list.
#[inline]
pub(crate) fn of_vlan<T: Copy>(owners: &[(u16, T)], vlan: u64) -> Option<T> {
    // The value has 13 bits: VLAN ID and "tagged" flag.
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

    /// Builds a classifier with nine ports:
    /// - 0 and 1 belong to one vPDP each.
    /// - 2 is shared by VLAN (untagged, 3 and 9), and 3 has the VLAN 3 only. VLAN 3 has an access
    ///   rule at both.
    /// - 4 (vPDPs 1 and 2) and 5 (vPDPs 2 and 3) are shared by description header.
    /// - 6 is shared by rules, of which there are none.
    /// - 7 and 8 belong to no vPDP.
    fn entrances() -> PortClassifiers {
        let inlet = |slot, port| IngressTarget {
            slot: VpdpIndex(slot),
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
        let described = |inlets: [IngressTarget; 4]| Inlets(inlets.into());
        let none = IngressTarget::NONE;
        let described = [
            described([none, inlet(9, 4), inlet(10, 5), none]),
            described([none, none, inlet(10, 7), inlet(11, 8)]),
        ];
        let shared = Shared {
            sharing: Sharing::Rules,
            inlets: Inlets::default(),
        };
        PortClassifiers {
            ports: Box::new([
                PortClassifier::Whole(inlet(0, 0)),
                PortClassifier::Whole(inlet(1, 3)),
                PortClassifier::Vlans(0..3),
                PortClassifier::Vlan {
                    vlan: has_vlan | 3,
                    access: access(inlet(5, 1), true),
                },
                PortClassifier::Described(0),
                PortClassifier::Described(1),
                PortClassifier::Shared(Box::new(shared)),
                PortClassifier::Closed,
            ]),
            owners: vlans.into(),
            descriptions: Descriptions::new(&described),
            classifier: None,
        }
    }

    /// Builds a frame of a description header and 10 bytes. `length` is the header length in the
    /// description.
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
            let (mut slots, mut refused) = ([VpdpIndex(77)], None);
            entrances().enter(&mut frames, &[], &mut slots, &mut |reason| {
                refused = Some(reason)
            });
            let found = match refused {
                Some(reason) => Err(reason),
                None => Ok((slots[0].0, frames[0].ingress.0)),
            };
            assert_eq!(found, expected, "vPDP {vpdp} by port {port}, {length}");
            assert_eq!(slots[0] == VpdpIndex::NONE, expected.is_err());
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
        let mut wiring = PortMap::default();
        let vpdp = VpdpId::new(1).expect("it is one");
        wiring
            .ports
            .insert(vpdp, vec![Connection::Physical(PortId(3))]);
        let entrances = PortClassifiers::new(&wiring, None, |_| VpdpIndex::NONE);
        assert_eq!(entrances.owner(PortId(3)), None);
        assert!(!entrances.has_signs(PortId(3)));
    }

    fn frame(port: u32, kind: u8) -> Frame {
        let (vpdp, vlan) = (
            u16::from(kind % 3) + 1,
            [3, 9, kind / 3 % 2][usize::from(kind % 3)],
        );
        // In some frames the declared header length is less than the packet length.
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
            let mut slots = vec![VpdpIndex(77); packets.len()];
            entrances.enter(&mut together, &[], &mut slots, &mut |reason| refused.push(reason));
            for (at, frame) in alone.iter_mut().enumerate() {
                let mut slot = VpdpIndex(78);
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
                let (mut slot, mut copy) = (VpdpIndex::NONE, Frame::new());
                copy.copy_from(frame);
                entrances.enter(std::slice::from_mut(&mut copy), &[], std::slice::from_mut(&mut slot), &mut |_| {});
                if slot == VpdpIndex::NONE {
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
