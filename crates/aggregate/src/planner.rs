//! Makes plans: chooses switches, then paths.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use fabric::topology::{HostId, NanopuIndex, NodeId, PlaneSpec, SwitchId, Topology};

use crate::graph::{Graph, NodeIndex, UNREACHABLE, Ways};
use crate::place::{Placed, Placement, Problem, Tree, place};
use crate::plan::{
    Candidate, FlowHop, Plan, PlanError, PlannedFlow, PlannedReduction, PlannedSwitch,
    ReductionRequest, Route, SWITCH_MAC, switch_address,
};
use crate::reducer::SwitchPlace;
use crate::route::{Loads, Segment, hops, is_distinct, segments};

impl Plan {
    /// Plans reductions over a topology. The same input gives the same plan.
    ///
    /// # Errors
    /// A host cannot be reached, or no switch can reduce or has room.
    pub fn new(topology: &Topology, requests: &[ReductionRequest]) -> Result<Plan, PlanError> {
        Plan::with_placement(topology, requests, Placement::default())
    }

    /// Plans reductions with the switches that this algorithm chooses.
    ///
    /// # Errors
    /// As for [`Plan::new`].
    pub fn with_placement(
        topology: &Topology,
        requests: &[ReductionRequest],
        placement: Placement,
    ) -> Result<Plan, PlanError> {
        let graph = Graph::new(topology);
        let switches = graph.all().filter(|node| slots_of(&graph, *node) > 0);
        let switches: Vec<NodeIndex> = switches.collect();
        let problems = requests.iter();
        let problems = problems.map(|request| problem(&graph, request, &switches));
        let problems = problems.collect::<Result<Vec<Problem<'_>>, PlanError>>()?;
        let placed = choose(&problems, &switches, requests, placement)?;
        let mut loads = Loads::new();
        let reductions = requests.iter().enumerate();
        let reductions =
            reductions.map(|(index, request)| planned(request, (&placed, index), &mut loads));
        Ok(Plan {
            reductions: reductions.collect(),
            routes: routes(&graph),
        })
    }
}

/// Returns the hosts and bytes of a reduction to place, with the ways to its reducer.
///
/// # Errors
/// A mapper has no way, or no switch that could reduce has one.
fn problem<'g>(
    graph: &'g Graph<'g>,
    request: &ReductionRequest,
    switches: &[NodeIndex],
) -> Result<Problem<'g>, PlanError> {
    let reducer = graph.number(NodeId::Host(request.reducer));
    let ways = Ways::new(graph, reducer, switches.iter().copied());
    let name = |host: HostId| graph.topology.hosts[host.0].name.clone();
    let mut mappers = Vec::new();
    for (host, bytes) in &request.mappers {
        let at = graph.number(NodeId::Host(*host));
        if ways.distance(at, reducer) == UNREACHABLE {
            return Err(PlanError::NoPath {
                reduction: request.name.clone(),
                from: name(*host),
                to: name(request.reducer),
            });
        }
        // A part of unknown size counts as one byte, so that its hops count.
        mappers.push((at, *bytes.max(&1)));
    }
    let problem = Problem {
        ways,
        mappers,
        tiers: request.tiers.into(),
        needed: request.needed(),
    };
    let mut roots = switches.iter();
    if request.is_reduced() && !roots.any(|at| Tree::of_root(&problem, *at).is_some()) {
        return Err(PlanError::NoSwitch {
            reduction: request.name.clone(),
            to: name(request.reducer),
        });
    }
    Ok(problem)
}

/// Returns the trees of reductions, and what is left of the switches' slots.
fn choose<'p, 'g>(
    problems: &'p [Problem<'g>],
    switches: &'p [NodeIndex],
    requests: &[ReductionRequest],
    placement: Placement,
) -> Result<Placed<'p, 'g>, PlanError> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.retain(|index| requests[*index].is_reduced() && !problems[*index].mappers.is_empty());
    let bytes = |index: &usize| problems[*index].bytes().sum::<u64>();
    // Reductions with more bytes choose first.
    order.sort_by_key(|index| (Reverse(bytes(index)), &requests[*index].name));
    let mut free = Vec::new();
    if let Some(problem) = problems.first() {
        let graph = problem.ways.graph;
        free = graph.all().map(|node| slots_of(graph, node)).collect();
    }
    place(problems, switches, (&order, free), placement).map_err(|full| PlanError::NoRoom {
        reduction: requests[full.index].name.clone(),
        needed: problems[full.index].needed,
        free: full.free,
    })
}

/// Returns the slots of a switch that reduces; 0 for other nodes.
fn slots_of(graph: &Graph<'_>, node: NodeIndex) -> u64 {
    let switch = graph
        .switch(node)
        .map(|switch| &graph.topology.switches[switch.0].plane);
    match switch {
        Some(PlaneSpec::Aggregate { slots }) => (*slots).into(),
        _ => 0,
    }
}

/// Returns the plan of a reduction, the switches of which are chosen.
fn planned(
    request: &ReductionRequest,
    (placed, index): (&Placed<'_, '_>, usize),
    loads: &mut Loads,
) -> PlannedReduction {
    let problem = placed.problem(index);
    let graph = problem.ways.graph;
    let (tree, segments) = paths(request, problem, &placed.trees[index], loads);
    let first = request.mappers.len();
    let levels = levels(&tree);
    // Flow numbers of switches are in the order of levels, then of names.
    let mut nodes: Vec<usize> = (0..tree.nodes.len()).collect();
    nodes.sort_by_key(|node| (levels[*node], tree.nodes[*node].at));
    let id = |node: NodeIndex| graph.switch(node).expect("a tree has switches alone");
    let switches = (first as u16..).zip(&nodes).map(|(flow, node)| {
        let own = tree.nodes[*node];
        let choice = placed.choice(index, *node);
        let inputs = tree.inputs(*node);
        let others = choice.others.into_iter();
        PlannedSwitch {
            switch: id(own.at),
            place: SwitchPlace {
                flow,
                level: levels[*node],
            },
            inputs: inputs
                .map(|input| graph.id(tree.begin(problem, input)))
                .collect(),
            next: own.parent.map(|parent| id(tree.nodes[parent].at)),
            without: choice.without,
            others: others
                .map(|(at, byte_hops)| Candidate {
                    switch: id(at),
                    byte_hops,
                })
                .collect(),
            full: choice.full.into_iter().map(id).collect(),
        }
    });
    let order = (0..first).chain(nodes.iter().map(|node| first + node));
    let flows = order.map(|flow| planned_flow(problem, &segments, flow));
    let reducer = &graph.topology.hosts[request.reducer.0];
    PlannedReduction {
        job: index as u16 + 1,
        request: request.clone(),
        switches: switches.collect(),
        byte_hops: tree.byte_hops(problem).unwrap_or_default(),
        flows: flows.collect(),
        reducer_end: (reducer.address, reducer.mac),
        receivers: receivers(graph, request),
    }
}

/// Returns the addresses of the hosts that get the result, each once: agents give a datagram to all
/// mappers of their host.
fn receivers(graph: &Graph<'_>, request: &ReductionRequest) -> Vec<(Ipv4Addr, [u8; 6])> {
    let mappers = request.mappers.iter().map(|(host, _)| *host);
    let hosts: BTreeSet<HostId> = match request.to_all {
        true => mappers.chain([request.reducer]).collect(),
        false => BTreeSet::new(),
    };
    let hosts = hosts.into_iter().map(|host| &graph.topology.hosts[host.0]);
    hosts.map(|host| (host.address, host.mac)).collect()
}

/// Returns the paths of a tree, with the tree: it is a smaller one if a path would enter a switch
/// by the same port twice, which its entries cannot distinguish.
fn paths(
    request: &ReductionRequest,
    problem: &Problem<'_>,
    tree: &Tree,
    loads: &mut Loads,
) -> (Tree, Vec<Segment>) {
    let bytes: Vec<u64> = request.mappers.iter().map(|(_, bytes)| *bytes).collect();
    let root = tree.nodes.first();
    let root = root.and_then(|root| Tree::of_root(problem, root.at));
    for tree in [Some(tree.clone()), root].into_iter().flatten() {
        let mut after = loads.clone();
        let segments = segments(problem, &tree, &bytes, &mut after);
        let mut flows = (0..segments.len()).map(|flow| hops(&problem.ways, &segments, flow));
        if flows.all(|hops| is_distinct(&hops)) {
            *loads = after;
            return (tree, segments);
        }
    }
    let direct = Tree::direct(problem);
    let segments = segments(problem, &direct, &bytes, loads);
    (direct, segments)
}

/// Returns the level of each node of a tree: 0 if no other switch comes before it.
fn levels(tree: &Tree) -> Vec<u16> {
    let mut levels = vec![0; tree.nodes.len()];
    for node in 0..tree.nodes.len() {
        let (mut at, mut level) = (node, 0);
        while let Some(parent) = tree.nodes[at].parent {
            level += 1;
            levels[parent] = level.max(levels[parent]);
            at = parent;
        }
    }
    levels
}

fn planned_flow(problem: &Problem<'_>, segments: &[Segment], flow: usize) -> PlannedFlow {
    let graph = problem.ways.graph;
    let links = segments[flow].steps.iter();
    let links = links.map(|(node, edge)| (graph.id(*node), edge.port, graph.id(edge.to)));
    let hops = hops(&problem.ways, segments, flow).into_iter();
    let hops = hops.filter(|hop| graph.is_planned(hop.at));
    let hops = hops.filter_map(|hop| {
        Some(FlowHop {
            switch: graph.switch(hop.at)?,
            from: hop.from,
            to: hop.to,
            is_reduced: hop.is_reduced,
        })
    });
    PlannedFlow {
        bytes: segments[flow].bytes,
        links: links.collect(),
        hops: hops.collect(),
    }
}

/// Returns the routes of all switches without a program of their own: to each host and nanoPU, and
/// to each such switch.
fn routes(graph: &Graph<'_>) -> BTreeMap<SwitchId, Vec<Route>> {
    let topology = graph.topology;
    let mut routes: BTreeMap<SwitchId, Vec<Route>> = BTreeMap::new();
    let hosts = topology.hosts.iter().enumerate();
    let hosts = hosts.map(|(number, host)| (NodeId::Host(HostId(number)), host.address, host.mac));
    let switches = (0..topology.switches.len()).map(SwitchId);
    let switches = switches.map(|id| (NodeId::Switch(id), switch_address(id), SWITCH_MAC));
    let switches = switches.filter(|(node, ..)| graph.is_planned(graph.number(*node)));
    let nanopus = topology.nanopus.iter().enumerate().map(|(number, nanopu)| {
        let node = NodeId::Nanopu(NanopuIndex(number));
        (node, nanopu.host.address, nanopu.host.mac)
    });
    for (to, address, mac) in hosts.chain(nanopus).chain(switches) {
        let tree = graph.tree(graph.number(to));
        for (node, next) in graph.all().zip(tree) {
            if let (Some(switch), Some(next)) = (graph.switch(node), next)
                && graph.is_planned(node)
            {
                routes.entry(switch).or_default().push(Route {
                    to: address,
                    port: next.edge.port,
                    mac,
                });
            }
        }
    }
    routes
}
