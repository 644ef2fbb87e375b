//! `polyplane replay`, as a new user would try it: whole and damaged captures, full disks, wrong
//! arguments.

mod lab;

use lab::{Captured, Directory, Running, packets, pcap, polyplane, said, to_other_host, whole};

/// A PNA program that forwards packets from the host side to port 7 and drops the rest.
const FROM_HOST: &str = r#"
#include <core.p4>
#include <pna.p4>
struct headers_t {}
struct metadata_t {}
control Pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t input, inout pna_pre_output_metadata_t output) { apply {} }
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t input) {
    state start { transition accept; }
}
control Main(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t input, inout pna_main_output_metadata_t output) {
    apply {
        if (input.direction == PNA_Direction_t.HOST_TO_NET) { send_to_port((PortId_t) 7); } else { drop_packet(); }
    }
}
control Deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t output) { apply {} }
PNA_NIC(Parse(), Pre(), Main(), Deparse()) main;
"#;

/// Runs the example router over captures.
fn replay(inputs: &[&str], out_dir: &str, more: &[&str]) -> lab::Said {
    let (program, entries) = (
        lab::example("router/router.p4"),
        lab::example("router/router.entries"),
    );
    let mut arguments = vec![
        "replay",
        &program,
        "--entries",
        &entries,
        "--out-dir",
        out_dir,
    ];
    inputs
        .iter()
        .for_each(|input| arguments.extend(["--in", input]));
    arguments.extend(more);
    said(&arguments)
}

#[test]
fn packets_leave_by_the_port_that_the_program_says_at_the_time_of_their_capture() {
    let dir = Directory::new("replay-ports");
    let a = dir.with(
        "a.pcap",
        pcap(&[
            whole(1_000_000, to_other_host(0, 46, 1)),
            whole(3_000_000, to_other_host(0, 46, 3)),
        ]),
    );
    let b = dir.with("b.pcap", pcap(&[whole(2_000_000, to_other_host(1, 46, 2))]));
    let said = replay(
        &[&format!("0={a}"), &format!("1={b}")],
        &dir.file("out"),
        &["--json"],
    );
    assert_eq!(said.status, Some(0), "{}", said.err);
    let json = said.json();
    assert_eq!(json["received"]["packets"], 3);
    assert_eq!(json["sent"]["packets"], 3);
    let to_b = packets(&dir.0.join("out/1.pcap"));
    let times: Vec<u64> = to_b.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [1_000_000_000, 3_000_000_000]);
    let (_, first) = &to_b[0];
    // The neighbour's address, the router's address, and a decremented TTL.
    assert_eq!(first[..12], [2, 0, 0, 0, 2, 2, 2, 0, 0, 0, 2, 1]);
    assert_eq!(first[22], 63);
    assert_eq!(packets(&dir.0.join("out/0.pcap")).len(), 1);
}

#[test]
fn the_summary_names_tables_ports_and_drops() {
    let dir = Directory::new("replay-summary");
    let mut stray = to_other_host(0, 46, 2);
    stray[0] = 6;
    let capture = dir.with(
        "in.pcap",
        pcap(&[whole(1, to_other_host(0, 46, 1)), whole(2, stray)]),
    );
    let said = replay(&[&format!("0={capture}")], &dir.file("out"), &[]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    for part in [
        "2 packets",
        "ipv4_lpm",
        "1 hit",
        "dropped",
        "port 1",
        "1.pcap",
        "pps",
    ] {
        assert!(said.out.contains(part), "{part} in:\n{}", said.out);
    }
    assert!(
        !said.err.contains('\r'),
        "no progress bar where there is no terminal"
    );
}

#[test]
fn everything_before_the_damage_of_a_truncated_capture_is_carried() {
    let dir = Directory::new("replay-truncated");
    let mut file = pcap(&[
        whole(1, to_other_host(0, 46, 1)),
        whole(2, to_other_host(0, 46, 2)),
        whole(3, to_other_host(0, 46, 3)),
    ]);
    file.truncate(file.len() - 7);
    let capture = dir.with("in.pcap", file);
    let said = replay(&[&format!("0={capture}")], &dir.file("out"), &[]);
    assert_eq!(said.status, Some(1));
    let line = said.one_line();
    assert!(line.contains("ends in the middle of packet 3"), "{line}");
    assert!(line.contains("7 bytes are missing"), "{line}");
    assert_eq!(packets(&dir.0.join("out/1.pcap")).len(), 2);
}

#[test]
fn jumbo_and_empty_packets_are_carried_or_dropped_by_the_program() {
    let dir = Directory::new("replay-sizes");
    let capture = dir.with(
        "in.pcap",
        pcap(&[
            whole(1, Vec::new()),
            whole(2, to_other_host(0, 9000, 1)),
            whole(3, vec![0xff]),
            whole(4, to_other_host(0, 65_000, 2)),
        ]),
    );
    let said = replay(&[&format!("0={capture}")], &dir.file("out"), &["--json"]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert_eq!(said.json()["received"]["packets"], 4);
    let lengths: Vec<usize> = packets(&dir.0.join("out/1.pcap"))
        .iter()
        .map(|(_, b)| b.len())
        .collect();
    assert_eq!(lengths, [9014, 65_014]);
}

#[test]
fn packets_that_the_capture_cut_short_are_counted() {
    let dir = Directory::new("replay-cut");
    let mut bytes = to_other_host(0, 1000, 1);
    bytes.truncate(96);
    let cut = Captured {
        time_us: 1,
        bytes,
        original_len: 1014,
    };
    let capture = dir.with("in.pcap", pcap(&[cut]));
    let said = replay(&[&format!("0={capture}")], &dir.file("out"), &[]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(
        said.out.contains("1 packet cut short by the capture"),
        "{}",
        said.out
    );
}

#[test]
fn a_full_disk_costs_only_the_file_that_is_on_it() {
    if !std::path::Path::new("/dev/full").exists() {
        return println!("skipped: this machine has no /dev/full");
    }
    let dir = Directory::new("replay-full");
    let out = dir.0.join("out");
    std::fs::create_dir(&out).unwrap();
    std::os::unix::fs::symlink("/dev/full", out.join("1.pcap")).unwrap();
    let both = [
        whole(1, to_other_host(0, 46, 1)),
        whole(2, to_other_host(0, 46, 2)),
    ];
    let a = dir.with("a.pcap", pcap(&both));
    let b = dir.with("b.pcap", pcap(&[whole(3, to_other_host(1, 46, 3))]));
    let said = replay(
        &[&format!("0={a}"), &format!("1={b}")],
        &dir.file("out"),
        &[],
    );
    assert_eq!(said.status, Some(1));
    let line = said.one_line();
    assert!(
        line.contains("cannot write") && line.contains("1.pcap"),
        "{line}"
    );
    assert!(line.contains("free space on that disk"), "{line}");
    assert_eq!(packets(&out.join("0.pcap")).len(), 1);
}

#[test]
fn wrong_files_and_arguments_get_one_line_that_says_what_to_do() {
    let dir = Directory::new("replay-wrong");
    let text = dir.with("notes.txt", "this is no capture");
    let empty = dir.with("empty.pcap", "");
    let out = dir.file("out");
    let check = |input: &str, expect: &str| {
        let said = replay(&[input], &out, &[]);
        assert_eq!(said.status, Some(1), "{input}");
        assert!(said.one_line().contains(expect), "{input}: {}", said.err);
    };
    check(
        "0=/nowhere/in.pcap",
        "cannot read /nowhere/in.pcap: No such file",
    );
    check(&format!("0={text}"), "is no pcap or pcapng capture");
    check(&format!("0={empty}"), "it is empty");
    let good = dir.with("in.pcap", pcap(&[]));
    check(&format!("511={good}"), "port 511 cannot be: the ports");
    let usage = replay(&["in.pcap"], &out, &[]);
    assert_eq!(usage.status, Some(2));
    assert!(
        usage.err.contains("write PORT=FILE, as in 0=in.pcap"),
        "{}",
        usage.err
    );
}

#[test]
fn a_capture_is_not_overwritten_by_what_is_made_of_it() {
    let dir = Directory::new("replay-overwrite");
    let file = pcap(&[whole(1, to_other_host(0, 46, 1))]);
    let capture = dir.with("1.pcap", &file);
    let said = replay(
        &[&format!("0={capture}")],
        &dir.0.display().to_string(),
        &[],
    );
    assert_eq!(said.status, Some(1));
    assert!(
        said.one_line().contains("give another --out-dir"),
        "{}",
        said.err
    );
    assert_eq!(std::fs::read(&capture).unwrap(), file);
}

#[test]
fn wrong_entries_are_marked_and_nothing_is_written() {
    let dir = Directory::new("replay-entries");
    let capture = dir.with("in.pcap", pcap(&[whole(1, to_other_host(0, 46, 1))]));
    let entries = dir.with(
        "bad.entries",
        "ipv4_lpn { hdr.ipv4.dst: 10.0.0.0/8; } -> connected(port: 1)\n",
    );
    let said = said(&[
        "replay",
        &lab::example("router/router.p4"),
        "--in",
        &format!("0={capture}"),
        "--out-dir",
        &dir.file("out"),
        "--entries",
        &entries,
    ]);
    assert_eq!(said.status, Some(1));
    assert!(said.err.contains("bad.entries:1:1: error"), "{}", said.err);
    assert!(
        said.err.contains("ipv4_lpm"),
        "a suggestion in:\n{}",
        said.err
    );
    assert!(!dir.0.join("out/1.pcap").exists());
}

#[test]
fn an_interrupted_replay_keeps_what_it_has_written() {
    let dir = Directory::new("replay-interrupted");
    let many: Vec<Captured> = (0..400_000)
        .map(|i| whole(i, to_other_host(0, 46, i as u16)))
        .collect();
    let capture = dir.with("in.pcap", pcap(&many));
    let (program, entries) = (
        lab::example("router/router.p4"),
        lab::example("router/router.entries"),
    );
    let input = format!("0={capture}");
    let out = dir.file("out");
    let running = Running::start(polyplane().args([
        "replay",
        &program,
        "--entries",
        &entries,
        "--in",
        &input,
        "--out-dir",
        &out,
        "--json",
    ]));
    let partial = dir.0.join("out/1.pcap.part");
    while !partial.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    running.signal("INT");
    let said = running.finish();
    assert_eq!(said.status, Some(1));
    assert!(
        said.one_line().contains("interrupted by SIGINT after"),
        "{}",
        said.err
    );
    let written = packets(&dir.0.join("out/1.pcap")).len() as u64;
    assert!(written > 0);
    assert_eq!(said.json()["sent"]["packets"], written);
}

#[test]
fn a_disk_that_runs_full_keeps_what_was_written() {
    let dir = Directory::new("replay-small-disk");
    // More than twice the size of the disk.
    let many: Vec<Captured> = (0..4000)
        .map(|i| whole(i, to_other_host(0, 1400, i as u16)))
        .collect();
    let capture = dir.with("in.pcap", pcap(&many));
    let out = dir.file("out");
    std::fs::create_dir(&out).unwrap();
    // The disk exists in the mount namespace of the shell.
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs {out} && \"$@\"; status=$?; ls {out}; exit $status"
    );
    let mut command = std::process::Command::new("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &script,
        "sh",
    ]);
    command.arg(env!("CARGO_BIN_EXE_polyplane"));
    let (program, entries) = (
        lab::example("router/router.p4"),
        lab::example("router/router.entries"),
    );
    command.args(["replay", &program, "--entries", &entries, "--out-dir", &out]);
    command.args(["--in", &format!("0={capture}")]);
    let said = match command.output() {
        Ok(output) => lab::Said::from(output),
        Err(error) => return println!("skipped: cannot run unshare: {error}"),
    };
    if said.err.contains("unshare:") || said.err.contains("mount:") {
        return println!("skipped: {}", said.err);
    }
    assert_eq!(said.status, Some(1), "{}", said.err);
    let line = said.one_line();
    assert!(
        line.contains("No space left on device") && line.contains("free space"),
        "{line}"
    );
    assert!(
        line.contains("1.pcap.part"),
        "what could be written is kept: {line}"
    );
    assert!(said.out.contains("1.pcap.part"), "{}", said.out);
    assert!(
        said.out.contains("4000 packets"),
        "the rest is still counted: {}",
        said.out
    );
}

#[test]
fn the_ports_of_the_host_are_those_that_were_named() {
    let dir = Directory::new("replay-host-port");
    let program = dir.with("host.p4", FROM_HOST);
    let capture = dir.with("in.pcap", pcap(&[whole(1, to_other_host(0, 46, 1))]));
    let input = format!("3={capture}");
    let sent = |more: &[&str]| {
        let said = said(&[&["replay", &program, "--in", &input, "--json"], more].concat());
        assert_eq!(said.status, Some(0), "{}", said.err);
        said.json()["sent"]["packets"].as_u64()
    };
    assert_eq!(sent(&["--host-port", "3"]), Some(1));
    assert_eq!(sent(&["--host-port", "4"]), Some(0));
    assert_eq!(sent(&[]), Some(0));
}

#[test]
fn digests_and_idle_entries_are_shown_and_reported() {
    let dir = Directory::new("replay-digests");
    let mut frame = vec![0; 60];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0, 0x11, 0x22, 0x33, 0x44, 0x55]);
    let at = |seconds: u64| seconds * 1_000_000;
    // The clock starts long after zero. Entries must not count as idle for that time. Their
    // time-out is 300 s.
    let capture = dir.with(
        "in.pcap",
        pcap(&[
            whole(at(1_000_000), frame.clone()),
            whole(at(1_000_400), frame),
        ]),
    );
    let (program, entries) = (
        lab::example("learning/learning.p4"),
        lab::example("learning/learning.entries"),
    );
    let input = format!("1={capture}");
    let said = said(&[
        "replay",
        &program,
        "--entries",
        &entries,
        "--in",
        &input,
        "--json",
    ]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    let digest = "digest learned_t { address: 0x001122334455, port: 0x001 }";
    let idle = "idle: table SwitchIngress.forward entry { hdr.ethernet.dst: 02:00:00:00:00:02; }";
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines.len(), 4, "{}", said.err);
    assert_eq!(lines[0], digest, "{}", said.err);
    assert!(lines[1..3].contains(&idle), "{}", said.err);
    assert_eq!(lines[3], digest, "{}", said.err);
    let json = said.json();
    assert_eq!(json["digests"], 2);
    assert_eq!(json["last_digests"], serde_json::json!([digest, digest]));
    assert_eq!(json["idle"], 2);
    assert_eq!(json["expired"], 0);
}

#[test]
fn entries_that_are_not_text_are_told_as_such() {
    let dir = Directory::new("replay-not-text");
    let capture = dir.with("in.pcap", pcap(&[]));
    let entries = dir.with("bad.entries", [0xff, 0xfe, 0x00]);
    let program = lab::example("learning/learning.p4");
    let input = format!("0={capture}");
    let said = said(&["replay", &program, "--entries", &entries, "--in", &input]);
    assert_eq!(said.status, Some(1));
    let line = said.one_line();
    assert!(
        line.contains(&format!("{entries} is not a text file")),
        "{line}"
    );
}

/// STF programs for v1model with results that BMv2's behaviour defines.
const AS_BMV2: &[&str] = &[
    "a_checksum_of_an_absent_header_is_not_verified",
    "a_clone_each_round_leaves_all_rounds",
    "a_narrow_selector_reaches_all_members",
    "a_truncated_packet_starts_over_whole",
    "clones_and_rounds_of_both_kinds",
    "egress_length_is_what_ingress_left",
    "egress_length_of_copies",
    "slices_in_parentheses",
];

/// Returns the bytes of a line of an STF test, given the words after its port.
fn bytes_of(words: &[&str]) -> Vec<u8> {
    let hex: String = words.iter().copied().filter(|word| *word != "$").collect();
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn a_replay_of_packets_gives_what_bmv2_sends() {
    let corpus = format!("{}/../../testkit/programs", env!("CARGO_MANIFEST_DIR"));
    for name in AS_BMV2 {
        let dir = Directory::new(&format!("replay-{name}"));
        let (program, test) = (
            format!("{corpus}/{name}.p4"),
            format!("{corpus}/{name}.stf"),
        );
        let test = std::fs::read_to_string(test).expect("the test can be read");
        let (mut entries, mut frames) = (String::new(), Vec::new());
        let mut expected: std::collections::BTreeMap<&str, Vec<Vec<u8>>> = Default::default();
        for line in test.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["entry", ..] => entries += &format!("{}\n", &line["entry ".len()..]),
                ["packet", _, ref bytes @ ..] => {
                    frames.push(whole(1_000 * frames.len() as u64, bytes_of(bytes)));
                }
                ["expect", port, ref bytes @ ..] => {
                    expected.entry(port).or_default().push(bytes_of(bytes));
                }
                _ => {}
            }
        }
        let capture = dir.with("in.pcap", pcap(&frames));
        let entries = dir.with("all.entries", entries);
        for engine in ["interp", "jit"] {
            let out = dir.file(engine);
            let input = format!("0={capture}");
            let said = said(&[
                "replay",
                &program,
                "--entries",
                &entries,
                "--in",
                &input,
                "--out-dir",
                &out,
                "--engine",
                engine,
            ]);
            assert_eq!(said.status, Some(0), "{name} {engine}: {}", said.err);
            assert!(
                !said.out.contains("refused"),
                "{name} {engine}: {}",
                said.out
            );
            for (port, all) in &expected {
                let sent = packets(&dir.0.join(format!("{engine}/{port}.pcap")));
                let sent: Vec<Vec<u8>> = sent.into_iter().map(|(_, bytes)| bytes).collect();
                assert_eq!(&sent, all, "{name} {engine}: port {port}");
            }
        }
    }
}

/// A program that clones each packet in egress, also the clones, and multicasts those of type 1.
const CLONES: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; }
struct headers_t { h_t h; }
struct meta_t { }
parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 1; if (hdr.h.kind == 1) { s.mcast_grp = 1; } }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    apply { if (hdr.h.kind == 0) { clone(CloneType.E2E, 5); } }
}
control C(inout headers_t hdr, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn refused_copies_are_shown_by_their_reason() {
    let dir = Directory::new("replay-refused");
    let program = dir.with("clones.p4", CLONES);
    let replicas: Vec<String> = (0..20_000)
        .map(|n| format!("port 1 instance {n}"))
        .collect();
    let entries = format!(
        "clone 5 {{ port 2 }}\nmulticast 1 {{ {} }}\n",
        replicas.join(", ")
    );
    let entries = dir.with("all.entries", entries);
    let capture = dir.with("in.pcap", pcap(&[whole(1, vec![0]), whole(2, vec![1])]));
    let input = format!("0={capture}");
    let replayed = |more: &[&str]| {
        let mut words = vec!["replay", &program, "--entries", &entries, "--in", &input];
        words.extend(more);
        said(&words)
    };
    let shown = replayed(&[]);
    assert_eq!(shown.status, Some(0), "{}", shown.err);
    for part in [
        "copies refused: work_budget 1 copy",
        "copies refused: copy_budget 19999 copies",
    ] {
        let mut lines = shown.out.lines().map(str::split_whitespace);
        let is_there = lines.any(|line| line.eq(part.split(' ')));
        assert!(is_there, "{part} in:\n{}", shown.out);
    }
    let json = replayed(&["--json"]).json();
    let refused = serde_json::json!([
        { "reason": "work_budget", "packets": 1 },
        { "reason": "copy_budget", "packets": 19_999 },
    ]);
    assert_eq!(json["copies_refused"], refused);
    let traced = said(&["trace", &program, "--entries", &entries, "--packet", "01"]);
    assert_eq!(traced.status, Some(0), "{}", traced.err);
    let part = "19999 copies are refused (copy_budget): ";
    assert!(traced.out.contains(part), "{part} in:\n{}", traced.out);
}

/// A program that counts packets in a register and in a counter, and has a meter.
const COUNTS: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct headers_t {}
struct meta_t {}
parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(4) seen;
    counter(4, CounterType.packets_and_bytes) sizes;
    meter(4, MeterType.packets) limits;
    apply {
        bit<32> before;
        seen.read(before, 2);
        seen.write(2, before + 1);
        sizes.count(1);
        bit<2> colour;
        limits.execute_meter(3, colour);
        s.egress_spec = 1;
    }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn the_state_at_the_end_can_be_the_state_at_the_start() {
    let dir = Directory::new("replay-state");
    let program = dir.with("counts.p4", COUNTS);
    let rates = "meter I.limits[3] cir 1000 cburst 100 pir 2000 pburst 200\n";
    let (entries, out) = (dir.with("begin.entries", rates), dir.file("end.entries"));
    let two = [whole(1, vec![0; 60]), whole(2, vec![0; 60])];
    let run = |packets: &[Captured], entries: &str| {
        let input = format!("0={}", dir.with("in.pcap", pcap(packets)));
        let with = ["--entries", entries, "--state-out", &out];
        let said = said(&[&["replay", &program, "--in", &input], &with[..]].concat());
        assert_eq!(said.status, Some(0), "{}", said.err);
        let state = std::fs::read_to_string(&out).unwrap();
        for line in state.lines() {
            assert!(said.out.contains(line), "{line}: {}", said.out);
        }
        state
    };
    let state = run(&two, &entries);
    let counted = "register I.seen[2] = 2";
    for line in [
        rates.trim_end(),
        counted,
        "counter I.sizes[1] = packets 2 bytes 120",
    ] {
        assert!(state.lines().any(|own| own == line), "{line}:\n{state}");
    }
    let begin = dir.with("again.entries", &state);
    assert_eq!(run(&[], &begin), state);
    let more = run(&two, &begin);
    assert!(more.contains("register I.seen[2] = 4"), "{more}");
    let nowhere = dir.file("missing/end.entries");
    let input = format!("0={}", dir.file("in.pcap"));
    let said = lab::said(&["replay", &program, "--in", &input, "--state-out", &nowhere]);
    assert_eq!(said.status, Some(1));
    assert!(said.err.contains("cannot write"), "{}", said.err);
}
