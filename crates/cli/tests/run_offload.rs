//! `polyplane run --offload model`: heavy flows of a P4 program go to the NIC, their packets are in
//! all counts, and traces show the plane.

mod lab;

use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::pof::wait_for;
use lab::{Directory, Running, polyplane};
use packet::{Batch, Frame, Nanos};
use port::Port;
use serde_json::Value;

/// A program that sets a byte and sends by a table with direct counters.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) counted;
    action send(bit<9> port, bit<48> src) { standard.egress_spec = port; hdr.ethernet.src = src; counted.count(); }
    action drop() { mark_to_drop(standard); counted.count(); }
    table kinds {
        key = { hdr.ethernet.kind: exact; }
        actions = { send; drop; }
        default_action = drop();
        counters = counted;
        size = 16;
    }
    apply { kinds.apply(); }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

const PATIENCE: Duration = Duration::from_secs(60);

fn frame(kind: u16) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    bytes.extend(kind.to_be_bytes());
    bytes.resize(60, 3);
    bytes
}

/// Sends a frame some times by the first end, and checks that each arrives at the second, changed.
fn carry(cables: &mut Cables, frame: &[u8], times: usize) {
    let mut expected = frame.to_vec();
    expected[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    for _ in 0..times / 16 {
        for _ in 0..16 {
            cables.ends[0].tx(&[Frame::from_bytes(frame).unwrap()]);
        }
        let (start, mut arrived) = (Instant::now(), 0);
        let mut batch = Batch::default();
        while arrived < 16 {
            assert!(start.elapsed() < PATIENCE, "{arrived} of 16");
            batch.clear();
            let _ = cables.ends[1].rx(&mut batch, Nanos::from(start.elapsed()));
            arrived += batch.len();
            assert!(batch.frames().iter().all(|frame| frame.bytes() == expected));
        }
    }
}

#[test]
fn flows_of_several_workers_go_to_the_nic_and_are_counted_and_traced() {
    let Some(mut cables) = Cables::new(2) else {
        return;
    };
    cables.switch.rtnl().unwrap().set_up("lo").unwrap();
    let directory = Directory::new("run-offload");
    let program = directory.with("kinds.p4", PROGRAM);
    let entries = "kinds { hdr.ethernet.kind: 0x1234; } -> send(port: 1, src: 02:00:00:00:00:09)\n";
    let entries = directory.with("kinds.entries", entries);
    let traces = directory.file("traces");
    let mut command = polyplane();
    command.args(["run", &program, "--entries", &entries, "--json"]);
    command.args(["--port", "0=port0", "--port", "1=port1", "--io", "packet"]);
    command.args(["--workers", "2", "--offload", "model"]);
    command.args(["--metrics", "127.0.0.1:0"]);
    command.args(["--trace", "eth.type == 0x1234", "--trace-file", &traces]);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let lines = lab::pof::lines_of(&mut running);
    let metrics = wait_for(&lines, "metrics are served at http://");
    let metrics = metrics.split_once("http://").unwrap().1;
    let metrics = metrics.trim_end_matches("/metrics").to_owned();
    let (start, mut sent) = (Instant::now(), 0);
    let flow = loop {
        carry(&mut cables, &frame(0x1234), 32);
        sent += 32;
        let mut command = polyplane();
        command.args(["offload", "flows", "--json", "--at", &metrics]);
        let said = cables.switch.run(|| Running::start(&mut command)).unwrap();
        let flows: Value = said.finish().json();
        let flows = flows[0]["report"].as_array().unwrap().clone();
        if let Some(flow) = flows.into_iter().find(|flow| flow["state"] == "in_hw") {
            break flow;
        }
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(flow["match"], "port 0, eth.type 0x1234");
    assert_eq!(flow["outputs"][0], 1);
    carry(&mut cables, &frame(0x1234), 320);
    sent += 320;
    running.signal("TERM");
    let said = running.finish();
    assert_eq!(said.status, Some(0), "{}", said.err);
    let report = said.json();
    assert_eq!(report["tables"][0]["hits"], sent, "{report:#}");
    assert_eq!(report["ports"][0]["received"]["packets"], sent);
    assert_eq!(report["ports"][1]["sent"]["packets"], sent);
    // Packets of the software alone are the workers'.
    let workers = report["workers"].as_array().unwrap().iter();
    let received: u64 = workers
        .map(|worker| worker["received"].as_u64().unwrap())
        .sum();
    assert!(received + 320 <= sent, "{received} of {sent}");
    let traces = std::fs::read_to_string(&traces).unwrap();
    let planes = traces.lines().map(|line| {
        let trace: Value = serde_json::from_str(line).unwrap();
        assert_eq!(trace["outputs"][0]["port"], 1);
        trace["plane"].as_str().unwrap().to_owned()
    });
    let planes: Vec<String> = planes.collect();
    assert!(planes.contains(&"nic".to_owned()), "{planes:?}");
    assert!(planes.contains(&"software".to_owned()), "{planes:?}");
}
