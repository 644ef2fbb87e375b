//! The way out: from a virtual port to a port of the switch, or over a link to another virtual port.

use exec::{DropReason, PackedOutcome};
use packet::{Frame, FramePool, Nanos, PortId};
use switch::Leave;

use crate::classifier::outer_vlan;
use crate::entrance::Inlet;
use crate::root::{Exit, Outlet, Place, Slot, Ways};

/// Packets of one vPDP that go over links in a burst, whatever comes; and how many more for each frame of the burst. Hops bound how deep a loop of
/// links goes; this bounds how wide copies make it.
pub(crate) const MOST_LINKED: usize = 4096;
const MOST_LINKED_A_FRAME: usize = 4;

/// For how many reasons a packet may have nowhere to go.
const REASONS: usize = 4;

/// Packets on links between virtual ports.
#[derive(Default)]
pub(super) struct Links {
    pub(super) slots: Vec<Slot>,
    pub(super) frames: Vec<Frame>,
    /// Empty frames for those that come.
    pub(super) spare: FramePool,
    /// Whether packets that went over links are on their way in.
    pub(super) is_followed: bool,
    /// Packets that went over links.
    pub(super) count: u64,
    /// The number of the burst, and how many packets of each vPDP may go over links in it.
    allowance: (u64, usize),
    /// By slot, the last burst in which packets went over links, and how many may still do so in it.
    allowances: Vec<(u64, usize)>,
    /// How many packets left a vPDP and had nowhere to go, until that counts them: copies may be very many, of few vPDPs and reasons.
    lost: Vec<(Slot, DropReason, u64)>,
}

impl Links {
    pub(super) fn begin(&mut self, frames: usize) {
        let (burst, _) = self.allowance;
        let more = frames.saturating_mul(MOST_LINKED_A_FRAME);
        self.allowance = (burst + 1, MOST_LINKED.saturating_add(more));
    }

    /// Makes room for so many slots.
    pub(super) fn make_room(&mut self, slots: usize) {
        if self.allowances.len() < slots {
            self.allowances.resize(slots, (0, 0));
        }
    }

    /// The number of the burst.
    pub(super) fn burst(&self) -> u64 {
        self.allowance.0
    }

    /// Takes a packet that goes to another virtual port; whether its vPDP may have one more there.
    fn push(&mut self, from: Slot, inlet: Inlet, frame: &mut Frame) -> bool {
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

    fn lose(&mut self, from: Slot, why: DropReason) {
        let mut last = self.lost.iter_mut().rev().take(REASONS);
        match last.find(|(slot, reason, _)| (*slot, *reason) == (from, why)) {
            Some((.., packets)) => *packets += 1,
            None => self.lost.push((from, why, 1)),
        }
    }

    /// Has what had nowhere to go counted, packet by packet.
    #[inline]
    pub(super) fn settle(&mut self, mut count: impl FnMut(Slot, DropReason)) {
        for (slot, reason, packets) in self.lost.drain(..) {
            (0..packets).for_each(|_| count(slot, reason));
        }
    }
}

/// The way out of packets that are visited by themselves: all of a place that only has ports which carry descriptions, or of one that has others.
pub(super) struct Way<'w, S, const DESCRIBES_ALL: bool> {
    pub(super) ways: Ways<'w>,
    pub(super) links: &'w mut Links,
    pub(super) sent: &'w mut S,
}

impl<S, const DESCRIBES_ALL: bool> Leave for Way<'_, S, DESCRIBES_ALL>
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
        let Way { ways, links, sent } = self;
        leave_sent::<S, DESCRIBES_ALL>(*ways, links, sent, frames, outcomes, time)
    }
}

/// [`Leave::leave_sent`]. A function of its own: what its arguments lead to it may keep at hand, since nothing else leads there.
#[inline(never)]
fn leave_sent<S, const DESCRIBES_ALL: bool>(
    ways: Ways<'_>,
    links: &mut Links,
    sent: &mut S,
    frames: &mut [Frame],
    outcomes: &[PackedOutcome],
    time: Nanos,
) -> usize
where
    S: FnMut(PortId, &mut Frame, Nanos),
{
    let mut way = Way::<S, DESCRIBES_ALL> { ways, links, sent };
    switch::leave_sent(&mut way, frames, outcomes, time)
}

/// A packet of a place leaves by a virtual port.
#[inline(always)]
pub(super) fn leave(
    ways: Ways<'_>,
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

/// The same of a place whose packets go to ports of the switch that carry descriptions.
#[inline(always)]
fn leave_described(
    ways: Ways<'_>,
    links: &mut Links,
    sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    (port, frame, time): (PortId, &mut Frame, Nanos),
) {
    let described = ways.outlet(port).described();
    let described = described.filter(|_| ways.place.describe(None, frame).is_ok());
    let around = || way_around(ways.place, links, Outlet::OTHER, (port, frame));
    if let Some(out) = described.or_else(around) {
        sent(out, frame, time);
    }
}

/// The way of a packet that does not go to a port of the switch as it is: kept apart so that the way of those that do is short enough to stand where packets leave.
#[inline(never)]
fn way_around(
    place: &Place,
    links: &mut Links,
    outlet: Outlet,
    (port, frame): (PortId, &mut Frame),
) -> Option<PortId> {
    match (outlet.described(), outlet.of_vlan()) {
        (Some(out), _) if place.describe(None, frame).is_ok() => Some(out),
        (None, Some((vlan, out))) if outer_vlan(frame.bytes()) == vlan => Some(out),
        _ => other_way(place, links, place.exit(port), frame),
    }
}

/// Of packets that not every switch has: kept apart so that the usual way is short.
#[inline(never)]
fn other_way(place: &Place, links: &mut Links, exit: &Exit, frame: &mut Frame) -> Option<PortId> {
    let reason = match exit {
        Exit::Port(port) => return Some(*port),
        Exit::Described(port) | Exit::Wrapped(port, _)
            if place.describe(exit.outer(), frame).is_ok() =>
        {
            return Some(*port);
        }
        Exit::Described(_) | Exit::Wrapped(..) => DropReason::FrameTooLong,
        Exit::Guarded(guard) => match guard.pass(frame) {
            Ok(port) => return Some(port),
            Err(reason) => reason,
        },
        Exit::Link(inlet) if links.push(place.slot, *inlet, frame) => return None,
        Exit::Link(_) => DropReason::LinkHops,
        Exit::Open => DropReason::NoSuchPort,
    };
    links.lose(place.slot, reason);
    None
}
