//! Packets cause few log lines, whatever arrives: ten per second of each kind.

mod lab;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::{Directory, Running, polyplane, said};
use packet::Frame;
use port::Port;

/// Sends a digest and a message for each packet, and the packet back.
const TALKATIVE: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t {}
struct seen_t { bit<48> src; bit<16> type; }
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        digest<seen_t>(1, { hdr.ethernet.src, hdr.ethernet.type });
        log_msg("from {}", { hdr.ethernet.src });
        standard.egress_spec = standard.ingress_port;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// Output of a switch during a flood.
struct Flooded {
    lines: Vec<String>,
    seconds: u64,
    received: u64,
}

impl Flooded {
    /// Returns the number of lines with this beginning.
    fn begin_with(&self, words: &str) -> u64 {
        let such = self.lines.iter().filter(|line| line.starts_with(words));
        such.count() as u64
    }

    /// Returns the number of suppressed lines, as reported.
    fn left_out(&self) -> u64 {
        let number = |line: &String| {
            let (number, rest) = line.strip_prefix('(')?.split_once(' ')?;
            rest.contains("of this kind left out")
                .then(|| number.parse::<u64>().unwrap())
        };
        self.lines.iter().filter_map(number).sum()
    }
}

/// Floods `polyplane serve` with these options for two seconds.
fn flood(test: &str, options: &[&str], takes_digests: bool) -> Option<Flooded> {
    let mut cables = Cables::new(1)?;
    let dir = Directory::new(test);
    let program = format!("1={}", dir.with("talkative.p4", TALKATIVE));
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let mut command = polyplane();
    command.args([
        "serve",
        "--p4runtime",
        "127.0.0.1:9559",
        "--port",
        "0=port0",
    ]);
    command.args(["--device", &program, "--json"]).args(options);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let start = Instant::now();
    let stderr = BufReader::new(running.0.stderr.take().unwrap());
    let reading = std::thread::spawn(move || stderr.lines().map_while(Result::ok).collect());
    let is_served = || TcpStream::connect("127.0.0.1:9559").is_ok();
    while !cables.switch.run(is_served).unwrap() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "it does not serve"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let taking = takes_digests.then(|| {
        let words = ["ctl", "digests", "--count", "1"];
        let take = move || said(&words);
        let switch = &cables.switch;
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| switch.run(take).unwrap());
            while !taken.is_finished() {
                send(&mut cables.ends[0], 1);
                std::thread::sleep(Duration::from_millis(20));
            }
            taken.join().unwrap()
        })
    });
    if let Some(taken) = taking {
        assert_eq!(taken.status, Some(0), "{}", taken.err);
        assert!(taken.out.contains("seen_t"), "{}", taken.out);
    }
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        send(&mut cables.ends[0], 16);
        std::thread::sleep(Duration::from_millis(2));
    }
    running.signal("TERM");
    let out = running.0.stdout.take().unwrap();
    let report: serde_json::Value = serde_json::from_reader(BufReader::new(out)).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
    let seconds = start.elapsed().as_secs() + 1;
    let received = report["ports"][0]["received"]["packets"].as_u64().unwrap();
    assert!(received > 500, "{report}");
    Some(Flooded {
        lines: reading.join().unwrap(),
        seconds,
        received,
    })
}

fn send(end: &mut impl Port, count: usize) {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    bytes.resize(60, 0);
    let frames = (0..count).map(|_| Frame::from_bytes(&bytes).unwrap());
    end.tx(&frames.collect::<Vec<_>>());
}

#[test]
fn digests_that_controllers_may_take_are_no_lines_and_messages_are_ten_a_second() {
    let Some(flooded) = flood("flood-usual", &[], false) else {
        return;
    };
    assert_eq!(flooded.begin_with("digest"), 0, "{:?}", flooded.lines);
    let messages = flooded.begin_with("from ");
    assert!(messages >= 10, "{:?}", flooded.lines);
    assert!(
        messages <= 10 * (flooded.seconds + 1),
        "{:?}",
        flooded.lines
    );
    assert_eq!(messages + flooded.left_out(), flooded.received);
}

#[test]
fn digests_that_are_asked_for_in_the_log_are_ten_a_second() {
    let Some(flooded) = flood("flood-debug", &["--log", "debug"], false) else {
        return;
    };
    let digests = flooded.begin_with("digest seen_t");
    let messages = flooded.begin_with("from ");
    assert!(digests >= 10, "{:?}", flooded.lines);
    let most = 10 * (flooded.seconds + 1);
    assert!(digests <= most && messages <= most, "{:?}", flooded.lines);
    assert_eq!(
        digests + messages + flooded.left_out(),
        2 * flooded.received
    );
}

#[test]
fn no_packet_makes_a_line_where_nothing_is_logged() {
    let Some(flooded) = flood("flood-off", &["--log", "off"], false) else {
        return;
    };
    for words in ["digest", "from ", "("] {
        assert_eq!(flooded.begin_with(words), 0, "{:?}", flooded.lines);
    }
}

#[test]
fn digests_that_a_controller_takes_are_no_lines() {
    let Some(flooded) = flood("flood-taken", &[], true) else {
        return;
    };
    assert_eq!(flooded.begin_with("digest"), 0, "{:?}", flooded.lines);
}
