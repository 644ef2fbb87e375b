//! The shipped loop in a leaf-spine fabric: a link becomes slow, and its flows get another way.

mod common;

use std::collections::BTreeMap;

use common::{Bed, bed};
use packet::Nanos;
use reflex::{
    AcceptingElement, CommandTarget, Decision, DecisionRefusal, ElementIndex, MonitorIndex,
    Outcome, PlaneCounts, PlaneDriver, ReflexIndex, ReflexPlane, datagram,
};
use telemetry::FlowKey;

/// Time at which the link becomes slow.
const FAULT: Nanos = Nanos::from_millis(20);
/// A time after the last packet.
const END: Nanos = Nanos::from_millis(45);

fn run(edit: impl Fn(String, String) -> (String, String)) -> Bed {
    let mut bed = bed("slow_link", edit);
    bed.simulation.run_until(END).unwrap();
    bed.simulation.check_conservation().unwrap();
    check_counts(bed.plane.get().plane().counts());
    bed
}

fn check_counts(counts: PlaneCounts) {
    let taken = counts.not_allowed + counts.malformed + counts.repeated + counts.accepted;
    assert_eq!(counts.received, taken, "{counts:?}");
    assert_eq!(
        counts.reports,
        counts.classified + counts.unclassified,
        "{counts:?}"
    );
}

fn decisions(bed: &Bed) -> Vec<Decision> {
    bed.plane.get().plane().decisions().copied().collect()
}

#[test]
fn each_flow_of_a_slow_link_gets_another_way_once() {
    let bed = run(|fabric, loops| (fabric, loops));
    let decisions = decisions(&bed);
    let mut changes: BTreeMap<FlowKey, Vec<Decision>> = BTreeMap::new();
    for decision in &decisions {
        assert!(decision.at > FAULT, "{decision:?}");
        if let Outcome::Made(_) = decision.outcome {
            changes.entry(decision.flow).or_default().push(*decision);
        }
    }
    assert_eq!(changes.len(), 64);
    for (flow, changes) in &changes {
        let [change] = changes[..] else {
            panic!("{flow:?}: {changes:?}");
        };
        let Outcome::Made(made) = change.outcome else {
            unreachable!("these were made");
        };
        assert_eq!(made.port, 4);
        // By the first node, the slow spine and the sink.
        let path: Vec<u32> = change.path.get().iter().map(|node| node.0).collect();
        assert_eq!(path, [1, 11, 2]);
        assert!(change.latency > change.average + Nanos::from_micros(10));
        let (committed, _) = made.committed.expect("the store committed it");
        let answered = made.answered.expect("the element answered");
        // Messages between replicas take no time here; the way to the element takes 5 us.
        assert_eq!(committed, change.at);
        assert_eq!(answered, change.at + Nanos::from_micros(10));
    }
    let driver = bed.plane.get();
    let monitor = driver.plane().monitor_counts(MonitorIndex(0));
    assert_eq!(monitor.made, 64);
    assert_eq!(driver.plane().entries(ReflexIndex(0)), 64);
    let element = driver.element_counts(ElementIndex(0));
    assert_eq!(element.applied, 64);
    assert_eq!(element.refused + element.unknown, 0);
    // Each packet is a sample.
    assert_eq!(monitor.reports, monitor.normal + monitor.alarms);
    assert_eq!(monitor.reports, 20_000);
}

#[test]
fn without_a_fault_there_is_no_alarm() {
    let bed = run(|fabric, loops| {
        let end = fabric.find("[[fault]]").expect("the example has a fault");
        (fabric[..end].to_owned(), loops)
    });
    assert_eq!(decisions(&bed).len(), 0);
}

#[test]
fn equal_seeds_give_equal_decisions() {
    let [first, second] = [(), ()].map(|()| decisions(&run(|fabric, loops| (fabric, loops))));
    assert!(!first.is_empty());
    assert!(first == second);
}

#[test]
fn commands_reach_the_element_while_one_replica_is_away() {
    let mut bed = bed("slow_link", |fabric, loops| (fabric, loops));
    bed.simulation.run_until(FAULT).unwrap();
    let leader = bed.plane.get_mut().plane_mut().store_mut().leading();
    let (leader, _) = leader.expect("a node leads after 20 ms");
    let set = |is_stopped| {
        let mut driver = bed.plane.get_mut();
        driver
            .plane_mut()
            .store_mut()
            .set_stopped(leader, is_stopped);
    };
    set(true);
    bed.simulation.run_until(Nanos::from_millis(22)).unwrap();
    let refused = decisions(&bed)
        .iter()
        .any(|decision| decision.outcome == Outcome::Refused(DecisionRefusal::NoQuorum));
    assert!(refused, "no decision was made during the election");
    bed.simulation.run_until(END).unwrap();
    let element = bed.plane.get().element_counts(ElementIndex(0));
    assert_eq!(element.applied, 64, "{element:?}");
}

#[test]
fn a_replay_of_the_reports_repeats_the_decisions() {
    let bed = run(|fabric, loops| (fabric, loops));
    let loops = bed.plane.get().plane().loops().clone();
    let elements = loops.elements.iter();
    let elements = elements.map(|_| Box::<AcceptingElement>::default() as Box<dyn CommandTarget>);
    let elements = elements.collect();
    let mut replay = PlaneDriver::new(ReflexPlane::new(loops, Nanos::ZERO), elements);
    for (at, source, frame) in &*bed.reports.borrow() {
        let (from, _, payload) = datagram(frame).expect("all frames are reports");
        replay.receive(*at, *source, from, payload);
        replay.step(*at);
    }
    replay.run_until(END);
    let replayed: Vec<Decision> = replay.plane().decisions().copied().collect();
    assert!(!replayed.is_empty());
    let live = decisions(&bed);
    assert_eq!(replayed.len(), live.len());
    for (replayed, live) in replayed.iter().zip(&live) {
        assert_eq!(replayed, live);
    }
}
