//! The shipped loop in a leaf-spine fabric: a link becomes slow, and its flows get another way.

mod common;

use std::collections::BTreeMap;

use common::{Bed, bed, check_counts, example, read};
use packet::Nanos;
use reflex::{
    AcceptingElement, CommandTarget, Decision, DecisionRefusal, ElementIndex, Measured,
    MonitorIndex, Outcome, PlaneDriver, ReflexIndex, ReflexPlane, Setting, datagram,
};
use telemetry::{EqualClocks, FlowKey, ReportView, ReportedHops, TelemetryReport};

/// Time at which the link becomes slow.
const FAULT: Nanos = Nanos::from_millis(20);
/// A time after the last packet.
const END: Nanos = Nanos::from_millis(45);

fn run(edit: impl Fn(String, String) -> (String, String)) -> Bed {
    let mut bed = bed("slow_link", edit);
    bed.simulation.run_until(END).unwrap();
    bed.simulation.check_conservation().unwrap();
    check_counts(bed.plane.get().plane());
    bed
}

fn flow(decision: &Decision) -> FlowKey {
    *decision.subject.flow().expect("it is about a flow")
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
            changes.entry(flow(decision)).or_default().push(*decision);
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
        assert_eq!(made.setting, Setting::Action(Some(4)));
        // By the first node, the slow spine and the sink.
        let path: Vec<u32> = change.path.get().iter().map(|node| node.0).collect();
        assert_eq!(path, [1, 11, 2]);
        let Measured::Latency { latency, average } = change.measured else {
            panic!("{change:?}");
        };
        assert!(latency > average + Nanos::from_micros(10));
        let committed = made.committed.expect("the store committed it");
        assert!(made.log_index.is_some());
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

/// Returns the 99th percentile of the latencies of all packets that were reported in a time.
fn p99(bed: &Bed, time: std::ops::Range<Nanos>) -> u64 {
    let driver = bed.plane.get();
    let domain = &driver.plane().loops().sources[0].domain;
    let mut latencies = Vec::new();
    for (at, _, frame) in &*bed.reports.borrow() {
        let (_, _, payload) = datagram(frame).expect("all frames are reports");
        let report = TelemetryReport::parse(payload).expect("it is a report");
        for individual in report.individuals().filter(|_| time.contains(at)) {
            let view = ReportView::new(report.header.exporter, &individual, domain);
            let ReportedHops::Path(path) = view.hops else {
                panic!("the report has a path");
            };
            latencies.push(path.first_to_last_ingress(EqualClocks).unwrap().0);
        }
    }
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

#[test]
fn packets_are_as_fast_as_before_soon_after_the_fault() {
    let bed = run(|fabric, loops| (fabric, loops));
    let before = p99(&bed, Nanos::from_millis(5)..FAULT);
    let during = p99(&bed, FAULT..Nanos::from_millis(21));
    let after = p99(&bed, Nanos::from_millis(22)..END);
    assert!(during > 5 * before, "{before} {during}");
    assert!(after * 10 <= before * 11, "{before} {after}");
}

#[test]
fn a_change_that_the_switch_refuses_is_a_refused_decision_and_does_not_count() {
    // Another owner has the entry of one flow.
    let own = "detour { hdr.ipv4.src: 10.0.1.1; hdr.ipv4.dst: 10.0.2.1; hdr.ipv4.protocol: 17; \
               meta.l4_src: 1024; meta.l4_dst: 6000; } -> via(port: 3)\n";
    let entries = read(&example("slow_link").join("leaf1.entries")) + own;
    let file = std::env::temp_dir().join(format!("reflex-{}.entries", std::process::id()));
    std::fs::write(&file, entries).unwrap();
    let path = file.display().to_string();
    let bed = run(|fabric, loops| (fabric.replace("leaf1.entries", &path), loops));
    std::fs::remove_file(&file).unwrap();
    let decisions = decisions(&bed);
    let of_flow = decisions
        .iter()
        .filter(|it| flow(it).ports.unwrap().source == 1024);
    let refused = Outcome::Refused(DecisionRefusal::SwitchRefused);
    assert!(of_flow.clone().count() > 1);
    assert!(
        of_flow.clone().all(|it| it.outcome == refused),
        "{decisions:?}"
    );
    // It is held as another change would be.
    let times: Vec<Nanos> = of_flow.map(|it| it.at).collect();
    let hold = Nanos::from_millis(1);
    assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + hold));
    let driver = bed.plane.get();
    assert_eq!(driver.plane().entries(ReflexIndex(0)), 63);
    let monitor = driver.plane().monitor_counts(MonitorIndex(0));
    assert_eq!(monitor.made, 63);
    let refused = monitor.refused[DecisionRefusal::SwitchRefused as usize];
    assert_eq!(refused as usize, times.len());
    assert!(driver.last_refusal(ElementIndex(0)).is_some());
    // The store has what the switch has.
    let store = driver.plane().store();
    let changes = store.changes_of(consensus::ElementId(1)).into_iter();
    let there = changes.filter(|change| change.change.is_some());
    assert_eq!(there.count(), 63);
}

#[test]
fn without_a_fault_there_is_no_alarm() {
    let bed = run(|fabric, loops| {
        let end = fabric.find("[[fault]]").expect("the example has a fault");
        (fabric[..end].to_owned(), loops)
    });
    assert_eq!(decisions(&bed).len(), 0);
    let driver = bed.plane.get();
    let monitor = driver.plane().monitor_counts(MonitorIndex(0));
    assert_eq!((monitor.reports, monitor.normal), (20_000, 20_000));
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
fn a_port_that_leads_to_another_host_is_never_chosen() {
    let with_ports = |ports: &'static str| {
        move |fabric: String, loops: String| (fabric, loops.replace("[3, 4]", ports))
    };
    let bed = run(with_ports("[3, 2, 4]"));
    let element = bed.plane.get().element_counts(ElementIndex(0));
    assert_eq!(element.applied, 64);
    for decision in decisions(&bed) {
        if let Outcome::Made(made) = decision.outcome {
            assert_eq!(made.setting, Setting::Action(Some(4)), "{decision:?}");
        }
    }
    // Without another way, nothing changes, and each refusal has its reason.
    let bed = run(with_ports("[3, 2]"));
    let element = bed.plane.get().element_counts(ElementIndex(0));
    assert_eq!(element.applied, 0, "{element:?}");
    let decisions = decisions(&bed);
    let unsafe_path = Outcome::Refused(DecisionRefusal::UnsafePath);
    assert!(!decisions.is_empty());
    assert!(
        decisions
            .iter()
            .all(|decision| decision.outcome == unsafe_path)
    );
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

/// Gives a setting a value, and runs until it is in force.
fn set(bed: &mut Bed, name: &str, value: Option<&str>) {
    let id = bed.plane.get_mut().plane_mut().set(name, value).unwrap();
    let now = bed.simulation.now() + Nanos::from_millis(2);
    bed.simulation.run_until(now).unwrap();
    let mut driver = bed.plane.get_mut();
    let answer = std::iter::from_fn(|| driver.plane_mut().next_answer()).last();
    assert_eq!(answer.map(|(id, _)| id), Some(id));
    let mut settings = driver.plane().settings();
    let found = settings.find(|setting| setting.name == name);
    assert_eq!(found.unwrap().value.as_deref(), value);
}

#[test]
fn settings_in_the_store_are_in_force_while_the_plane_runs() {
    // The link is 50 us slower, so a threshold of 100 us finds nothing.
    let mut high = bed("slow_link", |fabric, loops| (fabric, loops));
    high.simulation.run_until(Nanos::from_millis(15)).unwrap();
    set(&mut high, "monitor/slow paths/above", Some("100 us"));
    high.simulation.run_until(Nanos::from_millis(24)).unwrap();
    assert_eq!(decisions(&high).len(), 0);
    // No detour goes by the other spine if its link is out of use.
    let mut bed = bed("slow_link", |fabric, loops| (fabric, loops));
    bed.simulation.run_until(Nanos::from_millis(15)).unwrap();
    set(&mut bed, "monitor/slow paths/above", Some("100 us"));
    set(&mut bed, "link/leaf2:4/state", Some("down"));
    set(&mut bed, "monitor/slow paths/above", None);
    bed.simulation.run_until(Nanos::from_millis(24)).unwrap();
    let unsafe_path = Outcome::Refused(DecisionRefusal::UnsafePath);
    let all = decisions(&bed);
    assert!(!all.is_empty() && all.iter().all(|it| it.outcome == unsafe_path));
    // A permission with fewer entries.
    set(&mut bed, "reflex/detour/entries", Some("10"));
    set(&mut bed, "link/leaf2:4/state", Some("up"));
    bed.simulation.run_until(END).unwrap();
    assert_eq!(bed.plane.get().plane().entries(ReflexIndex(0)), 10);
    check_counts(bed.plane.get().plane());
    let mut driver = bed.plane.get_mut();
    let refused = |driver: &mut PlaneDriver, name: &str, value: &str| {
        let error = driver.plane_mut().set(name, Some(value)).unwrap_err();
        error.to_string()
    };
    let words = refused(&mut driver, "monitor/slow paths/window", "5");
    assert!(words.contains("monitor/slow paths/above"), "{words}");
    let words = refused(&mut driver, "monitor/slow paths/above", "fast");
    assert!(words.contains("write a time with its unit"), "{words}");
}
