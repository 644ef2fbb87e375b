//! Packets that wait in queues while their vPDP, its rules or its ports change: they are sent by
//! the rules at that moment.

use exec::DropReason;
use packet::PortId;
use switch::{Change, QueueConfig};
use tenancy::{Condition, Egress, Encapsulation, Rule, Share, Sharing, TenantSwitch, Vlan, Worker};

use crate::common::{Sent, forward, frame, hypervisor, id, spec};
use crate::frames::SHARED;
use crate::wire;

fn vlan_rule(number: u16, vlan: Vlan) -> Rule {
    Rule {
        name: format!("of {number}"),
        vpdp: id(number),
        priority: 0,
        conditions: vec![Condition::Port(PortId(SHARED)), Condition::Vlan(vlan)],
    }
}

/// Returns vPDP 1 with the shared port as its port 0, and four packets in its queue.
fn waiting(sharing: Sharing, rules: &[Rule]) -> (TenantSwitch, Worker) {
    let mut hypervisor = hypervisor();
    hypervisor.share(PortId(SHARED), Some(sharing)).unwrap();
    hypervisor.create(spec(1, &[SHARED, 10])).unwrap();
    hypervisor.load(id(1), wire()).unwrap();
    hypervisor.add_rules(rules.iter().cloned()).unwrap();
    let slow = QueueConfig {
        packets_per_second: Some(1000),
        ..Default::default()
    };
    let device = hypervisor.device_mut(id(1)).unwrap();
    device.apply(Change::SetQueue(PortId(0), slow)).unwrap();
    device.publish();
    let mut worker = hypervisor.workers(1).remove(0);
    let mut frames: Vec<_> = (0..5).map(|_| frame(10, &[2; 60])).collect();
    assert_eq!(forward(&mut worker, &mut frames, 1).len(), 1);
    assert_eq!(hypervisor.held(), 4);
    (hypervisor, worker)
}

/// Returns the packets that are sent until none waits.
fn rest(hypervisor: &mut TenantSwitch, worker: &mut Worker) -> Sent {
    let mut sent = forward(worker, &mut [], 2);
    while let Some(next) = worker.next_time() {
        sent.extend(forward(worker, &mut [], next.0));
        hypervisor.step(next, |_, _, _| {});
    }
    hypervisor.check_conservation().unwrap();
    assert_eq!((hypervisor.held(), hypervisor.departing()), (0, 0));
    sent
}

fn foreign(hypervisor: &TenantSwitch) -> u64 {
    hypervisor.ledger().dropped(DropReason::ForeignEgress)
}

#[test]
fn a_vlan_that_goes_to_another_vpdp_takes_no_waiting_packet_along() {
    let rule = vlan_rule(1, Vlan::Untagged);
    let (mut hypervisor, mut worker) = waiting(Sharing::Rules, std::slice::from_ref(&rule));
    hypervisor.remove_rule(&rule.name).unwrap();
    hypervisor.create(spec(2, &[SHARED, 20])).unwrap();
    hypervisor.add_rule(vlan_rule(2, Vlan::Untagged)).unwrap();
    assert_eq!(rest(&mut hypervisor, &mut worker), []);
    assert_eq!(foreign(&hypervisor), 4);
}

#[test]
fn a_vlan_that_changes_changes_the_tag_of_waiting_packets() {
    let rule = vlan_rule(1, Vlan::Access(10));
    let (mut hypervisor, mut worker) = waiting(Sharing::Rules, std::slice::from_ref(&rule));
    hypervisor.remove_rule(&rule.name).unwrap();
    hypervisor.add_rule(vlan_rule(1, Vlan::Access(20))).unwrap();
    let sent = rest(&mut hypervisor, &mut worker);
    assert_eq!(sent.len(), 4);
    assert!(
        sent.iter()
            .all(|(_, bytes)| bytes[12..16] == [0x81, 0, 0, 20])
    );
}

#[test]
fn packets_of_a_program_that_is_removed_are_still_looked_at() {
    let rule = vlan_rule(1, Vlan::Untagged);
    let (mut hypervisor, mut worker) = waiting(Sharing::Rules, std::slice::from_ref(&rule));
    hypervisor.unload(id(1)).unwrap();
    assert_eq!(forward(&mut worker, &mut [], 1_000_001).len(), 1);
    hypervisor.remove_rule(&rule.name).unwrap();
    assert_eq!(rest(&mut hypervisor, &mut worker), []);
    assert_eq!(foreign(&hypervisor), 3);
}

#[test]
fn packets_of_a_deleted_vpdp_leave_with_no_description_of_the_next_of_its_number() {
    let described = Sharing::Described(Encapsulation::Plain);
    for is_taken in [false, true] {
        let (mut hypervisor, mut worker) = waiting(described, &[]);
        hypervisor.delete(id(1)).unwrap();
        let next = if is_taken { 1 } else { 2 };
        hypervisor.create(spec(next, &[SHARED, 20])).unwrap();
        let left = rest(&mut hypervisor, &mut worker).len();
        let expected = if is_taken { (0, 4) } else { (4, 0) };
        assert_eq!((left as u64, foreign(&hypervisor)), expected);
    }
}

#[test]
fn packets_of_a_deleted_vpdp_leave_by_no_port_that_is_anothers() {
    let (mut hypervisor, mut worker) = waiting(Sharing::Described(Encapsulation::Plain), &[]);
    hypervisor.delete(id(1)).unwrap();
    hypervisor.share(PortId(SHARED), None).unwrap();
    hypervisor.create(spec(2, &[SHARED, 20])).unwrap();
    assert_eq!(rest(&mut hypervisor, &mut worker), []);
    assert_eq!(foreign(&hypervisor), 4);
}

#[test]
fn a_port_of_vpdps_that_trust_each_other_lets_all_leave_and_still_tags() {
    let rule = vlan_rule(1, Vlan::Access(10));
    let (mut hypervisor, mut worker) = waiting(Sharing::Rules, std::slice::from_ref(&rule));
    rest(&mut hypervisor, &mut worker);
    let tagged = |vlan: u8| [&[2; 12][..], &[0x81, 0, 0, vlan], &[8, 0], &[0; 46]].concat();
    let mut sent = |hypervisor: &TenantSwitch, bytes: &[u8], now| {
        let mut sent = forward(&mut worker, &mut [frame(10, bytes)], now);
        hypervisor.check_conservation().unwrap();
        sent.pop().map(|(_, bytes)| bytes)
    };
    assert_eq!(sent(&hypervisor, &tagged(11), 10_000_000_000), None);
    let trusting = Share {
        sharing: Sharing::Rules,
        egress: Egress::Any,
    };
    hypervisor.share_as(PortId(SHARED), trusting).unwrap();
    assert_eq!(
        sent(&hypervisor, &tagged(11), 20_000_000_000),
        Some(tagged(11))
    );
    let untagged = [&[2; 12][..], &[8, 0], &[0; 46]].concat();
    assert_eq!(
        sent(&hypervisor, &untagged, 30_000_000_000),
        Some(tagged(10))
    );
    // Without `egress any` again, the old behaviour is restored.
    hypervisor
        .share(PortId(SHARED), Some(Sharing::Rules))
        .unwrap();
    assert_eq!(sent(&hypervisor, &tagged(11), 40_000_000_000), None);
}
