//! The monitor of bursts that is a P4 program, in a fabric of four edges and a core.

mod common;

use std::net::Ipv4Addr;

use common::{bed, check_counts};
use packet::Nanos;
use reflex::{ElementIndex, Measured, MonitorIndex, Outcome, ReflexIndex, Subject};

#[test]
fn a_host_that_sends_a_burst_is_blocked_and_one_that_takes_its_time_is_not() {
    let mut bed = bed("p4_burst", |fabric, loops| (fabric, loops));
    bed.simulation.run_until(Nanos::from_millis(50)).unwrap();
    bed.simulation.check_conservation().unwrap();
    let driver = bed.plane.get();
    let plane = driver.plane();
    check_counts(plane);
    let made = plane
        .decisions()
        .filter(|it| matches!(it.outcome, Outcome::Made(_)));
    let made: Vec<_> = made.collect();
    let [decision] = made[..] else {
        panic!("{made:?}");
    };
    assert_eq!(
        decision.subject,
        Subject::Host(Ipv4Addr::new(10, 0, 1, 1).into())
    );
    let measured = Measured::ByProgram {
        measured: 101,
        limit: 100,
    };
    assert_eq!(decision.measured, measured);
    let Outcome::Made(change) = decision.outcome else {
        unreachable!("it was filtered");
    };
    assert!(change.answered.is_some());
    assert_eq!(plane.entries(ReflexIndex(0)), 1);
    let element = driver.element_counts(ElementIndex(0));
    assert_eq!((element.applied, element.refused), (1, 0));
    let counts = plane.monitor_counts(MonitorIndex(0));
    // All packets of the slow host; those of the burst until the core drops them.
    let normal = 1000 + 100;
    assert_eq!((counts.normal, counts.malformed), (normal, 0));
    assert!((1..100).contains(&counts.alarms), "{counts:?}");
    // The others met the block.
    assert!(counts.reports < 1300, "{counts:?}");
}
