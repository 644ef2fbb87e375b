//! Ports that are one virtual data plane's: how many frames each may give, and what became of them.

use exec::BURST;
use packet::PortId;
use switch::MOST_WAITING;

use super::Worker;
use crate::gauge::Carried;

impl Worker {
    /// Has this port give so many frames at most in the next round. With fair shares, what comes by the port of a vPDP that asks for more than its share takes
    /// no longer than a visit to it may, so that it does not keep the others waiting for longer. And no more come than can wait in a vPDP whose packets wait.
    pub fn allow(&mut self, port: PortId) -> usize {
        if self.fairness.is_none() && self.watched.is_empty() {
            return usize::MAX;
        }
        let Some(slot) = self.root.entrances.owner(port) else {
            return usize::MAX;
        };
        let Some(seat) = self.seat(slot) else {
            return usize::MAX;
        };
        let postponed = seat.worker.postponed();
        let room = match (postponed > 0, seat.worker.is_held()) {
            (true, _) if self.fairness.is_some() => BURST,
            (false, false) => usize::MAX,
            _ => MOST_WAITING,
        };
        let room = room.saturating_sub(postponed);
        match self.fairness {
            Some(_) => self.shares.grant(slot, room),
            None => room,
        }
    }

    /// Tells that this port gave all that it was allowed to, so that more may wait there; whether that is more than its vPDP could have at least: what is its
    /// own is served in later visits.
    pub fn fills_up(&mut self, port: PortId) -> bool {
        let owner = self.root.entrances.owner(port);
        owner.is_none_or(|slot| self.shares.fill_up(slot))
    }

    /// What was done on this worker for the vPDP whose own this port is, while processors were shared fairly.
    pub fn carried(&self, port: PortId) -> Carried {
        let owner = self.root.entrances.owner(port);
        owner.map_or(Carried::default(), |slot| self.shares.carried(slot))
    }
}
