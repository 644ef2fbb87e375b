//! Seeds of the simulation, and mistakes that it finds.

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
