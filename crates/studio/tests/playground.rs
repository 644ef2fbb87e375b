//! Requests of the playground as values.

use serde_json::Value;
use studio::playground::{
    CheckRequest, Checked, MAX_PACKETS, Packet, PacketResult, Ran, RunRequest, check, read_capture,
    request_work, run,
};

const ROUTER: &str = include_str!("../../../examples/router/router.p4");
const ENTRIES: &str = include_str!("../../../examples/router/router.entries");

/// UDP from 10.0.1.2 to 10.0.2.2, and the same with a time to live of 1.
const ROUTED: &str = "020000000101020000000102080045000021000100004011\
                      63c80a0001020a00020203e80035000d94cb7175657279";
const EXPIRED: &str = "020000000101020000000102080045000021000100000111\
                       a2c80a0001020a00020203e80035000d94cb7175657279";

fn packets(texts: &[&str]) -> Vec<Packet> {
    let packets = texts.iter().map(|bytes| Packet {
        port: 0,
        bytes: (*bytes).to_owned(),
    });
    packets.collect()
}

fn run_router(entries: &str, texts: &[&str]) -> Ran {
    let request = RunRequest {
        program: ROUTER.to_owned(),
        entries: entries.to_owned(),
        packets: packets(texts),
    };
    run(&request, &request_work()).expect("it is within its limits")
}

fn check_program(program: String) -> Checked {
    check(&CheckRequest { program }, &request_work()).expect("it is within its limits")
}

fn trace(result: &PacketResult) -> Value {
    match result {
        PacketResult::Trace(json) => serde_json::from_str(json.get()).expect("it is JSON"),
        PacketResult::Fault(fault) => panic!("{fault}"),
    }
}

fn parse(json: &str) -> Vec<Value> {
    serde_json::from_str(json).expect("it is JSON")
}

#[test]
fn a_right_program_has_headers_and_tables() {
    let program = ROUTER.to_owned();
    let checked = check_program(program);
    assert!(parse(checked.diagnostics.get()).is_empty());
    let view = serde_json::to_value(checked.program.expect("it is right")).unwrap();
    assert_eq!(view["headers"][0]["name"], "hdr.ethernet");
    let fields = &view["headers"][0]["fields"];
    assert_eq!(fields[0]["name"], "dst");
    assert_eq!(fields[0]["width"], 48);
    let tables = view["tables"].as_array().unwrap();
    let routes = tables
        .iter()
        .find(|table| table["name"].as_str().unwrap().ends_with("ipv4_lpm"));
    assert_eq!(routes.expect("it is there")["keys"][0]["match"], "lpm");
}

#[test]
fn a_wrong_program_has_a_diagnostic_with_its_place_and_hint() {
    let program = ROUTER.replacen("hdr.ethernet.type", "hdr.ethernet.typ", 1);
    assert_ne!(program, ROUTER);
    let checked = check_program(program);
    let diagnostics = parse(checked.diagnostics.get());
    assert_eq!(diagnostics[0]["severity"], "error");
    assert!(diagnostics[0]["line"].as_u64().unwrap() > 1);
    assert!(
        diagnostics[0]["hint"].as_str().unwrap().contains("type"),
        "{diagnostics:?}"
    );
    assert!(checked.program.is_none());
}

#[test]
fn packets_run_in_order_on_one_device_and_have_traces() {
    let ran = run_router(ENTRIES, &[ROUTED, EXPIRED]);
    assert!(ran.entry_errors.is_empty() && ran.refusal.is_none());
    let routed = trace(&ran.packets[0]);
    assert_eq!(routed["outputs"][0]["port"], 1);
    let expired = trace(&ran.packets[1]);
    assert!(expired["outputs"].as_array().unwrap().is_empty());
    let dropped = |trace: &Value| {
        let events = trace["events"].as_array().unwrap();
        events.iter().any(|event| event["event"] == "dropped")
    };
    assert!(dropped(&expired) && !dropped(&routed));
}

#[test]
fn wrong_entries_have_their_place_and_nothing_runs() {
    let ran = run_router(
        "ipv4_lpm { hdr.ipv4.dst: 10.0.0.0/8; } -> conected(port: 0)\n",
        &[ROUTED],
    );
    assert!(ran.packets.is_empty());
    let error = ran.entry_errors.first().expect("there is an error");
    assert_eq!(error.line, 1);
    assert!(
        error.column > 1
            && error
                .hint
                .as_deref()
                .is_some_and(|it| it.contains("connected"))
    );
}

#[test]
fn a_packet_of_no_bytes_has_a_fault_and_others_run() {
    let ran = run_router(ENTRIES, &["xyz", ROUTED]);
    assert!(matches!(&ran.packets[0], PacketResult::Fault(fault) if fault.contains("'x'")));
    assert_eq!(trace(&ran.packets[1])["outputs"][0]["port"], 1);
}

#[test]
fn equal_requests_have_equal_answers() {
    let text = |ran: &Ran| serde_json::to_string(ran).unwrap();
    let first = run_router(ENTRIES, &[ROUTED, EXPIRED]);
    assert_eq!(text(&first), text(&run_router(ENTRIES, &[ROUTED, EXPIRED])));
}

#[test]
fn too_many_packets_are_refused() {
    let request = RunRequest {
        program: ROUTER.to_owned(),
        entries: String::new(),
        packets: packets(&vec![ROUTED; MAX_PACKETS + 1]),
    };
    assert!(run(&request, &request_work()).is_err_and(|reason| reason.contains("at most 64")));
}

#[test]
fn a_program_includes_no_file_of_the_machine() {
    let program = "#include \"/etc/hostname\"\n".to_owned();
    let checked = check_program(program);
    assert!(checked.program.is_none());
    let diagnostics = parse(checked.diagnostics.get());
    assert_eq!(diagnostics[0]["line"], 1, "{diagnostics:?}");
}

#[test]
fn captures_are_read_and_other_files_refused() {
    let capture = include_bytes!("../../../examples/router/router.pcap");
    let whole = read_capture(capture.to_vec()).expect("it is a capture");
    assert!(!whole.packets.is_empty() && whole.packets.len() <= MAX_PACKETS);
    assert!(whole.packets[0].bytes.len() >= 28 && !whole.has_more);
    let cut = read_capture(capture[..capture.len() - 5].to_vec()).expect("its start is there");
    assert_eq!(cut.packets.len() + 1, whole.packets.len());
    assert!(cut.has_more);
    assert!(read_capture(b"no capture at all".to_vec()).is_err());
}

/// A program that sends each packet to a multicast group.
const FLOOD: &str = r"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers { h_t h; }
struct meta_t { }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    apply { s.mcast_grp = 1; }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

#[test]
fn traces_that_are_too_large_are_refused_and_not_kept() {
    let ports: Vec<String> = (0..500).map(|port| format!("port {port}")).collect();
    let request = RunRequest {
        program: FLOOD.to_owned(),
        entries: format!("multicast 1 {{ {} }}\n", ports.join(", ")),
        packets: packets(&["00".repeat(60_000).as_str(); 2]),
    };
    let refused = run(&request, &request_work());
    assert!(
        refused
            .as_ref()
            .is_err_and(|it| it.contains("bytes of packets")),
        "{refused:?}"
    );
}

#[test]
fn cancelled_work_ends() {
    let work = request_work();
    work.cancel();
    let program = ROUTER.to_owned();
    assert!(check(&CheckRequest { program }, &work).is_err());
}
