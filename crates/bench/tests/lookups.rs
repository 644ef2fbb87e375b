//! Tables to measure: what their samples promise, and that measuring them gives figures.

use bench::clock::Clock;
use bench::lookups::{Plan, Subject, measure};
use std::time::Duration;

#[test]
fn a_sample_fills_its_table_and_all_of_its_lookups_find_what_a_search_through_all_entries_finds() {
    for subject in Subject::ALL {
        for size in [1, 20, 1000] {
            let sample = subject.sample(size, 5000);
            let mut table = sample.table();
            let name = subject.name();
            assert_eq!((sample.entries(), table.len()), (size, size), "{name}");
            let checked = sample.check(&mut table, 100);
            checked.unwrap_or_else(|mismatch| panic!("{name}, {size}: {mismatch}"));
        }
    }
}

#[test]
fn lookups_go_on_beside_updates_and_hit_before_and_after() {
    let plan = Plan {
        time: Duration::from_millis(300),
        updates: vec![1, 7],
    };
    for subject in Subject::ALL {
        let sample = subject.sample(2000, 5000);
        let mut told = 0.0;
        let rates = measure(
            &sample,
            sample.table(),
            &plan,
            &Clock::new(),
            &mut |share| told = share,
        );
        let name = subject.name();
        assert!(rates.mlps > 0.0 && told > 0.5, "{name}: {rates:?}");
        assert_eq!(rates.hits, 1.0, "{name}");
        for (beside, updates) in rates.beside.iter().zip([1, 7]) {
            assert_eq!(beside.updates, updates);
            assert!(beside.mlps > 0.0, "{name}: {rates:?}");
            assert!(beside.updates_per_s > 0.0, "{name}: {rates:?}");
        }
    }
}
