//! Replacement of a node by another one while the store works: one change of members after another,
//! as the leader takes them.

use consensus::{Key, MemberRole, MembershipChange, NodeId, Operation, StoredValue};
use packet::Nanos;

use super::{ReplicaGroup, RequestId, node_id, place_of};

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
    /// The new node was a member before and was replaced: it may have forgotten its votes.
    WasMember,
    /// No node of this process leads; the place of the one that does, if it is known.
    LedBy(Option<usize>),
}

/// Returns the key that the store has once a node leaves. It is reserved, so a full store has room
/// for it, and users do not write it.
fn left_key(node: NodeId) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(b"\xff\xffleft: ");
    key[8..].copy_from_slice(&node.0.to_le_bytes());
    key
}

impl ReplicaGroup {
    /// Returns true if the store has that a node left, as this leader knows it.
    fn has_left(&self, leader: usize, node: NodeId) -> bool {
        let value = self.replicas[leader].node.local_value(&left_key(node));
        value.is_some()
    }

    /// Requests once that the store keeps that a node leaves.
    fn keep_left(&mut self, node: NodeId) {
        let is_under_way = |id: RequestId| {
            let current = |session: &super::Session| session.current.is_some_and(|it| it.id == id);
            self.waiting.iter().any(|it| it.id == id) || self.sessions.iter().any(current)
        };
        if self
            .leaving
            .is_some_and(|(it, id)| it == node && is_under_way(id))
        {
            return;
        }
        let value = StoredValue::new(&[1]).unwrap_or_default();
        // What is refused is tried again.
        if let Ok(id) = self.request(Operation::Put(left_key(node), value)) {
            self.leaving = Some((node, id));
        }
    }

    /// Goes on with the replacement of a node by another one, both by their places in the file's
    /// list: the new one gets the log as a learner, then votes, then the old one leaves. It may be
    /// asked for again at any time and at each leader.
    pub fn replace(&mut self, now: Nanos, old: usize, new: usize) -> ReplaceProgress {
        let Some(at) = self.leader() else {
            let leader = self.replicas.first().and_then(|it| it.node.leader());
            return ReplaceProgress::LedBy(leader.map(place_of));
        };
        let (old, new) = (node_id(old), node_id(new));
        let is_known = self.leads_with_all();
        let has_left = [old, new].map(|node| self.has_left(at, node));
        let node = &mut self.replicas[at].node;
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
            (Some(_), None) if !is_known => return ReplaceProgress::UnderWay,
            (Some(_), None) if has_left[1] => return ReplaceProgress::WasMember,
            (Some(_), None) => MembershipChange::AddLearner(new),
            (Some(_), Some(MemberRole::Learner)) => MembershipChange::Promote(new),
            (Some(_), Some(MemberRole::Voter)) if old == node.id() => {
                // Requests wait for less time than in an election without a leader. What is
                // refused is tried again.
                let is_settled = index <= node.commit();
                let _ = is_settled.then(|| node.transfer(now.0, new));
                return ReplaceProgress::UnderWay;
            }
            (Some(_), Some(MemberRole::Voter)) if !has_left[0] => {
                self.keep_left(old);
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
