//! Topologies: what a file says, checked.

mod check;
mod error;
mod file;
mod quantity;
mod vpdps;

pub use error::{Mistake, TopologyError};
use file::Parsed;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use packet::{Nanos, PortId};
use port::PerMillion;
use tenancy::{Connection, Rule, Share, VpdpId};

/// Switches, hosts, the links between them, and what is to be carried. Names are unique, and what is referred to exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// What it is called in reports.
    pub name: String,
    /// What losses and peers are drawn from.
    pub seed: u64,
    /// By [`SwitchId`].
    pub switches: Vec<SwitchSpec>,
    /// By [`HostId`].
    pub hosts: Vec<HostSpec>,
    /// In the order of the file.
    pub links: Vec<Link>,
    /// Flows that the file names.
    pub flows: Vec<FlowSpec>,
    /// Pings that the file names.
    pub pings: Vec<PingSpec>,
    /// Flows between peers that are drawn.
    pub workload: Option<WorkloadSpec>,
    /// Programs to run in hosts that are network namespaces.
    pub commands: Vec<CommandSpec>,
}

/// A switch's place in [`Topology::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub usize);

/// A host's place in [`Topology::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// What a link ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// A switch.
    Switch(SwitchId),
    /// A host.
    Host(HostId),
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Its name.
    pub name: String,
    /// What packets go through.
    pub plane: PlaneSpec,
    /// How fast it is, in simulated time.
    pub service: ServiceSpec,
}

/// What a switch's packets go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaneSpec {
    /// One function.
    Alone(FunctionSpec),
    /// Virtual data planes.
    Shared(SharedSpec),
}

impl PlaneSpec {
    /// How many virtual data planes.
    pub fn vpdps(&self) -> usize {
        match self {
            PlaneSpec::Alone(_) => 0,
            PlaneSpec::Shared(shared) => shared.vpdps.len(),
        }
    }
}

/// A function with its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSpec {
    /// What it does.
    pub program: ProgramSpec,
    /// Its entries file.
    pub entries: Option<PathBuf>,
}

/// A program, or several of them as a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProgramSpec {
    /// A file: P4 text, or a policy.
    File(PathBuf),
    /// A policy as it is typed, with an arrow in it.
    Policy {
        /// The policy.
        text: String,
        /// Where its steps' programs are.
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

/// A switch's virtual data planes, and how packets find theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSpec {
    /// In the order of the file.
    pub vpdps: Vec<VpdpSpec>,
    /// Ports that several of them have.
    pub sharings: Vec<Placed<(PortId, Share)>>,
    /// Which packets of such ports are whose.
    pub rules: Vec<Placed<Rule>>,
}

/// What stands in the file, and the line that it stands in, for what is found to be wrong later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<T> {
    /// What.
    pub it: T,
    /// The line, from 1.
    pub line: usize,
}

/// A virtual data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VpdpSpec {
    /// Its number.
    pub id: VpdpId,
    /// Its name.
    pub name: String,
    /// What its ports are connected to, from port 0 on.
    pub ports: Vec<Connection>,
    /// What it does.
    pub function: FunctionSpec,
    /// The line, from 1, that it begins in.
    pub line: usize,
}

/// What a switch's processor takes for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// How long for one packet.
    pub time: Nanos,
    /// How many packets wait for it at most.
    pub backlog: usize,
}

/// A host: one interface, with an IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its address.
    pub address: Ipv4Addr,
    /// The length of its network's prefix.
    pub prefix_len: u8,
    /// The router by which it reaches other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Neighbours that it knows without asking.
    pub neighbours: Vec<(Ipv4Addr, [u8; 6])>,
}

/// A link, the same in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What it joins.
    pub ends: [End; 2],
    /// What it carries.
    pub spec: LinkSpec,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// What the link ends at.
    pub node: NodeId,
    /// At which port; a host's is 0.
    pub port: PortId,
}

/// What one direction of a link carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec {
    /// How fast; unlimited without it.
    pub rate: Option<BitRate>,
    /// How long a bit is on the way.
    pub delay: Nanos,
    /// How often a frame is lost.
    pub loss: PerMillion,
    /// Frames that wait for it at most, at a switch's port those of one priority.
    pub queue: usize,
}

/// Bits a second, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitRate(pub u64);

impl BitRate {
    /// How long so many bytes take. As traffic managers count: without preamble, check sequence and gap.
    pub fn time_of(self, bytes: usize) -> Nanos {
        let bits = bytes as u128 * 8;
        Nanos((bits * 1_000_000_000 / u128::from(self.0)) as u64)
    }
}

/// What a flow is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowKind {
    /// Named by the file.
    Named,
    /// A large one of the workload.
    Elephant,
    /// A small one of the workload.
    Mouse,
}

/// Bytes that a host sends to another by TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Who sends.
    pub from: HostId,
    /// Who receives.
    pub to: HostId,
    /// How much.
    pub bytes: u64,
    /// When the connection is begun.
    pub at: Nanos,
    /// What it is part of.
    pub kind: FlowKind,
}

/// Echo requests of a host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingSpec {
    /// Who asks.
    pub from: HostId,
    /// Who answers.
    pub to: HostId,
    /// How often.
    pub count: u16,
    /// The time between requests.
    pub interval: Nanos,
    /// When the first leaves.
    pub at: Nanos,
}

/// What each host sends to peers that are drawn, all at once: the workload of HyperVDP, section V-D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Large flows of each host.
    pub elephants: u32,
    /// What each of them carries.
    pub elephant_bytes: u64,
    /// Small flows of each host.
    pub mice: u32,
    /// What each of them carries.
    pub mouse_bytes: u64,
}

/// A program to run in a host that is a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// Where.
    pub host: HostId,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Whether it serves others and is ended after them.
    pub is_server: bool,
}

/// Bytes that a topology file may have.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// Switches and hosts that a topology may have together.
pub const MAX_NODES: usize = 10_000;

/// Links that a topology may have.
pub const MAX_LINKS: usize = 100_000;

/// Flows and series of pings that a topology may have, those of its workload among them.
pub const MAX_FLOWS: usize = 1_000_000;

/// Mistakes of a topology that are reported.
const MAX_MISTAKES: usize = 100;

impl Topology {
    /// Reads a topology. Files that it names are looked for beside it, in `directory`.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn read(file: &str, text: &str, directory: &Path) -> Result<Topology, TopologyError> {
        let Parsed {
            file: parsed,
            mistakes,
        } = file::parse(text);
        let result = match parsed {
            Some(parsed) => check::check(parsed, text, directory, mistakes),
            None => Err(mistakes),
        };
        result.map_err(|mistakes| TopologyError {
            file: file.to_owned(),
            mistakes,
        })
    }

    /// A node's name.
    pub fn name_of(&self, node: NodeId) -> &str {
        match node {
            NodeId::Switch(id) => &self.switches[id.0].name,
            NodeId::Host(id) => &self.hosts[id.0].name,
        }
    }

    /// An end as topology files write it: `h1`, `s1:2`.
    pub fn end_text(&self, end: End) -> String {
        let name = self.name_of(end.node);
        match end.node {
            NodeId::Host(_) => name.to_owned(),
            NodeId::Switch(_) => format!("{name}:{}", end.port),
        }
    }
}
