//! Members of a cluster: voters and learners.

use crate::ids::NodeId;
use crate::wire::{Reader, Write};

/// Members that a cluster has at most, learners included.
pub const MAX_MEMBERS: usize = 8;

/// Right of a member in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MemberRole {
    /// Receives the log, does not count in a majority.
    #[default]
    Learner,
    /// Counts in a majority.
    Voter,
}

/// Set of members, in order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Membership {
    len: u8,
    members: [(NodeId, MemberRole); MAX_MEMBERS],
}

/// Change of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// A new node becomes a learner.
    AddLearner(NodeId),
    /// A learner that has the log becomes a voter.
    Promote(NodeId),
    /// A member leaves.
    Remove(NodeId),
}

impl Membership {
    /// Returns the membership of these voters, or `None` if there are more than [`MAX_MEMBERS`].
    pub fn of_voters(voters: &[NodeId]) -> Option<Membership> {
        let mut all = Membership::default();
        for &voter in voters {
            all.set(voter, MemberRole::Voter)?;
        }
        Some(all)
    }

    /// Returns all members.
    pub fn all(&self) -> &[(NodeId, MemberRole)] {
        self.members.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Returns the names of the voters.
    pub fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_voter = |member: &&(NodeId, MemberRole)| member.1 == MemberRole::Voter;
        self.all().iter().filter(is_voter).map(|member| member.0)
    }

    /// Returns the role of a node, or `None` if it is not a member.
    pub fn role(&self, node: NodeId) -> Option<MemberRole> {
        let member = self.all().iter().find(|member| member.0 == node)?;
        Some(member.1)
    }

    /// Returns true if the node is a voter.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.role(node) == Some(MemberRole::Voter)
    }

    /// Returns the voters of a majority.
    pub fn quorum(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    /// Returns the membership after a change, or `None` if the change does not apply: a member is
    /// added again, a voter or stranger promoted, a stranger or the last voter removed.
    pub fn after(&self, change: MembershipChange) -> Option<Membership> {
        let mut changed = *self;
        match change {
            MembershipChange::AddLearner(node) => {
                if self.role(node).is_some() {
                    return None;
                }
                changed.set(node, MemberRole::Learner)?;
            }
            MembershipChange::Promote(node) => {
                if self.role(node) != Some(MemberRole::Learner) {
                    return None;
                }
                changed.set(node, MemberRole::Voter)?;
            }
            MembershipChange::Remove(node) => {
                let at = self.all().iter().position(|member| member.0 == node)?;
                changed.members.copy_within(at + 1.., at);
                changed.members[MAX_MEMBERS - 1] = Default::default();
                changed.len -= 1;
            }
        }
        changed.voters().next().map(|_| changed)
    }

    /// Adds a member or sets its role. `None` if there is no room.
    fn set(&mut self, node: NodeId, role: MemberRole) -> Option<()> {
        let len = usize::from(self.len);
        let at = self.all().iter().position(|member| member.0 >= node);
        let at = at.unwrap_or(len);
        if self.all().get(at).is_none_or(|member| member.0 != node) {
            if len == MAX_MEMBERS {
                return None;
            }
            self.members.copy_within(at..MAX_MEMBERS - 1, at + 1);
            self.len += 1;
        }
        self.members[at] = (node, role);
        Some(())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.len);
        for &(node, role) in self.all() {
            out.put_u64(node.0);
            out.put_u8(u8::from(role == MemberRole::Voter));
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<Membership> {
        let mut all = Membership::default();
        for _ in 0..from.u8()? {
            let node = NodeId(from.u64()?);
            let role = match from.flag()? {
                true => MemberRole::Voter,
                false => MemberRole::Learner,
            };
            if all.all().last().is_some_and(|last| last.0 >= node) {
                return None;
            }
            all.set(node, role)?;
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_apply_to_one_member_each() {
        let abc = Membership::of_voters(&[NodeId(3), NodeId(1), NodeId(2)]).unwrap();
        assert_eq!(abc.voters().map(|n| n.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(abc.after(MembershipChange::AddLearner(NodeId(1))), None);
        assert_eq!(abc.after(MembershipChange::Promote(NodeId(1))), None);
        assert_eq!(abc.after(MembershipChange::Remove(NodeId(9))), None);
        let with = abc.after(MembershipChange::AddLearner(NodeId(0))).unwrap();
        assert_eq!(
            (with.quorum(), with.role(NodeId(0))),
            (2, Some(MemberRole::Learner))
        );
        let with = with.after(MembershipChange::Promote(NodeId(0))).unwrap();
        assert_eq!(with.quorum(), 3);
        let without = with.after(MembershipChange::Remove(NodeId(0))).unwrap();
        assert_eq!(without, abc);
        let one = Membership::of_voters(&[NodeId(1)]).unwrap();
        assert_eq!(one.after(MembershipChange::Remove(NodeId(1))), None);
    }

    #[test]
    fn a_ninth_member_is_refused() {
        let names: Vec<NodeId> = (0..9).map(NodeId).collect();
        assert_eq!(Membership::of_voters(&names), None);
        let full = Membership::of_voters(&names[..8]).unwrap();
        assert_eq!(full.after(MembershipChange::AddLearner(NodeId(9))), None);
    }
}
