//! Means of the explorer of small clusters: a time-out without time, and a number for a state.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{RaftNode, RaftRole};
use crate::ids::NodeId;

impl RaftNode {
    /// Lets the node's time-out come now: a leader gives up, any other node campaigns.
    pub(crate) fn expire(&mut self) {
        match self.role {
            RaftRole::Leader => self.follow(self.term, None),
            _ => self.begin_campaign(),
        }
    }

    /// Returns true if the node asks for votes in the campaign with a number, and lacks one vote.
    pub(crate) fn lacks_vote(&self, campaign: u64, voter: NodeId) -> bool {
        self.asks(campaign) && !self.campaign.has(voter)
    }

    /// Returns true if the node asks for votes in the campaign with a number.
    pub(crate) fn asks(&self, campaign: u64) -> bool {
        let asks = matches!(self.role, RaftRole::PreCandidate | RaftRole::Candidate);
        asks && self.campaign.number() == campaign
    }

    /// Holds each message for a write once.
    pub(crate) fn merge_held(&mut self) {
        self.outbox.merge_equal();
    }

    /// Returns a number that depends on all of the node's state but times, random numbers, counts
    /// and the requests and reads of its callers. Nodes of one explored cluster with equal numbers
    /// behave alike, up to collisions of 64 bits.
    pub(crate) fn fingerprint(&self) -> u64 {
        let hasher = &mut DefaultHasher::new();
        (self.config.id, self.term, self.vote).hash(hasher);
        (self.role as u8, self.leader).hash(hasher);
        (self.commit, self.log.base(), self.log.last()).hash(hasher);
        for index in self.log.base().0 + 1..=self.log.last().0 {
            self.log.get(crate::LogIndex(index)).hash(hasher);
        }
        (self.members, self.members_index, self.receiving).hash(hasher);
        self.state.digest().hash(hasher);
        self.campaign.hash_into(hasher);
        if self.role == RaftRole::Leader {
            self.leading.hash_into(hasher);
        }
        self.writes.hash_into(hasher);
        self.outbox.hash_into(self.writes.done, hasher);
        hasher.finish()
    }
}
