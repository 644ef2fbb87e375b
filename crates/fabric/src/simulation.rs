//! Discrete event simulation of a fabric, in one thread.

mod faults;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use packet::{FramePool, Nanos};
use support::count::{are, count};
use support::rng::Rng;

use crate::clocked_node::ClockedNode;
use crate::events::Events;
use crate::halves::SplitCounts;
use crate::host::{HostNode, Receipt};
use crate::link_direction::{Delivery, LinkDirection};
use crate::nanopus::{NanopuNode, RequestSender};
use crate::node::{Node, NodeCounts};
use crate::topology::{
    End, FaultKind, FaultSpec, FlowSpec, HostId, NanopuIndex, NodeId, PingSpec, RequestsSpec,
    ServerIndex, SwitchId, SwitchSpec, Topology, TrafficSpec,
};
use crate::traffic::Stream;

/// Creates the node of a switch: compiles its program, loads it on an execution engine and adds
/// its entries. Returns an error message on failure.
pub type MakeSwitch<'a> = dyn FnMut(&SwitchSpec) -> Result<Box<dyn Node>, String> + 'a;

/// Simulated time between two checks of [`Simulation::run`] for completion.
const LOOK: Nanos = Nanos::from_millis(1);

/// Name of the drop reason for packets inside a switch that is loaded again.
pub(crate) const RESTARTED: &str = "restart";

/// Name of the drop reason for packets that arrive at a node that crashed.
const CRASHED: &str = "crashed";

/// Time for the last packets of a stream to arrive.
const LINGER: Nanos = Nanos::from_millis(100);

/// Time for the answers to the last requests to arrive: longer than the transport tries.
const ANSWER_LINGER: Nanos = Nanos::from_millis(1);

/// Maximum number of events between two calls of the observer of [`Simulation::run`].
const EVENTS_PER_LOOK: usize = 10_000;

/// Hop limit within one instant of time, without a host in between. Four times the number of link
/// directions is added.
const MAX_HOPS: usize = 1000;

/// Maximum number of packets in transit at one instant.
const MAX_AT_ONCE: usize = 50_000;

/// Error of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricError {
    /// A switch cannot be created.
    Switch {
        /// Its name.
        name: String,
        /// The error message.
        why: String,
    },
    /// A node cannot be started again after a crash.
    Restart {
        /// Its name.
        name: String,
        /// The error message.
        why: String,
    },
    /// A host with a clock that deviates takes no times.
    NoClock {
        /// Its name.
        name: String,
    },
    /// A nanoPU has no image.
    NoImage {
        /// Its name.
        name: String,
    },
    /// A host has more flows than source ports.
    TooManyFlows {
        /// Its name.
        host: String,
    },
    /// Packets loop over the same links while no time passes.
    Circle {
        /// The simulated time.
        at: Nanos,
        /// The links of the loop, as in `a:1 -> b:1`.
        links: Vec<String>,
    },
    /// Packets multiply beyond the limit at one instant.
    TooManyAtOnce {
        /// The simulated time.
        at: Nanos,
        /// The link that the last packet was offered to.
        link: String,
    },
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricError::Switch { name, why } => write!(f, "switch {name}: {why}"),
            FabricError::Restart { name, why } => {
                write!(f, "{name} cannot be started again after its crash: {why}")
            }
            FabricError::NoClock { name } => write!(
                f,
                "the clock of {name} deviates, and this host takes no times; name a switch, or the \
                 host of a member of a reflex plane"
            ),
            FabricError::NoImage { name } => write!(
                f,
                "nanoPU {name} has no image loaded; `polyplane fabric run` and `polyplane nanopu run \
                 --topo` load images"
            ),
            FabricError::TooManyFlows { host } => write!(
                f,
                "{host} has no port left to send another flow from; give it fewer flows"
            ),
            FabricError::Circle { at, links } => write!(
                f,
                "packets go in a circle for ever at {at} s of simulated time: {}; give one of these \
                 links a delay or a rate, or have a switch drop the packets",
                links.join(", ")
            ),
            FabricError::TooManyAtOnce { at, link } => write!(
                f,
                "more than {MAX_AT_ONCE} packets are on their way at {at} s of simulated time, the \
                 last one by {link}; give links a delay or a rate, or have switches copy less"
            ),
        }
    }
}

impl std::error::Error for FabricError {}

/// A violation of packet conservation, which is a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnbalancedError {
    /// A node, a link direction, or the whole fabric.
    pub place: String,
    /// Packets made or received.
    pub came: u64,
    /// Packets delivered, sent or dropped, and packets inside.
    pub went: u64,
}

impl fmt::Display for UnbalancedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnbalancedError { place, came, went } = self;
        let (came, went) = (count(*came, "packet"), are(*went));
        write!(f, "{place}: {came} came, but {went} accounted for")
    }
}

impl std::error::Error for UnbalancedError {}

/// Progress of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The simulated time.
    pub now: Nanos,
    /// Bytes of flows received so far.
    pub received: u64,
    /// Bytes of all flows.
    pub bytes: u64,
    /// Frames that have arrived at an end of a link.
    pub frames: u64,
    /// True if all flows and pings are complete.
    pub is_done: bool,
}

/// Index of a link direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineId(usize);

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A frame arrives. The number counts the links that it has passed at this instant.
    Arrival(LineId, usize),
    /// A fault begins, or ends.
    Fault(usize, bool),
    /// The wake-up of a node. It is void if the node has since changed its wake-up time.
    Wake(NodeId),
}

/// The link direction by which a packet arrived, and the number of links that it has passed at
/// this instant.
type Cause = (LineId, usize);

/// Detection of packets that loop or multiply while no time passes. The state covers one instant.
#[derive(Default)]
struct Moment {
    at: Nanos,
    /// Number of pending arrivals at this instant.
    coming: usize,
    /// Predecessor of each link direction passed by packets with many hops.
    before: BTreeMap<LineId, LineId>,
    /// Packets that switches have received but will send only when they are woken.
    held: BTreeMap<NodeId, Cause>,
}

/// Pause of a node.
#[derive(Clone, Copy)]
struct Pause {
    since: Nanos,
    until: Nanos,
}

/// A change of a switch's clock: when, by how much, and the drift from then on.
type ClockChange = (Nanos, Nanos, i64);

/// A flow with its source port.
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) port: u16,
}

/// A series of pings with its ICMP identifier.
pub(crate) struct Pings {
    pub(crate) spec: PingSpec,
    pub(crate) ident: u16,
}

/// A link direction with its ends.
pub(crate) struct Laid {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) line: LinkDirection,
}

/// All links, with the event queue.
#[derive(Default)]
struct Wires {
    lines: Vec<Laid>,
    by_end: BTreeMap<End, LineId>,
    events: Events<Event>,
    pool: FramePool,
    frames: u64,
    /// Frames sent at ports without a link, by node.
    nowhere: BTreeMap<NodeId, u64>,
}

/// A simulated fabric.
pub struct Simulation {
    topology: Topology,
    hosts: Vec<HostNode>,
    /// Nodes that take the place of hosts.
    replaced: BTreeMap<HostId, Box<dyn Node>>,
    /// Counters of switches before their last restart.
    restarted: BTreeMap<SwitchId, NodeCounts>,
    switches: Vec<Box<dyn Node>>,
    servers: Vec<Box<dyn Node>>,
    nanopus: Vec<NanopuNode>,
    wires: Wires,
    /// Next wake-up of each node.
    wakes: BTreeMap<NodeId, Nanos>,
    paused: BTreeMap<NodeId, Pause>,
    crashed: BTreeMap<NodeId, Nanos>,
    /// Frames that arrived at nodes after their crash.
    unreceived: BTreeMap<NodeId, u64>,
    /// Changes of clocks so far, which a switch that is loaded again gets, too.
    clock_changes: BTreeMap<NodeId, Vec<ClockChange>>,
    flows: Vec<Flow>,
    /// Flows that are not known to be complete.
    open: Vec<usize>,
    pings: Vec<Pings>,
    now: Nanos,
    moment: Moment,
}

impl Simulation {
    /// Creates a fabric of this topology, with its flows and pings. `make` creates the switches.
    ///
    /// # Errors
    /// A switch cannot be created, or a host has too many flows.
    pub fn new(topology: Topology, make: &mut MakeSwitch<'_>) -> Result<Simulation, FabricError> {
        let mut seeds = Rng::new(topology.seed);
        let mut switches = Vec::new();
        let mut servers = Vec::new();
        for spec in &topology.switches {
            let mut switch = make(spec).map_err(|why| FabricError::Switch {
                name: spec.name.clone(),
                why,
            })?;
            servers.extend(switch.take_servers());
            let id = NodeId::Switch(SwitchId(switches.len()));
            switches.push(with_clock(&topology, id, switch));
        }
        debug_assert_eq!(
            servers.len(),
            topology.servers.len(),
            "one node for each server"
        );
        let hosts = topology.hosts.iter();
        let hosts = hosts.map(|spec| HostNode::new(spec, seeds.bits()));
        let known = Arc::new(topology.mac_addresses());
        let mut nanopus = Vec::new();
        for spec in &topology.nanopus {
            let node = NanopuNode::new(spec, Arc::clone(&known));
            nanopus.push(node.ok_or_else(|| FabricError::NoImage {
                name: spec.host.name.clone(),
            })?);
        }
        let mut simulation = Simulation {
            hosts: hosts.collect(),
            replaced: BTreeMap::new(),
            restarted: BTreeMap::new(),
            switches,
            servers,
            nanopus,
            wires: Wires::default(),
            wakes: BTreeMap::new(),
            paused: BTreeMap::new(),
            crashed: BTreeMap::new(),
            unreceived: BTreeMap::new(),
            clock_changes: BTreeMap::new(),
            flows: Vec::new(),
            open: Vec::new(),
            pings: Vec::new(),
            now: Nanos::ZERO,
            moment: Moment::default(),
            topology,
        };
        simulation.lay(&mut seeds);
        simulation.add_streams(&mut seeds);
        simulation.begin()?;
        Ok(simulation)
    }

    fn lay(&mut self, seeds: &mut Rng) {
        for link in self.topology.links.clone() {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                let id = LineId(self.wires.lines.len());
                let line = LinkDirection::new(link.spec, seeds.bits());
                self.wires.lines.push(Laid { from, to, line });
                self.wires.by_end.insert(from, id);
                self.node(from.node).attach(from.port, &link.spec);
            }
        }
    }

    fn add_streams(&mut self, seeds: &mut Rng) {
        for (number, spec) in (0..).zip(&self.topology.traffic) {
            let [from, to] = [spec.from, spec.to].map(|id| &self.topology.hosts[id.0]);
            let stream = Stream::new(number, *spec, from, to, seeds.bits());
            self.hosts[spec.from.0].add_stream(stream);
        }
        let known = Arc::new(self.topology.mac_addresses());
        for spec in &self.topology.requests {
            let from = &self.topology.hosts[spec.from.0];
            let to = &self.topology.nanopus[spec.to.0];
            let requests = RequestSender::new(spec, from, to, Arc::clone(&known));
            self.hosts[spec.from.0].set_requests(requests);
        }
    }

    fn begin(&mut self) -> Result<(), FabricError> {
        for (number, fault) in self.topology.faults.iter().enumerate() {
            let events = &mut self.wires.events;
            events.push(fault.at, Event::Fault(number, true));
            if let Some(end) = fault.until {
                events.push(end, Event::Fault(number, false));
            }
        }
        for flow in self.topology.flows.clone() {
            self.add_flow(flow)?;
        }
        for ping in self.topology.pings.clone() {
            self.add_ping(ping)?;
        }
        if let Some(workload) = self.topology.workload {
            for flow in workload.flows(self.hosts.len(), self.topology.seed) {
                self.add_flow(flow)?;
            }
        }
        self.nodes().try_for_each(|node| self.settle(node, None))
    }

    /// Puts a node of another kind in the place of a host, before any time has passed. The host's
    /// own flows, pings and streams do not run.
    ///
    /// # Errors
    /// As [`Simulation::run_until`].
    pub fn replace_host(&mut self, id: HostId, node: Box<dyn Node>) -> Result<(), FabricError> {
        let own = NodeId::Host(id);
        let mut node = with_clock(&self.topology, own, node);
        self.wires.attach(own, node.as_mut());
        self.replaced.insert(id, node);
        self.settle(own, None)
    }

    /// Puts a node in the place of a switch: one that was loaded again. Its counters go on, and
    /// packets inside count as dropped by the restart.
    ///
    /// # Errors
    /// As [`Simulation::run_until`].
    pub fn replace_switch(&mut self, id: SwitchId, node: Box<dyn Node>) -> Result<(), FabricError> {
        let own = NodeId::Switch(id);
        let mut node = with_clock(&self.topology, own, node);
        for (time, ahead, drift) in self.clock_changes.get(&own).into_iter().flatten() {
            node.set_clock(*time, *ahead, *drift);
        }
        self.wires.attach(own, node.as_mut());
        let before = std::mem::replace(&mut self.switches[id.0], node);
        let mut counts = before.tally();
        counts
            .dropped
            .push((RESTARTED, std::mem::take(&mut counts.held)));
        self.restarted.entry(id).or_default().add(counts);
        self.settle(own, None)
    }

    /// Schedules a node again, after its next action was changed from outside. A node that pauses
    /// is scheduled at the end of its pause, and one that crashed at its restart.
    ///
    /// # Errors
    /// As [`Simulation::run_until`].
    pub fn wake(&mut self, node: NodeId) -> Result<(), FabricError> {
        if self.paused.contains_key(&node) || self.crashed.contains_key(&node) {
            return Ok(());
        }
        let now = self.now;
        self.node(node).step(now);
        self.settle(node, None)
    }

    /// Adds a flow. It starts at its time, or now if that is past.
    ///
    /// # Errors
    /// The host has no source port left. Otherwise as [`Simulation::run_until`].
    pub fn add_flow(&mut self, spec: FlowSpec) -> Result<(), FabricError> {
        let to = self.topology.hosts[spec.to.0].address;
        let at = spec.at.max(self.now);
        let port = self.hosts[spec.from.0].send_flow(to, spec.bytes, at);
        let port = port.ok_or_else(|| FabricError::TooManyFlows {
            host: self.topology.hosts[spec.from.0].name.clone(),
        })?;
        self.open.push(self.flows.len());
        self.flows.push(Flow {
            spec: FlowSpec { at, ..spec },
            port,
        });
        self.settle(NodeId::Host(spec.from), None)
    }

    /// Adds a series of pings.
    ///
    /// # Errors
    /// As [`Simulation::run_until`].
    pub fn add_ping(&mut self, spec: PingSpec) -> Result<(), FabricError> {
        let to = self.topology.hosts[spec.to.0].address;
        let at = spec.at.max(self.now);
        let ident = self.hosts[spec.from.0].ping(to, spec.count, spec.interval, at);
        self.pings.push(Pings { spec, ident });
        self.settle(NodeId::Host(spec.from), None)
    }

    fn node(&mut self, node: NodeId) -> &mut dyn Node {
        node_of(
            &mut self.hosts,
            &mut self.replaced,
            &mut self.switches,
            &mut self.servers,
            &mut self.nanopus,
            node,
        )
    }

    /// Processes all events up to `end`.
    ///
    /// # Errors
    /// Packets loop or multiply endlessly while no time passes.
    pub fn run_until(&mut self, end: Nanos) -> Result<(), FabricError> {
        while !self.advance(end, usize::MAX)? {}
        self.catch_up()
    }

    /// Processes up to `most` events with times up to `end`. Returns true if there are no more.
    fn advance(&mut self, end: Nanos, most: usize) -> Result<bool, FabricError> {
        for _ in 0..most {
            let Some((now, event)) = self.wires.events.pop_by(end) else {
                self.now = self.now.max(end);
                return Ok(true);
            };
            self.now = now;
            if self.moment.at != now {
                self.moment = Moment {
                    at: now,
                    ..Moment::default()
                };
            }
            match event {
                Event::Arrival(line, _) if self.pause_of(line).is_some() => self.defer(line),
                Event::Arrival(line, _) if self.is_crashed(line) => self.lose(line),
                Event::Arrival(line, hops) => self.arrive(line, hops)?,
                Event::Wake(node) if self.crashed.contains_key(&node) => {
                    self.wakes.remove(&node);
                }
                Event::Wake(node) if self.paused.contains_key(&node) => self.defer_wake(node, now),
                Event::Wake(node) if self.wakes.get(&node) == Some(&now) => {
                    self.wakes.remove(&node);
                    self.node(node).step(now);
                    let cause = self.moment.held.remove(&node);
                    self.settle(node, cause)?;
                }
                Event::Wake(_) => {}
                Event::Fault(fault, begins) => self.set_fault(fault, begins)?,
            }
        }
        Ok(false)
    }

    /// Runs until all flows and pings are complete, or until `end`. `observe` is called frequently
    /// and stops the run by returning false.
    ///
    /// # Errors
    /// As [`Simulation::run_until`].
    pub fn run(
        &mut self,
        end: Nanos,
        observe: &mut dyn FnMut(&mut Simulation) -> bool,
    ) -> Result<(), FabricError> {
        while self.now < end && !self.is_done() {
            let slice = (self.now + LOOK).min(end);
            loop {
                if !observe(self) {
                    return self.catch_up();
                }
                if self.advance(slice, EVENTS_PER_LOOK)? {
                    break;
                }
            }
        }
        self.catch_up()
    }

    fn arrive(&mut self, id: LineId, hops: usize) -> Result<(), FabricError> {
        self.moment.coming = self.moment.coming.saturating_sub(1);
        if hops > self.max_hops() {
            return Err(self.circle(id));
        }
        let laid = &mut self.wires.lines[id.0];
        let to = laid.to;
        let Some(frame) = laid.line.take() else {
            return Ok(());
        };
        self.wires.frames += 1;
        let now = self.now;
        let node = self.node(to.node);
        node.receive(to.port, frame.bytes(), now);
        node.step(now);
        self.wires.pool.put(frame);
        // Hosts and nanoPUs do not forward packets, so the loop detection ends there.
        let ends = matches!(to.node, NodeId::Host(_) | NodeId::Nanopu(_));
        let cause = (!ends).then_some((id, hops));
        self.settle(to.node, cause)
    }

    fn max_hops(&self) -> usize {
        MAX_HOPS + 4 * self.wires.lines.len()
    }

    /// Returns the error that lists the links of a loop. `id` is the last link passed.
    fn circle(&self, id: LineId) -> FabricError {
        let mut path = vec![id];
        let mut last = id;
        while let Some(before) = self.moment.before.get(&last) {
            if let Some(first) = path.iter().position(|passed| passed == before) {
                path.drain(..first);
                break;
            }
            path.push(*before);
            last = *before;
        }
        path.reverse();
        FabricError::Circle {
            at: self.now,
            links: path.iter().map(|id| self.line_text(*id)).collect(),
        }
    }

    fn line_text(&self, id: LineId) -> String {
        let Laid { from, to, .. } = &self.wires.lines[id.0];
        let (from, to) = (self.topology.end_text(*from), self.topology.end_text(*to));
        format!("{from} -> {to}")
    }

    /// Offers a node's sent packets to its links, and schedules its next wake-up. `cause` is the
    /// packet that a switch forwards.
    fn settle(&mut self, id: NodeId, cause: Option<Cause>) -> Result<(), FabricError> {
        let now = self.now;
        let node = node_of(
            &mut self.hosts,
            &mut self.replaced,
            &mut self.switches,
            &mut self.servers,
            &mut self.nanopus,
            id,
        );
        let wires = &mut self.wires;
        let hops = cause.map_or(1, |(_, hops)| hops + 1);
        let mut sent = 0;
        let mut last = None;
        let many = MAX_HOPS / 2;
        let moment = &mut self.moment;
        node.drain_sent(&mut |port, bytes, at| {
            let line = wires.send(End { node: id, port }, bytes, (at.max(now), now), hops);
            let Some(line) = line else { return };
            sent += 1;
            last = Some(line);
            if let Some((before, hops)) = cause
                && hops > many
            {
                moment.before.insert(line, before);
            }
        });
        moment.coming += sent;
        let has_changed_others = node.changed_others();
        let wake = self.schedule(id);
        if let Some(cause) = cause.filter(|_| wake == Some(now)) {
            self.moment.held.insert(id, cause);
        }
        if has_changed_others {
            for other in self.nodes() {
                if other != id && !matches!(other, NodeId::Host(_) | NodeId::Nanopu(_)) {
                    self.schedule(other);
                }
            }
        }
        match last {
            Some(line) if self.moment.coming > MAX_AT_ONCE => Err(FabricError::TooManyAtOnce {
                at: now,
                link: self.line_text(line),
            }),
            _ => Ok(()),
        }
    }

    /// Schedules the next wake-up of a node. Returns its time.
    fn schedule(&mut self, id: NodeId) -> Option<Nanos> {
        let now = self.now;
        // The step has done all work due up to now, so an earlier time means now.
        let wake = self.node(id).next_time().map(|at| at.max(now));
        match wake {
            Some(at) if self.wakes.get(&id) != Some(&at) => {
                self.wakes.insert(id, at);
                self.wires.events.push(at, Event::Wake(id));
            }
            Some(_) => {}
            None => {
                self.wakes.remove(&id);
            }
        }
        wake
    }

    /// Returns true if all flows, pings and streams are complete.
    pub fn is_done(&mut self) -> bool {
        let (flows, hosts) = (&self.flows, &self.hosts);
        self.open.retain(|number| {
            let flow = &flows[*number];
            received(flow, hosts) < flow.spec.bytes
        });
        let traffic = &self.topology.traffic;
        self.open.is_empty()
            && self.pings.iter().all(|ping| self.is_answered(ping))
            && (0..)
                .zip(traffic)
                .all(|(number, spec)| self.has_arrived(number, spec))
            && self.topology.requests.iter().all(|it| self.has_answers(it))
    }

    /// Returns true if all requests of a series are answered, or enough time is over since the
    /// last one was sent and acknowledged, or given up.
    fn has_answers(&self, spec: &RequestsSpec) -> bool {
        let Some(requests) = self.hosts[spec.from.0].requests() else {
            return true;
        };
        let is_over = |end: Nanos| self.now >= end + ANSWER_LINGER;
        requests.all_sent_at().is_some_and(is_over) || requests.is_done()
    }

    /// Lets the cycles of nanoPUs be those up to now: between their actions they are not called.
    fn catch_up(&mut self) -> Result<(), FabricError> {
        let now = self.now;
        for (number, nanopu) in self.nanopus.iter_mut().enumerate() {
            let node = NodeId::Nanopu(NanopuIndex(number));
            match self.paused.get_mut(&node) {
                Some(pause) => {
                    nanopu.resume(pause.since, now);
                    pause.since = now;
                }
                None => nanopu.step(now),
            }
        }
        (0..self.nanopus.len())
            .map(|number| NodeId::Nanopu(NanopuIndex(number)))
            .filter(|node| !self.paused.contains_key(node))
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|node| self.settle(node, None))
    }

    /// Returns true if all packets of a stream have arrived, or enough time is over since the last
    /// one was sent.
    fn has_arrived(&self, number: u16, spec: &TrafficSpec) -> bool {
        let receipt = self.hosts[spec.to.0].stream_receipt(number);
        let length = spec.interval.0.saturating_mul(spec.packets);
        let end = Nanos(spec.at.0.saturating_add(length)) + LINGER;
        self.now >= end || receipt.is_some_and(|receipt| receipt.received >= spec.packets)
    }

    fn is_answered(&self, ping: &Pings) -> bool {
        let echoes = self.hosts[ping.spec.from.0].echoes(ping.ident);
        echoes.is_some_and(|echoes| echoes.times.len() >= usize::from(ping.spec.count))
    }

    /// Returns the progress.
    pub fn progress(&mut self) -> Progress {
        let is_done = self.is_done();
        let flows = self.flows.iter();
        Progress {
            now: self.now,
            received: flows
                .clone()
                .map(|flow| received(flow, &self.hosts))
                .fold(0, u64::saturating_add),
            bytes: flows
                .map(|flow| flow.spec.bytes)
                .fold(0, u64::saturating_add),
            frames: self.wires.frames,
            is_done,
        }
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the packet counters of a node.
    pub fn tally(&self, node: NodeId) -> NodeCounts {
        let mut tally = match node {
            NodeId::Host(id) => match self.replaced.get(&id) {
                Some(node) => node.tally(),
                None => self.hosts[id.0].tally(),
            },
            NodeId::Switch(id) => {
                let mut counts = self.switches[id.0].tally();
                if let Some(before) = self.restarted.get(&id) {
                    counts.add(before.clone());
                }
                counts
            }
            NodeId::Server(id) => self.servers[id.0].tally(),
            NodeId::Nanopu(id) => self.nanopus[id.0].tally(),
        };
        if let Some(lost) = self.unreceived.get(&node) {
            tally.received += lost;
            tally.dropped.push((CRASHED, *lost));
        }
        // The node counted these frames as sent, but there was no link.
        if let Some(nowhere) = self.wires.nowhere.get(&node) {
            tally.sent -= nowhere;
            tally.dropped.push(("no_link", *nowhere));
        }
        tally
    }

    /// Returns the counters of a switch's split program, if it has one.
    pub fn split_counts(&self, switch: SwitchId) -> Option<SplitCounts> {
        self.switches[switch.0].split_counts()
    }

    /// Iterates over all nodes, switches first.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        let switches = (0..self.switches.len()).map(|n| NodeId::Switch(SwitchId(n)));
        let hosts = (0..self.hosts.len()).map(|n| NodeId::Host(HostId(n)));
        let servers = (0..self.servers.len()).map(|n| NodeId::Server(ServerIndex(n)));
        let nanopus = (0..self.nanopus.len()).map(|n| NodeId::Nanopu(NanopuIndex(n)));
        switches.chain(servers).chain(nanopus).chain(hosts)
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub(crate) fn pings(&self) -> &[Pings] {
        &self.pings
    }

    pub(crate) fn host(&self, id: HostId) -> &HostNode {
        &self.hosts[id.0]
    }

    pub(crate) fn nanopus(&self) -> &[NanopuNode] {
        &self.nanopus
    }

    pub(crate) fn receipt(&self, flow: &Flow) -> Option<Receipt> {
        receipt(flow, &self.hosts)
    }

    pub(crate) fn lines(&self) -> &[Laid] {
        &self.wires.lines
    }

    /// Checks packet conservation at each node, on each link direction and over the whole fabric.
    ///
    /// # Errors
    /// A violation, which is a bug in the fabric or in a node.
    pub fn check_conservation(&self) -> Result<(), UnbalancedError> {
        let balanced = |place: &dyn Fn() -> String, came: u64, went: u64| match came == went {
            true => Ok(()),
            false => Err(UnbalancedError {
                place: place(),
                came,
                went,
            }),
        };
        let (mut made, mut ended) = (0, 0);
        for node in self.nodes() {
            let tally = self.tally(node);
            let went = tally.delivered + tally.sent + tally.drops() + tally.held;
            let place = || self.topology.name_of(node).to_owned();
            balanced(&place, tally.received + tally.made, went)?;
            made += tally.made;
            ended += tally.delivered + tally.drops() + tally.held;
        }
        for Laid { from, to, line } in &self.wires.lines {
            let counts = line.counts();
            let went = counts.arrived + counts.lost + counts.overflowed + line.in_flight();
            let place = || {
                let ends = (self.topology.end_text(*from), self.topology.end_text(*to));
                format!("{} to {}", ends.0, ends.1)
            };
            balanced(&place, counts.offered + counts.duplicated, went)?;
            ended += counts.lost + counts.overflowed + line.in_flight();
            made += counts.duplicated;
        }
        balanced(&|| "the fabric".to_owned(), made, ended)
    }
}

impl Wires {
    /// Sets the properties of the links of a node that takes the place of another.
    fn attach(&self, id: NodeId, node: &mut dyn Node) {
        for laid in self.lines.iter().filter(|laid| laid.from.node == id) {
            node.attach(laid.from.port, laid.line.spec());
        }
    }

    /// Offers a frame to the link at time `at`. Returns the link direction if the frame arrives at
    /// time `now`.
    fn send(
        &mut self,
        from: End,
        bytes: &[u8],
        (at, now): (Nanos, Nanos),
        hops: usize,
    ) -> Option<LineId> {
        let Some(&id) = self.by_end.get(&from) else {
            *self.nowhere.entry(from.node).or_default() += 1;
            return None;
        };
        let line = &mut self.lines[id.0].line;
        let Delivery::Arrives(arrival) = line.offer(bytes.len(), at) else {
            return None;
        };
        let mut frame = self.pool.get();
        // Frames of nodes do not exceed the maximum length.
        let copied = frame.assign(bytes);
        debug_assert!(copied.is_ok());
        let mut copy = line.put(frame).then(|| self.pool.get());
        if let Some(mut copy) = copy.take() {
            let copied = copy.assign(bytes);
            debug_assert!(copied.is_ok());
            line.put_copy(copy);
            self.events.push(arrival, Event::Arrival(id, hops));
        }
        let is_now = arrival == now;
        let hops = if is_now { hops } else { 0 };
        self.events.push(arrival, Event::Arrival(id, hops));
        is_now.then_some(id)
    }
}

/// Gives a node a clock of its own if a fault lets it deviate.
fn with_clock(topology: &Topology, id: NodeId, node: Box<dyn Node>) -> Box<dyn Node> {
    let is_own =
        |fault: &FaultSpec| matches!(fault.kind, FaultKind::Clock { node, .. } if node == id);
    match topology.faults.iter().any(is_own) {
        true => Box::new(ClockedNode::new(node)),
        false => node,
    }
}

fn node_of<'a>(
    hosts: &'a mut [HostNode],
    replaced: &'a mut BTreeMap<HostId, Box<dyn Node>>,
    switches: &'a mut [Box<dyn Node>],
    servers: &'a mut [Box<dyn Node>],
    nanopus: &'a mut [NanopuNode],
    node: NodeId,
) -> &'a mut dyn Node {
    match node {
        NodeId::Host(id) => match replaced.get_mut(&id) {
            Some(node) => node.as_mut(),
            None => &mut hosts[id.0],
        },
        NodeId::Switch(id) => switches[id.0].as_mut(),
        NodeId::Server(id) => servers[id.0].as_mut(),
        NodeId::Nanopu(id) => &mut nanopus[id.0],
    }
}

/// Returns the number of bytes of a flow that its receiver has.
fn received(flow: &Flow, hosts: &[HostNode]) -> u64 {
    receipt(flow, hosts).map_or(0, |receipt| receipt.bytes)
}

/// Returns the reception state of a flow.
fn receipt(flow: &Flow, hosts: &[HostNode]) -> Option<Receipt> {
    let number = hosts[flow.spec.from.0].flow_number(flow.port)?;
    hosts[flow.spec.to.0].receipt(number)
}
