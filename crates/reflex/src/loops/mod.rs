//! Loops: what a loop file declares, with all names resolved.

mod check;
mod check_monitor;
mod check_output;
mod check_reflex;
mod file;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use consensus::{Ack, ReadMode};
use packet::Nanos;
use telemetry::{IntDomain, IntNodeId};
use toml_file::{FileError, Parsed};

use crate::classify::ReportRule;

/// Maximum size of a loop file, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Defines an index of a declaration in its list.
macro_rules! define_index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub usize);
    };
}

define_index! {
    /// Index of an element in [`Loops::elements`].
    ElementIndex
}
define_index! {
    /// Index of a source in [`Loops::sources`].
    SourceIndex
}
define_index! {
    /// Index of a monitor in [`Loops::monitors`].
    MonitorIndex
}
define_index! {
    /// Index of a reflex in [`Loops::reflexes`].
    ReflexIndex
}

define_index! {
    /// Index of an output in [`Loops::outputs`].
    OutputIndex
}

/// The declarations of a reflex plane. All references are valid.
#[derive(Clone, Debug)]
pub struct Loops {
    /// Name in reports.
    pub name: String,
    /// Seed of elections and of hashes.
    pub seed: u64,
    /// Path of the topology that detours are checked against, relative to the loop file.
    pub topology: Option<PathBuf>,
    /// The switches that loops may change.
    pub elements: Vec<ElementSpec>,
    /// The places that reports come from.
    pub sources: Vec<SourceSpec>,
    /// The monitors.
    pub monitors: Vec<MonitorSpec>,
    /// The permissions of monitors.
    pub reflexes: Vec<ReflexSpec>,
    /// The places that it sends to.
    pub outputs: Vec<OutputSpec>,
    /// The replicated store.
    pub store: StoreSpec,
}

/// A place that a plane sends to while it runs, as datagrams.
#[derive(Clone, Debug)]
pub struct OutputSpec {
    /// Address of the receiver.
    pub to: SocketAddrV4,
    /// Content of the datagrams.
    pub content: OutputContent,
}

/// Content of an output.
#[derive(Clone, Debug)]
pub enum OutputContent {
    /// Each event as JSON.
    EventsAsJson,
    /// Each decision as a telemetry report of this node.
    EventsAsReports(IntNodeId),
    /// Datagrams of exporters, as they came, with a report that one of these rules matches.
    Reports(Vec<ReportRule>),
}

/// A switch that loops may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementSpec {
    /// Its name.
    pub name: String,
    /// The switch.
    pub device: ElementDevice,
    /// Its node in paths; the first node of each path if it is not given.
    pub node: Option<IntNodeId>,
    /// Time of a command on its way to it, and of the answer.
    pub delay: Nanos,
    /// Line of the device in the file, from 1.
    pub line: usize,
}

/// The switch of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementDevice {
    /// A switch of the topology, by its name.
    Switch(String),
    /// A device of a P4Runtime server.
    P4Runtime(P4RuntimeDevice),
}

impl ElementDevice {
    /// Returns the switch's name in the topology.
    pub fn switch(&self) -> Option<&str> {
        match self {
            ElementDevice::Switch(name) => Some(name),
            ElementDevice::P4Runtime(_) => None,
        }
    }
}

/// A device of a P4Runtime server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P4RuntimeDevice {
    /// Address of the server, `HOST:PORT`.
    pub address: String,
    /// Number of the device.
    pub device_id: u64,
    /// High half of the election ID. The low half grows with the store's term.
    pub election_id: u64,
    /// The role; empty for the default role.
    pub role: String,
    /// Files for TLS, if the server speaks it.
    pub tls: Option<TlsFiles>,
}

/// Files of certificates and keys in PEM, relative to the loop file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that sign the server's.
    pub ca: PathBuf,
    /// The plane's own certificate and its key, if the server asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Name in the server's certificate, if it is not that of the address.
    pub name: Option<String>,
}

/// A place that reports are received at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcePlace {
    /// A host of the topology. The plane takes its place.
    Host(String),
    /// A UDP socket.
    Udp(SocketAddrV4),
    /// Frames of a network interface, by raw sockets.
    Packet(String),
    /// Frames of a network interface, by AF_XDP.
    Xdp(String),
    /// Frames of a ring: shared memory with another thread or process.
    Ring(String),
    /// Frames of a capture, at its times.
    Pcap(PathBuf),
}

impl SourcePlace {
    /// Returns the host of the topology.
    pub fn host(&self) -> Option<&str> {
        match self {
            SourcePlace::Host(name) => Some(name),
            _ => None,
        }
    }
}

/// Formats the place by its name on the command line: a host's name, or the text of the file.
impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourcePlace::Host(name) => f.write_str(name),
            SourcePlace::Udp(address) => write!(f, "udp:{address}"),
            SourcePlace::Packet(name) => write!(f, "packet:{name}"),
            SourcePlace::Xdp(name) => write!(f, "xdp:{name}"),
            SourcePlace::Ring(name) => write!(f, "ring:{name}"),
            SourcePlace::Pcap(path) => write!(f, "pcap:{}", path.display()),
        }
    }
}

/// A place that reports come from.
#[derive(Clone, Debug)]
pub struct SourceSpec {
    /// The place that reports are sent to.
    pub listen: SourcePlace,
    /// Line of the place in the file, from 1.
    pub line: usize,
    /// The store's node in the process that listens; all processes listen if it is not given.
    pub node: Option<String>,
    /// UDP destination port of reports.
    pub udp_port: u16,
    /// Nodes that may send reports, with their addresses.
    pub from: Vec<(IntNodeId, Ipv4Addr)>,
    /// Agreements of the INT domain.
    pub domain: IntDomain,
}

/// A monitor.
#[derive(Clone, Debug)]
pub struct MonitorSpec {
    /// Its name.
    pub name: String,
    /// The reports that concern it: those that match a rule.
    pub rules: Vec<ReportRule>,
    /// Its detector.
    pub kind: MonitorKind,
    /// Number of instances at the start, each with the state of whole keys.
    pub instances: usize,
    /// Its permissions to change elements; without one it reports only.
    pub reflexes: Vec<ReflexIndex>,
}

/// A detector with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonitorKind {
    /// A flow's path latency exceeds its moving average (nanoPU, section 3.1.2).
    PathLatency(PathLatencySpec),
    /// A host has more distinct peers than allowed.
    Spreader(SpreaderSpec),
    /// A packet visits a node twice.
    Loops(RoutingLoopSpec),
    /// All edges together send more than a limit.
    RateLimit(RateLimitSpec),
    /// A queue holds more bytes than a threshold.
    Microburst(MicroburstSpec),
    /// The queueing of a port is above an objective, or its queue is too short.
    Tuning(TuningSpec),
    /// A P4 program on a device of its own.
    Program(ProgramSpec),
}

impl MonitorKind {
    /// Returns its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            MonitorKind::PathLatency(_) => "path_latency",
            MonitorKind::Spreader(_) => "spreader",
            MonitorKind::Loops(_) => "loops",
            MonitorKind::RateLimit(_) => "rate_limit",
            MonitorKind::Microburst(_) => "microburst",
            MonitorKind::Tuning(_) => "tuning",
            MonitorKind::Program(_) => "program",
        }
    }
}

/// A monitor's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSpec {
    /// P4 file, relative to the loop file.
    pub program: PathBuf,
    /// Entries file, relative to the loop file.
    pub entries: Option<PathBuf>,
    /// Line of the program in the file, from 1.
    pub line: usize,
}

/// Settings of the monitor of hosts with many peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreaderSpec {
    /// The address of a flow that is the host: [`KeyPart::Source`] or [`KeyPart::Destination`].
    pub host: KeyPart,
    /// Fields of a flow that make a peer.
    pub distinct: Vec<KeyPart>,
    /// Peers that a host may have in a window.
    pub limit: usize,
    /// Time after which a silent peer does not count.
    pub window: Nanos,
    /// Hosts at most.
    pub hosts: usize,
}

/// Settings of the monitor of routing loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutingLoopSpec {
    /// The exporters' reason of a drop at the end of a packet's time to live.
    pub ttl_reason: Option<u8>,
}

/// Settings of the monitor of a tenant's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitSpec {
    /// Limit of all edges together, in bytes a second.
    pub limit: u64,
    /// Time over which rates are measured.
    pub every: Nanos,
}

/// Settings of the monitor of bursts in queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroburstSpec {
    /// Bytes in a queue that are a burst.
    pub above: u64,
    /// Flows that decisions are about.
    pub flows: BurstFlows,
    /// Part of a queue that flows may take, in thousandths: the first rule that matches.
    pub entitled: Vec<(ReportRule, u32)>,
    /// The same, of flows that match no rule.
    pub share: u32,
    /// Time after its last packet in which a flow without one in the queue is a victim, too.
    pub recent: Nanos,
    /// Queues at most.
    pub queues: usize,
    /// Packets of a queue at most.
    pub packets: usize,
}

/// Settings of the monitor that tunes a port's threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuningSpec {
    /// The node.
    pub node: IntNodeId,
    /// Its port.
    pub port: u16,
    /// Time in the node that 99 of 100 packets should not exceed.
    pub objective: Nanos,
    /// Time between two thresholds.
    pub every: Nanos,
    /// The lowest threshold, in packets.
    pub least: u32,
    /// The highest threshold, in packets.
    pub most: u32,
}

/// Flows of a burst that decisions are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstFlows {
    /// Those that take no more than they may.
    #[default]
    Victims,
    /// Those that take more.
    Culprits,
}

/// Settings of the monitor of path latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLatencySpec {
    /// Number of samples of the average, at least 1.
    pub window: usize,
    /// Amount above the average that is an alarm.
    pub above: Nanos,
    /// Comparison with the average.
    pub compare: Compare,
    /// Measure of a path's latency.
    pub measure: LatencyMeasure,
    /// Node of the path at which a flow is detoured.
    pub detour: DetourNode,
    /// Flows, each with a path, at most.
    pub flows: usize,
    /// Time without a report after which a flow's place may be given to another one.
    pub forget: Nanos,
}

/// Comparison of a sample with the moving average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// The average is that of the samples before; only a greater latency is an alarm, and it does
    /// not enter the average.
    #[default]
    Above,
    /// As in the published program of the nanoPU: the average includes the sample, and a smaller
    /// latency is an alarm, too.
    Paper,
}

/// Measure of a path's latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatencyMeasure {
    /// The sum of the times in the nodes of the stack: neither links nor the sink are in it.
    #[default]
    Hops,
    /// From the first node's ingress to the last one's ingress: the nodes' clocks must be equal.
    EqualClocks,
}

/// A permission: the change of an element that a monitor may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReflexSpec {
    /// Its name.
    pub name: String,
    /// The element.
    pub element: ElementIndex,
    /// The object that it changes.
    pub change: ChangeSpec,
    /// Line of its ports in the file, or of its name, from 1.
    pub line: usize,
    /// Changes a second, in bursts of at most a hundredth of them.
    pub rate: u64,
    /// Entries at most.
    pub entries: usize,
    /// Least time between two changes of one place.
    pub hold: Nanos,
    /// Time after which a place is restored. `None`: never.
    pub life: Option<Nanos>,
}

/// Part of an element that a permission changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeSpec {
    /// Entries of a table.
    Entry(EntrySpec),
    /// A meter's rate.
    Meter {
        /// Control-plane name of the meter, of bytes.
        name: String,
        /// Its cell.
        cell: u32,
        /// Size of its burst, in bytes.
        burst: u64,
    },
    /// A register's cell.
    Register {
        /// Control-plane name of the register.
        name: String,
        /// Its cell.
        cell: u32,
    },
    /// The most packets in the queue of this port.
    Queue(u32),
}

impl ChangeSpec {
    /// Returns the cell, of meters and registers, or the port.
    pub fn cell(&self) -> Option<u32> {
        match self {
            ChangeSpec::Entry(_) => None,
            ChangeSpec::Queue(port) => Some(*port),
            ChangeSpec::Meter { cell, .. } | ChangeSpec::Register { cell, .. } => Some(*cell),
        }
    }

    /// Returns the ports that packets of an entry may be sent to.
    pub fn ports(&self) -> &[u32] {
        match self {
            ChangeSpec::Entry(entry) => &entry.ports,
            ChangeSpec::Meter { .. } | ChangeSpec::Register { .. } | ChangeSpec::Queue(_) => &[],
        }
    }

    /// Returns the name of the table, meter or register, or that it is a queue.
    pub fn object(&self) -> &str {
        match self {
            ChangeSpec::Queue(_) => "queue",
            ChangeSpec::Entry(entry) => &entry.table,
            ChangeSpec::Meter { name, .. } | ChangeSpec::Register { name, .. } => name,
        }
    }
}

/// Entries that a permission makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySpec {
    /// Control-plane name of the table. Its keys are exact, or a prefix of the destination.
    pub table: String,
    /// Values of the table's keys, in its order.
    pub key: Vec<KeyPart>,
    /// Prefixes of destinations that may be changed. Without any, a key has the whole address.
    pub prefixes: Vec<(Ipv4Addr, u8)>,
    /// Control-plane name of the action. Its only parameter, if it has one, is the port.
    pub action: String,
    /// Ports that packets may be sent to, in order of preference; none if the action has no
    /// parameter.
    pub ports: Vec<u32>,
    /// Entries that others made may be replaced.
    pub replace: bool,
    /// Rate in bytes a second, and burst in bytes, of the direct meter of its entries.
    pub meter: Option<(u64, u64)>,
}

/// Value of a table's key, from a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// IP protocol.
    Protocol,
    /// Source port of TCP or UDP.
    SourcePort,
    /// Destination port of TCP or UDP.
    DestinationPort,
}

/// Node of a path at which a flow is detoured, of those that a permission has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DetourNode {
    /// The first one.
    #[default]
    First,
    /// The last one before the part of the path that became slower than at the last normal packet;
    /// if there is none, that in which it became so.
    BeforeIncrease,
}

/// Network interface of the frames of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInterface {
    /// Its name.
    pub name: String,
    /// Frames go by AF_XDP; otherwise by raw sockets.
    pub is_xdp: bool,
}

/// Way of messages between the replicas of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberTransport {
    /// In memory: all replicas are in one process.
    OneProcess,
    /// UDP datagrams: each replica is in a process of its own, with this address.
    Udp(Vec<SocketAddrV4>),
    /// UDP datagrams as frames of interfaces: each replica is in a process of its own, with this
    /// address and this interface.
    Frames(Vec<SocketAddrV4>, Vec<MemberInterface>),
    /// Rings: each replica is in a process of its own on one machine. The name begins that of the
    /// ring of each two replicas.
    Rings(String),
}

impl MemberTransport {
    /// Returns true if each replica is in a process of its own.
    pub fn is_between_processes(&self) -> bool {
        *self != MemberTransport::OneProcess
    }

    /// Returns the addresses of the replicas, if they have some.
    pub fn addresses(&self) -> Option<&[SocketAddrV4]> {
        match self {
            MemberTransport::Udp(addresses) | MemberTransport::Frames(addresses, _) => {
                Some(addresses)
            }
            MemberTransport::OneProcess | MemberTransport::Rings(_) => None,
        }
    }
}

/// The replicated store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Names of the replicas, then those of spare ones.
    pub nodes: Vec<String>,
    /// Replicas at the first start: the first ones of `nodes`. The others are spare: each may
    /// replace another one later.
    pub voters: usize,
    /// Replicas that must have a change before its decision counts as committed.
    pub ack: Ack,
    /// Way of messages between the replicas.
    pub transport: MemberTransport,
    /// Way of reads of keys.
    pub reads: ReadMode,
    /// File with the key of tags of messages; without it they have none.
    pub key_file: Option<PathBuf>,
    /// Directory that keeps votes and entries; `None` keeps them in memory.
    pub dir: Option<PathBuf>,
    /// Least time without a leader until an election.
    pub election_timeout: Nanos,
}

impl KeyPart {
    /// Returns the widths in bits that a table's key for it can have.
    pub fn widths(self) -> &'static [u32] {
        match self {
            KeyPart::Source | KeyPart::Destination => &[32, 128],
            KeyPart::Protocol => &[8],
            KeyPart::SourcePort | KeyPart::DestinationPort => &[16],
        }
    }

    /// Returns its name in a loop file.
    pub fn name(self) -> &'static str {
        let mut parts = check_reflex::KEY_PARTS.iter();
        let found = parts.find(|(_, part)| *part == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns the keys of a table with the fields that they get, in words.
    pub fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, KeyPart)>) -> String {
        let pairs = pairs.map(|(name, part)| format!("{name} = {}", part.name()));
        pairs.collect::<Vec<_>>().join(", ")
    }

    /// Returns the first key of a table that gets a field of the other direction than its name
    /// has, if another key gets the opposite one: then their order is wrong. A single key of the
    /// other direction can be intended, for packets of the way back.
    pub fn exchanged<'a>(
        pairs: impl Iterator<Item = (&'a str, KeyPart)>,
    ) -> Option<(&'a str, KeyPart)> {
        let mut first: [Option<(&str, KeyPart)>; 4] = [None; 4];
        for (name, part) in pairs {
            let last = name.rsplit('.').next().unwrap_or(name).to_lowercase();
            let has = |words: [&str; 2]| words.iter().any(|word| last.contains(word));
            let (is_source, is_destination) = (has(["src", "source"]), has(["dst", "dest"]));
            let at = match part {
                KeyPart::Source if is_destination && !is_source => 0,
                KeyPart::Destination if is_source && !is_destination => 1,
                KeyPart::SourcePort if is_destination && !is_source => 2,
                KeyPart::DestinationPort if is_source && !is_destination => 3,
                _ => continue,
            };
            if first[at ^ 1].is_some() {
                return first[at ^ 1];
            }
            first[at] = first[at].or(Some((name, part)));
        }
        None
    }
}

/// Returns an example for a value of another type than the file has.
fn hint_of_type(message: &str) -> Option<&'static str> {
    let is_number = message.contains("invalid type: integer") || message.contains("floating point");
    if message.contains("struct Exporter") {
        Some("write node and address, as in from = [{ node = 2, address = \"10.9.0.2\" }]")
    } else if is_number && message.contains("expected a string") {
        Some("write a text with its unit, as in \"10 us\", \"10 KB\" or \"10000/s\"")
    } else {
        None
    }
}

/// Returns the macro of a permission in P4 programs: `REFLEX_` and its name in capitals, with `_`
/// for other characters than letters and digits.
fn macro_of(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
        _ => '_',
    });
    "REFLEX_".chars().chain(letters).collect()
}

impl Loops {
    /// Returns the macros that a monitor's program is compiled with: of each permission its name
    /// and its place in the monitor's list.
    pub fn program_macros(&self, monitor: MonitorIndex) -> Vec<(String, String)> {
        let reflexes = self.monitors[monitor.0].reflexes.iter().enumerate();
        let macros = reflexes.map(|(place, reflex)| {
            let name = &self.reflexes[reflex.0].name;
            (macro_of(name), place.to_string())
        });
        macros.collect()
    }

    /// Parses and checks a loop file.
    ///
    /// # Errors
    /// All mistakes of the file.
    pub fn read(file: &str, text: &str) -> Result<Loops, FileError> {
        let mend = "docs/reference/reflex.md shows what a loop file may say";
        let Parsed { content, mistakes } = toml_file::parse(text, mend);
        let result = match content {
            Some(content) => check::check(content, mistakes),
            None => Err(mistakes.into_list()),
        };
        result.map_err(|mut mistakes| {
            for mistake in &mut mistakes {
                if mistake.mend == mend
                    && let Some(hint) = hint_of_type(&mistake.message)
                {
                    mistake.mend = hint.to_owned();
                }
            }
            FileError {
                file: file.to_owned(),
                mistakes,
            }
        })
    }
}
