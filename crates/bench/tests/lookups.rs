//! Tests of the lookup benchmarks: properties of samples, and plausible results.

use bench::clock::Clock;
use bench::lookups::{Changes, Plan, Subject, measure, measure_loaded};
use std::time::Duration;
use table::Improved;

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

/// Updates per second that every machine sustains.
const PACE: u32 = 700;

#[test]
fn lookups_go_on_beside_updates_and_hit_before_and_after() {
    let plan = Plan {
        time: Duration::from_millis(300),
        changes: vec![
            Changes {
                at_once: 1,
                per_s: None,
            },
            Changes {
                at_once: 7,
                per_s: Some(PACE),
            },
        ],
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
        assert!(rates.mlps_between > 0.0 && told > 0.5, "{name}: {rates:?}");
        assert_eq!(rates.hits, 1.0, "{name}");
        for (beside, changes) in rates.beside.iter().zip(&plan.changes) {
            assert_eq!(beside.changes, *changes);
            assert!(beside.mlps > 0.0, "{name}: {rates:?}");
            assert!(beside.updates_per_s > 0.0, "{name}: {rates:?}");
        }
        // The first updates of a period come at once, so the rate may exceed the pace.
        let paced = rates.beside[1].updates_per_s;
        assert!(paced < f64::from(2 * PACE), "{name}: {rates:?}");
    }
}

#[test]
fn a_table_that_was_loaded_is_measured_until_its_index_is_as_fast_as_it_gets() {
    for subject in Subject::ALL {
        let sample = subject.sample(2000, 5000);
        let mut table = sample.table();
        let time = Duration::from_millis(10);
        let loaded = measure_loaded(&sample, &mut table, time, &Clock::new());
        let name = subject.name();
        assert!(loaded.mlps_at_2s > 0.0, "{name}: {loaded:?}");
        assert!(loaded.seconds_to_full >= 0.0, "{name}: {loaded:?}");
        let (low, high) = loaded.middle_half;
        assert!(
            0.0 < low && low <= loaded.mlps && loaded.mlps <= high,
            "{name}: {loaded:?}"
        );
        let improved = table.improve(Duration::MAX);
        assert_eq!(improved, Improved::NoMore, "{name}: {loaded:?}");
    }
}
