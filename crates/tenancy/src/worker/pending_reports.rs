//! Reports to the control side. A report costs as much as a packet or two. So only few are sent
//! after each burst, and all pending ones when no frames arrive.

use std::collections::VecDeque;

use super::Worker;
use crate::cycle_accounting::CycleUse;
use crate::snapshot::VpdpIndex;

/// Number of frames in small bursts after which a report is sent, unless no frames arrive. With a
/// report per burst, each burst would wait for the memory of another vPDP.
const FRAMES_UNTOLD: usize = 64;

/// Maximum number of reports at the end of a burst.
const TOLD_A_BURST: usize = 1;

/// Maximum number of vPDPs checked for a report at the end of a burst.
const LOOKS_A_BURST: usize = 8;

/// vPDPs with unreported statistics. Without this queue, each single packet would be followed by a
/// check of all vPDPs.
#[derive(Default)]
pub(super) struct PendingReports {
    /// Queue of distinct tenants, oldest first.
    slots: VecDeque<VpdpIndex>,
    /// Indexed by tenant: true if it is in the queue.
    wait: Vec<bool>,
    /// Frames since the last check.
    frames: usize,
}

impl PendingReports {
    pub(super) fn make_room(&mut self, slots: usize) {
        self.wait.resize(slots, false);
        self.slots.reserve(slots.saturating_sub(self.slots.len()));
    }

    /// Adds a tenant with new statistics.
    #[inline]
    pub(super) fn put(&mut self, slot: VpdpIndex) {
        if let Some(waits) = self.wait.get_mut(slot.index())
            && !*waits
        {
            *waits = true;
            self.slots.push_back(slot);
        }
    }

    fn take(&mut self) -> Option<VpdpIndex> {
        let slot = self.slots.pop_front()?;
        if let Some(waits) = self.wait.get_mut(slot.index()) {
            *waits = false;
        }
        Some(slot)
    }
}

impl Worker {
    /// Sends reports after a burst of this many frames: all if there were none, and else the
    /// oldest one from time to time.
    #[inline]
    pub(super) fn tell(&mut self, frames: usize) {
        self.untold.frames += frames;
        match frames {
            0 => self.tell_of(self.untold.slots.len(), usize::MAX),
            _ if self.untold.frames < FRAMES_UNTOLD => {}
            _ => self.tell_of(LOOKS_A_BURST, TOLD_A_BURST),
        }
    }

    /// Checks at most `looks` vPDPs and sends at most `tells` reports.
    fn tell_of(&mut self, looks: usize, tells: usize) {
        self.untold.frames = 0;
        self.tell_of_seats(looks, tells);
        // Link counters are reported after the vPDPs' ledgers: a packet on links is in all ledgers
        // on its path, but was received once.
        if self.is_untold
            && let Some(mut told) = self.desk.tell()
        {
            told.ledger.clone_from(&self.ledger);
            told.linked = self.commons.links.count;
            self.is_untold = false;
        }
    }

    fn tell_of_seats(&mut self, mut looks: usize, mut tells: usize) {
        while looks > 0 && tells > 0 {
            looks -= 1;
            let Some(slot) = self.untold.take() else {
                break;
            };
            let seat = self.seats.get_mut(slot.index()).and_then(Option::as_mut);
            let Some(seat) = seat.filter(|seat| seat.worker.has_news()) else {
                continue;
            };
            tells -= 1;
            self.gauge.begin();
            seat.worker.tell();
            self.shares
                .charge(slot, self.gauge.end(CycleUse::default()));
            // The report is retried later if the control side holds the lock.
            if seat.worker.has_news() {
                self.untold.put(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seat_waits_once_behind_those_that_came_before_it() {
        let mut untold = PendingReports::default();
        untold.make_room(3);
        let slots = [2, 0, 2, 1, 0].map(VpdpIndex);
        slots.into_iter().for_each(|slot| untold.put(slot));
        assert_eq!(untold.take(), Some(VpdpIndex(2)));
        // It may have new statistics.
        untold.put(VpdpIndex(2));
        untold.put(VpdpIndex::NONE);
        let rest: Vec<VpdpIndex> = std::iter::from_fn(|| untold.take()).collect();
        assert_eq!(rest, [0, 1, 2].map(VpdpIndex));
    }
}
