//! The check of a loop file: resolves names, reads quantities and rules.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use consensus::{Ack, MAX_MEMBERS, ReadMode};
use packet::Nanos;
use telemetry::{IntDomain, IntMarker, IntNodeId};
use toml_file::{FileMistake, Mistakes, Quantity, Spanned, Text};

use super::file::{self, File};
use super::{
    ElementDevice, ElementIndex, ElementSpec, Loops, MemberInterface, MemberTransport, MonitorSpec,
    P4RuntimeDevice, ReflexIndex, ReflexSpec, SourcePlace, SourceSpec, StoreSpec, TlsFiles,
};

/// UDP port of telemetry reports by default.
const REPORT_PORT: u16 = 32766;
/// Thousandths that clocks may gain or lose, by default: ten times what time servers correct.
const CLOCK_DRIFT: u16 = 5;
/// Bytes of the name of a ring at most, as `port` has it.
const MAX_RING_NAME: usize = 64;
/// Time of a command on its way by default.
const DELAY: Nanos = Nanos::from_micros(2);
/// Longest time of a command on its way.
const MAX_DELAY: Nanos = Nanos::from_secs(1);
/// Least time without a leader until an election, by default: of nodes in memory, which are in one
/// process, and of nodes on disks, which answer only after a sync. Those in several processes are
/// on disks; a busy machine stops a process for tens of milliseconds.
const ELECTION_TIMEOUT: Nanos = Nanos::from_millis(10);
const DISK_ELECTION_TIMEOUT: Nanos = Nanos::from_millis(200);
const MIN_ELECTION_TIMEOUT: Nanos = Nanos::from_millis(1);

pub(super) fn check(file: File, mistakes: Mistakes) -> Result<Loops, Vec<FileMistake>> {
    let mut check = Check { mistakes };
    let loops = check.loops(&file);
    match check.mistakes.is_empty() {
        true => Ok(loops),
        false => Err(check.mistakes.into_list()),
    }
}

/// State of the check.
pub(super) struct Check {
    pub(super) mistakes: Mistakes,
}

/// Names of one kind of declaration.
pub(super) type Names<'f> = BTreeMap<&'f str, usize>;

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
        let store = self.store(file.store.as_ref());
        for source in &file.sources {
            let node = source.get_ref().node.as_ref();
            if let Some(node) = node.filter(|node| !store.nodes.contains(node.get_ref())) {
                let message = format!("the store has no node \"{}\"", node.get_ref());
                let mend = format!("one of: {}", store.nodes.join(", "));
                self.mistakes.at(node, message, mend);
            }
        }
        let loops = Loops {
            name: file.name.clone().unwrap_or_else(|| "loops".to_owned()),
            seed: file.seed,
            topology: file.topology.as_ref().map(|text| text.get_ref().into()),
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
            outputs: file
                .outputs
                .iter()
                .filter_map(|it| self.output(it))
                .collect(),
            store,
        };
        self.shared_objects(file, &loops.reflexes);
        self.unused(file, &loops);
        for (given, monitor) in file.monitors.iter().zip(&loops.monitors) {
            self.fit(given.get_ref(), monitor, &loops);
        }
        loops
    }

    /// Adds mistakes of permissions that change the same table or cell of an element.
    fn shared_objects(&mut self, file: &File, reflexes: &[ReflexSpec]) {
        for (at, reflex) in reflexes.iter().enumerate() {
            let is_same = |other: &&ReflexSpec| {
                let object = reflex.change.object();
                other.element == reflex.element
                    && !object.is_empty()
                    && other.change.object() == object
                    && other.change.cell() == reflex.change.cell()
            };
            if reflexes[..at].iter().any(|other| is_same(&other)) {
                let name = &file.reflexes[at].get_ref().name;
                let element = file.reflexes[at].get_ref().element.get_ref();
                let object = reflex.change.object();
                let message = format!("another reflex changes {object} of {element}");
                let mend = "let one reflex change a table, cell or queue; monitors can share it";
                self.mistakes.at(name, message, mend);
            }
        }
    }

    /// Adds mistakes of permissions and elements that nothing uses.
    fn unused(&mut self, file: &File, loops: &Loops) {
        for (at, reflex) in file.reflexes.iter().enumerate() {
            let used = |it: &MonitorSpec| it.reflexes.contains(&ReflexIndex(at));
            if !loops.monitors.iter().any(used) {
                let name = &reflex.get_ref().name;
                let message = format!("no monitor uses the reflex \"{}\"", name.get_ref());
                let mend = "name it as the `reflex` of a monitor, or remove it";
                self.mistakes.at(name, message, mend);
            }
        }
        for (at, element) in file.elements.iter().enumerate() {
            let used = |it: &ReflexSpec| it.element == ElementIndex(at);
            if !loops.reflexes.iter().any(used) {
                let name = &element.get_ref().name;
                let message = format!("no reflex changes the element \"{}\"", name.get_ref());
                let mend = "name it as the `element` of a reflex, or remove it";
                self.mistakes.at(name, message, mend);
            }
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
    pub(super) fn resolve(&mut self, name: &Text, names: &Names<'_>, kind: &str) -> usize {
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
    pub(super) fn word<T: Copy + Default>(
        &mut self,
        given: Option<&Text>,
        words: &[(&str, T)],
    ) -> T {
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

    pub(super) fn time(&mut self, given: Option<&Text>, default: Nanos) -> Nanos {
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
            delay: self.delay(element.delay.as_ref()),
        }
    }

    /// Reads the time of a command on its way.
    fn delay(&mut self, given: Option<&Text>) -> Nanos {
        let Some(given) = given else {
            return DELAY;
        };
        let delay = Quantity::Time
            .parse(given.get_ref())
            .filter(|delay| *delay <= MAX_DELAY.0);
        delay.map(Nanos).unwrap_or_else(|| {
            let message = format!("\"{}\" is no delay of commands", given.get_ref());
            let mend = "write the time that a command is on its way to the element, with its unit \
                        (ns, us, ms, s), up to 1 s, as in \"5 us\"";
            self.mistakes.at(given, message, mend);
            DELAY
        })
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
                element.tls_ca.as_ref().map(|it| self.mistakes.line(it)),
                element.tls_cert.as_ref().map(|it| self.mistakes.line(it)),
                element.tls_key.as_ref().map(|it| self.mistakes.line(it)),
                element.tls_name.as_ref().map(|it| self.mistakes.line(it)),
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
            tls: self.tls(element),
        })
    }

    /// Reads the files for TLS. `tls_ca` turns it on.
    fn tls(&mut self, element: &file::Element) -> Option<TlsFiles> {
        let path = |text: &Text| PathBuf::from(text.get_ref());
        let identity = element.tls_cert.as_ref().zip(element.tls_key.as_ref());
        let lonely = match identity {
            Some(_) => None,
            None => element.tls_cert.as_ref().or(element.tls_key.as_ref()),
        };
        if let Some(lonely) = lonely {
            let message = "tls_cert and tls_key belong together".to_owned();
            self.mistakes
                .at(lonely, message, "write both, or none of them");
        }
        let others = [&element.tls_cert, &element.tls_key, &element.tls_name];
        if let (None, Some(other)) = (&element.tls_ca, others.into_iter().flatten().next()) {
            let message = "there is no tls_ca, so the server is not asked for TLS".to_owned();
            let mend = "write tls_ca = \"FILE\", the certificate that the server's is signed by";
            self.mistakes.at(other, message, mend);
        }
        element.tls_ca.as_ref().map(|ca| TlsFiles {
            ca: path(ca),
            identity: identity.map(|(certificate, key)| (path(certificate), path(key))),
            name: element.tls_name.as_ref().map(|name| name.get_ref().clone()),
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
            "ring" => {
                self.ring_name(listen, place);
                Some(SourcePlace::Ring(place.to_owned()))
            }
            "pcap" => Some(SourcePlace::Pcap(place.into())),
            _ => None,
        };
        if read.is_none() {
            let message = format!("\"{text}\" is no place that reports come from");
            let mend = "write \"host:NAME\" for a host of the topology, \"udp:ADDRESS:PORT\" for \
                        a socket, \"packet:INTERFACE\" or \"xdp:INTERFACE\" for the frames of an \
                        interface, \"ring:NAME\" for those of a ring, or \"pcap:FILE\" for a \
                        capture";
            self.mistakes.at(listen, message, mend);
        }
        read.unwrap_or(SourcePlace::Host(String::new()))
    }

    /// Checks the name of a ring.
    fn ring_name(&mut self, place: &Text, name: &str) {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        if name.len() > MAX_RING_NAME || !name.chars().all(is_plain) {
            let message = format!("\"{name}\" is no name of a ring");
            let mend = format!("write 1 to {MAX_RING_NAME} letters, digits, '.', '-' and '_'");
            self.mistakes.at(place, message, mend);
        }
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
            (None, Some(port)) => IntMarker::UdpPort(self.udp_port(&Some(port.clone()), 0)),
            (None, None) => IntMarker::None,
        };
        SourceSpec {
            line: self.mistakes.line(&source.listen),
            udp_port: match &listen {
                SourcePlace::Udp(address) => address.port(),
                _ => self.udp_port(&source.udp_port, REPORT_PORT),
            },
            listen,
            node: source.node.as_ref().map(|node| node.get_ref().clone()),
            from,
            domain: IntDomain::new(marker),
        }
    }

    /// Reads a UDP port.
    fn udp_port(&mut self, given: &Option<Spanned<i64>>, default: u16) -> u16 {
        let Some(given) = given else {
            return default;
        };
        let port = u16::try_from(*given.get_ref())
            .ok()
            .filter(|port| *port > 0);
        port.unwrap_or_else(|| {
            let message = format!("{} is no UDP port", given.get_ref());
            let mend = format!("write a port from 1 to 65535; reports mostly go to {REPORT_PORT}");
            self.mistakes.at(given, message, mend);
            default
        })
    }

    /// Reads a number from 1 to `most`. A larger one is a mistake and counts as `most`, so that the
    /// caller can compute with it.
    pub(super) fn bounded(
        &mut self,
        given: &Option<Spanned<i64>>,
        default: usize,
        most: usize,
    ) -> usize {
        let number = self.mistakes.number(given, 1, default);
        if let (Some(given), true) = (given, number > most) {
            let message = format!("{number} is too large");
            self.mistakes
                .at(given, message, format!("write a number up to {most}"));
        }
        number.min(most)
    }

    fn store(&mut self, store: Option<&Spanned<file::Store>>) -> StoreSpec {
        let Some(store) = store else {
            return StoreSpec {
                nodes: ["a", "b", "c"].map(str::to_owned).to_vec(),
                voters: 3,
                ack: Ack::Majority,
                transport: MemberTransport::OneProcess,
                reads: ReadMode::Index,
                key_file: None,
                dir: None,
                election_timeout: ELECTION_TIMEOUT,
            };
        };
        let store = store.get_ref();
        let voters = store.nodes.get_ref().len();
        let spares = store.spares.iter().flat_map(|it| it.get_ref());
        let list: Vec<&Spanned<file::StoreNode>> =
            store.nodes.get_ref().iter().chain(spares).collect();
        let nodes: Vec<String> = list.iter().map(|it| it.get_ref().name.clone()).collect();
        for (at, node) in list.iter().copied().enumerate() {
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
        if voters == 0 || voters > MAX_MEMBERS {
            let message = format!("a store of {voters} nodes cannot work");
            let mend = format!("give it 1 to {MAX_MEMBERS} nodes; 3 survive the loss of one");
            self.mistakes.at(&store.nodes, message, mend);
        }
        let transport = self.transport(store, &list);
        if let (Some(spares), false) = (&store.spares, transport.is_between_processes()) {
            let message =
                "spare nodes replace others that are in processes of their own".to_owned();
            let mend = "take spares away, or give the nodes addresses or a ring";
            self.mistakes.at(spares, message, mend);
        }
        let words = [("majority", Ack::Majority), ("all", Ack::All)];
        let keeps = [("memory", false), ("disk", true)];
        let on_disk = self.word(store.keep.as_ref(), &keeps);
        if transport.is_between_processes() && !on_disk {
            // A node that forgets its vote and comes back under its name can vote twice.
            let message = "nodes in processes of their own must keep their votes".to_owned();
            let mend = "write keep = \"disk\" and dir = \"DIRECTORY\" in [store]";
            self.mistakes.at(&store.nodes, message, mend);
        }
        if let (Some(file), false) = (&store.key_file, transport.is_between_processes()) {
            let message = "the key is for messages between processes".to_owned();
            let mend = "take key_file away, or give the nodes addresses or a ring";
            self.mistakes.at(file, message, mend);
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
            voters,
            ack: self.word(store.ack.as_ref(), &words),
            transport,
            reads: self.reads(store),
            key_file: store.key_file.as_ref().map(|file| file.get_ref().into()),
            dir,
            election_timeout: election_timeout.max(MIN_ELECTION_TIMEOUT),
        }
    }

    /// Returns the way of reads.
    fn reads(&mut self, store: &file::Store) -> ReadMode {
        let is_lease = self.word(store.reads.as_ref(), &[("index", false), ("lease", true)]);
        let drift = self.bounded(&store.clock_drift, CLOCK_DRIFT.into(), 500) as u16;
        match &store.clock_drift {
            Some(given) if !is_lease => {
                let message = "the drift of clocks is of leases".to_owned();
                let mend = "write reads = \"lease\", or take clock_drift away";
                self.mistakes.at(given, message, mend);
                ReadMode::Index
            }
            _ if is_lease => ReadMode::Lease(drift),
            _ => ReadMode::Index,
        }
    }

    /// Returns the way of messages between nodes: by their addresses, by rings, or in one process.
    fn transport(
        &mut self,
        store: &file::Store,
        nodes: &[&Spanned<file::StoreNode>],
    ) -> MemberTransport {
        let has_addresses = nodes.iter().any(|node| node.get_ref().address.is_some());
        let has_interfaces = nodes.iter().any(|node| node.get_ref().interface.is_some());
        let Some(ring) = &store.ring else {
            return match (has_interfaces, has_addresses) {
                (true, _) => {
                    let interfaces = self.interfaces(nodes);
                    MemberTransport::Frames(self.addresses(nodes), interfaces)
                }
                (false, true) => MemberTransport::Udp(self.addresses(nodes)),
                (false, false) => MemberTransport::OneProcess,
            };
        };
        if has_addresses || has_interfaces {
            let message = "messages between nodes go by rings or to addresses".to_owned();
            let mend = "take ring away, or the addresses";
            self.mistakes.at(ring, message, mend);
        }
        // The names of two nodes follow, each after a point.
        let longest = nodes.iter().map(|node| node.get_ref().name.len()).max();
        let name = ring.get_ref();
        let whole = format!("{name}{}", "x".repeat(2 * (longest.unwrap_or(0) + 1)));
        match name.is_empty() || whole.len() > MAX_RING_NAME {
            true => {
                let message = format!(
                    "the names of rings, as \"{name}.a.b\" between nodes a and b, have 1 to \
                     {MAX_RING_NAME} letters"
                );
                self.mistakes.at(ring, message, "write a short name");
            }
            false => self.ring_name(ring, name),
        }
        MemberTransport::Rings(name.clone())
    }

    /// Returns the interface of each node's frames.
    fn interfaces(&mut self, nodes: &[&Spanned<file::StoreNode>]) -> Vec<MemberInterface> {
        let mut interfaces = Vec::new();
        for node in nodes.iter().copied() {
            let text = node.get_ref().interface.as_deref().unwrap_or_default();
            let interface = match text.split_once(':') {
                Some(("xdp", name)) if !name.is_empty() => Some((name, true)),
                Some(("packet", name)) if !name.is_empty() => Some((name, false)),
                _ => None,
            };
            match interface {
                Some((name, is_xdp)) => interfaces.push(MemberInterface {
                    name: name.to_owned(),
                    is_xdp,
                }),
                None => {
                    let name = &node.get_ref().name;
                    let message = format!("node \"{name}\" has no interface that is understood");
                    let mend = "give each node one, as in { name = \"a\", address = \
                                \"10.0.0.1:7000\", interface = \"xdp:eth2\" } or \
                                \"packet:eth2\", or none";
                    self.mistakes.at(node, message, mend);
                }
            }
        }
        interfaces
    }

    /// Returns the address of each node.
    fn addresses(&mut self, nodes: &[&Spanned<file::StoreNode>]) -> Vec<SocketAddrV4> {
        let mut addresses = Vec::new();
        for node in nodes.iter().copied() {
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
