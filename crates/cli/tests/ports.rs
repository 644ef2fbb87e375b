//! Ports of a running switch: interfaces that are removed and made again, and ports that operators
//! add, remove and reopen.

mod lab;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::{Directory, Running, Said, polyplane, said};
use packet::{Batch, Frame, Nanos};
use port::{AfPacketPort, Port};

/// A program that connects each even port with the next one, like cables.
const PAIRS: &str = r#"
#include <core.p4>
#include <v1model.p4>

struct headers_t {}
struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.egress_spec = standard.ingress_port ^ 1; }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply {} }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

/// The address at which the switch serves P4Runtime, in its namespace.
const ADDRESS: &str = "127.0.0.1:9559";

/// A switch in a namespace of its own, with cables to the test.
struct Bench {
    cables: Cables,
    program: String,
    _dir: Directory,
}

impl Bench {
    /// Creates the namespaces. Returns `None`, and prints the reason, if the machine forbids them.
    fn new(test: &str, cables: u32) -> Option<Bench> {
        let cables = Cables::new(cables)?;
        cables.switch.rtnl().unwrap().set_up("lo").unwrap();
        let dir = Directory::new(test);
        Some(Bench {
            cables,
            program: dir.with("pairs.p4", PAIRS),
            _dir: dir,
        })
    }

    /// Starts the switch with these ports and options, and waits until it is served.
    fn start(&self, ports: u32, options: &[&str]) -> Running {
        let mut command = polyplane();
        command.args(["run", &self.program, "--json", "--p4runtime", ADDRESS]);
        for port in 0..ports {
            command.args(["--port", &format!("{port}=port{port}")]);
        }
        command.args(options);
        let start = || Running::start(&mut command);
        let mut running = self.cables.switch.run(start).unwrap();
        assert_eq!(running.served_address(), ADDRESS);
        running
    }

    /// Runs `polyplane ctl port` with these words.
    fn port(&self, words: &[&str]) -> Said {
        let arguments = [&["ctl", "port"], words, &["--addr", ADDRESS]].concat();
        self.cables.switch.run(|| said(&arguments)).unwrap()
    }

    /// As [`Bench::port`], for a change that is made. Returns the answer.
    fn changed(&self, words: &[&str]) -> String {
        let answer = self.port(words);
        assert_eq!(answer.status, Some(0), "{words:?}: {}", answer.err);
        answer.out
    }

    /// As [`Bench::port`], for a change that is refused for a reason with this text.
    fn refused(&self, words: &[&str], why: &str) {
        let answer = self.port(words);
        assert_eq!(answer.status, Some(1), "{words:?}: {}", answer.out);
        assert!(answer.one_line().contains(why), "{}", answer.err);
    }

    fn carries(&mut self, from: usize, number: u8) -> Option<usize> {
        self.cables.carries(from, &frame(number))
    }
}

fn frame(number: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    bytes.resize(60, number);
    bytes
}

/// Ends the switch, and returns its report.
fn report(running: Running) -> serde_json::Value {
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    ended.json()
}

/// Returns the part of a report about the port of an interface.
fn of_port<'r>(report: &'r serde_json::Value, name: &str) -> &'r serde_json::Value {
    let mut ports = report["ports"].as_array().unwrap().iter();
    ports.find(|port| port["name"] == name).unwrap()
}

fn packets(report: &serde_json::Value, name: &str, what: &str) -> u64 {
    of_port(report, name)[what]["packets"].as_u64().unwrap()
}

/// Counts of a sender and of the receiver at the other end.
struct Load {
    sent: u64,
    received: u64,
}

/// Sends frames by the first end until `is_over`, eight each millisecond, and counts what arrives
/// at the second one.
fn load(mut from: AfPacketPort, mut to: AfPacketPort, is_over: &AtomicBool) -> Load {
    let burst: [Frame; 8] = std::array::from_fn(|_| Frame::from_bytes(&frame(0xee)).unwrap());
    let mut load = Load {
        sent: 0,
        received: 0,
    };
    let (ours, mut batch) = (frame(0xee), Batch::default());
    let mut receive = |load: &mut Load| {
        batch.clear();
        to.rx(&mut batch, Nanos::ZERO).unwrap();
        let is_ours = |frame: &&Frame| frame.bytes() == ours;
        load.received += batch.frames().iter().filter(is_ours).count() as u64;
    };
    while !is_over.load(Ordering::Relaxed) {
        load.sent += from.tx(&burst).sent;
        std::thread::sleep(Duration::from_millis(1));
        receive(&mut load);
    }
    let end = Instant::now();
    while load.received < load.sent && end.elapsed() < Duration::from_secs(2) {
        receive(&mut load);
    }
    load
}

/// Removes an interface and makes it again this often, while ports 0 and 1 carry a load. Returns
/// the times until the port carried frames again, ascending.
fn renew_under_load(io: &str, times: u8) -> Option<Vec<Duration>> {
    let mut bench = Bench::new(&format!("ports-renew-{io}"), 4)?;
    let running = bench.start(4, &["--io", io]);
    assert_eq!(bench.carries(0, 1), Some(1));
    assert_eq!(bench.carries(2, 2), Some(3));
    let mut ends = bench.cables.ends.drain(..);
    let (end0, end1) = (ends.next().unwrap(), ends.next().unwrap());
    let rest: Vec<AfPacketPort> = ends.collect();
    bench.cables.ends = rest;
    let is_over = AtomicBool::new(false);
    let (load, mut back) = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(end0, end1, &is_over));
        let mut back = Vec::new();
        for number in 0..times {
            bench.cables.ends[1] = bench.cables.renewed(3);
            let begin = Instant::now();
            let bytes = frame(number);
            let arrived = bench.cables.carries(0, &bytes);
            back.push(begin.elapsed());
            assert_eq!(arrived, Some(1), "{io}, time {number}");
        }
        is_over.store(true, Ordering::Relaxed);
        (load.join().unwrap(), back)
    });
    let report = report(running);
    assert_eq!(load.received, load.sent, "{io}: {report}");
    assert!(load.sent > 0);
    assert!(
        packets(&report, "port1", "sent") >= load.received,
        "{report}"
    );
    assert_eq!(of_port(&report, "port3")["up"], true, "{report}");
    back.sort_unstable();
    let [median, longest] = [back.len() / 2, back.len() - 1].map(|place| back[place]);
    println!(
        "{io}: {times} times, back after {median:?}, at most {longest:?}; others carried {} of {} \
         frames",
        load.received, load.sent
    );
    Some(back)
}

#[test]
fn an_interface_made_again_under_load_is_back_within_a_second_and_others_lose_nothing() {
    for io in ["packet", "auto"] {
        let Some(back) = renew_under_load(io, 3) else {
            return;
        };
        // One of the three may be late on a busy machine.
        assert!(back[1] < Duration::from_secs(1), "{io}: {back:?}");
    }
}

#[test]
#[ignore = "fifty times take a minute, and a machine that is busy with other tests is late"]
fn an_interface_is_made_again_fifty_times_under_load() {
    for io in ["auto", "packet"] {
        let Some(back) = renew_under_load(io, 50) else {
            return;
        };
        assert!(back[49] < Duration::from_secs(1), "{io}: {back:?}");
    }
}

#[test]
fn ports_are_added_removed_and_reopened_while_the_switch_runs() {
    for workers in ["1", "2"] {
        let Some(mut bench) = Bench::new(&format!("ports-change-{workers}"), 4) else {
            return;
        };
        let options = ["--port-allow", "port*", "--workers", workers];
        let running = bench.start(2, &options);
        assert_eq!(bench.carries(0, 1), Some(1));
        let list = bench.changed(&["list"]);
        assert!(list.starts_with("port 0  port0  up"), "{list}");
        assert!(list.contains("AF_"), "{list}");
        // Others are added, and count.
        let said = bench.changed(&["add", "2=port2"]);
        assert!(
            said.starts_with("port 2 (port2) is added, by AF_"),
            "{said}"
        );
        bench.changed(&["add", "3=port3"]);
        assert_eq!(bench.carries(2, 2), Some(3));
        assert_eq!(bench.carries(3, 3), Some(2));
        bench.refused(&["add", "2=port3"], "port 2 exists: it is port2");
        bench.refused(&["add", "7=port3"], "an interface can be one port only");
        bench.refused(&["add", "7=eth7"], "--port-allow 'eth7'");
        bench.refused(
            &["add", "7=portx"],
            "there is no network interface \"portx\"",
        );
        bench.refused(&["add", "600=port3"], "are 0 to 510");
        bench.refused(&["add", "510=port3"], "port 510 exists: it is controllers");
        bench.refused(&["remove", "9"], "the switch has no port 9");
        // Packets to a removed port are dropped with a reason; the others go on.
        let said = bench.changed(&["remove", "1"]);
        assert_eq!(said, "port 1 (port1) is removed\n");
        let lost = frame(4);
        let within = Duration::from_millis(100);
        assert_eq!(bench.cables.carries_within(0, &lost, within), None);
        assert_eq!(bench.carries(2, 5), Some(3));
        let status = ["ctl", "status", "--addr", ADDRESS];
        let status = bench.cables.switch.run(|| said_of(&status)).unwrap();
        assert!(!status.contains("port1"), "{status}");
        assert!(status.contains("port     3 (port3) is up"), "{status}");
        // It comes back with its counts, and is reopened.
        bench.changed(&["add", "1=port1"]);
        assert_eq!(bench.carries(0, 6), Some(1));
        let said = bench.changed(&["reopen", "1"]);
        assert!(
            said.starts_with("port 1 (port1) is open again, by AF_"),
            "{said}"
        );
        assert_eq!(bench.carries(0, 7), Some(1));
        assert_eq!(bench.carries(1, 8), Some(0));
        bench.changed(&["remove", "3"]);
        let report = report(running);
        assert!(packets(&report, "port1", "received") >= 1, "{report}");
        let dropped = report["dropped"].as_array().unwrap();
        let named = dropped.iter().find(|drop| drop["reason"] == "no_such_port");
        assert!(named.is_some(), "{report}");
        // A removed port is still in the report, without a link.
        assert!(of_port(&report, "port3")["up"].is_null(), "{report}");
        assert!(packets(&report, "port3", "received") >= 1, "{report}");
        let sum = |what: &str| {
            let ports = report["ports"].as_array().unwrap().iter();
            ports
                .map(|port| port[what]["packets"].as_u64().unwrap())
                .sum::<u64>()
        };
        let drops = dropped.iter().map(|drop| drop["packets"].as_u64().unwrap());
        assert_eq!(
            sum("received"),
            sum("sent") + drops.sum::<u64>(),
            "{report}"
        );
    }
}

fn said_of(arguments: &[&str]) -> String {
    said(arguments).out
}

#[test]
fn without_permission_only_interfaces_of_the_command_line_become_ports() {
    let Some(bench) = Bench::new("ports-allow", 3) else {
        return;
    };
    let running = bench.start(2, &[]);
    bench.refused(&["add", "2=port2"], "--port-allow 'port2'");
    bench.changed(&["remove", "1"]);
    bench.changed(&["add", "5=port1"]);
    let list = bench.changed(&["list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        (&list[1]["port"], &list[1]["up"]),
        (&5.into(), &true.into())
    );
    let report = report(running);
    let numbers = report["ports"].as_array().unwrap().iter();
    let numbers = numbers
        .filter(|port| port["name"] == "port1")
        .map(|port| &port["port"]);
    assert_eq!(
        numbers.collect::<Vec<_>>(),
        [&5.into(), &1.into()] as [&serde_json::Value; 2]
    );
}

#[test]
fn the_cpu_ports_of_all_architectures_do_not_become_ports() {
    let name = format!("ports-cpu-{}", std::process::id());
    let program = lab::example("pna_firewall/pna_firewall.p4");
    let mut command = polyplane();
    command.args(["run", &program, "--p4runtime", "127.0.0.1:0"]);
    command.args([
        "--port",
        &format!("0=ring:{name}"),
        "--port-allow",
        "ring:*",
    ]);
    let mut running = Running::start(&mut command);
    let address = running.served_address();
    for (port, expected) in [("510", "exists"), ("4294967293", "is the CPU port")] {
        let added = format!("{port}=ring:{name}-more");
        let refused = said(&["ctl", "port", "add", &added, "--addr", &address]);
        assert_eq!(refused.status, Some(1), "{port}: {}", refused.out);
        assert!(refused.err.contains(expected), "{port}: {}", refused.err);
    }
}
