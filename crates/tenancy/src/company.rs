//! vPDPs that run the same: their packets go through the program together.

use std::ops::Range;

use exec::BURST;
use switch::{Companion, MOST_TOGETHER};

use crate::desk::Seat;
use crate::worker::most_passes;

/// A seat whose packets go with those of others.
pub(crate) struct Member {
    pub(crate) seat: Box<Seat>,
    /// How many packets it has.
    frames: usize,
}

impl Companion for Member {
    fn worker(&self) -> &switch::Worker {
        &self.seat.worker
    }

    fn worker_mut(&mut self) -> &mut switch::Worker {
        &mut self.seat.worker
    }

    fn frames(&self) -> usize {
        self.frames
    }

    fn passes(&self) -> u32 {
        most_passes(self.frames)
    }
}

/// Seats whose packets, which lie one behind the other, go together.
pub(crate) struct Company {
    pub(crate) members: Vec<Member>,
    /// Their packets among those of the burst.
    pub(crate) frames: Range<usize>,
}

impl Company {
    /// Nobody, with room for all that there may be.
    pub(crate) fn new() -> Company {
        Company {
            members: Vec::with_capacity(MOST_TOGETHER),
            frames: 0..0,
        }
    }

    /// Whether these packets of a seat may go with those that are here.
    pub(crate) fn takes(&self, seat: &Seat, frames: &Range<usize>) -> bool {
        let Some(first) = self.members.first() else {
            return frames.len() <= BURST;
        };
        self.members.len() < MOST_TOGETHER
            && self.frames.end == frames.start
            && frames.end - self.frames.start <= BURST
            && seat.worker.runs_as(&first.seat.worker)
    }

    /// Takes packets of a seat in, and the seat until they went.
    pub(crate) fn push(&mut self, seat: Box<Seat>, frames: &Range<usize>) {
        if self.members.is_empty() {
            self.frames.start = frames.start;
        }
        self.frames.end = frames.end;
        let frames = frames.len();
        self.members.push(Member { seat, frames });
    }
}
