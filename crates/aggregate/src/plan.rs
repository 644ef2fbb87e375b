//! The plan of a job: the switches that reduce, the paths, and the program and entries of each
//! switch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use fabric::topology::{End, HostId, NodeId, PlaneSpec, SwitchId, Topology};
use packet::{Nanos, PortId};

use crate::emit::{SwitchReduction, emit};
use crate::mapper::FlowConfig;
use crate::message::HEADER_BYTES;
use crate::pair::Shape;
use crate::reducer::{ReducerConfig, SwitchPlace};

/// Longest IPv4 packet of a link.
const MTU: usize = 1500;

/// Pairs of a message at most: the bits of a mask in switches.
const MAX_PAIRS: usize = crate::message::MAX_PAIRS;

/// Messages of a flow in flight.
pub const WINDOW: u32 = 128;

/// Longest path of switches that reduce.
pub const MAX_TIERS: u16 = 4;

/// A reduction to plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReductionRequest {
    /// Its name.
    pub name: String,
    /// Operator and classes.
    pub shape: Shape,
    /// The hosts of the mappers, with their bytes as far as they are known.
    pub mappers: Vec<(HostId, u64)>,
    /// The host of the reducer.
    pub reducer: HostId,
    /// Slots of an epoch in each switch.
    pub slots: u32,
    /// Maximum number of switches that reduce on a path.
    pub tiers: u16,
}

/// A switch that takes part in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSwitch {
    /// The switch.
    pub switch: SwitchId,
    /// Its flow, and its distance from the mappers.
    pub place: SwitchPlace,
}

/// A switch that has room for a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The switch.
    pub switch: SwitchId,
    /// Bytes times hops if it is the last switch that reduces.
    pub cost: u64,
}

/// A planned reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedReduction {
    /// Its number, from 1.
    pub job: u16,
    /// The request.
    pub request: ReductionRequest,
    /// The switches, from the mappers to the reducer.
    pub switches: Vec<PlannedSwitch>,
    /// Sum over mappers of bytes times hops, to the last switch and on to the reducer.
    pub cost: u64,
    /// The switches on the paths that have room, in the order of their costs. The first one is
    /// the last switch of the reduction.
    pub candidates: Vec<Candidate>,
}

impl PlannedReduction {
    /// Returns the parameters of its flows in an attempt.
    pub fn flow_config(&self, attempt: u16) -> FlowConfig {
        FlowConfig {
            job: self.job,
            attempt,
            shape: self.request.shape,
            window: WINDOW,
            pairs_per_message: pairs_per_message(self.request.shape),
            datagram_bytes: MTU - 28,
        }
    }

    /// Returns the parameters of its reducer in an attempt.
    pub fn reducer_config(&self, attempt: u16, open_epochs: u16, patience: Nanos) -> ReducerConfig {
        ReducerConfig {
            flows: self.flow_config(attempt),
            mappers: self.request.mappers.len() as u16,
            switches: self.switches.iter().map(|p| p.place).collect(),
            slots: self.request.slots,
            open_epochs,
            patience,
        }
    }

    /// Returns the number of flows: mappers and switches.
    fn flows(&self) -> u32 {
        (self.request.mappers.len() + self.switches.len()) as u32
    }

    fn in_switch(&self) -> SwitchReduction {
        SwitchReduction {
            job: self.job,
            shape: self.request.shape,
            slots: self.request.slots,
            window: WINDOW,
            flows: self.flows(),
            pairs_per_message: pairs_per_message(self.request.shape),
        }
    }
}

/// Returns the number of pairs that fit into a message.
pub fn pairs_per_message(shape: Shape) -> usize {
    let room = MTU - 28 - HEADER_BYTES - crate::message::BANK_BYTES;
    (room / shape.pair_bytes()).min(MAX_PAIRS)
}

/// Error of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// No path leads from a mapper to the reducer.
    NoPath {
        /// The reduction.
        reduction: String,
        /// The mapper's host.
        from: String,
        /// The reducer's host.
        to: String,
    },
    /// No switch has enough free slots.
    NoRoom {
        /// The reduction.
        reduction: String,
        /// Slots that it needs in a switch.
        needed: u64,
        /// The most that a switch has left.
        free: u64,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NoPath {
                reduction,
                from,
                to,
            } => write!(
                f,
                "{reduction}: no path of switches leads from {from} to {to}; add links to the topology"
            ),
            PlanError::NoRoom {
                reduction,
                needed,
                free,
            } => write!(
                f,
                "{reduction}: it needs {needed} slots in a switch, and no switch on its paths has more \
                 than {free} free; give it less `memory`, or a switch more `slots`"
            ),
        }
    }
}

impl std::error::Error for PlanError {}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The reductions, in the order of the requests.
    pub reductions: Vec<PlannedReduction>,
    /// Next hops of each switch: destination, port, MAC address.
    routes: BTreeMap<SwitchId, Vec<Route>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    to: Ipv4Addr,
    port: PortId,
    mac: [u8; 6],
}

/// Links between nodes.
pub(crate) struct Graph<'t> {
    topology: &'t Topology,
    /// Of each node: own port and neighbor, sorted by the neighbor's name.
    neighbours: BTreeMap<NodeId, Vec<(PortId, NodeId)>>,
}

impl<'t> Graph<'t> {
    pub(crate) fn new(topology: &'t Topology) -> Graph<'t> {
        let mut neighbours: BTreeMap<NodeId, Vec<(PortId, NodeId)>> = BTreeMap::new();
        for link in &topology.links {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                let End { node, port } = from;
                neighbours.entry(node).or_default().push((port, to.node));
            }
        }
        for all in neighbours.values_mut() {
            all.sort_by_key(|(port, node)| (topology.name_of(*node), *port));
        }
        Graph {
            topology,
            neighbours,
        }
    }

    /// Returns the next hop of each node on a shortest path to `to`, with the distance. Hosts do
    /// not forward. Ties go to the first name.
    pub(crate) fn tree(&self, to: NodeId) -> BTreeMap<NodeId, (PortId, NodeId, u64)> {
        let mut tree = BTreeMap::new();
        let mut queue = VecDeque::from([(to, 0)]);
        let mut seen = BTreeSet::from([to]);
        while let Some((node, distance)) = queue.pop_front() {
            if matches!(node, NodeId::Host(_)) && node != to {
                continue;
            }
            for (_, other) in self.neighbours.get(&node).into_iter().flatten() {
                if seen.insert(*other) {
                    let back = self.neighbours[other].iter();
                    let port = back.clone().find(|(_, back)| *back == node);
                    if let Some((port, _)) = port {
                        tree.insert(*other, (*port, node, distance + 1));
                        queue.push_back((*other, distance + 1));
                    }
                }
            }
        }
        tree
    }

    /// Returns the switches on the way from a node along a tree.
    pub(crate) fn path(
        &self,
        (from, to): (NodeId, NodeId),
        tree: &BTreeMap<NodeId, (PortId, NodeId, u64)>,
    ) -> Option<Vec<SwitchId>> {
        let mut path = Vec::new();
        let mut node = from;
        if from == to {
            // The switch of a host sends back what the host sends to itself.
            let neighbours = self.neighbours.get(&from)?.iter();
            let mut switches = neighbours.filter_map(|(_, node)| match node {
                NodeId::Switch(id) => Some(*id),
                _ => None,
            });
            return Some(vec![switches.next()?]);
        }
        tree.get(&node)?;
        while let Some((_, next, _)) = tree.get(&node) {
            node = *next;
            if let NodeId::Switch(id) = node {
                path.push(id);
            }
        }
        Some(path)
    }
}

/// Returns the address of a switch, for requests of reducers: in the range for benchmarks of
/// network devices (RFC 2544), which no host has.
pub fn switch_address(switch: SwitchId) -> Ipv4Addr {
    let [.., high, low] = (switch.0 as u32).to_be_bytes();
    Ipv4Addr::new(198, 18, high, low)
}

/// Destination MAC address of messages to a switch. Switches do not look at it.
pub(crate) const SWITCH_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0xfe];

impl Plan {
    /// Plans reductions over a topology. The same input gives the same plan.
    ///
    /// # Errors
    /// A host cannot be reached, or no switch has room.
    pub fn new(topology: &Topology, requests: &[ReductionRequest]) -> Result<Plan, PlanError> {
        let graph = Graph::new(topology);
        let mut free: BTreeMap<SwitchId, u64> = BTreeMap::new();
        for (number, switch) in topology.switches.iter().enumerate() {
            if let PlaneSpec::Aggregate { slots: slots @ 1.. } = switch.plane {
                free.insert(SwitchId(number), slots.into());
            }
        }
        let mut order: Vec<usize> = (0..requests.len()).collect();
        let bytes = |index: &usize| requests[*index].mappers.iter().map(|(_, b)| b).sum::<u64>();
        // Reductions with more bytes choose first (section III-D, with the greedy order fixed).
        order.sort_by_key(|index| (std::cmp::Reverse(bytes(index)), &requests[*index].name));
        let mut reductions = BTreeMap::new();
        for index in order {
            let planned = place(&graph, &requests[index], index, &mut free)?;
            reductions.insert(index, planned);
        }
        Ok(Plan {
            reductions: reductions.into_values().collect(),
            routes: routes(&graph),
        })
    }

    /// Returns the port and the MAC address of the next hop to an address.
    pub(crate) fn next_hop(&self, switch: SwitchId, to: Ipv4Addr) -> Option<(PortId, [u8; 6])> {
        let mut routes = self.routes.get(&switch)?.iter();
        let route = routes.find(|route| route.to == to)?;
        Some((route.port, route.mac))
    }

    /// Returns the P4 text of a switch.
    pub fn program(&self, switch: SwitchId) -> String {
        let own: Vec<SwitchReduction> =
            self.of_switch(switch).map(|(r, _)| r.in_switch()).collect();
        emit(&own)
    }

    /// Returns the bytes of registers of a switch.
    pub fn state_bytes(&self, switch: SwitchId) -> u64 {
        let own = self.of_switch(switch);
        own.map(|(r, _)| r.in_switch().state_bytes()).sum()
    }

    /// Returns the entries of a switch, with the attempt of all reductions and the number of this
    /// load.
    pub fn entries(&self, switch: SwitchId, attempt: u16, incarnation: u32) -> String {
        self.entries_with(switch, &|_| attempt, incarnation)
    }

    /// Returns the entries of a switch, with the attempt of each reduction by its number, and the
    /// number of this load.
    pub fn entries_with(
        &self,
        switch: SwitchId,
        attempt_of: &dyn Fn(u16) -> u16,
        incarnation: u32,
    ) -> String {
        let mut text = String::new();
        for Route { to, port, mac } in self.routes.get(&switch).into_iter().flatten() {
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            let port = port.0;
            writeln!(
                text,
                "SwitchIngress.routes {{ hdr.ipv4.dst: {to}/32; }} -> forward(port: {port}, mac: {mac})"
            )
            .expect("writing to a string succeeds");
        }
        for (reduction, place) in self.of_switch(switch) {
            let (job, flow) = (reduction.job, place.flow);
            let attempt = attempt_of(job);
            writeln!(
                text,
                "SwitchIngress.reductions {{ hdr.agg.job: {job}; }} -> take_part(attempt: {attempt}, \
                 incarnation: {incarnation}, own_flow: {flow})"
            )
            .expect("writing to a string succeeds");
        }
        text
    }

    fn of_switch(
        &self,
        switch: SwitchId,
    ) -> impl Iterator<Item = (&PlannedReduction, SwitchPlace)> {
        self.reductions.iter().filter_map(move |reduction| {
            let mut switches = reduction.switches.iter();
            let planned = switches.find(|planned| planned.switch == switch)?;
            Some((reduction, planned.place))
        })
    }
}

/// Chooses the switches of a reduction.
fn place(
    graph: &Graph<'_>,
    request: &ReductionRequest,
    index: usize,
    free: &mut BTreeMap<SwitchId, u64>,
) -> Result<PlannedReduction, PlanError> {
    let topology = graph.topology;
    let tree = graph.tree(NodeId::Host(request.reducer));
    let mut paths = Vec::new();
    for (host, bytes) in &request.mappers {
        let path = graph.path((NodeId::Host(*host), NodeId::Host(request.reducer)), &tree);
        let path = path.ok_or_else(|| PlanError::NoPath {
            reduction: request.name.clone(),
            from: topology.hosts[host.0].name.clone(),
            to: topology.hosts[request.reducer.0].name.clone(),
        })?;
        paths.push((path, *bytes));
    }
    let needed = 2 * u64::from(request.slots);
    let has_room = |switch: &SwitchId| free.get(switch).is_some_and(|free| *free >= needed);
    // Bytes times hops of a switch: what passes it pays the way to it and on, what does not pass
    // it pays its whole way with all of its bytes.
    let all: BTreeSet<SwitchId> = paths.iter().flat_map(|(path, _)| path.clone()).collect();
    let cost_of = |switch: &SwitchId| -> u64 {
        let hops = paths.iter().map(|(path, bytes)| {
            let to = path.iter().position(|on| on == switch);
            // After the switch, a flow is one of those that were combined.
            let hops = to.map_or(path.len() + 1, |to| to + 1);
            bytes.max(&1) * hops as u64
        });
        let onward = tree.get(&NodeId::Switch(*switch)).map_or(0, |(_, _, d)| *d);
        let most = paths.iter().map(|(_, bytes)| bytes.max(&1)).max();
        hops.sum::<u64>() + onward * most.unwrap_or(&1)
    };
    let name = |switch: &SwitchId| topology.switches[switch.0].name.clone();
    let with_room = all.iter().filter(|switch| has_room(switch));
    let mut candidates: Vec<Candidate> = with_room
        .map(|switch| Candidate {
            switch: *switch,
            cost: cost_of(switch),
        })
        .collect();
    candidates.sort_by_key(|candidate| (candidate.cost, name(&candidate.switch)));
    let best = candidates.first().map(|candidate| &candidate.switch);
    let cost = best.map_or_else(
        || {
            let bytes = paths
                .iter()
                .map(|(path, bytes)| bytes.max(&1) * (path.len() as u64 + 1));
            bytes.sum()
        },
        cost_of,
    );
    let is_wanted = request.tiers > 0 && request.slots > 0;
    let Some(root) = best.filter(|_| is_wanted) else {
        let is_possible = all.iter().any(|switch| free.contains_key(switch));
        if is_wanted && is_possible {
            let free = all.iter().filter_map(|switch| free.get(switch)).max();
            return Err(PlanError::NoRoom {
                reduction: request.name.clone(),
                needed,
                free: free.copied().unwrap_or(0),
            });
        }
        return Ok(PlannedReduction {
            job: index as u16 + 1,
            request: request.clone(),
            switches: Vec::new(),
            cost,
            candidates: Vec::new(),
        });
    };
    let mut chosen = BTreeSet::from([*root]);
    // Further tiers: on each path before the last switch, those nearest the mappers where flows
    // meet.
    for (path, _) in &paths {
        let before = path.iter().take_while(|switch| *switch != root);
        let meets = before.filter(|switch| {
            let passing = paths.iter().filter(|(path, _)| path.contains(switch));
            has_room(switch) && passing.count() >= 2
        });
        chosen.extend(meets.take(usize::from(request.tiers) - 1));
    }
    let level_of = |switch: SwitchId| {
        let before = paths.iter().map(|(path, _)| {
            let on = path.iter().take_while(|on| **on != switch);
            match path.contains(&switch) {
                true => on.filter(|on| chosen.contains(on)).count(),
                false => 0,
            }
        });
        before.max().unwrap_or(0) as u16
    };
    let mut placed: Vec<(u16, SwitchId)> = chosen.iter().map(|s| (level_of(*s), *s)).collect();
    placed.sort_by_key(|(level, switch)| (*level, name(switch)));
    let first = request.mappers.len() as u16;
    let switches = (first..).zip(placed).map(|(flow, (level, switch))| {
        if let Some(free) = free.get_mut(&switch) {
            *free -= needed;
        }
        PlannedSwitch {
            switch,
            place: SwitchPlace { flow, level },
        }
    });
    let switches = switches.collect();
    Ok(PlannedReduction {
        job: index as u16 + 1,
        request: request.clone(),
        switches,
        cost,
        candidates,
    })
}

/// Returns the routes of all switches without a program of their own: to each host, and to each
/// such switch.
fn routes(graph: &Graph<'_>) -> BTreeMap<SwitchId, Vec<Route>> {
    let topology = graph.topology;
    let mut routes: BTreeMap<SwitchId, Vec<Route>> = BTreeMap::new();
    let is_own = |switch: &SwitchId| {
        matches!(
            topology.switches[switch.0].plane,
            PlaneSpec::Aggregate { .. }
        )
    };
    let hosts = topology.hosts.iter().enumerate();
    let hosts = hosts.map(|(number, host)| (NodeId::Host(HostId(number)), host.address, host.mac));
    let switches = (0..topology.switches.len()).map(SwitchId).filter(is_own);
    let switches = switches.map(|id| (NodeId::Switch(id), switch_address(id), SWITCH_MAC));
    for (to, address, mac) in hosts.chain(switches) {
        for (node, (port, ..)) in graph.tree(to) {
            if let NodeId::Switch(switch) = node
                && is_own(&switch)
            {
                let route = Route {
                    to: address,
                    port,
                    mac,
                };
                routes.entry(switch).or_default().push(route);
            }
        }
    }
    routes
}
