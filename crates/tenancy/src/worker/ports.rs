//! Physical ports of one vPDP each: grants for receiving, and their accounting.

use exec::BURST;
use packet::PortId;
use switch::MAX_WAITING;

use super::Worker;
use crate::cycle_accounting::ForwardedFrames;

impl Worker {
    /// Returns the maximum number of frames that a port may deliver in the next receive round.
    /// With fair sharing, frames of a vPDP above its guaranteed share take at most one service
    /// turn. Frames that could not be queued in the vPDP are not received either.
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
            _ => MAX_WAITING,
        };
        let room = room.saturating_sub(postponed);
        match self.fairness {
            Some(_) => self.shares.grant(slot, room),
            None => room,
        }
    }

    /// Records that a port delivered its whole grant, so that more may wait there. Returns true if
    /// its vPDP has used its guaranteed share; otherwise the rest is served in later turns.
    pub fn fills_up(&mut self, port: PortId) -> bool {
        let owner = self.root.entrances.owner(port);
        owner.is_none_or(|slot| self.shares.fill_up(slot))
    }

    /// Returns the work done on this worker for the vPDP that owns a port, while fair sharing was
    /// on.
    pub fn carried(&self, port: PortId) -> ForwardedFrames {
        let owner = self.root.entrances.owner(port);
        owner.map_or(ForwardedFrames::default(), |slot| self.shares.carried(slot))
    }
}
