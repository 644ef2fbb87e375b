//! `polyplane fabric`: its output, its traffic, its errors for wrong topologies, and its cleanup.

mod lab;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Directory, Running, Said, example, polyplane, said, without_rights};

/// A Linux program that serves one connection, and one that uses it. Their exit status is 0 if
/// all bytes arrived.
const SERVER: &str = "import socket; s = socket.create_server(('', 7000)); c, _ = s.accept(); n = 0
while n < 1000000: n += len(c.recv(65536))
c.sendall(b'%d' % n)";
const CLIENT: &str = "import socket, sys; c = socket.create_connection(('10.0.3.2', 7000), 10); c.sendall(bytes(1000000))
sys.exit(c.recv(100) != b'1000000')";

fn leaf_spine() -> String {
    example("fabric/leaf_spine/leaf_spine.toml")
}

/// Returns the leaf-spine topology, for another directory, with flows that complete soon.
fn small() -> String {
    let text = std::fs::read_to_string(leaf_spine()).unwrap();
    let beside = format!("entries = \"{}/", example("fabric/leaf_spine"));
    text.replace("../../", &example(""))
        .replace("entries = \"", &beside)
        .replace("10 MB", "300 KB")
}

#[test]
fn a_simulation_tells_what_became_of_everything_and_the_same_each_time() {
    let dir = Directory::new("fabric-run");
    let file = dir.with("small.toml", small());
    let run = || said(&["fabric", "run", &file, "--engine", "interp", "--json"]);
    let (first, second) = (run(), run());
    assert_eq!(first.status, Some(0), "{}", first.err);
    let [mut first, mut second] = [first, second].map(|said| said.json());
    for flow in first["flows"].as_array().unwrap() {
        assert_eq!(flow["received"], flow["bytes"]);
        assert_eq!(flow["is_intact"], true);
    }
    assert_eq!(
        first["pings"][0]["microseconds"].as_array().unwrap().len(),
        4
    );
    assert_eq!(first["links"].as_array().unwrap().len(), 16);
    for report in [&mut first, &mut second] {
        let report = report.as_object_mut().unwrap();
        report.remove("took_seconds");
        report.remove("frames_per_second");
    }
    assert_eq!(first, second);
}

#[test]
fn a_share_is_above_nothing_and_at_most_all() {
    for scale in ["0", "-1", "1.5", "1e300", "NaN"] {
        let scale = format!("--scale={scale}");
        let said = said(&["fabric", "run", &leaf_spine(), &scale]);
        assert_eq!(said.status, Some(2), "{scale}: {}", said.err);
        assert!(
            said.err.contains("it is not above 0 and at most 1"),
            "{scale}: {}",
            said.err
        );
    }
}

#[test]
fn more_time_is_advised_only_where_something_moves() {
    let dir = Directory::new("fabric-dropped");
    let text = small();
    // A leaf without entries drops all packets.
    let entries = format!(
        "entries = \"{}/leaf1.entries\"\n",
        example("fabric/leaf_spine")
    );
    assert!(text.contains(&entries), "{text}");
    let dropped = text.replace(&entries, "");
    let slow = text.replace("delay = \"5 us\"", "delay = \"400 ms\"");
    let run = |name: &str, text: &str| {
        let file = dir.with(name, text);
        let words = [
            "fabric",
            "run",
            &file,
            "--engine",
            "interp",
            "--seconds",
            "5",
        ];
        let said = said(&words);
        assert_eq!(said.status, Some(1), "{}", said.err);
        said.err
    };
    let err = run("dropped.toml", &dropped);
    assert!(err.contains("nothing of it has arrived, and "), "{err}");
    assert!(!err.contains("--seconds"), "{err}");
    let err = run("slow.toml", &slow);
    assert!(err.contains("--seconds gives it more"), "{err}");
}

#[test]
fn a_user_without_rights_is_told_that_hosts_with_names_take_root() {
    let dir = Directory::new("fabric-nobody");
    let file = dir.with("small.toml", small());
    for words in [
        &["fabric", "up", &file][..],
        &["fabric", "run", &file, "--real"],
    ] {
        let mut command = without_rights(&dir);
        let said = Said::from(command.args(words).output().unwrap());
        assert_ne!(said.status, Some(0), "{words:?}");
        assert!(
            !said.err.contains("does not allow"),
            "{words:?}: {}",
            said.err
        );
    }
    let mut command = without_rights(&dir);
    let said = Said::from(command.args(["fabric", "up", &file]).output().unwrap());
    assert!(said.err.contains("run it as root"), "{}", said.err);
}

#[test]
fn flows_that_are_not_complete_are_an_error() {
    let dir = Directory::new("fabric-short");
    // The link is cut: all packets are lost.
    let end = "ends = [\"h1\", \"leaf1:1\"]";
    let text = small().replace(end, &format!("{end}\nloss = 1.0"));
    let file = dir.with("cut.toml", text);
    let said = said(&[
        "fabric",
        "run",
        &file,
        "--engine",
        "interp",
        "--seconds",
        "1",
    ]);
    assert_eq!(said.status, Some(1), "{}", said.err);
    assert!(
        said.err
            .contains("not all is complete after 1 simulated second"),
        "{}",
        said.err
    );
    assert!(said.out.contains("link_loss"), "{}", said.out);
}

#[test]
fn a_topology_is_shown_as_text_as_json_and_as_a_picture() {
    let topology = example("fabric/fat_tree/fat_tree.toml");
    let text = said(&["fabric", "show", &topology]);
    assert!(
        text.out
            .contains("fat tree: 10 switches, 4 hosts, 16 links"),
        "{}",
        text.out
    );
    assert!(
        text.out.contains("link a1:3 -- c1:1: 1.00 Gbit/s"),
        "{}",
        text.out
    );
    let json = said(&["fabric", "show", &topology, "--json"]).json();
    assert_eq!(json["links"][0]["ends"][1], "e1:1");
    let topology_with_traffic = example("fabric/leaf_spine/leaf_spine.toml");
    let text = said(&["fabric", "show", &topology_with_traffic]);
    for line in [
        "ping h1 to h3: 4 requests, 1.00 ms apart",
        "flow h4 to h1: 1.00 MB, from 20.0 ms on",
        "command at h1: ping -c 3 -i 0.2 10.0.3.2",
    ] {
        assert!(text.out.lines().any(|own| own == line), "{}", text.out);
    }
    let json = said(&["fabric", "show", &topology_with_traffic, "--json"]).json();
    assert_eq!(json["pings"][0]["to"], "h3");
    assert_eq!(json["pings"][0]["count"], 4);
    assert_eq!(json["commands"][0]["is_server"], false);
    let dir = Directory::new("fabric-show");
    let file = dir.file("fat_tree.svg");
    assert_eq!(
        said(&["fabric", "show", &topology, "--svg", &file]).status,
        Some(0)
    );
    let svg = std::fs::read_to_string(file).unwrap();
    for name in ["h1", "e4", "a2", "c2"] {
        assert!(svg.contains(&format!("\n{name}\n")), "{name}");
    }
}

#[test]
fn a_wrong_topology_is_told_with_its_line_and_a_wrong_program_with_its_switch() {
    let dir = Directory::new("fabric-wrong");
    let file = dir.with(
        "t.toml",
        "[[switch]]\nname = \"s\"\nprogram = \"p.p4\"\n[[link]]\nends = [\"s:1\", \"x\"]\n",
    );
    let wrong = said(&["fabric", "run", &file]);
    assert_eq!(wrong.status, Some(1));
    assert!(
        wrong
            .err
            .contains("t.toml:5: error: there is no switch and no host x"),
        "{}",
        wrong.err
    );
    assert_eq!(wrong.err.matches("error:").count(), 1, "{}", wrong.err);
    dir.with(
        "p.p4",
        "#include <core.p4>\ncontrol c() { apply { x = 1; } }\n",
    );
    let file = dir.with("t.toml", "[[switch]]\nname = \"s\"\nprogram = \"p.p4\"\n");
    let wrong = said(&["fabric", "run", &file]);
    assert!(
        wrong.err.contains("switch s: its program has errors"),
        "{}",
        wrong.err
    );
    assert!(wrong.err.contains("t.toml:3)"), "{}", wrong.err);
    assert!(wrong.err.contains("p.p4:2:"), "{}", wrong.err);
    let absent = "[[switch]]\nname = \"s\"\n\n[defaults.switch]\nprogram = \"../no.p4\"\n";
    let file = dir.with("t.toml", absent);
    let wrong = said(&["fabric", "run", &file]);
    assert_eq!(wrong.status, Some(1));
    for words in [
        "t.toml:5: cannot read the program ",
        "../no.p4: there is no",
    ] {
        assert!(wrong.err.contains(words), "{words}\n{}", wrong.err);
    }
}

/// Returns true if this machine does not allow real fabrics, or lacks the programs of the tests.
/// Prints the reason.
fn is_skipped(said: &Said) -> bool {
    let skipped = said.err.contains("network namespace") && said.status == Some(1);
    if skipped {
        println!("skipped: {}", said.err.trim_end());
    }
    skipped
}

/// Writes the leaf-spine topology with other host names, since the tests share the machine, and
/// with these programs in h1 and h3.
fn renamed(dir: &Directory, prefix: &str, commands: &str) -> String {
    let mut text = small();
    text.truncate(text.find("[[ping]]").unwrap());
    let text = text.replace("\"h", &format!("\"{prefix}"));
    dir.with("real.toml", text + commands)
}

#[test]
fn programs_of_linux_reach_each_other_through_a_fabric_for_real() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let dir = Directory::new("fabric-real");
    let run = |code: &str| format!("run = [\"python3\", \"-c\", {code:?}]\n");
    let commands = format!(
        "[[command]]\nhost = \"ra3\"\nserver = true\n{}[[command]]\nhost = \"ra1\"\n{}",
        run(SERVER),
        run(CLIENT)
    );
    let file = renamed(&dir, "ra", &commands);
    let said = said(&[
        "fabric", "run", &file, "--real", "--engine", "interp", "--json",
    ]);
    if is_skipped(&said) {
        return;
    }
    assert_eq!(said.status, Some(0), "{}\n{}", said.err, said.out);
    let json = said.json();
    assert_eq!(json["commands"][0]["status"], 0);
    // The spine on the path from h1 to h3's network, and the one on the path of the answers.
    for switch in json["switches"].as_array().unwrap() {
        let packets = switch["ports"][0]["received"]["packets"].as_u64().unwrap();
        assert!(packets > 0 || switch["name"] == "spine2", "{switch}");
    }
    assert!(!Path::new("/run/netns/ra1").exists());
}

#[test]
fn hosts_reach_each_other_through_switches_without_a_program_of_their_own() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let dir = Directory::new("fabric-slots");
    let text = std::fs::read_to_string(example("aggregate/rack.toml")).unwrap();
    let text = text.replace("\"w", "\"rew").replace("\"r\"", "\"rer\"");
    let run = |code: &str| format!("run = [\"python3\", \"-c\", {code:?}]\n");
    let commands = format!(
        "[[command]]\nhost = \"rer\"\nserver = true\n{}[[command]]\nhost = \"rew0\"\n{}",
        run(SERVER),
        run(&CLIENT.replace("10.0.3.2", "10.0.9.2"))
    );
    let file = dir.with("rack.toml", text + &commands);
    let said = said(&["fabric", "run", &file, "--real", "--json"]);
    if is_skipped(&said) {
        return;
    }
    assert_eq!(said.status, Some(0), "{}\n{}", said.err, said.out);
}

/// The first command waits for the second one; a signal ends the third one. The last one leaves a
/// process, which ends with the fabric.
#[test]
fn commands_run_at_once_receive_signals_and_end_with_all_that_they_started() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let dir = Directory::new("fabric-commands");
    let number = dir.file("number");
    let command =
        |host: &str, words: &[&str]| format!("[[command]]\nhost = \"{host}\"\nrun = {words:?}\n");
    let client = CLIENT.replace("c = socket", "import time; time.sleep(1); c = socket");
    let left = format!("sleep 1000 & echo $! > {number}");
    let commands = command("rd3", &["python3", "-c", SERVER])
        + &command("rd1", &["python3", "-c", &client])
        + &command("rd2", &["timeout", "1", "sleep", "1000"])
        + &command("rd4", &["sh", "-c", &left]);
    let file = renamed(&dir, "rd", &commands);
    let said = said(&[
        "fabric", "run", &file, "--real", "--engine", "interp", "--json",
    ]);
    if is_skipped(&said) {
        return;
    }
    let commands = &said.json()["commands"];
    let status = |number: usize| commands[number]["status"].as_i64();
    assert_eq!(
        [0, 1, 2, 3].map(status),
        [0, 0, 124, 0].map(Some),
        "{}",
        said.err
    );
    assert!(commands[2]["seconds"].as_f64() < Some(30.0), "{commands}");
    let process = std::fs::read_to_string(number).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
    // A killed process may wait for its parent to notice.
    let is_gone = state.map_or(true, |state| state.contains(") Z "));
    assert!(is_gone, "process {process} runs on");
}

#[test]
fn a_fabric_that_was_killed_is_no_obstacle_and_one_that_is_up_is() {
    let dir = Directory::new("fabric-up");
    let file = renamed(&dir, "rb", "");
    let up = || Running::start(polyplane().args(["fabric", "up", &file, "--engine", "interp"]));
    let name = Path::new("/run/netns/rb1");
    let killed = up();
    let start = Instant::now();
    while !name.exists() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    if !name.exists() {
        killed.signal("KILL");
        println!("skipped: {}", killed.finish().err.trim_end());
        return;
    }
    let second = said(&["fabric", "up", &file, "--engine", "interp"]);
    assert_eq!(second.status, Some(1));
    assert!(
        second
            .err
            .contains("there is a network namespace rb1 already"),
        "{}",
        second.err
    );
    killed.signal("KILL");
    killed.finish();
    assert!(name.is_symlink(), "the crash leaves a name");
    let again = up();
    let start = Instant::now();
    while !name.exists() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    again.signal("INT");
    let said = again.finish();
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(
        said.out.contains("ip netns exec rb1 COMMAND"),
        "{}",
        said.out
    );
    assert!(!name.is_symlink());
}

/// Returns a topology of the examples with few flows, for another directory.
fn with_few_flows(name: &str) -> String {
    let file = example(&format!("fabric/{name}/{name}.toml"));
    let text = std::fs::read_to_string(file).unwrap();
    let beside = |key: &str| format!("{key} = \"{}/", example(&format!("fabric/{name}")));
    let functions = example("functions");
    text.replace("entries = \"", &beside("entries"))
        .replace("../../functions", &functions)
        .replace("elephants = 40", "elephants = 2")
        .replace("100 MB", "200 KB")
        .replace("mice = 1000", "mice = 10")
}

#[test]
fn the_fat_tree_s_virtual_data_planes_carry_all_flows() {
    let dir = Directory::new("fabric-vpdps");
    let file = dir.with("vpdps.toml", with_few_flows("fat_tree_vpdps"));
    let run = || said(&["fabric", "run", &file, "--engine", "interp", "--json"]);
    let (first, second) = (run(), run());
    assert_eq!(first.status, Some(0), "{}", first.err);
    let (first, second) = (first.json(), second.json());
    let flows = first["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 48);
    assert!(flows.iter().all(|flow| flow["is_intact"] == true));
    assert_eq!(flows, second["flows"].as_array().unwrap());
    for switch in first["switches"].as_array().unwrap() {
        assert!(switch["sent"].as_u64() > Some(100), "{switch}");
    }
    let shown = said(&["fabric", "show", &file]).out;
    assert!(
        shown.contains("switch e1: 4 virtual data planes"),
        "{shown}"
    );
    assert!(
        shown.contains("  rule inter_in: port 1 -> 1 priority 2"),
        "{shown}"
    );
    let json = said(&["fabric", "show", &file, "--json"]).json();
    assert_eq!(json["switches"][0]["vpdps"][2]["name"], "intra_in");
    assert_eq!(json["switches"][0]["shared"][0]["by"], "rules egress any");
    let picture = dir.file("vpdps.svg");
    said(&["fabric", "show", &file, "--svg", &picture]);
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.contains("\ninter_out\n"));
}

#[test]
fn rules_that_overlap_are_told_with_their_line_and_a_wrong_chain_with_its_vpdp() {
    let dir = Directory::new("fabric-overlap");
    let text = with_few_flows("fat_tree_vpdps");
    let overlapping = text.replacen("inter_in priority 2", "inter_in priority 3", 1);
    let line = 1 + text[..text.find("\"inter_in: ").unwrap()]
        .matches('\n')
        .count();
    let file = dir.with("t.toml", overlapping);
    let wrong = said(&["fabric", "run", &file, "--engine", "interp"]);
    assert_eq!(wrong.status, Some(1));
    let told = format!("switch e1: line {line}: ");
    assert!(wrong.err.contains(&told), "{told}: {}", wrong.err);
    let file = dir.with("t.toml", text.replacen("-> ", "-> no_such_", 5));
    let wrong = said(&["fabric", "run", &file, "--engine", "interp"]);
    assert_eq!(wrong.status, Some(1), "{}", wrong.err);
    assert!(wrong.err.contains("no_such_"), "{}", wrong.err);
}

/// Two hosts. Their packets pass a link between two virtual data planes.
const LINKED: &str = r#"
[[switch]]
name = "s"
[[switch.vpdp]]
name = "red"
ports = [1, "blue:1"]
program = "cross.p4"
[[switch.vpdp]]
name = "blue"
ports = [2, "red:1"]
program = "cross.p4"
[[host]]
name = "rc1"
mac = "02:00:00:00:00:01"
ip = "10.0.0.1/24"
[[host]]
name = "rc2"
mac = "02:00:00:00:00:02"
ip = "10.0.0.2/24"
[[link]]
ends = ["rc1", "s:1"]
[[link]]
ends = ["rc2", "s:2"]
[[flow]]
from = "rc1"
to = "rc2"
bytes = "100 KB"
[[command]]
host = "rc2"
server = true
run = ["python3", "-c", SERVER]
[[command]]
host = "rc1"
run = ["python3", "-c", CLIENT]
"#;

/// Forwards packets of port 0 to port 1 and back.
const CROSS: &str = "#include <core.p4>
#include <v1model.p4>
struct none {}
parser P(packet_in p, out none h, inout none m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout none h, inout none m) { apply {} }
control I(inout none h, inout none m, inout standard_metadata_t s) { apply { s.egress_spec = s.ingress_port ^ 1; } }
control E(inout none h, inout none m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in none h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

#[test]
fn packets_go_over_links_between_virtual_data_planes_simulated_and_for_real() {
    let dir = Directory::new("fabric-linked");
    dir.with("cross.p4", CROSS);
    let client = CLIENT.replace("10.0.3.2", "10.0.0.2");
    let text = LINKED
        .replace("SERVER", &format!("{SERVER:?}"))
        .replace("CLIENT", &format!("{client:?}"));
    let file = dir.with("linked.toml", text);
    let simulated = said(&["fabric", "run", &file, "--engine", "interp", "--json"]);
    assert_eq!(simulated.status, Some(0), "{}", simulated.err);
    assert_eq!(simulated.json()["flows"][0]["is_intact"], true);
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3");
        return;
    }
    let real = said(&[
        "fabric", "run", &file, "--real", "--engine", "interp", "--json",
    ]);
    if is_skipped(&real) {
        return;
    }
    assert_eq!(real.status, Some(0), "{}\n{}", real.err, real.out);
    let json = real.json();
    assert_eq!(json["commands"][0]["status"], 0);
    let sent = json["switches"][0]["ports"][1]["sent"]["packets"].as_u64();
    assert!(sent > Some(10), "{json}");
}

/// The other functions of `examples/split` with a topology: all packets arrive in order.
#[test]
fn functions_over_a_switch_and_servers_are_simulated_by_their_topologies() {
    let dir = Directory::new("fabric-functions");
    for name in ["ecmp", "fib", "firewall", "trd", "load_balancer"] {
        let copied = ["p4", "p4c", "entries", "fabric.entries"].map(|end| format!("{name}.{end}"));
        for file in copied {
            if let Ok(content) = std::fs::read_to_string(example(&format!("split/{file}"))) {
                dir.with(&file, content);
            }
        }
        let text = std::fs::read_to_string(example(&format!("split/{name}.toml"))).unwrap();
        let text = text.replace("20000", "2000").replace("2 MB", "40 KB");
        let file = dir.with(&format!("{name}.toml"), text.replace("1 MB", "40 KB"));
        let run = said(&["fabric", "run", &file, "--engine", "interp", "--json"]);
        assert_eq!(run.status, Some(0), "{name}: {}", run.err);
        let report = run.json();
        for flow in report["flows"].as_array().unwrap() {
            assert_eq!(flow["received"], flow["bytes"], "{name}");
        }
        for stream in report["streams"].as_array().unwrap() {
            assert_eq!(stream["received"], 2000, "{name}");
            assert_eq!(stream["reordered"], 0, "{name}");
        }
        let split = &report["switches"][0]["split"];
        assert!(split["requests"].as_u64() > Some(0), "{name}");
        assert_eq!(split["requests"], split["answered"], "{name}");
    }
}

/// Source NAT over a switch and a server, with C: a ping, a TCP connection and 1,000 flows.
#[test]
fn a_split_program_with_handlers_is_simulated_with_its_servers() {
    let text = std::fs::read_to_string(example("split/snat.toml")).unwrap();
    let dir = Directory::new("fabric-split");
    for file in ["snat.p4c", "snat.entries"] {
        let content = std::fs::read_to_string(example(&format!("split/{file}"))).unwrap();
        dir.with(file, content);
    }
    let file = dir.with(
        "snat.toml",
        text.replace("packets = 100000", "packets = 20000"),
    );
    let run = || said(&["fabric", "run", &file, "--json"]);
    let [mut first, mut second] = [run(), run()].map(|said| {
        assert_eq!(said.status, Some(0), "{}", said.err);
        said.json()
    });
    for report in [&mut first, &mut second] {
        let report = report.as_object_mut().unwrap();
        report.remove("took_seconds");
        report.remove("frames_per_second");
    }
    assert_eq!(first, second);
    assert_eq!(first["flows"][0]["received"], first["flows"][0]["bytes"]);
    assert_eq!(first["flows"][0]["is_intact"], true);
    assert_eq!(
        first["pings"][0]["microseconds"].as_array().unwrap().len(),
        4
    );
    assert_eq!(first["streams"][0]["received"], 20_000);
    let split = &first["switches"][0]["split"];
    assert_eq!(split["requests"], split["answered"]);
    assert_eq!(first["servers"][0]["requests"], split["requests"]);
    let share = split["share_in_switch"].as_f64().unwrap();
    assert!((0.5..1.0).contains(&share), "{share}");
    let real = said(&["fabric", "run", &file, "--real"]);
    assert_eq!(real.status, Some(1), "{}", real.err);
}
