//! Churn test without real time: operations alternate with bursts, so every run is the same.

use bench::churn::{ChurnDriver, ChurnTest, DeliveryCounts, Operation, functions};
use bench::workloads::{self, Size};
use packet::Nanos;
use testkit::{compile_text, engines};

const OPERATIONS: usize = 100;

#[test]
fn a_hundred_operations_lose_and_change_no_packet() {
    let workload = workloads::switch(Size::Small);
    let functions = functions(&|text| compile_text(text)).unwrap();
    let life = ChurnTest {
        workload: &workload,
        functions: &functions,
        engine: engines().remove(0),
        operations: OPERATIONS,
        seed: 1,
        load: 1.0,
        time: std::time::Duration::ZERO,
        workers: 1,
    };
    let (mut scene, mut stations) = ChurnDriver::new(&life, 2).unwrap();
    let mut now = 0;
    let mut burst = |packets| {
        now += 1000;
        for station in &mut stations {
            station.burst(packets, Nanos(now));
        }
    };
    for _ in 0..OPERATIONS {
        burst(40);
        scene
            .operate(&mut || {
                burst(64);
                Ok(())
            })
            .unwrap();
    }
    burst(64);
    let (mut steady, mut changing) = (DeliveryCounts::default(), DeliveryCounts::default());
    for station in stations {
        let (of_steady, of_changing) = station.end();
        steady += of_steady;
        changing += of_changing;
    }
    scene.check(steady.came + changing.came).unwrap();
    let all_left = DeliveryCounts {
        came: steady.came,
        left: steady.came,
        ..DeliveryCounts::default()
    };
    assert_eq!(steady, all_left);
    let as_expected = DeliveryCounts {
        came: changing.came,
        left: changing.left,
        dropped: changing.came - changing.left,
        ..DeliveryCounts::default()
    };
    assert_eq!(changing, as_expected);
    // Most vPDPs have a program most of the time, so packets are forwarded.
    assert!(changing.left > changing.came / 4, "{changing:?}");
    assert!(changing.dropped > 0, "{changing:?}");
    assert_eq!(scene.operations().values().sum::<usize>(), OPERATIONS);
    for operation in Operation::ALL {
        assert!(scene.operations().contains_key(&operation), "{operation:?}");
    }
}
