//! Tests that simulated fabrics deliver the hosts' traffic, as fast as links and switches allow,
//! and deterministically.

mod common;

use common::{LONG, finish, make, run, simulation, topology};
use fabric::topology::SwitchId;
use packet::Nanos;

/// Topology with the networks of the router example.
const ROUTER: &str = r#"
[defaults.link]
rate = "100 Mbit/s"
delay = "50 us"
queue = 50

[[switch]]
name = "r"
program = "router/router.p4"
entries = "router/router.entries"
service = "2 us"

[[host]]
name = "h1"
mac = "02:00:00:00:01:02"
ip = "10.0.1.2/24"
gateway = "10.0.1.1"

[[host]]
name = "h2"
mac = "02:00:00:00:02:02"
ip = "10.0.2.2/24"
gateway = "10.0.2.1"
"#;

fn routed(links: &str, traffic: &str) -> String {
    format!(
        "seed = 7\n{ROUTER}
[[link]]
ends = [\"h1\", \"r:0\"]
{links}
[[link]]
ends = [\"h2\", \"r:1\"]
{links}
{traffic}"
    )
}

fn flow(from: &str, to: &str, bytes: &str) -> String {
    format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nbytes = \"{bytes}\"\n")
}

/// Returns a topology of two hosts on one link, with static neighbor entries.
fn cable(link: &str, traffic: &str) -> String {
    format!(
        r#"
[[host]]
name = "a"
mac = "02:00:00:00:00:0a"
ip = "10.0.0.1/24"
neighbours = {{ "10.0.0.2" = "02:00:00:00:00:0b" }}
[[host]]
name = "b"
mac = "02:00:00:00:00:0b"
ip = "10.0.0.2/24"
neighbours = {{ "10.0.0.1" = "02:00:00:00:00:0a" }}
[[link]]
ends = ["a", "b"]
{link}
{traffic}"#
    )
}

const PING: &str = "[[ping]]\nfrom = \"a\"\nto = \"b\"\ncount = 3\n";

#[test]
fn tcp_through_the_example_router_arrives_intact_however_much_is_lost() {
    for (loss, most_seconds) in [("0.0", 0.5), ("0.01", 100.0), ("0.05", 900.0)] {
        let text = routed(
            &format!("loss = {loss}"),
            &(flow("h1", "h2", "1 MB") + &flow("h2", "h1", "300 KB")),
        );
        let report = run(&text);
        for flow in &report.flows {
            assert_eq!(
                (flow.received, flow.is_intact),
                (flow.bytes, true),
                "{loss}"
            );
            let time = flow.completion_seconds.unwrap();
            assert!(time < most_seconds, "{loss}: {time}");
        }
        let lost: u64 = report.links.iter().map(|link| link.lost).sum();
        assert_eq!(lost > 0, loss != "0.0");
    }
}

#[test]
fn pings_through_the_router_are_answered() {
    let ping = "[[ping]]\nfrom = \"h1\"\nto = \"h2\"\ncount = 5\ninterval = \"10 ms\"\n";
    let report = run(&routed("", ping));
    assert_eq!(report.pings[0].sent, 5);
    assert_eq!(report.pings[0].microseconds.len(), 5);
}

/// A frame of 98 bytes (Ethernet 14, IPv4 20, ICMP 8, payload 56) takes 784 us at 1 Mbit/s, in
/// each direction.
#[test]
fn a_ping_over_a_cable_takes_the_frame_s_time_and_the_delay_twice() {
    let report = run(&cable("rate = \"1 Mbit/s\"\ndelay = \"100 us\"", PING));
    assert_eq!(report.pings[0].microseconds, [2.0 * (784.0 + 100.0); 3]);
    let report = run(&cable("delay = \"7 us\"", PING));
    assert_eq!(report.pings[0].microseconds, [14.0; 3]);
}

/// Two links and the processor in each direction. 98 bytes take 7.84 us at 100 Mbit/s.
#[test]
fn a_switch_adds_the_time_of_its_processor() {
    let ping = "[[ping]]\nfrom = \"h1\"\nto = \"h2\"\ncount = 3\n";
    let report = run(&routed("", ping));
    let way = 2.0 * (7.84 + 50.0) + 2.0;
    // The first ping is delayed by ARP.
    assert_eq!(report.pings[0].microseconds[1..], [2.0 * way; 2]);
}

#[test]
fn a_flow_takes_the_whole_rate_and_no_more() {
    let text = cable(
        "rate = \"10 Mbit/s\"\ndelay = \"10 us\"",
        &flow("a", "b", "2 MB"),
    );
    let report = run(&text);
    // 1460 bytes of payload in frames of 1514 bytes.
    let best = 2e6 * 8.0 / 10e6 * 1514.0 / 1460.0;
    let time = report.flows[0].completion_seconds.unwrap();
    assert!((best..best * 1.05).contains(&time), "{time} for {best}");
}

#[test]
fn flows_share_a_link_of_which_nothing_is_left_over() {
    let text = cable(
        "rate = \"10 Mbit/s\"\ndelay = \"10 us\"",
        &flow("a", "b", "500 KB").repeat(4),
    );
    let report = run(&text);
    let times = report.completion_times(fabric::topology::FlowKind::Named);
    let best = 2e6 * 8.0 / 10e6 * 1514.0 / 1460.0;
    let last = times.quantile(1.0).unwrap();
    assert!((best..best * 1.05).contains(&last), "{last} for {best}");
    assert!(times.quantile(0.0).unwrap() > best * 0.8, "{times:?}");
}

#[test]
fn what_a_switch_s_queue_does_not_take_is_dropped_by_name_and_sent_again() {
    let text = format!(
        "{ROUTER}
[[link]]
ends = [\"h1\", \"r:0\"]
[[link]]
ends = [\"h2\", \"r:1\"]
rate = \"5 Mbit/s\"
queue = 20
{}",
        flow("h1", "h2", "500 KB")
    );
    let report = run(&text);
    let reasons: Vec<&str> = report.dropped.iter().map(|d| d.reason.as_str()).collect();
    assert_eq!(reasons, ["tail_drop"]);
    assert!(report.dropped[0].packets > 0);
    assert!(report.flows[0].is_intact);
}

#[test]
fn a_processor_that_is_too_slow_drops_by_name() {
    let text = routed("", &flow("h1", "h2", "200 KB"))
        .replace("service = \"2 us\"", "service = \"300 us\"\nbacklog = 4");
    let report = run(&text);
    let drops = &report.switches[0].dropped;
    assert_eq!(drops.len(), 1);
    assert_eq!(drops[0].reason, fabric::OVERLOADED);
    assert!(report.flows[0].is_intact);
}

#[test]
fn packets_for_a_port_without_a_link_are_dropped_by_name() {
    // The router has a route to 10.9.0.0/16 through port 1, which has no link.
    let text = format!(
        "{ROUTER}
[[host]]
name = \"far\"
mac = \"02:00:00:00:09:02\"
ip = \"10.9.0.2/24\"
[[link]]
ends = [\"h1\", \"r:0\"]
[[link]]
ends = [\"h2\", \"r:5\"]
[[link]]
ends = [\"far\", \"r:6\"]
[[ping]]
from = \"h1\"
to = \"far\"
count = 2
interval = \"1 ms\"
"
    );
    let mut simulation = simulation(topology(&text));
    simulation.run_until(Nanos::from_secs(1)).unwrap();
    simulation.check_conservation().unwrap();
    let report = simulation.report();
    let nowhere = report.dropped.iter().find(|drop| drop.reason == "no_link");
    assert_eq!(nowhere.map(|drop| drop.packets), Some(2), "{report:#?}");
}

const BUSY: &str = "loss = 0.02\nrate = \"20 Mbit/s\"\nqueue = 10";

fn busy_traffic() -> String {
    flow("h1", "h2", "200 KB").repeat(3) + &flow("h2", "h1", "50 KB").repeat(5)
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_seed_another() {
    let text = routed(BUSY, &busy_traffic());
    let first = run(&text);
    assert_eq!(first, run(&text));
    assert_ne!(first, run(&text.replace("seed = 7", "seed = 8")));
}

#[test]
fn the_slices_in_which_time_passes_change_nothing() {
    let text = routed(BUSY, &busy_traffic());
    let reports = [Nanos(977), Nanos::from_micros(333), Nanos::from_secs(1)].map(|slice| {
        let mut simulation = simulation(topology(&text));
        let mut now = Nanos::ZERO;
        while now < Nanos::from_millis(300) {
            now = (now + slice).min(Nanos::from_millis(300));
            simulation.run_until(now).unwrap();
        }
        simulation.report()
    });
    assert_eq!(reports[0], reports[1]);
    assert_eq!(reports[0], reports[2]);
}

#[test]
fn packets_are_accounted_for_at_every_moment() {
    let mut simulation = simulation(topology(&routed(BUSY, &busy_traffic())));
    let mut saw_some_in_flight = false;
    for millisecond in 0..2000 {
        simulation
            .run_until(Nanos::from_millis(millisecond))
            .unwrap();
        simulation.check_conservation().unwrap();
        let report = simulation.report();
        let dropped: u64 = report.dropped.iter().map(|drop| drop.packets).sum();
        assert_eq!(report.made, report.delivered + dropped + report.in_flight);
        saw_some_in_flight |= report.in_flight > 0;
    }
    assert!(saw_some_in_flight);
}

#[test]
fn a_flow_can_be_added_while_time_passes() {
    let text = cable("rate = \"10 Mbit/s\"", &flow("a", "b", "10 KB"));
    let mut simulation = simulation(topology(&text));
    let first = finish(&mut simulation).flows[0].completion_seconds.unwrap();
    let again = topology(&text).flows[0];
    simulation.run_until(Nanos::from_secs(20)).unwrap();
    simulation.add_flow(again).unwrap();
    simulation.run(LONG, &mut |_| true).unwrap();
    let second = simulation.report().flows[1].completion_seconds.unwrap();
    assert!((second - first).abs() < 1e-3, "{first} {second}");
}

/// Requests each 10 ms on a link without rate, with a delay of 1 ms.
const REGULAR: &str =
    "[[ping]]\nfrom = \"a\"\nto = \"b\"\ncount = 10\ninterval = \"10 ms\"\nat = \"5 ms\"\n";

#[test]
fn a_fault_from_one_end_loses_the_frames_of_that_end_alone() {
    let fault = |from| {
        format!(
            "{REGULAR}[[fault]]\nlink = [\"b\", \"a\"]\nfrom = \"{from}\"\nat = \"22 ms\"\n\
             until = \"52 ms\"\nloss = 1.0\n"
        )
    };
    // The requests of 25, 35 and 45 ms are lost, or their answers.
    for (from, lost) in [("a", [3, 0]), ("b", [0, 3])] {
        let mut simulation = simulation(topology(&cable("delay = \"1 ms\"", &fault(from))));
        simulation.run_until(Nanos::from_secs(1)).unwrap();
        simulation.check_conservation().unwrap();
        let report = simulation.report();
        assert_eq!(report.pings[0].microseconds.len(), 7, "{from}");
        let of = |end: &str| report.links.iter().find(|link| link.from == end);
        assert_eq!(["a", "b"].map(|end| of(end).unwrap().lost), lost, "{from}");
    }
}

#[test]
fn a_switch_with_a_fast_clock_takes_less_time_and_one_set_ahead_takes_as_much() {
    let ping = "[[ping]]\nfrom = \"h1\"\nto = \"h2\"\ncount = 4\ninterval = \"20 ms\"\n";
    let last = |fault: &str| {
        let text = routed("", &format!("{ping}{fault}")).replace("\"2 us\"", "\"3 ms\"");
        let mut simulation = simulation(topology(&text));
        simulation.run_until(Nanos::from_secs(1)).unwrap();
        simulation.check_conservation().unwrap();
        let times = &simulation.report().pings[0].microseconds;
        times.last().expect("a ping is answered").round() as u64
    };
    let fault = |deviation| format!("[[fault]]\nclock = \"r\"\nat = \"5 ms\"\n{deviation}\n");
    // A request and its answer take the switch 3 ms each, by its clock.
    let right = last("");
    assert!((6_000..7_000).contains(&right), "{right}");
    let fast = last(&fault("drift = 0.5"));
    assert!((right - fast).abs_diff(2_000) < 2, "{fast}");
    assert_eq!(last(&fault("ahead = \"7 ms\"")), right);
}

#[test]
fn a_switch_that_is_loaded_again_keeps_its_clock() {
    let ping = "[[ping]]\nfrom = \"h1\"\nto = \"h2\"\ncount = 4\ninterval = \"20 ms\"\n";
    let last = |fault: &str| {
        let text = routed("", &format!("{ping}{fault}")).replace("\"2 us\"", "\"3 ms\"");
        let topology = topology(&text);
        let spec = topology.switches[0].clone();
        let mut simulation = simulation(topology);
        simulation.run_until(Nanos::from_millis(15)).unwrap();
        let node = make(&spec, &interp::Interp).unwrap();
        simulation.replace_switch(SwitchId(0), node).unwrap();
        simulation.run_until(Nanos::from_secs(1)).unwrap();
        simulation.check_conservation().unwrap();
        let times = &simulation.report().pings[0].microseconds;
        times.last().expect("a ping is answered").round() as u64
    };
    let fault = "[[fault]]\nclock = \"r\"\nat = \"5 ms\"\ndrift = 0.5\n";
    let (right, fast) = (last(""), last(fault));
    assert!((right - fast).abs_diff(2_000) < 2, "{right} {fast}");
}

#[test]
fn a_clock_that_changes_wakes_no_switch_that_pauses() {
    let text = "[[ping]]\nfrom = \"h1\"\nto = \"h2\"\ncount = 1\n\
                [[fault]]\npause = \"r\"\nat = \"1 ms\"\nuntil = \"30 ms\"\n\
                [[fault]]\nclock = \"r\"\nat = \"2 ms\"\nahead = \"7 ms\"\n";
    let text = routed("", text).replace("\"2 us\"", "\"3 ms\"");
    let mut simulation = simulation(topology(&text));
    simulation.run_until(Nanos::from_secs(1)).unwrap();
    simulation.check_conservation().unwrap();
    let times = &simulation.report().pings[0].microseconds;
    assert!(times[0] > 29_000.0, "{times:?}");
}

#[test]
fn a_partition_loses_the_frames_between_both_sides_in_the_given_ways() {
    // The requests of 25, 35 and 45 ms are lost at the side of the asker, or their answers.
    for (nodes, way, lost) in [
        ("a", "out", [3, 0]),
        ("a", "in", [0, 3]),
        ("b", "out", [0, 3]),
        ("b", "in", [3, 0]),
        // No request arrives, so there is no answer to lose.
        ("b", "both", [3, 0]),
    ] {
        let fault = format!(
            "{REGULAR}[[fault]]\npartition = [\"{nodes}\"]\nway = \"{way}\"\nat = \"22 ms\"\n\
             until = \"52 ms\"\n"
        );
        let mut simulation = simulation(topology(&cable("delay = \"1 ms\"", &fault)));
        simulation.run_until(Nanos::from_secs(1)).unwrap();
        simulation.check_conservation().unwrap();
        let report = simulation.report();
        assert_eq!(report.pings[0].microseconds.len(), 7, "{nodes} {way}");
        let of = |end: &str| report.links.iter().find(|link| link.from == end);
        assert_eq!(
            ["a", "b"].map(|end| of(end).unwrap().lost),
            lost,
            "{nodes} {way}"
        );
    }
}

#[test]
fn what_comes_while_a_node_pauses_is_done_after_the_pause_in_order() {
    let pause = |node| {
        format!("{REGULAR}[[fault]]\npause = \"{node}\"\nat = \"22 ms\"\nuntil = \"52 ms\"\n")
    };
    // The answerer gets the requests of 25, 35 and 45 ms at 52 ms.
    let report = run(&cable("delay = \"1 ms\"", &pause("b")));
    let times: Vec<u64> = report.pings[0]
        .microseconds
        .iter()
        .map(|it| it.round() as u64)
        .collect();
    let late = [28_000, 18_000, 8_000];
    assert_eq!(times, [&[2000; 2][..], &late, &[2000; 5]].concat());
    // The asker has no timer meanwhile: it asks at 52 ms, and what it asks is answered.
    let report = run(&cable("delay = \"1 ms\"", &pause("a")));
    assert_eq!(report.pings[0].sent, 10);
    assert_eq!(report.pings[0].microseconds.len(), 10);
    // A pause without an end keeps its frames on their way, and breaks no balance.
    let text = format!("{REGULAR}[[fault]]\npause = \"b\"\nat = \"22 ms\"\n");
    let mut simulation = simulation(topology(&cable("delay = \"1 ms\"", &text)));
    simulation.run_until(Nanos::from_secs(1)).unwrap();
    simulation.check_conservation().unwrap();
    assert_eq!(simulation.report().pings[0].microseconds.len(), 2);
}
