//! Hostile neighbours with packets that multiply over loops of links.

use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, Nanos, PortId};
use switch::Change;
use tenancy::TenantSwitch;

use crate::common::{frame, hypervisor, id, port, program, spec};
use crate::harness::*;

/// Sends 64 copies of every packet to port 1.
fn multiplier() -> Arc<ir::Program> {
    program("apply { standard.mcast_grp = 1; }")
}

fn copies() -> Change {
    let copy = |instance| switch::Replica {
        port: PortId(1),
        instance,
    };
    Change::SetMulticast(1, (0..64).map(copy).collect())
}

/// Creates vPDP 3 on port 30, and links it with vPDP 2 in a loop that multiplies copies.
fn link_in_a_loop(hypervisor: &mut TenantSwitch) {
    let mut third = spec(3, &[30]);
    third.ports.push(tenancy::Connection::Open);
    hypervisor.create(third).unwrap();
    hypervisor.load(id(3), multiplier()).unwrap();
    for number in [2, 3] {
        let device = hypervisor.device_mut(id(number)).unwrap();
        device.apply(copies()).unwrap();
        device.publish();
    }
    hypervisor.connect(port(2, 1), None).unwrap();
    hypervisor.link(port(2, 1), port(3, 1)).unwrap();
}

#[test]
fn copies_that_multiply_over_a_loop_of_links_leave_the_victim_its_share() {
    let mut test = HostileTest::new(multiplier());
    link_in_a_loop(&mut test.hypervisor);
    let mut worker = test.worker;
    let mut victim = 0;
    let rounds = 3;
    for round in 1..=rounds {
        let mut frames = vec![frame(20, &[0, 0]), frame(10, &[0, 0])];
        let now = Nanos(round * 1_000_000);
        worker.forward(&mut frames, now, |port, _, _| {
            victim += u64::from(port.0 == 11);
        });
        worker.forward(&mut [], now, |_, _, _| {});
    }
    test.hypervisor.check_conservation().unwrap();
    assert_eq!(victim, rounds);
    for number in [2, 3] {
        let ledger = test.hypervisor.vpdp(id(number)).unwrap().device().unwrap();
        let ledger = ledger.ledger();
        assert!(ledger.sent <= rounds * (4096 + 2 * 4), "{}", ledger.sent);
        assert!(ledger.dropped(DropReason::LinkHops) > 0, "{number}");
    }
}

#[test]
fn packets_on_a_loop_of_links_come_to_rest_also_where_others_were_postponed() {
    let mut test = HostileTest::new(multiplier());
    link_in_a_loop(&mut test.hypervisor);
    let mut worker = test.worker;
    for round in 1..=4 {
        // More packets of the third vPDP than a turn serves, and some over the loop. The victim
        // has demand, too.
        let mut frames: Vec<Frame> = (0..100).map(|_| frame(30, &[0, 0])).collect();
        frames.extend([frame(20, &[0, 0]), frame(10, &[0, 0])]);
        worker.forward(&mut frames, Nanos(round * 60_000), |_, _, _| {});
    }
    let postponed = test.hypervisor.vpdp(id(3)).unwrap().device().unwrap();
    assert!(postponed.held() > 0, "nothing was postponed");
    let mut rounds = 0;
    while worker.next_time().is_some() {
        rounds += 1;
        assert!(rounds < 300, "packets go round for ever");
        worker.forward(&mut [], Nanos(1_000_000 + rounds * 1_000_000), |_, _, _| {});
    }
    test.hypervisor.check_conservation().unwrap();
}

#[test]
fn copies_of_the_control_side_do_not_multiply_either() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(2, &[20, 21])).unwrap();
    hypervisor.load(id(2), multiplier()).unwrap();
    link_in_a_loop(&mut hypervisor);
    let device = hypervisor.device_mut(id(2)).unwrap();
    device.receive(PortId(0), &[0, 0]).unwrap();
    hypervisor.step(Nanos(1), |_, _, _| {});
    hypervisor.check_conservation().unwrap();
    for number in [2, 3] {
        let ledger = hypervisor.vpdp(id(number)).unwrap().device().unwrap();
        let ledger = ledger.ledger();
        assert!(ledger.sent <= 4096, "{}", ledger.sent);
        assert!(ledger.dropped(DropReason::LinkHops) > 0, "{number}");
    }
}
