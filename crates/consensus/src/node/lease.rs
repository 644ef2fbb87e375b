//! Leases of leaders: while one is valid, no other node leads, so a read needs no messages.
//!
//! A voter that answers a leader's round gives no vote for an election timeout by its clock, also
//! after a restart and in any term. A new leader needs the vote of one of a majority that answered.
//! So from the begin of such a round on, no other node leads for an election timeout by the fastest
//! clock. The leader measures it by its own clock, which may be the slowest.
//!
//! A node that gets the leadership by a transfer campaigns at once, and others vote for it. So a
//! leader that asked for that has no lease in its term any more: the message may be late.

use super::{RaftNode, RaftRole, ReadMode};
use crate::mistake::Mistake;

/// Rounds of which the begin is remembered. A heartbeat begins one, and an election timeout has
/// about ten.
const ROUNDS: usize = 16;

/// Times at which the newest rounds began.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTimes {
    begun: [(u64, u64); ROUNDS],
    next: usize,
}

impl RoundTimes {
    pub(super) const fn new() -> RoundTimes {
        RoundTimes {
            begun: [(0, 0); ROUNDS],
            next: 0,
        }
    }

    pub(super) const fn add(&mut self, round: u64, now: u64) {
        self.begun[self.next % ROUNDS] = (round, now);
        self.next += 1;
    }

    /// Returns the time of the newest round up to this one.
    fn begin_of(&self, round: u64) -> Option<u64> {
        let known = self.begun.iter().filter(|(it, _)| (1..=round).contains(it));
        known.map(|(_, time)| *time).max()
    }
}

impl RaftNode {
    /// Returns true if this node gives no vote, because a leader may have a lease or is heard.
    pub(super) fn hears_leader(&self) -> bool {
        let since = self.now.saturating_sub(self.heard);
        // A lease also holds while this node does not know the leader.
        let is_bound = self.leader.is_some() || matches!(self.config.reads, ReadMode::Lease(_));
        self.role == RaftRole::Leader || is_bound && since < self.config.election_timeout
    }

    /// Returns true if this leader has a lease now.
    pub(super) fn has_lease(&mut self) -> bool {
        let ReadMode::Lease(drift) = self.config.reads else {
            return false;
        };
        let is_given = self.leading.was_offered && !self.planted.is(Mistake::LeasesAfterTransfer);
        if self.role != RaftRole::Leader || is_given {
            return false;
        }
        let round = self.confirmed_round();
        let Some(begin) = self.leading.times.begin_of(round) else {
            return false;
        };
        let drift = match self.planted.is(Mistake::LeasesWithoutDrift) {
            true => 0,
            false => u128::from(drift.min(1000)),
        };
        // The own clock may lose, and that of a voter gain. The quotient is at most the timeout.
        let length = u128::from(self.config.election_timeout) * (1000 - drift) / (1000 + drift);
        self.now < begin.saturating_add(length as u64)
    }
}
