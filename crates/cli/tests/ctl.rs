//! `polyplane ctl`, `compile` and `completions` against a switch that `polyplane serve` runs.

mod lab;

use std::io::{BufRead, BufReader};
use std::process::ChildStderr;

use lab::{Directory, Running, Said, example, polyplane, said};
use serde_json::Value;

/// Path of the program with every kind of object, from the tests of crate `p4rt`.
fn all_objects() -> String {
    format!("{}/../p4rt/tests/p4rt/all.p4", env!("CARGO_MANIFEST_DIR"))
}

/// A switch without ports, at a separate address.
struct Server {
    address: String,
    _running: Running,
    /// Kept open, because the switch writes to it.
    _said: BufReader<ChildStderr>,
}

impl Server {
    fn start() -> Server {
        let mut command = polyplane();
        command.args(["serve", "--p4runtime", "127.0.0.1:0"]);
        let mut running = Running::start(&mut command);
        let mut said = BufReader::new(running.0.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert_ne!(
                said.read_line(&mut line).unwrap(),
                0,
                "the switch has ended"
            );
            if let Some((_, rest)) = line.split_once("P4Runtime is served at ") {
                break rest.split(';').next().unwrap_or(rest).trim().to_owned();
            }
        };
        Server {
            address,
            _running: running,
            _said: said,
        }
    }

    /// Starts a switch with a program.
    fn with(program: &str) -> Server {
        let server = Server::start();
        server.well(&["load", program]);
        server
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = polyplane();
        command
            .arg("ctl")
            .args(arguments)
            .args(["--addr", &self.address]);
        command
    }

    fn ctl(&self, arguments: &[&str]) -> Said {
        Running::start(&mut self.command(arguments)).finish()
    }

    /// Runs a command that must succeed. Returns its output.
    fn well(&self, arguments: &[&str]) -> String {
        let said = self.ctl(arguments);
        assert_eq!(
            said.status,
            Some(0),
            "{arguments:?}: {}{}",
            said.err,
            said.out
        );
        said.out
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.well(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"))
    }

    /// Starts a command that keeps running, and waits until it is primary.
    fn follow(&self, arguments: &[&str]) -> Running {
        let before = self.json(&["status"])["highest_election_id"].clone();
        let running = Running::start(&mut self.command(arguments));
        // The next status shows the arbitration. There is no other event to wait for.
        let is_there = || {
            let status = self.json(&["status"]);
            status["has_primary"] == true || status["highest_election_id"] != before
        };
        while !is_there() {}
        running
    }
}

/// Statements for every kind of object of the program, in the form and order of `dump`.
const STATEMENTS: &str = r#"value_set TestParser.special { 2048, 34525 }
multicast 5 { port 1, port 2 instance 7 }
clone 9 { port 3 } truncate 64 class 2
In.profile member 1 -> In.forward(port: 4)
In.selector member 1 -> In.forward(port: 5)
In.selector member 2 -> In.drop()
In.selector group 7 { 1, 2 weight 3 } max_size 4
In.exact_table default -> In.forward(port: 8)
In.exact_table { hdr.ethernet.dst: 00:00:00:00:00:01 } -> In.forward(port: 1) counter packets 5 bytes 320
In.exact_table { hdr.ethernet.dst: 00:00:00:00:00:02 } -> In.forward_by_name(port: "Ethernet7") counter packets 0 bytes 0
In.metered { hdr.ethernet.src: 00:11:22:33:44:55 } -> In.read_meter() idle_timeout 30s meter cir 1000 cburst 100 pir 2000 pburst 200
In.lpm_table { hdr.ethernet.dst: 00:11:00:00:00:00/16 } -> In.forward(port: 3)
In.mixed { hdr.ethernet.type: 0x800; meta.a: 3..9; sm.ingress_port: 1 } -> In.forward(port: 2) priority 10
In.by_name { sm.ingress_port: 2; meta.a: 7 } -> In.forward_by_name(port: "eth 0")
In.indirect { hdr.ethernet.dst: 00:00:00:00:00:03 } -> member 1
In.balanced { hdr.ethernet.dst: 00:00:00:00:00:04 } -> group 7
In.balanced { hdr.ethernet.dst: 00:00:00:00:00:06 } -> member 2
counter In.ports_counter[3] = packets 12
meter In.ports_meter[1] cir 10 cburst 1 pir 20 pburst 2
register In.numbers = 0
register In.numbers[2] = 4294967295
register In.pairs = { 0, 0 }
register In.signed_numbers = -3
register In.rich[0] = { true, green, 7, NoMatch, true, 1, 2, 2048, 3, -4 }
"#;

#[test]
fn a_dump_makes_the_state_that_it_was_made_of() {
    let dir = Directory::new("ctl-dump");
    let program = all_objects();
    let first = Server::with(&program);
    let file = dir.with("all.entries", STATEMENTS);
    let applied = first.well(&["apply", &file]);
    assert!(applied.starts_with("24 statements applied"), "{applied}");
    let dump = first.well(&["dump"]);
    for statement in STATEMENTS.lines() {
        assert!(
            dump.lines().any(|line| line == statement),
            "{statement}\nis not in\n{dump}"
        );
    }
    assert!(dump.contains("# const: In.const_table "), "{dump}");
    let second = Server::with(&program);
    second.well(&["apply", "--replace", &dir.with("dump.entries", &dump)]);
    assert_eq!(second.well(&["dump"]), dump);
    // A dump can also be applied to the state that it was made from, in one batch.
    second.well(&[
        "apply",
        "--replace",
        "--atomic=rollback",
        &dir.file("dump.entries"),
    ]);
    assert_eq!(second.well(&["dump"]), dump);
}

#[test]
fn what_examples_set_up_is_dumped_and_comes_back() {
    let dir = Directory::new("ctl-examples");
    for name in ["ecmp", "psa_router"] {
        let program = example(&format!("{name}/{name}.p4"));
        let first = Server::with(&program);
        first.well(&["apply", &example(&format!("{name}/{name}.entries"))]);
        let dump = first.well(&["dump"]);
        let second = Server::with(&program);
        second.well(&["apply", "--replace", &dir.with(name, &dump)]);
        assert_eq!(second.well(&["dump"]), dump);
    }
}

#[test]
fn settings_that_p4runtime_has_no_message_for_are_written_and_dumped() {
    let dir = Directory::new("ctl-settings");
    let program = example("pna_firewall/pna_firewall.p4");
    let first = Server::with(&program);
    first.well(&["apply", &example("pna_firewall/pna_firewall.entries")]);
    let settings = [
        "hash crc16 polynomial 0x1021 initial 0x0 final_xor 0x0 reflect_in true reflect_out true",
        "hash seed 7",
        "host_ports 1, 2",
        "queue port 1 rate 100 depth 8",
    ];
    for setting in settings {
        first.well(&["change", setting]);
    }
    let dump = first.well(&["dump"]);
    for setting in settings {
        assert!(dump.lines().any(|line| line == setting), "{dump}");
    }
    assert!(dump.contains("expire_profile "), "{dump}");
    let second = Server::with(&program);
    second.well(&["apply", "--replace", &dir.with("dump", &dump)]);
    assert_eq!(second.well(&["dump"]), dump);
    // A later statement changes what it names.
    second.well(&["add", "hash seed 0; queue port 1 depth 9"]);
    let dump = second.well(&["dump"]);
    assert!(!dump.contains("hash seed"), "{dump}");
    assert!(dump.contains("queue port 1 depth 9\n"), "{dump}");
    let said = second.ctl(&["change", "hash crc16 polynomial 0x10000"]);
    assert_eq!(said.status, Some(1), "{}", said.out);
}

#[test]
fn settings_are_made_all_or_none_and_queues_have_ports_of_the_program() {
    let server = Server::with(&example("router/router.p4"));
    let said = server.ctl(&[
        "add",
        "hash seed 7; queue port 3 depth 9; queue port 511 depth 9",
    ]);
    assert_eq!(said.status, Some(1), "{}", said.out);
    assert!(said.err.contains("port 511"), "{}", said.err);
    let dump = server.well(&["dump"]);
    assert!(
        !dump.contains("hash seed") && !dump.contains("queue port"),
        "{dump}"
    );
}

#[test]
fn each_list_tells_what_there_is_as_text_and_as_json() {
    let dir = Directory::new("ctl-lists");
    let server = Server::with(&all_objects());
    server.well(&["apply", &dir.with("all.entries", STATEMENTS)]);
    let tables = server.well(&["tables"]);
    let row = tables
        .lines()
        .find(|line| line.starts_with("In.exact_table "));
    let row: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(row[..4], ["In.exact_table", "2", "16", "hdr.ethernet.dst:"]);
    let tables = server.json(&["tables"]);
    let balanced = tables
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "In.balanced");
    assert_eq!(balanced.unwrap()["entries"], 2);
    let shown = server.json(&["show", "by_name"]);
    assert_eq!(shown[0]["match"]["meta.a"], "7");
    assert_eq!(shown[0]["action"]["params"]["port"], "\"eth 0\"");
    assert_eq!(
        server.well(&["show", "lpm_table"]),
        "In.lpm_table { hdr.ethernet.dst: 00:11:00:00:00:00/16 } -> In.forward(port: 3)\n# const: In.lpm_table default -> In.drop()\n"
    );
    assert_eq!(
        server.well(&["groups", "selector"]).lines().count(),
        3,
        "two members and a group"
    );
    assert_eq!(
        server.well(&["multicast"]),
        "multicast 5 { port 1, port 2 instance 7 }\nclone 9 { port 3 } truncate 64 class 2\n"
    );
    assert_eq!(
        server.well(&["registers", "numbers"]),
        "register In.numbers[2] = 4294967295\n"
    );
    assert_eq!(
        server.json(&["registers", "pairs", "1"])[0]["values"][0],
        "0"
    );
    let meters = server.well(&["meters"]);
    assert!(
        meters.contains("meter In.ports_meter[1] cir 10 cburst 1 pir 20 pburst 2"),
        "{meters}"
    );
    assert!(
        meters.contains("meter cir 1000 cburst 100 pir 2000 pburst 200"),
        "{meters}"
    );
    let counters = server.well(&["counters"]);
    assert!(
        counters.contains("12       0      In.ports_counter[3]"),
        "{counters}"
    );
    assert!(
        counters.contains("In.exact_table { hdr.ethernet.dst: 00:00:00:00:00:01 }"),
        "{counters}"
    );
    assert_eq!(server.json(&["counters", "ports_counter"])["packets"], 12);
    assert_eq!(server.json(&["pipeline"])["arch"], "v1model");
    let info = server.well(&["pipeline", "--p4info"]);
    let own = said(&["p4info", &all_objects()]).out;
    assert_eq!(info, own);
    assert_eq!(server.well(&["capabilities"]), "P4Runtime 1.5.0\n");
    let status = server.json(&["status"]);
    assert_eq!(
        (&status["has_program"], &status["has_primary"]),
        (&true.into(), &false.into())
    );
}

#[test]
fn an_entry_lives_from_add_to_delete() {
    let server = Server::with(&example("router/router.p4"));
    let route = "ipv4_lpm { hdr.ipv4.dst: 10.9.0.0/16 }";
    let shown = || {
        let shown = server.well(&["show", "ipv4_lpm"]);
        let first = shown.lines().next().unwrap_or_default();
        first.replace(" counter packets 0 bytes 0", "")
    };
    server.well(&["add", &format!("{route} -> connected(port: 3)")]);
    assert_eq!(
        shown(),
        "RouterIngress.ipv4_lpm { hdr.ipv4.dst: 10.9.0.0/16 } -> RouterIngress.connected(port: 3)"
    );
    server.well(&["change", &format!("{route} -> local()")]);
    assert!(shown().ends_with("local()"), "{}", shown());
    server.well(&["delete", route]);
    assert!(shown().contains(" default -> "), "{}", shown());
    let again = server.ctl(&["delete", route]);
    assert_eq!(again.status, Some(1));
    assert!(again.one_line().contains("(NotFound)"), "{}", again.err);
}

#[test]
fn refused_statements_are_told_at_their_lines() {
    let dir = Directory::new("ctl-refused");
    let server = Server::with(&example("router/router.p4"));
    let text = "ipv4_lpm { hdr.ipv4.dst: 10.1.0.0/16 } -> local()\n\
                # the same again\n\
                ipv4_lpm { hdr.ipv4.dst: 10.1.0.0/16 } -> local()\n\
                ipv4_lpm { hdr.ipv4.dst: 10.2.0.0/16 } -> local()\n";
    let file = dir.with("twice.entries", text);
    let atomic = server.ctl(&["apply", "--atomic", &file]);
    assert_eq!(atomic.status, Some(1));
    assert!(
        atomic.err.contains("twice.entries:3:1: error:"),
        "{}",
        atomic.err
    );
    assert!(
        !server.well(&["show", "ipv4_lpm"]).contains("10.1.0.0"),
        "nothing was applied"
    );
    let said = server.ctl(&["apply", &file]);
    assert_eq!(said.status, Some(1));
    assert!(
        said.err.contains("twice.entries:3:1: error:") && said.err.contains("AlreadyExists"),
        "{}",
        said.err
    );
    assert!(
        said.err
            .contains("1 of 3 statements was refused; the other 2 were applied"),
        "{}",
        said.err
    );
    // The file itself has the entry twice, so that --replace is no remedy.
    assert!(said.err.contains("= hint: line 1 adds it"), "{}", said.err);
    assert!(!said.err.contains("--replace"), "{}", said.err);
    let again = server.ctl(&["apply", &file]);
    for part in [
        "3 of 3 statements were refused; nothing was applied",
        "`ctl apply --replace` changes entries that exist; `ctl apply --sync` also deletes",
    ] {
        assert!(again.err.contains(part), "{}", again.err);
    }
    let one = server.ctl(&["add", "ipv4_lpm { hdr.ipv4.dst: 10.2.0.0/16 } -> local()"]);
    assert!(
        one.err.contains("`ctl change` changes what exists"),
        "{}",
        one.err
    );
    let one = server.ctl(&[
        "change",
        "ipv4_lpm { hdr.ipv4.dst: 10.9.0.0/16 } -> local()",
    ]);
    assert!(
        one.err.contains("`ctl add` adds what does not exist"),
        "{}",
        one.err
    );
    assert!(
        server.well(&["show", "ipv4_lpm"]).contains("10.2.0.0"),
        "the others were applied"
    );
    let said = server.ctl(&["apply", &file, "--json"]);
    assert_eq!(said.json()["refused"].as_array().map(Vec::len), Some(3));
    assert_eq!(said.json()["refused"][1]["line"], 3);
    let once = dir.with(
        "once.entries",
        "ipv4_lpm { hdr.ipv4.dst: 10.1.0.0/16 } -> connected(port: 9)",
    );
    server.well(&["apply", "--replace", &once]);
    assert!(
        server
            .well(&["show", "ipv4_lpm"])
            .contains("connected(port: 9)")
    );
}

#[test]
fn what_is_wrong_is_told_in_one_line_with_what_to_do() {
    let dir = Directory::new("ctl-wrong");
    let empty = Server::start();
    let check = |said: &Said, parts: &[&str]| {
        let text = format!("{}{}", said.err, said.out);
        assert_eq!(said.status, Some(1), "{text}");
        for part in parts {
            assert!(text.contains(part), "\"{part}\" in:\n{text}");
        }
        assert!(!text.contains("panicked"), "{text}");
    };
    let none = &["device 1 has no program", "polyplane ctl load PROGRAM.p4"];
    for command in [
        "tables", "dump", "counters", "digests", "pipeline", "packets",
    ] {
        let said = empty.ctl(&[command]);
        check(&said, none);
        said.one_line();
    }
    check(
        &empty.ctl(&["tables", "--device-id", "7"]),
        &["no device with the id 7", "--device-id"],
    );
    let broken = dir.with("broken.p4", "#include <core.p4>\nheader h_t { bit<8> x }\n");
    check(
        &empty.ctl(&["load", &broken]),
        &[":2:23: error", "syntax error"],
    );
    let json = dir.with("bmv2.json", "{}");
    check(&empty.ctl(&["load", &json]), &["JSON", "polyplane compile"]);
    check(
        &said(&["ctl", "tables", "--addr", "127.0.0.1:1"]),
        &["cannot reach", "polyplane serve", "--addr"],
    );
    check(
        &said(&["ctl", "tables", "--addr", "nonsense"]),
        &["`nonsense` is no address", "HOST:PORT"],
    );
    check(
        &empty.ctl(&["tables", "--tls-ca", "/nowhere.pem"]),
        &["cannot read /nowhere.pem"],
    );
    check(
        &empty.ctl(&["tables", "--tls-ca", &json]),
        &["bmv2.json has no certificate in PEM"],
    );
    check(
        &empty.ctl(&["tables", "--tls-cert", &json]),
        &["--tls-cert and --tls-key go together"],
    );

    let server = Server::with(&example("router/router.p4"));
    let add = |statement: &str| server.ctl(&["add", statement]);
    check(
        &add("ipv4_lmp { hdr.ipv4.dst: 1 } -> local()"),
        &[
            "there is no table `ipv4_lmp`",
            "did you mean `",
            "ipv4_lpm`?",
        ],
    );
    check(
        &add("ipv4_lpm { hdr.ipv4.dst: 0x100000000 } -> local()"),
        &["does not fit into 32 bits"],
    );
    check(
        &add("ipv4_lpm { hdr.ipv4.dst: 1 } -> locl()"),
        &["has no action `locl`", "local"],
    );
    check(
        &server.ctl(&["show", "nowhere"]),
        &["there is no table `nowhere`"],
    );
    check(
        &server.ctl(&["registers", "x"]),
        &["there is no register `x`"],
    );
    check(
        &server.ctl(&["packets", "--out", "00", "--set", "port=1"]),
        &["no metadata, so no `port`"],
    );
    let usage = server.ctl(&["packets", "--out", "0"]);
    assert_eq!(usage.status, Some(2));
    assert!(
        usage.err.contains("pairs of hexadecimal digits"),
        "{}",
        usage.err
    );
}

#[test]
fn who_is_not_primary_is_told_who_is_and_may_take_its_place() {
    let server = Server::with(&example("router/router.p4"));
    let following = server.follow(&["packets"]);
    let change = &["change", "neighbour default -> drop(1)"];
    let said = server.ctl(change);
    assert_eq!(said.status, Some(1));
    let line = said.one_line();
    assert!(
        line.contains("is primary for device 1") && line.contains("--election-id "),
        "{line}"
    );
    let election = line.rsplit(' ').next().unwrap();
    let said = server.ctl(&[change, &["--election-id", election][..]].concat());
    assert_eq!(said.status, Some(0), "{}", said.err);
    following.signal("TERM");
    assert_eq!(following.finish().status, Some(0));
}

#[test]
fn digests_are_followed_and_acknowledged() {
    let server = Server::with(&example("learning/learning.p4"));
    let following = server.follow(&["digests", "--count", "1", "--json"]);
    let frame = "ffffffffffff02000000000a88b50000000000000000000000000000";
    // Each role has a primary.
    server.well(&["packets", "--out", frame, "--role", "sender"]);
    let said = following.finish();
    assert_eq!(said.status, Some(0), "{}", said.err);
    let message = said.json();
    assert_eq!(message["data"]["address"], "02:00:00:00:00:0a", "{message}");
}

#[test]
fn packets_go_out_and_come_in() {
    let server = Server::with(&all_objects());
    // The program sends the packet back to the controllers, which take its first two bytes for
    // the header of packet-ins.
    let frame = "80870000000102000000000a88b5";
    let out = [
        "packets",
        "--out",
        frame,
        "--set",
        "egress_port=510",
        "--count",
        "1",
    ];
    let said = server.json(&out);
    assert_eq!(said["payload"], frame[4..]);
    assert_eq!(said["metadata"]["ingress_port"], "257");
    assert_eq!(said["metadata"]["reason"], "7");
    let said = server.ctl(&["packets", "--out", frame, "--set", "egress_port=512"]);
    assert_eq!(said.status, Some(1));
    assert!(
        said.err.contains("does not fit into 9 bits"),
        "{}",
        said.err
    );
    let said = server.ctl(&["packets", "--out", frame, "--set", "port=1"]);
    assert!(
        said.one_line().contains("there are: egress_port"),
        "{}",
        said.err
    );
}

#[test]
fn counters_are_watched_with_rates_until_a_signal() {
    let server = Server::with(&all_objects());
    server.well(&["change", "counter ports_counter[3] = packets 12"]);
    let mut command = server.command(&[
        "counters",
        "ports_counter",
        "--watch",
        "--every",
        "0.05",
        "--json",
    ]);
    let mut running = Running::start(&mut command);
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["packets"], 12);
    assert_eq!(next()["packets_per_second"], 0.0);
    server.well(&["change", "counter ports_counter[3] = packets 1012"]);
    while next()["packets"] != 1012 {}
    running.signal("INT");
    let status = running.0.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_compiled_program_is_stable_loaded_and_verified_on_arrival() {
    let dir = Directory::new("ctl-compile");
    let program = all_objects();
    let (a, b) = (dir.file("a"), dir.file("b"));
    for out in [&a, &b] {
        let said = said(&["compile", &program, "-o", out, "--json"]);
        assert_eq!(said.status, Some(0), "{}", said.err);
        assert_eq!(said.json()["program"], "all");
    }
    let read = |path: &str| std::fs::read(path).unwrap();
    for file in ["all.p4info.txt", "all.device"] {
        assert_eq!(read(&format!("{a}/{file}")), read(&format!("{b}/{file}")));
    }
    let binary = dir.file("all.bin");
    said(&[
        "compile",
        &program,
        "--p4info",
        &binary,
        "--p4info-format",
        "binary",
    ]);
    let server = Server::start();
    let device = format!("{a}/all.device");
    server.well(&["load", &device, "--p4info", &binary, "--verify"]);
    assert_eq!(server.json(&["status"])["has_program"], false);
    server.well(&[
        "load",
        &device,
        "--p4info",
        &format!("{a}/all.p4info.txt"),
        "--cookie",
        "77",
    ]);
    assert_eq!(server.json(&["pipeline"])["cookie"], 77);
    let text = String::from_utf8(read(&device)).unwrap();
    let newer = dir.with(
        "newer.device",
        text.replacen("device config 1", "device config 2", 1),
    );
    let said = server.ctl(&["load", &newer, "--clear"]);
    assert!(
        said.one_line()
            .contains("has version 2, this server reads version 1"),
        "{}",
        said.err
    );
    let spoilt = dir.with("spoilt.device", text.replacen("= 9w0x1ff", "= 16w0x1ff", 1));
    let said = server.ctl(&["load", &spoilt, "--clear"]);
    assert_eq!(said.status, Some(1), "{}", said.out);
    assert_eq!(
        server.json(&["pipeline"])["cookie"],
        77,
        "the running one stays"
    );
}

#[test]
fn completions_are_written_for_shells() {
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef polyplane"),
        ("fish", "complete -c polyplane"),
    ] {
        // The scripts are longer than a pipe holds.
        let said = Said::from(polyplane().args(["completions", shell]).output().unwrap());
        assert_eq!(said.status, Some(0), "{}", said.err);
        assert!(
            said.out.contains(part) && said.out.contains("multicast"),
            "{shell}"
        );
    }
}

#[test]
fn what_a_program_has_no_place_for_goes_only_by_the_word() {
    let dir = Directory::new("ctl-lose");
    let server = Server::with(&all_objects());
    server.well(&["apply", &dir.with("all.entries", STATEMENTS)]);
    let text = std::fs::read_to_string(all_objects()).unwrap();
    let without = |text: &str, table: &str| {
        let new = format!("un{table}");
        text.replace(&format!("table {table} {{"), &format!("table {new} {{"))
            .replace(&format!("{table}.apply"), &format!("{new}.apply"))
    };
    let second = without(&without(&text, "metered"), "by_name");
    let third = dir.with("third.p4", without(&second, "lpm_table"));
    let second = dir.with("second.p4", second);
    let refused = |arguments: &[&str], parts: &[&str]| {
        let said = server.ctl(arguments);
        assert_eq!(said.status, Some(1), "{}", said.out);
        for part in parts {
            assert!(said.err.contains(part), "\"{part}\" in: {}", said.err);
        }
        let places = ["--may-lose", "--clear"].map(|option| said.err.find(option));
        assert!(places[0] < places[1], "{}", said.err);
    };
    let words = ["In.metered", "In.by_name", "--may-lose", "--clear"];
    refused(&["load", &second], &words);
    let one = ["load", &second, "--may-lose", "In.metered"];
    refused(&one, &["In.by_name", "--may-lose"]);
    let loaded = server.well(&[&one[..], &["--may-lose", "In.by_name"]].concat());
    assert!(loaded.contains("In.metered, In.by_name"), "{loaded}");
    let dump = server.well(&["dump"]);
    assert!(dump.contains("In.lpm_table { "), "{dump}");
    refused(&["load", &third], &["In.lpm_table"]);
    server.well(&["load", &third, "--may-lose", "*"]);
    let dump = server.well(&["dump"]);
    assert!(!dump.contains("In.lpm_table { "), "{dump}");
    assert!(dump.contains("In.exact_table { "), "{dump}");
    // The error is not about state, so the message must not suggest `--clear`.
    let said = server.ctl(&["load", &dir.with("no.device", "nonsense")]);
    assert_eq!(said.status, Some(1));
    assert!(said.err.contains("(InvalidArgument)"), "{}", said.err);
    assert!(!said.err.contains("--clear"), "{}", said.err);
    let said = server.ctl(&["load", &third, "--may-lose", "tafel\u{e9}"]);
    assert!(said.err.contains("ASCII"), "{}", said.err);
}

/// docs/tutorial/3-controller.md: each block `console` has commands after `$ `, followed by their
/// output.
#[test]
fn the_walk_through_of_the_guide_is_true() {
    let guide = include_str!("../../../docs/tutorial/3-controller.md");
    let server = Server::start();
    let root = format!("{}/../..", env!("CARGO_MANIFEST_DIR"));
    let dir = Directory::new("ctl-guide");
    let mut count = 0;
    for block in guide.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or(block);
        for step in block.split("$ ").filter(|step| !step.is_empty()) {
            let (command, expected) = step.split_once('\n').unwrap_or((step, ""));
            let own = format!(
                "'{}' ctl --addr {}",
                env!("CARGO_BIN_EXE_polyplane"),
                server.address
            );
            let line = command
                .replace("polyplane ctl", &own)
                .replace("backup.entries", &dir.file("backup.entries"));
            let mut shell = std::process::Command::new("sh");
            let output = shell
                .args(["-c", &line])
                .current_dir(&root)
                .output()
                .unwrap();
            let said = Said::from(output);
            let told = format!("{}{}", said.out, said.err);
            // The duration differs in each run.
            let told = match told
                .strip_suffix(" s\n")
                .and_then(|line| line.rsplit_once(" in "))
            {
                Some((before, _)) => format!("{before} in 0.00 s\n"),
                None => told.replace(&server.address, "127.0.0.1:9559"),
            };
            assert_eq!(told, expected, "{command}");
            count += 1;
        }
    }
    assert!(count >= 8, "{count} commands");
}
