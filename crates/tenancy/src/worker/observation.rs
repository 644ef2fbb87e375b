//! Observation of the packets of vPDPs: packets that an observer takes are processed alone and
//! step by step, with the steps reported to it.

use std::sync::Arc;

use exec::{DropReason, TraceEvent, drop_lost};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::Contexts;

use super::egress_path::{Links, leave};
use crate::snapshot::{EgressMap, VpdpPlace};
use crate::vpdp::VpdpId;

/// Packet that an observer has taken, after it was processed.
#[derive(Debug)]
pub struct ObservedPacket<'p> {
    /// The program that processed it.
    pub program: &'p Arc<Program>,
    /// The virtual port by which it arrived.
    pub port: PortId,
    /// The packet as it arrived.
    pub bytes: &'p [u8],
    /// Its steps.
    pub steps: Vec<TraceEvent>,
    /// The reason for which it, or a copy of it, was dropped.
    pub dropped: Option<DropReason>,
    /// Time of its processing.
    pub time: Nanos,
}

/// Observer of the packets of vPDPs on one worker.
pub trait VpdpObserver: Send {
    /// Takes the changes since the last burst. Returns true if there were any.
    fn update(&mut self) -> bool;

    /// Returns true if packets of this vPDP are observed.
    fn observes(&self, vpdp: VpdpId) -> bool;

    /// Returns true if the observer takes this packet of a vPDP. `Frame::ingress` is the virtual
    /// port. [`VpdpObserver::observe`] follows.
    fn takes(&mut self, vpdp: VpdpId, frame: &Frame) -> bool;

    /// Takes back that the packet was taken: it is processed with others.
    fn give_back(&mut self);

    /// Receives the packet that was taken last.
    fn observe(&mut self, packet: ObservedPacket<'_>);

    /// Sees a packet that an observed vPDP sends by a virtual port.
    fn see_sent(&mut self, vpdp: VpdpId, port: PortId, frame: &Frame);
}

/// The observer of a worker, if there is one.
#[derive(Default)]
pub(super) struct Observation(Option<Box<dyn VpdpObserver>>);

impl Observation {
    pub(super) fn by(observer: Box<dyn VpdpObserver>) -> Observation {
        Observation(Some(observer))
    }

    /// Takes the changes since the last burst. Returns true if there were any.
    #[inline]
    pub(super) fn update(&mut self) -> bool {
        self.0.as_mut().is_some_and(|observer| observer.update())
    }

    /// Returns true if packets of the vPDP at this place are observed.
    #[inline]
    pub(super) fn is_of(&self, place: &VpdpPlace) -> bool {
        let observer = self.0.as_ref().zip(place.vpdp());
        observer.is_some_and(|(observer, vpdp)| observer.observes(vpdp))
    }

    /// Processes packets of an observed vPDP, those that the observer takes one by one.
    #[expect(clippy::too_many_arguments, reason = "as the path of other packets")]
    pub(super) fn run<S: FnMut(PortId, &mut Frame, Nanos)>(
        &mut self,
        worker: &mut switch::Worker,
        ways: EgressMap<'_>,
        (links, contexts): (&mut Links, &mut Contexts),
        frames: &mut [Frame],
        passes: u32,
        now: Nanos,
        sent: &mut S,
    ) {
        let (Some(observer), Some(vpdp)) = (&mut self.0, ways.place.vpdp()) else {
            return;
        };
        let mut rest = frames;
        loop {
            // Packets that recirculate go on within their limits: nothing overtakes them.
            let may_take = !worker.is_behind();
            let wanted = |frame: &Frame| may_take && observer.takes(vpdp, frame);
            let at = rest.iter().position(wanted).unwrap_or(rest.len());
            let (before, from) = rest.split_at_mut(at);
            if !before.is_empty() || from.is_empty() {
                let mut out = |port: PortId, frame: &mut Frame, time: Nanos| {
                    observer.see_sent(vpdp, port, frame);
                    leave(ways, links, sent, (port, frame, time));
                };
                worker.forward_among(contexts, before, now, passes, &mut out);
            }
            if from.is_empty() {
                return;
            }
            if worker.is_behind() {
                // The packets before it have used up the passes of this turn.
                observer.give_back();
                rest = from;
                continue;
            }
            let Some((frame, after)) = from.split_first_mut() else {
                return;
            };
            let (port, bytes) = (frame.ingress, frame.bytes().to_vec());
            let (mut steps, mut lost) = (Vec::new(), Vec::new());
            let ledger = worker.ledger().clone();
            let out = |port: PortId, frame: &mut Frame, time: Nanos| {
                observer.see_sent(vpdp, port, frame);
                links.last_loss = None;
                leave(ways, links, sent, (port, frame, time));
                lost.extend(links.last_loss.map(|reason| (port.0, reason)));
            };
            worker.trace(frame, now, &mut steps, out);
            drop_lost(&mut steps, &lost);
            let dropped = worker.ledger().first_drop_since(&ledger);
            observer.observe(ObservedPacket {
                program: worker.program(),
                port,
                bytes: &bytes,
                steps,
                dropped: dropped.or(lost.first().map(|(_, reason)| *reason)),
                time: now,
            });
            rest = after;
            if rest.is_empty() {
                return;
            }
        }
    }
}
