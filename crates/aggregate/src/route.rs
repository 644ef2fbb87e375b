//! Paths of flows through the switches of their tree.
//!
//! Of equal paths, a flow takes the one with the fewest bytes of earlier flows on its links, so
//! that the flows of mappers and reducers share them. All messages of a flow take one path.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use packet::PortId;

use crate::graph::{Edge, NodeIndex, Ways};
use crate::place::{Input, PredictedBytes, Problem, Tree};

/// Bytes of flows on each link, by its sender and port.
pub(crate) type Loads = BTreeMap<(NodeIndex, PortId), u64>;

/// A link of a path, with its sender.
pub(crate) type Step = (NodeIndex, Edge);

/// The links from where a flow begins or is reduced to where it is reduced next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The links.
    pub(crate) steps: Vec<Step>,
    /// The bytes on each of them.
    pub(crate) bytes: PredictedBytes,
    /// The next segment. `None`: this one ends at the reducer.
    pub(crate) next: Option<usize>,
}

/// A switch on the path of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hop {
    /// The switch.
    pub(crate) at: NodeIndex,
    /// The port by which the flow comes. `None` if it begins here.
    pub(crate) from: Option<PortId>,
    /// The port by which it goes.
    pub(crate) to: PortId,
    /// True if the switch reduces it.
    pub(crate) is_reduced: bool,
}

/// Returns the segments of a reduction: of each mapper, then of each node of the tree.
pub(crate) fn segments(
    problem: &Problem<'_>,
    tree: &Tree,
    bytes: &[u64],
    loads: &mut Loads,
) -> Vec<Segment> {
    let mappers = bytes.len();
    let upwards = tree.upwards(problem).unwrap_or_default();
    let carried = tree.carried(bytes.iter().copied(), &upwards);
    let bytes = bytes.iter().map(|b| PredictedBytes::of_mapper(*b));
    let bytes: Vec<PredictedBytes> = bytes.chain(carried).collect();
    let next = tree.nodes.iter().map(|node| node.parent);
    let next: Vec<Option<usize>> = tree.of_mapper.iter().copied().chain(next).collect();
    let mut order: Vec<usize> = (0..bytes.len()).collect();
    order.sort_by_key(|flow| Reverse(bytes[*flow].both()));
    let mut segments: BTreeMap<usize, Segment> = BTreeMap::new();
    for flow in order {
        let input = match flow.checked_sub(mappers) {
            None => Input::Mapper(flow),
            Some(node) => Input::Node(node),
        };
        let from = tree.begin(problem, input);
        let to = next[flow].map_or(problem.ways.reducer, |node| tree.nodes[node].at);
        let steps = lightest(&problem.ways, (from, to), loads);
        for (node, edge) in &steps {
            // A flow without bytes counts too, so that unknown flows are shared as well.
            *loads.entry((*node, edge.port)).or_default() += bytes[flow].both().max(1);
        }
        let segment = Segment {
            steps,
            bytes: bytes[flow],
            next: next[flow].map(|node| mappers + node),
        };
        segments.insert(flow, segment);
    }
    segments.into_values().collect()
}

/// Returns the shortest path with the fewest bytes on its links. Ties go to the first names.
fn lightest(ways: &Ways<'_>, (from, to): (NodeIndex, NodeIndex), loads: &Loads) -> Vec<Step> {
    let mut known = BTreeMap::new();
    lightest_from(ways, (from, to), loads, &mut known);
    let mut steps = Vec::new();
    let mut node = from;
    while let Some((_, Some(edge))) = known.get(&node) {
        steps.push((node, *edge));
        node = edge.to;
        if node == to {
            break;
        }
    }
    steps
}

/// Notes the bytes and the first link of the lightest path of a node and of all nodes on shortest
/// paths from it. Returns the bytes.
fn lightest_from(
    ways: &Ways<'_>,
    (from, to): (NodeIndex, NodeIndex),
    loads: &Loads,
    known: &mut BTreeMap<NodeIndex, (u64, Option<Edge>)>,
) -> u64 {
    if let Some((bytes, _)) = known.get(&from) {
        return *bytes;
    }
    let mut best: (u64, Option<Edge>) = (u64::MAX, None);
    for edge in ways.shortest(from, to) {
        let rest = match edge.to == to {
            true => 0,
            false => lightest_from(ways, (edge.to, to), loads, known),
        };
        let own = loads.get(&(from, edge.port)).copied().unwrap_or(0);
        let bytes = rest.saturating_add(own);
        if best.1.is_none() || bytes < best.0 {
            best = (bytes, Some(*edge));
        }
    }
    known.insert(from, best);
    best.0
}

/// Returns the switches on the path of a flow.
pub(crate) fn hops(ways: &Ways<'_>, segments: &[Segment], flow: usize) -> Vec<Hop> {
    let mut hops = Vec::new();
    let mut from = None;
    let mut own = Some(flow);
    while let Some(segment) = own.map(|own| &segments[own]) {
        for (number, (node, edge)) in segment.steps.iter().enumerate() {
            if ways.graph.switch(*node).is_some() {
                hops.push(Hop {
                    at: *node,
                    from,
                    to: edge.port,
                    is_reduced: number == 0 && own != Some(flow),
                });
            }
            from = Some(edge.to_port);
        }
        own = segment.next;
    }
    hops
}

/// Returns true if the port by which a flow comes determines its next hop at each switch.
pub(crate) fn is_distinct(hops: &[Hop]) -> bool {
    let mut seen = BTreeSet::new();
    hops.iter().all(|hop| seen.insert((hop.at, hop.from)))
}
