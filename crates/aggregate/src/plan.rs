//! The plan of a job: the switches that reduce, the paths, and the program and entries of each
//! switch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use fabric::Topology;
use fabric::topology::{HostId, NodeId, SwitchId};
use packet::{Nanos, PortId};

use crate::emit::{SwitchReduction, emit};
use crate::mapper::FlowConfig;
use crate::message::HEADER_BYTES;
use crate::pair::Shape;
use crate::place::PredictedBytes;
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
    /// True if each mapper gets the result too. It is one of vectors.
    pub to_all: bool,
}

impl ReductionRequest {
    /// Returns the slots that it takes in a switch: two banks.
    pub fn needed(&self) -> u64 {
        2 * u64::from(self.slots)
    }

    /// Returns true if switches are to reduce it.
    pub(crate) fn is_reduced(&self) -> bool {
        self.tiers > 0 && self.slots > 0
    }
}

/// A switch that takes part in a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSwitch {
    /// The switch.
    pub switch: SwitchId,
    /// Its flow, and its distance from the mappers.
    pub place: SwitchPlace,
    /// The hosts of mappers and the switches, the flows of which meet here.
    pub inputs: Vec<NodeId>,
    /// The switch that reduces next. `None`: the reducer.
    pub next: Option<SwitchId>,
    /// Bytes times hops of the reduction without this switch, if another one could be the last.
    pub without: Option<PredictedBytes>,
    /// Other switches with room, the best ones first.
    pub others: Vec<Candidate>,
    /// Other switches on possible ways, without room.
    pub full: Vec<SwitchId>,
}

/// A switch that could be in another one's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The switch.
    pub switch: SwitchId,
    /// Bytes times hops of the reduction with it.
    pub byte_hops: PredictedBytes,
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
    /// Bytes times hops: the sum of the bytes over all links.
    pub byte_hops: PredictedBytes,
    /// The links and bytes of each flow.
    pub(crate) flows: Vec<PlannedFlow>,
    /// Addresses of the reducer's host.
    pub(crate) reducer_end: (Ipv4Addr, [u8; 6]),
    /// The hosts that get replies of the last switch, with their addresses, if all mappers do.
    pub(crate) receivers: Vec<(Ipv4Addr, [u8; 6])>,
}

/// The way of a flow: of a mapper, or of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFlow {
    /// Bytes of the flow on its links, until it is reduced.
    pub(crate) bytes: PredictedBytes,
    /// Its links until it is reduced: sender, its port, receiver.
    pub(crate) links: Vec<(NodeId, PortId, NodeId)>,
    /// All planned switches that its messages pass.
    pub(crate) hops: Vec<FlowHop>,
}

/// A switch that a flow passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowHop {
    pub(crate) switch: SwitchId,
    /// The port by which the flow comes. `None` if it begins here.
    pub(crate) from: Option<PortId>,
    /// The port by which it goes.
    pub(crate) to: PortId,
    /// True if the switch reduces it.
    pub(crate) is_reduced: bool,
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
            receivers: match self.request.to_all {
                true => self.request.mappers.len() as u16,
                false => 0,
            },
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
            waiting: patience,
        }
    }

    /// Returns the IPv4 address to which a mapper sends: the reducer's, or that of a switch which
    /// sends its messages back.
    pub fn destination(&self, flow: usize) -> Ipv4Addr {
        match self.sent_back_by(flow) {
            Some(switch) => switch_address(switch),
            None => self.reducer_end.0,
        }
    }

    /// Returns the first switch that reduces a mapper's flow, if the mapper is on the reducer's
    /// host and all mappers get the replies of the last switch. What a host sends to itself meets
    /// no switch, and a switch has only those blocks whole that came from all mappers.
    pub(crate) fn sent_back_by(&self, flow: usize) -> Option<SwitchId> {
        let request = &self.request;
        let (host, _) = request.mappers.get(flow)?;
        let mut hops = self.flows.get(flow)?.hops.iter().map(|hop| hop.switch);
        let reduces = |switch: &SwitchId| self.switches.iter().any(|it| it.switch == *switch);
        let first = hops.find(reduces)?;
        (request.to_all && *host == request.reducer).then_some(first)
    }

    /// Iterates over the planned switches that its messages pass, whether they reduce it or not.
    /// One may come several times.
    pub fn passed(&self) -> impl Iterator<Item = SwitchId> {
        let hops = self.flows.iter().flat_map(|flow| &flow.hops);
        hops.map(|hop| hop.switch)
    }

    /// Returns the number of flows: mappers and switches.
    fn flows(&self) -> u32 {
        (self.request.mappers.len() + self.switches.len()) as u32
    }

    fn in_switch(&self, switch: SwitchId) -> SwitchReduction {
        SwitchReduction {
            job: self.job,
            shape: self.request.shape,
            slots: self.request.slots,
            window: WINDOW,
            flows: self.flows(),
            pairs_per_message: pairs_per_message(self.request.shape),
            is_multicast: self.is_multicast_in(switch),
        }
    }

    /// Returns true if this is the switch with replies that all mappers get.
    fn is_multicast_in(&self, switch: SwitchId) -> bool {
        let mut switches = self.switches.iter();
        let last = switches.find(|planned| planned.next.is_none());
        self.request.to_all && last.is_some_and(|planned| planned.switch == switch)
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
    /// No switch that the flows can pass has slots.
    NoSwitch {
        /// The reduction.
        reduction: String,
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
            PlanError::NoSwitch { reduction, to } => write!(
                f,
                "{reduction}: no switch on the ways of its mappers to {to} can reduce; give one \
                 `slots` in the topology, or the reduction `tiers 0`"
            ),
            PlanError::NoRoom {
                reduction,
                needed,
                free,
            } => {
                write!(
                    f,
                    "{reduction}: it needs {needed} slots in a switch, and no switch on its ways \
                     has more than {free} free; "
                )?;
                match largest_memory(*free) {
                    0 => f.write_str("give a switch more `slots`"),
                    memory => write!(
                        f,
                        "give it at most `memory {memory}`, or a switch more `slots`"
                    ),
                }
            }
        }
    }
}

impl std::error::Error for PlanError {}

/// Returns the largest `memory` of a reduction that fits into free slots: it takes two banks.
pub fn largest_memory(free: u64) -> u64 {
    free / 2
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The reductions, in the order of the requests.
    pub reductions: Vec<PlannedReduction>,
    /// Next hops of each switch: destination, port, MAC address.
    pub(crate) routes: BTreeMap<SwitchId, Vec<Route>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: Ipv4Addr,
    pub(crate) port: PortId,
    pub(crate) mac: [u8; 6],
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
    /// Returns the port and the MAC address of the next hop to an address.
    pub(crate) fn next_hop(&self, switch: SwitchId, to: Ipv4Addr) -> Option<(PortId, [u8; 6])> {
        let mut routes = self.routes.get(&switch)?.iter();
        let route = routes.find(|route| route.to == to)?;
        Some((route.port, route.mac))
    }

    /// Returns the port and the MAC address of the next hop of a flow's message to this address,
    /// which comes by a port of the flow's path.
    pub(crate) fn flow_hop(
        &self,
        (switch, from): (SwitchId, PortId),
        (job, flow): (u16, u16),
        to: Ipv4Addr,
    ) -> Option<(PortId, [u8; 6])> {
        let mut reductions = self.reductions.iter();
        let reduction = reductions.find(|reduction| reduction.job == job)?;
        let (reducer, mac) = reduction.reducer_end;
        let mut hops = reduction.flows.get(usize::from(flow))?.hops.iter();
        let hop = hops.find(|hop| (hop.switch, hop.from) == (switch, Some(from)))?;
        (reducer == to).then_some((hop.to, mac))
    }

    /// Returns the P4 text of a switch.
    pub fn program(&self, switch: SwitchId) -> String {
        let own: Vec<SwitchReduction> = self
            .of_switch(switch)
            .map(|reduction| reduction.in_switch(switch))
            .collect();
        emit(&own)
    }

    /// Returns the plan of one reduction by its number, with the routes that its messages take.
    pub fn alone(&self, job: u16, topology: &Topology) -> Plan {
        let reductions = self.reductions.iter();
        let reductions: Vec<_> = reductions.filter(|it| it.job == job).cloned().collect();
        let mut addresses = BTreeSet::new();
        for reduction in &reductions {
            let mappers = reduction.request.mappers.iter().map(|(host, _)| *host);
            let hosts = mappers.chain([reduction.request.reducer]);
            addresses.extend(hosts.map(|host| topology.hosts[host.0].address));
            let switches = reduction.switches.iter();
            addresses.extend(switches.map(|planned| switch_address(planned.switch)));
        }
        let own = |routes: &Vec<Route>| {
            let routes = routes.iter().copied();
            routes.filter(|it| addresses.contains(&it.to)).collect()
        };
        let routes = self.routes.iter();
        Plan {
            reductions,
            routes: routes
                .map(|(switch, routes)| (*switch, own(routes)))
                .collect(),
        }
    }

    /// Returns the ports by which the plan's messages may come to a switch or leave it: those of
    /// its routes, and those to other switches.
    pub fn ports(&self, switch: SwitchId, topology: &Topology) -> BTreeSet<PortId> {
        let routes = self.routes.get(&switch).into_iter().flatten();
        let mut ports: BTreeSet<PortId> = routes.map(|route| route.port).collect();
        for link in &topology.links {
            let [one, other] = &link.ends;
            for (near, far) in [(one, other), (other, one)] {
                if near.node == NodeId::Switch(switch) && matches!(far.node, NodeId::Switch(_)) {
                    ports.insert(near.port);
                }
            }
        }
        ports
    }

    /// Returns the slots that reductions take in a switch.
    pub fn used_slots(&self, switch: SwitchId) -> u64 {
        let own = self.of_switch(switch);
        own.map(|reduction| reduction.request.needed()).sum()
    }

    /// Returns the bytes of registers of a switch.
    pub fn state_bytes(&self, switch: SwitchId) -> u64 {
        let own = self.of_switch(switch);
        own.map(|reduction| reduction.in_switch(switch).state_bytes())
            .sum()
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
            let (port, mac) = (port.0, mac_text(*mac));
            writeln!(
                text,
                "SwitchIngress.routes {{ hdr.ipv4.dst: {to}/32; }} -> forward(port: {port}, mac: {mac})"
            )
            .expect("writing to a string succeeds");
        }
        for reduction in &self.reductions {
            let of_reduction = self.flow_entries(reduction, switch, attempt_of, incarnation);
            text += &of_reduction;
            if reduction.is_multicast_in(switch) {
                text += &self.multicast_entries(reduction, switch);
            }
        }
        text
    }

    /// Returns the multicast group of a reduction's replies, and the addresses of the copies.
    fn multicast_entries(&self, reduction: &PlannedReduction, switch: SwitchId) -> String {
        let job = reduction.job;
        let mut copies = String::new();
        let mut replicas = Vec::new();
        let receivers = reduction.receivers.iter();
        let receivers =
            receivers.filter_map(|(to, mac)| Some((to, mac, self.next_hop(switch, *to)?)));
        for (instance, (to, mac, (port, _))) in (1..).zip(receivers) {
            let mac = mac_text(*mac);
            replicas.push(format!("port {} instance {instance}", port.0));
            writeln!(
                copies,
                "SwitchEgress.copies {{ hdr.agg.job: {job}; \
                 standard_metadata.egress_rid: {instance}; }} -> send_to(address: {to}, mac: {mac})"
            )
            .expect("writing to a string succeeds");
        }
        format!("multicast {job} {{ {} }}\n{copies}", replicas.join(", "))
    }

    /// Returns the entries of a switch for the flows of a reduction.
    fn flow_entries(
        &self,
        reduction: &PlannedReduction,
        switch: SwitchId,
        attempt_of: &dyn Fn(u16) -> u16,
        incarnation: u32,
    ) -> String {
        let job = reduction.job;
        let (to, mac) = reduction.reducer_end;
        let mac = mac_text(mac);
        let mut text = String::new();
        for (flow, planned) in reduction.flows.iter().enumerate() {
            let back = reduction.sent_back_by(flow);
            let turn = planned.hops.iter().position(|hop| Some(hop.switch) == back);
            let hops = planned.hops.iter().enumerate();
            for (number, hop) in hops.filter(|(_, hop)| hop.switch == switch) {
                let port = hop.to.0;
                let (address, action) = match back.zip(turn) {
                    Some((back, turn)) if number < turn => (switch_address(back), "pass"),
                    Some((back, turn)) if number == turn => (switch_address(back), "pass_back"),
                    _ => (to, "pass"),
                };
                let written = match hop.from {
                    Some(PortId(from)) => writeln!(
                        text,
                        "SwitchIngress.flows {{ standard_metadata.ingress_port: {from}; \
                         hdr.ipv4.dst: {address}; hdr.agg.job: {job}; hdr.agg.flow: {flow}; }} -> \
                         {action}(port: {port}, mac: {mac}, reduces: {})",
                        u8::from(hop.is_reduced)
                    ),
                    None => writeln!(
                        text,
                        "SwitchIngress.reductions {{ hdr.agg.job: {job}; }} -> take_part(\
                         attempt: {}, incarnation: {incarnation}, own_flow: {flow}, \
                         own_port: {port}, own_mac: {mac})",
                        attempt_of(job)
                    ),
                };
                written.expect("writing to a string succeeds");
            }
        }
        text
    }

    fn of_switch(&self, switch: SwitchId) -> impl Iterator<Item = &PlannedReduction> {
        self.reductions.iter().filter(move |reduction| {
            let mut switches = reduction.switches.iter();
            switches.any(|planned| planned.switch == switch)
        })
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
