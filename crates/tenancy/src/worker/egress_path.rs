//! Egress: from a virtual port to a physical port, or over a link to another virtual port.

use exec::{DropReason, PackedOutcome};
use packet::{Frame, FramePool, Nanos, PortId};
use switch::PacketSink;

use crate::port_classifier::IngressTarget;
use crate::rule_classifier::outer_vlan;
use crate::snapshot::{EgressAction, EgressIndex, EgressMap, VpdpIndex, VpdpPlace};

/// Packets of one vPDP that may enter links in a burst: a fixed number, and an additional number
/// per frame of the burst. The hop limit bounds the depth of a loop of links, and this one the
/// number of copies.
pub(crate) const MAX_LINKED: usize = 4096;
const MAX_LINKED_A_FRAME: usize = 4;

/// Number of drop reasons at egress.
const REASONS: usize = 4;

/// Packets on links between virtual ports.
#[derive(Default)]
pub(super) struct Links {
    pub(super) slots: Vec<VpdpIndex>,
    pub(super) frames: Vec<Frame>,
    /// Pool of empty frames.
    pub(super) spare: FramePool,
    /// True while packets from links are processed.
    pub(super) is_followed: bool,
    /// Total number of packets that entered links.
    pub(super) count: u64,
    /// Number of the burst, and the link allowance of each vPDP in it.
    allowance: (u64, usize),
    /// Indexed by tenant: the last burst in which it used links, and its allowance left in that
    /// burst.
    allowances: Vec<(u64, usize)>,
    /// Egress drops that the vPDPs have not counted yet, with their number. There may be many
    /// copies, but few vPDPs and reasons.
    lost: Vec<(VpdpIndex, DropReason, u64)>,
    /// Reason of the last egress drop, until it is taken.
    pub(super) last_loss: Option<DropReason>,
}

impl Links {
    pub(super) fn begin(&mut self, frames: usize) {
        let (burst, _) = self.allowance;
        let more = frames.saturating_mul(MAX_LINKED_A_FRAME);
        self.allowance = (burst + 1, MAX_LINKED.saturating_add(more));
    }

    /// Grows the tables to this many tenants.
    pub(super) fn make_room(&mut self, slots: usize) {
        if self.allowances.len() < slots {
            self.allowances.resize(slots, (0, 0));
        }
    }

    /// Returns the number of the burst.
    pub(super) fn burst(&self) -> u64 {
        self.allowance.0
    }

    /// Enqueues a packet for another virtual port. Returns false if the vPDP's allowance is used
    /// up.
    fn push(&mut self, from: VpdpIndex, inlet: IngressTarget, frame: &mut Frame) -> bool {
        let Some(allowance) = self.allowances.get_mut(from.index()) else {
            return false;
        };
        if allowance.0 != self.allowance.0 {
            *allowance = self.allowance;
        }
        let Some(left) = allowance.1.checked_sub(1) else {
            return false;
        };
        allowance.1 = left;
        let mut taken = self.spare.get();
        std::mem::swap(&mut taken, frame);
        taken.ingress = inlet.port;
        self.slots.push(inlet.slot);
        self.frames.push(taken);
        self.count += 1;
        true
    }

    fn lose(&mut self, from: VpdpIndex, why: DropReason) {
        self.last_loss = Some(why);
        let mut last = self.lost.iter_mut().rev().take(REASONS);
        match last.find(|(slot, reason, _)| (*slot, *reason) == (from, why)) {
            Some((.., packets)) => *packets += 1,
            None => self.lost.push((from, why, 1)),
        }
    }

    /// Passes each recorded egress drop to `count`.
    #[inline]
    pub(super) fn settle(&mut self, mut count: impl FnMut(VpdpIndex, DropReason)) {
        for (slot, reason, packets) in self.lost.drain(..) {
            (0..packets).for_each(|_| count(slot, reason));
        }
    }
}

/// Egress path of a vPDP that is served alone. `DESCRIBES_ALL` selects the variant for vPDPs of
/// which all ports have description headers.
pub(super) struct EgressPath<'w, S, const DESCRIBES_ALL: bool> {
    pub(super) ways: EgressMap<'w>,
    pub(super) links: &'w mut Links,
    pub(super) sent: &'w mut S,
}

impl<S, const DESCRIBES_ALL: bool> PacketSink for EgressPath<'_, S, DESCRIBES_ALL>
where
    S: FnMut(PortId, &mut Frame, Nanos),
{
    #[inline(always)]
    fn leave(&mut self, port: PortId, frame: &mut Frame, time: Nanos) {
        let packet = (port, frame, time);
        match DESCRIBES_ALL {
            true => leave_described(self.ways, self.links, self.sent, packet),
            false => leave(self.ways, self.links, self.sent, packet),
        }
    }

    #[inline(always)]
    fn leave_sent(
        &mut self,
        frames: &mut [Frame],
        outcomes: &[PackedOutcome],
        time: Nanos,
    ) -> usize {
        let EgressPath { ways, links, sent } = self;
        leave_sent::<S, DESCRIBES_ALL>(*ways, links, sent, frames, outcomes, time)
    }
}

/// Implements [`PacketSink::leave_sent`]. Not inlined: the compiler can then assume that its
/// arguments do not alias, and keep their fields in registers.
#[inline(never)]
fn leave_sent<S, const DESCRIBES_ALL: bool>(
    ways: EgressMap<'_>,
    links: &mut Links,
    sent: &mut S,
    frames: &mut [Frame],
    outcomes: &[PackedOutcome],
    time: Nanos,
) -> usize
where
    S: FnMut(PortId, &mut Frame, Nanos),
{
    let mut way = EgressPath::<S, DESCRIBES_ALL> { ways, links, sent };
    switch::leave_sent(&mut way, frames, outcomes, time)
}

/// Sends a packet by a virtual port.
#[inline(always)]
pub(super) fn leave(
    ways: EgressMap<'_>,
    links: &mut Links,
    sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    (port, frame, time): (PortId, &mut Frame, Nanos),
) {
    let outlet = ways.outlet(port);
    let around = || way_around(ways.place, links, outlet, (port, frame));
    if let Some(out) = outlet.plain().or_else(around) {
        sent(out, frame, time);
    }
}

/// Sends a packet of a vPDP of which all ports have description headers.
#[inline(always)]
fn leave_described(
    ways: EgressMap<'_>,
    links: &mut Links,
    sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    (port, frame, time): (PortId, &mut Frame, Nanos),
) {
    let described = ways.outlet(port).described();
    let described = described.filter(|_| ways.place.describe(None, frame).is_ok());
    let around = || way_around(ways.place, links, EgressIndex::OTHER, (port, frame));
    if let Some(out) = described.or_else(around) {
        sent(out, frame, time);
    }
}

/// Egress of packets that are not sent unchanged. Not inlined, which keeps the common path short
/// enough to be inlined at egress.
#[inline(never)]
fn way_around(
    place: &VpdpPlace,
    links: &mut Links,
    outlet: EgressIndex,
    (port, frame): (PortId, &mut Frame),
) -> Option<PortId> {
    match (outlet.described(), outlet.of_vlan()) {
        (Some(out), _) if place.describe(None, frame).is_ok() => Some(out),
        (None, Some((vlan, out))) if outer_vlan(frame.bytes()) == vlan => Some(out),
        _ => other_way(place, links, place.exit(port), frame),
    }
}

/// Egress of the remaining, rare kinds. Not inlined, to keep the common path short.
#[inline(never)]
fn other_way(
    place: &VpdpPlace,
    links: &mut Links,
    exit: &EgressAction,
    frame: &mut Frame,
) -> Option<PortId> {
    let reason = match exit {
        EgressAction::Port(port) => return Some(*port),
        EgressAction::Described(port) | EgressAction::Wrapped(port, _)
            if place.describe(exit.outer(), frame).is_ok() =>
        {
            return Some(*port);
        }
        EgressAction::Described(_) | EgressAction::Wrapped(..) => DropReason::FrameTooLong,
        EgressAction::Guarded(guard) => match guard.pass(frame) {
            Ok(port) => return Some(port),
            Err(reason) => reason,
        },
        EgressAction::Link(inlet) if links.push(place.slot, *inlet, frame) => return None,
        EgressAction::Link(_) => DropReason::LinkHops,
        EgressAction::Open => DropReason::NoSuchPort,
    };
    links.lose(place.slot, reason);
    None
}
