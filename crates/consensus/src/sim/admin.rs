//! An operator: replaces lost nodes, changes the members, gives the leadership to others.

use consensus::{Keep, MemberRole, MembershipChange, NodeId, RaftRole};

use super::world::World;

/// Nodes that a run starts at most.
const MAX_HOSTS: usize = 16;

impl World {
    /// Returns the host that leads the greatest term of all nodes that run.
    pub(super) fn leading_host(&self) -> Option<usize> {
        let nodes = (0..)
            .zip(&self.hosts)
            .filter_map(|(at, host)| Some((at, host.node.as_ref()?)));
        let (at, node) =
            nodes.max_by_key(|(_, node)| (node.term(), node.role() == RaftRole::Leader))?;
        (node.role() == RaftRole::Leader).then_some(at)
    }

    /// Does one step: what the leader refuses is tried again later.
    pub(super) fn administer(&mut self) {
        let Some(at) = self.leading_host() else {
            return;
        };
        let Some(change) = self.wanted_change(at) else {
            return;
        };
        let now = self.local_time(at);
        if let Some(node) = &mut self.hosts[at].node
            && node.change_members(now, change).is_ok()
        {
            self.report.changes += 1;
        }
    }

    fn wanted_change(&mut self, leader: usize) -> Option<MembershipChange> {
        let node = self.hosts[leader].node.as_ref()?;
        let (members, _) = node.members();
        let is_lost = |id: NodeId| self.hosts[(id.0 - 1) as usize].is_lost;
        let mut all = members.all().iter();
        if let Some(lost) = all.clone().find(|member| is_lost(member.0)) {
            return Some(MembershipChange::Remove(lost.0));
        }
        if let Some(learner) = all.find(|member| member.1 == MemberRole::Learner) {
            return Some(MembershipChange::Promote(learner.0));
        }
        let voters: Vec<NodeId> = members.voters().collect();
        let wanted = self.plan.nodes as usize;
        if voters.len() > wanted {
            return self
                .rng
                .pick(&voters)
                .copied()
                .map(MembershipChange::Remove);
        }
        let is_short = voters.len() < wanted;
        let is_time = self.plan.changes_members && !self.is_healed() && self.rng.one_in(4);
        if (is_short || is_time) && self.hosts.len() < MAX_HOSTS {
            let is_unused = |at: &usize| {
                let node = self.hosts[*at].node.as_ref();
                node.is_some_and(|node| node.members().0.all().is_empty())
            };
            let unused = (0..self.hosts.len()).find(is_unused);
            let node = unused.map_or_else(|| self.start_host(), |at| NodeId(at as u64 + 1));
            return Some(MembershipChange::AddLearner(node));
        }
        None
    }

    /// Returns true if this host may lose its memory: the others still have all that is committed.
    pub(super) fn may_lose(&self, victim: usize) -> bool {
        if self.plan.keep == Keep::Disk || self.variant.keeps_name() {
            return true;
        }
        let Some(node) = self
            .leading_host()
            .and_then(|at| self.hosts[at].node.as_ref())
        else {
            return false;
        };
        let (members, index) = node.members();
        let is_whole = |id: NodeId| !self.hosts[(id.0 - 1) as usize].is_lost;
        let has_all = members.all().iter().all(|member| is_whole(member.0));
        let is_voter = members.is_voter(NodeId(victim as u64 + 1));
        index <= node.commit() && has_all && is_voter && members.voters().count() >= 3
    }

    /// Asks the leader to give the leadership to another voter.
    pub(super) fn transfer(&mut self) {
        let Some(at) = self.leading_host() else {
            return;
        };
        let now = self.local_time(at);
        if let Some(node) = &mut self.hosts[at].node {
            let voters: Vec<NodeId> = node.members().0.voters().collect();
            if let Some(&to) = self.rng.pick(&voters)
                && node.transfer(now, to).is_ok()
            {
                self.report.transfers += 1;
            }
        }
    }
}
