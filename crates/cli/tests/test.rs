//! `polyplane test`: its output for tests that pass.

mod lab;

use lab::{Captured, Directory, pcap, said, whole};
use packet::Nanos;
use port::{FrameDirection, FrameRecord, PcapngWriter};

/// A program that recirculates packets of 0xff endlessly, and makes copies of those of 1.
const PROGRAM: &str = "#include <v1model.p4>\nheader e_t { bit<8> a; }\nstruct h { e_t e; }\nstruct m {}\n\
    parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {\n\
      state start { p.extract(hdr.e); transition accept; }\n}\n\
    control V(inout h hdr, inout m meta) { apply {} }\n\
    control I(inout h hdr, inout m meta, inout standard_metadata_t s) {\n\
      apply { s.egress_spec = 1; if (hdr.e.a == 1) { s.mcast_grp = 1; } }\n}\n\
    control E(inout h hdr, inout m meta, inout standard_metadata_t s) {\n\
      apply { if (hdr.e.a == 0xff) { recirculate_preserving_field_list(0); } }\n}\n\
    control D(packet_out p, in h hdr) { apply { p.emit(hdr); } }\n\
    V1Switch(P(), V(), I(), E(), V(), D()) main;\n";

#[test]
fn limits_that_packets_meet_are_told_in_one_line() {
    let dir = Directory::new("test-limits");
    let program = dir.with("limits.p4", PROGRAM);
    let replicas: Vec<String> = (0..20_000)
        .map(|n| format!("port 1 instance {n}"))
        .collect();
    let group = format!("entry multicast 1 {{ {} }}\n", replicas.join(", "));
    let quiet = dir.with("quiet.stf", "packet 0 00\nexpect 1 00 $\n");
    let told = said(&["test", &program, &quiet]);
    assert_eq!((told.status, told.err.as_str()), (Some(0), ""));
    let test = format!("{group}packet 0 01\npacket 0 ff\npacket 0 FF\n");
    let loud = dir.with("loud.stf", test);
    let told = said(&["test", &program, &loud]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let line = told.one_line();
    for part in [
        "loud.stf: warning: ",
        "2 packets used up the work budget (work_budget)",
        "1 packet asked for too many copies (copy_budget)",
        "19999 copies were refused",
    ] {
        assert!(line.contains(part), "\"{part}\" in: {line}");
    }
}

/// A program with a table and an action that have restrictions.
const RESTRICTED: &str = "#include <v1model.p4>\nheader e_t { bit<8> a; }\nstruct h { e_t e; }\nstruct m {}\n\
    parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {\n\
      state start { p.extract(hdr.e); transition accept; }\n}\n\
    control V(inout h hdr, inout m meta) { apply {} }\n\
    control I(inout h hdr, inout m meta, inout standard_metadata_t s) {\n\
      @action_restriction(\"port != 0\")\n\
      action send(bit<9> port) { s.egress_spec = port; }\n\
      @entry_restriction(\"hdr.e.a != 9\")\n\
      table t { key = { hdr.e.a : exact; } actions = { send; NoAction; } }\n\
      apply { t.apply(); }\n}\n\
    control E(inout h hdr, inout m meta, inout standard_metadata_t s) { apply {} }\n\
    control D(packet_out p, in h hdr) { apply { p.emit(hdr); } }\n\
    V1Switch(P(), V(), I(), E(), V(), D()) main;\n";

#[test]
fn entries_that_break_a_restriction_are_refused_in_files_and_named_in_stf() {
    let dir = Directory::new("test-restrictions");
    let program = dir.with("r.p4", RESTRICTED);
    let test = dir.with(
        "add.stf",
        "add t hdr.e.a:9 send(port:1)\npacket 0 09\nexpect 1 09 $\n",
    );
    let told = said(&["test", &program, &test]);
    assert_eq!(told.status, Some(0), "{}", told.err);
    let place = format!("has this restriction at {program}:13:7");
    for part in [
        "add.stf:1: warning: the table `I.t`: @entry_restriction: `hdr.e.a != 9` does not hold",
        &place,
    ] {
        assert!(told.err.contains(part), "{}", told.err);
    }
    dir.with(
        "bad.entries",
        "t { hdr.e.a: 8 } -> send(1)\nt { hdr.e.a: 7 } -> send(0)\n",
    );
    let test = dir.with("file.stf", "entries bad.entries\n");
    let told = said(&["test", &program, &test]);
    assert_eq!(told.status, Some(1), "{}", told.err);
    let error = "bad.entries:2:1: error: the action `I.send`: @action_restriction: `port != 0`";
    assert!(told.err.contains(error), "{}", told.err);
    let input = format!("0={}", lab::example("router/router.pcap"));
    let entries = dir.file("bad.entries");
    let told = said(&["replay", &program, "--in", &input, "--entries", &entries]);
    assert_eq!(told.status, Some(1), "{}", told.err);
    assert!(told.err.contains(error), "{}", told.err);
}

#[test]
fn what_a_test_does_not_expect_is_at_the_line_of_the_packet_that_caused_it() {
    let dir = Directory::new("test-lines");
    let program = dir.with("limits.p4", PROGRAM);
    let queue = "entry queue port 1 rate 1000 depth 8\n";
    for (test, parts) in [
        (
            "packet 0 00\npacket 0 02\nexpect 1 00 $\n",
            vec!["t.stf:2: packet 2 at port 1 is not expected: 02"],
        ),
        (
            "expect 1 03 $\npacket 0 02\n\nexpect 1 04\n",
            vec![
                "t.stf:1: packet 1 at port 1, from line 2, differs: byte 0 should be 03, but is 02",
                "t.stf:4: expected at port 1, but did not come out: 04",
            ],
        ),
        (
            &format!("{queue}packet 0 00\npacket 0 02\nwait\nexpect 1 00 $\n"),
            vec!["t.stf:3: packet 2 at port 1 is not expected: 02"],
        ),
    ] {
        let file = dir.with("t.stf", test);
        let told = said(&["test", &program, &file]);
        assert_eq!(told.status, Some(1), "{}", told.err);
        for part in parts {
            assert!(told.err.contains(part), "{part}: {}", told.err);
        }
    }
}

#[test]
fn packets_of_captures_are_sent_and_expected() {
    let dir = Directory::new("test-captures");
    let program = dir.with("limits.p4", PROGRAM);
    let frames = |bytes: &[u8]| {
        let frames = bytes.iter().map(|byte| whole(0, vec![*byte, 0]));
        pcap(&frames.collect::<Vec<_>>())
    };
    dir.with("in put.pcap", frames(&[2, 3, 4]));
    dir.with("out.pcap", frames(&[2, 3, 4]));
    dir.with("other.pcap", frames(&[2, 9, 4]));
    let cut = Captured {
        original_len: 100,
        ..whole(0, vec![2, 0])
    };
    dir.with("cut.pcap", pcap(&[cut]));
    dir.with("empty.pcap", frames(&[]));
    // Frames as `ctl capture` writes them: interface, direction, first byte.
    let both = |name: &str, frames: &[(u32, FrameDirection, u8)]| {
        let mut writer = PcapngWriter::create(&dir.0.join(name)).unwrap();
        for n in 0..2 {
            writer.add_interface(&format!("eth{n}"), 100);
        }
        for (interface, direction, byte) in frames {
            let frame = FrameRecord {
                interface: *interface,
                time: Nanos::ZERO,
                bytes: &[*byte, 0],
                length: 2,
                direction: *direction,
                comment: None,
            };
            writer.write(frame).unwrap();
        }
        writer.flush().unwrap();
    };
    let (received, sent) = (FrameDirection::Received, FrameDirection::Sent);
    let passed = [2, 3].map(|byte| [(0, received, byte), (1, sent, byte)]);
    both("both.pcapng", passed.as_flattened());
    both("two.pcapng", &[(0, sent, 2), (1, sent, 3)]);
    let run = |text: &str| said(&["test", &program, &dir.with("test.stf", text)]);
    let good = run("packets 0 both.pcapng\nexpect_packets 1 both.pcapng\n");
    assert_eq!(good.status, Some(0), "{}", good.err);
    assert!(good.out.contains("2 packets in, 2 checks"), "{}", good.out);
    let good = run("packets 0 in put.pcap\nexpect_packets 1 out.pcap\n");
    assert_eq!(good.status, Some(0), "{}", good.err);
    assert!(good.out.contains("3 packets in, 3 checks"), "{}", good.out);
    for (text, words) in [
        (
            "packets 0 in put.pcap\nexpect_packets 1 other.pcap\n",
            ":2: ",
        ),
        ("packets 0 none.pcap\n", "none.pcap"),
        ("packets 0 cut.pcap\n", "only a part of 1 packet"),
        (
            "packets 0 in put.pcap\nexpect_packets 1 empty.pcap\n",
            "at port 1 is not expected",
        ),
        (
            "packets 0 both.pcapng\nexpect_packets 1 two.pcapng\n",
            "several interfaces",
        ),
        ("packets 0\n", "`packets` is written `packets PORT FILE`"),
    ] {
        let bad = run(text);
        assert_eq!(bad.status, Some(1), "{text}");
        assert!(bad.err.contains(words), "{text}: {}", bad.err);
    }
}
