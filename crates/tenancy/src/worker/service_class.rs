//! Packets that wait in vPDPs: due work, and packets postponed to the next service turn.

use packet::{Frame, Nanos, PortId};

use super::{Worker, most_passes, run_charged};
use crate::snapshot::SwitchSnapshot;

/// Service class: vPDPs with credit are served before the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceClass {
    InCredit,
    Others,
}

impl Worker {
    /// Watches all vPDPs if a packet was handed over to one of them.
    pub(super) fn watch_all_if_called(&mut self) {
        if self.desk.answer() {
            self.watched.clear();
            for seat in self.seats.iter_mut().flatten() {
                seat.is_watched = true;
                self.watched.push(seat.slot);
            }
        }
    }

    /// Continues vPDPs of this class with waiting packets, before or after the frames of the
    /// burst.
    pub(super) fn go_on(
        &mut self,
        root: &SwitchSnapshot,
        standing: ServiceClass,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        self.take_up(root, standing, sent);
        self.run_watched(root, standing, sent);
    }

    /// Processes postponed packets, one service turn per vPDP.
    fn take_up(
        &mut self,
        root: &SwitchSnapshot,
        standing: ServiceClass,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let mut frames = std::mem::take(&mut self.taken_up);
        for at in 0..self.watched.len() {
            let slot = self.watched[at];
            let most = self.most_served(slot);
            let is_next = self.shares.has_credit(slot) == (standing == ServiceClass::InCredit);
            let is_next = is_next && most > 0 && root.place(slot).is_some();
            let may_go = |worker: &switch::Worker| worker.postponed() > 0 && !worker.is_held();
            let seat = self.seats.get_mut(slot.index()).and_then(Option::as_mut);
            let seat = seat.filter(|seat| is_next && may_go(&seat.worker));
            let Some(seat) = seat else {
                continue;
            };
            self.untold.put(slot);
            seat.worker.dequeue_deferred(most, &mut frames);
            let all = 0..frames.len();
            self.run_admitted(root, slot, all, &mut frames, sent);
            for frame in frames.drain(..) {
                self.commons.links.spare.put(frame);
            }
        }
        self.taken_up = frames;
    }

    /// Does the due work of watched vPDPs that had no service turn in this burst.
    fn run_watched(
        &mut self,
        root: &SwitchSnapshot,
        standing: ServiceClass,
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) {
        let Worker {
            watched,
            seats,
            untold,
            commons,
            functions,
            gauge,
            shares,
            fairness,
            now,
            ..
        } = self;
        watched.retain(|slot| {
            let seat = seats.get_mut(slot.index()).and_then(Option::as_mut);
            let (Some(seat), Some(ways)) = (seat, root.ways(*slot)) else {
                return false;
            };
            let is_meant = shares.has_credit(*slot) == (standing == ServiceClass::InCredit);
            let is_next = is_meant && seat.visited != commons.links.burst();
            let is_due = |next: Option<Nanos>| next.is_some_and(|next| next <= *now);
            // Due work of a device that is being changed waits for the next burst.
            if is_next && is_due(seat.worker.next_time()) && !seat.worker.is_held() {
                let passes = match fairness {
                    Some(_) => most_passes(0).min(shares.passes(*slot)),
                    None => most_passes(0),
                };
                // A turn that can do nothing would cost as much as any other.
                let has_to_go = !seat.worker.is_behind() && is_due(seat.worker.next_due());
                if passes == 0 && !has_to_go {
                    return true;
                }
                let way_out = (*now, &mut *sent);
                let gauge = &mut **gauge;
                let (work, visit) =
                    run_charged(seat, ways, commons, &mut [], passes, way_out, gauge);
                shares.book(*slot, work, visit, seat.worker.is_behind());
                untold.put(*slot);
                functions.forget_one(*slot);
            }
            seat.is_watched = seat.worker.next_time().is_some();
            seat.is_watched
        });
    }
}
