//! The processes of a split program: switch, servers and their coordinator.

mod lab;

use std::time::{Duration, Instant};

use lab::cables::Cables;
use lab::{Directory, Running, Said, example, polyplane, said};

/// Processes of `examples/split/fib.p4`: one switch and two servers.
struct Group {
    switch: String,
    servers: Vec<(Running, String)>,
    control: String,
    _running: Vec<Running>,
    cables: Cables,
    _directory: Directory,
}

/// Starts a plane in the namespace of the cables. Returns it with its address.
fn plane(cables: &Cables, arguments: &[&str]) -> (Running, String) {
    let fib = example("split/fib.p4");
    let mut command = polyplane();
    command.arg("split").args(&arguments[..1]).arg(&fib);
    command.args(&arguments[1..]);
    let mut running = cables.switch.run(|| Running::start(&mut command)).unwrap();
    let address = running.served_address();
    (running, address)
}

impl Group {
    /// Returns `None` if the machine forbids namespaces.
    fn start(test: &str) -> Option<Group> {
        let cables = Cables::new(4)?;
        // Processes in the namespace reach each other by its own loopback.
        cables.switch.rtnl().unwrap().set_up("lo").unwrap();
        let serving = ["--p4runtime", "127.0.0.1:0"];
        let (switch_run, switch) = plane(
            &cables,
            &[
                &["switch", "--server", "1=2", "--server", "2=3"][..],
                &["--port", "0=port0", "--port", "1=port1"],
                &["--port", "2=port2", "--port", "3=port3"],
                &serving,
            ]
            .concat(),
        );
        let server = |id: &str| {
            let arguments = [
                "server",
                "--id",
                id,
                "--group-size",
                "2",
                "--port",
                "0=tap:",
            ];
            let tap = format!("0=tap:srv{id}");
            let mut arguments = arguments.to_vec();
            arguments[6] = &tap;
            arguments.extend(serving);
            plane(&cables, &arguments)
        };
        let servers = vec![server("1"), server("2")];
        let (first, second) = (format!("1={}", servers[0].1), format!("2={}", servers[1].1));
        let entries = example("split/fib.entries");
        let (control_run, control) = plane(
            &cables,
            &[
                &["control", "--entries", &entries, "--switch", &switch][..],
                &["--server", &first, "--server", &second],
                &serving,
            ]
            .concat(),
        );
        Some(Group {
            switch,
            servers,
            control,
            _running: vec![switch_run, control_run],
            cables,
            _directory: Directory::new(test),
        })
    }

    fn ctl(&self, address: &str, arguments: &[&str]) -> Said {
        let mut command = polyplane();
        command.arg("ctl").args(arguments).args(["--addr", address]);
        let run = || Running::start(&mut command).finish();
        self.cables.switch.run(run).unwrap()
    }

    /// Returns the routes of a plane.
    fn routes(&self, address: &str) -> String {
        let shown = self.ctl(address, &["show", "fib"]);
        assert_eq!(shown.status, Some(0), "{}", shown.err);
        shown.out
    }

    /// Waits until a plane has a route, or has it no more.
    fn wait_for(&self, address: &str, route: &str, is_there: bool) {
        let start = Instant::now();
        while self.routes(address).contains(route) != is_there {
            let shown = self.routes(address);
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{route}: {shown}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_write_is_answered_when_all_servers_have_it_and_a_server_that_returns_gets_all_entries() {
    let Some(mut group) = Group::start("split-control-writes") else {
        return;
    };
    check_writes(&group);
    check_return(&mut group);
}

fn check_writes(group: &Group) {
    let whole = group.routes(&group.control);
    let first = whole.lines().next().unwrap_or_default();
    assert!(first.contains("->"), "{whole}");
    let (key, _) = first.split_once(" ->").unwrap();
    for (_, server) in &group.servers {
        group.wait_for(server, key, true);
    }
    // The switch has only entries that packets have asked for.
    assert!(!group.routes(&group.switch).contains(key));
    let deleted = group.ctl(&group.control, &["delete", key]);
    assert_eq!(deleted.status, Some(0), "{}", deleted.err);
    for (_, server) in &group.servers {
        assert!(!group.routes(server).contains(key));
    }
    let added = group.ctl(&group.control, &["add", first]);
    assert_eq!(added.status, Some(0), "{}", added.err);
    for (_, server) in &group.servers {
        assert!(group.routes(server).contains(key));
    }
}

/// A server that returns gets all entries.
fn check_return(group: &mut Group) {
    let whole = group.routes(&group.control);
    let (key, _) = whole.lines().next().unwrap().split_once(" ->").unwrap();
    let address = group.servers[1].1.clone();
    group.wait_for(&address, key, true);
    group.servers.truncate(1);
    let arguments = [
        "server",
        "--id",
        "2",
        "--group-size",
        "2",
        "--port",
        "0=tap:srv2",
    ];
    let arguments = [&arguments[..], &["--p4runtime", &address]].concat();
    let returned = plane(&group.cables, &arguments);
    group.servers.push(returned);
    group.wait_for(&address, key, true);
}

#[test]
fn a_server_with_a_number_outside_of_its_group_and_a_doubled_one_are_refused() {
    let fib = example("split/fib.p4");
    let outside = said(&[
        "split",
        "server",
        &fib,
        "--id",
        "3",
        "--group-size",
        "2",
        "--port",
        "0=x",
    ]);
    assert_eq!(outside.status, Some(1));
    assert!(outside.one_line().contains("from 1 to --group-size"));
    let doubled = said(&[
        "split",
        "control",
        &fib,
        "--switch",
        "127.0.0.1:1",
        "--server",
        "1=127.0.0.1:2",
        "--server",
        "1=127.0.0.1:3",
    ]);
    assert_eq!(doubled.status, Some(1));
    assert!(doubled.one_line().contains("given twice"));
}

/// Runs an operator's command, which must succeed, and returns its JSON.
fn operate(group: &Group, arguments: &[&str]) -> serde_json::Value {
    let mut command = polyplane();
    command.arg("split").args(arguments);
    command.args(["--addr", &group.control, "--json"]);
    let run = || Running::start(&mut command).finish();
    let said = group.cables.switch.run(run).unwrap();
    assert_eq!(said.status, Some(0), "{arguments:?}: {}", said.err);
    serde_json::from_str(&said.out).unwrap()
}

fn membership(state: &serde_json::Value, name: &str) -> String {
    let planes = state["planes"].as_array().unwrap();
    let plane = planes.iter().find(|plane| plane["name"] == name);
    plane.map_or_else(String::new, |plane| {
        plane["membership"].as_str().unwrap_or_default().to_owned()
    })
}

#[test]
fn servers_leave_and_join_and_the_policy_changes_while_the_processes_run() {
    let Some(group) = Group::start("split-control-group") else {
        return;
    };
    let start = Instant::now();
    while operate(&group, &["status"])["planes"]
        .as_array()
        .unwrap()
        .iter()
        .any(|plane| plane["is_connected"] == false || plane["membership"] == "outside")
    {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let left = operate(&group, &["leave", "2"]);
    assert_eq!(left["change"]["is_complete"], true, "{left}");
    while membership(&operate(&group, &["status"]), "server 2") == "member" {
        assert!(start.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut last = polyplane();
    last.args(["split", "leave", "1", "--addr", &group.control]);
    let run = || Running::start(&mut last).finish();
    let last = group.cables.switch.run(run).unwrap();
    assert_eq!(last.status, Some(1));
    assert!(
        last.err.contains("is the last one of the group"),
        "{}",
        last.err
    );
    let joined = operate(&group, &["join", "2", "--address", &group.servers[1].1]);
    assert_eq!(joined["change"]["name"], "server 2 joins");
    assert_eq!(joined["change"]["is_complete"], true, "{joined}");
    let policy = [
        "policy",
        "--policy",
        "threshold",
        "--top",
        "10",
        "--window",
        "100ms",
    ];
    let changed = operate(&group, &policy);
    assert_eq!(changed["policy"]["policy"], "threshold");
    assert_eq!(changed["policy"]["order"], "strict");
    assert_eq!(changed["tables"][0]["capacity"], 10);
}

#[test]
fn connections_through_the_nat_stay_intact_while_servers_join_and_leave() {
    let directory = Directory::new("split-demo");
    let mut command = polyplane();
    command.env("XDG_CACHE_HOME", directory.file("cache"));
    command.args([
        "split",
        "demo",
        "--json",
        "--connections",
        "8",
        "--kilobytes",
        "40",
    ]);
    let said = Running::start(&mut command).finish();
    assert_eq!(said.status, Some(0), "{}", said.err);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    if said.err.contains("simulated instead") {
        return;
    }
    assert_eq!(report["intact"], true, "{report}");
    assert_eq!(report["unanswered"], 0, "{report}");
    let names: Vec<&str> = report["changes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|change| change["name"].as_str())
        .collect();
    assert_eq!(names, ["server 3 joins", "server 1 leaves"]);
    assert!(
        report["packets"].as_u64() > report["requests"].as_u64(),
        "{report}"
    );
}
