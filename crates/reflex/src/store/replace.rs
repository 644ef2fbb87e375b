//! Replacement of a node by another one while the store works: one change of members after another,
//! as the leader takes them.

use consensus::{MemberRole, MembershipChange};
use packet::Nanos;

use super::{ReplicaGroup, node_id, place_of};

/// Progress of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceProgress {
    /// The new node votes, the old one is no member, and both are committed.
    Done,
    /// Ask again soon.
    UnderWay,
    /// The old node is no member, and the new one does not vote: nothing is changed, since the
    /// store would have a voter more.
    NoMember,
    /// No node of this process leads; the place of the one that does, if it is known.
    LedBy(Option<usize>),
}

impl ReplicaGroup {
    /// Goes on with the replacement of a node by another one, both by their places in the file's
    /// list: the new one gets the log as a learner, then votes, then the old one leaves. It may be
    /// asked for again at any time and at each leader.
    pub fn replace(&mut self, now: Nanos, old: usize, new: usize) -> ReplaceProgress {
        let Some(at) = self.leader() else {
            let leader = self.replicas.first().and_then(|it| it.node.leader());
            return ReplaceProgress::LedBy(leader.map(place_of));
        };
        let node = &mut self.replicas[at].node;
        let (old, new) = (node_id(old), node_id(new));
        let (members, index) = node.members();
        let change = match (members.role(old), members.role(new)) {
            (None, Some(MemberRole::Voter)) => {
                return match index <= node.commit() {
                    true => ReplaceProgress::Done,
                    false => ReplaceProgress::UnderWay,
                };
            }
            // The old node leaves last, so this is not a replacement under way.
            (None, None | Some(MemberRole::Learner)) => return ReplaceProgress::NoMember,
            (Some(_), None) => MembershipChange::AddLearner(new),
            (Some(_), Some(MemberRole::Learner)) => MembershipChange::Promote(new),
            (Some(_), Some(MemberRole::Voter)) if old == node.id() => {
                // Requests wait for less time than in an election without a leader. What is
                // refused is tried again.
                let is_settled = index <= node.commit();
                let _ = is_settled.then(|| node.transfer(now.0, new));
                return ReplaceProgress::UnderWay;
            }
            (Some(_), Some(MemberRole::Voter)) => MembershipChange::Remove(old),
        };
        // It is refused while another change is under way, or the learner has too little.
        let _ = node.change_members(now.0, change);
        ReplaceProgress::UnderWay
    }

    /// Returns the places of the voters, as a node of this process has them.
    pub fn voters(&self) -> Vec<usize> {
        let node = self.leader().unwrap_or(0);
        let node = self.replicas.get(node).map(|it| &it.node);
        let voters = node.into_iter().flat_map(|node| node.members().0.voters());
        voters.map(place_of).collect()
    }
}
