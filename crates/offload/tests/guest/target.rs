//! The target on the kernel: rules come and go by requests, and each fault has its named result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use offload::tc::{InterfaceState, TcPort, TcReport, TcTarget, TcTargetOptions};
use offload::{Flow, Placed, RuleCounts, RuleId, Step, Target, TargetEvent};
use packet::{Nanos, PortId};

use crate::bed::{Bed, PORTS, flow, run, set_nic, udp_frame};

/// Owner of the target's rules.
const OWNER: u32 = 0x7E57;

/// A target, its events and its time.
pub(crate) struct Rig {
    pub(crate) target: TcTarget,
    begin: Instant,
    events: Vec<TargetEvent>,
}

pub(crate) fn options() -> TcTargetOptions {
    let ports = (0..PORTS).map(|port| TcPort {
        port: PortId(port),
        interface: format!("nic{port}"),
        no_ip_options: true,
        valid_ip_checksums: false,
    });
    TcTargetOptions {
        check_period: Nanos::from_millis(50),
        counts_delay: Nanos::from_millis(50),
        ..TcTargetOptions::new(OWNER, ports.collect())
    }
}

impl Rig {
    pub(crate) fn open(options: TcTargetOptions) -> Rig {
        Rig {
            target: TcTarget::open(options).expect("the target opens"),
            begin: Instant::now(),
            events: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Nanos {
        Nanos(1_000_000_000 + self.begin.elapsed().as_nanos() as u64)
    }

    pub(crate) fn add(&mut self, rules: Vec<(u64, Flow)>) {
        let rules = rules
            .into_iter()
            .map(|(id, flow)| (RuleId(id), Arc::new(flow)));
        let now = self.now();
        self.target.add(now, rules.collect());
    }

    pub(crate) fn replace(&mut self, old: u64, new: u64, flow: Flow) {
        let rules = vec![(RuleId(old), RuleId(new), Arc::new(flow))];
        let now = self.now();
        self.target.replace(now, rules);
    }

    pub(crate) fn remove(&mut self, rules: &[u64]) {
        let rules: Vec<RuleId> = rules.iter().map(|id| RuleId(*id)).collect();
        let now = self.now();
        self.target.remove(now, &rules);
    }

    pub(crate) fn read(&mut self, rules: &[u64]) {
        let rules: Vec<RuleId> = rules.iter().map(|id| RuleId(*id)).collect();
        let now = self.now();
        self.target.read(now, &rules);
    }

    /// Takes what has happened, for later.
    pub(crate) fn poll(&mut self) {
        let now = self.now();
        self.target.poll(now, &mut self.events);
    }

    /// Waits for this number of events.
    pub(crate) fn wait(&mut self, count: usize) -> Vec<TargetEvent> {
        let begin = Instant::now();
        while self.events.len() < count {
            self.poll();
            let late = begin.elapsed() > Duration::from_secs(60);
            assert!(!late, "{count} events are awaited: {:?}", self.events);
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut events = std::mem::take(&mut self.events);
        self.events = events.split_off(count);
        events
    }

    pub(crate) fn wait_one(&mut self) -> TargetEvent {
        self.wait(1).remove(0)
    }

    /// Waits until the report fits.
    fn wait_report(&self, fits: impl Fn(&TcReport) -> bool) -> TcReport {
        let begin = Instant::now();
        loop {
            let report = self.target.report();
            if fits(&report) {
                return report;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "{report:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Returns a flow of one destination.
pub(crate) fn to(last: u8, port: u32) -> Flow {
    let steps = vec![Step::Output(PortId(port))];
    flow(&[(12, &[8, 0]), (30, &[10, 0, 0, last])], steps)
}

/// Returns a flow of one source, which has other masks than [`to`].
fn from(last: u8, port: u32) -> Flow {
    let steps = vec![Step::Output(PortId(port))];
    flow(&[(12, &[8, 0]), (26, &[10, 9, 9, last])], steps)
}

fn frame(last: u8) -> Vec<u8> {
    udp_frame([1; 4], [10, 0, 0, last], 60)
}

const IN_HARDWARE: Placed = Placed::InHardware;

fn added(id: u64) -> TargetEvent {
    TargetEvent::Added(RuleId(id), IN_HARDWARE)
}

/// Returns the numbers and packets of events with counts.
fn counted(event: &TargetEvent) -> (u64, u64, u64) {
    match event {
        TargetEvent::Counts(id, _, counts) | TargetEvent::Removed(id, counts) => {
            (id.0, counts.packets, counts.bytes)
        }
        other => panic!("no counts: {other:?}"),
    }
}

#[test]
fn a_rule_of_the_target_forwards_counts_and_goes_with_the_place_that_was_made_for_it() {
    let Some(mut bed) = Bed::open() else { return };
    run("tc", &["qdisc", "del", "dev", "nic1", "clsact"]);
    let mut rig = Rig::open(options());
    rig.add((1..=40).map(|id| (u64::from(id), to(id, 1))).collect());
    let mut events = rig.wait(40);
    events.sort_by_key(|event| format!("{event:?}").len());
    assert!((1..=40).all(|id| events.contains(&added(id))), "{events:?}");
    for _ in 0..3 {
        assert_eq!(bed.exchange(&frame(7)), [(PortId(1), frame(7))]);
    }
    let sent = rig.now();
    rig.read(&[7, 8]);
    let events = rig.wait(2);
    let mut found: Vec<_> = events.iter().map(counted).collect();
    found.sort_unstable();
    assert_eq!(found, [(7, 3, 180), (8, 0, 0)]);
    for event in &events {
        let TargetEvent::Counts(id, at, counts) = event else {
            panic!()
        };
        let last = counts
            .last_use
            .map(|last| last.0.abs_diff(sent.0) < 100_000_000);
        assert_eq!(last, (id.0 == 7).then_some(true), "{event:?}");
        assert!(*at >= sent);
    }
    bed.exchange(&frame(7));
    rig.remove(&[7, 99]);
    let mut found: Vec<_> = rig.wait(2).iter().map(counted).collect();
    found.sort_unstable();
    assert_eq!(found, [(7, 4, 240), (99, 0, 0)]);
    assert_eq!(bed.exchange(&frame(7)), []);
    assert_eq!(bed.session.dump(bed.nic, None).unwrap().len(), 39);
    assert!(run("tc", &["qdisc", "show", "dev", "nic1"]).contains("clsact"));
    rig.target.close().expect("all is removed");
    assert_eq!(bed.session.dump(bed.nic, None).unwrap(), []);
    assert!(!run("tc", &["qdisc", "show", "dev", "nic1"]).contains("clsact"));
    assert!(run("tc", &["qdisc", "show", "dev", "nic0"]).contains("clsact"));
}

#[test]
fn a_nic_that_is_full_within_a_batch_says_which_rules_it_has_no_room_for() {
    let Some(mut bed) = Bed::open() else { return };
    set_nic("capacity", "3");
    let mut rig = Rig::open(options());
    rig.add((1..=5).map(|id| (u64::from(id), to(id, 1))).collect());
    let events = rig.wait(5);
    let full = |id| TargetEvent::Full(RuleId(id));
    assert_eq!(events, [added(1), added(2), added(3), full(4), full(5)]);
    assert_eq!(rig.target.capacity().rules, Some(3));
    for last in 1..=5 {
        assert_eq!(bed.exchange(&frame(last)).len(), usize::from(last <= 3));
    }
    // A rule is replaced where there is no room: the old one goes first.
    rig.replace(2, 6, to(2, 2));
    let mut events = rig.wait(2);
    events.sort_by_key(|event| !matches!(event, TargetEvent::Removed(..)));
    assert_eq!(counted(&events[0]), (2, 1, 60));
    assert_eq!(events[1], added(6));
    rig.replace(3, 7, from(3, 2));
    let mut events = rig.wait(2);
    events.sort_by_key(|event| !matches!(event, TargetEvent::Removed(..)));
    assert_eq!(counted(&events[0]), (3, 1, 60));
    assert_eq!(events[1], added(7));
    assert_eq!(bed.exchange(&frame(2)), [(PortId(2), frame(2))]);
    assert_eq!(bed.exchange(&frame(3)), []);
    rig.remove(&[1]);
    rig.wait_one();
    rig.add(vec![(8, to(8, 1))]);
    assert_eq!(rig.wait_one(), added(8));
}

#[test]
fn a_replaced_rule_is_there_before_the_old_one_goes() {
    let Some(mut bed) = Bed::open() else { return };
    let mut rig = Rig::open(options());
    rig.add(vec![(1, to(1, 1)), (2, from(2, 1))]);
    rig.wait(2);
    bed.exchange(&frame(1));
    // One with the same keys, one with others.
    rig.replace(1, 3, to(1, 2));
    assert_eq!(rig.wait_one(), added(3));
    assert_eq!(counted(&rig.wait_one()), (1, 1, 60));
    rig.replace(2, 4, to(4, 2));
    assert_eq!(rig.wait_one(), added(4));
    assert_eq!(counted(&rig.wait_one()), (2, 0, 0));
    assert_eq!(bed.exchange(&frame(1)), [(PortId(2), frame(1))]);
    rig.read(&[3]);
    assert_eq!(counted(&rig.wait_one()), (3, 1, 60));
    // The new one is refused: the old one stays until its owner removes it.
    set_nic("refuse", "1");
    rig.replace(3, 5, to(1, 3));
    match rig.wait_one() {
        TargetEvent::Refused(RuleId(5), words) => assert!(words.contains("refused by the test")),
        other => panic!("{other:?}"),
    }
    assert_eq!(bed.exchange(&frame(1)), [(PortId(2), frame(1))]);
    rig.remove(&[3, 4]);
    rig.wait(2);
    assert_eq!(bed.session.dump(bed.nic, None).unwrap(), []);
}

#[test]
fn a_slow_driver_stops_no_caller_and_changes_overtake_additions() {
    let Some(_bed) = Bed::open() else { return };
    let mut rig = Rig::open(options());
    rig.add(vec![(1, to(1, 1))]);
    rig.wait(1);
    set_nic("delay_ms", "22");
    let begin = Instant::now();
    rig.add((2..=42).map(|id| (u64::from(id), to(id, 1))).collect());
    rig.replace(1, 100, to(1, 2));
    rig.remove(&[30]);
    rig.read(&[1]);
    let mut events = Vec::new();
    let now = rig.now();
    rig.target.poll(now, &mut events);
    let taken = begin.elapsed();
    assert!(taken < Duration::from_millis(15), "{taken:?}");
    rig.events.extend(events);
    let events = rig.wait(45);
    let at = |wanted: &TargetEvent| events.iter().position(|event| event == wanted);
    assert!(at(&added(100)) < at(&added(20)), "{events:?}");
    // A removal that depends on an addition comes after it.
    let removed = TargetEvent::Removed(RuleId(30), RuleCounts::default());
    assert!(at(&added(30)) < at(&removed), "{events:?}");
    assert!(begin.elapsed() > Duration::from_millis(42 * 22));
}

#[test]
fn a_late_refusal_has_the_driver_s_words_and_a_missing_module_the_kernel_s() {
    let Some(_bed) = Bed::open() else { return };
    let mut rig = Rig::open(options());
    set_nic("refuse", "1");
    set_nic("delay_ms", "300");
    rig.add(vec![(1, to(1, 1))]);
    let refused = |event: TargetEvent, wanted: &str| match event {
        TargetEvent::Refused(_, words) => assert!(words.contains(wanted), "{words}"),
        other => panic!("not refused: {other:?}"),
    };
    refused(rig.wait_one(), "refused by the test");
    set_nic("refuse", "0");
    set_nic("delay_ms", "0");
    run("rmmod", &["act_vlan"]);
    let push = offload::Edit::Insert {
        offset: 12,
        bytes: vec![0x81, 0, 0, 5],
    };
    let steps = vec![Step::Edit(push), Step::Output(PortId(1))];
    rig.add(vec![(2, flow(&[(12, &[8, 0])], steps))]);
    refused(rig.wait_one(), "TC action module");
    run("insmod", &["/lib/act_vlan.ko"]);
    assert_eq!(rig.target.report().counts.refused, 2);
}

#[test]
fn rules_and_priorities_of_others_stay_and_are_not_used() {
    let Some(mut bed) = Bed::open() else { return };
    let at = |priority: &'static str, protocol: &'static str| {
        let words = [
            "filter", "add", "dev", "nic0", "ingress", "protocol", protocol, "prio",
        ];
        run(
            "tc",
            &[&words[..], &[priority, "flower", "action", "drop"]].concat(),
        );
    };
    at("1000", "ipv6");
    let mut rig = Rig::open(options());
    rig.add(vec![(1, to(1, 1))]);
    assert_eq!(rig.wait_one(), added(1));
    // The next one is taken while the target runs.
    at("1002", "ipv6");
    rig.add(vec![(2, from(1, 1)), (3, from(2, 1))]);
    let events = rig.wait(2);
    assert!(
        events.contains(&added(2)) && events.contains(&added(3)),
        "{events:?}"
    );
    let there = bed.session.dump(bed.nic, None).unwrap();
    let mut priorities: Vec<_> = there.iter().map(|there| there.rule.priority).collect();
    priorities.sort_unstable();
    assert_eq!(priorities, [1000, 1001, 1002, 1003, 1003]);
    assert_eq!(rig.target.report().counts.priorities_left, 1);
    rig.target.close().expect("all is removed");
    let there = bed.session.dump(bed.nic, None).unwrap();
    assert_eq!(there.len(), 2, "{there:?}");
    // Another owner of the same cookie's form, and one that has a rule in the place of ours.
    let mut rig = Rig::open(options());
    rig.add(vec![(1, to(1, 1))]);
    rig.wait_one();
    run(
        "tc",
        &["filter", "del", "dev", "nic0", "ingress", "prio", "1001"],
    );
    let words = [
        "filter", "add", "dev", "nic0", "ingress", "protocol", "ip", "prio", "1001",
    ];
    let rest = [
        "handle",
        "1",
        "flower",
        "dst_ip",
        "10.0.0.99",
        "action",
        "drop",
    ];
    run("tc", &[&words[..], &rest].concat());
    rig.read(&[1]);
    match rig.wait_one() {
        TargetEvent::Lost(RuleId(1), _, words) => assert!(words.contains("another program")),
        other => panic!("{other:?}"),
    }
    rig.remove(&[1]);
    rig.wait_one();
    assert_eq!(bed.session.dump(bed.nic, None).unwrap().len(), 3);
    run("tc", &["qdisc", "del", "dev", "nic0", "clsact"]);
}

#[test]
fn a_rule_that_another_program_removes_is_lost_and_the_place_for_rules_is_made_again() {
    let Some(mut bed) = Bed::open() else { return };
    let mut rig = Rig::open(options());
    rig.add(vec![(1, to(1, 1)), (2, to(2, 1))]);
    rig.wait(2);
    run("tc", &["qdisc", "del", "dev", "nic0", "clsact"]);
    rig.read(&[1, 2]);
    for event in rig.wait(2) {
        let TargetEvent::Lost(_, _, words) = event else {
            panic!("{event:?}")
        };
        assert!(words.contains("another program removed"), "{words}");
    }
    rig.add(vec![(3, to(1, 1))]);
    assert_eq!(rig.wait_one(), added(3));
    assert_eq!(bed.exchange(&frame(1)).len(), 1);
}

#[test]
fn an_interface_that_goes_down_or_away_takes_its_rules_with_its_name_in_the_reason() {
    let Some(mut bed) = Bed::open() else { return };
    let mut rig = Rig::open(options());
    let state = |report: &TcReport, port: usize| report.ports[port].state;
    let lost = |event: TargetEvent, wanted: &str| match event {
        TargetEvent::Lost(_, _, words) => assert!(words.contains(wanted), "{words}"),
        other => panic!("not lost: {other:?}"),
    };
    rig.add(vec![(1, to(1, 1)), (2, to(2, 2))]);
    rig.wait(2);
    run("ip", &["link", "set", "nic1", "down"]);
    lost(rig.wait_one(), "the interface 'nic1' of port 1 is down");
    assert_eq!(bed.exchange(&frame(1)), []);
    assert_eq!(bed.exchange(&frame(2)).len(), 1);
    let why = rig.target.can(&to(1, 1)).unwrap_err().to_string();
    assert!(why.contains("'nic1' of port 1 is down"), "{why}");
    run("ip", &["link", "set", "nic1", "up"]);
    rig.wait_report(|report| state(report, 1) == InterfaceState::Up);
    rig.add(vec![(3, to(1, 1))]);
    assert_eq!(rig.wait_one(), added(3));
    // A name is only a name.
    run("ip", &["link", "set", "nic1", "down"]);
    lost(rig.wait_one(), "down");
    run("ip", &["link", "set", "nic1", "name", "other1"]);
    run("ip", &["link", "set", "other1", "up"]);
    rig.wait_report(|report| {
        report.ports[1].interface == "other1" && state(report, 1) == InterfaceState::Up
    });
    rig.add(vec![(4, to(1, 1))]);
    assert_eq!(rig.wait_one(), added(4));
    assert_eq!(bed.exchange(&frame(1)).len(), 1);
    run("ip", &["link", "set", "other1", "down"]);
    lost(rig.wait_one(), "down");
    run("ip", &["link", "set", "other1", "name", "nic1"]);
    run("ip", &["link", "set", "nic1", "up"]);
    rig.wait_report(|report| report.ports[1].interface == "nic1");
    // To another network namespace and back.
    let mut other = std::process::Command::new("unshare");
    let mut other = other
        .args(["-n", "sleep", "1000"])
        .spawn()
        .expect("a namespace");
    std::thread::sleep(Duration::from_millis(300));
    run(
        "ip",
        &["link", "set", "nic2", "netns", &other.id().to_string()],
    );
    lost(rig.wait_one(), "the interface 'nic2' of port 2 has gone");
    rig.wait_report(|report| state(report, 2) == InterfaceState::Gone);
    let _ = other.kill();
    let _ = other.wait();
    rig.wait_report(|report| state(report, 2) != InterfaceState::Gone);
    run("ip", &["link", "set", "nic2", "up"]);
    rig.wait_report(|report| state(report, 2) == InterfaceState::Up);
    rig.add(vec![(5, to(2, 2))]);
    assert_eq!(rig.wait_one(), added(5));
    assert_eq!(bed.exchange(&frame(2)).len(), 1);
}

#[test]
fn an_interface_that_is_removed_and_made_again_is_used_again() {
    let Some(mut bed) = Bed::open() else { return };
    run("ip", &["link", "add", "gone0", "type", "dummy"]);
    run("ip", &["link", "set", "gone0", "up"]);
    let mut options = options();
    options.ports.push(TcPort {
        port: PortId(9),
        interface: "gone0".to_owned(),
        no_ip_options: true,
        valid_ip_checksums: false,
    });
    let mut rig = Rig::open(options);
    rig.add(vec![(1, to(1, 9)), (2, to(2, 1))]);
    assert_eq!(rig.wait(2), [added(1), added(2)]);
    run("ip", &["link", "del", "gone0"]);
    match rig.wait_one() {
        TargetEvent::Lost(RuleId(1), _, words) => {
            assert!(
                words.contains("the interface 'gone0' of port 9 has gone"),
                "{words}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bed.session.dump(bed.nic, None).unwrap().len(), 1);
    run("ip", &["link", "add", "gone0", "type", "dummy"]);
    run("ip", &["link", "set", "gone0", "up"]);
    rig.wait_report(|report| report.ports[4].state == InterfaceState::Up);
    rig.add(vec![(3, to(1, 9))]);
    assert_eq!(rig.wait_one(), added(3));
    drop(rig);
    run("ip", &["link", "del", "gone0"]);
}

#[test]
fn answers_that_do_not_fit_in_the_queue_lose_no_rule() {
    let Some(mut bed) = Bed::open() else { return };
    let mut rig = Rig::open(TcTargetOptions {
        receive_buffer: 1,
        ..options()
    });
    rig.add((1..=30).map(|id| (u64::from(id), to(id, 1))).collect());
    let mut events = rig.wait(30);
    events.sort_by_key(|event| match event {
        TargetEvent::Added(id, _) => id.0,
        other => panic!("{other:?}"),
    });
    let wanted: Vec<_> = (1..=30).map(added).collect();
    assert_eq!(events, wanted);
    assert!(rig.target.report().counts.overruns > 0);
    bed.exchange(&frame(3));
    rig.replace(3, 103, to(3, 2));
    rig.replace(4, 104, from(4, 2));
    rig.wait(4);
    rig.remove(&[1, 2]);
    rig.wait(2);
    rig.read(&[5]);
    assert_eq!(counted(&rig.wait_one()), (5, 0, 0));
    let there = bed.session.dump(bed.nic, None).unwrap();
    assert_eq!(there.len(), 28);
    assert_eq!(bed.exchange(&frame(3)), [(PortId(2), frame(3))]);
}

#[test]
fn a_rule_leaves_when_longer_frames_than_its_flow_s_can_come() {
    let Some(_bed) = Bed::open() else { return };
    let mut rig = Rig::open(options());
    let mut short = to(1, 1);
    short.length.max = 9018;
    rig.add(vec![(1, short.clone()), (2, to(2, 1))]);
    assert_eq!(rig.wait(2), [added(1), added(2)]);
    run("ip", &["link", "set", "nic0", "mtu", "9100"]);
    match rig.wait_one() {
        TargetEvent::Lost(RuleId(1), _, words) => assert!(words.contains("9018 bytes"), "{words}"),
        other => panic!("{other:?}"),
    }
    assert!(rig.target.can(&short).is_err() && rig.target.can(&to(2, 1)).is_ok());
    assert_eq!(rig.target.report().rules, 1);
}

#[test]
fn an_own_rule_that_no_one_knows_is_removed_at_the_next_reading() {
    let Some(mut bed) = Bed::open() else { return };
    let mut rig = Rig::open(options());
    rig.add(vec![(1, to(1, 1)), (2, to(2, 1))]);
    rig.wait(2);
    let there = bed.session.dump(bed.nic, None).unwrap();
    rig.remove(&[2]);
    rig.wait_one();
    // The rule comes back in another place, as after a request that was thought to have failed.
    let mut stray = there
        .into_iter()
        .find(|there| there.rule.cookie[11] == 2)
        .expect("a rule")
        .rule;
    stray.priority = 5;
    bed.session
        .add(bed.nic, &stray)
        .expect("the kernel takes it");
    rig.read(&[1]);
    assert_eq!(counted(&rig.wait_one()), (1, 0, 0));
    rig.wait_report(|report| report.counts.strays == 1);
    let there = bed.session.dump(bed.nic, None).unwrap();
    assert_eq!(there.len(), 1);
    assert_eq!(there[0].rule.cookie[11], 1);
}
