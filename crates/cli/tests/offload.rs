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
    let without = flows(&[]);
    assert_eq!(without.status, Some(2));
    assert!(without.err.contains("--at <ADDRESS>"), "{}", without.err);
}

#[test]
fn routers_that_check_the_header_s_checksum_have_rules_under_the_owner_s_words() {
    let dir = Directory::new("offload-routers");
    let udp = |to: [u8; 4], port: u8| {
        let mut frame = frame(0x0800, to);
        frame[16..18].copy_from_slice(&46u16.to_be_bytes());
        (frame[22], frame[23]) = (64, 17);
        frame[26..30].copy_from_slice(&[10, 0, 0, 2]);
        (frame[35], frame[37]) = (port, 53);
        frame[24..26].fill(0);
        let sum = support::checksum::internet_checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    // The addresses of the examples' entries.
    for (name, mac, to) in [
        ("router", [2, 0, 0, 0, 1, 1], [10, 0, 2, 2]),
        ("ecmp", [2, 0, 0, 0, 0, 0x99], [10, 1, 0, 7]),
    ] {
        let mut frames: Vec<Vec<u8>> = (1..4).map(|port| udp(to, port)).collect();
        frames
            .iter_mut()
            .for_each(|frame| frame[..6].copy_from_slice(&mac));
        let input = format!("0={}", capture(&dir, &frames));
        let program = lab::example(&format!("{name}/{name}.p4"));
        let entries = lab::example(&format!("{name}/{name}.entries"));
        let words = [&program, "--entries", &entries, "--in", &input, "--json"];
        let refused = flows(&words).json();
        assert_eq!(refused["offloadable_packets"], 0, "{refused:#}");
        for one in ["--no-ip-options", "--valid-ip-checksums"] {
            let refused = flows(&[&words[..], &[one]].concat()).json();
            assert_eq!(refused["offloadable_packets"], 0, "{one}: {refused:#}");
        }
        let both = ["--no-ip-options", "--valid-ip-checksums"];
        let taken = flows(&[&words[..], &both].concat()).json();
        assert_eq!(taken["offloadable_packets"], 3, "{taken:#}");
        let rule = taken["flows"][0]["rule"].as_str().unwrap();
        for part in ["ip_proto udp", "csum (iph)", "pedit"] {
            assert!(rule.contains(part), "{part}: {rule}");
        }
        // A router has one flow for all, a choice by the ports one for each.
        let expected = if name == "router" { 1 } else { 3 };
        assert_eq!(
            taken["flows"].as_array().unwrap().len(),
            expected,
            "{taken:#}"
        );
    }
}
