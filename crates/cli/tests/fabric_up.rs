//! `polyplane fabric up` and `import` on topologies of the P4 tutorials' format: the prompt's
//! commands, P4Runtime by name, captures, traces, and what is said about missing files.

mod lab;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lab::{Directory, Said, polyplane, said};
use packet::Frame;
use port::PcapReader;

/// A router as the tutorials have one: it forwards by the longest prefix and sets MAC addresses.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t { bit<64> front; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata { }
parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(hdr.ipv4); transition accept; }
}
control V(inout headers hdr, inout metadata meta) { apply { } }
control I(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) {
    action drop() { mark_to_drop(sm); }
    action forward(bit<48> mac, bit<9> port) {
        sm.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 64;
    }
    apply { if (hdr.ipv4.isValid()) { routes.apply(); } else { drop(); } }
}
control E(inout headers hdr, inout metadata meta, inout standard_metadata_t sm) { apply { } }
control C(inout headers hdr, inout metadata meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Entries of the first switch.
const RUNTIME: &str = r#"{
  "target": "bmv2", "p4info": "build/small.p4.p4info.txtpb", "bmv2_json": "build/small.json",
  "table_entries": [
    { "table": "I.routes", "default_action": true, "action_name": "I.drop", "action_params": { } },
    { "table": "I.routes", "match": { "hdr.ipv4.dst": ["10.0.1.1", 32] },
      "action_name": "I.forward", "action_params": { "mac": "08:00:00:00:01:11", "port": 1 } },
    { "table": "I.routes", "match": { "hdr.ipv4.dst": ["10.0.2.2", 32] },
      "action_name": "I.forward", "action_params": { "mac": "08:00:00:00:02:00", "port": 2 } } ]
}"#;

/// Entries of the second switch.
const COMMANDS: &str = "table_set_default routes drop\n\
    table_add routes forward 10.0.2.2/32 => 08:00:00:00:02:22 1\n\
    table_add routes forward 10.0.1.1/32 => 08:00:00:00:01:00 2\n";

/// Writes a topology of two hosts and two switches in the tutorials' format. Names begin with
/// `prefix`, since the tests share the machine, and P4Runtime has other ports in each test.
fn tutorial(name: &str, prefix: &str) -> (Directory, String) {
    let dir = Directory::new(name);
    dir.with("small.p4", PROGRAM);
    dir.with("s1-runtime.json", RUNTIME);
    dir.with("s2-commands.txt", COMMANDS);
    let topology = r#"{
  "hosts": {
    "Xh1": { "ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11",
             "commands": ["route add default gw 10.0.1.10 dev eth0",
                          "arp -i eth0 -s 10.0.1.10 08:00:00:00:01:00", "false"] },
    "Xh2": { "ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22",
             "commands": ["route add default gw 10.0.2.20 dev eth0",
                          "arp -i eth0 -s 10.0.2.20 08:00:00:00:02:00"] }
  },
  "switches": { "Xs1": { "runtime_json": "s1-runtime.json" },
                "Xs2": { "cli_input": "s2-commands.txt" } },
  "links": [ ["Xh1", "Xs1-p1"], ["Xs1-p2", "Xs2-p2"], ["Xs2-p1", "Xh2"] ]
}"#;
    let file = dir.with("topology.json", topology.replace('X', prefix));
    (dir, file)
}

/// Runs the network of a topology in TOML that was made of one in JSON, where each server has a
/// free port. Returns `None` if this machine does not allow it.
fn up(dir: &Directory, topology: &str, options: &[&str]) -> Option<Said> {
    let imported = said(&["fabric", "import", topology]);
    assert_eq!(imported.status, Some(0), "{}", imported.err);
    let lines = imported.out.lines();
    let kept: Vec<&str> = lines
        .filter(|line| !line.starts_with("p4runtime"))
        .collect();
    let file = dir.with("up.toml", kept.join("\n") + "\n");
    let words = ["fabric", "up", &file, "--engine", "interp"];
    let said = said(&[&words[..], options].concat());
    let is_skipped = said.err.contains("network namespace") && said.status == Some(1);
    if is_skipped {
        println!("skipped: {}", said.err.trim_end());
    }
    (!is_skipped).then_some(said)
}

/// Returns the options that run lines at the prompt.
fn as_options<'l>(lines: &[&'l str]) -> Vec<&'l str> {
    lines.iter().flat_map(|line| ["-c", line]).collect()
}

#[test]
fn unchanged_files_become_a_network_in_which_hosts_reach_each_other() {
    let (dir, topology) = tutorial("up-ping", "upa");
    let captures = dir.file("captures");
    let lines = [
        "--pcap",
        &captures,
        "-c",
        "upah1 ping -c 1 upah2",
        "-c",
        "pingall",
        "-c",
        "link upas1 upas2 down",
        "-c",
        "pingall",
        "-c",
        "link upas2 upas1 up",
        "-c",
        "upas1 show routes",
        "-c",
        "nodes",
    ];
    let Some(said) = up(&dir, &topology, &lines) else {
        return;
    };
    // The second `pingall` fails, as does a command of a host.
    assert_eq!(said.status, Some(1), "{}\n{}", said.out, said.err);
    for part in [
        "upah1 -> upah2\nupah2 -> upah1\n2 of 2 answered",
        "upah1 -> X\nupah2 -> X\n0 of 2 answered",
        "forward(mac: 08:00:00:00:02:00, port: 2)",
        "switch upas1: ",
        "  table I.routes: ",
    ] {
        assert!(
            said.out.contains(part),
            "{part}\n{}\n{}",
            said.out,
            said.err
        );
    }
    assert!(
        said.err.contains("upah1: `false` ended with"),
        "{}",
        said.err
    );
    for file in ["upah1_upas1-p1", "upas1-p2_upas2-p2", "upas2-p1_upah2"] {
        let path = format!("{captures}/{file}.pcapng");
        let mut reader = PcapReader::open(path.as_ref()).unwrap();
        let (mut frame, mut echoes) = (Frame::new(), 0);
        while reader.read(&mut frame).unwrap().is_some() {
            let bytes = frame.bytes();
            echoes += usize::from(bytes[12..14] == [8, 0] && bytes[23] == 1);
        }
        // Each ping has a request and a reply.
        assert!(echoes >= 4, "{path}: {echoes}");
    }
}

#[test]
fn commands_of_a_prompt_are_run_and_wrong_ones_are_explained() {
    let (dir, topology) = tutorial("up-prompt", "upb");
    let polyplane = env!("CARGO_BIN_EXE_polyplane");
    let by_name = format!("sh {polyplane} ctl --addr upbs2 tables");
    let lines = [
        "-c",
        "trace icmp",
        "-c",
        "upbh1 ping -c 1 upbh2",
        "-c",
        "trace off",
        "-c",
        "upbh1 echo address upbh2",
        "-c",
        &by_name,
        "-c",
        "iperf upbh1 upbh2 1",
        "-c",
        "upbh3 true",
        "-c",
        "link upbs1 upbh2 down",
        "-c",
        "trace ipv4.dst = nothing",
        "-c",
        "quit",
        "-c",
        "upbh1 echo not run",
    ];
    let Some(said) = up(&dir, &topology, &lines) else {
        return;
    };
    assert_eq!(said.status, Some(1), "{}\n{}", said.out, said.err);
    for part in ["address 10.0.2.2\n", "I.routes", "iperf upbh1 to upbh2: "] {
        assert!(
            said.out.contains(part),
            "{part}\n{}\n{}",
            said.out,
            said.err
        );
    }
    assert!(!said.out.contains("not run"), "{}", said.out);
    for part in [
        "upbs1:\n",
        "I.routes",
        "no node upbh3",
        "no link between upbs1 and upbh2",
        "one of == != < <= > >= is missing",
    ] {
        assert!(said.err.contains(part), "{part}\n{}", said.err);
    }
}

#[test]
fn a_host_works_again_after_its_link_was_down() {
    let (dir, topology) = tutorial("up-flap", "upf");
    let lines = [
        "link upfh1 upfs1 down",
        "pingall",
        "link upfh1 upfs1 up",
        "pingall",
        // One link, as Mininet and as `links` name its ends.
        "link upfs1-eth2 down",
        "pingall",
        "link upfs2:2 up",
        "pingall",
    ];
    let Some(said) = up(&dir, &topology, &as_options(&lines)) else {
        return;
    };
    let answered = said.out.lines().filter(|line| line.ends_with("answered"));
    let answered: Vec<&str> = answered.collect();
    let expected = ["0 of 2", "2 of 2", "0 of 2", "2 of 2"].map(|part| format!("{part} answered"));
    assert_eq!(answered, expected, "{}\n{}", said.out, said.err);
    for part in [
        "upfs1: port 1: s0p1 is down",
        "(`link upfs1 upfh1 up` at the prompt)",
    ] {
        assert!(said.err.contains(part), "{part}\n{}", said.err);
    }
}

#[test]
fn switch_commands_have_quotes_and_statements_without_quotes() {
    let (dir, topology) = tutorial("up-words", "upg");
    let lines = [
        "upgs1 add 'routes { hdr.ipv4.dst: 10.9.1.0/24 } -> forward(mac: 1, port: 3)'",
        "upgs1 add routes { hdr.ipv4.dst: 10.9.2.0/24 } -> forward(mac: 1, port: 4)",
        "upgs1 show routes",
        "upgs1 add queue port 1 priority 3 rate 5000",
        "upgs1 dump",
        "upgs1 port list",
        "upgs1 port remove 1",
        "upgs1 drops",
        "upgs1 add 'routes",
        "pingall 3",
        "iperf upgh1",
        "upgh1 ping -c1 -i0.2 upgh2 | cat",
    ];
    let Some(said) = up(&dir, &topology, &as_options(&lines)) else {
        return;
    };
    assert_eq!(said.status, Some(1), "{}\n{}", said.out, said.err);
    for part in [
        "10.9.1.0/24",
        "port: 3",
        "10.9.2.0/24",
        "port: 4",
        "queue port 1 priority 3 rate 5000\n",
        "port 2  s0p2  up",
        "icmp_seq=1",
    ] {
        assert!(
            said.out.contains(part),
            "{part}\n{}\n{}",
            said.out,
            said.err
        );
    }
    for part in [
        "a quote in `add 'routes` has no end",
        "write pingall alone",
        "they are those of its topology",
        "write iperf H1 H2 [SECONDS]",
    ] {
        assert!(said.err.contains(part), "{part}\n{}", said.err);
    }
}

#[test]
fn background_programs_of_setup_commands_run_until_the_end() {
    let (dir, topology) = tutorial("up-background", "uph");
    let text = std::fs::read_to_string(&topology).unwrap();
    let marked = dir.file("marked");
    // The program waits for the other end of its pipe.
    let pipe = dir.file("pipe");
    let setup = format!("mkfifo {pipe}; (cat {pipe} > {marked} &) > /dev/null 2>&1");
    std::fs::write(
        &topology,
        text.replace("\"false\"", &format!("\"{setup}\"")),
    )
    .unwrap();
    let write = format!("sh timeout 10 sh -c 'echo alive > {pipe}'");
    let read = format!("sh while ! grep alive {marked}; do :; done");
    let Some(said) = up(&dir, &topology, &["-c", &write, "-c", &read]) else {
        return;
    };
    assert_eq!(said.status, Some(0), "{}\n{}", said.out, said.err);
    assert!(said.out.contains("alive\n"), "{}\n{}", said.out, said.err);
}

#[test]
fn keys_without_effect_on_real_links_are_named() {
    let (dir, topology) = tutorial("up-keys", "upi");
    let imported = said(&["fabric", "import", &topology]);
    let lines = imported.out.lines();
    let kept: Vec<&str> = lines
        .filter(|line| !line.starts_with("p4runtime"))
        .collect();
    let text = format!(
        "{}\n[defaults.link]\nqueue = 7\n[defaults.switch]\nbacklog = 9\n\
         [[traffic]]\nfrom = \"upih1\"\nto = \"upih2\"\npackets = 1\ninterval = \"1 us\"\n",
        kept.join("\n")
    );
    let file = dir.with("up.toml", text);
    let said = said(&["fabric", "up", &file, "--engine", "interp", "-c", "quit"]);
    for key in ["queue` without `rate", "backlog", "[[traffic]]"] {
        let part = format!("warning: `{key}` has no effect on real links");
        assert!(said.err.contains(&part), "{part}\n{}", said.err);
    }
}

#[test]
fn at_a_terminal_ctrl_c_ends_a_command_and_not_the_network() {
    let (dir, topology) = tutorial("up-terminal", "upj");
    let imported = said(&["fabric", "import", &topology]).out;
    let lines = imported
        .lines()
        .filter(|line| !line.starts_with("p4runtime"));
    let kept: Vec<&str> = lines.collect();
    let file = dir.with("up.toml", kept.join("\n") + "\n");
    // `exec`: a shell that waits for the network would be ended by Ctrl-C.
    let command = format!(
        "exec {} fabric up {file} --engine interp",
        env!("CARGO_BIN_EXE_polyplane")
    );
    let started = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("skipped: there is no program `script`");
        return;
    };
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        let mut text = String::new();
        while let Ok(count @ 1..) = output.read(&mut chunk) {
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
            if sender.send(text.clone()).is_err() {
                return;
            }
        }
    });
    let mut text = String::new();
    let mut wait_for = |part: &str, time: Duration| {
        let start = Instant::now();
        while !text.contains(part) {
            let left = time.checked_sub(start.elapsed())?;
            text = lines.recv_timeout(left).ok()?;
        }
        Some(text.clone())
    };
    let Some(start) = wait_for("`help` lists", Duration::from_secs(60)) else {
        println!("skipped: this machine has no network namespaces, or no terminals");
        return;
    };
    assert!(start.contains("upjs1"), "{start}");
    for (command, done) in [
        ("upjs1 packets", "packets has ended"),
        ("iperf upjh1 upjh2 600", "iperf has ended"),
        ("upjh1 ping upjh2", "ping has ended"),
    ] {
        writeln!(input, "{command}").unwrap();
        // A command that has not begun yet is not ended by Ctrl-C.
        let has_ended = (0..40).any(|_| {
            let (first, last) = done.split_at(3);
            write!(input, "\u{3}").unwrap();
            wait_for("no such text", Duration::from_millis(200));
            writeln!(input, "sh echo '{first}''{last}'").unwrap();
            wait_for(done, Duration::from_millis(500)).is_some()
        });
        assert!(has_ended, "{command}");
    }
    writeln!(input, "quit").unwrap();
    let status = child.wait().unwrap();
    wait_for("no such text", Duration::from_millis(200));
    assert!(status.success(), "{status}: {text}");
}

#[test]
fn lines_of_standard_input_are_run_until_its_end() {
    let (dir, topology) = tutorial("up-stdin", "upc");
    let imported = said(&["fabric", "import", &topology]).out;
    let lines = imported
        .lines()
        .filter(|line| !line.starts_with("p4runtime"));
    let kept: Vec<&str> = lines.collect();
    let file = dir.with("up.toml", kept.join("\n") + "\n");
    let mut command = polyplane();
    command.args(["fabric", "up", &file, "--engine", "interp"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Without namespaces the command has ended already.
    let _ = input.write_all(b"# a comment\n\nupch1 echo one; echo two\nupch1 true");
    drop(input);
    let said = Said::from(child.wait_with_output().unwrap());
    if said.err.contains("network namespace") {
        println!("skipped: {}", said.err.trim_end());
        return;
    }
    assert_eq!(said.status, Some(0), "{}\n{}", said.out, said.err);
    assert!(said.out.contains("one\ntwo\n"), "{}", said.out);
}

#[test]
fn an_imported_topology_is_one_that_other_commands_read() {
    let (dir, topology) = tutorial("up-import", "upd");
    let file = dir.file("topo.toml");
    let imported = said(&["fabric", "import", &topology, "-o", &file]);
    assert_eq!(imported.status, Some(0), "{}", imported.err);
    for topology in [&file, &topology] {
        let shown = said(&["fabric", "show", topology]);
        assert_eq!(shown.status, Some(0), "{}", shown.err);
        for part in [
            "2 switches, 2 hosts, 3 links",
            "small.p4",
            "s2-commands.txt",
        ] {
            assert!(shown.out.contains(part), "{part}\n{}", shown.out);
        }
    }
    // A simulation has nothing to send.
    let run = said(&["fabric", "run", &file, "--engine", "interp"]);
    assert!(
        run.err.contains("`polyplane fabric up` runs it"),
        "{}",
        run.err
    );
}

#[test]
fn missing_and_wrong_files_of_a_topology_are_named() {
    let (dir, topology) = tutorial("up-wrong", "upe");
    let refused = |words: &[&str], part: &str| {
        let said = said(words);
        assert_eq!(said.status, Some(1), "{}", said.err);
        assert!(said.err.contains(part), "{part}\n{}", said.err);
    };
    let json = dir.with("small.json", "{\"header_types\": [], \"pipelines\": []}");
    for command in ["ir", "check", "p4info"] {
        refused(&[command, &json], "compiled for BMv2");
    }
    refused(&["fabric", "show", &json], "compiled for BMv2");
    let wrong = COMMANDS.replace(
        "table_add routes forward 10.0.1.1",
        "table_ad routes forward 10.0.1.1",
    );
    dir.with("s2-commands.txt", wrong);
    let program = dir.file("small.p4");
    let entries = dir.file("s2-commands.txt");
    let packet = "ffffffffffff0200000000010800";
    let words = ["trace", &program, "--entries", &entries, "--packet", packet];
    refused(
        &words,
        "s2-commands.txt:3:1: error: there is no command table_ad",
    );
    std::fs::remove_file(&entries).unwrap();
    refused(
        &["fabric", "show", &topology],
        "there is no s2-commands.txt",
    );
    std::fs::remove_file(&program).unwrap();
    dir.with("s2-commands.txt", COMMANDS);
    refused(&["fabric", "show", &topology], "--program FILE.p4");
}

/// Starts a command with a terminal of its own, of which the other end is returned.
fn at_a_terminal(command: &mut Command) -> (std::process::Child, std::fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let mut options = std::fs::OpenOptions::new();
    let theirs = options.read(true).write(true).open(name).unwrap();
    command.stdin(theirs.try_clone().unwrap());
    command.stdout(theirs).stderr(Stdio::piped());
    (command.spawn().unwrap(), ours.into())
}

#[test]
fn lines_at_a_terminal_are_edited_and_come_again() {
    let (dir, topology) = tutorial("up-edit", "upe");
    let said = up(&dir, &topology, &["-c", "quit"]);
    if said.is_none() {
        return;
    }
    let mut command = polyplane();
    command.args(["fabric", "up", &dir.file("up.toml"), "--engine", "interp"]);
    command.env("TERM", "xterm");
    let (mut child, terminal) = at_a_terminal(&mut command);
    let mut keys = terminal.try_clone().unwrap();
    let (sender, written) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut terminal, mut chunk) = (terminal, [0; 4096]);
        // The last read fails: the other end is closed.
        while let Ok(count @ 1..) = terminal.read(&mut chunk) {
            if sender.send(chunk[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut seen = String::new();
    let mut expect = |text: &str| {
        let begin = Instant::now();
        loop {
            if let Some(at) = seen.find(text) {
                seen.drain(..at + text.len());
                return;
            }
            let chunk = written.recv_timeout(Duration::from_secs(30));
            let chunk = chunk.unwrap_or_else(|error| panic!("no {text:?}: {error}: {seen}"));
            seen.push_str(&String::from_utf8_lossy(&chunk));
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "no {text:?}: {seen}"
            );
        }
    };
    expect("polyplane> ");
    // The letter too many is taken away.
    keys.write_all(b"sh echo onex\x7f\r").unwrap();
    expect("\none");
    expect("polyplane> ");
    // The line before comes again by the key for it.
    keys.write_all(b"\x1b[A more\r").unwrap();
    expect("\none more");
    expect("polyplane> ");
    // Ctrl-C takes a line away, and Ctrl-D ends the network.
    keys.write_all(b"sh echo two\x03").unwrap();
    expect("polyplane> ");
    keys.write_all(b"\x04").unwrap();
    expect("switch upes1: ");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
