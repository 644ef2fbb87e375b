//! Seeds of the simulation, and mistakes that it finds.

use consensus::mistake::Mistake;

use super::{Report, Variant, run};

/// Seeds that the tests run.
const SEEDS: u64 = 2_000;

/// Other seeds that have failed: in 7073 the last leader gave its first entry to a learner only; in
/// 24657 a learner that led campaigned again before the voters did.
const SEEDS_THAT_FAILED: [u64; 2] = [7073, 24657];

#[test]
fn clusters_with_faults_are_safe_and_serve_after_them() {
    let mut failures = Vec::new();
    let mut all = Report::default();
    for seed in (0..SEEDS).chain(SEEDS_THAT_FAILED) {
        match run(seed, Variant::default()) {
            Ok(report) => all.add(&report),
            Err(error) => failures.push(error),
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {SEEDS}: {failures:#?}",
        failures.len()
    );
    // Each kind of fault is reached often, or the seeds show nothing.
    let reached = [
        all.crashes,
        all.partitions,
        all.changes,
        all.transfers,
        all.installed,
    ];
    assert!(reached.iter().all(|count| *count > SEEDS / 4), "{all:#?}");
    assert!(all.refused > SEEDS && all.unknown > SEEDS / 4, "{all:#?}");
    assert_eq!(all.impossible, 0, "{all:#?}");
}

#[test]
fn a_seed_repeats_exactly() {
    for seed in 0..20 {
        assert_eq!(run(seed, Variant::default()), run(seed, Variant::default()));
    }
}

/// Fails if no seed shows the mistake, or if a seed before it fails for the correct nodes too.
#[track_caller]
fn is_found(mistake: Mistake) {
    let variant = Variant {
        mistake: Some(mistake),
    };
    let found = (0..SEEDS).find(|seed| run(*seed, variant).is_err());
    let seed = found.unwrap_or_else(|| panic!("{mistake:?} is not found in {SEEDS} seeds"));
    assert!(
        run(seed, Variant::default()).is_ok(),
        "seed {seed} fails without {mistake:?}"
    );
}

/// Makes a test for each mistake.
macro_rules! mistakes_are_found {
    ($($name:ident: $mistake:ident,)*) => {
        $(
            #[test]
            fn $name() {
                is_found(Mistake::$mistake);
            }
        )*
    };
}

mistakes_are_found! {
    finds_two_votes_in_a_term: VotesTwice,
    finds_votes_for_short_logs: VotesForShortLogs,
    finds_messages_before_their_write: SendsBeforePersisted,
    finds_reads_before_the_first_entry_of_a_term: ReadsBeforeNoop,
    finds_reads_before_their_index_is_applied: ReadsBeforeApplied,
    finds_sessions_outside_of_snapshots: DropsSessionsInSnapshots,
    finds_old_members_in_snapshots: DropsMembersInSnapshots,
    finds_repeats_that_are_applied: AppliesRepeats,
    finds_expiry_by_a_clock: ExpiresByOwnClock,
    finds_early_changes_of_members: ChangesMembersEarly,
    finds_learners_in_a_majority: CountsLearners,
    finds_half_as_a_majority: CountsHalf,
    finds_pre_votes_counted_as_votes: CountsPreVotes,
    finds_a_cut_that_is_not_needed: TruncatesAlways,
    finds_entries_after_unknown_ones: AppendsWithoutPreviousTerm,
    finds_commitment_of_unverified_entries: CommitsUnverified,
    finds_answers_for_unverified_entries: AnswersWithLastIndex,
    finds_a_lossy_table: EvictsWhenFull,
    finds_damaged_messages: SkipsChecksum,
    finds_a_name_used_again_without_a_disk: KeepsNameWithoutDisk,
    finds_a_snapshot_of_two_times: SnapshotsWhileItChanges,
    finds_commands_without_a_fence: SkipsFence,
}
