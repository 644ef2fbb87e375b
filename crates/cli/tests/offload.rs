//! `polyplane offload flows`: rules for the flows of a capture, or the reasons for software.

mod lab;

use lab::{Directory, Said, said};

/// POF text: IPv4 to 10.0.1.0/24 leaves by port 1 with a byte changed that no checksum has, other
/// IPv4 goes to the controllers, and another EtherType is dropped.
const TEXT: &str = "table add mm/0 size 8 fields type=96/16 dst=240/32
flow add mm/0 priority 2 match type=0x800 dst=10.0.1.0/24 do set_field 0/8=0x0e; output 1
flow add mm/0 priority 1 match type=0x1234 dst=0&0 do drop
";

/// Writes a capture (pcap, little-endian, microseconds) of frames.
fn capture(dir: &Directory, frames: &[Vec<u8>]) -> String {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (number, frame) in (1..).zip(frames) {
        let len = frame.len() as u32;
        for word in [number, 0, len, len] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(frame);
    }
    let file = dir.file("in.pcap");
    std::fs::write(&file, bytes).unwrap();
    file
}

/// Returns a frame of 60 bytes with an EtherType and a destination at byte 30.
fn frame(ether_type: u16, to: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
    frame[14] = 0x45;
    frame[30..34].copy_from_slice(&to);
    frame
}

fn flows(words: &[&str]) -> Said {
    said(&[&["offload", "flows"], words].concat())
}

#[test]
fn each_flow_has_its_rule_or_its_reason() {
    let dir = Directory::new("offload-flows");
    let text = dir.file("tables.pof");
    std::fs::write(&text, TEXT).unwrap();
    let file = capture(
        &dir,
        &[
            frame(0x0800, [10, 0, 1, 7]),
            frame(0x0800, [10, 0, 1, 200]),
            frame(0x0800, [10, 0, 1, 3]),
            frame(0x0800, [10, 9, 1, 7]),
            frame(0x1234, [10, 0, 1, 7]),
        ],
    );
    let input = format!("0={file}");
    let report = flows(&[&text, "--in", &input, "--json"]);
    assert_eq!(report.status, Some(0), "{}", report.err);
    let report = report.json();
    assert_eq!(report["packets"], 5);
    let flows = report["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 3, "{report}");
    // One flow for all of the prefix.
    assert_eq!(flows[0]["packets"], 3);
    assert_eq!(flows[0]["outputs"][0], 1);
    let rule = flows[0]["rule"].as_str().unwrap();
    for part in ["protocol ip", "dst_ip 10.0.1.0/24", "port1"] {
        assert!(rule.contains(part), "{part}: {rule}");
    }
    let mut reasons = flows.iter().filter_map(|flow| flow["reason"].as_str());
    assert!(
        reasons.any(|reason| reason.contains("controller")),
        "{report}"
    );
    let with_rule = flows.iter().filter(|flow| flow["rule"].is_string());
    let offloadable: u64 = with_rule
        .map(|flow| flow["packets"].as_u64().unwrap())
        .sum();
    assert_eq!(report["offloadable_packets"], offloadable);
}

#[test]
fn a_programs_flows_are_found_and_wrong_input_is_named() {
    let input = format!("0={}", lab::example("router/router.pcap"));
    let program = lab::example("acl/acl.p4");
    let entries = lab::example("acl/acl.entries");
    let shown = flows(&[&program, "--entries", &entries, "--in", &input]);
    assert_eq!(shown.status, Some(0), "{}", shown.err);
    for part in [
        "port 0, 1 packet, 60 B:\nfilter protocol arp",
        "26 packets, 26.5 kB: no key of flower says that an IP header has no options",
        "1 of 27 packets (3.7 %) can be in a NIC",
    ] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    let missing = flows(&[&program, "--in", "0=no-such.pcap"]);
    assert_eq!(missing.status, Some(1));
    assert!(missing.err.contains("no-such.pcap"), "{}", missing.err);
}
