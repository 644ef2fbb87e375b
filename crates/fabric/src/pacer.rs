//! Transmission times of frames that are sent one after the other at a given rate.

use std::collections::VecDeque;

use packet::Nanos;

use crate::topology::BitRate;

/// Transmission schedule of a link direction: one frame at a time, in FIFO order.
#[derive(Debug)]
pub(crate) struct Pacer {
    rate: Option<BitRate>,
    free_at: Nanos,
    /// Transmission starts of queued frames, in order.
    starts: VecDeque<Nanos>,
}

/// Transmission time of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// Time of the first bit.
    pub(crate) start: Nanos,
    /// Time of the last bit.
    pub(crate) end: Nanos,
}

impl Pacer {
    pub(crate) fn new(rate: Option<BitRate>) -> Pacer {
        Pacer {
            rate,
            free_at: Nanos::ZERO,
            starts: VecDeque::new(),
        }
    }

    /// Returns the number of frames with a transmission that has not started.
    pub(crate) fn waiting(&mut self, now: Nanos) -> usize {
        while self.starts.front().is_some_and(|start| *start <= now) {
            self.starts.pop_front();
        }
        self.starts.len()
    }

    /// Appends a frame to the queue.
    pub(crate) fn place(&mut self, bytes: usize, now: Nanos) -> Leaving {
        let start = self.free_at.max(now);
        let end = start + self.rate.map_or(Nanos::ZERO, |rate| rate.time_of(bytes));
        self.free_at = end;
        if start > now {
            self.starts.push_back(start);
        }
        Leaving { start, end }
    }

    /// Returns the time from which fewer than `depth` frames are queued, if no more are added.
    /// Returns `None` if that is already so.
    pub(crate) fn room_at(&self, depth: usize) -> Option<Nanos> {
        let too_many = self.starts.len().checked_sub(depth)?;
        self.starts.get(too_many).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_one_after_the_other_at_the_rate() {
        // One byte takes 8 ns.
        let mut pacer = Pacer::new(Some(BitRate(1_000_000_000)));
        let leaving = |start, end| Leaving {
            start: Nanos(start),
            end: Nanos(end),
        };
        assert_eq!(pacer.place(100, Nanos(50)), leaving(50, 850));
        assert_eq!(pacer.place(100, Nanos(50)), leaving(850, 1650));
        assert_eq!(pacer.place(10, Nanos(60)), leaving(1650, 1730));
        assert_eq!(pacer.waiting(Nanos(849)), 2);
        assert_eq!(pacer.room_at(2), Some(Nanos(850)));
        assert_eq!(pacer.room_at(1), Some(Nanos(1650)));
        assert_eq!(pacer.room_at(3), None);
        assert_eq!(pacer.waiting(Nanos(850)), 1);
        assert_eq!(pacer.place(100, Nanos(5000)), leaving(5000, 5800));
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pacer = Pacer::new(None);
        for _ in 0..3 {
            let leaving = pacer.place(1500, Nanos(7));
            assert_eq!((leaving.start, leaving.end), (Nanos(7), Nanos(7)));
        }
        assert_eq!(pacer.waiting(Nanos(7)), 0);
    }
}
