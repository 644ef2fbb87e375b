//! Seeds of the simulation, and mistakes that it finds.

use consensus::mistake::Mistake;

use super::{Report, Variant, run};

/// Seeds of a run of the tests.
const SEEDS: u64 = 2_000;

#[test]
fn clusters_with_faults_are_safe_and_serve_after_them() {
    let mut failures = Vec::new();
    let mut all = Report::default();
    for seed in 0..SEEDS {
        match run(seed, Variant::default()) {
            Ok(report) => all.add(&report),
            Err(error) => failures.push(error),
        }
    }
    assert!(failures.is_empty(), "{} of {SEEDS}: {failures:#?}", failures.len());
}

/// Searches the first seed at which a planted mistake is found.
fn survey(mistake: Mistake, seeds: u64) -> Option<(u64, String)> {
    let variant = Variant { mistake: Some(mistake) };
    (0..seeds).find_map(|seed| Some((seed, run(seed, variant).err()?)))
}

#[test]
fn survey_all() {
    use Mistake::*;
    let from = std::time::Instant::now();
    for mistake in [
        CommitsOldTerms, ForgetsVote, VotesTwice, VotesForShortLogs, SendsBeforePersisted,
        ReadsWithoutQuorum, ReadsBeforeNoop, ReadsBeforeApplied, CountsEarlierRounds,
        DropsSessionsInSnapshots, DropsMembersInSnapshots, AppliesRepeats, ExpiresByOwnClock,
        ChangesMembersEarly, CountsLearners, CountsHalf, TruncatesAlways,
        AppendsWithoutPreviousTerm, CommitsUnverified, AnswersWithLastIndex, EvictsWhenFull,
        SkipsChecksum, KeepsNameWithoutDisk, SnapshotsWhileItChanges, CountsUnsynced, CountsPreVotes, SkipsFence,
    ] {
        let found = survey(mistake, 600);
        let text = found.map(|(seed, text)| format!("{seed}: {}", text.lines().next().unwrap()));
        eprintln!("{mistake:?}: {text:?} {:?}", from.elapsed());
    }
}
