//! Inputs that are too large or endless stop at a limit that the error names, and every command
//! ends soon after a stop request.

mod lab;

use std::time::{Duration, Instant};

use lab::{Directory, Running, Said, example, polyplane, said};

/// Runs the command. It must end well within the time that only an endless one takes.
#[track_caller]
fn refused(arguments: &[&str], expected: &str) -> Said {
    let start = Instant::now();
    let said = said(arguments);
    assert!(start.elapsed() < Duration::from_secs(20), "{arguments:?}");
    let text = format!("{}{}", said.err, said.out);
    assert!(matches!(said.status, Some(1 | 2)), "{arguments:?}: {text}");
    assert!(text.contains(expected), "`{expected}` in {text}");
    assert!(
        text.len() < 20_000,
        "{arguments:?} says {} bytes",
        text.len()
    );
    said
}

#[test]
fn an_endless_file_is_read_up_to_a_limit() {
    let (router, stf) = (example("router/router.p4"), example("router/router.stf"));
    let zero = "/dev/zero";
    let too_large = "cannot read `/dev/zero`: it is larger than the limit of 16 MiB";
    refused(&["check", zero], too_large);
    refused(&["ir", zero], too_large);
    refused(&["test", zero, &stf], too_large);
    refused(
        &["test", &router, zero],
        "cannot read /dev/zero: it is larger than the limit",
    );
    let no_text = "/dev/zero is not a text file";
    refused(
        &["trace", &router, "--packet", "00", "--entries", zero],
        no_text,
    );
    refused(&["fabric", "show", zero], no_text);
    refused(&["fabric", "run", zero], no_text);
    let directory = Directory::new("limits-files");
    let policy = directory.file("zero.policy");
    std::os::unix::fs::symlink(zero, &policy).unwrap();
    refused(&["check", &policy], "is not a text file");
    let out = directory.file("out");
    let input = format!("0={zero}");
    refused(
        &["replay", &router, "--in", &input, "--out-dir", &out],
        "/dev/zero",
    );
    let tls = ["ctl", "--addr", "127.0.0.1:1", "--tls-ca", zero, "tables"];
    refused(
        &tls,
        "cannot read /dev/zero: it is larger than the limit of 1 MiB",
    );
    let place = ["ctl", "--addr", "127.0.0.1:1", "load", zero];
    refused(
        &place,
        "cannot read /dev/zero: it is larger than the limit of 64 MiB",
    );
}

#[test]
fn a_policy_of_very_many_steps_is_refused_in_one_short_line() {
    let policy = "a -> ".repeat(20_000) + "a";
    let said = refused(
        &["check", &policy],
        "policy:1:1281: error[E1201]: a policy has at most 256 steps",
    );
    assert!(said.err.len() < 1000, "{}", said.err);
    let policy = "a -> ".repeat(200) + "a";
    let said = refused(&["check", &policy], "... and 151 more errors");
    assert!(
        said.err.lines().all(|line| line.len() < 300),
        "{}",
        said.err
    );
}

#[test]
fn a_fabric_whose_links_have_no_delay_names_the_circle() {
    let directory = Directory::new("limits-fabric");
    let program = "#include <core.p4>\n#include <v1model.p4>\nstruct H {} struct M {}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout H h, inout M m) { apply {} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in H h) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { s.egress_spec = 1; } }
V1Switch(P(), V(), I(), E(), V(), D()) main;\n";
    directory.with("loop.p4", program);
    let host = |name: &str, net: u8| {
        format!(
            "[[host]]\nname = \"{name}\"\nmac = \"02:00:00:00:0{net}:02\"\nip = \"10.0.1.{net}/24\"\n"
        )
    };
    let link = |one: &str, other: &str| format!("[[link]]\nends = [\"{one}\", \"{other}\"]\n");
    let topology = "[defaults.switch]\nprogram = \"loop.p4\"\n".to_owned()
        + "[[switch]]\nname = \"a\"\n[[switch]]\nname = \"b\"\n"
        + &host("h", 2)
        + &host("k", 3)
        + &link("a:1", "b:1")
        + &link("h", "a:0")
        + &link("k", "b:0")
        + "[[ping]]\nfrom = \"h\"\nto = \"k\"\n";
    let topology = directory.with("loop.toml", topology);
    let said = refused(
        &["fabric", "run", &topology],
        "packets go in a circle for ever at ",
    );
    assert!(
        said.err.contains("a:1 -> b:1") && said.err.contains("b:1 -> a:1"),
        "{}",
        said.err
    );
}

#[test]
fn absurd_amounts_are_refused_where_options_are_read() {
    for options in [
        ["--seconds", "1e300"],
        ["--seconds", "nan"],
        ["--seconds", "0"],
        ["--swaps=4000000000", "--swap"],
        ["--burst", "65535"],
    ] {
        let said = said(&[&["bench"], &options[..]].concat());
        assert_eq!(said.status, Some(2), "{options:?}: {}", said.err);
    }
    for options in [
        ["--lookups", "--sizes", "99999999999"],
        ["--lookups", "--updates", "0"],
        ["--lookups", "--pace", "4000000000"],
        ["--tenants", "--vpdps", "5000"],
    ] {
        let said = said(&[&["bench"], &options[..]].concat());
        assert_eq!(said.status, Some(2), "{options:?}: {}", said.err);
    }
    let said = said(&["experiment", "hypervdp", "--seconds", "1e300"]);
    assert_eq!(said.status, Some(2), "{}", said.err);
}

/// Returns true if this process, and so each process that it starts, ignores SIGINT. A shell
/// starts its background processes so.
fn ignores_interrupts() -> bool {
    const SIGINT: u32 = 2;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGINT - 1) & 1 == 1)
}

#[test]
fn every_command_that_waits_for_a_file_ends_when_it_is_asked_to() {
    let directory = Directory::new("limits-signals");
    let pipe = directory.file("pipe.p4");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let router = example("router/router.p4");
    let (input, out) = (format!("0={pipe}"), directory.file("out"));
    let commands: [&[&str]; 12] = [
        &["check", &pipe],
        &["ir", &pipe],
        &["test", &router, &pipe],
        &["trace", &router, "--packet", "00", "--entries", &pipe],
        &["replay", &pipe, "--in", &input, "--out-dir", &out],
        &["replay", &router, "--in", &input, "--out-dir", &out],
        &["run", &pipe, "--port", "0=lo"],
        &[
            "serve",
            "--p4runtime",
            "127.0.0.1:0",
            "--tls-cert",
            &pipe,
            "--tls-key",
            &pipe,
        ],
        &["fabric", "run", &pipe],
        &["fabric", "show", &pipe],
        &["ctl", "--addr", "127.0.0.1:1", "--tls-ca", &pipe, "digests"],
        &[
            "experiment",
            "hypervdp",
            "--figures",
            "17",
            "--fabric",
            &pipe,
            "--out",
            &out,
        ],
    ];
    let signals: &[&str] = match ignores_interrupts() {
        true => &["TERM"],
        false => &["TERM", "INT"],
    };
    for signal in signals {
        for arguments in commands {
            let running = Running::start(polyplane().args(arguments));
            std::thread::sleep(Duration::from_millis(300));
            let start = Instant::now();
            running.signal(signal);
            let said = running.finish();
            let time = start.elapsed();
            assert!(
                time < Duration::from_secs(4),
                "{arguments:?} takes {time:?}"
            );
            assert_ne!(said.status, Some(0), "{arguments:?}: {}", said.err);
        }
    }
}
