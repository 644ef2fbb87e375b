//! Elections: campaigns, votes, and leadership given to another node.

use super::{NodeEvent, RaftNode, RaftRole};
use crate::entry::Payload;
use crate::ids::{LogIndex, NodeId, Term};
use crate::members::{MAX_MEMBERS, MemberRole};
use crate::message::{MessageBody, PeerMessage, VoteKind};
use crate::mistake::Mistake;

/// Number of election timeouts without a leader after which a learner campaigns. Voters come first.
const LEARNER_TIMEOUTS: u64 = 3;

/// Campaign of this node: its number and the nodes that are for it.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Campaign {
    /// Numbers begin at random, so a restarted node takes no answer to an older campaign.
    number: u64,
    kind: VoteKind,
    votes: [NodeId; MAX_MEMBERS],
    count: usize,
}

impl Campaign {
    pub(super) const fn new(number: u64) -> Campaign {
        Campaign {
            number,
            kind: VoteKind::Pre,
            votes: [NodeId(0); MAX_MEMBERS],
            count: 0,
        }
    }

    const fn begin(&mut self, kind: VoteKind) {
        self.number = self.number.wrapping_add(1);
        self.kind = kind;
        self.count = 0;
    }

    fn all(&self) -> &[NodeId] {
        &self.votes[..self.count]
    }

    fn add(&mut self, node: NodeId) {
        if self.count < MAX_MEMBERS && !self.all().contains(&node) {
            self.votes[self.count] = node;
            self.count += 1;
        }
    }
}

#[cfg(test)]
impl Campaign {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn has(&self, voter: NodeId) -> bool {
        self.all().contains(&voter)
    }

    pub(super) fn hash_into(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        let mut votes = self.votes;
        let votes = &mut votes[..self.count];
        votes.sort_unstable();
        (self.number, self.kind as u8, votes).hash(hasher);
    }
}

impl RaftNode {
    /// Sets the time of the next campaign: between one and two election timeouts from now.
    pub(super) fn postpone_campaign(&mut self) {
        let timeout = self.config.election_timeout.max(1);
        let wait = timeout.saturating_add(self.rng.below(timeout));
        self.deadline = self.now.saturating_add(wait);
    }

    /// Becomes a follower in a term, with a leader if it is known.
    pub(super) fn follow(&mut self, term: Term, leader: Option<NodeId>) {
        if term > self.term {
            (self.term, self.vote) = (term, None);
            self.writes.vote_changed();
        }
        if self.role == RaftRole::Leader {
            self.leading.end();
            self.reads.fail_leading(&mut self.events);
            self.lose_held();
        }
        if self.role != RaftRole::Follower {
            self.postpone_campaign();
        }
        self.role = RaftRole::Follower;
        self.leader = leader;
    }

    /// Takes note that the leader of this term was heard. Returns false if it cannot be: this node
    /// leads the term.
    pub(super) fn heard_leader(&mut self, from: NodeId) -> bool {
        if self.role == RaftRole::Leader || self.leader.is_some_and(|leader| leader != from) {
            self.counts.impossible += 1;
            return false;
        }
        if self.role != RaftRole::Follower || self.leader.is_none() {
            self.follow(self.term, Some(from));
        }
        self.heard = self.now;
        self.postpone_campaign();
        true
    }

    /// Returns true if this node may lead: it is a voter, was one before a change that is not known
    /// as committed, or is a learner that has long heard no leader.
    ///
    /// Without the second rule no node could lead if only this node has the entry that removes it.
    /// Without the third none could if the last leader died after it had given its first entry to
    /// learners only, while a voter has an uncommitted entry that makes one of them a voter: that
    /// voter needs the vote of the learner, which has the newer log. Voters still decide, and a
    /// learner leads until its first entry is committed ([`RaftNode::advance_commit`]).
    fn may_lead(&self) -> bool {
        let id = self.config.id;
        if self.members.is_voter(id) {
            return true;
        }
        let before = self.log.members_at(self.members_index.previous()).0;
        let patience = LEARNER_TIMEOUTS.saturating_mul(self.config.election_timeout);
        let is_left_alone = self.now.saturating_sub(self.heard) >= patience;
        self.members_index > self.commit && before.is_voter(id)
            || is_left_alone && self.members.role(id) == Some(MemberRole::Learner)
    }

    pub(super) fn begin_campaign(&mut self) {
        self.postpone_campaign();
        self.leader = None;
        if self.may_lead() {
            self.role = RaftRole::PreCandidate;
            self.ask_for_votes(VoteKind::Pre);
        }
    }

    /// Takes the leader's request to campaign now.
    pub(super) fn campaign_now(&mut self, from: NodeId) {
        if self.leader == Some(from) && self.role == RaftRole::Follower && self.may_lead() {
            self.become_candidate(VoteKind::Transfer);
        }
    }

    fn become_candidate(&mut self, kind: VoteKind) {
        self.term = self.term.next();
        self.vote = Some(self.config.id);
        self.writes.vote_changed();
        self.leader = None;
        self.role = RaftRole::Candidate;
        self.postpone_campaign();
        self.ask_for_votes(kind);
    }

    fn ask_for_votes(&mut self, kind: VoteKind) {
        let before = self.campaign.count;
        self.campaign.begin(kind);
        if self.planted.is(Mistake::CountsPreVotes) {
            self.campaign.count = before;
        }
        let body = MessageBody::Vote {
            kind,
            campaign: self.campaign.number,
            last_index: self.log.last(),
            last_term: self.log.last_term(),
        };
        let (id, members) = (self.config.id, self.members);
        for voter in members.voters().filter(|voter| *voter != id) {
            self.post(voter, body);
        }
        self.count_votes();
    }

    /// Answers a request for a vote. Only a real request that may succeed changes the term.
    pub(super) fn asked_for_vote(
        &mut self,
        message: &PeerMessage<'_>,
        kind: VoteKind,
        campaign: u64,
        last: (Term, LogIndex),
    ) {
        let hears_leader = self.hears_leader();
        let is_long_enough = last >= (self.log.last_term(), self.log.last())
            || self.planted.is(Mistake::VotesForShortLogs);
        let granted = match kind {
            VoteKind::Pre => !hears_leader && message.term >= self.term && is_long_enough,
            VoteKind::Real | VoteKind::Transfer => {
                let listens = kind == VoteKind::Transfer || !hears_leader;
                if message.term > self.term && listens {
                    self.follow(message.term, None);
                }
                let is_free = self.vote.is_none_or(|vote| vote == message.from)
                    || self.planted.is(Mistake::VotesTwice);
                let is_follower = self.role == RaftRole::Follower;
                let grants = message.term == self.term && is_follower && is_free && is_long_enough;
                if grants && self.vote.is_none() {
                    self.vote = Some(message.from);
                    self.writes.vote_changed();
                    self.postpone_campaign();
                }
                grants
            }
        };
        self.reply(message.from, MessageBody::Voted { campaign, granted });
    }

    /// Takes the answer to a request for a vote.
    pub(super) fn voted(&mut self, message: &PeerMessage<'_>, campaign: u64, granted: bool) {
        if message.term > self.term {
            self.follow(message.term, None);
            return;
        }
        let asks = matches!(self.role, RaftRole::PreCandidate | RaftRole::Candidate);
        if asks && granted && campaign == self.campaign.number {
            self.campaign.add(message.from);
            self.count_votes();
        }
    }

    /// Goes on if a majority is for this node. Its own vote counts when it is kept.
    pub(super) fn count_votes(&mut self) {
        let own = match self.role {
            RaftRole::PreCandidate => true,
            RaftRole::Candidate => self.writes.vote <= self.sendable(),
            RaftRole::Follower | RaftRole::Leader => return,
        };
        let id = self.config.id;
        let is_for = |voter: &NodeId| match *voter == id {
            true => own,
            false => self.campaign.all().contains(voter),
        };
        let votes = self.members.voters().filter(is_for).count();
        if votes < self.quorum() {
            return;
        }
        match self.role {
            RaftRole::PreCandidate => self.become_candidate(VoteKind::Real),
            _ => self.become_leader(),
        }
    }

    /// Returns the voters of a majority.
    pub(super) fn quorum(&self) -> usize {
        match self.planted.is(Mistake::CountsHalf) {
            true => self.members.quorum() - 1,
            false => self.members.quorum(),
        }
    }

    fn become_leader(&mut self) {
        self.counts.elections += 1;
        self.role = RaftRole::Leader;
        self.leader = Some(self.config.id);
        self.receiving = None;
        let (id, last, now) = (self.config.id, self.log.last(), self.now);
        self.leading
            .begin(id, &self.members, last, now, self.config.election_timeout);
        match self.lead_entry(Payload::Noop) {
            Some(index) => {
                self.leading.noop = index;
                self.events
                    .push_back(NodeEvent::Leading { term: self.term });
            }
            // Without room for the entry this node cannot commit anything.
            None => self.follow(self.term, None),
        }
    }
}
