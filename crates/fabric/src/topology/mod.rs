//! Topologies: parsing and validation of topology files.

mod check;
mod check_faults;
mod file;
mod nanopus;
mod split;
mod vpdps;

/// All mistakes of a topology file.
pub use toml_file::FileError as TopologyError;
use toml_file::Parsed;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use ::split::SplitPlacement;
use packet::{Nanos, PortId};
use port::FaultRates;
use tenancy::{Connection, Rule, Share, VpdpId};

pub use nanopus::{NanopuSpec, RequestsSpec};

/// Switches, hosts, nanoPUs, links, and traffic. Names are unique, and all references are valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Name in reports.
    pub name: String,
    /// Seed of random losses and of the workload's peers.
    pub seed: u64,
    /// The switches, indexed by [`SwitchId`].
    pub switches: Vec<SwitchSpec>,
    /// The hosts, indexed by [`HostId`].
    pub hosts: Vec<HostSpec>,
    /// The nanoPUs, indexed by [`NanopuIndex`].
    pub nanopus: Vec<NanopuSpec>,
    /// The servers of a split program, indexed by [`ServerIndex`].
    pub servers: Vec<ServerSpec>,
    /// The links, in the order of the file.
    pub links: Vec<Link>,
    /// Faults of links and nodes.
    pub faults: Vec<FaultSpec>,
    /// Flows listed in the file.
    pub flows: Vec<FlowSpec>,
    /// Pings listed in the file.
    pub pings: Vec<PingSpec>,
    /// Streams of packets listed in the file.
    pub traffic: Vec<TrafficSpec>,
    /// Messages of hosts to nanoPUs.
    pub requests: Vec<RequestsSpec>,
    /// Randomly generated flows.
    pub workload: Option<WorkloadSpec>,
    /// Programs to run in hosts that are network namespaces.
    pub commands: Vec<CommandSpec>,
}

/// Index of a switch in [`Topology::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub usize);

/// Index of a host in [`Topology::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// Index of a server in [`Topology::servers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIndex(pub usize);

/// Index of a nanoPU in [`Topology::nanopus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanopuIndex(pub usize);

/// Identifier of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// A switch.
    Switch(SwitchId),
    /// A server of a split program.
    Server(ServerIndex),
    /// A nanoPU.
    Nanopu(NanopuIndex),
    /// A host.
    Host(HostId),
}

/// Specification of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSpec {
    /// Its name.
    pub name: String,
    /// Its data plane.
    pub plane: PlaneSpec,
    /// Its processing time, in simulated time.
    pub service: ServiceSpec,
    /// The address of its P4Runtime server, and its device number there, if it is a real switch.
    pub p4runtime: Option<(String, u64)>,
    /// Its port for controllers' packets; `None` for the usual one.
    pub cpu_port: Option<PortId>,
    /// True if the real switch hosts tenants: a reduction is a virtual data plane there.
    pub hosts_tenants: bool,
}

/// Data plane of a switch.
#[derive(Clone, Debug, PartialEq)]
pub enum PlaneSpec {
    /// One network function.
    Alone(FunctionSpec),
    /// Several virtual data planes (vPDPs).
    Shared(SharedSpec),
    /// The switch half of a program, and its servers.
    Split(Box<SplitSpec>),
    /// IPv4 forwarding by shortest paths, and reductions of jobs in this number of slots.
    Aggregate {
        /// Slots of all reductions, in both of their banks.
        slots: u32,
    },
}

impl PlaneSpec {
    /// Returns the number of virtual data planes.
    pub fn vpdps(&self) -> usize {
        match self {
            PlaneSpec::Alone(_) | PlaneSpec::Split(_) | PlaneSpec::Aggregate { .. } => 0,
            PlaneSpec::Shared(shared) => shared.vpdps.len(),
        }
    }
}

/// A network function with its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSpec {
    /// Its program.
    pub program: ProgramSpec,
    /// Topology file and line that name the program, as `fabric.toml:11`.
    pub program_at: String,
    /// Paths of its entries files, in the order in which they are read.
    pub entries: Vec<PathBuf>,
}

/// A program, or a policy that chains several programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramSpec {
    /// A file with P4 text or a policy.
    File(PathBuf),
    /// A policy given as text, which contains an arrow.
    Policy {
        /// The policy.
        text: String,
        /// Directory of the programs that the policy names.
        directory: PathBuf,
    },
}

impl std::fmt::Display for ProgramSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProgramSpec::File(path) => path.display().fmt(f),
            ProgramSpec::Policy { text, .. } => f.write_str(text),
        }
    }
}

/// The virtual data planes of a switch, and the assignment of packets to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSpec {
    /// The virtual data planes, in the order of the file.
    pub vpdps: Vec<VpdpSpec>,
    /// Ports shared by several of them.
    pub sharings: Vec<Placed<(PortId, Share)>>,
    /// Classification rules for packets of shared ports.
    pub rules: Vec<Placed<Rule>>,
}

/// A value with its line in the file, for errors found later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<T> {
    /// The value.
    pub it: T,
    /// Line number, from 1.
    pub line: usize,
}

/// Specification of a virtual data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VpdpSpec {
    /// Its id.
    pub id: VpdpId,
    /// Its name.
    pub name: String,
    /// Connections of its ports, from port 0 on.
    pub ports: Vec<Connection>,
    /// Its program and entries.
    pub function: FunctionSpec,
    /// Line number, from 1, of its section.
    pub line: usize,
}

/// Model of a switch's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Processing time per packet.
    pub time: Nanos,
    /// Maximum number of queued packets.
    pub backlog: usize,
}

impl ServiceSpec {
    /// Backlog of a processor for which the file has none, in packets.
    pub const DEFAULT_BACKLOG: usize = 1024;
}

/// A program over a switch and servers.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitSpec {
    /// Path of the program.
    pub program: PathBuf,
    /// Path of the file with the C code of its handlers, if they are not in the program.
    pub c_file: Option<PathBuf>,
    /// Path of the entries file of the whole program.
    pub entries: Option<PathBuf>,
    /// Number of entries in the switch of each table of ingress that can be mirrored. `None`
    /// mirrors only the tables with `@mirror`.
    pub mirror_all: Option<u32>,
    /// Budget of the switch for the values of a packet, in bits.
    pub phv_bits: Option<u64>,
    /// The servers, with the ports of the switch at which they are.
    pub servers: Vec<SplitServer>,
    /// Time until an entry works in the switch.
    pub install: Nanos,
    /// Order of the packets of a flow.
    pub order: FlowOrder,
    /// Selection of the entries in the switch.
    pub placement: SplitPlacement,
}

/// A server at a port of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitServer {
    /// Its name.
    pub name: String,
    /// The port of the switch.
    pub port: PortId,
    /// Its specification.
    pub spec: ServerSpec,
}

/// Order of the packets of a flow while its entry moves into the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowOrder {
    /// The first packets in the switch wait until servers have answered the packets before them.
    #[default]
    Strict,
    /// They do not wait, and may overtake those.
    Loose,
}

impl FlowOrder {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            FlowOrder::Strict => "strict",
            FlowOrder::Loose => "loose",
        }
    }
}

/// A server of a split program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Its name.
    pub name: String,
    /// Number of workers, each with requests of its own flows.
    pub workers: u16,
    /// Processing time of a request in a worker.
    pub service: ServiceSpec,
}

/// A stream of UDP packets of many flows, each packet with the number of its flow and its number
/// in the flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrafficSpec {
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// Number of packets.
    pub packets: u64,
    /// Time between packets.
    pub interval: Nanos,
    /// Number of flows.
    pub flows: u32,
    /// Exponent of Zipf's distribution of packets over flows; 0: all flows have equal shares.
    pub alpha: f64,
    /// Length of frames in bytes.
    pub bytes: usize,
    /// Time of the first packet.
    pub at: Nanos,
    /// Network of random destinations, one for each flow. `None`: the receiver's address.
    pub destinations: Option<(Ipv4Addr, u8)>,
}

/// A host with one interface and an IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub address: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix_len: u8,
    /// The address of its agent, if it is a real host.
    pub agent: Option<String>,
    /// The router to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Static neighbor entries.
    pub neighbours: Vec<(Ipv4Addr, [u8; 6])>,
    /// Shell commands that set it up, if it is a network namespace.
    pub setup: Vec<String>,
}

/// A link, with equal properties in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its two ends.
    pub ends: [End; 2],
    /// Properties of each direction.
    pub spec: LinkSpec,
}

/// A fault for a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// The fault.
    pub kind: FaultKind,
    /// Begin.
    pub at: Nanos,
    /// End; `None` is never.
    pub until: Option<Nanos>,
}

/// State of the disk of a node that is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFate {
    /// The disk has what was written there.
    #[default]
    Kept,
    /// The disk is empty.
    Lost,
}

/// A fault of a link or a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// Other properties of a link.
    Link {
        /// The link, as an index of [`Topology::links`].
        link: usize,
        /// The end of which the frames meet the fault, as an index of [`Link::ends`]. `None`: both.
        from: Option<usize>,
        /// Delay and faults meanwhile. Rate and queue are those of the link.
        during: LinkSpec,
    },
    /// A node that does nothing. Frames that come meanwhile wait for it.
    Pause(NodeId),
    /// A switch or host that stops at once. Frames that come meanwhile are lost. At the end it is
    /// started again with what its disk has.
    Crash(NodeId, DiskFate),
    /// A switch or host with a clock that deviates. After the fault it runs true, and stays ahead.
    Clock {
        /// The node.
        node: NodeId,
        /// Time that the clock is set ahead at the begin.
        ahead: Nanos,
        /// Billionths of the time that it gains meanwhile.
        drift: i64,
    },
}

impl FaultKind {
    /// Returns true if both cannot be in force at one time.
    pub(crate) fn excludes(&self, other: &FaultKind) -> bool {
        match (self, other) {
            (
                FaultKind::Pause(node) | FaultKind::Crash(node, _),
                FaultKind::Pause(other) | FaultKind::Crash(other, _),
            ) => node == other,
            (
                FaultKind::Link { link, from, .. },
                FaultKind::Link {
                    link: other_link,
                    from: other_from,
                    ..
                },
            ) => {
                link == other_link && (from.is_none() || other_from.is_none() || from == other_from)
            }
            (FaultKind::Clock { node, .. }, FaultKind::Clock { node: other, .. }) => node == other,
            _ => false,
        }
    }
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// The node.
    pub node: NodeId,
    /// The node's port. That of a host, a server and a nanoPU is 0.
    pub port: PortId,
}

/// Properties of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec {
    /// Rate. `None` means unlimited.
    pub rate: Option<BitRate>,
    /// Propagation delay.
    pub delay: Nanos,
    /// Probabilities of faults in transit.
    pub faults: FaultRates,
    /// Maximum number of queued frames. At a switch's port, this applies per priority.
    pub queue: usize,
}

impl LinkSpec {
    /// Queue of a link for which the file has none, in frames.
    pub const DEFAULT_QUEUE: usize = 100;
}

/// A rate in bits per second, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(pub u64);

impl BitRate {
    /// Returns the transmission time of a number of bytes. Traffic managers count the same:
    /// without preamble, frame check sequence and gap.
    pub fn time_of(self, bytes: usize) -> Nanos {
        let bits = bytes as u128 * 8;
        Nanos((bits * 1_000_000_000 / u128::from(self.0)) as u64)
    }
}

/// Origin of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowKind {
    /// Listed in the file.
    Named,
    /// A large flow of the workload.
    Elephant,
    /// A small flow of the workload.
    Mouse,
}

/// A TCP transfer from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The sender.
    pub from: HostId,
    /// The receiver.
    pub to: HostId,
    /// Number of bytes.
    pub bytes: u64,
    /// Start time of the connection.
    pub at: Nanos,
    /// Origin of the flow.
    pub kind: FlowKind,
}

/// A series of echo requests from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingSpec {
    /// The sender of the requests.
    pub from: HostId,
    /// The receiver, which replies.
    pub to: HostId,
    /// Number of requests.
    pub count: u16,
    /// The time between requests.
    pub interval: Nanos,
    /// Time of the first request.
    pub at: Nanos,
}

/// Generated traffic: each host sends flows to random peers, all at time 0. This is the workload
/// of HyperVDP, section V-D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Number of large flows per host.
    pub elephants: u32,
    /// Bytes per large flow.
    pub elephant_bytes: u64,
    /// Number of small flows per host.
    pub mice: u32,
    /// Bytes per small flow.
    pub mouse_bytes: u64,
}

/// A program to run in a host that is a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The host.
    pub host: HostId,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// True for a server, which is terminated after the other commands have ended.
    pub is_server: bool,
}

/// Maximum size of a topology file, in bytes.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of switches and hosts together.
pub const MAX_NODES: usize = 10_000;

/// Maximum number of links.
pub const MAX_LINKS: usize = 100_000;

/// Maximum number of flows and series of pings, including those of the workload.
pub const MAX_FLOWS: usize = 1_000_000;

impl Topology {
    /// Parses and validates a topology. Relative file names are resolved in `directory`.
    ///
    /// # Errors
    /// All errors in the topology.
    pub fn read(file: &str, text: &str, directory: &Path) -> Result<Topology, TopologyError> {
        let mend = "docs/reference/topology.md shows what a topology file may say";
        let Parsed { content, mistakes } = toml_file::parse(text, mend);
        let result = match content {
            Some(content) => check::check(content, (file, directory), mistakes),
            None => Err(mistakes.into_list()),
        };
        result.map_err(|mistakes| TopologyError {
            file: file.to_owned(),
            mistakes,
        })
    }

    /// Returns a node's name.
    pub fn name_of(&self, node: NodeId) -> &str {
        match node {
            NodeId::Switch(id) => &self.switches[id.0].name,
            NodeId::Server(id) => &self.servers[id.0].name,
            NodeId::Nanopu(id) => &self.nanopus[id.0].host.name,
            NodeId::Host(id) => &self.hosts[id.0].name,
        }
    }

    /// Formats an end as in topology files: `h1`, `s1:2`.
    pub fn end_text(&self, end: End) -> String {
        let name = self.name_of(end.node);
        match end.node {
            NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => name.to_owned(),
            NodeId::Switch(_) => format!("{name}:{}", end.port),
        }
    }
}
