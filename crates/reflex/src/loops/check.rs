//! The check of a loop file: resolves names, reads quantities and rules.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use consensus::{Ack, MAX_MEMBERS};
use packet::Nanos;
use telemetry::{IntDomain, IntMarker, IntNodeId};
use toml_file::{FileMistake, Mistakes, Quantity, Spanned, Text};

use super::file::{self, File};
use super::{
    Compare, ElementDevice, ElementIndex, ElementSpec, KeyPart, LatencyMeasure, Loops, MonitorKind,
    MonitorSpec, P4RuntimeDevice, PathLatencySpec, ReflexIndex, ReflexSpec, SourcePlace,
    SourceSpec, StoreSpec,
};
use crate::classify::ReportRule;
use crate::monitor::path_latency::{MAX_FLOWS, MAX_WINDOW};
use crate::write::MAX_KEYS;

/// UDP port of telemetry reports by default.
const REPORT_PORT: u16 = 32766;
/// Time of a command on its way by default.
const DELAY: Nanos = Nanos::from_micros(2);
/// Samples of an average by default: nanoPU, section 3.1.2.
const WINDOW: usize = 10;
/// Flows of a monitor by default.
const FLOWS: usize = 65_536;
/// Time after which a silent flow can be forgotten, by default.
const FORGET: Nanos = Nanos::from_secs(10);
/// Changes a second by default.
const RATE: u64 = 1000;
/// Entries of a reflex by default.
const ENTRIES: usize = 1024;
/// Least time between two changes of one key by default.
const HOLD: Nanos = Nanos::from_millis(1);
/// Entries of a reflex at most.
const MAX_ENTRIES: usize = 16_384;
/// Least time without a leader until an election, by default: of nodes in memory, which are in one
/// process, and of nodes on disks, which answer only after a sync. Those in several processes are
/// on disks; a busy machine stops a process for tens of milliseconds.
const ELECTION_TIMEOUT: Nanos = Nanos::from_millis(10);
const DISK_ELECTION_TIMEOUT: Nanos = Nanos::from_millis(200);
const MIN_ELECTION_TIMEOUT: Nanos = Nanos::from_millis(1);
/// Samples of a monitor at most: 256 MiB.
const MAX_SAMPLES: usize = 1 << 26;

const KEY_PARTS: [(&str, KeyPart); 5] = [
    ("ip.src", KeyPart::Source),
    ("ip.dst", KeyPart::Destination),
    ("ip.protocol", KeyPart::Protocol),
    ("l4.src", KeyPart::SourcePort),
    ("l4.dst", KeyPart::DestinationPort),
];

pub(super) fn check(file: File, mistakes: Mistakes) -> Result<Loops, Vec<FileMistake>> {
    let mut check = Check { mistakes };
    let loops = check.loops(&file);
    match check.mistakes.is_empty() {
        true => Ok(loops),
        false => Err(check.mistakes.into_list()),
    }
}

/// State of the check.
struct Check {
    mistakes: Mistakes,
}

/// Names of one kind of declaration.
type Names<'f> = BTreeMap<&'f str, usize>;

impl Check {
    fn loops(&mut self, file: &File) -> Loops {
        let names = file.elements.iter().map(|it| &it.get_ref().name);
        let elements = self.names(names, "element");
        let names = file.reflexes.iter().map(|it| &it.get_ref().name);
        let reflexes = self.names(names, "reflex");
        let names = file.monitors.iter().map(|it| &it.get_ref().name);
        self.names(names, "monitor");
        let sections = [
            (file.sources.is_empty(), "[[source]]", "reports"),
            (file.monitors.is_empty(), "[[monitor]]", "decisions"),
        ];
        for (is_empty, section, without) in sections {
            if is_empty {
                self.mistakes.add(FileMistake {
                    line: 1,
                    message: format!("without a {section} there are no {without}"),
                    mend: format!("add a {section} section"),
                });
            }
        }
        let sources = file.sources.iter().map(|it| self.source(it.get_ref()));
        let sources: Vec<SourceSpec> = sources.collect();
        for (at, source) in sources.iter().enumerate() {
            let earlier = &mut sources[..at].iter();
            if earlier.any(|it| it.listen == source.listen && it.node == source.node) {
                let listen = &file.sources[at].get_ref().listen;
                let message = format!("{} has two sources", source.listen);
                self.mistakes.at(listen, message, "give it one");
            }
        }
        for (at, reflex) in file.reflexes.iter().enumerate() {
            let of = |it: &file::Reflex| (it.element.get_ref().clone(), it.table.get_ref().clone());
            let own = of(reflex.get_ref());
            if file.reflexes[..at]
                .iter()
                .any(|other| of(other.get_ref()) == own)
            {
                let message = format!("another reflex changes {} of {}", own.1, own.0);
                let mend = "let one reflex change a table; monitors can share it";
                self.mistakes.at(&reflex.get_ref().table, message, mend);
            }
        }
        let store = self.store(file.store.as_ref());
        for source in &file.sources {
            let node = source.get_ref().node.as_ref();
            if let Some(node) = node.filter(|node| !store.nodes.contains(node.get_ref())) {
                let message = format!("the store has no node \"{}\"", node.get_ref());
                let mend = format!("one of: {}", store.nodes.join(", "));
                self.mistakes.at(node, message, mend);
            }
        }
        Loops {
            name: file.name.clone().unwrap_or_else(|| "loops".to_owned()),
            seed: file.seed,
            elements: file
                .elements
                .iter()
                .map(|it| self.element(it.get_ref()))
                .collect(),
            sources,
            monitors: file
                .monitors
                .iter()
                .map(|it| self.monitor(it.get_ref(), &reflexes))
                .collect(),
            reflexes: file
                .reflexes
                .iter()
                .map(|it| self.reflex(it.get_ref(), &elements))
                .collect(),
            store,
        }
    }

    fn names<'f>(&mut self, all: impl Iterator<Item = &'f Text>, kind: &str) -> Names<'f> {
        let mut names = Names::new();
        for (at, name) in all.enumerate() {
            if names.insert(name.get_ref().as_str(), at).is_some() {
                let message = format!("there is another {kind} \"{}\"", name.get_ref());
                self.mistakes
                    .at(name, message, "give each a name of its own");
            }
        }
        names
    }

    /// Resolves a name. The result after a mistake is of no meaning.
    fn resolve(&mut self, name: &Text, names: &Names<'_>, kind: &str) -> usize {
        if let Some(at) = names.get(name.get_ref().as_str()) {
            return *at;
        }
        let known: Vec<&str> = names.keys().copied().collect();
        let mend = match known.is_empty() {
            true => format!("add a [[{kind}]] section with this name"),
            false => format!("one of: {}", known.join(", ")),
        };
        let message = format!("there is no {kind} \"{}\"", name.get_ref());
        self.mistakes.at(name, message, mend);
        0
    }

    /// Finds a word among those that are allowed.
    fn word<T: Copy + Default>(&mut self, given: Option<&Text>, words: &[(&str, T)]) -> T {
        let Some(given) = given else {
            return T::default();
        };
        let found = words.iter().find(|(word, _)| word == given.get_ref());
        match found {
            Some((_, value)) => *value,
            None => {
                let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let message = format!("\"{}\" is not understood", given.get_ref());
                let mend = format!("write one of: {}", all.join(", "));
                self.mistakes.at(given, message, mend);
                T::default()
            }
        }
    }

    fn time(&mut self, given: Option<&Text>, default: Nanos) -> Nanos {
        let read = given.and_then(|text| self.mistakes.quantity(text, Quantity::Time));
        read.map_or(default, Nanos)
    }

    fn element(&mut self, element: &file::Element) -> ElementSpec {
        let device = element.device.as_ref().unwrap_or(&element.name);
        ElementSpec {
            name: element.name.get_ref().clone(),
            device: self.device(element, device),
            line: self.mistakes.line(device),
            node: element
                .node
                .is_some()
                .then(|| IntNodeId(self.mistakes.number(&element.node, 0, 0))),
            delay: self.time(element.delay.as_ref(), DELAY),
        }
    }

    fn device(&mut self, element: &file::Element, device: &Text) -> ElementDevice {
        let Some(address) = device.get_ref().strip_prefix("p4runtime:") else {
            let others = [
                element.device_id.as_ref().map(|it| self.mistakes.line(it)),
                element
                    .election_id
                    .as_ref()
                    .map(|it| self.mistakes.line(it)),
                element.role.as_ref().map(|it| self.mistakes.line(it)),
            ];
            for line in others.into_iter().flatten() {
                self.mistakes.add(FileMistake {
                    line,
                    message: "this is of P4Runtime servers, and the device is none".to_owned(),
                    mend: "write device = \"p4runtime:HOST:PORT\", or take this away".to_owned(),
                });
            }
            return ElementDevice::Switch(device.get_ref().clone());
        };
        let is_address = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !is_address {
            let message = format!("\"{address}\" is no address of a server");
            let mend = "write HOST:PORT, as in \"p4runtime:127.0.0.1:9559\"";
            self.mistakes.at(device, message, mend);
        }
        let role = element.role.as_ref();
        ElementDevice::P4Runtime(P4RuntimeDevice {
            address: address.to_owned(),
            device_id: self.mistakes.number(&element.device_id, 0, 1),
            election_id: self.mistakes.number(&element.election_id, 0, 1),
            role: role.map_or(String::new(), |role| role.get_ref().clone()),
        })
    }

    fn listen(&mut self, listen: &Text) -> SourcePlace {
        let text = listen.get_ref();
        let (kind, place) = text.split_once(':').unwrap_or((text, ""));
        let read = match kind {
            _ if place.is_empty() => None,
            "host" => Some(SourcePlace::Host(place.to_owned())),
            "udp" => place.parse().ok().map(SourcePlace::Udp),
            "packet" => Some(SourcePlace::Packet(place.to_owned())),
            "xdp" => Some(SourcePlace::Xdp(place.to_owned())),
            "pcap" => Some(SourcePlace::Pcap(place.into())),
            _ => None,
        };
        if read.is_none() {
            let message = format!("\"{text}\" is no place that reports come from");
            let mend = "write \"host:NAME\" for a host of the topology, \"udp:ADDRESS:PORT\" for \
                        a socket, \"packet:INTERFACE\" or \"xdp:INTERFACE\" for the frames of an \
                        interface, or \"pcap:FILE\" for a capture";
            self.mistakes.at(listen, message, mend);
        }
        read.unwrap_or(SourcePlace::Host(String::new()))
    }

    fn source(&mut self, source: &file::Source) -> SourceSpec {
        let listen = self.listen(&source.listen);
        if let (SourcePlace::Udp(_), Some(port)) = (&listen, &source.udp_port) {
            let message = "the port of a socket is in its address".to_owned();
            self.mistakes.at(port, message, "take udp_port away");
        }
        if source.from.get_ref().is_empty() {
            let mend = "list who may send reports, as in [{ node = 1, address = \"10.0.0.1\" }]";
            let message = "no node may send reports".to_owned();
            self.mistakes.at(&source.from, message, mend);
        }
        let from = source.from.get_ref().iter();
        let from = from.filter_map(|exporter| {
            let exporter = exporter.get_ref();
            let node = self.mistakes.number(&Some(exporter.node.clone()), 0, 0u32);
            let address = exporter.address.get_ref().parse::<Ipv4Addr>();
            if address.is_err() {
                let message = format!("\"{}\" is no IPv4 address", exporter.address.get_ref());
                let mend = "write an address as in \"10.0.0.1\"";
                self.mistakes.at(&exporter.address, message, mend);
            }
            Some((IntNodeId(node), address.ok()?))
        });
        let from = from.collect();
        let marker = match (&source.int_dscp, &source.int_port) {
            (Some(_), Some(port)) => {
                let message = "packets with INT have either a DSCP or a port".to_owned();
                self.mistakes.at(port, message, "take one of the two away");
                IntMarker::None
            }
            (Some(dscp), None) => {
                let value = self.mistakes.number(&Some(dscp.clone()), 0, 0u8);
                if value > 63 {
                    let message = format!("{value} is no DSCP");
                    self.mistakes.at(dscp, message, "write a number up to 63");
                }
                IntMarker::Dscp { value, mask: 63 }
            }
            (None, Some(port)) => {
                IntMarker::UdpPort(self.mistakes.number(&Some(port.clone()), 1, 0))
            }
            (None, None) => IntMarker::None,
        };
        SourceSpec {
            line: self.mistakes.line(&source.listen),
            udp_port: match &listen {
                SourcePlace::Udp(address) => address.port(),
                _ => self.mistakes.number(&source.udp_port, 1, REPORT_PORT),
            },
            listen,
            node: source.node.as_ref().map(|node| node.get_ref().clone()),
            from,
            domain: IntDomain::new(marker),
        }
    }

    fn monitor(&mut self, monitor: &file::Monitor, reflexes: &Names<'_>) -> MonitorSpec {
        self.word(Some(&monitor.kind), &[("path_latency", ())]);
        let rules = monitor.matches.get_ref().iter();
        let rules = rules.filter_map(|text| match ReportRule::parse(text.get_ref()) {
            Ok(rule) => Some(rule),
            Err(error) => {
                self.mistakes.at(text, error.to_string(), error.mend());
                None
            }
        });
        let rules: Vec<ReportRule> = rules.collect();
        if monitor.matches.get_ref().is_empty() {
            let mend = "write rules, as in [\"ip.dst 10.0.2.0/24\"], or [\"any\"]";
            let message = "no report concerns the monitor".to_owned();
            self.mistakes.at(&monitor.matches, message, mend);
        }
        let reflex = monitor.reflex.as_ref();
        let reflex = reflex.map(|name| ReflexIndex(self.resolve(name, reflexes, "reflex")));
        let window = self.bounded(&monitor.window, WINDOW, MAX_WINDOW);
        let flows = self.bounded(&monitor.flows, FLOWS, MAX_FLOWS);
        // A table of flows has up to three places for each.
        if 3 * flows * window > MAX_SAMPLES {
            let message = format!("{flows} flows with {window} samples each need too much memory");
            let mend = format!("let flows times window be at most {}", MAX_SAMPLES / 3);
            self.mistakes.at(&monitor.kind, message, mend);
        }
        let above = monitor.above.as_ref();
        if above.is_none() {
            let mend = "write by how much it must exceed the average, as in above = \"1 us\"";
            let message = "the monitor has no threshold".to_owned();
            self.mistakes.at(&monitor.kind, message, mend);
        }
        let spec = PathLatencySpec {
            window,
            above: self.time(above, Nanos::ZERO),
            compare: self.word(
                monitor.compare.as_ref(),
                &[("above", Compare::Above), ("paper", Compare::Paper)],
            ),
            measure: self.word(
                monitor.latency.as_ref(),
                &[
                    ("hops", LatencyMeasure::Hops),
                    ("equal clocks", LatencyMeasure::EqualClocks),
                ],
            ),
            flows,
            forget: self.time(monitor.forget.as_ref(), FORGET),
        };
        MonitorSpec {
            name: monitor.name.get_ref().clone(),
            rules,
            kind: MonitorKind::PathLatency(spec),
            reflex,
        }
    }

    /// Reads a number from 1 to `most`.
    fn bounded(&mut self, given: &Option<Spanned<i64>>, default: usize, most: usize) -> usize {
        let number = self.mistakes.number(given, 1, default);
        if let (Some(given), true) = (given, number > most) {
            let message = format!("{number} is too large");
            self.mistakes
                .at(given, message, format!("write a number up to {most}"));
        }
        number
    }

    fn reflex(&mut self, reflex: &file::Reflex, elements: &Names<'_>) -> ReflexSpec {
        let key = reflex.key.get_ref().iter();
        let key = key.filter_map(|part| {
            let found = KEY_PARTS.iter().find(|(name, _)| name == part.get_ref());
            if found.is_none() {
                let all: Vec<&str> = KEY_PARTS.iter().map(|(name, _)| *name).collect();
                let message = format!("\"{}\" is no field of a flow", part.get_ref());
                let mend = format!("write one of: {}", all.join(", "));
                self.mistakes.at(part, message, mend);
            }
            found.map(|(_, part)| *part)
        });
        let key: Vec<KeyPart> = key.collect();
        let ports = reflex.ports.get_ref().iter();
        let ports = ports.map(|port| self.mistakes.number(&Some(port.clone()), 0, 0u32));
        let ports: Vec<u32> = ports.collect();
        if key.len() > MAX_KEYS {
            let message = format!("there are {} keys", key.len());
            let mend = format!("name each field of a flow once, at most {MAX_KEYS}");
            self.mistakes.at(&reflex.key, message, mend);
        }
        let distinct: BTreeSet<&u32> = ports.iter().collect();
        if distinct.len() < 2 || distinct.len() < ports.len() {
            let message = "a detour needs two ports, each once".to_owned();
            let mend = "list the ports that a flow may be sent to, as in ports = [3, 4]";
            self.mistakes.at(&reflex.ports, message, mend);
        }
        ReflexSpec {
            name: reflex.name.get_ref().clone(),
            element: ElementIndex(self.resolve(&reflex.element, elements, "element")),
            table: reflex.table.get_ref().clone(),
            key,
            action: reflex.action.get_ref().clone(),
            ports,
            line: self.mistakes.line(&reflex.ports),
            rate: self.rate(reflex.rate.as_ref()),
            entries: self.bounded(&reflex.entries, ENTRIES, MAX_ENTRIES),
            hold: self.time(reflex.hold.as_ref(), HOLD),
        }
    }

    /// Reads a number of changes a second, as in "1000/s".
    fn rate(&mut self, given: Option<&Text>) -> u64 {
        let Some(given) = given else {
            return RATE;
        };
        let number = given.get_ref().strip_suffix("/s");
        let number = number.and_then(|number| number.trim().parse().ok());
        match number {
            Some(rate @ 1..) => rate,
            _ => {
                let message = format!("\"{}\" is not understood", given.get_ref());
                let mend = "write a number of changes a second, as in \"1000/s\"";
                self.mistakes.at(given, message, mend);
                RATE
            }
        }
    }

    fn store(&mut self, store: Option<&Spanned<file::Store>>) -> StoreSpec {
        let Some(store) = store else {
            return StoreSpec {
                nodes: ["a", "b", "c"].map(str::to_owned).to_vec(),
                ack: Ack::Majority,
                addresses: Vec::new(),
                dir: None,
                election_timeout: ELECTION_TIMEOUT,
            };
        };
        let store = store.get_ref();
        let list = store.nodes.get_ref();
        let nodes: Vec<String> = list.iter().map(|it| it.get_ref().name.clone()).collect();
        for (at, node) in list.iter().enumerate() {
            let name = &nodes[at];
            if nodes[..at].contains(name) {
                let message = format!("there is another node \"{name}\"");
                self.mistakes
                    .at(node, message, "give each a name of its own");
            }
            // It is the name of a directory, too.
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            if name.is_empty() || !name.chars().all(is_plain) {
                let message = format!("\"{name}\" is no name of a node");
                let mend = "write letters, digits, - and _";
                self.mistakes.at(node, message, mend);
            }
        }
        if nodes.is_empty() || nodes.len() > MAX_MEMBERS {
            let message = format!("a store of {} nodes cannot work", nodes.len());
            let mend = format!("give it 1 to {MAX_MEMBERS} nodes; 3 survive the loss of one");
            self.mistakes.at(&store.nodes, message, mend);
        }
        let addresses = self.addresses(list);
        let words = [("majority", Ack::Majority), ("all", Ack::All)];
        let keeps = [("memory", false), ("disk", true)];
        let on_disk = self.word(store.keep.as_ref(), &keeps);
        if !addresses.is_empty() && !on_disk {
            // A node that forgets its vote and comes back under its name can vote twice.
            let message = "nodes in processes of their own must keep their votes".to_owned();
            let mend = "write keep = \"disk\" and dir = \"DIRECTORY\" in [store]";
            self.mistakes.at(&store.nodes, message, mend);
        }
        let dir = store.dir.as_ref().map(|dir| dir.get_ref().into());
        match (&store.keep, &store.dir) {
            (Some(keep), None) if on_disk => {
                let message = "a store on disk needs a directory".to_owned();
                let mend = "write dir = \"DIRECTORY\"; each node has a directory of its own there";
                self.mistakes.at(keep, message, mend);
            }
            (_, Some(dir)) if !on_disk => {
                let message = "the directory is of a store on disk".to_owned();
                let mend = "write keep = \"disk\", or take dir away";
                self.mistakes.at(dir, message, mend);
            }
            _ => {}
        }
        let timeout = match on_disk {
            true => DISK_ELECTION_TIMEOUT,
            false => ELECTION_TIMEOUT,
        };
        let election_timeout = self.time(store.election_timeout.as_ref(), timeout);
        if let Some(given) = &store.election_timeout
            && election_timeout < MIN_ELECTION_TIMEOUT
        {
            let message = format!("\"{}\" is too short for an election", given.get_ref());
            let mend = "write a time from \"1 ms\" on";
            self.mistakes.at(given, message, mend);
        }
        StoreSpec {
            nodes,
            ack: self.word(store.ack.as_ref(), &words),
            addresses,
            dir,
            election_timeout: election_timeout.max(MIN_ELECTION_TIMEOUT),
        }
    }

    /// Returns the address of each node; empty if none has one.
    fn addresses(&mut self, nodes: &[Spanned<file::StoreNode>]) -> Vec<SocketAddrV4> {
        if nodes.iter().all(|node| node.get_ref().address.is_none()) {
            return Vec::new();
        }
        let mut addresses = Vec::new();
        for node in nodes {
            let text = node.get_ref().address.as_deref();
            let address = text.and_then(|text| text.parse::<SocketAddrV4>().ok());
            match address {
                Some(address) if addresses.contains(&address) => {
                    let message = format!("another node has the address {address}");
                    self.mistakes
                        .at(node, message, "give each an address of its own");
                }
                Some(address) => addresses.push(address),
                None => {
                    let name = &node.get_ref().name;
                    let message = format!("node \"{name}\" has no address that is understood");
                    let mend = "give each node one, as in { name = \"a\", address = \
                                \"10.0.0.1:7000\" }, or none";
                    self.mistakes.at(node, message, mend);
                }
            }
        }
        addresses
    }
}
