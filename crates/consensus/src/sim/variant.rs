//! The nodes under test: correct ones, or in this crate's tests ones with a planted mistake.

use consensus::{Config, Membership, RaftNode, Saved};

#[cfg(test)]
use consensus::mistake::{Mistake, Planted};

/// Way to build nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Variant {
    #[cfg(test)]
    pub(crate) mistake: Option<Mistake>,
}

#[cfg(test)]
impl Variant {
    pub(super) fn node(self, config: Config, members: Membership, now: u64) -> RaftNode {
        RaftNode::planted(config, members, now, Planted::new(self.mistake))
    }

    pub(super) fn restored(
        self,
        config: Config,
        members: Membership,
        saved: Saved,
        now: u64,
    ) -> RaftNode {
        RaftNode::restore_planted(config, members, saved, now, Planted::new(self.mistake))
    }

    /// Returns true if a node without a disk comes back under its old name.
    pub(super) fn keeps_name(self) -> bool {
        self.mistake == Some(Mistake::KeepsNameWithoutDisk)
    }

    /// Returns true if elements apply all commands in the order of their arrival.
    pub(super) fn skips_fence(self) -> bool {
        self.mistake == Some(Mistake::SkipsFence)
    }
}

#[cfg(not(test))]
impl Variant {
    pub(super) fn node(self, config: Config, members: Membership, now: u64) -> RaftNode {
        RaftNode::new(config, members, now)
    }

    pub(super) fn restored(
        self,
        config: Config,
        members: Membership,
        saved: Saved,
        now: u64,
    ) -> RaftNode {
        RaftNode::restore(config, members, saved, now)
    }

    pub(super) const fn keeps_name(self) -> bool {
        false
    }

    pub(super) const fn skips_fence(self) -> bool {
        false
    }
}
