//! What the control side is told: little behind each burst, since a seat that tells takes as long as a packet or two, and all of it when no frames come.

use std::collections::VecDeque;

use super::Worker;
use crate::gauge::Work;
use crate::root::Slot;

/// Frames that go in small bursts before a seat tells the control side something, unless none come: each burst would wait for the memory of one more vPDP than its own.
const FRAMES_UNTOLD: usize = 64;

/// Seats that tell the control side at the end of a burst; the others come in later bursts.
const TOLD_A_BURST: usize = 1;

/// How many are looked at for that.
const LOOKS_A_BURST: usize = 8;

/// Seats that may have something to tell: no others are looked at, or each packet that comes alone would have all of them looked at behind it.
#[derive(Default)]
pub(super) struct Untold {
    /// Those that have waited for the longest first, each once.
    slots: VecDeque<Slot>,
    /// By slot, whether it is one of them.
    wait: Vec<bool>,
    /// Frames that came since some were asked.
    frames: usize,
}

impl Untold {
    pub(super) fn make_room(&mut self, slots: usize) {
        self.wait.resize(slots, false);
        self.slots.reserve(slots.saturating_sub(self.slots.len()));
    }

    /// Something was done in a seat.
    #[inline]
    pub(super) fn put(&mut self, slot: Slot) {
        if let Some(waits) = self.wait.get_mut(slot.index())
            && !*waits
        {
            *waits = true;
            self.slots.push_back(slot);
        }
    }

    fn take(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        if let Some(waits) = self.wait.get_mut(slot.index()) {
            *waits = false;
        }
        Some(slot)
    }
}

impl Worker {
    /// Leaves what there is to tell for the control side, behind so many frames: all of it if there were none, or now and then what has waited for the longest.
    #[inline]
    pub(super) fn tell(&mut self, frames: usize) {
        self.untold.frames += frames;
        match frames {
            0 => self.tell_of(self.untold.slots.len(), usize::MAX),
            _ if self.untold.frames < FRAMES_UNTOLD => {}
            _ => self.tell_of(LOOKS_A_BURST, TOLD_A_BURST),
        }
    }

    /// Looks at so many seats at most until so many of them have told something.
    fn tell_of(&mut self, looks: usize, tells: usize) {
        self.untold.frames = 0;
        self.tell_of_seats(looks, tells);
        // Packets on links are told when seats are: they came once, and are in the ledgers of all seats that they went through.
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
            self.shares.charge(slot, self.gauge.end(Work::default()));
            // Who could not tell, as somebody reads there right now, does so later.
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
        let mut untold = Untold::default();
        untold.make_room(3);
        let slots = [2, 0, 2, 1, 0].map(Slot);
        slots.into_iter().for_each(|slot| untold.put(slot));
        assert_eq!(untold.take(), Some(Slot(2)));
        // It may have something more to tell.
        untold.put(Slot(2));
        untold.put(Slot::NONE);
        let rest: Vec<Slot> = std::iter::from_fn(|| untold.take()).collect();
        assert_eq!(rest, [0, 1, 2].map(Slot));
    }
}
