//! `polyplane run` on interfaces of a real kernel: forwarded frames, failing links, and user
//! errors.

mod lab;

use std::io::{BufRead, BufReader};
use std::process::ChildStderr;
use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::scrape::Scraped;
use lab::{Directory, Running, polyplane, said, without_rights};
use packet::{Batch, Frame, Nanos, PortId};
use port::{AfPacketPort, Port};

/// A program that connects ports 0 and 1 like a cable.
const CABLE: &str = r#"
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

/// A switch in a separate namespace, with two cables. Their far ends are ports of the test.
struct Bench {
    cables: Cables,
    program: String,
    _dir: Directory,
}

impl Bench {
    /// Creates the namespaces. Returns `None`, and prints the reason, if the machine forbids
    /// them.
    fn new(test: &str) -> Option<Bench> {
        let cables = Cables::new(2)?;
        let dir = Directory::new(test);
        Some(Bench {
            cables,
            program: dir.with("cable.p4", CABLE),
            _dir: dir,
        })
    }

    /// Starts the switch on both ports.
    fn start(&self) -> (Running, Lines) {
        let (running, lines, _) = self.start_with("auto");
        (running, lines)
    }

    /// Starts the switch with this packet I/O method. Also returns the lines that describe each
    /// port.
    fn start_with(&self, io: &str) -> (Running, Lines, Vec<String>) {
        self.start_by(&["--io", io])
    }

    /// Starts the switch with these options.
    fn start_by(&self, options: &[&str]) -> (Running, Lines, Vec<String>) {
        let mut command = polyplane();
        command.args([
            "run",
            &self.program,
            "--port",
            "0=port0",
            "--port",
            "1=port1",
            "--json",
        ]);
        command.args(options);
        let mut running = self
            .cables
            .switch
            .run(|| Running::start(&mut command))
            .unwrap();
        let mut lines = Lines(BufReader::new(running.0.stderr.take().unwrap()));
        let mut how = Vec::new();
        loop {
            let line = lines.next();
            assert_ne!(line, "", "it has ended: {how:?}");
            if line.contains("is running on 0=port0, 1=port1") {
                return (running, lines, how);
            }
            if !line.contains("served at ") {
                how.push(line);
            }
        }
    }

    /// Sends a frame by one end until it arrives at the other, for at most five seconds.
    fn carries(&mut self, from: usize, number: u8) -> bool {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
        bytes.resize(60, number);
        self.cables.carries(from, &bytes).is_some()
    }
}

/// Standard error of a running switch, line by line.
struct Lines(BufReader<ChildStderr>);

impl Lines {
    fn next(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }
}

/// Waits for the end. Returns standard output.
fn running_out(mut running: Running) -> String {
    let out = running.0.stdout.take().unwrap();
    let text = std::io::read_to_string(out).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
    text
}

/// Waits for the end. Standard error has been read already.
fn finish(mut running: Running) -> (Option<i32>, serde_json::Value) {
    let out = running.0.stdout.take().unwrap();
    let report = serde_json::from_reader(BufReader::new(out)).unwrap();
    (running.0.wait().unwrap().code(), report)
}

#[test]
fn frames_are_carried_until_a_signal_ends_it_with_a_report() {
    for signal in ["TERM", "INT"] {
        let Some(mut bench) = Bench::new("run-carries") else {
            return;
        };
        let (running, _lines) = bench.start();
        assert!(bench.carries(0, 1));
        assert!(bench.carries(1, 2));
        running.signal(signal);
        let (status, report) = finish(running);
        assert_eq!(status, Some(0));
        let port = |n: usize, what: &str| report["ports"][n][what]["packets"].as_u64().unwrap();
        assert!(port(0, "received") >= 1);
        assert_eq!(port(0, "received"), port(1, "sent"));
        assert_eq!(port(1, "received"), port(0, "sent"));
    }
}

#[test]
fn several_workers_carry_every_frame_in_each_way() {
    for io in ["packet", "auto"] {
        let Some(mut bench) = Bench::new(&format!("run-workers-{io}")) else {
            return;
        };
        let (running, _lines, how) = bench.start_by(&["--workers", "2", "--io", io]);
        // Both directions, until each worker has received frames: the key of AF_PACKET's hash is
        // random.
        for number in 1..40 {
            assert!(bench.carries(0, number), "{how:?}");
            assert!(bench.carries(1, number), "{how:?}");
        }
        running.signal("TERM");
        let (status, report) = finish(running);
        assert_eq!(status, Some(0), "{report}");
        let count = |value: &serde_json::Value| value.as_u64().unwrap();
        let ports = |what: &str| -> u64 {
            let ports = report["ports"].as_array().unwrap().iter();
            ports.map(|port| count(&port[what]["packets"])).sum()
        };
        let workers = report["workers"].as_array().unwrap();
        assert_eq!(workers.len(), 2);
        let sum = |what: &str| workers.iter().map(|w| count(&w[what])).sum::<u64>();
        assert!(ports("received") >= 78);
        assert_eq!(sum("received"), ports("received"), "{report}");
        assert_eq!(sum("sent"), ports("sent"), "{report}");
        assert_eq!(report["ports"][0]["dropped"].as_array().unwrap().len(), 0);
    }
}

#[test]
fn a_running_switch_traces_the_packets_that_a_filter_describes() {
    let Some(mut bench) = Bench::new("run-trace") else {
        return;
    };
    let file = bench._dir.file("traces");
    let options = [
        "--trace",
        "bytes[14] == 7 and port == 0",
        "--trace-count",
        "1",
        "--trace-file",
        &file,
    ];
    let (running, _lines, _) = bench.start_by(&options);
    for (from, number) in [(0, 1), (1, 7), (0, 7), (0, 7), (1, 2)] {
        assert!(bench.carries(from, number));
    }
    running.signal("TERM");
    let (status, report) = finish(running);
    assert_eq!(status, Some(0));
    assert_eq!(
        (&report["traced"], &report["untraced"]),
        (&1.into(), &0.into())
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [traced] = &lines[..] else {
        panic!("{text}");
    };
    assert_eq!(
        (&traced["worker"], &traced["packet"]["port"]),
        (&0.into(), &0.into())
    );
    assert_eq!(traced["outputs"][0]["port"], 1);
    let events = traced["events"].as_array().unwrap().iter();
    let names: Vec<&str> = events.map(|e| e["event"].as_str().unwrap()).collect();
    assert!(
        names.starts_with(&["received"]) && names.ends_with(&["sent"]),
        "{names:?}"
    );
    assert!(names.contains(&"written"), "{names:?}");
}

#[test]
fn traces_are_shown_as_text_and_reports_come_as_often_as_asked_for() {
    let Some(mut bench) = Bench::new("run-every") else {
        return;
    };
    let options = ["--trace", "len == 60", "--every", "1"];
    let (running, mut lines, _) = bench.start_by(&options);
    assert!(bench.carries(0, 1));
    let head = lines.next();
    assert!(head.starts_with("traced by worker 0 at "), "{head}");
    assert!(lines.next().contains("60 bytes"));
    std::thread::sleep(Duration::from_millis(2300));
    running.signal("TERM");
    let said = running_out(running);
    let reports: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(reports.len() >= 3, "{said}");
    assert!(
        reports
            .iter()
            .all(|report| report["ports"][0]["received"]["packets"].is_u64())
    );
}

#[test]
fn each_way_to_carry_frames_can_be_asked_for_and_is_told() {
    let Some(mut bench) = Bench::new("run-io") else {
        return;
    };
    let mut check = |io: &str, expect: [&str; 2]| {
        let (running, _lines, how) = bench.start_with(io);
        for (n, line) in how.iter().enumerate() {
            let starts = |way| line.starts_with(&format!("port {n}: port{n} by {way}"));
            assert!(expect.into_iter().any(starts), "{io}: {line}");
        }
        assert!(bench.carries(0, 1) && bench.carries(1, 2), "{io}: {how:?}");
        running.signal("TERM");
        assert_eq!(finish(running).0, Some(0));
        how[0].contains("AF_XDP (")
    };
    check("packet", ["AF_PACKET (as asked for)"; 2]);
    if check("auto", ["AF_XDP (driver veth, ", "AF_PACKET (no AF_XDP: "]) {
        check("xdp", ["AF_XDP (driver veth, "; 2]);
    } else {
        println!("skipped: AF_XDP");
    }
}

#[test]
fn a_link_that_goes_down_is_told_and_carries_again_when_it_is_up() {
    let Some(mut bench) = Bench::new("run-down") else {
        return;
    };
    let (running, mut lines) = bench.start();
    assert!(bench.carries(0, 1));
    let mut rtnl = bench.cables.switch.rtnl().unwrap();
    rtnl.set_down("port1").unwrap();
    let line = lines.next();
    assert!(line.starts_with("port 1: port1 is down"), "{line}");
    rtnl.set_up("port1").unwrap();
    let line = lines.next();
    assert_eq!(line, "port 1: port1 is up again\n");
    assert!(bench.carries(0, 2));
    assert!(bench.carries(1, 3));
    running.signal("INT");
    assert_eq!(finish(running).0, Some(0));
}

/// Waits until a gauge of port 1 and `ctl status` report this state, for at most five seconds.
fn check_port_state(bench: &Bench, is_up: bool) {
    let level = f64::from(u8::from(is_up));
    let line = format!(
        "port     1 (port1) is {}",
        if is_up { "up" } else { "down" }
    );
    let mut seen = (None, String::new());
    for _ in 0..50 {
        let ask = || {
            let scraped = Scraped::of("127.0.0.1:9100");
            let gauge = "port_up{device=\"1\",port=\"1\",name=\"port1\"}";
            let status = said(&["ctl", "status", "--addr", "127.0.0.1:9559"]);
            let json = said(&["ctl", "status", "--addr", "127.0.0.1:9559", "--json"]);
            let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
            (
                scraped.find(gauge),
                status.out,
                json["ports"][1]["up"].clone(),
            )
        };
        let (gauge, status, json) = bench.cables.switch.run(ask).unwrap();
        let is_said = status.lines().any(|said| said == line);
        if gauge == Some(level) && is_said && json == is_up {
            assert!(status.contains("port     0 (port0) is up"), "{status}");
            return;
        }
        seen = (gauge, status);
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not up {is_up}: {seen:?}");
}

#[test]
fn the_state_of_a_port_reaches_controllers_and_metrics() {
    let Some(bench) = Bench::new("run-state") else {
        return;
    };
    bench.cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let served = [
        "--p4runtime",
        "127.0.0.1:9559",
        "--metrics",
        "127.0.0.1:9100",
    ];
    let (running, lines, _) = bench.start_by(&served);
    check_port_state(&bench, true);
    let mut rtnl = bench.cables.switch.rtnl().unwrap();
    rtnl.set_down("port1").unwrap();
    check_port_state(&bench, false);
    rtnl.set_up("port1").unwrap();
    check_port_state(&bench, true);
    rtnl.delete_link("port1").unwrap();
    check_port_state(&bench, false);
    running.signal("INT");
    drop(lines);
    assert_eq!(finish(running).0, Some(0));
}

#[test]
fn a_removed_interface_is_told_and_the_last_one_ends_it() {
    let Some(mut bench) = Bench::new("run-gone") else {
        return;
    };
    let (running, mut lines) = bench.start();
    assert!(bench.carries(0, 1));
    let mut rtnl = bench.cables.switch.rtnl().unwrap();
    rtnl.delete_link("port1").unwrap();
    let line = lines.next();
    assert!(line.starts_with("warning: port 1: port1 is gone"), "{line}");
    rtnl.delete_link("port0").unwrap();
    let line = lines.next();
    assert!(line.starts_with("warning: port 0: port0 is gone"), "{line}");
    let (status, report) = finish(running);
    assert_eq!(status, Some(1));
    assert_eq!(lines.next(), "error: no port is left to carry anything\n");
    assert!(report["ports"][0]["received"]["packets"].as_u64().unwrap() >= 1);
}

#[test]
fn an_interface_that_was_made_again_carries_again_and_counts_go_on() {
    for io in ["packet", "auto"] {
        let Some(mut bench) = Bench::new(&format!("run-returns-{io}")) else {
            return;
        };
        let (running, mut lines, _) = bench.start_with(io);
        assert!(bench.carries(0, 1));
        bench.cables.renew(1);
        let line = lines.next();
        assert!(line.starts_with("warning: port 1: port1 is gone"), "{line}");
        let line = lines.next();
        assert!(line.starts_with("port 1: port1 is back, by AF_"), "{line}");
        assert!(bench.carries(0, 2));
        assert!(bench.carries(1, 3));
        running.signal("INT");
        let (status, report) = finish(running);
        assert_eq!(status, Some(0));
        let port = &report["ports"][1];
        assert!(port["sent"]["packets"].as_u64().unwrap() >= 2, "{report}");
        assert_eq!(port["up"], true, "{report}");
    }
}

#[test]
fn a_port_waits_for_an_interface_that_is_missing_at_the_start() {
    for (io, workers) in [("packet", "1"), ("auto", "2")] {
        let Some(mut bench) = Bench::new(&format!("run-missing-{io}")) else {
            return;
        };
        let mut rtnl = bench.cables.switch.rtnl().unwrap();
        rtnl.delete_link("port1").unwrap();
        let options = ["--io", io, "--workers", workers];
        let (running, mut lines, how) = bench.start_by(&options);
        assert_eq!(how.len(), 1, "{how:?}");
        let line = lines.next();
        let expected =
            "warning: port 1: there is no network interface \"port1\"; did you mean \"port0\"?";
        assert!(line.starts_with(expected), "{line}");
        assert!(line.contains("the port waits for it"), "{line}");
        bench.cables.lay(1);
        let line = lines.next();
        assert!(line.starts_with("port 1: port1 is back, by AF_"), "{line}");
        assert!(bench.carries(0, 2));
        assert!(bench.carries(1, 3));
        running.signal("TERM");
        let (status, report) = finish(running);
        assert_eq!(status, Some(0));
        assert_eq!(report["ports"][1]["up"], true, "{report}");
    }
}

#[test]
fn a_switch_without_any_interface_or_that_may_not_wait_does_not_start() {
    let Some(bench) = Bench::new("run-none") else {
        return;
    };
    for (ports, options) in [
        (["0=none0", "1=none1"], &[][..]),
        (["0=port0", "1=none1"], &["--missing-ports", "fail"][..]),
    ] {
        let [first, second] = ports;
        let words = ["run", &bench.program, "--port", first, "--port", second];
        let words = [&words[..], options].concat();
        let said = bench.cables.switch.run(|| said(&words)).unwrap();
        assert_eq!(said.status, Some(1), "{words:?}: {}", said.out);
        let line = said.one_line();
        assert!(
            line.contains("there is no network interface \"none"),
            "{line}"
        );
    }
}

#[test]
fn a_program_that_sends_to_a_port_without_interface_is_told_in_the_drops() {
    let Some(mut bench) = Bench::new("run-stranded") else {
        return;
    };
    let mut command = polyplane();
    command.args([
        "run",
        &bench.program,
        "--port",
        "4=port0",
        "--port",
        "1=port1",
        "--json",
    ]);
    let mut running = bench
        .cables
        .switch
        .run(|| Running::start(&mut command))
        .unwrap();
    let mut lines = Lines(BufReader::new(running.0.stderr.take().unwrap()));
    lines.next();
    assert!(!bench.cables.ends.is_empty());
    let frame = [Frame::from_bytes(&[0x22; 60]).unwrap()];
    let start = Instant::now();
    while bench.cables.ends[0].tx(&frame).sent == 0 {
        assert!(start.elapsed() < Duration::from_secs(5));
        let _ = bench.cables.ends[0].rx(
            &mut Batch::default(),
            Nanos::from(bench.cables.clock.elapsed()),
        );
    }
    std::thread::sleep(Duration::from_millis(300));
    running.signal("TERM");
    let (_, report) = finish(running);
    let drops = report["dropped"].as_array().unwrap();
    let stranded = drops.iter().find(|d| d["reason"] == "no_such_port");
    assert!(
        stranded.is_some_and(|d| d["packets"].as_u64() >= Some(1)),
        "{report}"
    );
}

#[test]
fn what_a_new_user_gets_wrong_is_answered_in_one_line() {
    let router = lab::example("router/router.p4");
    let answer = |words: &[&str], status: i32, expect: &str| {
        let said = said(&[&["run", &router], words].concat());
        assert_eq!(said.status, Some(status), "{words:?}: {}", said.err);
        assert!(said.err.contains(expect), "{words:?}: {}", said.err);
        if status == 1 {
            said.one_line();
        }
    };
    let check = |ports: &[&str], status: i32, expect: &str| {
        let words: Vec<&str> = ports.iter().flat_map(|port| ["--port", port]).collect();
        answer(&words, status, expect);
    };
    check(
        &["0=no-such-if"],
        1,
        "port 0: there is no network interface \"no-such-if\"",
    );
    check(&["0=loo"], 1, "did you mean \"lo\"?");
    check(&["0=lo", "0=eth0"], 1, "port 0 is given twice");
    check(&["0=lo", "1=lo"], 1, "\"lo\" is given twice");
    check(
        &["511=lo"],
        1,
        "port 511 cannot be: the ports of a program for v1model are 0 to 510",
    );
    check(&["600=lo"], 1, "port 600 cannot be");
    check(&["lo"], 2, "write NUMBER=INTERFACE");
    check(&[], 2, "--port");
    let lo = ["--port", "0=lo"];
    let with = |words: &[&str], status, expect| answer(&[&lo, words].concat(), status, expect);
    with(
        &["--trace", "ip.dst == 1"],
        2,
        "there is no field \"ip.dst\"; did you mean ipv4.dst? there are port, len",
    );
    with(&["--workers", "0"], 2, "--workers");
    with(&["--trace-count", "1"], 2, "--trace <FILTER>");
    with(
        &["--trace", "all", "--trace-file", "/no/such/directory/file"],
        1,
        "cannot make /no/such/directory/file",
    );
}

#[test]
fn a_user_without_permission_is_told_what_to_do() {
    let dir = Directory::new("run-permission");
    let program = dir.with("cable.p4", CABLE);
    let output = without_rights(&dir)
        .args(["run", &program, "--port", "0=lo"])
        .output()
        .unwrap();
    let said = lab::Said::from(output);
    assert_eq!(said.status, Some(1));
    assert!(
        said.one_line()
            .contains("needs the capability CAP_NET_RAW: run with sudo"),
        "{}",
        said.err
    );
}

#[test]
fn a_tap_device_is_a_port_as_well() {
    if std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .is_err()
    {
        return println!("skipped: this user may not use /dev/net/tun");
    }
    let Some(mut bench) = Bench::new("run-tap") else {
        return;
    };
    let mut command = polyplane();
    command.args([
        "run",
        &bench.program,
        "--port",
        "0=port0",
        "--port",
        "1=tap:tap1",
        "--json",
    ]);
    let mut running = bench
        .cables
        .switch
        .run(|| Running::start(&mut command))
        .unwrap();
    let mut lines = Lines(BufReader::new(running.0.stderr.take().unwrap()));
    lines.next();
    // The kernel's side of the device replaces the second cable's end.
    let tap = bench
        .cables
        .switch
        .run(|| AfPacketPort::open(PortId(1), "tap1"))
        .unwrap();
    bench.cables.ends[1] = tap.unwrap();
    assert!(bench.carries(0, 1));
    assert!(bench.carries(1, 2));
    running.signal("TERM");
    let (status, report) = finish(running);
    assert_eq!(status, Some(0));
    assert_eq!(report["ports"][1]["name"], "tap1");
}
