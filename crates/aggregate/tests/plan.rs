//! Predicted bytes of plans.

use std::path::Path;

use aggregate::{KeyClass, Operator, Plan, ReductionRequest, Shape, ValueClass};
use fabric::Topology;
use fabric::topology::HostId;

/// Two racks of two hosts below a spine switch.
fn topology() -> Topology {
    let mut text = String::from(
        "[[switch]]\nname = \"a\"\nslots = 1000\n[[switch]]\nname = \"b\"\nslots = 1000\n\
         [[switch]]\nname = \"spine\"\nslots = 1000\n\
         [[link]]\nends = [\"a:9\", \"spine:0\"]\n[[link]]\nends = [\"b:9\", \"spine:1\"]\n",
    );
    for host in 0..4 {
        let switch = if host < 2 { "a" } else { "b" };
        text += &format!(
            "[[host]]\nname = \"h{host}\"\nmac = \"02:00:00:00:01:0{host}\"\n\
             ip = \"10.0.0.{}/16\"\n[[link]]\nends = [\"h{host}\", \"{switch}:{host}\"]\n",
            host + 1
        );
    }
    Topology::read("case", &text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
}

fn request(slots: u32, tiers: u16) -> ReductionRequest {
    ReductionRequest {
        name: "r".to_owned(),
        shape: Shape {
            operator: Operator::Add,
            keys: KeyClass::B8,
            values: ValueClass::I64,
        },
        mappers: vec![(HostId(0), 100), (HostId(1), 60), (HostId(2), 30)],
        reducer: HostId(3),
        slots,
        tiers,
        to_all: false,
    }
}

fn links(tiers: u16) -> Vec<String> {
    let topology = topology();
    let request = request(10, tiers);
    let plan = Plan::new(&topology, &[request]).unwrap_or_else(|error| panic!("{error}"));
    let name = |node| topology.name_of(node);
    let links = plan.predicted_links(&topology).into_iter();
    links
        .map(|l| {
            format!(
                "{} {} {} {}",
                name(l.from),
                name(l.to),
                l.bytes.least,
                l.bytes.most
            )
        })
        .collect()
}

#[test]
fn links_after_a_switch_carry_the_largest_input_at_least_and_all_at_most() {
    let before = ["a spine 160 160", "b h3 190 190"];
    let hosts = [
        "h0 a 100 100",
        "h1 a 60 60",
        "h2 b 30 30",
        "spine b 160 160",
    ];
    assert_eq!(links(0), [&before[..], &hosts[..]].concat());
    // Switch b reduces, and switch a before it, where two flows meet.
    let before = ["a spine 100 160", "b h3 100 190"];
    let hosts = [
        "h0 a 100 100",
        "h1 a 60 60",
        "h2 b 30 30",
        "spine b 100 160",
    ];
    assert_eq!(links(2), [&before[..], &hosts[..]].concat());
}

#[test]
fn a_reduction_without_room_is_told_the_largest_memory_that_has_it() {
    let topology = topology();
    let plan = |slots| Plan::new(&topology, &[request(slots, 1)]);
    let refused = plan(501).unwrap_err().to_string();
    assert!(
        refused.contains("give it at most `memory 500`"),
        "{refused}"
    );
    assert!(plan(500).is_ok());
}
