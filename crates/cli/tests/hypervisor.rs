//! `polyplane hypervisor`: it writes a program and entries for it, and names what it cannot
//! express.

mod lab;

use std::io::{BufRead, BufReader, Read};

use lab::{Directory, Running, Said, example, polyplane, said};

/// A datagram from 10.0.1.2 to 10.0.2.2.
const PACKET: &str = "02000000010102000000010208004500002100010000401163c80a0001020a00020203e80035000d94cb7175657279";

/// Runs a command with more output than a pipe holds.
fn told(args: &[&str]) -> Said {
    Said::from(polyplane().args(args).output().expect("it runs"))
}

#[test]
fn what_is_emitted_forwards_a_packet_by_what_is_translated() {
    let dir = Directory::new("hypervisor");
    let program = dir.file("hypervisor.p4");
    let emitted = said(&["hypervisor", "emit", "--slots", "4", "-o", &program]);
    assert_eq!(
        (emitted.status, emitted.out.as_str()),
        (Some(0), ""),
        "{}",
        emitted.err
    );
    let entry = "routes { hdr.ipv4.dst: 10.0.0.0/8; } -> next_hop(5, 02:00:00:00:02:01, 02:00:00:00:02:02)\n";
    let entries = dir.with("l3.entries", entry);
    let function = example("functions/l3_sw.p4");
    let translate = [
        "hypervisor",
        "translate",
        &function,
        "--entries",
        &entries,
        "--slots",
        "4",
    ];
    let hosted = told(&translate);
    assert_eq!(hosted.status, Some(0), "{}", hosted.err);
    let hosted = dir.with("hosted.entries", hosted.out);
    let traced = told(&["trace", &program, "--entries", &hosted, "--packet", PACKET]);
    assert!(traced.out.contains("sent by port 5"), "{}", traced.out);

    let json = told(&[&translate[..], &["--json"]].concat());
    let value: serde_json::Value = serde_json::from_str(&json.out).expect("it is JSON");
    assert!(
        value["entries"]
            .as_array()
            .is_some_and(|entries| !entries.is_empty()),
        "{value}"
    );
}

#[test]
fn what_is_not_expressed_is_named_with_its_line() {
    let selector = said(&[
        "hypervisor",
        "translate",
        &example("rate_limiter/rate_limiter.p4"),
    ]);
    assert_eq!(selector.status, Some(1));
    let line = selector.one_line();
    assert!(
        line.contains("rate_limiter.p4:94:11: the hypervisor does not express"),
        "{line}"
    );
    let slots = said(&["hypervisor", "emit", "--slots", "2", "--egress-slots", "2"]);
    assert_eq!(slots.status, Some(1));
    assert!(
        slots.one_line().ends_with("give --slots at least 3"),
        "{}",
        slots.err
    );
}

#[test]
fn figures_are_at_or_below_the_papers() {
    let figures = said(&["hypervisor", "figures", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&figures.out).expect("it is JSON");
    let told = told.as_array().expect("an array");
    assert_eq!(told.len(), 9);
    for figure in told {
        let ours = figure
            .get("tables")
            .or(figure.get("total"))
            .and_then(|n| n.as_u64());
        let paper = figure["paper"].as_u64();
        assert!(ours.is_some() && ours <= paper, "{figure}");
    }
}

/// Starts a switch without ports and with a fixed program. Returns it with the address of its
/// server.
fn fixed(program: &str) -> (Running, String) {
    let mut command = polyplane();
    let device = format!("1={program}");
    let fixed = ["serve", "--engine", "interp", "--p4runtime", "127.0.0.1:0"];
    command.args(fixed).args(["--device", &device]);
    let mut running = Running::start(&mut command);
    let mut told = BufReader::new(running.0.stderr.take().expect("it is a pipe"));
    let mut line = String::new();
    let address = loop {
        line.clear();
        let read = told.read_line(&mut line).expect("it is text");
        assert_ne!(read, 0, "the switch has ended");
        if let Some((_, rest)) = line.split_once("P4Runtime is served at ") {
            break rest.split(';').next().unwrap_or(rest).trim().to_owned();
        }
    };
    // A closed pipe would end the switch.
    std::thread::spawn(move || told.read_to_end(&mut Vec::new()));
    (running, address)
}

#[test]
fn a_fixed_switch_changes_its_function_by_entries_alone() {
    let dir = Directory::new("hypervisor-fixed");
    let shape = ["--slots", "4"];
    let program = dir.file("hypervisor.p4");
    let emitted = said(&[&["hypervisor", "emit", "-o", &program], &shape[..]].concat());
    assert_eq!(emitted.status, Some(0), "{}", emitted.err);
    let (_running, address) = fixed(&program);
    let ctl = |arguments: &[&str]| {
        let told = told(&[&["ctl"], arguments, &["--addr", &address]].concat());
        assert_eq!(told.status, Some(0), "{arguments:?}: {}", told.err);
        told.out
    };
    let hosted = |name: &str, function: &str, entry: &str, number: &str| {
        let (function, entries) = (example(function), dir.with("own.entries", entry));
        let translate = ["hypervisor", "translate", &function, "--entries", &entries];
        let place = ["--program-id", number];
        let hosted = told(&[&translate[..], &place, &shape].concat());
        assert_eq!(hosted.status, Some(0), "{}", hosted.err);
        let (classify, rest): (Vec<&str>, Vec<&str>) = hosted
            .out
            .lines()
            .partition(|line| line.contains(".classify "));
        let classify = classify.first().expect("there is one").to_string();
        (dir.with(name, rest.join("\n") + "\n"), classify)
    };
    // Result of the switch for a packet, with its present entries.
    let sent = || {
        let state = dir.with("state.entries", ctl(&["dump"]));
        let traced = told(&["trace", &program, "--entries", &state, "--packet", PACKET]);
        let sent = traced
            .out
            .lines()
            .find(|line| line.contains("sent by port"));
        sent.map(|line| line.trim().to_owned())
    };
    let route = "routes { hdr.ipv4.dst: 10.0.0.0/8; } -> next_hop(5, 02:00:00:00:02:01, 02:00:00:00:02:02)\n";
    let (router, to_router) = hosted("l3.hosted", "functions/l3_sw.p4", route, "1");
    ctl(&["apply", &router]);
    ctl(&["add", &to_router]);
    // The next function is loaded beside it, until one entry is changed. Then the first function
    // is removed.
    let station = "forward { hdr.ethernet.dst: 02:00:00:00:01:01; } -> to_port(6)\n";
    let (switch, to_switch) = hosted("l2.hosted", "functions/l2_sw.p4", station, "2");
    ctl(&["apply", &switch]);
    assert!(sent().is_some_and(|line| line.contains("port 5")));
    ctl(&["change", &to_switch]);
    ctl(&["apply", "--delete", &router]);
    assert!(sent().is_some_and(|line| line.contains("port 6")));
    let left = ctl(&["dump"]);
    assert!(!left.contains("program: 1;"), "{left}");
}

#[test]
fn a_function_is_written_as_a_p4runtime_request_too() {
    let function = example("functions/l2_sw.p4");
    let translate = ["hypervisor", "translate", &function, "--slots", "4"];
    let statements = told(&translate);
    let request = told(&[&translate[..], &["--write-request"]].concat());
    assert_eq!(request.status, Some(0), "{}", request.err);
    let request: p4info::p4::v1::WriteRequest =
        p4info::from_text(&request.out).expect("it is a request");
    let lines = statements.out.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(request.updates.len(), lines.count());
}
