//! `polyplane trace` as a user runs it, on the programs in `examples/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A UDP datagram from 10.0.1.2 to 10.0.2.2, to the router's MAC address.
const DATAGRAM: &str = "020000000101 020000000102 0800 4500002100010000401163c80a0001020a000202 03e80035000d94cb 7175657279";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Runs `polyplane trace` in the directory of an example.
fn trace(example: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_polyplane"))
        .arg("trace")
        .args(args)
        .current_dir(examples().join(example))
        .output()
        .expect("the command can be run")
}

/// Traces a packet through the router with its entries. Returns the output.
fn router(args: &[&str]) -> String {
    let all = [&["router.p4", "--entries", "router.entries"], args].concat();
    stdout("router", &all)
}

fn stdout(example: &str, args: &[&str]) -> String {
    let output = trace(example, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(error, "");
    String::from_utf8(output.stdout).expect("the output is text")
}

/// Checks that the text has lines in this order that begin like these, after their indentation.
#[track_caller]
fn check(text: &str, lines: &[&str]) {
    let mut rest = text.lines();
    for line in lines {
        assert!(
            rest.any(|found| found.trim_start().starts_with(line)),
            "`{line}` does not follow in:\n{text}"
        );
    }
}

#[test]
fn a_forwarded_packet_is_shown_from_its_arrival_to_its_port() {
    check(
        &router(&["--packet", DATAGRAM]),
        &[
            "received by port 0, 47 bytes",
            "0000  02 00 00 00 01 01 02 00  00 00 01 02 08 00 45 00",
            "parser RouterParser",
            "state start ",
            "extract hdr.ethernet (14 bytes, after 0 bytes)",
            "dst   0x020000000101 (02:00:00:00:01:01)",
            "hdr.ethernet.type  0x0800 (2048)",
            "case 1 holds: 0x0800 (2048): parse_ipv4",
            "extract hdr.ipv4 (20 bytes, after 14 bytes)",
            "ttl              0x40 (64)",
            "case 2 holds: default: accept",
            "accept after 34 bytes",
            "ingress RouterIngress",
            "hdr.arp.isValid() is false",
            "stage RouterIngress.ipv4_lpm ",
            "key hdr.ipv4.dst  lpm  0x0a000202 (167772674, 10.0.2.2)",
            "hit: entry ",
            "RouterIngress.ipv4_lpm { hdr.ipv4.dst: 10.0.2.0/24; } -> RouterIngress.connected(port: 1)",
            "action RouterIngress.connected(port: 1) ",
            "standard_metadata.egress_spec = 1, was 0 ",
            "hdr.ipv4.ttl = 0x3f (63), was 0x40 (64) ",
            "queued for port 1",
            "egress RouterEgress",
            "compute_checksum UpdateIpv4Checksum",
            "hdr.ipv4.checksum = 0x64c8 (25800), was 0x63c8 (25544) ",
            "deparser RouterDeparser",
            "emit hdr.ethernet (14 bytes)",
            "not valid, not emitted: hdr.arp",
            "emit hdr.ipv4 (20 bytes)",
            "not valid, not emitted: hdr.ipv4_options, hdr.icmp",
            "deparsed, 47 bytes: 6 bytes changed or new",
            "0000  02 00 00 00 02 02 02 00  00 00 02 01 08 00 45 00",
            "^^ ^^              ^^ ^^",
            "sent by port 1, 47 bytes",
        ],
    );
}

#[test]
fn what_is_written_to_a_pipe_has_no_colours() {
    assert!(!router(&["--packet", DATAGRAM]).contains('\x1b'));
}

#[test]
fn lines_of_the_program_stand_beside_what_they_do() {
    let text = router(&["--packet", DATAGRAM]);
    let line = text.lines().find(|line| line.contains("hdr.ipv4.ttl = "));
    let line = line.expect("the time to live is written");
    let source = "  hdr.ipv4.ttl = hdr.ipv4.ttl - 1;";
    assert!(
        line.contains("router.p4:") && line.ends_with(source),
        "{line}"
    );
}

#[test]
fn a_dropped_packet_says_why() {
    // To 10.7.7.7, for which there is no route.
    let packet = "020000000101 020000000102 0800 4500001d0001000040115ec00a0001020a070707 0001000200096bc9 78";
    check(
        &router(&["--packet", packet]),
        &[
            "key hdr.ipv4.dst  lpm  0x0a070707 (168232711, 10.7.7.7)",
            "miss: the default action runs",
            "action RouterIngress.drop(reason: 2 (Drop.NoRoute))",
            "call counter.count of RouterIngress.drops ",
            "dropped: the program dropped it in ingress",
        ],
    );
}

#[test]
fn a_packet_of_a_capture_is_traced_by_its_number() {
    let arp = router(&["--pcap", "router.pcap"]);
    check(
        &arp,
        &[
            "extract hdr.arp",
            "action RouterIngress.arp_reply(",
            "sent by port 0, 60 bytes",
        ],
    );
    let ping = router(&["--pcap", "router.pcap", "--number", "2"]);
    check(&ping, &["extract hdr.icmp", "sent by port 1, 98 bytes"]);
    let back = router(&[
        "--pcap",
        "router-port1.pcap",
        "--number",
        "2",
        "--port",
        "1",
    ]);
    check(&back, &["received by port 1,", "sent by port 0, 98 bytes"]);
}

#[test]
fn every_copy_of_a_packet_is_followed() {
    let packet = "020000000009 020000000001 1234 7061796c6f6164";
    let args = [
        "learning.p4",
        "--entries",
        "learning.entries",
        "--packet",
        packet,
    ];
    check(
        &stdout("learning", &args),
        &[
            "digest learned_t is sent",
            "address  0x020000000001 (02:00:00:00:00:01)",
            "port     0",
            "copied (multicast): a copy for port 0,",
            "copied (multicast): a copy for port 3,",
            "the packet for port 0",
            "dropped: the program dropped it in egress",
            "the packet for port 1",
            "sent by port 1, 21 bytes",
            "the packet for port 3",
            "sent by port 3, 21 bytes",
        ],
    );
}

/// A program that clones a packet in ingress, and recirculates it once.
const TWO_WAYS: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> round; }
struct headers_t { h_t h; }
struct meta_t {}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply {} }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.h.round == 0) {
            clone(CloneType.I2E, 5);
        } else {
            clone(CloneType.I2E, 6);
            log_msg("round {}", { hdr.h.round });
        }
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.instance_type == 0 && hdr.h.round == 0) {
            hdr.h.round = 1;
            recirculate_preserving_field_list(0);
        }
    }
}
control C(inout headers_t hdr, inout meta_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn a_clone_and_a_recirculated_packet_are_told_apart() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (program, entries) = (
        directory.join("two_ways.p4"),
        directory.join("two_ways.entries"),
    );
    std::fs::write(&program, TWO_WAYS).expect("the program is written");
    std::fs::write(&entries, "clone 5 { port 7 instance 3 }\n").expect("the entries are written");
    let (program, entries) = (program.to_string_lossy(), entries.to_string_lossy());
    check(
        &stdout(
            "router",
            &[&program, "--entries", &entries, "--packet", "00 aa"],
        ),
        &[
            "ingress I",
            "call clone ",
            "copied (clone of ingress): a copy for port 7, instance 3",
            "parser P",
            "queued for port 7",
            "queued for port 1",
            "the packet for port 7",
            "deparsed, 2 bytes: as received",
            "sent by port 7, 2 bytes",
            "the packet for port 1",
            "egress E",
            "hdr.h.round = 1, was 0",
            "call recirculate ",
            "deparsed, 2 bytes: 1 byte changed or new",
            "starts over: recirculate",
            "parser P",
            "call log_msg ",
            "message: round 1",
            "no clone: there is no clone session 6",
            "queued for port 1",
            "deparsed, 2 bytes: as above",
            "sent by port 1, 2 bytes",
        ],
    );
}

#[test]
fn json_is_one_object_with_the_packet_the_events_and_the_outputs() {
    let json: Value =
        serde_json::from_str(&router(&["--packet", DATAGRAM, "--json"])).expect("this is JSON");
    assert_eq!(json["packet"]["length"], 47);
    assert_eq!(json["packet"]["port"], 0);
    let outputs = json["outputs"].as_array().expect("outputs are a list");
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs[0]["port"], 1);
    let bytes = outputs[0]["bytes"].as_str().expect("bytes are digits");
    assert!(
        bytes.starts_with("020000000202020000000201080045"),
        "{bytes}"
    );
    let events = json["events"].as_array().expect("events are a list");
    let lookup = events
        .iter()
        .find(|event| event["event"] == "lookup" && event["table"] == "RouterIngress.ipv4_lpm")
        .expect("the route is looked up");
    assert_eq!(lookup["hit"], true);
    assert_eq!(lookup["keys"][0]["value"], "0x0a000202");
    assert_eq!(lookup["keys"][0]["width"], 32);
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert_eq!(kinds.len(), events.len());
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("received", "sent"));
}

/// Runs the command with a user error, and checks the message.
#[track_caller]
fn check_error(args: &[&str], status: i32, expect: &str) {
    let output = trace("router", args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(output.stdout.is_empty());
    assert!(error.contains(expect), "{error}");
}

#[test]
fn mistakes_are_named() {
    let p4 = "router.p4";
    check_error(
        &[p4, "--packet", "00 0g"],
        1,
        "error: --packet: 'g' is no hexadecimal digit (character 5)\n  00 0g\n      ^\n",
    );
    check_error(&[p4, "--packet", "001"], 1, "3 digits are no whole bytes");
    check_error(&[p4, "--packet", ""], 1, "it has no bytes");
    check_error(
        &[p4, "--pcap", "router.pcap", "--number", "999"],
        1,
        "router.pcap has no packet 999: it has 27 packets, --number goes from 1 to 27",
    );
    check_error(
        &[p4, "--pcap", "router.pcap", "--number", "0"],
        2,
        "--number",
    );
    check_error(&[p4, "--pcap", "no.pcap"], 1, "cannot read no.pcap");
    check_error(&[p4, "--pcap", p4], 1, p4);
    check_error(&["no.p4", "--packet", "00"], 1, "no.p4");
    check_error(
        &[p4, "--packet", "00", "--entries", "no.entries"],
        1,
        "cannot read no.entries",
    );
    check_error(&[p4, "--packet", "00", "--entries", p4], 1, "router.p4:");
    check_error(
        &[p4, "--packet", "00", "--port", "512"],
        1,
        "port 512 cannot be: the ports of a program for v1model are 0 to 510",
    );
    check_error(&[p4, "--packet", "00", "--port", "x"], 2, "--port");
    check_error(&[p4], 2, "--packet");
    check_error(
        &[p4, "--packet", "00", "--pcap", "router.pcap"],
        2,
        "--pcap",
    );
    check_error(&[p4, "--packet", "00", "--number", "1"], 2, "--number");
}

#[test]
fn every_example_can_be_traced_with_the_first_packet_of_its_test() {
    let mut traced = 0;
    for example in std::fs::read_dir(examples()).expect("there are examples") {
        let directory = example.expect("it can be read").path();
        let name = directory
            .file_name()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        let Ok(stf) = std::fs::read_to_string(directory.join(format!("{name}.stf"))) else {
            continue;
        };
        let packet = stf.lines().find_map(|line| line.strip_prefix("packet "));
        let (port, hex) = packet
            .and_then(|packet| packet.split_once(' '))
            .expect("a packet comes");
        let (program, entries) = (format!("{name}.p4"), format!("{name}.entries"));
        let mut args = vec![program.as_str(), "--port", port, "--packet", hex];
        if directory.join(&entries).exists() {
            args.extend(["--entries", &entries]);
        }
        let text = stdout(&name, &args);
        let is_end =
            |line: &str| line.starts_with("sent by port ") || line.starts_with("dropped: ");
        assert!(text.lines().any(is_end), "{name}:\n{text}");
        traced += 1;
    }
    assert!(traced >= 10, "{traced} examples");
}

/// Returns a trace of the program with all kinds of externs.
fn externs(args: &[&str]) -> String {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/externs.p4");
    stdout("router", &[&[program, "--port", "1"], args].concat())
}

#[test]
fn externs_show_arguments_and_results_and_the_architecture_what_it_sets() {
    let text = externs(&["--packet", "0005fde8"]);
    let lines = [
        "set by the architecture",
        "std.packet_length  4",
        "std.ingress_port   1",
        "call verify_checksum",
        "algorithm   csum16",
        "hdr.data.a  5",
        "checksum    0xfde8 (65000)",
        "computed    -> 0xfffa (65530)",
        "set by the architecture",
        "std.checksum_error  1",
        "call register.read of I.cells",
        "index  3",
        "value  -> 0",
        "call register.write of I.cells",
        "hdr.data.a  5",
        "call counter.count of I.seen",
        "index  5",
        "call meter.execute of I.rate",
        "color  -> 0 (green)",
        "call hash",
        "algorithm   identity",
        "max         0x00000100 (256)",
        "hdr.data.a  5",
        "result      -> 5",
        "call random",
        "result  -> 7",
        "call log_msg",
        "meta.value  7",
        "round 3",
        "... 64995 rounds like these ...",
        "round 64999",
        "round 65000",
        "message: value 7",
        "set by the architecture",
        "std.egress_port    2",
        "call update_checksum",
        "checksum    -> 0xfffa (65530)",
    ];
    check(&text, &lines);
    assert!(text.lines().count() < 150, "{}", text.lines().count());
    check(
        &externs(&["--packet", "dead0000"]),
        &[
            "reject with error.NoMatch",
            "std.parser_error  error.NoMatch",
        ],
    );
}

#[test]
fn calls_and_rounds_are_told_as_json_too() {
    let json: Value = serde_json::from_str(&externs(&["--packet", "00050014", "--json"]))
        .expect("the output is JSON");
    let events = json["events"].as_array().expect("the events are a list");
    let of = |kind: &str| {
        events
            .iter()
            .filter(|e| e["event"] == kind)
            .collect::<Vec<_>>()
    };
    let hash = of("call")
        .into_iter()
        .find(|call| call["function"] == "hash");
    let hash = hash.expect("the hash is told");
    assert_eq!(hash["constants"][0]["text"], "identity");
    assert_eq!(hash["arguments"][2]["name"], "hdr.data.a");
    assert_eq!(hash["arguments"][2]["value"], "0x0005");
    assert_eq!(hash["results"][0]["value"], "0x0005");
    assert_eq!(of("folded")[0]["rounds"], 15);
    assert_eq!(of("round").len(), 5);
    assert_eq!(of("given").len(), 4);
    let all = externs(&["--packet", "00050014", "--json", "--all-rounds"]);
    assert_eq!(all.matches("\"event\": \"round\"").count(), 20);
}
