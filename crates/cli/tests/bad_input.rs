//! User errors in programs, entries and tests: each is reported with its position and a remedy,
//! and nothing is executed.

mod lab;

use lab::{Directory, Said, said};

/// Checks that the output has all parts, the exit status is 1, and nothing panicked.
fn check(said: &Said, parts: &[&str]) {
    let text = format!("{}{}", said.err, said.out);
    assert_eq!(said.status, Some(1), "{text}");
    for part in parts {
        assert!(text.contains(part), "\"{part}\" in:\n{text}");
    }
    assert!(
        !text.contains("panicked") && !text.contains("internal"),
        "{text}"
    );
}

#[test]
fn a_wrong_program_is_marked_where_it_is_wrong() {
    let cases = [
        (
            "#include <v1modle.p4>\n",
            vec![
                ":1:10: error",
                "cannot find the file `v1modle.p4`",
                "did you mean `v1model.p4`?",
            ],
        ),
        (
            "#include <core.p4>\nheader h_t { bit<8> x }\n",
            vec![":2:23: error", "syntax error: expected `;`", "^"],
        ),
        (
            "#include <core.p4>\ncontrol c(inout bit<8> x) { apply { x = true; } }\n",
            vec![
                ":2:41: error",
                "`bit<8>` is needed here, but this is `bool`",
            ],
        ),
    ];
    let dir = Directory::new("bad-program");
    for (text, parts) in cases {
        let program = dir.with("bad.p4", text);
        check(&said(&["check", &program]), &parts);
        // A command that would run the program reports the same and does not run it.
        let capture = lab::example("router/router.pcap");
        let input = format!("0={capture}");
        let out = dir.file("out");
        check(
            &said(&["replay", &program, "--in", &input, "--out-dir", &out]),
            &parts,
        );
        check(&said(&["run", &program, "--port", "0=lo"]), &parts);
        assert!(!dir.0.join("out/1.pcap").exists());
    }
    check(
        &said(&["check", "/nowhere/x.p4"]),
        &["cannot read `/nowhere/x.p4`: there is no such file"],
    );
}

#[test]
fn wrong_entries_are_marked_where_they_are_wrong() {
    let cases = [
        (
            "ipv4_lpn { hdr.ipv4.dst: 10.0.0.0/8; } -> connected(port: 1)",
            vec![
                ":1:1: error",
                "no table `ipv4_lpn`",
                "did you mean `RouterIngress.ipv4_lpm`?",
            ],
        ),
        (
            "ipv4_lpm { hdr.ipv4.dst: 10.0.0.0/8; } -> conected(port: 1)",
            vec![
                ":1:43: error",
                "the table `RouterIngress.ipv4_lpm` has no action `conected`",
                "did you mean `RouterIngress.connected`?",
            ],
        ),
        (
            "ingress_interface { standard_metadata.ingress_port: 600; } -> NoAction()",
            vec![":1:53: error", "`600` does not fit into 9 bits"],
        ),
        (
            "ipv4_lpm { hdr.ipv4.dst: 10.0.0.0/40; } -> connected(port: 1)",
            vec![":1:35: error", "a prefix length from 0 to 32 is wanted"],
        ),
        (
            "ipv4_lpm { hdr.ipv4.dst: 10.0.0.0/8; } -> connected()",
            vec![":1:43: error", "also needs a value for port"],
        ),
    ];
    let dir = Directory::new("bad-entries");
    let program = lab::example("router/router.p4");
    let input = format!("0={}", lab::example("router/router.pcap"));
    for (text, parts) in cases {
        let entries = dir.with("bad.entries", text);
        let out = dir.file("out");
        let arguments = [
            "replay",
            &program,
            "--in",
            &input,
            "--out-dir",
            &out,
            "--entries",
            &entries,
        ];
        check(&said(&arguments), &parts);
        check(
            &said(&["run", &program, "--port", "0=lo", "--entries", &entries]),
            &parts,
        );
        assert!(!dir.0.join("out/1.pcap").exists());
    }
    let absent = said(&[
        "run",
        &program,
        "--port",
        "0=lo",
        "--entries",
        "/nowhere/x.entries",
    ]);
    check(
        &absent,
        &["cannot read /nowhere/x.entries: there is no such file"],
    );
}

/// A program with a table of two entries, and one with a selector.
const SMALL: &str = "#include <v1model.p4>\nheader e_t { bit<16> a; }\nstruct h { e_t e; }\nstruct m {}\n\
    parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) {\n\
      state start { p.extract(hdr.e); transition accept; }\n}\n\
    control V(inout h hdr, inout m meta) { apply {} }\n\
    control I(inout h hdr, inout m meta, inout standard_metadata_t s) {\n\
      action to(bit<9> port) { s.egress_spec = port; }\n\
      table small { key = { hdr.e.a: exact; } actions = { to; NoAction; } default_action = NoAction(); size = 2; }\n\
      action_selector(HashAlgorithm.crc16, 4, 16) sel;\n\
      table ways { key = { hdr.e.a: exact; hdr.e.a: selector; } actions = { to; NoAction; } implementation = sel; }\n\
      apply { small.apply(); ways.apply(); }\n}\n\
    control E(inout h hdr, inout m meta, inout standard_metadata_t s) { apply {} }\n\
    control D(packet_out p, in h hdr) { apply { p.emit(hdr); } }\n\
    V1Switch(P(), V(), I(), E(), V(), D()) main;\n";

#[test]
fn entries_that_the_device_refuses_are_all_marked_and_nothing_runs() {
    let entries = "small { a: 1; } -> to(port: 1)\n\n\
        small { a: 1; } -> to(port: 2)   # again\n\
        small { a: 2; } -> NoAction()\n  small { a: 3; } -> NoAction();\n\
        sel member 1 -> to(port: 1)\n\
        ways { a: 1; } -> member 7\n\
        ways { a: 2; } -> group 3\n\
        sel group 4 {\n  1, 9 weight 2\n}\n";
    let parts = [
        "bad.entries:3:1: error: the table `I.small`: entry 0 has the same match and priority",
        "3 | small { a: 1; } -> to(port: 2)   # again\n  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n",
        "hint: line 1 adds it",
        "bad.entries:5:3: error: the table `I.small`: the table is full: it takes 2 entries",
        "bad.entries:7:1: error: there is no member 7",
        "bad.entries:8:1: error: there is no group 3",
        "bad.entries:9:1: error:",
        "5 of 8 statements are refused; nothing is run",
    ];
    let dir = Directory::new("refused-entries");
    let program = dir.with("small.p4", SMALL);
    let file = dir.with("bad.entries", entries);
    let trace = ["trace", &program, "--packet", "0001", "--entries", &file];
    let told = said(&trace);
    check(&told, &parts);
    assert_eq!(told.out, "", "nothing is run");
    check(
        &said(&["run", &program, "--port", "0=lo", "--entries", &file]),
        &parts,
    );

    let many: String = (0..100)
        .map(|n| format!("small {{ a: {n}; }} -> NoAction()\n"))
        .collect();
    let file = dir.with("many.entries", many);
    let told = said(&["trace", &program, "--packet", "0001", "--entries", &file]);
    check(
        &told,
        &["98 of 100 statements are refused; the first 20 are shown"],
    );
    assert_eq!(told.err.matches("error:").count(), 20);

    let test = dir.with("t.stf", "entries many.entries\n");
    check(
        &said(&["test", &program, &test]),
        &[
            "t.stf:1: many.entries is applied in part",
            "many.entries:3:1: error",
        ],
    );
}

#[test]
fn a_typo_in_a_test_is_marked_where_it_is() {
    let dir = Directory::new("bad-stf");
    let test = dir.with("bad.stf", "# a comment\npackt 0 00\n");
    let said = said(&["test", &lab::example("router/router.p4"), &test]);
    check(
        &said,
        &[
            "bad.stf:2:1: error",
            "there is no STF command `packt`",
            "did you mean `packet`?",
        ],
    );
}

#[test]
fn state_that_no_memory_holds_is_refused_by_name() {
    let program = "#include <v1model.p4>\nstruct h {}\nstruct m {}\n\
        parser P(packet_in p, out h hdr, inout m meta, inout standard_metadata_t s) { state start { transition accept; } }\n\
        control V(inout h hdr, inout m meta) { apply {} }\n\
        control I(inout h hdr, inout m meta, inout standard_metadata_t s) {\n\
          register<bit<512>>(2000000000) cells;\n  apply { cells.write(4, 512w1); }\n}\n\
        control E(inout h hdr, inout m meta, inout standard_metadata_t s) { apply {} }\n\
        control D(packet_out p, in h hdr) { apply {} }\n\
        V1Switch(P(), V(), I(), E(), V(), D()) main;\n";
    let dir = Directory::new("bad-memory");
    let program = dir.with("big.p4", program);
    check(
        &said(&["trace", &program, "--packet", "00"]),
        &["I.cells", "MiB", "make it smaller"],
    );
}

#[test]
fn a_server_of_p4runtime_stays_on_this_machine_and_has_a_port_of_its_own() {
    check(
        &said(&["serve", "--p4runtime", "0.0.0.0:0"]),
        &["open to other machines", "127.0.0.1", "ssh -L"],
    );
    check(
        &said(&["serve", "--p4runtime", "127.0.0.1:0", "--port", "510=lo"]),
        &["port 510 is the one for controllers", "--cpu-port"],
    );
}

#[test]
fn a_switch_that_hosts_does_not_take_everybody_for_an_operator() {
    let words = [
        "host",
        "--p4runtime",
        "0.0.0.0:0",
        "--port",
        "0=lo",
        "--listen-beyond-loopback",
        "--anyone-may-control",
    ];
    check(&said(&words), &["operator", "--tls-client-ca"]);
}

#[test]
fn a_number_that_cannot_be_is_refused_with_those_that_can() {
    for slots in ["0", "65536", "all"] {
        let said = said(&["host", "--port", "0=lo", "--slots", slots]);
        assert_eq!(said.status, Some(2), "{}", said.err);
        let value = format!("'{slots}' for '--slots <N>'");
        for part in [&value, "has 1 to 65535 slots; without --slots"] {
            assert!(said.err.contains(part), "\"{part}\" in:\n{}", said.err);
        }
    }
}

#[test]
fn options_without_those_that_they_are_for_are_refused() {
    let wrong = |arguments: &[&str], parts: &[&str]| {
        let said = said(arguments);
        assert_eq!(said.status, Some(2), "{}", said.err);
        for part in parts {
            assert!(said.err.contains(part), "\"{part}\" in:\n{}", said.err);
        }
    };
    let program = lab::example("router/router.p4");
    let run = ["run", &program, "--port", "0=lo"];
    let tls = ["--tls-cert", "c.pem", "--tls-key", "k.pem"];
    let allow = [&tls[..], &["--tls-client-ca", "ca.pem", "--allow", "a=*"]].concat();
    for options in [
        &tls[..],
        &allow,
        &["--listen-beyond-loopback"],
        &["--cpu-port", "9"],
    ] {
        wrong(&[&run[..], options].concat(), &["--p4runtime"]);
    }
    let anyone = [
        "--listen-beyond-loopback",
        "--anyone-may-control",
        "--tls-client-ca",
        "ca.pem",
    ];
    wrong(
        &[&["serve"], &tls[..], &anyone].concat(),
        &["--anyone-may-control", "--tls-client-ca"],
    );
    let load = ["ctl", "load", &program, "--may-lose", "*"];
    wrong(&[&load[..], &["--clear"]].concat(), &["--may-lose"]);
    wrong(&[&load[..], &["--verify"]].concat(), &["--may-lose"]);
    // Nothing is sent in plain text if TLS options were given.
    for at in [
        &["ctl", "--tls-name", "switch", "status"],
        &["ctl", "status", "--tls-name", "switch"],
    ] {
        check(&said(at), &["--tls-name needs --tls-ca"]);
    }
}

#[test]
fn a_setting_in_two_words_is_answered_with_the_one_that_is_meant() {
    let check = |arguments: &[&str], hint: &str| {
        let said = said(arguments);
        assert_eq!(said.status, Some(2), "{}", said.err);
        let end = format!("hint: did you mean `{hint}`?\n");
        assert!(said.err.ends_with(&end), "{}", said.err);
    };
    check(
        &["tenant", "create", "blue", "--quota", "entries", "10000"],
        "entries=10000",
    );
    check(&["run", "my.p4", "--port", "0", "eth0"], "0=eth0");
    // No other word in excess gets the hint.
    let other = said(&["tenant", "create", "blue", "red"]);
    assert_eq!(other.status, Some(2));
    assert!(!other.err.contains("did you mean"), "{}", other.err);
}
