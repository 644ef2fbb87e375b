//! `polyplane fabric`: what it shows, what it carries, what it says of wrong topologies, what it leaves behind.

mod lab;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Directory, Running, Said, example, polyplane, said};

/// A program of Linux that serves one connection, and one that uses it. They say by their exit status whether all bytes came.
const SERVER: &str = "import socket; s = socket.create_server(('', 7000)); c, _ = s.accept(); n = 0
while n < 1000000: n += len(c.recv(65536))
c.sendall(b'%d' % n)";
const CLIENT: &str = "import socket, sys; c = socket.create_connection(('10.0.3.2', 7000), 10); c.sendall(bytes(1000000))
sys.exit(c.recv(100) != b'1000000')";

fn leaf_spine() -> String {
    example("fabric/leaf_spine/leaf_spine.toml")
}

/// The leaf-spine's text, for a directory elsewhere, with flows that are soon carried.
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
fn flows_that_are_not_complete_are_an_error() {
    let dir = Directory::new("fabric-short");
    // The cable is cut: everything is lost.
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
            .contains("not all is complete after 1 simulated seconds"),
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
    assert!(wrong.err.contains("p.p4:2:"), "{}", wrong.err);
}

/// Whether this machine lets fabrics be for real and has the programs that the tests run; if not, why is printed.
fn is_skipped(said: &Said) -> bool {
    let skipped = said.err.contains("network namespace") && said.status == Some(1);
    if skipped {
        println!("skipped: {}", said.err.trim_end());
    }
    skipped
}

/// The leaf-spine with other names of hosts, since tests share the machine, and with these programs in h1 and h3.
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
    // The spine by which h3's network is reached from h1, and the one by which the answers go.
    for switch in json["switches"].as_array().unwrap() {
        let packets = switch["ports"][0]["received"]["packets"].as_u64().unwrap();
        assert!(packets > 0 || switch["name"] == "spine2", "{switch}");
    }
    assert!(!Path::new("/run/netns/ra1").exists());
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

#[test]
fn figure_17_is_measured_and_drawn_beside_the_paper_s_values() {
    let dir = Directory::new("fabric-figure");
    let mut text = small();
    text.truncate(text.find("[[ping]]").unwrap());
    text += "[workload]\nelephants = 2\nelephant_bytes = \"200 KB\"\nmice = 5\nmouse_bytes = \"1 KB\"\n";
    let (file, out) = (dir.with("small.toml", text), dir.file("out"));
    let run = [
        "experiment",
        "hypervdp",
        "--figures",
        "17",
        "--out",
        &out,
        "--fabric",
        &file,
    ];
    let said = said(&[&run[..], &["--engine", "interp", "--json"]].concat());
    assert_eq!(said.status, Some(0), "{}", said.err);
    let rows = said.json();
    assert_eq!(
        (&rows[0]["figure"], &rows[0]["count"]),
        (&17.into(), &20.into())
    );
    assert!(rows[1]["p50"].as_f64().unwrap() > 1.0, "{rows}");
    for file in ["figure17a.svg", "figure17b.svg", "hypervdp.txt"] {
        assert!(Path::new(&out).join(file).exists(), "{file}");
    }
}
