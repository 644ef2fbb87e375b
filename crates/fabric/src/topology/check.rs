//! Validation of a topology file: resolves names, parses quantities, checks ports and addresses.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use packet::{Nanos, PortId};
use port::{FaultRates, PerMillion};
use support::mac::octets;
use toml_file::{FileMistake, Mistakes, Quantity, Spanned, Text};

use crate::host::PORTS;

use super::file::{self, File};
use super::{
    BitRate, CommandSpec, End, FlowKind, FlowSpec, HostId, HostSpec, Link, LinkSpec, MAX_FLOWS,
    MAX_LINKS, MAX_NODES, NanopuIndex, NanopuSpec, NodeId, PingSpec, RequestsSpec, ServerIndex,
    ServerSpec, ServiceSpec, SwitchId, SwitchSpec, Topology, TrafficSpec, WorkloadSpec,
};

/// Default workload: HyperVDP, section V-D.
const PAPER: WorkloadSpec = WorkloadSpec {
    elephants: 40,
    elephant_bytes: 100_000_000,
    mice: 1000,
    mouse_bytes: 10_000,
};

/// State of the validation. Errors are collected, so that all are reported.
pub(super) struct Check<'a> {
    /// Name of the file.
    pub(super) name: &'a str,
    pub(super) directory: &'a Path,
    mistakes: Mistakes,
    /// All node names, each with its line.
    pub(super) names: BTreeMap<String, (NodeId, usize)>,
}

/// Validates a file. `mistakes` are the errors found by the parser.
pub(super) fn check(
    file: File,
    (name, directory): (&str, &Path),
    mistakes: Mistakes,
) -> Result<Topology, Vec<FileMistake>> {
    let mut check = Check {
        name,
        directory,
        mistakes,
        names: BTreeMap::new(),
    };
    if !check.check_size(&file) {
        return Err(check.mistakes.into_list());
    }
    let topology = check.topology(file);
    match check.mistakes.is_empty() {
        true => Ok(topology),
        false => Err(check.mistakes.into_list()),
    }
}

impl Check<'_> {
    fn topology(&mut self, file: File) -> Topology {
        self.take_names(&file);
        let link_defaults = self.link_spec(&file.defaults.link, None);
        let service_defaults = ServiceSpec {
            time: self.time(&file.defaults.switch.service, Nanos::ZERO),
            backlog: self.number(
                &file.defaults.switch.backlog,
                1,
                ServiceSpec::DEFAULT_BACKLOG,
            ),
        };
        let program = file.defaults.switch.program.as_ref();
        let split_switch = self.split_switch(&file);
        let switches = file.switches.iter().enumerate();
        let switches = switches.map(|(number, switch)| {
            let is_split = split_switch == Some(SwitchId(number));
            self.switch(switch, program, service_defaults, is_split)
        });
        let mut switches: Vec<SwitchSpec> = switches.collect();
        let servers = file.servers.iter();
        let servers: Vec<ServerSpec> = servers.map(|s| self.server(s.get_ref())).collect();
        let hosts = file.hosts.iter().map(|host| self.host(host.get_ref()));
        let hosts: Vec<HostSpec> = hosts.collect();
        let nanopus = file.nanopus.iter();
        let nanopus: Vec<NanopuSpec> = nanopus.map(|it| self.nanopu(it.get_ref())).collect();
        let links = file.links.iter();
        let links = links.filter_map(|link| self.link(link.get_ref(), link_defaults));
        let links: Vec<Link> = links.collect();
        let faults = self.faults(&file, &links, split_switch);
        self.check_places(&file, &links);
        self.place_split(&file, split_switch, &mut switches, &servers, &links);
        self.check_addresses(&file, &hosts, &nanopus);
        self.check_senders(&file.requests);
        let traffic = file.traffic.iter();
        let traffic = traffic.filter_map(|traffic| self.traffic(traffic, &hosts));
        let traffic: Vec<TrafficSpec> = traffic.collect();
        let requests = file.requests.iter();
        let requests = requests.filter_map(|it| self.requests(it, &hosts, &nanopus));
        let requests: Vec<RequestsSpec> = requests.collect();
        self.check_messages(&file.requests, &requests);
        let workload = file.workload.as_ref();
        let workload = workload.map(|workload| self.workload(workload, hosts.len()));
        Topology {
            name: file.name.unwrap_or_else(|| "fabric".to_owned()),
            seed: file.seed,
            switches,
            hosts,
            nanopus,
            servers,
            links,
            faults,
            traffic,
            requests,
            flows: file.flows.iter().filter_map(|f| self.flow(f)).collect(),
            pings: file.pings.iter().filter_map(|p| self.ping(p)).collect(),
            workload,
            commands: file
                .commands
                .iter()
                .filter_map(|c| self.command(c))
                .collect(),
        }
    }

    pub(super) fn mistake<T>(&mut self, at: &Spanned<T>, message: String, mend: impl Into<String>) {
        self.mistakes.at(at, message, mend);
    }

    pub(super) fn add(&mut self, mistake: FileMistake) {
        self.mistakes.add(mistake);
    }

    /// Refuses a topology above the size limits. Returns false if it is too large.
    fn check_size(&mut self, file: &File) -> bool {
        let mut is_small = true;
        let nodes = file.switches.len() + file.hosts.len() + file.nanopus.len();
        let flows = file.flows.len() + file.pings.len() + file.traffic.len() + file.requests.len();
        let all = [
            (nodes, MAX_NODES, "switches, hosts and nanoPUs"),
            (file.links.len(), MAX_LINKS, "links"),
            (flows, MAX_FLOWS, "flows and pings"),
        ];
        for (count, most, name) in all {
            if count > most {
                is_small = false;
                self.add(FileMistake {
                    line: 1,
                    message: format!("there are {count} {name}; a topology has at most {most}"),
                    mend: "split the topology".to_owned(),
                });
            }
        }
        is_small
    }

    /// Returns the line of a value.
    pub(super) fn line<T>(&self, at: &Spanned<T>) -> usize {
        self.mistakes.line(at)
    }

    fn take_names(&mut self, file: &File) {
        for (number, switch) in file.switches.iter().enumerate() {
            self.take_name(&switch.get_ref().name, NodeId::Switch(SwitchId(number)));
        }
        for (number, host) in file.hosts.iter().enumerate() {
            self.take_name(&host.get_ref().name, NodeId::Host(HostId(number)));
        }
        for (number, nanopu) in file.nanopus.iter().enumerate() {
            self.take_name(&nanopu.get_ref().name, NodeId::Nanopu(NanopuIndex(number)));
        }
        for (number, server) in file.servers.iter().enumerate() {
            self.take_name(&server.get_ref().name, NodeId::Server(ServerIndex(number)));
        }
        if self.names.is_empty() {
            self.add(FileMistake {
                line: 1,
                message: "there is no switch and no host".to_owned(),
                mend: "add [[switch]], [[host]] and [[link]] sections".to_owned(),
            });
        }
    }

    fn take_name(&mut self, name: &Text, node: NodeId) {
        let text = name.get_ref();
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        // Names become parts of the names of network namespaces and interfaces.
        if text.is_empty() || text.len() > 15 || !text.chars().all(is_fine) {
            let message = format!("\"{text}\" cannot be a name");
            self.mistake(name, message, "take 1 to 15 letters, digits, _ and -");
            return;
        }
        let line = self.line(name);
        match self.names.get(text) {
            Some((_, first)) => {
                let mend = format!("line {first} has the name already; take another");
                self.mistake(name, format!("two nodes are called {text}"), mend);
            }
            None => {
                self.names.insert(text.clone(), (node, line));
            }
        }
    }

    fn switch(
        &mut self,
        switch: &Spanned<file::Switch>,
        program: Option<&Text>,
        service: ServiceSpec,
        is_split: bool,
    ) -> SwitchSpec {
        let (place, switch) = (switch, switch.get_ref());
        let plane = match is_split {
            true => self.split_plane(place),
            false => self.plane(place, program),
        };
        SwitchSpec {
            name: switch.name.get_ref().clone(),
            plane,
            service: ServiceSpec {
                time: self.time(&switch.service, service.time),
                backlog: self.number(&switch.backlog, 1, service.backlog),
            },
            p4runtime: switch.p4runtime.as_ref().map(|server| {
                let device = self.number(&switch.device, 0, 1);
                (server.get_ref().clone(), device)
            }),
            cpu_port: switch
                .cpu_port
                .as_ref()
                .map(|_| PortId(self.number(&switch.cpu_port, 0, 0))),
            hosts_tenants: self.hosts_tenants(switch),
        }
    }

    /// Returns true if reductions become virtual data planes of a real switch.
    fn hosts_tenants(&mut self, switch: &file::Switch) -> bool {
        let Some(tenants) = switch.tenants.as_ref().filter(|is_host| *is_host.get_ref()) else {
            return false;
        };
        if switch.slots.is_none() || switch.p4runtime.is_none() || switch.device.is_some() {
            let name = switch.name.get_ref();
            let message = format!("{name} cannot host reductions beside tenants");
            let mend = "give it `slots` and `p4runtime`, the address of `polyplane host`, and no \
                        `device`";
            self.mistake(tenants, message, mend);
        }
        true
    }

    pub(super) fn host(&mut self, host: &file::Host) -> HostSpec {
        let (address, prefix_len) = self.network(&host.ip);
        let gateway = host.gateway.as_ref().and_then(|gateway| {
            let router = self.address(gateway.get_ref(), gateway)?;
            if !same_network(address, router, prefix_len) || router == address {
                let network = format!("{}'s network, {}", host.name.get_ref(), host.ip.get_ref());
                let message = format!("the gateway {router} is no other address of {network}");
                self.mistake(gateway, message, "name the router's address in the network");
            }
            Some(router)
        });
        let known = host.neighbours.iter();
        let neighbours = known.filter_map(|(neighbour, mac)| {
            let address = self.address(neighbour, mac);
            Some((address?, self.mac(mac)?))
        });
        let neighbours = neighbours.collect();
        HostSpec {
            name: host.name.get_ref().clone(),
            mac: self.mac(&host.mac).unwrap_or_default(),
            address,
            prefix_len,
            agent: host.agent.as_ref().map(|agent| agent.get_ref().clone()),
            gateway,
            neighbours,
            setup: host.setup.clone(),
        }
    }

    pub(super) fn network(&mut self, text: &Text) -> (Ipv4Addr, u8) {
        let parts = text.get_ref().split_once('/');
        let parsed = parts.and_then(|(address, length)| {
            let address: Ipv4Addr = address.parse().ok()?;
            Some((address, length.parse().ok().filter(|len| *len <= 32)?))
        });
        match parsed {
            Some((address, length)) if is_unicast(address) => (address, length),
            _ => {
                let message = format!("\"{}\" is no address of a host", text.get_ref());
                let mend = "write an IPv4 address with its prefix length, as in \"10.0.1.2/24\"";
                self.mistake(text, message, mend);
                (Ipv4Addr::LOCALHOST, 32)
            }
        }
    }

    fn address(&mut self, text: &str, at: &Text) -> Option<Ipv4Addr> {
        let parsed = text.parse().ok();
        let address = parsed.filter(|address| is_unicast(*address));
        if address.is_none() {
            let message = format!("\"{text}\" is no address of a neighbour");
            self.mistake(at, message, "write an IPv4 address, as in \"10.0.1.1\"");
        }
        address
    }

    fn mac(&mut self, text: &Text) -> Option<[u8; 6]> {
        let mac: Option<[u8; 6]> = octets(text.get_ref(), &[':'], 1..=2);
        // The lowest bit of the first byte marks group addresses.
        let station = mac.filter(|mac| mac[0] & 1 == 0 && *mac != [0; 6]);
        if station.is_none() {
            let message = format!("\"{}\" is no MAC address of a station", text.get_ref());
            let mend = "write six bytes, the first one even, as in \"02:00:00:00:00:01\"";
            self.mistake(text, message, mend);
        }
        station
    }

    fn link(&mut self, link: &file::Link, defaults: LinkSpec) -> Option<Link> {
        let parts = file::LinkParts {
            rate: link.rate.clone(),
            delay: link.delay.clone(),
            loss: link.loss.clone(),
            duplicate: link.duplicate.clone(),
            reorder: link.reorder.clone(),
            corrupt: link.corrupt.clone(),
            queue: link.queue.clone(),
        };
        let spec = self.link_spec(&parts, Some(defaults));
        let [a, b] = link.ends.each_ref().map(|end| self.end(end));
        let (a, b) = (a?, b?);
        if a.node == b.node {
            let name = link.ends[0].get_ref().split(':').next().unwrap_or_default();
            let message = format!("the link joins {name} with itself");
            self.mistake(&link.ends[1], message, "name two nodes");
            return None;
        }
        Some(Link { ends: [a, b], spec })
    }

    pub(super) fn link_spec(
        &mut self,
        parts: &file::LinkParts,
        defaults: Option<LinkSpec>,
    ) -> LinkSpec {
        let defaults = defaults.unwrap_or(LinkSpec {
            rate: None,
            delay: Nanos::ZERO,
            faults: FaultRates::default(),
            queue: LinkSpec::DEFAULT_QUEUE,
        });
        let rate = parts.rate.as_ref().and_then(|rate| {
            let bits = self.quantity(rate, Quantity::Rate)?;
            if bits == 0 {
                let message = "a link with rate 0 carries nothing".to_owned();
                let mend = "give it a rate, or leave rate away for one without a limit";
                self.mistake(rate, message, mend);
            }
            Some(BitRate(bits.max(1)))
        });
        let known = defaults.faults;
        let faults = FaultRates {
            drop: self.share(&parts.loss, "lost", known.drop),
            duplicate: self.share(&parts.duplicate, "duplicated", known.duplicate),
            reorder: self.share(&parts.reorder, "reordered", known.reorder),
            corrupt: self.share(&parts.corrupt, "corrupted", known.corrupt),
        };
        LinkSpec {
            rate: rate.or(defaults.rate),
            delay: self.time(&parts.delay, defaults.delay),
            faults,
            queue: self.number(&parts.queue, 1, defaults.queue),
        }
    }

    /// Parses the share of frames that have a fault.
    fn share(
        &mut self,
        given: &Option<Spanned<f64>>,
        fault: &str,
        default: PerMillion,
    ) -> PerMillion {
        let Some(given) = given else {
            return default;
        };
        let share = *given.get_ref();
        if !(0.0..=1.0).contains(&share) {
            let mend =
                format!("write the share of frames that are {fault}, from 0 to 1, as in 0.001");
            self.mistake(given, format!("{share} is no share of frames"), mend);
        }
        PerMillion((share * 1e6).round() as u32)
    }

    /// Parses a link's end: `h1` or `s1:2`, or `s1-p2` as Mininet's topologies write it.
    pub(super) fn end(&mut self, text: &Text) -> Option<End> {
        let written = text.get_ref();
        let is_name = self.names.contains_key(written);
        let mininet = written.rsplit_once("-p").filter(|_| !is_name);
        let (name, port) = match written.split_once(':').or(mininet) {
            Some((name, port)) => (name, Some(port)),
            None => (written.as_str(), None),
        };
        let node = self.node(text, name)?;
        let port = match (node, port) {
            (NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_), None) => Some(PortId(0)),
            (NodeId::Switch(_), Some(port)) => port.parse().ok().map(PortId),
            (NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_), Some(_)) => {
                let kind = kind_name(node);
                let message = format!("the {kind} {name} has a single port, which has no number");
                self.mistake(text, message, format!("write \"{name}\""));
                return None;
            }
            (NodeId::Switch(_), None) => None,
        };
        if port.is_none() {
            let message = format!("\"{written}\" does not say which port of {name} it is");
            self.mistake(
                text,
                message,
                format!("write its number, as in \"{name}:1\""),
            );
        }
        Some(End { node, port: port? })
    }

    pub(super) fn node(&mut self, at: &Text, name: &str) -> Option<NodeId> {
        let found = self.names.get(name).map(|(node, _)| *node);
        if found.is_none() {
            let names: Vec<&str> = self.names.keys().take(20).map(String::as_str).collect();
            let more = if self.names.len() > 20 { ", ..." } else { "" };
            let mend = format!("there are {}{more}", names.join(", "));
            self.mistake(at, format!("there is no switch and no host {name}"), mend);
        }
        found
    }

    pub(super) fn host_id(&mut self, text: &Text) -> Option<HostId> {
        let name = text.get_ref();
        match self.node(text, name)? {
            NodeId::Host(host) => Some(host),
            other => {
                let kind = kind_name(other);
                let message = format!("{name} is a {kind}, which neither sends nor receives");
                let mend = match other {
                    NodeId::Nanopu(_) => "name a host; [[requests]] go from a host to a nanoPU",
                    NodeId::Host(_) | NodeId::Switch(_) | NodeId::Server(_) => "name a host",
                };
                self.mistake(text, message, mend);
                None
            }
        }
    }

    /// Checks that each port has at most one link and each host exactly one.
    fn check_places(&mut self, file: &File, links: &[Link]) {
        let mut taken: BTreeMap<End, usize> = BTreeMap::new();
        // Links with errors are missing from `links`. Skip this check, as it would report
        // follow-up errors.
        if links.len() < file.links.len() {
            return;
        }
        for (link, written) in links.iter().zip(&file.links) {
            for (end, text) in link.ends.iter().zip(&written.get_ref().ends) {
                let line = self.line(text);
                if let Some(first) = taken.insert(*end, line) {
                    let message = format!("{} has two links", text.get_ref());
                    let mend = format!("line {first} has one there already; take another port");
                    self.mistake(text, message, mend);
                }
            }
        }
        self.check_vpdp_ports(&file.switches, &|end| taken.contains_key(&end));
        let hosts = file.hosts.iter().enumerate();
        let hosts =
            hosts.map(|(n, it)| (NodeId::Host(HostId(n)), &it.get_ref().name, self.line(it)));
        let nanopus = file.nanopus.iter().enumerate();
        let nanopus = nanopus.map(|(n, it)| {
            let node = NodeId::Nanopu(NanopuIndex(n));
            (node, &it.get_ref().name, self.line(it))
        });
        let unlinked: Vec<_> = hosts
            .chain(nanopus)
            .filter(|(node, ..)| {
                let (node, port) = (*node, PortId(0));
                !taken.contains_key(&End { node, port })
            })
            .collect();
        for (node, name, line) in unlinked {
            let name = name.get_ref();
            self.add(FileMistake {
                line,
                message: format!("the {} {name} has no link", kind_name(node)),
                mend: format!("add a [[link]] with ends = [\"{name}\", \"SWITCH:PORT\"]"),
            });
        }
    }

    /// Checks that the addresses of hosts are unique.
    fn check_addresses(&mut self, file: &File, hosts: &[HostSpec], nanopus: &[NanopuSpec]) {
        let mut macs = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        let hosts = file.hosts.iter().map(Spanned::get_ref).zip(hosts);
        let hosts = hosts.map(|(written, host)| (&written.mac, &written.ip, host));
        let nanopus = file.nanopus.iter().map(Spanned::get_ref).zip(nanopus);
        let nanopus = nanopus.map(|(written, nanopu)| {
            let mac = written.mac.as_ref().unwrap_or(&written.ip);
            (mac, &written.ip, &nanopu.host)
        });
        for (mac, ip, host) in hosts.chain(nanopus) {
            let name = &host.name;
            if let Some(first) = macs.insert(host.mac, name) {
                let message = format!("{name} has the MAC address of {first}");
                self.mistake(mac, message, "give each host its own");
            }
            if let Some(first) = addresses.insert(host.address, name) {
                let message = format!("{name} has the address of {first}");
                self.mistake(ip, message, "give each host its own");
            }
        }
    }

    fn flow(&mut self, flow: &file::Flow) -> Option<FlowSpec> {
        let (from, to) = self.peers(&flow.from, &flow.to)?;
        Some(FlowSpec {
            from,
            to,
            bytes: self.bytes(&flow.bytes)?,
            at: self.time(&flow.at, Nanos::ZERO),
            kind: FlowKind::Named,
        })
    }

    fn ping(&mut self, ping: &file::Ping) -> Option<PingSpec> {
        let (from, to) = self.peers(&ping.from, &ping.to)?;
        Some(PingSpec {
            from,
            to,
            count: self.number(&ping.count, 1, 4u16),
            interval: self.time(&ping.interval, Nanos::from_secs(1)),
            at: self.time(&ping.at, Nanos::ZERO),
        })
    }

    pub(super) fn peers(&mut self, from: &Text, to: &Text) -> Option<(HostId, HostId)> {
        let ids = (self.host_id(from), self.host_id(to));
        let (sender, receiver) = (ids.0?, ids.1?);
        if sender == receiver {
            let message = format!("{} sends to itself", from.get_ref());
            self.mistake(to, message, "name another host");
            return None;
        }
        Some((sender, receiver))
    }

    fn workload(&mut self, workload: &file::Workload, hosts: usize) -> WorkloadSpec {
        let spec = WorkloadSpec {
            elephants: self.number(&workload.elephants, 0, PAPER.elephants),
            mice: self.number(&workload.mice, 0, PAPER.mice),
            elephant_bytes: self.bytes_or(&workload.elephant_bytes, PAPER.elephant_bytes),
            mouse_bytes: self.bytes_or(&workload.mouse_bytes, PAPER.mouse_bytes),
        };
        // Each flow needs a source port of its host.
        let most = u32::from(PORTS);
        let flows = spec.elephants.saturating_add(spec.mice);
        let given = workload.elephants.as_ref().or(workload.mice.as_ref());
        if let Some(given) = given.filter(|_| flows > most) {
            let message = format!("{flows} flows are more than a host has ports for");
            let mend = format!("let elephants and mice be {most} together at most");
            self.mistake(given, message, &mend);
        }
        let all = u64::from(flows).saturating_mul(hosts as u64);
        if all > MAX_FLOWS as u64 {
            self.add(FileMistake {
                line: 1,
                message: format!("the workload has {all} flows; it has at most {MAX_FLOWS}"),
                mend: "let [workload] have fewer elephants and mice".to_owned(),
            });
        }
        if hosts < 2 {
            self.add(FileMistake {
                line: 1,
                message: "a workload needs two hosts".to_owned(),
                mend: "add [[host]] sections, or take [workload] away".to_owned(),
            });
        }
        spec
    }

    fn command(&mut self, command: &file::Command) -> Option<CommandSpec> {
        let host = self.host_id(&command.host)?;
        if command.run.get_ref().is_empty() {
            let mend = "write the program and its arguments, as in [\"ping\", \"10.0.1.2\"]";
            self.mistake(&command.run, "there is nothing to run".to_owned(), mend);
        }
        Some(CommandSpec {
            host,
            run: command.run.get_ref().clone(),
            is_server: command.server,
        })
    }

    pub(super) fn bytes(&mut self, text: &Text) -> Option<u64> {
        let bytes = self.quantity(text, Quantity::Size)?;
        if bytes == 0 {
            let message = "a flow of no bytes is none".to_owned();
            self.mistake(text, message, Quantity::Size.form());
        }
        Some(bytes)
    }

    fn bytes_or(&mut self, text: &Option<Text>, default: u64) -> u64 {
        let given = text.as_ref().and_then(|text| self.bytes(text));
        given.unwrap_or(default)
    }

    pub(super) fn time(&mut self, text: &Option<Text>, default: Nanos) -> Nanos {
        let given = text.as_ref();
        let given = given.and_then(|text| self.quantity(text, Quantity::Time));
        given.map_or(default, Nanos)
    }

    pub(super) fn quantity(&mut self, text: &Text, quantity: Quantity) -> Option<u64> {
        self.mistakes.quantity(text, quantity)
    }

    /// As [`Mistakes::number`].
    pub(super) fn number<T: TryFrom<i64>>(
        &mut self,
        given: &Option<Spanned<i64>>,
        least: i64,
        default: T,
    ) -> T {
        self.mistakes.number(given, least, default)
    }
}

/// Returns the word for a kind of node.
fn kind_name(node: NodeId) -> &'static str {
    match node {
        NodeId::Switch(_) => "switch",
        NodeId::Server(_) => "server",
        NodeId::Nanopu(_) => "nanoPU",
        NodeId::Host(_) => "host",
    }
}

pub(super) fn same_network(a: Ipv4Addr, b: Ipv4Addr, prefix_len: u8) -> bool {
    let differ = a.to_bits() ^ b.to_bits();
    differ.checked_shr(32 - u32::from(prefix_len)).unwrap_or(0) == 0
}

fn is_unicast(address: Ipv4Addr) -> bool {
    !address.is_broadcast() && !address.is_multicast() && !address.is_unspecified()
}
