//! Test that the topology in docs/reference/topology.md is valid.

mod common;

use fabric::Topology;

#[test]
fn the_guide_s_topology_is_read_without_a_mistake() {
    let guide = common::examples().join("../docs/reference/topology.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, text) = guide.split_once("```toml\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let topology = Topology::read("docs/reference/topology.md", text, &common::examples());
    let topology = topology.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((topology.flows.len(), topology.commands.len()), (1, 2));
}
