//! Mistakes that tests plant to see that the simulation finds them.
//!
//! Outside of the tests of this crate a [`Planted`] has no content and no mistake can be chosen:
//! the conditions are constants and the code of the mistakes is removed.

/// Rule of the protocol that a test breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests name all mistakes"))]
pub(crate) enum Mistake {
    CommitsOldTerms,
    ForgetsVote,
    VotesTwice,
    VotesForShortLogs,
    SendsBeforePersisted,
    ReadsWithoutQuorum,
    ReadsBeforeNoop,
    ReadsBeforeApplied,
    CountsEarlierRounds,
    DropsSessionsInSnapshots,
    DropsMembersInSnapshots,
    AppliesRepeats,
    ExpiresByOwnClock,
    ChangesMembersEarly,
    CountsLearners,
    CountsHalf,
    TruncatesAlways,
    AppendsWithoutPreviousTerm,
    CommitsUnverified,
    AnswersWithLastIndex,
    EvictsWhenFull,
    SkipsChecksum,
    KeepsNameWithoutDisk,
    SnapshotsWhileItChanges,
    CountsUnsynced,
    CountsPreVotes,
    SkipsFence,
    LeasesWithoutDrift,
    LeasesAfterTransfer,
    VotesAfterRestart,
}

/// At most one mistake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted {
    #[cfg(test)]
    mistake: Option<Mistake>,
}

impl Planted {
    #[cfg(test)]
    pub(crate) const fn new(mistake: Option<Mistake>) -> Planted {
        Planted { mistake }
    }

    /// Returns true if this mistake is planted.
    #[cfg(test)]
    pub(crate) fn is(self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Returns false: no mistake is planted.
    #[cfg(not(test))]
    #[inline(always)]
    pub(crate) const fn is(self, _: Mistake) -> bool {
        false
    }
}
