//! Hostile neighbours with recirculated packets, and quotas of recirculations and cycles.

use std::sync::Arc;

use exec::DropReason;
use packet::{Nanos, PortId};
use switch::Change;
use tenancy::{Quotas, Rate, TenantSwitch};

use crate::common;
use crate::common::{frame, id, marker, spec};
use crate::harness::*;

/// Recirculates every packet after egress, for ever.
fn recirculator() -> Arc<ir::Program> {
    common::program_with_egress(
        "apply { standard.egress_spec = 1; }",
        "apply { recirculate_preserving_field_list(1); }",
    )
}

#[test]
fn endless_resubmission_and_recirculation_cost_the_one_that_starts_over() {
    for hog in [common::resubmitter(), recirculator()] {
        for packets in [1, 20] {
            let mut test = HostileTest::new(Arc::clone(&hog));
            check(&test.run(packets, 60, |_, _| {}));
            assert!(test.dropped(2, DropReason::FairShare) > 0);
            assert_eq!(test.dropped(1, DropReason::FairShare), 0);
        }
    }
}

#[test]
fn a_worker_whose_packets_wait_for_their_share_says_when_it_has_come() {
    let mut test = HostileTest::new(common::resubmitter());
    // The other vPDP's share of an interval is less than a packet's recirculations cost.
    let quotas = Quotas {
        weight: 9,
        ..Quotas::default()
    };
    test.hypervisor.set_quotas(id(1), quotas).unwrap();
    test.run(1, 60, |_, _| {});
    let HostileTest {
        mut hypervisor,
        mut worker,
        mut now,
        ..
    } = test;
    // The victim still counts in the current interval.
    let (mut calls, mut waited) = (0, 0);
    while let Some(next) = worker.next_time() {
        waited += u64::from(next.0 > now);
        now = now.max(next.0);
        worker.forward(&mut [], Nanos(now), |_, _, _| {});
        calls += 1;
        assert!(calls < 10_000);
    }
    assert!(waited > 0);
    hypervisor.step(Nanos(now), |_, _, _| {});
    hypervisor.check_conservation().unwrap();
    let device = hypervisor.vpdp(id(2)).unwrap().device().unwrap();
    assert_eq!(device.held(), 0);
}

#[test]
fn packets_that_start_over_go_on_behind_those_of_others() {
    let HostileTest {
        mut hypervisor,
        mut worker,
        cycles,
        ..
    } = HostileTest::new(recirculator());
    hypervisor.set_fairness(None);
    // A rate that is never reached: without one, the vPDP's cost is not measured.
    let quotas = Quotas {
        packets: Some(Rate {
            per_second: 1_000_000_000,
            burst: 1_000_000,
        }),
        ..Quotas::default()
    };
    hypervisor.set_quotas(id(2), quotas).unwrap();
    let mut before = 0;
    for round in 1..200 {
        let mut frames = [frame(20, &[0, 0]), frame(10, &[0, 0])];
        let mut victim = None;
        let spent = || *cycles.lock().unwrap();
        worker.forward(&mut frames, Nanos(round), |port, _, _| {
            if port.0 == 11 {
                victim = Some(spent() - before);
            }
        });
        // A packet with its recirculations, and a burst's recirculations, for both the earlier
        // packets and the new one.
        assert!(
            victim.unwrap() <= 2 * COST.per_pass * (64 + 8 + 1),
            "{victim:?}"
        );
        before = spent();
    }
    assert!(before > 0);
    hypervisor.step(Nanos(200), |_, _, _| {});
    hypervisor.check_conservation().unwrap();
}

#[test]
fn who_comes_after_a_hog_does_not_owe_what_it_used() {
    let mut test = HostileTest::new(common::resubmitter());
    test.run(20, 60, |_, _| {});
    let HostileTest {
        mut hypervisor,
        mut worker,
        now,
        ..
    } = test;
    let mut send = |hypervisor: &mut TenantSwitch| {
        let sent = common::forward(&mut worker, &mut [frame(20, &[0, 0])], now);
        hypervisor.step(Nanos(now), |_, _, _| {});
        sent.len()
    };
    assert_eq!(send(&mut hypervisor), 0);
    hypervisor.delete(id(2)).unwrap();
    assert_eq!(send(&mut hypervisor), 0);
    hypervisor.create(spec(3, &[20, 21])).unwrap();
    hypervisor.load(id(3), marker(3)).unwrap();
    assert_eq!(send(&mut hypervisor), 1);
}

#[test]
fn passes_that_start_over_are_paid_for_when_they_have_a_quota() {
    let mut test = HostileTest::new(common::resubmitter());
    let quotas = Quotas {
        passes: Some(Rate {
            per_second: 10_000,
            burst: 100,
        }),
        ..Quotas::default()
    };
    test.hypervisor.set_quotas(id(2), quotas).unwrap();
    check_share(&test.run(1, 60, |_, _| {}));
    let ledger = test
        .hypervisor
        .vpdp(id(2))
        .unwrap()
        .device()
        .unwrap()
        .ledger();
    // A fiftieth of a second's, the burst size, and the last packet's.
    let longest = ledger.resubmitted / ledger.dropped(DropReason::WorkBudget);
    assert!(
        ledger.resubmitted <= 200 + 100 + longest,
        "{}",
        ledger.resubmitted
    );
    assert!(test.dropped(2, DropReason::PassQuota) > 0);
}

#[test]
fn passes_of_packets_that_waited_in_queues_are_paid_for_too() {
    let quotas = |rate| Quotas {
        passes: Some(rate),
        ..Quotas::default()
    };
    let cycles = |rate| Quotas {
        cycles: Some(rate),
        ..Quotas::default()
    };
    let few = |burst| Rate {
        per_second: 1,
        burst,
    };
    // More than a packet and its first recirculations cost, less than twenty recirculations.
    let cases = [
        (quotas(few(5)), DropReason::PassQuota),
        (cycles(few(5_000)), DropReason::CycleQuota),
    ];
    for (quotas, reason) in cases {
        let HostileTest {
            mut hypervisor,
            mut worker,
            ..
        } = HostileTest::new(recirculator());
        hypervisor.set_fairness(None);
        hypervisor.set_quotas(id(2), quotas).unwrap();
        let slow = switch::QueueConfig {
            packets_per_second: Some(1000),
            ..Default::default()
        };
        let device = hypervisor.device_mut(id(2)).unwrap();
        device.apply(Change::SetQueue(PortId(1), slow)).unwrap();
        device.publish();
        common::forward(&mut worker, &mut [frame(20, &[0, 0])], 0);
        for millis in 1..20 {
            common::forward(&mut worker, &mut [], millis * 1_000_000);
        }
        let ledger = |hypervisor: &TenantSwitch| {
            let device = hypervisor.vpdp(id(2)).unwrap().device().unwrap();
            device.ledger()
        };
        assert!(ledger(&hypervisor).recirculated > 10);
        common::forward(&mut worker, &mut [frame(20, &[0, 0])], 20_000_000);
        assert_eq!(ledger(&hypervisor).dropped(reason), 1);
        hypervisor.check_conservation().unwrap();
    }
}

#[test]
fn cycles_have_a_quota_too() {
    let mut test = HostileTest::new(marker(2));
    let quotas = Quotas {
        cycles: Some(Rate {
            per_second: 100_000_000,
            burst: 100_000,
        }),
        ..Quotas::default()
    };
    test.hypervisor.set_quotas(id(2), quotas).unwrap();
    let outcome = test.run(9, 60, |_, _| {});
    assert_eq!(outcome.victim, GUARANTEED);
    let hog = outcome.cycles - outcome.victim * 1000;
    assert!((1_980_000..=2_120_000).contains(&hog), "{hog} cycles");
    assert!(test.dropped(2, DropReason::CycleQuota) > 0);
}
