//! Tests of split programs in simulated fabrics: requests and responses take their time, all
//! packets arrive, and the report is the same each time.

mod common;

use std::sync::Arc;

use common::{LONG, compile, topology};
use exec::Engine;
use fabric::topology::{PlaneSpec, SplitSpec, SwitchSpec};
use fabric::{Node, Report, Simulation, SplitFabric, Topology};
use interp::Interp;
use passes::split::{SplitOptions, split};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/ports.p4");

/// A program over a switch and two servers. Its flows are UDP source ports. Links have no rate.
const PORTS: &str = r#"
seed = 3
[split]
program = "PROGRAM"
SPLIT

[defaults.link]
delay = "1 us"
queue = 10000

[[switch]]
name = "r"

[[server]]
name = "a"
workers = WORKERS
service = "9 us"
backlog = 10000

[[server]]
name = "b"
workers = WORKERS
service = "9 us"
backlog = 10000

[[host]]
name = "h1"
mac = "02:00:00:00:01:02"
ip = "10.0.1.2/24"
gateway = "10.0.1.1"
neighbours = { "10.0.1.1" = "02:00:00:00:01:01" }

[[host]]
name = "h2"
mac = "02:00:00:00:02:02"
ip = "10.0.2.2/24"
gateway = "10.0.2.1"
neighbours = { "10.0.2.1" = "02:00:00:00:02:01" }

[[link]]
ends = ["h1", "r:0"]
[[link]]
ends = ["h2", "r:1"]
[[link]]
ends = ["a", "r:10"]
[[link]]
ends = ["r:11", "b"]

[[traffic]]
from = "h1"
to = "h2"
TRAFFIC
"#;

fn ports(split: &str, workers: u16, traffic: &str) -> Topology {
    let text = PORTS.replace("PROGRAM", PROGRAM);
    let text = text.replace("SPLIT", split).replace("TRAFFIC", traffic);
    topology(&text.replace("WORKERS", &workers.to_string()))
}

fn make(spec: &SwitchSpec) -> Result<Box<dyn Node>, String> {
    let PlaneSpec::Split(split) = &spec.plane else {
        return common::make(spec, &Interp);
    };
    let fabric = planes(split)?;
    let node = fabric.into_node(split, spec.service);
    node.map_err(|error| error.to_string())
}

fn planes(spec: &SplitSpec) -> Result<SplitFabric, String> {
    let options = SplitOptions {
        mirror_all: spec.mirror_all,
        phv_bits: spec.phv_bits,
        ..SplitOptions::default()
    };
    let program = split(&compile(&spec.program)?, &options).map_err(|error| error.to_string())?;
    let mut engine = |_: Option<u16>| Box::new(Interp) as Box<dyn Engine>;
    let fabric = SplitFabric::new(&program, spec, options.request_port, 1, &mut engine);
    let mut fabric = fabric.map_err(|error| error.to_string())?;
    let whole = fabric.coordinator_mut().whole_mut();
    let ports =
        (1024..2024).map(|port| format!("ports {{ hdr.udp.src: {port}; }} -> to_port(1)\n"));
    let program = Arc::clone(whole.program());
    let text: String = ports.collect();
    let entries = entries::read(&program, "ports.entries", &text);
    let entries = entries.map_err(|errors| format!("{}", errors[0]))?;
    apply_entries::apply_file(whole, &entries).map_err(|error| error.to_string())?;
    Ok(fabric)
}

fn run(topology: Topology) -> Report {
    let mut simulation = Simulation::new(topology, &mut make).unwrap();
    simulation.run(LONG, &mut |_| true).unwrap();
    simulation.check_conservation().unwrap();
    assert!(simulation.is_done());
    simulation.report()
}

#[test]
fn a_request_takes_the_time_of_two_links_and_of_the_server() {
    let traffic = "packets = 1\ninterval = \"1 us\"";
    let report = run(ports("install = \"1 s\"", 1, traffic));
    let stream = &report.streams[0];
    assert_eq!((stream.sent, stream.received), (1, 1));
    assert_eq!(stream.latency.unwrap().mean_us, 2.0 + 2.0 + 9.0);
    let split = report.switches[0].split.unwrap();
    assert_eq!((split.counts.requests, split.counts.answered), (1, 1));
    assert_eq!(split.share_in_switch, Some(0.0));
    assert_eq!(
        report
            .servers
            .iter()
            .map(|server| server.requests)
            .sum::<u64>(),
        1
    );
}

#[test]
fn packets_need_no_server_from_the_time_at_which_the_entry_works() {
    let traffic = "packets = 100\ninterval = \"100 us\"";
    let report = run(ports("install = \"1.5 ms\"", 1, traffic));
    let split = report.switches[0].split.unwrap();
    // The first packet asks for its entry at 1 us, which works at 1501 us. The others are at the
    // switch at 101 us, 201 us and so on.
    assert_eq!(report.streams[0].received, 100);
    let counts = split.counts;
    assert_eq!(
        (counts.requests, counts.answered, counts.moves),
        (15, 15, 1)
    );
    assert_eq!(split.share_in_switch, Some(0.85));
}

#[test]
fn the_workers_of_a_server_have_requests_of_their_own_flows() {
    // A server with one worker cannot serve its half of the requests, one with eight workers can.
    let traffic = "packets = 3000\ninterval = \"3300 ns\"\nflows = 500";
    let most = |workers| {
        let report = run(ports("install = \"10 s\"", workers, traffic));
        let stream = &report.streams[0];
        assert_eq!((stream.received, stream.reordered), (3000, 0));
        let loads: Vec<f64> = report.servers.iter().map(|server| server.load).collect();
        assert!(loads.iter().all(|load| *load <= 1.0), "{loads:?}");
        stream.latency.unwrap().p50_us
    };
    let (one, eight) = (most(1), most(8));
    assert!(one > 4.0 * eight, "{one} {eight}");
}

#[test]
fn the_same_topology_gives_the_same_report_each_time() {
    let traffic = "packets = 2000\ninterval = \"2 us\"\nflows = 300\nalpha = 0.9";
    let report = || run(ports("install = \"100 us\"", 2, traffic));
    assert_eq!(report(), report());
}

/// Entries move all the time while packets fly. `split` has order and placement.
fn under_moves(split: &str, interval: &str) -> Report {
    let traffic = format!("packets = 8000\ninterval = \"{interval}\"\nflows = 400\nalpha = 0.9");
    let text = format!("install = \"1.5 ms\"\n{split}");
    let report = run(ports(&text, 8, &traffic));
    let split = report.switches[0].split.unwrap();
    assert_eq!(report.streams[0].received, 8000, "none is lost");
    assert_eq!(split.unanswered, 0);
    assert_eq!(split.counts.refused, 0);
    assert!(split.counts.moves > 100, "{split:?}");
    report
}

#[test]
fn strict_order_keeps_the_packets_of_a_flow_in_order_while_entries_move() {
    for placement in [
        "top = 150",
        "placement = \"heap\"\ntop = 50\nwindow = \"4 ms\"\nmargin = 0.0",
        "placement = \"threshold\"\ntop = 50\nwindow = \"4 ms\"\nmargin = 0.0",
        "placement = \"random\"\ntop = 50\nwindow = \"4 ms\"\nage = 1",
    ] {
        let report = under_moves(placement, "20 us");
        let split = report.switches[0].split.unwrap();
        assert_eq!(report.streams[0].reordered, 0, "{placement}");
        let share = split.share_in_switch.unwrap();
        assert!(share > 0.1, "{placement}: {share}");
    }
}

#[test]
fn loose_order_counts_the_packets_that_overtake_others() {
    let report = under_moves(
        "placement = \"heap\"\ntop = 100\nwindow = \"2 ms\"\norder = \"loose\"",
        "2 us",
    );
    let split = report.switches[0].split.unwrap();
    assert!(split.counts.overtaken > 0, "{split:?}");
    assert!(report.streams[0].reordered > 0);
}

/// The same with as many packets as the specification of order asks for.
#[test]
#[ignore = "takes a minute"]
fn a_million_packets_keep_their_order_while_entries_move() {
    let traffic = "packets = 1000000\ninterval = \"20 us\"\nflows = 400\nalpha = 0.9";
    for placement in [
        "top = 200",
        "placement = \"random\"\nage = 1\ntop = 50\nwindow = \"5 ms\"",
    ] {
        let text = format!("install = \"1.5 ms\"\n{placement}");
        let report = run(ports(&text, 4, traffic));
        let split = report.switches[0].split.unwrap();
        let stream = &report.streams[0];
        assert_eq!(
            (stream.received, stream.reordered),
            (1_000_000, 0),
            "{placement}"
        );
        assert_eq!((split.unanswered, split.counts.refused), (0, 0));
        assert!(split.counts.moves > 10_000, "{split:?}");
    }
}

#[test]
fn mistakes_of_split_programs_have_a_line_and_a_hint() {
    let valid = PORTS
        .replace("PROGRAM", "x.p4")
        .replace("SPLIT", "install = \"1 ms\"")
        .replace("WORKERS", "1")
        .replace("TRAFFIC", "packets = 1\ninterval = \"1 us\"");
    // Replaced text, replacement, message, hint.
    let cases = [
        ("[split]", "[other]", "unknown field `other`", "topology.md"),
        (
            "install = \"1 ms\"",
            "install = \"1\"",
            "\"1\" is not understood",
            "\"10 us\"",
        ),
        (
            "install = \"1 ms\"",
            "order = \"some\"",
            "\"some\" is no order",
            "\"strict\" or",
        ),
        (
            "install = \"1 ms\"",
            "placement = \"best\"",
            "\"best\" is no placement",
            "asked, none, random, heap, threshold",
        ),
        (
            "install = \"1 ms\"",
            "lpm = \"all\"",
            "\"all\" is no rule",
            "leaf, dependents, cover",
        ),
        (
            "install = \"1 ms\"",
            "sketch = \"9\"",
            "\"9\" is no size",
            "COLUMNSxROWS",
        ),
        (
            "install = \"1 ms\"",
            "epsilon = 2.0",
            "epsilon is 2",
            "[split]",
        ),
        (
            "install = \"1 ms\"",
            "window = \"0 s\"",
            "a window of no time",
            "100 ms",
        ),
        (
            "install = \"1 ms\"",
            "mirror_all = 0",
            "0 is too small",
            "from 1 on",
        ),
        (
            "install = \"1 ms\"",
            "phv = \"0 B\"",
            "a budget of 0 bytes",
            "200 B",
        ),
        (
            "install = \"1 ms\"",
            "phv = \"200\"",
            "200",
            "write a size with its unit",
        ),
        ("workers = 1", "workers = 0", "0 is too small", "from 1 on"),
        ("workers = 1", "workers = 5000", "5000 workers", "1 to 1024"),
        (
            "name = \"b\"",
            "name = \"a\"",
            "two nodes are called a",
            "has the name already",
        ),
        (
            "\"r:11\", \"b\"",
            "\"r:11\", \"b:1\"",
            "the server b has a single port",
            "write \"b\"",
        ),
        (
            "[[link]]\nends = [\"r:11\", \"b\"]\n",
            "",
            "the server b has no link with a switch",
            "ends = [\"b\", \"SWITCH:PORT\"]",
        ),
        (
            "[defaults.link]",
            "[[fault]]\nclock = \"r\"\nat = \"1 ms\"\ndrift = 0.1\n[defaults.link]",
            "r runs a split program",
            "both halves of a split take one time",
        ),
        (
            "name = \"r\"",
            "name = \"r\"\nprogram = \"x.p4\"",
            "a program of its own",
            "remove",
        ),
        (
            "from = \"h1\"",
            "from = \"a\"",
            "a is a server, which neither sends",
            "name a host",
        ),
        ("packets = 1", "packets = 0", "0 is too small", "from 1 on"),
        (
            "packets = 1",
            "packets = 1\nalpha = -1.0",
            "-1 is no exponent",
            "0 to 10",
        ),
        (
            "packets = 1",
            "packets = 1\nbytes = \"9 B\"",
            "frames of 9 bytes",
            "\"64 B\" to",
        ),
        (
            "neighbours = { \"10.0.1.1\" = \"02:00:00:00:01:01\" }",
            "",
            "h1 has no MAC address of 10.0.1.1",
            "neighbours = {",
        ),
    ];
    for (old, new, message, hint) in cases {
        assert!(valid.contains(old), "{old}");
        let text = valid.replacen(old, new, 1);
        let error = Topology::read("t.toml", &text, &common::examples()).unwrap_err();
        let found = error.mistakes.iter();
        let mut found = found.filter(|one| one.message.contains(message));
        assert!(
            found.any(|one| one.mend.contains(hint) && one.line > 1),
            "{new}: {error}"
        );
    }
    Topology::read("t.toml", &valid, &common::examples()).unwrap();
}
