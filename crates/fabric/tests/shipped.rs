//! Simulation of the topologies in `examples/fabric`.

mod common;

use std::path::Path;

use common::{examples, finish, simulation};
use fabric::topology::FlowKind;
use fabric::{Report, Topology};

fn read(name: &str) -> Topology {
    let path = examples().join(format!("fabric/{name}/{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let directory = path.parent().unwrap_or(Path::new(""));
    Topology::read(name, &text, directory).unwrap_or_else(|error| panic!("{error}"))
}

fn check_intact(report: &Report) {
    for flow in &report.flows {
        assert_eq!(
            (flow.received, flow.is_intact),
            (flow.bytes, true),
            "{flow:?}"
        );
    }
}

#[test]
fn the_leaf_spine_carries_flows_and_pings() {
    let report = finish(&mut simulation(read("leaf_spine")));
    check_intact(&report);
    assert_eq!(report.pings[0].microseconds.len(), 4);
    // Each spine carries one of the flows between the leaves.
    for spine in ["spine1:1", "spine2:1"] {
        let link = report.links.iter().find(|link| link.to == spine).unwrap();
        assert!(link.bytes > 10_000_000, "{link:?}");
    }
}

#[test]
fn the_fat_tree_carries_elephants_and_mice_between_all_stations() {
    let mut topology = read("fat_tree");
    assert_eq!((topology.switches.len(), topology.hosts.len()), (10, 4));
    let paper = topology.workload.take().unwrap();
    assert_eq!((paper.elephants, paper.elephant_bytes), (40, 100_000_000));
    assert_eq!((paper.mice, paper.mouse_bytes), (1000, 10_000));
    let fewer = fabric::topology::WorkloadSpec {
        elephants: 3,
        mice: 20,
        ..paper.scaled(0.005)
    };
    topology.workload = Some(fewer);
    let report = finish(&mut simulation(topology));
    check_intact(&report);
    assert_eq!(report.completion_times(FlowKind::Mouse).0.len(), 80);
    assert_eq!(report.throughputs(FlowKind::Elephant).0.len(), 12);
    // Traffic within and between pods uses every switch.
    assert!(
        report.switches.iter().all(|switch| switch.sent > 100),
        "{:?}",
        report.switches
    );
}
