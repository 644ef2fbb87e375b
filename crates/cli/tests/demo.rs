//! `polyplane demo`: its traffic, its cleanup, and its messages on machines without namespaces.

mod lab;

use std::process::Command;
use std::time::Duration;

use lab::{Directory, Running, Said, polyplane, said, without_rights};

/// Returns true if this machine let the demo create its hosts. Otherwise the output must give the
/// reason, and the demo must have processed the captures.
fn had_hosts(said: &Said) -> bool {
    if said.err.contains("no hosts to connect:") {
        println!("skipped: {}", said.err.lines().next().unwrap_or_default());
        return false;
    }
    true
}

fn check_carried(said: &Said, bytes: u64) {
    assert_eq!(said.status, Some(0), "{}\n{}", said.out, said.err);
    let json = said.json();
    assert_eq!(json["intact"], true);
    if !had_hosts(said) {
        return;
    }
    assert_eq!(json["transfer"]["received"]["bytes"], bytes);
    assert_eq!(json["transfer"]["sent"], json["transfer"]["received"]);
    assert_eq!(json["ping"]["lost"], 0, "{}", said.out);
    assert!(json["ping"]["round_trip_us"][0].as_f64().unwrap() > 0.0);
    let tables = json["tables"].as_array().unwrap();
    let routed = tables
        .iter()
        .find(|t| t["name"].as_str().unwrap().ends_with("ipv4_lpm"))
        .unwrap();
    assert!(routed["hits"].as_u64().unwrap() > bytes / 1500);
}

#[test]
fn data_arrives_intact_through_the_router() {
    check_carried(&said(&["demo", "--megabytes", "2", "--json"]), 2_000_000);
}

#[test]
fn a_user_without_rights_has_the_same_demo() {
    let dir = Directory::new("demo-nobody");
    let output = without_rights(&dir)
        .args(["demo", "--megabytes", "1", "--json"])
        .output()
        .unwrap();
    check_carried(&output.into(), 1_000_000);
}

#[test]
fn the_report_for_people_says_what_was_carried() {
    let said = said(&["demo", "--megabytes", "1"]);
    assert_eq!(said.status, Some(0), "{}\n{}", said.out, said.err);
    if !had_hosts(&said) {
        return;
    }
    for part in [
        " lost (",
        "round trip min",
        "1.00 MB",
        "bit/s",
        "SHA-256",
        "ipv4_lpm",
    ] {
        assert!(said.out.contains(part), "{part} in:\n{}", said.out);
    }
    assert_eq!(said.out.lines().last(), Some("data arrived intact"));
}

#[test]
fn an_interrupted_demo_ends_at_once_and_leaves_nothing() {
    let interfaces = || port::interfaces().unwrap();
    let before = interfaces();
    let running = Running::start(polyplane().args(["demo", "--seconds", "60"]));
    std::thread::sleep(Duration::from_millis(700));
    running.signal("TERM");
    let said = running.finish();
    if !had_hosts(&said) {
        return;
    }
    assert_eq!(said.status, Some(1));
    assert!(said.err.contains("interrupted by SIGTERM"), "{}", said.err);
    assert_eq!(interfaces(), before);
}

#[test]
fn the_captures_that_ship_with_it_are_carried_on_request() {
    let said = said(&["demo", "--capture"]);
    assert_eq!(said.status, Some(0), "{}\n{}", said.out, said.err);
    assert!(
        said.out.contains("TCP data behind the router"),
        "{}",
        said.out
    );
    assert_eq!(said.out.lines().last(), Some("data arrived intact"));
}

#[test]
fn where_namespaces_are_forbidden_it_says_why_and_carries_the_captures() {
    // The limit holds in the user namespace that sets it, and in those below.
    let forbidding = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$0\" demo";
    let mut shell = Command::new("unshare");
    shell.args(["--user", "--map-root-user", "sh", "-c", forbidding]);
    shell.arg(env!("CARGO_BIN_EXE_polyplane"));
    let said = match shell.output() {
        Ok(output) => Said::from(output),
        Err(error) => return println!("skipped: cannot run unshare: {error}"),
    };
    if !said.err.contains("no hosts to connect") && said.status != Some(0) {
        return println!("skipped: {}", said.err);
    }
    assert_eq!(said.status, Some(0), "{}\n{}", said.out, said.err);
    assert!(
        said.err.contains("user.max_net_namespaces is 0"),
        "{}",
        said.err
    );
    assert_eq!(said.out.lines().last(), Some("data arrived intact"));
}
