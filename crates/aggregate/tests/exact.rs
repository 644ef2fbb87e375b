//! Random reductions with faults: each result equals a plain map's.

mod random;

use random::{Case, Summary};

/// Runs the cases with these seeds.
fn check(seeds: std::ops::Range<u64>) {
    let mut all = Summary::default();
    for seed in seeds {
        let summary = Case::random(seed).check(seed);
        let summary = summary.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        all.add(&summary);
    }
    // The cases reach what they are to test.
    assert!(
        all.absorbed > 0
            && all.repeats > 0
            && all.restarts > 0
            && all.native > 0
            && all.vectors > 0
            && all.received > 0,
        "{all:?}"
    );
}

#[test]
fn random_reductions_with_faults_are_exact() {
    check(0..150);
}

#[test]
fn more_random_reductions_with_faults_are_exact() {
    check(150..300);
}
