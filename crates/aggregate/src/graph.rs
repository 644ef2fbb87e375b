//! Nodes and links of a topology, numbered by name, with the distances between them.

use std::collections::{BTreeMap, VecDeque};

use fabric::topology::{HostId, NanopuIndex, NodeId, PlaneSpec, ServerIndex, SwitchId, Topology};
use packet::PortId;

/// Number of a node in the order of names, so that ties go to the first name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeIndex(pub(crate) usize);

/// A link, seen from one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The own port.
    pub(crate) port: PortId,
    /// The other end.
    pub(crate) to: NodeIndex,
    /// The other end's port.
    pub(crate) to_port: PortId,
}

/// The next hop on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    /// The link.
    pub(crate) edge: Edge,
    /// Links to the end of the path.
    pub(crate) distance: u32,
}

/// Distance of a node that no path leads from.
pub(crate) const UNREACHABLE: u32 = u32::MAX;

/// The nodes and links of a topology.
pub(crate) struct Graph<'t> {
    pub(crate) topology: &'t Topology,
    nodes: Vec<NodeId>,
    numbers: BTreeMap<NodeId, NodeIndex>,
    /// Of each node, sorted by the other end and the own port.
    edges: Vec<Vec<Edge>>,
}

impl<'t> Graph<'t> {
    pub(crate) fn new(topology: &'t Topology) -> Graph<'t> {
        let hosts = (0..topology.hosts.len()).map(|n| NodeId::Host(HostId(n)));
        let switches = (0..topology.switches.len()).map(|n| NodeId::Switch(SwitchId(n)));
        let servers = (0..topology.servers.len()).map(|n| NodeId::Server(ServerIndex(n)));
        let nanopus = (0..topology.nanopus.len()).map(|n| NodeId::Nanopu(NanopuIndex(n)));
        let nodes = hosts.chain(switches).chain(servers).chain(nanopus);
        let mut nodes: Vec<NodeId> = nodes.collect();
        nodes.sort_by_key(|node| topology.name_of(*node));
        let numbers = nodes.iter().enumerate();
        let numbers: BTreeMap<NodeId, NodeIndex> =
            numbers.map(|(n, node)| (*node, NodeIndex(n))).collect();
        let mut edges = vec![Vec::new(); nodes.len()];
        for link in &topology.links {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                edges[numbers[&from.node].0].push(Edge {
                    port: from.port,
                    to: numbers[&to.node],
                    to_port: to.port,
                });
            }
        }
        for edges in &mut edges {
            edges.sort_by_key(|edge| (edge.to, edge.port));
        }
        Graph {
            topology,
            nodes,
            numbers,
            edges,
        }
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns all nodes, in the order of names.
    pub(crate) fn all(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.nodes.len()).map(NodeIndex)
    }

    pub(crate) fn id(&self, node: NodeIndex) -> NodeId {
        self.nodes[node.0]
    }

    pub(crate) fn number(&self, node: NodeId) -> NodeIndex {
        self.numbers[&node]
    }

    pub(crate) fn edges(&self, node: NodeIndex) -> &[Edge] {
        &self.edges[node.0]
    }

    /// Returns the switch of a number, if the node is one.
    pub(crate) fn switch(&self, node: NodeIndex) -> Option<SwitchId> {
        match self.id(node) {
            NodeId::Switch(switch) => Some(switch),
            NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => None,
        }
    }

    /// Returns true if a switch has no program of its own, so that a plan gives it one.
    pub(crate) fn is_planned(&self, node: NodeIndex) -> bool {
        self.switch(node).is_some_and(|switch| {
            let plane = &self.topology.switches[switch.0].plane;
            matches!(plane, PlaneSpec::Aggregate { .. })
        })
    }

    /// Returns the next hop of each node on a shortest path to `to`: the way of all traffic for
    /// which no flow entry says otherwise. Only switches forward. Ties go to the first name.
    pub(crate) fn tree(&self, to: NodeIndex) -> Vec<Option<NextHop>> {
        let mut tree: Vec<Option<NextHop>> = vec![None; self.len()];
        let mut queue = VecDeque::from([(to, 0)]);
        while let Some((node, distance)) = queue.pop_front() {
            if node != to && self.switch(node).is_none() {
                continue;
            }
            for other in self.edges(node).iter().map(|edge| edge.to) {
                if other == to || tree[other.0].is_some() {
                    continue;
                }
                let mut back = self.edges(other).iter();
                tree[other.0] = back.find(|edge| edge.to == node).map(|edge| NextHop {
                    edge: *edge,
                    distance: distance + 1,
                });
                queue.push_back((other, distance + 1));
            }
        }
        tree
    }
}

/// Distances of the ways to a reducer. Where a plan's switches forward a flow, it takes any link;
/// other switches send to the reducer by its tree alone.
pub(crate) struct Ways<'g> {
    pub(crate) graph: &'g Graph<'g>,
    pub(crate) reducer: NodeIndex,
    tree: Vec<Option<NextHop>>,
    /// For some ends: the distance of each node.
    distances: Vec<Vec<u32>>,
}

impl<'g> Ways<'g> {
    /// Returns the ways to a reducer by way of any of these switches.
    pub(crate) fn new(
        graph: &'g Graph<'g>,
        reducer: NodeIndex,
        switches: impl IntoIterator<Item = NodeIndex>,
    ) -> Ways<'g> {
        let mut ways = Ways {
            graph,
            reducer,
            tree: graph.tree(reducer),
            distances: vec![Vec::new(); graph.len()],
        };
        for end in switches.into_iter().chain([reducer]) {
            ways.distances[end.0] = ways.distances_to(end);
        }
        ways
    }

    fn distances_to(&self, end: NodeIndex) -> Vec<u32> {
        let mut distances = vec![UNREACHABLE; self.graph.len()];
        distances[end.0] = 0;
        let mut queue = VecDeque::from([end]);
        while let Some(node) = queue.pop_front() {
            if node != end && self.graph.switch(node).is_none() {
                continue;
            }
            for other in self.graph.edges(node).iter().map(|edge| edge.to) {
                if distances[other.0] == UNREACHABLE && self.sends(other, node) {
                    distances[other.0] = distances[node.0] + 1;
                    queue.push_back(other);
                }
            }
        }
        // A host sends to itself by way of its switch.
        if self.graph.switch(end).is_none() {
            let edges = self.graph.edges(end).iter();
            let mut first = edges.filter(|edge| self.sends(edge.to, end));
            distances[end.0] = first.next().map_or(UNREACHABLE, |_| 2);
        }
        distances
    }

    /// Returns true if a node can send a flow to a neighbour.
    fn sends(&self, from: NodeIndex, to: NodeIndex) -> bool {
        match self.graph.switch(from) {
            Some(_) if !self.graph.is_planned(from) => {
                self.tree[from.0].is_some_and(|next| next.edge.to == to)
            }
            _ => true,
        }
    }

    /// Returns the number of links on the shortest way between two nodes. The second one is the
    /// reducer or one of the switches.
    pub(crate) fn distance(&self, from: NodeIndex, to: NodeIndex) -> u32 {
        self.distances[to.0][from.0]
    }

    /// Returns the links of a node that are on shortest ways to `to`.
    pub(crate) fn shortest(
        &self,
        from: NodeIndex,
        to: NodeIndex,
    ) -> impl Iterator<Item = &'g Edge> {
        let distance = self.distance(from, to);
        let graph = self.graph;
        graph.edges(from).iter().filter(move |edge| {
            let rest = match edge.to == to {
                true => 0,
                false => self.distance(edge.to, to),
            };
            let is_way = edge.to == to || graph.switch(edge.to).is_some();
            is_way && rest != UNREACHABLE && rest + 1 == distance && self.sends(from, edge.to)
        })
    }
}
