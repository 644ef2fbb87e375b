//! Topology files with what real networks need: several entries files, P4Runtime, set-up commands,
//! and ends as Mininet writes them.

use std::path::{Path, PathBuf};

use fabric::Topology;
use fabric::topology::PlaneSpec;
use packet::PortId;

const TEXT: &str = r#"
[[switch]]
name = "s1"
program = "p.p4"
entries = ["a.entries", "s1-runtime.json"]
p4runtime = "127.0.0.1:50051"
device = 0
cpu_port = 500

[[switch]]
name = "s1-p9"
program = "p.p4"
entries = "b.entries"

[[host]]
name = "h1"
mac = "02:00:00:00:00:01"
ip = "10.0.0.1/24"
setup = ["true", "ip route add 10.9.0.0/16 dev eth0"]

[[link]]
ends = ["h1", "s1-p2"]

[[link]]
ends = ["s1:3", "s1-p9:1"]
"#;

fn read(text: &str) -> Topology {
    let read = Topology::read("t.toml", text, Path::new("d"));
    read.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_switch_has_the_files_and_numbers_that_are_given() {
    let topology = read(TEXT);
    let entries = |at: usize| match &topology.switches[at].plane {
        PlaneSpec::Alone(function) => function.entries.clone(),
        other => panic!("{other:?}"),
    };
    let paths = ["d/a.entries", "d/s1-runtime.json"].map(PathBuf::from);
    assert_eq!(entries(0), paths);
    assert_eq!(entries(1), [PathBuf::from("d/b.entries")]);
    let switch = &topology.switches[0];
    assert_eq!(switch.p4runtime, Some(("127.0.0.1:50051".to_owned(), 0)));
    assert_eq!(switch.cpu_port, Some(PortId(500)));
    assert_eq!(topology.switches[1].cpu_port, None);
    assert_eq!(topology.hosts[0].setup.len(), 2);
}

#[test]
fn an_end_may_be_written_as_mininet_does_unless_it_is_a_name() {
    let topology = read(TEXT);
    let ports = |at: usize| topology.links[at].ends.map(|end| end.port.0);
    assert_eq!(ports(0), [0, 2]);
    assert_eq!(ports(1), [3, 1]);
    let wrong = TEXT.replace("s1-p2", "s1-p9");
    let error = Topology::read("t.toml", &wrong, Path::new("d")).unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.contains("does not say which port of s1-p9"),
        "{shown}"
    );
}
